//! Reading the collection by LIST, page by page.

use std::{
    collections::HashSet,
    hash::{DefaultHasher, Hash, Hasher},
};

use super::{Cycle, Deadline, Machine, Next, State, after, is_zero};
use crate::{
    ResourceVersion,
    protocol::{
        Class, Failure, InitialRead, Options, Order, Streaming, SyncMethod, SyncReason, Time, Verb,
        fingerprint::Fingerprint,
    },
    source::{ListOptions, VersionMatch},
};

/// A list under way.
#[derive(Clone, Debug)]
pub(super) struct Listing {
    pub(super) reason: SyncReason,
    /// When the first page was asked for: what it shows is not older, however long the other pages take.
    since: Time,
    /// The next page, or the one that was asked for.
    options: ListOptions,
    /// The version of the first page, which is the version of the whole.
    version: Option<ResourceVersion>,
    /// Tries of this page that failed.
    failures: u32,
    /// When the page was asked for.
    asked: Time,
    /// When the last byte came, or when the page was asked for.
    pub(super) heard: Time,
    /// Hashes of the continue tokens so far.
    tokens: HashSet<u64>,
}

/// No list has so many pages: with 500 objects each that would be 50 million.
const PAGES_MAX: usize = 100_000;

impl Listing {
    /// When to give up, and why: nothing comes any more, or it never ends.
    pub(super) fn deadline(&self, options: &Options) -> Option<(Time, Deadline)> {
        let silence = after(self.heard, options.idle_limit).map(|at| (at, Deadline::ListIdle));
        let end = after(self.asked, options.list_deadline).map(|at| (at, Deadline::ListEnd));
        silence.into_iter().chain(end).min_by_key(|(at, _)| *at)
    }

    /// Whether a token leads on.
    fn is_new(&mut self, token: &str) -> bool {
        let mut hasher = DefaultHasher::new();
        token.hash(&mut hasher);
        self.tokens.len() < PAGES_MAX && self.tokens.insert(hasher.finish())
    }
}

impl Listing {
    pub(super) fn fingerprint(&self, options: &Options, print: &mut Fingerprint<'_>) {
        let ListOptions { version, version_match, limit, continue_token, .. } = &self.options;
        print.value((version, version_match.map(VersionMatch::as_str), limit, continue_token));
        print.value((&self.version, self.failures.min(PAGE_FAILURES_MAX)));
        print.age(Some(self.asked), Time::MAX);
        print.age(Some(self.heard), Time::MAX);
        // The copy will be proven as of this.
        print.age(Some(self.since), options.idle_limit);
        // A set has no order, and the sum of its hashes has none either.
        print.value(self.tokens.iter().fold(0, |sum: u64, token| sum.wrapping_add(*token)));
    }
}

/// So many failures of one page, and the list begins again: the token may be the reason.
const PAGE_FAILURES_MAX: u32 = 3;

impl Machine {
    /// Asks for the first page.
    pub(super) fn begin_list(&mut self, now: Time, reason: SyncReason) {
        self.begin_replace(reason, SyncMethod::List);
        let options = self.first_page();
        self.ask_page(
            now,
            Box::new(Listing {
                reason,
                since: now,
                options,
                version: None,
                failures: 0,
                asked: now,
                heard: now,
                tokens: HashSet::new(),
            }),
        );
    }

    /// RF-20 chooses the version, RF-21 the page size. Unlike client-go the match is always spelled out, since a
    /// version with a limit and without a match means *exactly* that version; and where the version had to be given up,
    /// the list stays paged (RF-24 would ask for everything at once).
    fn first_page(&self) -> ListOptions {
        let version = self.wanted_version();
        let specific = version.as_ref().is_some_and(|v| !is_zero(v));
        // A specific version is served from the watch cache only if it is not paged (on servers before 1.34).
        let paged = !self.cycle.unpaged && (!specific || self.cache_off);
        ListOptions {
            selection: self.options.selection.clone(),
            version_match: specific.then_some(VersionMatch::NotOlderThan),
            version,
            limit: self.options.page_size.filter(|_| paged),
            continue_token: None,
            timeout: None,
        }
    }

    /// The version with which the collection is read. "Any" is for the very first read: once a version was seen, nothing
    /// older is taken (K14).
    pub(super) fn wanted_version(&self) -> Option<ResourceVersion> {
        match self.floor() {
            None if self.options.initial_read == InitialRead::Any && !self.version_unavailable => {
                ResourceVersion::new("0")
            }
            floor => floor,
        }
    }

    pub(super) fn ask_page(&mut self, now: Time, mut list: Box<Listing>) {
        list.asked = now;
        list.heard = now;
        self.counts.lists += 1;
        self.orders.push_back(Order::List(list.options.clone()));
        self.state = State::Listing(list);
    }

