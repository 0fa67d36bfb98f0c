//! What happens after a failure: how long to wait, and what then.

use std::time::Duration;

use super::{Absence, Deadline, Machine, Next, State};
use crate::protocol::{
    Class, ErrorReport, Failure, Options, Order, SyncMethod, SyncReason, Time, Verb, backoff::at_least,
    fingerprint::Fingerprint,
};

/// Failures in a row.
#[derive(Clone, Debug, Default)]
pub(super) struct Row {
    pub(super) failures: u32,
    since: Option<Time>,
    class: Option<Class>,
    /// The one immediate retry after a 401 is used up.
    refreshed: bool,
    /// When it was used last: a server that alternates between 401 and success must not make a hot loop.
    refreshed_at: Option<Time>,
    /// Watches in a row that were short or unreadable.
    pub(super) short_watches: u32,
    /// Watches in a row whose version was ahead of the server.
    pub(super) too_large: u32,
    /// The first and the last in-stream 500 of the current window (RD-1).
    internal: Option<(Time, Time)>,
}

/// A quiet time that ends a window of in-stream 500s (RD-1).
const INTERNAL_QUIET: Duration = Duration::from_secs(60);

/// The least time between two retries of a 401 that are made at once.
const REFRESH_SPACING: Duration = Duration::from_secs(60);

impl Row {
    /// How many failures there were, and since when, is told and decides nothing.
    pub(super) fn fingerprint(&self, options: &Options, print: &mut Fingerprint<'_>) {
        print.value((self.refreshed, self.short_watches, self.too_large));
        print.age(self.refreshed_at, REFRESH_SPACING);
        let window = self.internal.filter(|(_, last)| !print.is_over(*last, INTERNAL_QUIET));
        print.age(window.map(|(_, last)| last), INTERNAL_QUIET);
        print.age(window.map(|(first, _)| first), options.internal_error_budget + Duration::from_nanos(1));
    }
}

impl Machine {
    /// A request or a stream did what it should: the row of failures is over. The back-off forgets more slowly.
    pub(super) fn succeed(&mut self, now: Time) {
        let Row { internal, refreshed_at, .. } = self.row;
        self.row = Row { internal, refreshed_at, ..Row::default() };
        self.blocked = None;
        self.last_contact = Some(now);
        self.backoff.healthy(now);
    }

    /// Counts and reports a failure, and waits as long as its class demands. What follows is `next`.
    pub(super) fn fail(&mut self, now: Time, verb: Verb, failure: Failure, class: Class, next: Next) {
        if class == Class::Absent {
            return self.fail_absent(now, verb, failure);
        }
        self.absence = None;
        if matches!(next, Next::Sync(_)) {
            self.orders.push_back(Order::AbandonReplace);
        }
        let wait = self.wait_after(now, &failure, class);
        self.report(now, verb, failure, class, wait);
        // The immediate retry of a 401 may well help, so it is not yet a reason to call somebody.
        if class.needs_somebody() && !wait.is_zero() {
            self.blocked.clone_from(&self.last_error);
        }
        // Whenever it is tried again: the credentials may have been renewed while it waited.
        self.refresh_due |= class == Class::Unauthorized;
        self.wait(now, wait, next, Deadline::Retry);
    }

    /// Counts and reports a failure that has a remedy of its own, taken at once. The caller bounds how often.
    pub(super) fn fail_at_once(&mut self, now: Time, verb: Verb, failure: Failure, class: Class) {
        self.report(now, verb, failure, class, Duration::ZERO);
    }

    /// Reads the collection anew because of a failure: at once after a time of health, else after the back-off, so that
    /// no pair of successes and failures makes a hot loop.
    pub(super) fn fail_into_sync(&mut self, now: Time, failure: Failure, class: Class, reason: SyncReason) {
        if self.backoff.is_fresh(now) && failure.retry_after().is_none() {
            self.backoff.fail(now);
            self.report(now, Verb::Watch, failure, class, Duration::ZERO);
            self.sync(now, reason);
        } else {
            self.fail(now, Verb::Watch, failure, class, Next::Sync(reason));
        }
    }

