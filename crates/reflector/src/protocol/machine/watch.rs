//! Watching: what each event, end and silence of a stream means.

use std::{cmp::Ordering, time::Duration};

use super::{Deadline, EventKind, Machine, Next, State, after, is_zero};
use crate::{
    ResourceVersion,
    protocol::{
        CheckResult, Class, Disposition, Failure, FailureKind, Options, Order, SyncReason, Time, Verb,
        backoff::LIVED, fingerprint::Fingerprint,
    },
    source::{ListOptions, WatchOptions},
};

/// A watch, asked for or open.
#[derive(Clone, Debug)]
pub(super) struct Watching {
    /// The version that it was asked to start after.
    from: Option<ResourceVersion>,
    /// When it was asked for. Proxies may hold headers back until the first event, so this is where its clock starts.
    since: Time,
    /// Its own timeout, as told to the server.
    timeout: Duration,
    pub(super) opened: bool,
    /// Accepted events and bookmarks.
    accepted: u64,
    /// When the last byte came.
    pub(super) heard: Time,
    /// It began without a version: the server first sends the state, in any order, so versions are no progress until
    /// the first change (RF-43).
    synthetic: bool,
    second: Second,
}

/// The second request beside a watch that has become silent, or that says strange things.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Second {
    None,
    /// A list of one object: is the server there, and is its version not behind ours?
    Check {
        since: Time,
        because: Because,
        /// The version that the copy had when it was asked: the answer may be older than what has come since.
        held: Option<ResourceVersion>,
    },
    /// The same watch again.
    Reopen {
        since: Time,
        timeout: Duration,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Because {
    Idle,
    Regression,
}

/// The shortest time from the start of one watch to the start of the next, where the first did its work and ended
/// cleanly. Without it a server that sends one event and hangs up makes a hot loop (inventory 2.11).
const SPACING: Duration = Duration::from_secs(1);

/// A server that is there answers within this time, unless a proxy holds its headers back. A watch without headers is
/// not asked about sooner.
const HEADERS: Duration = Duration::from_secs(1);

impl Watching {
    /// What the second request is, for tests of the contract.
    #[cfg(test)]
    pub(super) fn second_name(&self) -> Option<&'static str> {
        match self.second {
            Second::None => None,
            Second::Check { .. } => Some("check"),
            Second::Reopen { .. } => Some("reopen"),
        }
    }

    /// `quiet` is since when there was no sign that the copy is current. It goes on from watch to watch: a proxy that
    /// ends each of them in time, or that holds their headers back, must not hide the silence.
    pub(super) fn deadline(&self, options: &Options, quiet: Option<Time>) -> Option<(Time, Deadline)> {
        let idle = match self.second {
            Second::None => {
                let at = after(quiet.unwrap_or(self.heard), options.idle_limit);
                // One that is refused is refused at once, and need not be asked about.
                let asked = if self.opened { Duration::ZERO } else { self.heard.saturating_add(HEADERS) };
                at.map(|at| (at.max(asked), Deadline::WatchIdle))
            }
            Second::Check { since, .. } | Second::Reopen { since, .. } => {
                after(since, options.idle_limit).map(|at| (at, Deadline::Second))
            }
        };
        let unanswered = self.unanswered(options).map(|at| (at, Deadline::WatchIdle));
        let end = after(self.since, self.timeout.saturating_add(options.deadline_margin));
        let end = end.map(|at| (at, Deadline::WatchTimeout));
        idle.into_iter().chain(unanswered).chain(end).min_by_key(|(at, _)| *at)
    }

    /// When to give up a watch that was not even answered with headers.
    fn unanswered(&self, options: &Options) -> Option<Time> {
        if self.opened { None } else { after(self.heard, options.idle_limit) }
    }

    /// Whether it was open for so long that the end of its connection says nothing against the server.
    fn has_lived(&self, now: Time) -> bool {
        self.opened && now.saturating_sub(self.since) >= LIVED
    }

    pub(super) fn fingerprint(&self, options: &Options, print: &mut Fingerprint<'_>) {
        print.value((&self.from, self.timeout, self.opened, self.accepted > 0, self.synthetic));
        print.age(Some(self.since), Time::MAX);
        print.age(Some(self.heard), options.idle_limit);
        match &self.second {
            Second::None => print.value(0),
            Second::Check { since, because, held } => {
                print.value((1, because, held));
                print.age(Some(*since), Time::MAX);
            }
            Second::Reopen { since, timeout } => {
                print.value((2, timeout));
                print.age(Some(*since), Time::MAX);
            }
        }
    }
}

