//! Objects that cannot be read.

use std::{fmt, sync::Arc};

use super::ObjectKey;
use crate::{ResourceVersion, transform::TransformError, wire::InvalidObject};

/// An object that does not fit its type, or could not be transformed. Reading it again fails again; a later revision may
/// fit.
///
/// It tells where and what was expected, and never quotes the object, which may be a Secret. The decoder's own words are in
/// [`DecodeCause`].
#[derive(Debug, thiserror::Error)]
#[error("{key}: {}{source}", misfit(.kind, .path, .source))]
#[non_exhaustive]
pub struct DecodeError {
    /// Which object.
    pub key: ObjectKey,
    /// Which revision of it.
    pub version: Option<ResourceVersion>,
    /// The type that was asked for.
    pub kind: &'static str,
    /// The JSON path of the value that does not fit, such as `spec.containers[0].image`; empty if there is no body.
    pub path: String,
    /// What is behind it.
    #[source]
    pub source: DecodeCause,
}

/// What is behind a [`DecodeError`].
///
/// A decoder's own words quote the value that does not fit. They can be had from the variants, but neither `Display` nor
/// `Debug` nor the chain of sources shows them: errors are logged, and the object may be a Secret.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum DecodeCause {
    /// The body does not fit the type; what the decoder said.
    #[error("{}", json_said(.0))]
    Json(serde_json::Error),
    /// The protobuf is malformed or does not fit the type; what the decoder said.
    #[error("{}", protobuf_said(.0))]
    Protobuf(reflector_protobuf::Error),
    /// The packed bytes cannot be read back, which is a fault of the memory.
    #[error(transparent)]
    Packed(reflector_pack::Corrupt),
    /// There are no bytes, since the object is kept [decoded](crate::BodyForm::decoded).
    #[error("its bytes were not kept")]
    Dropped,
    /// There is no body, since it could not be [transformed](crate::transform); the reason.
    #[error("{0}")]
    Transform(#[source] Arc<TransformError>),
    /// There is no body, since the last state of the deleted object could not be read; what was wrong with it.
    #[error("{0}")]
    Unread(#[source] Arc<InvalidObject>),
}

impl fmt::Debug for DecodeCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self {
            Self::Json(_) => "Json",
            Self::Protobuf(_) => "Protobuf",
            Self::Packed(_) => "Packed",
            Self::Dropped => return f.write_str("Dropped"),
            Self::Transform(_) => "Transform",
            Self::Unread(_) => "Unread",
        };
        f.debug_tuple(name).field(&format_args!("{self}")).finish()
    }
}

fn json_said(error: &serde_json::Error) -> String {
    // What is no JSON is told by its place alone.
    if !error.is_data() {
        return error.to_string();
    }
    let place = format!(" at line {} column {}", error.line(), error.column());
    let said = error.to_string();
    let (said, place) = said.strip_suffix(&place).map_or((&*said, ""), |said| (said, &*place));
    format!("{}{place}", without_values(said))
}

fn protobuf_said(error: &reflector_protobuf::Error) -> String {
    match error.kind() {
        reflector_protobuf::ErrorKind::Data(said) => without_values(said),
        kind => kind.to_string(),
    }
}

/// What serde calls a value that it found where it expected another.
const FOUND: &[&str] = &[
    "boolean",
    "integer",
    "floating point",
    "character",
    "string",
    "byte array",
    "null",
    "unit value",
    "Option value",
    "newtype struct",
    "sequence",
    "map",
    "enum",
    "unit variant",
    "newtype variant",
    "tuple variant",
];

