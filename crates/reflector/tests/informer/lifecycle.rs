//! Starting and stopping.

use std::{sync::Arc, time::Duration};

use reflector::{
    Control, NotReady, Reflector, SharedInformer,
    informer::{Callbacks, EventHandler, HandlerState, InsideHandler},
    protocol::Phase,
    wire::WatchEvent,
};
use tokio::{sync::mpsc, task::yield_now};

use crate::{common::*, support::*};

/// SI-1: unlike client-go's, the second start does nothing even if it comes at the same time.
#[tokio::test(start_paused = true)]
async fn starting_twice_starts_once() {
    let (informer, mut server) = informer();
    assert_eq!(informer.status().phase, Phase::Created);
    informer.start().unwrap();
    informer.start().unwrap();
    let _watch = server.watch().await;
    yield_now().await;
    assert!(server.try_next().is_none());
    informer.stop().await.unwrap();
}

/// client-go: SharedInformerInitializationRace, StartRace.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn handlers_may_be_added_while_it_starts() {
    for _ in 0..50 {
        let (informer, mut server) = informer();
        let informer = Arc::new(informer);
        let adding: Vec<_> = (0..4)
            .map(|_| {
                let informer = Arc::clone(&informer);
                tokio::spawn(async move {
                    informer.start().unwrap();
                    let (handler, seen) = recorder();
                    (informer.add_handler(handler).unwrap(), seen)
                })
            })
            .collect();
        let _stream = server.sync(&[object("a", "u1", "5")], "5").await;
        for added in adding {
            let (handler, mut seen) = added.await.unwrap();
            handler.synced().await.unwrap();
            assert_eq!(seen.rest(), ["initial a@5", "synced"]);
        }
        informer.stop().await.unwrap();
    }
}

/// client-go: AddOnStopped, RemoveOnStopped, StateSharedInformer.
#[tokio::test(start_paused = true)]
async fn a_stopped_informer_takes_no_handlers_but_lets_them_go() {
    let (informer, _server, _stream) = synced(&[object("a", "u1", "5")], "5").await;
    let (handler, mut seen) = recorder();
    let handler = informer.add_handler(handler).unwrap();
    settled(&handler, &mut seen).await;
    informer.stop().await.unwrap();
    assert_eq!(handler.state(), HandlerState::Stopped);
    handler.remove();
    assert_eq!(handler.remove_and_wait().await, Ok(HandlerState::Stopped));
    let error = informer.add_handler(recorder().0).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the informer of letters in namespace ns has been stopped, which is for good: make a new one"
    );
    assert!(informer.start().is_err());
    assert_eq!(informer.status().phase, Phase::Stopped);
    // What was there can still be read, and the handler was in sync.
    assert_eq!(content(informer.cache()), "a@5");
    assert!(handler.is_synced());
}