impl Machine {
    /// Watches on from where the last watch was. Without a version there is no such place: what was deleted in between
    /// would stay for ever, so the collection is read anew.
    pub(super) fn resume(&mut self, now: Time) {
        if self.version.is_some() {
            self.begin_watch(now);
        } else {
            self.sync(now, SyncReason::Verify);
        }
    }

    /// Watches from the version that the store has.
    pub(super) fn begin_watch(&mut self, now: Time) {
        let timeout = self.draw_watch_timeout();
        let options = self.watch_options(timeout);
        self.counts.watches += 1;
        self.orders.push_back(Order::Watch(options));
        self.set_watching(now, now, timeout, false);
    }

    /// The stream of a streaming list is the watch from now on.
    pub(super) fn continue_as_watch(&mut self, now: Time, since: Time, timeout: Duration) {
        self.set_watching(now, since, timeout, true);
    }

    fn set_watching(&mut self, now: Time, since: Time, timeout: Duration, opened: bool) {
        let from = self.version.clone();
        let synthetic = !opened && from.is_none();
        self.state = State::Watching(Box::new(Watching {
            from,
            since,
            timeout,
            opened,
            accepted: 0,
            heard: now,
            synthetic,
            second: Second::None,
        }));
    }

    fn watch_options(&self, timeout: Duration) -> WatchOptions {
        WatchOptions {
            selection: self.options.selection.clone(),
            version: self.version.clone(),
            version_match: None,
            send_initial_events: None,
            bookmarks: true,
            timeout: Some(timeout),
        }
    }

    /// The main request, a watch, was answered with success.
    pub fn handle_watch_opened(&mut self, now: Time) {
        match &mut self.state {
            State::Initial(initial) => initial.opened(now),
            State::Watching(watch) => {
                watch.opened = true;
                watch.heard = now;
                self.blocked = None;
                self.backoff.healthy(now);
            }
            _ => return,
        }
        self.last_contact = Some(now);
    }

    /// The main request, a watch, was refused or not answered at all.
    pub fn handle_watch_failed(&mut self, now: Time, failure: Failure) {
        match &self.state {
            State::Initial(_) => self.initial_failed(now, failure),
            State::Watching(_) => self.watch_failed(now, failure, false),
            _ => {}
        }
    }

    /// An object changed; the answer says what becomes of it. `version` is the object's own.
    pub fn handle_event(
        &mut self,
        now: Time,
        kind: EventKind,
        version: Option<&ResourceVersion>,
    ) -> Disposition {
        let watch = match &mut self.state {
            State::Initial(initial) => {
                initial.progress(now, kind == EventKind::Added);
                self.last_contact = Some(now);
                return Disposition::Stage;
            }
            State::Watching(watch) => watch,
            _ => return Disposition::Drop,
        };
        let progress = !(watch.synthetic && kind == EventKind::Added);
        watch.synthetic &= !progress;
        self.counts.events += 1;
        self.accept(now);
        match version.filter(|_| progress) {
            // What is behind proves nothing.
            Some(version) if !self.advance(now, version) => {}
            _ => self.is_current(now),
        }
        Disposition::Apply
    }

    /// A bookmark came. `initial_events_end` tells whether its annotation is exactly `"true"`.
    pub fn handle_bookmark(
        &mut self,
        now: Time,
        version: Option<&ResourceVersion>,
        initial_events_end: bool,
    ) {
        match &mut self.state {
            State::Initial(_) if initial_events_end => self.initial_events_ended(now, version.cloned()),
            State::Initial(initial) => {
                initial.plain_bookmark();
                self.last_contact = Some(now);
            }
            State::Watching(watch) => {
                watch.synthetic = false;
                self.counts.bookmarks += 1;
                self.accept(now);
                if let Some(version) = version
                    && self.advance(now, version)
                {
                    self.orders.push_back(Order::Bookmark(version.clone()));
                    self.is_current(now);
                }
            }
            _ => {}
        }
    }

    /// An event that counts came: the watch works.
    fn accept(&mut self, now: Time) {
        let State::Watching(watch) = &mut self.state else { return };
        watch.accepted += 1;
        watch.opened = true;
        watch.heard = now;
        self.last_contact = Some(now);
        if watch.accepted == 1 {
            self.succeed(now);
        }
    }

