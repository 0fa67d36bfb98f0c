//! Objects with a time to live (client-go's `ExpirationCache`, EX-1).
//!
//! As in the [`Cache`](super::Cache), the content is a persistent map that is published by one atomic swap, so readers
//! wait for nobody. What has expired is not there for any reader. It is removed by the next read that meets it, if
//! nobody else is writing at that moment, and by [`TtlStore::purge`].

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError},
    time::{Duration, Instant},
};

use arc_swap::ArcSwap;
use imbl::OrdMap;

use super::{
    Change, Store, StoreError,
    graves::Graves,
    staging::{Entry, KeyRef, Objects},
};
use crate::{
    Object, ObjectKey, ResourceVersion,
    protocol::{History, Revision},
};

/// Objects that are forgotten when nothing has been heard of them for some time. Clones are one store.
///
/// An object has expired when *more* than the time to live has passed since it was written last; a time to live of zero
/// means for ever. It is written by hand, or by a reflector through a [`writer`](Self::writer).
///
/// ```
/// use std::{sync::{Arc, atomic::{AtomicU64, Ordering}}, time::{Duration, Instant}};
/// use reflector::{Object, store::TtlStore};
///
/// let (start, seconds) = (Instant::now(), Arc::new(AtomicU64::new(0)));
/// let time = Arc::clone(&seconds);
/// let clock = move || start + Duration::from_secs(time.load(Ordering::Relaxed));
/// let store = TtlStore::<serde_json::Value>::with_clock(Duration::from_secs(60), clock);
///
/// store.insert(Object::from_json(r#"{"metadata":{"namespace":"shop","name":"cart","resourceVersion":"5"}}"#)?);
/// seconds.store(60, Ordering::Relaxed);
/// assert!(store.get(Some("shop"), "cart").is_some());
/// seconds.store(61, Ordering::Relaxed);
/// assert!(store.get(Some("shop"), "cart").is_none());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct TtlStore<K> {
    shared: Arc<Shared<K>>,
}

struct Shared<K> {
    root: ArcSwap<Root<K>>,
    /// Held while the content is changed.
    writing: Mutex<()>,
    ttl: Duration,
    clock: Box<dyn Fn() -> Instant + Send + Sync>,
}

/// The content at one moment: each object with the time at which it was written.
struct Root<K> {
    objects: OrdMap<Entry<K>, Instant>,
    version: Option<ResourceVersion>,
}

impl<K> Clone for Root<K> {
    fn clone(&self) -> Self {
        Self { objects: self.objects.clone(), version: self.version.clone() }
    }
}

impl<K> Root<K> {
    fn get(&self, key: KeyRef<'_>) -> Option<(&Object<K>, Instant)> {
        self.objects.get_key_value(&key).map(|(entry, written)| (&entry.0, *written))
    }

    fn put(&mut self, object: Object<K>, now: Instant) {
        let entry = Entry(object);
        // A map may keep the key that it has, and the key is the object.
        self.objects.remove(&entry.key());
        self.objects.insert(entry, now);
    }

    fn take(&mut self, key: KeyRef<'_>) -> Option<(Object<K>, Instant)> {
        self.objects.remove_with_key(&key).map(|(entry, written)| (entry.0, written))
    }

    /// The version never goes back, except by a replacement.
    fn advance(&mut self, version: Option<&ResourceVersion>) {
        if let Some(new) = version
            && self.version.as_ref().is_none_or(|held| !new.is_older_than(held))
        {
            self.version = Some(new.clone());
        }
    }
}

impl<K> TtlStore<K> {
    /// An empty store, with the clock of the system.
    #[must_use]
    pub fn new(ttl: Duration) -> Self {
        Self::with_clock(ttl, Instant::now)
    }

    /// An empty store with a clock of your own. It must not go back.
    #[must_use]
    pub fn with_clock(ttl: Duration, clock: impl Fn() -> Instant + Send + Sync + 'static) -> Self {
        let root = Root { objects: OrdMap::new(), version: None };
        Self {
            shared: Arc::new(Shared {
                root: ArcSwap::from_pointee(root),
                writing: Mutex::new(()),
                ttl,
                clock: Box::new(clock),
            }),
        }
    }

    /// The object under a key, if it has not expired. The namespace is `None` for cluster-scoped objects.
    #[must_use]
    pub fn get(&self, namespace: Option<&str>, name: &str) -> Option<Object<K>> {
        let key = KeyRef { namespace: namespace.filter(|n| !n.is_empty()), name };
        let root = self.shared.root.load();
        let (object, written) = root.get(key)?;
        if self.shared.is_live(written, self.shared.now()) {
            return Some(object.clone());
        }
        drop(root);
        self.forget(key)
    }

