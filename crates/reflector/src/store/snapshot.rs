//! Reading everything at one version.

use std::{borrow::Borrow, hash::Hash, sync::Arc};

use super::{
    index::{Decoded, Index, UnknownIndex, find},
    root::Root,
    staging::{Entry, KeyRef},
    writer::in_namespace,
};
use crate::{Object, ResourceVersion};

/// The content of a cache at one version, with its indexes. It never changes, and keeps what it holds alive.
///
/// ```
/// use reflector::{Cache, Change, Object, Store};
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let (cache, mut writer) = Cache::<serde_json::Value>::new();
/// let before = cache.snapshot();
/// writer.apply(vec![Change::Upsert(Object::from_json(r#"{"metadata":{"name":"node-1"}}"#)?)], None)?;
/// assert_eq!((before.len(), cache.len()), (0, 1));
/// # Ok(()) }
/// ```
pub struct Snapshot<K> {
    pub(super) root: Arc<Root<K>>,
}

/// Objects in the order of their keys.
pub type Iter<'a, K> = Box<dyn Iterator<Item = &'a Object<K>> + Send + 'a>;

impl<K> Snapshot<K> {
    /// The version that the content is current as of. Of a cache that is filled by namespace, the lowest; `None` where
    /// any is unknown.
    #[must_use]
    pub fn version(&self) -> Option<&ResourceVersion> {
        self.root.version()
    }

    /// The version that the objects of one namespace are current as of.
    #[must_use]
    pub fn version_of(&self, namespace: &str) -> Option<&ResourceVersion> {
        self.root.version_of(namespace)
    }

    /// Whether the whole collection has been there once. Once true it stays true, also when namespaces join later.
    #[must_use]
    pub fn is_synced(&self) -> bool {
        self.root.synced
    }

    /// Whether everything of one namespace has been there once. Of a cache that is filled as a whole, the same as
    /// [`is_synced`](Self::is_synced).
    #[must_use]
    pub fn is_synced_in(&self, namespace: &str) -> bool {
        self.root.is_synced_in(namespace)
    }

    /// Whether the objects of a namespace are in it, as far as there are any. Not, if it is filled by namespace, and not
    /// by that one.
    pub(crate) fn has(&self, namespace: &str) -> bool {
        self.root.state_of(namespace).is_some()
    }

    /// The version of each part that is filled by itself.
    pub(crate) fn versions(&self) -> impl Iterator<Item = Option<&ResourceVersion>> {
        self.root.scopes.values().map(|state| state.version.as_ref())
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

    /// The object under a key. The namespace is `None` for cluster-scoped objects.
    #[must_use]
    pub fn get(&self, namespace: Option<&str>, name: &str) -> Option<&Object<K>> {
        let key = KeyRef { namespace: namespace.filter(|n| !n.is_empty()), name };
        self.root.objects.get(&key).map(|entry| &entry.0)
    }

    /// All objects, ordered by key.
    #[must_use]
    pub fn iter(&self) -> Iter<'_, K> {
        Box::new(self.root.objects.iter().map(|Entry(object)| object))
    }

    /// The objects of one namespace, ordered by name; with an empty name, those of none. Only they are visited.
    #[must_use]
    pub fn namespace<'a>(&'a self, namespace: &'a str) -> Iter<'a, K> {
        Box::new(in_namespace(&self.root.objects, namespace).map(|Entry(object)| object))
    }
}

impl<K: 'static> Snapshot<K> {
    /// The objects with a value in an index, ordered by key.
    ///
    /// # Errors
    ///
    /// [`UnknownIndex`] if the index is of another cache, or younger than the snapshot.
    pub fn by<V, Q>(&self, index: &Index<K, V>, value: &Q) -> Result<Iter<'_, K>, UnknownIndex>
    where
        V: Borrow<Q> + Hash + Eq + 'static,
        Q: Hash + Eq + ?Sized,
    {
        Ok(find(&self.root.indexes, index)?.get(value))
    }

    /// How many objects have a value in an index.
    ///
    /// # Errors
    ///
    /// See [`by`](Self::by).
    pub fn count_by<V, Q>(&self, index: &Index<K, V>, value: &Q) -> Result<usize, UnknownIndex>
    where
        V: Borrow<Q> + Hash + Eq + 'static,
        Q: Hash + Eq + ?Sized,
    {
        Ok(find(&self.root.indexes, index)?.count(value))
    }

    /// Whether an object, which need not be in the cache, has a value in an index. One whose values are unknown has
    /// none.
    pub(crate) fn has_value<V, Q>(
        &self,
        index: &Index<K, V>,
        object: &Object<K>,
        value: &Q,
    ) -> Result<bool, UnknownIndex>
    where
        V: Borrow<Q> + Hash + Eq + 'static,
        Q: Hash + Eq + ?Sized,
    {
        let values =
            find(&self.root.indexes, index)?.values_of(object, &Decoded::default()).unwrap_or_default();
        Ok(values.iter().any(|held| held.borrow() == value))
    }

    /// All values of an index, each once, in no order.
    ///
    /// # Errors
    ///
    /// See [`by`](Self::by).
    pub fn values<V>(&self, index: &Index<K, V>) -> Result<impl Iterator<Item = &V>, UnknownIndex>
    where
        V: Hash + Eq + 'static,
    {
        Ok(find(&self.root.indexes, index)?.values())
    }

    /// The objects whose values are unknown, ordered by key: they do not decode, or the function failed.
    ///
    /// # Errors
    ///
    /// See [`by`](Self::by).
    pub fn unindexed<V>(&self, index: &Index<K, V>) -> Result<Iter<'_, K>, UnknownIndex>
    where
        V: Hash + Eq + 'static,
    {
        Ok(Box::new(find(&self.root.indexes, index)?.failed().iter().map(|Entry(object)| object)))
    }
}

impl<'a, K> IntoIterator for &'a Snapshot<K> {
    type Item = &'a Object<K>;
    type IntoIter = Iter<'a, K>;

    fn into_iter(self) -> Iter<'a, K> {
        self.iter()
    }
}

impl<K> Clone for Snapshot<K> {
    fn clone(&self) -> Self {
        Self { root: Arc::clone(&self.root) }
    }
}

impl<K> std::fmt::Debug for Snapshot<K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Snapshot").field("objects", &self.len()).field("version", &self.version()).finish()
    }
}
