//! What a reflector says of itself to probes.

use std::{fmt, sync::Arc, time::Duration};

use tokio::{sync::watch, time::Instant};

use super::{HealthCheck, Verdict};
use crate::{
    Handle, Reflector,
    protocol::{ErrorReport, Phase, Status},
};

/// A view of a reflector: it sees how the reflector is, cannot stop it, and does not keep it alive. Cheap to clone.
#[derive(Clone)]
pub struct Monitor {
    pub(crate) target: Arc<str>,
    pub(crate) status: watch::Receiver<Status>,
    /// `true` once somebody has asked for the end.
    pub(crate) stop: watch::Receiver<bool>,
    pub(crate) started: Instant,
}

impl Monitor {
    /// What is reflected, as the source describes it.
    #[must_use]
    pub fn target(&self) -> &str {
        &self.target
    }

    /// See [`Handle::status`]. After the end of the reflector it is the last one.
    #[must_use]
    pub fn status(&self) -> Status {
        self.status.borrow().clone()
    }

    /// See [`Handle::staleness`]. It goes on growing after the end of the reflector.
    #[must_use]
    pub fn staleness(&self) -> Option<Duration> {
        staleness(&self.status.borrow(), self.started)
    }
}

fn staleness(status: &Status, started: Instant) -> Option<Duration> {
    status.last_proof.map(|proof| started.elapsed().saturating_sub(proof))
}

impl HealthCheck for Monitor {
    fn name(&self) -> String {
        self.target.to_string()
    }

    fn check(&self) -> Verdict {
        let status = self.status.borrow();
        if status.phase == Phase::Stopped && *self.stop.borrow() {
            // It was to end, so its data is to grow old, and no restart is wanted.
            return Verdict::not_ready("stopped");
        }
        let verdict = if status.phase == Phase::Stopped {
            let last = last_failure(status.last_error.as_ref(), "; the last failure was: ");
            Verdict::stopped(format!("stopped, though nobody asked for it{last}"))
        } else if status.synced {
            Verdict::ready().trouble(trouble(&status).map(brief))
        } else if let Some(cause) = &status.blocked {
            Verdict::not_ready(brief(cause))
        } else {
            let last = last_failure(status.last_error.as_ref(), "; ");
            Verdict::not_ready(format!("not synced yet: {}{last}", status.phase))
        };
        verdict.staleness(staleness(&status, self.started))
    }
}

/// What stands in the way of a copy that is there.
fn trouble(status: &Status) -> Option<&ErrorReport> {
    let failing = status.failures > 0 && status.phase != Phase::Watching;
    let failing = status.last_error.as_ref().filter(|_| failing);
    status.blocked.as_ref().or(failing)
}

/// The name of the source stands before it.
fn brief(report: &ErrorReport) -> String {
    format!("cannot {}: {}", report.verb, report.failure)
}

fn last_failure(report: Option<&ErrorReport>, before: &str) -> String {
    report.map(|report| format!("{before}{}", brief(report))).unwrap_or_default()
}

impl HealthCheck for Handle {
    fn name(&self) -> String {
        self.target().to_owned()
    }

    fn check(&self) -> Verdict {
        self.monitor().check()
    }
}

impl<K: Send + 'static> HealthCheck for Reflector<K> {
    fn name(&self) -> String {
        HealthCheck::name(self.handle())
    }

    fn check(&self) -> Verdict {
        self.handle().check()
    }
}

impl fmt::Debug for Monitor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Monitor")
            .field("target", &self.target)
            .field("phase", &self.status.borrow().phase)
            .finish()
    }
}