    /// The object under a key, if it has not expired.
    #[must_use]
    pub fn get_key(&self, key: &ObjectKey) -> Option<Object<K>> {
        self.get(key.namespace(), key.name())
    }

    /// All objects that have not expired, ordered by key.
    #[must_use]
    pub fn list(&self) -> Vec<Object<K>> {
        self.live(Object::clone)
    }

    /// The keys of all objects that have not expired, in order. (client-go's also names expired ones.)
    #[must_use]
    pub fn keys(&self) -> Vec<ObjectKey> {
        self.live(|object| object.key().clone())
    }

    /// How many objects there are that have not expired. Looks at each.
    #[must_use]
    pub fn len(&self) -> usize {
        let (root, now) = (self.shared.root.load(), self.shared.now());
        root.objects.values().filter(|written| self.shared.is_live(**written, now)).count()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The version that the content is current as of: what the reflector said, or the latest of what was written by hand.
    /// It advances with every write. `None` as long as nothing has carried a version.
    #[must_use]
    pub fn version(&self) -> Option<ResourceVersion> {
        self.shared.root.load().version.clone()
    }

    /// Puts an object, whatever is there, and starts its time anew. Returns what it takes the place of, if that has not
    /// expired.
    pub fn insert(&self, object: Object<K>) -> Option<Object<K>> {
        let now = self.shared.now();
        self.shared.write(|root| {
            root.advance(object.version());
            let old = root.take(Entry(object.clone()).key());
            root.put(object, now);
            old.filter(|(_, written)| self.shared.is_live(*written, now)).map(|(old, _)| old)
        })
    }

    /// Takes an object away. Returns it, if it has not expired.
    pub fn remove(&self, key: &ObjectKey) -> Option<Object<K>> {
        let now = self.shared.now();
        let taken =
            self.shared.write(|root| root.take(KeyRef { namespace: key.namespace(), name: key.name() }));
        taken.filter(|(_, written)| self.shared.is_live(*written, now)).map(|(object, _)| object)
    }

    /// Removes everything that has expired, and tells how many those were. Looks at each object.
    ///
    /// Readers never see expired objects; this is for the memory, where nothing is read for a long time.
    pub fn purge(&self) -> usize {
        let shared = &self.shared;
        shared.write(|root| shared.purge(root))
    }

    /// A handle through which a reflector writes: `Reflector::builder(source).start_with(store.writer())`.
    ///
    /// Through it, no change takes an object that has not expired back to an earlier revision, and a change to the held
    /// revision starts its time anew. What has expired is not there, so it holds nothing up, whether it has been purged or
    /// not. A replacement is what there is, also where that is earlier, and starts the time of all objects at once.
    #[must_use]
    pub fn writer(&self) -> TtlWriter<K> {
        TtlWriter { store: self.clone(), staged: Objects::new(), graves: Graves::default() }
    }

    fn live<T>(&self, show: impl Fn(&Object<K>) -> T) -> Vec<T> {
        let (root, now) = (self.shared.root.load(), self.shared.now());
        let live = root.objects.iter().filter(|(_, written)| self.shared.is_live(**written, now));
        let shown: Vec<_> = live.map(|(entry, _)| show(&entry.0)).collect();
        if shown.len() < root.objects.len()
            && let Some(_writing) = self.shared.try_writing()
        {
            self.shared.change(|root| self.shared.purge(root));
        }
        shown
    }

    /// Removes an expired object, unless somebody is writing. What was written meanwhile has not expired and is given
    /// back.
    fn forget(&self, key: KeyRef<'_>) -> Option<Object<K>> {
        let _writing = self.shared.try_writing()?;
        let now = self.shared.now();
        let root = self.shared.root.load();
        let (object, written) = root.get(key)?;
        if self.shared.is_live(written, now) {
            return Some(object.clone());
        }
        self.shared.change(|root| root.take(key));
        None
    }

    #[cfg(test)]
    pub(super) fn held(&self) -> usize {
        self.shared.root.load().objects.len()
    }
}

impl<K> Shared<K> {
    fn now(&self) -> Instant {
        (self.clock)()
    }

    /// Strictly more than the time to live ends a life (EX-1).
    fn is_live(&self, written: Instant, now: Instant) -> bool {
        self.ttl.is_zero() || now.saturating_duration_since(written) <= self.ttl
    }

