//! Where changes are reflected into.
//!
//! A [`Store`] takes what the protocol decides: changes, whole replacements, bookmarks. [`Cache`] is the one in memory.

mod aftermath;
mod cache;
mod fifo;
mod graves;
mod index;
mod memory;
mod root;
mod select;
mod snapshot;
mod staging;
mod step;
mod subscription;
mod ttl;
mod wait;
mod writer;

use std::{
    fmt,
    task::{Context, Poll},
};

use crate::{Object, ObjectKey, ResourceVersion, protocol::History};

pub use cache::Cache;
pub use fifo::{Compress, DeltaFifo, DeltaFifoOptions, DeltaFifoWriter, Deltas, FifoDelta, Popped};
pub use index::{Index, IndexBy, IndexFailure, UnknownIndex};
pub use memory::Memory;
pub use snapshot::{Iter, Snapshot};
pub use subscription::{Ended, Event, Lag, LagMeter, Policy, ShortLived, Subscribe, Subscription, WhenFull};
pub use ttl::{TtlStore, TtlWriter};
pub use wait::Stopped;
pub use writer::{CacheWriter, NamespaceWriters};

/// One change of one object.
pub enum Change<K> {
    /// The object is there, in this revision (ST-3: add and update are the same).
    Upsert(Object<K>),
    /// The object is gone; this is its last known state.
    Delete(Object<K>),
}

// By hand, here and below: a derived impl would demand the same of `K`, of which no value is there.
impl<K> Clone for Change<K> {
    fn clone(&self) -> Self {
        match self {
            Self::Upsert(object) => Self::Upsert(object.clone()),
            Self::Delete(object) => Self::Delete(object.clone()),
        }
    }
}

impl<K> fmt::Debug for Change<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Upsert(object) => f.debug_tuple("Upsert").field(object).finish(),
            Self::Delete(object) => f.debug_tuple("Delete").field(object).finish(),
        }
    }
}

/// What a change was to the content of a store.
pub enum Delta<K> {
    /// An object that was not there.
    Added(Object<K>),
    /// A later revision of an object that was there.
    Updated {
        /// What was there.
        old: Object<K>,
        /// What is there now.
        new: Object<K>,
    },
    /// An object that is gone.
    Deleted {
        /// Its last known state.
        last: Object<K>,
        /// Nobody saw the deletion: `last` may not be the last state it had (client-go's `DeletedFinalStateUnknown`).
        final_state_unknown: bool,
    },
}

impl<K> Delta<K> {
    /// The object that this is about: the new state, or the last known one.
    #[must_use]
    pub fn object(&self) -> &Object<K> {
        match self {
            Self::Added(object) | Self::Updated { new: object, .. } | Self::Deleted { last: object, .. } => {
                object
            }
        }
    }
}

impl<K> Clone for Delta<K> {
    fn clone(&self) -> Self {
        match self {
            Self::Added(object) => Self::Added(object.clone()),
            Self::Updated { old, new } => Self::Updated { old: old.clone(), new: new.clone() },
            Self::Deleted { last, final_state_unknown } => {
                Self::Deleted { last: last.clone(), final_state_unknown: *final_state_unknown }
            }
        }
    }
}

impl<K> fmt::Debug for Delta<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Added(object) => f.debug_tuple("Added").field(object).finish(),
            Self::Updated { old, new } => {
                f.debug_struct("Updated").field("old", old).field("new", new).finish()
            }
            Self::Deleted { last, final_state_unknown } => f
                .debug_struct("Deleted")
                .field("last", last)
                .field("final_state_unknown", final_state_unknown)
                .finish(),
        }
    }
}

/// How many objects a replacement touched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Replaced {
    /// Objects that were not there before.
    pub added: usize,
    /// Objects in another revision.
    pub updated: usize,
    /// Objects that are gone.
    pub deleted: usize,
    /// Objects in the revision that was there already.
    pub unchanged: usize,
}

/// A store refused what it was given. The reflector reports it and makes the copy anew, after a back-off.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct StoreError {
    message: String,
    #[source]
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl StoreError {
    /// An error with a message.
    #[must_use]
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), source: None }
    }

    /// An error with a message and its cause.
    #[must_use]
    pub fn caused(
        message: impl Into<String>,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        Self { message: message.into(), source: Some(source.into()) }
    }
}

