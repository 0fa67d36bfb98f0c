//! For users of kube's runtime: its events, its `Store`, and its `Controller`, fed by a reflector.
//!
//! An existing controller changes two lines. What was
//!
//! ```no_run
//! # use kube::runtime::{Controller, watcher};
//! # use k8s_openapi::api::core::v1::{ConfigMap, Pod};
//! # fn example(client: kube::Client) {
//! let maps: kube::Api<ConfigMap> = kube::Api::namespaced(client.clone(), "shop");
//! let controller = Controller::new(maps, watcher::Config::default())
//! #   ;
//! # }
//! ```
//!
//! becomes
//!
//! ```no_run
//! # use kube::runtime::Controller;
//! # use k8s_openapi::api::core::v1::ConfigMap;
//! # use reflector::{KubeListWatch, Reflector, kube_runtime};
//! # fn example(client: kube::Client) {
//! let maps = Reflector::builder(KubeListWatch::<ConfigMap>::namespaced(client, "shop")).start();
//! let (store, touched) = kube_runtime::for_controller(maps.cache().subscribe());
//! let controller = Controller::for_stream(touched, store)
//! #   ;
//! # }
//! ```
//!
//! The reflector must be kept while the controller runs. One reflector may feed any number of controllers, stores and
//! streams, each with a subscription of its own, which may have filters.
//!
//! # What differs from kube's watcher
//!
//! - A new list is no new `Init`: only what differs is told. So an expired version (410) reconciles what has changed, and
//!   not everything.
//! - Nothing is told before the cache is in sync; then everything is, as one consistent state.
//! - The streams never fail. Failures are the reflector's, which shows them:
//!   [`Reflector::ready`](crate::Reflector::ready), [`Builder::on_error`](crate::Builder::on_error).
//! - The streams end when the reflector has ended, and with them a controller that has no other trigger.
//! - Changes of one object that come faster than they are taken are merged, as [`Policy`](crate::Policy) says.
//!
//! # Objects that do not decode
//!
//! An object that does not fit its type is logged and counted once (`reflector_objects_invalid_total`), and left out;
//! the stream goes on. If an earlier revision did fit, that one stays in the store, as the last good state, until a later
//! one fits or the object is deleted. The deletion is told with the last state that fits. What was never told is not
//! told as deleted either.
//!
//! # Deletions
//!
//! kube's `Controller` gives its reconciler an object out of the store. So for a deleted *main* object the reconciler is
//! not called: the deletion appears in the stream of [`run`](kube::runtime::Controller::run) as
//! [`Error::ObjectNotFound`](kube::runtime::controller::Error::ObjectNotFound), with a reference to the object. A
//! reconciler that has to act on a deletion needs a finalizer. The deletion of an *owned* or *watched* object
//! ([`touched`] with `owns_stream` or `watches_stream`) reconciles the object that it maps to, as with kube's own.

use std::{
    borrow::Borrow,
    cmp::Ordering,
    collections::BTreeSet,
    fmt,
    hash::Hash,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    vec,
};

use futures::{Stream, StreamExt};
use kube::{
    Resource,
    runtime::{
        WatchStreamExt,
        reflector::store::{Store, Writer},
        watcher,
    },
};
use serde::de::DeserializeOwned;

use crate::{Event, Object, ObjectKey, Subscription};

/// So much may be done without a result before other tasks have their turn.
const SILENT_MAX: usize = 128;

