//! One exchange under its faults: takes the core's steps and gives out disturbed ones.

use std::{
    collections::{HashMap, VecDeque},
    io::Write,
    time::Duration,
};

use bytes::{Bytes, BytesMut};
use flate2::{Compression, write::GzEncoder};
use http::{HeaderValue, Request, Response, Uri, header};

use super::{
    Effect, Gzip, InitialEventsEnd, Interruption, Point,
    answer::{self, Status},
    injector::{Counts, Plan, count},
    rewrite::{self, List},
};
use crate::{
    core::{Core, ExchangeId, Step as CoreStep, protobuf},
    request::{RequestInfo, Verb, pairs, query_value},
};

/// A step of an answer: the core's, or that it breaks off.
#[derive(Debug)]
pub enum Step {
    /// Status and headers.
    Head(Response<()>),
    /// A piece of the body.
    Data(Bytes),
    /// The body is complete.
    End,
    /// Nothing now: poll again when the revision has moved, or at this time.
    Wait {
        /// When to poll again at the latest.
        until: Option<Duration>,
    },
    /// The answer breaks off; with this, the exchange is over.
    Cut(Cut),
}

/// How an answer breaks off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// The connection is closed.
    Close,
    /// The connection is reset.
    Reset,
    /// The connection stays open and nothing moves on it any more.
    Blackhole,
}

const PROTOBUF: &[u8] = b"application/vnd.kubernetes.protobuf";

/// What waits to be given out.
#[derive(Debug)]
enum Piece {
    Head(Response<()>),
    /// Some bytes; do they complete an event?
    Data(Bytes, bool),
    End,
}

/// A request that is being answered.
#[derive(Debug)]
pub(super) struct Running {
    plan: Plan,
    info: Option<RequestInfo>,
    request: Option<Request<Bytes>>,
    inner: Option<ExchangeId>,
    start: Duration,
    queue: VecDeque<Piece>,
    /// Nothing before this time: slow connections.
    pace: Duration,
    head_at: Option<Duration>,
    state: State,
    bytes: u64,
    events: u64,
    objects: u64,
    held: BytesMut,
    last_states: HashMap<String, Bytes>,
    late: Option<(Duration, Bytes)>,
    gzip: Option<Gzip>,
    encoder: Option<GzEncoder<Vec<u8>>>,
    /// The answer is in protobuf, as its head says.
    protobuf: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Running,
    Hung,
    Over,
}

impl Running {
    pub(super) fn new(
        plan: Plan,
        info: Option<RequestInfo>,
        request: Request<Bytes>,
        now: Duration,
        counts: &mut Counts,
    ) -> Self {
        let mut start = now;
        for effect in &plan.effects {
            if let Effect::Delay(pause) = effect {
                start += *pause;
                count(counts, effect.kind());
            }
        }
        let accepts = request.headers().get(header::ACCEPT_ENCODING);
        let accepts = accepts.and_then(|value| value.to_str().ok()).unwrap_or_default();
        // apiserver matches the token plainly: parameters such as `gzip;q=0.5` disable compression.
        let accepts = accepts.split(',').any(|token| token.trim() == "gzip");
        let gzip = plan.effects.iter().find_map(|effect| match effect {
            Effect::Gzip(how) if accepts => Some(*how),
            _ => None,
        });
        Self {
            plan,
            info,
            request: Some(request),
            inner: None,
            start,
            queue: VecDeque::new(),
            pace: Duration::ZERO,
            head_at: None,
            state: State::Running,
            bytes: 0,
            events: 0,
            objects: 0,
            held: BytesMut::new(),
            last_states: HashMap::new(),
            late: None,
            gzip,
            encoder: None,
            protobuf: false,
        }
    }

    pub(super) fn inner(&self) -> Option<ExchangeId> {
        self.inner
    }

    fn watch(&self) -> bool {
        self.info.as_ref().is_some_and(|info| info.verb == Verb::Watch)
    }

    pub(super) fn poll(&mut self, now: Duration, core: &mut Core, counts: &mut Counts) -> Step {
        if now < self.start {
            return Step::Wait { until: Some(self.start) };
        }
        loop {
            match self.state {
                State::Hung => return Step::Wait { until: None },
                State::Over => return Step::End,
                State::Running => {}
            }
            if let Some(how) = self.interruption(now) {
                count(counts, Effect::Interrupt(Point::Head, how.clone()).kind());
                if let Some(step) = self.interrupt(how) {
                    return step;
                }
            }
            if let Some(request) = self.request.take() {
                self.begin(request, now, core, counts);
                continue;
            }
            if now < self.pace {
                return Step::Wait { until: Some(self.pace) };
            }
            if let Some(piece) = self.queue.pop_front() {
                return self.give(piece, now);
            }
            if self.late.as_ref().is_some_and(|(due, _)| now >= *due)
                && let Some((_, bookmark)) = self.late.take()
            {
                self.enqueue(bookmark, true);
                continue;
            }
            if let Some(until) = self.pull(now, core, counts) {
                return Step::Wait { until };
            }
        }
    }

