//! The other stores, filled by a reflector.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::time::Duration;

use futures::{FutureExt, StreamExt};
use reflector::{
    Change, Delta, Event, Object, Policy, Reflector, ResourceVersion, Store, StoreError,
    protocol::{Failure, History},
    source::ListPart,
    store::{DeltaFifo, DeltaFifoOptions, FifoDelta, Popped, TtlStore},
    wire::{EventType, WatchEvent},
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

/// What a store is told, with the reasons for which objects cannot be read.
struct Told(std::sync::mpsc::Sender<[String; 3]>);

impl Store<Json> for Told {
    fn apply(&mut self, changes: Vec<Change<Json>>, _: Option<&ResourceVersion>) -> Result<(), StoreError> {
        for change in changes {
            let (Change::Upsert(object) | Change::Delete(object)) = &change;
            let read = object.get().map_or_else(|error| error.to_string(), |value| value.to_string());
            let json = String::from_utf8_lossy(&object.json().unwrap()).into_owned();
            self.0.send([format!("{change:?}"), read, json]).unwrap();
        }
        Ok(())
    }

    fn begin_replace(&mut self, _: History) {}

    fn stage(&mut self, _: Vec<Change<Json>>) -> Result<(), StoreError> {
        Ok(())
    }

    fn commit_replace(&mut self, _: Option<&ResourceVersion>) -> Result<(), StoreError> {
        Ok(())
    }

    fn abandon_replace(&mut self) {}
}

/// Many types have nothing but optional fields, and would read `{}` as an object without anything.
#[tokio::test(start_paused = true)]
async fn the_last_state_of_a_deletion_that_cannot_be_read_is_an_error_and_no_empty_object() {
    let (source, mut server) = scripted();
    let (sender, told) = std::sync::mpsc::channel();
    let handle = Reflector::builder(source).start_with(Told(sender));
    let stream = server.sync(&[object("a", "u1", "5")], "7").await;
    handle.ready().await.unwrap();
    let body = r#"{"metadata":{"namespace":"ns","name":"a","resourceVersion":"9","labels":"none"}}"#;
    let mut unread = Object::<Json>::from_json(body).unwrap_err();
    unread.event = Some(EventType::Deleted);
    stream.send(vec![WatchEvent::Invalid(unread)]);
    let mut status = handle.watch_status();
    let applied = status.wait_for(|status| status.version == ResourceVersion::new("9"));
    tokio::time::timeout(Duration::from_secs(60), applied).await.unwrap().unwrap();
    handle.stop().await;
    let [change, read, json] = told.recv().unwrap();
    assert!(told.recv().is_err(), "one change");
    assert!(change.starts_with("Delete(Object { key: ns/a"), "{change}");
    assert!(
        read.starts_with("ns/a: known without its body, which could not be read: ns/a (DELETED): "),
        "{read}"
    );
    assert!(read.contains("`metadata.labels`"), "{read}");
    assert_eq!(json, r#"{"metadata":{"name":"a","namespace":"ns","resourceVersion":"9"}}"#);
}

fn shown<T: Clone + std::fmt::Debug>(all: &[T]) -> Vec<String> {
    all.iter().map(|one| format!("{:?}", one.clone())).collect()
}

/// Objects are handles, which are cheap to clone whatever is behind them.
#[test]
fn changes_and_events_of_any_type_can_be_cloned_and_shown() {
    /// Neither `Clone` nor `Debug`.
    struct Opaque;
    let body = r#"{"metadata":{"name":"a","uid":"u","resourceVersion":"5"},"data":"hunter2"}"#;
    let o = || Object::<Opaque>::from_json(body).unwrap();
    let all = [
        shown(&[Change::Upsert(o()), Change::Delete(o())]),
        shown(&[
            Delta::Added(o()),
            Delta::Updated { old: o(), new: o() },
            Delta::Deleted { last: o(), final_state_unknown: true },
        ]),
        shown(&[
            Event::Added { object: o(), initial: true },
            Event::Updated { old: o(), new: o() },
            Event::Deleted { last: o(), final_state_unknown: true },
            Event::Resync(o()),
        ]),
        shown(&[
            FifoDelta::Added(o()),
            FifoDelta::Updated { old: o(), new: o() },
            FifoDelta::Replaced { old: Some(o()), new: o() },
            FifoDelta::Sync(o()),
            FifoDelta::Deleted { last: o(), final_state_unknown: true },
        ]),
    ];
    for text in all.concat() {
        assert!(text.contains("key: a") && !text.contains("hunter2"), "{text}");
    }
    assert_eq!(shown(&[Event::<Opaque>::Synced]), ["Synced"]);
    let (fifo, mut writer) = DeltaFifo::<Opaque>::new(DeltaFifoOptions::default());
    writer.apply(vec![Change::Upsert(o())], None).unwrap();
    let popped = fifo.try_pop().unwrap();
    assert!(shown(&[(*popped).clone()])[0].starts_with("[Added("));
    assert_eq!(format!("{:?}", ListPart::<Opaque>::Items(Vec::new())), "Items([])");
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

/// What is known is a cache like any other: its subscribers hear of resyncs, and may hold up the reflector.
#[tokio::test]
async fn subscribers_of_what_a_queue_knows_are_served() {
    let (fifo, mut writer) = DeltaFifo::new(DeltaFifoOptions::default());
    let blocking = fifo.known().subscription().policy(Policy::Block { bound: 1 }).resyncs();
    let mut blocking = blocking.subscribe();
    writer.begin_replace(History::Same);
    writer.commit_replace(None).unwrap();
    let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    writer.apply(vec![Change::Upsert(object("a", "u", "2"))], None).unwrap();
    assert!(writer.poll_ready(&mut cx).is_pending());
    assert!(matches!(blocking.next().await, Some(Event::Synced)));
    assert!(matches!(blocking.next().await, Some(Event::Added { .. })));
    assert!(writer.poll_ready(&mut cx).is_ready());
    writer.resync().unwrap();
    assert!(matches!(blocking.next().await, Some(Event::Resync(_))));
}

/// What a store need not know has an answer that does no harm: no number in place of a wrong one, always ready.
#[tokio::test]
async fn a_store_of_ones_own_needs_no_more_than_its_content() {
    let mut writer = TtlStore::<Json>::new(Duration::ZERO).writer();
    assert_eq!(writer.object_count(), None);
    assert!(writer.lookup().is_none());
    writer.resync().unwrap();
    std::future::poll_fn(|cx| writer.poll_ready(cx)).await;
}
