//! The wire: bytes in, objects out, wherever the bytes are cut.

mod common;
mod gzip;
mod list;
mod random;
mod recordings;
mod status;
mod watch;
