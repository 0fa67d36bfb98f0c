//! Watch streams: frames of four bytes of length, most significant first, and one event each.

use std::marker::PhantomData;

use reflector_protobuf::{
    Envelope, Kind,
    wire::{Fields, Value, WireError as Malformed},
};

use super::{
    list::malformed,
    meta::{self, Header},
    pending::Pending,
    status_json,
};
use crate::{
    Object,
    wire::{
        EventType, INITIAL_EVENTS_END, InvalidObject, Limits, Status, WatchEvent, WireError,
        status::short_line,
    },
};

/// Cuts a watch stream in protobuf into its events while it arrives.
#[derive(Clone, Debug)]
pub(in crate::wire) struct WatchCutter<K> {
    pending: Pending,
    limits: Limits,
    kinds: Kinds,
    marker: PhantomData<fn() -> K>,
}

/// What the last object was, which is what the next one will be.
#[derive(Clone, Debug, Default)]
struct Kinds {
    last: Option<Kind>,
}

impl Kinds {
    fn find(&mut self, envelope: &Envelope<'_>) -> Option<Kind> {
        let same = |kind: &Kind| kind.kind() == envelope.kind && kind.api_version() == envelope.api_version;
        if !self.last.as_ref().is_some_and(same) {
            self.last = Kind::find(envelope.api_version, envelope.kind);
        }
        self.last
    }
}

/// How many bytes tell the length of a frame.
const LENGTH: usize = 4;

impl<K> WatchCutter<K> {
    pub(in crate::wire) fn new(limits: Limits) -> Self {
        Self { pending: Pending::default(), limits, kinds: Kinds::default(), marker: PhantomData }
    }

    pub(in crate::wire) fn push(
        &mut self,
        chunk: &[u8],
        events: &mut Vec<WatchEvent<K>>,
    ) -> Result<(), WireError> {
        let (limits, kinds) = (&self.limits, &mut self.kinds);
        self.pending.push(chunk, |bytes, offset| take(bytes, offset, limits, kinds, events))
    }

    pub(in crate::wire) fn finish(self) -> Result<(), WireError> {
        match self.pending.len() as u64 {
            0 => Ok(()),
            pending => {
                let offset = self.pending.offset() + pending;
                Err(WireError::Truncated { offset, pending, what: "watch event" })
            }
        }
    }
}

/// Takes the frame that `bytes` begin with, if it is complete, and tells how long it is.
fn take<K>(
    bytes: &[u8],
    offset: u64,
    limits: &Limits,
    kinds: &mut Kinds,
    events: &mut Vec<WatchEvent<K>>,
) -> Result<usize, WireError> {
    let Some((length, rest)) = bytes.split_first_chunk::<LENGTH>() else { return Ok(0) };
    let length = usize::try_from(u32::from_be_bytes(*length)).unwrap_or(usize::MAX);
    // An event is an object and a few bytes around it.
    let limit = limits.object_bytes_max.saturating_add(limits.envelope_bytes_max);
    if length > limit {
        let (what, name) = ("a watch event", "object_bytes_max + envelope_bytes_max");
        return Err(WireError::TooLarge { offset, what, name, limit });
    }
    let Some(frame) = rest.get(..length) else { return Ok(0) };
    let offset = offset + LENGTH as u64;
    events.push(event(frame, offset, kinds)?);
    Ok(LENGTH + length)
}

fn event<K>(frame: &[u8], offset: u64, kinds: &mut Kinds) -> Result<WatchEvent<K>, WireError> {
    let wrong = |error: Malformed| malformed(offset, &error);
    let (mut r#type, mut object) = (&[][..], &[][..]);
    for field in Fields::new(frame) {
        match field.map(|field| (field.number, field.value)).map_err(wrong)? {
            (1, Value::Bytes(bytes)) => r#type = bytes,
            // A RawExtension: its only field holds the envelope.
            (2, Value::Bytes(bytes)) => {
                for field in Fields::new(bytes) {
                    if let (1, Value::Bytes(raw)) =
                        field.map(|field| (field.number, field.value)).map_err(wrong)?
                    {
                        object = raw;
                    }
                }
            }
            _ => {}
        }
    }
    Ok(match r#type {
        b"ADDED" => read(object, EventType::Added, WatchEvent::Added, offset, kinds),
        b"MODIFIED" => read(object, EventType::Modified, WatchEvent::Modified, offset, kinds),
        b"DELETED" => read(object, EventType::Deleted, WatchEvent::Deleted, offset, kinds),
        b"BOOKMARK" => bookmark(object, offset),
        b"ERROR" => WatchEvent::Error(Box::new(error(object))),
        b"" => {
            let kind =
                Envelope::parse(frame).map(|envelope| short_line(envelope.kind, 128)).unwrap_or_default();
            return Err(WireError::NotAnEvent { offset, kind, message: String::new() });
        }
        other => WatchEvent::Unknown(short_line(&String::from_utf8_lossy(other), 64)),
    })
}

fn read<K>(
    object: &[u8],
    event: EventType,
    wrap: fn(Object<K>) -> WatchEvent<K>,
    offset: u64,
    kinds: &mut Kinds,
) -> WatchEvent<K> {
    let result = match Envelope::parse(object) {
        Ok(envelope) => match kinds.find(&envelope) {
            Some(kind) => meta::object(kind, envelope.raw, offset),
            None => {
                let (api_version, kind) = (envelope.api_version, short_line(envelope.kind, 128));
                let reason = format!("no protobuf form of {api_version} {kind} is known");
                Err(meta::unknown(envelope.raw, reason, offset))
            }
        },
        Err(error) => Err(meta::unreadable(error.to_string(), object.len(), offset)),
    };
    result.map_or_else(
        |wrong| WatchEvent::Invalid(Box::new(InvalidObject { event: Some(event), ..*wrong })),
        wrap,
    )
}

/// A bookmark's object is empty but for its version.
fn bookmark<K>(object: &[u8], offset: u64) -> WatchEvent<K> {
    if object.is_empty() {
        return WatchEvent::Bookmark { version: None, initial_events_end: false };
    }
    let invalid = match Envelope::parse(object) {
        Ok(envelope) => {
            let (header, wrong) = Header::read(envelope.raw);
            match wrong.map_or_else(|| header.version(), Err) {
                Ok(version) => {
                    let initial_events_end = header.has_annotation(INITIAL_EVENTS_END, "true");
                    return WatchEvent::Bookmark { version, initial_events_end };
                }
                Err(wrong) => meta::invalid(&header, wrong, envelope.raw.len(), offset),
            }
        }
        Err(error) => meta::unreadable(error.to_string(), object.len(), offset),
    };
    WatchEvent::Invalid(Box::new(InvalidObject { event: Some(EventType::Bookmark), ..*invalid }))
}

fn error(object: &[u8]) -> Status {
    // Some servers put JSON into the frame.
    status_json(object).map_or_else(|| Status::from_object(object), |json| Status::from_object(&json))
}
