//! One logical watch over many requests.

use std::{
    cmp::Ordering,
    collections::hash_map::RandomState,
    fmt,
    hash::BuildHasher,
    marker::PhantomData,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
    vec,
};

use futures::{Stream, StreamExt, stream, stream::BoxStream};
use tokio::time::{Instant, sleep_until, timeout};
use tracing::{debug, warn};

use super::{Event, RetryWatchError};
use crate::{
    Control, Object, ResourceVersion,
    driver::ErrorHandler,
    protocol::{
        BackoffOptions, Class, ErrorReport, Failure, Options, Time, Verb,
        backoff::{Backoff, LIVED, at_least},
        random::Random,
    },
    source::{ListWatch, WatchOptions, WatchStream, refused},
    wire::{EventType, WatchEvent},
};

/// The shortest time from the start of one request to the start of the next (RW-4).
const SPACING: Duration = Duration::from_secs(1);

/// A watch that survives closed connections: it resumes after the last version that it has seen.
///
/// A stream of [`Event`]s: every change after the given version, in the server's order and none left out, until it ends
/// with an [error](RetryWatchError); after that it gives `None`, however often it is polled. Resuming brings nothing
/// twice, where versions can be compared; what a server says twice within one response comes twice. It has no task of
/// its own: polling drives it, and dropping it ends the request. It makes no request before it is polled, and buffers no
/// more than what one read brought.
///
/// # What is survived
///
/// | what happens | then |
/// |---|---|
/// | the stream ends | resumed, at most one start per second, measured start to start (RW-4) |
/// | it breaks; transport errors, timeouts, 5xx, 429, any other refusal | again after a back-off with jitter, not before `Retry-After` |
/// | an error in the stream, such as 500 or 504 | the same, with the delay that the status names |
/// | silence | given up and resumed: before the answer after [`Options::idle_limit`], else when nothing came for as long as the server was told to keep the watch open, plus [`Options::deadline_margin`] |
/// | events at or below the version that was asked for, bookmarks older than the last event | passed over, where versions can be compared |
/// | the first 401 since a watch was open | again with fresh credentials ([`ListWatch::refresh`]) |
/// | 410 at the request or in the stream | the end |
/// | a second 401, and any 403, at the request | the end |
/// | an object without a version or without readable metadata, an unknown event | the end: passing over it could lose a change |
///
/// client-go's watcher of the same name ends on a 410 in the stream, but repeats a *request* that is answered 410 once a
/// second for ever (RW-2, RW-3). An expired version never comes back, so both end here. It also ends on the first 401, though a token may
/// just have expired between two requests.
///
/// What only somebody's action cures (404, 405, 422, …) is retried slowly, since the action may come;
/// [`RetryWatchBuilder::on_error`] sees each failure and may end it.
///
/// # Panics
///
/// Polling panics outside of a tokio runtime with time enabled.
pub struct RetryWatcher<K> {
    target: Arc<str>,
    /// Fused: after the error there is nothing.
    events: BoxStream<'static, Result<Event<K>, RetryWatchError>>,
}

impl<K: Send + 'static> RetryWatcher<K> {
    /// A watch of everything in the source, with default options. `from` is usually the version of a list: what comes
    /// is what happened after it.
    ///
    /// # Errors
    ///
    /// [`RetryWatchError::StartVersion`] if `from` is "0".
    pub fn new<L: ListWatch<K>>(source: L, from: ResourceVersion) -> Result<Self, RetryWatchError> {
        Self::builder(source, from).start()
    }

    /// Begins to describe a watch.
    pub fn builder<L: ListWatch<K>>(source: L, from: ResourceVersion) -> RetryWatchBuilder<K, L> {
        RetryWatchBuilder {
            source,
            from,
            options: Options::default(),
            bookmarks: false,
            on_error: Box::new(|_| Control::Continue),
            seed: None,
            kind: PhantomData,
        }
    }
}

impl<K> RetryWatcher<K> {
    /// What is watched, as the source describes it.
    #[must_use]
    pub fn target(&self) -> &Arc<str> {
        &self.target
    }
}

impl<K> Stream for RetryWatcher<K> {
    type Item = Result<Event<K>, RetryWatchError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.events.poll_next_unpin(cx)
    }
}

impl<K> fmt::Debug for RetryWatcher<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RetryWatcher").field("target", &self.target).finish_non_exhaustive()
    }
}

/// Describes a [`RetryWatcher`] before it starts.
#[must_use = "nothing happens before `start`"]
pub struct RetryWatchBuilder<K, L> {
    source: L,
    from: ResourceVersion,
    options: Options,
    bookmarks: bool,
    on_error: ErrorHandler,
    seed: Option<u64>,
    kind: PhantomData<fn() -> K>,
}

