//! Those who follow a cache: each of them once as a subscription and once as a handler of an informer.

use std::{
    future::Future,
    pin::Pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use futures::{Stream, future::poll_fn, task::noop_waker};
use reflector::{
    Cache, Event, EventHandler, Object, Registration, ResourceVersion, Subscription,
    informer::{HandlerOptions, HandlerState, Handlers},
    store::{Ended, Policy, ShortLived, Subscribe, WhenFull},
};
use tokio::runtime::{Builder, Runtime};

use crate::{
    cluster::{connection::Body, object::KEYS},
    copy::{Folded, selector},
    plan::{Follower, Queue},
};

/// What somebody made of what he was told, event by event.
#[derive(Default)]
pub(crate) struct Told {
    pub(crate) folded: Folded,
    /// The version that the last bookmark told.
    bookmark: Option<ResourceVersion>,
    synced: bool,
    /// The first event that did not fit what was known.
    wrong: Option<String>,
}

impl Told {
    fn fold(&mut self, event: Event<Body>) {
        let key = event.object().map(|object| object.key().clone());
        let held = key.as_ref().and_then(|key| self.folded.get(key));
        let fits = |old: &Object<Body>| held.is_some_and(|held| held.ptr_eq(old) || held.same_revision(old));
        let right = match &event {
            Event::Added { initial, .. } => held.is_none() && *initial != self.synced,
            // Two objects under one name are two events.
            Event::Updated { old, new } => fits(old) && old.uid() == new.uid(),
            Event::Deleted { last, .. } => held.is_some_and(|held| held.uid() == last.uid()),
            Event::Resync(object) => fits(object),
            Event::Synced => !std::mem::replace(&mut self.synced, true),
            Event::Bookmark(version) => {
                self.bookmark = Some(version.clone());
                true
            }
            _ => true,
        };
        if !right && self.wrong.is_none() {
            self.wrong = Some(format!("is told {event:?}, and knows {held:?}"));
        }
        match (event, key) {
            (Event::Added { object, .. } | Event::Updated { new: object, .. }, Some(key)) => {
                self.folded.insert(key, object);
            }
            (Event::Deleted { .. }, Some(key)) => {
                self.folded.remove(&key);
            }
            _ => {}
        }
    }

    fn check(&self) -> Result<(), String> {
        self.wrong.clone().map_or(Ok(()), Err)
    }
}

/// One who follows.
pub(crate) struct Following {
    pub(crate) subscription: Option<Subscription<Body>>,
    pub(crate) told: Told,
    pub(crate) handler: Handling,
    pub(crate) options: Follower,
    pub(crate) looks: bool,
    /// It was dropped since it was too slow, as its policy says.
    pub(crate) ended: bool,
}

impl Following {
    pub(crate) fn new(cache: &Cache<Body>, options: Follower) -> Self {
        let policy = match options.queue {
            Queue::Merge => Policy::Merge(ShortLived::Cancel),
            Queue::Deliver => Policy::Merge(ShortLived::Deliver),
            Queue::Every(bound) => Policy::Every { bound, when_full: WhenFull::Merge },
            Queue::End(bound) => Policy::Every { bound, when_full: WhenFull::End },
            Queue::Block(bound) => Policy::Block { bound },
        };
        let mut subscribe = cache.subscription().policy(policy).bookmarks().resyncs();
        let mut asked = HandlerOptions::new().policy(policy).subscription(Subscribe::bookmarks);
        if options.filtered {
            subscribe = subscribe.labels(selector());
            asked = asked.subscription(|subscribe| subscribe.labels(selector()));
        }
        Self {
            subscription: Some(subscribe.subscribe()),
            told: Told::default(),
            handler: Handling::new(cache, asked),
            options,
            looks: false,
            ended: false,
        }
    }

    /// Whether something waits for it.
    pub(crate) fn has_more(&self) -> bool {
        let waits = |subscription: &Subscription<Body>| {
            let lag = subscription.lag();
            lag.waiting > 0 || lag.present > 0 || subscription.ended().is_some()
        };
        self.subscription.as_ref().is_some_and(waits) || self.handler.has_more()
    }

    /// It takes up to `most` events. Says whether there may be more.
    ///
    /// # Errors
    ///
    /// What does not fit what it was told before.
    pub(crate) fn look(&mut self, most: usize) -> Result<bool, String> {
        let more = self.take(most);
        self.told.check()?;
        Ok(self.handler.run(most).map_err(|error| format!("as a handler: {error}"))? | more)
    }

    fn take(&mut self, most: usize) -> bool {
        let waker = noop_waker();
        let mut cx = Context::from_waker(&waker);
        for _ in 0..most {
            let Some(subscription) = &mut self.subscription else { return false };
            match Pin::new(&mut *subscription).poll_next(&mut cx) {
                Poll::Ready(Some(event)) => self.told.fold(event),
                Poll::Ready(None) => {
                    self.ended = subscription.ended() == Some(Ended::Lagged);
                    self.subscription = None;
                    return false;
                }
                Poll::Pending => return false,
            }
        }
        true
    }

    /// It does not want to be told any more.
    ///
    /// # Errors
    ///
    /// If the handler does not end.
    pub(crate) fn leave(&mut self) -> Result<(), String> {
        self.subscription = None;
        self.handler.leave()
    }

    /// The most that may wait for it.
    pub(crate) fn bound(&self) -> usize {
        let keys = usize::from(KEYS);
        // Changes are put in line by whoever looks, or by the writer when there are more than this. Besides objects there
        // are signs in line: the sync, and the last bookmark. And what was there at the start is told by and by.
        let unsorted = 1024;
        let few = keys + unsorted + 4;
        match self.options.queue {
            Queue::Merge => keys + few,
            Queue::Deliver => 2 * keys + few,
            // One batch is never split.
            Queue::Every(bound) | Queue::End(bound) | Queue::Block(bound) => bound + 8 * keys + few,
        }
    }

    /// How long it may let its events wait.
    pub(crate) fn slowness(&self) -> Duration {
        Duration::from_millis(self.options.slowness)
    }

    /// It is quick from now on.
    pub(crate) fn hurry(&mut self) {
        self.options.slowness = 0;
    }
}

/// A handler of an informer, called by hand.
pub(crate) struct Handling {
    pub(crate) registration: Registration,
    handlers: Handlers<Body>,
    /// The future of the handler, until that has ended.
    run: Option<Pin<Box<dyn Future<Output = usize>>>>,
    shared: Arc<Shared>,
}

/// What a handler and who looks at it have in common.
#[derive(Default)]
struct Shared {
    told: Mutex<Told>,
    /// So many events it may take before it waits again.
    allowed: AtomicUsize,
}

impl Shared {
    fn told(&self) -> MutexGuard<'_, Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether one more event may be taken.
    fn allows(&self) -> bool {
        let less = |allowed: usize| allowed.checked_sub(1);
        self.allowed.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok()
    }
}

/// As slow as it is told to be.
struct Handler(Arc<Shared>);

impl EventHandler<Body> for Handler {
    async fn on_event(&mut self, event: Event<Body>) {
        poll_fn(|_| if self.0.allows() { Poll::Ready(()) } else { Poll::Pending }).await;
        self.0.told().fold(event);
    }
}

thread_local! {
    /// Handlers need a clock, to see that they are slow. It is never driven, so nothing ever comes of it.
    static CLOCK: Option<Runtime> = Builder::new_current_thread().enable_time().build().ok();
}

impl Handling {
    fn new(cache: &Cache<Body>, options: HandlerOptions<Body>) -> Self {
        let shared = Arc::<Shared>::default();
        let handlers = Handlers::new("sim", cache);
        let (registration, run) = handlers.add(Handler(Arc::clone(&shared)), options);
        Self { registration, handlers, run: Some(Box::pin(run)), shared }
    }

    fn has_more(&self) -> bool {
        let lag = self.registration.lag();
        self.run.is_some() && lag.is_none_or(|lag| lag.waiting > 0 || lag.present > 0)
    }

    /// It takes up to `most` events. Says whether there may be more.
    fn run(&mut self, most: usize) -> Result<bool, String> {
        self.shared.allowed.store(most, Ordering::Relaxed);
        self.poll()?;
        let told = self.shared.told();
        told.check()?;
        let (synced, known) = (self.registration.is_synced(), told.synced);
        if synced != known {
            return Err(format!("is told that it is in sync: {known}; its registration says {synced}"));
        }
        Ok(self.run.is_some() && self.shared.allowed.load(Ordering::Relaxed) == 0)
    }

    fn poll(&mut self) -> Result<(), String> {
        let Some(run) = &mut self.run else { return Ok(()) };
        let waker = noop_waker();
        let mut cx = Context::from_waker(&waker);
        let polled = CLOCK.with(|clock| {
            let _inside = clock.as_ref().map(Runtime::enter);
            run.as_mut().poll(&mut cx)
        });
        if polled.is_ready() {
            self.run = None;
        }
        let (ended, state) = (self.run.is_none(), self.registration.state());
        if ended == (state == HandlerState::Running) {
            return Err(format!("its registration says {state:?}, and its task has ended: {ended}"));
        }
        Ok(())
    }

    fn leave(&mut self) -> Result<(), String> {
        self.registration.remove();
        self.end("removed")
    }

    /// Ends with the informer.
    ///
    /// # Errors
    ///
    /// If it does not end.
    pub(crate) fn stop(&mut self) -> Result<(), String> {
        self.handlers.stop();
        self.end("stopped")
    }

    /// The call in hand is completed, and no other comes.
    fn end(&mut self, how: &str) -> Result<(), String> {
        self.shared.allowed.store(1, Ordering::Relaxed);
        self.poll()?;
        match &self.run {
            None => Ok(()),
            Some(_) => Err(format!("the handler was {how}, and goes on: {:?}", self.registration)),
        }
    }

    /// What it knows, as long as it runs.
    pub(crate) fn told(&self) -> Option<MutexGuard<'_, Told>> {
        self.run.is_some().then(|| self.shared.told())
    }
}
