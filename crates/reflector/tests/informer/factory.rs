//! One informer per collection.

use std::{sync::Arc, time::Duration};

use reflector::{
    Builder, InformerFactory, Reflector,
    informer::{Cause, FactoryStopped},
};
use tokio::time::Instant;

use crate::{common::*, support::*};

/// A builder with its own server.
fn builder(name: &str) -> (Builder<Json, Scripted>, Server) {
    let (source, server) = scripted();
    (Reflector::builder(source).name(name).seed(1), server)
}

const LIMIT: Duration = Duration::from_secs(10);

/// FA-1, ME-2.
#[tokio::test(start_paused = true)]
async fn the_same_collection_is_the_same_informer_and_names_are_unique() {
    let factory = InformerFactory::new();
    let one = factory.informer(builder("letters").0).unwrap();
    let same = factory.informer(builder("letters").0.page_size(3)).unwrap();
    assert!(Arc::ptr_eq(&one, &same));
    let selected = factory.informer(builder("letters").0.labels("app=a").fields("x=y")).unwrap();
    let other = factory.informer(builder("digits").0).unwrap();
    let names = [&one, &selected, &other].map(|informer| informer.name().to_owned());
    assert_eq!(names, ["letters", "letters, labels app=a, fields x=y", "digits"]);
    // One of that name, and of other things: here, of another selection.
    let twin = factory.informer(builder("letters, labels app=a, fields x=y").0).unwrap();
    assert_eq!(twin.name(), "letters, labels app=a, fields x=y#2");
    // One that its user has stopped is replaced.
    one.stop().await.unwrap();
    assert!(!Arc::ptr_eq(&one, &factory.informer(builder("letters").0).unwrap()));
    factory.shutdown().await.unwrap();
}

/// FA-2.
#[tokio::test(start_paused = true)]
async fn start_starts_what_has_not_been_started() {
    let before = tasks();
    let factory = InformerFactory::new();
    let (letters, mut letters_server) = builder("letters");
    let letters = factory.informer(letters).unwrap();
    factory.start().unwrap();
    let _letters = letters_server.sync(&[object("a", "u1", "5")], "5").await;
    let (digits, mut digits_server) = builder("digits");
    let digits = factory.informer(digits).unwrap();
    factory.start().unwrap();
    factory.start().unwrap();
    let _digits = digits_server.sync(&[], "5").await;
    factory.wait_for_sync(LIMIT).await.unwrap();
    assert_eq!((letters.cache().len(), digits.cache().len()), (1, 0));
    let (one, two) = tokio::join!(factory.shutdown(), factory.shutdown());
    assert_eq!((one.is_ok(), two.is_ok()), (true, true));
    factory.shutdown().await.unwrap();
    assert_eq!(tasks(), before);
    assert_eq!(factory.start(), Err(FactoryStopped));
    assert!(factory.informer(builder("letters").0).is_err());
    assert!(letters.start().is_err());
}

/// SI-41: client-go: WaitFor (empty).
#[tokio::test(start_paused = true)]
async fn no_informers_are_in_sync_at_once() {
    let start = Instant::now();
    InformerFactory::new().wait_for_sync(LIMIT).await.unwrap();
    assert_eq!(start.elapsed(), Duration::ZERO);
}

/// SI-41, SI-42, FA-3, I66. client-go: WaitFor (all unfinished, custom cause), SyncResult (many, sorted).
#[tokio::test(start_paused = true)]
async fn whatever_is_not_in_sync_is_named_with_its_cause() {
    let factory = InformerFactory::new();
    let (good, mut good_server) = builder("good");
    let good = factory.informer(good).unwrap();
    let (forbidden, mut forbidden_server) = builder("forbidden");
    factory.informer(forbidden).unwrap();
    let (failing, mut failing_server) = builder("failing");
    factory.informer(failing.streaming(false)).unwrap();
    let (busy, mut busy_server) = builder("busy");
    factory.informer(busy.streaming(false)).unwrap();
    let (slow, mut slow_server) = builder("slow");
    let slow = factory.informer(slow).unwrap();
    let (handler, mut seen, _gate) = gated();
    slow.add_handler_with(handler, reflector::informer::HandlerOptions::new().name("h")).unwrap();
    factory.start().unwrap();
    let late = factory.informer(builder("never started").0).unwrap();

    let _good = good_server.sync(&[object("a", "u1", "5")], "5").await;
    forbidden_server.watch().await.refuse(refused(403, "Forbidden", "not for you"));
    failing_server.list().await.refuse(refused(500, "InternalError", "out of order"));
    let _busy = busy_server.list().await;
    let _slow = slow_server.sync(&[object("a", "u1", "5"), object("b", "u2", "6")], "6").await;
    assert_eq!(seen.next().await, "initial a@5");
    good.ready().await.unwrap();

    let start = Instant::now();
    let laggards = factory.wait_for_sync(LIMIT).await.unwrap_err();
    assert_eq!(start.elapsed(), LIMIT);
    let names: Vec<_> = laggards.laggards.iter().map(|laggard| &*laggard.informer).collect();
    assert_eq!(names, ["busy", "failing", "forbidden", "never started", "slow"]);
    let causes: Vec<_> = laggards.laggards.iter().map(|laggard| &laggard.cause).collect();
    assert!(matches!(causes[0], Cause::Busy(_)), "{:?}", causes[0]);
    assert!(matches!(causes[1], Cause::Failing(_)), "{:?}", causes[1]);
    assert!(matches!(causes[2], Cause::Blocked(_)), "{:?}", causes[2]);
    assert!(matches!(causes[3], Cause::NotStarted), "{:?}", causes[3]);
    assert!(matches!(causes[4], Cause::Handler { name, .. } if &**name == "h"), "{:?}", causes[4]);
    let text = laggards.to_string();
    for part in [
        "not in sync after 10s: busy (listing",
        "out of order",
        "not for you",
        "never started (not started)",
        "slow (handler h is busy, and up to 1 more events wait)",
    ] {
        assert!(text.contains(part), "{text}");
    }
    late.stop().await.unwrap();
    drop(factory);
}

