//! What is the same for all namespaces of a set.

use std::{fmt, hash::Hash};

use serde::de::DeserializeOwned;

use super::{Launch, NamespacedReflector};
use crate::{Builder, Cache, Index, IndexBy, Reflector, source::ListWatch, store::NamespaceWriters};

/// Configures the reflector of one namespace.
type Configure<K, L> = Box<dyn Fn(&str, Builder<K, L>) -> Builder<K, L> + Send + Sync>;

/// Describes a [`NamespacedReflector`] before it starts.
#[must_use = "nothing happens before `start`"]
pub struct NamespacedBuilder<K, L> {
    cache: Cache<K>,
    writers: NamespaceWriters<K>,
    source: Box<dyn Fn(&str) -> L + Send + Sync>,
    configure: Configure<K, L>,
}

impl<K: Send + 'static, L: ListWatch<K>> NamespacedBuilder<K, L> {
    pub(super) fn new(source: impl Fn(&str) -> L + Send + Sync + 'static) -> Self {
        let (cache, writers) = Cache::by_namespace();
        Self { cache, writers, source: Box::new(source), configure: Box::new(|_, builder| builder) }
    }

    /// Configures the reflector of each namespace, which is given by name: selectors, options, the error handler. Called
    /// once for each namespace that is added. A second call of `configure` goes on from the first.
    ///
    /// Indexes belong to the set ([`index`](Self::index)), not to a namespace; one that is added here is lost.
    ///
    /// ```
    /// # use k8s_openapi::api::core::v1::Pod;
    /// # use reflector::{Control, KubeListWatch, NamespacedReflector};
    /// # async fn example(client: kube::Client) {
    /// let pods = NamespacedReflector::builder(move |ns| KubeListWatch::<Pod>::namespaced(client.clone(), ns))
    ///     .configure(|namespace, builder| {
    ///         let namespace = namespace.to_owned();
    ///         builder.labels("app=cart").on_error(move |report| {
    ///             eprintln!("{namespace}: {report}");
    ///             Control::Continue
    ///         })
    ///     })
    ///     .start(["shop", "shop-test"]);
    /// # }
    /// ```
    pub fn configure(
        mut self,
        configure: impl Fn(&str, Builder<K, L>) -> Builder<K, L> + Send + Sync + 'static,
    ) -> Self {
        let before = self.configure;
        self.configure = Box::new(move |namespace, builder| configure(namespace, before(namespace, builder)));
        self
    }

    /// Adds an index over all namespaces. See [`Builder::index`].
    pub fn index<V, I>(&mut self, values: impl Fn(&K) -> I + Send + Sync + 'static) -> Index<K, V>
    where
        K: DeserializeOwned,
        V: Hash + Eq + Clone + Send + Sync + 'static,
        I: IntoIterator<Item = V>,
    {
        self.cache.index(values)
    }

    /// Adds an index over all namespaces. See [`Builder::index_by`].
    pub fn index_by<V>(&mut self, by: IndexBy<K, V>) -> Index<K, V>
    where
        V: Hash + Eq + Clone + Send + Sync + 'static,
    {
        self.cache.index_by(by)
    }

    /// The cache that [`start`](Self::start) will fill: to subscribe before anything comes.
    #[must_use]
    pub fn cache(&self) -> &Cache<K> {
        &self.cache
    }

    /// Starts with these namespaces; there may be none yet.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime.
    pub fn start<N: AsRef<str>>(self, namespaces: impl IntoIterator<Item = N>) -> NamespacedReflector<K> {
        let Self { cache, writers, source, configure } = self;
        let prepare = move |namespace: &str| -> Launch<K> {
            let builder = configure(namespace, Reflector::builder(source(namespace)));
            Box::new(|store| builder.start_with(store))
        };
        let reflector = NamespacedReflector::new(cache, writers, Box::new(prepare));
        reflector.add_all(namespaces);
        reflector
    }
}

impl<K, L> fmt::Debug for NamespacedBuilder<K, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NamespacedBuilder").field("cache", &self.cache).finish_non_exhaustive()
    }
}
