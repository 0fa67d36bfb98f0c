//! A subscriber that blocks the reflector, and one that does not.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::time::Duration;

use futures::StreamExt;
use reflector::{Event, Policy, Reflector, wire::WatchEvent};
use support::*;

/// Lets everything happen that can happen without a test's help.
async fn settle() {
    tokio::time::sleep(Duration::from_secs(1)).await;
}

fn modified(version: &str) -> Vec<WatchEvent<Json>> {
    vec![WatchEvent::Modified(object("a", "u", version))]
}

#[tokio::test(start_paused = true)]
async fn a_blocking_subscriber_stops_the_reading_and_nothing_else() {
    let (source, mut server) = scripted();
    let letters = Reflector::builder(source).start();
    let mut slow = letters.cache().subscription().policy(Policy::Block { bound: 1 }).subscribe();
    let stream = server.sync(&[object("a", "u", "1")], "1").await;
    assert!(matches!(slow.next().await, Some(Event::Added { initial: true, .. })));
    assert!(matches!(slow.next().await, Some(Event::Synced)));
    stream.send(modified("2"));
    settle().await;
    stream.send(modified("3"));
    settle().await;
    assert_eq!(content(letters.cache()), "a@2", "no more is read while one change waits");
    assert!(matches!(slow.next().await, Some(Event::Updated { .. })));
    settle().await;
    assert_eq!(content(letters.cache()), "a@3");
    // client-go drops what is queued when it stops (CT-3); here it is told, and the stop does not wait for it.
    letters.stop().await;
    assert!(
        matches!(slow.next().await, Some(Event::Updated { new, .. }) if new.version().unwrap().to_string() == "3")
    );
    assert!(slow.next().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_slow_subscriber_stops_nobody() {
    let (source, mut server) = scripted();
    let letters = Reflector::builder(source).start();
    let mut slow = letters.cache().subscribe();
    let mut quick = letters.cache().subscribe();
    let stream = server.sync(&[object("a", "u", "1")], "1").await;
    for version in 2..500 {
        stream.send(modified(&version.to_string()));
    }
    settle().await;
    assert_eq!(content(letters.cache()), "a@499");
    let last = |event: Option<Event<Json>>| event.unwrap().object().map(|o| o.version().unwrap().to_string());
    for subscription in [&mut quick, &mut slow] {
        assert_eq!(last(subscription.next().await).as_deref(), Some("1"));
        assert_eq!(last(subscription.next().await), None);
        assert_eq!(last(subscription.next().await).as_deref(), Some("499"));
    }
    letters.stop().await;
}
