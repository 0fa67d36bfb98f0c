//! The cache of a watch, which also tells what changed.

use std::sync::Arc;

use reflector::{Change, Delta, ResourceVersion, Store, StoreError, protocol::History, store::CacheWriter};

use super::queue::Queue;

/// A cache that puts every change of its content into a queue.
pub(super) struct Feed<K> {
    cache: CacheWriter<K>,
    queue: Arc<Queue<K>>,
}

impl<K> Feed<K> {
    pub(super) fn new(cache: CacheWriter<K>, queue: Arc<Queue<K>>) -> Self {
        Self { cache, queue }
    }
}

impl<K: Send + 'static> Store<K> for Feed<K> {
    fn apply(
        &mut self,
        changes: Vec<Change<K>>,
        version: Option<&ResourceVersion>,
    ) -> Result<(), StoreError> {
        let mut deltas: Vec<Delta<K>> = Vec::with_capacity(changes.len());
        self.cache.apply_with(changes, version, &mut |delta| deltas.push(delta));
        self.queue.push(deltas);
        Ok(())
    }

    fn begin_replace(&mut self, history: History) {
        self.cache.begin_replace(history);
    }

    fn stage(&mut self, changes: Vec<Change<K>>) -> Result<(), StoreError> {
        self.cache.stage(changes)
    }

    fn commit_replace(&mut self, version: Option<&ResourceVersion>) -> Result<(), StoreError> {
        let mut deltas = Vec::new();
        self.cache.commit_with(version, &mut |delta| deltas.push(delta));
        self.queue.push(deltas);
        Ok(())
    }

    fn abandon_replace(&mut self) {
        self.cache.abandon_replace();
    }

    fn bookmark(&mut self, version: &ResourceVersion) {
        self.cache.bookmark(version);
    }

    fn object_count(&self) -> Option<usize> {
        self.cache.object_count()
    }
}
