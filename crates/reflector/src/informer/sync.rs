//! Waiting until everything is in sync, and saying what is not.

use std::{fmt, sync::Arc, time::Duration};

use super::{
    registration::{HandlerState, Registration},
    shared::SharedInformer,
};
use crate::{
    protocol::{ErrorReport, Phase},
    store::Lag,
};

/// What is not in sync, and why; ordered by name.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub struct Laggards {
    /// One for each informer that is not in sync, or has a handler that is not.
    pub laggards: Vec<Laggard>,
    /// How long was waited.
    pub waited: Duration,
}

impl fmt::Display for Laggards {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not in sync after {:?}: ", self.waited)?;
        for (i, laggard) in self.laggards.iter().enumerate() {
            write!(f, "{}{laggard}", if i == 0 { "" } else { "; " })?;
        }
        Ok(())
    }
}

/// One informer that is not in sync.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Laggard {
    /// What its collection is called.
    pub informer: Arc<str>,
    /// What keeps it.
    pub cause: Cause,
}

impl fmt::Display for Laggard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.informer, self.cause)
    }
}

/// What keeps an informer from being in sync.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Cause {
    /// Nobody has started it.
    NotStarted,
    /// It has ended before it was in sync; the last failure, if there was one.
    Stopped(Option<Box<ErrorReport>>),
    /// Something that waiting alone does not cure.
    Blocked(Box<ErrorReport>),
    /// It goes on trying; this was the last failure.
    Failing(Box<ErrorReport>),
    /// Nothing has failed: the collection is being read.
    Busy(Phase),
    /// The copy is complete, but a handler has not processed it all.
    Handler {
        /// Which one; if there are several, the oldest.
        name: Arc<str>,
        /// How far behind it is.
        lag: Lag,
    },
    /// The copy is complete, but a handler ended before it had processed it all. One of the same name cures that.
    HandlerFailed {
        /// Which one.
        name: Arc<str>,
        /// How it ended.
        state: HandlerState,
    },
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotStarted => f.write_str("not started"),
            Self::Stopped(None) => f.write_str("stopped"),
            Self::Stopped(Some(report)) => write!(f, "stopped, after: {report}"),
            Self::Blocked(report) => write!(f, "blocked: {report}"),
            Self::Failing(report) => write!(f, "failing: {report}"),
            Self::Busy(phase) => write!(f, "{phase}"),
            Self::HandlerFailed { name, state: HandlerState::Panicked(message) } => {
                write!(f, "handler {name} panicked: {message}")
            }
            Self::HandlerFailed { name, .. } => write!(f, "handler {name} was too slow, and has ended"),
            Self::Handler { name, lag } => {
                write!(f, "handler {name} is busy, and up to {} more events wait", lag.present + lag.waiting)
            }
        }
    }
}

impl<K: Send + 'static> SharedInformer<K> {
    /// Waits until the informer, and every handler that runs now, is in sync, or never will be.
    pub(super) async fn settled(&self) {
        if self.synced().await.is_ok() {
            for handler in self.handlers() {
                handler.synced().await.ok();
            }
        }
    }

    /// Why it is not in sync; `None` if it is.
    pub(super) fn lag_cause(&self) -> Option<Cause> {
        let status = self.status();
        if status.synced {
            let failed = || self.failed_handler().map(|(name, state)| Cause::HandlerFailed { name, state });
            return self.handlers().iter().find_map(unsynced).or_else(failed);
        }
        let last = status.last_error.map(Box::new);
        Some(match (status.phase, status.blocked, last) {
            (Phase::Stopped, _, last) => Cause::Stopped(last),
            (Phase::Created, ..) if !self.is_started() => Cause::NotStarted,
            (_, Some(report), _) => Cause::Blocked(Box::new(report)),
            (_, None, Some(report)) => Cause::Failing(report),
            (phase, None, None) => Cause::Busy(phase),
        })
    }
}

fn unsynced(handler: &Registration) -> Option<Cause> {
    let lags = !handler.is_synced() && handler.state() == HandlerState::Running;
    lags.then(|| Cause::Handler { name: handler.name().into(), lag: handler.lag().unwrap_or_default() })
}
