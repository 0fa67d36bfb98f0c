//! Reading: the protobuf of an object as if it were its JSON.

use serde::de::{
    Deserialize, DeserializeSeed, Deserializer, IntoDeserializer as _, MapAccess, SeqAccess, Visitor,
    value::{BorrowedStrDeserializer, MapAccessDeserializer},
};

mod elements;
mod find;
mod members;
mod node;
mod source;
mod time;
mod transcode;

pub use find::{Found, find};
pub use node::MAX_DEPTH;
pub(crate) use time::GO_ZERO;
pub use transcode::to_json;

use elements::Elements;
use members::Members;
use node::{Form, Leaf, Node, What};
use source::{Context, Payload};

use crate::{Kind, Message, error::Error, schema::Type};

/// Reads an object from its message (without [`Envelope`](crate::Envelope)), as any `T` that reads its JSON.
///
/// `apiVersion` and `kind`, which the message does not have, are given as the kind says. Fields that `T` does not ask
/// for are skipped without a look into them, and fields that the table does not know are skipped as well. Strings can
/// be borrowed. Where protobuf cannot say whether a list or map is null or empty, it is null for who takes any value,
/// and empty for who asks for a list or map.
///
/// ```
/// use reflector_protobuf::{Envelope, Kind, from_slice};
///
/// #[derive(serde::Deserialize)]
/// struct Slim<'a> {
///     kind: &'a str,
///     #[serde(borrow)]
///     metadata: Metadata<'a>,
/// }
///
/// #[derive(serde::Deserialize)]
/// struct Metadata<'a> {
///     name: &'a str,
/// }
///
/// let body = b"k8s\0\x0a\x0f\x0a\x02v1\x12\x09Namespace\x12\x09\x0a\x07\x0a\x05shire";
/// let envelope = Envelope::parse(body)?;
/// let kind = Kind::find(envelope.api_version, envelope.kind).ok_or("no such kind")?;
/// let namespace: Slim<'_> = from_slice(kind, envelope.raw)?;
/// assert_eq!((namespace.kind, namespace.metadata.name), ("Namespace", "shire"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// Where the bytes are damaged, or are not what `T` asks for; see [`ErrorKind`](crate::ErrorKind).
pub fn from_slice<'de, T: Deserialize<'de>>(kind: Kind, bytes: &'de [u8]) -> Result<T, Error> {
    read(bytes, Root::Object(kind), |node| T::deserialize(node))
}

/// Reads one message that is no object of its own, such as the `ListMeta` of a list.
///
/// ```
/// use reflector_protobuf::{Message, from_message};
///
/// let message = Message::find("apimachinery.pkg.apis.meta.v1.ListMeta").ok_or("no such message")?;
/// let meta: serde_json::Value = from_message(message, b"\x12\x0242")?;
/// assert_eq!(meta, serde_json::json!({"resourceVersion": "42"}));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// As [`from_slice`].
pub fn from_message<'de, T: Deserialize<'de>>(message: Message, bytes: &'de [u8]) -> Result<T, Error> {
    read(bytes, Root::Message(message), |node| T::deserialize(node))
}

#[derive(Clone, Copy)]
enum Root {
    Object(Kind),
    Message(Message),
}

/// Reads in the quick way, and in the other one where that was not enough.
fn read<'de, T>(
    bytes: &'de [u8],
    root: Root,
    mut f: impl FnMut(Node<'_, 'de>) -> Result<T, Error>,
) -> Result<T, Error> {
    let context = Context::default();
    let result = f(node(&context, &Payload::of(bytes), root));
    if !context.disordered.get() {
        return result;
    }
    read_sorted(bytes, root, f)
}

#[cold]
fn read_sorted<'de, T>(
    bytes: &'de [u8],
    root: Root,
    mut f: impl FnMut(Node<'_, 'de>) -> Result<T, Error>,
) -> Result<T, Error> {
    let context = Context::sorting();
    f(node(&context, &Payload::of(bytes), root))
}

fn node<'a, 'de>(context: &'a Context<'de>, payload: &'a Payload<'de>, root: Root) -> Node<'a, 'de> {
    let (message, what) = match root {
        Root::Object(kind) => (kind.message(), What::Object(kind, payload)),
        Root::Message(message) => (message, What::One(payload)),
    };
    Node { context, depth: MAX_DEPTH, ty: Type::Message, message, what }
}

impl<'de> Deserializer<'de> for Node<'_, 'de> {
    type Error = Error;

