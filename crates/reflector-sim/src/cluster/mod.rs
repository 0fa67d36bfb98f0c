//! The cluster: etcd, API servers with watch caches that lag, and what is between them and the client.
//!
//! It is light, since many thousands of schedules a minute are to run on it, and tells the whole truth to whoever checks.

pub(crate) mod answer;
pub(crate) mod conditions;
pub(crate) mod connection;
pub(crate) mod history;
pub(crate) mod object;
pub(crate) mod server;
pub(crate) mod writers;

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, VecDeque},
    ops::Range,
    time::Duration,
};

use fastrand::Rng;
use reflector::{
    driver::Requests,
    source::{ListOptions, WatchOptions},
};

use self::{
    conditions::Conditions,
    connection::{Ask, Connection, Parcel, Role},
    history::History,
    server::Server,
};
use crate::plan::{Millis, Nature, Plan};

/// Something that will happen.
#[derive(Debug)]
pub(crate) enum Event {
    /// A step of the plan.
    Step(usize),
    /// A write reaches the watch cache of a server.
    Follow { server: usize, incarnation: u32, branch: usize, rev: u64 },
    /// A server goes down, since etcd was restored.
    Restart(usize),
    /// A server is up again.
    Up(usize),
    /// The resource is back.
    Recreated,
    /// A request reaches its server.
    Arrive(usize),
    /// Something reaches the client.
    Deliver(usize, Parcel),
    /// A partition is over, and what waited for that arrives on a connection.
    Released(usize),
    /// A server thinks of a bookmark.
    Bookmark(usize),
    /// A server or a proxy ends a stream.
    StreamOver(usize),
    /// A write of a burst.
    Write(object::Key),
    /// A subscriber looks at its events.
    Look(usize),
    /// The consumer of the queue takes something.
    Pop,
}

struct Scheduled {
    at: Duration,
    number: u64,
    event: Event,
}

impl PartialEq for Scheduled {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

impl Eq for Scheduled {}

impl PartialOrd for Scheduled {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Scheduled {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        Reverse((self.at, self.number)).cmp(&Reverse((other.at, other.number)))
    }
}

/// Everything outside of the reflector.
pub(crate) struct Cluster {
    pub(crate) now: Duration,
    pub(crate) nature: Nature,
    pub(crate) history: History,
    pub(crate) servers: Vec<Server>,
    pub(crate) connections: Vec<Connection>,
    /// All connections before this one are closed.
    closed: usize,
    pub(crate) conditions: Conditions,
    agenda: BinaryHeap<Scheduled>,
    scheduled: u64,
    seed: u64,
    pub(crate) rng: Rng,
    /// The requests of the last minute, pages after the first left out.
    pub(crate) requests: VecDeque<Duration>,
    pub(crate) requests_most: usize,
    /// The token that the client uses.
    token: u64,
    /// Until then servers may show histories that are no more.
    disagree_until: Duration,
    /// What happened, if somebody wants to read it.
    pub(crate) story: Option<Vec<String>>,
}

impl Cluster {
    pub(crate) fn new(plan: &Plan, story: bool) -> Self {
        let mut rng = Rng::with_seed(plan.seed);
        let history = History::new();
        let servers = (0..plan.nature.servers.clamp(1, 3)).map(|_| Server::new(&history, &mut rng)).collect();
        let mut cluster = Self {
            now: Duration::ZERO,
            nature: plan.nature.clone(),
            history,
            servers,
            connections: Vec::new(),
            closed: 0,
            conditions: Conditions::default(),
            agenda: BinaryHeap::new(),
            scheduled: 0,
            seed: plan.seed,
            rng,
            requests: VecDeque::new(),
            requests_most: 0,
            token: 0,
            disagree_until: Duration::ZERO,
            story: story.then(Vec::new),
        };
        for key in 0..plan.nature.objects.min(object::KEYS) {
            cluster.put(key);
        }
        for (number, step) in plan.steps.iter().enumerate() {
            cluster.schedule(Duration::from_millis(step.at), Event::Step(number));
        }
        cluster
    }

