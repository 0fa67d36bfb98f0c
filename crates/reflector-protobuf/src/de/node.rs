//! One value, and what it is in JSON.

use base64::{Engine as _, engine::general_purpose::STANDARD};

use super::{
    elements::Elements,
    members::{Entries, Fields, Members},
    source::{Context, Payload, Source},
    time::{self, TimeText},
};
use crate::{
    Envelope, Kind, PREFIX,
    error::{Error, ErrorKind},
    schema::{Message, Type},
};

/// The same bound as that of `serde_json`: what can be read from JSON can be read from protobuf.
pub const MAX_DEPTH: u8 = 127;

/// A value that is still in its bytes.
pub(super) struct Node<'a, 'de> {
    pub(super) context: &'a Context<'de>,
    /// How many lists and objects may still be within each other.
    pub(super) depth: u8,
    pub(super) ty: Type,
    /// Which one, where the type is one.
    pub(super) message: Message,
    pub(super) what: What<'a, 'de>,
}

pub(super) enum What<'a, 'de> {
    /// Of the node's type.
    One(&'a Payload<'de>),
    /// An object with `apiVersion` and `kind`.
    Object(Kind, &'a Payload<'de>),
    /// The first of its elements, and where the others follow under the same number.
    List(u32, &'a Payload<'de>, &'a mut Source<'de>),
    /// The same for the entries of a map.
    Map(u32, &'a Payload<'de>, &'a mut Source<'de>),
    /// A list or map that is not there, but has to be in JSON.
    Null,
    /// Not of the bytes: `apiVersion` and `kind`.
    Text(&'static str),
}

/// What a node is in JSON.
pub(super) enum Form<'a, 'de> {
    Leaf(Leaf<'de>),
    Message(Opened<'a, 'de>),
    Map(Entries<'a, 'de>),
    Elements(Elements<'a, 'de>),
    /// Text in JSON, which stands in the bytes.
    Json(&'de [u8]),
}

/// A message that is about to be read.
pub(super) struct Opened<'a, 'de> {
    pub(super) context: &'a Context<'de>,
    pub(super) depth: u8,
    pub(super) message: Message,
    pub(super) source: Source<'de>,
    /// Where it is an object.
    pub(super) kind: Option<Kind>,
}

impl<'a, 'de> Opened<'a, 'de> {
    #[inline(always)]
    pub(super) fn members(self) -> Members<'a, 'de> {
        Members::Fields(Fields::new(&self))
    }
}

pub(super) enum Leaf<'de> {
    Null,
    Bool(bool),
    Unsigned(u64),
    Signed(i64),
    Float(f64),
    Text(&'de str),
    Time(TimeText),
    Owned(String),
}

impl Leaf<'_> {
    /// As a reader of JSON tells numbers apart.
    #[inline]
    fn integer(value: i64) -> Self {
        u64::try_from(value).map_or(Self::Signed(value), Self::Unsigned)
    }

    /// Go writes a float without a fraction as an integer.
    fn float(value: f64) -> Result<Self, Error> {
        // Up to there each integer is exact, and so is the cast.
        const EXACT: f64 = 9_007_199_254_740_992.0;
        if !value.is_finite() {
            return Err(ErrorKind::NotFinite(value).into());
        }
        let is_integer =
            value.fract() == 0.0 && value.abs() <= EXACT && !(value == 0.0 && value.is_sign_negative());
        Ok(if is_integer { Self::integer(value as i64) } else { Self::Float(value) })
    }
}

impl<'a, 'de> Node<'a, 'de> {
    /// Is it null in JSON?
    #[inline]
    pub(super) fn is_null(&self) -> Result<bool, Error> {
        let never = matches!(self.ty, Type::String | Type::Message | Type::Bool | Type::Int32 | Type::Int64);
        match self.what {
            What::One(_) if never => Ok(false),
            What::One(payload) if self.ty == Type::Time && payload.is_short_time() => Ok(false),
            _ => self.may_be_null(),
        }
    }

