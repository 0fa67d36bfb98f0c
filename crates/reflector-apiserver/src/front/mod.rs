//! The HTTP front: a real socket for the core, for every client that speaks to a Kubernetes API server.
//!
//! HTTP/1.1 and HTTP/2 without TLS (h2c) on the loopback interface. What belongs to HTTP rather than to the API is added here:
//! `Audit-Id`, `Cache-Control` and `Date`, `Content-Length` for bodies of up to 2048 bytes and chunks for longer ones (Go's
//! `net/http`), gzip for long lists (apiserver, `responsewriters`), authentication, discovery and the request log.
//!
//! Bodies are pulled as fast as the socket takes them and no faster, so that the core sees who reads slowly. Exchanges that
//! wait are woken by changes and by their own deadlines; nothing polls. All time is tokio's: under a paused clock the server's
//! time stands still too.

mod auth;
mod body;
mod builder;
mod connection;
mod engine;
mod log;
mod running;
mod server;
mod service;

pub use self::{
    auth::{AccessRule, Auth},
    builder::{Builder, StartError},
    log::LoggedRequest,
    running::{ClusterError, RunningCluster},
    server::{ApiServer, Outage},
};
