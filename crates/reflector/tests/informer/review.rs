//! What a review proved, as tests: symptoms and causes.

use std::{panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures::FutureExt;
use reflector::{
    Control, Event, InformerFactory, Reflector,
    informer::{Callbacks, HandlerOptions, OnPanic, from_async_fn, from_fn},
};

use crate::{common::*, support::*};

/// A builder of a source, and its server.
fn builder(name: &str) -> (reflector::Builder<Json, Scripted>, Server) {
    let (source, server) = scripted();
    (Reflector::builder(source).name(name), server)
}

/// Symptom: the panic of a handler that was to be propagated vanished. Cause: a `stop` from inside of another handler
/// raised it there, where it was isolated.
#[tokio::test(start_paused = true)]
async fn a_propagated_panic_survives_a_stop_from_inside() {
    let (informer, _server, _stream) = synced(&[object("b", "u2", "6")], "7").await;
    let informer = Arc::new(informer);
    let options = HandlerOptions::new().on_panic(OnPanic::Propagate);
    let first = informer.add_handler_with(from_fn(|_: Event<Json>| panic!("important")), options).unwrap();
    first.removed().await.unwrap();
    let inner = Arc::clone(&informer);
    let second = from_async_fn(move |_: Event<Json>| {
        let inner = Arc::clone(&inner);
        async move {
            inner.stop().await.ok();
        }
    });
    informer.add_handler(second).unwrap().removed().await.unwrap();
    assert!(AssertUnwindSafe(informer.stop()).catch_unwind().await.is_err());
}

/// Symptom: a factory gave the same dead informer for ever. Cause: one that ended by itself did not count as stopped.
#[tokio::test(start_paused = true)]
async fn an_informer_that_has_ended_by_itself_is_replaced() {
    let factory = InformerFactory::new();
    let (first, mut server) = builder("a");
    let first = factory.informer(first.on_error(|_| Control::Stop)).unwrap();
    factory.start().unwrap();
    server.watch().await.refuse(refused(403, "Forbidden", "no"));
    assert!(first.ready().await.is_err());
    let again = loop {
        let again = factory.informer(builder("a").0).unwrap();
        if !Arc::ptr_eq(&again, &first) {
            break again;
        }
        // The task of the first is about to end.
        tokio::task::yield_now().await;
    };
    assert!(again.add_handler(Callbacks::new()).is_ok());
    factory.shutdown().await.unwrap();
}

/// Symptom: a wait of a minute ended at once, with a handler that had just come as the laggard.
#[tokio::test(start_paused = true)]
async fn a_handler_that_comes_while_others_are_waited_for_is_waited_for_too() {
    let factory = Arc::new(InformerFactory::new());
    let ((a, mut server_a), (b, mut server_b)) = (builder("a"), builder("b"));
    let (a, b) = (factory.informer(a).unwrap(), factory.informer(b.labels("b")).unwrap());
    factory.start().unwrap();
    let _a = server_a.sync(&[object("x", "u", "5")], "5").await;
    a.ready().await.unwrap();
    let mut waiting = Box::pin(factory.wait_for_sync(Duration::from_secs(60)));
    assert!((&mut waiting).now_or_never().is_none());
    a.add_handler(from_async_fn(|_: Event<Json>| tokio::time::sleep(Duration::from_secs(1)))).unwrap();
    let _b = server_b.sync(&[], "5").await;
    b.ready().await.unwrap();
    waiting.await.unwrap();
    factory.shutdown().await.unwrap();
}

/// Symptom: a resync each second. Cause: zero, which is never in client-go, was raised to the least interval.
#[tokio::test(start_paused = true)]
async fn a_resync_interval_of_zero_is_never() {
    let factory = InformerFactory::new().resync_every(Duration::ZERO);
    let (a, mut server) = builder("a");
    let a = factory.informer(a).unwrap();
    let (handler, mut seen) = recorder();
    a.add_handler(handler).unwrap();
    factory.start().unwrap();
    let _stream = server.sync(&[object("x", "u", "5")], "5").await;
    assert_eq!(seen.take(2).await, "initial x@5 synced");
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert!(seen.rest().is_empty());
    factory.shutdown().await.unwrap();
}

/// Symptom: all was in sync, said the factory, where a handler had died over the first object.
#[tokio::test(start_paused = true)]
async fn a_handler_that_died_before_it_was_in_sync_is_a_laggard() {
    let factory = InformerFactory::new();
    let (a, mut server) = builder("a");
    let a = factory.informer(a).unwrap();
    let options = || HandlerOptions::new().name("fragile").on_panic(OnPanic::Stop);
    let died = a.add_handler_with(from_fn(|_: Event<Json>| panic!("boom")), options()).unwrap();
    factory.start().unwrap();
    let _stream = server.sync(&[object("x", "u", "5")], "5").await;
    died.removed().await.unwrap();
    let laggards = factory.wait_for_sync(Duration::from_secs(60)).await.unwrap_err();
    assert!(laggards.to_string().contains("handler fragile panicked: boom"), "{laggards}");
    // One that takes its place cures that.
    a.add_handler_with(Callbacks::new(), options()).unwrap();
    factory.wait_for_sync(Duration::from_secs(60)).await.unwrap();
    factory.shutdown().await.unwrap();
}
