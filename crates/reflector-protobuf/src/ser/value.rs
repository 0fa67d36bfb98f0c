//! One JSON value, read as what the table says it is.

use std::fmt;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Unexpected, Visitor};
use serde_json::value::RawValue;

use super::{
    encoder::{self, Encoder, Found, Segment, bytes, close, varint},
    time, zero,
};
use crate::{
    compact::compact,
    de::GO_ZERO,
    schema::{FieldRow, Message, Shape, Type},
    wire::{self, WireType},
};

/// The object itself.
pub(super) struct Root<'e> {
    pub(super) encoder: &'e mut Encoder,
    pub(super) message: Message,
}

impl<'de> DeserializeSeed<'de> for Root<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Root<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, members: A) -> Result<(), A::Error> {
        self.encoder.message(None, self.message, members)
    }
}

/// The name of a member of a message: the field that has it, if there is one.
pub(super) struct Name<'a> {
    pub(super) rows: &'static [FieldRow],
    pub(super) hint: &'a mut usize,
}

impl<'de> DeserializeSeed<'de> for Name<'_> {
    type Value = Option<Found>;

    #[inline]
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for Name<'_> {
    type Value = Option<Found>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    #[inline]
    fn visit_str<E: Error>(self, name: &str) -> Result<Self::Value, E> {
        Ok(encoder::find(self.rows, self.hint, name))
    }
}

/// The key of an entry of a map. Writes it, and gives its length.
pub(super) struct Key<'a> {
    pub(super) out: &'a mut Vec<u8>,
}

impl<'de> DeserializeSeed<'de> for Key<'_> {
    type Value = usize;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<usize, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for Key<'_> {
    type Value = usize;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E: Error>(self, key: &str) -> Result<usize, E> {
        bytes(1, key.as_bytes(), self.out);
        Ok(key.len())
    }
}

/// A value that is to be written under a number. Gives whether there is one: null writes nothing.
pub(super) struct Slot<'e> {
    encoder: &'e mut Encoder,
    number: u32,
    ty: Type,
    message: Message,
    /// The row, where it is the value of a whole list or map.
    many: Option<&'static FieldRow>,
}

impl<'e> Slot<'e> {
    /// A single value.
    #[inline]
    pub(super) fn new(encoder: &'e mut Encoder, number: u32, ty: Type, message: Message) -> Self {
        Self { encoder, number, ty, message, many: None }
    }

    /// A field, whatever its shape.
    #[inline]
    pub(super) fn field(encoder: &'e mut Encoder, row: &'static FieldRow) -> Self {
        let many = (row.shape() != Shape::Single).then_some(row);
        Self { encoder, number: row.number.into(), ty: row.ty, message: Message::at(row.message), many }
    }

