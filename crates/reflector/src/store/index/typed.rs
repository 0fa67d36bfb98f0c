//! An index with its type of values.

use std::{
    borrow::Borrow,
    collections::HashMap,
    hash::{Hash, Hasher},
    marker::PhantomData,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use equivalent::Equivalent;

use super::{
    super::{
        Iter,
        root::PublishedIndex,
        staging::{Entry, Objects, pairs},
        step::Step,
    },
    Decoded, Index, IndexBy, IndexFailure, IndexId, Maintained,
    fill::{AnyValues, Find},
    group::Group,
};
use crate::Object;

/// A value, stored once however many objects have it.
pub(super) struct Value<V>(Arc<V>);

impl<V> Clone for Value<V> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<V: PartialEq> PartialEq for Value<V> {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl<V: Eq> Eq for Value<V> {}

impl<V: Hash> Hash for Value<V> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

/// A value to look for, in borrowed form.
#[derive(Hash)]
struct Probe<'a, Q: ?Sized>(&'a Q);

impl<V: Borrow<Q>, Q: Eq + ?Sized> Equivalent<Value<V>> for Probe<'_, Q> {
    fn equivalent(&self, value: &Value<V>) -> bool {
        *self.0 == *(*value.0).borrow()
    }
}

/// The content of an index at one moment. A clone shares everything.
pub(in super::super) struct Postings<K, V> {
    /// What the values come from.
    by: Arc<IndexBy<K, V>>,
    values: imbl::HashMap<Value<V>, Group<K>>,
    failed: Objects<K>,
}

impl<K, V> Clone for Postings<K, V> {
    fn clone(&self) -> Self {
        Self { by: Arc::clone(&self.by), values: self.values.clone(), failed: self.failed.clone() }
    }
}

impl<K, V: Hash + Eq> Postings<K, V> {
    /// The objects with a value, ordered by key.
    pub(in super::super) fn get<Q: Hash + Eq + ?Sized>(&self, value: &Q) -> Iter<'_, K>
    where
        V: Borrow<Q>,
    {
        self.values
            .get(&Probe(value))
            .map_or_else(|| Box::new(std::iter::empty()) as Iter<'_, K>, Group::iter)
    }

    /// The objects of one namespace with a value, ordered by name.
    pub(in super::super) fn get_in<'a, Q: Hash + Eq + ?Sized>(
        &'a self,
        namespace: &'a str,
        value: &Q,
    ) -> Iter<'a, K>
    where
        V: Borrow<Q>,
    {
        self.values.get(&Probe(value)).map_or_else(
            || Box::new(std::iter::empty()) as Iter<'_, K>,
            |group| group.in_namespace(namespace),
        )
    }

    /// How many objects have a value.
    pub(in super::super) fn count<Q: Hash + Eq + ?Sized>(&self, value: &Q) -> usize
    where
        V: Borrow<Q>,
    {
        self.values.get(&Probe(value)).map_or(0, Group::len)
    }

    /// All values that an object has, in no order.
    pub(in super::super) fn values(&self) -> impl Iterator<Item = &V> {
        self.values.keys().map(|value| &*value.0)
    }

    /// The values of any object. Those of one revision may come more than once.
    pub(in super::super) fn values_of(
        &self,
        object: &Object<K>,
        decoded: &Decoded<K>,
    ) -> Result<Vec<V>, IndexFailure> {
        let values = catch_unwind(AssertUnwindSafe(|| (self.by.function)(object, decoded)));
        values.unwrap_or_else(|_| Err("the index function panicked".into()))
    }

    /// The objects whose values are unknown.
    pub(in super::super) fn failed(&self) -> &Objects<K> {
        &self.failed
    }
}

/// The values of one object. Most have one.
enum Values<V> {
    One(Value<V>),
    Many(Box<[Value<V>]>),
}

impl<V> Values<V> {
    fn as_slice(&self) -> &[Value<V>] {
        match self {
            Self::One(value) => std::slice::from_ref(value),
            Self::Many(values) => values,
        }
    }
}

/// The values of one object, each once.
type Found<V> = Result<Vec<V>, IndexFailure>;

/// Finds the values of objects.
struct Finder<'a, K, V> {
    index: &'a Typed<K, V>,
    found: Vec<Found<V>>,
}

impl<K: 'static, V: Hash + Eq + Clone + Send + Sync + 'static> Find<K> for Finder<'_, K, V> {
    fn look(&mut self, object: &Object<K>, decoded: &Decoded<K>) {
        self.found.push(self.index.values_of(object, decoded));
    }

    fn finish(self: Box<Self>) -> AnyValues {
        Box::new(self.found)
    }
}

/// An index that is kept up to date.
pub(in super::super) struct Typed<K, V> {
    id: IndexId,
    postings: Postings<K, V>,
    /// The values of each held revision, by its address, so that taking it out asks no function a second time: it might
    /// answer differently, and the object would stay under a value for ever.
    held: HashMap<usize, Values<V>>,
    published: Option<Arc<Postings<K, V>>>,
}

impl<K: 'static, V: Hash + Eq + Clone + Send + Sync + 'static> Typed<K, V> {
    pub(in super::super) fn new(by: IndexBy<K, V>) -> Self {
        let postings = Postings { by: Arc::new(by), values: imbl::HashMap::new(), failed: Objects::new() };
        Self { id: IndexId::next(), postings, held: HashMap::new(), published: None }
    }

