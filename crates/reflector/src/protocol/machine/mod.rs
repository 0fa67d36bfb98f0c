//! The machine: its state, its contract, and what is common to all states.

mod fingerprint;
mod initial;
mod list;
mod recover;
mod watch;

#[cfg(test)]
mod tests;

use std::{collections::VecDeque, time::Duration};

use self::{initial::Initial, list::Listing, recover::Row, watch::Watching};
use super::{
    Class, Counts, ErrorReport, Failure, History, Options, Order, Phase, Status, Streaming, SyncMethod,
    SyncReason, Time, Verb, backoff::Backoff, random::Random,
};
use crate::ResourceVersion;

/// The protocol of one reflector.
///
/// # Contract
///
/// There are four kinds of methods:
///
/// - [`start`](Self::start), once;
/// - `handle_*`: the driver reports one fact, with the time at which it happened;
/// - [`poll_order`](Self::poll_order) and [`poll_timeout`](Self::poll_timeout): after **every** `handle_*` (and after
///   `start`) the driver takes orders until there are none, and then sleeps no longer than until the deadline, whose
///   passing it reports with [`handle_timeout`](Self::handle_timeout);
/// - readers: [`status`](Self::status).
///
/// Rules for the driver:
///
/// - time never goes back;
/// - after [`Order::Close`] no fact about the closed request is reported any more, and likewise for
///   [`Order::CloseSecond`]; a request that has ended by itself (with a failure, a last page, an end of stream) counts
///   as closed;
/// - the objects of a list are staged by the driver as they come; the objects of events go where
///   [`handle_event`](Self::handle_event) says.
///
/// A fact that does not fit the state (a page, though nobody is listing) changes nothing.
///
/// ```
/// use std::time::Duration;
/// use reflector::protocol::{Machine, Options, Order};
///
/// let mut machine = Machine::new(Options::default(), 42);
/// machine.start(Duration::ZERO);
/// assert!(matches!(machine.poll_order(), Some(Order::BeginReplace { .. })));
/// let Some(Order::Watch(options)) = machine.poll_order() else { panic!() };
/// assert_eq!(options.send_initial_events, Some(true));
/// assert_eq!(machine.poll_timeout().unwrap().0, Duration::from_secs(10));
/// ```
#[derive(Clone, Debug)]
pub struct Machine {
    options: Options,
    random: Random,
    orders: VecDeque<Order>,
    state: State,
    /// The version that the store is current as of.
    version: Option<ResourceVersion>,
    synced: bool,
    /// The version is of no use any more: the next read of the collection asks for the most recent state (RF-23).
    version_unavailable: bool,
    streaming: Streaming,
    /// A list at version "0" came in pages: the server has no watch cache for this resource (RF-22).
    cache_off: bool,
    /// The streaming list was given up because nothing came; whether lists fare better is not known yet.
    fallback_unproven: bool,
    /// The resource cannot be watched (405), until this time.
    unwatchable_until: Option<Time>,
    cycle: Cycle,
    backoff: Backoff,
    row: Row,
    /// A 401 came: fresh credentials are needed before the next request.
    refresh_due: bool,
    absence: Option<Absence>,
    last_error: Option<ErrorReport>,
    blocked: Option<ErrorReport>,
    last_contact: Option<Time>,
    last_proof: Option<Time>,
    /// `last_proof` before what the store was given last: what holds if it refuses that.
    proof_before: Option<Time>,
    /// When the collection was last read to its end.
    read: Option<Time>,
    /// When it was last asked whether a silent server is there, and not behind the copy.
    checked: Option<Time>,
    /// What was known of the copy before the last commit was ordered.
    before_commit: Option<Known>,
    next_resync: Option<Time>,
    next_verify: Option<Time>,
    counts: Counts,
}

/// What an event did to its object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EventKind {
    /// ADDED.
    Added,
    /// MODIFIED.
    Modified,
    /// DELETED.
    Deleted,
}

/// What the machine waits for. The name reaches the logs, so that an idle loop can be explained.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Deadline {
    /// The next event of a streaming list.
    InitialEvents,
    /// The next bytes of a list.
    ListIdle,
    /// The end of a list.
    ListEnd,
    /// The next bytes of a watch.
    WatchIdle,
    /// The end of a watch, by its own timeout.
    WatchTimeout,
    /// The answer of the second request.
    Second,
    /// The next try.
    Retry,
    /// The next list of a resource that cannot be watched.
    Poll,
    /// The store's resync.
    Resync,
    /// The regular verification.
    Verify,
}

