//! From the places of an object's members to its header.

use std::{borrow::Cow, fmt, ops::Range};

use bytes::Bytes;
use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::scan::{Scanner, Token};
use crate::{
    Encoding, Labels, Object, ObjectKey, ObjectMeta, ResourceVersion, Uid,
    wire::{InvalidObject, Limits, TypeMeta},
};

/// Where a value lies, in bytes from the beginning of the body.
type Place = Range<u64>;

/// The places of those members of an object that its header is made of. Of duplicates, the last counts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Places {
    /// Where the object begins.
    pub(super) start: u64,
    /// Its first byte: whether it is an object at all.
    first: u8,
    has_kind: bool,
    has_api_version: bool,
    /// The first byte of `metadata`, if there is one.
    metadata: Option<u8>,
    name: Option<Place>,
    namespace: Option<Place>,
    uid: Option<Place>,
    version: Option<Place>,
    labels: Option<Place>,
    annotations: Option<Place>,
}

/// A member of `metadata` that matters.
#[derive(Clone, Copy, Debug)]
enum Field {
    Name,
    Namespace,
    Uid,
    Version,
    Labels,
    Annotations,
}

/// Follows the tokens of one object, and tells the scanner how deep to look.
#[derive(Clone, Debug)]
pub(super) struct Walk {
    /// The depth at which objects lie.
    depth: usize,
    pub(super) places: Places,
    field: Option<(Field, u64)>,
}

impl Walk {
    /// Walks objects that lie at `depth`.
    pub(super) fn new(depth: usize) -> Self {
        Self { depth, places: Places::default(), field: None }
    }

    /// Takes a token at the object's depth or deeper.
    pub(super) fn token(&mut self, token: Token, scanner: &mut Scanner) {
        match token {
            Token::Start { depth, first } => {
                let at = scanner.offset() - 1;
                match depth - self.depth {
                    0 => {
                        self.places = Places { start: at, first, ..Places::default() };
                        scanner.watch = if first == b'{' { self.depth + 1 } else { self.depth };
                    }
                    1 => match &*name(scanner.key()) {
                        b"kind" => self.places.has_kind = true,
                        b"apiVersion" => self.places.has_api_version = true,
                        b"metadata" => {
                            let Places { start, first: object, has_kind, has_api_version, .. } = self.places;
                            self.places = Places {
                                start,
                                first: object,
                                has_kind,
                                has_api_version,
                                metadata: Some(first),
                                ..Places::default()
                            };
                            if first == b'{' {
                                scanner.watch = self.depth + 2;
                            }
                        }
                        _ => {}
                    },
                    _ => self.field = Field::by_name(&name(scanner.key())).map(|field| (field, at)),
                }
            }
            Token::End { depth } => match depth - self.depth {
                0 => {}
                1 => scanner.watch = self.depth + 1,
                _ => {
                    if let Some((field, start)) = self.field.take() {
                        *self.places.of(field) = Some(start..scanner.offset());
                    }
                }
            },
        }
    }
}

impl Field {
    fn by_name(name: &[u8]) -> Option<Self> {
        Some(match name {
            b"name" => Self::Name,
            b"namespace" => Self::Namespace,
            b"uid" => Self::Uid,
            b"resourceVersion" => Self::Version,
            b"labels" => Self::Labels,
            b"annotations" => Self::Annotations,
            _ => return None,
        })
    }
}

impl Places {
    /// Nothing is known but where it begins.
    pub(super) fn at(start: u64) -> Self {
        Self { start, ..Self::default() }
    }

    fn of(&mut self, field: Field) -> &mut Option<Place> {
        match field {
            Field::Name => &mut self.name,
            Field::Namespace => &mut self.namespace,
            Field::Uid => &mut self.uid,
            Field::Version => &mut self.version,
            Field::Labels => &mut self.labels,
            Field::Annotations => &mut self.annotations,
        }
    }