impl<K: Send + 'static, L: ListWatch<K>> RetryWatchBuilder<K, L> {
    /// Only objects that this label selector selects. An object that leaves the selection comes as deleted.
    pub fn labels(mut self, selector: impl Into<String>) -> Self {
        self.options.selection.labels = Some(selector.into());
        self
    }

    /// Only objects that this field selector selects: `metadata.name=cart`.
    pub fn fields(mut self, selector: impl Into<String>) -> Self {
        self.options.selection.fields = Some(selector.into());
        self
    }

    /// The waits after failures.
    pub fn backoff(mut self, backoff: BackoffOptions) -> Self {
        self.options.backoff = backoff;
        self
    }

    /// Changes the options of the protocol. Those that concern a single watch are used: `selection`, `watch_timeout`,
    /// `deadline_margin`, `idle_limit`, `backoff`, `slow_retry`, `short_watch`. A shorter `watch_timeout` notices a dead
    /// connection sooner, and costs a request as often.
    pub fn options(mut self, change: impl FnOnce(&mut Options)) -> Self {
        change(&mut self.options);
        self
    }

    /// Whether bookmarks are yielded too, for those who store the version to resume from. Default false: they are
    /// asked for and used, but not shown.
    pub fn bookmarks(mut self, show: bool) -> Self {
        self.bookmarks = show;
        self
    }

    /// Sees every failure that is retried, and may end the watch. It runs while the stream is polled, so it must be
    /// quick.
    ///
    /// ```
    /// # use reflector::{Control, ResourceVersion, source::ListWatch, watch::{RetryWatchError, RetryWatcher}};
    /// # fn example<L: ListWatch<serde_json::Value>>(source: L, from: ResourceVersion) -> Result<(), RetryWatchError> {
    /// let watch = RetryWatcher::builder(source, from)
    ///     .on_error(|report| if report.class.needs_somebody() { Control::Stop } else { Control::Continue })
    ///     .start()?;
    /// # Ok(()) }
    /// ```
    pub fn on_error(mut self, handler: impl FnMut(&ErrorReport) -> Control + Send + 'static) -> Self {
        self.on_error = Box::new(handler);
        self
    }

    /// The seed of the jitter; random by default.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// The watch. The first request is made when it is polled.
    ///
    /// # Errors
    ///
    /// [`RetryWatchError::StartVersion`] if the version is "0".
    pub fn start(self) -> Result<RetryWatcher<K>, RetryWatchError> {
        let target: Arc<str> = self.source.describe().into();
        if !is_usable(&self.from) {
            return Err(RetryWatchError::StartVersion { target });
        }
        let options = self.options.bounded();
        let engine = Engine {
            source: self.source,
            target: Arc::clone(&target),
            backoff: Backoff::new(options.backoff.clone()),
            options,
            show_bookmarks: self.bookmarks,
            on_error: self.on_error,
            random: Random::new(self.seed.unwrap_or_else(|| RandomState::new().hash_one(0))),
            version: self.from,
            row: Row::default(),
            origin: None,
            not_before: None,
            credentials: Credentials::Accepted,
            request: None,
        };
        let events = stream::unfold(Some(engine), |engine| async {
            let mut engine = engine?;
            let item = engine.next().await;
            let more = item.is_ok();
            Some((item, more.then_some(engine)))
        });
        Ok(RetryWatcher { target, events: events.fuse().boxed() })
    }
}

impl<K, L> fmt::Debug for RetryWatchBuilder<K, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { from, options, .. } = self;
        f.debug_struct("RetryWatchBuilder")
            .field("from", from)
            .field("options", options)
            .finish_non_exhaustive()
    }
}

/// "0" stands for any state, and no object has it.
fn is_usable(version: &ResourceVersion) -> bool {
    version.to_string() != "0"
}

/// Failures in a row.
#[derive(Default)]
struct Row {
    failures: u32,
    since: Option<Time>,
    class: Option<Class>,
}

/// What the server thinks of our credentials.
#[derive(Clone, Copy, PartialEq)]
enum Credentials {
    /// It accepted them when a watch was opened last, or has never seen them.
    Accepted,
    /// It refused them since: the next request is made with fresh ones.
    Refused,
    /// They are fresh, and have not been accepted yet.
    Renewed,
}

/// An open watch.
struct Request<K> {
    stream: WatchStream<K>,
    /// What has been read of it and not been looked at.
    unread: vec::IntoIter<WatchEvent<K>>,
    /// The version that it started after.
    from: ResourceVersion,
    since: Instant,
    /// Silence after which it is given up.
    patience: Duration,
    /// Whether it has brought anything.
    useful: bool,
}

