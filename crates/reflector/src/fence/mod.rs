//! Reading what one has written.
//!
//! A cache follows the server a little later. Whoever writes to the server and then reads the cache may find the state
//! from before the write, and create a thing twice or delete one that has been replaced. A [`FencedCache`] is told what
//! the server answered to each write, which puts up a *fence*: no read through it shows anything older. A fence falls as
//! soon as the watch has brought that version or a later one.
//!
//! There are two ways to read:
//!
//! - The methods of [`FencedCache`] answer at once, and *overlay* the cache with what was written.
//! - Those of [`FencedCache::wait`] *wait* until the cache itself has caught up, and show one state of it.
//!
//! ```
//! use std::time::Duration;
//! use reflector::{Cache, Change, FencedCache, Object, Store};
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let (cache, mut writer) = Cache::<serde_json::Value>::new();
//! let pods = FencedCache::new(cache.clone());
//!
//! // What the server answered to a POST.
//! let answer = r#"{"metadata":{"namespace":"shop","name":"cart","uid":"1","resourceVersion":"5"}}"#;
//! pods.written(Object::from_json(answer)?);
//! assert!(cache.get(Some("shop"), "cart").is_none());
//! assert!(pods.get(Some("shop"), "cart").is_some());
//!
//! // The watch brings it.
//! let cart = Object::from_json(answer)?;
//! let version = cart.version().cloned();
//! writer.apply(vec![Change::Upsert(cart)], version.as_ref())?;
//! assert!(pods.wait(Duration::from_secs(5)).get(Some("shop"), "cart").await?.is_some());
//! assert!(pods.is_caught_up());
//! # Ok(()) }
//! ```
//!
//! # What is promised
//!
//! For versions that can be compared (decimal numbers, as every Kubernetes API server gives them), and until the limit
//! of a fence:
//!
//! - A read shows no state of an object that is older than the latest one recorded of it, and no uid that was recorded
//!   as deleted. An object that was created anew under the same name is shown.
//! - What is recorded late changes nothing: it overwrites nothing newer, whether recorded or cached, and brings back
//!   nothing that is gone.
//! - Once the cache is current as of the version of a fence, the cache is the truth.
//! - No fence is dropped for lack of room. After the [limit](FencedCache::limit) it is, with a warning and a count in
//!   `reflector_fences_expired_total`, since a watch that never brings the write must not pin it for ever.
//!
//! Versions that cannot be compared have no order but that of arrival. There a written object is shown until the cache
//! shows it too, or shows anything else than when it was recorded, or loses it; that may be a state from between, so an
//! older state may be seen for a moment. States of an object that was recorded as deleted are no evidence. An object that was both created and deleted before the cache was read again is
//! shown until the limit.
//!
//! A server that was restored from a backup starts again with lower versions. What was written before that is shown until
//! its limit; what is written after it, and before the cache has noticed, is not, since the cache looks newer.
//!
//! # What to record
//!
//! Only what belongs to the collection of the cache: what it does not select would be shown too. (Of a cache that is filled
//! by namespace, writes in namespaces that it does not have are not.) Where the reflector transforms its objects, tell the
//! same [transform](FencedCache::transform) here. If a write takes an object out of the selection of the cache (its label is gone), record it as
//! [`deleted`](FencedCache::deleted) with the version of the answer.

mod record;
mod state;
mod wait;

