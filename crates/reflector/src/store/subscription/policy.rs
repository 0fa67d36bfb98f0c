//! What becomes of changes that a subscriber has not taken yet.

/// How changes wait for a subscriber.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Policy {
    /// At most one entry per object, which tells what the subscriber knew and what is there now. Memory is bounded by
    /// the number of objects, however slow the subscriber is; no deletion is lost. The default.
    Merge(ShortLived),
    /// Every single change, until `bound` wait.
    Every {
        /// So many changes may wait. A batch of changes that came together is never split, so there may be a few more.
        bound: usize,
        /// What happens then.
        when_full: WhenFull,
    },
    /// Every single change; while `bound` or more wait, the reflector reads no further from its watch.
    ///
    /// One subscriber so slows down all, and a server ends watches that are not read. For mirrors that must see
    /// everything and are known to be quick.
    Block {
        /// So many changes may wait. A batch of changes that came together is never split, so there may be a few more.
        bound: usize,
    },
}

impl Default for Policy {
    fn default() -> Self {
        Self::Merge(ShortLived::Cancel)
    }
}

/// What becomes of an object that was added and deleted before the subscriber heard of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ShortLived {
    /// The subscriber never hears of it.
    #[default]
    Cancel,
    /// It is delivered as added and deleted; of several under one name, the last. This takes memory for objects that
    /// are no more, until they are taken.
    Deliver,
}

/// What happens when too many changes wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhenFull {
    /// They are merged per key until the subscriber has caught up, as with [`Policy::Merge`] and
    /// [`ShortLived::Cancel`].
    #[default]
    Merge,
    /// What waits is dropped, and the subscription ends with [`Ended::Lagged`](super::Ended::Lagged).
    End,
}
