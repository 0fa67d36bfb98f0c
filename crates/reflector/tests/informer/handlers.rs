//! Handlers on a cache that no reflector fills.

use std::panic::AssertUnwindSafe;

use futures::FutureExt;
use reflector::{
    Cache, Change, Event, Store,
    informer::{HandlerOptions, HandlerState, Handlers, OnPanic, from_fn},
    protocol::History,
};

use crate::{common::*, support::*};

#[tokio::test]
async fn handlers_follow_any_cache_and_stop_with_what_waits_counted() {
    let (cache, mut writer) = Cache::<Json>::new();
    let handlers = Handlers::new("things", &cache);
    let (handler, mut seen) = recorder();
    let (first, run) = handlers.add(handler, HandlerOptions::new().name("first"));
    let first_task = tokio::spawn(run);

    writer.begin_replace(History::Same);
    writer.stage(vec![Change::Upsert(object("a", "a", "1"))]).unwrap();
    writer.commit_replace(None).unwrap();
    first.synced().await.unwrap();
    assert_eq!(seen.take(2).await, "initial a@1 synced");

    // One that comes late is told what there is (SI-20), and stands in it.
    let (handler, mut late, gate) = gated();
    let (second, run) = handlers.add(handler, HandlerOptions::new());
    let second_task = tokio::spawn(run);
    assert_eq!(late.next().await, "initial a@1");
    writer.apply(vec![Change::Upsert(object("b", "b", "2"))], None).unwrap();
    assert_eq!(seen.next().await, "+b@2");
    assert_eq!(handlers.all().len(), 2);

    handlers.stop();
    assert_eq!(first_task.await.unwrap(), 0);
    assert_eq!(first.state(), HandlerState::Stopped);
    assert_eq!(second.state(), HandlerState::Running, "the call in hand is completed");
    gate.add_permits(1);
    assert!(second_task.await.unwrap() > 0, "what waited is counted");
    assert_eq!(late.until_dropped().await, "");
    assert!(handlers.all().is_empty());
}

#[tokio::test]
async fn whoever_runs_a_handler_gets_the_panic_that_is_to_be_propagated() {
    let (cache, mut writer) = Cache::<Json>::new();
    let handlers = Handlers::new("things", &cache);
    let options = HandlerOptions::new().on_panic(OnPanic::Propagate);
    let (registration, run) = handlers.add(from_fn(|_: Event<Json>| panic!("no more")), options);
    writer.apply(vec![Change::Upsert(object("a", "a", "1"))], None).unwrap();
    writer.begin_replace(History::Same);
    writer.commit_replace(None).unwrap();
    let payload = AssertUnwindSafe(run).catch_unwind().await.unwrap_err();
    assert_eq!(payload.downcast_ref::<&str>(), Some(&"no more"));
    assert_eq!(registration.state(), HandlerState::Panicked("no more".into()));
}

#[tokio::test]
async fn a_handler_ends_with_the_cache_that_it_follows() {
    let (cache, writer) = Cache::<Json>::new();
    let (registration, run) = Handlers::new("things", &cache).add(recorder().0, HandlerOptions::new());
    drop(writer);
    assert_eq!(run.await, 0);
    assert_eq!(registration.state(), HandlerState::Stopped);
}
