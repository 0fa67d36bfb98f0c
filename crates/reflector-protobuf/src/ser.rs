//! Writing: the protobuf of an object from its JSON, byte for byte as Go's encoder writes it.

use serde::{Serialize, de::DeserializeSeed as _};

mod encoder;
mod time;
mod value;
mod zero;

use encoder::Encoder;
use value::Root;

use crate::{
    Kind, Message, PREFIX,
    error::{Error, ErrorKind},
    wire::{self, WireType},
};

/// Writes an object as its message (without [`Envelope`](crate::Envelope)), from any value whose `Serialize` gives the
/// JSON of the object.
///
/// It goes by way of the JSON text: what [`from_json`] says holds here too.
///
/// ```
/// use reflector_protobuf::{Kind, to_vec};
///
/// let kind = Kind::find("v1", "ConfigMap").ok_or("no such kind")?;
/// let message = to_vec(kind, &serde_json::json!({"data": {"b": "2", "a": "1"}}))?;
/// assert!(message.ends_with(b"\x12\x06\x0a\x01a\x12\x011\x12\x06\x0a\x01b\x12\x012"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// As [`from_json`], and where `value` cannot be serialized.
pub fn to_vec<T: Serialize + ?Sized>(kind: Kind, value: &T) -> Result<Vec<u8>, Error> {
    let json = serde_json::to_vec(value).map_err(ErrorKind::Input)?;
    from_json(kind, &json)
}

/// Writes an object as its message (without [`Envelope`](crate::Envelope)), from its JSON text.
///
/// The bytes are those that Go's encoder makes of the same object: fields in the order of their numbers, the entries of
/// maps in the order of their keys, and each field that is no pointer also where it is zero, empty or absent. Of
/// members that occur twice the last counts. Members that the table does not know are left out; so are `apiVersion` and
/// `kind`, which belong into the [`envelope`]. JSON that stays JSON (`FieldsV1`, `RawExtension`, `JSON`) only loses the
/// white space between its values. Times lose what their type does not have: fractions of a second, or of a microsecond.
/// Quantities stay as they are written.
///
/// ```
/// use reflector_protobuf::{Kind, from_json, to_json};
///
/// let kind = Kind::find("v1", "Namespace").ok_or("no such kind")?;
/// let message = from_json(kind, br#"{"kind":"Namespace","metadata":{"name":"shire","unknown":1}}"#)?;
/// let mut json = Vec::new();
/// to_json(kind, &message, &mut json)?;
/// let expected = br#"{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"shire"},"spec":{},"status":{}}"#;
/// assert_eq!(json, expected);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// Where the text is no JSON, or a member has another type than the table says.
pub fn from_json(kind: Kind, json: &[u8]) -> Result<Vec<u8>, Error> {
    write(kind.message(), json)
}

fn write(message: Message, json: &[u8]) -> Result<Vec<u8>, Error> {
    let mut encoder = Encoder::new(json.len());
    let mut text = serde_json::Deserializer::from_slice(json);
    let root = Root { encoder: &mut encoder, message };
    match root.deserialize(&mut text).and_then(|()| text.end()) {
        Ok(()) => Ok(encoder.out),
        Err(error) => Err(encoder.located(ErrorKind::Input(error).into())),
    }
}

/// Puts a message into its [`Envelope`](crate::Envelope), as a server sends it.
///
/// ```
/// use reflector_protobuf::{Envelope, Kind, envelope};
///
/// let kind = Kind::find("v1", "Namespace").ok_or("no such kind")?;
/// let body = envelope(kind, b"\x0a\x00");
/// assert_eq!(body, b"k8s\0\x0a\x0f\x0a\x02v1\x12\x09Namespace\x12\x02\x0a\x00\x1a\x00\x22\x00");
/// assert_eq!(Envelope::parse(&body)?.raw, b"\x0a\x00");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use]
pub fn envelope(kind: Kind, message: &[u8]) -> Vec<u8> {
    let (api_version, kind) = (kind.api_version(), kind.kind());
    let mut out = Vec::with_capacity(PREFIX.len() + api_version.len() + kind.len() + message.len() + 20);
    out.extend_from_slice(&PREFIX);
    wire::write_tag(1, WireType::Bytes, &mut out);
    let start = out.len();
    encoder::bytes(1, api_version.as_bytes(), &mut out);
    encoder::bytes(2, kind.as_bytes(), &mut out);
    encoder::close(start, &mut out);
    encoder::bytes(2, message, &mut out);
    // Content encoding and content type.
    encoder::bytes(3, b"", &mut out);
    encoder::bytes(4, b"", &mut out);
    out
}

#[cfg(test)]
#[path = "ser/ser_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "ser/property_tests.rs"]
mod property_tests;
