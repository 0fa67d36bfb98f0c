//! Following a cache: what is there, and then every change, without a gap and without a duplicate.
//!
//! A subscriber joins under the lock under which roots are published. So it finds one root, and gets exactly the steps
//! that follow it. The root itself is walked through lazily: joining costs the same however many objects there are,
//! and delays nobody.

mod event;
mod hub;
mod pending;
mod policy;
mod queue;
mod walk;

use std::{
    collections::VecDeque,
    fmt,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use futures::Stream;

use super::{Cache, aftermath::Aftermath, root::Shared};
use crate::{FieldSelector, LabelSelector, Object};

pub use event::Event;
use event::Filter;
pub(super) use hub::{Hub, News};
pub(super) use pending::Line;
pub use policy::{Policy, ShortLived, WhenFull};
pub use queue::Ended;
use queue::{Item, Queue};
pub(super) use walk::Walk;

/// So many items may be filtered out before other tasks have their turn.
const FILTERED_MAX: usize = 128;

/// What the writer has to know of a subscriber.
#[derive(Clone, Default)]
struct Options {
    policy: Policy,
    namespace: Option<Arc<str>>,
    bookmarks: bool,
    resyncs: bool,
}

/// How far behind a subscriber is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Lag {
    /// Changes that wait.
    pub waiting: usize,
    /// Objects of the content at the start that are still to be told, at the most.
    pub present: usize,
    /// Changes that were merged into others, since the start.
    pub merged: u64,
}

/// Describes a subscription before it begins. See [`Cache::subscription`].
#[must_use = "nothing happens before `subscribe`"]
pub struct Subscribe<K> {
    shared: Arc<Shared<K>>,
    options: Options,
    filter: Filter<K>,
}

impl<K> Cache<K> {
    /// Follows the cache from now on: its content first, then every change.
    ///
    /// Changes are merged per object while they wait ([`Policy::Merge`]); [`subscription`](Self::subscription) has
    /// the other choices.
    ///
    /// ```
    /// use futures::StreamExt;
    /// use reflector::{Cache, Change, Object, Store, store::Event};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let (cache, mut writer) = Cache::<serde_json::Value>::new();
    /// let mut changes = cache.subscribe();
    /// let cart = Object::from_json(r#"{"metadata":{"namespace":"shop","name":"cart","uid":"1","resourceVersion":"5"}}"#)?;
    /// writer.stage(vec![Change::Upsert(cart)])?;
    /// writer.commit_replace(None)?;
    ///
    /// assert!(matches!(changes.next().await, Some(Event::Added { initial: true, .. })));
    /// assert!(matches!(changes.next().await, Some(Event::Synced)));
    /// drop(writer);
    /// assert!(changes.next().await.is_none());
    /// # Ok(()) }
    /// ```
    pub fn subscribe(&self) -> Subscription<K> {
        self.subscription().subscribe()
    }

    /// Describes a subscription.
    pub fn subscription(&self) -> Subscribe<K> {
        Subscribe {
            shared: Arc::clone(&self.shared),
            options: Options::default(),
            filter: Filter { predicates: Vec::new(), changed: Vec::new() },
        }
    }

    /// How many subscriptions there are.
    #[must_use]
    pub fn subscribers(&self) -> usize {
        self.shared.hub().subscribers()
    }
}

impl<K> Subscribe<K> {
    /// How changes wait for the subscriber.
    pub fn policy(mut self, policy: Policy) -> Self {
        self.options.policy = policy;
        self
    }

    /// Only objects of one namespace; of none, if it is empty. Changes of others do not even wake the subscriber.
    pub fn namespace(mut self, namespace: &str) -> Self {
        self.options.namespace = Some(namespace.into());
        self
    }

    /// Only objects that the predicate wants; with several, that all of them want. An object that comes to be wanted is
    /// told as added, one that ceases to be as deleted (CT-11).
    ///
    /// It must always answer the same for the same object, and runs in the subscriber's task. An
    /// object for which it panics is not wanted.
    pub fn filter(mut self, wants: impl Fn(&Object<K>) -> bool + Send + Sync + 'static) -> Self {
        self.filter.predicates.push(Box::new(wants));
        self
    }

    /// Only objects that a label selector selects. See [`filter`](Self::filter).
    pub fn labels(self, selector: LabelSelector) -> Self {
        self.filter(move |object| selector.matches(object.meta()))
    }

    /// Only objects that a field selector selects. See [`filter`](Self::filter).
    pub fn fields(self, selector: FieldSelector) -> Self {
        self.filter(move |object| selector.matches(object))
    }

