//! The watch that survives closes, and waiting on it, against a source that the test answers, in virtual time.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../support/mod.rs"]
mod support;
mod until;

use std::{collections::HashSet, convert::Infallible, time::Duration};

use futures::StreamExt;
use reflector::{
    Control, Object, ResourceVersion,
    protocol::{Class, Failure},
    watch::{Event, RetryWatchBuilder, RetryWatchError, RetryWatcher},
    wire::{Status, WatchEvent},
};
use support::*;
use tokio::{
    sync::mpsc::{self, UnboundedReceiver},
    time::Instant,
};

/// What one poll gave: `None` is the end.
type Item = Option<Result<Event<Json>, RetryWatchError>>;

fn rv(text: &str) -> ResourceVersion {
    ResourceVersion::new(text).unwrap()
}

fn builder(from: &str) -> (RetryWatchBuilder<Json, Scripted>, Server) {
    let (source, server) = scripted();
    (RetryWatcher::builder(source, rv(from)).seed(1), server)
}

/// A watch that is read by a task: the server's script decides what comes.
fn read(builder: RetryWatchBuilder<Json, Scripted>) -> UnboundedReceiver<Item> {
    let mut watch = builder.start().unwrap();
    let (sender, items) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        let mut ends = 0;
        // Once more after the end, which must be the end again.
        while ends < 2 {
            let item = watch.next().await;
            ends += u8::from(item.is_none());
            if sender.send(item).is_err() {
                break;
            }
        }
    });
    items
}

fn watching(from: &str) -> (UnboundedReceiver<Item>, Server) {
    let (builder, server) = builder(from);
    (read(builder), server)
}

fn added(name: &str, version: &str) -> WatchEvent<Json> {
    WatchEvent::Added(object(name, "u", version))
}

fn status(code: u16, reason: &str, message: &str, retry_after: Option<u32>) -> WatchEvent<Json> {
    let mut status = Status::default();
    status.code = code;
    status.reason = reason.into();
    status.message = message.into();
    status.details.retry_after_seconds = retry_after;
    WatchEvent::Error(Box::new(status))
}

/// What is waited for must come; in virtual time, so that a test that needs it fails at once.
async fn in_time<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(3600), what).await.expect("it never came")
}

async fn event(items: &mut UnboundedReceiver<Item>) -> String {
    in_time(items.recv()).await.flatten().expect("the watch has ended").unwrap().to_string()
}

/// The error that ends the watch: nothing comes after it, however often it is polled, and nothing is asked for.
async fn end(items: &mut UnboundedReceiver<Item>, server: &mut Server) -> RetryWatchError {
    let error =
        in_time(items.recv()).await.flatten().expect("the watch has ended without an error").unwrap_err();
    for _ in 0..2 {
        assert!(
            matches!(in_time(items.recv()).await, Some(None)),
            "something came after {error}, or a panic"
        );
    }
    assert!(server.try_next().is_none());
    error
}

/// client-go: NewRetryWatcher (initial RV "" is no version at all here, and "0" is refused)
#[tokio::test(start_paused = true)]
async fn a_watch_from_any_state_is_refused() {
    assert!(ResourceVersion::new("").is_none());
    let (source, mut server) = scripted();
    let error = RetryWatcher::new(source, rv("0")).unwrap_err();
    assert!(matches!(error, RetryWatchError::StartVersion { .. }));
    assert!(error.to_string().contains("letters in namespace ns from version \"0\""), "{error}");
    assert!(server.try_next().is_none());
}

#[tokio::test(start_paused = true)]
async fn nothing_is_asked_before_it_is_polled_and_dropping_it_ends_the_request() {
    let (builder, mut server) = builder("1");
    let mut watch = builder.labels("app=a").start().unwrap();
    tokio::task::yield_now().await;
    assert!(server.try_next().is_none());
    let stream = tokio::select! {
        request = server.watch() => {
            let options = &request.options;
            assert_eq!(options.version, Some(rv("1")));
            assert_eq!(options.selection.labels.as_deref(), Some("app=a"));
            assert_eq!((options.send_initial_events, options.version_match), (None, None));
            assert!(options.bookmarks);
            let timeout = options.timeout.unwrap();
            assert!((Duration::from_secs(300)..Duration::from_secs(600)).contains(&timeout), "{timeout:?}");
            request.open()
        }
        item = watch.next() => panic!("{item:?}"),
    };
    stream.send(vec![added("a", "2"), added("b", "3")]);
    assert_eq!(watch.next().await.unwrap().unwrap().to_string(), "ADDED ns/a at version 2");
    // client-go: RetryWatcherToFinishWithUnreadEvents (b is never read; there is no goroutine that could hang)
    drop(watch);
    stream.closed().await;
}

