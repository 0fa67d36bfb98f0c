//! Objects as handles: identity at once, the type on demand.
//!
//! The cache keeps the bytes that the server sent and a small header read from their `metadata`. The type `K` comes
//! into play only when somebody asks for it, so an object that does not fit its type is an error of that object, at
//! the place where it is read, and of nothing else.

mod body;
mod error;
mod key;
mod labels;
mod uid;

use std::{
    borrow::Cow,
    fmt,
    marker::PhantomData,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use bytes::{Bytes, BytesMut};
use serde::de::DeserializeOwned;

use self::body::{Body, Reason};
pub use self::{
    body::Encoding,
    error::{DecodeCause, DecodeError},
    key::{InvalidKey, ObjectKey},
    labels::Labels,
    uid::Uid,
};
use crate::{
    ResourceVersion,
    transform::TransformError,
    wire::{self, InvalidObject},
};

/// What the engine knows of an object without knowing its type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectMeta {
    /// Name and namespace.
    pub key: ObjectKey,
    /// `metadata.uid`; empty if the server sent none.
    pub uid: Uid,
    /// `metadata.resourceVersion`; `None` if the server sent none.
    pub version: Option<ResourceVersion>,
    /// `metadata.labels`, ordered by name.
    pub labels: Labels,
}

/// A handle to one revision of one object: cheap to clone, valid for ever.
///
/// Its identity is read without decoding; [`get`](Self::get) decodes the whole into `K`.
///
/// ```
/// use reflector::Object;
/// # #[derive(serde::Deserialize)] struct Pod { spec: Spec }
/// # #[derive(serde::Deserialize)] #[serde(rename_all = "camelCase")] struct Spec { node_name: String }
/// let body = r#"{"metadata":{"namespace":"shop","name":"cart","uid":"u1","resourceVersion":"7"},
///                "spec":{"nodeName":"node-1"}}"#;
/// let pod: Object<Pod> = Object::from_json(body)?;
/// assert_eq!(pod.key().to_string(), "shop/cart");
/// assert_eq!(pod.get()?.spec.node_name, "node-1");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Object<K> {
    inner: Arc<Inner>,
    kind: PhantomData<fn() -> K>,
}

struct Inner {
    meta: ObjectMeta,
    body: Body,
    encoding: Encoding,
    /// Set by the first failed decoding, so that a broken object is reported once and not at every read (K4).
    reported: AtomicBool,
}

impl<K> Object<K> {
    /// A handle from its header and the bytes that the header was read from.
    ///
    /// Whoever calls this has checked that `body` is one object in this encoding.
    #[must_use]
    pub fn new(meta: ObjectMeta, encoding: Encoding, body: Bytes) -> Self {
        Self::with_body(meta, encoding, Body::Wire(body), false)
    }

    /// A handle to an object that could not be transformed, which whoever calls this has reported.
    pub(crate) fn unusable(meta: ObjectMeta, reason: TransformError) -> Self {
        Self::without_body(meta, Reason::Transform(Arc::new(reason)))
    }

    /// A handle to an object of which no more could be read than its key, which whoever calls this has reported.
    pub(crate) fn unread(key: ObjectKey, invalid: InvalidObject) -> Self {
        let version = invalid.version.clone();
        let meta = ObjectMeta { key, uid: Uid::default(), version, labels: Labels::default() };
        Self::without_body(meta, Reason::Unread(Arc::new(invalid)))
    }

    fn without_body(meta: ObjectMeta, reason: Reason) -> Self {
        Self::with_body(meta, Encoding::Json, Body::Unusable(Box::new(reason)), true)
    }

    fn with_body(meta: ObjectMeta, encoding: Encoding, body: Body, reported: bool) -> Self {
        let inner = Inner { meta, body, encoding, reported: AtomicBool::new(reported) };
        Self { inner: Arc::new(inner), kind: PhantomData }
    }

    /// The same object with its body packed; itself, where there are no bytes to pack.
    pub(crate) fn packed(self, packer: &reflector_pack::Packer) -> Self {
        let Body::Wire(bytes) = &self.inner.body else { return self };
        let body = Body::Packed(packer.pack(bytes));
        Self::with_body(self.inner.meta.clone(), self.inner.encoding, body, false)
    }

