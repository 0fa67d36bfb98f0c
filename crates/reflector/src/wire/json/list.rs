//! Lists: one JSON document, its items given out as they end.

use std::marker::PhantomData;

use serde::Deserialize;

use super::{
    capture::{Bound, Capture, Chunk},
    meta::{Filler, Leaf, Walk, Wrong, kind_of, leaf, name},
    scan::{Scanner, Token},
};
use crate::{
    ResourceVersion,
    wire::{Limits, ListItem, ListMeta, TypeMeta, WireError, status::short_line},
};

/// The depth at which the items lie: within the list, within `items`.
const ITEM: usize = 2;

/// Cuts a list in JSON into its items while it arrives.
#[derive(Clone, Debug)]
pub(in crate::wire) struct ListCutter<K> {
    scanner: Scanner,
    capture: Capture,
    walk: Walk,
    limits: Limits,
    /// Whether the list itself is to say what its items are.
    fill_by_list: bool,
    filler: Filler,
    envelope: Envelope,
    kind: PhantomData<fn() -> K>,
}

/// What is known of the list so far.
#[derive(Clone, Debug, Default)]
struct Envelope {
    /// The member that is being read.
    member: Option<Member>,
    /// Whether the document is complete.
    complete: bool,
    has_items: bool,
    kind: String,
    api_version: String,
    message: String,
    meta: ListMeta,
    /// How many bytes of the limit are used up.
    bytes: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Member {
    Kind,
    ApiVersion,
    Metadata,
    Message,
    Items,
    Other,
}

impl<K> ListCutter<K> {
    pub(in crate::wire) fn new(types: Option<TypeMeta>, limits: Limits) -> Self {
        Self {
            scanner: Scanner::new(limits.depth_max),
            capture: Capture::default(),
            walk: Walk::new(ITEM),
            limits,
            fill_by_list: types.is_none(),
            filler: types.map(|types| Filler::new(&types)).unwrap_or_default(),
            envelope: Envelope::default(),
            kind: PhantomData,
        }
    }

    pub(in crate::wire) fn push(
        &mut self,
        chunk: &[u8],
        items: &mut Vec<ListItem<K>>,
    ) -> Result<(), WireError> {
        self.take(chunk, items)
    }

    pub(in crate::wire) fn finish(self) -> Result<ListMeta, WireError> {
        let Envelope { complete, has_items, kind, api_version, message, mut meta, .. } = self.envelope;
        if !complete {
            let offset = self.scanner.offset();
            return Err(WireError::Truncated { offset, pending: offset, what: "list" });
        }
        // A custom resource may call its list anything, but it has items, if only null. What has none is some other
        // document, such as an APIResourceList, and must not be taken for an empty collection.
        if kind == "Status" || !has_items {
            return Err(WireError::NotAList { kind, message });
        }
        meta.types = item_types(&kind, &api_version);
        Ok(meta)
    }

    fn take(&mut self, bytes: &[u8], items: &mut Vec<ListItem<K>>) -> Result<(), WireError> {
        let chunk = Chunk { bytes, base: self.scanner.offset() };
        let mut rest = bytes;
        loop {
            let token = match self.scanner.next(&mut rest) {
                Ok(Some(token)) => token,
                Ok(None) => break,
                Err(error) => {
                    self.capture.fault(self.scanner.offset(), chunk, self.bound())?;
                    return Err(error);
                }
            };
            match token {
                Token::Start { depth: 0, .. } if self.envelope.complete => {
                    let offset = self.scanner.offset() - 1;
                    return Err(WireError::Syntax { offset, what: "expected nothing after the list".into() });
                }
                Token::Start { depth: 0, .. } => self.scanner.watch = 1,
                Token::End { depth: 0 } => self.envelope.complete = true,
                Token::Start { depth: 1, first } => self.member_starts(first)?,
                Token::End { depth: 1 } => self.member_ends(chunk)?,
                _ => self.item(token, chunk, items)?,
            }
        }
        self.capture.chunk_ends(chunk, self.bound())
    }

    fn item(
        &mut self,
        token: Token,
        chunk: Chunk<'_>,
        items: &mut Vec<ListItem<K>>,
    ) -> Result<(), WireError> {
        self.walk.token(token, &mut self.scanner);
        match token {
            Token::Start { depth: ITEM, .. } => self.capture.begin(self.walk.places.start),
            Token::End { depth: ITEM } => {
                let (end, bound) = (self.scanner.offset(), item_bound(&self.limits));
                let (places, filler) = (&self.walk.places, &self.filler);
                let object = self.capture.finish(end, chunk, bound, |body, _| places.object(body, filler))?;
                items.push(match object {
                    Ok(object) => ListItem::Object(object),
                    Err(invalid) => ListItem::Invalid(invalid),
                });
            }
            _ => {}
        }
        Ok(())
    }

