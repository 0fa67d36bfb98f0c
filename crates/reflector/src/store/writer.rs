//! Who changes a cache.
//!
//! A writer changes the content under a lock that no reader takes, and publishes it with one atomic swap. A
//! replacement is staged in a second map that shares every object which has not changed. What is staged and not
//! committed is simply dropped, so nothing of a failed attempt can stay, and what the new list does not confirm cannot
//! be in it (B1): ghosts are impossible by construction. The price is about two words per object while a list is under way.
//!
//! Several writers may fill one cache, each its own namespace: a replacement touches that namespace and nothing else.

use std::{
    ops::Bound,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, atomic::Ordering},
    task::{Context, Poll},
};

use imbl::OrdMap;

use super::{
    Cache, Change, Delta, Lookup, Replaced, Store, StoreError,
    aftermath::{Aftermath, Litter},
    graves::Graves,
    index::{self, Decoded, Maintained},
    root::{Root, Scope, ScopeState, Shared},
    staging::{Entry, KeyRef, Objects, pairs},
    step::Step,
    subscription::News,
};
use crate::{
    Object, ResourceVersion,
    protocol::{History, Revision},
    sync::MutexGuard,
};

/// What is being written: the next root.
pub(super) struct Content<K> {
    pub(super) objects: Objects<K>,
    pub(super) scopes: OrdMap<Scope, ScopeState>,
    pub(super) indexes: Vec<Box<dyn Maintained<K>>>,
    synced: bool,
    /// How many writers there were.
    writers: u64,
}

impl<K> Default for Content<K> {
    fn default() -> Self {
        let (objects, scopes) = (Objects::new(), OrdMap::new());
        Self { objects, scopes, indexes: Vec::new(), synced: false, writers: 0 }
    }
}

impl<K> Content<K> {
    fn root(&mut self) -> Root<K> {
        self.synced =
            self.synced || !self.scopes.is_empty() && self.scopes.values().all(|state| state.synced);
        Root {
            synced: self.synced,
            objects: self.objects.clone(),
            scopes: self.scopes.clone(),
            indexes: self.indexes.iter_mut().map(|index| index.publish()).collect(),
        }
    }

    /// Lets the indexes follow. One whose values panic when they are hashed or compared is removed: nobody can tell
    /// what is in it any more.
    fn index(&mut self, step: &Step<K>) {
        let decoded = Decoded::default();
        self.keep_indexes(|index| catch_unwind(AssertUnwindSafe(|| index.follow(step, &decoded))).is_ok());
    }

    /// The same with everything that has come of a first list.
    fn index_all(&mut self, objects: &[Object<K>]) {
        let broken = index::fill(&mut self.indexes, objects);
        self.keep_indexes(|index| !broken.contains(&index.id()));
    }

    fn keep_indexes(&mut self, mut keep: impl FnMut(&mut dyn Maintained<K>) -> bool) {
        self.indexes.retain_mut(|index| {
            let keep = keep(&mut **index);
            if !keep {
                tracing::error!("an index is removed, since its values panicked");
            }
            keep
        });
    }

    /// The state of a scope, if it is still this writer's.
    fn state(&mut self, scope: &Scope, writer: u64) -> Result<&mut ScopeState, StoreError> {
        self.scopes.get_mut(scope).filter(|state| state.writer == writer).ok_or_else(|| {
            StoreError::new("this part of the cache was removed, or has another writer by now")
        })
    }
}

impl<K> Shared<K> {
    /// Publishes what has been written, and tells everybody.
    pub(super) fn publish(&self, mut content: MutexGuard<'_, Content<K>>, news: &News<K>) {
        let mut after = Aftermath::default();
        let root = Arc::new(content.root());
        let mut hub = self.hub();
        after.sweep(Litter::Root(self.root.swap(Arc::clone(&root))));
        hub.publish(&root, news, &mut after);
        drop(hub);
        drop(content);
        after.finish();
        self.published.send_replace(());
    }
}