/// client-go: RetryWatcher "delivers first event", "skips events with RV lower than or equal to the initial RV",
/// "doesn't send any events when there is nothing newer"
#[tokio::test(start_paused = true)]
async fn what_is_not_newer_than_the_start_is_passed_over() {
    let (mut items, mut server) = watching("5");
    let stream = server.watch().await.open();
    stream.send(vec![added("a", "4"), added("b", "5"), WatchEvent::Deleted(object("c", "u", "3"))]);
    stream.send(vec![added("d", "6")]);
    assert_eq!(event(&mut items).await, "ADDED ns/d at version 6");
    // A server that replays from its beginning after a close.
    drop(stream);
    let request = server.watch().await;
    assert_eq!(request.options.version, Some(rv("6")));
    let stream = request.open();
    stream.send(vec![added("d", "6"), WatchEvent::Modified(object("d", "u", "7"))]);
    assert_eq!(event(&mut items).await, "MODIFIED ns/d at version 7");
    assert!(items.try_recv().is_err());
}

#[tokio::test(start_paused = true)]
async fn versions_that_cannot_be_compared_are_taken_as_they_come() {
    let (mut items, mut server) = watching("x9");
    let stream = server.watch().await.open();
    stream.send(vec![added("a", "b1"), added("b", "a2")]);
    assert_eq!(event(&mut items).await, "ADDED ns/a at version b1");
    assert_eq!(event(&mut items).await, "ADDED ns/b at version a2");
    drop(stream);
    assert_eq!(server.watch().await.options.version, Some(rv("a2")));
}

/// Older than the one before it, but newer than the start: news, and no reason to resume earlier.
#[tokio::test(start_paused = true)]
async fn the_place_to_resume_from_does_not_go_back() {
    let (mut items, mut server) = watching("5");
    let stream = server.watch().await.open();
    stream.send(vec![added("a", "9"), added("b", "7")]);
    assert_eq!(event(&mut items).await, "ADDED ns/a at version 9");
    assert_eq!(event(&mut items).await, "ADDED ns/b at version 7");
    drop(stream);
    assert_eq!(server.watch().await.options.version, Some(rv("9")));
}

