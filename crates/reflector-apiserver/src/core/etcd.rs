//! The storage under the API server: one counter of revisions, a persistent map of objects per resource, and a
//! bounded log of changes from which any readable revision can be rebuilt.
//!
//! It knows nothing of HTTP, watches or selectors. Several API servers, each with caches that lag on their own, can
//! read from one `Etcd`.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    sync::Arc,
};

use bytes::Bytes;
use imbl::OrdMap;
use reflector_pack::{Options, Packer};

use super::object::{Labels, Object};

/// The objects of one resource by storage key; a clone shares everything and costs nothing.
pub(super) type Objects = OrdMap<Arc<str>, Arc<Object>>;

/// One revision of one object.
#[derive(Debug, Clone)]
pub(super) struct Change {
    pub(super) revision: u64,
    pub(super) old: Option<Arc<Object>>,
    pub(super) new: Option<Arc<Object>>,
}

/// The objects of one resource and their recent changes.
#[derive(Debug, Default)]
pub(super) struct Space {
    objects: Objects,
    log: VecDeque<Change>,
    /// The revision of the newest change that the log has dropped.
    dropped: u64,
    /// What a loaded resource is kept with.
    shelf: Option<Shelf>,
}

/// What the objects of a large collection have in common.
#[derive(Debug)]
struct Shelf {
    packer: Arc<Packer>,
    /// The first bodies, for the packer to learn from.
    samples: Vec<Bytes>,
    labels: HashSet<Labels>,
}

impl Shelf {
    fn new() -> Self {
        let mut options = Options::default();
        options.level = PACK_LEVEL;
        options.dictionary_bytes = DICTIONARY_BYTES;
        options.relearn_at_percent = RELEARN_AT_PERCENT;
        Self { packer: Arc::new(Packer::new(options)), samples: Vec::new(), labels: HashSet::new() }
    }

    /// Packs, once there is something to pack with.
    fn keep(&mut self, object: Object) -> Object {
        if self.packer.has_learned() {
            return object.packed(&self.packer);
        }
        self.samples.push(object.body());
        if self.samples.len() == self.packer.options().samples {
            self.packer.learn(&std::mem::take(&mut self.samples));
        }
        object
    }
}

/// The state asked for cannot be rebuilt any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Compacted;

/// The store.
#[derive(Debug)]
pub(super) struct Etcd {
    revision: u64,
    compacted: u64,
    history: usize,
    spaces: HashMap<Arc<str>, Space>,
    /// States rebuilt lately: the pages of one list all read the same one.
    rebuilt: VecDeque<(Arc<str>, u64, Objects)>,
    /// What has changed since somebody asked; never more than there are resources.
    changed: Vec<Arc<str>>,
}

/// A few dozen applications have a dozen kilobytes each that are theirs alone.
const PACK_LEVEL: i32 = 1;
const DICTIONARY_BYTES: usize = 256 << 10;
/// Learning takes as long as some ten thousand writes, all under one lock.
const RELEARN_AT_PERCENT: u32 = 300;

/// How many rebuilt states are kept at hand.
const REBUILT_MAX: usize = 8;

impl Space {
    pub(super) fn objects(&self) -> &Objects {
        &self.objects
    }

    /// The oldest change after `revision`.
    pub(super) fn next_after(&self, revision: u64) -> Option<&Change> {
        self.log.get(self.position(revision))
    }

    /// How many changes there are after `revision`.
    pub(super) fn count_after(&self, revision: u64) -> usize {
        self.log.len() - self.position(revision)
    }

    pub(super) fn changes_after(&self, revision: u64) -> impl Iterator<Item = &Change> {
        self.log.range(self.position(revision)..)
    }

    /// The revision of the newest change that is not in the log any more.
    pub(super) fn dropped(&self) -> u64 {
        self.dropped
    }

    /// The revision of the oldest change in the log.
    pub(super) fn oldest(&self) -> Option<u64> {
        self.log.front().map(|change| change.revision)
    }

    fn position(&self, revision: u64) -> usize {
        self.log.partition_point(|change| change.revision <= revision)
    }

    fn state_at(&self, revision: u64) -> Result<Objects, Compacted> {
        if revision < self.dropped {
            return Err(Compacted);
        }
        let mut objects = self.objects.clone();
        for change in self.log.range(self.position(revision)..).rev() {
            match (&change.old, &change.new) {
                (Some(old), _) => {
                    objects.insert(old.key().clone(), old.clone());
                }
                (None, Some(new)) => {
                    objects.remove(new.key());
                }
                (None, None) => {}
            }
        }
        Ok(objects)
    }
}

impl Etcd {
    /// How many sets of labels are remembered for sharing.
    pub(super) const LABELS_MAX: usize = 4_096;

    pub(super) fn new(revision: u64, history: usize) -> Self {
        Self {
            revision,
            compacted: 0,
            history: history.max(1),
            spaces: HashMap::new(),
            rebuilt: VecDeque::new(),
            changed: Vec::new(),
        }
    }

    pub(super) fn revision(&self) -> u64 {
        self.revision
    }

    /// The revision of the last compaction.
    pub(super) fn compacted(&self) -> u64 {
        self.compacted
    }

