//! A walk through the content of a cache, a few objects at a time.

use std::{collections::VecDeque, ops::Bound, sync::Arc};

use super::super::{
    root::Root,
    staging::{Entry, KeyRef},
    writer::in_namespace,
};
use crate::Object;

/// So many objects are fetched at a time.
const CHUNK: usize = 64;

/// Where a walk through one root is. It keeps the root alive, and nothing else.
pub(in super::super) struct Walk<K> {
    root: Arc<Root<K>>,
    namespace: Option<Arc<str>>,
    next: VecDeque<Object<K>>,
    last: Option<Object<K>>,
    /// How many objects have been fetched.
    fetched: usize,
    done: bool,
}

impl<K> Walk<K> {
    pub(super) fn new(root: Arc<Root<K>>, namespace: Option<Arc<str>>) -> Self {
        Self { root, namespace, next: VecDeque::new(), last: None, fetched: 0, done: false }
    }

    /// Whether all of a namespace, or all of everything, is in it.
    pub(super) fn covers(&self, namespace: &Option<Arc<str>>) -> bool {
        self.namespace.is_none() || self.namespace == *namespace
    }

    /// Whether it is of that namespace alone, and nothing of it has been told.
    pub(super) fn is_unbegun_of(&self, namespace: &Arc<str>) -> bool {
        self.fetched == 0 && self.namespace.as_ref() == Some(namespace)
    }

    /// Whether its root has objects of a namespace.
    pub(super) fn has_any_of(&self, namespace: &str) -> bool {
        in_namespace(&self.root.objects, namespace).next().is_some()
    }

    /// How many objects are to come at the most.
    pub(super) fn len_max(&self) -> usize {
        let unfetched = if self.done { 0 } else { self.root.objects.len().saturating_sub(self.fetched) };
        self.next.len() + unfetched
    }

    fn fetch(&mut self) {
        let namespace = self.namespace.as_deref();
        let namespace = namespace.map(|namespace| Some(namespace).filter(|namespace| !namespace.is_empty()));
        let from = match &self.last {
            Some(last) => Bound::Excluded(KeyRef { namespace: last.namespace(), name: last.name() }),
            None => match namespace {
                Some(namespace) => Bound::Included(KeyRef { namespace, name: "" }),
                None => Bound::Unbounded,
            },
        };
        let rest = self.root.objects.range((from, Bound::Unbounded));
        let rest =
            rest.take_while(|entry| namespace.is_none_or(|namespace| entry.0.namespace() == namespace));
        self.next.extend(rest.take(CHUNK).map(|Entry(object)| object.clone()));
        self.fetched += self.next.len();
        self.done = self.next.len() < CHUNK;
        self.last = self.next.back().cloned();
    }
}

impl<K> Iterator for Walk<K> {
    type Item = Object<K>;

    fn next(&mut self) -> Option<Object<K>> {
        if self.next.is_empty() && !self.done {
            self.fetch();
        }
        self.next.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use futures::{FutureExt, StreamExt};

    use crate::{Cache, Change, Object, Store};

    /// Symptom: a subscriber that was slow at the start showed the same lag until it had taken everything.
    #[test]
    fn what_has_been_told_is_not_to_come_any_more() {
        let (cache, mut writer) = Cache::<serde_json::Value>::new();
        let make = |i: usize| Object::from_json(format!(r#"{{"metadata":{{"name":"o{i:03}"}}}}"#)).unwrap();
        writer.stage((0..200).map(|i| Change::Upsert(make(i))).collect()).unwrap();
        writer.commit_replace(None).unwrap();
        let mut changes = cache.subscribe();
        for left in (0..200).rev() {
            assert!(changes.next().now_or_never().flatten().is_some());
            assert_eq!(changes.lag().present, left);
        }
    }
}
