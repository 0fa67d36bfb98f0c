//! The driver without its runtime: carries out the orders of the machine, on a store and on whoever makes requests.
//!
//! It decides nothing, waits for nothing and knows no clock. So the same code runs under tokio, and in a simulator where
//! sockets and time are numbers.

use std::{
    fmt,
    task::{Context, Poll},
};

use tracing::{debug, info, warn};

use super::{Control, ErrorHandler, ResyncPredicate};
use crate::{
    Change, Object, ResourceVersion, Store, StoreError,
    metrics::Metrics,
    protocol::{
        CheckResult, Disposition, ErrorReport, EventKind, Failure, Machine, Order, Status, Time, Verb,
    },
    source::{ListOptions, ListPart, WatchOptions, refused},
    wire::{EventType, InvalidObject, ListItem, ListMeta, WatchEvent},
};

/// Whoever makes the requests of a [`Core`]: at most one *main* one at a time, beside at most one *second* one.
///
/// A method begins something, or drops it, and never waits. What comes of it is told to [`Core::handle`] later. After
/// [`close`](Self::close) nothing is told of the main request any more, and likewise for the second one.
pub trait Requests {
    /// Opens the main request: lists one page. With `refresh`, after getting fresh credentials.
    fn list(&mut self, options: ListOptions, refresh: bool);
    /// Opens the main request: watches. With `refresh`, after getting fresh credentials.
    fn watch(&mut self, options: WatchOptions, refresh: bool);
    /// Opens the second request: lists, and looks at nothing but the version.
    fn check(&mut self, options: ListOptions, refresh: bool);
    /// Opens the second request: watches. When it opens, it takes the place of the main one, before that is told.
    fn reopen(&mut self, options: WatchOptions, refresh: bool);
    /// Drops the main request, if one is open.
    fn close(&mut self);
    /// Drops the second request, if one is open.
    fn close_second(&mut self);
}

/// One thing that happened.
///
/// A failure, an end and the last part of a list end their request: it counts as closed, and nothing more is told of it.
pub enum Fact<K> {
    /// The list was answered with success.
    ListOpened,
    /// A part of the list came.
    ListPart(ListPart<K>),
    /// The list failed, before or after it opened.
    ListFailed(Failure),
    /// The watch was answered with success.
    WatchOpened,
    /// The watch was refused or not answered.
    WatchFailed(Failure),
    /// Events of the watch, as they came together.
    Events(Vec<WatchEvent<K>>),
    /// The watch ended cleanly.
    Ended,
    /// The watch broke off.
    Broken(Failure),
    /// What came of the check.
    Checked(CheckResult),
    /// The second watch opened; it is the main one now.
    Reopened,
    /// The second watch did not open.
    ReopenFailed(Failure),
    /// A deadline may have passed.
    TimePassed,
    /// The user wants an end.
    Stop,
}

/// A reflector without a runtime.
///
/// Give it every fact with its time, and sleep no longer than until [`deadline`](Self::deadline). Before events of the
/// main watch are taken from the network, ask [`poll_ready`](Self::poll_ready).
///
/// ```
/// use std::time::Duration;
/// use reflector::{
///     Cache,
///     driver::{Core, Fact, Requests},
///     protocol::{Failure, Machine, Options, Phase},
///     source::{ListOptions, WatchOptions},
/// };
///
/// /// Asks nobody, and counts.
/// #[derive(Default)]
/// struct Count(usize);
///
/// impl Requests for Count {
///     fn list(&mut self, _: ListOptions, _: bool) { self.0 += 1; }
///     fn watch(&mut self, _: WatchOptions, _: bool) { self.0 += 1; }
///     fn check(&mut self, _: ListOptions, _: bool) { self.0 += 1; }
///     fn reopen(&mut self, _: WatchOptions, _: bool) { self.0 += 1; }
///     fn close(&mut self) {}
///     fn close_second(&mut self) {}
/// }
///
/// let (_cache, writer) = Cache::<serde_json::Value>::new();
/// let mut core = Core::new(Machine::new(Options::default(), 42), writer, "letters");
/// let mut requests = Count::default();
/// core.start(Duration::ZERO, &mut requests);
/// let second = Duration::from_secs(1);
/// core.handle(second, Fact::WatchFailed(Failure::transport("no route")), &mut requests);
/// assert!(matches!(core.status().phase, Phase::Waiting { .. }) && requests.0 == 1);
/// let deadline = core.deadline().unwrap();
/// core.handle(deadline, Fact::TimePassed, &mut requests);
/// assert_eq!(requests.0, 2);
/// assert!(!core.handle(deadline, Fact::Stop, &mut requests));
/// ```
pub struct Core<K, S> {
    machine: Machine,
    store: S,
    on_error: ErrorHandler,
    resync_if: ResyncPredicate,
    metrics: Metrics,
    /// A replacement is under way: what comes is staged.
    replacing: bool,
    /// Get fresh credentials before the next request.
    refresh: bool,
    /// The main request is another one, or none, than when the events that are being taken came.
    cut: bool,
    /// How many objects and events were passed over since the last request.
    passed_over: u32,
    /// The last order ever was carried out.
    stopped: bool,
    kind: std::marker::PhantomData<fn(K)>,
}

