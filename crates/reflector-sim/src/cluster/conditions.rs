//! What is wrong at the moment: armed faults, the network, permissions, and how the plan changes them.

use std::time::Duration;

use super::{
    Cluster, Event,
    answer::write_change,
    connection::{Parcel, Role, Sent},
    history::Moment,
    object::Key,
};
use crate::plan::{Action, Fault, Format, Meets};

/// What is wrong at the moment.
#[derive(Default)]
pub(crate) struct Conditions {
    /// Faults for so many more requests.
    armed: Vec<(Fault, Meets, u8)>,
    /// Faults until a time.
    outages: Vec<(Fault, Meets, Duration)>,
    /// The token that servers accept, and everything later.
    pub(crate) token: u64,
    /// From when on there is a new token to be had.
    pub(crate) renewable_from: Duration,
    pub(crate) forbidden_until: Duration,
    pub(crate) absent_until: Duration,
    pub(crate) slow_until: Duration,
    /// Milliseconds.
    pub(crate) slowness: u64,
    pub(crate) partition_until: Duration,
    /// What is caught in the partition arrives after it.
    partition_late: bool,
    /// Revisions whose deletions are told in events that cannot be read whole.
    pub(crate) unreadable: Vec<u64>,
}

impl Cluster {
    /// Whether nothing passes: until when it waits, or that it is lost.
    pub(crate) fn is_cut_off(&self) -> Option<Option<Duration>> {
        let Conditions { partition_until, partition_late, .. } = self.conditions;
        (self.now < partition_until).then_some(partition_late.then_some(partition_until))
    }

    /// The fault that a request meets.
    pub(crate) fn fault_for(&mut self, id: usize) -> Option<Fault> {
        let now = self.now;
        let connection = &self.connections[id];
        let (role, list, page) = (connection.role, connection.ask.is_list(), connection.ask.is_next_page());
        let met = |meets: Meets| match meets {
            Meets::All => true,
            Meets::Lists => list && role == Role::Main,
            Meets::Pages => page,
            Meets::Watches => !list && role == Role::Main,
            Meets::Seconds => role != Role::Main,
            Meets::Reopens => role == Role::Reopen,
        };
        let Conditions { armed, outages, .. } = &mut self.conditions;
        outages.retain(|(_, _, until)| *until > now);
        if let Some(at) = armed.iter().position(|(_, meets, _)| met(*meets)) {
            let (fault, _, left) = &mut armed[at];
            let fault = *fault;
            *left = left.saturating_sub(1);
            if *left == 0 {
                armed.remove(at);
            }
            return Some(fault);
        }
        outages.iter().find(|(_, meets, _)| met(*meets)).map(|(fault, _, _)| *fault)
    }

    /// Nothing is wrong any more.
    pub(crate) fn heal(&mut self) {
        let Conditions { token, .. } = self.conditions;
        let unreadable = std::mem::take(&mut self.conditions.unreadable);
        self.conditions = Conditions { token, unreadable, ..Conditions::default() };
        for server in &mut self.servers {
            server.stalled_until = Duration::ZERO;
        }
        for server in 0..self.servers.len() {
            if !self.servers[server].is_up() || self.servers[server].branch != self.history.current() {
                self.restart(server, Duration::from_millis(100));
            }
        }
        self.spread();
    }

    /// Carries out an action that concerns the cluster; the rest is the reflector's.
    pub(crate) fn act(&mut self, action: &Action) {
        let millis = Duration::from_millis;
        match *action {
            Action::Put(key) => self.put(key),
            Action::Delete(key) => self.delete(key),
            Action::Recreate(key) => {
                self.delete(key);
                self.put(key);
            }
            Action::Flip(key) => self.flip(key),
            Action::Hot(key, times) => self.hot(key, times),
            Action::DeleteAll => self.delete_all(),
            Action::CreateAll => self.create_all(),
            Action::Other(revisions) => self.other(revisions),
            Action::Compact(caches) => {
                self.history.compacted = self.history.present().head;
                if caches {
                    self.servers.iter_mut().for_each(|server| server.window = server.rev);
                }
            }
            Action::Restart(server, down) => self.restart(server % self.servers.len(), millis(down)),
            Action::CacheStall(server, stall) => {
                let server = server % self.servers.len();
                self.servers[server].stalled_until = self.now + millis(stall);
            }
            Action::Restore(back, bump) => self.restore(back, bump),
            Action::DeleteCrd(absent) => self.delete_resource(millis(absent)),
            Action::Forbid(time, ends) => {
                self.conditions.forbidden_until = self.now + millis(time);
                if ends {
                    self.end_streams(true);
                }
            }
            Action::ExpireToken(time) => {
                self.conditions.token += 1;
                self.conditions.renewable_from = self.now + millis(time);
            }
            Action::Cut => self.end_streams(false),
            Action::HalfOpen => self.living().for_each(|id| self.connections[id].silent = true),
            Action::Partition(time, late) => {
                let until = self.now + millis(time);
                self.conditions.partition_until = self.conditions.partition_until.max(until);
                self.conditions.partition_late = late;
            }
            Action::Slow(each) => {
                self.conditions.slow_until = self.now + millis(60_000);
                self.conditions.slowness = each;
            }
            Action::Answer(fault, meets, n) => self.conditions.armed.push((fault, meets, n.max(1))),
            Action::Outage(fault, meets, time) => {
                self.conditions.outages.push((fault, meets, self.now + millis(time)));
            }
            Action::Inject(fault) => {
                for id in self.streams() {
                    self.send_error(id, fault);
                }
            }
            Action::CloseStreams => self.end_streams(true),
            Action::Replay => self.replay(),
            Action::Unreadable(key, deletes) => self.unreadable(key, deletes),
            Action::StoreFails(_)
            | Action::CommitFails
            | Action::Follow(_)
            | Action::Leave(_)
            | Action::Stop => {}
        }
    }

