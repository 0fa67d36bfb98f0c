//! Which transitions of the protocol machine a schedule takes, observed from outside.

mod table;

use reflector::{
    driver::Fact,
    protocol::{Class, ErrorReport, Phase, Status, SyncMethod, SyncReason},
    source::ListPart,
    wire::WatchEvent,
};

use crate::cluster::{
    Cluster,
    connection::{Ask, Body, Role},
};

pub use table::{NEVER, TRANSITIONS};

/// A set of transitions, by their place in the [table](TRANSITIONS).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Covered(u128);

impl Covered {
    /// All that are in either.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// How many there are.
    #[must_use]
    pub fn count(self) -> usize {
        self.0.count_ones() as usize
    }

    /// Whether the transition of this place is in it.
    #[must_use]
    pub fn has(self, place: usize) -> bool {
        place < 128 && self.0 & (1 << place) != 0
    }

    /// The names of those that are not in it.
    pub fn missing(self) -> impl Iterator<Item = &'static str> {
        let missing =
            move |(place, (name, _)): (usize, &(&'static str, Is))| (!self.has(place)).then_some(*name);
        TRANSITIONS.iter().enumerate().filter_map(missing)
    }

    pub(crate) fn see(&mut self, step: &Step<'_>) {
        for (place, (_, is)) in TRANSITIONS.iter().enumerate() {
            if !self.has(place) && is(step) {
                self.0 |= 1 << place;
            }
        }
    }
}

/// Says whether a step is a transition.
pub type Is = fn(&Step<'_>) -> bool;

/// What was told to the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Input {
    Start,
    ListOpened,
    Items,
    PageEnd { more: bool },
    ListFailed(Class),
    WatchOpened,
    WatchFailed(Class),
    Events(Signs),
    Ended,
    Broken(Class),
    Checked { version: bool },
    CheckFailed(Class),
    Reopened,
    ReopenFailed(Class),
    Time,
    Stop,
}

/// What there was among events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Signs {
    pub(crate) change: bool,
    pub(crate) bookmark: bool,
    pub(crate) end: bool,
    pub(crate) invalid: bool,
    pub(crate) error: Option<Class>,
}

impl Input {
    /// Bytes came that were no whole object: that is no transition.
    pub(crate) fn is_nothing(self) -> bool {
        self == Self::Events(Signs::default())
    }

    pub(crate) fn of(fact: &Fact<Body>) -> Self {
        match fact {
            Fact::ListOpened => Self::ListOpened,
            Fact::ListPart(ListPart::Items(_)) => Self::Items,
            Fact::ListPart(ListPart::End(end)) => Self::PageEnd { more: end.continue_token.is_some() },
            Fact::ListFailed(failure) => Self::ListFailed(failure.class()),
            Fact::WatchOpened => Self::WatchOpened,
            Fact::WatchFailed(failure) => Self::WatchFailed(failure.class()),
            Fact::Events(events) => Self::Events(signs(events)),
            Fact::Ended => Self::Ended,
            Fact::Broken(failure) => Self::Broken(failure.class()),
            Fact::Checked(Ok(version)) => Self::Checked { version: version.is_some() },
            Fact::Checked(Err(failure)) => Self::CheckFailed(failure.class()),
            Fact::Reopened => Self::Reopened,
            Fact::ReopenFailed(failure) => Self::ReopenFailed(failure.class()),
            Fact::TimePassed => Self::Time,
            Fact::Stop => Self::Stop,
        }
    }
}

fn signs(events: &[WatchEvent<Body>]) -> Signs {
    let mut signs = Signs::default();
    for event in events {
        match event {
            WatchEvent::Added(_) | WatchEvent::Modified(_) | WatchEvent::Deleted(_) => signs.change = true,
            WatchEvent::Bookmark { initial_events_end: true, .. } => signs.end = true,
            WatchEvent::Bookmark { .. } => signs.bookmark = true,
            WatchEvent::Invalid(_) => signs.invalid = true,
            WatchEvent::Error(status) => {
                signs.error.get_or_insert(reflector::source::refused(status, None).class());
            }
            WatchEvent::Unknown(_) => {}
        }
    }
    signs
}

/// What the machine asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    List { version: bool, limit: bool },
    Page,
    Streaming { version: bool },
    Watch { version: bool },
    Check,
    Reopen,
}

/// The requests that are open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Open {
    /// The main request is for a page after the first.
    page: bool,
    /// The main request asked for a version.
    version: bool,
    /// The main request was answered.
    opened: bool,
    check: bool,
    reopen: bool,
}