/// So many objects and events of one answer are passed over loudly.
const LOUD_MAX: u32 = 20;

/// Changes that go to the same place.
struct Batch<K> {
    disposition: Disposition,
    changes: Vec<Change<K>>,
}

impl<K, S: Store<K>> Core<K, S> {
    /// A reflector that has not started. `target` is the label `resource` of its metrics.
    pub fn new(machine: Machine, store: S, target: &str) -> Self {
        Self {
            machine,
            store,
            on_error: Box::new(|_| Control::Continue),
            resync_if: Box::new(|| true),
            metrics: Metrics::new(target),
            replacing: false,
            refresh: false,
            cut: false,
            passed_over: 0,
            stopped: false,
            kind: std::marker::PhantomData,
        }
    }

    /// Who is told of every failure. Default: goes on.
    #[must_use]
    pub fn on_error(mut self, handler: impl FnMut(&ErrorReport) -> Control + Send + 'static) -> Self {
        self.on_error = Box::new(handler);
        self
    }

    /// Whether a resync that is due takes place. Default: yes.
    #[must_use]
    pub fn resync_if(mut self, wanted: impl FnMut() -> bool + Send + 'static) -> Self {
        self.resync_if = Box::new(wanted);
        self
    }

    /// Begins: makes the first request.
    pub fn start(&mut self, now: Time, requests: &mut impl Requests) {
        self.machine.start(now);
        self.carry_out(now, requests);
    }

    /// Takes one fact, and carries out what comes of it. `false` once it has ended, for good; then every request is
    /// closed.
    pub fn handle(&mut self, now: Time, fact: Fact<K>, requests: &mut impl Requests) -> bool {
        let machine = &mut self.machine;
        match fact {
            Fact::ListOpened => machine.handle_progress(now),
            Fact::ListPart(ListPart::Items(items)) => self.stage_page(now, items),
            Fact::ListPart(ListPart::End(ListMeta { version, continue_token, .. })) => {
                machine.handle_page(now, version, continue_token);
            }
            Fact::ListFailed(failure) => machine.handle_list_failed(now, failure),
            Fact::WatchOpened => machine.handle_watch_opened(now),
            Fact::WatchFailed(failure) => machine.handle_watch_failed(now, failure),
            Fact::Events(events) => self.take_events(now, events, requests),
            Fact::Ended => machine.handle_stream_ended(now),
            Fact::Broken(failure) => machine.handle_stream_broken(now, failure),
            Fact::Checked(result) => machine.handle_checked(now, result),
            Fact::Reopened => machine.handle_reopened(now),
            Fact::ReopenFailed(failure) => machine.handle_reopen_failed(now, failure),
            Fact::TimePassed => {}
            Fact::Stop => machine.handle_stop(),
        }
        // After every fact: a stream that always has something ready must not keep a deadline from passing.
        self.machine.handle_timeout(now);
        self.carry_out(now, requests)
    }

    /// When [`Fact::TimePassed`] is due at the latest. `None` once it has ended.
    #[must_use]
    pub fn deadline(&self) -> Option<Time> {
        self.machine.poll_timeout().map(|(at, _)| at)
    }

