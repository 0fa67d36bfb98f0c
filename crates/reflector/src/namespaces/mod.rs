//! Several namespaces in one cache, each with its own watch.
//!
//! One list of all namespaces is cheaper where the credentials allow it. Where they allow some namespaces only, each
//! needs a watch of its own, with its own version, waits and failures; and what happens in one must never touch the
//! objects of another (kube-state-metrics#942), nor keep the others from working (controller-runtime#1653).
//!
//! # Adding and removing
//!
//! The set is behind one lock, which is never held across a wait. Each namespace is in one of three states:
//!
//! ```text
//!  absent ──add──▶ member ──remove──▶ leaving ──its task ends──▶ forgotten
//!    ▲                                   │
//!    └──────────── may be added ─────────┘
//! ```
//!
//! A removal happens at once and as a whole: the writer is taken away from the task, and the objects out of the cache.
//! All that is waited for is the end of the task, which needs nobody to wait for it.

mod builder;
mod error;
mod lease;

use std::{
    collections::BTreeMap,
    fmt,
    future::poll_fn,
    panic::{AssertUnwindSafe, resume_unwind},
    sync::{Mutex, MutexGuard, PoisonError},
    task::{Context, Poll},
    time::Duration,
};

use futures::{FutureExt, future::join_all};
use tokio::{runtime, sync::watch};

use crate::{
    Cache, Handle,
    health::Monitor,
    protocol::Status,
    reflector::{Until, wait},
    source::ListWatch,
    store::NamespaceWriters,
};
pub use builder::NamespacedBuilder;
pub use error::{NamespaceNotReady, NotAllReady};
use lease::{Lease, Leased};

/// Starts the reflector of one namespace.
type Launch<K> = Box<dyn FnOnce(Leased<K>) -> Handle>;

/// Calls the caller's closures for one namespace.
type Prepare<K> = Box<dyn Fn(&str) -> Launch<K> + Send + Sync>;

/// A reflector of a changing set of namespaces: one [`Cache`], and one watch per namespace.
///
/// The namespaces are independent: each has its own versions, waits and failures, and one that is forbidden keeps no
/// other from being read. The cache [is synced](Cache::is_synced) once all of them are; the version that one namespace
/// is current as of is [`Snapshot::version_of`](crate::store::Snapshot::version_of).
///
/// It drives itself. [`stop`](Self::stop) ends it and waits until nothing of it runs any more; dropping it ends it too,
/// without waiting. The cache stays readable after that. To add and remove from several tasks, share it in an
/// [`Arc`](std::sync::Arc).
///
/// Metrics are those of one reflector per namespace: the label `resource` names the namespace. The facade cannot take
/// series away, so there are as many as namespaces were ever added; `reflector_objects` of a removed one is zero.
///
/// ```
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use reflector::{KubeListWatch, NamespacedReflector, kube_client};
/// # use reflector_apiserver::ApiServer;
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = ApiServer::builder().start().await?;
/// # let config = kube::Config::new(server.url().parse()?);
/// let client = kube_client(config)?;
/// let maps = NamespacedReflector::builder(move |ns| KubeListWatch::<ConfigMap>::namespaced(client.clone(), ns))
///     .start(["shop", "bank"]);
/// if let Err(error) = maps.ready().await {
///     // What is not named here is ready.
///     eprintln!("going on without some: {error}");
/// }
/// maps.add("post");
/// maps.remove("bank").await;
/// assert_eq!(maps.namespaces(), ["post", "shop"]);
/// maps.stop().await;
/// # Ok(()) }
/// ```
pub struct NamespacedReflector<K> {
    cache: Cache<K>,
    prepare: Prepare<K>,
    set: Mutex<Set<K>>,
    /// Told whenever a namespace comes or goes, before that shows in any status.
    changed: watch::Sender<()>,
}

/// What is behind the lock.
struct Set<K> {
    writers: NamespaceWriters<K>,
    members: BTreeMap<Box<str>, Member<K>>,
    /// Removed, but their tasks may not have ended yet.
    leaving: Vec<(u64, Handle)>,
    removals: u64,
}

struct Member<K> {
    handle: Handle,
    lease: Lease<K>,
}

