//! Secondary indexes: which objects have a value.
//!
//! An index is defined by a function from an object to its values, none, one or many (ST-7), of any type that can be
//! hashed. It follows the content step by step, and every [`Snapshot`](super::Snapshot) holds the indexes as they were
//! at its version. An object whose function fails, or that does not decode, is in no value's group and is listed by
//! [`Snapshot::unindexed`](super::Snapshot::unindexed): client-go panics there, with the lock held (ST-8).

mod fill;
mod group;
mod typed;

use std::{
    any::Any,
    cell::OnceCell,
    fmt,
    marker::PhantomData,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use serde::{Deserialize, de::DeserializeOwned};

use super::{root::PublishedIndex, step::Step};
use crate::{
    DecodeError, Object,
    selector::{Found, field},
};

pub(super) use fill::fill;
use fill::{AnyValues, Find};
pub(super) use typed::{Postings, Typed};

/// Why a function has no values for an object.
pub type IndexFailure = Box<dyn std::error::Error + Send + Sync>;

type Function<K, V> = Box<dyn Fn(&Object<K>, &Decoded<K>) -> Result<Vec<V>, IndexFailure> + Send + Sync>;

/// An object as its type, decoded by the first index that asks, for all that follow the same step.
pub(super) struct Decoded<K>(OnceCell<Result<Arc<K>, Arc<DecodeError>>>);

impl<K> Default for Decoded<K> {
    fn default() -> Self {
        Self(OnceCell::new())
    }
}

impl<K: DeserializeOwned + 'static> Decoded<K> {
    fn get(&self, object: &Object<K>) -> Result<&K, Arc<DecodeError>> {
        let decoded = self.0.get_or_init(|| object.get().map_err(Arc::new));
        decoded.as_deref().map_err(Arc::clone)
    }
}

/// The identity of an index, unique in the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct IndexId(u64);

impl IndexId {
    fn next() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

/// A handle to an index of a cache: what to ask [`Cache::by`](super::Cache::by) with. Cheap to copy.
pub struct Index<K, V> {
    pub(super) id: IndexId,
    kind: PhantomData<fn(&K) -> V>,
}

impl<K, V> Clone for Index<K, V> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K, V> Copy for Index<K, V> {}

impl<K, V> fmt::Debug for Index<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Index").field(&self.id.0).finish()
    }
}

/// The definition of an index.
///
/// The functions must give the same values for the same object every time. They run in the reflector's task, so they
/// must be quick, and must not use the cache that they index. One that panics has failed, and harms nobody else.
///
/// ```
/// use reflector::{Cache, Change, Object, Store, store::IndexBy};
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let (cache, mut writer) = Cache::<serde_json::Value>::new();
/// let by_app = cache.index_by(IndexBy::label("app"));
/// let cart = r#"{"metadata":{"namespace":"shop","name":"cart-7","labels":{"app":"cart"}}}"#;
/// writer.apply(vec![Change::Upsert(Object::from_json(cart)?)], None)?;
/// assert_eq!(cache.by(&by_app, "cart")?[0].name(), "cart-7");
/// # Ok(()) }
/// ```
pub struct IndexBy<K, V> {
    function: Function<K, V>,
    label: Option<Arc<str>>,
}

