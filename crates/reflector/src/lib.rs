//! A local copy of a remote collection, true for ever.

mod object;
pub mod protocol;
pub mod source;
mod version;
pub mod wire;

pub use object::{DecodeError, Object, ObjectKey, ObjectMeta};
pub use version::ResourceVersion;
