//! What the machine tells its driver to do.

use super::{ErrorReport, Failure};
use crate::{
    ResourceVersion,
    source::{ListOptions, WatchOptions},
};

/// One order of the machine. Orders are carried out in the order they come.
///
/// Of requests at most one *main* one (a list or a watch) is open at a time, beside at most one *second* one (a check
/// or the re-opening of a watch).
#[derive(Clone, Debug)]
pub enum Order {
    /// Get fresh credentials before the next request (after a 401).
    Refresh,
    /// Open the main request: list one page. Its objects go to the store's staging area as they come.
    List(ListOptions),
    /// Open the main request: watch.
    Watch(WatchOptions),
    /// Open the second request: a list of one object, of which only the version matters.
    Check(ListOptions),
    /// Open the second request: the same watch again. Once it has opened it takes the place of the main one.
    Reopen(WatchOptions),
    /// Drop the main request, if one is open, without waiting for it.
    Close,
    /// Drop the second request, if one is open.
    CloseSecond,
    /// Open an empty staging area in the store; an older one is dropped.
    BeginReplace {
        /// Why the collection is read.
        reason: SyncReason,
        /// How it is read.
        method: SyncMethod,
        /// Whether versions still mean what they meant.
        history: History,
    },
    /// Make the staged objects the content of the store.
    CommitReplace {
        /// The version of the collection, if the server gave one.
        version: Option<ResourceVersion>,
    },
    /// Drop the staging area.
    AbandonReplace,
    /// Tell the store that it is current as of this version.
    Bookmark(ResourceVersion),
    /// Tell the store to resync.
    Resync,
    /// Tell the error handler; if it says stop, call [`Machine::handle_stop`](super::Machine::handle_stop).
    Report(ErrorReport),
    /// Nothing follows.
    Stopped,
}

/// What to do with the object of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disposition {
    /// Apply it to the store's content.
    Apply,
    /// Apply it to the store's staging area.
    Stage,
    /// Drop it: nobody asked for it.
    Drop,
}

/// Why a collection is read from scratch. The label `reason` of `reflector_relists_total`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SyncReason {
    /// The first time.
    First,
    /// The version to watch from is too old (410).
    Expired,
    /// The version to watch from stayed ahead of the server.
    TooLarge,
    /// Watches ended at once, again and again (K2).
    ShortWatch,
    /// Watches could not be read, again and again.
    Malformed,
    /// The stream carried an error that watching again does not cure.
    StreamError,
    /// The collection went back in time.
    Rewound,
    /// The resource was absent.
    Absent,
    /// The resource cannot be watched: an interval passed.
    Poll,
    /// The user asked for regular verification, and the interval passed.
    Verify,
    /// The store could not take a change.
    Store,
}

impl SyncReason {
    /// A short stable name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::First => "first",
            Self::Expired => "expired",
            Self::TooLarge => "too_large",
            Self::ShortWatch => "short_watch",
            Self::Malformed => "malformed",
            Self::StreamError => "stream_error",
            Self::Rewound => "rewound",
            Self::Absent => "absent",
            Self::Poll => "poll",
            Self::Verify => "verify",
            Self::Store => "store",
        }
    }
}

/// Whether a collection that is read anew has the same history as the copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum History {
    /// It was asked for as *not older than* the copy: an object with the same uid and version is the same.
    Same,
    /// The copy's version was of no use: etcd may have been restored from a backup, and versions may have been given
    /// out a second time (kubernetes#107457). An object with the same uid and version may still be another state.
    Unknown,
}

/// How a collection is read from scratch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SyncMethod {
    /// LIST, page by page.
    List,
    /// A watch that sends the state first (KEP-3157).
    Streaming,
}

/// What the answer to [`Order::Check`] was: the version of the collection, if it has one.
pub type CheckResult = Result<Option<ResourceVersion>, Failure>;