impl Open {
    pub(crate) fn of(cluster: &Cluster) -> Self {
        let mut open = Self::default();
        for id in cluster.open_as(|_| true) {
            let connection = &cluster.connections[id];
            match connection.role {
                Role::Check => open.check = true,
                Role::Reopen => open.reopen = true,
                Role::Main => {
                    open.page = connection.ask.is_next_page();
                    open.opened = connection.opened;
                    open.version = match &connection.ask {
                        Ask::List(options) => options.version.is_some(),
                        Ask::Watch(options) => options.version.is_some(),
                    };
                }
            }
        }
        open
    }
}

/// One step of the machine: what it was told, and what came of it.
#[derive(Debug)]
pub struct Step<'a> {
    pub(crate) before: &'a Status,
    pub(crate) after: &'a Status,
    pub(crate) input: Input,
    /// What was open before.
    pub(crate) was: Open,
    /// What is open after.
    pub(crate) is: Open,
    pub(crate) reports: &'a [ErrorReport],
    pub(crate) asked: &'a [Asked],
    pub(crate) resynced: bool,
}

/// The requests that were made since there were so many.
pub(crate) fn asked_since(cluster: &Cluster, since: usize) -> Vec<Asked> {
    let asked = |connection: &crate::cluster::connection::Connection| match (&connection.ask, connection.role)
    {
        (Ask::List(_), Role::Check) => Asked::Check,
        (Ask::List(options), _) if options.continue_token.is_some() => Asked::Page,
        (Ask::List(options), _) => {
            let version = options.version.as_ref().is_some_and(|version| version.to_string() != "0");
            Asked::List { version, limit: options.limit.is_some() }
        }
        (Ask::Watch(_), Role::Reopen) => Asked::Reopen,
        (Ask::Watch(options), _) if options.send_initial_events == Some(true) => {
            Asked::Streaming { version: options.version.is_some() }
        }
        (Ask::Watch(options), _) => Asked::Watch { version: options.version.is_some() },
    };
    cluster.connections[since..].iter().map(asked).collect()
}

impl Step<'_> {
    fn listing(&self) -> bool {
        matches!(self.before.phase, Phase::Syncing { method: SyncMethod::List, .. })
    }

    fn streaming(&self) -> bool {
        matches!(self.before.phase, Phase::Syncing { method: SyncMethod::Streaming, .. })
    }

    /// A watch is asked for, or open.
    fn watching(&self) -> bool {
        matches!(self.before.phase, Phase::Watching | Phase::Connecting)
    }

    fn waiting(&self) -> bool {
        matches!(self.before.phase, Phase::Waiting { .. } | Phase::Absent { .. } | Phase::Polling { .. })
    }

    /// It waits afterwards.
    fn waits(&self) -> bool {
        matches!(self.after.phase, Phase::Waiting { .. })
    }

    fn list_failed(&self, class: Class) -> bool {
        self.listing() && self.input == Input::ListFailed(class)
    }

    fn time(&self) -> bool {
        self.input == Input::Time
    }

    /// A streaming list was refused, broke, or was answered with an error event.
    fn streaming_failed(&self, class: Class) -> bool {
        self.streaming() && self.watch_failure() == Some(class)
    }

    fn watch_failed(&self, class: Class) -> bool {
        self.watching() && self.watch_failure() == Some(class)
    }

    fn watch_failure(&self) -> Option<Class> {
        match self.input {
            Input::WatchFailed(class) | Input::Broken(class) => Some(class),
            Input::Events(signs) => signs.error,
            _ => None,
        }
    }

    fn in_stream(&self) -> bool {
        matches!(self.input, Input::Events(Signs { error: Some(_), .. }))
    }

    fn events(&self) -> Signs {
        match self.input {
            Input::Events(signs) => signs,
            _ => Signs::default(),
        }
    }

    fn lists(&self) -> bool {
        self.asked.iter().any(|asked| matches!(asked, Asked::List { .. }))
    }

    fn streams(&self) -> bool {
        self.asked.iter().any(|asked| matches!(asked, Asked::Streaming { .. }))
    }

    /// The collection is read from the beginning.
    fn syncs(&self) -> bool {
        self.lists() || self.streams()
    }

    fn watches(&self) -> bool {
        self.asked.iter().any(|asked| matches!(asked, Asked::Watch { .. }))
    }

    fn asks(&self, what: Asked) -> bool {
        self.asked.contains(&what)
    }

    fn committed(&self) -> bool {
        self.after.counts.syncs > self.before.counts.syncs
    }

    fn reports(&self, class: Class) -> bool {
        self.reports.iter().any(|report| report.class == class)
    }

    /// What is read, and why.
    fn reads(&self, reason: SyncReason) -> bool {
        self.syncs() && matches!(self.after.phase, Phase::Syncing { reason: other, .. } if other == reason)
    }
}
