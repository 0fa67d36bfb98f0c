//! A server as a function of the request, and an hour in which the machine talks to it.

use std::{collections::VecDeque, time::Duration};

use crate::{
    ResourceVersion,
    protocol::{CheckResult, EventKind, Failure, Machine, Options, Order, Phase, Time, random::Random},
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ask {
    List,
    NextPage,
    Streaming,
    Watch,
    Check,
    Reopen,
}

#[derive(Clone, Debug)]
pub(super) enum Fact {
    Page {
        version: Option<ResourceVersion>,
        token: Option<String>,
    },
    ListFailed(Failure),
    WatchFailed(Failure),
    Open,
    /// One more change, at the version that is current then.
    Change(EventKind),
    /// An event with this version.
    Event(EventKind, Option<ResourceVersion>),
    Bookmark(Option<ResourceVersion>, bool),
    Error(Failure),
    Broken(Failure),
    Ended,
    Checked(CheckResult),
    Reopened,
    ReopenFailed(Failure),
}

pub(super) struct World {
    pub(super) version: u64,
    pub(super) asked: u64,
}

impl World {
    pub(super) fn rv(&self) -> Option<ResourceVersion> {
        ResourceVersion::new(&self.version.to_string())
    }
}

/// What is answered to a request, and how long after the fact before; what follows is silence.
pub(super) type Answer = Vec<(Duration, Fact)>;
pub(super) type Server<'a> = &'a dyn Fn(&mut World, Ask) -> Answer;

pub(super) const SOON: Duration = Duration::from_millis(5);

/// A server without faults: two pages, streaming lists, one change in 20 seconds, streams of five minutes.
pub(super) fn healthy(world: &mut World, ask: Ask) -> Answer {
    let page = |token: Option<&str>| {
        vec![(SOON, Fact::Page { version: world.rv(), token: token.map(ToOwned::to_owned) })]
    };
    let mut stream = vec![];
    for _ in 0..14 {
        stream.push((Duration::from_secs(20), Fact::Change(EventKind::Modified)));
    }
    stream.push((Duration::from_secs(20), Fact::Ended));
    match ask {
        Ask::List => page(Some("two")),
        Ask::NextPage => page(None),
        Ask::Check => vec![(SOON, Fact::Checked(Ok(world.rv())))],
        Ask::Watch => [vec![(SOON, Fact::Open)], stream].concat(),
        Ask::Reopen => [vec![(SOON, Fact::Reopened)], stream].concat(),
        Ask::Streaming => {
            let initial = vec![
                (SOON, Fact::Open),
                (SOON, Fact::Event(EventKind::Added, ResourceVersion::new("3"))),
                (SOON, Fact::Event(EventKind::Added, ResourceVersion::new("2"))),
                (SOON, Fact::Bookmark(world.rv(), true)),
            ];
            [initial, stream].concat()
        }
    }
}

/// The facts that are still to come on one connection, with their times.
type Pipe = Option<VecDeque<(Time, Fact)>>;

pub(super) struct Sim {
    pub(super) machine: Machine,
    pub(super) now: Time,
    pub(super) world: World,
    pub(super) requests: Vec<Time>,
    main: Pipe,
    second: Pipe,
    latency: Random,
}

impl Sim {
    pub(super) fn new(options: Options, seed: u64) -> Self {
        Self {
            machine: Machine::new(options, seed),
            now: Time::ZERO,
            world: World { version: 1_000_000, asked: 0 },
            requests: Vec::new(),
            main: None,
            second: None,
            latency: Random::new(!seed),
        }
    }

    /// The main request breaks off now, if one is open.
    pub(super) fn cut(&mut self) {
        if self.main.is_some() {
            let fact = Fact::Broken(Failure::transport("cut"));
            self.main = Some([(self.now, fact)].into());
        }
    }

    pub(super) fn run(&mut self, until: Time, server: Server<'_>) {
        self.run_to(until, server, |_| false);
    }

    /// Until this time, or until it is done; says whether it is.
    pub(super) fn run_to(&mut self, until: Time, server: Server<'_>, done: impl Fn(&Self) -> bool) -> bool {
        self.machine.start(self.now);
        self.carry_out(server);
        let mut steps_now = 0;
        while !done(self) {
            let next = |pipe: &Pipe| pipe.as_ref().and_then(|p| p.front()).map(|(at, _)| *at);
            let timeout = self.machine.poll_timeout().map(|(at, _)| at);
            let at = [timeout, next(&self.main), next(&self.second)].into_iter().flatten().min();
            let at = at.expect("it would sleep for ever").max(self.now);
            if at > until {
                self.now = until;
                return false;
            }
            steps_now = if at == self.now { steps_now + 1 } else { 0 };
            assert!(steps_now < 50, "a loop without time passing: {:?}", self.machine.status());
            self.now = at;
            if next(&self.main).is_some_and(|t| t <= at) {
                let (_, fact) = self.main.as_mut().unwrap().pop_front().unwrap();
                self.tell(fact, true);
            } else if next(&self.second).is_some_and(|t| t <= at) {
                let (_, fact) = self.second.as_mut().unwrap().pop_front().unwrap();
                self.tell(fact, false);
            } else {
                self.machine.handle_timeout(at);
            }
            self.carry_out(server);
        }
        true
    }

    fn tell(&mut self, fact: Fact, main: bool) {
        let (now, machine) = (self.now, &mut self.machine);
        let ends = !matches!(
            fact,
            Fact::Open | Fact::Change(_) | Fact::Event(..) | Fact::Bookmark(..) | Fact::Reopened
        );
        if ends {
            *(if main { &mut self.main } else { &mut self.second }) = None;
        }
        match fact {
            Fact::Page { version, token } => machine.handle_page(now, version, token),
            Fact::ListFailed(failure) => machine.handle_list_failed(now, failure),
            Fact::WatchFailed(failure) => machine.handle_watch_failed(now, failure),
            Fact::Open => machine.handle_watch_opened(now),
            Fact::Change(kind) => {
                self.world.version += 1;
                machine.handle_event(now, kind, self.world.rv().as_ref());
            }
            Fact::Event(kind, version) => {
                machine.handle_event(now, kind, version.as_ref());
            }
            Fact::Bookmark(version, end) => machine.handle_bookmark(now, version.as_ref(), end),
            Fact::Error(failure) => machine.handle_stream_error(now, failure),
            // A list that was cut, in the healthy part.
            Fact::Broken(failure) if matches!(machine.status().phase, Phase::Syncing { .. }) => {
                machine.handle_list_failed(now, failure.clone());
                machine.handle_stream_broken(now, failure);
            }
            Fact::Broken(failure) => machine.handle_stream_broken(now, failure),
            Fact::Ended => machine.handle_stream_ended(now),
            Fact::Checked(result) => machine.handle_checked(now, result),
            Fact::Reopened => {
                self.main = self.second.take();
                machine.handle_reopened(now);
            }
            Fact::ReopenFailed(failure) => machine.handle_reopen_failed(now, failure),
        }
    }

    fn carry_out(&mut self, server: Server<'_>) {
        while let Some(order) = self.machine.poll_order() {
            let (ask, main) = match order {
                Order::List(options) if options.continue_token.is_some() => (Ask::NextPage, true),
                Order::List(_) => (Ask::List, true),
                Order::Watch(options) if options.send_initial_events == Some(true) => (Ask::Streaming, true),
                Order::Watch(_) => (Ask::Watch, true),
                Order::Check(_) => (Ask::Check, false),
                Order::Reopen(_) => (Ask::Reopen, false),
                Order::Close => {
                    self.main = None;
                    continue;
                }
                Order::CloseSecond => {
                    self.second = None;
                    continue;
                }
                _ => continue,
            };
            let pipe = if main { &mut self.main } else { &mut self.second };
            assert!(pipe.is_none(), "{ask:?} although a request is open");
            self.requests.push(self.now);
            self.world.asked += 1;
            let mut at = self.now;
            let facts = server(&mut self.world, ask).into_iter().map(|(after, fact)| {
                let jitter = self.latency.between(Duration::ZERO, Duration::from_millis(20));
                at += after + if after == SOON { jitter } else { Duration::ZERO };
                (at, fact)
            });
            *pipe = Some(facts.collect());
        }
    }

    /// The most requests in any window of a minute.
    pub(super) fn most_per_minute(&self) -> usize {
        let minute = Duration::from_secs(60);
        let count = |start: usize| {
            let end = self.requests[start] + minute;
            self.requests[start..].iter().take_while(|at| **at < end).count()
        };
        (0..self.requests.len()).map(count).max().unwrap_or(0)
    }
}
