//! An API server: a watch cache that follows etcd at some distance.

use std::time::Duration;

use fastrand::Rng;

use super::{Cluster, Event, history::History};

/// One API server.
pub(crate) struct Server {
    /// The branch of the history that its cache follows.
    pub(crate) branch: usize,
    /// Up to where it has followed.
    pub(crate) rev: u64,
    /// Watches from before this are too old for it.
    pub(crate) window: u64,
    pub(crate) incarnation: u32,
    down: bool,
    /// Its cache stands still until then.
    pub(crate) stalled_until: Duration,
    /// When the last write that is under way to it arrives: they keep their order.
    last_arrival: Duration,
}

impl Server {
    pub(crate) fn new(history: &History, rng: &mut Rng) -> Self {
        let rev = history.present().head;
        Self {
            branch: history.current(),
            rev,
            window: rev,
            incarnation: rng.u32(0..1000),
            down: false,
            stalled_until: Duration::ZERO,
            last_arrival: Duration::ZERO,
        }
    }

    pub(crate) fn is_up(&self) -> bool {
        !self.down
    }
}

/// What a server has sent is under way, or read by the client, for this long at the most: no connection that is silent
/// for longer is trusted.
pub(crate) const SHOWN: Duration = Duration::from_secs(100);

impl Cluster {
    /// As of when the content of a server's cache is the present one.
    pub(crate) fn as_of(&self, server: usize) -> Duration {
        let Server { branch, rev, .. } = self.servers[server];
        self.history.branches[branch].present_until(rev).unwrap_or(self.now)
    }

    /// The latest revision is on its way to the caches.
    pub(crate) fn spread(&mut self) {
        let (branch, rev) = (self.history.current(), self.history.present().head);
        for server in 0..self.servers.len() {
            if self.servers[server].branch != branch || self.servers[server].down {
                continue;
            }
            let lag = self.within(self.nature.lag);
            let incarnation = self.servers[server].incarnation;
            let at = (self.now + lag).max(self.servers[server].last_arrival);
            self.servers[server].last_arrival = at;
            self.schedule(at, Event::Follow { server, incarnation, branch, rev });
        }
    }

    /// Whether a restored etcd has given out this revision a second time.
    pub(crate) fn has_overtaken(&self, rev: u64) -> bool {
        self.history.branches.iter().skip(1).any(|branch| branch.began < rev && branch.head >= rev)
    }

    /// Whether a server still shows a history that a restore has ended, or what it has sent may still be under way.
    pub(crate) fn disagrees(&self) -> bool {
        self.now < self.disagree_until
    }

    pub(crate) fn follow(&mut self, server: usize, incarnation: u32, branch: usize, rev: u64) {
        let at = &mut self.servers[server];
        if at.incarnation != incarnation || at.branch != branch {
            return;
        }
        if at.stalled_until > self.now {
            let until = at.stalled_until;
            return self.schedule(until, Event::Follow { server, incarnation, branch, rev });
        }
        at.rev = at.rev.max(rev);
        for id in self.living() {
            if self.connections[id].is_served_by(server) {
                self.flush(id);
            }
        }
    }

    pub(crate) fn restart(&mut self, server: usize, down: Duration) {
        let clean = self.rng.bool();
        let at = &mut self.servers[server];
        at.incarnation += 1;
        at.down = true;
        for id in self.living() {
            if self.connections[id].server == server {
                self.end_stream(id, clean);
            }
        }
        self.schedule(self.now + down, Event::Up(server));
    }

    /// The server is up, with a cache that it has just filled.
    pub(crate) fn up(&mut self, server: usize) {
        let (branch, rev) = (self.history.current(), self.history.present().head);
        let at = &mut self.servers[server];
        at.down = false;
        at.stalled_until = Duration::ZERO;
        (at.branch, at.rev, at.window) = (branch, rev, rev);
        at.last_arrival = self.now;
        if self.history.current() > 0 && self.servers.iter().all(|server| server.branch == branch) {
            self.disagree_until = self.disagree_until.min(self.now + SHOWN);
        }
    }
}
