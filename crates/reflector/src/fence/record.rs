//! What was written under one key, and what a reader has to be shown because of it.
//!
//! One rule decides nearly everything: once the collection is current as of the version of a write, the cache is the
//! truth, and the fence is void. The rest is for the time before, for deletions whose version is unknown, and for
//! servers whose versions cannot be compared.

use std::cmp::Ordering;

use tokio::time::Instant;

use crate::{Object, ObjectKey, ResourceVersion, Uid, protocol::Revision, store::Snapshot};

/// What the cache has under a key, and what it is current as of there.
pub(super) struct View<'a, K> {
    cached: Option<&'a Object<K>>,
    version: Option<&'a ResourceVersion>,
    /// The cache does not have the namespace, or not any more: nothing of it will ever come.
    is_outside: bool,
}

impl<'a, K> View<'a, K> {
    pub(super) fn of_key(snapshot: &'a Snapshot<K>, key: &ObjectKey) -> Self {
        let namespace = key.namespace().unwrap_or_default();
        Self {
            cached: snapshot.get(key.namespace(), key.name()),
            version: snapshot.version_of(namespace),
            is_outside: !snapshot.has(namespace),
        }
    }
}

/// What a reader is shown under a key.
pub(super) enum Answer<K> {
    /// What the cache has.
    Cached,
    /// What was written.
    Written(Object<K>),
    /// Nothing: what the cache has was deleted.
    Hidden,
}

/// The fences of one key.
pub(super) struct Record<K> {
    written: Option<Written<K>>,
    /// More than one only where a name is used again and again before the watch tells of it.
    deleted: Vec<Deleted>,
}

/// The latest state that the server is known to have had.
struct Written<K> {
    object: Object<K>,
    /// What the cache had when this was recorded.
    base: Option<Object<K>>,
    /// Objects that had the name before, and are known to be gone, whatever the cache still tells of them.
    gone: Vec<Uid>,
    at: Instant,
}

/// An object that is known to be gone.
#[derive(Clone)]
struct Deleted {
    uid: Uid,
    version: Option<ResourceVersion>,
    /// The latest version at which it is known to have been there.
    alive: Option<ResourceVersion>,
    /// The cache has had it since this was recorded.
    seen: bool,
    at: Instant,
}

impl<K> Clone for Record<K> {
    fn clone(&self) -> Self {
        Self { written: self.written.clone(), deleted: self.deleted.clone() }
    }
}

impl<K> Clone for Written<K> {
    fn clone(&self) -> Self {
        Self { object: self.object.clone(), base: self.base.clone(), gone: self.gone.clone(), at: self.at }
    }
}

fn order(a: Option<&ResourceVersion>, b: Option<&ResourceVersion>) -> Option<Ordering> {
    a?.compare(b?)
}

impl<K> Written<K> {
    fn is_void(&self, view: &View<'_, K>) -> bool {
        let version = self.object.version();
        if let Some(order) = order(view.version, version) {
            return order.is_ge()
                || view.cached.is_some_and(|cached| {
                    matches!(
                        Revision::of(self.object.meta(), cached.meta()),
                        Revision::Earlier | Revision::Same
                    )
                });
        }
        // The collection's version tells nothing.
        match view.cached {
            Some(cached) if self.knows_gone(cached) => false,
            Some(cached) => match order(cached.version(), version) {
                Some(order) => order.is_ge(),
                // Nor does the object's. What has come since was sent after the fence was recorded, and is believed.
                None => !self.base.as_ref().is_some_and(|base| is_same(base, cached)),
            },
            // It was there, and is gone.
            None => self.base.is_some(),
        }
    }

    fn knows_gone(&self, object: &Object<K>) -> bool {
        self.gone.iter().any(|uid| uid == object.uid())
    }

    /// Another object had the name before this one.
    fn comes_after(&mut self, uid: &Uid) {
        if uid.is_empty() || uid == self.object.uid() {
            return;
        }
        self.base.take_if(|base| base.uid() == uid);
        if !self.gone.iter().any(|gone| gone == uid) {
            self.gone.push(uid.clone());
        }
    }
}

fn is_same<K>(a: &Object<K>, b: &Object<K>) -> bool {
    a.ptr_eq(b) || a.same_revision(b)
}

impl Deleted {
    /// Whether the cache has the object. One that has a later version came back into the selection.
    fn is_shown<K>(&self, view: &View<'_, K>) -> bool {
        view.cached.is_some_and(|cached| {
            *cached.uid() == self.uid
                && order(cached.version(), self.version.as_ref()) != Some(Ordering::Greater)
        })
    }

    fn hides<K>(&self, view: &View<'_, K>) -> bool {
        let Some(cached) = view.cached else { return false };
        // A deletion is later than any older state of the name, whoever had it.
        self.is_shown(view) || order(cached.version(), self.known()) == Some(Ordering::Less)
    }

