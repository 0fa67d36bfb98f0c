//! The envelope of an object: `runtime.Unknown`.

use crate::wire::{Fields, Value, WireError};

/// What every protobuf body of a Kubernetes API begins with. (The frames of a watch do not, the objects in them do.)
pub const PREFIX: [u8; 4] = *b"k8s\0";

/// An object as a server sends it: [`PREFIX`], then a message with the object's type and its bytes.
///
/// ```
/// # use reflector_protobuf::Envelope;
/// let body = b"k8s\0\x0a\x0f\x0a\x02v1\x12\x09Namespace\x12\x00";
/// let envelope = Envelope::parse(body)?;
/// assert_eq!((envelope.api_version, envelope.kind), ("v1", "Namespace"));
/// assert_eq!(envelope.raw, b"");
/// # Ok::<(), reflector_protobuf::EnvelopeError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Envelope<'a> {
    /// `v1`, `apps/v1`.
    pub api_version: &'a str,
    /// `Pod`.
    pub kind: &'a str,
    /// The message of the object.
    pub raw: &'a [u8],
    /// Empty: servers do not use it.
    pub content_encoding: &'a str,
    /// Empty for protobuf, a media type for other bytes in `raw`.
    pub content_type: &'a str,
}

impl<'a> Envelope<'a> {
    /// Reads an envelope. Fields that it does not know are skipped; what occurs twice counts as the last says.
    ///
    /// # Errors
    /// Where the bytes do not begin with [`PREFIX`], are cut, or a text in them is not UTF-8.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, EnvelopeError> {
        let message = bytes.strip_prefix(&PREFIX).ok_or(EnvelopeError::Prefix)?;
        let mut envelope = Self::default();
        for field in Fields::new(message) {
            let field = field.map_err(|error| error.shifted(PREFIX.len()))?;
            match (field.number, field.value) {
                (1, Value::Bytes(type_meta)) => {
                    let offset = PREFIX.len() + field.range.end - type_meta.len();
                    for field in Fields::new(type_meta) {
                        let field = field.map_err(|error| error.shifted(offset))?;
                        match (field.number, field.value) {
                            (1, Value::Bytes(text)) => envelope.api_version = utf8(text, "apiVersion")?,
                            (2, Value::Bytes(text)) => envelope.kind = utf8(text, "kind")?,
                            _ => {}
                        }
                    }
                }
                (2, Value::Bytes(raw)) => envelope.raw = raw,
                (3, Value::Bytes(text)) => envelope.content_encoding = utf8(text, "contentEncoding")?,
                (4, Value::Bytes(text)) => envelope.content_type = utf8(text, "contentType")?,
                _ => {}
            }
        }
        Ok(envelope)
    }
}

fn utf8<'a>(text: &'a [u8], field: &'static str) -> Result<&'a str, EnvelopeError> {
    std::str::from_utf8(text).map_err(|source| EnvelopeError::Utf8 { field, source })
}

/// Bytes that are no [`Envelope`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EnvelopeError {
    /// Something else than protobuf, perhaps JSON.
    #[error("the bytes do not begin with the prefix of Kubernetes protobuf")]
    Prefix,
    /// Damaged or cut.
    #[error(transparent)]
    Wire(#[from] WireError),
    /// A text that is not UTF-8.
    #[error("{field} is not UTF-8")]
    Utf8 {
        /// Which one.
        field: &'static str,
        /// Where and how.
        source: std::str::Utf8Error,
    },
}
