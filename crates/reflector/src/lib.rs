//! A local copy of a remote collection, true for ever.
//!
//! A *reflector* lists a collection, watches from the version that the list returned, and reflects every change into a
//! store, through disconnects, expired versions, overload, restarts and broken data.
//!
//! | you want | take |
//! |---|---|
//! | a copy of a Kubernetes resource | [`KubeListWatch`] and [`Reflector`] |
//! | to read it | [`Cache`], [`store::Snapshot`], [`Object`] |
//! | to know how it is | [`Reflector::ready`], [`Reflector::status`], [`Reflector::staleness`] |
//! | a store of your own | [`Store`] |
//! | a source of your own | [`source::ListWatch`] |
//! | the protocol without tokio, for a simulator or another runtime | [`protocol::Machine`] |
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
//!
//! The layout and its promises are described in `docs/architecture.md` of the repository.

/// The README's program, compiled.
#[cfg(all(doctest, feature = "kube"))]
#[doc = include_str!("../../../README.md")]
struct Readme;

pub mod condition;
mod driver;
pub mod fence;
mod lister;
mod metrics;
mod object;
pub mod protocol;
mod reflector;
pub mod source;
pub mod store;
mod version;
mod wait;
pub mod wire;

pub use driver::Control;
pub use fence::FencedCache;
pub use lister::{Lister, NamespaceLister, NotFound};
pub use object::{DecodeError, Object, ObjectKey, ObjectMeta};
pub use reflector::{Builder, Handle, NotReady, Reflector};
#[cfg(feature = "kube")]
pub use source::{KubeListWatch, kube_client};
pub use store::{Cache, Change, Delta, Event, Index, IndexBy, Policy, Store, StoreError, Subscription};
pub use version::ResourceVersion;
pub use wait::WaitError;
