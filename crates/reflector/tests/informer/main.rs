//! Shared informers, their handlers and their factory.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../support/mod.rs"]
mod support;

mod common;
mod events;
mod factory;
mod handlers;
mod lifecycle;
mod panics;
mod removal;
mod resync;
mod review;
mod slow;
