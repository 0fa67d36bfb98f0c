//! The objects under one value of an index.

use std::sync::Arc;

use super::super::{
    Iter,
    staging::{Entry, Objects},
    writer::in_namespace,
};
use crate::Object;

/// So many objects are kept in a plain array. Most indexes have many values with few objects each, and a tree of one
/// object is a dozen times as large as the object's pointer.
const FEW: usize = 16;

/// A set of objects, ordered by key. A clone shares everything with the original.
pub(super) enum Group<K> {
    Few(Arc<[Entry<K>]>),
    Many(Objects<K>),
}

impl<K> Group<K> {
    pub(super) fn one(object: Object<K>) -> Self {
        Self::Few(Arc::new([Entry(object)]))
    }

    pub(super) fn len(&self) -> usize {
        match self {
            Self::Few(few) => few.len(),
            Self::Many(many) => many.len(),
        }
    }

    /// Puts an object in, in the place of any other under its key.
    pub(super) fn insert(&mut self, object: Object<K>) {
        let entry = Entry(object);
        match self {
            Self::Many(many) => {
                many.insert(entry);
            }
            Self::Few(few) => match few.binary_search(&entry) {
                Ok(at) => {
                    *few = few
                        .iter()
                        .enumerate()
                        .map(|(i, e)| if i == at { &entry } else { e }.clone())
                        .collect();
                }
                Err(_) if few.len() == FEW => {
                    let mut many: Objects<K> = few.iter().cloned().collect();
                    many.insert(entry);
                    *self = Self::Many(many);
                }
                Err(at) => {
                    let (before, after) = few.split_at(at);
                    *few = before.iter().chain([&entry]).chain(after).cloned().collect();
                }
            },
        }
    }

    /// Takes out what is under the key of `object`.
    pub(super) fn remove(&mut self, object: &Object<K>) {
        let entry = Entry(object.clone());
        match self {
            Self::Many(many) => {
                many.remove(&entry.key());
                // Half of the limit, so that a group at the limit does not change its form all the time.
                if many.len() <= FEW / 2 {
                    *self = Self::Few(many.iter().cloned().collect());
                }
            }
            Self::Few(few) => {
                if let Ok(at) = few.binary_search(&entry) {
                    *few = few[..at].iter().chain(&few[at + 1..]).cloned().collect();
                }
            }
        }
    }

    /// Those of one namespace, ordered by name.
    pub(super) fn in_namespace<'a>(&'a self, namespace: &'a str) -> Iter<'a, K> {
        match self {
            Self::Few(few) => {
                let entries = few.iter().map(|entry| &entry.0);
                Box::new(entries.filter(move |object| object.namespace().unwrap_or_default() == namespace))
            }
            Self::Many(many) => Box::new(in_namespace(many, namespace).map(|entry| &entry.0)),
        }
    }

    /// The objects, ordered by key.
    pub(super) fn iter(&self) -> Iter<'_, K> {
        match self {
            Self::Few(few) => Box::new(few.iter().map(|entry| &entry.0)),
            Self::Many(many) => Box::new(many.iter().map(|entry| &entry.0)),
        }
    }
}

impl<K> Clone for Group<K> {
    fn clone(&self) -> Self {
        match self {
            Self::Few(few) => Self::Few(Arc::clone(few)),
            Self::Many(many) => Self::Many(many.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(i: usize, version: &str) -> Object<()> {
        let json = format!(r#"{{"metadata":{{"name":"o{i:03}","resourceVersion":"{version}"}}}}"#);
        Object::from_json(json).unwrap()
    }

    fn names(group: &Group<()>) -> Vec<String> {
        group.iter().map(|o| format!("{}@{}", o.name(), o.version().unwrap())).collect()
    }

    #[test]
    fn a_group_is_a_set_ordered_by_key_whatever_its_size() {
        let mut group = Group::one(object(5, "1"));
        for i in (0..40).rev() {
            group.insert(object(i, "1"));
            group.insert(object(i, "2"));
        }
        let all: Vec<_> = (0..40).map(|i| format!("o{i:03}@2")).collect();
        assert_eq!(names(&group), all);
        assert!(matches!(group, Group::Many(_)));
        let shared = group.clone();
        for i in 1..40 {
            group.remove(&object(i, "7"));
            group.remove(&object(i, "7"));
            assert_eq!(group.len(), 40 - i);
            assert_eq!(names(&group).len(), 40 - i);
        }
        assert!(matches!(group, Group::Few(_)));
        assert_eq!(names(&group), ["o000@2"]);
        group.insert(object(0, "3"));
        assert_eq!(names(&group), ["o000@3"]);
        assert_eq!(names(&shared), all, "what was shared has not changed");
    }
}
