//! A small, faithful, fault-injecting Kubernetes API server, in process.
#![forbid(unsafe_code)]

pub mod core;
pub mod faults;
mod request;

pub use request::{RequestInfo, UnknownVerb, Verb};
