//! Small-scope model checking: the machine itself against a tiny server, in every order in which things can happen.
//!
//! A walk visits, breadth first, every state that the [machine](reflector::protocol::Machine), its copy, the server and
//! the requests in flight can be in together, within the bounds of a [`Scope`]: so many writes, so many faults. Each step
//! is checked against the rules of the protocol, and from each state the good steps have to lead to a copy that is true.
//! A rule that is broken is told as the shortest [`Story`] that breaks it.
//!
//! ```
//! use reflector_sim::model::{Limits, Scope, explore};
//! let scope = &Scope::small()[3];
//! let report = explore(scope, Limits { states: 500, ..Limits::default() })?;
//! assert!(report.states >= 500 || report.complete);
//! # Ok::<(), Box<reflector_sim::model::Story>>(())
//! ```

mod copy;
mod fault;
mod judge;
mod orders;
mod scope;
mod search;
mod server;
mod step;
mod story;
mod world;

pub use copy::Copy;
pub use fault::Fault;
pub use scope::{Scope, Streaming};
pub use search::{Limits, Report, explore};
pub use server::{Content, Entry, KEYS, Object, Server, Write};
pub use story::Story;
pub use world::{Action, World};
