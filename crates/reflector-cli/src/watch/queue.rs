//! Changes on their way to the terminal.
//!
//! The watch never waits for the terminal. While the terminal keeps up, every change is printed. Once too many wait,
//! the changes of each object are merged into what is different from what was printed, so that the queue is never much
//! longer than the number of objects, and no deletion is lost.

use std::{
    collections::HashMap,
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
};

use reflector::{Delta, Object, ObjectKey};

/// A change as it is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    Added,
    Modified,
    Deleted,
}

impl Event {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Added => "ADDED",
            Self::Modified => "MODIFIED",
            Self::Deleted => "DELETED",
        }
    }
}

pub(super) type Item<K> = (Event, Object<K>);

/// So many changes may wait before they are merged.
const LIMIT: usize = 10_000;

/// A queue between the reflector and the printer.
#[derive(Debug)]
pub(super) struct Queue<K> {
    state: Mutex<State<K>>,
    ready: Condvar,
}

#[derive(Debug)]
struct State<K> {
    items: Vec<Item<K>>,
    /// Merge when there are more than this.
    limit: usize,
    merged: u64,
    closed: bool,
}

impl<K> Default for Queue<K> {
    fn default() -> Self {
        Self::with_limit(LIMIT)
    }
}

impl<K> Queue<K> {
    fn with_limit(limit: usize) -> Self {
        let state = State { items: Vec::new(), limit, merged: 0, closed: false };
        Self { state: Mutex::new(state), ready: Condvar::new() }
    }

    pub(super) fn push(&self, deltas: Vec<Delta<K>>) {
        if deltas.is_empty() {
            return;
        }
        let mut state = self.lock();
        state.items.extend(deltas.into_iter().map(|delta| match delta {
            Delta::Added(object) => (Event::Added, object),
            Delta::Updated { new, .. } => (Event::Modified, new),
            Delta::Deleted { last, .. } => (Event::Deleted, last),
        }));
        if state.items.len() > state.limit {
            let before = state.items.len();
            let items = merge(std::mem::take(&mut state.items));
            state.merged += (before - items.len()) as u64;
            // Not again before there is as much once more: that keeps the cost of a change constant.
            state.limit = state.limit.max(2 * items.len());
            state.items = items;
        }
        drop(state);
        self.ready.notify_one();
    }

    /// All that waits; blocks until there is something. `None` once it is closed and empty.
    pub(super) fn take(&self) -> Option<Vec<Item<K>>> {
        let mut state = self.lock();
        while state.items.is_empty() {
            if state.closed {
                return None;
            }
            state = self.ready.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        Some(std::mem::take(&mut state.items))
    }

    /// Nothing more will come.
    pub(super) fn close(&self) {
        self.lock().closed = true;
        self.ready.notify_all();
    }

    /// How many changes were merged into others so far.
    pub(super) fn merged(&self) -> u64 {
        self.lock().merged
    }

    fn lock(&self) -> MutexGuard<'_, State<K>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What is left of the changes of one object: perhaps the end of one that was printed, perhaps a state.
struct Pending<K> {
    gone: Option<Object<K>>,
    now: Option<Item<K>>,
}

/// Merges the changes of each object, in the order in which objects first changed.
fn merge<K>(items: Vec<Item<K>>) -> Vec<Item<K>> {
    let mut places: HashMap<ObjectKey, usize> = HashMap::new();
    let mut pending: Vec<Pending<K>> = Vec::new();
    for (event, object) in items {
        let place = *places.entry(object.key().clone()).or_insert_with(|| {
            pending.push(Pending { gone: None, now: None });
            pending.len() - 1
        });
        let entry = &mut pending[place];
        match (event, entry.now.take()) {
            // What nobody has seen come need not be seen to go; its predecessor's end stays.
            (Event::Deleted, Some((Event::Added, _))) => {}
            (Event::Deleted, _) => {
                entry.gone.get_or_insert(object);
            }
            (Event::Modified, Some((Event::Added, _))) => entry.now = Some((Event::Added, object)),
            (event, _) => entry.now = Some((event, object)),
        }
    }
    let left = pending.into_iter();
    left.flat_map(|entry| entry.gone.map(|last| (Event::Deleted, last)).into_iter().chain(entry.now))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(name: &str, version: u32) -> Object<()> {
        let json = format!(r#"{{"metadata":{{"name":"{name}","uid":"u","resourceVersion":"{version}"}}}}"#);
        Object::from_json(json).unwrap()
    }

    fn item(text: &str) -> Item<()> {
        let mut parts = text.split(' ');
        let event = match parts.next() {
            Some("A") => Event::Added,
            Some("M") => Event::Modified,
            _ => Event::Deleted,
        };
        (event, object(parts.next().unwrap(), parts.next().unwrap().parse().unwrap()))
    }

    fn shown(items: &[Item<()>]) -> Vec<String> {
        let show = |(event, object): &Item<()>| {
            format!("{} {} {}", &event.as_str()[..1], object.name(), object.version().unwrap())
        };
        items.iter().map(show).collect()
    }

    #[test]
    fn merging_keeps_what_is_different_from_what_was_printed() {
        let cases: &[(&[&str], &[&str])] = &[
            (&["A a 1", "M a 2"], &["A a 2"]),
            (&["M a 1", "M a 2"], &["M a 2"]),
            (&["A a 1", "D a 2"], &[]),
            (&["M a 1", "D a 2"], &["D a 2"]),
            (&["D a 1", "A a 2"], &["D a 1", "A a 2"]),
            (&["D a 1", "A a 2", "M a 3"], &["D a 1", "A a 3"]),
            (&["D a 1", "A a 2", "D a 3"], &["D a 1"]),
            (&["M a 1", "D a 2", "A a 3", "D a 4", "A a 5"], &["D a 2", "A a 5"]),
            (&["A a 1", "D a 2", "A a 3"], &["A a 3"]),
            (&["A a 1", "A b 2", "M a 3"], &["A a 3", "A b 2"]),
        ];
        for (before, after) in cases {
            let items = before.iter().map(|text| item(text)).collect();
            assert_eq!(shown(&merge(items)), *after, "{before:?}");
        }
    }

    #[test]
    fn a_reader_that_keeps_up_sees_everything() {
        let queue = Queue::with_limit(3);
        queue.push(vec![
            Delta::Added(object("a", 1)),
            Delta::Updated { old: object("a", 1), new: object("a", 2) },
        ]);
        assert_eq!(shown(&queue.take().unwrap()), ["A a 1", "M a 2"]);
        queue.close();
        assert!(queue.take().is_none());
        assert_eq!(queue.merged(), 0);
    }

    #[test]
    fn a_reader_that_does_not_costs_memory_for_each_object_and_no_more() {
        let queue = Queue::with_limit(10);
        for version in 0..1000 {
            queue.push(vec![Delta::Updated { old: object("a", version), new: object("a", version + 1) }]);
            queue.push(vec![Delta::Added(object(&format!("b{}", version % 20), version + 1))]);
        }
        let len = queue.lock().items.len();
        assert!(len <= 2 * 21 + 1, "{len}");
        assert_eq!(queue.merged() + len as u64, 2000);
    }
}