    // A whole object can pass through here, so a copy in each caller would push the rest out of the cache.
    #[inline(never)]
    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.form()? {
            Form::Leaf(leaf) => visit(leaf, visitor),
            Form::Message(message) => visitor.visit_map(&mut message.members()),
            Form::Map(entries) => visitor.visit_map(&mut Members::Entries(entries)),
            Form::Elements(mut elements) => visitor.visit_seq(&mut elements),
            Form::Json(json) => from_json(json, |json| json.deserialize_any(visitor)),
        }
    }

    #[inline]
    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        if self.is_null()? { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    #[inline]
    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_unit()
    }

    #[inline]
    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        if let What::Null = self.what {
            return visitor
                .visit_seq(serde::de::value::SeqDeserializer::<_, Error>::new(std::iter::empty::<()>()));
        }
        self.deserialize_any(visitor)
    }

    #[inline]
    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        if let What::Null = self.what {
            let none = std::iter::empty::<((), ())>();
            return visitor.visit_map(serde::de::value::MapDeserializer::<_, Error>::new(none));
        }
        self.deserialize_any(visitor)
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: usize,
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.deserialize_seq(visitor)
    }

    #[inline]
    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        if name == RAW_VALUE {
            return self.deserialize_raw_value(visitor);
        }
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        match self.form()? {
            Form::Leaf(Leaf::Text(text)) => visitor.visit_enum(BorrowedStrDeserializer::new(text)),
            Form::Leaf(Leaf::Time(text)) => visitor.visit_enum(text.as_str().into_deserializer()),
            Form::Leaf(Leaf::Owned(text)) => visitor.visit_enum(text.into_deserializer()),
            Form::Leaf(leaf) => visit(leaf, visitor),
            Form::Message(message) => visitor.visit_enum(MapAccessDeserializer::new(&mut message.members())),
            Form::Map(entries) => {
                visitor.visit_enum(MapAccessDeserializer::new(&mut Members::Entries(entries)))
            }
            Form::Elements(mut elements) => visitor.visit_seq(&mut elements),
            Form::Json(json) => from_json(json, |json| json.deserialize_enum(name, variants, visitor)),
        }
    }

    #[inline(never)]
    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        match self.message()? {
            Some(message) => visitor.visit_map(&mut message.members()),
            None => self.deserialize_any(visitor),
        }
    }

    #[inline]
    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.what {
            What::One(payload) if self.ty == Type::String => visitor.visit_borrowed_str(payload.text()?),
            _ => self.deserialize_any(visitor),
        }
    }

    #[inline]
    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_str(visitor)
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char bytes byte_buf unit unit_struct identifier
    }
}

/// How `serde_json::value::RawValue` asks for the JSON text of a value.
const RAW_VALUE: &str = "$serde_json::private::RawValue";

impl<'de> Node<'_, 'de> {
    #[cold]
    fn deserialize_raw_value<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.form()? {
            // In the end it stands in the bytes already.
            Form::Json(json) => from_json(json, |json| json.deserialize_newtype_struct(RAW_VALUE, visitor)),
            form => {
                let mut json = Vec::new();
                transcode::write(form, &mut json)?;
                let json = String::from_utf8(json).map_err(|error| error.utf8_error())?;
                let entry = std::iter::once((RAW_VALUE, json));
                visitor.visit_map(serde::de::value::MapDeserializer::<_, Error>::new(entry))
            }
        }
    }
}

#[inline]
fn visit<'de, V: Visitor<'de>>(leaf: Leaf<'de>, visitor: V) -> Result<V::Value, Error> {
    match leaf {
        Leaf::Null => visitor.visit_unit(),
        Leaf::Bool(value) => visitor.visit_bool(value),
        Leaf::Unsigned(value) => visitor.visit_u64(value),
        Leaf::Signed(value) => visitor.visit_i64(value),
        Leaf::Float(value) => visitor.visit_f64(value),
        Leaf::Text(text) => visitor.visit_borrowed_str(text),
        Leaf::Time(text) => visitor.visit_str(text.as_str()),
        Leaf::Owned(text) => visitor.visit_string(text),
    }
}

type Json<'a, 'de> = &'a mut serde_json::Deserializer<serde_json::de::SliceRead<'de>>;

fn from_json<'de, T>(
    json: &'de [u8],
    f: impl FnOnce(Json<'_, 'de>) -> serde_json::Result<T>,
) -> Result<T, Error> {
    let mut json = serde_json::Deserializer::from_slice(json);
    let value = f(&mut json)?;
    json.end()?;
    Ok(value)
}

impl<'de> MapAccess<'de> for Members<'_, 'de> {
    type Error = Error;

    #[inline]
    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Error> {
        if !self.next()? {
            return Ok(None);
        }
        seed.deserialize(BorrowedStrDeserializer::new(self.name())).map(Some)
    }

    #[inline]
    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Error> {
        // In place: a value can be large, and is not moved that way.
        let mut result = seed.deserialize(self.value());
        if let Err(error) = &mut result {
            self.locate(error);
        }
        result
    }
}

impl<'de> SeqAccess<'de> for Elements<'_, 'de> {
    type Error = Error;

    #[inline]
    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Error> {
        let Some(node) = self.next()? else { return Ok(None) };
        match seed.deserialize(node) {
            Ok(value) => Ok(Some(value)),
            Err(mut error) => {
                self.locate(&mut error);
                Err(error)
            }
        }
    }

    fn size_hint(&self) -> Option<usize> {
        Some(Elements::size_hint(self))
    }
}
