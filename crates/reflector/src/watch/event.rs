//! What a [`RetryWatcher`](super::RetryWatcher) yields.

use std::fmt;

use crate::{Object, ResourceVersion, wire::EventType};

/// One change, in the server's order. It always has a version, so a later watch can start after it.
#[non_exhaustive]
pub enum Event<K> {
    /// The object is new, or new to the selector.
    Added(Object<K>),
    /// The object changed.
    Modified(Object<K>),
    /// The object is gone, or no longer selected; its last state.
    Deleted(Object<K>),
    /// Nothing changed up to this version. Only where it was
    /// [asked for](super::RetryWatchBuilder::bookmarks).
    Bookmark(ResourceVersion),
}

impl<K> Event<K> {
    /// The object; `None` for a bookmark.
    #[must_use]
    pub fn object(&self) -> Option<&Object<K>> {
        match self {
            Self::Added(object) | Self::Modified(object) | Self::Deleted(object) => Some(object),
            Self::Bookmark(_) => None,
        }
    }

    /// The version of the object, or of the bookmark. `None` only for an event that was made by hand.
    #[must_use]
    pub fn version(&self) -> Option<&ResourceVersion> {
        match self {
            Self::Bookmark(version) => Some(version),
            Self::Added(object) | Self::Modified(object) | Self::Deleted(object) => object.version(),
        }
    }

    /// The type of the event.
    #[must_use]
    pub fn event_type(&self) -> EventType {
        match self {
            Self::Added(_) => EventType::Added,
            Self::Modified(_) => EventType::Modified,
            Self::Deleted(_) => EventType::Deleted,
            Self::Bookmark(_) => EventType::Bookmark,
        }
    }
}

impl<K> Clone for Event<K> {
    fn clone(&self) -> Self {
        match self {
            Self::Added(object) => Self::Added(object.clone()),
            Self::Modified(object) => Self::Modified(object.clone()),
            Self::Deleted(object) => Self::Deleted(object.clone()),
            Self::Bookmark(version) => Self::Bookmark(version.clone()),
        }
    }
}

impl<K> fmt::Display for Event<K> {
    /// `MODIFIED shop/cart at version 7`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.event_type(), f)?;
        if let Some(object) = self.object() {
            write!(f, " {}", object.key())?;
        }
        match self.version() {
            Some(version) => write!(f, " at version {version}"),
            None => Ok(()),
        }
    }
}

impl<K> fmt::Debug for Event<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Event({self})")
    }
}