    pub(super) fn space(&self, storage: &str) -> Option<&Space> {
        self.spaces.get(storage)
    }

    pub(super) fn objects(&self, storage: &str) -> Objects {
        self.space(storage).map(|space| space.objects.clone()).unwrap_or_default()
    }

    pub(super) fn get(&self, storage: &str, key: &str) -> Option<&Arc<Object>> {
        self.space(storage)?.objects.get(key)
    }

    /// Stores what `make` builds for the next revision.
    pub(super) fn put(&mut self, storage: &Arc<str>, make: impl FnOnce(u64) -> Object) -> Arc<Object> {
        self.revision += 1;
        let new = make(self.revision);
        let space = self.spaces.entry(storage.clone()).or_default();
        let new = Arc::new(match &mut space.shelf {
            Some(shelf) => shelf.keep(new),
            None => new,
        });
        let old = space.objects.insert(new.key().clone(), new.clone());
        let change = Change { revision: self.revision, old, new: Some(new.clone()) };
        record(space, change, self.history);
        self.touch(storage);
        new
    }

    /// Notes that watches of this resource have something to look at.
    pub(super) fn touch(&mut self, storage: &Arc<str>) {
        if !self.changed.contains(storage) {
            self.changed.push(storage.clone());
        }
    }

    /// Whose objects have changed since the last call.
    #[cfg(feature = "http")]
    pub(super) fn take_changed(&mut self) -> Vec<Arc<str>> {
        std::mem::take(&mut self.changed)
    }

    /// Stores a new object past the log; [`Etcd::begin_history`] must follow. `make` may share labels with those before.
    pub(super) fn load(
        &mut self,
        storage: &Arc<str>,
        make: impl FnOnce(u64, &mut HashSet<Labels>) -> Object,
    ) {
        self.revision += 1;
        let space = self.spaces.entry(storage.clone()).or_default();
        let shelf = space.shelf.get_or_insert_with(Shelf::new);
        let object = make(self.revision, &mut shelf.labels);
        let object = shelf.keep(object);
        space.objects.insert(object.key().clone(), Arc::new(object));
    }

    /// Forgets how the present state came to be.
    pub(super) fn begin_history(&mut self, storage: &Arc<str>) {
        let space = self.spaces.entry(storage.clone()).or_default();
        space.log.clear();
        space.dropped = self.revision;
        self.rebuilt.retain(|(rebuilt, ..)| rebuilt != storage);
        self.touch(storage);
    }

    /// Deletes; returns the revision of the deletion.
    pub(super) fn delete(&mut self, storage: &Arc<str>, key: &str) -> Option<u64> {
        let space = self.spaces.get_mut(storage)?;
        let old = space.objects.remove(key)?;
        self.revision += 1;
        let change = Change { revision: self.revision, old: Some(old), new: None };
        record(space, change, self.history);
        self.touch(storage);
        Some(self.revision)
    }

    /// Uses up revisions up to `revision`, as writes to other prefixes of etcd would.
    pub(super) fn advance_to(&mut self, revision: u64) {
        self.revision = self.revision.max(revision);
    }

    pub(super) fn compact(&mut self, revision: u64) {
        self.compacted = self.compacted.max(revision.min(self.revision));
    }

    /// The objects as they were at `revision`, however long that is compacted: the caller knows what it may show.
    pub(super) fn state_at(&mut self, storage: &Arc<str>, revision: u64) -> Result<Objects, Compacted> {
        let Some(space) = self.spaces.get(storage) else {
            return Ok(Objects::new());
        };
        if space.position(revision) == space.log.len() && revision >= space.dropped {
            return Ok(space.objects.clone());
        }
        if let Some((_, _, objects)) = self.rebuilt.iter().find(|(s, r, _)| s == storage && *r == revision) {
            return Ok(objects.clone());
        }
        let objects = space.state_at(revision)?;
        if self.rebuilt.len() == REBUILT_MAX {
            self.rebuilt.pop_front();
        }
        self.rebuilt.push_back((storage.clone(), revision, objects.clone()));
        Ok(objects)
    }

    /// Goes back to the state of `revision`, as a restored backup does: later changes never happened.
    ///
    /// # Errors
    ///
    /// When one of the resources has changed more often since then than its log remembers; nothing is changed then.
    pub(super) fn rewind(&mut self, revision: u64) -> Result<(), Compacted> {
        let mut states = HashMap::new();
        for (storage, space) in &self.spaces {
            states.insert(storage.clone(), space.state_at(revision)?);
        }
        for (storage, objects) in states {
            if let Some(space) = self.spaces.get_mut(&storage) {
                space.objects = objects;
                let keep = space.position(revision);
                space.log.truncate(keep);
            }
        }
        self.rebuilt.clear();
        self.revision = self.revision.min(revision);
        self.compacted = self.compacted.min(revision);
        Ok(())
    }
}

fn record(space: &mut Space, change: Change, history: usize) {
    if space.log.len() == history
        && let Some(first) = space.log.pop_front()
    {
        space.dropped = first.revision;
    }
    space.log.push_back(change);
}
