//! The simple use: one source, one store, one task.

use std::{
    collections::hash_map::RandomState,
    fmt,
    future::poll_fn,
    hash::{BuildHasher, Hash},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use serde::de::DeserializeOwned;
use tokio::{sync::watch, task::JoinHandle, time::Instant};
use tracing::Instrument;

use crate::{
    Cache, Index, IndexBy, Store,
    driver::{Control, Core, Driver, ErrorHandler, ResyncPredicate},
    health::Monitor,
    prepare::{BodyForm, Preparation},
    protocol::{BackoffOptions, ErrorReport, InitialRead, Machine, Options, Phase, Status},
    source::{ListWatch, Selection},
    store::CacheWriter,
    transform::{Chain, Transform},
};

/// A reflector that runs: a [`Cache`] that follows a collection, and a handle on its task.
///
/// It drives itself. [`stop`](Self::stop) ends it and waits until nothing of it runs any more; dropping it ends it too,
/// without waiting. The cache stays readable after that.
///
/// ```
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use reflector::{KubeListWatch, Reflector, kube_client};
/// # use reflector_apiserver::ApiServer;
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = ApiServer::builder().start().await?;
/// # let config = kube::Config::new(server.url().parse()?);
/// let client = kube_client(config)?;
/// let maps = Reflector::builder(KubeListWatch::<ConfigMap>::namespaced(client, "shop")).start();
/// maps.ready().await?;
/// for map in &maps.cache().snapshot() {
///     println!("{} has {} entries", map.key(), map.get()?.data.as_ref().map_or(0, |data| data.len()));
/// }
/// maps.stop().await;
/// # Ok(()) }
/// ```
pub struct Reflector<K> {
    cache: Cache<K>,
    handle: Handle,
}

impl<K: Send + 'static> Reflector<K> {
    /// Begins to describe a reflector of a source.
    pub fn builder<L: ListWatch<K>>(source: L) -> Builder<K, L> {
        Builder::new(source)
    }

    /// The copy.
    #[must_use]
    pub fn cache(&self) -> &Cache<K> {
        &self.cache
    }

    /// Everything but the copy.
    #[must_use]
    pub fn handle(&self) -> &Handle {
        &self.handle
    }

    /// See [`Handle::ready`].
    ///
    /// # Errors
    ///
    /// See there.
    pub async fn ready(&self) -> Result<(), NotReady> {
        self.handle.ready().await
    }

    /// See [`Handle::synced`].
    ///
    /// # Errors
    ///
    /// See there.
    pub async fn synced(&self) -> Result<(), NotReady> {
        self.handle.synced().await
    }

    /// See [`Handle::status`].
    #[must_use]
    pub fn status(&self) -> Status {
        self.handle.status()
    }

    /// See [`Handle::staleness`].
    #[must_use]
    pub fn staleness(&self) -> Option<Duration> {
        self.handle.staleness()
    }

    pub(crate) fn into_handle(self) -> Handle {
        self.handle
    }

    /// See [`Handle::monitor`].
    #[must_use]
    pub fn monitor(&self) -> Monitor {
        self.handle.monitor()
    }

    /// See [`Handle::stop`]. The cache stays readable.
    pub async fn stop(self) -> Cache<K> {
        self.handle.stop().await;
        self.cache
    }
}

impl<K> fmt::Debug for Reflector<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reflector").field("cache", &self.cache).field("handle", &self.handle).finish()
    }
}

/// A handle on the task of a reflector.
pub struct Handle {
    target: Arc<str>,
    status: watch::Receiver<Status>,
    stop: watch::Sender<bool>,
    /// `None` once it has been joined.
    task: Option<JoinHandle<()>>,
    started: Instant,
}

impl Handle {
    /// Waits until the store has held the whole collection, or until something stands in the way that waiting alone
    /// does not cure.
    ///
    /// Other failures are waited out. After an error it may be called again: it answers at once as long as the cause
    /// stands, and the reflector goes on trying meanwhile.
    ///
    /// # Errors
    ///
    /// [`NotReady::Blocked`] with the cause: no permission, no such resource, bad credentials, a request that the
    /// server will never take. [`NotReady::Stopped`] if the reflector has ended before.
    pub async fn ready(&self) -> Result<(), NotReady> {
        wait(self.watch_status(), Until::Ready).await
    }

    /// Waits until the store has held the whole collection, whatever happens on the way.
    ///
    /// # Errors
    ///
    /// [`NotReady::Stopped`] if the reflector has ended before.
    pub async fn synced(&self) -> Result<(), NotReady> {
        wait(self.watch_status(), Until::Synced).await
    }