    /// The latest version at which something is known of the object: it was there, or had just gone.
    fn known(&self) -> Option<&ResourceVersion> {
        let (version, alive) = (self.version.as_ref(), self.alive.as_ref());
        if order(version, alive) == Some(Ordering::Less) { alive } else { version.or(alive) }
    }

    fn was_alive_at(&mut self, version: Option<&ResourceVersion>) {
        if version.is_some() && order(version, self.alive.as_ref()) != Some(Ordering::Less) {
            self.alive = version.cloned();
        }
    }

    /// Whether a written object is from before the deletion.
    fn is_after<K>(&mut self, written: &Object<K>) -> bool {
        let version = written.version();
        if !self.uid.is_empty()
            && self.uid == *written.uid()
            && order(version, self.version.as_ref()) != Some(Ordering::Greater)
        {
            self.was_alive_at(version);
            return true;
        }
        order(version, self.known()).is_some_and(Ordering::is_le)
    }

    /// Whether the cache has seen the deletion.
    fn is_void<K>(&mut self, view: &View<'_, K>) -> bool {
        if self.is_shown(view) {
            self.seen = true;
            self.was_alive_at(view.cached.and_then(Object::version));
            return false;
        }
        // If the object lived still, it would be shown at this version.
        match order(view.version, self.known()) {
            Some(order) => order.is_ge(),
            None => self.seen,
        }
    }
}

impl<K> Record<K> {
    pub(super) fn new() -> Self {
        Self { written: None, deleted: Vec::new() }
    }

    /// Whether something was recorded at that time, and stands.
    pub(super) fn is_of(&self, at: Instant) -> bool {
        self.written.as_ref().is_some_and(|written| written.at == at)
            || self.deleted.iter().any(|deleted| deleted.at == at)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.written.is_none() && self.deleted.is_empty()
    }

    /// Records what the server answered to a write, unless something later is known.
    pub(super) fn write(&mut self, object: Object<K>, view: &View<'_, K>, at: Instant) {
        let is_older = |held: &Written<K>| {
            matches!(Revision::of(object.meta(), held.object.meta()), Revision::Earlier | Revision::Same)
        };
        // A late answer tells something of the deletion: what is held may turn out to be from before it.
        let late = self.is_deleted(&object);
        self.drop_deleted();
        if late || self.written.as_ref().is_some_and(is_older) {
            return;
        }
        let mut written = Written { object, base: view.cached.cloned(), gone: Vec::new(), at };
        self.deleted.iter().for_each(|deleted| written.comes_after(&deleted.uid));
        self.written = Some(written);
        self.settle(view);
    }

    /// Records that an object is gone.
    pub(super) fn delete(
        &mut self,
        uid: &Uid,
        version: Option<&ResourceVersion>,
        view: &View<'_, K>,
        at: Instant,
    ) {
        if uid.is_empty() && version.is_none() {
            return;
        }
        let at_uid = self.deleted.iter().position(|deleted| deleted.uid == *uid);
        let at_uid = at_uid.unwrap_or_else(|| {
            self.deleted.push(Deleted { uid: uid.clone(), version: None, alive: None, seen: false, at });
            self.deleted.len() - 1
        });
        let deleted = &mut self.deleted[at_uid];
        if version.is_some() && order(deleted.version.as_ref(), version) != Some(Ordering::Greater) {
            deleted.version = version.cloned();
        }
        self.drop_deleted();
        self.written.iter_mut().for_each(|written| written.comes_after(uid));
        self.settle(view);
    }

    /// Whether a written object is from before a deletion.
    fn is_deleted(&mut self, object: &Object<K>) -> bool {
        // Every deletion is asked, since each learns from it.
        let mut late = false;
        for deleted in &mut self.deleted {
            late |= deleted.is_after(object);
        }
        late
    }

    fn drop_deleted(&mut self) {
        if let Some(written) = self.written.take()
            && !self.is_deleted(&written.object)
        {
            self.written = Some(written);
        }
    }

    /// Drops what the cache has caught up with.
    pub(super) fn settle(&mut self, view: &View<'_, K>) {
        if view.is_outside {
            *self = Self::new();
        }
        self.deleted.retain_mut(|deleted| !deleted.is_void(view));
        if self.written.as_ref().is_some_and(|written| written.is_void(view)) {
            self.written = None;
        }
    }

    /// Drops what was recorded at `before` or earlier, and tells how many of those fences changed what is shown. Must be
    /// settled.
    pub(super) fn expire(&mut self, before: Instant, view: &View<'_, K>) -> usize {
        let mut missed = usize::from(self.written.take_if(|written| written.at <= before).is_some());
        self.deleted.retain(|deleted| {
            let expired = deleted.at <= before;
            missed += usize::from(expired && deleted.hides(view));
            !expired
        });
        missed
    }

    /// What a reader is shown. Must be settled.
    pub(super) fn answer(&self, view: &View<'_, K>) -> Answer<K> {
        match &self.written {
            Some(written) => Answer::Written(written.object.clone()),
            None if self.deleted.iter().any(|deleted| deleted.hides(view)) => Answer::Hidden,
            None => Answer::Cached,
        }
    }
}