    /// Only updates where this part of the object has changed; with several, where any has. Objects that are added
    /// and deleted are told as ever. The `old` of an update is what was there before it, which is not what was told
    /// before where updates in between were left out.
    pub fn changed<T: PartialEq>(mut self, part: impl Fn(&Object<K>) -> T + Send + Sync + 'static) -> Self {
        self.filter.changed.push(Box::new(move |old, new| part(old) != part(new)));
        self
    }

    /// Tell [`Event::Bookmark`].
    pub fn bookmarks(mut self) -> Self {
        self.options.bookmarks = true;
        self
    }

    /// Tell [`Event::Resync`] for every object, each time that the reflector resyncs
    /// ([`Builder::resync_every`](crate::Builder::resync_every)).
    pub fn resyncs(mut self) -> Self {
        self.options.resyncs = true;
        self
    }

    /// Begins. From here on nothing is missed.
    pub fn subscribe(self) -> Subscription<K> {
        let mut hub = self.shared.hub();
        let root = self.shared.root.load_full();
        let queue = hub.join(self.options, root);
        drop(hub);
        Subscription {
            shared: self.shared,
            queue,
            filter: self.filter,
            ready: VecDeque::new(),
            synced: false,
        }
    }
}

impl<K> fmt::Debug for Subscribe<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscribe").field("policy", &self.options.policy).finish_non_exhaustive()
    }
}

/// A stream of what happens in a cache. It ends when the reflector has ended and everything has been told, or see
/// [`WhenFull::End`]. Dropping it ends it at once, and frees everything.
#[must_use = "a subscription that is not read only takes memory"]
pub struct Subscription<K> {
    shared: Arc<Shared<K>>,
    queue: Arc<Queue<K>>,
    filter: Filter<K>,
    /// Events of the last item.
    ready: VecDeque<Event<K>>,
    synced: bool,
}

impl<K> Subscription<K> {
    /// How far behind this subscriber is.
    #[must_use]
    pub fn lag(&self) -> Lag {
        self.queue.lag()
    }

    /// A handle that shows the lag while the subscription is being read elsewhere.
    #[must_use]
    pub fn meter(&self) -> LagMeter<K> {
        LagMeter { queue: Arc::downgrade(&self.queue) }
    }

    /// Whether [`Event::Synced`] has been told.
    #[must_use]
    pub fn is_synced(&self) -> bool {
        self.synced
    }

    /// Why nothing more will be queued; `None` while more may come.
    #[must_use]
    pub fn ended(&self) -> Option<Ended> {
        self.queue.ended()
    }

    /// Tells every known object once more, as [`Event::Resync`], to this subscriber alone. Objects with a change in
    /// line are left out, since that comes anyway (DF-4). Does nothing before the sync.
    pub fn resync(&self) {
        let mut after = Aftermath::default();
        let hub = self.shared.hub();
        let root = self.shared.root.load_full();
        self.queue.resync(&root, None, &mut after);
        drop(hub);
        after.finish();
    }
}

impl<K> Stream for Subscription<K> {
    type Item = Event<K>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Event<K>>> {
        let this = self.get_mut();
        for _ in 0..FILTERED_MAX {
            if let Some(event) = this.ready.pop_front() {
                return Poll::Ready(Some(event));
            }
            let Some(item) = std::task::ready!(this.queue.poll_pop(cx)) else { return Poll::Ready(None) };
            this.synced |= matches!(item, Item::Synced);
            this.filter.events(item, this.synced, &mut this.ready);
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

impl<K> Unpin for Subscription<K> {}

impl<K> Drop for Subscription<K> {
    fn drop(&mut self) {
        self.shared.hub().leave(&self.queue);
        self.queue.abandon();
    }
}

impl<K> fmt::Debug for Subscription<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscription").field("synced", &self.synced).field("lag", &self.lag()).finish()
    }
}

/// Shows how far behind a subscriber is. Does not keep the subscription alive.
pub struct LagMeter<K> {
    queue: std::sync::Weak<Queue<K>>,
}

impl<K> LagMeter<K> {
    /// The lag; `None` once the subscription is gone.
    #[must_use]
    pub fn lag(&self) -> Option<Lag> {
        self.queue.upgrade().map(|queue| queue.lag())
    }
}

impl<K> Clone for LagMeter<K> {
    fn clone(&self) -> Self {
        Self { queue: self.queue.clone() }
    }
}

impl<K> fmt::Debug for LagMeter<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LagMeter").field("lag", &self.lag()).finish()
    }
}

#[cfg(all(test, feature = "shuttle"))]
mod shuttle_tests;
