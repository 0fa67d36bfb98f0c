//! Objects as handles: identity at once, the type on demand.
//!
//! The cache keeps the bytes that the server sent and a small header read from their `metadata`. The type `K` comes
//! into play only when somebody asks for it, so an object that does not fit its type is an error of that object, at
//! the place where it is read, and of nothing else.

use std::{
    fmt,
    marker::PhantomData,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use bytes::Bytes;
use serde::de::DeserializeOwned;

use crate::{
    ResourceVersion,
    transform::TransformError,
    wire::{self, InvalidObject},
};

/// The name of an object within its collection: an optional namespace, and a name.
///
/// Ordered by namespace, then by name; objects without a namespace come first. Shown as `namespace/name` or `name`
/// (ST-1).
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct ObjectKey {
    /// `namespace/name`, or `name`: one allocation, and one place to look at when keys are compared.
    text: Box<str>,
    /// Where the name begins; zero without a namespace.
    name_at: usize,
}

impl ObjectKey {
    /// A key from its parts; an empty namespace is the same as none.
    ///
    /// ```
    /// use reflector::ObjectKey;
    /// assert_eq!(ObjectKey::new(Some("kube-system"), "dns").to_string(), "kube-system/dns");
    /// assert_eq!(ObjectKey::new(Some(""), "node-1"), ObjectKey::new(None, "node-1"));
    /// ```
    #[must_use]
    pub fn new(namespace: Option<&str>, name: &str) -> Self {
        match namespace.filter(|namespace| !namespace.is_empty()) {
            Some(namespace) => {
                Self { text: format!("{namespace}/{name}").into(), name_at: namespace.len() + 1 }
            }
            None => Self { text: name.into(), name_at: 0 },
        }
    }

    /// The namespace; `None` for cluster-scoped objects.
    #[must_use]
    pub fn namespace(&self) -> Option<&str> {
        self.name_at.checked_sub(1).map(|end| &self.text[..end])
    }

    /// The name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.text[self.name_at..]
    }

    fn parts(&self) -> (Option<&str>, &str) {
        (self.namespace(), self.name())
    }
}

impl PartialOrd for ObjectKey {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for ObjectKey {
    /// By the parts and not by the text, where `/` would come after `-`.
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.parts().cmp(&other.parts())
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::str::FromStr for ObjectKey {
    type Err = InvalidKey;

    /// Reads `namespace/name` or `name`; a leading slash is an empty namespace, which is none (ST-1).
    fn from_str(text: &str) -> Result<Self, InvalidKey> {
        match text.split_once('/') {
            None => Ok(Self::new(None, text)),
            Some((namespace, name)) if !name.contains('/') => Ok(Self::new(Some(namespace), name)),
            Some(_) => Err(InvalidKey { text: text.to_owned() }),
        }
    }
}

/// A text that is not `namespace/name` or `name`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` has more than one slash; a key is `namespace/name`, or `name` alone")]
pub struct InvalidKey {
    text: String,
}

impl fmt::Debug for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// What the engine knows of an object without knowing its type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectMeta {
    /// Name and namespace.
    pub key: ObjectKey,
    /// `metadata.uid`; empty if the server sent none.
    pub uid: Box<str>,
    /// `metadata.resourceVersion`; `None` if the server sent none.
    pub version: Option<ResourceVersion>,
    /// `metadata.labels`, ordered by name.
    pub labels: Box<[(Box<str>, Box<str>)]>,
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
    /// Set by the first failed decoding, so that a broken object is reported once and not at every read (K4).
    reported: AtomicBool,
}

enum Body {
    Json(Bytes),
    /// There was one, which could not be read or transformed. What stands for it is made from the header.
    Unusable {
        json: Bytes,
        reason: Reason,
    },
}

/// Why there is no body.
#[derive(Clone)]
enum Reason {
    Transform(Arc<TransformError>),
    Unread(Arc<InvalidObject>),
}

impl<K> Object<K> {
    /// A handle from its header and the JSON bytes that the header was read from.
    ///
    /// Whoever calls this has checked that `body` is one JSON object.
    #[must_use]
    pub fn new(meta: ObjectMeta, body: Bytes) -> Self {
        Self::with_body(meta, Body::Json(body), false)
    }

    /// A handle to an object that could not be transformed, which whoever calls this has reported.
    pub(crate) fn unusable(meta: ObjectMeta, reason: TransformError) -> Self {
        Self::without_body(meta, Reason::Transform(Arc::new(reason)))
    }

    /// A handle to an object of which no more could be read than its key, which whoever calls this has reported.
    pub(crate) fn unread(key: ObjectKey, invalid: InvalidObject) -> Self {
        let version = invalid.version.clone();
        let meta = ObjectMeta { key, uid: Box::default(), version, labels: Box::default() };
        Self::without_body(meta, Reason::Unread(Arc::new(invalid)))
    }

    fn without_body(meta: ObjectMeta, reason: Reason) -> Self {
        let json = json_of(&meta);
        Self::with_body(meta, Body::Unusable { json, reason }, true)
    }

