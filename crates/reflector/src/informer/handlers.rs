//! The handlers of one cache, whoever fills it.

use std::{fmt, panic::resume_unwind, sync::Arc};

use super::{
    handler::EventHandler,
    options::{HandlerOptions, OnPanic, Resync},
    registration::{Registration, Roster},
    task::{Meters, Task, every},
};
use crate::{Cache, Subscription, store::LagMeter};

/// The handlers of a cache: what a [`SharedInformer`](super::SharedInformer) is without its reflector.
///
/// For a cache that something else fills: a [`driver::Core`](crate::driver::Core), kube's watcher, a program's own
/// [`CacheWriter`](crate::store::CacheWriter). Each handler is a future of its own, and it is for the caller to run it.
///
/// ```
/// use reflector::{Cache, Change, Object, Store, protocol::History};
/// use reflector::informer::{Callbacks, HandlerOptions, Handlers};
/// # use k8s_openapi::api::core::v1::ConfigMap;
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let (maps, mut writer) = Cache::<ConfigMap>::new();
/// let handlers = Handlers::new("configmaps", &maps);
/// let handler = Callbacks::new().on_add(|map, _| println!("{} is there", map.key()));
/// let (registration, run) = handlers.add(handler, HandlerOptions::new());
/// let task = tokio::spawn(run);
///
/// writer.begin_replace(History::Same);
/// let cart = r#"{"metadata": {"namespace": "shop", "name": "cart", "resourceVersion": "7"}}"#;
/// writer.stage(vec![Change::Upsert(Object::from_json(cart)?)])?;
/// writer.commit_replace(None)?;
/// registration.synced().await?;
///
/// handlers.stop();
/// assert_eq!(task.await?, 0, "events that were not delivered");
/// # Ok(()) }
/// ```
pub struct Handlers<K> {
    name: Arc<str>,
    cache: Cache<K>,
    roster: Arc<Roster>,
}

impl<K: Send + 'static> Handlers<K> {
    /// No handlers yet. The name of the collection is for logs and metrics.
    #[must_use]
    pub fn new(name: impl Into<Arc<str>>, cache: &Cache<K>) -> Self {
        Self { name: name.into(), cache: cache.clone(), roster: Arc::new(Roster::new()) }
    }

    /// A handler of what is in the cache, and of every change from now on. It is called by the future, which ends when
    /// the handler does, and gives how many events [`stop`](Self::stop) kept from it. To drop the future ends the
    /// handler, too.
    ///
    /// # Panics
    ///
    /// The future, if it is not polled within a tokio runtime with a clock, and with the panic of a handler that is to
    /// be [propagated](OnPanic::Propagate).
    pub fn add<H: EventHandler<K>>(
        &self,
        handler: H,
        options: HandlerOptions<K>,
    ) -> (Registration, impl Future<Output = usize> + Send + use<K, H>) {
        let (registration, task) = self.prepare(handler, options).enter(self);
        let roster = Arc::clone(&self.roster);
        let run = async move {
            let kept = task.run().await;
            if let Some(payload) = roster.take_panic() {
                resume_unwind(payload);
            }
            kept
        };
        (registration, run)
    }

    /// All that can be done of [`add`](Self::add) before the handler is on the list.
    pub(super) fn prepare<H: EventHandler<K>>(&self, handler: H, options: HandlerOptions<K>) -> Entry<K, H> {
        let wish = options.name.unwrap_or_else(|| handler.name().into());
        let mut subscription = self.cache.subscription();
        for change in options.subscription {
            subscription = change(subscription);
        }
        if options.resync == Resync::Informer {
            subscription = subscription.resyncs();
        }
        let subscription = subscription.subscribe();
        let meter = subscription.meter();
        Entry { wish, handler, subscription, meter, resync: options.resync, on_panic: options.on_panic }
    }

    /// Ends all handlers: each completes the call in hand. What waits is not delivered.
    pub fn stop(&self) {
        self.roster.stop_all();
    }

    /// The handlers that run, the oldest first.
    #[must_use]
    pub fn all(&self) -> Vec<Registration> {
        self.roster.all()
    }
}

impl<K> Handlers<K> {
    pub(super) fn name(&self) -> &Arc<str> {
        &self.name
    }

    pub(super) fn cache(&self) -> &Cache<K> {
        &self.cache
    }

    pub(super) fn roster(&self) -> &Arc<Roster> {
        &self.roster
    }
}

impl<K> fmt::Debug for Handlers<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handlers")
            .field("name", &self.name)
            .field("cache", &self.cache)
            .finish_non_exhaustive()
    }
}

/// A handler that is not on the list yet.
pub(super) struct Entry<K, H> {
    wish: Arc<str>,
    handler: H,
    subscription: Subscription<K>,
    meter: LagMeter<K>,
    resync: Resync,
    on_panic: OnPanic,
}

impl<K: Send + 'static, H: EventHandler<K>> Entry<K, H> {
    /// Onto the list. Nothing of the caller's runs here.
    pub(super) fn enter(self, handlers: &Handlers<K>) -> (Registration, Task<K, H>) {
        let Self { wish, handler, subscription, meter, resync, on_panic } = self;
        let member = handlers.roster.enter(&wish, move || meter.lag());
        let registration = member.registration.clone();
        let task = Task {
            handler,
            subscription,
            resync: match resync {
                Resync::Every(period) => Some(every(period)),
                Resync::Informer | Resync::Never => None,
            },
            on_panic,
            meters: Meters::new(&handlers.name, registration.name()),
            member,
        };
        (registration, task)
    }
}
