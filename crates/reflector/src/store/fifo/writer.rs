//! The side that is written to.

use std::{
    fmt,
    sync::Arc,
    task::{Context, Poll},
};

use super::{FifoDelta, consumer::Shared, queue::Queue};
use crate::{
    Cache, Change, Delta, Object, ResourceVersion, Store, StoreError,
    protocol::History,
    store::{CacheWriter, Snapshot},
};

/// The side of a [`DeltaFifo`](super::DeltaFifo) that a reflector writes to. Dropping it closes the queue.
///
/// What is known is always changed before a change is queued (CT-7).
pub struct DeltaFifoWriter<K> {
    pub(super) shared: Arc<Shared<K>>,
    known: Cache<K>,
    writer: CacheWriter<K>,
    deliver_unchanged: bool,
}

impl<K> DeltaFifoWriter<K> {
    pub(super) fn new(
        shared: Arc<Shared<K>>,
        known: Cache<K>,
        writer: CacheWriter<K>,
        deliver_unchanged: bool,
    ) -> Self {
        Self { shared, known, writer, deliver_unchanged }
    }

    /// How many changes were dropped since they would have taken an object back to an earlier revision.
    #[must_use]
    pub fn regressions(&self) -> u64 {
        self.writer.regressions()
    }
}

impl<K: 'static> Store<K> for DeltaFifoWriter<K> {
    fn apply(
        &mut self,
        changes: Vec<Change<K>>,
        version: Option<&ResourceVersion>,
    ) -> Result<(), StoreError> {
        let deleted: Vec<_> = changes.iter().filter_map(deleted).cloned().collect();
        let mut told = Vec::new();
        self.writer.apply_with(changes, version, &mut |delta| told.push(applied(delta)))?;
        self.shared.change(|queue| {
            for last in deleted {
                // Two deletions in a row are one, with what both know (DF-2). Where this batch has more to tell of the
                // key, they are not in a row.
                if let Some(tombstone) = queue.tombstone(last.meta())
                    && told.iter().all(|delta| delta.object().key() != last.key())
                {
                    *tombstone = FifoDelta::Deleted { last, final_state_unknown: false };
                }
            }
            told.into_iter().for_each(|delta| queue.push(delta));
        });
        Ok(())
    }

    fn begin_replace(&mut self, history: History) {
        self.writer.begin_replace(history);
    }

    fn stage(&mut self, changes: Vec<Change<K>>) -> Result<(), StoreError> {
        self.writer.stage(changes)
    }

    fn commit_replace(&mut self, version: Option<&ResourceVersion>) -> Result<(), StoreError> {
        let mut told = Vec::new();
        self.writer.commit_with(version, &mut |delta| told.push(replaced(delta)))?;
        if self.deliver_unchanged {
            told = with_unchanged(told, &self.known.snapshot());
        }
        // In one step, so that the initial list is counted before anybody can finish with a part of it.
        self.shared.change(|queue| {
            told.into_iter().for_each(|delta| queue.push(delta));
            queue.populate();
        });
        Ok(())
    }

    fn abandon_replace(&mut self) {
        self.writer.abandon_replace();
    }

    fn bookmark(&mut self, version: &ResourceVersion) {
        self.writer.bookmark(version);
    }

    fn object_count(&self) -> Option<usize> {
        self.writer.object_count()
    }

    fn resync(&mut self) -> Result<(), StoreError> {
        let known = self.known.snapshot();
        self.shared.change(|queue| known.iter().for_each(|object| queue.resync(object)));
        self.writer.resync()
    }

    /// Subscribers of what is known may hold up the reflector.
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.writer.poll_ready(cx)
    }
}

fn deleted<K>(change: &Change<K>) -> Option<&Object<K>> {
    match change {
        Change::Upsert(_) => None,
        Change::Delete(last) => Some(last),
    }
}

fn applied<K>(delta: Delta<K>) -> FifoDelta<K> {
    match delta {
        Delta::Added(object) => FifoDelta::Added(object),
        Delta::Updated { old, new } => FifoDelta::Updated { old, new },
        Delta::Deleted { last, final_state_unknown } => FifoDelta::Deleted { last, final_state_unknown },
    }
}

fn replaced<K>(delta: Delta<K>) -> FifoDelta<K> {
    match delta {
        Delta::Added(new) => FifoDelta::Replaced { old: None, new },
        Delta::Updated { old, new } => FifoDelta::Replaced { old: Some(old), new },
        deleted @ Delta::Deleted { .. } => applied(deleted),
    }
}

/// Adds what was not told since it has not changed. Both sides are in the order of the keys, deletions come first.
fn with_unchanged<K>(told: Vec<FifoDelta<K>>, content: &Snapshot<K>) -> Vec<FifoDelta<K>> {
    let (mut all, changed): (Vec<_>, Vec<_>) = told.into_iter().partition(FifoDelta::is_deleted);
    let mut changed = changed.into_iter().peekable();
    for object in content {
        let delta = changed.next_if(|delta| delta.object().ptr_eq(object));
        all.push(
            delta.unwrap_or_else(|| FifoDelta::Replaced { old: Some(object.clone()), new: object.clone() }),
        );
    }
    all
}

impl<K> Drop for DeltaFifoWriter<K> {
    fn drop(&mut self) {
        self.shared.change(Queue::close);
    }
}

impl<K> fmt::Debug for DeltaFifoWriter<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeltaFifoWriter").field("known", &self.known).finish_non_exhaustive()
    }
}