impl<K: Send + 'static> NamespacedReflector<K> {
    /// Begins to describe a set, by what gives the source of a namespace.
    ///
    /// The closure is called once for each namespace that is added.
    pub fn builder<L: ListWatch<K>>(
        source: impl Fn(&str) -> L + Send + Sync + 'static,
    ) -> NamespacedBuilder<K, L> {
        NamespacedBuilder::new(source)
    }

    fn new(cache: Cache<K>, writers: NamespaceWriters<K>, prepare: Prepare<K>) -> Self {
        let set = Set { writers, members: BTreeMap::new(), leaving: Vec::new(), removals: 0 };
        Self { cache, prepare, set: Mutex::new(set), changed: watch::Sender::new(()) }
    }

    /// Adds a namespace, and starts to reflect it; returns whether that was new. Does nothing if it is there.
    ///
    /// One whose reflector has ended, since its error handler said so, is started anew. Its objects stay until the new
    /// list has come.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime.
    pub fn add(&self, namespace: &str) -> bool {
        self.add_all([namespace]) == 1
    }

    /// Adds namespaces; returns how many were new. The cache is not synced before all of them are.
    fn add_all<N: AsRef<str>>(&self, namespaces: impl IntoIterator<Item = N>) -> usize {
        // What may panic comes before the lock, and the closures of the caller may use this set.
        runtime::Handle::current();
        let mut new: BTreeMap<Box<str>, Launch<K>> = BTreeMap::new();
        for namespace in namespaces {
            let namespace = namespace.as_ref();
            if !self.set().is_live(namespace) && !new.contains_key(namespace) {
                new.insert(namespace.into(), (self.prepare)(namespace));
            }
        }
        let mut set = self.set();
        set.forget_ended();
        // Another task may have been faster.
        new.retain(|namespace, _| !set.is_live(namespace));
        // All writers first: a namespace that syncs at once must find that it is not alone.
        let new: Vec<_> = new
            .into_iter()
            .map(|(namespace, launch)| {
                let lease = Lease::new(set.writers.writer(&namespace));
                (namespace, launch, lease)
            })
            .collect();
        let count = new.len();
        for (namespace, launch, (lease, leased)) in new {
            set.members.insert(namespace, Member { handle: launch(leased), lease });
        }
        self.changed.send_replace(());
        count
    }

    /// Removes a namespace; returns whether it was there. Its objects leave the cache at once and together, which
    /// subscribers see as deletions whose final state is unknown. Then its reflector is waited for: no request of it is
    /// open after that.
    ///
    /// Nothing happens before the future is polled. Dropping it later gives up the wait, and nothing else.
    ///
    /// # Panics
    ///
    /// If the reflector's task has panicked, with that panic.
    pub async fn remove(&self, namespace: &str) -> bool {
        let Some(removal) = self.take_out(namespace) else { return false };
        poll_fn(|cx| self.set().poll_left(removal, cx)).await;
        true
    }

    /// The whole of a removal but the end of the task.
    fn take_out(&self, namespace: &str) -> Option<u64> {
        let mut set = self.set();
        let Member { handle, lease } = set.members.remove(namespace)?;
        self.changed.send_replace(());
        handle.tell_to_stop();
        lease.revoke();
        set.writers.remove(namespace);
        set.forget_ended();
        set.removals += 1;
        let removal = set.removals;
        set.leaving.push((removal, handle));
        Some(removal)
    }

    /// Ends all reflectors and waits until their tasks have ended, those of removed namespaces too. The cache stays
    /// readable.
    ///
    /// # Panics
    ///
    /// If a task has panicked, with the first such panic, when all have ended.
    pub async fn stop(self) -> Cache<K> {
        let Set { members, leaving, .. } = self.set.into_inner().unwrap_or_else(PoisonError::into_inner);
        let members = members.into_values().map(|member| member.handle);
        let handles = members.chain(leaving.into_iter().map(|(_, handle)| handle));
        let ends = handles.map(|handle| AssertUnwindSafe(handle.stop()).catch_unwind());
        if let Some(Err(payload)) = join_all(ends).await.into_iter().find(Result::is_err) {
            resume_unwind(payload);
        }
        self.cache
    }
}

impl<K> NamespacedReflector<K> {
    /// The copy of all namespaces.
    #[must_use]
    pub fn cache(&self) -> &Cache<K> {
        &self.cache
    }

    /// The namespaces, in order.
    #[must_use]
    pub fn namespaces(&self) -> Vec<String> {
        self.set().members.keys().map(ToString::to_string).collect()
    }

    /// Waits until every namespace has either been in the cache as a whole, or has something in its way that waiting
    /// alone does not cure. Namespaces that come or go meanwhile are regarded. Of no namespaces, all are ready.
    ///
    /// After an error it may be called again: the reflectors go on trying meanwhile, see
    /// [`Handle::ready`](crate::Handle::ready).
    ///
    /// # Errors
    ///
    /// The namespaces that are not ready, each with its cause. All others are.
    pub async fn ready(&self) -> Result<(), NotAllReady> {
        self.all(Until::Ready).await
    }

    /// Waits until every namespace has been in the cache as a whole, whatever happens on the way.
    ///
    /// # Errors
    ///
    /// The namespaces whose reflectors have ended before.
    pub async fn synced(&self) -> Result<(), NotAllReady> {
        self.all(Until::Synced).await
    }