    /// Packs the bodies of objects that came together; those without bytes to pack stay what they are.
    pub(crate) fn pack_batch<'a>(objects: impl Iterator<Item = &'a mut Self>, packer: &reflector_pack::Packer)
    where
        K: 'a,
    {
        let (mut plain, mut bodies) = (Vec::new(), Vec::new());
        for object in objects {
            if let Body::Wire(bytes) = &object.inner.body {
                bodies.push(bytes.clone());
                plain.push(object);
            }
        }
        let packed = packer.pack_batch(&bodies);
        for (object, packed) in plain.into_iter().zip(packed) {
            let Inner { meta, encoding, .. } = &*object.inner;
            *object = Self::with_body(meta.clone(), *encoding, Body::Packed(packed), false);
        }
    }

    /// Moves the bytes of a body into a buffer that many share, if nobody else has this handle.
    pub(crate) fn move_body(&mut self, buffer: &mut BytesMut) {
        if let Some(Inner { body: Body::Wire(bytes), .. }) = Arc::get_mut(&mut self.inner) {
            buffer.extend_from_slice(bytes);
            *bytes = buffer.split().freeze();
        }
    }

    /// Gives a body memory of its own again, after [`move_body`](Self::move_body).
    pub(crate) fn copy_body(&mut self) {
        if let Some(Inner { body: Body::Wire(bytes), .. }) = Arc::get_mut(&mut self.inner) {
            *bytes = Bytes::copy_from_slice(bytes);
        }
    }

    /// The same object with nothing but its decoded value; itself, where there are no bytes or they do not fit.
    pub(crate) fn decoded(self) -> Self
    where
        K: DeserializeOwned + Send + Sync + 'static,
    {
        let (Some(digest), Ok(value)) = (self.inner.body.digest(), self.get()) else { return self };
        let body = Body::Decoded { value: Box::new(value), digest };
        Self::with_body(self.inner.meta.clone(), self.inner.encoding, body, false)
    }

    /// A handle to the one object that is all of `json`. The bytes are copied and kept as they are.
    ///
    /// # Errors
    ///
    /// [`InvalidObject`] if it is not one JSON object, or its metadata is unusable. Whether the rest fits `K` is not
    /// looked at.
    pub fn from_json(json: impl AsRef<[u8]>) -> Result<Self, Box<InvalidObject>> {
        wire::json::meta::object_from_json(json.as_ref())
    }

    /// Name and namespace.
    #[must_use]
    pub fn key(&self) -> &ObjectKey {
        &self.inner.meta.key
    }

    /// The namespace; `None` for cluster-scoped objects.
    #[must_use]
    pub fn namespace(&self) -> Option<&str> {
        self.key().namespace()
    }

    /// The name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.key().name()
    }

    /// The uid; empty if the server sent none.
    #[must_use]
    pub fn uid(&self) -> &Uid {
        &self.inner.meta.uid
    }

    /// The version of this revision; `None` if the server sent none.
    #[must_use]
    pub fn version(&self) -> Option<&ResourceVersion> {
        self.inner.meta.version.as_ref()
    }

    /// The labels, ordered by name.
    #[must_use]
    pub fn labels(&self) -> &Labels {
        &self.inner.meta.labels
    }

    /// The value of one label.
    #[must_use]
    pub fn label(&self, name: &str) -> Option<&str> {
        self.labels().get(name)
    }

    /// Everything the engine knows of this object without decoding it.
    #[must_use]
    pub fn meta(&self) -> &ObjectMeta {
        &self.inner.meta
    }

    /// The object as JSON: as the server sent it (with `kind` and `apiVersion` filled in where a list left them out), as
    /// a [transform](crate::transform) made it, or made from protobuf.
    ///
    /// Of an object that could not be read or transformed, and of one that is kept
    /// [decoded](crate::BodyForm::decoded), it is an object with nothing but the `metadata` that is known here.
    ///
    /// # Errors
    ///
    /// [`DecodeError`] if the protobuf that the server sent is malformed somewhere within.
    pub fn json(&self) -> Result<Bytes, DecodeError> {
        match (&self.inner.body, self.inner.encoding) {
            (Body::Wire(json), Encoding::Json) => Ok(json.clone()),
            (Body::Decoded { .. } | Body::Unusable(_), _) => Ok(body::json_of(&self.inner.meta)),
            (_, encoding) => {
                let bytes = self.bytes()?;
                let json = match encoding {
                    Encoding::Json => bytes.into_owned(),
                    Encoding::Protobuf(kind) => {
                        let mut json = Vec::with_capacity(bytes.len() * 3 / 2);
                        reflector_protobuf::to_json(kind, &bytes, &mut json)
                            .map_err(|error| self.misfit(error.path(), DecodeCause::Protobuf(error)))?;
                        json
                    }
                };
                Ok(json.into())
            }
        }
    }

    /// How the bytes of the body are to be read.
    #[must_use]
    pub fn encoding(&self) -> Encoding {
        self.inner.encoding
    }

    /// The bytes of the body in their [encoding](Self::encoding), unpacked.
    ///
    /// # Errors
    ///
    /// [`DecodeError`] if there are none: the object is kept [decoded](crate::BodyForm::decoded), or could not be read
    /// or transformed.
    pub fn bytes(&self) -> Result<Cow<'_, [u8]>, DecodeError> {
        self.inner.body.bytes().map_err(|cause| self.misfit(String::new(), cause))
    }

    /// How many bytes of memory this revision takes, header and body. What is shared with other objects (labels,
    /// dictionaries) is not counted, nor what an allocator adds; of a decoded value only its own size is known, and not
    /// what it points to.
    #[must_use]
    pub fn memory(&self) -> usize {
        size_of::<Inner>() + 2 * size_of::<usize>() + self.key().text_len() + self.body_memory().bytes
    }

    /// Whether both are the same revision of the same object: equal uid and equal version.
    ///
    /// `false` where either has no version, since nothing is known then.
    #[must_use]
    pub fn same_revision(&self, other: &Self) -> bool {
        self.version().is_some() && self.version() == other.version() && self.uid() == other.uid()
    }

    /// Whether its body is that of the server, and not what stands for one that could not be read or transformed.
    pub(crate) fn is_usable(&self) -> bool {
        !matches!(self.inner.body, Body::Unusable(_))
    }

    /// Whether both say the same. Not if they are in different encodings: nobody compares those.
    pub(crate) fn same_body(&self, other: &Self) -> bool {
        // Of an object without a body the labels are all that is left to compare.
        self.labels() == other.labels()
            && self.inner.encoding == other.inner.encoding
            && self.inner.body.same(&other.inner.body)
    }

    /// What its memory is accounted by.
    pub(crate) fn body_memory(&self) -> body::Usage<'_> {
        self.inner.body.usage(size_of::<K>())
    }

    fn misfit(&self, path: String, source: DecodeCause) -> DecodeError {
        let (key, version) = (self.key().clone(), self.version().cloned());
        DecodeError { key, version, kind: std::any::type_name::<K>(), path, source }
    }

    /// Where it is in memory: no other revision that is held at the same time is there.
    pub(crate) fn address(&self) -> usize {
        Arc::as_ptr(&self.inner).addr()
    }

    /// Whether both handles share one allocation.
    #[must_use]
    pub fn ptr_eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }
}