/// client-go: Shutdown (handler before the start, after the start, never started).
#[tokio::test(start_paused = true)]
async fn nothing_runs_after_a_stop() {
    let before = tasks();
    for started in [false, true, true] {
        let (informer, _server) = informer();
        let (handler, seen) = recorder();
        let early = informer.add_handler(handler).unwrap();
        if started {
            informer.start().unwrap();
            informer.add_handler(recorder().0).unwrap();
        }
        informer.stop().await.unwrap();
        assert_eq!(tasks(), before);
        assert_eq!(early.state(), HandlerState::Stopped);
        assert!(early.synced().await.is_err());
        assert!(matches!(informer.ready().await, Err(NotReady::Stopped(_))));
        assert_eq!(seen.until_dropped().await, "");
        informer.stop().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn dropping_it_ends_everything() {
    let before = tasks();
    let (informer, _server, _stream) = synced(&[object("a", "u1", "5")], "5").await;
    // One that would wait for ever.
    let (handler, mut seen, _gate) = gated();
    let handler = informer.add_handler(handler).unwrap();
    assert_eq!(seen.next().await, "initial a@5");
    drop(informer);
    assert_eq!(handler.removed().await, Ok(HandlerState::Stopped));
    while tasks() > before {
        yield_now().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_thousand_cycles_leave_no_task() {
    let before = tasks();
    for _ in 0..1_000 {
        let (informer, mut server) = informer();
        let (handler, mut seen) = recorder();
        informer.add_handler(handler).unwrap();
        informer.start().unwrap();
        let _stream = server.sync(&[object("a", "u1", "5")], "5").await;
        assert_eq!(seen.take(2).await, "initial a@5 synced");
        informer.stop().await.unwrap();
        assert_eq!(tasks(), before);
    }
}

/// CT-3: what waits is dropped, but not silently (8.6).
#[tokio::test(start_paused = true)]
async fn a_stop_completes_the_call_in_hand_and_counts_the_rest() {
    let objects = [object("a", "u1", "5"), object("b", "u2", "6")];
    let (informer, _server, stream) = synced(&objects, "7").await;
    let (handler, mut seen, gate) = gated();
    informer.add_handler(handler).unwrap();
    assert_eq!(seen.next().await, "initial a@5");
    stream.send(vec![WatchEvent::Added(object("c", "u3", "8")), bookmark("8")]);
    while informer.cache().len() < 3 {
        yield_now().await;
    }
    let informer = Arc::new(informer);
    let stops: Vec<_> = (0..3)
        .map(|_| {
            let informer = Arc::clone(&informer);
            tokio::spawn(async move { informer.stop().await.unwrap().undelivered })
        })
        .collect();
    yield_now().await;
    assert!(stops.iter().all(|stop| !stop.is_finished()), "the handler is in a call");
    gate.add_permits(10);
    for stop in stops {
        // b and c: the sign of the sync is no event.
        assert_eq!(stop.await.unwrap(), 2);
    }
    assert_eq!(seen.until_dropped().await, "");
}

#[tokio::test(start_paused = true)]
async fn a_drain_delivers_everything_first() {
    let (informer, _server, stream) = synced(&[object("a", "u1", "5"), object("b", "u2", "6")], "7").await;
    let (handler, mut seen, gate) = gated();
    let handler = informer.add_handler(handler).unwrap();
    assert_eq!(seen.next().await, "initial a@5");
    stream.send(vec![WatchEvent::Added(object("c", "u3", "8"))]);
    while informer.cache().len() < 3 {
        yield_now().await;
    }
    gate.add_permits(10);
    assert_eq!(informer.drain().await.unwrap().undelivered, 0);
    assert_eq!(seen.until_dropped().await, "initial b@6 synced +c@8");
    assert!(handler.is_synced());
}

#[tokio::test(start_paused = true)]
async fn a_stop_cuts_a_drain_short() {
    let (informer, _server, _stream) = synced(&[object("a", "u1", "5"), object("b", "u2", "6")], "7").await;
    let (handler, mut seen, gate) = gated();
    informer.add_handler(handler).unwrap();
    assert_eq!(seen.next().await, "initial a@5");
    let (drained, stopped) = tokio::join!(informer.drain(), async {
        yield_now().await;
        let stop = informer.stop();
        gate.add_permits(1);
        stop.await
    });
    assert_eq!((&drained, stopped.as_ref().unwrap().undelivered), (&stopped, 1));
    assert_eq!(seen.until_dropped().await, "");
}

/// Stops its informer from within.
struct Suicidal(Arc<SharedInformer<Json>>, mpsc::UnboundedSender<bool>);

impl EventHandler<Json> for Suicidal {
    async fn on_synced(&mut self) {
        self.1.send(self.0.stop().await == Err(InsideHandler)).unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_handler_can_stop_its_informer_but_not_wait_for_it() {
    let (informer, _server, _stream) = synced(&[object("a", "u1", "5")], "5").await;
    let informer = Arc::new(informer);
    let (sender, mut told) = mpsc::unbounded_channel();
    let handler = informer.add_handler(Suicidal(Arc::clone(&informer), sender)).unwrap();
    assert_eq!(told.recv().await, Some(true));
    assert_eq!(handler.removed().await, Ok(HandlerState::Stopped));
    informer.stop().await.unwrap();
    assert_eq!(Arc::strong_count(&informer), 1);
}

/// The reflector ends by itself: handlers get what was known, and then end; no more come.
#[tokio::test(start_paused = true)]
async fn handlers_end_with_a_reflector_that_ends_by_itself() {
    let (source, mut server) = scripted();
    let informer = SharedInformer::new(Reflector::builder(source).on_error(|_| Control::Stop));
    let (handler, seen) = recorder();
    let handler = informer.add_handler(handler).unwrap();
    informer.start().unwrap();
    let stream = server.sync(&[object("a", "u1", "5")], "5").await;
    informer.ready().await.unwrap();
    stream.fail(refused(403, "Forbidden", "no"));
    assert_eq!(handler.removed().await, Ok(HandlerState::Stopped));
    assert_eq!(seen.until_dropped().await, "initial a@5 synced");
    while informer.add_handler(Callbacks::new()).is_ok() {
        yield_now().await;
    }
    informer.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn readiness_waits_for_the_start_too() {
    let (informer, mut server) = informer();
    let (ready, ()) = tokio::join!(informer.ready(), async {
        tokio::time::sleep(Duration::from_secs(5)).await;
        informer.start().unwrap();
        std::mem::forget(server.sync(&[], "5").await);
    });
    ready.unwrap();
    informer.synced().await.unwrap();
    assert!(informer.staleness().is_some());
    informer.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_probe_tells_what_is_not_in_sync_and_a_monitor_keeps_nothing_alive() {
    let (informer, mut server) = informer();
    let informer = Arc::new(informer);
    let health = reflector::health::Health::new();
    health.add(Arc::clone(&informer));
    let verdict = || health.readyz().to_string();
    assert!(verdict().contains("letters in namespace ns failed: not started"), "{}", verdict());
    let (handler, mut seen, gate) = gated();
    let handler = informer.add_handler(handler).unwrap();
    informer.start().unwrap();
    let _stream = server.sync(&[object("a", "u1", "5")], "5").await;
    assert_eq!(seen.next().await, "initial a@5");
    assert!(verdict().contains("Recorder is busy, and up to 0 more events wait"), "{}", verdict());
    gate.add_permits(10);
    handler.synced().await.unwrap();
    assert!(health.readyz().is_ok(), "{}", verdict());
    let monitor = informer.monitor().unwrap();
    drop((health, informer));
    assert_eq!(handler.removed().await, Ok(HandlerState::Stopped));
    assert!(monitor.staleness().is_some());
}
