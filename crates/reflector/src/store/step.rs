//! One change of the content, with everything that followers need.

use super::Delta;
use crate::Object;

/// Like [`Delta`], and also tells which revision was held when an object was deleted: indexes and subscribers know
/// the object by that one.
pub(super) enum Step<K> {
    Added(Object<K>),
    Updated { old: Object<K>, new: Object<K> },
    Deleted { held: Object<K>, last: Object<K>, final_state_unknown: bool },
}

impl<K> Step<K> {
    /// A deletion that nobody saw.
    pub(super) fn vanished(held: Object<K>) -> Self {
        Self::Deleted { last: held.clone(), held, final_state_unknown: true }
    }

    /// The object that this is about: the new state, or the last known one.
    pub(super) fn object(&self) -> &Object<K> {
        match self {
            Self::Added(object) | Self::Updated { new: object, .. } | Self::Deleted { last: object, .. } => {
                object
            }
        }
    }

    pub(super) fn delta(&self) -> Delta<K> {
        match self.clone() {
            Self::Added(object) => Delta::Added(object),
            Self::Updated { old, new } => Delta::Updated { old, new },
            Self::Deleted { last, final_state_unknown, .. } => Delta::Deleted { last, final_state_unknown },
        }
    }
}

impl<K> Clone for Step<K> {
    fn clone(&self) -> Self {
        match self {
            Self::Added(object) => Self::Added(object.clone()),
            Self::Updated { old, new } => Self::Updated { old: old.clone(), new: new.clone() },
            Self::Deleted { held, last, final_state_unknown } => Self::Deleted {
                held: held.clone(),
                last: last.clone(),
                final_state_unknown: *final_state_unknown,
            },
        }
    }
}
