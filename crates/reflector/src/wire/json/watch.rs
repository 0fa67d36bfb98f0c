//! Watch streams: a sequence of JSON values, each an event.

use std::marker::PhantomData;

use super::{
    capture::{Bound, Capture, Chunk},
    meta::{Filler, Leaf, Places, Walk, Wrong, leaf, name},
    scan::{Scanner, Token},
};
use crate::wire::{
    EventType, INITIAL_EVENTS_END, InvalidObject, Limits, Status, TypeMeta, WatchEvent, WireError,
    status::short_line,
};

/// The depth at which the objects lie: within the event.
const OBJECT: usize = 1;

/// Cuts a watch stream in JSON into its events while it arrives.
#[derive(Clone, Debug)]
pub(in crate::wire) struct WatchCutter<K> {
    scanner: Scanner,
    /// Of the whole event, so that it does not matter whether `type` or `object` comes first.
    capture: Capture,
    walk: Walk,
    limits: Limits,
    filler: Filler,
    event: Event,
    kind: PhantomData<fn() -> K>,
}

/// Where the members of the event lie, as far as they are known, as offsets in the body.
#[derive(Clone, Debug, Default)]
struct Event {
    /// The member that is being read, and where its value began.
    member: Option<(Member, u64)>,
    r#type: Option<(u64, u64)>,
    object: Option<(u64, u64)>,
    kind: Option<(u64, u64)>,
    message: Option<(u64, u64)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Member {
    Type,
    Object,
    Kind,
    Message,
}

impl<K> WatchCutter<K> {
    pub(in crate::wire) fn new(types: Option<TypeMeta>, limits: Limits) -> Self {
        Self {
            scanner: Scanner::new(limits.depth_max),
            capture: Capture::default(),
            walk: Walk::new(OBJECT),
            limits,
            filler: types.map(|types| Filler::new(&types)).unwrap_or_default(),
            event: Event::default(),
            kind: PhantomData,
        }
    }

    pub(in crate::wire) fn push(
        &mut self,
        chunk: &[u8],
        events: &mut Vec<WatchEvent<K>>,
    ) -> Result<(), WireError> {
        self.take(chunk, events)
    }

    pub(in crate::wire) fn finish(self) -> Result<(), WireError> {
        let offset = self.scanner.offset();
        match self.capture.pending(offset) {
            0 => Ok(()),
            pending => Err(WireError::Truncated { offset, pending, what: "watch event" }),
        }
    }

    fn take(&mut self, bytes: &[u8], events: &mut Vec<WatchEvent<K>>) -> Result<(), WireError> {
        let chunk = Chunk { bytes, base: self.scanner.offset() };
        let bound = self.bound();
        let mut rest = bytes;
        loop {
            let token = match self.scanner.next(&mut rest) {
                Ok(Some(token)) => token,
                Ok(None) => break,
                Err(error) => {
                    self.check_size()?;
                    return Err(error);
                }
            };
            match token {
                Token::Start { depth: 0, .. } => {
                    self.capture.begin(self.scanner.offset() - 1);
                    self.event = Event::default();
                    self.scanner.watch = 1;
                }
                Token::End { depth: 0 } => {
                    self.check_size()?;
                    let read =
                        Reading { event: &self.event, places: &self.walk.places, filler: &self.filler };
                    let end = self.scanner.offset();
                    events.push(
                        self.capture.finish(end, chunk, bound, |json, start| read.event(json, start))??,
                    );
                }
                Token::Start { depth: OBJECT, .. } => self.member_starts(token),
                Token::End { depth: OBJECT } => self.member_ends()?,
                _ => self.walk.token(token, &mut self.scanner),
            }
        }
        self.check_size()?;
        self.capture.chunk_ends(chunk, bound)
    }

    /// An event is an object and a few bytes around it.
    fn bound(&self) -> Bound {
        Bound {
            what: "a watch event",
            name: "object_bytes_max + envelope_bytes_max",
            limit: self.limits.object_bytes_max.saturating_add(self.limits.envelope_bytes_max),
            used: 0,
        }
    }

    /// Refuses an event and an object that are too large as far as they have come. Of two limits the one counts that was
    /// passed first, so that it does not matter in what chunks the bytes come.
    fn check_size(&self) -> Result<(), WireError> {
        let now = self.scanner.offset();
        let passed = |(start, end): (u64, u64), limit: usize| {
            let at = start.saturating_add(limit as u64);
            (at < end).then_some(at)
        };
        let Bound { what, name, limit, .. } = self.bound();
        let event = (now - self.capture.pending(now), now);
        let object = match self.event.member {
            Some((Member::Object, start)) => Some((start, now)),
            _ => self.event.object,
        };
        let object_limit = self.limits.object_bytes_max;
        let object_passed = object.and_then(|object| Some((object.0, passed(object, object_limit)?)));
        match (passed(event, limit), object_passed) {
            (event_passed, Some((offset, at))) if event_passed.is_none_or(|event| at < event) => {
                let (what, name, limit) = ("an object", "object_bytes_max", object_limit);
                Err(WireError::TooLarge { offset, what, name, limit })
            }
            (Some(_), _) => Err(WireError::TooLarge { offset: event.0, what, name, limit }),
            (None, _) => Ok(()),
        }
    }