use std::{
    borrow::Borrow,
    fmt,
    hash::Hash,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use serde::Serialize;

use self::{
    record::{Answer, Record},
    state::{Keys, State},
};
use crate::{
    Cache, Index, Object, ObjectKey, ResourceVersion, Uid,
    store::{Snapshot, UnknownIndex},
    transform::{self, Transform},
    wire::InvalidObject,
};

pub use wait::{ReadError, Waiting};

/// So long a fence stands at the most, unless said otherwise.
const LIMIT: Duration = Duration::from_secs(60);

/// A cache in which one's own writes are seen at once. See the [module](self). Clones share their fences.
pub struct FencedCache<K> {
    cache: Cache<K>,
    state: Arc<Mutex<State<K>>>,
    transform: Option<Arc<dyn Transform<K>>>,
}

impl<K: 'static> FencedCache<K> {
    /// A view of a cache, without any fences.
    #[must_use]
    pub fn new(cache: Cache<K>) -> Self {
        Self { cache, state: Arc::new(Mutex::new(State::new(LIMIT))), transform: None }
    }

    /// For how long a fence stands at the most, in this handle and all its clones. Default 60 s.
    #[must_use]
    pub fn limit(self, limit: Duration) -> Self {
        self.state().limit = limit;
        self
    }

    /// What the reflector does to each object before it is kept ([`Builder::transform`](crate::Builder::transform)), so
    /// that what was written looks like what the watch will bring, and nothing that is to be stripped is kept here. One
    /// that fails leaves the header alone. Of this handle, and of clones that are made of it later.
    #[must_use]
    pub fn transform(mut self, transform: impl Transform<K>) -> Self {
        self.transform = Some(Arc::new(transform));
        self
    }

    /// Records the object that the server answered to a create, an update, a patch, or a delete that has only begun
    /// (with a finalizer or a grace period, the object is still there).
    pub fn written(&self, response: Object<K>) {
        let response = match &self.transform {
            Some(transform) => transform::run(&response, |object| transform.transform(object))
                .unwrap_or_else(|error| Object::unusable(response.meta().clone(), error)),
            None => response,
        };
        self.state().write(response, &self.cache.snapshot());
    }

    /// Like [`written`](Self::written), for a typed client: takes the object back to JSON.
    ///
    /// ```
    /// # use reflector::{FencedCache, fence::NotRecorded};
    /// use k8s_openapi::api::core::v1::ConfigMap;
    /// async fn create(
    ///     maps: &FencedCache<ConfigMap>,
    ///     api: &kube::Api<ConfigMap>,
    ///     new: &ConfigMap,
    /// ) -> Result<(), Box<dyn std::error::Error>> {
    ///     let answer = api.create(&Default::default(), new).await?;
    ///     maps.written_typed(&answer)?;
    ///     Ok(())
    /// }
    /// ```
    ///
    /// # Errors
    ///
    /// [`NotRecorded`] if it cannot be written as JSON, or has no name.
    pub fn written_typed(&self, response: &K) -> Result<(), NotRecorded>
    where
        K: Serialize,
    {
        let json = serde_json::to_vec(response)?;
        self.written(Object::from_json(json)?);
        Ok(())
    }

    /// Records that an object is gone: the server answered to a delete with a `Status`, or with the object's last
    /// state.
    ///
    /// The uid is the one that was deleted; it must be known, so delete with a precondition or take it from the answer.
    /// The version is the one in the answer, if there is one, whether it is that of the deletion or of the last state
    /// (servers differ). Without a uid and without a version nothing can be recorded.
    pub fn deleted(&self, key: &ObjectKey, uid: impl Into<Uid>, version: Option<&ResourceVersion>) {
        let mut state = self.state();
        state.delete(key, &uid.into(), version, &self.cache.snapshot());
    }

    /// The object under a key. The namespace is `None` for cluster-scoped objects.
    #[must_use]
    pub fn get(&self, namespace: Option<&str>, name: &str) -> Option<Object<K>> {
        let key = ObjectKey::new(namespace, name);
        let (snapshot, mut answers) = self.look(Keys::One(&key));
        match answers.pop() {
            Some((_, Answer::Written(object))) => Some(object),
            Some((_, Answer::Hidden)) => None,
            Some((_, Answer::Cached)) | None => snapshot.get(namespace, name).cloned(),
        }
    }

    /// All objects, ordered by key.
    #[must_use]
    pub fn list(&self) -> Vec<Object<K>> {
        let (snapshot, answers) = self.look(Keys::All);
        overlay(snapshot.iter(), answers)
    }

    /// The objects of one namespace, ordered by name.
    #[must_use]
    pub fn namespace(&self, namespace: &str) -> Vec<Object<K>> {
        let (snapshot, answers) = self.look(Keys::Namespace(namespace));
        overlay(snapshot.namespace(namespace), answers)
    }

    /// The objects with a value in an index of the cache, ordered by key. A written object is found by the values that
    /// it has now, and no longer by those that the cached one had.
    ///
    /// # Errors
    ///
    /// [`UnknownIndex`] if the index is of another cache, or was removed.
    pub fn by<V, Q>(&self, index: &Index<K, V>, value: &Q) -> Result<Vec<Object<K>>, UnknownIndex>
    where
        K: 'static,
        V: Borrow<Q> + Hash + Eq + 'static,
        Q: Hash + Eq + ?Sized,
    {
        let (snapshot, mut answers) = self.look(Keys::All);
        for (_, answer) in &mut answers {
            if let Answer::Written(object) = answer
                && !snapshot.has_value(index, object, value)?
            {
                *answer = Answer::Hidden;
            }
        }
        Ok(overlay(snapshot.by(index, value)?, answers))
    }

    /// Reads that wait, for at most `limit`, until the cache has caught up with the writes that they concern.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # async fn example(pods: &reflector::FencedCache<serde_json::Value>) -> Result<(), reflector::fence::ReadError> {
    /// let in_shop = pods.wait(Duration::from_secs(5)).namespace("shop").await?;
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn wait(&self, limit: Duration) -> Waiting<'_, K> {
        Waiting::new(self, limit)
    }

    /// Whether the cache shows by itself everything that was written.
    #[must_use]
    pub fn is_caught_up(&self) -> bool {
        self.look(Keys::All).1.is_empty()
    }

    /// How many keys have fences. Some may have fallen since the last read.
    #[must_use]
    pub fn fenced(&self) -> usize {
        self.state().len()
    }

    /// The cache, as the watch has left it.
    #[must_use]
    pub fn cache(&self) -> &Cache<K> {
        &self.cache
    }

    /// What the cache has, and what is shown instead.
    fn look(&self, keys: Keys<'_>) -> (Snapshot<K>, Vec<(ObjectKey, Answer<K>)>) {
        let mut state = self.state();
        // Taken under the lock: a fence that is gone fell for this state of the cache, or for an earlier one.
        let snapshot = self.cache.snapshot();
        state.expire(&snapshot);
        let answers = state.answers(keys, &snapshot);
        (snapshot, answers)
    }

    /// The fences as they are now.
    fn fences(&self, keys: Keys<'_>) -> Vec<(ObjectKey, Record<K>)> {
        let mut state = self.state();
        state.expire(&self.cache.snapshot());
        state.fences(keys)
    }

    /// A panic while it was locked leaves records that were settled or not; both are good.
    fn state(&self) -> MutexGuard<'_, State<K>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Puts answers over objects; both are ordered by key.