    /// What is going on. Times in it are since the start, see [`uptime`](Self::uptime).
    #[must_use]
    pub fn status(&self) -> Status {
        self.status.borrow().clone()
    }

    /// A receiver that sees every change of the status, and every bit of progress.
    #[must_use]
    pub fn watch_status(&self) -> watch::Receiver<Status> {
        self.status.clone()
    }

    /// How long it has run.
    #[must_use]
    pub fn uptime(&self) -> Duration {
        self.started.elapsed()
    }

    /// The time since the last proof that the copy was current: an event, a bookmark, a complete list. `None` before
    /// the first sync.
    ///
    /// On a quiet collection proofs come with the bookmarks, about once a minute, where the server caches the resource; a
    /// copy that is much older than that has lost its server. Of a quiet resource without bookmarks (`events`, some
    /// aggregated servers) nobody can say that it is current.
    #[must_use]
    pub fn staleness(&self) -> Option<Duration> {
        self.status.borrow().last_proof.map(|proof| self.uptime().saturating_sub(proof))
    }

    /// What is reflected, as the source describes it.
    #[must_use]
    pub fn target(&self) -> &str {
        &self.target
    }

    /// What can be asked about the reflector without keeping it alive, for a [`Health`](crate::health::Health).
    #[must_use]
    pub fn monitor(&self) -> Monitor {
        Monitor {
            target: Arc::clone(&self.target),
            status: self.status.clone(),
            stop: self.stop.subscribe(),
            started: self.started,
        }
    }

    /// Ends the reflector and waits until its task has ended. No request is open after that, and nothing is written to
    /// the store.
    pub async fn stop(mut self) {
        self.tell_to_stop();
        poll_fn(|cx| self.poll_stopped(cx)).await;
    }

    /// Asks it to end, and does not wait.
    pub(crate) fn tell_to_stop(&self) {
        self.stop.send_replace(true);
    }

    /// Whether its task has ended. A panic of the task is passed on.
    pub(crate) fn poll_stopped(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(task) = &mut self.task else { return Poll::Ready(()) };
        let ended = ready!(Pin::new(task).poll(cx));
        self.task = None;
        match ended {
            Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
            _ => Poll::Ready(()),
        }
    }

    /// Whether it has ended: by [`stop`](Self::stop), or since the error handler said so.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.task.as_ref().is_none_or(JoinHandle::is_finished)
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handle").field("status", &*self.status.borrow()).finish_non_exhaustive()
    }
}

/// What is waited for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Until {
    /// See [`Handle::ready`].
    Ready,
    /// See [`Handle::synced`].
    Synced,
}

/// Waits for a reflector, of which it needs nothing but the status.
pub(crate) async fn wait(mut status: watch::Receiver<Status>, until: Until) -> Result<(), NotReady> {
    loop {
        let seen = status.borrow_and_update().clone();
        if seen.synced {
            return Ok(());
        }
        // One that has ended goes on trying nothing, whatever stood in its way.
        if seen.phase == Phase::Stopped {
            return Err(NotReady::Stopped(seen.last_error.map(Box::new)));
        }
        if let (Until::Ready, Some(cause)) = (until, seen.blocked) {
            return Err(NotReady::Blocked(Box::new(cause)));
        }
        if status.changed().await.is_err() {
            return Err(NotReady::Stopped(seen.last_error.map(Box::new)));
        }
    }
}