    fn member_starts(&mut self, first: u8) -> Result<(), WireError> {
        let offset = self.scanner.offset() - 1;
        let member = match &*name(self.scanner.key()) {
            b"kind" => Member::Kind,
            b"apiVersion" => Member::ApiVersion,
            b"metadata" => Member::Metadata,
            b"message" => Member::Message,
            b"items" => Member::Items,
            _ => Member::Other,
        };
        self.envelope.member = Some(member);
        match (member, first) {
            (Member::Other, _) => {}
            (Member::Items, b'[') => {
                self.envelope.has_items = true;
                if self.fill_by_list
                    && let Some(types) = item_types(&self.envelope.kind, &self.envelope.api_version)
                {
                    self.filler = Filler::new(&types);
                }
                self.scanner.watch = ITEM;
            }
            (Member::Items, b'n') => self.envelope.has_items = true,
            (Member::Items, _) => {
                let what = format!("expected an array, found {}", kind_of(first));
                return Err(WireError::Envelope { offset, member: "items", what });
            }
            _ => self.capture.begin(offset),
        }
        Ok(())
    }

    fn member_ends(&mut self, chunk: Chunk<'_>) -> Result<(), WireError> {
        self.scanner.watch = 1;
        let Some(member) = self.envelope.member.take() else { return Ok(()) };
        if matches!(member, Member::Items | Member::Other) {
            return Ok(());
        }
        let (bound, envelope) = (self.envelope_bound(), &mut self.envelope);
        self.capture.finish(self.scanner.offset(), chunk, bound, |json, offset| {
            envelope.bytes = envelope.bytes.saturating_add(json.len());
            envelope.read(member, json, offset)
        })?
    }

    fn bound(&self) -> Bound {
        if self.envelope.member == Some(Member::Items) {
            item_bound(&self.limits)
        } else {
            self.envelope_bound()
        }
    }

    fn envelope_bound(&self) -> Bound {
        Bound {
            what: "the list's own metadata",
            name: "envelope_bytes_max",
            limit: self.limits.envelope_bytes_max,
            used: self.envelope.bytes,
        }
    }
}

fn item_bound(limits: &Limits) -> Bound {
    Bound { what: "an object", name: "object_bytes_max", limit: limits.object_bytes_max, used: 0 }
}

/// What the items of such a list are; `None` if its kind does not tell.
fn item_types(list_kind: &str, api_version: &str) -> Option<TypeMeta> {
    let kind = list_kind.strip_suffix("List").filter(|kind| !kind.is_empty())?;
    (!api_version.is_empty()).then(|| TypeMeta::new(api_version, kind))
}

impl Envelope {
    fn read(&mut self, member: Member, json: &[u8], offset: u64) -> Result<(), WireError> {
        match member {
            Member::Kind => {
                self.kind = short_line(&leaf(json).into_text(), 128);
                // No need to wait for the end: its rows are of no use (RF-26).
                if self.kind == "Table" {
                    return Err(WireError::NotAList { kind: self.kind.clone(), message: String::new() });
                }
            }
            Member::ApiVersion => self.api_version = leaf(json).into_text(),
            Member::Message => self.message = short_line(&leaf(json).into_text(), 512),
            Member::Metadata => {
                self.meta = read_meta(json).map_err(|what| WireError::Envelope {
                    offset,
                    member: "metadata",
                    what,
                })?;
            }
            Member::Items | Member::Other => {}
        }
        Ok(())
    }
}

/// `metadata` of a list. Null, absent and empty members are the same, as in Go.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct RawMeta<'a> {
    #[serde(borrow)]
    resource_version: Leaf<'a>,
    #[serde(borrow)]
    r#continue: Leaf<'a>,
    #[serde(borrow)]
    remaining_item_count: Leaf<'a>,
    #[serde(borrow)]
    shard_info: Option<RawShard<'a>>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct RawShard<'a> {
    #[serde(borrow)]
    selector: Leaf<'a>,
}

fn read_meta(json: &[u8]) -> Result<ListMeta, String> {
    let raw = match json.first().copied() {
        Some(b'n') => return Ok(ListMeta::default()),
        // Serde's own words may quote the text.
        Some(b'{') => serde_json::from_slice::<RawMeta<'_>>(json).map_err(|error| {
            format!("not valid at line {}, column {} of it", error.line(), error.column())
        })?,
        first => return Err(format!("expected an object, found {}", kind_of(first.unwrap_or_default()))),
    };
    let wrong = |wrong: Wrong| format!("`{}`: {}", wrong.path, wrong.reason);
    let version = raw.resource_version.text(&"metadata.resourceVersion").map_err(wrong)?;
    let token = raw.r#continue.text(&"metadata.continue").map_err(wrong)?.into_owned();
    let selector = raw.shard_info.map(|shard| shard.selector.into_text()).unwrap_or_default();
    Ok(ListMeta {
        version: ResourceVersion::new(&version),
        continue_token: (!token.is_empty()).then_some(token),
        // A hint: not worth an error.
        remaining: match raw.remaining_item_count {
            Leaf::Integer(count) => u64::try_from(count).ok(),
            _ => None,
        },
        shard_selector: (!selector.is_empty()).then_some(selector),
        types: None,
    })
}
