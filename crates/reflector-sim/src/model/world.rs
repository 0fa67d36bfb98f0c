//! The state: the machine, its copy, the server, what is in flight, and what may still happen.

use std::{
    fmt,
    hash::{DefaultHasher, Hash, Hasher},
};

use reflector::protocol::{ErrorReport, Machine, Phase, Time};

use super::{
    copy::Copy,
    fault::Fault,
    scope::{Scope, Streaming},
    server::{Server, Write, name},
};

/// The main request.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Main {
    None,
    List(ListAsk),
    Watch(WatchAsk),
    Stream(Stream),
}

/// The second request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Second {
    None,
    Check,
    Reopen(u64),
}

/// A list that was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct ListAsk {
    /// Zero is any.
    pub(super) version: Option<u64>,
    pub(super) limit: Option<u32>,
    pub(super) token: Option<Token>,
}

/// Where a list goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Token {
    pub(super) epoch: u8,
    pub(super) version: u64,
    pub(super) key: usize,
}

/// A watch that was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct WatchAsk {
    pub(super) version: Option<u64>,
    pub(super) streaming: bool,
}

/// A watch that is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Stream {
    /// The version up to which everything was sent.
    pub(super) sent: u64,
    pub(super) feed: Feed,
}

/// What a stream sends next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Feed {
    /// The state, from this key on, and then perhaps a bookmark.
    State { next: usize, bookmark: bool },
    /// The bookmark that ends the initial events; changes may come before it.
    Bookmark,
    /// Changes.
    Live,
}

/// One thing that happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Somebody writes.
    Write(Write),
    /// Etcd is restored as of this version; all streams break off.
    Restore(u64),
    /// The resource is deleted.
    Remove,
    /// It comes back.
    Add,
    /// The main request is answered with the most recent state.
    Answer,
    /// The main request is answered with the oldest state that it allows.
    AnswerLagging,
    /// The stream brings its next object or change.
    Deliver,
    /// The bookmark that ends the initial events comes.
    EndOfInitial,
    /// A bookmark comes.
    Bookmark,
    /// The second request is answered.
    AnswerSecond,
    /// A main request that had fallen silent wakes.
    Wake,
    /// A second request that had fallen silent wakes.
    WakeSecond,
    /// Nothing comes until the machine's deadline.
    Pass,
    /// Something goes wrong with the main request.
    Fault(Fault),
    /// Something goes wrong with the second request.
    FaultSecond(Fault),
}

/// One state of the whole.
#[derive(Clone)]
pub struct World {
    pub(super) machine: Machine,
    pub(super) now: Time,
    pub(super) copy: Copy,
    pub(super) server: Server,
    pub(super) main: Main,
    pub(super) main_hung: bool,
    pub(super) second: Second,
    pub(super) second_hung: bool,
    pub(super) faults: Option<u8>,
    pub(super) writes: u8,
    pub(super) restores: u8,
    pub(super) removals: u8,
    /// The store refuses what comes next.
    pub(super) refuses: bool,
    pub(super) past: Past,
    /// What the machine reported in the last step.
    pub(super) reports: Vec<ErrorReport>,
    /// What happened in the last step, in words, if a story is told.
    pub(super) story: Option<Vec<String>>,
}

/// What is known of the past, to judge the present by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Past {
    /// The copy was complete at least once.
    pub(super) held: bool,
    /// The server's epoch when the copy was last made.
    pub(super) epoch: Option<u8>,
    /// The copy is of two histories, and the machine cannot know.
    pub(super) mixed: bool,
    /// The store refused a change since the copy was last made.
    pub(super) refused: bool,
    /// The key from which the last page was asked for.
    pub(super) page: usize,
    /// Requests since time last passed.
    pub(super) burst: u8,
}

impl World {
    /// The beginning: the machine has just started.
    ///
    /// # Errors
    ///
    /// If it breaks a rule at once.
    pub fn new(scope: &Scope) -> Result<Self, String> {
        let mut world = Self {
            machine: Machine::new(scope.options.clone(), 0),
            now: Time::ZERO,
            copy: Copy::default(),
            server: Server::new(),
            main: Main::None,
            main_hung: false,
            second: Second::None,
            second_hung: false,
            faults: scope.faults,
            writes: scope.writes,
            restores: scope.restores,
            removals: scope.removals,
            refuses: false,
            past: Past::default(),
            reports: Vec::new(),
            story: None,
        };
        world.machine.start(world.now);
        world.settle(scope)?;
        Ok(world)
    }