    /// The interruption that is due.
    fn interruption(&self, now: Duration) -> Option<Interruption> {
        let effects = self.plan.effects.iter();
        let mut interruptions = effects.filter_map(|effect| match effect {
            Effect::Interrupt(point, how) => Some((point, how)),
            _ => None,
        });
        let due = |point: &Point| match (*point, self.head_at) {
            (Point::Request, None) => true,
            (Point::Head, Some(_)) => true,
            (Point::Bytes(bytes), Some(_)) => self.bytes >= bytes,
            (Point::Events(events), Some(_)) => self.events >= events,
            (Point::After(time), Some(head)) => now >= head + time,
            _ => false,
        };
        interruptions.find(|(point, _)| due(point)).map(|(_, how)| how.clone())
    }

    fn interrupt(&mut self, how: Interruption) -> Option<Step> {
        self.plan.effects.retain(|effect| !matches!(effect, Effect::Interrupt(..)));
        self.state = State::Over;
        match how {
            Interruption::End if self.head_at.is_none() => {
                // A clean end needs a head first.
                return Some(Step::Cut(Cut::Close));
            }
            Interruption::End => return Some(Step::End),
            Interruption::Close => return Some(Step::Cut(Cut::Close)),
            Interruption::Reset => return Some(Step::Cut(Cut::Reset)),
            Interruption::Blackhole => return Some(Step::Cut(Cut::Blackhole)),
            Interruption::Hang => self.state = State::Hung,
            Interruption::Error { code, reason, message } => {
                self.state = State::Running;
                self.queue.clear();
                self.late = None;
                let reason = reason.as_deref().unwrap_or_else(|| answer::reason(code));
                let message = message.as_deref().unwrap_or_else(|| answer::message(code));
                let event = rewrite::error_event(&Status::new(code, reason, message).json(), self.protobuf);
                self.enqueue(event, true);
                self.finish();
            }
        }
        None
    }

    /// The request reaches the server, unless a fault answers it.
    fn begin(&mut self, request: Request<Bytes>, now: Duration, core: &mut Core, counts: &mut Counts) {
        self.disturb_server(now, core, counts);
        let token = query_value(request.uri().query(), "continue").filter(|token| !token.is_empty());
        let expires = self.plan.effects.contains(&Effect::ExpireContinue);
        let made_up = if let Some(respond) = &self.plan.respond {
            count(counts, "status");
            Some(respond.response())
        } else if let (Some(token), true) = (token, expires) {
            count(counts, Effect::ExpireContinue.kind());
            Some(answer::expired_continue(&token))
        } else {
            None
        };
        if let Some(made_up) = made_up {
            let (head, body) = made_up.into_parts();
            self.queue.push_back(Piece::Head(Response::from_parts(head, ())));
            if !body.is_empty() {
                self.queue.push_back(Piece::Data(body, false));
            }
            self.queue.push_back(Piece::End);
            return;
        }
        let request = self.rewrite_request(request, counts);
        self.inner = Some(core.open(now, request));
    }

    /// Will the next poll change the server as a whole?
    pub(super) fn disturbs_server(&self, now: Duration) -> bool {
        let disturbs = |effect: &Effect| {
            matches!(effect, Effect::ForgetHistory | Effect::Compact | Effect::Restart | Effect::Rewind(_))
        };
        self.request.is_some() && now >= self.start && self.plan.effects.iter().any(disturbs)
    }

    fn disturb_server(&self, now: Duration, core: &mut Core, counts: &mut Counts) {
        for effect in &self.plan.effects {
            match effect {
                Effect::ForgetHistory => {
                    if let Some(info) = &self.info {
                        // A resource that nobody knows has no history to forget.
                        let _ = core.forget_history(&info.resource);
                    }
                }
                Effect::Compact => core.compact(core.revision()),
                Effect::Restart => core.restart(now),
                Effect::Rewind(revisions) => {
                    // A state that is compacted cannot come back; then etcd stays as it is.
                    let _ = core.rewind(core.revision().saturating_sub(*revisions));
                }
                _ => continue,
            }
            count(counts, effect.kind());
        }
    }

