//! Lists: one message in an envelope, its items given out as they end.

use std::{marker::PhantomData, str};

use reflector_protobuf::{
    Kind, PREFIX,
    wire::{Fields, Value, WireError as Malformed, WireType, read_tag, read_varint},
};

use super::{meta, pending::Pending};
use crate::{
    ResourceVersion,
    wire::{Limits, ListItem, ListMeta, Status, TypeMeta, WireError, status::short_line},
};

/// Cuts a list in protobuf into its items while it arrives.
#[derive(Clone, Debug)]
pub(in crate::wire) struct ListCutter<K> {
    pending: Pending,
    envelope: Envelope,
    limits: Limits,
    marker: PhantomData<fn() -> K>,
}

/// What is known of the list so far.
#[derive(Clone, Debug, Default)]
struct Envelope {
    place: Place,
    api_version: String,
    kind: String,
    /// What the items are.
    items: Option<Kind>,
    meta: ListMeta,
    /// How many bytes of the limit are used up.
    bytes: usize,
}

/// Where the next byte lies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Place {
    #[default]
    Prefix,
    /// Within the envelope, around the list.
    Outer { list_seen: bool },
    /// Within the list, so many bytes before its end.
    List { left: u64 },
    /// Within a field of the list or the envelope that nobody needs.
    Skip { length: u64, list_left: Option<u64> },
}

/// The numbers of an envelope's fields.
const TYPE_META: u32 = 1;
const RAW: u32 = 2;
/// The numbers of a list's fields. All lists have these.
const METADATA: u32 = 1;
const ITEMS: u32 = 2;

impl<K> ListCutter<K> {
    pub(in crate::wire) fn new(limits: Limits) -> Self {
        Self { pending: Pending::default(), envelope: Envelope::default(), limits, marker: PhantomData }
    }

    pub(in crate::wire) fn push(
        &mut self,
        chunk: &[u8],
        items: &mut Vec<ListItem<K>>,
    ) -> Result<(), WireError> {
        let (envelope, limits) = (&mut self.envelope, &self.limits);
        self.pending.push(chunk, |bytes, offset| envelope.take(bytes, offset, limits, items))
    }

    pub(in crate::wire) fn finish(self) -> Result<ListMeta, WireError> {
        let Envelope { place, api_version, kind, items, mut meta, .. } = self.envelope;
        let (offset, pending) = (self.pending.offset(), self.pending.len() as u64);
        if pending > 0 || place != (Place::Outer { list_seen: true }) {
            let offset = offset + pending;
            return Err(WireError::Truncated { offset, pending: offset, what: "list" });
        }
        if items.is_none() {
            return Err(WireError::NotAList { kind, message: String::new() });
        }
        let item = kind.strip_suffix("List").map(|kind| TypeMeta::new(api_version, kind));
        meta.types = item;
        Ok(meta)
    }
}

/// The head of a field: its number, whether it is of bytes, where its content begins, and how long that is.
struct Head {
    number: u32,
    is_bytes: bool,
    begin: usize,
    length: u64,
}

/// The head of a field, as far as it has arrived. A field that is no bytes counts as its own content.
fn head(bytes: &[u8], offset: u64) -> Result<Option<Head>, WireError> {
    let mut at = 0;
    let incomplete = |error: Malformed| match error {
        // No varint is longer than ten bytes, so a tag and a length are no longer than twenty.
        Malformed::Truncated { .. } if bytes.len() < 20 => Ok(None),
        error => Err(malformed(offset, &error)),
    };
    let (number, wire_type) = match read_tag(bytes, &mut at) {
        Ok(tag) => tag,
        Err(error) => return incomplete(error),
    };
    let fixed = |length: u64| Ok(Some(Head { number, is_bytes: false, begin: at, length }));
    match wire_type {
        WireType::I64 => fixed(8),
        WireType::I32 => fixed(4),
        WireType::Varint => {
            let begin = at;
            match read_varint(bytes, &mut at) {
                Ok(_) => Ok(Some(Head { number, is_bytes: false, begin, length: (at - begin) as u64 })),
                Err(error) => incomplete(error),
            }
        }
        WireType::Bytes => match read_varint(bytes, &mut at) {
            Ok(length) => Ok(Some(Head { number, is_bytes: true, begin: at, length })),
            Err(error) => incomplete(error),
        },
    }
}

pub(super) fn malformed(offset: u64, error: &Malformed) -> WireError {
    WireError::Protobuf { offset, what: error.to_string() }
}

