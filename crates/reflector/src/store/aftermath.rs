//! What is left to do when the locks are free again.
//!
//! A waker may run anything, also what takes the same locks; and whoever drops the last handle of a root or of a line
//! may have a million objects to free, and values of indexes that run code of others. Neither is done under a lock.

use std::{sync::Arc, task::Waker};

use super::{
    root::Root,
    step::Step,
    subscription::{Line, Walk},
};

/// See the module. Collected under the locks, and finished after them.
pub(super) struct Aftermath<K> {
    wakers: Vec<Waker>,
    litter: Vec<Litter<K>>,
}

/// Something that is only to be dropped.
#[expect(dead_code, reason = "dropping is all that is done with it")]
pub(super) enum Litter<K> {
    Root(Arc<Root<K>>),
    Steps(Arc<[Step<K>]>),
    Walk(Walk<K>),
    Line(Line<K>),
}

impl<K> Default for Aftermath<K> {
    fn default() -> Self {
        Self { wakers: Vec::new(), litter: Vec::new() }
    }
}

impl<K> Aftermath<K> {
    pub(super) fn wake(&mut self, wakers: impl IntoIterator<Item = Waker>) {
        self.wakers.extend(wakers);
    }

    pub(super) fn sweep(&mut self, litter: Litter<K>) {
        self.litter.push(litter);
    }

    /// Does it. No lock may be held.
    pub(super) fn finish(self) {
        self.wakers.into_iter().for_each(Waker::wake);
    }
}
