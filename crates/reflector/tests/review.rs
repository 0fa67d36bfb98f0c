//! Defects that were found by reading, each as the conversation that showed it.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::time::Duration;

use futures::StreamExt;
use reflector::{
    Change, Control, Event, NotReady, Object, Reflector, ResourceVersion, Store, StoreError,
    protocol::{Failure, History, Phase},
    wire::{ListItem, WatchEvent},
};
use support::*;

/// Symptom: `stop()` hung, and the task turned for ever. Cause: the order that ends everything was carried out in the
/// middle of a batch of events, and its answer was lost.
#[tokio::test(start_paused = true)]
async fn a_handler_that_stops_in_mid_stream_ends_the_task() {
    let (source, mut server) = scripted();
    let letters = Reflector::builder(source).on_error(|_| Control::Stop).start();
    let stream = server.sync(&[object("a", "u1", "5")], "7").await;
    letters.ready().await.unwrap();
    let body = br#"{"kind":"Status","status":"Failure","message":"slow down","code":429}"#;
    let status = reflector::wire::Status::from_body(429, None, body);
    stream.send(vec![WatchEvent::Error(Box::new(status)), WatchEvent::Added(object("b", "u2", "9"))]);
    letters.handle().watch_status().wait_for(|status| status.phase == Phase::Stopped).await.unwrap();
    let cache = letters.stop().await;
    assert_eq!(content(&cache), "a@5");
}

/// Symptom: `ready()` said what stood in the way and that it goes on trying, of a reflector that had ended.
#[tokio::test(start_paused = true)]
async fn a_stopped_reflector_is_not_called_blocked() {
    let (source, mut server) = scripted();
    let letters = Reflector::builder(source).on_error(|_| Control::Stop).start();
    server.watch().await.refuse(refused(403, "Forbidden", "no"));
    letters.handle().watch_status().wait_for(|status| status.phase == Phase::Stopped).await.unwrap();
    assert!(matches!(letters.ready().await, Err(NotReady::Stopped(Some(_)))));
}

fn invalid_event(json: &str) -> WatchEvent<Json> {
    let mut cutter = reflector::wire::WatchCutter::new(None, reflector::wire::Limits::default());
    let mut events = Vec::new();
    cutter.push(json.as_bytes(), &mut events).unwrap();
    events.pop().unwrap()
}

