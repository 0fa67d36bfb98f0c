//! The command `reflector`.

fn main() {}