    /// Whether more of the main watch may be taken from the network. What is staged needs no room, and requests go on
    /// meanwhile: the server is not to be blamed for whoever holds up the store.
    pub fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let room = if self.replacing { Poll::Ready(()) } else { self.store.poll_ready(cx) };
        self.metrics.waits(room.is_pending());
        room
    }

    /// What is going on.
    #[must_use]
    pub fn status(&self) -> Status {
        self.machine.status()
    }

    /// The protocol.
    #[must_use]
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// The store.
    #[must_use]
    pub fn store(&self) -> &S {
        &self.store
    }

    pub(crate) fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// Carries out all orders; `false` after the last one ever.
    fn carry_out(&mut self, now: Time, requests: &mut impl Requests) -> bool {
        while let Some(order) = self.machine.poll_order() {
            match order {
                Order::Refresh => self.refresh = true,
                Order::List(options) => {
                    let refresh = self.open_list(&options);
                    self.cut = true;
                    requests.list(options, refresh);
                }
                Order::Watch(options) => {
                    let refresh = self.open_watch(&options);
                    self.cut = true;
                    requests.watch(options, refresh);
                }
                Order::Check(options) => {
                    let refresh = self.open_list(&options);
                    requests.check(options, refresh);
                }
                Order::Reopen(options) => {
                    let refresh = self.open_watch(&options);
                    requests.reopen(options, refresh);
                }
                Order::Close => {
                    self.cut = true;
                    requests.close();
                }
                Order::CloseSecond => requests.close_second(),
                Order::BeginReplace { reason, method, history } => {
                    self.metrics.sync(reason, self.machine.counts().relists);
                    debug!(reason = reason.as_str(), ?method, "reading the collection");
                    self.replacing = true;
                    self.store.begin_replace(history);
                }
                Order::CommitReplace { version } => {
                    self.replacing = false;
                    self.commit(now, version.as_ref());
                }
                Order::AbandonReplace => {
                    self.replacing = false;
                    self.store.abandon_replace();
                }
                Order::Bookmark(version) => self.store.bookmark(&version),
                Order::Resync => self.resync(now),
                Order::Report(report) => self.report(&report),
                Order::Stopped => self.stopped = true,
            }
        }
        self.metrics.show(now, &self.machine.status(), self.store.object_count());
        !self.stopped
    }

    fn open_list(&mut self, options: &ListOptions) -> bool {
        self.passed_over = 0;
        self.metrics.list();
        debug!(version = ?options.version, limit = ?options.limit, page = options.continue_token.is_some(), "list");
        std::mem::take(&mut self.refresh)
    }

    fn open_watch(&mut self, options: &WatchOptions) -> bool {
        self.passed_over = 0;
        self.metrics.watch();
        debug!(version = ?options.version, streaming = options.send_initial_events.is_some(), "watch");
        std::mem::take(&mut self.refresh)
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

    /// Events are applied in batches: one for what came together, cut where something else than a change comes.
    fn take_events(&mut self, now: Time, events: Vec<WatchEvent<K>>, requests: &mut impl Requests) {
        self.machine.handle_progress(now);
        self.cut = false;
        let mut batch = Batch { disposition: Disposition::Drop, changes: Vec::new() };
        for event in events {
            let (kind, change) = match event {
                WatchEvent::Added(object) => (EventKind::Added, Change::Upsert(object)),
                WatchEvent::Modified(object) => (EventKind::Modified, Change::Upsert(object)),
                WatchEvent::Deleted(object) => (EventKind::Deleted, Change::Delete(object)),
                other => {
                    self.flush(now, &mut batch);
                    self.take_sign(now, other, requests);
                    if !self.carry_out(now, requests) || self.cut {
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
    fn take_sign(&mut self, now: Time, event: WatchEvent<K>, requests: &mut impl Requests) {
        match event {
            WatchEvent::Bookmark { version, initial_events_end } => {
                self.metrics.bookmark();
                self.machine.handle_bookmark(now, version.as_ref(), initial_events_end);
            }
            WatchEvent::Error(status) => {
                self.cut = true;
                requests.close();
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

    fn commit(&mut self, now: Time, version: Option<&ResourceVersion>) {
        let committed = self.store.commit_replace(version);
        debug!(?version, "the collection is complete");
        if let Err(error) = committed {
            self.machine.handle_commit_failed(now, error.to_string());
        }
    }

    fn resync(&mut self, now: Time) {
        if (self.resync_if)() {
            let resynced = self.store.resync();
            self.check_store(now, resynced);
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

impl<K, S> fmt::Debug for Core<K, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Core").field("phase", &self.machine.status().phase).finish_non_exhaustive()
    }
}

impl<K> Fact<K> {
    /// The failure in it, and of which kind of request it is.
    #[must_use]
    pub fn failure(&self) -> Option<(Verb, &Failure)> {
        match self {
            Self::ListFailed(failure) | Self::Checked(Err(failure)) => Some((Verb::List, failure)),
            Self::WatchFailed(failure) | Self::Broken(failure) | Self::ReopenFailed(failure) => {
                Some((Verb::Watch, failure))
            }
            _ => None,
        }
    }
}