/// Finds what is held under a key.
pub type Lookup<K> = Box<dyn Fn(&ObjectKey) -> Option<Object<K>> + Send + Sync>;

/// What a reflector writes into.
///
/// All methods are called from one task, never at the same time. None may wait for the network: the watch is not read
/// meanwhile.
///
/// A replacement is staged: between [`begin_replace`](Self::begin_replace) and
/// [`commit_replace`](Self::commit_replace) the content must not change in any way that a reader can see, and what was
/// staged and not committed must leave no trace. [`apply`](Self::apply) is not called in between.
///
/// ```
/// use std::collections::BTreeMap;
/// use reflector::{Change, Object, ObjectKey, ResourceVersion, Store, StoreError, protocol::History};
///
/// /// Knows only which objects there are.
/// #[derive(Default)]
/// struct Names { held: BTreeMap<ObjectKey, String>, staged: BTreeMap<ObjectKey, String> }
///
/// fn put<K>(map: &mut BTreeMap<ObjectKey, String>, changes: Vec<Change<K>>) {
///     for change in changes {
///         match change {
///             Change::Upsert(object) => map.insert(object.key().clone(), object.uid().to_string()),
///             Change::Delete(object) => map.remove(object.key()),
///         };
///     }
/// }
///
/// impl<K: Send + 'static> Store<K> for Names {
///     fn apply(&mut self, changes: Vec<Change<K>>, _: Option<&ResourceVersion>) -> Result<(), StoreError> {
///         put(&mut self.held, changes);
///         Ok(())
///     }
///     fn begin_replace(&mut self, _: History) { self.staged.clear(); }
///     fn stage(&mut self, changes: Vec<Change<K>>) -> Result<(), StoreError> {
///         put(&mut self.staged, changes);
///         Ok(())
///     }
///     fn commit_replace(&mut self, _: Option<&ResourceVersion>) -> Result<(), StoreError> {
///         self.held = std::mem::take(&mut self.staged);
///         Ok(())
///     }
///     fn abandon_replace(&mut self) { self.staged.clear(); }
/// }
/// ```
pub trait Store<K>: Send + 'static {
    /// Applies changes, in order. Afterwards the store is current as of `version`, where that is known.
    ///
    /// # Errors
    ///
    /// If a change cannot be kept. The reflector then replaces the whole content.
    fn apply(&mut self, changes: Vec<Change<K>>, version: Option<&ResourceVersion>)
    -> Result<(), StoreError>;

    /// Opens an empty staging area; an older one is dropped.
    ///
    /// Where the history is [`History::Unknown`], equal versions do not prove equal objects.
    fn begin_replace(&mut self, history: History);

    /// Puts changes into the staging area.
    ///
    /// # Errors
    ///
    /// If a change cannot be kept. The reflector then drops the staging area and begins anew.
    fn stage(&mut self, changes: Vec<Change<K>>) -> Result<(), StoreError>;

    /// Makes the staged objects the content, as of `version`.
    ///
    /// # Errors
    ///
    /// If that is not possible. The old content should stay then; the reflector begins anew.
    fn commit_replace(&mut self, version: Option<&ResourceVersion>) -> Result<(), StoreError>;

    /// Drops the staging area, if there is one.
    fn abandon_replace(&mut self);

    /// The content is current as of `version`, without a change. Does nothing by default.
    fn bookmark(&mut self, version: &ResourceVersion) {
        let _ = version;
    }

    /// How many objects there are, for the gauge `reflector_objects`; `None` if that is not worth counting.
    fn object_count(&self) -> Option<usize> {
        None
    }

    /// The resync period has passed. Does nothing by default.
    ///
    /// # Errors
    ///
    /// If the resync failed. The reflector then replaces the whole content.
    fn resync(&mut self) -> Result<(), StoreError> {
        Ok(())
    }

    /// Whether more changes may be brought; if not, the task of `cx` is woken when they may. Always, by default.
    ///
    /// Nothing is read from the server meanwhile. It is asked before each part of an answer, so a store may be given
    /// more than it has room for.
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let _ = cx;
        Poll::Ready(())
    }

    /// A way to look from another thread at what is held. What comes again as it is held is then not
    /// [packed](crate::BodyForm::packed) again by a relist, and takes no memory while it is under way. Default: none.
    fn lookup(&self) -> Option<Lookup<K>> {
        None
    }
}
