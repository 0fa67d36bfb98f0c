//! Readiness and liveness of what an application depends on, each with its cause.
//!
//! [`Health`] is a list of [checks](HealthCheck); [`readyz`](Health::readyz) and [`livez`](Health::livez) ask each of them
//! and answer with a [`Report`]. One source that cannot sync is named with the words of its server, and says nothing
//! about the others.
//!
//! - *Ready*: every source has held its whole collection once, and none has ended. A source that is refused by its
//!   server is not ready, and waiting for somebody; restarting does not help, so it is live.
//! - *Live*: no source has ended [unexpectedly](Verdict::stopped), and none is staler than the
//!   [limit](Health::stale_limit), if there is one. Restarting may help.
//!
//! A report is plain data, so that any web server can serve it. With the feature `axum` there is `Health::router`.
//!
//! ```
//! use reflector::health::Health;
//!
//! /// What a handler of any HTTP library does for `/readyz`.
//! fn readyz(health: &Health, wants_json: bool) -> (u16, &'static str, String) {
//!     let report = health.readyz();
//!     let code = if report.is_ok() { 200 } else { 503 };
//!     if wants_json {
//!         (code, "application/json", report.to_json())
//!     } else {
//!         (code, "text/plain; charset=utf-8", report.to_string())
//!     }
//! }
//!
//! # fn example(pods: reflector::Reflector<serde_json::Value>, secrets: reflector::Reflector<serde_json::Value>) {
//! let health = Health::new();
//! health.add(pods.monitor());
//! health.add(secrets.monitor());
//! # }
//! # assert_eq!(readyz(&Health::new(), false).2, "readyz check passed\n");
//! ```
//!
//! ```text
//! [+]pods ok
//! [-]secrets in namespace shop failed: cannot list: 403 Forbidden: secrets is forbidden: User "cart" cannot list …
//! readyz check failed
//! ```

#[cfg(feature = "axum")]
mod http;
mod monitor;
mod redact;
mod report;

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

pub use monitor::Monitor;
pub use report::{Probe, Report, SourceReport};

/// Something that can tell how it is: a reflector, or anything else that an application depends on.
///
/// It is asked by every probe, so it must answer at once.
///
/// ```
/// use reflector::health::{Health, HealthCheck, Verdict};
///
/// struct Queue { connected: bool }
///
/// impl HealthCheck for Queue {
///     fn name(&self) -> String { "queue".into() }
///     fn check(&self) -> Verdict {
///         if self.connected { Verdict::ready() } else { Verdict::not_ready("not connected") }
///     }
/// }
///
/// let health = Health::new();
/// health.add(Queue { connected: false });
/// assert_eq!(health.readyz().to_string(), "[-]queue failed: not connected\nreadyz check failed\n");
/// ```
pub trait HealthCheck: Send + Sync {
    /// What it is, for people: `pods in namespace shop`.
    fn name(&self) -> String;

    /// How it is now.
    fn check(&self) -> Verdict;
}

impl<T: HealthCheck + ?Sized> HealthCheck for Arc<T> {
    fn name(&self) -> String {
        (**self).name()
    }

    fn check(&self) -> Verdict {
        (**self).check()
    }
}

/// How one thing is.
///
/// Causes are shown to whoever may ask the probe. What looks like a credential is blackened before that, but write
/// nothing secret into them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Verdict {
    /// Why it is not ready; `None` if it is.
    pub not_ready: Option<String>,
    /// Why it has ended without having been asked to; `None` if it has not. It is not live then.
    pub stopped: Option<String>,
    /// How old its data may be; `None` if that is unknown.
    pub staleness: Option<Duration>,
}

impl Verdict {
    /// All is well.
    #[must_use]
    pub fn ready() -> Self {
        Self::default()
    }

    /// Not ready yet, or not any more.
    #[must_use]
    pub fn not_ready(cause: impl Into<String>) -> Self {
        Self { not_ready: Some(cause.into()), ..Self::default() }
    }