/// Says that writers are there. When the last one goes, subscriptions end.
pub(super) struct Open<K>(Arc<Shared<K>>);

impl<K> Drop for Open<K> {
    fn drop(&mut self) {
        let mut after = Aftermath::default();
        self.0.hub().close(&mut after);
        after.finish();
        self.0.closed.store(true, Ordering::Release);
        self.0.published.send_replace(());
    }
}

/// The one handle that changes a cache, or one namespace of it.
///
/// Dropping it (and all others of the same cache) ends the subscriptions of the cache.
pub struct CacheWriter<K> {
    open: Arc<Open<K>>,
    scope: Scope,
    /// Which of all writers this is.
    number: u64,
    /// What has come of a list that is under way.
    staged: Objects<K>,
    /// What that list has to do with the content.
    history: History,
    /// What was deleted since the last replacement.
    graves: Graves,
    /// How many objects of its scope there are; counting them would take a walk.
    held: usize,
    /// It has changed its part without a replacement.
    applied: bool,
    regressions: u64,
}

/// Makes writers for a cache that is filled by namespace. See [`Cache::by_namespace`].
pub struct NamespaceWriters<K> {
    open: Arc<Open<K>>,
}

impl<K> Cache<K> {
    /// An empty cache, and the one handle that can change it.
    #[must_use]
    pub fn new() -> (Self, CacheWriter<K>) {
        let (cache, writers) = Self::by_namespace();
        (cache, CacheWriter::new(writers.open, Scope::All))
    }

    /// An empty cache that is filled namespace by namespace, and the maker of its writers.
    ///
    /// The cache is synced when every namespace that has a writer has been listed once.
    #[must_use]
    pub fn by_namespace() -> (Self, NamespaceWriters<K>) {
        let shared = Arc::new(Shared::new());
        let open = Arc::new(Open(Arc::clone(&shared)));
        (Self { shared }, NamespaceWriters { open })
    }
}

impl<K> NamespaceWriters<K> {
    /// The writer of one namespace; of cluster-scoped objects, if the name is empty. It takes the namespace over from a
    /// writer that has it: that one gets errors from then on.
    #[must_use]
    pub fn writer(&self, namespace: &str) -> CacheWriter<K> {
        CacheWriter::new(Arc::clone(&self.open), Scope::Namespace(namespace.into()))
    }

    /// Takes a namespace out of the cache, with everything in it. Subscribers see deletions whose final state is
    /// unknown, since the objects may well live on. Its writer gets errors from then on.
    pub fn remove(&self, namespace: &str) {
        let shared = &self.open.0;
        let mut content = shared.content();
        let scope = Scope::Namespace(namespace.into());
        if content.scopes.remove(&scope).is_none() {
            return;
        }
        let steps = replace_in(&mut content, &scope, &Objects::new(), &mut Replaced::default());
        shared.publish(content, &News::gone(namespace, steps.into()));
    }
}

impl<K> std::fmt::Debug for NamespaceWriters<K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NamespaceWriters").finish_non_exhaustive()
    }
}

impl<K> CacheWriter<K> {
    fn new(open: Arc<Open<K>>, scope: Scope) -> Self {
        let mut content = open.0.content();
        content.writers += 1;
        let number = content.writers;
        content.scopes.insert(scope.clone(), ScopeState { writer: number, version: None, synced: false });
        let held = within(&content.objects, &scope).count();
        open.0.publish(content, &News::none());
        Self {
            open,
            scope,
            number,
            staged: Objects::new(),
            history: History::Same,
            graves: Graves::default(),
            held,
            applied: false,
            regressions: 0,
        }
    }

