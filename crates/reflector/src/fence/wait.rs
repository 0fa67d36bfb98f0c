//! Reads that wait until the cache has caught up.

use std::{borrow::Borrow, fmt, hash::Hash, time::Duration};

use super::{
    FencedCache,
    record::{Answer, Record, View},
    state::Keys,
};
use crate::{
    Index, Object, ObjectKey, ResourceVersion,
    store::{Snapshot, Stopped, UnknownIndex},
};

/// Reads of a [`FencedCache`] that wait. See [`FencedCache::wait`].
///
/// What they give is one state of the cache, in which everything that was recorded before the first poll is seen, or
/// something later; except for writes whose fence has reached its [limit](FencedCache::limit), which nobody waits for any
/// more. Each waits only for the writes that it concerns. Dropping a future at any time is safe.
pub struct Waiting<'a, K> {
    fenced: &'a FencedCache<K>,
    limit: Duration,
}

impl<'a, K: 'static> Waiting<'a, K> {
    pub(super) fn new(fenced: &'a FencedCache<K>, limit: Duration) -> Self {
        Self { fenced, limit }
    }

    /// The object under a key. The namespace is `None` for cluster-scoped objects.
    ///
    /// # Errors
    ///
    /// See [`ReadError`].
    pub async fn get(&self, namespace: Option<&str>, name: &str) -> Result<Option<Object<K>>, ReadError> {
        let key = ObjectKey::new(namespace, name);
        Ok(self.caught_up(Keys::One(&key)).await?.get(namespace, name).cloned())
    }

    /// All objects, ordered by key.
    ///
    /// # Errors
    ///
    /// See [`ReadError`].
    pub async fn list(&self) -> Result<Vec<Object<K>>, ReadError> {
        Ok(self.snapshot().await?.iter().cloned().collect())
    }

    /// The objects of one namespace, ordered by name.
    ///
    /// # Errors
    ///
    /// See [`ReadError`].
    pub async fn namespace(&self, namespace: &str) -> Result<Vec<Object<K>>, ReadError> {
        let snapshot = self.caught_up(Keys::Namespace(namespace)).await?;
        Ok(snapshot.namespace(namespace).cloned().collect())
    }

    /// The objects with a value in an index, ordered by key. It concerns every write, since any may have changed the
    /// values.
    ///
    /// # Errors
    ///
    /// See [`ReadError`].
    pub async fn by<V, Q>(&self, index: &Index<K, V>, value: &Q) -> Result<Vec<Object<K>>, ReadError>
    where
        K: 'static,
        V: Borrow<Q> + Hash + Eq + 'static,
        Q: Hash + Eq + ?Sized,
    {
        // Asked before the wait too: a wrong index needs none.
        self.fenced.cache().snapshot().count_by(index, value)?;
        Ok(self.snapshot().await?.by(index, value)?.cloned().collect())
    }

    /// Everything, at one version.
    ///
    /// # Errors
    ///
    /// See [`ReadError`].
    pub async fn snapshot(&self) -> Result<Snapshot<K>, ReadError> {
        self.caught_up(Keys::All).await
    }

    async fn caught_up(&self, keys: Keys<'_>) -> Result<Snapshot<K>, ReadError> {
        let cache = self.fenced.cache();
        // Only what was written until now: a stream of writes must not hold a read up for ever.
        let mut fences = self.fenced.fences(keys);
        let caught_up = cache.until(|| {
            let snapshot = cache.snapshot();
            fences.retain_mut(|(key, record)| {
                record.settle(&View::of_key(&snapshot, key));
                !record.is_empty()
            });
            let is_caught_up = waiting(&fences, &snapshot).next().is_none();
            is_caught_up.then_some(snapshot)
        });
        let ended = tokio::time::timeout(self.limit, caught_up).await;
        let waiting = || waiting(&fences, &cache.snapshot()).cloned().collect();
        match ended {
            Ok(Ok(snapshot)) => Ok(snapshot),
            Ok(Err(Stopped)) => Err(ReadError::Stopped { waiting: waiting() }),
            Err(_) => {
                Err(ReadError::Deadline { limit: self.limit, waiting: waiting(), reached: cache.version() })
            }
        }
    }
}

/// The keys under which the cache shows something from before the fences.
fn waiting<'a, K>(
    fences: &'a [(ObjectKey, Record<K>)],
    snapshot: &'a Snapshot<K>,
) -> impl Iterator<Item = &'a ObjectKey> {
    let differs = |(key, record): &(ObjectKey, Record<K>)| {
        !matches!(record.answer(&View::of_key(snapshot, key)), Answer::Cached)
    };
    fences.iter().filter(move |fence| differs(fence)).map(|(key, _)| key)
}

impl<K: 'static> fmt::Debug for Waiting<'_, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Waiting").field("fenced", self.fenced).field("limit", &self.limit).finish()
    }
}

/// Why a read was not answered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The time was over.
    #[error(
        "the copy has not caught up within {limit:?} with writes to {}; it is at version {}",
        shown(waiting),
        reached.as_ref().map_or_else(|| "unknown".to_owned(), ToString::to_string)
    )]
    Deadline {
        /// The time.
        limit: Duration,
        /// The objects whose writes are not seen yet.
        waiting: Vec<ObjectKey>,
        /// The version that the cache is at.
        reached: Option<ResourceVersion>,
    },
    /// The reflector has ended, so the cache will not catch up.
    #[error("the reflector has ended, and the copy has not caught up with writes to {}", shown(waiting))]
    Stopped {
        /// The objects whose writes are not seen.
        waiting: Vec<ObjectKey>,
    },
    /// There is no such index.
    #[error(transparent)]
    Index(#[from] UnknownIndex),
}

/// The first few, and how many there are.
fn shown(keys: &[ObjectKey]) -> String {
    let mut text: Vec<_> = keys.iter().take(3).map(ToString::to_string).collect();
    if keys.len() > 3 {
        text.push(format!("{} more", keys.len() - 3));
    }
    text.join(", ")
}