    fn rewrite_request(&self, request: Request<Bytes>, counts: &mut Counts) -> Request<Bytes> {
        let (mut head, mut body) = request.into_parts();
        let mut lost: Vec<&str> = Vec::new();
        let opaque = self.plan.effects.contains(&Effect::OpaqueVersions);
        for effect in &self.plan.effects {
            if let Effect::IgnoreQuery(names) = effect {
                lost.extend(names.iter().map(String::as_str));
                count(counts, effect.kind());
            }
        }
        if opaque {
            body = rewrite::make_transparent(&body);
        }
        if opaque || !lost.is_empty() {
            let mut query = String::new();
            for (name, value) in pairs(head.uri.query()) {
                if lost.contains(&name.as_ref()) {
                    continue;
                }
                let value = match name.as_ref() {
                    "resourceVersion" => rewrite::transparent_version(&value).into(),
                    _ => value,
                };
                query.push(if query.is_empty() { '?' } else { '&' });
                query.extend([encode(&name), "=".to_owned(), encode(&value)]);
            }
            if let Ok(uri) = format!("{}{query}", head.uri.path()).parse::<Uri>() {
                head.uri = uri;
            }
        }
        Request::from_parts(head, body)
    }

    /// Takes the core's next step into the queue; what to wait for when there is none.
    fn pull(&mut self, now: Duration, core: &mut Core, counts: &mut Counts) -> Option<Option<Duration>> {
        let Some(inner) = self.inner else {
            self.state = State::Over;
            return None;
        };
        match core.poll(inner, now) {
            CoreStep::Head(mut head) => {
                let content_type = head.headers().get(header::CONTENT_TYPE);
                self.protobuf = content_type.is_some_and(|value| value.as_bytes().starts_with(PROTOBUF));
                if let Some(gzip) = self.gzip {
                    count(counts, Effect::Gzip(gzip).kind());
                    let headers = head.headers_mut();
                    headers.remove(header::CONTENT_LENGTH);
                    headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
                    headers.insert(header::VARY, HeaderValue::from_static("Accept-Encoding"));
                }
                for effect in &self.plan.effects {
                    if matches!(effect, Effect::Slow(..) | Effect::Chunks(_)) {
                        count(counts, effect.kind());
                    }
                }
                self.queue.push_back(Piece::Head(head));
            }
            CoreStep::Data(bytes) if self.watch() => self.take_event(bytes, now, counts),
            CoreStep::Data(bytes) if self.holds_body() => self.held.extend_from_slice(&bytes),
            CoreStep::Data(bytes) => self.enqueue(bytes, false),
            CoreStep::End => {
                if !self.held.is_empty() {
                    let body = self.held.split().freeze();
                    let body = self.change_document(&body, counts);
                    self.enqueue(body, false);
                }
                self.finish();
            }
            CoreStep::Wait { until } => {
                let due = self.late.as_ref().map(|(due, _)| *due);
                let stop = self.plan.effects.iter().filter_map(|effect| match effect {
                    Effect::Interrupt(Point::After(time), _) => self.head_at.map(|head| head + *time),
                    _ => None,
                });
                return Some(until.into_iter().chain(due).chain(stop).min());
            }
        }
        None
    }

    fn holds_body(&self) -> bool {
        self.plan.effects.iter().any(|effect| {
            matches!(
                effect,
                Effect::Undecodable(_)
                    | Effect::WithoutMetadata(_)
                    | Effect::OpaqueVersions
                    | Effect::EmptyListVersion
                    | Effect::ItemsFirst
                    | Effect::ItemsNull
            )
        })
    }

    fn change_document(&self, body: &Bytes, counts: &mut Counts) -> Bytes {
        if self.protobuf {
            return protobuf::change_document(body, |json| self.change_json(json.clone(), counts));
        }
        self.change_json(body.clone(), counts)
    }

    fn change_json(&self, body: Bytes, counts: &mut Counts) -> Bytes {
        let effects = &self.plan.effects;
        let body = if effects.contains(&Effect::OpaqueVersions) {
            count(counts, Effect::OpaqueVersions.kind());
            rewrite::make_opaque(&body)
        } else {
            body
        };
        let Some(mut list) = List::read(&body).filter(|list| list.items.is_some()) else {
            return body;
        };
        let mut items_first = false;
        let mut changed = false;
        for effect in effects {
            let done = match effect {
                Effect::Undecodable(n) => list.change_item(*n, rewrite::spoil).is_some(),
                Effect::WithoutMetadata(n) => list.change_item(*n, rewrite::strip_metadata).is_some(),
                Effect::EmptyListVersion => {
                    list.metadata["resourceVersion"] = "".into();
                    true
                }
                Effect::ItemsNull => list.items.take().is_some(),
                Effect::ItemsFirst => {
                    items_first = true;
                    true
                }
                _ => false,
            };
            if done {
                changed = true;
                count(counts, effect.kind());
            }
        }
        if !changed {
            return body;
        }
        list.write(items_first).unwrap_or(body)
    }

