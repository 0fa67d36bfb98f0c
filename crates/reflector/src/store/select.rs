//! Selecting objects by their labels.
//!
//! A requirement that demands one of some values of a label that is indexed narrows the search to the objects with
//! these values; of several such requirements the one with the fewest objects is taken. Otherwise every object of the
//! scope is looked at, by its header alone.

use super::{
    Iter, Snapshot,
    index::{Postings, find_label},
};
use crate::{
    FieldSelector, LabelSelector,
    selector::{Operator, Requirement},
};

impl<K: 'static> Snapshot<K> {
    /// The objects that a label selector selects, ordered by key.
    ///
    /// ```
    /// use reflector::{Cache, Change, IndexBy, LabelSelector, Object, Store};
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let (cache, mut writer) = Cache::<serde_json::Value>::new();
    /// let web = r#"{"metadata":{"namespace":"shop","name":"web-1","labels":{"app":"web"}}}"#;
    /// writer.apply(vec![Change::Upsert(Object::from_json(web)?)], None)?;
    /// // Not needed, but now it is found without looking at any other.
    /// cache.index_by(IndexBy::label("app"));
    ///
    /// let selector: LabelSelector = "app in (web, api),tier!=db".parse()?;
    /// assert_eq!(cache.snapshot().select(&selector).count(), 1);
    /// # Ok(()) }
    /// ```
    pub fn select<'a>(&'a self, selector: &'a LabelSelector) -> Iter<'a, K> {
        self.selected(None, selector)
    }

    /// The objects of one namespace that a label selector selects, ordered by name.
    pub fn select_in<'a>(&'a self, namespace: &'a str, selector: &'a LabelSelector) -> Iter<'a, K> {
        self.selected(Some(namespace), selector)
    }

    /// The objects that a field selector selects, ordered by key. Bodies are searched, and not decoded.
    pub fn select_fields<'a>(&'a self, selector: &'a FieldSelector) -> Iter<'a, K> {
        Box::new(self.iter().filter(move |object| selector.matches(object)))
    }

    /// The objects of one namespace that a field selector selects, ordered by name.
    pub fn select_fields_in<'a>(&'a self, namespace: &'a str, selector: &'a FieldSelector) -> Iter<'a, K> {
        Box::new(self.namespace(namespace).filter(move |object| selector.matches(object)))
    }

    fn selected<'a>(&'a self, namespace: Option<&'a str>, selector: &'a LabelSelector) -> Iter<'a, K> {
        let candidates = match (self.narrowest(selector), namespace) {
            (Some((postings, requirement)), _) => with_one_of(postings, namespace, requirement),
            (None, Some(namespace)) => self.namespace(namespace),
            (None, None) => self.iter(),
        };
        Box::new(candidates.filter(move |object| selector.matches(object.meta())))
    }

    /// The indexed requirement with the fewest objects.
    fn narrowest<'a>(
        &'a self,
        selector: &'a LabelSelector,
    ) -> Option<(&'a Postings<K, String>, &'a Requirement)> {
        let positive = selector.requirements().iter().filter(|r| r.operator() == Operator::In);
        let indexed = positive.filter_map(|r| Some((find_label(&self.root.indexes, r.key())?, r)));
        indexed.min_by_key(|(postings, r)| r.values().map(|value| postings.count(value)).sum::<usize>())
    }
}

/// The objects with any of the values, of one namespace or of all, ordered by key.
fn with_one_of<'a, K>(
    postings: &'a Postings<K, String>,
    namespace: Option<&'a str>,
    requirement: &'a Requirement,
) -> Iter<'a, K> {
    let with = move |value| match namespace {
        Some(namespace) => postings.get_in(namespace, value),
        None => postings.get(value),
    };
    let mut groups = requirement.values().filter(|value| postings.count(*value) > 0);
    match (groups.next(), groups.next()) {
        (None, _) => Box::new(std::iter::empty()),
        (Some(value), None) => with(value),
        _ => {
            // An object has one value of a label, so it comes once.
            let mut all: Vec<_> = requirement.values().flat_map(with).collect();
            all.sort_by_key(|object| object.key());
            Box::new(all.into_iter())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Cache, Change, IndexBy, Object, Store};

    /// Symptom: in a small namespace a selector took a thousand times as long with an index as without. Cause: the
    /// objects of all namespaces with the label were looked at.
    #[test]
    fn an_index_looks_at_no_other_namespace() {
        let (cache, mut writer) = Cache::<()>::new();
        let make = |namespace: &str, i: usize| {
            let app = ["web", "api"][i % 2];
            let json = format!(
                r#"{{"metadata":{{"namespace":"{namespace}","name":"o{i}","labels":{{"app":"{app}"}}}}}}"#
            );
            Change::Upsert(Object::from_json(json).unwrap())
        };
        let small = (0..4).map(|i| make("small", i));
        writer.apply((0..100).map(|i| make("big", i)).chain(small).collect(), None).unwrap();
        cache.index_by(IndexBy::label("app"));
        let snapshot = cache.snapshot();
        for (selector, looked_at) in [("app=web", 2), ("app in (web,api)", 4)] {
            let selector: LabelSelector = selector.parse().unwrap();
            let (postings, requirement) = snapshot.narrowest(&selector).unwrap();
            assert_eq!(with_one_of(postings, Some("small"), requirement).count(), looked_at);
        }
    }
}