impl Head {
    /// A field that is needed must be of bytes, as Go's decoder asks.
    fn check_bytes(&self, offset: u64) -> Result<(), WireError> {
        if self.is_bytes {
            return Ok(());
        }
        let what = format!("field {} is of another wire type than bytes", self.number);
        Err(WireError::Protobuf { offset, what })
    }
}

impl Envelope {
    /// Takes what is complete of `bytes`, which begin at `offset`, and tells how much that was.
    fn take<K>(
        &mut self,
        bytes: &[u8],
        offset: u64,
        limits: &Limits,
        items: &mut Vec<ListItem<K>>,
    ) -> Result<usize, WireError> {
        match self.place {
            Place::Prefix => {
                let seen = bytes.len().min(PREFIX.len());
                if bytes.get(..seen) != PREFIX.get(..seen) {
                    let what = "expected the prefix of Kubernetes protobuf".to_owned();
                    return Err(WireError::Protobuf { offset, what });
                }
                if seen < PREFIX.len() {
                    return Ok(0);
                }
                self.place = Place::Outer { list_seen: false };
                Ok(seen)
            }
            Place::Outer { list_seen } => self.outer(bytes, offset, limits, list_seen),
            Place::List { left: 0 } => {
                self.place = Place::Outer { list_seen: true };
                // Nothing is used up, and yet there is something to do.
                self.outer(bytes, offset, limits, true)
            }
            Place::List { left } => self.list(bytes, offset, limits, left, items),
            Place::Skip { length, list_left } => {
                let skipped = length.min(bytes.len() as u64);
                let length = length - skipped;
                self.place = match (length, list_left) {
                    (0, None) => Place::Outer { list_seen: false },
                    (0, Some(left)) => self.within(left),
                    _ => Place::Skip { length, list_left },
                };
                Ok(usize::try_from(skipped).unwrap_or(bytes.len()))
            }
        }
    }

    /// The place so many bytes before the list's end.
    fn within(&self, left: u64) -> Place {
        if left == 0 { Place::Outer { list_seen: true } } else { Place::List { left } }
    }

    fn outer(
        &mut self,
        bytes: &[u8],
        offset: u64,
        limits: &Limits,
        list_seen: bool,
    ) -> Result<usize, WireError> {
        let Some(head) = head(bytes, offset)? else { return Ok(0) };
        if matches!(head.number, TYPE_META | RAW) {
            head.check_bytes(offset)?;
        }
        match head.number {
            TYPE_META => {
                let Some(type_meta) = self.whole(bytes, &head, offset, limits)? else { return Ok(0) };
                self.type_meta(type_meta).map_err(|error| malformed(offset, &error))?;
                Ok(head.begin + type_meta.len())
            }
            RAW if list_seen => {
                Err(WireError::Protobuf { offset, what: "a second list in one envelope".to_owned() })
            }
            // Waits for the whole of it: what it says must not depend on how much has arrived.
            RAW if self.kind == "Status" && head.length <= limits.envelope_bytes_max as u64 => {
                let Some(status) = content(bytes, &head) else { return Ok(0) };
                let message = status_message(status).unwrap_or_default();
                Err(WireError::NotAList { kind: self.kind.clone(), message })
            }
            RAW => {
                self.check_kind(offset)?;
                self.place = self.within(head.length);
                Ok(head.begin)
            }
            // Content type and encoding, which are empty, and whatever may come.
            _ if list_seen => {
                let Some(skipped) = self.whole(bytes, &head, offset, limits)? else { return Ok(0) };
                Ok(head.begin + skipped.len())
            }
            _ => {
                self.place = Place::Skip { length: head.length, list_left: None };
                if head.length == 0 {
                    self.place = Place::Outer { list_seen };
                }
                Ok(head.begin)
            }
        }
    }

