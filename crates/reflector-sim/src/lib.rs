//! Proof that a reflector stays true, from a seed that anyone can rerun.

pub mod model;
