//! How much memory the content of a cache takes.

use std::{collections::HashSet, sync::Arc};

use super::Snapshot;
use crate::Cache;

/// What the content of a cache takes, in bytes, by what it is. See [`Snapshot::memory`].
///
/// What an allocator adds, the tree that orders the objects (about two words for each), indexes and labels, which are
/// shared, are not in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Memory {
    /// How many objects there are.
    pub objects: usize,
    /// Their headers: names, uids, versions.
    pub headers: usize,
    /// Their bodies, in the form in which they are kept. Of decoded values, only their own size.
    pub bodies: usize,
    /// What the bodies would take if none were packed.
    pub unpacked: usize,
    /// The dictionaries with which they are packed, each once.
    pub dictionaries: usize,
}

impl Memory {
    /// Headers, bodies and dictionaries.
    #[must_use]
    pub fn total(&self) -> usize {
        self.headers + self.bodies + self.dictionaries
    }
}

impl<K> Snapshot<K> {
    /// How much memory the objects take. Looks at each of them: some ten milliseconds for a million.
    #[must_use]
    pub fn memory(&self) -> Memory {
        let mut memory = Memory { objects: self.len(), ..Memory::default() };
        let mut seen = HashSet::new();
        for object in self {
            let usage = object.body_memory();
            memory.headers += object.memory() - usage.bytes;
            memory.bodies += usage.bytes;
            memory.unpacked += usage.unpacked;
            if let Some(dictionary) = usage.dictionary
                && seen.insert(Arc::as_ptr(dictionary))
            {
                memory.dictionaries += dictionary.memory();
            }
        }
        memory
    }
}

impl<K> Cache<K> {
    /// How much memory the objects take at this moment. See [`Snapshot::memory`].
    ///
    /// ```
    /// use reflector::{Cache, Change, Object, Store};
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let (cache, mut writer) = Cache::<serde_json::Value>::new();
    /// writer.apply(vec![Change::Upsert(Object::from_json(r#"{"metadata":{"name":"node-1"}}"#)?)], None)?;
    /// let memory = cache.memory();
    /// assert_eq!((memory.objects, memory.bodies), (1, 30));
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn memory(&self) -> Memory {
        self.snapshot().memory()
    }
}

#[cfg(test)]
mod tests {
    use crate::{Cache, Change, Object, Store};

    /// What the objects say of themselves, and nothing twice.
    #[test]
    fn headers_and_bodies_are_all_that_objects_take() {
        let (cache, mut writer) = Cache::<serde_json::Value>::new();
        let make = |i: usize| Object::from_json(format!(r#"{{"metadata":{{"name":"o{i}"}}}}"#)).unwrap();
        writer.apply((8..12).map(|i| Change::Upsert(make(i))).collect(), None).unwrap();
        let memory = cache.memory();
        let bodies: usize = cache.list().iter().map(|object| object.json().unwrap().len()).sum();
        assert_eq!((memory.objects, memory.bodies, memory.unpacked), (4, bodies, bodies));
        assert_eq!(memory.total(), cache.list().iter().map(Object::memory).sum::<usize>());
    }
}