fn overlay<'a, K: 'a>(
    cached: impl Iterator<Item = &'a Object<K>>,
    answers: Vec<(ObjectKey, Answer<K>)>,
) -> Vec<Object<K>> {
    let mut shown = Vec::with_capacity(cached.size_hint().0 + answers.len());
    let written = |answer| match answer {
        Answer::Written(object) => Some(object),
        Answer::Hidden | Answer::Cached => None,
    };
    let mut answers = answers.into_iter().peekable();
    for object in cached {
        while let Some((_, answer)) = answers.next_if(|(key, _)| key < object.key()) {
            shown.extend(written(answer));
        }
        match answers.next_if(|(key, _)| key == object.key()) {
            Some((_, answer)) => shown.extend(written(answer)),
            None => shown.push(object.clone()),
        }
    }
    shown.extend(answers.filter_map(|(_, answer)| written(answer)));
    shown
}

impl<K> Clone for FencedCache<K> {
    fn clone(&self) -> Self {
        Self { cache: self.cache.clone(), state: Arc::clone(&self.state), transform: self.transform.clone() }
    }
}

impl<K: 'static> fmt::Debug for FencedCache<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FencedCache").field("cache", &self.cache).field("fenced", &self.fenced()).finish()
    }
}

/// An object that was written to the server could not be recorded, so reads may show an older state.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NotRecorded {
    /// It cannot be written as JSON.
    #[error("cannot record what was written: {0}")]
    Serialize(#[from] serde_json::Error),
    /// Its metadata is unusable.
    #[error("cannot record what was written: {0}")]
    Invalid(#[from] Box<InvalidObject>),
}
