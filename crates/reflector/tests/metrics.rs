//! The names of `docs/observability.md`, as an exporter sees them.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::collections::BTreeMap;

use metrics_util::debugging::{DebugValue, DebuggingRecorder};
use reflector::{Reflector, ResourceVersion, wire::WatchEvent};
use support::*;

/// One conversation with everything in it: a refused stream, a list, changes, a 410 and a relist.
async fn conversation() {
    let (source, mut server) = scripted();
    let letters = Reflector::builder(source).start();
    server.watch().await.refuse(refused(422, "Invalid", "no streaming lists"));
    server.list().await.page(&[object("a", "u1", "5"), object("b", "u2", "6")], "7", None);
    let stream = server.watch().await.open();
    stream.send(vec![
        WatchEvent::Modified(object("a", "u1", "10")),
        WatchEvent::Modified(object("a", "u1", "9")),
        WatchEvent::Deleted(object("b", "u2", "11")),
        bookmark("12"),
    ]);
    letters.handle().watch_status().wait_for(|s| s.version == ResourceVersion::new("12")).await.unwrap();
    let body = br#"{"kind":"Status","status":"Failure","reason":"Expired","message":"too old","code":410}"#;
    stream.send(vec![WatchEvent::Error(Box::new(reflector::wire::Status::from_body(410, None, body)))]);
    server.list().await.page(&[object("a", "u1", "10")], "20", None);
    // Held: an answer that is dropped is a failure of the transport.
    let _unanswered = server.watch().await;
    letters.stop().await;
}

#[test]
fn metrics_have_their_names_and_labels() {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    metrics::with_local_recorder(&recorder, || runtime.block_on(conversation()));

    let mut seen = BTreeMap::new();
    for (key, _, _, value) in snapshotter.snapshot().into_vec() {
        let labels: Vec<_> = key.key().labels().map(|l| format!("{}={}", l.key(), l.value())).collect();
        let value = match value {
            DebugValue::Counter(n) => n.to_string(),
            DebugValue::Gauge(n) => n.to_string(),
            DebugValue::Histogram(_) => continue,
        };
        seen.insert(format!("{} {}", key.key().name(), labels.join(",")), value);
    }
    // Unix time: whatever the clock says.
    let as_of = seen.remove("reflector_current_as_of_seconds resource=letters in namespace ns").unwrap();
    assert!(as_of.parse::<f64>().unwrap() > 1.7e9, "{as_of}");
    let seen: Vec<_> =
        seen.iter().map(|(k, v)| format!("{} = {v}", k.replace("letters in namespace ns", "…"))).collect();
    assert_eq!(
        seen,
        [
            "reflector_errors_total resource=…,class=expired = 1",
            "reflector_errors_total resource=…,class=mistake = 1",
            "reflector_events_total resource=…,type=added = 0",
            "reflector_events_total resource=…,type=bookmark = 1",
            "reflector_events_total resource=…,type=deleted = 1",
            "reflector_events_total resource=…,type=invalid = 0",
            "reflector_events_total resource=…,type=modified = 2",
            "reflector_lists_total resource=… = 2",
            "reflector_objects resource=… = 1",
            "reflector_regressions_total resource=… = 1",
            "reflector_relists_total resource=…,reason=expired = 1",
            "reflector_resource_version resource=… = 20",
            "reflector_synced resource=… = 1",
            "reflector_transform_errors_total resource=… = 0",
            "reflector_waits_for_subscriber resource=… = 0",
            "reflector_watches_total resource=… = 3",
        ]
    );
}