impl<K, V> IndexBy<K, V> {
    /// By values of the decoded object. An object that does not decode is unindexed.
    pub fn object<I>(values: impl Fn(&K) -> I + Send + Sync + 'static) -> Self
    where
        K: DeserializeOwned + 'static,
        I: IntoIterator<Item = V>,
    {
        Self::of(move |object, decoded| Ok(values(decoded.get(object)?)))
    }

    /// By values of the decoded object, where there may be none to be had. An object for which it fails is unindexed.
    pub fn try_object<I, E>(values: impl Fn(&K) -> Result<I, E> + Send + Sync + 'static) -> Self
    where
        K: DeserializeOwned + 'static,
        I: IntoIterator<Item = V>,
        E: Into<IndexFailure>,
    {
        Self::of(move |object, decoded| values(decoded.get(object)?).map_err(Into::into))
    }

    /// By values of the handle: of name, namespace, uid and labels, without decoding.
    pub fn handle<I>(values: impl Fn(&Object<K>) -> Result<I, IndexFailure> + Send + Sync + 'static) -> Self
    where
        I: IntoIterator<Item = V>,
    {
        Self::of(move |object, _| values(object))
    }

    fn of<I>(
        values: impl Fn(&Object<K>, &Decoded<K>) -> Result<I, IndexFailure> + Send + Sync + 'static,
    ) -> Self
    where
        I: IntoIterator<Item = V>,
    {
        let function = move |object: &Object<K>, decoded: &Decoded<K>| {
            Ok(values(object, decoded)?.into_iter().collect())
        };
        Self { function: Box::new(function), label: None }
    }
}

impl<K> IndexBy<K, String> {
    /// By the value of a label. Label selectors use it by themselves.
    #[must_use]
    pub fn label(name: &str) -> Self {
        let label: Arc<str> = name.into();
        let name = Arc::clone(&label);
        let values = move |object: &Object<K>| Ok(object.label(&name).map(str::to_owned));
        Self { label: Some(label), ..Self::handle(values) }
    }

    /// By the text of one field, such as `spec.nodeName`, without decoding the rest. Objects without it have no value.
    #[must_use]
    pub fn field(path: &str) -> Self {
        let path: Box<str> = path.into();
        Self::handle(move |object| match field(object, &path) {
            Found::Text(text) => Ok(Some(text.into_owned())),
            Found::Missing => Ok(None),
            Found::Other => Err(format!("`{path}` is not a string, number or boolean").into()),
        })
    }

    /// By the uids of the owners (`metadata.ownerReferences`), without decoding the rest.
    #[must_use]
    pub fn owner_uid() -> Self {
        #[derive(Deserialize)]
        struct Owned {
            metadata: Metadata,
        }
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Metadata {
            owner_references: Option<Vec<Owner>>,
        }
        #[derive(Deserialize)]
        struct Owner {
            uid: String,
        }
        Self::handle(|object| {
            if !object.is_usable() {
                return Err("it could not be transformed".into());
            }
            let owned: Owned = object.decode_as()?;
            Ok(owned.metadata.owner_references.unwrap_or_default().into_iter().map(|owner| owner.uid))
        })
    }
}

impl<K, V> fmt::Debug for IndexBy<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IndexBy").field("label", &self.label).finish_non_exhaustive()
    }
}

/// An index was asked for where it is not.
///
/// Either its handle comes from another cache, or it was removed (which it also is if hashing or comparing its values
/// panics), or the snapshot is older than the index: take a new one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "no such index here: its handle is of another cache, it was removed, or the snapshot is older than it"
)]
pub struct UnknownIndex;

/// An index that is kept up to date, whatever its type of values.
pub(super) trait Maintained<K>: Send + Sync {
    fn id(&self) -> IndexId;
    /// Finds values without putting them in, as often as threads want to.
    fn finder(&self) -> Box<dyn Find<K> + '_>;
    /// Puts in new objects with what a [`finder`](Self::finder) found. `None` if that is of another index.
    fn put_all(&mut self, objects: &[Object<K>], found: AnyValues) -> Option<()>;
    /// Follows one step; `decoded` is the new object of it.
    fn follow(&mut self, step: &Step<K>, decoded: &Decoded<K>);
    /// The index as it is now, for readers.
    fn publish(&mut self) -> PublishedIndex;
}

/// Finds the index of a label, if there is one.
pub(super) fn find_label<'a, K: 'static>(
    indexes: &'a [PublishedIndex],
    label: &str,
) -> Option<&'a Postings<K, String>> {
    let published = indexes.iter().find(|published| published.label.as_deref() == Some(label))?;
    let postings: &(dyn Any + Send + Sync) = &*published.postings;
    postings.downcast_ref()
}

/// Finds the postings of an index among the published ones.
pub(super) fn find<'a, K: 'static, V: 'static>(
    indexes: &'a [PublishedIndex],
    index: &Index<K, V>,
) -> Result<&'a Postings<K, V>, UnknownIndex> {
    let published = indexes.iter().find(|published| published.id == index.id);
    let postings: &(dyn Any + Send + Sync) = &*published.ok_or(UnknownIndex)?.postings;
    postings.downcast_ref().ok_or(UnknownIndex)
}
