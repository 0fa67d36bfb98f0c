//! One informer per collection, for everybody who asks.

use std::{
    any::{Any, TypeId},
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures::{
    FutureExt,
    future::{BoxFuture, join_all},
};
use tokio::time::Instant;
use tracing::{info, warn};

use super::{
    registration::InsideHandler,
    shared::{SharedInformer, Stopped},
    sync::{Cause, Laggard, Laggards},
};
use crate::{
    Builder,
    source::{ListWatch, Selection},
};

/// Makes informers, and shares them: whoever asks for the same collection gets the same one (FA-1).
///
/// The same means the same type of objects, the same [name](Builder::name), which says resource and namespace, and
/// the same selectors. Where a name is the same and the rest is not, the informer is called by its selectors too, so
/// names, and with them metrics, are unique.
///
/// ```
/// use std::time::Duration;
/// use k8s_openapi::api::core::v1::{ConfigMap, Secret};
/// use reflector::{KubeListWatch, Reflector, informer::InformerFactory, kube_client};
/// # use reflector_apiserver::ApiServer;
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = ApiServer::builder().start().await?;
/// # let config = kube::Config::new(server.url().parse()?);
/// let client = kube_client(config)?;
/// let factory = InformerFactory::new();
/// let maps = factory.informer(Reflector::builder(KubeListWatch::<ConfigMap>::all(client.clone())))?;
/// let secrets = factory.informer(Reflector::builder(KubeListWatch::<Secret>::all(client)))?;
/// factory.start()?;
/// factory.wait_for_sync(Duration::from_secs(30)).await?;
/// println!("{} maps, {} secrets", maps.cache().len(), secrets.cache().len());
/// factory.shutdown().await?;
/// # Ok(()) }
/// ```
pub struct InformerFactory {
    state: Mutex<State>,
    resync: Option<Duration>,
}

#[derive(Default)]
struct State {
    informers: HashMap<Identity, Arc<dyn AnyInformer>>,
    stopped: bool,
}

/// What makes two informers the same.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Identity {
    objects: TypeId,
    target: String,
    /// What the name does not say: the version of an API, for example.
    detail: String,
    selection: [Option<String>; 3],
}

/// The factory was shut down, for good.
#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq)]
#[error("the informer factory has been shut down, which is for good: make a new one")]
pub struct FactoryStopped;

/// An informer of whatever type.
trait AnyInformer: Send + Sync {
    fn name(&self) -> Arc<str>;
    fn start(&self);
    fn is_stopped(&self) -> bool;
    fn settled(&self) -> BoxFuture<'_, ()>;
    fn cause(&self) -> Option<Cause>;
    fn end(&self) -> BoxFuture<'_, Result<Stopped, InsideHandler>>;
    fn raise(&self);
    fn into_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync>;
}

impl<K: Send + 'static> AnyInformer for SharedInformer<K> {
    fn name(&self) -> Arc<str> {
        self.name().into()
    }

    fn start(&self) {
        // One that its user has stopped stays so.
        Self::start(self).ok();
    }

    fn is_stopped(&self) -> bool {
        Self::is_stopped(self)
    }

    fn settled(&self) -> BoxFuture<'_, ()> {
        Self::settled(self).boxed()
    }

    fn cause(&self) -> Option<Cause> {
        self.lag_cause()
    }

    fn end(&self) -> BoxFuture<'_, Result<Stopped, InsideHandler>> {
        Self::end(self, true).boxed()
    }

    fn raise(&self) {
        Self::raise(self);
    }

    fn into_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync> {
        self
    }
}

impl InformerFactory {
    /// A factory without informers.
    #[must_use]
    pub fn new() -> Self {
        Self { state: Mutex::default(), resync: None }
    }

    /// How often handlers of all informers that are made from now on are told everything once more, where the builder
    /// or the handler does not say otherwise; at least one second, and zero is never. Default: never.
    #[must_use]
    pub fn resync_every(mut self, interval: Duration) -> Self {
        self.resync = Some(interval).filter(|interval| !interval.is_zero());
        self
    }

    /// The informer of the collection that the builder describes. If there is one it is that, and everything else
    /// that the builder says is ignored. A new one begins with the next [`start`](Self::start).
    ///
    /// Informers are told apart by the type, what the source [says of itself](ListWatch::describe), and the selection. So
    /// keep one factory per cluster, and take [`KubeInformers`](super::KubeInformers), which knows versions of an API.
    ///
    /// One that was [stopped](SharedInformer::stop), or has ended by itself, is replaced by a new one.
    ///
    /// # Errors
    ///
    /// [`FactoryStopped`] after [`shutdown`](Self::shutdown).
    pub fn informer<K, L>(&self, builder: Builder<K, L>) -> Result<Arc<SharedInformer<K>>, FactoryStopped>
    where
        K: Send + 'static,
        L: ListWatch<K>,
    {
        self.informer_of(builder, String::new())
    }

