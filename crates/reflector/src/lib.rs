//! A local copy of a remote collection, true for ever.

mod object;
mod version;
pub mod wire;

pub use object::{DecodeError, Object, ObjectKey, ObjectMeta};
pub use version::ResourceVersion;
