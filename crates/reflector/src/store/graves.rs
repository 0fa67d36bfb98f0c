//! What was deleted lately, so that a replay cannot bring it back.
//!
//! Where an object is held, its version tells a replay from a change (K8). Where it has been deleted there is nothing to
//! compare with, and a replayed ADDED or MODIFIED would make a ghost. So the last deletions are remembered.

use std::collections::{HashMap, VecDeque};

use crate::{Labels, ObjectKey, ObjectMeta, protocol::Revision};

/// So many deletions are remembered. Replays follow closely on what they repeat, and this bounds the memory.
const GRAVES_MAX: usize = 1024;

/// The last deletions, by key.
#[derive(Default)]
pub(super) struct Graves {
    /// Each with the number of its burial.
    deleted: HashMap<ObjectKey, (u64, ObjectMeta)>,
    /// In the order of the burials; some may have been opened since.
    order: VecDeque<(u64, ObjectKey)>,
    burials: u64,
}

impl Graves {
    /// Remembers a deletion, with the uid of what was deleted and the version of the deletion. A replayed one does not
    /// take the place of a later one.
    pub(super) fn bury(&mut self, mut deleted: ObjectMeta) {
        if self.holds(&deleted) {
            return;
        }
        deleted.labels = Labels::default();
        self.burials += 1;
        self.order.push_back((self.burials, deleted.key.clone()));
        self.deleted.insert(deleted.key.clone(), (self.burials, deleted));
        if self.order.len() > GRAVES_MAX
            && let Some((burial, key)) = self.order.pop_front()
            && self.deleted.get(&key).is_some_and(|(number, _)| *number == burial)
        {
            self.deleted.remove(&key);
        }
    }

    /// Whether `new` is a state from before the deletion of its object. If not, the deletion is history.
    pub(super) fn holds(&mut self, new: &ObjectMeta) -> bool {
        let Some((_, deleted)) = self.deleted.get(&new.key) else { return false };
        let is_replay = matches!(Revision::of(new, deleted), Revision::Earlier | Revision::Same);
        if !is_replay {
            self.deleted.remove(&new.key);
        }
        is_replay
    }

    /// The collection was read anew: what it holds is there.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ResourceVersion;

    fn meta(name: &str, version: u64) -> ObjectMeta {
        ObjectMeta {
            key: ObjectKey::new(None, name),
            uid: "u".into(),
            version: ResourceVersion::new(&version.to_string()),
            labels: Labels::default(),
        }
    }

    #[test]
    fn a_deletion_is_forgotten_when_so_many_have_followed_and_not_before() {
        let mut graves = Graves::default();
        (1..=GRAVES_MAX as u64).for_each(|i| graves.bury(meta(&format!("o{i}"), 10)));
        assert!(graves.holds(&meta("o1", 9)));
        graves.bury(meta("another", 10));
        assert!(!graves.holds(&meta("o1", 9)) && graves.holds(&meta("o2", 9)));
    }

    #[test]
    fn memory_is_bounded_and_the_latest_are_kept() {
        let mut graves = Graves::default();
        for i in 0..5000 {
            graves.bury(meta(&format!("o{}", i % 2000), 10 + i));
        }
        assert!(graves.order.len() <= GRAVES_MAX && graves.deleted.len() <= GRAVES_MAX);
        assert!(graves.holds(&meta("o999", 1)), "the last one buried");
        // o500 was buried three times, the last time among the last 1024.
        assert!(graves.holds(&meta("o500", 2000)));
        assert!(!graves.holds(&meta("o1500", 1)), "long forgotten");
        // What is later than its deletion is there again.
        assert!(!graves.holds(&meta("o500", 9000)));
        assert!(!graves.holds(&meta("o500", 1)), "its deletion is history");
    }
}