    fn wait_after(&mut self, now: Time, failure: &Failure, class: Class) -> Duration {
        let slow = self.options.slow_retry;
        match class {
            Class::Unauthorized if self.may_refresh_at_once(now) => {
                self.row.refreshed = true;
                self.row.refreshed_at = Some(now);
                Duration::ZERO
            }
            Class::Mistake => {
                self.backoff.fail(now);
                self.random.between(slow, slow * 2)
            }
            _ => {
                let cap = if class.needs_somebody() { slow } else { self.options.backoff.cap };
                let wait = self.backoff.wait_at_most(now, cap, &mut self.random);
                at_least(wait, failure.retry_after(), &mut self.random)
            }
        }
    }

    /// 404: the resource is absent. What the store has stays, unless the options say otherwise.
    fn fail_absent(&mut self, now: Time, verb: Verb, failure: Failure) {
        let absence = self.absence.get_or_insert(Absence { since: now, deleted: false });
        let since = absence.since;
        if let Some(limit) = self.options.delete_absent_after
            // A store that never held the collection has nothing to lose, and must not look complete.
            && self.synced
            && now > since
            && now.saturating_sub(since) >= limit
            && !absence.deleted
        {
            absence.deleted = true;
            self.begin_replace(SyncReason::Absent, SyncMethod::List);
            self.order_commit(None);
        } else {
            self.orders.push_back(Order::AbandonReplace);
        }
        // Whatever comes back under this name has a history of its own.
        self.version_unavailable = true;
        let wait = self.wait_after(now, &failure, Class::Absent);
        self.report(now, verb, failure, Class::Absent, wait);
        self.blocked.clone_from(&self.last_error);
        self.wait(now, wait, Next::Sync(SyncReason::Absent), Deadline::Retry);
    }

    fn may_refresh_at_once(&self, now: Time) -> bool {
        let since = self.row.refreshed_at.map(|at| now.saturating_sub(at));
        !self.row.refreshed && since.is_none_or(|since| since >= REFRESH_SPACING)
    }

    pub(super) fn report(
        &mut self,
        now: Time,
        verb: Verb,
        failure: Failure,
        class: Class,
        retry_in: Duration,
    ) {
        self.counts.errors += 1;
        self.row.failures += 1;
        let since = *self.row.since.get_or_insert(now);
        let report = ErrorReport {
            verb,
            target: self.options.target.clone(),
            failure,
            class,
            attempt: self.row.failures,
            elapsed: now.saturating_sub(since),
            retry_in,
            first: self.row.class.replace(class) != Some(class),
        };
        self.last_error = Some(report.clone());
        self.orders.push_back(Order::Report(report));
    }

    pub(super) fn wait(&mut self, now: Time, wait: Duration, next: Next, deadline: Deadline) {
        self.state = State::Waiting { until: now + wait, next, deadline };
    }

    pub(super) fn wait_is_over(&mut self, now: Time) {
        let State::Waiting { next, .. } = std::mem::replace(&mut self.state, State::Created) else { return };
        if std::mem::take(&mut self.refresh_due) {
            self.orders.push_back(Order::Refresh);
        }
        match next {
            Next::Sync(reason) => self.sync(now, reason),
            Next::Page(list) => self.ask_page(now, list),
            Next::Watch => self.resume(now),
        }
    }

    /// Whether an in-stream 500 is still within the budget, so that the same version may be watched again (RD-1).
    pub(super) fn within_internal_budget(&mut self, now: Time) -> bool {
        let first = match self.row.internal {
            Some((first, last)) if now.saturating_sub(last) < INTERNAL_QUIET => first,
            _ => now,
        };
        let within = !self.options.internal_error_budget.is_zero()
            && now.saturating_sub(first) <= self.options.internal_error_budget;
        self.row.internal = within.then_some((first, now));
        within
    }
}