/// What a decoder said, as far as it cannot quote the object. What it expected is the type's business, and known.
fn without_values(said: &str) -> String {
    const OWN_WORDS: &str = "its type refuses it";
    for what in ["invalid type", "invalid value"] {
        let Some(rest) = said.strip_prefix(what).and_then(|rest| rest.strip_prefix(": ")) else { continue };
        // The value may hold anything, even this: what is expected comes last.
        let Some((found, expected)) = rest.rsplit_once(", expected ") else { break };
        let found = FOUND.iter().find(|name| found.starts_with(**name)).copied().unwrap_or("something else");
        return format!("{what}: {found}, expected {expected}");
    }
    for what in ["unknown variant", "unknown field"] {
        let Some(rest) = said.strip_prefix(what).and_then(|rest| rest.strip_prefix(" `")) else { continue };
        let Some((_, expected)) = rest.rsplit_once("`, expected ") else { break };
        return format!("{what}, expected {expected}");
    }
    let is_static = |start: &&str| said.starts_with(*start);
    // The names of fields are those of the type.
    if ["missing field `", "duplicate field `", "invalid length "].iter().any(is_static) {
        return said.to_owned();
    }
    OWN_WORDS.to_owned()
}

fn misfit(kind: &str, path: &str, cause: &DecodeCause) -> String {
    match cause {
        DecodeCause::Json(_) | DecodeCause::Protobuf(_) => format!("does not fit {kind} at `{path}`: "),
        DecodeCause::Packed(_) | DecodeCause::Dropped => format!("cannot be read as {kind}: "),
        DecodeCause::Transform(_) => "kept without its body, which could not be transformed: ".to_owned(),
        DecodeCause::Unread(_) => "known without its body, which could not be read: ".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde::{Deserialize, de::Error as _};

    use super::*;
    use crate::Object;

    #[test]
    fn a_decoders_words_lose_the_value_and_nothing_else() {
        let table = [
            ("invalid type: string \"hunter2\", expected u32", "invalid type: string, expected u32"),
            (
                "invalid type: string \"x, expected hunter2\", expected u32",
                "invalid type: string, expected u32",
            ),
            ("invalid value: integer `-12345`, expected u8", "invalid value: integer, expected u8"),
            ("invalid type: null, expected a map", "invalid type: null, expected a map"),
            ("invalid type: hunter2, expected a map", "invalid type: something else, expected a map"),
            (
                "unknown variant `hunter2`, expected one of `a`, `b`",
                "unknown variant, expected one of `a`, `b`",
            ),
            ("unknown field `hunter2`, expected `a`", "unknown field, expected `a`"),
            ("unknown field `hunter2`, there are no fields", "its type refuses it"),
            ("missing field `spec`", "missing field `spec`"),
            ("invalid length 3, expected a tuple of size 2", "invalid length 3, expected a tuple of size 2"),
            ("cannot parse `hunter2`", "its type refuses it"),
        ];
        for (said, expected) in table {
            assert_eq!(without_values(said), expected);
            assert!(!format!("{:?}", DecodeCause::Json(serde_json::Error::custom(said))).contains("hunter2"));
        }
    }

    #[test]
    fn an_error_tells_where_and_what_was_expected_and_never_the_value() {
        #[derive(Debug, Deserialize)]
        struct Wrong {
            #[serde(rename = "data")]
            _data: std::collections::BTreeMap<String, u32>,
        }
        let object: Object<Wrong> =
            Object::from_json(r#"{"metadata":{"name":"a"},"data":{"password":"hunter2"}}"#).unwrap();
        let error = object.get().unwrap_err();
        let expected = "a: does not fit reflector::object::error::tests::an_error_tells_where_and_what_was_expected_and\
                        _never_the_value::Wrong at `data.password`: invalid type: string, expected u32 at line 1 column";
        assert!(error.to_string().starts_with(expected), "{error}");
        let mut chain = format!("{error:?} {error:#?}");
        let mut source: Option<&dyn std::error::Error> = std::error::Error::source(&error);
        while let Some(cause) = source {
            chain += &format!("{cause} {cause:?}");
            source = cause.source();
        }
        assert!(!chain.contains("hunter2"), "{chain}");
        // Whoever asks for it gets it.
        assert!(matches!(error.source, DecodeCause::Json(said) if said.to_string().contains("hunter2")));
    }
}
