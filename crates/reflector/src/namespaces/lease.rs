//! The right to write a namespace, which can be taken back at any time.
//!
//! A namespace is removed while its task may be anywhere, so the task is not asked: its writer is taken away. From then
//! on nothing that it still does can be seen, and the namespace may even be added anew before it has ended.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll},
};

use crate::{Change, ResourceVersion, Store, StoreError, protocol::History, store::CacheWriter};

/// The writer, until it is taken away. Two hold it: the task that writes, and the set that may take it back.
pub(super) struct Lease<K>(Arc<Mutex<Option<CacheWriter<K>>>>);

/// The task's end of a [`Lease`].
pub(super) struct Leased<K>(Lease<K>);

impl<K> Lease<K> {
    pub(super) fn new(writer: CacheWriter<K>) -> (Self, Leased<K>) {
        let cell = Arc::new(Mutex::new(Some(writer)));
        (Self(Arc::clone(&cell)), Leased(Self(cell)))
    }

    /// Takes the writer away. Waits for a write that is under way; none follows.
    pub(super) fn revoke(&self) {
        let writer = self.writer().take();
        // Dropped after the lock: it may be the last of its cache, and end the subscriptions.
        drop(writer);
    }

    /// A panic in a write left the cache whole, and the task of the panic is gone.
    fn writer(&self) -> MutexGuard<'_, Option<CacheWriter<K>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K> Leased<K> {
    /// Writes, if that is still allowed. If not, the task is about to end, and nothing is wrong.
    fn write<T: Default>(&self, write: impl FnOnce(&mut CacheWriter<K>) -> T) -> T {
        self.0.writer().as_mut().map(write).unwrap_or_default()
    }
}

impl<K> Drop for Leased<K> {
    fn drop(&mut self) {
        self.0.revoke();
    }
}

impl<K: 'static> Store<K> for Leased<K> {
    fn apply(
        &mut self,
        changes: Vec<Change<K>>,
        version: Option<&ResourceVersion>,
    ) -> Result<(), StoreError> {
        self.0.writer().as_mut().map_or(Ok(()), |writer| writer.apply(changes, version))
    }

    fn begin_replace(&mut self, history: History) {
        self.write(|writer| writer.begin_replace(history));
    }

    fn stage(&mut self, changes: Vec<Change<K>>) -> Result<(), StoreError> {
        self.0.writer().as_mut().map_or(Ok(()), |writer| writer.stage(changes))
    }

    fn commit_replace(&mut self, version: Option<&ResourceVersion>) -> Result<(), StoreError> {
        self.0.writer().as_mut().map_or(Ok(()), |writer| writer.commit_replace(version))
    }

    fn abandon_replace(&mut self) {
        self.write(CacheWriter::abandon_replace);
    }

    fn bookmark(&mut self, version: &ResourceVersion) {
        self.write(|writer| writer.bookmark(version));
    }

    /// None once it is taken back, so that the gauge of a removed namespace ends at zero.
    fn object_count(&self) -> Option<usize> {
        self.0.writer().as_ref().map_or(Some(0), CacheWriter::object_count)
    }

    fn resync(&mut self) -> Result<(), StoreError> {
        self.0.writer().as_mut().map_or(Ok(()), CacheWriter::resync)
    }

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.0.writer().as_mut().map_or(Poll::Ready(()), |writer| writer.poll_ready(cx))
    }
}
