//! A queue of changes by key, for whoever processes changes and needs no cache of its own.
//!
//! Changes of one key are collected until somebody takes the key; keys are taken in the order in which they came
//! (client-go's `DeltaFIFO`). What is known of the objects is kept in a [`Cache`](crate::Cache), which also decides what
//! a change is: so each delta fits the one before it, and no object goes back to an earlier revision.

mod consumer;
mod queue;
mod writer;

use std::{fmt, ops::Deref};

use crate::{Object, ObjectKey};

pub use consumer::{DeltaFifo, Popped};
pub use writer::DeltaFifoWriter;

/// One change in the queue.
#[non_exhaustive]
pub enum FifoDelta<K> {
    /// An object that was not there.
    Added(Object<K>),
    /// A later revision of an object that was there.
    Updated {
        /// What was there.
        old: Object<K>,
        /// What is there now.
        new: Object<K>,
    },
    /// A complete list says that this is there.
    Replaced {
        /// What was there before; `None` if the object is new.
        old: Option<Object<K>>,
        /// What is there now.
        new: Object<K>,
    },
    /// Nothing changed: a resync says again what is there.
    Sync(Object<K>),
    /// The object is gone.
    Deleted {
        /// Its last known state.
        last: Object<K>,
        /// Nobody saw the deletion: `last` may not be the last state it had (client-go's `DeletedFinalStateUnknown`).
        final_state_unknown: bool,
    },
}

impl<K> FifoDelta<K> {
    /// The object that this is about: what is there now, or its last known state.
    #[must_use]
    pub fn object(&self) -> &Object<K> {
        match self {
            Self::Added(object)
            | Self::Updated { new: object, .. }
            | Self::Replaced { new: object, .. }
            | Self::Sync(object)
            | Self::Deleted { last: object, .. } => object,
        }
    }

    /// Whether the object is gone.
    #[must_use]
    pub fn is_deleted(&self) -> bool {
        matches!(self, Self::Deleted { .. })
    }

    /// Whether the object was not there before.
    fn is_new(&self) -> bool {
        matches!(self, Self::Added(_) | Self::Replaced { old: None, .. })
    }
}

// By hand: a derived impl would demand the same of `K`, of which no value is there.
impl<K> Clone for FifoDelta<K> {
    fn clone(&self) -> Self {
        match self {
            Self::Added(object) => Self::Added(object.clone()),
            Self::Updated { old, new } => Self::Updated { old: old.clone(), new: new.clone() },
            Self::Replaced { old, new } => Self::Replaced { old: old.clone(), new: new.clone() },
            Self::Sync(object) => Self::Sync(object.clone()),
            Self::Deleted { last, final_state_unknown } => {
                Self::Deleted { last: last.clone(), final_state_unknown: *final_state_unknown }
            }
        }
    }
}

impl<K> fmt::Debug for FifoDelta<K> {
    /// What happened, and the latest version.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self {
            Self::Added(_) => "Added",
            Self::Updated { .. } => "Updated",
            Self::Replaced { .. } => "Replaced",
            Self::Sync(_) => "Sync",
            Self::Deleted { final_state_unknown: false, .. } => "Deleted",
            Self::Deleted { final_state_unknown: true, .. } => "DeletedFinalStateUnknown",
        };
        f.debug_tuple(kind).field(self.object()).finish()
    }
}

/// What happened to one key since it was taken last, in order (DF-1). There is always at least one delta.
///
/// Derefs to the slice of its deltas.
pub struct Deltas<K> {
    key: ObjectKey,
    list: Vec<FifoDelta<K>>,
    in_initial_list: bool,
}

impl<K> Deltas<K> {
    /// The key.
    #[must_use]
    pub fn key(&self) -> &ObjectKey {
        &self.key
    }

    /// Whether this belongs to the first complete list (Q-3). Exact, also with several consumers: it is decided when the
    /// list arrives.
    #[must_use]
    pub fn in_initial_list(&self) -> bool {
        self.in_initial_list
    }

    /// The object that is there now; `None` if it is gone.
    #[must_use]
    pub fn current(&self) -> Option<&Object<K>> {
        self.list.last().filter(|delta| !delta.is_deleted()).map(FifoDelta::object)
    }
}

impl<K> Clone for Deltas<K> {
    fn clone(&self) -> Self {
        Self { key: self.key.clone(), list: self.list.clone(), in_initial_list: self.in_initial_list }
    }
}

impl<K> Deref for Deltas<K> {
    type Target = [FifoDelta<K>];

    fn deref(&self) -> &[FifoDelta<K>] {
        &self.list
    }
}

impl<'a, K> IntoIterator for &'a Deltas<K> {
    type Item = &'a FifoDelta<K>;
    type IntoIter = std::slice::Iter<'a, FifoDelta<K>>;

    fn into_iter(self) -> Self::IntoIter {
        self.list.iter()
    }
}

impl<K> fmt::Debug for Deltas<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self).finish()
    }
}

/// What is left out of the deltas of one key while it waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compress {
    /// Two deletions in a row are one (DF-2); the one with a known final state stays. Everything else is kept, so a key
    /// that changes often and is never taken grows.
    #[default]
    Deletes,
    /// Also, changes in a row are one change, from what was there first to what is there now, and of a life that began
    /// and ended between two others nothing is told. A key has at most three deltas then.
    All,
}

/// How a [`DeltaFifo`] works.
///
/// ```
/// use reflector::store::{Compress, DeltaFifo, DeltaFifoOptions};
/// let options = DeltaFifoOptions::default().compress(Compress::All).deliver_unchanged(true).name("pods");
/// let (fifo, writer) = DeltaFifo::<serde_json::Value>::new(options);
/// # let _ = (fifo, writer);
/// ```
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct DeltaFifoOptions {
    compress: Compress,
    deliver_unchanged: bool,
    name: Option<String>,
}

impl DeltaFifoOptions {
    /// What is left out while a key waits. Default [`Compress::Deletes`].
    pub fn compress(mut self, compress: Compress) -> Self {
        self.compress = compress;
        self
    }

    /// Whether a complete list is delivered as a whole, as client-go does, with [`FifoDelta::Replaced`] also for objects
    /// in the revision that was there already. Default false: those are silent.
    pub fn deliver_unchanged(mut self, deliver: bool) -> Self {
        self.deliver_unchanged = deliver;
        self
    }

    /// Shows the number of waiting keys as the gauge `reflector_fifo_depth`, with this as its label `name`. Default: no
    /// gauge.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }
}

#[cfg(test)]
mod tests;
