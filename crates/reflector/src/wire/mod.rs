//! Bytes in, objects out: response bodies cut while they arrive.
//!
//! Nothing here reads a socket, knows the time or waits for anything, and nothing holds a whole list. A cutter is fed
//! chunks of any size; the boundaries of the chunks mean nothing.
//!
//! | body | reader | yields |
//! |---|---|---|
//! | list, in JSON or protobuf | [`ListCutter`] | [`ListItem`]s as they come, [`ListMeta`] at the end |
//! | watch stream, in JSON or protobuf | [`WatchCutter`] | [`WatchEvent`]s |
//! | gzip around either | [`Inflate`] | plain bytes, in slices of bounded size |
//! | anything with an error code | [`Status::from_body`] | what the server meant to say |
//!
//! Errors come in two sizes. A body that cannot be read on is a [`WireError`]. An object whose metadata is unusable is
//! an [`InvalidObject`] in its place among the others, and the others are served (K3, K4). Whether the rest of an
//! object fits its type is not looked at here at all: [`Object::get`] finds out when somebody asks.
//!
//! ```
//! use reflector::wire::{Limits, ListCutter, ListItem};
//!
//! let body = br#"{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"9"},"items":[
//!     {"metadata":{"namespace":"shop","name":"cart","resourceVersion":"7"}}]}"#;
//! let mut cutter = ListCutter::<serde::de::IgnoredAny>::new(None, Limits::default());
//! let mut items = Vec::new();
//! for chunk in body.chunks(10) {
//!     cutter.push(chunk, &mut items)?;
//! }
//! let list = cutter.finish()?;
//! assert_eq!(list.version.unwrap().to_string(), "9");
//! let ListItem::Object(cart) = &items[0] else { panic!() };
//! assert_eq!(cart.key().to_string(), "shop/cart");
//! // The list left out what every item is; it is filled in.
//! assert!(cart.json()?.starts_with(br#"{"kind":"Pod","apiVersion":"v1","#));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod cutter;
mod error;
mod gzip;
pub(crate) mod json;
mod protobuf;
mod status;

use std::fmt;

pub use self::{
    cutter::{ListCutter, WatchCutter},
    error::WireError,
    gzip::Inflate,
    status::{Status, StatusCause, StatusDetails},
};
use crate::{Object, ObjectKey, ResourceVersion};

/// Marks the bookmark that ends the initial events (KEP-3157).
const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

/// What one object is: `v1` and `Pod`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TypeMeta {
    /// Group and version, such as `apps/v1`; just the version in the core group.
    pub api_version: String,
    /// The kind of one object, such as `Deployment`.
    pub kind: String,
}

impl TypeMeta {
    /// A type from its parts.
    #[must_use]
    pub fn new(api_version: impl Into<String>, kind: impl Into<String>) -> Self {
        Self { api_version: api_version.into(), kind: kind.into() }
    }
}

/// How large things may get before they are refused. The defaults are generous: they guard against a broken or
/// hostile server, not against large objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// One object, in bytes. Default: 64 MiB (etcd stores 1.5 MiB unless told otherwise; client-go stops at 16 MiB).
    /// Too small: a large object fails the whole list or watch. Too large: a broken server fills that much memory,
    /// up to twice as much for a moment.
    pub object_bytes_max: usize,
    /// What is kept of the envelope around the objects (kind, list metadata with its continue token, event type), in
    /// bytes. Default: 1 MiB. Too small: lists with long continue tokens fail. Too large: as above.
    pub envelope_bytes_max: usize,
    /// How deep arrays and objects may be nested, counted from the outermost bracket of the body. Default: 10,000, as
    /// in Go's `encoding/json`, so whatever an API server could read passes. Too small: a deep object fails the whole
    /// list or watch. Larger costs one byte per level.
    pub depth_max: usize,
    /// One list, that is one page of it, in (decompressed) bytes; watches have no end and no such limit. Default: 32 GiB,
    /// several times what an etcd of the recommended size (8 GiB) can hold. That is no protection of a smaller process:
    /// how large a collection may become, only you know. Too small: the collection is never synced. Too large: a server
    /// whose list never ends fills that much memory with well-formed objects.
    pub list_bytes_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        let list_bytes_max = usize::try_from(32u64 << 30).unwrap_or(usize::MAX);
        Self { object_bytes_max: 64 << 20, envelope_bytes_max: 1 << 20, depth_max: 10_000, list_bytes_max }
    }
}

impl Limits {
    /// These limits with another [`object_bytes_max`](Self::object_bytes_max).
    #[must_use]
    pub fn object_bytes_max(mut self, bytes: usize) -> Self {
        self.object_bytes_max = bytes;
        self
    }

    /// These limits with another [`envelope_bytes_max`](Self::envelope_bytes_max).
    #[must_use]
    pub fn envelope_bytes_max(mut self, bytes: usize) -> Self {
        self.envelope_bytes_max = bytes;
        self
    }

