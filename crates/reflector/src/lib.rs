//! A local copy of a remote collection, true for ever.

mod object;
pub mod protocol;
pub mod source;
pub mod store;
mod version;
pub mod wire;

pub use object::{DecodeError, Object, ObjectKey, ObjectMeta};
pub use store::{Cache, Change, Delta, Store, StoreError};
pub use version::ResourceVersion;