impl<K: DeserializeOwned + 'static> Object<K> {
    /// Decodes the object.
    ///
    /// Each call decodes anew, unless the object is kept [decoded](crate::BodyForm::decoded); keep the result where it
    /// is needed often, or read through a [`Hot`](crate::Hot) cache.
    ///
    /// # Errors
    ///
    /// [`DecodeError`] if the body does not fit `K`, with the key, the version and the JSON path. The first such error
    /// of a revision is also logged and counted (`reflector_objects_invalid_total`). Or if the object could not be
    /// [transformed](crate::transform), or is the last state of a deleted one that could not be read, with the reason.
    ///
    /// The error never quotes the value that does not fit: it may be a Secret.
    pub fn get(&self) -> Result<Arc<K>, DecodeError> {
        self.decode().inspect_err(|error| {
            if !self.inner.reported.swap(true, Ordering::Relaxed) {
                metrics::counter!("reflector_objects_invalid_total", "type" => error.kind).increment(1);
                tracing::warn!(key = %error.key, path = %error.path, cause = %error.source, "object does not fit its type");
            }
        })
    }

    /// Decodes the object like [`get`](Self::get), and leaves it to the caller to log and count what does not fit. For
    /// [transforms](crate::transform), whose failures are reported as such.
    ///
    /// # Errors
    ///
    /// As there.
    pub fn decode(&self) -> Result<Arc<K>, DecodeError> {
        if let Body::Decoded { value, .. } = &self.inner.body
            && let Some(value) = value.downcast_ref::<Arc<K>>()
        {
            return Ok(Arc::clone(value));
        }
        self.decode_as().map(Arc::new)
    }
}

impl<K> Object<K> {
    /// Decodes the object into any other type, such as a struct with just those fields that are needed once.
    /// Everything else is skipped without being decoded.
    ///
    /// ```
    /// use k8s_openapi::api::core::v1::Pod;
    /// use reflector::Object;
    ///
    /// #[derive(serde::Deserialize)]
    /// struct Phase { status: Status }
    /// #[derive(serde::Deserialize)]
    /// struct Status { phase: String }
    ///
    /// let pod: Object<Pod> = Object::from_json(r#"{"metadata":{"name":"cart"},"status":{"phase":"Running"}}"#)?;
    /// assert_eq!(pod.decode_as::<Phase>()?.status.phase, "Running");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`DecodeError`] if the body does not fit `T`, or there are no [bytes](Self::bytes) to decode.
    pub fn decode_as<T: DeserializeOwned>(&self) -> Result<T, DecodeError> {
        let bytes = self.bytes()?;
        body::decode(self.inner.encoding, &bytes).map_err(|(path, cause)| DecodeError {
            kind: std::any::type_name::<T>(),
            ..self.misfit(path, cause)
        })
    }
}

impl<K> Clone for Object<K> {
    fn clone(&self) -> Self {
        Self { inner: Arc::clone(&self.inner), kind: PhantomData }
    }
}

impl<K> fmt::Debug for Object<K> {
    /// Key and version only: a body may be a Secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Object")
            .field("key", self.key())
            .field("uid", &self.uid())
            .field("version", &self.version())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where equal versions prove nothing, an object without a body is compared by its labels.
    #[test]
    fn objects_without_a_body_are_the_same_if_their_labels_are() {
        let object = |app: &str| {
            let json =
                format!(r#"{{"metadata":{{"name":"a","resourceVersion":"1","labels":{{"app":"{app}"}}}}}}"#);
            let meta = Object::<()>::from_json(json).unwrap().meta().clone();
            Object::<()>::unusable(meta, TransformError::new("no"))
        };
        assert!(object("x").same_body(&object("x")));
        assert!(!object("x").same_body(&object("y")));
    }
}
