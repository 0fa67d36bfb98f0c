//! The queue of one subscriber: the writer pushes, the subscriber pops, and neither waits for the other.

use std::{
    collections::{HashSet, VecDeque},
    sync::{Arc, PoisonError},
    task::{Context, Poll, Waker},
};

use super::{
    super::{
        aftermath::{Aftermath, Litter},
        root::Root,
        step::Step,
    },
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
    /// An object of a content that is all new to the subscriber.
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
    /// Its place among the subscribers.
    pub(super) number: u64,
    options: Options,
    state: Mutex<State<K>>,
}

struct State<K> {
    /// What was there at the start, and what came at once later. Delivered before everything else.
    present: VecDeque<Walk<K>>,
    /// Steps that have not been put in line yet.
    unsorted: Vec<Arc<[Step<K>]>>,
    /// How many of them concern the subscriber.
    unsorted_len: usize,
    line: Line<K>,
    /// The sync is told when everything before this ticket has been taken.
    synced_at: Option<u64>,
    /// It has been told.
    synced: bool,
    /// The first and the latest bookmark, each told when everything before its ticket has been taken.
    bookmarks: VecDeque<(u64, ResourceVersion)>,
    /// Told while nothing is in line, one after the other.
    resyncs: VecDeque<Resync<K>>,
    ended: Option<Ended>,
    waker: Option<Waker>,
    /// Writers that wait for room.
    writers: Vec<Waker>,
}

/// A resync under way.
struct Resync<K> {
    walk: Walk<K>,
    /// What was in line when the walk began, or came into it later: the subscriber hears of it anyway, and what the walk
    /// would tell is older than that (DF-4).
    skip: HashSet<ObjectKey>,
    /// Namespaces that were taken out since: nothing of them is there as the walk has it.
    gone: Vec<Arc<str>>,
}

impl<K> Resync<K> {
    fn take_out(&mut self, namespace: &Arc<str>) {
        if self.walk.has_any_of(namespace) && !self.gone.contains(namespace) {
            self.gone.push(Arc::clone(namespace));
        }
    }

    fn next(&mut self) -> Option<Object<K>> {
        let Self { walk, skip, gone } = self;
        walk.find(|object| {
            let namespace = object.namespace().unwrap_or_default();
            !skip.contains(object.key()) && gone.iter().all(|gone| **gone != *namespace)
        })
    }
}

impl<K> Queue<K> {
    pub(super) fn new(number: u64, options: Options, present: Arc<Root<K>>, ended: bool) -> Self {
        let (merging, short_lived) = match options.policy {
            Policy::Merge(short_lived) => (true, short_lived),
            _ => (false, ShortLived::Cancel),
        };
        let synced_at = present.synced.then_some(0);
        let state = State {
            present: VecDeque::from([Walk::new(present, options.namespace.clone())]),
            unsorted: Vec::new(),
            unsorted_len: 0,
            line: Line::new(merging, short_lived),
            synced_at,
            synced: false,
            bookmarks: VecDeque::new(),
            resyncs: VecDeque::new(),
            ended: ended.then_some(Ended::Stopped),
            waker: None,
            writers: Vec::new(),
        };
        Self { number, options, state: Mutex::new(state) }
    }

