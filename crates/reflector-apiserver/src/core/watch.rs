//! WATCH: the start modes, the initial events, transitions under selectors, bookmarks and all the ways a watch ends
//! (KEP-956 bookmarks, KEP-3157 watch-list, `k8s.io/apiserver/pkg/storage/cacher`).

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use http::Response;

use super::{
    CoreOptions, Step,
    accept::Format,
    etcd::{Change, Etcd},
    json,
    list::{Scan, Scope},
    object::Object,
    protobuf,
    query::{ListOptions, parse_version},
    registry::Conversion,
    server::Server,
    status::{Outcome, Status},
    view::{Shape, View},
};

/// About how often bookmarks are sent, and how long before the deadline the last one is.
const BOOKMARK_EVERY: Duration = Duration::from_secs(60);
const BOOKMARK_BEFORE_END: Duration = Duration::from_secs(2);

/// Where a watch begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Start {
    /// `None` is the most recent revision, 0 whatever the cache has.
    version: Option<u64>,
    /// Whether the current objects come first, as ADDED.
    initial: bool,
}

impl Start {
    /// From validated and defaulted options.
    pub(super) fn new(options: &ListOptions) -> Outcome<Self> {
        let version = match options.version.as_str() {
            "" => None,
            text => Some(parse_version(text).map_err(Status::unexpected)?),
        };
        Ok(Self { version, initial: options.send_initial_events == Some(true) })
    }

    /// The revision that the cache must have reached. A watch from a future version without initial events just waits
    /// for it in silence.
    pub(super) fn needs(self) -> u64 {
        if self.initial { self.version.unwrap_or(0) } else { 0 }
    }
}

/// Encoded events of late, so that many watches of one resource share their bytes.
#[derive(Debug, Default)]
pub(super) struct EventCache {
    events: HashMap<EventKey, Bytes>,
    order: VecDeque<EventKey>,
}

/// A revision, what it means to the watch, the format, and the form: whole, or the version of `PartialObjectMetadata`.
type EventKey = (u64, Kind, Format, Option<&'static str>);

const EVENT_CACHE_MAX: usize = 1024;

impl EventCache {
    pub(super) fn clear(&mut self) {
        self.events.clear();
        self.order.clear();
    }

    fn get_or(&mut self, key: EventKey, make: impl FnOnce() -> Bytes) -> Bytes {
        if let Some(bytes) = self.events.get(&key) {
            return bytes.clone();
        }
        let bytes = make();
        if self.order.len() == EVENT_CACHE_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.events.remove(&oldest);
        }
        self.order.push_back(key);
        self.events.insert(key, bytes.clone());
        bytes
    }
}

/// The type of an event about an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Kind {
    Added,
    Modified,
    Deleted,
}

impl Kind {
    const fn text(self) -> &'static str {
        match self {
            Self::Added => "ADDED",
            Self::Modified => "MODIFIED",
            Self::Deleted => "DELETED",
        }
    }
}

/// One running watch.
#[derive(Debug)]
pub(super) struct Watch {
    head: Option<Response<()>>,
    view: View,
    scope: Scope,
    phase: Phase,
    /// Everything up to this revision has been sent or does not concern this watch.
    position: u64,
    /// Bookmarks are sent only beyond it.
    start: u64,
    bookmarks: bool,
    next_bookmark: Option<Duration>,
    deadline: Duration,
    life: u64,
    /// Since when more than a buffer's worth of events has been waiting for the reader.
    behind_since: Option<Duration>,
    buffer: usize,
    grace: Duration,
    /// No event has been written yet: the first one of a Table watch carries the columns.
    first: bool,
}

#[derive(Debug)]
enum Phase {
    Initial(Box<Scan>),
    Live,
    /// One last event, then the end.
    Error(Box<Status>),
    Over,
}