    async fn all(&self, until: Until) -> Result<(), NotAllReady> {
        let mut changed = self.changed.subscribe();
        loop {
            changed.borrow_and_update();
            let waits: Vec<_> = self.each(Handle::watch_status).into_iter().collect();
            let waits = waits.into_iter().map(|(namespace, status)| one(namespace, status, until));
            let results = tokio::select! {
                biased;
                _ = changed.changed() => continue,
                results = join_all(waits) => results,
            };
            // One that has been removed has ended, and is no failure.
            if !changed.has_changed().unwrap_or(false) {
                return NotAllReady::check(results.into_iter().filter_map(Result::err).collect());
            }
        }
    }

    /// Like [`ready`](Self::ready), for one namespace.
    ///
    /// # Errors
    ///
    /// What stands in the way; or that it is not in the set, or has been removed meanwhile.
    pub async fn ready_of(&self, namespace: &str) -> Result<(), NamespaceNotReady> {
        let absent = || NamespaceNotReady::Absent { namespace: namespace.to_owned() };
        let status = self.of(namespace, Handle::watch_status).ok_or_else(absent)?;
        one(namespace.to_owned(), status, Until::Ready).await
    }

    /// What is going on in a namespace; `None` if it is not in the set. Times in it are since it was added, see
    /// [`uptime_of`](Self::uptime_of).
    #[must_use]
    pub fn status(&self, namespace: &str) -> Option<Status> {
        self.of(namespace, Handle::status)
    }

    /// What is going on in every namespace.
    #[must_use]
    pub fn statuses(&self) -> BTreeMap<String, Status> {
        self.each(Handle::status)
    }

    /// A receiver that sees every change of the status of a namespace, and every bit of progress. The last one that it
    /// sees is that its reflector has stopped.
    #[must_use]
    pub fn watch_status(&self, namespace: &str) -> Option<watch::Receiver<Status>> {
        self.of(namespace, Handle::watch_status)
    }

    /// What can be asked about the reflector of a namespace without keeping it alive, for a
    /// [`Health`](crate::health::Health).
    #[must_use]
    pub fn monitor(&self, namespace: &str) -> Option<Monitor> {
        self.of(namespace, Handle::monitor)
    }

    /// How long a namespace has been reflected.
    #[must_use]
    pub fn uptime_of(&self, namespace: &str) -> Option<Duration> {
        self.of(namespace, Handle::uptime)
    }

    /// The worst [staleness](crate::Handle::staleness) of all namespaces. `None` before all have synced, and if there
    /// are none.
    #[must_use]
    pub fn staleness(&self) -> Option<Duration> {
        let all: Option<Vec<_>> = self.each(Handle::staleness).into_values().collect();
        all?.into_iter().max()
    }

    /// The [staleness](crate::Handle::staleness) of one namespace. `None` before its first sync, or if it is not in the
    /// set.
    #[must_use]
    pub fn staleness_of(&self, namespace: &str) -> Option<Duration> {
        self.of(namespace, Handle::staleness)?
    }

    fn of<T>(&self, namespace: &str, look: impl FnOnce(&Handle) -> T) -> Option<T> {
        self.set().members.get(namespace).map(|member| look(&member.handle))
    }

    fn each<T>(&self, look: impl Fn(&Handle) -> T) -> BTreeMap<String, T> {
        let set = self.set();
        set.members.iter().map(|(namespace, member)| (namespace.to_string(), look(&member.handle))).collect()
    }

    /// A panic while it was locked left it whole: each change is one insertion or removal.
    fn set(&self) -> MutexGuard<'_, Set<K>> {
        self.set.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K> Set<K> {
    fn is_live(&self, namespace: &str) -> bool {
        self.members.get(namespace).is_some_and(|member| !member.handle.is_stopped())
    }

    /// Whether the task of a removed namespace has ended.
    fn poll_left(&mut self, removal: u64, cx: &mut Context<'_>) -> Poll<()> {
        let Some(at) = self.leaving.iter().position(|(id, _)| *id == removal) else { return Poll::Ready(()) };
        std::task::ready!(self.leaving[at].1.poll_stopped(cx));
        self.leaving.swap_remove(at);
        Poll::Ready(())
    }

    /// Forgets removed namespaces that nobody waits for any more.
    fn forget_ended(&mut self) {
        self.leaving.retain(|(_, handle)| !handle.is_stopped());
    }
}

/// Waits for one namespace.
async fn one(
    namespace: String,
    status: watch::Receiver<Status>,
    until: Until,
) -> Result<(), NamespaceNotReady> {
    wait(status, until).await.map_err(|source| NamespaceNotReady::Reflector { namespace, source })
}

impl<K> fmt::Debug for NamespacedReflector<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let phases = self.each(|handle| handle.status().phase);
        f.debug_struct("NamespacedReflector")
            .field("cache", &self.cache)
            .field("namespaces", &phases)
            .finish()
    }
}