    fn state(&self) -> MutexGuard<'_, State<K>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The state, if anything may still be pushed.
    fn open(&self) -> Option<MutexGuard<'_, State<K>>> {
        Some(self.state()).filter(|state| state.ended.is_none())
    }

    /// The same, with everything in line that has come. That may be too much, and the end.
    fn sorted(&self, after: &mut Aftermath<K>) -> Option<MutexGuard<'_, State<K>>> {
        let mut state = self.open()?;
        self.sort(&mut state, after);
        Some(state).filter(|state| state.ended.is_none())
    }

    /// What of a namespace (`None`: of all) concerns the subscriber: nothing, or a namespace, or all.
    fn share(&self, of: Option<&Arc<str>>) -> Option<Option<Arc<str>>> {
        match (&self.options.namespace, of) {
            (Some(own), Some(of)) if own != of => None,
            (own, of) => Some(own.as_ref().or(of).cloned()),
        }
    }

    fn concerns(&self, step: &Step<K>) -> bool {
        let namespace = step.object().namespace().unwrap_or_default();
        self.options.namespace.as_deref().is_none_or(|own| own == namespace)
    }

    /// The content, of a namespace or of all, has come for the first time.
    pub(super) fn push_first(&self, root: &Arc<Root<K>>, of: Option<&Arc<str>>, after: &mut Aftermath<K>) {
        let Some(namespace) = self.share(of) else { return };
        let Some(mut state) = self.sorted(after) else { return };
        let walk = Walk::new(Arc::clone(root), namespace);
        // A walk goes before what is in line. Where the end of the same objects is in line, since their namespace was
        // taken out and came back, it has to go behind.
        if state.line.has_any_of(of.map(|of| &**of)) {
            walk.for_each(|object| state.line.push(&Step::Added(object)));
        } else {
            state.present.push_back(walk);
        }
        after.wake(state.waker.take());
    }

    pub(super) fn push_steps(&self, steps: &Arc<[Step<K>]>, after: &mut Aftermath<K>) {
        let concerned = match &self.options.namespace {
            None => steps.len(),
            Some(_) => steps.iter().filter(|step| self.concerns(step)).count(),
        };
        let Some(mut state) = self.open().filter(|_| concerned > 0) else { return };
        state.unsorted.push(Arc::clone(steps));
        state.unsorted_len += concerned;
        let max = match self.options.policy {
            Policy::Merge(_) => UNSORTED_MAX,
            Policy::Every { bound, .. } | Policy::Block { bound } => bound,
        };
        if state.unsorted_len >= max {
            self.sort(&mut state, after);
        }
        after.wake(state.waker.take());
    }

    /// A namespace was taken out. Where the subscriber has not begun to hear of it, it never does: namespaces that come
    /// and go would pile up otherwise.
    pub(super) fn push_gone(&self, namespace: &Arc<str>, steps: &Arc<[Step<K>]>, after: &mut Aftermath<K>) {
        if let Some(mut state) = self.open() {
            state.resyncs.iter_mut().for_each(|resync| resync.take_out(namespace));
            let walks = std::mem::take(&mut state.present).into_iter();
            let (unbegun, others): (VecDeque<_>, VecDeque<_>) =
                walks.partition(|walk| walk.is_unbegun_of(namespace));
            state.present = others;
            if !unbegun.is_empty() {
                unbegun.into_iter().for_each(|walk| after.sweep(Litter::Walk(walk)));
                self.sort(&mut state, after);
                state.line.forget(namespace);
                after.wake(state.waker.take());
                return;
            }
        }
        self.push_steps(steps, after);
    }

    pub(super) fn push_synced(&self, after: &mut Aftermath<K>) {
        let Some(mut state) = self.sorted(after) else { return };
        state.synced_at = Some(state.line.next_ticket());
        after.wake(state.waker.take());
    }

    pub(super) fn push_bookmark(&self, root: &Root<K>, after: &mut Aftermath<K>) {
        if !self.options.bookmarks {
            return;
        }
        let version = match &self.options.namespace {
            Some(namespace) => root.version_of(namespace),
            None => root.version(),
        };
        let Some(version) = version else { return };
        let Some(mut state) = self.sorted(after) else { return };
        let ticket = state.line.next_ticket();
        state.bookmarks.truncate(1);
        state.bookmarks.push_back((ticket, version.clone()));
        after.wake(state.waker.take());
    }

    /// The reflector resyncs, of a namespace or of all.
    pub(super) fn push_resync(&self, root: &Arc<Root<K>>, of: Option<&Arc<str>>, after: &mut Aftermath<K>) {
        if self.options.resyncs {
            self.resync(root, of, after);
        }
    }

    /// What the subscriber knows, of a namespace or of all, is to be told again. Nothing is, while it does not know
    /// everything yet, or while the same is being told.
    pub(super) fn resync(&self, root: &Arc<Root<K>>, of: Option<&Arc<str>>, after: &mut Aftermath<K>) {
        let Some(namespace) = self.share(of) else { return };
        let Some(mut state) = self.sorted(after) else { return };
        if !state.synced || state.resyncs.iter().any(|resync| resync.walk.covers(&namespace)) {
            return;
        }
        let walk = Walk::new(Arc::clone(root), namespace);
        let skip = state.line.keys();
        state.resyncs.push_back(Resync { walk, skip, gone: Vec::new() });
        after.wake(state.waker.take());
    }

    /// Nothing more will come.
    pub(super) fn end(&self, after: &mut Aftermath<K>) {
        let Some(mut state) = self.sorted(after) else { return };
        state.ended = Some(Ended::Stopped);
        after.wake(state.waker.take());
    }

    /// Whether the writer of a scope may go on; it is woken when it may.
    pub(super) fn poll_room(&self, of: Option<&Arc<str>>, cx: &mut Context<'_>) -> Poll<()> {
        if !matches!(self.options.policy, Policy::Block { .. }) || self.share(of).is_none() {
            return Poll::Ready(());
        }
        let mut state = self.state();
        if state.ended.is_some() || self.has_room(&state) {
            return Poll::Ready(());
        }
        if !state.writers.iter().any(|waker| waker.will_wake(cx.waker())) {
            state.writers.push(cx.waker().clone());
        }
        Poll::Pending
    }

    fn has_room(&self, state: &State<K>) -> bool {
        matches!(self.options.policy, Policy::Block { bound } if state.waiting() < bound.max(1))
    }

    /// The subscriber is gone.
    pub(super) fn abandon(&self) {
        let mut after = Aftermath::default();
        let mut state = self.state();
        state.ended = Some(Ended::Stopped);
        state.clear(&mut after);
        after.wake(std::mem::take(&mut state.writers));
        drop(state);
        after.finish();
    }

    /// The next thing to deliver; `None` when nothing more will come.
    pub(super) fn poll_pop(&self, cx: &mut Context<'_>) -> Poll<Option<Item<K>>> {
        let mut after = Aftermath::default();
        let mut state = self.state();
        self.sort(&mut state, &mut after);
        let item = state.pop(&mut after);
        if !matches!(self.options.policy, Policy::Merge(_)) {
            state.line.stop_merging_if_empty();
        }
        // Under the same lock as the look: whatever is pushed from now on finds the waker (K10).
        let waits = item.is_none() && state.ended.is_none();
        let old = if waits { state.waker.replace(cx.waker().clone()) } else { None };
        if self.has_room(&state) {
            after.wake(std::mem::take(&mut state.writers));
        }
        drop(state);
        // Not under the lock: it may be the last that holds a task, and that task a subscription.
        drop(old);
        after.finish();
        if waits { Poll::Pending } else { Poll::Ready(item) }
    }

    pub(super) fn ended(&self) -> Option<Ended> {
        self.state().ended
    }

    pub(super) fn lag(&self) -> Lag {
        let state = self.state();
        Lag {
            waiting: state.waiting(),
            present: state.present.iter().map(Walk::len_max).sum(),
            merged: state.line.merged(),
        }
    }

    /// Puts in line what has come.
    fn sort(&self, state: &mut State<K>, after: &mut Aftermath<K>) {
        for steps in std::mem::take(&mut state.unsorted) {
            for step in steps.iter().filter(|step| self.concerns(step)) {
                state.line.push(step);
            }
            after.sweep(Litter::Steps(steps));
        }
        state.unsorted_len = 0;
        if let Policy::Every { bound, when_full } = self.options.policy
            && state.line.len() > bound
        {
            match when_full {
                WhenFull::Merge => state.line.start_merging(),
                WhenFull::End => {
                    state.ended.get_or_insert(Ended::Lagged);
                    state.clear(after);
                }
            }
        }
    }
}

