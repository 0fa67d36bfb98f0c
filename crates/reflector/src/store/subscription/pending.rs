//! What waits to be delivered, in order, merged per key or not.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::{super::step::Step, policy::ShortLived};
use crate::{Object, ObjectKey};

/// How an object went.
#[derive(Clone)]
pub(super) struct Gone<K> {
    pub(super) last: Object<K>,
    pub(super) final_state_unknown: bool,
}

/// What has happened under one key since the subscriber last heard of it.
///
/// At the most: what it knew has gone, another object took the name, and that one has gone too.
pub(super) struct Pending<K> {
    /// What the subscriber knows; nothing if it knows of no object.
    pub(super) known: Option<Object<K>>,
    /// How that one went.
    pub(super) known_gone: Option<Gone<K>>,
    /// A later revision of it, or another object.
    pub(super) now: Option<Object<K>>,
    /// How that other object went.
    pub(super) now_gone: Option<Gone<K>>,
}

impl<K> Pending<K> {
    fn new(known: Option<Object<K>>) -> Self {
        Self { known, known_gone: None, now: None, now_gone: None }
    }

    fn of(step: &Step<K>, short_lived: ShortLived) -> Self {
        let mut pending = Self::new(match step {
            Step::Added(_) => None,
            Step::Updated { old, .. } => Some(old.clone()),
            Step::Deleted { held, .. } => Some(held.clone()),
        });
        pending.merge(step, short_lived);
        pending
    }

    /// The rules of client-go's DeltaFIFO (DF-1, DF-2), with identity by uid: what follows a deletion is another
    /// object.
    fn merge(&mut self, step: &Step<K>, short_lived: ShortLived) {
        match step {
            Step::Added(new) => {
                self.now = Some(new.clone());
                self.now_gone = None;
            }
            Step::Updated { new, .. } => self.now = Some(new.clone()),
            Step::Deleted { last, final_state_unknown, .. } => {
                let gone = Gone { last: last.clone(), final_state_unknown: *final_state_unknown };
                if self.known.is_some() && self.known_gone.is_none() {
                    self.known_gone = Some(gone);
                    self.now = None;
                } else if short_lived == ShortLived::Deliver {
                    self.now_gone = Some(gone);
                } else {
                    self.now = None;
                }
            }
        }
    }

    /// Any state of it, for its key.
    pub(super) fn object(&self) -> Option<&Object<K>> {
        self.known.as_ref().or(self.now.as_ref())
    }

    /// Nothing has happened that the subscriber could notice.
    fn is_nothing(&self) -> bool {
        self.known.is_none() && self.now.is_none()
    }
}

/// Everything that waits, in the order of arrival: one entry per key while it merges, else one per step.
pub(in super::super) struct Line<K> {
    /// By ticket.
    entries: BTreeMap<u64, Pending<K>>,
    /// The ticket of each key; only while it merges.
    tickets: HashMap<ObjectKey, u64>,
    /// The next ticket.
    next: u64,
    merging: bool,
    short_lived: ShortLived,
    /// How many steps have been merged into others.
    merged: u64,
}