    fn list<K>(
        &mut self,
        bytes: &[u8],
        offset: u64,
        limits: &Limits,
        left: u64,
        items: &mut Vec<ListItem<K>>,
    ) -> Result<usize, WireError> {
        let bytes = bytes.get(..usize::try_from(left).unwrap_or(usize::MAX)).unwrap_or(bytes);
        let Some(head) = head(bytes, offset)? else {
            if bytes.len() as u64 == left {
                return Err(WireError::Protobuf { offset, what: "a field ends after its list".to_owned() });
            }
            return Ok(0);
        };
        if matches!(head.number, METADATA | ITEMS) {
            head.check_bytes(offset)?;
        }
        let used = (head.begin as u64).saturating_add(head.length);
        let Some(after) = left.checked_sub(used) else {
            return Err(WireError::Protobuf { offset, what: "a field ends after its list".to_owned() });
        };
        let content = match head.number {
            METADATA => self.whole(bytes, &head, offset, limits)?,
            ITEMS => {
                let limit = limits.object_bytes_max;
                if head.length > limit as u64 {
                    let (what, name) = ("an object", "object_bytes_max");
                    return Err(WireError::TooLarge { offset, what, name, limit });
                }
                content(bytes, &head)
            }
            _ => {
                self.place = match head.length {
                    0 => self.within(after),
                    length => Place::Skip { length, list_left: Some(after) },
                };
                return Ok(head.begin);
            }
        };
        let Some(content) = content else { return Ok(0) };
        match (head.number, self.items) {
            (ITEMS, Some(kind)) => {
                let item = meta::object(kind, content, offset + head.begin as u64);
                items.push(item.map_or_else(ListItem::Invalid, ListItem::Object));
            }
            _ => self.meta = list_meta(content, offset)?,
        }
        self.place = self.within(after);
        Ok(head.begin + content.len())
    }

    /// The content of a field of the envelope, if all of it is there.
    fn whole<'a>(
        &mut self,
        bytes: &'a [u8],
        head: &Head,
        offset: u64,
        limits: &Limits,
    ) -> Result<Option<&'a [u8]>, WireError> {
        let limit = limits.envelope_bytes_max;
        if (self.bytes as u64).saturating_add(head.length) > limit as u64 {
            let (what, name) = ("the list's own metadata", "envelope_bytes_max");
            return Err(WireError::TooLarge { offset, what, name, limit });
        }
        let content = content(bytes, head);
        self.bytes = self.bytes.saturating_add(content.map_or(0, <[u8]>::len));
        Ok(content)
    }

    fn type_meta(&mut self, bytes: &[u8]) -> Result<(), Malformed> {
        for field in Fields::new(bytes) {
            let field = field?;
            let Value::Bytes(text) = field.value else { continue };
            let text = String::from_utf8_lossy(text);
            match field.number {
                1 => self.api_version = short_line(&text, 256),
                2 => self.kind = short_line(&text, 128),
                _ => {}
            }
        }
        Ok(())
    }

    /// Finds out what the items are, before the first one comes.
    fn check_kind(&mut self, offset: u64) -> Result<(), WireError> {
        let Some(item) = self.kind.strip_suffix("List") else {
            return Err(WireError::NotAList { kind: self.kind.clone(), message: String::new() });
        };
        self.items = Kind::find(&self.api_version, item);
        if self.items.is_none() {
            let what = format!("no protobuf form of {} {item} is known", self.api_version);
            return Err(WireError::Envelope { offset, member: "kind", what });
        }
        Ok(())
    }
}

fn content<'a>(bytes: &'a [u8], head: &Head) -> Option<&'a [u8]> {
    bytes.get(head.begin..)?.get(..usize::try_from(head.length).ok()?)
}

/// What a Status says that came where a list was expected.
fn status_message(message: &[u8]) -> Option<String> {
    let mut json = Vec::new();
    reflector_protobuf::to_json(Kind::find("v1", "Status")?, message, &mut json).ok()?;
    Some(Status::from_object(&json).message)
}

fn list_meta(bytes: &[u8], offset: u64) -> Result<ListMeta, WireError> {
    let wrong = |what: String| WireError::Envelope { offset, member: "metadata", what };
    let text =
        |bytes, name: &str| str::from_utf8(bytes).map_err(|_| wrong(format!("`metadata.{name}`: not UTF-8")));
    let mut meta = ListMeta::default();
    for field in Fields::new(bytes) {
        let field = field.map_err(|error| wrong(error.to_string()))?;
        match (field.number, field.value) {
            (2, Value::Bytes(bytes)) => meta.version = ResourceVersion::new(text(bytes, "resourceVersion")?),
            (3, Value::Bytes(bytes)) => {
                let token = text(bytes, "continue")?;
                meta.continue_token = (!token.is_empty()).then(|| token.to_owned());
            }
            // A hint: not worth an error.
            (4, Value::Varint(count)) => {
                meta.remaining = i64::try_from(count).ok().and_then(|c| c.try_into().ok());
            }
            (5, Value::Bytes(shard)) => {
                for field in Fields::new(shard) {
                    let field = field.map_err(|error| wrong(error.to_string()))?;
                    if let (1, Value::Bytes(bytes)) = (field.number, field.value) {
                        let selector = text(bytes, "shardInfo.selector")?;
                        meta.shard_selector = (!selector.is_empty()).then(|| selector.to_owned());
                    }
                }
            }
            _ => {}
        }
    }
    Ok(meta)
}