    pub(in super::super) fn handle(&self) -> Index<K, V> {
        Index { id: self.id, kind: PhantomData }
    }

    /// Follows the content from one state to another.
    pub(in super::super) fn catch_up(&mut self, old: &Objects<K>, new: &Objects<K>) {
        for (was, is) in pairs(old.iter(), new.iter()) {
            match (was, is) {
                (Some(was), Some(is)) if was.ptr_eq(is) => {}
                (was, is) => {
                    was.into_iter().for_each(|was| self.take_out(was));
                    is.into_iter().for_each(|is| self.put_in(is, &Decoded::default()));
                }
            }
        }
    }

    /// The values of an object, each once.
    fn values_of(&self, object: &Object<K>, decoded: &Decoded<K>) -> Found<V> {
        let mut values = self.postings.values_of(object, decoded)?;
        if values.len() > 1 {
            let mut seen = std::collections::HashSet::with_capacity(values.len());
            values.retain(|value| seen.insert(value.clone()));
        }
        Ok(values)
    }

    fn put_in(&mut self, object: &Object<K>, decoded: &Decoded<K>) {
        let values = self.values_of(object, decoded);
        self.put(object, values);
    }

    fn put(&mut self, object: &Object<K>, values: Found<V>) {
        self.published = None;
        let values = match values {
            Ok(values) => values,
            Err(error) => {
                metrics::counter!("reflector_index_failures_total", "type" => std::any::type_name::<K>())
                    .increment(1);
                if self.postings.failed.insert(Entry(object.clone())).is_none() {
                    tracing::debug!(key = %object.key(), %error, "object is unindexed");
                }
                return;
            }
        };
        let mut values: Vec<_> = values.into_iter().map(|value| self.put_under(value, object)).collect();
        let values = match (values.pop(), values.is_empty()) {
            (None, _) => return,
            (Some(value), true) => Values::One(value),
            (Some(value), false) => {
                values.push(value);
                Values::Many(values.into())
            }
        };
        self.held.insert(object.address(), values);
    }

    fn put_under(&mut self, value: V, object: &Object<K>) -> Value<V> {
        let known = self.postings.values.get_key_value(&Probe(&value)).map(|(known, _)| known.clone());
        let value = known.unwrap_or_else(|| Value(Arc::new(value)));
        match self.postings.values.get_mut(&value) {
            Some(group) => group.insert(object.clone()),
            None => {
                self.postings.values.insert(value.clone(), Group::one(object.clone()));
            }
        }
        value
    }

    fn take_out(&mut self, object: &Object<K>) {
        self.published = None;
        let Some(values) = self.held.remove(&object.address()) else {
            self.postings.failed.remove(&Entry(object.clone()));
            return;
        };
        for value in values.as_slice() {
            if let Some(group) = self.postings.values.get_mut(value) {
                group.remove(object);
                // Values come and go with the objects: an empty group would stay for ever (ST-7).
                if group.len() == 0 {
                    self.postings.values.remove(value);
                }
            }
        }
        if self.held.capacity() > 1024 && self.held.len() < self.held.capacity() / 4 {
            self.held.shrink_to_fit();
        }
    }
}

impl<K: 'static, V: Hash + Eq + Clone + Send + Sync + 'static> Maintained<K> for Typed<K, V> {
    fn id(&self) -> IndexId {
        self.id
    }

    fn finder(&self) -> Box<dyn Find<K> + '_> {
        Box::new(Finder { index: self, found: Vec::new() })
    }

    fn put_all(&mut self, objects: &[Object<K>], found: AnyValues) -> Option<()> {
        let found: Box<Vec<Found<V>>> = found.downcast().ok()?;
        objects.iter().zip(*found).for_each(|(object, values)| self.put(object, values));
        Some(())
    }

    fn follow(&mut self, step: &Step<K>, decoded: &Decoded<K>) {
        match step {
            Step::Added(new) => self.put_in(new, decoded),
            Step::Updated { old, new } => {
                self.take_out(old);
                self.put_in(new, decoded);
            }
            Step::Deleted { held, .. } => self.take_out(held),
        }
    }

    fn publish(&mut self) -> PublishedIndex {
        let postings = self.published.get_or_insert_with(|| Arc::new(self.postings.clone()));
        PublishedIndex {
            id: self.id,
            label: self.postings.by.label.clone(),
            postings: Arc::clone(postings) as _,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A table that shrinks with each object that goes would copy itself each time.
    #[test]
    fn room_is_given_back_when_most_objects_have_gone() {
        let mut index = Typed::new(IndexBy::handle(|object: &Object<()>| Ok([object.name().to_owned()])));
        let objects: Vec<_> = (0..4000)
            .map(|i| Object::from_json(format!(r#"{{"metadata":{{"name":"o{i}"}}}}"#)).unwrap())
            .collect();
        objects.iter().for_each(|object| index.put_in(object, &Decoded::default()));
        objects[..2000].iter().for_each(|object| index.take_out(object));
        // There was room for 7,168. What was taken out leaves gaps, some of which count as taken.
        assert!(index.held.capacity() > 4000, "half of them are there");
        objects[2000..].iter().for_each(|object| index.take_out(object));
        assert!(index.held.capacity() <= 1024);
    }
}
