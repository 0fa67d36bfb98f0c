//! What other projects test, and what their users report, where it concerns the reflector as a whole and no other file
//! here has it already. `docs/client-go-tests.md` and `docs/reports.md` are the complete tables.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod client_go;
#[cfg(feature = "kube")]
mod client_go_http;
mod common;
mod reports;
#[path = "../support/mod.rs"]
mod support;
