//! The wire: bytes in, objects out, wherever the bytes are cut.

// Helpers outside the test functions are tests too.
#![allow(clippy::unwrap_used)]

mod boundaries;
mod common;
mod found;
mod gzip;
mod list;
mod protobuf;
mod random;
mod recordings;
mod status;
mod watch;