    fn try_writing(&self) -> Option<MutexGuard<'_, ()>> {
        match self.writing.try_lock() {
            Ok(guard) => Some(guard),
            // The content is published whole, so a writer that panicked has left nothing half-done.
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    fn write<T>(&self, change: impl FnOnce(&mut Root<K>) -> T) -> T {
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        self.change(change)
    }

    /// Only while `writing` is held.
    fn change<T>(&self, change: impl FnOnce(&mut Root<K>) -> T) -> T {
        let mut root = Root::clone(&self.root.load());
        let result = change(&mut root);
        self.root.store(Arc::new(root));
        result
    }

    fn purge(&self, root: &mut Root<K>) -> usize {
        let now = self.now();
        let expired: Vec<_> = root
            .objects
            .iter()
            .filter(|(_, written)| !self.is_live(**written, now))
            .map(|(entry, _)| entry.clone())
            .collect();
        for entry in &expired {
            root.objects.remove(entry);
        }
        expired.len()
    }
}

impl<K> Clone for TtlStore<K> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<K> fmt::Debug for TtlStore<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut f = f.debug_struct("TtlStore");
        f.field("objects", &self.len()).field("ttl", &self.shared.ttl).field("version", &self.version());
        f.finish()
    }
}

/// The handle through which a reflector fills a [`TtlStore`].
pub struct TtlWriter<K> {
    store: TtlStore<K>,
    /// What has come of a list that is under way.
    staged: Objects<K>,
    /// What was deleted since the last replacement.
    graves: Graves,
}

impl<K> TtlWriter<K> {
    fn upsert(&mut self, root: &mut Root<K>, new: Object<K>, now: Instant) {
        let outdated = match self.held(root, &new, now) {
            Some(held) => Revision::of(new.meta(), held.meta()) == Revision::Earlier,
            None => self.graves.holds(new.meta()),
        };
        if !outdated {
            root.put(new, now);
        }
    }

    fn delete(&mut self, root: &mut Root<K>, last: &Object<K>, now: Instant) {
        let held = self.held(root, last, now);
        if held.is_none_or(|held| Revision::is_ended_by(last.meta(), held.meta())) {
            self.graves.bury(last.meta().clone());
            root.take(KeyRef { namespace: last.namespace(), name: last.name() });
        }
    }

    /// What is there under the key of an object, for any reader.
    fn held<'a>(&self, root: &'a Root<K>, object: &Object<K>, now: Instant) -> Option<&'a Object<K>> {
        let (held, written) = root.get(KeyRef { namespace: object.namespace(), name: object.name() })?;
        self.store.shared.is_live(written, now).then_some(held)
    }
}

impl<K: 'static> Store<K> for TtlWriter<K> {
    fn apply(
        &mut self,
        changes: Vec<Change<K>>,
        version: Option<&ResourceVersion>,
    ) -> Result<(), StoreError> {
        let shared = Arc::clone(&self.store.shared);
        let now = shared.now();
        shared.write(|root| {
            for change in changes {
                match change {
                    Change::Upsert(new) => self.upsert(root, new, now),
                    Change::Delete(last) => self.delete(root, &last, now),
                }
            }
            root.advance(version);
        });
        Ok(())
    }

    fn begin_replace(&mut self, _: History) {
        self.staged = Objects::new();
    }

    fn stage(&mut self, changes: Vec<Change<K>>) -> Result<(), StoreError> {
        for change in changes {
            let (Change::Upsert(object) | Change::Delete(object)) = &change;
            let entry = Entry(object.clone());
            let held = self.staged.get(&entry.key());
            match change {
                Change::Upsert(new) => {
                    if held.is_none_or(|h| Revision::of(new.meta(), h.0.meta()) != Revision::Earlier) {
                        self.staged.insert(entry);
                    }
                }
                Change::Delete(last) => {
                    if held.is_some_and(|h| Revision::is_ended_by(last.meta(), h.0.meta())) {
                        self.staged.remove(&entry.key());
                    }
                }
            }
        }
        Ok(())
    }

    fn commit_replace(&mut self, version: Option<&ResourceVersion>) -> Result<(), StoreError> {
        let now = self.store.shared.now();
        let staged = std::mem::take(&mut self.staged);
        self.graves.clear();
        self.store.shared.write(|root| {
            // All of the same age: the list says of each at the same time that it is there.
            let objects = staged.into_iter().map(|entry| (entry, now)).collect();
            *root = Root { objects, version: version.cloned() };
        });
        Ok(())
    }

    fn abandon_replace(&mut self) {
        self.staged = Objects::new();
    }

    fn bookmark(&mut self, version: &ResourceVersion) {
        self.store.shared.write(|root| root.advance(Some(version)));
    }
}

impl<K> fmt::Debug for TtlWriter<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TtlWriter").field("store", &self.store).finish_non_exhaustive()
    }
}

#[cfg(test)]
#[path = "ttl_tests.rs"]
mod tests;
