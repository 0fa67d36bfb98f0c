//! A local copy of a remote collection, true for ever.

mod driver;
mod metrics;
mod object;
pub mod protocol;
mod reflector;
pub mod source;
pub mod store;
mod version;
pub mod wire;

pub use driver::Control;
pub use object::{DecodeError, Object, ObjectKey, ObjectMeta};
pub use reflector::{Builder, Handle, NotReady, Reflector};
#[cfg(feature = "kube")]
pub use source::{KubeListWatch, kube_client};
pub use store::{Cache, Change, Delta, Store, StoreError};
pub use version::ResourceVersion;
