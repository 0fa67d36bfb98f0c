//! Removing handlers, also by themselves, also all the time.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use reflector::{
    Object,
    informer::{Callbacks, EventHandler, HandlerOptions, HandlerState, InsideHandler, Registration},
    wire::WatchEvent,
};
use tokio::sync::{mpsc, oneshot};

use crate::{common::*, support::*};

/// client-go: RemoveHandler, RemovingRemovedSharedInformer, RemoveWhileActive.
#[tokio::test(start_paused = true)]
async fn a_removed_handler_hears_no_more() {
    let (informer, _server, stream) = synced(&[object("a", "u1", "5")], "5").await;
    let (handler, mut stays) = recorder();
    informer.add_handler(handler).unwrap();
    let (handler, seen) = recorder();
    let handler = informer.add_handler(handler).unwrap();
    handler.synced().await.unwrap();
    assert_eq!(informer.handlers().len(), 2);
    assert_eq!(handler.remove_and_wait().await, Ok(HandlerState::Removed));
    assert_eq!(handler.remove_and_wait().await, Ok(HandlerState::Removed));
    assert_eq!((informer.handlers().len(), informer.cache().subscribers()), (1, 1));
    assert!(handler.lag().is_none());
    stream.send(vec![WatchEvent::Added(object("b", "u2", "6"))]);
    assert_eq!(stays.take(3).await, "initial a@5 synced +b@6");
    assert_eq!(seen.until_dropped().await, "initial a@5 synced");
    informer.stop().await.unwrap();
}

/// SI-21. client-go: MultipleRegistration, RemoveForeignHandler.
#[tokio::test(start_paused = true)]
async fn registrations_are_independent_of_each_other() {
    let (one, _server_one, _stream_one) = synced(&[object("a", "u1", "5")], "5").await;
    let (other, _server_other, stream) = synced(&[object("a", "u1", "5")], "5").await;
    let (handler, mut seen) = recorder();
    let options = || HandlerOptions::new().name("h");
    let first = one.add_handler_with(handler.clone(), options()).unwrap();
    let second = other.add_handler_with(handler.clone(), options()).unwrap();
    let third = other.add_handler_with(handler, options()).unwrap();
    // SI-27: a name is used once at a time.
    assert_eq!([first.name(), second.name(), third.name()], ["h", "h", "h#2"]);
    for registration in [&first, &second, &third] {
        registration.synced().await.unwrap();
    }
    seen.rest();
    first.remove_and_wait().await.unwrap();
    second.remove_and_wait().await.unwrap();
    assert_eq!(third.state(), HandlerState::Running);
    stream.send(vec![WatchEvent::Added(object("b", "u2", "6"))]);
    assert_eq!(seen.next().await, "+b@6");
    assert_eq!(other.add_handler_with(recorder().0, options()).unwrap().name(), "h");
    one.stop().await.unwrap();
    other.stop().await.unwrap();
}

/// SI-22. client-go: RemoveEventHandler_AsynchronousPanic, RemoveEventHandler_SynchronousShutdown.
#[tokio::test(start_paused = true)]
async fn the_call_in_hand_is_completed_and_what_waits_is_not_delivered() {
    let (informer, _server, _stream) = synced(&[object("a", "u1", "5"), object("b", "u2", "6")], "7").await;
    let (handler, mut seen, gate) = gated();
    let handler = informer.add_handler(handler).unwrap();
    assert_eq!(seen.next().await, "initial a@5");
    handler.remove();
    assert_eq!(handler.state(), HandlerState::Running, "it is in a call");
    let waiting = tokio::spawn({
        let handler = handler.clone();
        async move { handler.removed().await }
    });
    tokio::task::yield_now().await;
    assert!(!waiting.is_finished());
    gate.add_permits(10);
    assert_eq!(waiting.await.unwrap(), Ok(HandlerState::Removed));
    assert_eq!(seen.until_dropped().await, "");
    assert!(handler.synced().await.unwrap_err().to_string().contains("Removed"));
    informer.stop().await.unwrap();
}

/// What was asked for first counts.
#[tokio::test(start_paused = true)]
async fn a_handler_that_is_removed_and_then_stopped_was_removed() {
    let (informer, _server, _stream) = synced(&[object("a", "u1", "5"), object("b", "u2", "6")], "7").await;
    let (handler, mut seen, gate) = gated();
    let handler = informer.add_handler(handler).unwrap();
    assert_eq!(seen.next().await, "initial a@5");
    handler.remove();
    let (stopped, ()) = tokio::join!(informer.stop(), async {
        tokio::task::yield_now().await;
        gate.add_permits(10);
    });
    assert_eq!((stopped.unwrap().undelivered, handler.state()), (0, HandlerState::Removed));
}

