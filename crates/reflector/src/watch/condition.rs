//! Waiting for conditions on the events of a watch.

use std::{fmt, sync::Arc, time::Duration};

use super::{Event, RetryWatchError, RetryWatcher};
use crate::condition::{Missed, meet, within};

/// Waits until each condition, one after the other, has held for an event. Answers with the event that met the last
/// one; with `None` only if there are no conditions.
///
/// One event may meet several conditions: when one is met, the next is asked about the same event first (UN-1). Events
/// are looked at one by one and none is passed over; those after the last one looked at stay in the watch. The time
/// limit counts from the call, and `None` sets none.
///
/// ```
/// # use std::time::Duration;
/// # use reflector::watch::{Event, RetryWatcher, UntilError, until};
/// # type Pod = serde_json::Value;
/// /// Waits until the pod is bound, and then gone.
/// async fn bound_and_gone(pod: &mut RetryWatcher<Pod>) -> Result<(), UntilError<Pod, reflector::DecodeError>> {
///     let bound = |event: &Event<Pod>| match event {
///         Event::Added(pod) | Event::Modified(pod) => Ok(!pod.get()?["spec"]["nodeName"].is_null()),
///         _ => Ok(false),
///     };
///     let gone = |event: &Event<Pod>| Ok(matches!(event, Event::Deleted(_)));
///     let conditions: [fn(&Event<Pod>) -> Result<bool, reflector::DecodeError>; 2] = [bound, gone];
///     until(pod, Some(Duration::from_secs(60)), conditions).await?;
///     Ok(())
/// }
/// ```
///
/// Conditions that capture different things go into a `Vec<Box<dyn FnMut(&Event<K>) -> Result<bool, E> + Send>>`.
///
/// # Errors
///
/// See [`UntilError`]. Dropping the future loses no event but the one that is being looked at.
pub async fn until<K, E, C>(
    events: &mut RetryWatcher<K>,
    timeout: Option<Duration>,
    conditions: impl IntoIterator<Item = C>,
) -> Result<Option<Event<K>>, UntilError<K, E>>
where
    C: FnMut(&Event<K>) -> Result<bool, E>,
{
    let target = Arc::clone(events.target());
    let mut last = None;
    let met = within(timeout, meet(events, conditions, &mut last)).await;
    let last = last.map(Box::new);
    match met {
        Ok(Ok(())) => Ok(last.map(|event| *event)),
        Ok(Err(Missed::Condition(error))) => Err(UntilError::Condition { target, error, last }),
        Ok(Err(Missed::Broken(error))) => Err(UntilError::Watch { error, last }),
        Ok(Err(Missed::Ended)) => Err(UntilError::Closed { target, last }),
        Err(limit) => Err(UntilError::Timeout { target, limit, last }),
    }
}

/// Why the conditions of [`until`] were not met. Each form has the last event that was looked at.
///
/// It is an [`Error`](std::error::Error) if `E` is one. `Box<dyn Error>` and `anyhow::Error` are none.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum UntilError<K, E> {
    /// A condition failed on the last event.
    #[error("a condition on {target} failed on {}: {error}", shown(.last))]
    Condition {
        /// What was watched.
        target: Arc<str>,
        /// What the condition said.
        #[source]
        error: E,
        /// The event.
        last: Option<Box<Event<K>>>,
    },
    /// The watch ended with an error.
    #[error("{error}; the last event was {}", shown(.last))]
    Watch {
        /// Why, and what to do next.
        #[source]
        error: RetryWatchError,
        /// The last event.
        last: Option<Box<Event<K>>>,
    },
    /// The watch had ended already: an error was taken from it before.
    #[error("the watch of {target} has ended, the last event was {}; start a new one", shown(.last))]
    Closed {
        /// What was watched.
        target: Arc<str>,
        /// The last event.
        last: Option<Box<Event<K>>>,
    },
    /// The time was over. The watch is still good: [`until`] may be called again.
    #[error("a condition on {target} was not met within {limit:?}; the last event was {}", shown(.last))]
    Timeout {
        /// What was watched.
        target: Arc<str>,
        /// The time limit.
        limit: Duration,
        /// The last event.
        last: Option<Box<Event<K>>>,
    },
}

impl<K, E> UntilError<K, E> {
    /// The last event that was looked at; `None` if none came.
    #[must_use]
    pub fn last(&self) -> Option<&Event<K>> {
        match self {
            Self::Condition { last, .. }
            | Self::Watch { last, .. }
            | Self::Closed { last, .. }
            | Self::Timeout { last, .. } => last.as_deref(),
        }
    }
}

impl<K, E: fmt::Display> fmt::Debug for UntilError<K, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "UntilError({self})")
    }
}

fn shown<K>(event: &Option<Box<Event<K>>>) -> String {
    event.as_ref().map_or_else(|| "none".to_owned(), ToString::to_string)
}
