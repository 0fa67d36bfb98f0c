//! The first content of the indexes: many objects at once, on several threads.
//!
//! Nearly all the time of an index over the decoded object is the decoding, and at the first list there are all objects
//! to decode before anybody can be told that the cache is synced. What an object's values are needs no order; only
//! putting them in does.

use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
    thread,
};

use super::{Decoded, IndexId, Maintained};
use crate::Object;

/// The values of some objects in one index, whose type only that index knows.
pub(super) type AnyValues = Box<dyn Any + Send>;

/// Finds the values of objects in one index, without changing it.
pub(in super::super) trait Find<K> {
    fn look(&mut self, object: &Object<K>, decoded: &Decoded<K>);
    /// What was found, in the order in which it was looked.
    fn finish(self: Box<Self>) -> AnyValues;
}

/// So many objects are one piece of work: some milliseconds, where they are decoded.
const PIECE: usize = 256;

/// Indexes objects that are new to all of these indexes. Tells in which of them hashing or comparing the values panics:
/// nobody knows what is in such an index any more.
pub(in super::super) fn fill<K>(
    indexes: &mut [Box<dyn Maintained<K>>],
    objects: &[Object<K>],
) -> Vec<IndexId> {
    let mut broken = Vec::new();
    if indexes.is_empty() {
        return broken;
    }
    let threads = thread::available_parallelism().map_or(1, |threads| threads.get().min(8));
    // What has been found and is not put in yet is bounded by one round.
    for round in objects.chunks(threads * PIECE) {
        let shared = &*indexes;
        let found = if round.len() <= PIECE {
            vec![find_all(shared, round)]
        } else {
            thread::scope(|scope| {
                let find = |piece| scope.spawn(move || find_all(shared, piece));
                let workers: Vec<_> = round.chunks(PIECE).map(find).collect();
                workers.into_iter().map(|worker| worker.join().unwrap_or_default()).collect()
            })
        };
        for (piece, mut found) in round.chunks(PIECE).zip(found) {
            found.resize_with(indexes.len(), || None);
            for (index, found) in indexes.iter_mut().zip(found) {
                let put = catch_unwind(AssertUnwindSafe(|| index.put_all(piece, found?)));
                if !matches!(put, Ok(Some(()))) && !broken.contains(&index.id()) {
                    broken.push(index.id());
                }
            }
        }
    }
    broken
}

/// What each index finds in these objects; nothing, if it panics.
fn find_all<K>(indexes: &[Box<dyn Maintained<K>>], objects: &[Object<K>]) -> Vec<Option<AnyValues>> {
    let mut finders: Vec<_> = indexes.iter().map(|index| Some(index.finder())).collect();
    for object in objects {
        // An object is decoded once for all indexes, and gone before the next one is.
        let decoded = Decoded::default();
        for finder in &mut finders {
            let Some(working) = finder else { continue };
            if catch_unwind(AssertUnwindSafe(|| working.look(object, &decoded))).is_err() {
                *finder = None;
            }
        }
    }
    finders.into_iter().map(|finder| Some(finder?.finish())).collect()
}