/// Why a reflector is not ready.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NotReady {
    /// Something stands in the way that waiting alone does not cure. The reflector goes on trying, slowly.
    #[error("not synced: {0}")]
    Blocked(#[source] Box<ErrorReport>),
    /// The reflector has ended without having been in sync; the last failure, if there was one.
    #[error("stopped before it was in sync{}", .0.as_ref().map(|e| format!(": {e}")).unwrap_or_default())]
    Stopped(#[source] Option<Box<ErrorReport>>),
}

/// Describes a reflector before it starts.
#[must_use = "nothing happens before `start`"]
pub struct Builder<K, L> {
    cache: Cache<K>,
    writer: CacheWriter<K>,
    settings: Settings<K, L>,
}

/// Everything but the store.
struct Settings<K, L> {
    source: L,
    name: Option<String>,
    options: Options,
    on_error: ErrorHandler,
    resync_if: ResyncPredicate,
    transforms: Chain<K>,
    body: BodyForm<K>,
    seed: Option<u64>,
}

impl<K: Send + 'static, L: ListWatch<K>> Builder<K, L> {
    fn new(source: L) -> Self {
        let (cache, writer) = Cache::new();
        let settings = Settings {
            source,
            name: None,
            options: Options::default(),
            on_error: Box::new(|_| Control::Continue),
            resync_if: Box::new(|| true),
            transforms: Chain::default(),
            body: BodyForm::default(),
            seed: None,
        };
        Self { cache, writer, settings }
    }

    /// What the collection is called in messages, and in the label `resource` of metrics. Default: what the source
    /// [describes](ListWatch::describe) itself as. Two reflectors of one name share their metrics.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.settings.name = Some(name.into());
        self
    }

    /// What it is called now.
    pub(crate) fn target(&self) -> String {
        self.settings.name.clone().unwrap_or_else(|| self.settings.source.describe())
    }

    /// Which part of the collection is wanted.
    pub(crate) fn selection(&self) -> &Selection {
        &self.settings.options.selection
    }

    /// Only objects that this label selector selects: `app=web,tier in (a,b)`. Objects that leave the selection are
    /// deleted from the copy.
    pub fn labels(mut self, selector: impl Into<String>) -> Self {
        self.settings.options.selection.labels = Some(selector.into());
        self
    }

    /// Only objects that this field selector selects: `spec.nodeName=node-1`.
    pub fn fields(mut self, selector: impl Into<String>) -> Self {
        self.settings.options.selection.fields = Some(selector.into());
        self
    }

    /// Only one shard (KEP-5866). A server that does not know the parameter sends everything.
    pub fn shard(mut self, selector: impl Into<String>) -> Self {
        self.settings.options.selection.shard = Some(selector.into());
        self
    }

    /// Objects per page of a list; `None` asks for everything at once. Default 500.
    pub fn page_size(mut self, objects: impl Into<Option<u32>>) -> Self {
        self.settings.options.page_size = objects.into();
        self
    }

    /// Whether the state may be streamed by a watch (KEP-3157) where the server can. Default true.
    pub fn streaming(mut self, streaming: bool) -> Self {
        self.settings.options.streaming = streaming;
        self
    }

    /// How fresh the very first list has to be.
    pub fn initial_read(mut self, read: InitialRead) -> Self {
        self.settings.options.initial_read = read;
        self
    }

    /// The waits after failures.
    pub fn backoff(mut self, backoff: BackoffOptions) -> Self {
        self.settings.options.backoff = backoff;
        self
    }

    /// Changes any of the protocol's options; each says its unit, its default and what it may harm.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use reflector::{Reflector, KubeListWatch};
    /// # fn example(source: KubeListWatch<k8s_openapi::api::core::v1::Pod>) {
    /// let builder = Reflector::builder(source).options(|options| options.idle_limit = Duration::from_secs(30));
    /// # }
    /// ```
    pub fn options(mut self, change: impl FnOnce(&mut Options)) -> Self {
        change(&mut self.settings.options);
        self
    }

    /// Tells the store to resync at this interval, at least one second. Default: never.
    pub fn resync_every(mut self, interval: Duration) -> Self {
        self.settings.options.resync_every = Some(interval);
        self
    }

    /// Like [`resync_every`](Self::resync_every), where nothing else was said.
    pub(crate) fn default_resync(mut self, interval: Duration) -> Self {
        self.settings.options.resync_every.get_or_insert(interval);
        self
    }

    /// Whether to resync, asked each time the interval has passed.
    pub fn resync_if(mut self, predicate: impl FnMut() -> bool + Send + 'static) -> Self {
        self.settings.resync_if = Box::new(predicate);
        self
    }

    /// Sees every failure, with its class, how many there were in a row, and for how long; and may end the reflector.
    ///
    /// It runs in the reflector's task, so it must be quick.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use reflector::{Reflector, KubeListWatch, Control};
    /// # fn example(source: KubeListWatch<k8s_openapi::api::core::v1::Pod>) {
    /// let builder = Reflector::builder(source).on_error(|report| {
    ///     eprintln!("{report}, try {}", report.attempt);
    ///     if report.elapsed > Duration::from_secs(600) { Control::Stop } else { Control::Continue }
    /// });
    /// # }
    /// ```
    pub fn on_error(mut self, handler: impl FnMut(&ErrorReport) -> Control + Send + 'static) -> Self {
        self.settings.on_error = Box::new(handler);
        self
    }

    /// Adds an index by values of the decoded object: none, one or many, of any type that can be hashed.
    ///
    /// What does not decode is unindexed: see [`Snapshot::unindexed`](crate::store::Snapshot::unindexed).
    ///
    /// ```
    /// # use reflector::{Reflector, KubeListWatch};
    /// # use k8s_openapi::api::core::v1::Pod;
    /// # async fn example(source: KubeListWatch<Pod>) -> Result<(), Box<dyn std::error::Error>> {
    /// let mut builder = Reflector::builder(source);
    /// let by_node = builder.index(|pod: &Pod| pod.spec.as_ref().and_then(|spec| spec.node_name.clone()));
    /// let pods = builder.start();
    /// pods.ready().await?;
    /// for pod in pods.cache().by(&by_node, "node-7")? {
    ///     println!("{}", pod.key());
    /// }
    /// # Ok(()) }
    /// ```
    pub fn index<V, I>(&mut self, values: impl Fn(&K) -> I + Send + Sync + 'static) -> Index<K, V>
    where
        K: DeserializeOwned,
        V: Hash + Eq + Clone + Send + Sync + 'static,
        I: IntoIterator<Item = V>,
    {
        self.cache.index(values)
    }

    /// Adds an index by anything else: labels, owners, names, or where the function may fail.
    pub fn index_by<V>(&mut self, by: IndexBy<K, V>) -> Index<K, V>
    where
        V: Hash + Eq + Clone + Send + Sync + 'static,
    {
        self.cache.index_by(by)
    }

    /// The cache that [`start`](Self::start) will fill: to subscribe before anything comes.
    #[must_use]
    pub fn cache(&self) -> &Cache<K> {
        &self.cache
    }

    /// Changes every object before anything is kept of it; see [`transform`](crate::transform). Called again, it adds a
    /// transform after those before.
    ///
    /// ```
    /// # use reflector::{Reflector, KubeListWatch, transform::Trim};
    /// # fn example(source: KubeListWatch<k8s_openapi::api::core::v1::Pod>) {
    /// let builder = Reflector::builder(source).transform(Trim::new().managed_fields().last_applied());
    /// # }
    /// ```
    pub fn transform(mut self, transform: impl Transform<K>) -> Self {
        self.settings.transforms.push(transform);
        self
    }

    /// In which form the bodies of objects are kept. Default: [`BodyForm::packed`].
    ///
    /// ```
    /// # use reflector::{Reflector, KubeListWatch, BodyForm};
    /// /// Of a pod, what this program needs.
    /// #[derive(serde::Deserialize)]
    /// struct Placed { spec: Spec }
    /// #[derive(serde::Deserialize)]
    /// #[serde(rename_all = "camelCase")]
    /// struct Spec { node_name: Option<String> }
    ///
    /// # fn example(source: KubeListWatch<Placed>) {
    /// let builder = Reflector::builder(source).body(BodyForm::decoded());
    /// # }
    /// ```
    pub fn body(mut self, form: BodyForm<K>) -> Self {
        self.settings.body = form;
        self
    }

    /// The seed of the jitter; random by default. For tests that must run the same way twice.
    pub fn seed(mut self, seed: u64) -> Self {
        self.settings.seed = Some(seed);
        self
    }

    /// Starts, with a [`Cache`] as store. Must be called within a tokio runtime.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime.
    pub fn start(self) -> Reflector<K> {
        let handle = self.settings.start(self.writer);
        Reflector { cache: self.cache, handle }
    }

    /// Starts, with a store of your own. The builder's own [`cache`](Self::cache) stays empty, and its subscriptions
    /// end.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime.
    pub fn start_with<S: Store<K>>(self, store: S) -> Handle {
        self.settings.start(store)
    }
}

impl<K: Send + 'static, L: ListWatch<K>> Settings<K, L> {
    fn start<S: Store<K>>(mut self, store: S) -> Handle {
        let target = self.name.take().unwrap_or_else(|| self.source.describe());
        self.options.target = target.as_str().into();
        let seed = self.seed.unwrap_or_else(|| RandomState::new().hash_one(0));
        let machine = Machine::new(self.options, seed);
        let (status, shown) = watch::channel(machine.status());
        let (stop, stopped) = watch::channel(false);
        let started = Instant::now();
        let lookup = store.lookup();
        let core = Core::new(machine, store, &target).on_error(self.on_error).resync_if(self.resync_if);
        let errors = core.metrics().transform_errors();
        let preparation = Preparation::new(self.transforms, &self.body, errors, lookup);
        let driver = Driver::new(core, self.source, preparation, status, started);
        let span = tracing::info_span!("reflector", resource = %target);
        let task = tokio::spawn(driver.run(stopped).instrument(span));
        Handle { target: target.into(), status: shown, stop, task: Some(task), started }
    }
}

impl<K, L> fmt::Debug for Builder<K, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder").field("options", &self.settings.options).finish_non_exhaustive()
    }
}
