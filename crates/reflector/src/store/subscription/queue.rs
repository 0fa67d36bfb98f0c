//! The queue of one subscriber: the writer pushes, the subscriber pops, and neither waits for the other.

use std::{
    collections::{HashSet, VecDeque},
    sync::{Arc, PoisonError},
    task::{Context, Poll, Waker},
};

use super::{
    super::{root::Root, step::Step},
    Lag, Options,
    pending::{Line, Pending},
    policy::{Policy, ShortLived, WhenFull},
    walk::Walk,
};
use crate::{
    Object, ObjectKey, ResourceVersion,
    sync::{Mutex, MutexGuard},
};

/// Steps wait as they came until somebody looks at them, or until there are so many.
const UNSORTED_MAX: usize = 1024;

/// One thing to deliver.
pub(super) enum Item<K> {
    /// An object that was there when the subscriber came.
    Present(Object<K>),
    Pending(Pending<K>),
    Synced,
    Bookmark(ResourceVersion),
    Resync(Object<K>),
}

/// Why there is nothing more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The reflector has ended; everything that it knew has been delivered.
    Stopped,
    /// The subscriber was too slow for its [`Policy::Every`], and wanted to end then.
    Lagged,
}

/// See the module.
pub(super) struct Queue<K> {
    state: Mutex<State<K>>,
    options: Options,
}

struct State<K> {
    /// What was there at the start. Delivered before everything else.
    present: Option<Walk<K>>,
    /// Steps that have not been put in line yet.
    unsorted: Vec<Arc<[Step<K>]>>,
    unsorted_len: usize,
    line: Line<K>,
    /// The sync is told when everything before this ticket has been taken.
    synced_at: Option<u64>,
    /// It has been told.
    synced: bool,
    /// The first and the latest bookmark, each told when everything before its ticket has been taken.
    bookmarks: VecDeque<(u64, ResourceVersion)>,
    resync: Option<Resync<K>>,
    ended: Option<Ended>,
    waker: Option<Waker>,
    /// Writers that wait for room.
    writers: Vec<Waker>,
}

/// A resync under way: delivered once everything before its ticket has been taken, and before everything after it.
struct Resync<K> {
    at: u64,
    walk: Walk<K>,
    /// What had something in line when the walk began, so that the subscriber knows it in another state, or not at all.
    skip: HashSet<ObjectKey>,
}

impl<K> Queue<K> {
    pub(super) fn new(options: Options, present: Arc<Root<K>>, synced: bool, ended: bool) -> Self {
        let (merging, short_lived) = match options.policy {
            Policy::Merge(short_lived) => (true, short_lived),
            // Once there is too much, memory must not grow with objects that are no more.
            _ => (false, ShortLived::Cancel),
        };
        let state = State {
            present: Some(Walk::new(present, options.namespace.clone())),
            unsorted: Vec::new(),
            unsorted_len: 0,
            line: Line::new(merging, short_lived),
            synced_at: synced.then_some(0),
            synced: false,
            bookmarks: VecDeque::new(),
            resync: None,
            ended: ended.then_some(Ended::Stopped),
            waker: None,
            writers: Vec::new(),
        };
        Self { state: Mutex::new(state), options }
    }

    fn state(&self) -> MutexGuard<'_, State<K>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The content has come for the first time.
    pub(super) fn push_first(&self, root: &Arc<Root<K>>) -> Option<Waker> {
        let mut state = self.state();
        state.present = Some(Walk::new(Arc::clone(root), self.options.namespace.clone()));
        state.waker.take()
    }

    pub(super) fn push_steps(&self, steps: &Arc<[Step<K>]>) -> Option<Waker> {
        let namespace = self.options.namespace.as_deref();
        if namespace.is_some() && steps.iter().all(|step| step.object().namespace() != namespace) {
            return None;
        }
        let mut state = self.state();
        if state.ended.is_some() {
            return None;
        }
        state.unsorted.push(Arc::clone(steps));
        state.unsorted_len += steps.len();
        let max = match self.options.policy {
            Policy::Merge(_) => UNSORTED_MAX,
            Policy::Every { bound, .. } | Policy::Block { bound } => bound,
        };
        if state.unsorted_len >= max {
            self.sort(&mut state);
        }
        state.waker.take()
    }

    pub(super) fn push_synced(&self) -> Option<Waker> {
        let mut state = self.state();
        self.sort(&mut state);
        state.synced_at = Some(state.line.next_ticket());
        state.waker.take()
    }

    pub(super) fn push_bookmark(&self, version: &ResourceVersion) -> Option<Waker> {
        if !self.options.bookmarks {
            return None;
        }
        let mut state = self.state();
        self.sort(&mut state);
        let ticket = state.line.next_ticket();
        state.bookmarks.truncate(1);
        state.bookmarks.push_back((ticket, version.clone()));
        state.waker.take()
    }

    pub(super) fn wants_resyncs(&self) -> bool {
        self.options.resyncs
    }

