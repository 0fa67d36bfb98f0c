//! The copy in memory.
//!
//! The content is one persistent map, ordered by key. A writer changes its own root and publishes it with one atomic
//! swap; a reader takes the root that is there and reads from it for as long as it likes. So readers wait for nobody,
//! nobody waits for readers, and a snapshot costs nothing.
//!
//! A replacement is staged in a second map that shares every object which has not changed. What is staged and not
//! committed is simply dropped, so nothing of a failed attempt can stay, and what the new list does not confirm cannot
//! be in it (B1): ghosts are impossible by construction. The price is one pointer per object while a list is under way.

use std::sync::Arc;

use arc_swap::ArcSwap;

use super::{
    Change, Delta, Replaced, Store, StoreError,
    graves::Graves,
    staging::{Entry, KeyRef, Objects, pairs},
};
use crate::{
    Object, ObjectKey, ResourceVersion,
    protocol::{History, Revision},
};

/// A handle for reading. Clones are cheap and read the same content.
///
/// ```
/// use reflector::{Cache, Change, Object, Store};
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let (cache, mut writer) = Cache::<serde_json::Value>::new();
/// let cart = Object::from_json(r#"{"metadata":{"namespace":"shop","name":"cart","uid":"1","resourceVersion":"5"}}"#)?;
/// writer.apply(vec![Change::Upsert(cart)], None)?;
///
/// assert!(cache.get(Some("shop"), "cart").is_some());
/// assert!(cache.get(Some("shop"), "desk").is_none());
/// assert_eq!(cache.len(), 1);
/// assert_eq!(cache.snapshot().namespace("shop").count(), 1);
/// # Ok(()) }
/// ```
pub struct Cache<K> {
    shared: Arc<ArcSwap<Root<K>>>,
}

/// The content at one moment.
struct Root<K> {
    objects: Objects<K>,
    version: Option<ResourceVersion>,
}

impl<K> Cache<K> {
    /// An empty cache, and the one handle that can change it.
    #[must_use]
    pub fn new() -> (Self, CacheWriter<K>) {
        let root = Root { objects: Objects::new(), version: None };
        let shared = Arc::new(ArcSwap::from_pointee(root));
        let writer = CacheWriter {
            shared: Arc::clone(&shared),
            objects: Objects::new(),
            version: None,
            staged: Objects::new(),
            history: History::Same,
            graves: Graves::default(),
            regressions: 0,
        };
        (Self { shared }, writer)
    }

    /// The object under a key. The namespace is `None` for cluster-scoped objects.
    #[must_use]
    pub fn get(&self, namespace: Option<&str>, name: &str) -> Option<Object<K>> {
        let key = KeyRef { namespace: namespace.filter(|n| !n.is_empty()), name };
        self.shared.load().objects.get(&key).map(|entry| entry.0.clone())
    }

    /// The object under a key.
    #[must_use]
    pub fn get_key(&self, key: &ObjectKey) -> Option<Object<K>> {
        self.get(key.namespace(), key.name())
    }

    /// How many objects there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.shared.load().objects.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All objects, ordered by key. To look at them one by one, [`snapshot`](Self::snapshot) is cheaper.
    #[must_use]
    pub fn list(&self) -> Vec<Object<K>> {
        self.snapshot().iter().cloned().collect()
    }

    /// All keys, in order.
    #[must_use]
    pub fn keys(&self) -> Vec<ObjectKey> {
        self.snapshot().iter().map(|object| object.key().clone()).collect()
    }

    /// Everything as it is at this moment, for as long as the snapshot is held. Costs nothing to take.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot<K> {
        Snapshot { root: self.shared.load_full() }
    }

    /// The version that the content is current as of; `None` before the first list, or if the server gives none.
    #[must_use]
    pub fn version(&self) -> Option<ResourceVersion> {
        self.shared.load().version.clone()
    }
}

impl<K> Clone for Cache<K> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<K> std::fmt::Debug for Cache<K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cache").field("objects", &self.len()).field("version", &self.version()).finish()
    }
}

/// The content of a cache at one version. It never changes, and keeps what it holds alive.
pub struct Snapshot<K> {
    root: Arc<Root<K>>,
}

/// Objects in the order of their keys.
pub type Iter<'a, K> = Box<dyn Iterator<Item = &'a Object<K>> + 'a>;

