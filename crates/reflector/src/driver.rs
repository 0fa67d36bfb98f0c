//! The task of a reflector: carries out the orders of the protocol, and reports what came of them.
//!
//! It decides nothing. One turn is: take one fact (a part of an answer, the passing of a deadline, the wish to stop),
//! tell the machine, carry out its orders, show the new status. Orders are carried out at once: a request is made by
//! storing its future, which the next turns poll, so that dropping it is all it takes to cancel it.

use std::{
    future::{pending, poll_fn},
    sync::Arc,
    task::Poll,
};

use futures::{FutureExt, StreamExt, future::BoxFuture};
use tokio::{
    sync::watch,
    time::{Instant, sleep_until},
};
use tracing::{debug, info, warn};

use crate::{
    Change, Object, ResourceVersion, Store, StoreError,
    metrics::Metrics,
    prepare::Preparation,
    protocol::{
        CheckResult, Disposition, ErrorReport, EventKind, Failure, Machine, Order, Phase, Status, Time,
    },
    source::{ListOptions, ListPart, ListStream, ListWatch, WatchOptions, WatchStream, refused},
    wire::{EventType, InvalidObject, ListItem, ListMeta, WatchEvent},
};

/// What the error handler wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Control {
    /// Go on as the protocol says.
    Continue,
    /// End the reflector. What is in the store stays.
    Stop,
}

pub(crate) type ErrorHandler = Box<dyn FnMut(&ErrorReport) -> Control + Send>;
pub(crate) type ResyncPredicate = Box<dyn FnMut() -> bool + Send>;

/// A reflector that runs: everything that its task owns.
pub(crate) struct Driver<K, L, S> {
    pub(crate) source: Arc<L>,
    pub(crate) store: S,
    pub(crate) machine: Machine,
    pub(crate) on_error: ErrorHandler,
    pub(crate) resync_if: ResyncPredicate,
    pub(crate) status: watch::Sender<Status>,
    pub(crate) metrics: Metrics,
    pub(crate) preparation: Arc<Preparation<K>>,
    /// The origin of the machine's time.
    pub(crate) started: Instant,
    pub(crate) main: Main<K>,
    pub(crate) second: Second<K>,
    /// A replacement is under way: what comes is staged.
    pub(crate) replacing: bool,
    /// Get fresh credentials before the next request.
    pub(crate) refresh: bool,
    /// How many objects and events were passed over since the last request.
    pub(crate) passed_over: u32,
    /// The last order ever was carried out.
    pub(crate) stopped: bool,
}

impl<K, L, S> Drop for Driver<K, L, S> {
    /// However it ends, also by a panic of the store or of a handler: nobody is to wait for a reflector that is gone.
    fn drop(&mut self) {
        self.metrics.waits(false);
        self.status.send_if_modified(|status| {
            let running = status.phase != Phase::Stopped;
            status.phase = Phase::Stopped;
            running
        });
    }
}

