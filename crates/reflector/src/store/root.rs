//! The content of a cache at one moment, and what all handles of a cache share.

use std::{
    any::Any,
    sync::{Arc, PoisonError, atomic::AtomicBool},
};

use arc_swap::ArcSwap;
use imbl::OrdMap;
use tokio::sync::watch;

use super::{index::IndexId, staging::Objects, subscription::Hub, writer::Content};
use crate::{
    ResourceVersion,
    sync::{Mutex, MutexGuard},
};

/// The content at one moment. Never changes once it is published.
pub(super) struct Root<K> {
    pub(super) objects: Objects<K>,
    pub(super) scopes: OrdMap<Scope, ScopeState>,
    pub(super) indexes: Vec<PublishedIndex>,
    /// All scopes have held all of their part once. Latched: a namespace that joins later does not undo it.
    pub(super) synced: bool,
}

/// An index at one moment; which type it has is known to the [`Index`](super::Index) with the same id.
#[derive(Clone)]
pub(super) struct PublishedIndex {
    pub(super) id: IndexId,
    /// The label that it is an index of, so that selectors can use it.
    pub(super) label: Option<Arc<str>>,
    pub(super) postings: Arc<dyn Any + Send + Sync>,
}

/// The part of a cache that one writer fills.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Scope {
    /// All of it.
    All,
    /// One namespace.
    Namespace(Arc<str>),
}

impl Scope {
    /// The scope of a namespace; the empty one is that of cluster-scoped objects.
    pub(super) fn namespace(&self) -> Option<&Arc<str>> {
        match self {
            Self::All => None,
            Self::Namespace(namespace) => Some(namespace),
        }
    }
}

/// How far a scope is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ScopeState {
    /// Whose it is. A writer that comes for the same scope takes it over.
    pub(super) writer: u64,
    /// What it is current as of.
    pub(super) version: Option<ResourceVersion>,
    /// Whether it has held all of its part once.
    pub(super) synced: bool,
}

impl<K> Root<K> {
    pub(super) fn empty() -> Self {
        Self { objects: Objects::new(), scopes: OrdMap::new(), indexes: Vec::new(), synced: false }
    }

    /// The version that everything is current as of: the lowest of all scopes.
    pub(super) fn version(&self) -> Option<&ResourceVersion> {
        let mut lowest: Option<&ResourceVersion> = None;
        for state in self.scopes.values() {
            let version = state.version.as_ref()?;
            lowest = match lowest {
                Some(lowest) if lowest != version => match lowest.compare(version) {
                    Some(order) if order.is_le() => Some(lowest),
                    Some(_) => Some(version),
                    // Versions that cannot be compared have no lowest one.
                    None => return None,
                },
                _ => Some(version),
            };
        }
        lowest
    }

    /// How far one namespace is, if anybody fills it.
    pub(super) fn state_of(&self, namespace: &str) -> Option<&ScopeState> {
        let all = self.scopes.get(&Scope::All);
        all.or_else(|| self.scopes.get(&Scope::Namespace(namespace.into())))
    }

    /// The version that one namespace is current as of.
    pub(super) fn version_of(&self, namespace: &str) -> Option<&ResourceVersion> {
        self.state_of(namespace)?.version.as_ref()
    }

    /// Whether everything of one namespace has been there once.
    pub(super) fn is_synced_in(&self, namespace: &str) -> bool {
        self.state_of(namespace).is_some_and(|state| state.synced)
    }
}

/// What all handles of one cache share.
///
/// Two locks, taken in this order: `content`, by whoever changes it; `hub`, by whoever publishes or subscribes. A
/// reader takes neither. Nothing of the caller runs under `hub`.
pub(super) struct Shared<K> {
    /// Stored under the lock of `hub` only, so that a subscriber gets a root and exactly what follows it.
    pub(super) root: ArcSwap<Root<K>>,
    content: Mutex<Content<K>>,
    hub: Mutex<Hub<K>>,
    /// Told after every publication, and when the last writer goes.
    pub(super) published: watch::Sender<()>,
    /// Nobody writes any more. Set before `published` is told.
    pub(super) closed: AtomicBool,
}

impl<K> Shared<K> {
    pub(super) fn new() -> Self {
        Self {
            root: ArcSwap::from_pointee(Root::empty()),
            content: Mutex::new(Content::default()),
            hub: Mutex::new(Hub::default()),
            published: watch::Sender::new(()),
            closed: AtomicBool::new(false),
        }
    }

    /// What is being written. A panic while it was locked left it as consistent as any moment between two steps.
    pub(super) fn content(&self) -> MutexGuard<'_, Content<K>> {
        self.content.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Who listens.
    pub(super) fn hub(&self) -> MutexGuard<'_, Hub<K>> {
        self.hub.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
