//! Handlers that are slow: who notices (#55).

use std::{collections::BTreeMap, time::Duration};

use metrics_util::debugging::{DebugValue, DebuggingRecorder, Snapshotter};
use reflector::{
    Policy,
    informer::{HandlerOptions, HandlerState},
    store::WhenFull,
    wire::WatchEvent,
};

use crate::{common::*, support::*};

/// SI-25, SI-29: the original stalls all for one that comes late, and lets the queue of a slow one grow for ever.
#[tokio::test(start_paused = true)]
async fn a_handler_that_hangs_delays_nobody_and_takes_bounded_memory() {
    let (informer, _server, stream) = synced(&[object("a", "u1", "5")], "5").await;
    let (hangs, mut stuck, gate) = gated();
    let hangs = informer.add_handler(hangs).unwrap();
    assert_eq!(stuck.next().await, "initial a@5");
    let (quick, mut sees) = recorder();
    let quick = informer.add_handler(quick).unwrap();
    settled(&quick, &mut sees).await;
    for version in 6..5_006 {
        stream.send(vec![WatchEvent::Modified(object("a", "u1", &version.to_string()))]);
    }
    while !sees.next().await.ends_with("a@5005") {}
    gate.add_permits(10);
    // One entry per object, however many changes there were.
    assert_eq!(stuck.take(2).await, "synced a@5>a@5005");
    assert_eq!(hangs.lag().unwrap().waiting, 0);
    informer.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_handler_can_rather_end_than_be_late() {
    let (informer, _server, stream) = synced(&[object("a", "u1", "5")], "5").await;
    let (handler, mut seen, gate) = gated();
    let policy = Policy::Every { bound: 2, when_full: WhenFull::End };
    let handler = informer.add_handler_with(handler, HandlerOptions::new().policy(policy)).unwrap();
    assert_eq!(seen.next().await, "initial a@5");
    for version in 6..20 {
        stream.send(vec![WatchEvent::Modified(object("a", "u1", &version.to_string()))]);
    }
    stream.send(vec![bookmark("20")]);
    while informer.status().version != reflector::ResourceVersion::new("20") {
        tokio::task::yield_now().await;
    }
    gate.add_permits(10);
    assert_eq!(handler.removed().await, Ok(HandlerState::Lagged));
    informer.stop().await.unwrap();
}

fn values(snapshotter: &Snapshotter) -> BTreeMap<String, String> {
    let all = snapshotter.snapshot().into_vec().into_iter().filter_map(|(key, _, _, value)| {
        let name = key.key().name().strip_prefix("reflector_handler_")?;
        let labels: Vec<_> = key.key().labels().map(|l| format!("{}={}", l.key(), l.value())).collect();
        let value = match value {
            DebugValue::Counter(n) => n.to_string(),
            DebugValue::Gauge(n) => n.to_string(),
            DebugValue::Histogram(values) => format!("{values:?}"),
        };
        Some((format!("{name} {}", labels.join(",")), value))
    });
    all.collect()
}

/// Gives the lag while a call lasts, and at the end.
async fn measured(snapshotter: &Snapshotter) -> (String, BTreeMap<String, String>) {
    let objects: Vec<_> = (0..200).map(|i| object(&format!("o{i:03}"), &i.to_string(), "5")).collect();
    let (informer, _server, _stream) = synced(&objects, "5").await;
    let (handler, mut seen, gate) = gated();
    let options = HandlerOptions::new().name("slow");
    informer.add_handler_with(handler, options).unwrap();
    assert_eq!(seen.next().await, "initial o000@5");
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    let during = values(snapshotter)["lag resource=letters in namespace ns,handler=slow"].clone();
    let stopping = informer.stop();
    gate.add_permits(1);
    stopping.await.unwrap();
    (during, values(snapshotter))
}

#[test]
fn a_handler_is_measured_while_it_is_in_a_call() {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    let (during, end) = metrics::with_local_recorder(&recorder, || runtime.block_on(measured(&snapshotter)));
    assert_eq!(during, "199");
    let end: Vec<_> =
        end.iter().map(|(k, v)| format!("{} = {v}", k.replace("letters in namespace ns", "…"))).collect();
    assert_eq!(
        end,
        [
            "lag resource=…,handler=slow = 0",
            "panics_total resource=…,handler=slow = 0",
            "seconds resource=…,handler=slow = [1.5]",
        ]
    );
}
