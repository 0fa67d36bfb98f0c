//! Informers of Kubernetes resources, over one client.

use std::{fmt, ops::Deref, sync::Arc};

use ::kube::{
    Client, Resource,
    core::{ApiResource, DynamicObject, NamespaceResourceScope, PartialObjectMeta},
};

use super::{
    factory::{FactoryStopped, InformerFactory},
    shared::SharedInformer,
};
use crate::{Builder, KubeListWatch, Reflector};

/// An [`InformerFactory`] of Kubernetes resources.
///
/// ```
/// use std::time::Duration;
/// use k8s_openapi::api::core::v1::{ConfigMap, Secret};
/// use reflector::{informer::KubeInformers, kube_client};
/// # use reflector_apiserver::ApiServer;
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = ApiServer::builder().start().await?;
/// # let config = kube::Config::new(server.url().parse()?);
/// let informers = KubeInformers::new(kube_client(config)?);
/// let maps = informers.kube::<ConfigMap>().labels("app=cart").get()?;
/// let secrets = informers.namespaced::<Secret>("shop").with(|builder| builder.page_size(100)).get()?;
/// informers.start()?;
/// informers.wait_for_sync(Duration::from_secs(30)).await?;
/// assert_eq!((maps.name(), secrets.name()), ("configmaps, labels app=cart", "secrets in namespace shop"));
/// informers.shutdown().await?;
/// # Ok(()) }
/// ```
pub struct KubeInformers {
    factory: InformerFactory,
    client: Client,
}

impl KubeInformers {
    /// A factory without informers. The client should be one of [`kube_client`](crate::kube_client).
    #[must_use]
    pub fn new(client: Client) -> Self {
        Self::over(client, InformerFactory::new())
    }

    /// The same with the settings of a factory.
    #[must_use]
    pub fn over(client: Client, factory: InformerFactory) -> Self {
        Self { factory, client }
    }

    /// All objects of a type, in all namespaces if it has any.
    pub fn kube<K>(&self) -> KubeInformer<'_, K>
    where
        K: Resource<DynamicType = ()> + Send + 'static,
    {
        self.of(KubeListWatch::all(self.client.clone()), K::api_version(&()).into_owned())
    }

    /// The objects of a namespaced type in one namespace.
    pub fn namespaced<K>(&self, namespace: &str) -> KubeInformer<'_, K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Send + 'static,
    {
        self.of(KubeListWatch::namespaced(self.client.clone(), namespace), K::api_version(&()).into_owned())
    }

    /// The objects of a type that is known at run time; in all namespaces, or in one. Two versions of one API are two
    /// informers.
    pub fn dynamic(
        &self,
        resource: &ApiResource,
        namespace: Option<&str>,
    ) -> KubeInformer<'_, DynamicObject> {
        let source = KubeListWatch::dynamic(self.client.clone(), resource, namespace);
        self.of(source, resource.api_version.clone())
    }

    fn of<K: Send + 'static>(&self, source: KubeListWatch<K>, detail: String) -> KubeInformer<'_, K> {
        KubeInformer { factory: &self.factory, builder: Reflector::builder(source), detail }
    }

    /// Nothing but the metadata of all objects of a type, in all namespaces if it has any.
    pub fn metadata<K>(&self) -> KubeInformer<'_, PartialObjectMeta<K>>
    where
        K: Resource<DynamicType = ()> + Send + 'static,
    {
        let source = KubeListWatch::<K>::all(self.client.clone()).metadata_only();
        self.of(source, format!("{}, metadata", K::api_version(&())))
    }
}

impl Deref for KubeInformers {
    type Target = InformerFactory;

    fn deref(&self) -> &InformerFactory {
        &self.factory
    }
}

impl fmt::Debug for KubeInformers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KubeInformers").field("factory", &self.factory).finish_non_exhaustive()
    }
}

/// Describes an informer of a Kubernetes resource. See [`KubeInformers`].
#[must_use = "`get` gives the informer"]
pub struct KubeInformer<'a, K> {
    factory: &'a InformerFactory,
    builder: Builder<K, KubeListWatch<K>>,
    detail: String,
}

impl<K: Send + 'static> KubeInformer<'_, K> {
    /// See [`Builder::labels`].
    pub fn labels(self, selector: impl Into<String>) -> Self {
        self.with(|builder| builder.labels(selector))
    }

    /// See [`Builder::fields`].
    pub fn fields(self, selector: impl Into<String>) -> Self {
        self.with(|builder| builder.fields(selector))
    }

    /// Anything else that a reflector can be told. Counts only for whoever asks first.
    pub fn with(
        mut self,
        change: impl FnOnce(Builder<K, KubeListWatch<K>>) -> Builder<K, KubeListWatch<K>>,
    ) -> Self {
        self.builder = change(self.builder);
        self
    }

    /// The informer; a new one if nobody has asked for it before.
    ///
    /// # Errors
    ///
    /// [`FactoryStopped`] after [`shutdown`](InformerFactory::shutdown).
    pub fn get(self) -> Result<Arc<SharedInformer<K>>, FactoryStopped> {
        self.factory.informer_of(self.builder, self.detail)
    }
}

impl<K> fmt::Debug for KubeInformer<'_, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KubeInformer").field("builder", &self.builder).finish_non_exhaustive()
    }
}
