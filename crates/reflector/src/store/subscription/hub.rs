//! Who listens to a cache.

use std::{
    sync::Arc,
    task::{Context, Poll, Waker},
};

use super::{
    super::{root::Root, step::Step},
    Options,
    queue::Queue,
};

/// What a publication brings.
pub(in super::super) struct News<K> {
    steps: Arc<[Step<K>]>,
    kind: Kind,
}

enum Kind {
    Steps,
    /// Everything is new, and was not spelled out in steps.
    First,
    Bookmark,
    /// Of one namespace, or of all.
    Resync(Option<Arc<str>>),
}

impl<K> News<K> {
    fn of(kind: Kind) -> Self {
        Self { steps: Arc::new([]), kind }
    }

    pub(in super::super) fn none() -> Self {
        Self::of(Kind::Steps)
    }

    pub(in super::super) fn first() -> Self {
        Self::of(Kind::First)
    }

    pub(in super::super) fn bookmark() -> Self {
        Self::of(Kind::Bookmark)
    }

    pub(in super::super) fn resync(namespace: Option<&str>) -> Self {
        Self::of(Kind::Resync(namespace.map(Into::into)))
    }

    pub(in super::super) fn steps(steps: Arc<[Step<K>]>) -> Self {
        Self { steps, kind: Kind::Steps }
    }
}

/// The queues of all subscribers.
pub(in super::super) struct Hub<K> {
    queues: Vec<Arc<Queue<K>>>,
    /// Latched: namespaces that join later do not undo it.
    synced: bool,
    closed: bool,
}

impl<K> Default for Hub<K> {
    fn default() -> Self {
        Self { queues: Vec::new(), synced: false, closed: false }
    }
}

impl<K> Hub<K> {
    /// Brings news to everybody; gives whom to wake, after the lock.
    pub(in super::super) fn publish(&mut self, root: &Arc<Root<K>>, news: News<K>) -> Vec<Waker> {
        let now_synced = !self.synced && root.is_synced();
        self.synced |= now_synced;
        let News { steps, kind } = news;
        let mut awake = Vec::new();
        for queue in &self.queues {
            awake.extend(match &kind {
                Kind::Steps if steps.is_empty() => None,
                Kind::Steps => queue.push_steps(&steps),
                Kind::First => queue.push_first(root),
                Kind::Bookmark => root.version().and_then(|version| queue.push_bookmark(version)),
                Kind::Resync(of) if queue.wants_resyncs() => queue.push_resync(root, of.as_ref()),
                Kind::Resync(_) => None,
            });
            if now_synced {
                awake.extend(queue.push_synced());
            }
        }
        awake
    }

    /// Nobody writes any more.
    pub(in super::super) fn close(&mut self) -> Vec<Waker> {
        self.closed = true;
        self.queues.iter().filter_map(|queue| queue.end()).collect()
    }

    /// Adds a subscriber, which finds `root` and gets everything that is published after it.
    pub(super) fn join(&mut self, options: Options, root: Arc<Root<K>>) -> Arc<Queue<K>> {
        let queue = Arc::new(Queue::new(options, root, self.synced, self.closed));
        self.queues.push(Arc::clone(&queue));
        queue
    }

    pub(super) fn leave(&mut self, queue: &Arc<Queue<K>>) {
        self.queues.retain(|other| !Arc::ptr_eq(other, queue));
        if self.queues.capacity() > 64 && self.queues.len() < self.queues.capacity() / 4 {
            self.queues.shrink_to_fit();
        }
    }

    pub(in super::super) fn subscribers(&self) -> usize {
        self.queues.len()
    }

    /// Whether every subscriber that may block the writer has room.
    pub(in super::super) fn poll_room(&self, cx: &mut Context<'_>) -> Poll<()> {
        if self.queues.iter().all(|queue| queue.poll_room(cx).is_ready()) {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    }
}
