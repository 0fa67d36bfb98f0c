//! Handlers that panic.

use std::panic::AssertUnwindSafe;

use futures::FutureExt;
use metrics_util::debugging::{DebugValue, DebuggingRecorder};
use reflector::{
    Event,
    informer::{HandlerOptions, HandlerState, OnPanic, from_fn},
    wire::WatchEvent,
};
use tokio::sync::mpsc;

use crate::{common::*, support::*};

/// A handler that tells names, and panics at `b`.
fn explosive() -> (impl reflector::EventHandler<Json>, mpsc::UnboundedReceiver<String>) {
    let (told, tells) = mpsc::unbounded_channel();
    let handler = from_fn(move |event: Event<Json>| {
        let name = event.object().map_or("synced", |object| object.name());
        assert!(name != "b", "I cannot stand {name}");
        told.send(name.to_owned()).unwrap();
    });
    (handler, tells)
}

/// SI-26; client-go: EventPanics (five pods and two handlers). Its handlers then stay unsynced for ever (issue 129024).
async fn isolated() {
    let objects = ["a", "b", "c", "d", "e"].map(|name| object(name, name, "5"));
    let (informer, _server, stream) = synced(&objects, "5").await;
    let (handler, mut tells) = explosive();
    let options = HandlerOptions::new().name("first");
    let first = informer.add_handler_with(handler, options).unwrap();
    let (handler, mut sees) = recorder();
    informer.add_handler(handler).unwrap();
    first.synced().await.unwrap();
    stream.send(vec![WatchEvent::Added(object("f", "f", "6"))]);
    for name in ["a", "c", "d", "e", "synced", "f"] {
        assert_eq!(tells.recv().await.unwrap(), name);
    }
    assert_eq!(first.state(), HandlerState::Running);
    assert_eq!(sees.take(7).await, "initial a@5 initial b@5 initial c@5 initial d@5 initial e@5 synced +f@6");
    informer.stop().await.unwrap();
}

#[test]
fn a_panic_costs_one_event_and_is_counted() {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    metrics::with_local_recorder(&recorder, || runtime.block_on(isolated()));
    let counted = snapshotter.snapshot().into_vec().into_iter().find_map(|(key, _, _, value)| {
        let is_it = key.key().name() == "reflector_handler_panics_total"
            && key.key().labels().any(|label| label.value() == "first");
        is_it.then_some(value)
    });
    assert_eq!(counted, Some(DebugValue::Counter(1)));
}

#[tokio::test(start_paused = true)]
async fn a_handler_can_end_with_its_panic() {
    let (informer, _server, _stream) = synced(&[object("a", "u1", "5"), object("b", "u2", "6")], "7").await;
    let (handler, mut tells) = explosive();
    let options = HandlerOptions::new().on_panic(OnPanic::Stop);
    let handler = informer.add_handler_with(handler, options).unwrap();
    let end = handler.removed().await.unwrap();
    assert_eq!(end, HandlerState::Panicked("I cannot stand b".into()));
    assert_eq!((tells.recv().await.as_deref(), tells.recv().await), (Some("a"), None));
    assert!(handler.synced().await.unwrap_err().to_string().contains("I cannot stand b"));
    informer.stop().await.unwrap();
}

/// client-go: PanicPropagated.
#[tokio::test(start_paused = true)]
async fn a_panic_can_reach_whoever_stops_the_informer() {
    let before = tasks();
    let (informer, _server, _stream) = synced(&[object("b", "u2", "6")], "7").await;
    let options = HandlerOptions::new().on_panic(OnPanic::Propagate);
    let handler = informer.add_handler_with(explosive().0, options).unwrap();
    assert!(matches!(handler.removed().await, Ok(HandlerState::Panicked(_))));
    let payload = AssertUnwindSafe(informer.stop()).catch_unwind().await.unwrap_err();
    assert_eq!(payload.downcast_ref::<String>().unwrap(), "I cannot stand b");
    assert_eq!(tasks(), before);
    // Once is enough.
    informer.stop().await.unwrap();
}

/// A filter is the handler's too.
#[tokio::test(start_paused = true)]
async fn a_filter_that_panics_costs_one_event() {
    let (informer, _server, _stream) = synced(&[object("a", "u1", "5"), object("b", "u2", "6")], "7").await;
    let (handler, mut seen) = recorder();
    let options = HandlerOptions::new().filter(|object| {
        assert!(object.name() != "a", "no");
        true
    });
    informer.add_handler_with(handler, options).unwrap();
    assert_eq!(seen.take(2).await, "initial b@6 synced");
    informer.stop().await.unwrap();
}
