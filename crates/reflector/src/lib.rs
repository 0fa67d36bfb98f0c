//! A local copy of a remote collection, true for ever.
//!
//! A *reflector* lists a collection, watches from the version that the list returned, and reflects every change into a
//! store, through disconnects, expired versions, overload, restarts and broken data.
//!
//! | you want | take |
//! |---|---|
//! | a copy of a Kubernetes resource | [`KubeListWatch`] and [`Reflector`] |
//! | a copy of some namespaces, each with its own watch | [`NamespacedReflector`] |
//! | to be called for every change | [`SharedInformer`], [`informer::EventHandler`] |
//! | informers of many collections | [`InformerFactory`] |
//! | to read it | [`Cache`], [`store::Snapshot`], [`Object`] |
//! | to find by value, to select | [`IndexBy`], [`LabelSelector`], [`FieldSelector`], [`Lister`] |
//! | to hear of every change | [`Cache::subscribe`], [`Event`], [`Policy`] |
//! | to read one's own writes | [`FencedCache`], [`Cache::wait_for`], [`Cache::wait_until`] |
//! | to change or trim objects before they are kept | [`transform`], [`Builder::transform`] |
//! | to process changes by key, or to let objects expire | [`store::DeltaFifo`], [`store::TtlStore`] |
//! | to know how it is | [`Reflector::ready`], [`Reflector::status`], [`Reflector::staleness`] |
//! | controllers of kube's runtime on it | `kube_runtime`, with the feature of that name |
//! | to see every change from a known version on, once | [`watch::RetryWatcher`], [`watch::until`] |
//! | probes for Kubernetes | [`health::Health`] |
//! | a store of your own | [`Store`] |
//! | a source of your own | [`source::ListWatch`] |
//! | the protocol without tokio, for a simulator or another runtime | [`driver::Core`], [`protocol::Machine`] |
//!
//! ```
//! use k8s_openapi::api::core::v1::Pod;
//! use reflector::{KubeListWatch, Reflector, kube_client};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let server = reflector_apiserver::ApiServer::start().await?;
//! # let config = kube::Config::new(server.url().parse()?);
//! # /*
//! let config = kube::Config::infer().await?;
//! # */
//! let pods = Reflector::builder(KubeListWatch::<Pod>::all(kube_client(config)?)).start();
//! pods.ready().await?;
//! for pod in &pods.cache().snapshot() {
//!     println!("{} {}", pod.key(), pod.get()?.spec.as_ref().and_then(|s| s.node_name.as_deref()).unwrap_or("-"));
//! }
//! assert!(pods.staleness().is_some());
//! pods.stop().await;
//! # Ok(())
//! # }
//! ```
//!
//! # Features
//!
//! - `kube` (default): [`KubeListWatch`], over `kube::Client`. TLS is the choice of whoever depends on kube.
//! - `kube-runtime`: controllers of kube's runtime on a reflector. Switches `kube/unstable-runtime` on, since that is
//!   where kube keeps `Controller::for_stream`.
//! - `axum`: `health::Health::router`, the probes as an `axum::Router`.
//!
//! The layout and its promises are described in `docs/architecture.md` of the repository.

/// The README's program, compiled.
#[cfg(all(doctest, feature = "kube"))]
#[doc = include_str!("../../../README.md")]
struct Readme;

/// The programs of the guide, compiled.
#[cfg(all(doctest, feature = "kube"))]
#[doc = include_str!("../../../docs/guide.md")]
struct Guide;

pub mod condition;
pub mod driver;
pub mod fence;
pub mod health;
mod hot;
pub mod informer;
#[cfg(feature = "kube-runtime")]
pub mod kube_runtime;
mod lister;
mod metrics;
mod namespaces;
mod object;
mod prepare;
pub mod protocol;
mod reflector;
pub mod selector;
pub mod source;
pub mod store;
mod sync;
pub mod transform;
mod version;
mod wait;
pub mod watch;
pub mod wire;

pub use driver::Control;
pub use fence::FencedCache;
pub use hot::Hot;
pub use informer::{EventHandler, InformerFactory, Registration, SharedInformer};
pub use lister::{Lister, NamespaceLister, NotFound};
pub use namespaces::{NamespaceNotReady, NamespacedBuilder, NamespacedReflector, NotAllReady};
pub use object::{
    DecodeCause, DecodeError, Encoding, InvalidKey, Labels, Object, ObjectKey, ObjectMeta, Uid,
};
pub use prepare::BodyForm;
pub use reflector::{Builder, Handle, NotReady, Reflector};
pub use selector::{FieldSelector, LabelSelector};
#[cfg(feature = "kube")]
pub use source::{Format, KubeListWatch, kube_client};
pub use store::{Cache, Change, Delta, Event, Index, IndexBy, Policy, Store, StoreError, Subscription};
pub use version::ResourceVersion;
pub use wait::WaitError;
