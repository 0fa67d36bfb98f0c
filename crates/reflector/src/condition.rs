//! Waiting until something holds, on a cache that follows the server.
//!
//! [`Cache::wait_until`] looks at one object, [`until_with_sync`] at everything that happens. Both survive whatever the
//! reflector survives, expired versions too, and may miss states that an object had only for a moment. Who needs every
//! state takes a watch.

use std::{convert::Infallible, fmt, sync::Arc, time::Duration};

use futures::{Stream, StreamExt};

use crate::{
    Cache, Event, Object, ObjectKey,
    store::{Snapshot, Stopped},
};

impl<K> Cache<K> {
    /// Waits until a condition holds for one object, and gives the object that met it: `None` if its absence did.
    ///
    /// The condition is asked about the present state, then about every change; changes that come together are one.
    /// `None` stands for an object that is not there. It is asked about absence only once the collection has been there
    /// as a whole, since before that nobody knows. If an object is deleted and another one takes its name at once, the
    /// condition is asked about the absence in between.
    ///
    /// Dropping the future at any time is safe.
    ///
    /// ```
    /// use reflector::{Cache, Change, DecodeError, Object, Store};
    ///
    /// /// As much of a pod as matters here.
    /// #[derive(serde::Deserialize)]
    /// struct Pod {
    ///     status: Status,
    /// }
    /// #[derive(serde::Deserialize)]
    /// struct Status {
    ///     phase: String,
    /// }
    ///
    /// fn is_running(pod: Option<&Object<Pod>>) -> Result<bool, DecodeError> {
    ///     Ok(match pod {
    ///         Some(pod) => pod.get()?.status.phase == "Running",
    ///         None => false,
    ///     })
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let (cache, mut writer) = Cache::<Pod>::new();
    /// let cart = r#"{"metadata":{"namespace":"shop","name":"cart","uid":"1"},"status":{"phase":"Running"}}"#;
    /// writer.apply(vec![Change::Upsert(Object::from_json(cart)?)], None)?;
    /// let running = cache.wait_until(Some("shop"), "cart", is_running).await?;
    /// assert!(running.is_some());
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Unmet::Condition`] with what the condition said, [`Unmet::Stopped`] if the reflector has ended. Each has the
    /// last state that the condition was asked about.
    pub async fn wait_until<E, C>(
        &self,
        namespace: Option<&str>,
        name: &str,
        condition: C,
    ) -> Result<Option<Object<K>>, Unmet<Option<Object<K>>, E>>
    where
        C: FnMut(Option<&Object<K>>) -> Result<bool, E>,
    {
        self.observe(namespace, name, None, condition).await
    }

    /// Like [`wait_until`](Self::wait_until), for at most `limit`.
    ///
    /// # Errors
    ///
    /// As there, and [`Unmet::Deadline`].
    pub async fn wait_until_within<E, C>(
        &self,
        namespace: Option<&str>,
        name: &str,
        limit: Duration,
        condition: C,
    ) -> Result<Option<Object<K>>, Unmet<Option<Object<K>>, E>>
    where
        C: FnMut(Option<&Object<K>>) -> Result<bool, E>,
    {
        self.observe(namespace, name, Some(limit), condition).await
    }

    async fn observe<E, C>(
        &self,
        namespace: Option<&str>,
        name: &str,
        limit: Option<Duration>,
        condition: C,
    ) -> Result<Option<Object<K>>, Unmet<Option<Object<K>>, E>>
    where
        C: FnMut(Option<&Object<K>>) -> Result<bool, E>,
    {
        let mut observer = Observer { namespace, name, condition, last: None };
        let met = within(limit, self.until(|| observer.look(&self.snapshot()).transpose())).await;
        let target = || ObjectKey::new(namespace, name).to_string().into();
        match met {
            Ok(Ok(Ok(object))) => Ok(object),
            Ok(Ok(Err(error))) => Err(Unmet::Condition { target: target(), error, last: observer.last }),
            Ok(Err(Stopped)) => Err(Unmet::Stopped { target: target(), last: observer.last }),
            Err(limit) => Err(Unmet::Deadline { target: target(), limit, last: observer.last }),
        }
    }
}

/// Follows one object.
struct Observer<'a, K, C> {
    namespace: Option<&'a str>,
    name: &'a str,
    condition: C,
    /// What the condition was asked about last.
    last: Option<Option<Object<K>>>,
}

impl<K, E, C: FnMut(Option<&Object<K>>) -> Result<bool, E>> Observer<'_, K, C> {
    /// Asks about what has changed; gives the state that met the condition.
    fn look(&mut self, snapshot: &Snapshot<K>) -> Result<Option<Option<Object<K>>>, E> {
        let now = snapshot.get(self.namespace, self.name).cloned();
        let synced = self.namespace.map_or_else(|| snapshot.is_synced(), |ns| snapshot.is_synced_in(ns));
        let is_reborn = match (&self.last, &now) {
            (Some(Some(last)), Some(now)) => last.uid() != now.uid(),
            _ => false,
        };
        if is_reborn && self.meets(None)? {
            return Ok(Some(None));
        }
        if (now.is_none() && !synced) || self.last.as_ref().is_some_and(|last| is_same(last, &now)) {
            return Ok(None);
        }
        Ok(self.meets(now.clone())?.then_some(now))
    }

    fn meets(&mut self, state: Option<Object<K>>) -> Result<bool, E> {
        (self.condition)(self.last.insert(state).as_ref())
    }
}

fn is_same<K>(a: &Option<Object<K>>, b: &Option<Object<K>>) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => a.ptr_eq(b),
        (None, None) => true,
        _ => false,
    }
}

/// What [`until_with_sync`] may ask before it waits for events. `None::<Precondition<K, E>>` asks nothing.
pub type Precondition<K, E> = fn(&Snapshot<K>) -> Result<bool, E>;

/// Waits until each condition, one after the other, has held for an event of the cache, and gives the event that met the
/// last one; `None` if there are no conditions, or if the precondition holds.
///
/// The precondition is asked once, about the synced content, before any event: if it holds, there is nothing to wait
/// for (UN-2). The events are those of [`Cache::subscribe`]: the content first, as added, then
/// [`Event::Synced`], then every change; changes of one object that come together are merged. One event may meet several
/// conditions: when one is met, the next is asked about the same event first (UN-1). The time limit counts from the
/// call, and `None` sets none.
///
/// ```
/// # use std::{convert::Infallible, time::Duration};
/// use reflector::{Cache, Event, condition::{Precondition, Unmet, until_with_sync}};
/// # type Pod = serde_json::Value;
/// /// Waits until there is a pod that is called "cart", and then none.
/// async fn come_and_gone(pods: &Cache<Pod>) -> Result<(), Unmet<Event<Pod>, Infallible>> {
///     let come = |event: &Event<Pod>| {
///         Ok(matches!(event, Event::Added { object, .. } if object.name() == "cart"))
///     };
///     let gone = |event: &Event<Pod>| {
///         Ok(matches!(event, Event::Deleted { last, .. } if last.name() == "cart"))
///     };
///     let conditions: [fn(&Event<Pod>) -> Result<bool, Infallible>; 2] = [come, gone];
///     let limit = Some(Duration::from_secs(60));
///     until_with_sync(pods, limit, None::<Precondition<Pod, Infallible>>, conditions).await?;
///     Ok(())
/// }
/// ```
///
/// # Errors
///
/// See [`Unmet`]. Dropping the future ends the subscription, and nothing else.
pub async fn until_with_sync<K, E, P, C>(
    cache: &Cache<K>,
    limit: Option<Duration>,
    precondition: Option<P>,
    conditions: impl IntoIterator<Item = C>,
) -> Result<Option<Event<K>>, Unmet<Event<K>, E>>
where
    P: FnOnce(&Snapshot<K>) -> Result<bool, E>,
    C: FnMut(&Event<K>) -> Result<bool, E>,
{
    // Before the precondition, so that no change falls between the two.
    let mut events = cache.subscribe().map(Ok::<_, Infallible>);
    let mut last = None;
    let met = async {
        if let Some(precondition) = precondition {
            let synced = cache.until(|| Some(cache.snapshot()).filter(Snapshot::is_synced));
            if precondition(&synced.await.map_err(|Stopped| Missed::Ended)?).map_err(Missed::Condition)? {
                return Ok(());
            }
        }
        meet(&mut events, conditions, &mut last).await
    };
    let target = || format!("the events of {}", std::any::type_name::<K>()).into();
    match within(limit, met).await {
        Ok(Ok(())) => Ok(last),
        Ok(Err(Missed::Condition(error))) => Err(Unmet::Condition { target: target(), error, last }),
        Ok(Err(Missed::Broken(never))) => match never {},
        Ok(Err(Missed::Ended)) => Err(Unmet::Stopped { target: target(), last }),
        Err(limit) => Err(Unmet::Deadline { target: target(), limit, last }),
    }
}

/// Why conditions were not met, whatever the events come from.
pub(crate) enum Missed<W, E> {
    /// A condition failed.
    Condition(E),
    /// An error came in the place of an event.
    Broken(W),
    /// There are no more events.
    Ended,
}

/// Meets the conditions in turn (UN-1). `last` is the event that was looked at last, also if this is dropped.
pub(crate) async fn meet<T, W, E, C>(
    events: &mut (impl Stream<Item = Result<T, W>> + Unpin),
    conditions: impl IntoIterator<Item = C>,
    last: &mut Option<T>,
) -> Result<(), Missed<W, E>>
where
    C: FnMut(&T) -> Result<bool, E>,
{
    for mut condition in conditions {
        let mut met = match last.as_ref() {
            Some(event) => condition(event).map_err(Missed::Condition)?,
            None => false,
        };
        while !met {
            let event = events.next().await.ok_or(Missed::Ended)?.map_err(Missed::Broken)?;
            met = condition(last.insert(event)).map_err(Missed::Condition)?;
        }
    }
    Ok(())
}

/// Gives the limit back when the time is over.
pub(crate) async fn within<T>(
    limit: Option<Duration>,
    future: impl Future<Output = T>,
) -> Result<T, Duration> {
    match limit {
        None => Ok(future.await),
        Some(limit) => tokio::time::timeout(limit, future).await.map_err(|_| limit),
    }
}

/// Why a wait ended without its condition being met. Each form has the last state `S` that a condition was asked about;
/// `None` if it was never asked.
///
/// It is an [`Error`](std::error::Error) if `E` is one. `Box<dyn Error>` and `anyhow::Error` are none.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Unmet<S, E> {
    /// A condition failed on the last state.
    #[error("a condition on {target} failed: {error}")]
    Condition {
        /// What was looked at.
        target: Arc<str>,
        /// What the condition said.
        #[source]
        error: E,
        /// The last state.
        last: Option<S>,
    },
    /// The reflector has ended, so nothing will change any more.
    #[error("the reflector has ended before a condition on {target} was met")]
    Stopped {
        /// What was looked at.
        target: Arc<str>,
        /// The last state.
        last: Option<S>,
    },
    /// The time was over.
    #[error("a condition on {target} was not met within {limit:?}")]
    Deadline {
        /// What was looked at.
        target: Arc<str>,
        /// The time.
        limit: Duration,
        /// The last state.
        last: Option<S>,
    },
}

impl<S, E> Unmet<S, E> {
    /// The last state that a condition was asked about; `None` if none was asked.
    #[must_use]
    pub fn last(&self) -> Option<&S> {
        match self {
            Self::Condition { last, .. } | Self::Stopped { last, .. } | Self::Deadline { last, .. } => {
                last.as_ref()
            }
        }
    }
}

impl<S, E: fmt::Display> fmt::Debug for Unmet<S, E> {
    /// The message: an object may be a Secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Unmet({self})")
    }
}