/// Everything that the stream owns.
struct Engine<K, L> {
    source: L,
    target: Arc<str>,
    options: Options,
    show_bookmarks: bool,
    on_error: ErrorHandler,
    backoff: Backoff,
    random: Random,
    /// The last version seen.
    version: ResourceVersion,
    row: Row,
    /// The origin of the time of the back-off: the first request.
    origin: Option<Instant>,
    /// When the next request may be made.
    not_before: Option<Instant>,
    credentials: Credentials,
    request: Option<Request<K>>,
}

impl<K: Send + 'static, L: ListWatch<K>> Engine<K, L> {
    /// The next event. After an error it is not called again.
    async fn next(&mut self) -> Result<Event<K>, RetryWatchError> {
        loop {
            let Some(request) = &mut self.request else {
                self.open().await?;
                continue;
            };
            if let Some(event) = request.unread.next() {
                if let Some(event) = self.take(event)? {
                    return Ok(event);
                }
                continue;
            }
            match timeout(request.patience, request.stream.next()).await {
                Ok(Some(Ok(events))) => request.unread = events.into_iter(),
                Ok(Some(Err(failure))) => self.broke(failure)?,
                Ok(None) => self.ended()?,
                Err(_) => {
                    let silence = request.patience;
                    self.failed(Failure::deadline(format!("the watch was silent for {silence:?}")))?;
                }
            }
        }
    }

    /// Makes the next request, as soon as it may be made.
    async fn open(&mut self) -> Result<(), RetryWatchError> {
        if let Some(at) = self.not_before {
            sleep_until(at).await;
        }
        let since = Instant::now();
        self.origin.get_or_insert(since);
        self.not_before = Some(since + SPACING);
        let (low, high) = self.options.watch_timeout;
        let life = self.random.between(low, high);
        let from = self.version.clone();
        debug!(target = %self.target, version = ?from, "watch");
        let options = WatchOptions {
            selection: self.options.selection.clone(),
            version: Some(from.clone()),
            version_match: None,
            send_initial_events: None,
            bookmarks: true,
            timeout: Some(life),
        };
        let refresh = self.credentials == Credentials::Refused;
        if refresh {
            self.credentials = Credentials::Renewed;
        }
        let source = &self.source;
        let answer = async {
            if refresh {
                source.refresh().await;
            }
            source.watch(options).await
        };
        match timeout(self.options.idle_limit, answer).await {
            Ok(Ok(stream)) => {
                self.credentials = Credentials::Accepted;
                self.backoff.healthy(self.now());
                let patience = life.saturating_add(self.options.deadline_margin);
                let unread = Vec::new().into_iter();
                self.request = Some(Request { stream, unread, from, since, patience, useful: false });
                Ok(())
            }
            Ok(Err(failure)) => self.refused(failure),
            Err(_) => self.failed(Failure::deadline(format!("no answer for {:?}", self.options.idle_limit))),
        }
    }

    /// The request was answered with an error.
    fn refused(&mut self, failure: Failure) -> Result<(), RetryWatchError> {
        match failure.class() {
            // A token may have expired since the last request. Nothing is gained by a wait before it is renewed.
            Class::Unauthorized if self.credentials == Credentials::Accepted => {
                self.credentials = Credentials::Refused;
                self.report(failure, Class::Unauthorized, Duration::ZERO)
            }
            Class::Unauthorized | Class::Forbidden => {
                let (target, version) = (Arc::clone(&self.target), self.version.clone());
                Err(RetryWatchError::Denied { target, version, failure })
            }
            _ => self.failed(failure),
        }
    }

    /// Looks at one event: something to yield, or nothing.
    fn take(&mut self, event: WatchEvent<K>) -> Result<Option<Event<K>>, RetryWatchError> {
        let target = || Arc::clone(&self.target);
        match event {
            WatchEvent::Added(object) => self.take_object(object, EventType::Added, Event::Added),
            WatchEvent::Modified(object) => self.take_object(object, EventType::Modified, Event::Modified),
            WatchEvent::Deleted(object) => self.take_object(object, EventType::Deleted, Event::Deleted),
            WatchEvent::Bookmark { version: Some(version), .. } if is_usable(&version) => {
                // It would be stored as the place to resume from, and that must not go back.
                let older = version.is_older_than(&self.version);
                let new = self.advance(&version) && !older;
                Ok((new && self.show_bookmarks).then_some(Event::Bookmark(version)))
            }
            // It says nothing, and holds no change.
            WatchEvent::Bookmark { .. } => Ok(None),
            WatchEvent::Invalid(object) if object.event == Some(EventType::Bookmark) => Ok(None),
            WatchEvent::Error(status) => self.failed(refused(&status, None)).map(|()| None),
            WatchEvent::Invalid(object) => Err(RetryWatchError::Invalid { target: target(), object }),
            WatchEvent::Unknown(kind) => Err(RetryWatchError::UnknownEvent { target: target(), kind }),
        }
    }

    fn take_object(
        &mut self,
        object: Object<K>,
        event: EventType,
        make: fn(Object<K>) -> Event<K>,
    ) -> Result<Option<Event<K>>, RetryWatchError> {
        match object.version().cloned().filter(is_usable) {
            Some(version) => Ok(self.advance(&version).then(|| make(object))),
            None => {
                let (target, key) = (Arc::clone(&self.target), object.key().clone());
                Err(RetryWatchError::NoVersion { target, key, event })
            }
        }
    }

    /// Takes a version as progress. `false` if it is no newer than what was asked for: a server that replays.
    ///
    /// Within one watch the order of arrival is the server's, so an older version than the last one is news all the
    /// same; only the place to resume from does not go back.
    fn advance(&mut self, version: &ResourceVersion) -> bool {
        let Some(request) = &mut self.request else { return false };
        if matches!(version.compare(&request.from), Some(Ordering::Less | Ordering::Equal)) {
            return false;
        }
        request.useful = true;
        if !version.is_older_than(&self.version) {
            self.version.clone_from(version);
        }
        self.row = Row::default();
        true
    }

    /// The stream ended as it should: it is resumed. One that never brought anything and ended at once is a failure, or
    /// a server that always does so would be asked every second for ever (RF-34).
    fn ended(&mut self) -> Result<(), RetryWatchError> {
        let Some(request) = self.request.take() else { return Ok(()) };
        let life = request.since.elapsed();
        if !request.useful && life < self.options.short_watch {
            let failure = Failure::malformed(format!("the watch ended after {life:?} without an event"));
            return self.retry(failure, Class::ShortWatch);
        }
        self.row = Row::default();
        Ok(())
    }

    /// The stream broke off. One that had lived was cut by somebody in between: that is no failure in a row.
    fn broke(&mut self, failure: Failure) -> Result<(), RetryWatchError> {
        let class = failure.class();
        let life = self.request.take().map_or(Duration::ZERO, |request| request.since.elapsed());
        if class != Class::Transport || life < LIVED {
            return self.failed(failure);
        }
        self.row = Row::default();
        let wait = self.backoff.first_wait(&mut self.random);
        self.report(failure, class, wait)
    }

    fn failed(&mut self, failure: Failure) -> Result<(), RetryWatchError> {
        self.request = None;
        match failure.class() {
            Class::Expired => Err(RetryWatchError::Expired {
                target: Arc::clone(&self.target),
                version: self.version.clone(),
                failure,
            }),
            class => {
                if class == Class::Unauthorized && self.credentials == Credentials::Accepted {
                    self.credentials = Credentials::Refused;
                }
                self.retry(failure, class)
            }
        }
    }

    /// Waits after a failure, as long as its class demands.
    fn retry(&mut self, failure: Failure, class: Class) -> Result<(), RetryWatchError> {
        let now = self.now();
        let slow = self.options.slow_retry;
        let cap = if class.needs_somebody() { slow } else { self.options.backoff.cap };
        let mut wait = self.backoff.wait_at_most(now, cap, &mut self.random);
        if class == Class::Mistake {
            wait = self.random.between(slow, slow * 2);
        }
        let wait = at_least(wait, failure.retry_after(), &mut self.random);
        self.report(failure, class, wait)
    }

    /// Counts and reports a failure, and sets the time of the next request.
    fn report(&mut self, failure: Failure, class: Class, wait: Duration) -> Result<(), RetryWatchError> {
        let now = self.now();
        let next = Instant::now() + wait;
        self.not_before = Some(self.not_before.map_or(next, |spaced| spaced.max(next)));

        self.row.failures = self.row.failures.saturating_add(1);
        let since = *self.row.since.get_or_insert(now);
        let report = ErrorReport {
            verb: Verb::Watch,
            target: Arc::clone(&self.target),
            failure,
            class,
            attempt: self.row.failures,
            elapsed: now.saturating_sub(since),
            retry_in: wait,
            first: self.row.class.replace(class) != Some(class),
        };
        if report.first {
            warn!(class = class.as_str(), retry_in = ?wait, "{report}");
        } else {
            debug!(class = class.as_str(), attempt = report.attempt, retry_in = ?wait, "{report}");
        }
        match (self.on_error)(&report) {
            Control::Continue => Ok(()),
            Control::Stop => Err(RetryWatchError::GivenUp(Box::new(report))),
        }
    }

    fn now(&self) -> Time {
        self.origin.map_or(Time::ZERO, |origin| origin.elapsed())
    }
}
