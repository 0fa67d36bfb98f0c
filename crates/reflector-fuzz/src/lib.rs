//! What the fuzzers check, as functions from bytes to a panic or none.
//!
//! `fuzz/` has a target of `cargo fuzz` for each of [`TARGETS`]; `tests/corpus.rs` runs the same functions over the saved
//! corpora with the stable compiler. No function asks only that nothing panics: each compares with something that was
//! written apart from it (serde_json, flate2's reader, a parser that has the whole body before it, the embedded API server)
//! and asks that cuts mean nothing, and that memory stays within a multiple of the input.
#![allow(clippy::unwrap_used, reason = "a panic is how a fuzzer is told")]

mod control;
pub mod corpus;
mod gzip;
mod json;
mod memory;
mod pieces;
mod protobuf;
pub mod seeds;
mod selector;
mod token;
mod trim;

/// A function that panics if an input shows a fault.
pub type Target = fn(&[u8]);

/// All targets, by the name of their corpus.
pub const TARGETS: [(&str, Target); 9] = [
    ("json_list", json::list),
    ("json_stream", json::stream),
    ("protobuf_list", protobuf::list),
    ("protobuf_watch", protobuf::watch),
    ("protobuf_serde", protobuf::serde),
    ("gzip", gzip::members),
    ("selector", selector::selectors),
    ("continue_token", token::continue_token),
    ("trim", trim::trim),
];

/// Runs a target on one input. Memory is measured meanwhile, so nothing else should run.
///
/// # Panics
///
/// If the input shows a fault, and if there is no target of this name.
pub fn run(name: &str, input: &[u8]) {
    let (_, target) = TARGETS.iter().find(|(known, _)| *known == name).expect("a target of this name");
    target(input);
}