    /// The bytes of a member of the object whose bytes are `body`; `null` if absent.
    fn value<'a>(&self, body: &'a [u8], place: Option<&Place>) -> &'a [u8] {
        let index = |offset: u64| usize::try_from(offset.saturating_sub(self.start)).unwrap_or(usize::MAX);
        place.and_then(|place| body.get(index(place.start)..index(place.end))).unwrap_or(b"null")
    }

    /// The version of the object whose bytes are `body`.
    pub(super) fn version(&self, body: &[u8]) -> Result<Option<ResourceVersion>, Wrong> {
        let text = text(self.value(body, self.version.as_ref()), "metadata.resourceVersion")?;
        Ok(ResourceVersion::new(&text))
    }

    /// Whether an annotation has exactly this value.
    pub(super) fn has_annotation(&self, body: &[u8], name: &str, value: &str) -> bool {
        let Ok(entries) = entries(self.value(body, self.annotations.as_ref()), "metadata.annotations") else {
            return false;
        };
        entries
            .iter()
            .rev()
            .find(|(n, _)| n == name)
            .is_some_and(|(_, v)| matches!(v, Leaf::Text(v) if v == value))
    }

    fn key(&self, body: &[u8]) -> Result<ObjectKey, Wrong> {
        let name = text(self.value(body, self.name.as_ref()), "metadata.name")?;
        let namespace = text(self.value(body, self.namespace.as_ref()), "metadata.namespace")?;
        if name.is_empty() {
            return Err(Wrong::new("metadata.name", "missing or empty"));
        }
        Ok(ObjectKey::new(Some(&namespace), &name))
    }

    fn labels(&self, body: &[u8]) -> Result<Labels, Wrong> {
        const PATH: &str = "metadata.labels";
        let mut labels = Vec::new();
        for (name, value) in entries(self.value(body, self.labels.as_ref()), PATH)? {
            let value = value.text(&format_args!("{PATH}.{name}"))?;
            labels.push((name, value));
        }
        Ok(labels.iter().map(|(name, value)| (&**name, &**value)).collect())
    }

    fn header(&self, body: &[u8]) -> Result<ObjectMeta, Wrong> {
        if self.first != b'{' {
            return Err(Wrong::new("", format!("expected an object, found {}", kind_of(self.first))));
        }
        match self.metadata {
            Some(b'{') => {}
            None => return Err(Wrong::new("metadata", "missing")),
            Some(first) => {
                return Err(Wrong::new("metadata", format!("expected an object, found {}", kind_of(first))));
            }
        }
        let key = self.key(body)?;
        let uid = Uid::new(&text(self.value(body, self.uid.as_ref()), "metadata.uid")?);
        let version = self.version(body)?;
        let labels = self.labels(body)?;
        // Most bodies are ASCII, which is told several times faster.
        if !body.is_ascii()
            && let Err(error) = std::str::from_utf8(body)
        {
            return Err(Wrong::new("", format!("not UTF-8 at byte {} of the object", error.valid_up_to())));
        }
        Ok(ObjectMeta { key, uid, version, labels })
    }

    /// What is left to say of the object whose bytes are `body` when it cannot be kept.
    pub(super) fn invalid(&self, body: &[u8], wrong: Wrong) -> Box<InvalidObject> {
        Box::new(InvalidObject {
            key: self.key(body).ok(),
            version: self.version(body).ok().flatten(),
            event: None,
            path: wrong.path,
            reason: wrong.reason,
            offset: self.start,
            bytes: body.len(),
        })
    }

    /// The object whose bytes are `body`, in an allocation of its own and of its exact size.
    pub(super) fn object<K>(&self, body: &[u8], filler: &Filler) -> Result<Object<K>, Box<InvalidObject>> {
        match self.header(body) {
            Ok(meta) => {
                let prefix = filler.prefix(self.has_kind, self.has_api_version);
                let body = if prefix.is_empty() {
                    Bytes::copy_from_slice(body)
                } else {
                    // It has metadata, so the comma at the prefix's end is followed by a member.
                    let rest = body.get(1..).unwrap_or_default();
                    Bytes::from([prefix, rest].concat())
                };
                Ok(Object::new(meta, Encoding::Json, body))
            }
            Err(wrong) => Err(self.invalid(body, wrong)),
        }
    }
}

