//! The copy: what a store does, with three objects and nothing else.
//!
//! `reflector::Cache` shares its content with its readers, so it cannot be branched from. This one follows the same rules:
//! what is staged is another map, and `protocol::Revision` decides within a watch. That the cache follows them is tested
//! beside it.

use reflector::{
    Labels, ObjectKey, ObjectMeta, ResourceVersion, Uid,
    protocol::{History, Revision},
};

use super::server::{Content, KEYS, Object, name};

/// What the machine's orders have made of what the server said.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Copy {
    /// What readers see.
    pub content: Content,
    /// The staging area, if a replacement is under way, and whether equal versions prove equal objects.
    pub staged: Option<(Content, bool)>,
    /// The last deletions, with their versions.
    graves: [Option<Object>; KEYS],
}

impl Copy {
    /// Opens an empty staging area.
    pub fn begin(&mut self, history: History) {
        self.staged = Some((Content::default(), history == History::Same));
    }

    /// Drops it.
    pub fn abandon(&mut self) {
        self.staged = None;
    }

    /// Makes what was staged the content; `false` if nothing was.
    #[must_use]
    pub fn commit(&mut self) -> bool {
        let Some((staged, _)) = self.staged.take() else { return false };
        self.content = staged;
        self.graves = Content::default();
        true
    }

    /// Stages an object, or a deletion; `false` if no staging area is open.
    #[must_use]
    pub fn stage(&mut self, key: usize, object: Object, deleted: bool) -> bool {
        let Some((staged, same_history)) = &mut self.staged else { return false };
        let before = staged[key];
        if deleted {
            if before.is_some_and(|before| Revision::is_ended_by(&meta(key, object), &meta(key, before))) {
                staged[key] = None;
            }
        } else if !before.is_some_and(|before| revision(key, object, before) == Revision::Earlier) {
            let is_same = |held: &Object| held.uid == object.uid && held.version == object.version;
            // The same revision is the same object, if the history is the same.
            let held = self.content[key].filter(|held| *same_history && is_same(held));
            staged[key] = Some(held.unwrap_or(object));
        }
        true
    }

    /// Applies a change to the content.
    pub fn apply(&mut self, key: usize, object: Object, deleted: bool) {
        match (self.content[key], deleted) {
            (None, true) => {}
            (None, false) => {
                let replayed = self.graves[key].is_some_and(|grave| {
                    matches!(revision(key, object, grave), Revision::Earlier | Revision::Same)
                });
                if !replayed {
                    self.graves[key] = None;
                    self.content[key] = Some(object);
                }
            }
            (Some(held), true) => {
                if Revision::is_ended_by(&meta(key, object), &meta(key, held)) {
                    self.content[key] = None;
                    self.graves[key] = Some(object);
                }
            }
            (Some(held), false) => {
                if matches!(revision(key, object, held), Revision::Later | Revision::Reborn) {
                    self.content[key] = Some(object);
                }
            }
        }
    }
}

fn revision(key: usize, new: Object, held: Object) -> Revision {
    Revision::of(&meta(key, new), &meta(key, held))
}

fn meta(key: usize, object: Object) -> ObjectMeta {
    ObjectMeta {
        key: ObjectKey::new(None, &name(key).to_string()),
        uid: Uid::new(&object.uid.to_string()),
        version: version(object.version),
        labels: Labels::default(),
    }
}

/// A number as the version that it is.
#[must_use]
pub(super) fn version(number: u64) -> Option<ResourceVersion> {
    ResourceVersion::new(&number.to_string())
}