/// Symptom: an object that was deleted stayed for ever. Cause: its last state had labels of the wrong type.
#[tokio::test(start_paused = true)]
async fn a_deletion_whose_object_cannot_be_read_is_a_deletion() {
    let (source, mut server) = scripted();
    let letters = Reflector::builder(source).start();
    let stream = server.sync(&[object("a", "u1", "5"), object("b", "u2", "6")], "7").await;
    letters.ready().await.unwrap();
    let followed = letters.cache().subscribe();
    let deleted = r#"{"type":"DELETED","object":{"metadata":
        {"namespace":"ns","name":"a","uid":"u1","resourceVersion":"8","labels":{"x":1}}}}"#;
    let event = invalid_event(deleted);
    assert!(matches!(event, WatchEvent::Invalid(_)));
    stream.send(vec![event, bookmark("9")]);
    letters.handle().watch_status().wait_for(|s| s.version == ResourceVersion::new("9")).await.unwrap();
    assert_eq!(content(letters.cache()), "b@6");
    // Followers get what was held, since what came says nothing of the last state.
    let told = followed.filter_map(async |event| match event {
        Event::Deleted { last, final_state_unknown } => Some((last.version().cloned(), final_state_unknown)),
        _ => None,
    });
    assert_eq!(std::pin::pin!(told).next().await.unwrap(), (ResourceVersion::new("5"), true));
    // Where not even the name can be read, everything is read anew.
    stream.send(vec![invalid_event(r#"{"type":"DELETED","object":{"metadata":{}}}"#)]);
    let again = server.watch().await;
    assert_eq!(again.options.send_initial_events, Some(true));
    letters.stop().await;
}

/// Symptom: an object that had left a selection and come back was deleted by a replay of its leaving. Cause: deletions
/// of the same uid were taken as final.
#[tokio::test(start_paused = true)]
async fn k8_an_old_deletion_does_not_end_a_newer_object() {
    let (source, mut server) = scripted();
    let letters = Reflector::builder(source).start();
    let stream = server.sync(&[object("a", "u1", "5")], "5").await;
    letters.ready().await.unwrap();
    stream.send(vec![
        WatchEvent::Deleted(object("a", "u1", "6")),
        WatchEvent::Added(object("a", "u1", "7")),
        WatchEvent::Deleted(object("a", "u1", "6")),
        bookmark("8"),
    ]);
    letters.handle().watch_status().wait_for(|s| s.version == ResourceVersion::new("8")).await.unwrap();
    assert_eq!(content(letters.cache()), "a@7");
    letters.stop().await;
}

/// A store that does what its fields say.
struct Faulty {
    panics: bool,
    commits_fail: u32,
}

impl Store<Json> for Faulty {
    fn apply(&mut self, _: Vec<Change<Json>>, _: Option<&ResourceVersion>) -> Result<(), StoreError> {
        assert!(!self.panics, "the store panics");
        Ok(())
    }
    fn begin_replace(&mut self, _: History) {}
    fn stage(&mut self, _: Vec<Change<Json>>) -> Result<(), StoreError> {
        Ok(())
    }
    fn commit_replace(&mut self, _: Option<&ResourceVersion>) -> Result<(), StoreError> {
        if self.commits_fail > 0 {
            self.commits_fail -= 1;
            return Err(StoreError::new("disk full"));
        }
        Ok(())
    }
    fn abandon_replace(&mut self) {}
}

/// fabric8#2798 (A6): the loop cannot end without a terminal status that readers see. Symptom: after a panic the status
/// said "watching" for ever.
#[tokio::test(start_paused = true)]
async fn a6_a_panic_is_seen_in_the_status() {
    let (source, mut server) = scripted();
    let handle = Reflector::builder(source).start_with(Faulty { panics: true, commits_fail: 0 });
    let stream = server.sync(&[], "7").await;
    handle.ready().await.unwrap();
    stream.send(vec![WatchEvent::Added(object("a", "u1", "9"))]);
    handle.watch_status().wait_for(|status| status.phase == Phase::Stopped).await.unwrap();
    let joined = tokio::spawn(handle.stop()).await;
    assert!(joined.unwrap_err().is_panic(), "who joins it learns of the panic");
}

/// Symptom: ready, and not stale at all, with nothing in the store. Cause: the sync was told before the store had it.
#[tokio::test(start_paused = true)]
async fn a_commit_that_fails_is_no_sync() {
    let (source, mut server) = scripted();
    let handle = Reflector::builder(source).start_with(Faulty { panics: false, commits_fail: 1 });
    let _first = server.sync(&[object("a", "u1", "5")], "7").await;
    let again = server.watch().await;
    assert!(!handle.status().synced);
    assert_eq!(handle.staleness(), None);
    again.open().send(vec![end_bookmark("8")]);
    handle.ready().await.unwrap();
    handle.stop().await;
}

/// Symptom: no deadline ever passed. Cause: a stream that always had something ready was always preferred.
#[tokio::test(start_paused = true)]
async fn a_flood_does_not_keep_a_deadline_from_passing() {
    let (source, mut server) = scripted();
    let letters = Reflector::builder(source).start();
    // A server that ignores `sendInitialEvents`, and is very busy (K5).
    let watch = server.watch().await;
    let stream = watch.open();
    let flood = tokio::spawn(async move {
        let mut version = 10;
        loop {
            version += 1;
            stream.send(vec![WatchEvent::Modified(object("a", "u1", &version.to_string()))]);
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    });
    server.list().await.page(&[object("a", "u1", "5")], "7", None);
    letters.ready().await.unwrap();
    flood.abort();
    letters.stop().await;
}

/// kube#717 (B14): the first lists fail, again and again, then heal; nobody has to restart anything.
#[tokio::test(start_paused = true)]
async fn b14_a_start_that_fails_for_long_heals_by_itself() {
    let (source, mut server) = scripted();
    let letters = Reflector::builder(source).streaming(false).start();
    for _ in 0..20 {
        server.list().await.refuse(Failure::transport("tls: handshake failure"));
    }
    server.list().await.page(&[object("a", "u1", "5")], "7", None);
    letters.ready().await.unwrap();
    assert_eq!(content(letters.cache()), "a@5");
    letters.stop().await;
}

/// An object's own text never reaches a log or a `Debug` output: it may be a Secret.
#[test]
fn debug_output_shows_no_bodies() {
    let secret = r#"{"metadata":{"name":"s","resourceVersion":"1"},"data":{"password":"aHVudGVyMg=="}}"#;
    let object = Object::<Json>::from_json(secret).unwrap();
    let shown = [
        format!("{object:?}"),
        format!("{:?}", ListItem::Object(object.clone())),
        format!("{:?}", Change::Upsert(object.clone())),
        format!("{:?}", WatchEvent::Added(object)),
    ];
    assert!(shown.iter().all(|text| !text.contains("aHVudGVyMg")), "{shown:?}");
}