    fn may_be_null(&self) -> Result<bool, Error> {
        let What::One(payload) = self.what else { return Ok(matches!(self.what, What::Null)) };
        Ok(match self.ty {
            Type::Time | Type::MicroTime => read_time(self.context, payload)?.is_none(),
            Type::Json | Type::RawExtension => match raw(self.context, payload)? {
                Some(raw) => raw.trim_ascii() == b"null",
                None => true,
            },
            Type::SchemaOrArray | Type::SchemaOrStrings => {
                let mut empty = true;
                payload.each(self.context, |number, _| {
                    empty &= number != 1 && number != 2;
                    Ok(())
                })?;
                empty
            }
            _ => false,
        })
    }

    /// One level deeper.
    fn deeper(depth: u8) -> Result<u8, Error> {
        depth.checked_sub(1).ok_or_else(|| ErrorKind::Depth.into())
    }

    #[inline]
    fn open(
        &self,
        message: Message,
        payload: &Payload<'de>,
        kind: Option<Kind>,
    ) -> Result<Opened<'a, 'de>, Error> {
        let depth = Self::deeper(self.depth)?;
        let source = Source::new(self.context, message, payload)?;
        Ok(Opened { context: self.context, depth, message, source, kind })
    }

    /// The message that it is, if it is one.
    #[inline]
    pub(super) fn message(&self) -> Result<Option<Opened<'a, 'de>>, Error> {
        match self.what {
            What::One(payload) if self.ty == Type::Message => {
                self.open(self.message, payload, None).map(Some)
            }
            _ => Ok(None),
        }
    }

    /// A list that a custom type contains under that number.
    fn list(self, ty: Type, payload: &Payload<'de>, number: u32) -> Result<Form<'a, 'de>, Error> {
        let depth = Self::deeper(self.depth)?;
        let source = Source::only(self.context, payload, number)?;
        Ok(Form::Elements(Elements::owned(self.context, depth, ty, self.message, number, source)))
    }

    /// What it is in JSON.
    pub(super) fn form(self) -> Result<Form<'a, 'de>, Error> {
        match self.what {
            What::One(payload) => match self.ty {
                Type::Message => self.open(self.message, payload, None).map(Form::Message),
                Type::String => Ok(Form::Leaf(Leaf::Text(payload.text()?))),
                _ => self.other(payload),
            },
            What::Object(kind, payload) => self.open(kind.message(), payload, Some(kind)).map(Form::Message),
            What::List(number, first, source) => {
                let depth = Self::deeper(self.depth)?;
                let elements =
                    Elements::new(self.context, depth, self.ty, self.message, number, first, source);
                Ok(Form::Elements(elements))
            }
            What::Map(number, first, source) => {
                let depth = Self::deeper(self.depth)?;
                let entries = Entries::new(self.context, depth, self.ty, self.message, number, first, source);
                Ok(Form::Map(entries))
            }
            What::Null => Ok(Form::Leaf(Leaf::Null)),
            What::Text(text) => Ok(Form::Leaf(Leaf::Text(text))),
        }
    }