    /// One page came, whole; its objects are staged.
    ///
    /// `version` and `continue_token` are those of its `metadata`.
    pub fn handle_page(
        &mut self,
        now: Time,
        version: Option<ResourceVersion>,
        continue_token: Option<String>,
    ) {
        let Some(mut list) = self.take_listing() else { return };
        let continue_token = continue_token.filter(|token| !token.is_empty());
        if list.options.continue_token.is_none() {
            list.version = version;
            let zero = list.options.version.as_ref().is_some_and(is_zero);
            self.cache_off |= zero && continue_token.is_some();
        } else if self.is_of_another_state(&list, version.as_ref()) {
            self.last_contact = Some(now);
            let failure = Failure::malformed("a page of the list is of another version than the first one");
            return self.token_useless(now, failure, Class::Malformed, list.reason);
        }
        self.last_contact = Some(now);
        if let Some(token) = continue_token {
            if !list.is_new(&token) {
                // It would go on for ever, at full speed.
                let failure = Failure::malformed("the pages of the list go in a circle, or never end");
                return self.token_useless(now, failure, Class::Malformed, list.reason);
            }
            // PG-2: the version and its match belong to the first page only; the selection to every page.
            list.options.version = None;
            list.options.version_match = None;
            list.options.continue_token = Some(token);
            list.failures = 0;
            return self.ask_page(now, list);
        }
        if self.is_behind_floor(list.version.as_ref()) {
            self.report_behind_floor(now, Verb::List, list.version.as_ref());
            return self.begin_list(now, list.reason);
        }
        self.commit(now, list.since, list.version);
        if self.version.is_none() {
            // The watch cannot begin where the list ended, so what is deleted in between would stay for ever (D32).
            // The watch makes it fast, and lists at an interval make it right.
            let at = now + self.options.poll_interval;
            self.next_verify = Some(self.next_verify.map_or(at, |verify| verify.min(at)));
        }
        if self.is_watchable(now) {
            self.begin_watch(now);
        } else {
            let interval = self.options.poll_interval;
            self.wait(now, interval, Next::Sync(SyncReason::Poll), Deadline::Poll);
        }
    }

    /// All pages of a list are of one version. Where one is not, the token was ignored, and the pages together are no state
    /// that the collection ever had. A server that cannot do better, even where everything is asked for at once, is
    /// believed: the watch from the first version tells what the pages missed.
    fn is_of_another_state(&self, list: &Listing, version: Option<&ResourceVersion>) -> bool {
        let differs = version.zip(list.version.as_ref()).is_some_and(|(page, first)| page != first);
        differs && !(self.cycle.restarted && self.cycle.unpaged)
    }

    /// The list under way; whoever takes it puts a new state in its place.
    fn take_listing(&mut self) -> Option<Box<Listing>> {
        match std::mem::replace(&mut self.state, State::Created) {
            State::Listing(list) => Some(list),
            other => {
                self.state = other;
                None
            }
        }
    }

    /// A page did not come, or not whole.
    pub fn handle_list_failed(&mut self, now: Time, failure: Failure) {
        let Some(mut list) = self.take_listing() else { return };
        let class = failure.class();
        let first = list.options.continue_token.is_none();
        if self.fallback_unproven && matches!(class, Class::Transport | Class::Silent) {
            // Lists do not come through either: the network is to blame, not the streaming list.
            self.fallback_unproven = false;
            self.streaming = Streaming::Unknown;
        }
        match class {
            Class::Expired if !first => self.token_useless(now, failure, class, list.reason),
            // Servers have many words for a version, or a match, that they do not understand.
            Class::Expired | Class::TooLarge | Class::Mistake if list.options.version.is_some() => {
                self.version_refused(now, failure, class, list.reason);
            }
            Class::Mistake if !first && !self.cycle.restarted => {
                self.token_useless(now, failure, class, list.reason);
            }
            Class::Absent => self.fail(now, Verb::List, failure, class, Next::Sync(list.reason)),
            _ => {
                // Overload is nobody's fault, and beginning again would only add to it.
                list.failures += u32::from(!matches!(class, Class::Throttled | Class::Unavailable));
                // What was staged of a page that came in part is simply staged again.
                let next = if first || list.failures >= PAGE_FAILURES_MAX {
                    Next::Sync(list.reason)
                } else {
                    Next::Page(list)
                };
                self.fail(now, Verb::List, failure, class, next);
            }
        }
    }

    /// A continue token expired: begin again, once; then ask for everything at once (PG-4, K6). The token for an
    /// inconsistent rest that the 410 carries is never used: it would splice two states.
    fn token_useless(&mut self, now: Time, failure: Failure, class: Class, reason: SyncReason) {
        let Cycle { restarted, unpaged, .. } = self.cycle;
        if restarted && unpaged {
            self.cycle = Cycle::default();
            return self.fail(now, Verb::List, failure, class, Next::Sync(reason));
        }
        self.cycle.unpaged = restarted;
        self.cycle.restarted = true;
        self.fail_at_once(now, Verb::List, failure, class);
        self.begin_list(now, reason);
    }

    /// The version of the first page is too old or too new: at once again for the most recent state (RF-23). Once,
    /// since that request has no version.
    fn version_refused(&mut self, now: Time, failure: Failure, class: Class, reason: SyncReason) {
        self.version_unavailable = true;
        self.cycle.version_dropped = true;
        self.fail_at_once(now, Verb::List, failure, class);
        self.begin_list(now, reason);
    }

    pub(super) fn list_is_silent(&mut self, now: Time) {
        self.orders.push_back(Order::Close);
        let limit = self.options.idle_limit;
        self.handle_list_failed(now, Failure::deadline(format!("the list stood still for {limit:?}")));
    }

    pub(super) fn list_never_ends(&mut self, now: Time) {
        self.orders.push_back(Order::Close);
        let limit = self.options.list_deadline;
        self.handle_list_failed(now, Failure::deadline(format!("the list had not ended after {limit:?}")));
    }

    /// Takes the list where the streaming list does not work, and remembers that for a while.
    pub(super) fn fall_back(&mut self, now: Time, failure: &Failure, reason: SyncReason) {
        let until = now + self.options.streaming_probe_after;
        self.streaming = Streaming::FellBack { reason: failure.to_string(), until };
        self.begin_list(now, reason);
    }
}
