//! Changes to objects before anything is kept of them.
//!
//! | you want | take |
//! |---|---|
//! | to save memory | [`Trim`] |
//! | to change fields of a type | [`typed`] |
//! | anything else | a closure, or your own [`Transform`] |
//!
//! A transform is called once for each object that comes from the server, in lists, in streamed lists and in watches,
//! also for the last state of a deleted one. A list that is read anew brings every object again, and each is transformed
//! again, as it comes from the server and before it is compared with what is in the store; what is in the store is never
//! given to a transform. What it takes away is nowhere in the memory of the program after that.
//!
//! An object that cannot be transformed is not kept as it came, since the transform may be there to take secrets away;
//! nor is it lost. It is kept with its header alone: it can be found and is deleted like any other, but
//! [`Object::get`] is an error that tells the reason. It is logged and counted (`reflector_transform_errors_total`). The
//! reason is kept and shown as long as the object, so it must not quote the object; what a decoder says of a value that
//! does not fit is left out of it for that reason.
//!
//! ```
//! use k8s_openapi::api::core::v1::Secret;
//! use reflector::{KubeListWatch, Object, Reflector, kube_client, transform::{self, Transform, Trim}};
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let server = reflector_apiserver::ApiServer::start().await?;
//! # let config = kube::Config::new(server.url().parse()?);
//! let secrets = Reflector::builder(KubeListWatch::<Secret>::all(kube_client(config)?))
//!     .transform(Trim::new().managed_fields().last_applied().path("/data")?)
//!     .transform(transform::typed(|secret: &mut Secret| secret.string_data = None))
//!     .start();
//! secrets.ready().await?;
//! secrets.stop().await;
//! # Ok(()) }
//! ```

mod path;
mod trim;

use std::{
    error::Error,
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
};

use metrics::Counter;
use serde::{Serialize, de::DeserializeOwned};

pub use self::{path::PathError, trim::Trim};
use crate::{
    DecodeCause, DecodeError, Object, ObjectMeta,
    wire::{InvalidObject, WireError},
};

/// A change to every object that comes from the server, before anything is kept of it; see the [module](self).
///
/// It runs in the reflector's task, so it must be quick, and must not wait for anything. It may return another object,
/// but one with the same name, namespace, uid and version: by these the reflector and its readers know what they have.
///
/// Closures are transforms; the type of the argument has to be written. They take [`Object::decode`] rather than
/// [`Object::get`], which logs and counts by itself what does not fit.
///
/// ```
/// use reflector::{Object, transform::{Transform, TransformError, Trim}};
///
/// let no_status = |object: Object<serde_json::Value>| {
///     let mut value: serde_json::Value = object.decode_as()?;
///     value["status"] = serde_json::Value::Null;
///     Ok(Object::from_json(value.to_string())?)
/// };
/// let both = Trim::new().managed_fields().then(no_status);
/// let object = Object::from_json(r#"{"metadata":{"managedFields":[],"name":"a"},"status":"fine"}"#)?;
/// assert_eq!(&both.transform(object)?.json()?[..], br#"{"metadata":{"name":"a"},"status":null}"#);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Transform<K>: Send + Sync + 'static {
    /// The object as it is to be kept.
    ///
    /// # Errors
    ///
    /// Whatever stands in the way. Then the object is kept with its header alone.
    fn transform(&self, object: Object<K>) -> Result<Object<K>, TransformError>;

    /// This one, and then another.
    fn then<N: Transform<K>>(self, next: N) -> Then<Self, N>
    where
        Self: Sized,
    {
        Then { first: self, next }
    }
}

impl<K, F> Transform<K> for F
where
    F: Fn(Object<K>) -> Result<Object<K>, TransformError> + Send + Sync + 'static,
{
    fn transform(&self, object: Object<K>) -> Result<Object<K>, TransformError> {
        self(object)
    }
}

/// Two transforms, one after the other. See [`Transform::then`].
#[derive(Clone, Debug)]
pub struct Then<A, B> {
    first: A,
    next: B,
}

impl<K, A: Transform<K>, B: Transform<K>> Transform<K> for Then<A, B> {
    fn transform(&self, object: Object<K>) -> Result<Object<K>, TransformError> {
        self.next.transform(self.first.transform(object)?)
    }
}

/// A transform that decodes an object, changes it, and encodes it again.
///
/// What `K` does not know of an object is lost on the way. Labels may be changed; name, namespace, uid and version may
/// not, which makes the transform fail for that object. It costs far more than [`Trim`].
///
/// ```
/// use k8s_openapi::api::core::v1::Pod;
/// use reflector::{Object, transform::{self, Transform}};
///
/// let transform = transform::typed(|pod: &mut Pod| pod.status = None);
/// let pod = transform.transform(Object::from_json(
///     r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"cart"},"status":{"phase":"Running"}}"#,
/// )?)?;
/// assert_eq!(&pod.json()?[..], br#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"cart"}}"#);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn typed<K, F>(change: F) -> impl Transform<K>
where
    K: Serialize + DeserializeOwned,
    F: Fn(&mut K) + Send + Sync + 'static,
{
    move |object: Object<K>| {
        let mut value: K = object.decode_as()?;
        change(&mut value);
        // An encoder's words may quote the object, too.
        let json = serde_json::to_vec(&value).map_err(|_| TransformError::Encode)?;
        let changed = Object::from_json(json)?;
        same_identity(object.meta(), changed.meta())?;
        Ok(changed)
    }
}

