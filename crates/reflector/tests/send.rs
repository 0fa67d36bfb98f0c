//! What may go to another thread, and be used by several at once. Objects are kept as bytes and decoded on demand, so all
//! of this holds whatever the type of the objects is: `Wild` is neither `Send` nor `Sync`.
//!
//! Each promise is kept by the compiler: a test fails by not compiling.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{future::poll_fn, rc::Rc, time::Duration};

use futures::StreamExt;
use reflector::{
    Cache, Change, Delta, Event, FencedCache, FieldSelector, Handle, Index, IndexBy, LabelSelector, Lister,
    NamespaceLister, NamespacedReflector, Object, Reflector, Registration, ResourceVersion, SharedInformer,
    Store, Subscription,
    store::{
        CacheWriter, DeltaFifo, DeltaFifoOptions, DeltaFifoWriter, Deltas, FifoDelta, Iter, LagMeter,
        NamespaceWriters, Popped, Snapshot, Subscribe, TtlStore, TtlWriter,
    },
};

/// A type that must stay in its thread.
type Wild = Rc<String>;

fn send<T: Send>() {}
fn shared<T: Send + Sync>() {}
fn send_value<T: Send>(value: T) -> T {
    value
}

#[test]
fn handles_go_to_other_threads_whatever_they_hold() {
    shared::<Object<Wild>>();
    shared::<Change<Wild>>();
    shared::<Delta<Wild>>();
    shared::<Event<Wild>>();
    shared::<Cache<Wild>>();
    shared::<Snapshot<Wild>>();
    shared::<CacheWriter<Wild>>();
    shared::<NamespaceWriters<Wild>>();
    shared::<Index<Wild, Wild>>();
    shared::<IndexBy<Wild, Wild>>();
    shared::<Subscribe<Wild>>();
    shared::<Subscription<Wild>>();
    shared::<LagMeter<Wild>>();
    shared::<Lister<Wild>>();
    shared::<NamespaceLister<Wild>>();
    shared::<FencedCache<Wild>>();
    shared::<Handle>();
    shared::<Reflector<Wild>>();
    shared::<NamespacedReflector<Wild>>();
    shared::<SharedInformer<Wild>>();
    shared::<Registration>();
    shared::<DeltaFifo<Wild>>();
    shared::<DeltaFifoWriter<Wild>>();
    shared::<FifoDelta<Wild>>();
    shared::<Deltas<Wild>>();
    shared::<Popped<Wild>>();
    shared::<TtlStore<Wild>>();
    shared::<TtlWriter<Wild>>();
    send::<Iter<'static, Wild>>();
}

/// Symptom: a task that looked at objects one by one, and waited in between, could not be spawned. Cause: the iterators
/// did not say that they are `Send`.
#[test]
fn iterators_may_be_held_while_waiting() {
    let (cache, _writer) = Cache::<Wild>::new();
    let index = cache.index_by(IndexBy::handle(|object: &Object<Wild>| Ok([object.name().to_owned()])));
    drop(send_value(async move {
        let snapshot = cache.snapshot();
        let selector: LabelSelector = "app".parse().unwrap();
        let fields: FieldSelector = "metadata.name=a".parse().unwrap();
        let all = (&snapshot).into_iter().chain(snapshot.namespace("ns"));
        let some = snapshot.select(&selector).chain(snapshot.select_in("ns", &selector));
        let by_fields = snapshot.select_fields(&fields).chain(snapshot.select_fields_in("ns", &fields));
        let indexed = snapshot.by(&index, "a").unwrap().chain(snapshot.unindexed(&index).unwrap());
        for object in all.chain(some).chain(by_fields).chain(indexed) {
            std::future::ready(object.name().len()).await;
        }
        for value in snapshot.values(&index).unwrap() {
            std::future::ready(value.len()).await;
        }
    }));
}

#[test]
fn waiting_futures_may_be_spawned() {
    let (cache, mut writer) = Cache::<Wild>::new();
    let fenced = FencedCache::new(cache.clone());
    drop(send_value(async move {
        let version = ResourceVersion::new("1").unwrap();
        cache.wait_for(&version).await.ok();
        fenced.wait(Duration::ZERO).list().await.ok();
        cache.subscribe().next().await;
        poll_fn(|cx| writer.poll_ready(cx)).await;
    }));
    let (queue, _writer) = DeltaFifo::<Wild>::new(DeltaFifoOptions::default());
    drop(send_value(async move { queue.pop().await.map(|popped| popped.key().clone()) }));
}
