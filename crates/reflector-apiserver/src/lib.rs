//! A small, faithful, fault-injecting Kubernetes API server, in process.

pub mod core;
