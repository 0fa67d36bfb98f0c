//! Protobuf: lists that are cut into their items while they arrive, and frames of watches.
//!
//! Nothing within an object is looked at but the members of its `metadata` that its header is made of.

pub(super) mod list;
mod meta;
mod pending;
mod status;
pub(super) mod watch;

pub(super) use status::status_json;