#[derive(Clone, Debug)]
enum State {
    Created,
    Listing(Box<Listing>),
    Initial(Initial),
    Watching(Box<Watching>),
    Waiting { until: Time, next: Next, deadline: Deadline },
    Stopped,
}

/// What follows a wait.
#[derive(Clone, Debug)]
enum Next {
    /// Read the collection from scratch.
    Sync(SyncReason),
    /// The same page of the same list again.
    Page(Box<Listing>),
    /// Watch from the version.
    Watch,
}

/// What has been tried since the last complete read of the collection; each remedy is good once.
#[derive(Clone, Debug, Default, Hash)]
struct Cycle {
    /// The version was given up at once.
    version_dropped: bool,
    /// The list was begun again because a continue token had expired.
    restarted: bool,
    /// And then asked for unpaged.
    unpaged: bool,
    /// Streaming lists that failed in a way that may pass.
    streams_failed: u32,
}

/// What is known of the copy. A commit changes it, and one that fails has changed nothing.
#[derive(Clone, Debug)]
struct Known {
    synced: bool,
    version: Option<ResourceVersion>,
    version_unavailable: bool,
    last_proof: Option<Time>,
}

/// A 404, and what came of it.
#[derive(Clone, Debug)]
struct Absence {
    since: Time,
    deleted: bool,
}

impl Machine {
    /// A machine that has not started. The seed makes its jitter; equal seeds and facts make equal orders.
    #[must_use]
    pub fn new(options: Options, seed: u64) -> Self {
        let options = options.bounded();
        let streaming = if options.streaming { Streaming::Unknown } else { Streaming::Disabled };
        Self {
            random: Random::new(seed),
            backoff: Backoff::new(options.backoff.clone()),
            options,
            orders: VecDeque::new(),
            state: State::Created,
            version: None,
            synced: false,
            version_unavailable: false,
            streaming,
            cache_off: false,
            fallback_unproven: false,
            unwatchable_until: None,
            cycle: Cycle::default(),
            row: Row::default(),
            refresh_due: false,
            absence: None,
            last_error: None,
            blocked: None,
            last_contact: None,
            last_proof: None,
            proof_before: None,
            read: None,
            checked: None,
            before_commit: None,
            next_resync: None,
            next_verify: None,
            counts: Counts::default(),
        }
    }

    /// Begins. Later calls do nothing.
    pub fn start(&mut self, now: Time) {
        if matches!(self.state, State::Created) {
            self.next_resync = self.options.resync_every.map(|every| now + every);
            self.next_verify = self.options.relist_every.map(|every| now + every);
            self.sync(now, SyncReason::First);
        }
    }

    /// Ends, for good: what is open is closed.
    pub fn handle_stop(&mut self) {
        if !matches!(self.state, State::Stopped) {
            self.orders.clear();
            self.orders.extend([Order::Close, Order::CloseSecond, Order::AbandonReplace, Order::Stopped]);
            self.state = State::Stopped;
        }
    }

    /// The next order, if there is one.
    pub fn poll_order(&mut self) -> Option<Order> {
        self.orders.pop_front()
    }

