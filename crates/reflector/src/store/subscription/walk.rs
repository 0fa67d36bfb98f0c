//! A walk through the content of a cache, a few objects at a time.

use std::{collections::VecDeque, ops::Bound, sync::Arc};

use super::super::{
    root::Root,
    staging::{Entry, KeyRef},
};
use crate::Object;

/// So many objects are fetched at a time.
const CHUNK: usize = 64;

/// Where a walk through one root is. It keeps the root alive, and nothing else.
pub(super) struct Walk<K> {
    root: Arc<Root<K>>,
    namespace: Option<Arc<str>>,
    next: VecDeque<Object<K>>,
    last: Option<Object<K>>,
    done: bool,
}

impl<K> Walk<K> {
    pub(super) fn new(root: Arc<Root<K>>, namespace: Option<Arc<str>>) -> Self {
        Self { root, namespace, next: VecDeque::new(), last: None, done: false }
    }

    /// Whether all of a namespace, or all of everything, is in it.
    pub(super) fn covers(&self, namespace: &Option<Arc<str>>) -> bool {
        self.namespace.is_none() || self.namespace == *namespace
    }

    /// How many objects are to come at the most.
    pub(super) fn len_max(&self) -> usize {
        if self.done { self.next.len() } else { self.root.objects.len() }
    }

    fn fetch(&mut self) {
        let namespace = self.namespace.as_deref();
        let from = match &self.last {
            Some(last) => Bound::Excluded(KeyRef { namespace: last.namespace(), name: last.name() }),
            None if namespace.is_some() => Bound::Included(KeyRef { namespace, name: "" }),
            None => Bound::Unbounded,
        };
        let rest = self.root.objects.range((from, Bound::Unbounded));
        let rest = rest.take_while(|entry| namespace.is_none() || entry.0.namespace() == namespace);
        self.next.extend(rest.take(CHUNK).map(|Entry(object)| object.clone()));
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