/// One object that is all of `json`.
pub(crate) fn object_from_json<K>(json: &[u8]) -> Result<Object<K>, Box<InvalidObject>> {
    let mut scanner = Scanner::new(Limits::default().depth_max);
    let mut walk = Walk::new(0);
    let mut rest = json;
    let mut end = None;
    let failed = loop {
        match scanner.next(&mut rest) {
            Ok(Some(_)) if end.is_some() => break Some("more than one JSON value".to_owned()),
            Ok(Some(token)) => {
                walk.token(token, &mut scanner);
                if token == (Token::End { depth: 0 }) {
                    end = Some(scanner.offset());
                }
            }
            Ok(None) if end.is_none() => break Some("the JSON ends too early".to_owned()),
            Ok(None) => break None,
            Err(error) => break Some(error.to_string()),
        }
    };
    let index = |offset: u64| usize::try_from(offset).unwrap_or(usize::MAX);
    let body = json
        .get(index(walk.places.start)..index(end.unwrap_or(u64::MAX)).min(json.len()))
        .unwrap_or_default();
    match failed {
        Some(reason) => Err(walk.places.invalid(body, Wrong::new("", reason))),
        None => walk.places.object(body, &Filler::default()),
    }
}

/// Writes `kind` and `apiVersion` into objects that lack them, as the items of built-in lists do (K13).
#[derive(Clone, Debug, Default)]
pub(super) struct Filler {
    both: Vec<u8>,
    kind: Vec<u8>,
    api_version: Vec<u8>,
}

impl Filler {
    pub(super) fn new(types: &TypeMeta) -> Self {
        let kind = format!("\"kind\":{},", serde_json::Value::from(&*types.kind));
        let api_version = format!("\"apiVersion\":{},", serde_json::Value::from(&*types.api_version));
        Self {
            both: format!("{{{kind}{api_version}").into(),
            kind: format!("{{{kind}").into(),
            api_version: format!("{{{api_version}").into(),
        }
    }

    /// What takes the place of the opening brace; empty if nothing is to be written.
    fn prefix(&self, has_kind: bool, has_api_version: bool) -> &[u8] {
        match (has_kind, has_api_version) {
            (true, true) => &[],
            (false, false) => &self.both,
            (false, true) => &self.kind,
            (true, false) => &self.api_version,
        }
    }
}

/// What is wrong with an object, and where.
#[derive(Debug)]
pub(super) struct Wrong {
    pub(super) path: String,
    pub(super) reason: String,
}

impl Wrong {
    pub(super) fn new(path: impl Into<String>, reason: impl Into<String>) -> Self {
        Self { path: path.into(), reason: reason.into() }
    }
}

/// A member's name without its escapes. What is not valid text is nobody's name.
pub(crate) fn name(raw: &[u8]) -> Cow<'_, [u8]> {
    if !raw.contains(&b'\\') {
        return Cow::Borrowed(raw);
    }
    let quoted = [b"\"", raw, b"\""].concat();
    serde_json::from_slice::<String>(&quoted).map_or(Cow::Borrowed(raw), |name| Cow::Owned(name.into()))
}

/// The name of a member without its escapes, from the bytes between the end of what stands before it and its value:
/// `, "name" : `.
pub(crate) fn name_at_end(between: &[u8]) -> Cow<'_, [u8]> {
    let quote = |b: &u8| *b == b'"';
    let begin = between.iter().position(quote).map_or(between.len(), |at| at + 1);
    let end = between.iter().rposition(quote).unwrap_or_default();
    name(between.get(begin..end).unwrap_or_default())
}

/// What a value is, by its first byte.
pub(super) fn kind_of(first: u8) -> &'static str {
    match first {
        b'{' => "an object",
        b'[' => "an array",
        b'"' => "a string",
        b't' | b'f' => "a boolean",
        b'n' => "null",
        _ => "a number",
    }
}