    fn streams(&self) -> Vec<usize> {
        self.open_as(|_| true).filter(|id| self.connections[*id].stream.is_some()).collect()
    }

    fn end_streams(&mut self, clean: bool) {
        for id in self.living() {
            let connection = &self.connections[id];
            if connection.is_open() && (!clean || connection.stream.is_some()) {
                self.end_stream(id, clean);
            }
        }
    }

    fn replay(&mut self) {
        for id in self.streams() {
            let server = &self.servers[self.connections[id].server];
            let format = self.connections[id].format;
            let Some(stream) = &self.connections[id].stream else { continue };
            // A server that is behind what the stream began with has nothing to repeat.
            if stream.initial.is_some() || stream.cursor > server.rev {
                continue;
            }
            let mut bytes = stream.last.clone();
            if bytes.is_empty() {
                // What is gone would come back: against servers that repeat that there is only `relist_every`.
                let branch = &self.history.branches[server.branch];
                let state = branch.at(stream.cursor);
                let is_there = |moment: &&Moment| {
                    let new = moment.new.as_ref();
                    new.is_some_and(|new| {
                        state[usize::from(new.key)]
                            .as_ref()
                            .is_some_and(|held| held.uid == new.uid && (held.selected || !stream.selected))
                    })
                };
                let before = branch.between(stream.cursor.saturating_sub(12), stream.cursor);
                for moment in before.iter().filter(is_there) {
                    write_change(format, moment, stream.selected, false, &mut bytes);
                }
            }
            if !bytes.is_empty() {
                self.send_bytes(id, &bytes, Sent { at: self.now, as_of: Duration::ZERO });
            }
        }
    }

    fn unreadable(&mut self, key: Key, deletes: bool) {
        if deletes {
            self.delete(key);
            self.conditions.unreadable.push(self.history.present().head);
            return;
        }
        for id in self.streams() {
            if self.connections[id].format == Format::Json
                && self.connections[id].stream.as_ref().is_some_and(|stream| stream.initial.is_none())
            {
                let event = br#"{"type":"ADDED","object":{"kind":"ConfigMap","apiVersion":"v1","metadata":{"labels":7}}}"#;
                self.send_bytes(id, event, Sent { at: self.now, as_of: Duration::ZERO });
            }
        }
    }

    fn restore(&mut self, back: u64, bump: bool) {
        self.history.restore(self.now, back, bump);
        self.disagree_until = Duration::MAX;
        for server in 0..self.servers.len() {
            // Whoever bumps the revisions restarts everything; else a server may go on for a while with what it has.
            let wait = if bump { Duration::ZERO } else { self.within(60_000) };
            self.schedule(self.now + wait, Event::Restart(server));
        }
    }

    /// All that is under way on a connection is lost, as after a reset.
    pub(crate) fn stream_over(&mut self, id: usize) {
        if self.connections[id].stream.is_some() {
            self.end_stream(id, true);
        }
    }

    /// What waited for the end of a partition arrives, in order; `None` if there is nothing, or if another one began.
    pub(crate) fn released(&mut self, id: usize) -> Option<Parcel> {
        if !self.connections[id].is_open() || self.connections[id].silent {
            return None;
        }
        match self.is_cut_off() {
            None => self.connections[id].held.pop_front(),
            Some(Some(until)) => {
                self.schedule(until, Event::Released(id));
                None
            }
            Some(None) => {
                self.connections[id].silent = true;
                None
            }
        }
    }

    /// Something reaches the client; `None` if it does not, or later.
    pub(crate) fn arrived(&mut self, id: usize, parcel: Parcel) -> Option<Parcel> {
        if !self.connections[id].is_open() || self.connections[id].silent {
            return None;
        }
        match self.is_cut_off() {
            None if self.connections[id].held.is_empty() => Some(parcel),
            // What waits for the end of a partition keeps its order.
            None | Some(Some(_)) => {
                self.connections[id].held.push_back(parcel);
                self.schedule(self.conditions.partition_until, Event::Released(id));
                None
            }
            Some(None) => {
                self.connections[id].silent = true;
                None
            }
        }
    }
}