    /// These limits with another [`list_bytes_max`](Self::list_bytes_max).
    #[must_use]
    pub fn list_bytes_max(mut self, bytes: usize) -> Self {
        self.list_bytes_max = bytes;
        self
    }

    /// These limits with another [`depth_max`](Self::depth_max).
    #[must_use]
    pub fn depth_max(mut self, levels: usize) -> Self {
        self.depth_max = levels;
        self
    }
}

/// One element of a list.
pub enum ListItem<K> {
    /// An object with a name. Whether its body fits `K` shows in [`Object::get`].
    Object(Object<K>),
    /// An object that cannot be kept, since its own metadata is unusable. The rest of the list is not touched by it.
    Invalid(Box<InvalidObject>),
}

impl<K> fmt::Debug for ListItem<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Object(object) => object.fmt(f),
            Self::Invalid(invalid) => invalid.fmt(f),
        }
    }
}

/// What a list says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ListMeta {
    /// The version of the collection that this list shows; `None` if absent or empty, as in lists that are not backed
    /// by storage (D32).
    pub version: Option<ResourceVersion>,
    /// Where the next page begins; `None` on the last page, also where the server wrote `""` (D32).
    pub continue_token: Option<String>,
    /// How many objects follow this page; only known without selectors, and not exact where `shard_selector` is set.
    pub remaining: Option<u64>,
    /// `metadata.shardInfo.selector`, if the server answered with one shard of the collection (KEP-5866).
    pub shard_selector: Option<String>,
    /// What the items are, by the list's own kind (without its `List`) and apiVersion.
    pub types: Option<TypeMeta>,
}

/// One event of a watch.
pub enum WatchEvent<K> {
    /// The object is new, or new to the selector.
    Added(Object<K>),
    /// The object changed.
    Modified(Object<K>),
    /// The object is gone, or no longer selected; its last state.
    Deleted(Object<K>),
    /// Nothing changed up to this version. The bookmark's object is not looked at any further.
    Bookmark {
        /// The version; `None` if absent or empty.
        version: Option<ResourceVersion>,
        /// Whether this ends the initial events of a streaming list: the annotation `k8s.io/initial-events-end` is
        /// exactly `"true"` (KEP-3157).
        initial_events_end: bool,
    },
    /// The server ends the watch, and says why.
    Error(Box<Status>),
    /// An event of a known type whose object cannot be kept; see [`InvalidObject::event`].
    Invalid(Box<InvalidObject>),
    /// An event of a type that this crate does not know; at most 64 characters of it.
    Unknown(String),
}

impl<K> fmt::Debug for WatchEvent<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Added(object) => f.debug_tuple("Added").field(object).finish(),
            Self::Modified(object) => f.debug_tuple("Modified").field(object).finish(),
            Self::Deleted(object) => f.debug_tuple("Deleted").field(object).finish(),
            Self::Bookmark { version, initial_events_end } => f
                .debug_struct("Bookmark")
                .field("version", version)
                .field("initial_events_end", initial_events_end)
                .finish(),
            Self::Error(status) => f.debug_tuple("Error").field(status).finish(),
            Self::Invalid(invalid) => f.debug_tuple("Invalid").field(invalid).finish(),
            Self::Unknown(kind) => f.debug_tuple("Unknown").field(kind).finish(),
        }
    }
}

/// The type of a watch event that carries an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum EventType {
    /// `ADDED`
    Added,
    /// `MODIFIED`
    Modified,
    /// `DELETED`
    Deleted,
    /// `BOOKMARK`
    Bookmark,
}

impl fmt::Display for EventType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Added => "ADDED",
            Self::Modified => "MODIFIED",
            Self::Deleted => "DELETED",
            Self::Bookmark => "BOOKMARK",
        })
    }
}

/// An object that is JSON but cannot be kept: no name, metadata of the wrong type, text that is not UTF-8.
///
/// It holds what could still be read, and never the body itself, which may be a Secret.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct InvalidObject {
    /// Name and namespace, if both could be read.
    pub key: Option<ObjectKey>,
    /// The version, if it could be read.
    pub version: Option<ResourceVersion>,
    /// The type of the event that carried it; `None` in lists.
    pub event: Option<EventType>,
    /// The JSON path of what is wrong, such as `metadata.labels.app`; empty for the object itself.
    pub path: String,
    /// What is wrong there.
    pub reason: String,
    /// Where the object began in the (decompressed) body, in bytes from zero.
    pub offset: u64,
    /// How long the object is, in bytes.
    pub bytes: usize,
}

impl fmt::Display for InvalidObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.key {
            Some(key) => write!(f, "{key}")?,
            None => f.write_str("an object without a readable name")?,
        }
        if let Some(event) = &self.event {
            write!(f, " ({event})")?;
        }
        write!(f, ": ")?;
        if !self.path.is_empty() {
            write!(f, "`{}`: ", self.path)?;
        }
        write!(f, "{} ({} bytes at byte {})", self.reason, self.bytes, self.offset)
    }
}

impl std::error::Error for InvalidObject {}
