//! Transforms, with a source that the test answers: what is kept, how often they run, and what becomes of failures.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::{
    sync::{Arc, Mutex, mpsc},
    time::Duration,
};

use futures::StreamExt;
use metrics_util::debugging::{DebugValue, DebuggingRecorder};
use reflector::{
    Change, DecodeCause, DecodeError, Event, IndexBy, Object, Reflector, ResourceVersion, Store, StoreError,
    protocol::History,
    transform::{self, Transform, TransformError, Trim},
    wire::{Status, WatchEvent},
};
use serde_json::json;
use support::*;

/// Waits until the copy is at a version.
async fn at(letters: &Reflector<Json>, version: &str) {
    let mut status = letters.handle().watch_status();
    status.wait_for(|status| status.version == ResourceVersion::new(version)).await.unwrap();
}

/// An object with a secret in it.
fn secret(name: &str, version: &str) -> Object<Json> {
    let body = json!({
        "metadata": {"namespace": "ns", "name": name, "uid": format!("u-{name}"), "resourceVersion": version,
                     "labels": {"app": name}},
        "data": {"password": "hunter2"}, "kept": version,
    });
    Object::from_json(body.to_string()).unwrap()
}

/// What was asked to be transformed, as `a@5`, in order.
#[derive(Clone, Default)]
struct Calls(Arc<Mutex<Vec<String>>>);

impl Calls {
    fn take(&self) -> String {
        std::mem::take(&mut *self.0.lock().unwrap()).join(" ")
    }

    /// Takes the secret away, and writes down of which object. What it has seen already it would see without a secret.
    fn transform(&self) -> impl Transform<Json> {
        let calls = self.clone();
        let trim = Trim::new().path("/data").unwrap();
        move |object: Object<Json>| {
            calls.0.lock().unwrap().push(format!("{}@{}", object.name(), object.version().unwrap()));
            let again = object.get()?.get("data").is_none();
            if again { Err(TransformError::new("transformed twice")) } else { trim.transform(object) }
        }
    }
}

/// Everything that is kept is as the transform made it, and nothing is there of the secret.
fn assert_clean(letters: &Reflector<Json>) {
    for object in letters.cache().list() {
        let value = object.get().unwrap();
        assert_eq!(value.get("data"), None);
        assert_eq!(value["kept"].as_str().unwrap(), object.version().unwrap().to_string());
        assert!(!String::from_utf8_lossy(&object.json().unwrap()).contains("hunter2"));
    }
}

// client-go: RespectStoreTransformer, where the transform runs twice for each object of a streamed list.
#[tokio::test(start_paused = true)]
async fn a_streamed_list_is_transformed_once() {
    let (source, mut server) = scripted();
    let calls = Calls::default();
    let letters = Reflector::builder(source).transform(calls.transform()).start();
    let stream = server.watch().await.open();
    stream.send(vec![WatchEvent::Added(secret("a", "5")), WatchEvent::Added(secret("b", "6"))]);
    stream.send(vec![WatchEvent::Modified(secret("a", "7")), WatchEvent::Deleted(secret("b", "8"))]);
    stream.send(vec![WatchEvent::Added(secret("c", "9")), end_bookmark("9")]);
    letters.ready().await.unwrap();
    assert_eq!(content(letters.cache()), "a@7 c@9");
    assert_eq!(calls.take(), "a@5 b@6 a@7 b@8 c@9");
    assert_clean(&letters);
    letters.stop().await;
}

