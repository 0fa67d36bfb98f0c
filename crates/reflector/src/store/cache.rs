//! The copy in memory, for readers.
//!
//! The content is one persistent map, ordered by key, with its indexes. A writer publishes a new root with one atomic
//! swap; a reader takes the root that is there and reads from it for as long as it likes. So readers wait for nobody,
//! nobody waits for readers, and a snapshot costs nothing.

use std::{borrow::Borrow, hash::Hash, sync::Arc};

use serde::de::DeserializeOwned;

use super::{
    Snapshot,
    index::{Index, IndexBy, Typed, UnknownIndex, find},
    root::Shared,
    staging::{Entry, KeyRef, Objects},
    subscription::News,
};
use crate::{LabelSelector, Object, ObjectKey, ResourceVersion};

/// A handle for reading. Clones are cheap and read the same content.
///
/// What it gives stays valid for ever, and never changes.
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
    pub(super) shared: Arc<Shared<K>>,
}

impl<K> Cache<K> {
    /// The object under a key. The namespace is `None` for cluster-scoped objects.
    #[must_use]
    pub fn get(&self, namespace: Option<&str>, name: &str) -> Option<Object<K>> {
        let key = KeyRef { namespace: namespace.filter(|n| !n.is_empty()), name };
        self.shared.root.load().objects.get(&key).map(|Entry(object)| object.clone())
    }

    /// The object under a key.
    #[must_use]
    pub fn get_key(&self, key: &ObjectKey) -> Option<Object<K>> {
        self.get(key.namespace(), key.name())
    }

    /// How many objects there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.shared.root.load().objects.len()
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
        Snapshot { root: self.shared.root.load_full() }
    }

    /// The version that the content is current as of; `None` before the first list, or if the server gives none. Of a
    /// cache that is filled by namespace, the lowest.
    #[must_use]
    pub fn version(&self) -> Option<ResourceVersion> {
        self.shared.root.load().version().cloned()
    }

    /// Whether the whole collection has been there once. Once true it stays true, also when namespaces join later.
    #[must_use]
    pub fn is_synced(&self) -> bool {
        self.shared.root.load().synced
    }
}

impl<K: 'static> Cache<K> {
    /// The objects with a value in an index, ordered by key.
    ///
    /// # Errors
    ///
    /// [`UnknownIndex`] if the index is of another cache, or was removed.
    pub fn by<V, Q>(&self, index: &Index<K, V>, value: &Q) -> Result<Vec<Object<K>>, UnknownIndex>
    where
        V: Borrow<Q> + Hash + Eq + 'static,
        Q: Hash + Eq + ?Sized,
    {
        Ok(find(&self.shared.root.load().indexes, index)?.get(value).cloned().collect())
    }

    /// The objects that a label selector selects, ordered by key. See [`Snapshot::select`].
    #[must_use]
    pub fn select(&self, selector: &LabelSelector) -> Vec<Object<K>> {
        self.snapshot().select(selector).cloned().collect()
    }

    /// Adds an index by values of the decoded object. See [`index_by`](Self::index_by).
    pub fn index<V, I>(&self, values: impl Fn(&K) -> I + Send + Sync + 'static) -> Index<K, V>
    where
        K: DeserializeOwned,
        V: Hash + Eq + Clone + Send + Sync + 'static,
        I: IntoIterator<Item = V>,
    {
        self.index_by(IndexBy::object(values))
    }

    /// Adds an index, at any time (SI-8). When this returns, everything that is there is indexed; the watch is not
    /// interrupted.
    pub fn index_by<V>(&self, by: IndexBy<K, V>) -> Index<K, V>
    where
        V: Hash + Eq + Clone + Send + Sync + 'static,
    {
        let mut index = Typed::new(by);
        let handle = index.handle();
        // Most of the work is done beside the writer; what has changed meanwhile, while it waits.
        let root = self.shared.root.load_full();
        index.catch_up(&Objects::new(), &root.objects);
        let mut content = self.shared.content();
        index.catch_up(&root.objects, &content.objects);
        content.indexes.push(Box::new(index));
        self.shared.publish(content, &News::none());
        handle
    }

    /// Removes an index, and frees what it takes. Snapshots keep it. Does nothing if it is not there.
    pub fn remove_index<V>(&self, index: &Index<K, V>) {
        let mut content = self.shared.content();
        content.indexes.retain(|other| other.id() != index.id);
        self.shared.publish(content, &News::none());
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
