//! One reflector, many handlers.

use std::{
    fmt,
    panic::{AssertUnwindSafe, resume_unwind},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures::{
    FutureExt,
    future::{BoxFuture, Shared},
};
use serde::de::DeserializeOwned;
use tokio::{sync::watch, task::JoinSet};
use tracing::{Instrument, info};

use super::{
    handler::EventHandler,
    handlers::Handlers,
    options::HandlerOptions,
    registration::{HandlerState, InsideHandler, Registration, Roster, inside_informer},
};
use crate::{
    Builder, Cache, Handle, Index, IndexBy, NotReady,
    health::{HealthCheck, Monitor, Verdict},
    protocol::{Machine, Options, Phase, Status},
    reflector::{Until, wait},
    source::ListWatch,
};

/// One reflector with many handlers: one copy of a collection, one watch, and everybody who wants to be told.
///
/// Handlers may be added and removed at any time until it is stopped, from any task. One that comes late is told what
/// there is, as added, and then every change after exactly that (SI-20); the others do not wait for it.
///
/// [`stop`](Self::stop) and [`drain`](Self::drain) end it and wait until no task of it is left; it cannot be started
/// again. Dropping it ends everything too, without waiting, and cancels calls of handlers that wait for something.
/// The cache stays readable after that. A handler that holds its own informer keeps it from being dropped: stop it.
///
/// ```
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use reflector::{KubeListWatch, Reflector, informer::{Callbacks, SharedInformer}, kube_client};
/// # use reflector_apiserver::ApiServer;
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = ApiServer::builder().start().await?;
/// # let config = kube::Config::new(server.url().parse()?);
/// let source = KubeListWatch::<ConfigMap>::all(kube_client(config)?);
/// let maps = SharedInformer::new(Reflector::builder(source).labels("app=cart"));
/// let handler = maps.add_handler(Callbacks::new().on_add(|map, _| println!("{} is there", map.key())))?;
/// maps.start()?;
/// handler.synced().await?;
/// handler.remove();
/// maps.stop().await?;
/// # Ok(()) }
/// ```
pub struct SharedInformer<K> {
    handlers: Handlers<K>,
    launched: watch::Sender<Launch>,
    stage: Mutex<Stage>,
}

/// The tasks of the handlers. Each gives how many events it was kept from.
type Tasks = JoinSet<usize>;

type Starter = Box<dyn FnOnce() -> Handle + Send>;

/// The end of everything; many may wait for it, and it goes on if one of them ceases to.
type End = Shared<BoxFuture<'static, usize>>;

enum Stage {
    Created { starter: Option<Starter>, tasks: Tasks },
    Running { handle: Handle, tasks: Tasks },
    Ending(End),
}

/// What readers of the status need to know of the stage.
enum Launch {
    NotYet,
    Running(Monitor),
    Never,
}

/// It was stopped before, for good.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[error("the informer of {informer} has been stopped, which is for good: make a new one")]
pub struct AlreadyStopped {
    /// Which one.
    pub informer: Arc<str>,
}

/// What was left when an informer was stopped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stopped {
    /// How many events waited for handlers that were running, and were not delivered. Objects that a filter would have
    /// passed over are counted.
    pub undelivered: usize,
}

