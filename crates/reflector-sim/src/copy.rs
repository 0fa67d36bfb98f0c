//! The reflector's side: a store that is a cache and a queue at once, and those who follow them.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    task::{Context, Poll},
};

use reflector::{
    Cache, Change, Index, IndexBy, LabelSelector, Object, ObjectKey, ResourceVersion, Store, StoreError,
    protocol::History,
    store::{CacheWriter, Compress, DeltaFifo, DeltaFifoOptions, DeltaFifoWriter, FifoDelta},
};

use crate::{
    cluster::connection::Body,
    follow::Following,
    plan::{Follower, Setup},
};

/// What somebody has made of what he was told.
pub(crate) type Folded = BTreeMap<ObjectKey, Object<Body>>;

/// Makes the store refuse what it is given, and tells what it was told.
#[derive(Default)]
pub(crate) struct Wires {
    pub(crate) changes: AtomicU32,
    pub(crate) commit: AtomicBool,
    /// There was a resync.
    pub(crate) resynced: AtomicBool,
}

/// A cache and a queue, filled with the same.
pub(crate) struct Both {
    cache: CacheWriter<Body>,
    queue: DeltaFifoWriter<Body>,
    wires: Arc<Wires>,
}

impl Both {
    fn refuses(&self) -> Result<(), StoreError> {
        let left = &self.wires.changes;
        match left.load(Ordering::Relaxed) {
            0 => Ok(()),
            n => {
                left.store(n - 1, Ordering::Relaxed);
                Err(StoreError::new("no room"))
            }
        }
    }
}

impl Store<Body> for Both {
    fn apply(
        &mut self,
        changes: Vec<Change<Body>>,
        version: Option<&ResourceVersion>,
    ) -> Result<(), StoreError> {
        self.refuses()?;
        self.queue.apply(changes.clone(), version)?;
        self.cache.apply(changes, version)
    }

    fn begin_replace(&mut self, history: History) {
        self.queue.begin_replace(history);
        self.cache.begin_replace(history);
    }

    fn stage(&mut self, changes: Vec<Change<Body>>) -> Result<(), StoreError> {
        self.refuses()?;
        self.queue.stage(changes.clone())?;
        self.cache.stage(changes)
    }

    fn commit_replace(&mut self, version: Option<&ResourceVersion>) -> Result<(), StoreError> {
        if self.wires.commit.swap(false, Ordering::Relaxed) {
            return Err(StoreError::new("no commit today"));
        }
        self.queue.commit_replace(version)?;
        self.cache.commit_replace(version)
    }

    fn abandon_replace(&mut self) {
        self.queue.abandon_replace();
        self.cache.abandon_replace();
    }

    fn bookmark(&mut self, version: &ResourceVersion) {
        self.queue.bookmark(version);
        self.cache.bookmark(version);
    }

    fn object_count(&self) -> Option<usize> {
        self.cache.object_count()
    }

    fn resync(&mut self) -> Result<(), StoreError> {
        self.wires.resynced.store(true, Ordering::Relaxed);
        self.queue.resync()?;
        self.cache.resync()
    }

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.cache.poll_ready(cx)
    }
}

/// The readers' side of the store.
pub(crate) struct Copy {
    pub(crate) cache: Cache<Body>,
    pub(crate) fifo: DeltaFifo<Body>,
    pub(crate) by_tier: Index<Body, String>,
    pub(crate) by_write: Index<Body, bool>,
    pub(crate) followers: Vec<Following>,
    pub(crate) popped: Folded,
    pub(crate) pops: bool,
    pub(crate) wires: Arc<Wires>,
}

impl Copy {
    pub(crate) fn new(setup: &Setup) -> (Self, Both) {
        let (cache, writer) = Cache::new();
        let compress = if setup.compress { Compress::All } else { Compress::Deletes };
        let (fifo, queue) = DeltaFifo::new(DeltaFifoOptions::default().compress(compress));
        let wires = Arc::new(Wires::default());
        let by_tier = cache.index_by(IndexBy::label("tier"));
        let by_write = cache.index(|body: &Body| body.write().map(|write| write % 2 == 0));
        let both = Both { cache: writer, queue, wires: Arc::clone(&wires) };
        let mut copy = Self {
            cache,
            fifo,
            by_tier,
            by_write,
            followers: Vec::new(),
            popped: Folded::new(),
            pops: false,
            wires,
        };
        setup.followers.iter().for_each(|follower| copy.follow(follower.clone()));
        (copy, both)
    }

    pub(crate) fn follow(&mut self, options: Follower) {
        self.followers.push(Following::new(&self.cache, options));
    }

    /// One subscriber takes up to `most` events. Says whether there may be more.
    ///
    /// # Errors
    ///
    /// What does not fit what it was told before.
    pub(crate) fn look(&mut self, which: usize, most: usize) -> Result<bool, String> {
        match self.followers.get_mut(which) {
            Some(follower) => follower.look(most).map_err(|error| format!("subscriber {which}: {error}")),
            None => Ok(false),
        }
    }

    /// The consumer of the queue takes up to `most` keys. Says whether there are more.
    ///
    /// # Errors
    ///
    /// What does not fit what it was told before.
    pub(crate) fn pop(&mut self, most: usize) -> Result<bool, String> {
        for _ in 0..most {
            let Some(popped) = self.fifo.try_pop() else { return Ok(false) };
            for delta in popped.iter() {
                fold_delta(&mut self.popped, delta)?;
            }
            popped.finish();
        }
        Ok(!self.fifo.is_empty())
    }
}

/// The selector that the tests use, everywhere.
#[expect(clippy::expect_used, reason = "a constant")]
pub(crate) fn selector() -> LabelSelector {
    LabelSelector::everything().eq("app", "in").expect("a label and a value")
}

fn fold_delta(folded: &mut Folded, delta: &FifoDelta<Body>) -> Result<(), String> {
    let key = delta.object().key().clone();
    let held = folded.get(&key);
    let fits = |old: &Object<Body>| held.is_some_and(|held| held.ptr_eq(old) || held.same_revision(old));
    let right = match delta {
        FifoDelta::Added(_) => held.is_none(),
        FifoDelta::Updated { old, new } => fits(old) && old.uid() == new.uid(),
        FifoDelta::Replaced { old, new } => match old {
            Some(old) => fits(old) && old.uid() == new.uid(),
            None => held.is_none(),
        },
        FifoDelta::Sync(object) => fits(object),
        FifoDelta::Deleted { .. } => held.is_some(),
        _ => true,
    };
    if !right {
        return Err(format!("the queue tells {delta:?} to somebody who knows {held:?}"));
    }
    if delta.is_deleted() {
        folded.remove(&key);
    } else {
        folded.insert(key, delta.object().clone());
    }
    Ok(())
}
