//! How one handler is called.

use std::{sync::Arc, time::Duration};

use crate::{Object, Policy, store::Subscribe};

/// What becomes of a handler that panics.
///
/// In any case the panic is caught, logged with the handler's name and the object's key, and counted in
/// `reflector_handler_panics_total`. An initial event that ends in a panic counts as processed, so a handler comes in
/// sync nevertheless.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnPanic {
    /// That event is lost, and the handler goes on with the next. The default.
    #[default]
    Isolate,
    /// The handler ends; its registration says so.
    Stop,
    /// The handler ends, and [`SharedInformer::stop`](super::SharedInformer::stop) raises the panic again.
    Propagate,
}

/// When a handler is told everything once more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Resync {
    /// With the reflector.
    #[default]
    Informer,
    Every(Duration),
    Never,
}

type Change<K> = Box<dyn FnOnce(Subscribe<K>) -> Subscribe<K> + Send>;

/// How one handler is called. See [`SharedInformer::add_handler_with`](super::SharedInformer::add_handler_with).
///
/// ```
/// use std::time::Duration;
/// use reflector::informer::HandlerOptions;
/// # use k8s_openapi::api::core::v1::Pod;
/// let options = HandlerOptions::<Pod>::new()
///     .name("carts")
///     .filter(|pod| pod.name().starts_with("cart-"))
///     .resync_every(Duration::from_secs(600));
/// ```
#[must_use]
pub struct HandlerOptions<K> {
    pub(super) name: Option<Arc<str>>,
    pub(super) resync: Resync,
    pub(super) on_panic: OnPanic,
    pub(super) subscription: Vec<Change<K>>,
}

impl<K: 'static> HandlerOptions<K> {
    /// The defaults.
    pub fn new() -> Self {
        Self { name: None, resync: Resync::default(), on_panic: OnPanic::default(), subscription: Vec::new() }
    }

    /// What it is called in logs, metrics and errors. Default: [`EventHandler::name`](super::EventHandler::name). Where
    /// a handler of that name runs already, a number is added.
    pub fn name(mut self, name: impl Into<Arc<str>>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Tells this handler every object once more at this interval, at least one second, by
    /// [`on_resync`](super::EventHandler::on_resync). A handler that is slower than that skips resyncs.
    ///
    /// Default: whenever the informer resyncs ([`Builder::resync_every`](crate::Builder::resync_every)), so never
    /// where that is not set.
    pub fn resync_every(mut self, interval: Duration) -> Self {
        self.resync = Resync::Every(interval.max(Duration::from_secs(1)));
        self
    }

    /// No resyncs for this handler, whatever the informer does.
    pub fn no_resync(mut self) -> Self {
        self.resync = Resync::Never;
        self
    }

    /// What a panic does. Default: [`OnPanic::Isolate`].
    pub fn on_panic(mut self, on_panic: OnPanic) -> Self {
        self.on_panic = on_panic;
        self
    }

    /// How changes wait for the handler. See [`Subscribe::policy`].
    pub fn policy(self, policy: Policy) -> Self {
        self.subscription(move |subscription| subscription.policy(policy))
    }

    /// Only objects of one namespace. See [`Subscribe::namespace`].
    pub fn namespace(self, namespace: impl Into<String>) -> Self {
        let namespace = namespace.into();
        self.subscription(move |subscription| subscription.namespace(&namespace))
    }

    /// Only objects that the predicate wants. See [`Subscribe::filter`].
    pub fn filter(self, wants: impl Fn(&Object<K>) -> bool + Send + Sync + 'static) -> Self {
        self.subscription(move |subscription| subscription.filter(wants))
    }

    /// Anything else that a subscription knows.
    pub fn subscription(
        mut self,
        change: impl FnOnce(Subscribe<K>) -> Subscribe<K> + Send + 'static,
    ) -> Self {
        self.subscription.push(Box::new(change));
        self
    }
}

impl<K: 'static> Default for HandlerOptions<K> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K> std::fmt::Debug for HandlerOptions<K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HandlerOptions")
            .field("name", &self.name)
            .field("resync", &self.resync)
            .field("on_panic", &self.on_panic)
            .finish_non_exhaustive()
    }
}
