//! What a subscriber is told, and what of it it wants to hear.

use std::{
    collections::VecDeque,
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
};

use super::{
    pending::{Gone, Pending},
    queue::Item,
};
use crate::{Object, ResourceVersion};

/// What a subscription tells.
///
/// Folding the events of one subscription gives the content of the cache under its filters, at every moment a state
/// that the cache had for each object.
#[non_exhaustive]
pub enum Event<K> {
    /// An object that the subscriber did not know.
    Added {
        /// The object.
        object: Object<K>,
        /// It is part of the content that comes before [`Synced`](Self::Synced).
        initial: bool,
    },
    /// A later revision of an object that the subscriber knows.
    Updated {
        /// What the subscriber knew. States in between may have been left out.
        old: Object<K>,
        /// What is there now.
        new: Object<K>,
    },
    /// An object that the subscriber knew is gone, or is no longer wanted by its filters.
    Deleted {
        /// Its last known state.
        last: Object<K>,
        /// Nobody saw the deletion: `last` may not be the last state it had (client-go's `DeletedFinalStateUnknown`).
        final_state_unknown: bool,
    },
    /// Everything that there was has been told. Comes once; after it, every [`Added`](Self::Added) is new.
    Synced,
    /// The subscriber knows everything up to this version. Only on demand.
    Bookmark(ResourceVersion),
    /// An object that the subscriber knows, told once more. Only on demand.
    Resync(Object<K>),
}

impl<K> Event<K> {
    /// The object that this is about: the new state, or the last known one. `None` for signs.
    #[must_use]
    pub fn object(&self) -> Option<&Object<K>> {
        match self {
            Self::Added { object, .. }
            | Self::Updated { new: object, .. }
            | Self::Deleted { last: object, .. }
            | Self::Resync(object) => Some(object),
            Self::Synced | Self::Bookmark(_) => None,
        }
    }
}

// By hand: a derived impl would demand the same of `K`, of which no value is there.
impl<K> Clone for Event<K> {
    fn clone(&self) -> Self {
        match self {
            Self::Added { object, initial } => Self::Added { object: object.clone(), initial: *initial },
            Self::Updated { old, new } => Self::Updated { old: old.clone(), new: new.clone() },
            Self::Deleted { last, final_state_unknown } => {
                Self::Deleted { last: last.clone(), final_state_unknown: *final_state_unknown }
            }
            Self::Synced => Self::Synced,
            Self::Bookmark(version) => Self::Bookmark(version.clone()),
            Self::Resync(object) => Self::Resync(object.clone()),
        }
    }
}

impl<K> fmt::Debug for Event<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Added { object, initial } => {
                f.debug_struct("Added").field("object", object).field("initial", initial).finish()
            }
            Self::Updated { old, new } => {
                f.debug_struct("Updated").field("old", old).field("new", new).finish()
            }
            Self::Deleted { last, final_state_unknown } => f
                .debug_struct("Deleted")
                .field("last", last)
                .field("final_state_unknown", final_state_unknown)
                .finish(),
            Self::Synced => f.write_str("Synced"),
            Self::Bookmark(version) => f.debug_tuple("Bookmark").field(version).finish(),
            Self::Resync(object) => f.debug_tuple("Resync").field(object).finish(),
        }
    }
}

type Predicate<K> = Box<dyn Fn(&Object<K>) -> bool + Send + Sync>;
type Changed<K> = Box<dyn Fn(&Object<K>, &Object<K>) -> bool + Send + Sync>;

/// What a subscriber wants to hear.
pub(super) struct Filter<K> {
    pub(super) predicates: Vec<Predicate<K>>,
    /// An update is told if any of these says so, or if there is none.
    pub(super) changed: Vec<Changed<K>>,
}

impl<K> Filter<K> {
    /// A predicate that panics does not want the object. So it never will, and what is told still folds.
    fn wants(&self, object: &Object<K>) -> bool {
        let wanted = || self.predicates.iter().all(|predicate| predicate(object));
        catch_unwind(AssertUnwindSafe(wanted)).unwrap_or_else(|_| {
            tracing::error!(key = %object.key(), "the filter of a subscription panicked; the object is left out");
            false
        })
    }

    fn wants_update(&self, old: &Object<K>, new: &Object<K>) -> bool {
        let differs = || self.changed.iter().any(|changed| changed(old, new));
        // What cannot be compared may differ.
        self.changed.is_empty() || catch_unwind(AssertUnwindSafe(differs)).unwrap_or(true)
    }

    /// Makes events of an item.
    pub(super) fn events(&self, item: Item<K>, synced: bool, into: &mut VecDeque<Event<K>>) {
        match item {
            Item::Present(object) if self.wants(&object) => {
                into.push_back(Event::Added { object, initial: !synced });
            }
            Item::Resync(object) if self.wants(&object) => into.push_back(Event::Resync(object)),
            Item::Present(_) | Item::Resync(_) => {}
            Item::Synced => into.push_back(Event::Synced),
            Item::Bookmark(version) => into.push_back(Event::Bookmark(version)),
            Item::Pending(pending) => self.transitions(pending, synced, into),
        }
    }

    /// The four transitions of a filter (CT-11). A deletion counts by what the subscriber knew, not by the last state:
    /// that one may have been changed and deleted at once, and the subscriber would keep the object for ever.
    fn transitions(&self, pending: Pending<K>, synced: bool, into: &mut VecDeque<Event<K>>) {
        let Pending { known, known_gone, now, now_gone } = pending;
        let mut known = known.filter(|known| self.wants(known));
        if let Some(Gone { last, final_state_unknown }) = known_gone
            && known.take().is_some()
        {
            into.push_back(Event::Deleted { last, final_state_unknown });
        }
        let Some(new) = now else { return };
        let wanted = self.wants(&new);
        match known {
            Some(old) if !wanted => into.push_back(Event::Deleted { last: old, final_state_unknown: false }),
            Some(old) if self.wants_update(&old, &new) => {
                into.push_back(Event::Updated { old, new: new.clone() });
            }
            None if wanted => into.push_back(Event::Added { object: new.clone(), initial: !synced }),
            _ => {}
        }
        if let Some(Gone { last, final_state_unknown }) = now_gone
            && wanted
        {
            into.push_back(Event::Deleted { last, final_state_unknown });
        }
    }
}
