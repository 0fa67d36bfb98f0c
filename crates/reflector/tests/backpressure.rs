//! A subscriber that blocks the reflector, and one that does not.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use futures::StreamExt;
use metrics_util::debugging::{DebugValue, DebuggingRecorder, Snapshotter};
use reflector::{
    Cache, Control, Event, Policy, Reflector, Subscription,
    wire::{Status, WatchEvent},
};
use support::*;

/// Lets everything happen that can happen without a test's help.
async fn settle() {
    tokio::time::sleep(Duration::from_secs(1)).await;
}

fn modified(version: &str) -> Vec<WatchEvent<Json>> {
    vec![WatchEvent::Modified(object("a", "u", version))]
}

/// A subscriber that blocks as soon as one change waits, in sync with `a@1`; and the watch.
async fn blocking(letters: &Reflector<Json>, server: &mut Server) -> (Subscription<Json>, Stream) {
    let mut slow = letters.cache().subscription().policy(Policy::Block { bound: 1 }).subscribe();
    let stream = server.sync(&[object("a", "u", "1")], "1").await;
    assert!(matches!(slow.next().await, Some(Event::Added { initial: true, .. })));
    assert!(matches!(slow.next().await, Some(Event::Synced)));
    (slow, stream)
}

#[tokio::test(start_paused = true)]
async fn a_blocking_subscriber_stops_the_reading_and_nothing_else() {
    let (source, mut server) = scripted();
    let letters = Reflector::builder(source).start();
    let (mut slow, stream) = blocking(&letters, &mut server).await;
    stream.send(modified("2"));
    settle().await;
    stream.send(modified("3"));
    settle().await;
    assert_eq!(content(letters.cache()), "a@2", "no more is read while one change waits");
    assert!(matches!(slow.next().await, Some(Event::Updated { .. })));
    settle().await;
    assert_eq!(content(letters.cache()), "a@3");
    // client-go drops what is queued when it stops (CT-3); here it is told, and the stop does not wait for it.
    letters.stop().await;
    assert!(
        matches!(slow.next().await, Some(Event::Updated { new, .. }) if new.version().unwrap().to_string() == "3")
    );
    assert!(slow.next().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_slow_subscriber_stops_nobody() {
    let (source, mut server) = scripted();
    let letters = Reflector::builder(source).start();
    let mut slow = letters.cache().subscribe();
    let mut quick = letters.cache().subscribe();
    let stream = server.sync(&[object("a", "u", "1")], "1").await;
    for version in 2..500 {
        stream.send(modified(&version.to_string()));
    }
    settle().await;
    assert_eq!(content(letters.cache()), "a@499");
    let last = |event: Option<Event<Json>>| event.unwrap().object().map(|o| o.version().unwrap().to_string());
    for subscription in [&mut quick, &mut slow] {
        assert_eq!(last(subscription.next().await).as_deref(), Some("1"));
        assert_eq!(last(subscription.next().await), None);
        assert_eq!(last(subscription.next().await).as_deref(), Some("499"));
    }
    letters.stop().await;
}

/// Symptom: after a 410 no request was made while a subscriber was slow, and the report said that the server did not answer
/// in time. Cause: requests waited for the subscriber too. Only changes need room; a new read is staged.
#[tokio::test(start_paused = true)]
async fn a_blocking_subscriber_is_no_failure_of_the_server() {
    let (source, mut server) = scripted();
    let reports = Arc::new(Mutex::new(Vec::new()));
    let reported = Arc::clone(&reports);
    let letters = Reflector::builder(source)
        .on_error(move |report| {
            reported.lock().unwrap().push(report.class.as_str());
            Control::Continue
        })
        .start();
    let (mut slow, stream) = blocking(&letters, &mut server).await;
    // One batch: a change that fills the queue, and the end of the history.
    let body = br#"{"kind":"Status","status":"Failure","message":"too old","reason":"Expired","code":410}"#;
    let expired = Status::from_body(410, None, body);
    stream.send(vec![WatchEvent::Modified(object("a", "u", "2")), WatchEvent::Error(Box::new(expired))]);
    let stream = server.sync(&[object("a", "u", "4")], "5").await;
    settle().await;
    assert_eq!(content(letters.cache()), "a@4", "everything is read anew");
    // From then on it waits again, for as long as it takes.
    stream.send(modified("6"));
    for _ in 0..20 {
        settle().await;
    }
    assert_eq!(content(letters.cache()), "a@4");
    assert_eq!(*reports.lock().unwrap(), ["expired"]);
    for version in ["2", "4", "6"] {
        let event = slow.next().await.unwrap();
        assert_eq!(event.object().unwrap().version().unwrap().to_string(), version);
    }
    letters.stop().await;
}

/// Symptom: a reflector of one namespace was never ready, since a subscriber had not read what another one had brought.
#[tokio::test(start_paused = true)]
async fn a_first_list_needs_nobody_to_read() {
    let (first_source, mut first_server) = scripted();
    let (cache, writers) = Cache::by_namespace();
    let slow = cache.subscription().policy(Policy::Block { bound: 1 }).subscribe();
    let first = Reflector::builder(first_source).start_with(writers.writer("ns"));
    let stream = first_server.sync(&[object("a", "u", "1"), object("b", "v", "1")], "1").await;
    first.ready().await.unwrap();
    stream.send(modified("2"));
    settle().await;
    assert_eq!(slow.lag().waiting, 1, "it is full");
    let (source, mut server) = scripted();
    let second = Reflector::builder(source).start_with(writers.writer("zz"));
    let _stream = server.sync(&[], "1").await;
    second.ready().await.unwrap();
    assert!(cache.is_synced());
    first.stop().await;
    second.stop().await;
}

/// What the gauge says.
fn waits(snapshotter: &Snapshotter) -> f64 {
    let seen = snapshotter.snapshot().into_vec().into_iter();
    let mut gauges = seen.filter(|(key, ..)| key.key().name() == "reflector_waits_for_subscriber");
    match gauges.next() {
        Some((.., DebugValue::Gauge(value))) => value.into_inner(),
        other => panic!("no such gauge: {other:?}"),
    }
}

/// Symptom: a reflector that had waited for a subscriber for an hour looked as if nothing ever happened. The gauge tells.
#[test]
fn a_reflector_that_waits_for_a_subscriber_says_so() {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    let story = async {
        let (source, mut server) = scripted();
        let letters = Reflector::builder(source).start();
        let (mut slow, stream) = blocking(&letters, &mut server).await;
        settle().await;
        assert_eq!(waits(&snapshotter), 0.0);
        stream.send(modified("2"));
        settle().await;
        assert_eq!(waits(&snapshotter), 1.0);
        slow.next().await.unwrap();
        settle().await;
        assert_eq!(waits(&snapshotter), 0.0);
        stream.send(modified("3"));
        settle().await;
        assert_eq!(waits(&snapshotter), 1.0);
        letters.stop().await;
        assert_eq!(waits(&snapshotter), 0.0, "one that has ended waits for nobody");
    };
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    metrics::with_local_recorder(&recorder, || runtime.block_on(story));
}
