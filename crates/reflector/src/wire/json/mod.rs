//! JSON, beside which other formats get folders of their own: a scanner that finds where values begin and end, and two cutters on top of it.
//!
//! The scanner checks the grammar (RFC 8259) of every byte, builds nothing, and stops only where its caller asked it
//! to. The cutters ask for the members of the envelope, of each object, and of each object's `metadata`; so when an
//! object ends, the places of its name, version and labels are known, and nothing is walked twice.

mod capture;
pub(super) mod list;
pub(crate) mod meta;
pub(crate) mod scan;
pub(super) mod watch;