impl<K> State<K> {
    fn waiting(&self) -> usize {
        self.line.len() + self.unsorted_len
    }

    /// Drops everything that waits.
    fn clear(&mut self, after: &mut Aftermath<K>) {
        let line = std::mem::replace(&mut self.line, Line::new(false, ShortLived::Cancel));
        after.sweep(Litter::Line(line));
        let resyncs = self.resyncs.drain(..).map(|resync| resync.walk);
        self.present.drain(..).chain(resyncs).for_each(|walk| after.sweep(Litter::Walk(walk)));
        self.unsorted.drain(..).for_each(|steps| after.sweep(Litter::Steps(steps)));
        self.unsorted_len = 0;
        self.bookmarks.clear();
        self.synced_at = None;
    }

    fn pop(&mut self, after: &mut Aftermath<K>) -> Option<Item<K>> {
        while let Some(walk) = self.present.front_mut() {
            match walk.next() {
                Some(object) => return Some(Item::Present(object)),
                None => self.present.pop_front().into_iter().for_each(|walk| after.sweep(Litter::Walk(walk))),
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
        if let Some(pending) = self.line.pop() {
            for resync in &mut self.resyncs {
                resync.skip.extend(pending.object().map(|object| object.key().clone()));
            }
            return Some(Item::Pending(pending));
        }
        while let Some(resync) = self.resyncs.front_mut() {
            match resync.next() {
                Some(object) => return Some(Item::Resync(object)),
                None => {
                    let done = self.resyncs.pop_front();
                    done.into_iter().for_each(|resync| after.sweep(Litter::Walk(resync.walk)));
                }
            }
        }
        None
    }
}
