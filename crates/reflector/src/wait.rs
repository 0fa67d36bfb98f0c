//! Waiting until a cache is as current as a version.

use std::{fmt, time::Duration};

use crate::{Cache, ResourceVersion, store::Snapshot};

impl<K> Cache<K> {
    /// Waits until the content is current as of `version`, and gives it: everything that the server did up to that
    /// version is in it.
    ///
    /// The version must be one of this collection: of one of its objects, or of a list of it. "0" stands for any state,
    /// and is reached with the first list. Of a server that gives no versions, no other is ever reached: give a limit. Of a cache that is filled by namespace, all namespaces must have reached it;
    /// [`wait_for_in`](Self::wait_for_in) waits for one.
    ///
    /// The cache learns of versions with events and bookmarks. A version that belongs to an object of the collection
    /// comes with that object's event; one that does not (a list's version, an object outside of the selection) may
    /// take until the next bookmark, about a minute.
    ///
    /// Dropping the future at any time is safe.
    ///
    /// ```
    /// use reflector::{Cache, ResourceVersion, Store, WaitError};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let (cache, mut writer) = Cache::<serde_json::Value>::new();
    /// let seven = ResourceVersion::new("7").ok_or("empty")?;
    /// writer.bookmark(&ResourceVersion::new("10").ok_or("empty")?);
    /// let snapshot = cache.wait_for(&seven).await?;
    /// assert!(snapshot.version().is_some_and(|version| !version.is_older_than(&seven)));
    ///
    /// let opaque = ResourceVersion::new("x-7").ok_or("empty")?;
    /// assert!(matches!(cache.wait_for(&opaque).await, Err(WaitError::Opaque { .. })));
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// [`WaitError::Opaque`] at once, if versions cannot be compared; [`WaitError::Stopped`] if the reflector ends
    /// before.
    pub async fn wait_for(&self, version: &ResourceVersion) -> Result<Snapshot<K>, WaitError> {
        self.reach(None, version).await
    }

    /// Like [`wait_for`](Self::wait_for), for at most `limit`.
    ///
    /// # Errors
    ///
    /// As there, and [`WaitError::Deadline`], which tells how far the cache is.
    pub async fn wait_for_within(
        &self,
        version: &ResourceVersion,
        limit: Duration,
    ) -> Result<Snapshot<K>, WaitError> {
        self.reach_within(None, version, limit).await
    }

    /// Like [`wait_for`](Self::wait_for), where only the objects of one namespace matter.
    ///
    /// It makes a difference for a cache that is filled by namespace. One that has no writer for this namespace waits
    /// until it gets one.
    ///
    /// # Errors
    ///
    /// See [`wait_for`](Self::wait_for).
    pub async fn wait_for_in(
        &self,
        namespace: &str,
        version: &ResourceVersion,
    ) -> Result<Snapshot<K>, WaitError> {
        self.reach(Some(namespace), version).await
    }

    /// Like [`wait_for_in`](Self::wait_for_in), for at most `limit`.
    ///
    /// # Errors
    ///
    /// See [`wait_for_within`](Self::wait_for_within).
    pub async fn wait_for_in_within(
        &self,
        namespace: &str,
        version: &ResourceVersion,
        limit: Duration,
    ) -> Result<Snapshot<K>, WaitError> {
        self.reach_within(Some(namespace), version, limit).await
    }

    async fn reach(
        &self,
        namespace: Option<&str>,
        version: &ResourceVersion,
    ) -> Result<Snapshot<K>, WaitError> {
        let reached = self.until(|| {
            let snapshot = self.snapshot();
            Some(is_reached(&snapshot, namespace, version)?.map(|()| snapshot))
        });
        let stopped =
            |_| WaitError::Stopped { version: version.clone(), reached: self.reached_in(namespace) };
        reached.await.map_err(stopped)?
    }

    async fn reach_within(
        &self,
        namespace: Option<&str>,
        version: &ResourceVersion,
        limit: Duration,
    ) -> Result<Snapshot<K>, WaitError> {
        let late = |_| {
            let reached = self.reached_in(namespace);
            WaitError::Deadline { version: version.clone(), reached, limit }
        };
        tokio::time::timeout(limit, self.reach(namespace, version)).await.map_err(late)?
    }

    fn reached_in(&self, namespace: Option<&str>) -> Option<ResourceVersion> {
        reached_by(&self.snapshot(), namespace).cloned()
    }
}

fn reached_by<'a, K>(snapshot: &'a Snapshot<K>, namespace: Option<&str>) -> Option<&'a ResourceVersion> {
    namespace.map_or_else(|| snapshot.version(), |namespace| snapshot.version_of(namespace))
}

/// `None` while it is not. "0" stands for any state that the server had, and says nothing about the one that it comes
/// with.
fn is_reached<K>(
    snapshot: &Snapshot<K>,
    namespace: Option<&str>,
    asked: &ResourceVersion,
) -> Option<Result<(), WaitError>> {
    let opaque = |version: &ResourceVersion| Some(Err(WaitError::Opaque { version: version.clone() }));
    if is_any(asked) {
        let synced = namespace.map_or_else(|| snapshot.is_synced(), |ns| snapshot.is_synced_in(ns));
        return synced.then_some(Ok(()));
    }
    if !asked.is_comparable() {
        return opaque(asked);
    }
    let versions: Vec<_> = match namespace {
        Some(namespace) => vec![snapshot.version_of(namespace)],
        None => snapshot.versions().collect(),
    };
    let known = versions.iter().flatten().filter(|version| !is_any(version));
    if let Some(unfit) = known.clone().find(|version| version.compare(asked).is_none()) {
        return opaque(unfit);
    }
    let all = !versions.is_empty() && known.clone().count() == versions.len();
    (all && known.clone().all(|version| !version.is_older_than(asked))).then_some(Ok(()))
}

fn is_any(version: &ResourceVersion) -> bool {
    !version.is_comparable() && version.to_string() == "0"
}

/// Why a cache has not become as current as was asked for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WaitError {
    /// This version, the one that was asked for or the one that the cache has, is no decimal number. Nobody can say
    /// which of two such versions is the later one.
    #[error("version {version} cannot be compared, so nobody can say when it is reached")]
    Opaque {
        /// The version.
        version: ResourceVersion,
    },
    /// The reflector has ended before.
    #[error("the reflector has ended before version {version} came; the copy is at {}", shown(reached))]
    Stopped {
        /// The version that was asked for.
        version: ResourceVersion,
        /// The version that the cache stays at.
        reached: Option<ResourceVersion>,
    },
    /// The time was over.
    #[error("version {version} did not come within {limit:?}; the copy is at {}", shown(reached))]
    Deadline {
        /// The version that was asked for.
        version: ResourceVersion,
        /// The version that the cache is at; `None` before the first list, or if the server gives none.
        reached: Option<ResourceVersion>,
        /// The time.
        limit: Duration,
    },
}

fn shown(reached: &Option<ResourceVersion>) -> impl fmt::Display {
    reached.as_ref().map_or_else(|| "no version".to_owned(), |version| format!("version {version}"))
}
