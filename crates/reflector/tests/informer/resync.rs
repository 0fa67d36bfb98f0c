//! Resyncs, in virtual time.

use std::time::Duration;

use reflector::{Reflector, SharedInformer, informer::HandlerOptions};
use tokio::time::{Instant, sleep_until};

use crate::{common::*, support::*};

/// SI-6. client-go: ListenerResyncPeriods.
#[tokio::test(start_paused = true)]
async fn each_handler_is_resynced_at_its_own_interval() {
    let (informer, _server, _stream) = synced(&[object("a", "u1", "5"), object("b", "u2", "6")], "7").await;
    let start = Instant::now();
    let mut sees = Vec::new();
    for seconds in [0, 2, 3] {
        let (handler, mut seen) = recorder();
        let mut options = HandlerOptions::new();
        if seconds > 0 {
            options = options.resync_every(Duration::from_secs(seconds));
        }
        let handler = informer.add_handler_with(handler, options).unwrap();
        settled(&handler, &mut seen).await;
        sees.push(seen);
    }
    let mut table = Vec::new();
    for half_seconds in [3, 5, 7, 9, 13] {
        sleep_until(start + Duration::from_millis(500) * half_seconds).await;
        table.push(sees.iter_mut().map(|seen| seen.rest().join(" ")).collect::<Vec<_>>());
    }
    let all = "=a@5 =b@6";
    assert_eq!(
        table,
        [
            // at 1.5 s, 2.5 s (2), 3.5 s (3), 4.5 s (4), 6.5 s (both)
            ["", "", ""],
            ["", all, ""],
            ["", "", all],
            ["", all, ""],
            ["", all, all],
        ]
    );
    informer.stop().await.unwrap();
}

/// SI-5. client-go: ResyncCheckPeriod.
#[tokio::test(start_paused = true)]
async fn no_handler_is_resynced_more_often_than_once_a_second() {
    let (informer, _server, _stream) = synced(&[object("a", "u1", "5")], "5").await;
    let start = Instant::now();
    let (handler, mut seen) = recorder();
    let options = HandlerOptions::new().resync_every(Duration::ZERO);
    let handler = informer.add_handler_with(handler, options).unwrap();
    settled(&handler, &mut seen).await;
    sleep_until(start + Duration::from_millis(3_500)).await;
    assert_eq!(seen.rest().len(), 3);
    informer.stop().await.unwrap();
}

/// FA-1, SI-5: the default of the informer.
#[tokio::test(start_paused = true)]
async fn handlers_are_resynced_with_the_informer_unless_they_say_otherwise() {
    let (source, mut server) = scripted();
    let builder = Reflector::builder(source).resync_every(Duration::from_secs(10));
    let informer = SharedInformer::new(builder);
    let start = Instant::now();
    informer.start().unwrap();
    let _stream = server.sync(&[object("a", "u1", "5")], "5").await;
    let (handler, mut with) = recorder();
    let with_it = informer.add_handler(handler).unwrap();
    settled(&with_it, &mut with).await;
    let (handler, mut without) = recorder();
    let without_it = informer.add_handler_with(handler, HandlerOptions::new().no_resync()).unwrap();
    settled(&without_it, &mut without).await;
    sleep_until(start + Duration::from_secs(25)).await;
    assert_eq!(with.rest().join(" "), "=a@5 =a@5");
    assert_eq!(without.rest(), [""; 0]);
    informer.stop().await.unwrap();
}
