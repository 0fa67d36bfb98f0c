//! What waits, in which order, and for whom. No lock and no waiting here: each method is one step.

use std::collections::{BTreeMap, HashMap};

use super::{Compress, Deltas, FifoDelta};
use crate::{Object, ObjectKey, ObjectMeta, protocol::Revision};

/// All keys that wait or are being processed.
pub(super) struct Queue<K> {
    slots: HashMap<ObjectKey, Slot<K>>,
    /// What can be taken, by the number of its arrival.
    ready: BTreeMap<u64, ObjectKey>,
    /// How many keys wait for somebody to finish with them first.
    blocked: usize,
    arrivals: u64,
    population: Population,
    closed: bool,
    compress: Compress,
}

/// One key.
struct Slot<K> {
    /// What has come since it was taken last.
    deltas: Vec<FifoDelta<K>>,
    /// When the first of them came.
    arrival: u64,
    /// Whether they belong to the initial list.
    initial: bool,
    /// Somebody processes what was taken; and whether that belongs to the initial list.
    taken: Option<bool>,
}

/// How far the first complete list is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Population {
    /// It has not come.
    Awaited,
    /// So much of it is not processed.
    Left(usize),
    /// All of it is processed. For ever.
    Done,
}

impl<K> Queue<K> {
    pub(super) fn new(compress: Compress) -> Self {
        Self {
            slots: HashMap::new(),
            ready: BTreeMap::new(),
            blocked: 0,
            arrivals: 0,
            population: Population::Awaited,
            closed: false,
            compress,
        }
    }

    /// How many keys wait.
    pub(super) fn len(&self) -> usize {
        self.ready.len() + self.blocked
    }

    /// Whether a key can be taken now.
    pub(super) fn is_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Nothing waits, and nothing will.
    pub(super) fn is_over(&self) -> bool {
        self.closed && self.len() == 0
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed
    }

    pub(super) fn has_synced(&self) -> bool {
        self.population == Population::Done
    }

    /// The first complete list has not come, and nothing comes any more.
    pub(super) fn never_syncs(&self) -> bool {
        self.closed && self.population == Population::Awaited
    }

    /// Queues a delta. After the end it is dropped.
    pub(super) fn push(&mut self, delta: FifoDelta<K>) {
        if self.closed {
            return;
        }
        let key = delta.object().key();
        let slot = match self.slots.get_mut(key) {
            Some(slot) => slot,
            None => self.slots.entry(key.clone()).or_insert(Slot {
                deltas: Vec::new(),
                arrival: 0,
                initial: false,
                taken: None,
            }),
        };
        if slot.deltas.is_empty() {
            self.arrivals += 1;
            slot.arrival = self.arrivals;
            if slot.taken.is_some() {
                self.blocked += 1;
            } else {
                self.ready.insert(slot.arrival, key.clone());
            }
        }
        match self.compress {
            Compress::Deletes => slot.deltas.push(delta),
            Compress::All => fold(&mut slot.deltas, delta),
        }
    }

    /// What waits now is the initial list, unless there was one already. What is being processed belongs to it too: it
    /// may be in the list in the very revision that was taken.
    pub(super) fn populate(&mut self) {
        if self.closed || self.population != Population::Awaited {
            return;
        }
        let mut left = 0;
        for slot in self.slots.values_mut() {
            if !slot.deltas.is_empty() {
                slot.initial = true;
                left += 1;
            }
            if let Some(initial) = &mut slot.taken {
                *initial = true;
                left += 1;
            }
        }
        self.population = if left == 0 { Population::Done } else { Population::Left(left) };
    }

    /// Queues what is there again, except where something waits that is newer or the same (DF-4).
    pub(super) fn resync(&mut self, object: &Object<K>) {
        if self.slots.get(object.key()).is_none_or(|slot| slot.deltas.is_empty()) {
            self.push(FifoDelta::Sync(object.clone()));
        }
    }

    /// The last deletion that waits under this key, if nothing came after it and its final state is not known.
    pub(super) fn tombstone(&mut self, deleted: &ObjectMeta) -> Option<&mut FifoDelta<K>> {
        let last = self.slots.get_mut(&deleted.key)?.deltas.last_mut()?;
        let FifoDelta::Deleted { last: known, final_state_unknown: true } = last else { return None };
        let fits = deleted.uid == known.meta().uid && Revision::is_ended_by(deleted, known.meta());
        fits.then_some(last)
    }

    /// Takes the key that came first. Until [`finish`](Self::finish) it is not given to anybody else.
    pub(super) fn take(&mut self) -> Option<Deltas<K>> {
        let (_, key) = self.ready.pop_first()?;
        let slot = self.slots.get_mut(&key)?;
        let in_initial_list = std::mem::take(&mut slot.initial);
        slot.taken = Some(in_initial_list);
        Some(Deltas { list: std::mem::take(&mut slot.deltas), key, in_initial_list })
    }

    /// Takes up to `max` keys, at least one, either all of the initial list or none (RQ-8). Empty if nothing is ready.
    pub(super) fn take_batch(&mut self, max: usize) -> Vec<Deltas<K>> {
        let mut batch: Vec<Deltas<K>> = Vec::new();
        while batch.is_empty() || batch.len() < max {
            if let (Some(first), Some(initial)) = (batch.first(), self.next_is_initial())
                && first.in_initial_list != initial
            {
                break;
            }
            let Some(deltas) = self.take() else { break };
            batch.push(deltas);
        }
        batch
    }

    fn next_is_initial(&self) -> Option<bool> {
        let (_, key) = self.ready.first_key_value()?;
        self.slots.get(key).map(|slot| slot.initial)
    }

    /// A key that was taken has been processed. What came for it meanwhile gets the place of its arrival.
    pub(super) fn finish(&mut self, key: &ObjectKey) {
        let Some(slot) = self.slots.get_mut(key) else { return };
        let was_initial = slot.taken.take().unwrap_or_default();
        if slot.deltas.is_empty() {
            self.slots.remove(key);
        } else {
            self.blocked -= 1;
            self.ready.insert(slot.arrival, key.clone());
        }
        if was_initial && let Population::Left(left) = &mut self.population {
            *left -= 1;
            if *left == 0 {
                self.population = Population::Done;
            }
        }
    }

    /// Nothing is queued any more. What waits can still be taken.
    pub(super) fn close(&mut self) {
        self.closed = true;
    }

    /// Nobody is left who could take anything.
    pub(super) fn clear(&mut self) {
        self.slots.clear();
        self.ready.clear();
        self.blocked = 0;
    }
}

/// Adds a delta to a list in the shortest form that leads from the same state to the same state.
fn fold<K>(deltas: &mut Vec<FifoDelta<K>>, delta: FifoDelta<K>) {
    use FifoDelta::{Added, Replaced, Sync, Updated};
    let Some(last) = deltas.pop() else { return deltas.push(delta) };
    if delta.is_deleted() && last.is_new() && !deltas.is_empty() {
        // A life between two others: the deletion before it says all.
        return;
    }
    match (last, delta) {
        (Added(_), Updated { new, .. } | Replaced { new, .. }) => deltas.push(Added(new)),
        (Updated { old, .. }, Updated { new, .. }) => deltas.push(Updated { old, new }),
        (Updated { old, .. }, Replaced { new, .. }) => deltas.push(Replaced { old: Some(old), new }),
        (Replaced { old, .. }, Updated { new, .. } | Replaced { new, .. }) => {
            deltas.push(Replaced { old, new });
        }
        (Sync(_), delta @ (Updated { .. } | Replaced { .. })) => deltas.push(delta),
        (last, delta) => deltas.extend([last, delta]),
    }
}