/// A store of kube's runtime and the stream that fills it, for `Controller::for_stream`.
///
/// The stream gives every object that is added, changed or deleted, after the store has it. The store is ready when the
/// stream has been read over the first state, which the controller does. To hear nothing of deleted main objects, see
/// [`events`], with `reflect` and `applied_objects` of kube's `WatchStreamExt`.
///
/// ```no_run
/// use kube::runtime::{Controller, controller::Action};
/// # use {std::sync::Arc, futures::StreamExt, k8s_openapi::api::core::v1::ConfigMap};
/// # use reflector::{KubeListWatch, Reflector, kube_runtime};
/// # async fn example(client: kube::Client) {
/// let maps = Reflector::builder(KubeListWatch::<ConfigMap>::namespaced(client, "shop")).start();
/// let (store, touched) = kube_runtime::for_controller(maps.cache().subscribe());
/// Controller::for_stream(touched, store)
///     .run(
///         |map, _| async move { println!("{:?}", map.metadata.name); Ok::<_, std::io::Error>(Action::await_change()) },
///         |_, _, _| Action::await_change(),
///         Arc::new(()),
///     )
///     .for_each(|_| async {})
///     .await;
/// # }
/// ```
pub fn for_controller<K>(
    subscription: Subscription<K>,
) -> (Store<K>, impl Stream<Item = watcher::Result<K>> + Send + 'static)
where
    K: Resource + DeserializeOwned + Clone + Send + Sync + 'static,
    K::DynamicType: Default + Eq + Hash + Clone + Send + Sync,
{
    for_controller_with(subscription, K::DynamicType::default())
}

/// Like [`for_controller`], for a type that is known at run time, and `Controller::for_stream_with`.
pub fn for_controller_with<K>(
    subscription: Subscription<K>,
    resource: K::DynamicType,
) -> (Store<K>, impl Stream<Item = watcher::Result<K>> + Send + 'static)
where
    K: Resource + DeserializeOwned + Clone + Send + Sync + 'static,
    K::DynamicType: Eq + Hash + Clone + Send + Sync,
{
    let writer = Writer::new(resource);
    (writer.as_reader(), events(subscription).reflect(writer).touched_objects())
}

/// Every object that is added, changed or deleted, for `Controller::owns_stream` and `Controller::watches_stream`.
///
/// ```no_run
/// # use k8s_openapi::api::{apps::v1::ReplicaSet, core::v1::Pod};
/// # use reflector::{Cache, kube_runtime};
/// # fn example(sets: &Cache<ReplicaSet>, pods: &Cache<Pod>) {
/// let (store, touched) = kube_runtime::for_controller(sets.subscribe());
/// let controller = kube::runtime::Controller::for_stream(touched, store)
///     .owns_stream(kube_runtime::touched(pods.subscribe()));
/// # }
/// ```
pub fn touched<K>(subscription: Subscription<K>) -> impl Stream<Item = watcher::Result<K>> + Send + 'static
where
    K: Resource + DeserializeOwned + Clone + Send + 'static,
{
    events(subscription).touched_objects()
}

/// A store of kube's runtime, and the future that fills it: to be spawned, or polled beside something else. It ends when
/// the reflector has ended; dropping it leaves the store as it is.
///
/// ```no_run
/// # use k8s_openapi::api::core::v1::Pod;
/// # async fn example(pods: &reflector::Cache<Pod>) -> Result<(), Box<dyn std::error::Error>> {
/// let (store, fill) = reflector::kube_runtime::store(pods.subscribe());
/// let task = tokio::spawn(fill);
/// store.wait_until_ready().await?;
/// println!("{} pods", store.state().len());
/// # Ok(()) }
/// ```
pub fn store<K>(subscription: Subscription<K>) -> (Store<K>, impl Future<Output = ()> + Send + 'static)
where
    K: Resource + DeserializeOwned + Clone + Send + Sync + 'static,
    K::DynamicType: Default + Eq + Hash + Clone + Send + Sync,
{
    let (store, touched) = for_controller(subscription);
    (store, touched.for_each(|_| std::future::ready(())))
}

/// A subscription as the events of kube's `watcher`: `Init`, an `InitApply` for each object, `InitDone`, and from then
/// on `Apply` and `Delete`.
///
/// The subscription must be a new one: of what has been read from it before, nothing is told. The stream never gives an
/// error. What it leaves out is described [above](self#objects-that-do-not-decode).
pub fn events<K>(subscription: Subscription<K>) -> Events<K> {
    Events { subscription, told: BTreeSet::new(), initial: None }
}

/// The stream that [`events`] gives.
#[must_use = "streams do nothing unless polled"]
pub struct Events<K> {
    subscription: Subscription<K>,
    /// Before the sync: what is there. Afterwards: the last state of each object that was told.
    told: BTreeSet<Told<K>>,
    /// What is still to be told of the first state; `None` while it is not complete, or over.
    initial: Option<vec::IntoIter<Told<K>>>,
}

/// Ordered and found by its key, so that no key is stored twice.
struct Told<K>(Object<K>);

impl<K: Resource + DeserializeOwned + Clone + 'static> Events<K> {
    /// The next event of the first state, or `None` if that is over.
    fn next_initial(&mut self) -> Option<watcher::Event<K>> {
        for Told(object) in self.initial.as_mut()? {
            if let Some(decoded) = decode(&object) {
                self.told.insert(Told(object));
                return Some(watcher::Event::InitApply(decoded));
            }
        }
        self.initial = None;
        Some(watcher::Event::InitDone)
    }

    /// A change before the sync: nothing has been told yet, so there is nothing but the latest state.
    fn gather(&mut self, event: Event<K>) -> Option<watcher::Event<K>> {
        match event {
            Event::Added { object, .. } | Event::Updated { new: object, .. } => {
                self.told.replace(Told(object));
            }
            Event::Deleted { last, .. } => {
                self.told.remove(last.key());
            }
            Event::Synced => {
                let present: Vec<_> = std::mem::take(&mut self.told).into_iter().collect();
                self.initial = Some(present.into_iter());
                return Some(watcher::Event::Init);
            }
            Event::Bookmark(_) | Event::Resync(_) => {}
        }
        None
    }

    /// A change after the sync.
    fn translate(&mut self, event: Event<K>) -> Option<watcher::Event<K>> {
        match event {
            Event::Added { object, .. } | Event::Updated { new: object, .. } | Event::Resync(object) => {
                let decoded = decode(&object)?;
                self.told.replace(Told(object));
                Some(watcher::Event::Apply(decoded))
            }
            Event::Deleted { last, .. } => {
                let Told(good) = self.told.take(last.key())?;
                decode(&last).or_else(|| decode(&good)).map(watcher::Event::Delete)
            }
            Event::Synced | Event::Bookmark(_) => None,
        }
    }
}

/// The object, if it fits its type, and the type kept its name. kube's runtime panics on one without a name.
fn decode<K: Resource + DeserializeOwned + Clone + 'static>(object: &Object<K>) -> Option<K> {
    // What does not fit has been logged and counted there.
    let decoded = Arc::unwrap_or_clone(object.get().ok()?);
    (decoded.meta().name.as_deref() == Some(object.name())).then_some(decoded)
}

impl<K: Resource + DeserializeOwned + Clone + 'static> Stream for Events<K> {
    type Item = watcher::Result<watcher::Event<K>>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        if let Some(event) = this.next_initial() {
            return Poll::Ready(Some(Ok(event)));
        }
        for _ in 0..SILENT_MAX {
            // The last event before the sync is the sync itself.
            let before = !this.subscription.is_synced();
            let Some(event) = ready!(this.subscription.poll_next_unpin(cx)) else { return Poll::Ready(None) };
            let event = if before { this.gather(event) } else { this.translate(event) };
            if let Some(event) = event {
                return Poll::Ready(Some(Ok(event)));
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

impl<K> Unpin for Events<K> {}

impl<K> fmt::Debug for Events<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Events").field("subscription", &self.subscription).finish_non_exhaustive()
    }
}

impl<K> Borrow<ObjectKey> for Told<K> {
    fn borrow(&self) -> &ObjectKey {
        self.0.key()
    }
}

impl<K> PartialEq for Told<K> {
    fn eq(&self, other: &Self) -> bool {
        self.0.key() == other.0.key()
    }
}

impl<K> Eq for Told<K> {}

impl<K> PartialOrd for Told<K> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<K> Ord for Told<K> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.key().cmp(other.0.key())
    }
}