/// client-go: RetryWatcher "survives 1 closed watch and reads 1 item", "2 / 2", "2 / 2 nonconsecutive", "low RV",
/// "4 / 4", "4 / 4 with older events", "2 + 2 + 1"
#[tokio::test(start_paused = true)]
async fn it_survives_closes_without_a_gap_or_a_double() {
    type Watches<'a> = &'a [&'a [u64]];
    let cases: [(&str, Watches<'_>); 7] = [
        ("9", &[&[10]]),
        ("9", &[&[10], &[11]]),
        ("9", &[&[10], &[12]]),
        ("1", &[&[5], &[6]]),
        ("9", &[&[10], &[11], &[12], &[13]]),
        ("9", &[&[7, 8, 10], &[9, 10, 11], &[11, 12], &[1, 13]]),
        ("9", &[&[10, 11], &[12, 13], &[14]]),
    ];
    for (from, watches) in cases {
        let (mut items, mut server) = watching(from);
        let mut last: u64 = from.parse().unwrap();
        for versions in watches {
            let request = server.watch().await;
            assert_eq!(request.options.version, Some(rv(&last.to_string())), "{watches:?}");
            let stream = request.open();
            stream.send(versions.iter().map(|v| added("a", &v.to_string())).collect());
            for version in versions.iter().filter(|v| **v > last) {
                assert_eq!(
                    event(&mut items).await,
                    format!("ADDED ns/a at version {version}"),
                    "{watches:?}"
                );
            }
            last = *versions.last().unwrap();
        }
        server.watch().await;
        assert!(items.try_recv().is_err(), "{watches:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn bookmarks_move_the_place_to_resume_and_are_shown_on_demand() {
    for shown in [false, true] {
        let (builder, mut server) = builder("5");
        let mut items = read(builder.bookmarks(shown));
        let stream = server.watch().await.open();
        let nothing = WatchEvent::Bookmark { version: None, initial_events_end: false };
        stream.send(vec![
            bookmark("8"),
            nothing,
            bookmark("0"),
            bookmark("4"),
            added("a", "9"),
            bookmark("12"),
        ]);
        if shown {
            assert_eq!(event(&mut items).await, "BOOKMARK at version 8");
        }
        assert_eq!(event(&mut items).await, "ADDED ns/a at version 9");
        if shown {
            assert_eq!(event(&mut items).await, "BOOKMARK at version 12");
        }
        drop(stream);
        assert_eq!(server.watch().await.options.version, Some(rv("12")));
        assert!(items.try_recv().is_err());
    }
}

/// It would be stored as the place to resume from, and what came after it would come once more.
#[tokio::test(start_paused = true)]
async fn a_bookmark_that_is_older_than_the_last_event_is_not_shown() {
    let (builder, mut server) = builder("5");
    let mut items = read(builder.bookmarks(true));
    let stream = server.watch().await.open();
    stream.send(vec![added("a", "10"), bookmark("8"), bookmark("10"), bookmark("9"), added("b", "12")]);
    assert_eq!(event(&mut items).await, "ADDED ns/a at version 10");
    assert_eq!(event(&mut items).await, "BOOKMARK at version 10");
    assert_eq!(event(&mut items).await, "ADDED ns/b at version 12");
}

/// Nothing tells it from news: two states of one version are no less likely than one state that comes twice.
#[tokio::test(start_paused = true)]
async fn what_a_server_says_twice_in_one_response_comes_twice() {
    let (mut items, mut server) = watching("5");
    let stream = server.watch().await.open();
    stream.send(vec![added("a", "10"), added("a", "10")]);
    for _ in 0..2 {
        assert_eq!(event(&mut items).await, "ADDED ns/a at version 10");
    }
}

/// client-go: RetryWatcher "recovers if watchFunc returns error"; its "nil watcher" cannot be written here
#[tokio::test(start_paused = true)]
async fn a_request_that_fails_is_made_again() {
    let failures = [
        Failure::transport("connection refused"),
        Failure::malformed("unexpected EOF"),
        refused(500, "InternalError", "etcd"),
        refused(503, "ServiceUnavailable", "starting"),
        refused(504, "Timeout", "too slow"),
        refused(429, "TooManyRequests", "later"),
        refused(504, "Timeout", "Too large resource version: 9, current: 5"),
        refused(404, "NotFound", "no such resource yet"),
        refused(418, "", "a teapot"),
    ];
    for failure in failures {
        let (mut items, mut server) = watching("1");
        let said = failure.to_string();
        server.watch().await.refuse(failure);
        let request = server.watch().await;
        assert_eq!(request.options.version, Some(rv("1")), "{said}");
        request.open().send(vec![added("a", "2")]);
        assert_eq!(event(&mut items).await, "ADDED ns/a at version 2", "{said}");
    }
}

/// client-go: RetryWatcher "recovers from timeout error", "internal server error", "unknown status code", "unknown
/// object" (which is an ERROR event without a Status)
#[tokio::test(start_paused = true)]
async fn an_error_in_the_stream_resumes_the_watch() {
    let errors = [
        status(504, "Timeout", "too slow", None),
        status(500, "InternalError", "etcd", None),
        status(418, "", "a teapot", None),
        status(0, "", "no status", None),
    ];
    for error in errors {
        let (mut items, mut server) = watching("1");
        let said = format!("{error:?}");
        let stream = server.watch().await.open();
        stream.send(vec![added("a", "2"), error, added("never", "3")]);
        assert_eq!(event(&mut items).await, "ADDED ns/a at version 2", "{said}");
        let request = in_time(server.watch()).await;
        assert_eq!(request.options.version, Some(rv("2")), "{said}");
        request.open().send(vec![added("b", "3")]);
        assert_eq!(event(&mut items).await, "ADDED ns/b at version 3", "{said}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_breaks_is_resumed() {
    let (mut items, mut server) = watching("1");
    let stream = server.watch().await.open();
    stream.send(vec![added("a", "2")]);
    stream.fail(Failure::transport("reset"));
    assert_eq!(event(&mut items).await, "ADDED ns/a at version 2");
    assert_eq!(server.watch().await.options.version, Some(rv("2")));
}

/// A load balancer cuts each watch once a minute: that is no failure in a row.
#[tokio::test(start_paused = true)]
async fn a_watch_that_lived_before_it_was_cut_is_resumed_soon() {
    let (_items, mut server) = watching("1");
    let mut request = server.watch().await;
    for _ in 0..6 {
        let stream = request.open();
        tokio::time::advance(Duration::from_secs(60)).await;
        stream.fail(Failure::transport("reset"));
        let before = Instant::now();
        request = in_time(server.watch()).await;
        let waited = before.elapsed();
        assert!((Duration::from_millis(800)..Duration::from_millis(1601)).contains(&waited), "{waited:?}");
    }
}

/// RW-3, k8s#79805: not before the delay that the server named, and not all at once after it.
#[tokio::test(start_paused = true)]
async fn the_servers_delay_is_kept() {
    let (_items, mut server) = watching("1");
    let throttled = Failure::refused(429, "TooManyRequests", "later", [], Some(Duration::from_secs(20)));
    let before = Instant::now();
    server.watch().await.refuse(throttled);
    let stream = server.watch().await.open();
    let waited = before.elapsed();
    assert!((Duration::from_secs(20)..Duration::from_secs(31)).contains(&waited), "{waited:?}");
    let before = Instant::now();
    stream.send(vec![status(500, "InternalError", "etcd", Some(40))]);
    server.watch().await;
    let waited = before.elapsed();
    assert!((Duration::from_secs(40)..Duration::from_secs(61)).contains(&waited), "{waited:?}");
}

/// client-go: RetryWatcher "fails on Gone". RW-2: its "recovers if watchFunc returns 410" is a hot loop for ever.
#[tokio::test(start_paused = true)]
async fn an_expired_version_is_the_end_at_the_request_and_in_the_stream() {
    for (code, reason) in [(410, "Expired"), (410, "Gone"), (410, ""), (0, "Expired")] {
        let (mut items, mut server) = watching("1");
        server.watch().await.refuse(refused(code, reason, "too old resource version"));
        let error = end(&mut items, &mut server).await;
        assert!(matches!(&error, RetryWatchError::Expired { version, .. } if *version == rv("1")), "{error}");

        let (mut items, mut server) = watching("1");
        let stream = server.watch().await.open();
        stream.send(vec![added("a", "2"), status(code, reason, "too old resource version", None)]);
        assert_eq!(event(&mut items).await, "ADDED ns/a at version 2");
        let error = end(&mut items, &mut server).await;
        assert!(matches!(&error, RetryWatchError::Expired { version, .. } if *version == rv("2")), "{error}");
        let said = error.to_string();
        assert!(said.contains("letters in namespace ns") && said.contains("too old"), "{said}");
        assert!(said.contains("list again"), "{said}");
        stream.closed().await;
    }
}

/// client-go: RetryWatcher "fails on Forbidden", "fails on Unauthorized" (here: on the second one)
#[tokio::test(start_paused = true)]
async fn a_request_that_is_denied_is_the_end() {
    for (code, reason, remedy) in
        [(401, "Unauthorized", "renew the credentials"), (403, "Forbidden", "grant the verb `watch`")]
    {
        let (mut items, mut server) = watching("1");
        let denied = refused(code, reason, "letters are not for you");
        server.watch().await.refuse(denied.clone());
        if code == 401 {
            refreshed(&mut server).await;
            server.watch().await.refuse(denied);
        }
        let error = end(&mut items, &mut server).await;
        assert!(matches!(error, RetryWatchError::Denied { .. }));
        let said = error.to_string();
        assert!(said.contains("letters are not for you") && said.contains(remedy), "{said}");
    }
}

async fn refreshed(server: &mut Server) {
    assert!(matches!(in_time(server.next()).await, Request::Refresh), "fresh credentials first");
}

/// A token that expires between two requests would be the end of every watch.
#[tokio::test(start_paused = true)]
async fn the_first_401_since_a_watch_was_open_renews_the_credentials() {
    let expired = || refused(401, "Unauthorized", "token has expired");
    let (builder, mut server) = builder("1");
    let (sender, mut reports) = mpsc::unbounded_channel();
    let mut items = read(builder.on_error(move |report| {
        sender.send((report.class, report.retry_in)).unwrap();
        Control::Continue
    }));
    for version in ["2", "3", "4"] {
        let request = server.watch().await;
        let before = Instant::now();
        request.refuse(expired());
        refreshed(&mut server).await;
        let request = server.watch().await;
        assert!(before.elapsed() < Duration::from_millis(1100), "{:?}", before.elapsed());
        request.open().send(vec![added("a", version)]);
        assert_eq!(event(&mut items).await, format!("ADDED ns/a at version {version}"));
        assert_eq!(reports.recv().await, Some((Class::Unauthorized, Duration::ZERO)));
    }
    // What happens in between does not make the credentials good.
    server.watch().await.refuse(expired());
    refreshed(&mut server).await;
    server.watch().await.refuse(refused(503, "ServiceUnavailable", "starting"));
    server.watch().await.refuse(expired());
    assert!(matches!(end(&mut items, &mut server).await, RetryWatchError::Denied { .. }));
}

#[tokio::test(start_paused = true)]
async fn a_401_in_the_stream_renews_the_credentials_after_the_back_off() {
    let (mut items, mut server) = watching("1");
    let stream = server.watch().await.open();
    stream.send(vec![added("a", "2"), status(401, "Unauthorized", "token has expired", None)]);
    event(&mut items).await;
    refreshed(&mut server).await;
    assert_eq!(server.watch().await.options.version, Some(rv("2")));
}

/// RW-3: passing over it could lose a change.
#[tokio::test(start_paused = true)]
async fn what_cannot_be_read_is_the_end() {
    let anonymous = Object::<Json>::from_json(r#"{"metadata":{"name":"a"}}"#).unwrap();
    let mut broken = Object::<Json>::from_json(r#"{"metadata":{"uid":"u"}}"#).unwrap_err();
    broken.event = Some(reflector::wire::EventType::Modified);
    let cases = [
        (WatchEvent::Added(anonymous), "a (ADDED) has no resourceVersion"),
        (WatchEvent::Modified(object("a", "u", "0")), "ns/a (MODIFIED) has no resourceVersion"),
        (WatchEvent::Unknown("RENAMED".into()), "the unknown type \"RENAMED\""),
        (WatchEvent::Invalid(broken), "an object without a readable name"),
    ];
    for (bad, said) in cases {
        let (mut items, mut server) = watching("1");
        let stream = server.watch().await.open();
        stream.send(vec![added("a", "2"), bad, added("never", "3")]);
        assert_eq!(event(&mut items).await, "ADDED ns/a at version 2");
        let error = end(&mut items, &mut server).await.to_string();
        assert!(error.contains("letters in namespace ns") && error.contains(said), "{error}");
        stream.closed().await;
    }
}

/// A bookmark holds no change, so nothing is lost with it.
#[tokio::test(start_paused = true)]
async fn a_bookmark_that_cannot_be_read_is_passed_over() {
    let (mut items, mut server) = watching("1");
    let mut broken = Object::<Json>::from_json(r#"{"metadata":{"uid":"u"}}"#).unwrap_err();
    broken.event = Some(reflector::wire::EventType::Bookmark);
    let stream = server.watch().await.open();
    stream.send(vec![WatchEvent::Invalid(broken), added("a", "2")]);
    assert_eq!(event(&mut items).await, "ADDED ns/a at version 2");
}

/// RW-4: at most one start per second, start to start, and nothing on top of it for watches that live longer.
#[tokio::test(start_paused = true)]
async fn starts_are_a_second_apart() {
    let (mut items, mut server) = watching("1");
    let mut stream = server.watch().await.open();
    let first = Instant::now();
    for version in 2..12 {
        stream.send(vec![added("a", &version.to_string())]);
        event(&mut items).await;
        drop(stream);
        stream = server.watch().await.open();
    }
    let took = first.elapsed();
    assert!((Duration::from_secs(10)..Duration::from_millis(10_100)).contains(&took), "{took:?}");
    tokio::time::sleep(Duration::from_secs(5)).await;
    let before = Instant::now();
    drop(stream);
    server.watch().await;
    assert!(before.elapsed() < Duration::from_millis(10), "{:?}", before.elapsed());
}

/// RW-4 has no back-off; a server that refuses for an hour would be asked 3600 times.
#[tokio::test(start_paused = true)]
async fn failures_in_a_row_are_spaced_more_and_more() {
    let (_items, mut server) = watching("1");
    let start = Instant::now();
    let mut starts = 0;
    while start.elapsed() < Duration::from_secs(3600) {
        server.watch().await.refuse(Failure::transport("connection refused"));
        starts += 1;
    }
    assert!((60..=130).contains(&starts), "{starts}");
}

/// RF-34: a clean end, but at once and without an event, again and again.
#[tokio::test(start_paused = true)]
async fn a_server_that_hangs_up_at_once_is_left_alone_for_longer() {
    let (_items, mut server) = watching("1");
    let start = Instant::now();
    let mut starts = 0;
    while start.elapsed() < Duration::from_secs(600) {
        drop(server.watch().await.open());
        starts += 1;
    }
    assert!(starts < 40, "{starts}");
}

#[tokio::test(start_paused = true)]
async fn an_unanswered_request_is_given_up() {
    let (_items, mut server) = watching("1");
    let before = Instant::now();
    server.watch().await.given_up().await;
    assert_eq!(before.elapsed().as_secs(), 90);
    assert_eq!(server.watch().await.options.version, Some(rv("1")));
}

#[tokio::test(start_paused = true)]
async fn a_dead_connection_does_not_hang_for_ever() {
    let (mut items, mut server) = watching("1");
    let request = server.watch().await;
    let life = request.options.timeout.unwrap();
    let stream = request.open();
    // Bytes without an event are life too.
    tokio::time::sleep(Duration::from_secs(100)).await;
    stream.send(vec![]);
    tokio::time::sleep(Duration::from_secs(100)).await;
    stream.send(vec![added("a", "2")]);
    event(&mut items).await;
    let before = Instant::now();
    in_time(stream.closed()).await;
    let silence = before.elapsed();
    let expected = life + Duration::from_secs(30);
    assert!(silence >= expected && silence < expected + Duration::from_secs(1), "{silence:?} {expected:?}");
    assert_eq!(server.watch().await.options.version, Some(rv("2")));
}

#[tokio::test(start_paused = true)]
async fn the_error_handler_sees_every_failure_and_may_end_the_watch() {
    let (builder, mut server) = builder("1");
    let (sender, mut reports) = mpsc::unbounded_channel();
    let mut items = read(builder.on_error(move |report| {
        sender.send((report.class, report.attempt, report.to_string())).unwrap();
        if report.attempt == 2 { Control::Stop } else { Control::Continue }
    }));
    server.watch().await.refuse(refused(404, "NotFound", "no letters"));
    server.watch().await.refuse(refused(404, "NotFound", "no letters"));
    let error = end(&mut items, &mut server).await;
    assert!(matches!(error, RetryWatchError::GivenUp(_)));
    let said = "cannot watch letters in namespace ns: 404 NotFound: no letters".to_owned();
    assert!(error.to_string().starts_with(&said), "{error}");
    assert_eq!(reports.recv().await.unwrap(), (Class::Absent, 1, said.clone()));
    assert_eq!(reports.recv().await.unwrap(), (Class::Absent, 2, said));
    assert!(reports.recv().await.is_none());
}

/// An event ends the row of failures, so that a long life with many small troubles is not one long failure.
#[tokio::test(start_paused = true)]
async fn an_event_ends_the_row_of_failures() {
    let (builder, mut server) = builder("1");
    let (sender, mut attempts) = mpsc::unbounded_channel();
    let mut items = read(builder.on_error(move |report| {
        sender.send(report.attempt).unwrap();
        Control::Continue
    }));
    for version in ["2", "3", "4"] {
        server.watch().await.refuse(Failure::transport("reset"));
        let stream = server.watch().await.open();
        stream.send(vec![added("a", version)]);
        assert_eq!(event(&mut items).await, format!("ADDED ns/a at version {version}"));
        stream.fail(Failure::transport("reset"));
        let seen = [in_time(attempts.recv()).await, in_time(attempts.recv()).await];
        // The refusal before the event is the second one of its row, but for the first.
        assert_eq!(seen, if version == "2" { [Some(1), Some(1)] } else { [Some(2), Some(1)] });
    }
}