fn same_identity(before: &ObjectMeta, after: &ObjectMeta) -> Result<(), TransformError> {
    let what = if before.key.name() != after.key.name() {
        "name"
    } else if before.key.namespace() != after.key.namespace() {
        "namespace"
    } else if before.uid != after.uid {
        "uid"
    } else if before.version != after.version {
        "resourceVersion"
    } else {
        return Ok(());
    };
    Err(TransformError::Identity(what))
}

/// Why an object could not be transformed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TransformError {
    /// Whatever the transform said.
    #[error("{0}")]
    Failed(#[source] Box<dyn Error + Send + Sync>),
    /// It panicked. The message went to the panic hook.
    #[error("the transform panicked")]
    Panicked,
    /// The object does not fit the type in which it was to be changed. The decoder's own words are left out, since they
    /// quote the value.
    #[error("it does not fit {kind} at `{path}` (line {line}, column {column})")]
    Decode {
        /// The type.
        kind: &'static str,
        /// The JSON path of the value that does not fit; empty for the object itself.
        path: String,
        /// Where in the JSON it is found out, counted from one; zero if that is not known.
        line: usize,
        /// In this line, counted from one; zero if that is not known.
        column: usize,
    },
    /// The changed object cannot be written as JSON. The encoder's own words are left out, since they may quote it.
    #[error("the changed object cannot be encoded")]
    Encode,
    /// The object that was to be transformed has no body, for this reason.
    #[error("{0}")]
    Bodiless(#[source] Box<DecodeCause>),
    /// What was made of it is no object.
    #[error("the changed object cannot be kept: {0}")]
    Invalid(#[from] Box<InvalidObject>),
    /// What was made of it is another object, or another revision.
    #[error("the transform changed metadata.{0}")]
    Identity(&'static str),
    /// The body is malformed.
    #[error("{0}")]
    Malformed(#[from] WireError),
}

impl TransformError {
    /// A failure in the words of the transform, or with an error as its cause. It is kept with the object and shown to
    /// its readers, so it must not quote what the transform is there to take away.
    ///
    /// ```
    /// use reflector::transform::TransformError;
    /// assert_eq!(TransformError::new("no key to seal it with").to_string(), "no key to seal it with");
    /// ```
    pub fn new(reason: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::Failed(reason.into())
    }

    /// One word for the log: the reason itself may quote the object.
    fn kind(&self) -> &'static str {
        match self {
            Self::Failed(_) => "failed",
            Self::Panicked => "panicked",
            Self::Decode { .. } => "does not fit its type",
            Self::Encode => "cannot be encoded",
            Self::Bodiless(_) => "has no body",
            Self::Invalid(_) => "became no object",
            Self::Identity(_) => "became another object",
            Self::Malformed(_) => "is malformed",
        }
    }
}

impl From<DecodeError> for TransformError {
    /// Keeps where and what, and not what the decoder says of it.
    fn from(error: DecodeError) -> Self {
        let DecodeError { kind, path, source, .. } = error;
        match source {
            DecodeCause::Json(said) => Self::Decode { kind, path, line: said.line(), column: said.column() },
            DecodeCause::Protobuf(_) => Self::Decode { kind, path, line: 0, column: 0 },
            cause => Self::Bodiless(Box::new(cause)),
        }
    }
}

/// All transforms of a reflector, in order.
pub(crate) struct Chain<K>(Vec<Box<dyn Transform<K>>>);

impl<K: 'static> Chain<K> {
    pub(crate) fn push(&mut self, transform: impl Transform<K>) {
        self.0.push(Box::new(transform));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The object as it is to be kept; with its header alone if it cannot be transformed, which is reported here.
    pub(crate) fn apply(&self, object: Object<K>, errors: &Counter) -> Object<K> {
        if self.is_empty() {
            return object;
        }
        match self.run(&object) {
            Ok(transformed) => transformed,
            Err(error) => {
                errors.increment(1);
                tracing::warn!(
                    key = %object.key(), version = ?object.version(), reason = error.kind(),
                    "an object that cannot be transformed is kept without its body"
                );
                Object::unusable(object.meta().clone(), error)
            }
        }
    }

    fn run(&self, object: &Object<K>) -> Result<Object<K>, TransformError> {
        run(object, |object| self.0.iter().try_fold(object, |object, step| step.transform(object)))
    }
}

/// Runs code of the caller on an object, which must stay the same object.
pub(crate) fn run<K>(
    object: &Object<K>,
    transform: impl FnOnce(Object<K>) -> Result<Object<K>, TransformError>,
) -> Result<Object<K>, TransformError> {
    // Whatever a panic left broken is the transform's own; a broken object is never seen again.
    let transformed = catch_unwind(AssertUnwindSafe(|| transform(object.clone())));
    let transformed = transformed.map_err(|_| TransformError::Panicked)??;
    same_identity(object.meta(), transformed.meta())?;
    Ok(transformed)
}

impl<K> Default for Chain<K> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<K> fmt::Debug for Chain<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} transforms", self.0.len())
    }
}