    /// A number that is the same for states that have the same future.
    #[must_use]
    pub fn digest(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.machine.fingerprint(self.now, &mut hasher);
        (&self.copy, &self.server, &self.main, self.main_hung, self.second, self.second_hung)
            .hash(&mut hasher);
        (self.faults, self.writes, self.restores, self.removals, self.refuses, self.past).hash(&mut hasher);
        hasher.finish()
    }

    /// Everything that can happen now.
    #[must_use]
    pub fn actions(&self, scope: &Scope) -> Vec<Action> {
        let mut all = Vec::new();
        if self.server.absent {
            all.push(Action::Add);
        }
        if self.writes > 0 && !self.server.absent && self.may_write(scope) {
            all.extend(self.server.writes().map(Action::Write));
        }
        if self.restores > 0 && !self.server.absent {
            all.extend((1..self.server.revision()).map(Action::Restore));
        }
        if self.removals > 0 && !self.server.absent {
            all.push(Action::Remove);
        }
        self.main_actions(scope, &mut all);
        self.second_actions(scope, &mut all);
        if self.is_quiet() {
            all.push(Action::Pass);
        }
        all
    }

    /// What is next if nothing goes wrong any more, the server answers everything, and nobody writes.
    #[must_use]
    pub fn good_action(&self, scope: &Scope) -> Action {
        let all = self.actions(scope);
        let order =
            [Action::Add, Action::Answer, Action::Deliver, Action::EndOfInitial, Action::AnswerSecond];
        order.into_iter().find(|action| all.contains(action)).unwrap_or(Action::Pass)
    }

    /// Whether the copy is what the server has, and the machine knows it and follows: by a watch, or by polling where the
    /// server has said that the resource cannot be watched.
    #[must_use]
    pub fn is_good(&self) -> bool {
        let status = self.machine.status();
        let watches = matches!(self.main, Main::Stream(Stream { feed: Feed::Live, .. })) && !self.main_hung;
        let polls = matches!(status.phase, Phase::Polling { .. });
        let version = status.version.as_ref().and_then(number);
        (watches || polls)
            && status.synced
            && !self.server.absent
            && self.copy.content == self.server.content()
            && version == Some(self.server.revision())
    }

    /// A restored server that gives out versions as high as the copy's cannot be told from one that was not restored.
    fn may_write(&self, scope: &Scope) -> bool {
        let same = self.past.epoch.is_none_or(|epoch| epoch == self.server.epoch);
        let held = self.machine.version().and_then(number);
        scope.catch_up || same || held.is_none_or(|held| self.server.revision() + 1 < held)
    }

    fn main_actions(&self, scope: &Scope, all: &mut Vec<Action>) {
        if self.main == Main::None {
            return;
        }
        if self.main_hung {
            return all.push(Action::Wake);
        }
        match &self.main {
            Main::None => {}
            Main::List(ask) => {
                all.push(Action::Answer);
                if ask.token.is_none() && ask.version.is_some_and(|floor| floor < self.server.revision()) {
                    all.push(Action::AnswerLagging);
                }
            }
            Main::Watch(ask) => {
                all.push(Action::Answer);
                let is_state = ask.streaming && scope.streaming == Streaming::Works;
                if is_state && ask.version.is_some_and(|floor| floor < self.server.revision()) {
                    all.push(Action::AnswerLagging);
                }
            }
            Main::Stream(stream) => {
                let pending = stream.sent < self.server.revision();
                if pending || matches!(stream.feed, Feed::State { .. }) {
                    all.push(Action::Deliver);
                }
                match stream.feed {
                    Feed::State { .. } => {}
                    Feed::Bookmark => all.push(Action::EndOfInitial),
                    Feed::Live if pending => {}
                    Feed::Live => all.push(Action::Bookmark),
                }
            }
        }
        if self.faults != Some(0) {
            let fits = scope.kinds.iter().filter(|fault| self.fits_main(**fault));
            all.extend(fits.map(|fault| Action::Fault(*fault)));
        }
    }