    /// Writes each element under the number.
    fn elements<'de, A: SeqAccess<'de>>(
        &mut self,
        number: u32,
        ty: Type,
        mut elements: A,
    ) -> Result<(), A::Error> {
        for index in 0.. {
            match elements.next_element_seed(Slot::new(self.encoder, number, ty, self.message)) {
                Ok(Some(true)) => {}
                Ok(Some(false)) => zero::value(number, ty, self.message, &mut self.encoder.out),
                Ok(None) => break,
                Err(error) => {
                    self.encoder.trail.push(Segment::Index(index));
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// Writes what `f` does as a message of a custom type.
    fn wrapped<E>(&mut self, f: impl FnOnce(&mut Self) -> Result<(), E>) -> Result<bool, E> {
        wire::write_tag(self.number, WireType::Bytes, &mut self.encoder.out);
        let start = self.encoder.out.len();
        f(self)?;
        close(start, &mut self.encoder.out);
        Ok(true)
    }

    fn integer<E: Error>(mut self, value: i64) -> Result<bool, E> {
        let out = &mut self.encoder.out;
        match (self.many, self.ty) {
            (None, Type::Int64) => varint(self.number, value, out),
            (None, Type::Int32) => match i32::try_from(value) {
                Ok(value) => varint(self.number, value.into(), out),
                Err(_) => return Err(E::invalid_value(Unexpected::Signed(value), &self)),
            },
            (None, Type::IntOrString) if i32::try_from(value).is_ok() => {
                return self.wrapped(|slot| {
                    varint(1, 0, &mut slot.encoder.out);
                    varint(2, value, &mut slot.encoder.out);
                    bytes(3, b"", &mut slot.encoder.out);
                    Ok(())
                });
            }
            (None, Type::Quantity) => return self.quantity(&value.to_string()),
            _ => return Err(E::invalid_type(Unexpected::Signed(value), &self)),
        }
        Ok(true)
    }

    fn quantity<E>(mut self, text: &str) -> Result<bool, E> {
        self.wrapped(|slot| {
            bytes(1, text.as_bytes(), &mut slot.encoder.out);
            Ok(())
        })
    }

    fn time<E: Error>(mut self, text: &str) -> Result<bool, E> {
        let Some((seconds, nanos)) = time::parse(text) else {
            return Err(E::invalid_value(Unexpected::Str(text), &self));
        };
        let nanos = if self.ty == Type::MicroTime { nanos / 1000 * 1000 } else { 0 };
        self.wrapped(|slot| {
            // Go's zero time is an empty message.
            if (seconds, nanos) != (GO_ZERO, 0) {
                varint(1, seconds, &mut slot.encoder.out);
                varint(2, nanos.into(), &mut slot.encoder.out);
            }
            Ok(())
        })
    }
}

impl<'de> DeserializeSeed<'de> for Slot<'_> {
    type Value = bool;

    #[inline]
    fn deserialize<D: Deserializer<'de>>(mut self, deserializer: D) -> Result<bool, D::Error> {
        match (self.many, self.ty) {
            (None, Type::Json | Type::RawExtension) => {
                let json = <&RawValue as serde::Deserialize>::deserialize(deserializer)?.get();
                if json == "null" {
                    return Ok(false);
                }
                self.wrapped(|slot| {
                    let out = &mut slot.encoder.out;
                    wire::write_tag(1, WireType::Bytes, out);
                    let start = out.len();
                    compact(json, out);
                    close(start, out);
                    Ok(())
                })
            }
            (None, Type::Double) => {
                // The text, since the reader of JSON does not always give the nearest number.
                let text = <&RawValue as serde::Deserialize>::deserialize(deserializer)?.get();
                if text == "null" {
                    return Ok(false);
                }
                let value = text.parse::<f64>().ok().filter(|value| value.is_finite());
                let value = value.ok_or_else(|| D::Error::invalid_value(Unexpected::Other(text), &self))?;
                wire::write_tag(self.number, WireType::I64, &mut self.encoder.out);
                self.encoder.out.extend_from_slice(&value.to_le_bytes());
                Ok(true)
            }
            _ => deserializer.deserialize_any(self),
        }
    }
}

impl<'de> Visitor<'de> for Slot<'_> {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.many.map(FieldRow::shape) {
            Some(Shape::List) => return f.write_str("a list"),
            Some(Shape::Map) => return f.write_str("a map"),
            Some(Shape::Single) | None => match self.ty {
                Type::Bool => "a boolean",
                Type::Int32 => "an integer of 32 bits",
                Type::Int64 => "an integer of 64 bits",
                Type::Double => "a number",
                Type::String => "a string",
                Type::Bytes => "a string in base64",
                Type::Message => "an object",
                Type::Time | Type::MicroTime => "a time as in RFC 3339",
                Type::Quantity => "a quantity",
                Type::IntOrString => "an integer of 32 bits or a string",
                Type::RawExtension | Type::Json => "any value",
                Type::SchemaOrArray => "a schema or a list of schemas",
                Type::SchemaOrBool => "a schema or a boolean",
                Type::SchemaOrStrings => "a schema or a list of strings",
                Type::Strings => "a list of strings",
            },
        })
    }

    fn visit_unit<E: Error>(self) -> Result<bool, E> {
        Ok(false)
    }

    fn visit_bool<E: Error>(mut self, value: bool) -> Result<bool, E> {
        match (self.many, self.ty) {
            (None, Type::Bool) => {
                varint(self.number, value.into(), &mut self.encoder.out);
                Ok(true)
            }
            (None, Type::SchemaOrBool) => self.wrapped(|slot| {
                varint(1, value.into(), &mut slot.encoder.out);
                Ok(())
            }),
            _ => Err(E::invalid_type(Unexpected::Bool(value), &self)),
        }
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<bool, E> {
        self.integer(value)
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<bool, E> {
        match i64::try_from(value) {
            Ok(value) => self.integer(value),
            Err(_) => Err(E::invalid_value(Unexpected::Unsigned(value), &self)),
        }
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<bool, E> {
        match (self.many, self.ty) {
            (None, Type::Quantity) => self.quantity(&value.to_string()),
            _ => Err(E::invalid_type(Unexpected::Float(value), &self)),
        }
    }

    #[inline]
    fn visit_str<E: Error>(mut self, text: &str) -> Result<bool, E> {
        match (self.many, self.ty) {
            (None, Type::String) => bytes(self.number, text.as_bytes(), &mut self.encoder.out),
            (None, Type::Bytes) => match STANDARD.decode(text) {
                Ok(decoded) => bytes(self.number, &decoded, &mut self.encoder.out),
                Err(_) => return Err(E::invalid_value(Unexpected::Str(text), &self)),
            },
            (None, Type::Time | Type::MicroTime) => return self.time(text),
            (None, Type::Quantity) => return self.quantity(text),
            (None, Type::IntOrString) => {
                return self.wrapped(|slot| {
                    varint(1, 1, &mut slot.encoder.out);
                    varint(2, 0, &mut slot.encoder.out);
                    bytes(3, text.as_bytes(), &mut slot.encoder.out);
                    Ok(())
                });
            }
            _ => return Err(E::invalid_type(Unexpected::Str(text), &self)),
        }
        Ok(true)
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, elements: A) -> Result<bool, A::Error> {
        match (self.many.map(FieldRow::shape), self.ty) {
            (Some(Shape::List), ty) => self.elements(self.number, ty, elements).map(|()| true),
            (None, Type::Strings) => self.wrapped(|slot| slot.elements(1, Type::String, elements)),
            (None, Type::SchemaOrArray) => self.wrapped(|slot| slot.elements(2, Type::Message, elements)),
            (None, Type::SchemaOrStrings) => self.wrapped(|slot| slot.elements(2, Type::String, elements)),
            _ => Err(A::Error::invalid_type(Unexpected::Seq, &self)),
        }
    }

    fn visit_map<A: MapAccess<'de>>(mut self, members: A) -> Result<bool, A::Error> {
        let message = self.message;
        match (self.many, self.ty) {
            (Some(row), _) if row.shape() == Shape::Map => self.encoder.map(row, members).map(|()| true),
            (None, Type::Message) => self.encoder.message(Some(self.number), message, members).map(|()| true),
            (None, Type::SchemaOrArray | Type::SchemaOrStrings) => {
                self.wrapped(|slot| slot.encoder.message(Some(1), message, members))
            }
            (None, Type::SchemaOrBool) => self.wrapped(|slot| {
                // As Go reads it: a schema also allows.
                varint(1, 1, &mut slot.encoder.out);
                slot.encoder.message(Some(2), message, members)
            }),
            _ => Err(A::Error::invalid_type(Unexpected::Map, &self)),
        }
    }
}
