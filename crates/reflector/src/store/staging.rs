//! Objects ordered by key, and the difference between two such sets.

use std::cmp::Ordering;

use equivalent::{Comparable, Equivalent};
use imbl::OrdSet;

use crate::Object;

/// An object that is ordered and looked up by its key, so that no key is stored twice.
pub(super) struct Entry<K>(pub(super) Object<K>);

/// A set of objects. A clone shares everything with the original, and costs nothing.
pub(super) type Objects<K> = OrdSet<Entry<K>>;

/// A key in borrowed parts, so that a look-up allocates nothing.
#[derive(PartialEq, Eq, PartialOrd, Ord, Clone, Copy)]
pub(super) struct KeyRef<'a> {
    pub(super) namespace: Option<&'a str>,
    pub(super) name: &'a str,
}

impl<K> Entry<K> {
    pub(super) fn key(&self) -> KeyRef<'_> {
        KeyRef { namespace: self.0.namespace(), name: self.0.name() }
    }
}

impl<K> Clone for Entry<K> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<K> PartialEq for Entry<K> {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl<K> Eq for Entry<K> {}

impl<K> PartialOrd for Entry<K> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<K> Ord for Entry<K> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key().cmp(&other.key())
    }
}

impl<K> Equivalent<Entry<K>> for KeyRef<'_> {
    fn equivalent(&self, entry: &Entry<K>) -> bool {
        *self == entry.key()
    }
}

impl<K> Comparable<Entry<K>> for KeyRef<'_> {
    fn compare(&self, entry: &Entry<K>) -> Ordering {
        self.cmp(&entry.key())
    }
}

/// Walks two sequences in key order: each key once, with what either side has under it.
pub(super) fn pairs<'a, K: 'a>(
    old: impl Iterator<Item = &'a Entry<K>>,
    new: impl Iterator<Item = &'a Entry<K>>,
) -> impl Iterator<Item = (Option<&'a Object<K>>, Option<&'a Object<K>>)> {
    let mut old = old.peekable();
    let mut new = new.peekable();
    std::iter::from_fn(move || {
        let order = match (old.peek(), new.peek()) {
            (None, None) => return None,
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(a), Some(b)) => a.cmp(b),
        };
        let a = if order.is_le() { old.next() } else { None };
        let b = if order.is_ge() { new.next() } else { None };
        Some((a.map(|e| &e.0), b.map(|e| &e.0)))
    })
}