    /// Like [`Store::apply`], and tells what each change was, after everything is visible to readers. A change that
    /// changes nothing is not told.
    ///
    /// # Errors
    ///
    /// If an object belongs to another namespace than this writer, or the writer's part of the cache is not its own any
    /// more. Nothing has changed then.
    pub fn apply_with(
        &mut self,
        changes: Vec<Change<K>>,
        version: Option<&ResourceVersion>,
        tell: &mut dyn FnMut(Delta<K>),
    ) -> Result<(), StoreError> {
        self.check(&changes)?;
        let open = Arc::clone(&self.open);
        let mut content = open.0.content();
        let state = content.state(&self.scope, self.number)?;
        if let Some(version) = version {
            state.version = Some(version.clone());
        }
        let mut steps = Vec::with_capacity(changes.len());
        for change in changes {
            let before = steps.len();
            match change {
                Change::Upsert(new) => self.upsert(&mut content.objects, new, &mut steps),
                Change::Delete(last) => self.delete(&mut content.objects, last, &mut steps),
            }
            steps[before..].iter().for_each(|step| content.index(step));
        }
        self.applied |= !steps.is_empty();
        for step in &steps {
            match step {
                Step::Added(_) => self.held += 1,
                Step::Updated { .. } => {}
                Step::Deleted { .. } => self.held = self.held.saturating_sub(1),
            }
        }
        let steps: Arc<[_]> = steps.into();
        open.0.publish(content, &News::steps(Arc::clone(&steps)));
        steps.iter().for_each(|step| tell(step.delta()));
        Ok(())
    }

    /// Like [`Store::commit_replace`], and tells what changed, after everything is visible to readers: first what is
    /// gone, then what is new or different, each in the order of the keys (CT-7). An object in the same revision as
    /// before is not told.
    ///
    /// # Errors
    ///
    /// If the writer's part of the cache is not its own any more. Nothing has changed then.
    pub fn commit_with(
        &mut self,
        version: Option<&ResourceVersion>,
        tell: &mut dyn FnMut(Delta<K>),
    ) -> Result<Replaced, StoreError> {
        let staged = std::mem::take(&mut self.staged);
        let open = Arc::clone(&self.open);
        let mut content = open.0.content();
        let state = content.state(&self.scope, self.number)?;
        let first = !state.synced && !self.applied && self.held == 0;
        // Another version of the collection, even an older one: the list is what there is.
        (state.version, state.synced) = (version.cloned(), true);
        self.held = staged.len();
        self.graves.clear();
        let mut replaced = Replaced::default();
        if first {
            // A million steps would be a second copy: whoever follows walks through the root instead.
            fill(&mut content, &self.scope, &staged);
            open.0.publish(content, &News::first(self.scope.namespace()));
            staged.iter().for_each(|Entry(object)| tell(Delta::Added(object.clone())));
            replaced.added = staged.len();
            return Ok(replaced);
        }
        let steps: Arc<[_]> = replace_in(&mut content, &self.scope, &staged, &mut replaced).into();
        open.0.publish(content, &News::steps(Arc::clone(&steps)));
        steps.iter().for_each(|step| tell(step.delta()));
        Ok(replaced)
    }

    /// How many changes were dropped since they would have taken an object back to an earlier revision (K8).
    #[must_use]
    pub fn regressions(&self) -> u64 {
        self.regressions
    }

    fn upsert(&mut self, objects: &mut Objects<K>, new: Object<K>, steps: &mut Vec<Step<K>>) {
        let entry = Entry(new.clone());
        let Some(Entry(old)) = objects.get(&entry.key()) else {
            if self.graves.holds(new.meta()) {
                self.regressions += 1;
                return;
            }
            objects.insert(entry);
            return steps.push(Step::Added(new));
        };
        match Revision::of(new.meta(), old.meta()) {
            Revision::Same => {}
            Revision::Earlier => self.regressions += 1,
            Revision::Later => {
                let old = old.clone();
                objects.insert(entry);
                steps.push(Step::Updated { old, new });
            }
            Revision::Reborn => {
                let held = old.clone();
                objects.insert(entry);
                steps.push(Step::vanished(held));
                steps.push(Step::Added(new));
            }
        }
    }