    /// The watch proved that the copy is current: whatever was begun because of its silence is needless.
    fn is_current(&mut self, now: Time) {
        self.proof(now, now);
        let State::Watching(watch) = &mut self.state else { return };
        if matches!(watch.second, Second::Check { because: Because::Idle, .. } | Second::Reopen { .. }) {
            watch.second = Second::None;
            self.orders.push_back(Order::CloseSecond);
        }
    }

    /// Takes the version as progress, unless it is behind: then nothing moves, and `false` is the answer.
    fn advance(&mut self, now: Time, version: &ResourceVersion) -> bool {
        if is_zero(version) {
            return false;
        }
        if self.version.as_ref().is_some_and(|held| version.is_older_than(held)) {
            self.counts.regressions += 1;
            self.suspect_rewind(now, version);
            return false;
        }
        self.version = Some(version.clone());
        true
    }

    /// No honest stream goes back behind the version it started from: either a server replays what it has, whatever it
    /// is asked for, or the collection itself went back in time. A list of one object tells which.
    fn suspect_rewind(&mut self, now: Time, version: &ResourceVersion) {
        let idle_limit = self.options.idle_limit;
        let State::Watching(watch) = &mut self.state else { return };
        let behind_start = watch.from.as_ref().is_some_and(|from| version.is_older_than(from));
        let recently = self.checked.is_some_and(|at| now.saturating_sub(at) < idle_limit);
        if behind_start && !recently && watch.second == Second::None {
            self.check(now, Because::Regression);
        }
    }

    fn check(&mut self, now: Time, because: Because) {
        let State::Watching(watch) = &mut self.state else { return };
        watch.second = Second::Check { since: now, because, held: self.version.clone() };
        self.checked = Some(now);
        self.counts.lists += 1;
        self.orders.push_back(Order::Check(ListOptions {
            selection: self.options.selection.clone(),
            limit: Some(1),
            ..ListOptions::default()
        }));
    }

    /// The stream carried an ERROR event, and so ended.
    pub fn handle_stream_error(&mut self, now: Time, failure: Failure) {
        match &self.state {
            State::Initial(_) => self.initial_failed(now, failure),
            State::Watching(_) => self.watch_failed(now, failure, true),
            _ => {}
        }
    }

    /// The stream broke off: reset, cut in mid-event, unreadable.
    pub fn handle_stream_broken(&mut self, now: Time, failure: Failure) {
        match &self.state {
            State::Initial(_) => self.initial_failed(now, failure),
            // Without a version everything would be read anew, and that is dear.
            State::Watching(watch)
                if failure.class() == Class::Transport && watch.has_lived(now) && self.version.is_some() =>
            {
                self.watch_was_cut(now, failure);
            }
            State::Watching(_) => self.watch_failed(now, failure, false),
            _ => {}
        }
    }

    /// Somebody between us and the server cut a watch that had worked. It is told, and is no failure in a row.
    fn watch_was_cut(&mut self, now: Time, failure: Failure) {
        self.orders.push_back(Order::CloseSecond);
        let wait = self.backoff.first_wait(&mut self.random);
        self.report(now, Verb::Watch, failure, Class::Transport, wait);
        self.wait(now, wait, Next::Watch, Deadline::Retry);
    }

    /// The stream ended cleanly.
    pub fn handle_stream_ended(&mut self, now: Time) {
        let watch = match &self.state {
            State::Initial(_) => return self.initial_ended_early(now),
            State::Watching(watch) => watch,
            _ => return,
        };
        let life = now.saturating_sub(watch.since);
        let accepted = watch.accepted;
        self.orders.push_back(Order::CloseSecond);
        if accepted == 0 && life < self.options.short_watch {
            return self.watch_was_short(now, life);
        }
        self.succeed(now);
        let poll_interval = self.options.poll_interval;
        if self.version.is_none() && life < poll_interval {
            // Reading everything is dear.
            self.wait(now, poll_interval - life, Next::Sync(SyncReason::Verify), Deadline::Poll);
        } else if life >= SPACING {
            self.resume(now);
        } else {
            self.wait(now, SPACING - life, Next::Watch, Deadline::Retry);
        }
    }

    /// RF-34, K2: back off; after a few in a row the version itself is suspect.
    fn watch_was_short(&mut self, now: Time, life: Duration) {
        let failure = Failure::malformed(format!("the watch ended after {life:?} without an event"));
        self.watch_was_useless(now, failure, Class::ShortWatch, SyncReason::ShortWatch);
    }

