//! What etcd held, at every revision, on every branch that a restore made.

use std::{rc::Rc, time::Duration};

use super::object::{KEYS, Key, Record};

/// The objects at one revision, by key.
pub(crate) type State = Rc<Vec<Option<Rc<Record>>>>;

/// One write.
#[derive(Clone)]
pub(crate) struct Moment {
    pub(crate) rev: u64,
    pub(crate) at: Duration,
    pub(crate) old: Option<Rc<Record>>,
    pub(crate) new: Option<Rc<Record>>,
    /// What there was after it.
    pub(crate) state: State,
}

/// A history that nothing interrupts.
#[derive(Clone)]
pub(crate) struct Branch {
    moments: Vec<Moment>,
    /// The revision now; writes of other types move it too.
    pub(crate) head: u64,
    /// Where it leaves the branch before it.
    fork: u64,
    /// Its own revisions are later than this.
    pub(crate) began: u64,
    /// When a restore ended it.
    pub(crate) ended: Option<Duration>,
}

impl Branch {
    /// What there was at a revision.
    pub(crate) fn at(&self, rev: u64) -> State {
        let next = self.moments.partition_point(|moment| moment.rev <= rev);
        match next.checked_sub(1) {
            Some(last) => Rc::clone(&self.moments[last].state),
            None => empty(),
        }
    }

    /// The writes after a revision, up to another.
    pub(crate) fn between(&self, after: u64, to: u64) -> &[Moment] {
        let begin = self.moments.partition_point(|moment| moment.rev <= after);
        let end = self.moments.partition_point(|moment| moment.rev <= to);
        &self.moments[begin.min(end)..end]
    }

    /// Until when the state of a revision was the present one: until the next write, or the end of the branch.
    pub(crate) fn present_until(&self, rev: u64) -> Option<Duration> {
        let next = self.moments.partition_point(|moment| moment.rev <= rev);
        self.moments.get(next).map(|moment| moment.at).or(self.ended)
    }

    pub(crate) fn now(&self) -> State {
        self.at(self.head)
    }
}

fn empty() -> State {
    Rc::new(vec![None; usize::from(KEYS)])
}

/// All branches.
pub(crate) struct History {
    pub(crate) branches: Vec<Branch>,
    uids: u64,
    writes: u64,
    /// Reads of what is older are refused.
    pub(crate) compacted: u64,
}

impl History {
    pub(crate) fn new() -> Self {
        let first = Branch { moments: Vec::new(), head: 100, fork: 0, began: 0, ended: None };
        Self { branches: vec![first], uids: 0, writes: 0, compacted: 0 }
    }

    /// The number of the branch that goes on.
    pub(crate) fn current(&self) -> usize {
        self.branches.len() - 1
    }

    pub(crate) fn present(&self) -> &Branch {
        &self.branches[self.current()]
    }

    pub(crate) fn get(&self, key: Key) -> Option<Rc<Record>> {
        self.present().now()[usize::from(key)].clone()
    }

    pub(crate) fn skip(&mut self, revisions: u64) {
        let current = self.current();
        self.branches[current].head += revisions;
    }

    /// Creates or changes an object.
    pub(crate) fn put(&mut self, at: Duration, key: Key, selected: bool, tier: u8) {
        let old = self.get(key);
        let uid = old.as_ref().map(|old| old.uid.clone());
        self.writes += 1;
        let rev = self.present().head + 1;
        if uid.is_none() {
            self.uids += 1;
        }
        let mut record = Record::new(key, self.uids, rev, self.writes, selected, tier);
        if let Some(uid) = uid {
            record.uid = uid;
        }
        self.push(at, key, old, Some(Rc::new(record)));
    }

    /// Deletes an object, if it is there.
    pub(crate) fn delete(&mut self, at: Duration, key: Key) {
        if let Some(old) = self.get(key) {
            self.push(at, key, Some(old), None);
        }
    }

    fn push(&mut self, at: Duration, key: Key, old: Option<Rc<Record>>, new: Option<Rc<Record>>) {
        let mut state = Vec::clone(&self.present().now());
        state[usize::from(key)].clone_from(&new);
        let current = self.current();
        let branch = &mut self.branches[current];
        branch.head += 1;
        branch.moments.push(Moment { rev: branch.head, at, old, new, state: Rc::new(state) });
    }

    /// Restores a snapshot; the revisions go on from there, or beyond what they were.
    pub(crate) fn restore(&mut self, at: Duration, back: u64, bump: bool) {
        let current = self.current();
        let present = &mut self.branches[current];
        present.ended = Some(at);
        let mut branch = present.clone();
        branch.ended = None;
        let fork = branch.head.saturating_sub(back).max(branch.fork).max(100);
        branch.moments.retain(|moment| moment.rev <= fork);
        let before = branch.head;
        branch.fork = fork;
        branch.head = if bump { before + 1000 } else { fork };
        branch.began = branch.head;
        // A bumped store is marked compacted, so that no watch goes on from what was.
        self.compacted = if bump { branch.head } else { self.compacted.min(fork) };
        self.branches.push(branch);
    }
}