    fn delete(&mut self, objects: &mut Objects<K>, last: Object<K>, steps: &mut Vec<Step<K>>) {
        let entry = Entry(last);
        let Some(Entry(held)) = objects.get(&entry.key()) else { return };
        if !Revision::is_ended_by(entry.0.meta(), held.meta()) {
            self.regressions += 1;
            return;
        }
        let held = held.clone();
        objects.remove(&entry.key());
        // One that could not be read may not say of which object, nor when.
        let mut grave = entry.0.meta().clone();
        if grave.uid.is_empty() {
            grave.uid = held.meta().uid.clone();
        }
        grave.version = grave.version.or_else(|| held.meta().version.clone());
        self.graves.bury(grave);
        // A deletion that could not be read or transformed says less than what is held.
        let unread =
            entry.0.uid().is_empty() && !held.uid().is_empty() || held.is_usable() && !entry.0.is_usable();
        steps.push(if unread || is_another_object(&held, &entry.0) {
            Step::vanished(held)
        } else {
            Step::Deleted { held, last: entry.0, final_state_unknown: false }
        });
    }

    fn stage_one(&mut self, held: &Objects<K>, change: Change<K>) {
        match change {
            Change::Upsert(new) => {
                let entry = Entry(new);
                let staged = self.staged.get(&entry.key());
                if staged.is_some_and(|s| Revision::of(entry.0.meta(), s.0.meta()) == Revision::Earlier) {
                    return;
                }
                // The same revision is the same object: it is shared, and causes nothing later.
                let held = held.get(&entry.key()).filter(|held| self.is_same(&held.0, &entry.0)).cloned();
                self.staged.insert(held.unwrap_or(entry));
            }
            Change::Delete(last) => {
                let entry = Entry(last);
                let staged = self.staged.get(&entry.key());
                if staged.is_some_and(|s| Revision::is_ended_by(entry.0.meta(), s.0.meta())) {
                    self.staged.remove(&entry.key());
                }
            }
        }
    }

    fn is_same(&self, held: &Object<K>, new: &Object<K>) -> bool {
        // A transform that failed for a moment is made good by the next list, and does no harm to a good body.
        held.same_revision(new)
            && held.is_usable() >= new.is_usable()
            && (self.history == History::Same || held.same_body(new))
    }

    /// An object of another namespace would be outside of every later replacement of this one: a ghost.
    fn check(&self, changes: &[Change<K>]) -> Result<(), StoreError> {
        let Scope::Namespace(namespace) = &self.scope else { return Ok(()) };
        for change in changes {
            let (Change::Upsert(object) | Change::Delete(object)) = change;
            if object.namespace().unwrap_or_default() != &**namespace {
                return Err(StoreError::new(format!("{} is not in namespace {namespace}", object.key())));
            }
        }
        Ok(())
    }
}

/// Makes `staged` the content of a scope that is empty.
fn fill<K>(content: &mut Content<K>, scope: &Scope, staged: &Objects<K>) {
    if *scope == Scope::All {
        content.objects = staged.clone();
    }
    let objects: Vec<_> = staged.iter().map(|Entry(object)| object.clone()).collect();
    if *scope != Scope::All {
        content.objects.extend(staged.iter().cloned());
    }
    content.index_all(&objects);
}

/// Makes `staged` the content of a scope, and tells what that changed: deletions first (CT-7).
fn replace_in<K>(
    content: &mut Content<K>,
    scope: &Scope,
    staged: &Objects<K>,
    replaced: &mut Replaced,
) -> Vec<Step<K>> {
    let old = content.objects.clone();
    let (mut gone, mut there) = (Vec::new(), Vec::new());
    for (was, is) in pairs(within(&old, scope), staged.iter()) {
        match (was, is) {
            (Some(was), Some(is)) if was.ptr_eq(is) => replaced.unchanged += 1,
            (Some(was), Some(is)) if !is_another_object(was, is) => {
                replaced.updated += 1;
                there.push(Step::Updated { old: was.clone(), new: is.clone() });
            }
            (was, is) => {
                if let Some(was) = was {
                    replaced.deleted += 1;
                    gone.push(Step::vanished(was.clone()));
                }
                if let Some(is) = is {
                    replaced.added += 1;
                    there.push(Step::Added(is.clone()));
                }
            }
        }
    }
    gone.append(&mut there);
    match scope {
        Scope::All => content.objects = staged.clone(),
        Scope::Namespace(_) => gone.iter().for_each(|step| match step {
            Step::Added(new) | Step::Updated { new, .. } => {
                content.objects.insert(Entry(new.clone()));
            }
            Step::Deleted { held, .. } => {
                content.objects.remove(&Entry(held.clone()).key());
            }
        }),
    }
    gone.iter().for_each(|step| content.index(step));
    gone
}

