//! What can be wrong with bytes, and where.

use std::{fmt, fmt::Write as _, str::Utf8Error};

use crate::{
    EnvelopeError,
    wire::{WireError, WireType},
};

/// Why an object could not be read: what is wrong, and where in the object.
///
/// Displays as `spec.containers[0].name: invalid UTF-8 ...`; the cause is kept as the source.
pub struct Error(Box<Inner>);

struct Inner {
    kind: ErrorKind,
    /// From the innermost one outwards: errors collect it on their way up, so reading pays nothing for it.
    path: Vec<Segment>,
}

enum Segment {
    Field(&'static str),
    Key(Box<str>),
    Index(usize),
}

/// What is wrong.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The bytes are no protobuf. The offset counts from the start of the message that the path names.
    #[error(transparent)]
    Wire(#[from] WireError),
    /// A field that is not encoded as its type says.
    #[error("wire type {found:?} where {expected:?} is expected")]
    WireType {
        /// What the bytes say.
        found: WireType,
        /// What the field should have.
        expected: WireType,
    },
    /// A string that is not UTF-8.
    #[error("invalid UTF-8")]
    Utf8(#[from] Utf8Error),
    /// JSON inside of the protobuf (`RawExtension`, `FieldsV1`, `JSON`) that cannot be read.
    #[error("embedded JSON")]
    Json(#[from] serde_json::Error),
    /// An object inside of the protobuf (`RawExtension`) with a broken envelope.
    #[error("embedded object")]
    Envelope(#[from] EnvelopeError),
    /// An object inside of the protobuf (`RawExtension`) of a kind that has no protobuf form.
    #[error("embedded object of the unknown kind {api_version} {kind}")]
    UnknownKind {
        /// As its envelope says.
        api_version: String,
        /// As its envelope says.
        kind: String,
    },
    /// A time outside of the years 0 to 9999, which RFC 3339 cannot say.
    #[error("a time at {seconds} s, outside of the years 0 to 9999")]
    Time {
        /// Since 1970.
        seconds: i64,
    },
    /// A number that JSON does not have.
    #[error("{0} is no number in JSON")]
    NotFinite(f64),
    /// More values within each other than [`MAX_DEPTH`](crate::MAX_DEPTH).
    #[error("nested too deeply")]
    Depth,
    /// The type that is read into does not take what the object has.
    #[error("{0}")]
    Data(String),
    /// JSON that cannot be written as protobuf: it is broken, or a value is not of its field's type.
    #[error(transparent)]
    Input(serde_json::Error),
    /// Fields are not in the order of their numbers. Never leaves the crate: the reader begins again, ready for that.
    #[doc(hidden)]
    #[error("fields out of order")]
    Disordered,
}

impl Error {
    /// What is wrong.
    pub fn kind(&self) -> &ErrorKind {
        &self.0.kind
    }

    /// The JSON path of the value: `spec.containers[0].name`, `metadata.labels["a.b/c"]`. Empty for the object itself.
    pub fn path(&self) -> String {
        let mut path = String::new();
        for segment in self.0.path.iter().rev() {
            // Writing to a string cannot fail.
            let _ = match segment {
                Segment::Field(name) if path.is_empty() => write!(path, "{name}"),
                Segment::Field(name) => write!(path, ".{name}"),
                Segment::Key(key) => write!(path, "[{key:?}]"),
                Segment::Index(index) => write!(path, "[{index}]"),
            };
        }
        path
    }

    /// With the offset of an error on the wire from further before.
    #[cold]
    pub(crate) fn shift(&mut self, by: usize) {
        if let (ErrorKind::Wire(error), true) = (&mut self.0.kind, self.0.path.is_empty()) {
            *error = error.shifted(by);
        }
    }

    #[cold]
    pub(crate) fn in_field(&mut self, name: &'static str) {
        self.0.path.push(Segment::Field(name));
    }

    #[cold]
    pub(crate) fn in_key(&mut self, key: &str) {
        self.0.path.push(Segment::Key(key.into()));
    }

    #[cold]
    pub(crate) fn in_element(&mut self, index: usize) {
        self.0.path.push(Segment::Index(index));
    }
}

impl<T: Into<ErrorKind>> From<T> for Error {
    #[cold]
    fn from(kind: T) -> Self {
        Self(Box::new(Inner { kind: kind.into(), path: Vec::new() }))
    }
}

impl serde::de::Error for Error {
    #[cold]
    fn custom<T: fmt::Display>(message: T) -> Self {
        ErrorKind::Data(message.to_string()).into()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.0.path.is_empty() {
            write!(f, "{}: ", self.path())?;
        }
        self.0.kind.fmt(f)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Error").field("path", &self.path()).field("kind", &self.0.kind).finish()
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        std::error::Error::source(&self.0.kind)
    }
}
