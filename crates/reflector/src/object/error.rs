//! Objects that cannot be read.

use std::sync::Arc;

use super::ObjectKey;
use crate::{ResourceVersion, transform::TransformError, wire::InvalidObject};

/// An object that does not fit its type, or could not be transformed. Reading it again fails again; a later revision may
/// fit.
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
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeCause {
    /// The body does not fit the type; what the decoder said.
    #[error(transparent)]
    Json(serde_json::Error),
    /// The protobuf is malformed or does not fit the type; what the decoder said.
    #[error(transparent)]
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

fn misfit(kind: &str, path: &str, cause: &DecodeCause) -> String {
    match cause {
        DecodeCause::Json(_) | DecodeCause::Protobuf(_) => format!("does not fit {kind} at `{path}`: "),
        DecodeCause::Packed(_) | DecodeCause::Dropped => format!("cannot be read as {kind}: "),
        DecodeCause::Transform(_) => "kept without its body, which could not be transformed: ".to_owned(),
        DecodeCause::Unread(_) => "known without its body, which could not be read: ".to_owned(),
    }
}