    fn member_starts(&mut self, token: Token) {
        let member = match &*name(self.scanner.key()) {
            b"type" => Member::Type,
            b"object" => {
                self.walk.token(token, &mut self.scanner);
                Member::Object
            }
            b"kind" => Member::Kind,
            b"message" => Member::Message,
            _ => return,
        };
        self.event.member = Some((member, self.scanner.offset() - 1));
    }

    fn member_ends(&mut self) -> Result<(), WireError> {
        self.scanner.watch = 1;
        let Some((member, start)) = self.event.member.take() else { return Ok(()) };
        let place = Some((start, self.scanner.offset()));
        match member {
            Member::Type => self.event.r#type = place,
            Member::Kind => self.event.kind = place,
            Member::Message => self.event.message = place,
            Member::Object => {
                self.event.object = place;
                self.check_size()?;
            }
        }
        Ok(())
    }
}

/// What is needed to make an event of its bytes.
struct Reading<'a> {
    event: &'a Event,
    places: &'a Places,
    filler: &'a Filler,
}

impl Reading<'_> {
    /// `json` is the whole event, which begins at `start`.
    fn event<K>(&self, json: &[u8], start: u64) -> Result<WatchEvent<K>, WireError> {
        let part = |place: (u64, u64)| {
            let index = |offset: u64| usize::try_from(offset.saturating_sub(start)).unwrap_or(usize::MAX);
            json.get(index(place.0)..index(place.1)).unwrap_or_default()
        };
        let object = self.event.object.map(part);
        let Some(r#type) = self.event.r#type.map(part) else {
            let text =
                |place: Option<(u64, u64)>| place.map(|p| leaf(part(p)).into_text()).unwrap_or_default();
            let kind = short_line(&text(self.event.kind), 128);
            if kind == "Status" {
                return Ok(WatchEvent::Error(Box::new(Status::from_object(json))));
            }
            let message = short_line(&text(self.event.message), 512);
            return Err(WireError::NotAnEvent { offset: start, kind, message });
        };
        let Leaf::Text(r#type) = leaf(r#type) else {
            let wrong = Wrong::new("type", "expected a string in the event around the object");
            return Ok(WatchEvent::Invalid(self.invalid(object, wrong, start)));
        };
        Ok(match &*r#type {
            "ADDED" => self.object(object, EventType::Added, WatchEvent::Added, start),
            "MODIFIED" => self.object(object, EventType::Modified, WatchEvent::Modified, start),
            "DELETED" => self.object(object, EventType::Deleted, WatchEvent::Deleted, start),
            "BOOKMARK" => self.bookmark(object, start),
            "ERROR" => WatchEvent::Error(Box::new(Status::from_object(object.unwrap_or_default()))),
            other => WatchEvent::Unknown(short_line(other, 64)),
        })
    }

    fn object<K>(
        &self,
        object: Option<&[u8]>,
        event: EventType,
        wrap: fn(crate::Object<K>) -> WatchEvent<K>,
        start: u64,
    ) -> WatchEvent<K> {
        let result = match object {
            Some(body) => self.places.object(body, self.filler),
            None => Err(self.invalid(None, Wrong::new("", "the event has no object"), start)),
        };
        result.map_or_else(
            |wrong| WatchEvent::Invalid(Box::new(InvalidObject { event: Some(event), ..*wrong })),
            wrap,
        )
    }

    /// A bookmark's object may be of any kind and is empty but for its version: `"spec":{"containers":null}`.
    fn bookmark<K>(&self, object: Option<&[u8]>, start: u64) -> WatchEvent<K> {
        let Some(body) = object else {
            return WatchEvent::Bookmark { version: None, initial_events_end: false };
        };
        match self.places.version(body) {
            Ok(version) => {
                let initial_events_end = self.places.has_annotation(body, INITIAL_EVENTS_END, "true");
                WatchEvent::Bookmark { version, initial_events_end }
            }
            Err(wrong) => {
                let invalid = self.invalid(object, wrong, start);
                WatchEvent::Invalid(Box::new(InvalidObject { event: Some(EventType::Bookmark), ..*invalid }))
            }
        }
    }

    fn invalid(&self, object: Option<&[u8]>, wrong: Wrong, start: u64) -> Box<InvalidObject> {
        match object {
            Some(body) => self.places.invalid(body, wrong),
            None => Places::at(start).invalid(b"", wrong),
        }
    }
}
