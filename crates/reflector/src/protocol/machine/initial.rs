//! Reading the collection by a streaming list (KEP-3157): a watch that sends the state first.

use super::{Machine, Next, State, after};
use crate::{
    ResourceVersion,
    protocol::{
        Class, Failure, FailureKind, Options, Order, Streaming, SyncMethod, SyncReason, Time, Verb,
        fingerprint::Fingerprint,
    },
    source::{VersionMatch, WatchOptions},
};

/// A streaming list under way.
#[derive(Clone, Debug)]
pub(super) struct Initial {
    pub(super) reason: SyncReason,
    /// When the last sign of progress came, or the stream opened, or the request was made.
    last: Time,
    /// When the request was made.
    since: Time,
    opened: bool,
    /// A plain bookmark came: the server believes the initial events to be over.
    live: bool,
    /// The life of the watch that it becomes.
    timeout: Time,
}

/// So many streaming lists in a row that failed in a way that may pass, and the list takes over.
const STREAM_FAILURES_MAX: u32 = 3;

impl Machine {
    /// WL-2: the version is unset at first, and the last one seen later, which the server never calls too old.
    pub(super) fn begin_initial(&mut self, now: Time, reason: SyncReason) {
        self.begin_replace(reason, SyncMethod::Streaming);
        let timeout = self.draw_watch_timeout();
        self.counts.watches += 1;
        self.orders.push_back(Order::Watch(WatchOptions {
            selection: self.options.selection.clone(),
            version: self.wanted_version(),
            version_match: Some(VersionMatch::NotOlderThan),
            send_initial_events: Some(true),
            bookmarks: true,
            timeout: Some(timeout),
        }));
        self.state =
            State::Initial(Initial { reason, last: now, since: now, opened: false, live: false, timeout });
    }

    /// The end bookmark: what is staged is the collection as of `version`, and the stream goes on as the watch (WL-4).
    pub(super) fn initial_events_ended(&mut self, now: Time, version: Option<ResourceVersion>) {
        let State::Initial(initial) = &self.state else { return };
        let (since, timeout, reason) = (initial.since, initial.timeout, initial.reason);
        if self.is_behind_floor(version.as_ref()) {
            self.orders.push_back(Order::Close);
            self.report_behind_floor(now, Verb::Watch, version.as_ref());
            return self.begin_initial(now, reason);
        }
        self.streaming = Streaming::Works;
        self.commit(now, now, version);
        self.continue_as_watch(now, since, timeout);
    }

    /// The streaming list failed: before it opened, by an ERROR event, or in mid-stream (WL-5).
    pub(super) fn initial_failed(&mut self, now: Time, failure: Failure) {
        let State::Initial(initial) = std::mem::replace(&mut self.state, State::Created) else { return };
        let reason = initial.reason;
        let class = failure.class();
        match class {
            // Without a version there is nothing to give up: below it counts as a failure that may pass.
            Class::Expired | Class::TooLarge if self.floor().is_some() => {
                self.version_unavailable = true;
                self.cycle.version_dropped = true;
                self.fail_at_once(now, Verb::Watch, failure, class);
                self.begin_initial(now, reason);
            }
            Class::Throttled
            | Class::Unavailable
            | Class::Unauthorized
            | Class::Forbidden
            | Class::Absent => {
                self.fail(now, Verb::Watch, failure, class, Next::Sync(reason));
            }
            // Nobody was reached: that says nothing of streaming lists.
            Class::Transport if !initial.opened => {
                self.fail(now, Verb::Watch, failure, class, Next::Sync(reason));
            }
            Class::Expired
            | Class::TooLarge
            | Class::Transport
            | Class::Malformed
            | Class::Server
            | Class::Internal
                if self.cycle.streams_failed + 1 < STREAM_FAILURES_MAX
                    && !initial.refused(&failure, class) =>
            {
                self.cycle.streams_failed += 1;
                self.fail(now, Verb::Watch, failure, class, Next::Sync(reason));
            }
            _ => {
                self.cycle.streams_failed = 0;
                self.fallback_unproven = matches!(class, Class::Transport | Class::Silent);
                if class == Class::NotSupported {
                    self.unwatchable_until = Some(now + self.options.streaming_probe_after);
                }
                self.report_fallback(now, &failure, class, reason);
            }
        }
    }

    /// WL-5 has client-go ask again for ever; here a clean end before the bookmark means that the server does not know
    /// the parameter (kubernetes#140890).
    pub(super) fn initial_ended_early(&mut self, now: Time) {
        let State::Initial(initial) = &self.state else { return };
        let reason = initial.reason;
        let failure =
            Failure::malformed("the stream ended without the bookmark that ends the initial events");
        self.report_fallback(now, &failure, Class::Malformed, reason);
    }

    pub(super) fn initial_is_silent(&mut self, now: Time) {
        let State::Initial(initial) = &self.state else { return };
        let reason = initial.reason;
        let opened = initial.opened;
        let (quiet, life) = (now.saturating_sub(initial.last), now.saturating_sub(initial.since));
        let failure = Failure::deadline(format!(
            "no initial event for {quiet:?}, and no bookmark that ends them for {life:?}"
        ));
        self.orders.push_back(Order::Close);
        self.fallback_unproven = !opened;
        self.report_fallback(now, &failure, Class::Silent, reason);
    }

    fn report_fallback(&mut self, now: Time, failure: &Failure, class: Class, reason: SyncReason) {
        self.fail_at_once(now, Verb::Watch, failure.clone(), class);
        self.fall_back(now, failure, reason);
    }

    /// Until when the streaming list is worth waiting for.
    pub(super) fn draw_watch_timeout(&mut self) -> Time {
        let (min, max) = self.options.watch_timeout;
        let drawn = self.random.between(min, max);
        // The server counts whole seconds.
        Time::from_secs(drawn.as_secs().max(1))
    }
}

impl Initial {
    /// The stream opened.
    pub(super) fn opened(&mut self, now: Time) {
        self.opened = true;
        self.last = now;
    }

    /// When to give up: nothing comes any more, or the server does not keep the timeout that it was told.
    pub(super) fn deadline(&self, options: &Options) -> Option<Time> {
        let silence = after(self.last, options.initial_deadline);
        let end = after(self.since, self.timeout.saturating_add(options.deadline_margin));
        silence.into_iter().chain(end).min()
    }

    /// Something came. Only what can be an initial event is progress: a server that ignores the parameter may be busy
    /// with changes for ever (K5), and after a plain bookmark it will hardly send more of the state.
    pub(super) fn progress(&mut self, now: Time, initial: bool) {
        self.opened = true;
        if initial && !self.live {
            self.last = now;
        }
    }

    pub(super) fn plain_bookmark(&mut self) {
        self.opened = true;
        self.live = true;
    }

    /// When the last event came matters until the deadline, and when the request was made until its end.
    pub(super) fn fingerprint(&self, print: &mut Fingerprint<'_>) {
        print.age(Some(self.last), Time::MAX);
        print.age(Some(self.since), Time::MAX);
        print.value((self.opened, self.live, self.timeout));
    }

    /// An ERROR event of the server's own, in an open stream: it knows the request and will not serve it.
    fn refused(&self, failure: &Failure, class: Class) -> bool {
        matches!(failure.kind(), FailureKind::Refused { .. }) && class != Class::Expired && self.opened
    }
}