    /// A watch that came to nothing, in a way that its version may be the reason of: after a few in a row the collection
    /// is read anew.
    fn watch_was_useless(&mut self, now: Time, failure: Failure, class: Class, reason: SyncReason) {
        self.row.short_watches += 1;
        let next = if self.row.short_watches >= self.options.short_watches_max {
            self.row.short_watches = 0;
            Next::Sync(reason)
        } else {
            Next::Watch
        };
        self.fail(now, Verb::Watch, failure, class, next);
    }

    /// A watch could not start, broke, or carried an error. The version stays, and the list is spared, unless the
    /// failure says that the version is of no use.
    fn watch_failed(&mut self, now: Time, failure: Failure, in_stream: bool) {
        let State::Watching(watch) = &self.state else { return };
        let accepted = watch.accepted > 0;
        self.orders.push_back(Order::CloseSecond);
        let class = failure.class();
        match class {
            // RF-37: the version may still serve as floor of the relist, unless the server cannot even read it.
            Class::Expired => {
                self.version_unavailable |=
                    matches!(failure.kind(), FailureKind::Refused { code: 400 | 500, .. });
                self.fail_into_sync(now, failure, class, SyncReason::Expired);
            }
            Class::TooLarge => self.watch_too_large(now, failure),
            Class::NotSupported => {
                self.unwatchable_until = Some(now + self.options.streaming_probe_after);
                let interval = self.options.poll_interval;
                self.report(now, Verb::Watch, failure, class, interval);
                self.wait(now, interval, Next::Sync(SyncReason::Poll), Deadline::Poll);
            }
            Class::Malformed if !accepted => {
                self.watch_was_useless(now, failure, class, SyncReason::Malformed);
            }
            // Servers have many words for a version that they do not understand.
            Class::Mistake if !in_stream => {
                self.watch_was_useless(now, failure, class, SyncReason::StreamError);
            }
            Class::Internal if in_stream && !self.within_internal_budget(now) => {
                self.fail_into_sync(now, failure, class, SyncReason::StreamError);
            }
            Class::Server | Class::Mistake if in_stream => {
                self.fail_into_sync(now, failure, class, SyncReason::StreamError);
            }
            _ => self.fail(now, Verb::Watch, failure, class, Next::Watch),
        }
    }

    /// K9: the server is behind, or etcd was restored. A few tries, then the most recent state.
    fn watch_too_large(&mut self, now: Time, failure: Failure) {
        self.row.too_large += 1;
        let next = if self.row.too_large > self.options.too_large_max {
            self.row.too_large = 0;
            self.version_unavailable = true;
            Next::Sync(SyncReason::TooLarge)
        } else {
            Next::Watch
        };
        self.fail(now, Verb::Watch, failure, Class::TooLarge, next);
    }

    /// Nothing came for a while. Silence proves nothing, so ask.
    pub(super) fn watch_is_idle(&mut self, now: Time) {
        let State::Watching(watch) = &mut self.state else { return };
        if watch.unanswered(&self.options).is_some_and(|at| at <= now) {
            // Not even headers: nothing can be lost by giving it up.
            self.watch_is_dead(now, "no answer");
        } else if watch.second == Second::None {
            self.check(now, Because::Idle);
        }
    }

    pub(super) fn watch_outlived_its_timeout(&mut self, now: Time) {
        let State::Watching(watch) = &self.state else { return };
        let alive = watch.opened && now.saturating_sub(watch.heard) < self.options.idle_limit;
        if alive {
            // The server does not keep its own promise, but it is there: this is not worth a back-off.
            self.close_all();
            self.succeed(now);
            self.resume(now);
        } else {
            self.watch_is_dead(now, "the watch outlived its own timeout in silence");
        }
    }

    fn watch_is_dead(&mut self, now: Time, what: &str) {
        let State::Watching(watch) = &self.state else { return };
        let silence = now.saturating_sub(watch.heard);
        self.close_all();
        let failure = Failure::deadline(format!("{what} for {silence:?}"));
        self.fail(now, Verb::Watch, failure, Class::Silent, Next::Watch);
    }

