//! Which of two revisions of one object is the later one.
//!
//! Within a watch no object moves backwards: a replayed or late event does not overwrite what is newer (K8). The uid
//! counts, since the same name may be taken by another object, whose versions are later ones of the same sequence.

use crate::ObjectMeta;

/// What a new revision is to the one that is held under the same key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Revision {
    /// The very same one: nothing to do.
    Same,
    /// A later one of the same object, or one that cannot be compared: the order of arrival decides.
    Later,
    /// An earlier one: it must not replace what is held.
    Earlier,
    /// One of another object that has taken the name since: the held one was deleted, unseen.
    Reborn,
}

impl Revision {
    /// Compares by uid and version.
    #[must_use]
    pub fn of(new: &ObjectMeta, held: &ObjectMeta) -> Self {
        let older = match (&new.version, &held.version) {
            (Some(new), Some(held)) => new.is_older_than(held),
            _ => false,
        };
        let same_object = new.uid == held.uid || new.uid.is_empty() || held.uid.is_empty();
        match (older, same_object) {
            (true, _) => Self::Earlier,
            (false, false) => Self::Reborn,
            (false, true) if new.version.is_some() && new.version == held.version && new.uid == held.uid => {
                Self::Same
            }
            (false, true) => Self::Later,
        }
    }

    /// Whether a DELETED event with `deleted` ends what is held.
    ///
    /// An older one is a replay, also of the same uid: an object that left a selection comes back with it.
    #[must_use]
    pub fn is_ended_by(deleted: &ObjectMeta, held: &ObjectMeta) -> bool {
        Self::of(deleted, held) != Self::Earlier
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Labels, ObjectKey, ResourceVersion};

    fn meta(uid: &str, version: &str) -> ObjectMeta {
        ObjectMeta {
            key: ObjectKey::new(Some("ns"), "a"),
            uid: uid.into(),
            version: ResourceVersion::new(version),
            labels: Labels::default(),
        }
    }

    #[test]
    fn k8_uid_and_version_decide() {
        use Revision::{Earlier, Later, Reborn, Same};
        // new uid, new version, held uid, held version
        let cases = [
            ("u1", "7", "u1", "7", Same),
            ("u1", "8", "u1", "7", Later),
            ("u1", "6", "u1", "7", Earlier),
            ("u2", "8", "u1", "7", Reborn),
            ("u2", "7", "u1", "7", Reborn),
            // A replay of the object that had the name before.
            ("u0", "6", "u1", "7", Earlier),
            // Opaque versions: the order of arrival.
            ("u1", "x", "u1", "y", Later),
            ("u1", "x", "u1", "x", Same),
            ("u2", "x", "u1", "y", Reborn),
            // Versions that are missing say nothing.
            ("u1", "", "u1", "", Later),
            ("u1", "", "u1", "7", Later),
            // Servers without uids.
            ("", "8", "", "7", Later),
            ("", "7", "", "7", Same),
        ];
        for (new_uid, new, held_uid, held, expected) in cases {
            let revision = Revision::of(&meta(new_uid, new), &meta(held_uid, held));
            assert_eq!(revision, expected, "{new_uid}@{new} over {held_uid}@{held}");
        }
    }

    #[test]
    fn a_deletion_that_is_older_ends_nothing() {
        let held = meta("u2", "7");
        assert!(Revision::is_ended_by(&meta("u2", "8"), &held));
        assert!(Revision::is_ended_by(&meta("u2", "7"), &held));
        assert!(!Revision::is_ended_by(&meta("u2", "5"), &held));
        assert!(!Revision::is_ended_by(&meta("u1", "6"), &held));
        assert!(Revision::is_ended_by(&meta("u3", "9"), &held));
        assert!(!Revision::is_ended_by(&meta("", "6"), &held));
    }
}