// client-go: CacheWithTransformer, TransformingInformer.
#[tokio::test(start_paused = true)]
async fn lists_and_events_and_relists_are_transformed_once() {
    let (source, mut server) = scripted();
    let calls = Calls::default();
    let letters = Reflector::builder(source).streaming(false).transform(calls.transform()).start();
    server.list().await.page(&[secret("a", "5")], "7", Some("more"));
    server.list().await.page(&[secret("b", "6")], "7", None);
    let stream = server.watch().await.open();
    assert_eq!((calls.take(), content(letters.cache())), ("a@5 b@6".into(), "a@5 b@6".into()));
    stream.send(vec![
        WatchEvent::Added(secret("c", "8")),
        WatchEvent::Modified(secret("a", "9")),
        bookmark("10"),
        WatchEvent::Deleted(secret("b", "11")),
    ]);
    at(&letters, "11").await;
    assert_eq!((calls.take(), content(letters.cache())), ("c@8 a@9 b@11".into(), "a@9 c@8".into()));
    assert_clean(&letters);

    // What the relist shows is transformed, even if it is known; what it lacks is not.
    let body = br#"{"kind":"Status","status":"Failure","reason":"Expired","message":"too old","code":410}"#;
    stream.send(vec![WatchEvent::Error(Box::new(Status::from_body(410, None, body)))]);
    server.list().await.page(&[secret("a", "9"), secret("d", "12")], "20", None);
    let _unanswered = server.watch().await;
    assert_eq!((calls.take(), content(letters.cache())), ("a@9 d@12".into(), "a@9 d@12".into()));
    assert_clean(&letters);
    letters.stop().await;
}

/// A source of one object whose transform fails the times that `fails` says, with the first list played.
async fn failing_at_times(fails: fn(usize) -> bool) -> (Reflector<Json>, Server, Stream) {
    let (source, mut server) = scripted();
    let calls = std::sync::atomic::AtomicUsize::new(0);
    let transform = move |object: Object<Json>| {
        let fail = fails(calls.fetch_add(1, std::sync::atomic::Ordering::Relaxed));
        if fail { Err(TransformError::new("not now")) } else { Ok(object) }
    };
    let letters = Reflector::builder(source).streaming(false).transform(transform).start();
    server.list().await.page(&[secret("a", "5")], "7", None);
    let stream = server.watch().await.open();
    (letters, server, stream)
}

/// Lists the object once more, in the same revision.
async fn relist(server: &mut Server, stream: &Stream) {
    let body = br#"{"kind":"Status","status":"Failure","reason":"Expired","message":"too old","code":410}"#;
    stream.send(vec![WatchEvent::Error(Box::new(Status::from_body(410, None, body)))]);
    server.list().await.page(&[secret("a", "5")], "20", None);
    let _unanswered = server.watch().await;
}