    fn fits_main(&self, fault: Fault) -> bool {
        match (&self.main, fault) {
            (Main::None, _) => false,
            (_, Fault::Hang) => true,
            (_, Fault::StoreRefuses) => !self.refuses,
            (Main::List(ask), Fault::TooLarge) => ask.version.is_some_and(|version| version > 0),
            (Main::List(ask), Fault::Older) => ask.version.is_some_and(|version| version > 1),
            (Main::List(ask), Fault::TokenIgnored) => ask.token.is_some(),
            (Main::List(_), fault) => fault.failure().is_some(),
            (Main::Watch(ask), Fault::TooLarge) => ask.version.is_some_and(|version| version > 0),
            (Main::Watch(ask), Fault::Older) => {
                ask.streaming && ask.version.is_some_and(|version| version > 1)
            }
            (Main::Watch(ask), Fault::Ignored) => ask.streaming,
            (Main::Watch(_), fault) => fault.failure().is_some() && fault != Fault::CutPage,
            (Main::Stream(stream), Fault::BookmarkLost) => stream.feed == Feed::Bookmark,
            (Main::Stream(_), Fault::End | Fault::EndLater) => true,
            (Main::Stream(_), fault) => fault.is_stream_error() || fault.breaks_stream(),
        }
    }

    fn second_actions(&self, scope: &Scope, all: &mut Vec<Action>) {
        if self.second == Second::None {
            return;
        }
        if self.second_hung {
            return all.push(Action::WakeSecond);
        }
        all.push(Action::AnswerSecond);
        if self.faults != Some(0) {
            let is_reopen = matches!(self.second, Second::Reopen(_));
            let fits = scope.kinds.iter().filter(|fault| match fault {
                Fault::Hang => true,
                Fault::TooLarge | Fault::Expired => is_reopen,
                Fault::CutPage => false,
                fault => fault.failure().is_some(),
            });
            all.extend(fits.map(|fault| Action::FaultSecond(*fault)));
        }
    }

    /// Nothing that was asked for is still to come, as far as the machine is concerned.
    fn is_quiet(&self) -> bool {
        let main = match &self.main {
            Main::None => true,
            Main::Stream(stream) => {
                self.main_hung || (stream.feed == Feed::Live && stream.sent >= self.server.revision())
            }
            Main::List(_) | Main::Watch(_) => self.main_hung,
        };
        main && (self.second == Second::None || self.second_hung)
    }
}

/// The number of a version of this server.
pub(super) fn number(version: &reflector::ResourceVersion) -> Option<u64> {
    version.to_string().parse().ok()
}

impl Token {
    pub(super) fn text(self) -> String {
        format!("{}.{}.{}", self.epoch, self.version, self.key)
    }

    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('.');
        let epoch = parts.next()?.parse().ok()?;
        let version = parts.next()?.parse().ok()?;
        Some(Self { epoch, version, key: parts.next()?.parse().ok()? })
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Write(write) => write!(f, "{write}"),
            Self::Restore(version) => {
                write!(f, "etcd is restored as of version {version}, and all streams break off")
            }
            Self::Remove => f.write_str("the resource is deleted"),
            Self::Add => f.write_str("the resource comes back"),
            Self::Answer => f.write_str("the server answers"),
            Self::AnswerLagging => f.write_str("the server answers with the oldest state that is allowed"),
            Self::Deliver => f.write_str("the stream brings its next object"),
            Self::EndOfInitial => f.write_str("the bookmark that ends the initial events comes"),
            Self::Bookmark => f.write_str("a bookmark comes"),
            Self::AnswerSecond => f.write_str("the server answers the second request"),
            Self::Wake => f.write_str("the main request wakes"),
            Self::WakeSecond => f.write_str("the second request wakes"),
            Self::Pass => f.write_str("nothing comes until the deadline"),
            Self::Fault(fault) => write!(f, "the server {fault}"),
            Self::FaultSecond(fault) => write!(f, "to the second request the server {fault}"),
        }
    }
}

/// The name of what a stream or a list tells, for stories.
pub(super) fn told(key: usize, version: u64) -> String {
    format!("{}@{version}", name(key))
}
