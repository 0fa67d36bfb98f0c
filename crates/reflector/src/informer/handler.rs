//! What a handler is: a trait, and adapters for closures.

use std::future::Future;

use crate::{Object, ResourceVersion, store::Event};

/// Something that is called for every change of a collection.
///
/// The calls of one handler come one after the other, in the order of the changes, from a task of its own: a slow one
/// delays nobody else. Each comes after the cache and its indexes show the change. What it does not implement is
/// ignored.
///
/// Handlers take `&mut self`, so their state needs no lock. To register one value twice, clone it (SI-21).
///
/// ```
/// use reflector::{Object, informer::EventHandler};
///
/// /// Counts what there is.
/// #[derive(Default)]
/// struct Count(usize);
///
/// impl<K: Send + 'static> EventHandler<K> for Count {
///     async fn on_add(&mut self, _: Object<K>, _initial: bool) {
///         self.0 += 1;
///     }
///     async fn on_delete(&mut self, last: Object<K>, _final_state_unknown: bool) {
///         self.0 -= 1;
///         println!("{} is gone, {} are left", last.key(), self.0);
///     }
/// }
/// ```
pub trait EventHandler<K: 'static>: Send + 'static {
    /// An object that the handler did not know. `initial`: it was there before the handler was in sync.
    fn on_add(&mut self, object: Object<K>, initial: bool) -> impl Future<Output = ()> + Send {
        let _ = (object, initial);
        std::future::ready(())
    }

    /// A later revision of an object that the handler knows. States in between may have been left out, see
    /// [`Policy`](crate::Policy).
    fn on_update(&mut self, old: Object<K>, new: Object<K>) -> impl Future<Output = ()> + Send {
        let _ = (old, new);
        std::future::ready(())
    }

    /// An object that the handler knew is gone. `final_state_unknown`: nobody saw the deletion, so `last` may not be
    /// the last state that it had.
    fn on_delete(&mut self, last: Object<K>, final_state_unknown: bool) -> impl Future<Output = ()> + Send {
        let _ = (last, final_state_unknown);
        std::future::ready(())
    }

    /// An object that the handler knows, once more: the resync period has passed.
    fn on_resync(&mut self, object: Object<K>) -> impl Future<Output = ()> + Send {
        let _ = object;
        std::future::ready(())
    }

    /// Everything that there was has been told. Comes once.
    fn on_synced(&mut self) -> impl Future<Output = ()> + Send {
        std::future::ready(())
    }

    /// The handler knows everything up to this version. Only if its subscription asks for
    /// [bookmarks](crate::store::Subscribe::bookmarks).
    fn on_bookmark(&mut self, version: ResourceVersion) -> impl Future<Output = ()> + Send {
        let _ = version;
        std::future::ready(())
    }

    /// Everything: calls one of the others. To be implemented in their place by whoever wants all in one.
    fn on_event(&mut self, event: Event<K>) -> impl Future<Output = ()> + Send {
        async move {
            match event {
                Event::Added { object, initial } => self.on_add(object, initial).await,
                Event::Updated { old, new } => self.on_update(old, new).await,
                Event::Deleted { last, final_state_unknown } => {
                    self.on_delete(last, final_state_unknown).await;
                }
                Event::Synced => self.on_synced().await,
                Event::Bookmark(version) => self.on_bookmark(version).await,
                Event::Resync(object) => self.on_resync(object).await,
            }
        }
    }

    /// What it is called where its registration does not say (SI-27): the name of its type.
    fn name(&self) -> String {
        std::any::type_name::<Self>().to_owned()
    }
}

/// A handler of one closure that takes every event.
///
/// ```
/// use reflector::informer::from_fn;
/// let handler = from_fn(|event: reflector::Event<serde_json::Value>| println!("{event:?}"));
/// ```
pub fn from_fn<K: 'static, F: FnMut(Event<K>) + Send + 'static>(call: F) -> FromFn<F> {
    FromFn(call)
}

/// A handler of one closure that takes every event and returns a future.
///
/// ```
/// use reflector::informer::from_async_fn;
/// let (sender, _receiver) = tokio::sync::mpsc::channel(8);
/// let handler = from_async_fn(move |event: reflector::Event<serde_json::Value>| {
///     let sender = sender.clone();
///     async move { sender.send(event).await.unwrap_or_default() }
/// });
/// ```
pub fn from_async_fn<K, F, R>(call: F) -> FromAsyncFn<F>
where
    K: 'static,
    F: FnMut(Event<K>) -> R + Send + 'static,
    R: Future<Output = ()> + Send,
{
    FromAsyncFn(call)
}