/// client-go: ShutDownEventHandler_Lifecycles (never started).
#[tokio::test(start_paused = true)]
async fn a_handler_can_be_removed_before_the_start() {
    let (informer, _server) = informer();
    let handler = informer.add_handler(recorder().0).unwrap();
    assert_eq!(handler.remove_and_wait().await, Ok(HandlerState::Removed));
    informer.stop().await.unwrap();
}

/// Removes itself at the first event, and tries to wait for that.
struct OneShot {
    me: Option<oneshot::Receiver<Registration>>,
    told: mpsc::UnboundedSender<String>,
}

impl EventHandler<Json> for OneShot {
    async fn on_add(&mut self, object: Object<Json>, _: bool) {
        let me = self.me.take().expect("it is called once").await.unwrap();
        assert_eq!(me.remove_and_wait().await, Err(InsideHandler));
        self.told.send(short(&object)).unwrap();
    }
}

/// The original forbids the synchronous form there (SI-23).
#[tokio::test(start_paused = true)]
async fn a_handler_can_remove_itself() {
    let (informer, _server, _stream) = synced(&[object("a", "u1", "5"), object("b", "u2", "6")], "7").await;
    let (sender, me) = oneshot::channel();
    let (told, mut tells) = mpsc::unbounded_channel();
    let handler = informer.add_handler(OneShot { me: Some(me), told }).unwrap();
    sender.send(handler.clone()).unwrap();
    assert_eq!(handler.removed().await, Ok(HandlerState::Removed));
    assert_eq!(tells.recv().await.unwrap(), "a@5");
    assert!(tells.recv().await.is_none());
    informer.stop().await.unwrap();
}

/// A handler may wait for the end of another one.
#[tokio::test(start_paused = true)]
async fn a_handler_can_remove_another_and_wait() {
    let (informer, _server, _stream) = synced(&[object("a", "u1", "5")], "5").await;
    let other = informer.add_handler(recorder().0).unwrap();
    let (told, mut tells) = mpsc::unbounded_channel();
    let handler = reflector::informer::from_async_fn(move |_: reflector::Event<Json>| {
        let (other, told) = (other.clone(), told.clone());
        async move { told.send(other.remove_and_wait().await).unwrap() }
    });
    informer.add_handler(handler).unwrap();
    assert_eq!(tells.recv().await.unwrap(), Ok(HandlerState::Removed));
    informer.stop().await.unwrap();
}

/// client-go: SharedInformerHandlerAbuse.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_workers_add_and_remove_while_ten_thousand_events_come_and_it_stops() {
    let before = tasks();
    let (informer, server, stream) = synced(&[object("a", "u1", "5")], "5").await;
    let informer = Arc::new(informer);
    let added = Arc::new(AtomicUsize::new(0));
    let workers: Vec<_> = (0..100)
        .map(|i| {
            let (informer, added) = (Arc::clone(&informer), Arc::clone(&added));
            tokio::spawn(async move {
                while let Ok(handler) = informer.add_handler(Callbacks::new().on_add(|_, _| ())) {
                    added.fetch_add(1, Ordering::Relaxed);
                    match i % 3 {
                        0 => handler.remove(),
                        1 => assert!(handler.remove_and_wait().await.is_ok()),
                        _ => {
                            handler.synced().await.ok();
                            handler.remove();
                        }
                    }
                    tokio::task::yield_now().await;
                }
            })
        })
        .collect();
    for version in 6..10_006 {
        stream.send(vec![WatchEvent::Modified(object("a", "u1", &version.to_string()))]);
        if version % 100 == 0 {
            tokio::task::yield_now().await;
        }
    }
    let last = reflector::ResourceVersion::new("10005");
    while informer.cache().version() != last {
        tokio::task::yield_now().await;
    }
    informer.stop().await.unwrap();
    for worker in workers {
        worker.await.unwrap();
    }
    assert!(added.load(Ordering::Relaxed) > 100);
    assert_eq!((informer.handlers().len(), informer.cache().subscribers()), (0, 0));
    drop((server, stream));
    // Tokio counts a task for a moment longer than whoever joins it waits.
    while tasks() > before {
        tokio::task::yield_now().await;
    }
}

/// What is gone leaves nothing: no task, no subscription, no entry.
#[tokio::test(start_paused = true)]
async fn ten_thousand_handlers_that_went_leave_nothing() {
    let (informer, _server, _stream) = synced(&[object("a", "u1", "5")], "5").await;
    let before = tasks();
    for _ in 0..10_000 {
        let handler = informer.add_handler(Callbacks::new()).unwrap();
        assert_eq!(handler.name(), "callbacks", "a name that is free is used again");
        handler.remove_and_wait().await.unwrap();
        assert!(tasks() <= before + 1);
    }
    assert_eq!((informer.handlers().len(), informer.cache().subscribers()), (0, 0));
    informer.stop().await.unwrap();
}
