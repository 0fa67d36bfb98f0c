//! Reading a cache in the manner of client-go's listers.

use std::sync::Arc;

use crate::{Cache, LabelSelector, Object, ObjectKey};

/// Reads a cache, and names the resource in its errors. Clones are cheap and read the same cache.
///
/// It never waits and never asks the server. The objects are shared with the cache.
///
/// ```
/// use reflector::{Cache, Change, Lister, Object, Store};
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let (cache, mut writer) = Cache::<serde_json::Value>::new();
/// let cart = r#"{"metadata":{"namespace":"shop","name":"cart","labels":{"app":"cart"}}}"#;
/// writer.apply(vec![Change::Upsert(Object::from_json(cart)?)], None)?;
///
/// let pods = Lister::new(cache, "pods");
/// assert_eq!(pods.get("shop", "cart")?.name(), "cart");
/// assert_eq!(pods.get("shop", "desk").unwrap_err().to_string(), "pods shop/desk not found in the cache");
/// assert_eq!(pods.namespaced("shop").select(&"app=cart".parse()?).len(), 1);
/// # Ok(()) }
/// ```
pub struct Lister<K> {
    cache: Cache<K>,
    resource: Arc<str>,
}

impl<K> Lister<K> {
    /// A lister over a cache. The name of the resource (`pods`, `deployments.apps`) is for errors only.
    #[must_use]
    pub fn new(cache: Cache<K>, resource: &str) -> Self {
        Self { cache, resource: resource.into() }
    }

    /// The object of that name. The namespace is `None` or empty for cluster-scoped objects.
    ///
    /// # Errors
    ///
    /// [`NotFound`] if the cache does not hold it.
    pub fn get<'a>(&self, namespace: impl Into<Option<&'a str>>, name: &str) -> Result<Object<K>, NotFound> {
        let namespace = namespace.into();
        self.cache.get(namespace, name).ok_or_else(|| NotFound {
            resource: Arc::clone(&self.resource),
            key: ObjectKey::new(namespace, name),
        })
    }

    /// All objects, ordered by namespace and name.
    #[must_use]
    pub fn list(&self) -> Vec<Object<K>> {
        self.cache.list()
    }

    /// The objects that the predicate selects, ordered by namespace and name. An object is decoded only if the
    /// predicate does it.
    #[must_use]
    pub fn list_where(&self, mut selects: impl FnMut(&Object<K>) -> bool) -> Vec<Object<K>> {
        self.cache.snapshot().iter().filter(|object| selects(object)).cloned().collect()
    }

    /// The objects that a label selector selects, ordered by namespace and name (LI-1). An index of a label is used where
    /// there is one.
    #[must_use]
    pub fn select(&self, selector: &LabelSelector) -> Vec<Object<K>>
    where
        K: 'static,
    {
        self.cache.select(selector)
    }

    /// The same objects, but only those of one namespace; of all namespaces if it is empty.
    #[must_use]
    pub fn namespaced(&self, namespace: &str) -> NamespaceLister<K> {
        NamespaceLister { lister: self.clone(), namespace: namespace.into() }
    }

    /// The cache that is read.
    #[must_use]
    pub fn cache(&self) -> &Cache<K> {
        &self.cache
    }

    /// The name of the resource.
    #[must_use]
    pub fn resource(&self) -> &str {
        &self.resource
    }
}

impl<K> Clone for Lister<K> {
    fn clone(&self) -> Self {
        Self { cache: self.cache.clone(), resource: Arc::clone(&self.resource) }
    }
}

impl<K> std::fmt::Debug for Lister<K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lister").field("resource", &self.resource).field("cache", &self.cache).finish()
    }
}

/// A [`Lister`] of one namespace. Only the objects of that namespace are visited.
pub struct NamespaceLister<K> {
    lister: Lister<K>,
    namespace: Arc<str>,
}

impl<K> NamespaceLister<K> {
    /// The object of that name.
    ///
    /// # Errors
    ///
    /// [`NotFound`] if the cache does not hold it.
    pub fn get(&self, name: &str) -> Result<Object<K>, NotFound> {
        self.lister.get(&*self.namespace, name)
    }

    /// All objects of the namespace, ordered by name.
    #[must_use]
    pub fn list(&self) -> Vec<Object<K>> {
        self.list_where(|_| true)
    }

    /// The objects of the namespace that the predicate selects, ordered by name.
    #[must_use]
    pub fn list_where(&self, mut selects: impl FnMut(&Object<K>) -> bool) -> Vec<Object<K>> {
        if self.namespace.is_empty() {
            return self.lister.list_where(selects);
        }
        let snapshot = self.lister.cache.snapshot();
        snapshot.namespace(&self.namespace).filter(|object| selects(object)).cloned().collect()
    }

    /// The objects of the namespace that a label selector selects, ordered by name (LI-1).
    #[must_use]
    pub fn select(&self, selector: &LabelSelector) -> Vec<Object<K>>
    where
        K: 'static,
    {
        if self.namespace.is_empty() {
            return self.lister.select(selector);
        }
        self.lister.cache.snapshot().select_in(&self.namespace, selector).cloned().collect()
    }

    /// The namespace; empty for all.
    #[must_use]
    pub fn namespace(&self) -> &str {
        &self.namespace
    }
}

impl<K> Clone for NamespaceLister<K> {
    fn clone(&self) -> Self {
        Self { lister: self.lister.clone(), namespace: Arc::clone(&self.namespace) }
    }
}

impl<K> std::fmt::Debug for NamespaceLister<K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NamespaceLister")
            .field("namespace", &self.namespace)
            .field("lister", &self.lister)
            .finish()
    }
}

/// A cache does not hold the object. The server may: the cache says what it knows, not what there is.
#[derive(Clone, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[error("{resource} {key} not found in the cache")]
pub struct NotFound {
    /// The name of the resource.
    pub resource: Arc<str>,
    /// What was asked for.
    pub key: ObjectKey,
}
