//! Bodies: the bytes of an object in one form or another.

use std::{
    any::Any,
    borrow::Cow,
    hash::{DefaultHasher, Hash, Hasher},
    sync::Arc,
};

use bytes::Bytes;
use reflector_pack::{Dictionary, Packed};
use reflector_protobuf::Kind;
use serde::de::DeserializeOwned;

use super::{DecodeCause, ObjectMeta};
use crate::{transform::TransformError, wire::InvalidObject};

/// How the bytes of an object are to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Encoding {
    /// JSON text.
    Json,
    /// The protobuf message of this kind, without the envelope around it.
    Protobuf(Kind),
}

/// What is kept of an object beside its header.
pub(super) enum Body {
    /// The bytes as they came.
    Wire(Bytes),
    /// The bytes, packed.
    Packed(Packed),
    /// The value, an `Arc` of its type, and a digest of the bytes that it was decoded from.
    Decoded { value: Box<dyn Any + Send + Sync>, digest: u64 },
    /// There was one, which could not be read or transformed.
    Unusable(Box<Reason>),
}

/// Why there is no body.
pub(super) enum Reason {
    Transform(Arc<TransformError>),
    Unread(Arc<InvalidObject>),
}

/// What the memory of a body is accounted by.
pub(crate) struct Usage<'a> {
    /// What it takes, in bytes.
    pub(crate) bytes: usize,
    /// What it would take unpacked; the same, where it is not packed.
    pub(crate) unpacked: usize,
    /// What it shares with others.
    pub(crate) dictionary: Option<&'a Arc<Dictionary>>,
}

impl Body {
    /// The bytes, unpacked.
    pub(super) fn bytes(&self) -> Result<Cow<'_, [u8]>, DecodeCause> {
        match self {
            Self::Wire(bytes) => Ok(Cow::Borrowed(bytes)),
            Self::Packed(packed) => packed.unpack().map(Cow::Owned).map_err(DecodeCause::Packed),
            Self::Decoded { .. } => Err(DecodeCause::Dropped),
            Self::Unusable(reason) => Err(match &**reason {
                Reason::Transform(error) => DecodeCause::Transform(Arc::clone(error)),
                Reason::Unread(invalid) => DecodeCause::Unread(Arc::clone(invalid)),
            }),
        }
    }

    /// A number that tells bodies apart; `None` where there is none to speak of.
    pub(super) fn digest(&self) -> Option<u64> {
        match self {
            Self::Decoded { digest, .. } => Some(*digest),
            _ => {
                let mut hasher = DefaultHasher::new();
                self.bytes().ok()?.hash(&mut hasher);
                Some(hasher.finish())
            }
        }
    }

    /// Whether both hold the same, provided that they are in the same encoding.
    pub(super) fn same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Unusable(_), Self::Unusable(_)) => true,
            (Self::Unusable(_), _) | (_, Self::Unusable(_)) => false,
            (Self::Decoded { .. }, _) | (_, Self::Decoded { .. }) => self.digest() == other.digest(),
            _ => matches!((self.bytes(), other.bytes()), (Ok(a), Ok(b)) if a == b),
        }
    }

    /// What it takes beside its own size; `decoded` is the size of a decoded value.
    pub(super) fn usage(&self, decoded: usize) -> Usage<'_> {
        let (bytes, unpacked, dictionary) = match self {
            Self::Wire(bytes) => (bytes.len(), bytes.len(), None),
            Self::Packed(packed) => (packed.packed_len(), packed.len(), packed.dictionary()),
            Self::Decoded { .. } => (decoded, decoded, None),
            Self::Unusable(_) => (size_of::<Reason>(), size_of::<Reason>(), None),
        };
        Usage { bytes, unpacked, dictionary }
    }
}

/// Decodes bytes. Where they do not fit, they are decoded a second time, to find out where: keeping the path takes time
/// that is wasted on all the others.
pub(super) fn decode<T: DeserializeOwned>(
    encoding: Encoding,
    bytes: &[u8],
) -> Result<T, (String, DecodeCause)> {
    match encoding {
        Encoding::Json => serde_json::from_slice(bytes).map_err(|first| {
            let mut json = serde_json::Deserializer::from_slice(bytes);
            match serde_path_to_error::deserialize::<_, T>(&mut json) {
                // It fits, and something follows it; or `T` is of two minds.
                Ok(_) => (String::new(), DecodeCause::Json(first)),
                Err(error) => (error.path().to_string(), DecodeCause::Json(error.into_inner())),
            }
        }),
        Encoding::Protobuf(kind) => reflector_protobuf::from_slice(kind, bytes)
            .map_err(|error| (error.path(), DecodeCause::Protobuf(error))),
    }
}

/// What is left of an object of which only the header is known.
pub(super) fn json_of(meta: &ObjectMeta) -> Bytes {
    let mut metadata = serde_json::Map::new();
    metadata.insert("name".into(), meta.key.name().into());
    if let Some(namespace) = meta.key.namespace() {
        metadata.insert("namespace".into(), namespace.into());
    }
    if !meta.uid.is_empty() {
        metadata.insert("uid".into(), meta.uid.to_string().into());
    }
    if let Some(version) = &meta.version {
        metadata.insert("resourceVersion".into(), version.to_string().into());
    }
    if !meta.labels.is_empty() {
        let labels = meta.labels.iter().map(|(name, value)| (name.to_owned(), value.into()));
        metadata.insert("labels".into(), labels.collect::<serde_json::Map<_, _>>().into());
    }
    serde_json::json!({ "metadata": metadata }).to_string().into()
}
