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
#[derive(Clone, Debug)]
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

/// What happened to one key since it was taken last, in order (DF-1). There is always at least one delta.
///
/// Derefs to the slice of its deltas.
#[derive(Clone)]
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

impl<K> Deref for Deltas<K> {
    type Target = [FifoDelta<K>];

    fn deref(&self) -> &[FifoDelta<K>] {
        &self.list
    }
}

impl<K> IntoIterator for Deltas<K> {
    type Item = FifoDelta<K>;
    type IntoIter = std::vec::IntoIter<FifoDelta<K>>;

    fn into_iter(self) -> Self::IntoIter {
        self.list.into_iter()
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
    /// What happened to which versions: a body may be a Secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut list = f.debug_list();
        for delta in self {
            let kind = match delta {
                FifoDelta::Added(_) => "Added",
                FifoDelta::Updated { .. } => "Updated",
                FifoDelta::Replaced { .. } => "Replaced",
                FifoDelta::Sync(_) => "Sync",
                FifoDelta::Deleted { final_state_unknown: false, .. } => "Deleted",
                FifoDelta::Deleted { final_state_unknown: true, .. } => "DeletedFinalStateUnknown",
            };
            list.entry(&format_args!("{kind}({:?})", delta.object()));
        }
        list.finish()
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
