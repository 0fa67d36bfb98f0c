//! Readiness and liveness of what an application depends on, each with its cause.
//!
//! [`Health`] is a list of [checks](HealthCheck); [`readyz`](Health::readyz) and [`livez`](Health::livez) ask each of them
//! and answer with a [`Report`]. One source that cannot sync is named with the words of its server, and says nothing
//! about the others.
//!
//! - *Ready*: every source has held its whole collection once, and none has ended. A source that is refused before that
//!   is not ready, and waits for somebody. A source that fails later stays ready, since its copy is there: an overloaded
//!   server, or a role that was taken away, must not take every replica out of service at once. What stands in the way is
//!   [shown](SourceReport::warning) with it.
//! - *Live*: no source has ended [unexpectedly](Verdict::stopped), and none is staler than the
//!   [limit](Health::stale_limit), if there is one; the cause names what stands in the way. Without a limit, a source
//!   that is refused is live, since restarting does not help. A source that was stopped on purpose is live, and not ready.
//!
//! Reports are often open to everybody, so causes and names are shown as one line of at most 400 characters, from which
//! nothing is shown where a credential may begin: behind `token:`, `password`, `Bearer` and their like the cause ends, a
//! URL loses its login and query, and long tokens are blackened. The log has all of it.
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
//! [~]nodes ok, but cannot watch: 503 ServiceUnavailable: the server is starting
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
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

pub use monitor::Monitor;
pub use report::{Probe, Report, SourceReport};

/// Something that can tell how it is: a reflector, or anything else that an application depends on.
///
/// It is asked by every probe, so it must answer at once. One that panics is not ready, and harms no other; what it
/// depends on may be broken then, but nothing says that a restart would help.
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
/// Causes are shown to whoever may ask the probe. They end where a credential may begin, see the [module](self), but that
/// is only a safety net: write nothing secret into them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Verdict {
    /// Why it is not ready; `None` if it is.
    pub not_ready: Option<String>,
    /// Why it has ended without having been asked to; `None` if it has not. It is not live then.
    pub stopped: Option<String>,
    /// What stands in the way at present, though it is ready; `None` if nothing does.
    pub trouble: Option<String>,
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

    /// The same, with what stands in the way at present.
    #[must_use]
    pub fn trouble(mut self, trouble: Option<String>) -> Self {
        self.trouble = trouble;
        self
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
                let because = verdict.not_ready.as_ref().or(verdict.trouble.as_ref());
                let because = because.map(|cause| format!("; {cause}")).unwrap_or_default();
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
            let (name, verdict) = ask(&**check);
            let cause = cause(&verdict, limit).map(|cause| redact::redact(&cause));
            let warning = verdict.trouble.filter(|_| cause.is_none()).map(|trouble| redact::redact(&trouble));
            let (name, staleness) = (redact::redact(&name), verdict.staleness);
            SourceReport { name, ok: cause.is_none(), cause, warning, staleness }
        });
        Report::new(probe, sources.collect())
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Asks a check, which is foreign code: its panic is its own trouble, and the others are still to be heard.
fn ask(check: &dyn HealthCheck) -> (String, Verdict) {
    // Whatever a panic left broken is the check's own.
    let name = catch_unwind(AssertUnwindSafe(|| check.name()));
    let verdict = catch_unwind(AssertUnwindSafe(|| check.check()));
    let panicked = |_| Verdict::not_ready("the check panicked");
    (name.unwrap_or_else(|_| "a check without a name".to_owned()), verdict.unwrap_or_else(panicked))
}

impl fmt::Debug for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shared = self.lock();
        let checks = shared.checks.len();
        f.debug_struct("Health").field("checks", &checks).field("stale_limit", &shared.stale_limit).finish()
    }
}