impl<K: Send + 'static> SharedInformer<K> {
    /// An informer of what a builder describes, with all its options. Nothing is asked of the server before
    /// [`start`](Self::start).
    #[must_use = "nothing happens before `start`"]
    pub fn new<L: ListWatch<K>>(builder: Builder<K, L>) -> Self {
        let name = builder.target();
        let cache = builder.cache().clone();
        let builder = builder.name(name.clone());
        Self {
            handlers: Handlers::new(name, &cache),
            launched: watch::Sender::new(Launch::NotYet),
            stage: Mutex::new(Stage::Created {
                starter: Some(Box::new(move || builder.start().into_handle())),
                tasks: Tasks::new(),
            }),
        }
    }

    /// What the collection is called: see [`Builder::name`].
    #[must_use]
    pub fn name(&self) -> &str {
        self.handlers.name()
    }

    /// The copy.
    #[must_use]
    pub fn cache(&self) -> &Cache<K> {
        self.handlers.cache()
    }

    /// Adds an index, at any time. See [`Cache::index`].
    pub fn index<V, I>(&self, values: impl Fn(&K) -> I + Send + Sync + 'static) -> Index<K, V>
    where
        K: DeserializeOwned,
        V: std::hash::Hash + Eq + Clone + Send + Sync + 'static,
        I: IntoIterator<Item = V>,
    {
        self.cache().index(values)
    }

    /// Adds an index by anything else, at any time. See [`Cache::index_by`].
    pub fn index_by<V>(&self, by: IndexBy<K, V>) -> Index<K, V>
    where
        V: std::hash::Hash + Eq + Clone + Send + Sync + 'static,
    {
        self.cache().index_by(by)
    }

    /// Starts. Does nothing if that has been done. Must be called within a tokio runtime.
    ///
    /// # Errors
    ///
    /// [`AlreadyStopped`].
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime.
    pub fn start(&self) -> Result<(), AlreadyStopped> {
        let mut stage = self.stage();
        match &mut *stage {
            Stage::Running { .. } => Ok(()),
            Stage::Ending(_) => Err(self.already_stopped()),
            Stage::Created { starter, tasks } => {
                let starter = starter.take().ok_or_else(|| self.already_stopped())?;
                let handle = starter();
                self.launched.send_replace(Launch::Running(handle.monitor()));
                *stage = Stage::Running { handle, tasks: std::mem::take(tasks) };
                Ok(())
            }
        }
    }

    /// Adds a handler with the default [`HandlerOptions`].
    ///
    /// # Errors
    ///
    /// See [`add_handler_with`](Self::add_handler_with).
    pub fn add_handler<H: EventHandler<K>>(&self, handler: H) -> Result<Registration, AlreadyStopped> {
        self.add_handler_with(handler, HandlerOptions::new())
    }

    /// Adds a handler, before the start or after. Its task begins at once. Must be called within a tokio runtime.
    ///
    /// # Errors
    ///
    /// [`AlreadyStopped`] if the informer was stopped, or has ended by itself
    /// ([`Control::Stop`](crate::Control::Stop)).
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime.
    pub fn add_handler_with<H: EventHandler<K>>(
        &self,
        handler: H,
        options: HandlerOptions<K>,
    ) -> Result<Registration, AlreadyStopped> {
        // What is the caller's runs before the lock, and is dropped after it.
        let entry = self.handlers.prepare(handler, options);

        let mut stage = self.stage();
        let tasks = match &mut *stage {
            Stage::Created { starter: Some(_), tasks } => tasks,
            Stage::Running { handle, tasks } if !handle.is_stopped() => tasks,
            _ => return Err(self.already_stopped()),
        };
        // Those that have ended take no memory.
        while tasks.try_join_next().is_some() {}
        let (registration, task) = entry.enter(&self.handlers);
        let span = tracing::info_span!("handler", resource = self.name(), handler = registration.name());
        tasks.spawn(task.run().instrument(span));
        Ok(registration)
    }

    /// The handlers that run, the oldest first.
    #[must_use]
    pub fn handlers(&self) -> Vec<Registration> {
        self.handlers.all()
    }

    /// Waits for the start and then for the first sync, see [`Handle::ready`]. Handlers may still be busy then, see
    /// [`Registration::synced`].
    ///
    /// # Errors
    ///
    /// See [`Handle::ready`].
    pub async fn ready(&self) -> Result<(), NotReady> {
        wait(self.running().await.ok_or(NotReady::Stopped(None))?, Until::Ready).await
    }

    /// Waits for the start and then for the first sync, whatever happens on the way. See [`Handle::synced`].
    ///
    /// # Errors
    ///
    /// See there.
    pub async fn synced(&self) -> Result<(), NotReady> {
        wait(self.running().await.ok_or(NotReady::Stopped(None))?, Until::Synced).await
    }

    /// The status once it runs; `None` if it never will.
    async fn running(&self) -> Option<watch::Receiver<Status>> {
        let mut launched = self.launched.subscribe();
        match &*launched.wait_for(|launch| !matches!(launch, Launch::NotYet)).await.ok()? {
            Launch::Running(monitor) => Some(monitor.status.clone()),
            Launch::NotYet | Launch::Never => None,
        }
    }

    /// What is going on.
    #[must_use]
    pub fn status(&self) -> Status {
        let launched = self.launched.borrow();
        if let Launch::Running(monitor) = &*launched {
            return monitor.status();
        }
        let mut status = Machine::new(Options::default(), 0).status();
        if matches!(*launched, Launch::Never) {
            status.phase = Phase::Stopped;
        }
        status
    }

    /// The time since the last proof that the copy was current. See [`Handle::staleness`].
    #[must_use]
    pub fn staleness(&self) -> Option<Duration> {
        self.monitor()?.staleness()
    }

    /// A view of the reflector for probes that does not keep the informer alive; `None` before the start. Asked
    /// itself, the informer is also not ready as long as a handler is not in sync.
    #[must_use]
    pub fn monitor(&self) -> Option<Monitor> {
        match &*self.launched.borrow() {
            Launch::Running(monitor) => Some(monitor.clone()),
            Launch::NotYet | Launch::Never => None,
        }
    }

    /// Ends it, and waits until no task of it is left: handlers complete the call in hand, and what waits for them is
    /// not delivered, but counted.
    ///
    /// May be called any number of times, also at once; all wait for the end. It waits as long as a handler takes:
    /// to wait no longer than some time, use `tokio::time::timeout`, and drop the informer.
    ///
    /// # Errors
    ///
    /// [`InsideHandler`] if a handler of this informer calls it. The informer ends, but only once the handler returns.
    /// (Handlers of two informers that wait for each other's end wait for ever.)
    ///
    /// # Panics
    ///
    /// With the panic of a handler that is to be [propagated](super::OnPanic::Propagate), or of the reflector's own task,
    /// once, when all has ended; of several with the first. Never where a handler calls it.
    pub async fn stop(&self) -> Result<Stopped, InsideHandler> {
        let stopped = self.end(true).await?;
        self.raise();
        Ok(stopped)
    }

    /// Ends it like [`stop`](Self::stop), but delivers everything that waits first. A `stop` meanwhile cuts that short.
    ///
    /// # Errors
    ///
    /// See [`stop`](Self::stop).
    ///
    /// # Panics
    ///
    /// See [`stop`](Self::stop).
    pub async fn drain(&self) -> Result<Stopped, InsideHandler> {
        let stopped = self.end(false).await?;
        self.raise();
        Ok(stopped)
    }

    /// Ends everything, and waits for it; raises nothing.
    pub(super) async fn end(&self, discard: bool) -> Result<Stopped, InsideHandler> {
        let mut end = self.ending(discard);
        if inside_informer(self.handlers.roster().informer) {
            // The first poll sets everything in motion.
            return match (&mut end).now_or_never() {
                Some(undelivered) => Ok(Stopped { undelivered }),
                None => Err(InsideHandler),
            };
        }
        Ok(Stopped { undelivered: end.await })
    }

    /// Raises the panic that is to be propagated, once.
    pub(super) fn raise(&self) {
        if let Some(payload) = self.handlers.roster().take_panic() {
            resume_unwind(payload);
        }
    }

    fn ending(&self, discard: bool) -> End {
        let mut stage = self.stage();
        // Under the lock: no handler is added any more that would not hear of it.
        if discard {
            self.handlers.stop();
        }
        if let Stage::Ending(end) = &*stage {
            return end.clone();
        }
        let nothing = Stage::Ending(async { 0 }.boxed().shared());
        let (starter, handle, tasks) = match std::mem::replace(&mut *stage, nothing) {
            Stage::Created { starter, tasks } => {
                self.launched.send_replace(Launch::Never);
                (starter, None, tasks)
            }
            Stage::Running { handle, tasks } => (None, Some(handle), tasks),
            Stage::Ending(end) => return end,
        };
        let (name, roster) = (Arc::clone(self.handlers.name()), Arc::clone(self.handlers.roster()));
        let end = async move {
            drop(starter);
            finish(&name, &roster, handle, tasks).await
        };
        let end = end.boxed().shared();
        *stage = Stage::Ending(end.clone());
        end
    }

    pub(super) fn failed_handler(&self) -> Option<(Arc<str>, HandlerState)> {
        self.handlers.roster().failed()
    }

    /// Whether it has been stopped, or its reflector has ended by itself.
    pub(super) fn is_stopped(&self) -> bool {
        match &*self.stage() {
            Stage::Created { .. } => false,
            Stage::Running { handle, .. } => handle.is_stopped(),
            Stage::Ending(_) => true,
        }
    }

    pub(super) fn is_started(&self) -> bool {
        matches!(*self.launched.borrow(), Launch::Running(_))
    }

    fn stage(&self) -> MutexGuard<'_, Stage> {
        self.stage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn already_stopped(&self) -> AlreadyStopped {
        AlreadyStopped { informer: Arc::clone(self.handlers.name()) }
    }
}

