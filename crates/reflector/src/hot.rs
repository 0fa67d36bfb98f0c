//! Decoded objects that are needed often.

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use serde::de::DeserializeOwned;

use crate::{DecodeError, Object};

/// The decoded values of the objects that were read last, up to a number of them.
///
/// A packed cache is small since it keeps nothing decoded. A controller that reads the same few objects again and again
/// keeps those decoded here. It holds revisions: a new revision of an object is decoded when it is asked for, and the
/// old one goes when it has not been read for a while.
///
/// ```
/// use reflector::{Hot, Object};
///
/// let hot = Hot::new(100);
/// let node: Object<serde_json::Value> = Object::from_json(r#"{"metadata":{"name":"node-1"}}"#)?;
/// let (first, again) = (hot.get(&node)?, hot.get(&node)?);
/// assert!(std::sync::Arc::ptr_eq(&first, &again));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Hot<K> {
    capacity: usize,
    kept: Mutex<Kept<K>>,
}

/// Second chance: a hand goes round, and takes what was not read since it came by.
struct Kept<K> {
    places: Vec<Place<K>>,
    /// Where a revision is, by its address, which is its own as long as it is kept.
    at: HashMap<usize, usize>,
    hand: usize,
}

struct Place<K> {
    object: Object<K>,
    value: Arc<K>,
    read: bool,
}

impl<K> Hot<K> {
    /// Room for so many values; with none, everything is decoded at each read.
    #[must_use]
    pub fn new(capacity: usize) -> Self {
        Self { capacity, kept: Mutex::new(Kept { places: Vec::new(), at: HashMap::new(), hand: 0 }) }
    }

    /// How many values are kept.
    #[must_use]
    pub fn len(&self) -> usize {
        self.kept().places.len()
    }

    /// Whether none is.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Drops all values.
    pub fn clear(&self) {
        // Dropped outside of the lock: the values are the caller's.
        let old =
            std::mem::replace(&mut *self.kept(), Kept { places: Vec::new(), at: HashMap::new(), hand: 0 });
        drop(old);
    }

    // Nothing of the caller runs under the lock.
    fn kept(&self) -> MutexGuard<'_, Kept<K>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: DeserializeOwned + 'static> Hot<K> {
    /// The value of this revision: the one that is kept, or else decoded now.
    ///
    /// # Errors
    ///
    /// As [`Object::get`]. Failures are not kept.
    pub fn get(&self, object: &Object<K>) -> Result<Arc<K>, DecodeError> {
        if let Some(value) = self.kept().find(object) {
            return Ok(value);
        }
        let value = object.get()?;
        let old = self.kept().put(object, &value, self.capacity);
        drop(old);
        Ok(value)
    }
}

impl<K> Kept<K> {
    fn find(&mut self, object: &Object<K>) -> Option<Arc<K>> {
        let place = self.at.get(&object.address()).and_then(|at| self.places.get_mut(*at))?;
        place.read = true;
        Some(Arc::clone(&place.value))
    }

    /// Gives back what had to go.
    fn put(&mut self, object: &Object<K>, value: &Arc<K>, capacity: usize) -> Option<Place<K>> {
        // Another thread may have decoded it at the same time.
        if capacity == 0 || self.at.contains_key(&object.address()) {
            return None;
        }
        let place = Place { object: object.clone(), value: Arc::clone(value), read: false };
        if self.places.len() < capacity {
            self.at.insert(object.address(), self.places.len());
            self.places.push(place);
            return None;
        }
        loop {
            self.hand = (self.hand + 1) % self.places.len();
            let held = &mut self.places[self.hand];
            if !std::mem::take(&mut held.read) {
                self.at.remove(&held.object.address());
                self.at.insert(object.address(), self.hand);
                return Some(std::mem::replace(held, place));
            }
        }
    }
}

impl<K> fmt::Debug for Hot<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hot").field("capacity", &self.capacity).field("len", &self.len()).finish()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn object(i: usize) -> Object<Value> {
        Object::from_json(format!(r#"{{"metadata":{{"name":"o{i}"}}}}"#)).unwrap()
    }

    #[test]
    fn what_is_read_again_and_again_stays_and_the_number_is_bounded() {
        let hot = Hot::new(10);
        let often = object(0);
        let first = hot.get(&often).unwrap();
        for i in 1..1_000 {
            hot.get(&object(i)).unwrap();
            assert!(Arc::ptr_eq(&first, &hot.get(&often).unwrap()), "after {i} others");
            let known = hot.kept().at.len();
            assert!(hot.len() <= 10 && known == hot.len());
        }
        hot.clear();
        assert!(hot.is_empty() && !Arc::ptr_eq(&first, &hot.get(&often).unwrap()));
    }

    #[test]
    fn a_new_revision_is_another_value_and_failures_are_not_kept() {
        let hot = Hot::new(10);
        let (old, new) = (object(1), object(1));
        assert!(!Arc::ptr_eq(&hot.get(&old).unwrap(), &hot.get(&new).unwrap()));
        let broken: Object<u32> = Object::from_json(r#"{"metadata":{"name":"a"}}"#).unwrap();
        let hot = Hot::new(10);
        assert!(hot.get(&broken).is_err() && hot.get(&broken).is_err() && hot.is_empty());
    }

    #[test]
    fn without_room_everything_is_decoded_at_each_read() {
        let hot = Hot::new(0);
        let object = object(1);
        assert!(!Arc::ptr_eq(&hot.get(&object).unwrap(), &hot.get(&object).unwrap()));
    }
}