/// SI-41: being in sync wins over the passing of the limit, and what has ended is not waited for.
#[tokio::test(start_paused = true)]
async fn nobody_waits_for_what_cannot_come_any_more() {
    let factory = InformerFactory::new();
    let (letters, mut server) = builder("letters");
    let letters = factory.informer(letters).unwrap();
    factory.start().unwrap();
    let _stream = server.sync(&[], "5").await;
    letters.ready().await.unwrap();
    factory.wait_for_sync(Duration::ZERO).await.unwrap();
    let gone = factory.informer(builder("gone").0).unwrap();
    gone.stop().await.unwrap();
    let start = Instant::now();
    let laggards = factory.wait_for_sync(LIMIT).await.unwrap_err();
    assert_eq!(start.elapsed(), Duration::ZERO);
    assert_eq!(laggards.to_string(), "not in sync after 0ns: gone (stopped)");
    factory.shutdown().await.unwrap();
}

/// FA-1: the default resync.
#[tokio::test(start_paused = true)]
async fn the_resync_of_the_factory_is_the_default_of_its_informers() {
    let factory = InformerFactory::new().resync_every(Duration::from_secs(10));
    let (letters, mut server) = builder("letters");
    let letters = factory.informer(letters).unwrap();
    let (handler, mut seen) = recorder();
    letters.add_handler(handler).unwrap();
    factory.start().unwrap();
    let _stream = server.sync(&[object("a", "u1", "5")], "5").await;
    assert_eq!(seen.take(3).await, "initial a@5 synced =a@5");
    factory.shutdown().await.unwrap();
}

#[cfg(feature = "kube")]
mod kube {
    use ::kube::core::{ApiResource, GroupVersionKind};
    use k8s_openapi::api::core::v1::{ConfigMap, Secret};
    use reflector::informer::KubeInformers;

    use super::*;
    use crate::support::cluster::Cluster;

    #[tokio::test]
    async fn kubernetes_resources_are_shared_by_type_scope_and_selection() {
        let cluster = Cluster::start(3).await;
        let informers = KubeInformers::new(cluster.client());
        let all = informers.kube::<ConfigMap>().get().unwrap();
        let shop = informers.namespaced::<ConfigMap>("shop").get().unwrap();
        let labelled = informers.kube::<ConfigMap>().labels("app=test").get().unwrap();
        let none = informers.kube::<ConfigMap>().labels("app=other").get().unwrap();
        let one = informers.kube::<ConfigMap>().fields("metadata.name=cm-1").get().unwrap();
        let headers = informers.metadata::<ConfigMap>().get().unwrap();
        let secrets = informers.kube::<Secret>().get().unwrap();
        let same = informers.kube::<ConfigMap>().get().unwrap();
        assert!(Arc::ptr_eq(&all, &same));
        // The same type in Rust, and two resources; the original lets them collide.
        let resource = |version: &str, plural: &str| {
            ApiResource::from_gvk_with_plural(
                &GroupVersionKind::gvk("example.com", version, "Gadget"),
                plural,
            )
        };
        let v1 = informers.dynamic(&resource("v1", "gadgets"), None).get().unwrap();
        let v2 = informers.dynamic(&resource("v2", "gadgets"), None).get().unwrap();
        assert_eq!((v1.name(), v2.name()), ("gadgets.example.com", "gadgets.example.com#2"));
        // Nobody has such a thing here.
        v1.stop().await.unwrap();
        v2.stop().await.unwrap();
        informers.start().unwrap();
        let laggards = informers.wait_for_sync(Duration::from_secs(30)).await.unwrap_err();
        assert_eq!(laggards.laggards.len(), 2, "{laggards}");
        assert_eq!(
            [all.cache().len(), labelled.cache().len(), none.cache().len(), one.cache().len()],
            [3, 3, 0, 1]
        );
        assert_eq!((headers.cache().len(), shop.cache().len(), secrets.cache().len()), (3, 0, 0));
        informers.shutdown().await.unwrap();
    }
}
