//! Proof that a reflector stays true, from a seed that anyone can rerun.

mod check;
mod cluster;
mod copy;
pub mod generate;
pub mod plan;
mod receive;
mod world;

pub use plan::Plan;
pub use world::{Outcome, run};
