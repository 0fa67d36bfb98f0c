//! The other stores, filled by a reflector.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::time::Duration;

use futures::FutureExt;
use reflector::{
    Reflector, ResourceVersion,
    protocol::Failure,
    store::{DeltaFifo, DeltaFifoOptions, FifoDelta, Popped, TtlStore},
    wire::WatchEvent,
};
use support::*;

/// `a: Replaced@5 Deleted@7?`.
fn show(popped: &Popped<Json>) -> String {
    let mut text = format!("{}:", popped.key().name());
    for delta in popped.iter() {
        let (kind, mark) = match delta {
            FifoDelta::Added(_) => ("Added", ""),
            FifoDelta::Updated { .. } => ("Updated", ""),
            FifoDelta::Replaced { .. } => ("Replaced", ""),
            FifoDelta::Sync(_) => ("Sync", ""),
            FifoDelta::Deleted { final_state_unknown, .. } => {
                ("Deleted", if *final_state_unknown { "?" } else { "" })
            }
            other => panic!("what is {other:?}?"),
        };
        text += &format!(" {kind}@{}{mark}", delta.object().version().unwrap());
    }
    text
}

#[tokio::test(start_paused = true)]
async fn a_queue_delivers_what_a_reflector_sees() {
    let (source, mut server) = scripted();
    let (fifo, writer) = DeltaFifo::new(DeltaFifoOptions::default());
    let handle = Reflector::builder(source).resync_every(Duration::from_secs(20)).start_with(writer);
    let stream = server.sync(&[object("b", "u2", "6"), object("a", "u1", "5")], "7").await;
    handle.ready().await.unwrap();
    assert!(!fifo.has_synced(), "the store has it, the processor has not");
    let batch = fifo.pop_batch(10).await.unwrap();
    assert_eq!(batch.iter().map(show).collect::<Vec<_>>(), ["a: Replaced@5", "b: Replaced@6"]);
    assert!(batch.iter().all(|popped| popped.in_initial_list()));
    assert!(fifo.synced().now_or_never().is_none());
    drop(batch);
    assert!(fifo.synced().await);

    stream.send(vec![
        WatchEvent::Modified(object("a", "u1", "8")),
        WatchEvent::Deleted(object("a", "u1", "9")),
        WatchEvent::Added(object("c", "u3", "10")),
    ]);
    assert_eq!(show(&fifo.pop().await.unwrap()), "a: Updated@8 Deleted@9");
    assert_eq!(show(&fifo.pop().await.unwrap()), "c: Added@10");

    // The history is gone; what changed meanwhile comes with the next list, what did not is silent.
    stream.fail(Failure::refused(410, "Expired", "too old", [], None));
    let stream = server.sync(&[object("b", "u2", "6"), object("d", "u4", "15")], "20").await;
    assert_eq!(show(&fifo.pop().await.unwrap()), "c: Deleted@10?");
    assert_eq!(show(&fifo.pop().await.unwrap()), "d: Replaced@15");
    assert!(fifo.try_pop().is_none());

    // A resync, while one key is being processed.
    let popped = fifo.pop().await.unwrap();
    assert_eq!(show(&popped), "b: Sync@6");
    assert_eq!(fifo.known().version(), ResourceVersion::new("20"));

    stream.send(vec![WatchEvent::Deleted(object("b", "u2", "30"))]);
    assert_eq!(show(&fifo.pop().await.unwrap()), "d: Sync@15");
    popped.finish();
    assert_eq!(show(&fifo.pop().await.unwrap()), "b: Deleted@30");
    handle.stop().await;
    assert!(fifo.pop().await.is_none());
}

/// The list breaks, and the second attempt is another one.
#[tokio::test(start_paused = true)]
async fn a_queue_sees_nothing_of_a_list_that_broke() {
    let (source, mut server) = scripted();
    let (fifo, writer) = DeltaFifo::new(DeltaFifoOptions::default());
    let handle = Reflector::builder(source).start_with(writer);
    let stream = server.watch().await.open();
    stream.send(vec![WatchEvent::Added(object("ghost", "u1", "5"))]);
    stream.fail(Failure::transport("broken pipe"));
    server.sync(&[], "9").await;
    handle.ready().await.unwrap();
    assert!(fifo.has_synced() && fifo.try_pop().is_none());
    handle.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_store_with_a_time_to_live_is_filled_by_a_reflector() {
    let (source, mut server) = scripted();
    let store = TtlStore::with_clock(Duration::from_secs(60), || tokio::time::Instant::now().into_std());
    let handle = Reflector::builder(source).start_with(store.writer());
    let stream = server.sync(&[object("a", "u1", "5"), object("b", "u2", "6")], "7").await;
    handle.ready().await.unwrap();
    assert_eq!((store.len(), store.version()), (2, ResourceVersion::new("7")));
    tokio::time::advance(Duration::from_secs(40)).await;
    stream.send(vec![WatchEvent::Modified(object("b", "u2", "8")), bookmark("9")]);
    let mut status = handle.watch_status();
    status.wait_for(|status| status.version == ResourceVersion::new("9")).await.unwrap();
    tokio::time::advance(Duration::from_secs(30)).await;
    assert_eq!(store.keys().iter().map(|key| key.name().to_owned()).collect::<Vec<_>>(), ["b"]);
    assert_eq!(store.version(), ResourceVersion::new("9"));
    handle.stop().await;
}
