//! The memory of one API server: a watch cache per resource over the shared etcd.
//!
//! A cache is a position in etcd's log, the state there, and the bounds of what may be replayed or rebuilt. Here it
//! follows etcd at once; a simulator can let it lag with [`Cache::follow`].

use std::{
    collections::{HashMap, HashSet, VecDeque},
    sync::Arc,
};

use super::etcd::{Etcd, Objects, Space};

/// The watch cache of one resource.
#[derive(Debug, Clone, Default)]
pub(super) struct Cache {
    objects: Objects,
    revision: u64,
    /// The revision of the list that filled the cache: nothing older can be watched.
    listed: u64,
    /// The oldest state of which a snapshot is kept; older ones are read from etcd.
    snapshots_from: u64,
}

impl Cache {
    fn new(revision: u64) -> Self {
        Self { objects: Objects::new(), revision: 0, listed: revision, snapshots_from: revision }
    }

    /// Takes over all changes up to `revision`.
    pub(super) fn follow(&mut self, etcd: &Etcd, storage: &str, revision: u64) {
        if revision <= self.revision {
            return;
        }
        if revision == etcd.revision() {
            self.objects = etcd.objects(storage);
        } else if let Some(space) = etcd.space(storage) {
            for change in space.changes_after(self.revision).take_while(|c| c.revision <= revision) {
                match (&change.old, &change.new) {
                    (_, Some(new)) => drop(self.objects.insert(new.key().clone(), new.clone())),
                    (Some(old), None) => drop(self.objects.remove(old.key())),
                    (None, None) => {}
                }
            }
        }
        self.revision = revision;
    }

    pub(super) fn objects(&self) -> &Objects {
        &self.objects
    }

    pub(super) fn revision(&self) -> u64 {
        self.revision
    }

    pub(super) fn snapshots_from(&self) -> u64 {
        self.snapshots_from
    }

    /// The oldest revision that a watch may start from: that of the list while nothing was dropped, else the one before
    /// the oldest kept change.
    pub(super) fn window_start(&self, space: Option<&Space>) -> u64 {
        let Some(space) = space.filter(|space| space.dropped() > self.listed) else {
            return self.listed;
        };
        space.oldest().map_or(space.dropped(), |oldest| oldest - 1).max(self.listed)
    }

    /// Forgets events and snapshots before the current revision.
    fn forget(&mut self) {
        self.listed = self.revision;
        self.snapshots_from = self.revision;
    }
}

/// One API server.
#[derive(Debug)]
pub(super) struct Server {
    /// Counts restarts: watches of an earlier life have ended.
    pub(super) life: u64,
    started: u64,
    /// The last compaction that this server knows of.
    noticed: u64,
    caches: HashMap<Arc<str>, Cache>,
    /// Custom resources that are gone.
    ended: HashSet<Arc<str>>,
    /// Where lists in pages go on, and how much there is from there on: counting would cost every page the whole list.
    pages: VecDeque<(PageStart, usize)>,
}

/// A resource, the revision of a state of it, the prefix of the keys, and the key that a page begins with.
pub(super) type PageStart = (Arc<str>, u64, String, String);

/// So many lists can be read at once without counting anew.
const PAGES_MAX: usize = 64;

impl Server {
    pub(super) fn new(revision: u64) -> Self {
        Self {
            life: 0,
            started: revision,
            noticed: 0,
            caches: HashMap::new(),
            ended: HashSet::new(),
            pages: VecDeque::new(),
        }
    }

    /// The cache of a resource, up to date.
    pub(super) fn cache(&mut self, etcd: &Etcd, storage: &Arc<str>) -> &Cache {
        let cache = self.caches.entry(storage.clone()).or_insert_with(|| Cache {
            snapshots_from: self.started.max(self.noticed),
            ..Cache::new(self.started)
        });
        cache.follow(etcd, storage, etcd.revision());
        cache
    }

    /// How many objects there are from the start of a page on, if that is remembered.
    pub(super) fn remembered_page(&self, page: &PageStart) -> Option<usize> {
        self.pages.iter().rev().find(|(start, _)| start == page).map(|(_, count)| *count)
    }

    pub(super) fn remember_page(&mut self, page: PageStart, count: usize) {
        if self.pages.len() == PAGES_MAX {
            self.pages.pop_front();
        }
        self.pages.push_back((page, count));
    }

    /// Starts the cache of a resource that appears while the server runs.
    pub(super) fn begin(&mut self, etcd: &Etcd, storage: &Arc<str>) {
        self.ended.remove(storage);
        self.caches.insert(storage.clone(), Cache::new(etcd.revision()));
    }

    /// Ends the watches of a resource once they have seen everything up to now.
    pub(super) fn end(&mut self, storage: &Arc<str>) {
        self.ended.insert(storage.clone());
    }

    pub(super) fn has_ended(&self, storage: &str) -> bool {
        self.ended.contains(storage)
    }

    pub(super) fn forget(&mut self, etcd: &Etcd, storage: &Arc<str>) {
        self.cache(etcd, storage);
        if let Some(cache) = self.caches.get_mut(storage) {
            cache.forget();
        }
    }

    /// The server has noticed a compaction: snapshots of compacted states go.
    pub(super) fn compacted(&mut self, etcd: &Etcd) {
        self.noticed = etcd.compacted();
        for cache in self.caches.values_mut() {
            cache.snapshots_from = cache.snapshots_from.max(etcd.compacted());
        }
    }

    /// A new process: every cache is filled anew from a list at the current revision.
    pub(super) fn restart(&mut self, etcd: &Etcd) {
        self.life += 1;
        self.started = etcd.revision();
        self.noticed = etcd.compacted();
        self.caches.clear();
        self.ended.clear();
        // Revisions may come again with other states.
        self.pages.clear();
    }
}
