//! What a machine will do, told to a hasher.
//!
//! A model checker walks through all states, and has to know when it is in one again. Two machines are in the same state
//! if they answer the same facts with the same requests, for ever; what they have counted and reported is no part of it.
//! Times are told relative to now, and no further back than they matter.

use std::{
    hash::{Hash, Hasher},
    time::Duration,
};

use super::Time;

/// The hasher, and the time that times are relative to.
pub(super) struct Fingerprint<'a> {
    pub(super) now: Time,
    pub(super) into: &'a mut dyn Hasher,
}

/// Nobody waits for what is further ahead.
const NEVER: Duration = Duration::from_secs(10 * 365 * 86_400);

impl Fingerprint<'_> {
    pub(super) fn value(&mut self, value: impl Hash) {
        value.hash(&mut self.into);
    }

    /// How long ago something was; from `limit` on it makes no difference.
    pub(super) fn age(&mut self, at: Option<Time>, limit: Duration) {
        let now = self.now;
        self.value(at.map(|at| now.saturating_sub(at).min(limit)));
    }

    /// How far ahead something is, if it is.
    pub(super) fn ahead(&mut self, at: Option<Time>) {
        let now = self.now;
        self.value(at.map(|at| at.saturating_sub(now).min(NEVER)));
    }

    pub(super) fn is_over(&self, at: Time, limit: Duration) -> bool {
        self.now.saturating_sub(at) >= limit
    }
}