    /// When to call [`handle_timeout`](Self::handle_timeout) at the latest, and what is waited for. `None` once stopped.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<(Time, Deadline)> {
        let state = match &self.state {
            State::Created | State::Stopped => return None,
            State::Waiting { until, deadline, .. } => Some((*until, *deadline)),
            State::Listing(list) => list.deadline(&self.options),
            State::Initial(initial) => {
                initial.deadline(&self.options).map(|at| (at, Deadline::InitialEvents))
            }
            State::Watching(watch) => {
                watch.deadline(&self.options, self.last_proof.max(self.checked).max(self.read))
            }
        };
        // A resync of an empty store, or a verification of what is being read, would be nothing.
        let resync = self.next_resync.filter(|_| self.synced).map(|at| (at, Deadline::Resync));
        let verify = self
            .next_verify
            .filter(|_| matches!(self.state, State::Watching(_)))
            .map(|at| (at, Deadline::Verify));
        [state, resync, verify].into_iter().flatten().min_by_key(|(at, _)| *at)
    }

    /// Time has passed. Calling it early or late is fine.
    pub fn handle_timeout(&mut self, now: Time) {
        while let Some((at, deadline)) = self.poll_timeout()
            && at <= now
        {
            match deadline {
                Deadline::InitialEvents => self.initial_is_silent(now),
                Deadline::ListIdle => self.list_is_silent(now),
                Deadline::ListEnd => self.list_never_ends(now),
                Deadline::WatchIdle => self.watch_is_idle(now),
                Deadline::WatchTimeout => self.watch_outlived_its_timeout(now),
                Deadline::Second => self.second_is_silent(now),
                Deadline::Retry | Deadline::Poll => self.wait_is_over(now),
                Deadline::Resync => {
                    self.orders.push_back(Order::Resync);
                    self.next_resync = self.options.resync_every.map(|every| now + every);
                }
                Deadline::Verify => {
                    self.close_all();
                    self.sync(now, SyncReason::Verify);
                }
            }
        }
    }

    /// Bytes came on the main request: whoever is there is alive. Told before what the bytes brought.
    pub fn handle_progress(&mut self, now: Time) {
        match &mut self.state {
            State::Listing(list) => list.heard = now,
            State::Watching(watch) => watch.heard = now,
            // Bytes alone are no initial event.
            State::Initial(_) => {}
            _ => return,
        }
        self.last_contact = Some(now);
        self.proof_before = self.last_proof;
    }

    /// An object without usable metadata was passed over. It is neither progress nor an accepted event.
    pub fn handle_invalid(&mut self, now: Time) {
        match &mut self.state {
            State::Initial(initial) => initial.progress(now, true),
            State::Listing(_) | State::Watching(_) => {}
            _ => return,
        }
        self.handle_progress(now);
        self.counts.invalid += 1;
    }

    /// The store could not take what it was given: the copy may be wrong, so it is made again (RF-42).
    pub fn handle_store_failed(&mut self, now: Time, error: impl Into<String>) {
        if matches!(self.state, State::Created | State::Stopped) {
            return;
        }
        self.last_proof = self.proof_before;
        self.close_all();
        self.orders.push_back(Order::AbandonReplace);
        let failure = Failure::malformed(format!("the store refused a change: {}", error.into()));
        self.fail(now, Verb::Watch, failure, Class::Malformed, Next::Sync(SyncReason::Store));
    }

    /// The store could not commit: what it holds is what it held before.
    pub fn handle_commit_failed(&mut self, now: Time, error: impl Into<String>) {
        if let Some(Known { synced, version, version_unavailable, last_proof }) = self.before_commit.take() {
            self.synced = synced;
            self.version = version;
            self.version_unavailable = version_unavailable;
            self.last_proof = last_proof;
        }
        self.handle_store_failed(now, error);
    }

    /// What is going on.
    #[must_use]
    pub fn status(&self) -> Status {
        Status {
            phase: self.phase(),
            synced: self.synced,
            version: self.version.clone(),
            last_contact: self.last_contact,
            last_proof: self.last_proof,
            last_error: self.last_error.clone(),
            failures: self.row.failures,
            blocked: self.blocked.clone(),
            streaming: self.streaming.clone(),
            counts: self.counts,
        }
    }

    /// The version that the store is current as of, once it has applied what it was given.
    #[must_use]
    pub fn version(&self) -> Option<&ResourceVersion> {
        self.version.as_ref()
    }

    /// Counts since the start.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counts
    }

    fn phase(&self) -> Phase {
        match &self.state {
            State::Created => Phase::Created,
            State::Listing(list) => Phase::Syncing { reason: list.reason, method: SyncMethod::List },
            State::Initial(initial) => {
                Phase::Syncing { reason: initial.reason, method: SyncMethod::Streaming }
            }
            State::Watching(watch) if watch.opened => Phase::Watching,
            State::Watching(_) => Phase::Connecting,
            State::Waiting { until, .. } if self.absence.is_some() => Phase::Absent { until: *until },
            State::Waiting { until, deadline: Deadline::Poll, .. } => Phase::Polling { next: *until },
            State::Waiting { until, .. } => Phase::Waiting { until: *until },
            State::Stopped => Phase::Stopped,
        }
    }

    /// Reads the collection from scratch, now, in the best way that is known to work.
    fn sync(&mut self, now: Time, reason: SyncReason) {
        if self.synced {
            self.counts.relists += 1;
        }
        // Where a verification is due, whatever is read verifies: a cache that has stalled would answer from what it has,
        // if it were asked for what we have.
        self.version_unavailable |= self.next_verify.is_some_and(|at| at <= now);
        let fallback_over = match &self.streaming {
            Streaming::Disabled => false,
            Streaming::FellBack { until, .. } => now >= *until,
            Streaming::Unknown | Streaming::Works => true,
        };
        if fallback_over && self.is_watchable(now) {
            self.begin_initial(now, reason);
        } else {
            self.begin_list(now, reason);
        }
    }

    /// The version to ask for when the collection is read: not older than what the store has, if that is still of use.
    fn floor(&self) -> Option<ResourceVersion> {
        self.version.clone().filter(|_| !self.version_unavailable)
    }

    fn begin_replace(&mut self, reason: SyncReason, method: SyncMethod) {
        let same = self.version.is_none() || self.floor().is_some();
        let history = if same { History::Same } else { History::Unknown };
        self.orders.push_back(Order::BeginReplace { reason, method, history });
    }

    /// The store has the whole collection, as of `version`, which was the present state at `as_of` or later.
    fn commit(&mut self, now: Time, as_of: Time, version: Option<ResourceVersion>) {
        // What was read as not older than the copy verifies nothing.
        let verified = self.floor().is_none();
        self.order_commit(version.filter(|v| !is_zero(v)));
        if !self.synced {
            self.next_resync = self.options.resync_every.map(|every| now + every);
        }
        self.synced = true;
        self.version_unavailable = false;
        self.fallback_unproven = false;
        self.absence = None;
        self.cycle = Cycle::default();
        self.counts.syncs += 1;
        if verified {
            self.next_verify = self.options.relist_every.map(|every| now + every);
        }
        self.succeed(now);
        self.proof_before = self.last_proof;
        self.proof(now, as_of);
        self.read = Some(now);
    }

    fn order_commit(&mut self, version: Option<ResourceVersion>) {
        self.orders.push_back(Order::CommitReplace { version: version.clone() });
        self.before_commit = Some(Known {
            synced: self.synced,
            version: std::mem::replace(&mut self.version, version),
            version_unavailable: self.version_unavailable,
            last_proof: self.last_proof,
        });
    }

    /// It is known now that the copy was current at `as_of`.
    fn proof(&mut self, now: Time, as_of: Time) {
        self.last_proof = self.last_proof.max(Some(as_of));
        self.last_contact = Some(now);
    }

    /// Whether a server that was asked for something not older than the floor gave something older: it ignores the
    /// parameter, or the collection went back in time. The most recent state is asked for then, once, and believed.
    fn is_behind_floor(&self, version: Option<&ResourceVersion>) -> bool {
        !self.cycle.version_dropped
            && self.floor().is_some_and(|floor| version.is_some_and(|version| version.is_older_than(&floor)))
    }

    fn report_behind_floor(&mut self, now: Time, verb: Verb, version: Option<&ResourceVersion>) {
        let text = |v: Option<&ResourceVersion>| v.map(ToString::to_string).unwrap_or_default();
        let (asked, got) = (text(self.version.as_ref()), text(version));
        self.version_unavailable = true;
        self.cycle.version_dropped = true;
        let failure = Failure::malformed(format!("asked for a state not older than {asked}, got {got}"));
        self.fail_at_once(now, verb, failure, Class::Rewound);
    }

    fn is_watchable(&mut self, now: Time) -> bool {
        if self.unwatchable_until.is_some_and(|until| now >= until) {
            self.unwatchable_until = None;
        }
        self.unwatchable_until.is_none()
    }

    fn close_all(&mut self) {
        self.orders.extend([Order::Close, Order::CloseSecond]);
    }
}

/// `duration` after `at`, or never.
fn after(at: Time, duration: Duration) -> Option<Time> {
    at.checked_add(duration)
}

/// "0" is no state that a watch could go on from: it means "any".
fn is_zero(version: &ResourceVersion) -> bool {
    version.to_string() == "0"
}