    /// The rarer types.
    fn other(self, payload: &Payload<'de>) -> Result<Form<'a, 'de>, Error> {
        let context = self.context;
        Ok(Form::Leaf(match self.ty {
            Type::Bool => Leaf::Bool(payload.varint()? != 0),
            Type::Int32 => Leaf::integer((payload.varint()? as i32).into()),
            Type::Int64 => Leaf::integer(payload.varint()? as i64),
            Type::Double => Leaf::float(payload.double()?)?,
            Type::Bytes => Leaf::Owned(STANDARD.encode(payload.bytes()?)),
            Type::Time => match read_time(context, payload)? {
                Some((seconds, _)) => Leaf::Time(time::format(seconds, None)?),
                None => Leaf::Null,
            },
            Type::MicroTime => match read_time(context, payload)? {
                Some((seconds, nanos)) => {
                    // Go takes any number of nanoseconds, cuts it to microseconds, and carries.
                    let micros = i64::from(nanos / 1000);
                    let seconds = seconds.saturating_add(micros.div_euclid(1_000_000));
                    Leaf::Time(time::format(seconds, Some(micros.rem_euclid(1_000_000) as u32))?)
                }
                None => Leaf::Null,
            },
            Type::Quantity => Leaf::Text(match last(context, payload, 1)? {
                Some(text) => text.text()?,
                None => "0",
            }),
            Type::IntOrString => int_or_string(context, payload)?,
            Type::Json => match raw(context, payload)? {
                Some(json) => return Ok(Form::Json(json)),
                None => Leaf::Null,
            },
            Type::RawExtension => match raw(context, payload)? {
                Some(bytes) if bytes.starts_with(&PREFIX) => return self.enveloped(bytes),
                Some(json) => return Ok(Form::Json(json)),
                None => Leaf::Null,
            },
            Type::SchemaOrBool => match context.joined(payload, 2)? {
                Some(schema) => return self.schema(&schema),
                None => Leaf::Bool(match last(context, payload, 1)? {
                    Some(value) => value.varint()? != 0,
                    None => false,
                }),
            },
            Type::SchemaOrArray | Type::SchemaOrStrings => {
                let ty = if self.ty == Type::SchemaOrArray { Type::Message } else { Type::String };
                if last(context, payload, 2)?.is_some() {
                    return self.list(ty, payload, 2);
                }
                match context.joined(payload, 1)? {
                    Some(schema) => return self.schema(&schema),
                    None => Leaf::Null,
                }
            }
            Type::Strings => return self.list(Type::String, payload, 1),
            // They have been dealt with; and a reader of them is the right one anyway.
            Type::Message => {
                return self.open(self.message, payload, None).map(Form::Message);
            }
            Type::String => Leaf::Text(payload.text()?),
        }))
    }

    fn schema(self, payload: &Payload<'de>) -> Result<Form<'a, 'de>, Error> {
        self.open(self.message, payload, None).map(Form::Message)
    }

    /// An object within an object, as in `v1.List`.
    fn enveloped(self, bytes: &'de [u8]) -> Result<Form<'a, 'de>, Error> {
        let Envelope { api_version, kind, raw, content_type, .. } = Envelope::parse(bytes)?;
        if content_type == "application/json" {
            return Ok(Form::Json(raw));
        }
        let Some(kind) = Kind::find(api_version, kind) else {
            let (api_version, kind) = (api_version.to_owned(), kind.to_owned());
            return Err(ErrorKind::UnknownKind { api_version, kind }.into());
        };
        self.open(kind.message(), &Payload::of(raw), Some(kind)).map(Form::Message)
    }
}

/// The last field of that number.
fn last<'de>(
    context: &Context<'de>,
    payload: &Payload<'de>,
    number: u32,
) -> Result<Option<Payload<'de>>, Error> {
    let mut found = None;
    payload.each(context, |n, value| {
        if n == number {
            found = Some(value);
        }
        Ok(())
    })?;
    Ok(found)
}

/// The bytes in a `RawExtension`, `JSON` or `FieldsV1`; `None` where it is null.
fn raw<'de>(context: &Context<'de>, payload: &Payload<'de>) -> Result<Option<&'de [u8]>, Error> {
    let raw = last(context, payload, 1)?.map(|raw| raw.bytes()).transpose()?;
    Ok(raw.filter(|raw| !raw.is_empty()))
}

/// Seconds and nanoseconds; `None` for Go's zero time.
#[inline]
fn read_time<'de>(context: &Context<'de>, payload: &Payload<'de>) -> Result<Option<(i64, i32)>, Error> {
    if payload.is_zero() {
        return Ok(None);
    }
    let (mut seconds, mut nanos) = (0, 0);
    payload.each(context, |number, value| {
        match number {
            1 => seconds = value.varint()? as i64,
            2 => nanos = value.varint()? as i32,
            _ => {}
        }
        Ok(())
    })?;
    Ok((seconds != time::GO_ZERO).then_some((seconds, nanos)))
}

fn int_or_string<'de>(context: &Context<'de>, payload: &Payload<'de>) -> Result<Leaf<'de>, Error> {
    let (mut is_text, mut number, mut text) = (false, 0, "");
    payload.each(context, |field, value| {
        match field {
            1 => is_text = value.varint()? == 1,
            2 => number = value.varint()? as i32,
            3 => text = value.text()?,
            _ => {}
        }
        Ok(())
    })?;
    Ok(if is_text { Leaf::Text(text) } else { Leaf::integer(number.into()) })
}