    fn take_event(&mut self, event: Bytes, now: Duration, counts: &mut Counts) {
        let Some(event) = self.initial_events_end(event, now, counts) else {
            return;
        };
        let mut event = event;
        let is_object = memchr::memmem::find(&event[..event.len().min(64)], b"BOOKMARK").is_none();
        self.objects += u64::from(is_object);
        let mut again = Vec::new();
        for effect in &self.plan.effects {
            event = match effect {
                Effect::Undecodable(n) if is_object && *n == self.objects => {
                    rewrite::event_object(&event, rewrite::spoil)
                }
                Effect::WithoutMetadata(n) if is_object && *n == self.objects => {
                    rewrite::event_object(&event, rewrite::strip_metadata)
                }
                Effect::UnknownType(n) if is_object && *n == self.objects => {
                    rewrite::event_type(&event, "RELOCATED")
                }
                Effect::OpaqueVersions => rewrite::make_opaque(&event),
                Effect::DuplicateEvents => {
                    again.push(event.clone());
                    event
                }
                Effect::RegressVersions => match rewrite::event_key(&event) {
                    None => continue,
                    Some(key) => match self.last_states.insert(key, event.clone()) {
                        None => continue,
                        Some(older) => {
                            again.push(older);
                            event
                        }
                    },
                },
                _ => continue,
            };
            count(counts, effect.kind());
        }
        self.enqueue(event, true);
        for event in again {
            self.enqueue(event, true);
        }
    }

    /// What becomes of the bookmark that ends the initial events; other events pass.
    fn initial_events_end(&mut self, event: Bytes, now: Duration, counts: &mut Counts) -> Option<Bytes> {
        let effects = self.plan.effects.iter();
        let what = effects.into_iter().find_map(|effect| match effect {
            Effect::InitialEventsEnd(what) => Some(*what),
            _ => None,
        });
        let Some(what) = what.filter(|_| rewrite::is_initial_events_end(&event)) else {
            return Some(event);
        };
        count(counts, Effect::InitialEventsEnd(what).kind());
        match what {
            InitialEventsEnd::Missing => None,
            InitialEventsEnd::Plain => Some(rewrite::event_object(&event, rewrite::unmark)),
            InitialEventsEnd::Late(pause) => {
                self.late = Some((now + pause, event));
                None
            }
        }
    }

    /// Compresses what goes out, and splits it.
    fn enqueue(&mut self, bytes: Bytes, event: bool) {
        let bytes = match self.gzip {
            None => bytes,
            Some(Gzip::MemberPerEvent) => member(&bytes),
            Some(Gzip::Whole) => {
                let encoder =
                    self.encoder.get_or_insert_with(|| GzEncoder::new(Vec::new(), Compression::fast()));
                // Writing to memory cannot fail.
                let _ = encoder.write_all(&bytes).and_then(|()| encoder.flush());
                std::mem::take(encoder.get_mut()).into()
            }
        };
        self.queue.push_back(Piece::Data(bytes, event));
    }

    fn finish(&mut self) {
        if let Some(encoder) = self.encoder.take() {
            let rest = encoder.finish().unwrap_or_default();
            self.queue.push_back(Piece::Data(rest.into(), false));
        }
        self.queue.push_back(Piece::End);
    }

    /// Gives out a piece, as much of it as chunks, pace and interruptions allow.
    fn give(&mut self, piece: Piece, now: Duration) -> Step {
        match piece {
            Piece::Head(head) => {
                self.head_at = Some(now);
                Step::Head(head)
            }
            Piece::End => {
                self.state = State::Over;
                Step::End
            }
            Piece::Data(mut bytes, event) => {
                let mut most = bytes.len();
                for effect in &self.plan.effects {
                    match effect {
                        Effect::Slow(size, pause) => {
                            most = most.min(*size);
                            self.pace = now + *pause;
                        }
                        Effect::Chunks(size) => most = most.min((*size).max(1)),
                        Effect::Interrupt(Point::Bytes(end), _) => {
                            let left = usize::try_from(end - self.bytes).unwrap_or(usize::MAX);
                            most = most.min(left);
                        }
                        _ => {}
                    }
                }
                let whole = most == bytes.len();
                let now = bytes.split_to(most);
                self.bytes += now.len() as u64;
                self.events += u64::from(event && whole);
                if !whole {
                    self.queue.push_front(Piece::Data(bytes, event));
                }
                Step::Data(now)
            }
        }
    }
}

fn member(bytes: &[u8]) -> Bytes {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    // Writing to memory cannot fail.
    let _ = encoder.write_all(bytes);
    encoder.finish().unwrap_or_default().into()
}

/// Percent-encodes what is not unreserved (RFC 3986).
fn encode(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}