    pub(super) fn informer_of<K, L>(
        &self,
        builder: Builder<K, L>,
        detail: String,
    ) -> Result<Arc<SharedInformer<K>>, FactoryStopped>
    where
        K: Send + 'static,
        L: ListWatch<K>,
    {
        let Selection { labels, fields, shard } = builder.selection().clone();
        let selection = [labels, fields, shard];
        let identity = Identity { objects: TypeId::of::<K>(), target: builder.target(), detail, selection };
        let mut state = self.state();
        if state.stopped {
            return Err(FactoryStopped);
        }
        if let Some(there) = state.informers.get(&identity)
            && !there.is_stopped()
            && let Ok(informer) = Arc::clone(there).into_any().downcast()
        {
            return Ok(informer);
        }
        // What has ended is not kept for whoever never asks again. Dropped after the lock: it may be the last handle.
        let (ended, live): (HashMap<_, _>, HashMap<_, _>) =
            std::mem::take(&mut state.informers).into_iter().partition(|(_, informer)| informer.is_stopped());
        state.informers = live;
        let name = unique_name(&state, &identity);
        let builder = match self.resync {
            Some(interval) => builder.default_resync(interval),
            None => builder,
        };
        let informer = Arc::new(SharedInformer::new(builder.name(name)));
        state.informers.insert(identity, Arc::clone(&informer) as Arc<dyn AnyInformer>);
        drop(state);
        drop(ended);
        Ok(informer)
    }

    /// Starts every informer that has not been started (FA-2). To be called again when informers were added. Must be
    /// called within a tokio runtime.
    ///
    /// # Errors
    ///
    /// [`FactoryStopped`] after [`shutdown`](Self::shutdown).
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime.
    pub fn start(&self) -> Result<(), FactoryStopped> {
        // Under the lock, so that none starts after a shutdown.
        let state = self.state();
        if state.stopped {
            return Err(FactoryStopped);
        }
        state.informers.values().for_each(|informer| informer.start());
        Ok(())
    }

    /// Waits until every informer, with every handler that it has, is in sync, but no longer than `limit`. All are
    /// waited for at once, so one that fails keeps no other from anything (I66). Those that will never be in sync, for
    /// they have ended, are not waited for.
    ///
    /// Informers that are not started are waited for too: they may be started meanwhile.
    ///
    /// # Errors
    ///
    /// [`Laggards`]: what is not in sync, and why.
    pub async fn wait_for_sync(&self, limit: Duration) -> Result<(), Laggards> {
        let informers = self.informers();
        let started = Instant::now();
        let laggards = || -> Vec<_> {
            let laggard = |informer: &Arc<dyn AnyInformer>| {
                Some(Laggard { cause: informer.cause()?, informer: informer.name() })
            };
            informers.iter().filter_map(laggard).collect()
        };
        let all = async {
            loop {
                join_all(informers.iter().map(|informer| informer.settled())).await;
                // Handlers may have come while others were waited for.
                if laggards()
                    .iter()
                    .all(|laggard| matches!(laggard.cause, Cause::Stopped(_) | Cause::HandlerFailed { .. }))
                {
                    return;
                }
                tokio::task::yield_now().await;
            }
        };
        // If both are over, being in sync wins (SI-41).
        let in_time = tokio::time::timeout(limit, all).await.is_ok();
        let mut laggards = laggards();
        laggards.sort_by(|a, b| a.informer.cmp(&b.informer));
        if laggards.is_empty() {
            info!(informers = informers.len(), waited = ?started.elapsed(), "in sync");
            return Ok(());
        }
        let laggards = Laggards { laggards, waited: started.elapsed() };
        warn!(in_time, "{laggards}");
        Err(laggards)
    }

    /// Stops all informers, and waits until no task of them is left. See [`SharedInformer::stop`].
    ///
    /// May be called any number of times, also at once; all wait for the end. Afterwards no informer can be made or
    /// started here; their caches stay readable.
    ///
    /// # Errors
    ///
    /// [`InsideHandler`] if a handler of one of the informers calls it. They end, but only once the handler returns.
    ///
    /// # Panics
    ///
    /// With the panic of a handler that is to be [propagated](super::OnPanic::Propagate), once, when all has ended.
    pub async fn shutdown(&self) -> Result<Stopped, InsideHandler> {
        self.state().stopped = true;
        let informers = self.informers();
        let ends = join_all(informers.iter().map(|informer| informer.end())).await;
        let mut all = Stopped::default();
        for end in ends {
            all.undelivered += end?.undelivered;
        }
        informers.iter().for_each(|informer| informer.raise());
        Ok(all)
    }

    fn informers(&self) -> Vec<Arc<dyn AnyInformer>> {
        self.state().informers.values().cloned().collect()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// `pods in namespace shop, labels app=cart`; with a number where that is taken too.
fn unique_name(state: &State, identity: &Identity) -> String {
    let mut name = identity.target.clone();
    let parts = ["labels", "fields", "shard"].into_iter().zip(&identity.selection);
    for (what, selector) in parts.filter_map(|(what, selector)| Some((what, selector.as_ref()?))) {
        name.push_str(&format!(", {what} {selector}"));
    }
    let taken = |name: &str| {
        state.informers.iter().any(|(other, informer)| other != identity && &*informer.name() == name)
    };
    let numbered = (2..).map(|number| format!("{name}#{number}"));
    std::iter::once(name.clone()).chain(numbered).find(|name| !taken(name)).unwrap_or(name)
}

impl Default for InformerFactory {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for InformerFactory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut names: Vec<_> = self.informers().iter().map(|informer| informer.name()).collect();
        names.sort();
        f.debug_struct("InformerFactory").field("informers", &names).finish_non_exhaustive()
    }
}