impl<K> Line<K> {
    pub(super) fn new(merging: bool, short_lived: ShortLived) -> Self {
        Self { entries: BTreeMap::new(), tickets: HashMap::new(), next: 0, merging, short_lived, merged: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// What has something in line.
    pub(super) fn keys(&self) -> HashSet<ObjectKey> {
        self.entries.values().filter_map(Pending::object).map(|object| object.key().clone()).collect()
    }

    /// Whether something of a namespace, or of any, is in line.
    pub(super) fn has_any_of(&self, namespace: Option<&str>) -> bool {
        let mut objects = self.entries.values().filter_map(Pending::object);
        objects.any(|object| namespace.is_none_or(|of| object.namespace().unwrap_or_default() == of))
    }

    /// Takes out everything of a namespace.
    pub(super) fn forget(&mut self, namespace: &str) {
        let of = |pending: &Pending<K>| {
            pending.object().is_some_and(|object| object.namespace().unwrap_or_default() == namespace)
        };
        self.entries.retain(|_, pending| !of(pending));
        self.tickets.retain(|key, _| key.namespace().unwrap_or_default() != namespace);
    }

    pub(super) fn merged(&self) -> u64 {
        self.merged
    }

    /// The ticket of whatever is pushed next.
    pub(super) fn next_ticket(&self) -> u64 {
        self.next
    }

    /// Everything with a lower ticket than this has been taken.
    pub(super) fn served_to(&self) -> u64 {
        self.entries.first_key_value().map_or(self.next, |(ticket, _)| *ticket)
    }

    pub(super) fn push(&mut self, step: &Step<K>) {
        if self.merging && self.merge(step) {
            return;
        }
        let pending = Pending::of(step, self.short_lived);
        if self.merging {
            self.tickets.insert(step.object().key().clone(), self.next);
        }
        self.entries.insert(self.next, pending);
        self.next += 1;
    }

    /// Merges a step into what waits under its key, if there is something.
    fn merge(&mut self, step: &Step<K>) -> bool {
        let key = step.object().key();
        let Some(ticket) = self.tickets.get(key) else { return false };
        let Some(pending) = self.entries.get_mut(ticket) else { return false };
        pending.merge(step, self.short_lived);
        self.merged += 1;
        if pending.is_nothing() {
            self.entries.remove(ticket);
            self.tickets.remove(key);
        }
        true
    }

    pub(super) fn pop(&mut self) -> Option<Pending<K>> {
        let (_, pending) = self.entries.pop_first()?;
        if self.merging {
            if let Some(object) = pending.object() {
                self.tickets.remove(object.key());
            }
            // A spike is not remembered for ever.
            if self.tickets.is_empty() && self.tickets.capacity() > 1024 {
                self.tickets = HashMap::new();
            }
        }
        Some(pending)
    }

    /// Merges what waits, and what comes until the line is empty. What came and went is not told then, however the line
    /// was made: it would not be bounded.
    pub(super) fn start_merging(&mut self) {
        if self.merging {
            return;
        }
        self.merging = true;
        let mut kept: BTreeMap<u64, Pending<K>> = BTreeMap::new();
        for (ticket, pending) in std::mem::take(&mut self.entries) {
            let Some(object) = pending.object() else { continue };
            let first = *self.tickets.entry(object.key().clone()).or_insert(ticket);
            match kept.get_mut(&first) {
                None => {
                    kept.insert(ticket, pending);
                }
                Some(earlier) => {
                    self.merged += 1;
                    for step in pending.into_steps() {
                        earlier.merge(&step, self.short_lived);
                    }
                }
            }
        }
        kept.retain(|_, pending| !pending.is_nothing());
        self.tickets.retain(|_, ticket| kept.contains_key(ticket));
        self.entries = kept;
    }

    /// Back to one entry per step, once nothing waits.
    pub(super) fn stop_merging_if_empty(&mut self) {
        if self.entries.is_empty() {
            self.merging = false;
            self.tickets = HashMap::new();
        }
    }
}

impl<K> Pending<K> {
    /// The steps that make it.
    fn into_steps(self) -> Vec<Step<K>> {
        let mut steps = Vec::new();
        let mut known = self.known;
        if let (Some(held), Some(Gone { last, final_state_unknown })) = (&known, self.known_gone) {
            steps.push(Step::Deleted { held: held.clone(), last, final_state_unknown });
            known = None;
        }
        if let Some(new) = self.now {
            steps.push(match known {
                Some(old) => Step::Updated { old, new: new.clone() },
                None => Step::Added(new.clone()),
            });
            if let Some(Gone { last, final_state_unknown }) = self.now_gone {
                steps.push(Step::Deleted { held: new, last, final_state_unknown });
            }
        }
        steps
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn room_after(keys: usize) -> usize {
        let mut line = Line::new(true, ShortLived::Cancel);
        for i in 0..keys {
            let json = format!(r#"{{"metadata":{{"name":"o{i}"}}}}"#);
            line.push(&Step::Added(Object::<()>::from_json(json).unwrap()));
        }
        while line.pop().is_some() {}
        line.tickets.capacity()
    }

    #[test]
    fn a_spike_is_not_remembered_for_ever_and_the_usual_is() {
        assert_eq!(room_after(5000), 0);
        assert!(room_after(100) > 0);
    }
}