impl<K> Snapshot<K> {
    /// The version that the content is current as of.
    #[must_use]
    pub fn version(&self) -> Option<&ResourceVersion> {
        self.root.version.as_ref()
    }

    /// How many objects there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.root.objects.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.root.objects.is_empty()
    }

    /// The object under a key.
    #[must_use]
    pub fn get(&self, namespace: Option<&str>, name: &str) -> Option<&Object<K>> {
        let key = KeyRef { namespace: namespace.filter(|n| !n.is_empty()), name };
        self.root.objects.get(&key).map(|entry| &entry.0)
    }

    /// All objects, ordered by key.
    #[must_use]
    pub fn iter(&self) -> Iter<'_, K> {
        Box::new(self.root.objects.iter().map(|entry| &entry.0))
    }

    /// The objects of one namespace, ordered by name. Only they are visited.
    #[must_use]
    pub fn namespace<'a>(&'a self, namespace: &'a str) -> Iter<'a, K> {
        let first = KeyRef { namespace: Some(namespace), name: "" };
        let objects = self.root.objects.range(first..).map(|entry| &entry.0);
        Box::new(objects.take_while(move |object| object.namespace() == Some(namespace)))
    }
}

impl<'a, K> IntoIterator for &'a Snapshot<K> {
    type Item = &'a Object<K>;
    type IntoIter = Iter<'a, K>;

    fn into_iter(self) -> Iter<'a, K> {
        self.iter()
    }
}

impl<K> std::fmt::Debug for Snapshot<K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Snapshot").field("objects", &self.len()).field("version", &self.version()).finish()
    }
}

/// The one handle that changes a cache.
pub struct CacheWriter<K> {
    shared: Arc<ArcSwap<Root<K>>>,
    objects: Objects<K>,
    version: Option<ResourceVersion>,
    /// What has come of a list that is under way.
    staged: Objects<K>,
    /// What that list has to do with the content.
    history: History,
    /// What was deleted since the last replacement.
    graves: Graves,
    regressions: u64,
}

impl<K> CacheWriter<K> {
    /// Like [`Store::apply`], and tells what each change was. A change that changes nothing is not told.
    pub fn apply_with(
        &mut self,
        changes: Vec<Change<K>>,
        version: Option<&ResourceVersion>,
        tell: &mut dyn FnMut(Delta<K>),
    ) {
        for change in changes {
            match change {
                Change::Upsert(new) => self.upsert(new, tell),
                Change::Delete(last) => self.delete(last, tell),
            }
        }
        self.advance(version);
        self.publish();
    }

    /// Like [`Store::commit_replace`], and tells what changed: first what is gone, then what is new or different, each
    /// in the order of the keys. An object in the same revision as before is not told.
    pub fn commit_with(
        &mut self,
        version: Option<&ResourceVersion>,
        tell: &mut dyn FnMut(Delta<K>),
    ) -> Replaced {
        let staged = std::mem::take(&mut self.staged);
        let old = std::mem::replace(&mut self.objects, staged);
        // Another version of the collection, even an older one: the list is what there is.
        self.version = version.cloned();
        self.graves.clear();
        self.publish();
        let mut replaced = Replaced::default();
        for (was, is) in pairs(&old, &self.objects) {
            let Some(was) = was else { continue };
            if is.is_none_or(|is| is_another_object(was, is)) {
                replaced.deleted += 1;
                tell(Delta::Deleted { last: was.clone(), final_state_unknown: true });
            }
        }
        for (was, is) in pairs(&old, &self.objects) {
            let Some(new) = is.cloned() else { continue };
            match was {
                Some(was) if was.ptr_eq(&new) => replaced.unchanged += 1,
                Some(was) if !is_another_object(was, &new) => {
                    replaced.updated += 1;
                    tell(Delta::Updated { old: was.clone(), new });
                }
                _ => {
                    replaced.added += 1;
                    tell(Delta::Added(new));
                }
            }
        }
        replaced
    }

    /// How many changes were dropped since they would have taken an object back to an earlier revision (K8).
    #[must_use]
    pub fn regressions(&self) -> u64 {
        self.regressions
    }