/// Ends the reflector, and then joins the handlers (SI-3).
async fn finish(name: &str, roster: &Roster, handle: Option<Handle>, mut tasks: Tasks) -> usize {
    if let Some(handle) = handle
        && let Err(payload) = AssertUnwindSafe(handle.stop()).catch_unwind().await
    {
        roster.keep_panic(payload);
    }
    let mut undelivered = 0;
    while let Some(ended) = tasks.join_next().await {
        match ended {
            Ok(kept) => undelivered += kept,
            Err(error) if error.is_panic() => roster.keep_panic(error.into_panic()),
            Err(_) => {}
        }
    }
    info!(resource = name, undelivered, "the informer has ended");
    undelivered
}

impl<K: Send + 'static> HealthCheck for SharedInformer<K> {
    fn name(&self) -> String {
        self.handlers.name().to_string()
    }

    fn check(&self) -> Verdict {
        let mut verdict = self.monitor().map_or_else(Verdict::default, |monitor| monitor.check());
        if verdict.not_ready.is_none() {
            verdict.not_ready = self.lag_cause().map(|cause| cause.to_string());
        }
        verdict
    }
}

impl<K> fmt::Debug for SharedInformer<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedInformer")
            .field("name", self.handlers.name())
            .field("cache", self.handlers.cache())
            .finish_non_exhaustive()
    }
}