impl Watch {
    /// Starts; the cache must have reached what `start` needs.
    pub(super) fn new(
        etcd: &Etcd,
        server: &mut Server,
        scope: Scope,
        start: Start,
        view: View,
        timing: Timing,
        options: &CoreOptions,
    ) -> Self {
        let resource = scope.resource.clone();
        let life = server.life;
        let cache = server.cache(etcd, &resource.storage);
        let current = cache.revision();
        let window = cache.window_start(etcd.space(&resource.storage));
        let position = match start.version {
            Some(version) if version > 0 && !start.initial => version,
            _ => current,
        };
        let phase = if start.initial {
            Phase::Initial(Box::new(Scan::new(cache.objects().clone(), scope.clone(), "")))
        } else if resource.cached && position < window {
            Phase::Error(Status::expired_watch(position, window))
        } else if !resource.cached && position.saturating_add(1) < etcd.compacted() {
            Phase::Error(Status::compacted_watch())
        } else {
            Phase::Live
        };
        let mut watch = Self {
            head: None,
            view,
            scope,
            phase,
            position,
            start: position,
            bookmarks: timing.bookmarks,
            next_bookmark: None,
            deadline: timing.deadline,
            life,
            behind_since: None,
            buffer: options.watch_buffer,
            grace: options.slow_reader_grace,
            first: true,
        };
        // Resources without a watch cache never get periodic bookmarks.
        if timing.bookmarks && resource.cached {
            watch.schedule_bookmark(timing.now + timing.jitter);
        }
        watch
    }

    /// A watch that has nothing to say but an error, or nothing at all.
    pub(super) fn over(mut self, error: Option<Box<Status>>) -> Self {
        self.phase = error.map_or(Phase::Over, Phase::Error);
        self
    }

    /// What it watches.
    #[cfg(feature = "http")]
    pub(super) fn storage(&self) -> &Arc<str> {
        &self.scope.resource.storage
    }

    pub(super) fn with_head(mut self, head: Response<()>) -> Self {
        self.head = Some(head);
        self
    }

    pub(super) fn poll(
        &mut self,
        now: Duration,
        etcd: &Etcd,
        server: &mut Server,
        events: &mut EventCache,
    ) -> Step {
        if let Some(head) = self.head.take() {
            return Step::Head(head);
        }
        loop {
            match &mut self.phase {
                Phase::Over => return Step::End,
                Phase::Error(status) => {
                    let event = write_event(self.view.format, "ERROR", 256, |out| match self.view.format {
                        Format::Json => json::write(out, &status.to_json()),
                        Format::Protobuf => out.extend_from_slice(&protobuf::status(status)),
                    });
                    self.phase = Phase::Over;
                    return Step::Data(event);
                }
                _ if now >= self.deadline || self.life != server.life => return Step::End,
                Phase::Initial(scan) => match scan.next() {
                    Some(object) => return Step::Data(self.encode(Kind::Added, &object, None)),
                    None => {
                        self.phase = Phase::Live;
                        if self.bookmarks {
                            return Step::Data(self.bookmark(self.position, true));
                        }
                    }
                },
                Phase::Live => return self.poll_live(now, etcd, server, events),
            }
        }
    }

    fn poll_live(
        &mut self,
        now: Duration,
        etcd: &Etcd,
        server: &mut Server,
        events: &mut EventCache,
    ) -> Step {
        let storage = self.scope.resource.storage.clone();
        let current = server.cache(etcd, &storage).revision();
        let space = etcd.space(&storage);
        if let Some(space) = space {
            // A reader too slow for the history or for its buffer loses the stream without a word.
            if space.dropped() > self.position || self.is_too_slow(now, space.count_after(self.position)) {
                return Step::End;
            }
            if self.bookmark_is_due(now) && space.next_after(self.position).is_some() {
                self.schedule_bookmark(now);
                if self.position > self.start {
                    return Step::Data(self.bookmark(self.position, false));
                }
            }
            while let Some(change) = space.next_after(self.position).filter(|c| c.revision <= current) {
                self.position = change.revision;
                if let Some(event) = self.event(change, events) {
                    return Step::Data(event);
                }
            }
        }
        if server.has_ended(&storage) {
            return Step::End;
        }
        if self.bookmark_is_due(now) {
            self.schedule_bookmark(now);
            if current > self.start {
                self.position = self.position.max(current);
                return Step::Data(self.bookmark(current, false));
            }
        }
        let until = self.next_bookmark.map_or(self.deadline, |at| at.min(self.deadline));
        Step::Wait { until: Some(until) }
    }