/// The part of the content that belongs to a scope.
fn within<'a, K>(objects: &'a Objects<K>, scope: &'a Scope) -> Box<dyn Iterator<Item = &'a Entry<K>> + 'a> {
    match scope {
        Scope::All => Box::new(objects.iter()),
        Scope::Namespace(namespace) => Box::new(in_namespace(objects, namespace)),
    }
}

/// The objects of a namespace, ordered by name; of none, if it is empty.
pub(super) fn in_namespace<'a, K>(
    objects: &'a Objects<K>,
    namespace: &'a str,
) -> impl Iterator<Item = &'a Entry<K>> {
    let namespace = Some(namespace).filter(|namespace| !namespace.is_empty());
    let from = objects.range((Bound::Included(KeyRef { namespace, name: "" }), Bound::Unbounded));
    from.take_while(move |entry| entry.0.namespace() == namespace)
}

/// Same name, other uid.
fn is_another_object<K>(a: &Object<K>, b: &Object<K>) -> bool {
    !a.uid().is_empty() && !b.uid().is_empty() && a.uid() != b.uid()
}

impl<K: 'static> Store<K> for CacheWriter<K> {
    fn apply(
        &mut self,
        changes: Vec<Change<K>>,
        version: Option<&ResourceVersion>,
    ) -> Result<(), StoreError> {
        self.apply_with(changes, version, &mut |_| {})
    }

    fn begin_replace(&mut self, history: History) {
        self.history = history;
        self.staged = Objects::new();
    }

    fn stage(&mut self, changes: Vec<Change<K>>) -> Result<(), StoreError> {
        self.check(&changes)?;
        // Only this writer changes its part, so what is published is what is held.
        let root = self.open.0.root.load_full();
        changes.into_iter().for_each(|change| self.stage_one(&root.objects, change));
        Ok(())
    }

    fn commit_replace(&mut self, version: Option<&ResourceVersion>) -> Result<(), StoreError> {
        self.commit_with(version, &mut |_| {}).map(drop)
    }

    fn abandon_replace(&mut self) {
        self.staged = Objects::new();
    }

    fn object_count(&self) -> Option<usize> {
        Some(self.held)
    }

    fn bookmark(&mut self, version: &ResourceVersion) {
        let open = Arc::clone(&self.open);
        let mut content = open.0.content();
        // Where it is another's by now, there is nothing to mark.
        if let Ok(state) = content.state(&self.scope, self.number) {
            state.version = Some(version.clone());
            open.0.publish(content, &News::bookmark());
        }
    }

    fn resync(&mut self) -> Result<(), StoreError> {
        let open = Arc::clone(&self.open);
        open.0.publish(open.0.content(), &News::resync(self.scope.namespace()));
        Ok(())
    }

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.open.0.hub().poll_room(self.scope.namespace(), cx)
    }

    fn lookup(&self) -> Option<Lookup<K>> {
        // Not `open`, which would keep subscriptions going after the writer.
        let shared = Arc::clone(&self.open.0);
        Some(Box::new(move |key| {
            let key = KeyRef { namespace: key.namespace(), name: key.name() };
            shared.root.load().objects.get(&key).map(|Entry(object)| object.clone())
        }))
    }
}

impl<K> std::fmt::Debug for CacheWriter<K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CacheWriter").field("scope", &self.scope).finish_non_exhaustive()
    }
}

#[cfg(test)]
#[path = "cache_tests.rs"]
mod tests;