    /// Ended, though nobody asked it to: neither ready nor live.
    #[must_use]
    pub fn stopped(cause: impl Into<String>) -> Self {
        let cause = cause.into();
        Self { not_ready: Some(cause.clone()), stopped: Some(cause), ..Self::default() }
    }

    /// The same, with the age of its data.
    #[must_use]
    pub fn staleness(mut self, staleness: Option<Duration>) -> Self {
        self.staleness = staleness;
        self
    }
}

/// The checks of an application. Cheap to clone; all clones are the same list.
#[derive(Clone, Default)]
pub struct Health {
    shared: Arc<Mutex<Shared>>,
}

#[derive(Default)]
struct Shared {
    checks: BTreeMap<u64, Arc<dyn HealthCheck>>,
    next: u64,
    stale_limit: Option<Duration>,
}

/// Names one check of one [`Health`], to remove it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CheckId(u64);

impl Health {
    /// No checks: ready and live.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// How old the data of a source may get before it is not live any more. Default: any age.
    ///
    /// Choose minutes. On a quiet collection a proof that it is current comes about once a minute, and only where the server
    /// sends bookmarks (see [`Handle::staleness`](crate::Handle::staleness)); a limit that is too short restarts a process
    /// that is well, and when the server is down for longer than the limit, all of them. Holds for all clones.
    #[must_use]
    pub fn stale_limit(self, limit: Duration) -> Self {
        self.lock().stale_limit = Some(limit);
        self
    }

    /// Adds a check. Take a [`Monitor`] of a reflector: it does not keep the reflector alive, while a
    /// [`Handle`](crate::Handle) or a [`Reflector`](crate::Reflector) that is added runs until it is removed.
    pub fn add(&self, check: impl HealthCheck + 'static) -> CheckId {
        let mut shared = self.lock();
        let id = shared.next;
        shared.next += 1;
        shared.checks.insert(id, Arc::new(check));
        CheckId(id)
    }

    /// Removes a check; `false` if it is not there any more.
    #[expect(clippy::must_use_candidate, reason = "mostly nobody wants to know")]
    pub fn remove(&self, id: CheckId) -> bool {
        // What is dropped may be anything, and is dropped without the lock.
        let removed = self.lock().checks.remove(&id.0);
        removed.is_some()
    }

    /// Whether requests may be sent here.
    #[must_use]
    pub fn readyz(&self) -> Report {
        self.report(Probe::Ready, |verdict, _| verdict.not_ready.clone())
    }

    /// Whether this process should be left running.
    #[must_use]
    pub fn livez(&self) -> Report {
        self.report(Probe::Live, |verdict, limit| {
            let stale = verdict.staleness.zip(limit).filter(|(age, limit)| age > limit);
            verdict.stopped.clone().or_else(|| {
                let (age, limit) = stale?;
                let (age, limit) = (age.as_secs(), limit.as_secs_f64());
                let because = verdict.not_ready.as_ref().map(|c| format!("; {c}")).unwrap_or_default();
                Some(format!("stale for {age} s, more than the limit of {limit} s{because}"))
            })
        })
    }

    fn report(&self, probe: Probe, cause: impl Fn(&Verdict, Option<Duration>) -> Option<String>) -> Report {
        // A check is foreign code, so none is asked under the lock.
        let (checks, limit) = {
            let shared = self.lock();
            (shared.checks.values().map(Arc::clone).collect::<Vec<_>>(), shared.stale_limit)
        };
        let sources = checks.iter().map(|check| {
            let verdict = check.check();
            let cause = cause(&verdict, limit).map(|cause| redact::redact(&cause));
            SourceReport { name: check.name(), ok: cause.is_none(), cause, staleness: verdict.staleness }
        });
        Report::new(probe, sources.collect())
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shared = self.lock();
        let checks = shared.checks.len();
        f.debug_struct("Health").field("checks", &checks).field("stale_limit", &shared.stale_limit).finish()
    }
}
