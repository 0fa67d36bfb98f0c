//! What the machine says of itself.

use std::fmt;

use super::{ErrorReport, SyncMethod, SyncReason, Time};
use crate::ResourceVersion;

/// What is going on right now.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Phase {
    /// Made, but not started.
    Created,
    /// The collection is being read from scratch.
    Syncing {
        /// Why.
        reason: SyncReason,
        /// How.
        method: SyncMethod,
    },
    /// A watch is being opened.
    Connecting,
    /// A watch is open: changes arrive as they happen.
    Watching,
    /// The resource cannot be watched; the next list is at this time.
    Polling {
        /// When.
        next: Time,
    },
    /// After a failure (`last_error` tells which); the next request is at this time.
    Waiting {
        /// When.
        until: Time,
    },
    /// The server says that there is no such resource; the next probe is at this time.
    Absent {
        /// When.
        until: Time,
    },
    /// Ended, for good.
    Stopped,
}

/// Whether the server can stream the initial state (KEP-3157).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Streaming {
    /// Not tried yet.
    #[default]
    Unknown,
    /// It does.
    Works,
    /// Switched off by an option.
    Disabled,
    /// It did not work; lists are used until this time.
    FellBack {
        /// Why, as a sentence.
        reason: String,
        /// When it is tried again.
        until: Time,
    },
}

/// The whole state of a reflector's protocol, for people and probes.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Status {
    /// What is going on right now.
    pub phase: Phase,
    /// Whether the store ever held the whole collection.
    pub synced: bool,
    /// The version that the store is current as of.
    pub version: Option<ResourceVersion>,
    /// When the server was last heard of: any byte of a good answer.
    pub last_contact: Option<Time>,
    /// When the copy was last known to be current: when an event or a bookmark came, when a complete list was asked for.
    pub last_proof: Option<Time>,
    /// The last failure; stays after it is over.
    pub last_error: Option<ErrorReport>,
    /// Failures in a row: of requests, and of watches that brought nothing. Zero once something has come again; while it
    /// is not, and no watch is open, `last_error` is what stands in the way.
    pub failures: u32,
    /// The failure that keeps things from working and that waiting alone does not cure, while it lasts.
    pub blocked: Option<ErrorReport>,
    /// Whether the initial state can be streamed, and if not, why.
    pub streaming: Streaming,
    /// Counts since the start.
    pub counts: Counts,
}

/// Counts since the start of a reflector.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// Pages of lists asked for, checks included.
    pub lists: u64,
    /// Watches asked for.
    pub watches: u64,
    /// Events accepted from watches, bookmarks not counted.
    pub events: u64,
    /// Bookmarks accepted.
    pub bookmarks: u64,
    /// Complete reads of the collection, the first one included.
    pub syncs: u64,
    /// Complete or begun reads after the first sync.
    pub relists: u64,
    /// Failures of any kind.
    pub errors: u64,
    /// Events whose version was older than one already seen in the same watch.
    pub regressions: u64,
    /// Objects that had no usable metadata, and were passed over.
    pub invalid: u64,
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Created => f.write_str("not started"),
            Self::Syncing { reason, method: SyncMethod::List } => write!(f, "listing ({})", reason.as_str()),
            Self::Syncing { reason, method: SyncMethod::Streaming } => {
                write!(f, "streaming the list ({})", reason.as_str())
            }
            Self::Connecting => f.write_str("connecting"),
            Self::Watching => f.write_str("watching"),
            Self::Polling { .. } => f.write_str("polling"),
            Self::Waiting { .. } => f.write_str("waiting to retry"),
            Self::Absent { .. } => f.write_str("resource absent"),
            Self::Stopped => f.write_str("stopped"),
        }
    }
}