    /// Everything that the subscriber knows is to be told again. Nothing is, while it does not know everything yet.
    pub(super) fn push_resync(&self, root: &Arc<Root<K>>) -> Option<Waker> {
        let mut state = self.state();
        self.sort(&mut state);
        if !state.synced || state.resync.is_some() {
            return None;
        }
        let walk = Walk::new(Arc::clone(root), self.options.namespace.clone());
        state.resync = Some(if state.line.is_merging() {
            // Objects with something in line are skipped (DF-4), so nothing need be waited for.
            Resync { at: 0, walk, skip: state.line.keys() }
        } else {
            Resync { at: state.line.next_ticket(), walk, skip: HashSet::new() }
        });
        state.waker.take()
    }

    /// Nothing more will come.
    pub(super) fn end(&self) -> Option<Waker> {
        let mut state = self.state();
        state.ended.get_or_insert(Ended::Stopped);
        state.waker.take()
    }

    /// Whether the writer may go on; it is woken when it may.
    pub(super) fn poll_room(&self, cx: &mut Context<'_>) -> Poll<()> {
        let Policy::Block { bound } = self.options.policy else { return Poll::Ready(()) };
        let mut state = self.state();
        if state.ended.is_some() || state.waiting() < bound.max(1) {
            return Poll::Ready(());
        }
        if !state.writers.iter().any(|waker| waker.will_wake(cx.waker())) {
            state.writers.push(cx.waker().clone());
        }
        Poll::Pending
    }

    /// The subscriber is gone.
    pub(super) fn abandon(&self) {
        let writers = {
            let mut state = self.state();
            state.ended = Some(Ended::Stopped);
            std::mem::take(&mut state.writers)
        };
        writers.into_iter().for_each(Waker::wake);
    }

    /// The next thing to deliver; `None` when nothing more will come.
    pub(super) fn poll_pop(&self, cx: &mut Context<'_>) -> Poll<Option<Item<K>>> {
        let (item, writers) = {
            let mut state = self.state();
            self.sort(&mut state);
            let item = state.pop(&self.options);
            if item.is_none() && state.ended.is_none() {
                // Under the same lock as the look: whatever is pushed from now on finds the waker (K10).
                let old = state.waker.replace(cx.waker().clone());
                drop(state);
                // Not under the lock: it may be the last that holds a task, and that task a subscription.
                drop(old);
                return Poll::Pending;
            }
            let room =
                matches!(self.options.policy, Policy::Block { bound } if state.waiting() < bound.max(1));
            (item, if room { std::mem::take(&mut state.writers) } else { Vec::new() })
        };
        writers.into_iter().for_each(Waker::wake);
        Poll::Ready(item)
    }

    pub(super) fn ended(&self) -> Option<Ended> {
        self.state().ended
    }

    pub(super) fn lag(&self) -> Lag {
        let state = self.state();
        Lag {
            waiting: state.waiting(),
            present: state.present.as_ref().map_or(0, Walk::len_max),
            merged: state.line.merged(),
        }
    }

    /// Puts in line what has come.
    fn sort(&self, state: &mut State<K>) {
        if state.unsorted.is_empty() {
            return;
        }
        let namespace = self.options.namespace.as_deref();
        for steps in std::mem::take(&mut state.unsorted) {
            for step in &*steps {
                if namespace.is_none() || step.object().namespace() == namespace {
                    state.line.push(step);
                }
            }
        }
        state.unsorted_len = 0;
        let Policy::Every { bound, when_full } = self.options.policy else { return };
        if state.line.len() <= bound {
            return;
        }
        match when_full {
            WhenFull::Merge => {
                // What comes later may now be delivered earlier; from here on what is in line is skipped instead.
                if let Some(resync) = &mut state.resync {
                    resync.at = 0;
                    resync.skip.extend(state.line.keys());
                }
                state.line.start_merging();
            }
            WhenFull::End => {
                state.line = Line::new(false, ShortLived::Deliver);
                state.present = None;
                state.resync = None;
                state.bookmarks.clear();
                state.synced_at = None;
                state.ended = Some(Ended::Lagged);
            }
        }
    }
}

impl<K> State<K> {
    fn waiting(&self) -> usize {
        self.line.len() + self.unsorted_len
    }

    fn pop(&mut self, options: &Options) -> Option<Item<K>> {
        if let Some(walk) = &mut self.present {
            match walk.next() {
                Some(object) => return Some(Item::Present(object)),
                None => self.present = None,
            }
        }
        let served = self.line.served_to();
        if self.synced_at.take_if(|at| *at <= served).is_some() {
            self.synced = true;
            return Some(Item::Synced);
        }
        if self.bookmarks.front().is_some_and(|(at, _)| *at <= served) {
            return self.bookmarks.pop_front().map(|(_, version)| Item::Bookmark(version));
        }
        if let Some(Resync { at, walk, skip }) = &mut self.resync
            && *at <= served
        {
            let line = &self.line;
            match walk.find(|object| !skip.contains(object.key()) && !line.has(object.key())) {
                Some(object) => return Some(Item::Resync(object)),
                None => self.resync = None,
            }
        }
        let pending = self.line.pop()?;
        if !matches!(options.policy, Policy::Merge(_)) {
            self.line.stop_merging_if_empty();
        }
        Some(Item::Pending(pending))
    }
}