    fn is_too_slow(&mut self, now: Duration, waiting: usize) -> bool {
        if waiting <= self.buffer {
            self.behind_since = None;
            return false;
        }
        now - *self.behind_since.get_or_insert(now) > self.grace
    }

    /// What the change means to this watch, with the selector applied to the states before and after.
    fn event(&mut self, change: &Change, events: &mut EventCache) -> Option<Bytes> {
        let scope = &self.scope;
        let covers = |object: &&Arc<Object>| scope.covers(object);
        let (kind, object) = match (change.old.as_ref().filter(covers), change.new.as_ref().filter(covers)) {
            (None, Some(new)) => (Kind::Added, new),
            (Some(_), Some(new)) => (Kind::Modified, new),
            (Some(old), None) => (Kind::Deleted, old),
            (None, None) => return None,
        };
        let revision = Some(change.revision);
        let form = match self.view.shape {
            Shape::Full => Some(None),
            Shape::Metadata(version) => Some(Some(version)),
            // The ages and the first event's columns differ from watch to watch.
            Shape::Table(..) => None,
        };
        if let Some(form) = form.filter(|_| self.view.resource.conversion == Conversion::None) {
            self.first = false;
            return Some(events.get_or((change.revision, kind, self.view.format, form), || {
                encode_event(&self.view, kind, object, revision, false)
            }));
        }
        Some(self.encode(kind, object, revision))
    }

    fn encode(&mut self, kind: Kind, object: &Object, revision: Option<u64>) -> Bytes {
        let first = std::mem::take(&mut self.first);
        encode_event(&self.view, kind, object, revision, first)
    }

    fn bookmark(&mut self, revision: u64, end: bool) -> Bytes {
        let first = std::mem::take(&mut self.first);
        write_event(self.view.format, "BOOKMARK", 256, |out| {
            self.view.write_bookmark(out, revision, end, first);
        })
    }

    fn bookmark_is_due(&self, now: Duration) -> bool {
        self.next_bookmark.is_some_and(|at| now >= at)
    }

    fn schedule_bookmark(&mut self, now: Duration) {
        let periodic = now + BOOKMARK_EVERY;
        let last = self.deadline.saturating_sub(BOOKMARK_BEFORE_END);
        let next = if last > now { periodic.min(last) } else { periodic };
        self.next_bookmark = Some(next);
    }
}

/// The clock of a watch.
#[derive(Debug, Clone, Copy)]
pub(super) struct Timing {
    pub(super) now: Duration,
    pub(super) deadline: Duration,
    pub(super) bookmarks: bool,
    /// The server's tick is not exact, so neither are the first bookmarks.
    pub(super) jitter: Duration,
}

fn encode_event(view: &View, kind: Kind, object: &Object, revision: Option<u64>, first: bool) -> Bytes {
    let capacity = object.body_len() + 128;
    write_event(view.format, kind.text(), capacity, |out| view.write_object(out, object, revision, first))
}

/// An event around the document that `write` appends.
fn write_event(format: Format, kind: &str, capacity: usize, write: impl FnOnce(&mut Vec<u8>)) -> Bytes {
    let mut out = Vec::with_capacity(capacity);
    match format {
        Format::Json => {
            out.extend_from_slice(b"{\"type\":\"");
            out.extend_from_slice(kind.as_bytes());
            out.extend_from_slice(b"\",\"object\":");
            write(&mut out);
            out.extend_from_slice(b"}\n");
            out.into()
        }
        Format::Protobuf => {
            write(&mut out);
            protobuf::event(kind, &out)
        }
    }
}