/// The request that matters.
#[derive(Default)]
pub(crate) enum Main<K> {
    #[default]
    None,
    Listing(BoxFuture<'static, Result<ListStream<K>, Failure>>),
    List(ListStream<K>),
    Opening(BoxFuture<'static, Result<WatchStream<K>, Failure>>),
    Watch(WatchStream<K>),
}

/// The request beside it.
#[derive(Default)]
pub(crate) enum Second<K> {
    #[default]
    None,
    Check(BoxFuture<'static, CheckResult>),
    Reopen(BoxFuture<'static, Result<WatchStream<K>, Failure>>),
}

/// One fact about the main request.
enum Fact<K> {
    ListOpened(ListStream<K>),
    ListPart(ListPart<K>),
    ListFailed(Failure),
    WatchOpened(WatchStream<K>),
    WatchFailed(Failure),
    Events(Vec<WatchEvent<K>>),
    Ended,
    Broken(Failure),
}

/// One fact about the second request.
enum SecondFact<K> {
    Checked(CheckResult),
    Reopened(Result<WatchStream<K>, Failure>),
}

impl<K> Main<K> {
    /// The next fact. Cancel-safe: what is under way stays in `self`.
    async fn next(&mut self) -> Fact<K> {
        match self {
            Self::None => pending().await,
            Self::Listing(request) => match request.await {
                Ok(list) => Fact::ListOpened(list),
                Err(failure) => Fact::ListFailed(failure),
            },
            Self::List(list) => match list.next().await {
                Some(Ok(part)) => Fact::ListPart(part),
                Some(Err(failure)) => Fact::ListFailed(failure),
                None => Fact::ListFailed(Failure::malformed("the list ended before it was complete")),
            },
            Self::Opening(request) => match request.await {
                Ok(watch) => Fact::WatchOpened(watch),
                Err(failure) => Fact::WatchFailed(failure),
            },
            Self::Watch(watch) => match watch.next().await {
                Some(Ok(events)) => Fact::Events(events),
                Some(Err(failure)) => Fact::Broken(failure),
                None => Fact::Ended,
            },
        }
    }
}

impl<K> Second<K> {
    async fn next(&mut self) -> SecondFact<K> {
        match self {
            Self::None => pending().await,
            Self::Check(request) => SecondFact::Checked(request.await),
            Self::Reopen(request) => SecondFact::Reopened(request.await),
        }
    }
}

impl<K, L, S> Driver<K, L, S>
where
    K: Send + 'static,
    L: ListWatch<K>,
    S: Store<K>,
{
    /// Runs until the protocol stops. `stop` ends it from outside.
    pub(crate) async fn run(mut self, mut stop: watch::Receiver<bool>) {
        self.machine.start(Time::ZERO);
        while self.carry_out() {
            let deadline = self.machine.poll_timeout().map(|(at, _)| at);
            tokio::select! {
                // A handle that is gone cannot be asked any more, so nobody wants the copy.
                _ = stop.wait_for(|stop| *stop) => self.machine.handle_stop(),
                fact = next(&mut self.store, &mut self.main, self.replacing, &self.metrics) => self.take(fact),
                fact = self.second.next() => self.take_second(fact),
                () = sleep_until_time(self.started, deadline) => {}
            }
            // After every fact: a stream that always has something ready must not keep a deadline from passing.
            self.machine.handle_timeout(self.now());
        }
    }

    fn now(&self) -> Time {
        self.started.elapsed()
    }

    /// Carries out all orders; `false` after the last one ever. Shows the status.
    fn carry_out(&mut self) -> bool {
        while let Some(order) = self.machine.poll_order() {
            match order {
                Order::Refresh => self.refresh = true,
                Order::List(options) => self.main = Main::Listing(self.list(options)),
                Order::Watch(options) => self.main = Main::Opening(self.watch(options)),
                Order::Check(options) => self.second = Second::Check(check(self.list(options))),
                Order::Reopen(options) => self.second = Second::Reopen(self.watch(options)),
                Order::Close => self.main = Main::None,
                Order::CloseSecond => self.second = Second::None,
                Order::BeginReplace { reason, method, history } => {
                    self.metrics.sync(reason, self.machine.counts().relists);
                    debug!(reason = reason.as_str(), ?method, "reading the collection");
                    self.replacing = true;
                    self.store.begin_replace(history);
                }
                Order::CommitReplace { version } => {
                    self.replacing = false;
                    self.commit(version.as_ref());
                }
                Order::AbandonReplace => {
                    self.replacing = false;
                    self.store.abandon_replace();
                }
                Order::Bookmark(version) => self.store.bookmark(&version),
                Order::Resync => self.resync(),
                Order::Report(report) => self.report(&report),
                Order::Stopped => self.stopped = true,
            }
        }
        let status = self.machine.status();
        self.metrics.show(&status, self.store.object_count());
        self.status.send_replace(status);
        !self.stopped
    }

    fn list(&mut self, options: ListOptions) -> BoxFuture<'static, Result<ListStream<K>, Failure>> {
        self.passed_over = 0;
        self.metrics.list();
        debug!(version = ?options.version, limit = ?options.limit, page = options.continue_token.is_some(), "list");
        let (source, preparation) = (Arc::clone(&self.source), Arc::clone(&self.preparation));
        let refresh = std::mem::take(&mut self.refresh);
        async move {
            if refresh {
                source.refresh().await;
            }
            // What comes is prepared before anything else sees it, and once (ST-4, Q-4).
            Ok(preparation.list(source.list(options).await?))
        }
        .boxed()
    }

    fn watch(&mut self, options: WatchOptions) -> BoxFuture<'static, Result<WatchStream<K>, Failure>> {
        self.passed_over = 0;
        self.metrics.watch();
        debug!(version = ?options.version, streaming = options.send_initial_events.is_some(), "watch");
        let (source, preparation) = (Arc::clone(&self.source), Arc::clone(&self.preparation));
        let refresh = std::mem::take(&mut self.refresh);
        async move {
            if refresh {
                source.refresh().await;
            }
            let initial = options.send_initial_events == Some(true);
            Ok(preparation.watch(source.watch(options).await?, initial))
        }
        .boxed()
    }

    fn take(&mut self, fact: Fact<K>) {
        let now = self.now();
        match fact {
            Fact::ListOpened(list) => {
                self.main = Main::List(list);
                self.machine.handle_progress(now);
            }
            Fact::ListPart(ListPart::Items(items)) => self.stage_page(now, items),
            Fact::ListPart(ListPart::End(end)) => self.end_page(now, end),
            Fact::ListFailed(failure) => {
                self.main = Main::None;
                self.machine.handle_list_failed(now, failure);
            }
            Fact::WatchOpened(watch) => {
                self.main = Main::Watch(watch);
                self.machine.handle_watch_opened(now);
            }
            Fact::WatchFailed(failure) => {
                self.main = Main::None;
                self.machine.handle_watch_failed(now, failure);
            }
            Fact::Events(events) => self.take_events(now, events),
            Fact::Ended => {
                self.main = Main::None;
                self.machine.handle_stream_ended(now);
            }
            Fact::Broken(failure) => {
                self.main = Main::None;
                self.machine.handle_stream_broken(now, failure);
            }
        }
    }

    fn take_second(&mut self, fact: SecondFact<K>) {
        self.second = Second::None;
        let now = self.now();
        match fact {
            SecondFact::Checked(result) => self.machine.handle_checked(now, result),
            SecondFact::Reopened(Ok(watch)) => {
                self.main = Main::Watch(watch);
                self.machine.handle_reopened(now);
            }
            SecondFact::Reopened(Err(failure)) => self.machine.handle_reopen_failed(now, failure),
        }
    }

    fn stage_page(&mut self, now: Time, items: Vec<ListItem<K>>) {
        self.machine.handle_progress(now);
        let mut changes = Vec::with_capacity(items.len());
        for item in items {
            match item {
                ListItem::Object(object) => changes.push(Change::Upsert(object)),
                ListItem::Invalid(invalid) => self.invalid(now, &invalid),
            }
        }
        let staged = self.store.stage(changes);
        self.check_store(now, staged);
    }

    fn end_page(&mut self, now: Time, end: ListMeta) {
        self.main = Main::None;
        self.machine.handle_page(now, end.version, end.continue_token);
    }

    /// Events are applied in batches: one for what came together, cut where something else than a change comes.
    fn take_events(&mut self, now: Time, events: Vec<WatchEvent<K>>) {
        self.machine.handle_progress(now);
        let mut batch = Batch { disposition: Disposition::Drop, changes: Vec::new() };
        for event in events {
            let (kind, change) = match event {
                WatchEvent::Added(object) => (EventKind::Added, Change::Upsert(object)),
                WatchEvent::Modified(object) => (EventKind::Modified, Change::Upsert(object)),
                WatchEvent::Deleted(object) => (EventKind::Deleted, Change::Delete(object)),
                other => {
                    self.flush(now, &mut batch);
                    self.take_sign(now, other);
                    if !self.carry_out() || !matches!(self.main, Main::Watch(_)) {
                        return;
                    }
                    continue;
                }
            };
            self.metrics.event(kind);
            let (Change::Upsert(object) | Change::Delete(object)) = &change;
            let disposition = self.machine.handle_event(now, kind, object.version());
            if disposition != batch.disposition {
                self.flush(now, &mut batch);
                batch.disposition = disposition;
            }
            batch.changes.push(change);
        }
        self.flush(now, &mut batch);
    }

    /// An event that is no change of an object.
    fn take_sign(&mut self, now: Time, event: WatchEvent<K>) {
        match event {
            WatchEvent::Bookmark { version, initial_events_end } => {
                self.metrics.bookmark();
                self.machine.handle_bookmark(now, version.as_ref(), initial_events_end);
            }
            WatchEvent::Error(status) => {
                self.main = Main::None;
                self.machine.handle_stream_error(now, refused(&status, None));
            }
            WatchEvent::Invalid(invalid) => {
                self.invalid(now, &invalid);
                if invalid.event == Some(EventType::Deleted) {
                    self.delete_unread(now, *invalid);
                }
            }
            // RF-41 logs and goes on; so does this, but what is not understood is no progress.
            WatchEvent::Unknown(kind) if self.is_loud() => {
                warn!(%kind, "passing over an event of an unknown type");
            }
            WatchEvent::Unknown(kind) => debug!(%kind, "passing over an event of an unknown type"),
            WatchEvent::Added(_) | WatchEvent::Modified(_) | WatchEvent::Deleted(_) => {}
        }
    }

    /// A deletion whose object cannot be read is a deletion all the same; where not even the name can be read, only
    /// reading everything tells what is gone.
    fn delete_unread(&mut self, now: Time, invalid: InvalidObject) {
        let Some(key) = invalid.key.clone() else {
            return self.machine.handle_store_failed(now, "a deletion does not say of what");
        };
        let object = Object::unread(key, invalid);
        let disposition = self.machine.handle_event(now, EventKind::Deleted, object.version());
        let changes = vec![Change::Delete(object)];
        self.flush(now, &mut Batch { disposition, changes });
    }

    fn flush(&mut self, now: Time, batch: &mut Batch<K>) {
        let changes = std::mem::take(&mut batch.changes);
        if changes.is_empty() {
            return;
        }
        let result = match batch.disposition {
            Disposition::Apply => self.store.apply(changes, self.machine.version()),
            Disposition::Stage => self.store.stage(changes),
            Disposition::Drop => Ok(()),
        };
        self.check_store(now, result);
    }

    fn commit(&mut self, version: Option<&ResourceVersion>) {
        let committed = self.store.commit_replace(version);
        debug!(?version, "the collection is complete");
        if let Err(error) = committed {
            self.machine.handle_commit_failed(self.now(), error.to_string());
        }
    }

    fn resync(&mut self) {
        if (self.resync_if)() {
            let resynced = self.store.resync();
            self.check_store(self.now(), resynced);
        }
    }

    fn check_store(&mut self, now: Time, result: Result<(), StoreError>) {
        if let Err(error) = result {
            self.machine.handle_store_failed(now, error.to_string());
        }
    }

    fn invalid(&mut self, now: Time, invalid: &InvalidObject) {
        self.metrics.invalid();
        if self.is_loud() {
            warn!(%invalid, "passing over an object that cannot be kept");
        } else {
            debug!(%invalid, "passing over an object that cannot be kept");
        }
        self.machine.handle_invalid(now);
    }

    /// Whether something that is passed over is worth a warning: a broken server may send millions of them.
    fn is_loud(&mut self) -> bool {
        self.passed_over = self.passed_over.saturating_add(1);
        if self.passed_over == LOUD_MAX + 1 {
            warn!("more is passed over in the same answer, and told at debug level only");
        }
        self.passed_over <= LOUD_MAX
    }

    fn report(&mut self, report: &ErrorReport) {
        self.metrics.error(report.class);
        if report.first {
            warn!(class = report.class.as_str(), retry_in = ?report.retry_in, "{report}");
        } else {
            debug!(class = report.class.as_str(), attempt = report.attempt, retry_in = ?report.retry_in, "{report}");
        }
        if (self.on_error)(report) == Control::Stop {
            info!("the error handler stops the reflector");
            self.machine.handle_stop();
        }
    }
}

/// So many objects and events of one answer are passed over loudly.
const LOUD_MAX: u32 = 20;

/// Changes that go to the same place.
struct Batch<K> {
    disposition: Disposition,
    changes: Vec<Change<K>>,
}

/// The next fact of the main request; the next changes once the store has room for them. What is staged needs none, and a
/// request that is made goes on: the server is not to be blamed for whoever holds up the store.
async fn next<K, S: Store<K>>(
    store: &mut S,
    main: &mut Main<K>,
    replacing: bool,
    metrics: &Metrics,
) -> Fact<K> {
    let needs_room = matches!(main, Main::Watch(_)) && !replacing;
    poll_fn(|cx| {
        let room = if needs_room { store.poll_ready(cx) } else { Poll::Ready(()) };
        metrics.waits(room.is_pending());
        room
    })
    .await;
    main.next().await
}

/// Lists one object for the version of the collection.
fn check<K: 'static>(
    list: BoxFuture<'static, Result<ListStream<K>, Failure>>,
) -> BoxFuture<'static, CheckResult> {
    async move {
        let mut list = list.await?;
        while let Some(part) = list.next().await {
            if let ListPart::End(end) = part? {
                return Ok(end.version);
            }
        }
        Err(Failure::malformed("the list ended before it was complete"))
    }
    .boxed()
}

/// Sleeps until a time of the machine; for ever if there is none, or if it is beyond what a clock can show.
async fn sleep_until_time(started: Instant, at: Option<Time>) {
    match at.and_then(|at| started.checked_add(at)) {
        Some(at) => sleep_until(at).await,
        None => pending().await,
    }
}