/// A member that should be a string; absent and null are the empty string, as in Go.
fn text<'a>(json: &'a [u8], path: &str) -> Result<Cow<'a, str>, Wrong> {
    leaf(json).text(&path)
}

/// Any JSON value, as far as it may be told.
pub(crate) fn leaf(json: &[u8]) -> Leaf<'_> {
    serde_json::from_slice(json).unwrap_or(Leaf::Other("text that is not valid"))
}

/// A member that should be a map; absent and null are the empty map.
fn entries<'a>(json: &'a [u8], path: &str) -> Result<Vec<(Cow<'a, str>, Leaf<'a>)>, Wrong> {
    let expected = |found: &str| Wrong::new(path, format!("expected an object, found {found}"));
    match json.first().copied() {
        Some(b'{') => match serde_json::from_slice(json) {
            Ok(Entries(entries)) => Ok(entries),
            Err(_) => Err(Wrong::new(path, "a name or value is not valid text")),
        },
        Some(b'n') | None => Ok(Vec::new()),
        Some(first) => Err(expected(kind_of(first))),
    }
}

/// A JSON value of which only text and whole numbers matter; of the others, what they are. Its errors never quote it.
#[derive(Debug, Default)]
pub(crate) enum Leaf<'a> {
    #[default]
    Null,
    Text(Cow<'a, str>),
    Integer(i64),
    Other(&'static str),
}

impl<'a> Leaf<'a> {
    /// The text; what is none is the empty one.
    pub(crate) fn into_text(self) -> String {
        match self {
            Self::Text(text) => text.into_owned(),
            _ => String::new(),
        }
    }

    /// The text; null is the empty one.
    pub(super) fn text(self, path: &dyn fmt::Display) -> Result<Cow<'a, str>, Wrong> {
        let found = match self {
            Self::Text(text) => return Ok(text),
            Self::Null => return Ok(Cow::Borrowed("")),
            Self::Integer(_) => "a number",
            Self::Other(found) => found,
        };
        Err(Wrong::new(path.to_string(), format!("expected a string, found {found}")))
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Leaf<'a> {
    fn deserialize<D: Deserializer<'de>>(json: D) -> Result<Self, D::Error> {
        json.deserialize_any(LeafVisitor)
    }
}

struct LeafVisitor;

impl<'de> Visitor<'de> for LeafVisitor {
    type Value = Leaf<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Leaf::Text(Cow::Borrowed(text)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Leaf::Text(Cow::Owned(text.to_owned())))
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(Leaf::Null)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> {
        Ok(Leaf::Other("a boolean"))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Self::Value, E> {
        Ok(Leaf::Integer(number))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Self::Value, E> {
        Ok(i64::try_from(number).map_or(Leaf::Other("a number"), Leaf::Integer))
    }

    fn visit_f64<E>(self, _: f64) -> Result<Self::Value, E> {
        Ok(Leaf::Other("a number"))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
        while items.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Leaf::Other("an array"))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Self::Value, A::Error> {
        while members.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Leaf::Other("an object"))
    }
}

/// The members of a map in their order, duplicates and all.
struct Entries<'a>(Vec<(Cow<'a, str>, Leaf<'a>)>);

impl<'de> Deserialize<'de> for Entries<'de> {
    fn deserialize<D: Deserializer<'de>>(json: D) -> Result<Self, D::Error> {
        struct EntriesVisitor;

        impl<'de> Visitor<'de> for EntriesVisitor {
            type Value = Entries<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Self::Value, A::Error> {
                let mut entries = Vec::with_capacity(members.size_hint().unwrap_or_default());
                while let Some(Leaf::Text(name)) = members.next_key()? {
                    entries.push((name, members.next_value()?));
                }
                Ok(Entries(entries))
            }
        }

        json.deserialize_map(EntriesVisitor)
    }
}