    fn with_body(meta: ObjectMeta, body: Body, reported: bool) -> Self {
        let inner = Inner { meta, body, reported: AtomicBool::new(reported) };
        Self { inner: Arc::new(inner), kind: PhantomData }
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
    pub fn uid(&self) -> &str {
        &self.inner.meta.uid
    }

    /// The version of this revision; `None` if the server sent none.
    #[must_use]
    pub fn version(&self) -> Option<&ResourceVersion> {
        self.inner.meta.version.as_ref()
    }

    /// The labels, ordered by name.
    pub fn labels(&self) -> impl ExactSizeIterator<Item = (&str, &str)> {
        self.inner.meta.labels.iter().map(|(name, value)| (&**name, &**value))
    }

    /// The value of one label.
    #[must_use]
    pub fn label(&self, name: &str) -> Option<&str> {
        let labels = &self.inner.meta.labels;
        labels.binary_search_by(|(n, _)| (**n).cmp(name)).ok().map(|i| &*labels[i].1)
    }

    /// Everything the engine knows of this object without decoding it.
    #[must_use]
    pub fn meta(&self) -> &ObjectMeta {
        &self.inner.meta
    }

    /// The object as JSON, as the server sent it (with `kind` and `apiVersion` filled in where a list left them out), or
    /// as a [transform](crate::transform) made it.
    ///
    /// Of an object that could not be read or transformed it is an object with nothing but the `metadata` that is known
    /// here.
    #[must_use]
    pub fn json(&self) -> &Bytes {
        let (Body::Json(json) | Body::Unusable { json, .. }) = &self.inner.body;
        json
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
        matches!(self.inner.body, Body::Json(_))
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

impl<K: DeserializeOwned> Object<K> {
    /// Decodes the object.
    ///
    /// Each call decodes anew; keep the result where it is needed often.
    ///
    /// # Errors
    ///
    /// [`DecodeError`] if the body does not fit `K`, with the key, the version and the JSON path. The first such error
    /// of a revision is also logged and counted (`reflector_objects_invalid_total`). Or if the object could not be
    /// [transformed](crate::transform), or is the last state of a deleted one that could not be read, with the reason.
    ///
    /// The error quotes the value that does not fit.
    pub fn get(&self) -> Result<Arc<K>, DecodeError> {
        self.decode().map(Arc::new).inspect_err(|error| {
            if !self.inner.reported.swap(true, Ordering::Relaxed) {
                metrics::counter!("reflector_objects_invalid_total", "type" => error.kind).increment(1);
                // The decoder's own words quote the value, and the object may be a Secret.
                tracing::warn!(key = %error.key, path = %error.path, "object does not fit its type");
            }
        })
    }

    /// Decodes the object like [`get`](Self::get), and leaves it to the caller to log and count what does not fit. For
    /// [transforms](crate::transform), whose failures are reported as such.
    ///
    /// # Errors
    ///
    /// As there.
    pub fn decode(&self) -> Result<K, DecodeError> {
        let error = |path, source| DecodeError {
            key: self.key().clone(),
            version: self.version().cloned(),
            kind: std::any::type_name::<K>(),
            path,
            source,
        };
        match &self.inner.body {
            Body::Json(json) => {
                let mut json = serde_json::Deserializer::from_slice(json);
                serde_path_to_error::deserialize(&mut json)
                    .map_err(|e| error(e.path().to_string(), DecodeCause::Json(e.into_inner())))
            }
            Body::Unusable { reason, .. } => {
                let cause = match reason.clone() {
                    Reason::Transform(error) => DecodeCause::Transform(error),
                    Reason::Unread(invalid) => DecodeCause::Unread(invalid),
                };
                Err(error(String::new(), cause))
            }
        }
    }
}

/// What is left of an object of which only the header is known.
fn json_of(meta: &ObjectMeta) -> Bytes {
    let mut metadata = serde_json::Map::new();
    metadata.insert("name".into(), meta.key.name().into());
    if let Some(namespace) = meta.key.namespace() {
        metadata.insert("namespace".into(), namespace.into());
    }
    if !meta.uid.is_empty() {
        metadata.insert("uid".into(), (*meta.uid).into());
    }
    if let Some(version) = &meta.version {
        metadata.insert("resourceVersion".into(), version.to_string().into());
    }
    if !meta.labels.is_empty() {
        let labels = meta.labels.iter().map(|(name, value)| (name.to_string(), (**value).into()));
        metadata.insert("labels".into(), labels.collect::<serde_json::Map<_, _>>().into());
    }
    serde_json::json!({ "metadata": metadata }).to_string().into()
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
    /// There is no body, since it could not be [transformed](crate::transform); the reason.
    #[error("{0}")]
    Transform(#[source] Arc<TransformError>),
    /// There is no body, since the last state of the deleted object could not be read; what was wrong with it.
    #[error("{0}")]
    Unread(#[source] Arc<InvalidObject>),
}

fn misfit(kind: &str, path: &str, cause: &DecodeCause) -> String {
    match cause {
        DecodeCause::Json(_) => format!("does not fit {kind} at `{path}`: "),
        DecodeCause::Transform(_) => "kept without its body, which could not be transformed: ".to_owned(),
        DecodeCause::Unread(_) => "known without its body, which could not be read: ".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        // client-go: ObjectNames (ST-1)
        #[test]
        fn a_key_is_read_back_from_its_text(text in "[ab/-]{0,6}") {
            match text.parse::<ObjectKey>() {
                Ok(key) => prop_assert_eq!(key.to_string(), text.strip_prefix('/').unwrap_or(&text)),
                Err(_) => prop_assert!(text.matches('/').count() > 1),
            }
        }

        #[test]
        fn keys_are_ordered_by_namespace_and_then_by_name(
            a in ("[a-]{0,3}", "[a-]{0,3}"), b in ("[a-]{0,3}", "[a-]{0,3}"),
        ) {
            let key = |(namespace, name): &(String, String)| ObjectKey::new(Some(namespace), name);
            let parts = |(namespace, name): &(String, String)| {
                (Some(namespace.clone()).filter(|n| !n.is_empty()), name.clone())
            };
            prop_assert_eq!(key(&a).cmp(&key(&b)), parts(&a).cmp(&parts(&b)));
            prop_assert_eq!(key(&a) == key(&b), parts(&a) == parts(&b));
            let key = key(&a);
            prop_assert_eq!((key.namespace().map(str::to_owned), key.name().to_owned()), parts(&a));
        }
    }
}