/// See [`from_fn`].
#[derive(Clone, Debug)]
pub struct FromFn<F>(F);

impl<K: 'static, F: FnMut(Event<K>) + Send + 'static> EventHandler<K> for FromFn<F> {
    async fn on_event(&mut self, event: Event<K>) {
        (self.0)(event);
    }

    fn name(&self) -> String {
        std::any::type_name::<F>().to_owned()
    }
}

/// See [`from_async_fn`].
#[derive(Clone, Debug)]
pub struct FromAsyncFn<F>(F);

impl<K, F, R> EventHandler<K> for FromAsyncFn<F>
where
    K: 'static,
    F: FnMut(Event<K>) -> R + Send + 'static,
    R: Future<Output = ()> + Send,
{
    async fn on_event(&mut self, event: Event<K>) {
        (self.0)(event).await;
    }

    fn name(&self) -> String {
        std::any::type_name::<F>().to_owned()
    }
}

type OnObject<K> = Box<dyn FnMut(Object<K>, bool) + Send>;
type OnUpdate<K> = Box<dyn FnMut(Object<K>, Object<K>) + Send>;

/// A handler of closures, one for each kind of event; those that are not set are ignored.
///
/// ```
/// use reflector::informer::Callbacks;
/// let handler = Callbacks::<serde_json::Value>::new()
///     .on_add(|object, initial| println!("{} is there{}", object.key(), if initial { "" } else { " now" }))
///     .on_delete(|last, _| println!("{} is gone", last.key()));
/// ```
pub struct Callbacks<K> {
    add: Option<OnObject<K>>,
    update: Option<OnUpdate<K>>,
    delete: Option<OnObject<K>>,
    resync: Option<Box<dyn FnMut(Object<K>) + Send>>,
    synced: Option<Box<dyn FnMut() + Send>>,
}

impl<K> Callbacks<K> {
    /// Ignores everything.
    #[must_use]
    pub fn new() -> Self {
        Self { add: None, update: None, delete: None, resync: None, synced: None }
    }

    /// See [`EventHandler::on_add`].
    #[must_use]
    pub fn on_add(mut self, call: impl FnMut(Object<K>, bool) + Send + 'static) -> Self {
        self.add = Some(Box::new(call));
        self
    }

    /// See [`EventHandler::on_update`]: what was known, and what is there now.
    #[must_use]
    pub fn on_update(mut self, call: impl FnMut(Object<K>, Object<K>) + Send + 'static) -> Self {
        self.update = Some(Box::new(call));
        self
    }

    /// See [`EventHandler::on_delete`].
    #[must_use]
    pub fn on_delete(mut self, call: impl FnMut(Object<K>, bool) + Send + 'static) -> Self {
        self.delete = Some(Box::new(call));
        self
    }

    /// See [`EventHandler::on_resync`].
    #[must_use]
    pub fn on_resync(mut self, call: impl FnMut(Object<K>) + Send + 'static) -> Self {
        self.resync = Some(Box::new(call));
        self
    }

    /// See [`EventHandler::on_synced`].
    #[must_use]
    pub fn on_synced(mut self, call: impl FnMut() + Send + 'static) -> Self {
        self.synced = Some(Box::new(call));
        self
    }
}

impl<K> Default for Callbacks<K> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K> std::fmt::Debug for Callbacks<K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Callbacks").finish_non_exhaustive()
    }
}

impl<K: 'static> EventHandler<K> for Callbacks<K> {
    async fn on_add(&mut self, object: Object<K>, initial: bool) {
        if let Some(call) = &mut self.add {
            call(object, initial);
        }
    }

    async fn on_update(&mut self, old: Object<K>, new: Object<K>) {
        if let Some(call) = &mut self.update {
            call(old, new);
        }
    }

    async fn on_delete(&mut self, last: Object<K>, final_state_unknown: bool) {
        if let Some(call) = &mut self.delete {
            call(last, final_state_unknown);
        }
    }

    async fn on_resync(&mut self, object: Object<K>) {
        if let Some(call) = &mut self.resync {
            call(object);
        }
    }

    async fn on_synced(&mut self) {
        if let Some(call) = &mut self.synced {
            call();
        }
    }

    fn name(&self) -> String {
        "callbacks".to_owned()
    }
}
