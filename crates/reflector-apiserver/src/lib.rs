//! A small, faithful, fault-injecting Kubernetes API server, in process.
#![forbid(unsafe_code)]

pub mod core;
#[cfg(feature = "http")]
mod discovery;
pub mod faults;
#[cfg(feature = "http")]
mod front;
mod request;
pub mod seed;

#[cfg(feature = "http")]
pub use front::{AccessRule, ApiServer, Auth, Builder, LoggedRequest, StartError};
pub use request::{RequestInfo, UnknownVerb, Verb};