    pub(crate) fn schedule(&mut self, at: Duration, event: Event) {
        self.scheduled += 1;
        self.agenda.push(Scheduled { at: at.max(self.now), number: self.scheduled, event });
    }

    pub(crate) fn next_at(&self) -> Option<Duration> {
        self.agenda.peek().map(|scheduled| scheduled.at)
    }

    pub(crate) fn next(&mut self) -> Option<Event> {
        self.agenda.pop().map(|scheduled| scheduled.event)
    }

    /// A part of a time span, by chance.
    pub(crate) fn within(&mut self, most: Millis) -> Duration {
        Duration::from_micros(self.rng.u64(0..=most * 1000))
    }

    /// A line for whoever reads the story.
    pub(crate) fn tell(&mut self, line: impl FnOnce() -> String) {
        if let Some(story) = &mut self.story {
            let now = self.now.as_millis();
            story.push(format!("{:>8}.{:03}  {}", now / 1000, now % 1000, line()));
        }
    }

    fn open(&mut self, ask: Ask, role: Role, refresh: bool) {
        if refresh && self.now >= self.conditions.renewable_from {
            self.token = self.conditions.token;
        }
        let id = self.connections.len();
        while self.connections.get(self.closed).is_some_and(|connection| !connection.is_open()) {
            self.closed += 1;
        }
        if !ask.is_next_page() {
            self.count_request();
        }
        let up: Vec<_> = (0..self.servers.len()).filter(|server| self.servers[*server].is_up()).collect();
        let server = if up.is_empty() { 0 } else { up[self.rng.usize(0..up.len())] };
        self.tell(|| format!("  request {id} ({role:?}) to server {server}: {ask}"));
        let rng = Rng::with_seed(self.seed ^ (id as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let incarnation = self.servers[server].incarnation;
        let format = self.nature.format;
        self.connections.push(Connection::new(
            ask,
            role,
            server,
            incarnation,
            self.token,
            format,
            self.now,
            rng,
        ));
        let at = self.now + self.delay(id);
        self.schedule(at, Event::Arrive(id));
    }

    fn count_request(&mut self) {
        let minute = Duration::from_secs(60);
        while self.requests.front().is_some_and(|at| *at + minute <= self.now) {
            self.requests.pop_front();
        }
        self.requests.push_back(self.now);
        self.requests_most = self.requests_most.max(self.requests.len());
    }

    fn drop_role(&mut self, is: fn(Role) -> bool) {
        for connection in &mut self.connections[self.closed..] {
            if connection.is_open() && is(connection.role) {
                connection.close();
            }
        }
    }

    /// The open connections of a role.
    pub(crate) fn open_as(&self, is: fn(Role) -> bool) -> impl Iterator<Item = usize> + '_ {
        self.living().filter(move |id| {
            let connection = &self.connections[*id];
            connection.is_open() && is(connection.role)
        })
    }

    /// The connections that may be open.
    fn living(&self) -> Range<usize> {
        self.closed..self.connections.len()
    }
}

impl Requests for Cluster {
    fn list(&mut self, options: ListOptions, refresh: bool) {
        self.open(Ask::List(options), Role::Main, refresh);
    }

    fn watch(&mut self, options: WatchOptions, refresh: bool) {
        self.open(Ask::Watch(options), Role::Main, refresh);
    }

    fn check(&mut self, options: ListOptions, refresh: bool) {
        self.open(Ask::List(options), Role::Check, refresh);
    }

    fn reopen(&mut self, options: WatchOptions, refresh: bool) {
        self.open(Ask::Watch(options), Role::Reopen, refresh);
    }

    fn close(&mut self) {
        self.drop_role(|role| role == Role::Main);
    }

    fn close_second(&mut self) {
        self.drop_role(|role| role != Role::Main);
    }
}