    fn upsert(&mut self, new: Object<K>, tell: &mut dyn FnMut(Delta<K>)) {
        let entry = Entry(new.clone());
        let Some(Entry(old)) = self.objects.get(&entry.key()) else {
            if self.graves.holds(new.meta()) {
                self.regressions += 1;
                return;
            }
            self.objects.insert(entry);
            return tell(Delta::Added(new));
        };
        match Revision::of(new.meta(), old.meta()) {
            Revision::Same => {}
            Revision::Earlier => self.regressions += 1,
            Revision::Later => {
                let old = old.clone();
                self.objects.insert(entry);
                tell(Delta::Updated { old, new });
            }
            Revision::Reborn => {
                let last = old.clone();
                self.objects.insert(entry);
                tell(Delta::Deleted { last, final_state_unknown: true });
                tell(Delta::Added(new));
            }
        }
    }

    fn delete(&mut self, last: Object<K>, tell: &mut dyn FnMut(Delta<K>)) {
        let entry = Entry(last);
        let Some(Entry(held)) = self.objects.get(&entry.key()) else { return };
        if !Revision::is_ended_by(entry.0.meta(), held.meta()) {
            self.regressions += 1;
            return;
        }
        self.graves.bury(entry.0.meta().clone());
        let unseen = is_another_object(held, &entry.0);
        let last = if unseen { held.clone() } else { entry.0.clone() };
        self.objects.remove(&entry.key());
        tell(Delta::Deleted { last, final_state_unknown: unseen });
    }

    fn stage_one(&mut self, change: Change<K>) {
        match change {
            Change::Upsert(new) => {
                let entry = Entry(new);
                let staged = self.staged.get(&entry.key());
                if staged.is_some_and(|s| Revision::of(entry.0.meta(), s.0.meta()) == Revision::Earlier) {
                    return;
                }
                // The same revision is the same object: it is shared, and causes nothing later.
                let held =
                    self.objects.get(&entry.key()).filter(|held| self.is_same(&held.0, &entry.0)).cloned();
                self.staged.insert(held.unwrap_or(entry));
            }
            Change::Delete(last) => {
                let entry = Entry(last);
                let staged = self.staged.get(&entry.key());
                if staged.is_some_and(|s| Revision::is_ended_by(entry.0.meta(), s.0.meta())) {
                    self.staged.remove(&entry.key());
                }
            }
        }
    }

    fn is_same(&self, held: &Object<K>, new: &Object<K>) -> bool {
        held.same_revision(new) && (self.history == History::Same || held.json() == new.json())
    }

    fn advance(&mut self, version: Option<&ResourceVersion>) {
        if let Some(version) = version {
            self.version = Some(version.clone());
        }
    }

    fn publish(&self) {
        let root = Root { objects: self.objects.clone(), version: self.version.clone() };
        self.shared.store(Arc::new(root));
    }
}

/// Same name, other uid.
fn is_another_object<K>(a: &Object<K>, b: &Object<K>) -> bool {
    !a.uid().is_empty() && !b.uid().is_empty() && a.uid() != b.uid()
}

impl<K: 'static> Store<K> for CacheWriter<K> {
    fn apply(
        &mut self,
        changes: Vec<Change<K>>,
        version: Option<&ResourceVersion>,
    ) -> Result<(), StoreError> {
        self.apply_with(changes, version, &mut |_| {});
        Ok(())
    }

    fn begin_replace(&mut self, history: History) {
        self.history = history;
        self.staged = Objects::new();
    }

    fn stage(&mut self, changes: Vec<Change<K>>) -> Result<(), StoreError> {
        changes.into_iter().for_each(|change| self.stage_one(change));
        Ok(())
    }

    fn commit_replace(&mut self, version: Option<&ResourceVersion>) -> Result<(), StoreError> {
        self.commit_with(version, &mut |_| {});
        Ok(())
    }

    fn abandon_replace(&mut self) {
        self.staged = Objects::new();
    }

    fn object_count(&self) -> Option<usize> {
        Some(self.objects.len())
    }

    fn bookmark(&mut self, version: &ResourceVersion) {
        self.advance(Some(version));
        self.publish();
    }
}

impl<K> std::fmt::Debug for CacheWriter<K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CacheWriter").field("objects", &self.objects.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
#[path = "cache_tests.rs"]
mod tests;
