//! Proof that a reflector stays true, from a seed that anyone can rerun.
//!
//! A schedule ([`Plan`]) says what a cluster is like, how a reflector is set up, and what happens when: writes, and
//! everything that goes wrong. [`run`] lives through it, with virtual time and without threads. The protocol machine, what
//! carries out its orders, the code that cuts bodies into objects, the cache, its indexes, its subscribers and the delta
//! FIFO are the real ones; etcd, API servers, networks and clocks are models.
//!
//! After every fact it is asked whether everything holds that must hold (`check.rs`), and once everything is well,
//! whether everybody has what the server has. [`shrink`] leaves out of a schedule that fails what it does not need.
//!
//! ```
//! let plan = reflector_sim::generate::plan(42);
//! let outcome = reflector_sim::run(&plan, false);
//! assert_eq!(outcome.failure, None);
//! ```

mod check;
mod cluster;
mod copy;
pub mod corpus;
mod follow;
pub mod generate;
pub mod model;
pub mod plan;
mod receive;
mod runner;
mod shrink;
pub mod transitions;
mod world;

pub use plan::Plan;
pub use runner::{Failed, Summary, run_many};
pub use shrink::shrink;
pub use world::{Outcome, run};