#[tokio::test(start_paused = true)]
async fn what_failed_for_a_moment_is_made_good_by_the_next_list() {
    let (letters, mut server, stream) = failing_at_times(|call| call == 0).await;
    assert!(letters.cache().get(Some("ns"), "a").unwrap().get().is_err());
    relist(&mut server, &stream).await;
    assert!(letters.cache().get(Some("ns"), "a").unwrap().get().is_ok());
    letters.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_failure_for_a_moment_does_no_harm_to_what_is_held() {
    let (letters, mut server, stream) = failing_at_times(|call| call == 1).await;
    relist(&mut server, &stream).await;
    assert!(letters.cache().get(Some("ns"), "a").unwrap().get().is_ok());
    letters.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_deletion_that_cannot_be_transformed_tells_what_was_held() {
    let (letters, _server, stream) = failing_at_times(|call| call == 1).await;
    let mut events = letters.cache().subscribe();
    stream.send(vec![WatchEvent::Deleted(secret("a", "9"))]);
    while let Some(event) = events.next().await {
        if let Event::Deleted { last, final_state_unknown } = event {
            assert!(final_state_unknown && last.get().is_ok());
            break;
        }
    }
    assert!(letters.cache().is_empty());
    letters.stop().await;
}

/// Sends the bodies of what it is told.
struct Bodies(mpsc::Sender<String>, tokio::sync::mpsc::UnboundedSender<()>);

impl Bodies {
    fn tell(&self, what: &str, changes: Vec<Change<Json>>) {
        for change in changes {
            let (Change::Upsert(object) | Change::Delete(object)) = change;
            self.0.send(format!("{what} {}", String::from_utf8_lossy(&object.json().unwrap()))).unwrap();
        }
    }
}

impl Store<Json> for Bodies {
    fn begin_replace(&mut self, _: History) {}

    fn stage(&mut self, changes: Vec<Change<Json>>) -> Result<(), StoreError> {
        self.tell("stage", changes);
        Ok(())
    }

    fn commit_replace(&mut self, _: Option<&ResourceVersion>) -> Result<(), StoreError> {
        Ok(())
    }

    fn abandon_replace(&mut self) {}

    fn apply(&mut self, changes: Vec<Change<Json>>, _: Option<&ResourceVersion>) -> Result<(), StoreError> {
        self.tell("apply", changes);
        Ok(())
    }

    fn resync(&mut self) -> Result<(), StoreError> {
        self.1.send(()).ok();
        Ok(())
    }
}

/// No store ever sees the secret, not even in the last state of a deleted object.
#[tokio::test(start_paused = true)]
async fn a_store_sees_only_what_is_transformed() {
    let (source, mut server) = scripted();
    let (sender, receiver) = mpsc::channel();
    let (resyncs, _resynced) = tokio::sync::mpsc::unbounded_channel();
    let trim = Trim::new().path("/data").unwrap();
    let handle =
        Reflector::builder(source).streaming(false).transform(trim).start_with(Bodies(sender, resyncs));
    server.list().await.page(&[secret("a", "5")], "7", None);
    let stream = server.watch().await.open();
    stream.send(vec![WatchEvent::Modified(secret("a", "8")), WatchEvent::Deleted(secret("a", "9"))]);
    handle.watch_status().wait_for(|s| s.version == ResourceVersion::new("9")).await.unwrap();
    handle.stop().await;
    let seen: Vec<_> = receiver.try_iter().collect();
    assert_eq!(seen.len(), 3, "{seen:?}");
    assert!(seen.iter().all(|body| body.contains("\"kept\"") && !body.contains("hunter2")), "{seen:?}");
}

// client-go: TransformingInformerRace. Nothing in the store is transformed again, whoever reads it meanwhile.
#[tokio::test(start_paused = true)]
async fn a_resync_transforms_nothing() {
    let (source, mut server) = scripted();
    let calls = Calls::default();
    let (sender, receiver) = mpsc::channel();
    let (resyncs, mut resynced) = tokio::sync::mpsc::unbounded_channel();
    let handle = Reflector::builder(source)
        .streaming(false)
        .resync_every(Duration::from_secs(1))
        .transform(calls.transform())
        .start_with(Bodies(sender, resyncs));
    server.list().await.page(&[secret("a", "5")], "7", None);
    let _stream = server.watch().await.open();
    for _ in 0..3 {
        resynced.recv().await.unwrap();
    }
    assert_eq!(calls.take(), "a@5");
    handle.stop().await;
    assert_eq!(receiver.try_iter().count(), 1);
}

/// Fails, in its own way, for each object but the good one.
fn picky(object: Object<Json>) -> Result<Object<Json>, TransformError> {
    match object.name() {
        "fails" => Err(TransformError::new("no key to seal it with")),
        "panics" => panic!("a transform that panics"),
        "renames" => Ok(secret("good", "1")),
        _ => Trim::new().path("/data").unwrap().transform(object),
    }
}

/// TF-2 loses the event, or lists again for ever. Here nothing is lost, and nobody else is touched.
#[tokio::test(start_paused = true)]
async fn what_cannot_be_transformed_is_kept_with_its_header_alone() {
    let (source, mut server) = scripted();
    let letters = Reflector::builder(source).streaming(false).transform(picky).start();
    let all = ["fails", "good", "panics", "renames"].map(|name| secret(name, "5"));
    server.list().await.page(&all, "7", None);
    let stream = server.watch().await.open();
    assert_eq!(content(letters.cache()), "fails@5 good@5 panics@5 renames@5");

    let reasons = [
        ("fails", "no key to seal it with"),
        ("panics", "the transform panicked"),
        ("renames", "the transform changed metadata.name"),
    ];
    for (name, reason) in reasons {
        let object = letters.cache().list().into_iter().find(|object| object.name() == name).unwrap();
        let error = object.get().unwrap_err();
        assert!(matches!(error.source, DecodeCause::Transform(_)));
        let expected = format!("ns/{name}: kept without its body, which could not be transformed: {reason}");
        assert_eq!(error.to_string(), expected);
        assert_eq!(object.label("app"), Some(name));
        let left: Json = serde_json::from_slice(&object.json().unwrap()).unwrap();
        let metadata = json!({"namespace": "ns", "name": name, "uid": format!("u-{name}"), "resourceVersion": "5",
                              "labels": {"app": name}});
        assert_eq!(left, json!({ "metadata": metadata }));
    }

    // A later revision fails as well; the deletion of what cannot be transformed is a deletion.
    stream.send(vec![
        WatchEvent::Modified(secret("fails", "8")),
        WatchEvent::Deleted(secret("panics", "9")),
        WatchEvent::Modified(secret("good", "10")),
        WatchEvent::Deleted(secret("renames", "11")),
    ]);
    at(&letters, "11").await;
    assert_eq!(content(letters.cache()), "fails@8 good@10");
    let good = letters.cache().list().into_iter().find(|object| object.name() == "good").unwrap();
    assert_eq!(good.get().unwrap()["kept"], "10");
    letters.stop().await;
}

/// Symptom: objects with an owner and a node were taken for objects without. Cause: indexes read what is left of a body
/// that could not be transformed. Their values are unknown; those of the header are not.
#[tokio::test(start_paused = true)]
async fn what_cannot_be_transformed_is_unindexed() {
    let (source, mut server) = scripted();
    let letters = Reflector::builder(source).transform(picky).start();
    let field = letters.cache().index_by(IndexBy::field("kept"));
    let owner = letters.cache().index_by(IndexBy::owner_uid());
    let label = letters.cache().index_by(IndexBy::label("app"));
    let _stream = server.sync(&[secret("fails", "5"), secret("good", "6")], "7").await;
    letters.ready().await.unwrap();
    let snapshot = letters.cache().snapshot();
    let unindexed = |index| snapshot.unindexed(index).unwrap().map(Object::name).collect::<Vec<_>>();
    assert_eq!((unindexed(&field), unindexed(&owner)), (vec!["fails"], vec!["fails"]));
    assert_eq!(unindexed(&label), [""; 0]);
    assert_eq!((snapshot.count_by(&field, "6"), snapshot.count_by(&label, "fails")), (Ok(1), Ok(1)));
    letters.stop().await;
}

#[tokio::test(start_paused = true)]
async fn transforms_run_in_order_and_the_next_is_not_asked_after_a_failure() {
    let (source, mut server) = scripted();
    let calls = Calls::default();
    let second = calls.clone();
    let letters = Reflector::builder(source)
        .transform(picky)
        .transform(move |object: Object<Json>| {
            assert_eq!(object.get()?.get("data"), None);
            second.0.lock().unwrap().push(object.name().to_owned());
            Ok(object)
        })
        .start();
    let _stream = server.sync(&[secret("fails", "5"), secret("good", "6")], "7").await;
    letters.ready().await.unwrap();
    assert_eq!(calls.take(), "good");
    letters.stop().await;
}

async fn failing_conversation() {
    let (source, mut server) = scripted();
    let letters = Reflector::builder(source).transform(picky).start();
    let _stream = server.sync(&[secret("fails", "5"), secret("good", "6"), secret("panics", "7")], "7").await;
    letters.ready().await.unwrap();
    for object in letters.cache().list() {
        object.get().ok();
    }
    letters.stop().await;
}

/// Once for each object, and reading it counts no more.
#[test]
fn failures_are_counted_once() {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    metrics::with_local_recorder(&recorder, || runtime.block_on(failing_conversation()));
    let seen = snapshotter.snapshot().into_vec();
    let counted = |name: &str| {
        let values = seen.iter().filter(|(key, ..)| key.key().name() == name).map(|(.., value)| value);
        values.map(|value| if let DebugValue::Counter(n) = value { *n } else { 0 }).sum::<u64>()
    };
    assert_eq!(counted("reflector_transform_errors_total"), 2);
    assert_eq!(counted("reflector_objects_invalid_total"), 0);
}

#[derive(serde::Serialize, serde::Deserialize)]
struct Letter {
    metadata: Metadata,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    data: Option<Json>,
}

#[derive(serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    name: String,
    namespace: String,
    uid: String,
    resource_version: String,
    labels: Json,
}

fn letter() -> Object<Letter> {
    Object::from_json(secret("a", "5").json().unwrap()).unwrap()
}

/// Its data is numbers, so a text in it does not fit.
#[derive(serde::Serialize, serde::Deserialize)]
struct Numbers {
    metadata: Json,
    data: std::collections::BTreeMap<String, u32>,
}

fn misfit() -> Object<Numbers> {
    Object::from_json(r#"{"metadata":{"name":"a"},"data":{"password":"hunter2"}}"#).unwrap()
}

/// The decoder quotes the value, and the reason is kept and shown as long as the object.
#[test]
fn a_transform_that_fails_does_not_keep_the_value_that_does_not_fit() {
    let typed = transform::typed(|numbers: &mut Numbers| numbers.data.clear());
    let with = |read: fn(&Object<Numbers>) -> Result<(), DecodeError>| {
        move |object: Object<Numbers>| read(&object).map(|()| object).map_err(TransformError::from)
    };
    let errors = [
        typed.transform(misfit()),
        with(|object| object.get().map(drop))(misfit()),
        with(|object| object.decode().map(drop))(misfit()),
    ];
    for error in errors.map(Result::unwrap_err) {
        let mut shown = format!("{error} {error:?}");
        let mut source = std::error::Error::source(&error);
        while let Some(cause) = source {
            shown += &format!(" {cause} {cause:?}");
            source = cause.source();
        }
        assert!(!shown.contains("hunter2"), "{shown}");
        assert!(error.to_string().contains("at `data.password` (line 1, column "), "{error}");
    }
}

/// An encoder may quote the value as well.
#[test]
fn a_transform_whose_result_cannot_be_encoded_does_not_keep_what_the_encoder_says() {
    #[derive(serde::Deserialize)]
    struct Quoting {}
    impl serde::Serialize for Quoting {
        fn serialize<S: serde::Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
            Err(serde::ser::Error::custom("cannot encode hunter2"))
        }
    }
    let object = Object::<Quoting>::from_json(r#"{"metadata":{"name":"a"}}"#).unwrap();
    let error = transform::typed(|_: &mut Quoting| {}).transform(object).unwrap_err();
    assert!(matches!(error, TransformError::Encode));
    assert!(!format!("{error} {error:?}").contains("hunter2"), "{error:?}");
}

/// A transform that decodes is counted as a transform, and only so.
#[test]
fn what_a_transform_decodes_is_not_counted_as_read() {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    metrics::with_local_recorder(&recorder, || assert!(misfit().decode().is_err()));
    assert_eq!(snapshotter.snapshot().into_vec().len(), 0);
    metrics::with_local_recorder(&recorder, || assert!(misfit().get().is_err()));
    assert_eq!(snapshotter.snapshot().into_vec().len(), 1);
}

// client-go: SharedInformerTransformer
#[test]
fn a_typed_transform_changes_the_object_and_its_labels() {
    let transform = transform::typed(|letter: &mut Letter| {
        letter.data = None;
        letter.metadata.labels["app"] = "b".into();
    });
    let changed = transform.transform(letter()).unwrap();
    assert_eq!(changed.label("app"), Some("b"));
    assert_eq!(changed.get().unwrap().data, None);
    assert!(changed.same_revision(&letter()));
}

#[test]
fn a_typed_transform_may_not_change_who_an_object_is() {
    type Edit = fn(&mut Metadata);
    let edits: [(Edit, &str); 4] = [
        (|m| m.name = "b".into(), "name"),
        (|m| m.namespace = "b".into(), "namespace"),
        (|m| m.uid = "b".into(), "uid"),
        (|m| m.resource_version = String::new(), "resourceVersion"),
    ];
    for (edit, what) in edits {
        let transform = transform::typed(move |letter: &mut Letter| edit(&mut letter.metadata));
        let error = transform.transform(letter()).unwrap_err();
        assert_eq!(error.to_string(), format!("the transform changed metadata.{what}"));
    }
    let nameless = transform::typed(|letter: &mut Letter| letter.metadata.name.clear());
    assert!(matches!(nameless.transform(letter()), Err(TransformError::Invalid(_))));
    let other: Object<Letter> = Object::from_json(r#"{"metadata":{"name":"a"}}"#).unwrap();
    assert!(matches!(nameless.transform(other), Err(TransformError::Decode { .. })));
}
