//! Who listens to a cache.

use std::{
    collections::BTreeMap,
    sync::Arc,
    task::{Context, Poll},
};

use super::{
    super::{aftermath::Aftermath, root::Root, step::Step},
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
    /// Everything, or everything of a namespace, is new, and is not spelled out in steps.
    First(Option<Arc<str>>),
    /// A namespace was taken out.
    Gone(Arc<str>),
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

    pub(in super::super) fn first(namespace: Option<&Arc<str>>) -> Self {
        Self::of(Kind::First(namespace.cloned()))
    }

    pub(in super::super) fn bookmark() -> Self {
        Self::of(Kind::Bookmark)
    }

    pub(in super::super) fn resync(namespace: Option<&Arc<str>>) -> Self {
        Self::of(Kind::Resync(namespace.cloned()))
    }

    pub(in super::super) fn gone(namespace: &str, steps: Arc<[Step<K>]>) -> Self {
        Self { steps, kind: Kind::Gone(namespace.into()) }
    }

    pub(in super::super) fn steps(steps: Arc<[Step<K>]>) -> Self {
        Self { steps, kind: Kind::Steps }
    }
}

/// The queues of all subscribers.
pub(in super::super) struct Hub<K> {
    /// By the order of their coming.
    queues: BTreeMap<u64, Arc<Queue<K>>>,
    next: u64,
    synced: bool,
    closed: bool,
}

impl<K> Default for Hub<K> {
    fn default() -> Self {
        Self { queues: BTreeMap::new(), next: 0, synced: false, closed: false }
    }
}

impl<K> Hub<K> {
    /// Brings news to everybody.
    pub(in super::super) fn publish(
        &mut self,
        root: &Arc<Root<K>>,
        News { steps, kind }: &News<K>,
        after: &mut Aftermath<K>,
    ) {
        let now_synced = root.synced && !self.synced;
        self.synced = root.synced;
        for queue in self.queues.values() {
            match kind {
                Kind::Steps if steps.is_empty() => {}
                Kind::Steps => queue.push_steps(steps, after),
                Kind::First(namespace) => queue.push_first(root, namespace.as_ref(), after),
                Kind::Gone(namespace) => queue.push_gone(namespace, steps, after),
                Kind::Bookmark => queue.push_bookmark(root, after),
                Kind::Resync(namespace) => queue.push_resync(root, namespace.as_ref(), after),
            }
            if now_synced {
                queue.push_synced(after);
            }
        }
    }

    /// Nobody writes any more.
    pub(in super::super) fn close(&mut self, after: &mut Aftermath<K>) {
        self.closed = true;
        self.queues.values().for_each(|queue| queue.end(after));
    }

    /// Adds a subscriber, which finds `root` and gets everything that is published after it.
    pub(super) fn join(&mut self, options: Options, root: Arc<Root<K>>) -> Arc<Queue<K>> {
        let queue = Arc::new(Queue::new(self.next, options, root, self.closed));
        self.queues.insert(self.next, Arc::clone(&queue));
        self.next += 1;
        queue
    }

    pub(super) fn leave(&mut self, queue: &Queue<K>) {
        self.queues.remove(&queue.number);
    }

    pub(in super::super) fn subscribers(&self) -> usize {
        self.queues.len()
    }

    /// Whether every subscriber that may block the writer of a scope has room.
    pub(in super::super) fn poll_room(&self, namespace: Option<&Arc<str>>, cx: &mut Context<'_>) -> Poll<()> {
        if self.queues.values().all(|queue| queue.poll_room(namespace, cx).is_ready()) {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    }
}