    pub(super) fn second_is_silent(&mut self, now: Time) {
        let State::Watching(watch) = &mut self.state else { return };
        let heard = watch.heard;
        let (verb, alive) = match std::mem::replace(&mut watch.second, Second::None) {
            Second::None => return,
            Second::Check { because: Because::Regression, .. } => (Verb::List, true),
            // Bytes came, if no event: it is there.
            Second::Check { since, .. } => (Verb::List, heard > since),
            Second::Reopen { since, .. } => (Verb::Watch, heard > since),
        };
        if alive {
            self.orders.push_back(Order::CloseSecond);
            let limit = self.options.idle_limit;
            let failure = Failure::deadline(format!("no answer beside an open watch for {limit:?}"));
            self.fail_at_once(now, verb, failure, Class::Silent);
        } else {
            self.watch_is_dead(now, "neither the watch nor a second request was answered");
        }
    }

    /// The answer to [`Order::Check`].
    pub fn handle_checked(&mut self, now: Time, result: CheckResult) {
        let State::Watching(watch) = &mut self.state else { return };
        let Second::Check { because, since, held } = &watch.second else { return };
        let (because, since, held) = (*because, *since, held.clone());
        watch.second = Second::None;
        let heard_since = watch.heard > since;
        let current = match result {
            Ok(Some(current)) => current,
            Ok(None) => return self.reopen_if(now, because),
            Err(failure) => return self.check_failed(now, failure, because, heard_since),
        };
        self.last_contact = Some(now);
        match held.as_ref().and_then(|held| current.compare(held)) {
            Some(Ordering::Less) => self.rewound(now, &current),
            order => {
                if order == Some(Ordering::Equal) && held == self.version {
                    self.proof(now, since);
                }
                self.reopen_if(now, because);
            }
        }
    }

    fn rewound(&mut self, now: Time, current: &ResourceVersion) {
        let held = self.version.as_ref().map(ToString::to_string).unwrap_or_default();
        let failure =
            Failure::malformed(format!("the collection went back in time, from version {held} to {current}"));
        self.version_unavailable = true;
        self.close_all();
        self.fail_into_sync(now, failure, Class::Rewound, SyncReason::Rewound);
    }

    fn check_failed(&mut self, now: Time, failure: Failure, because: Because, heard_since: bool) {
        let class = failure.class();
        match class {
            // It is there, and wants to be left alone: the watch stays, and is checked again in time.
            Class::Throttled | Class::Unavailable => self.fail_at_once(now, Verb::List, failure, class),
            Class::Transport | Class::Silent | Class::Malformed
                if because == Because::Idle && !heard_since =>
            {
                self.close_all();
                self.fail(now, Verb::List, failure, class, Next::Watch);
            }
            // It answers, so it is alive; whether the watch is alive is for the re-opening to find out.
            _ => {
                self.fail_at_once(now, Verb::List, failure, class);
                self.reopen_if(now, because);
            }
        }
    }

    fn reopen_if(&mut self, now: Time, because: Because) {
        let State::Watching(watch) = &self.state else { return };
        // A watch that was not answered yet need not be opened again.
        if because != Because::Idle || !watch.opened {
            return;
        }
        if self.version.is_none() {
            self.close_all();
            return self.sync(now, SyncReason::Verify);
        }
        let timeout = self.draw_watch_timeout();
        let options = self.watch_options(timeout);
        self.counts.watches += 1;
        self.orders.push_back(Order::Reopen(options));
        if let State::Watching(watch) = &mut self.state {
            watch.second = Second::Reopen { since: now, timeout };
        }
    }

    /// The second watch opened; the driver has closed the first and put the second in its place.
    pub fn handle_reopened(&mut self, now: Time) {
        if let State::Watching(watch) = &self.state
            && let Second::Reopen { since, timeout } = watch.second
        {
            self.set_watching(now, since, timeout, true);
            self.last_contact = Some(now);
        }
    }

    /// The second watch did not open. The first one stays, unless nobody answers at all, or the answer says that there is
    /// nothing to be watched from that version.
    pub fn handle_reopen_failed(&mut self, now: Time, failure: Failure) {
        let State::Watching(watch) = &mut self.state else { return };
        let Second::Reopen { since, .. } = watch.second else { return };
        watch.second = Second::None;
        self.checked = Some(now);
        let class = failure.class();
        let is_dead = match class {
            Class::Transport | Class::Silent | Class::Malformed => watch.heard <= since,
            Class::Expired | Class::TooLarge | Class::Absent | Class::NotSupported => true,
            _ => false,
        };
        if is_dead {
            self.orders.push_back(Order::Close);
            self.watch_failed(now, failure, false);
        } else {
            self.fail_at_once(now, Verb::Watch, failure, class);
        }
    }
}
