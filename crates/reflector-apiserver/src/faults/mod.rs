//! Faults: everything that goes wrong between a client and a Kubernetes API server, on purpose and repeatable.
//!
//! [`FaultyCore`] is a layer over [`Core`](crate::core::Core) with the same `open`, `poll` and `close`. It has no I/O and no
//! clock, and its randomness comes from a seed: unit tests, a simulator and the HTTP front inject the very same faults.
//!
//! A [`Fault`] says which requests it hits (verb, resource, namespace, how often, with which probability) and what happens to
//! them: a made-up answer, a delay, an interruption at a byte or an event, a changed body. The list follows what servers,
//! proxies and networks have been reported to do: `410` in the status line, `200` with an empty body, a streaming list
//! whose end never comes, continue tokens that are always expired, resource versions that go back, multi-member gzip, and so on.
//!
//! A [`Profile`] is a seeded mixture of faults that a good client survives.
//!
//! Faults are written in Rust or as text:
//!
//! ```
//! use std::time::Duration;
//! use reflector_apiserver::{Verb, faults::Fault};
//!
//! let fault = Fault::on(Verb::List).resource("pods").every(2).delay(Duration::from_secs(3)).status(503);
//! assert_eq!(fault, "list:pods:every=2,delay=3s,status=503".parse()?);
//! # Ok::<(), reflector_apiserver::faults::FaultSyntaxError>(())
//! ```

pub(crate) mod answer;
mod effect;
mod exchange;
mod fault;
mod injector;
mod layer;
mod profile;
mod rewrite;
mod text;

pub use self::{
    effect::{Effect, ErrorBody, Gzip, InitialEventsEnd, Interruption, Point, Respond},
    exchange::{Cut, Step},
    fault::Fault,
    injector::{FaultId, Faults},
    layer::{Exchange, FaultyCore},
    profile::{Profile, UnknownProfile},
    text::FaultSyntaxError,
};
