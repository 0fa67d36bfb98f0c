//! The reflector as a whole, against a source that the test answers, in virtual time.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::{sync::mpsc, time::Duration};

use reflector::{
    Change, Control, NotReady, Reflector, ResourceVersion, Store, StoreError,
    protocol::{Class, Failure, History, Phase, Status},
    source::ListPart,
    wire::{ListItem, ListMeta, WatchEvent},
};
use support::*;
use tokio::time::Instant;

/// Waits until the status shows something.
async fn until<K: Send + 'static>(reflector: &Reflector<K>, what: impl FnMut(&Status) -> bool) -> Status {
    let mut status = reflector.handle().watch_status();
    status.wait_for(what).await.expect("the reflector has ended").clone()
}

#[tokio::test(start_paused = true)]
async fn the_state_is_streamed_and_the_same_stream_goes_on() {
    let (source, mut server) = scripted();
    let letters = Reflector::builder(source).labels("app=a").start();
    let watch = server.watch().await;
    assert_eq!(watch.options.send_initial_events, Some(true));
    assert_eq!(watch.options.version, None);
    assert_eq!(watch.options.selection.labels.as_deref(), Some("app=a"));
    let stream = watch.open();
    stream.send(vec![WatchEvent::Added(object("b", "u2", "9")), WatchEvent::Added(object("a", "u1", "5"))]);
    stream.send(vec![WatchEvent::Deleted(object("b", "u2", "11"))]);
    until(&letters, |status| status.last_contact.is_some()).await;
    assert!(letters.cache().is_empty(), "nothing is shown before the end of the initial events");
    // The bookmark and the first change in one piece: the change must not be lost, nor come too early.
    stream.send(vec![end_bookmark("12"), WatchEvent::Modified(object("a", "u1", "13"))]);
    letters.ready().await.unwrap();
    until(&letters, |status| status.version == ResourceVersion::new("13")).await;
    assert_eq!(content(letters.cache()), "a@13");
    assert!(server.try_next().is_none(), "no second request");
    letters.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_refused_stream_becomes_a_list_of_pages_and_a_watch() {
    let (source, mut server) = scripted();
    let letters = Reflector::builder(source).page_size(1).start();
    server.watch().await.refuse(refused(422, "Invalid", "no sendInitialEvents here"));
    let page = server.list().await;
    assert_eq!(page.options.limit, Some(1));
    page.page(&[object("a", "u1", "5")], "7", Some("more"));
    let page = server.list().await;
    assert_eq!(page.options.continue_token.as_deref(), Some("more"));
    assert_eq!(page.options.version, None);
    assert!(letters.cache().is_empty());
    page.page(&[object("b", "u2", "6")], "7", None);
    let watch = server.watch().await;
    assert_eq!(watch.options.version, ResourceVersion::new("7"));
    assert_eq!(watch.options.send_initial_events, None);
    assert_eq!(content(letters.cache()), "a@5 b@6");
    assert!(format!("{:?}", letters.status().streaming).contains("no sendInitialEvents here"));
    letters.stop().await;
}

/// fabric8 (C23) takes any bookmark for the end of the list.
#[tokio::test(start_paused = true)]
async fn c23_a_plain_bookmark_does_not_end_the_list() {
    let (source, mut server) = scripted();
    let letters = Reflector::builder(source).start();
    let stream = server.watch().await.open();
    stream.send(vec![WatchEvent::Added(object("a", "u1", "5")), bookmark("6")]);
    stream.send(vec![WatchEvent::Added(object("b", "u2", "4"))]);
    until(&letters, |status| status.last_contact.is_some()).await;
    assert!(!letters.status().synced && letters.cache().is_empty());
    stream.send(vec![end_bookmark("7")]);
    letters.ready().await.unwrap();
    assert_eq!(content(letters.cache()), "a@5 b@4");
    letters.stop().await;
}

/// K4: one bad item of a list is its own error and nobody else's.
#[tokio::test(start_paused = true)]
async fn k4_an_object_without_a_name_does_not_stop_a_list() {
    let (source, mut server) = scripted();
    let letters = Reflector::builder(source).streaming(false).start();
    let bad = reflector::Object::<Json>::from_json(r#"{"metadata":{"uid":"u"}}"#).unwrap_err();
    let mut end = ListMeta::default();
    end.version = ResourceVersion::new("7");
    server.list().await.parts(vec![
        Ok(ListPart::Items(vec![ListItem::Invalid(bad), ListItem::Object(object("a", "u1", "5"))])),
        Ok(ListPart::End(end)),
    ]);
    letters.ready().await.unwrap();
    assert_eq!(content(letters.cache()), "a@5");
    assert_eq!(letters.status().counts.invalid, 1);
    letters.stop().await;
}

/// K3: the key and the version of an undecodable event are kept, and the error tells the object and the path.
#[tokio::test(start_paused = true)]
async fn k3_an_object_that_does_not_fit_its_type_is_its_own_error() {
    #[derive(serde::Deserialize, Debug)]
    #[expect(dead_code, reason = "only decoded")]
    struct Pod {
        spec: Spec,
    }
    #[derive(serde::Deserialize, Debug)]
    #[expect(dead_code, reason = "only decoded")]
    struct Spec {
        replicas: u32,
    }
    let bad = r#"{"metadata":{"namespace":"ns","name":"a","uid":"u1","resourceVersion":"9"},"spec":{"replicas":"x"}}"#;
    let object = reflector::Object::<Pod>::from_json(bad).unwrap();
    assert_eq!(object.key().to_string(), "ns/a");
    let error = object.get().unwrap_err();
    assert_eq!(error.path, "spec.replicas");
    assert!(error.to_string().starts_with("ns/a: does not fit"), "{error}");
}

/// A list that breaks in the middle leaves no trace (B1), and is asked for again.
#[tokio::test(start_paused = true)]
async fn b1_a_list_that_breaks_leaves_no_trace() {
    let (source, mut server) = scripted();
    let letters = Reflector::builder(source).streaming(false).start();
    server.list().await.parts(vec![
        Ok(ListPart::Items(vec![ListItem::Object(object("ghost", "u9", "3"))])),
        Err(Failure::transport("reset")),
    ]);
    server.list().await.page(&[object("a", "u1", "5")], "7", None);
    letters.ready().await.unwrap();
    assert_eq!(content(letters.cache()), "a@5");
    letters.stop().await;
}

/// A stream of parts that ends without its metadata is no list.
#[tokio::test(start_paused = true)]
async fn a_list_without_an_end_is_not_believed() {
    let (source, mut server) = scripted();
    let letters = Reflector::builder(source).streaming(false).start();
    server.list().await.parts(vec![Ok(ListPart::Items(vec![ListItem::Object(object("a", "u1", "5"))]))]);
    let status = until(&letters, |status| status.last_error.is_some()).await;
    assert_eq!(status.last_error.unwrap().class, Class::Malformed);
    assert!(letters.cache().is_empty());
    letters.stop().await;
}

/// controller-runtime#1653: what stands in the way is told by name, and not only as a timeout.
#[tokio::test(start_paused = true)]
async fn ready_tells_what_stands_in_the_way_and_goes_on() {
    let (source, mut server) = scripted();
    let letters = Reflector::builder(source).start();
    let message = "letters is forbidden: User \"u\" cannot watch resource \"letters\"";
    server.watch().await.refuse(refused(403, "Forbidden", message));
    let Err(NotReady::Blocked(cause)) = letters.ready().await else { panic!("not blocked") };
    assert_eq!(cause.class, Class::Forbidden);
    assert_eq!(cause.to_string(), format!("cannot watch letters in namespace ns: 403 Forbidden: {message}"));
    // The permission is granted: nobody has to do anything here.
    server.sync(&[object("a", "u1", "5")], "7").await;
    letters.synced().await.unwrap();
    letters.ready().await.unwrap();
    letters.stop().await;
}

/// krustlet#187 and many others: a token that was rotated.
#[tokio::test(start_paused = true)]
async fn a_401_is_answered_with_fresh_credentials_at_once() {
    let (source, mut server) = scripted();
    let letters = Reflector::builder(source).start();
    let began = Instant::now();
    server.watch().await.refuse(refused(401, "Unauthorized", "Unauthorized"));
    assert!(matches!(server.next().await, Request::Refresh));
    let watch = server.watch().await;
    assert_eq!(began.elapsed(), Duration::ZERO);
    watch.refuse(refused(401, "Unauthorized", "Unauthorized"));
    assert!(matches!(letters.ready().await, Err(NotReady::Blocked(_))));
    // The next try is not at once any more, and again with fresh credentials: they may have been rotated by then.
    assert!(matches!(server.next().await, Request::Refresh));
    server.sync(&[], "7").await;
    assert!(began.elapsed() >= Duration::from_millis(800));
    letters.synced().await.unwrap();
    letters.stop().await;
}

/// fabric8#7164: the error handler sees how often and how long, and may end it.
#[tokio::test(start_paused = true)]
async fn the_error_handler_may_stop_the_reflector() {
    let (source, mut server) = scripted();
    let (sender, seen) = mpsc::channel();
    let letters = Reflector::builder(source)
        .on_error(move |report| {
            sender.send((report.attempt, report.elapsed)).ok();
            if report.attempt == 3 { Control::Stop } else { Control::Continue }
        })
        .start();
    for _ in 0..3 {
        server.watch().await.refuse(Failure::transport("no route to host"));
    }
    let Err(NotReady::Stopped(Some(last))) = letters.ready().await else { panic!("still running") };
    assert!(last.to_string().contains("no route to host"), "{last}");
    let seen: Vec<_> = seen.try_iter().collect();
    assert_eq!(seen.iter().map(|(attempt, _)| *attempt).collect::<Vec<_>>(), [1, 2, 3]);
    assert!(seen[2].1 >= Duration::from_millis(2400), "{seen:?}");
    letters.stop().await;
}

/// A watch that has fallen silent is checked, opened a second time, and only then given up; what comes on the new one
/// counts.
#[tokio::test(start_paused = true)]
async fn a_silent_watch_is_opened_again_before_it_is_closed() {
    let (source, mut server) = scripted();
    let letters = Reflector::builder(source).start();
    let first = server.sync(&[object("a", "u1", "5")], "7").await;
    letters.ready().await.unwrap();
    let check = server.list().await;
    assert_eq!(check.options.limit, Some(1));
    check.page(&[object("a", "u1", "5")], "8", Some("rest"));
    let again = server.watch().await;
    assert_eq!(again.options.version, ResourceVersion::new("7"));
    let second = again.open();
    first.closed().await;
    second.send(vec![WatchEvent::Modified(object("a", "u1", "9"))]);
    until(&letters, |status| status.version == ResourceVersion::new("9")).await;
    assert_eq!(content(letters.cache()), "a@9");
    letters.stop().await;
}

/// kubernetes#107457: etcd was restored, and the server says nothing until it has passed our version again.
#[tokio::test(start_paused = true)]
async fn a_collection_that_went_back_in_time_is_read_anew() {
    let (source, mut server) = scripted();
    let letters = Reflector::builder(source).start();
    let _silent = server.sync(&[object("a", "u1", "500"), object("b", "u2", "400")], "500").await;
    letters.ready().await.unwrap();
    server.list().await.page(&[], "320", None);
    let watch = server.watch().await;
    assert_eq!(watch.options.version, None);
    let stream = watch.open();
    stream.send(vec![WatchEvent::Added(object("a", "u1", "300")), end_bookmark("321")]);
    until(&letters, |status| status.version == ResourceVersion::new("321")).await;
    assert_eq!(content(letters.cache()), "a@300");
    letters.stop().await;
}

#[tokio::test(start_paused = true)]
async fn staleness_grows_from_the_last_proof() {
    let (source, mut server) = scripted();
    let letters = Reflector::builder(source).start();
    assert_eq!(letters.staleness(), None);
    let stream = server.sync(&[], "7").await;
    letters.ready().await.unwrap();
    tokio::time::sleep(Duration::from_secs(40)).await;
    assert_eq!(letters.staleness(), Some(Duration::from_secs(40)));
    stream.send(vec![bookmark("9")]);
    until(&letters, |status| status.version == ResourceVersion::new("9")).await;
    assert_eq!(letters.staleness(), Some(Duration::ZERO));
    assert_eq!(letters.cache().version(), ResourceVersion::new("9"));
    letters.stop().await;
}

/// Nothing runs after `stop`: requests and streams are dropped, at whatever point it comes.
#[tokio::test(start_paused = true)]
async fn stop_ends_everything_at_every_point() {
    // While a watch is being opened.
    let (source, mut server) = scripted();
    let letters = Reflector::builder(source).start();
    let watch = server.watch().await;
    letters.stop().await;
    watch.given_up().await;

    // While a list is under way.
    let (source, mut server) = scripted();
    let letters = Reflector::builder(source).streaming(false).start();
    let list = server.list().await;
    letters.stop().await;
    list.given_up().await;

    // While a watch is open.
    let (source, mut server) = scripted();
    let letters = Reflector::builder(source).start();
    let stream = server.sync(&[object("a", "u1", "5")], "7").await;
    letters.ready().await.unwrap();
    let cache = letters.stop().await;
    stream.closed().await;
    assert_eq!(content(&cache), "a@5");

    // While it waits after a failure.
    let (source, mut server) = scripted();
    let letters = Reflector::builder(source).start();
    server.watch().await.refuse(Failure::transport("reset"));
    until(&letters, |status| matches!(status.phase, Phase::Waiting { .. })).await;
    letters.stop().await;
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert!(server.try_next().is_none(), "a request was made after the stop");
}

#[tokio::test(start_paused = true)]
async fn dropping_the_reflector_ends_its_task() {
    let (source, mut server) = scripted();
    let letters = Reflector::builder(source).start();
    let stream = server.sync(&[], "7").await;
    letters.ready().await.unwrap();
    drop(letters);
    stream.closed().await;
}

/// RF-42: client-go logs a failed write and forgets it. Here the copy is made anew.
#[tokio::test(start_paused = true)]
async fn rf_42_a_change_that_the_store_refuses_is_not_forgotten() {
    struct Picky {
        refusals: u32,
        log: mpsc::Sender<String>,
    }
    impl Store<Json> for Picky {
        fn apply(
            &mut self,
            changes: Vec<Change<Json>>,
            _: Option<&ResourceVersion>,
        ) -> Result<(), StoreError> {
            if self.refusals > 0 {
                self.refusals -= 1;
                return Err(StoreError::new("disk full"));
            }
            self.log.send(format!("apply {}", changes.len())).ok();
            Ok(())
        }
        fn begin_replace(&mut self, _: History) {
            self.log.send("begin".to_owned()).ok();
        }
        fn stage(&mut self, _: Vec<Change<Json>>) -> Result<(), StoreError> {
            Ok(())
        }
        fn commit_replace(&mut self, _: Option<&ResourceVersion>) -> Result<(), StoreError> {
            self.log.send("commit".to_owned()).ok();
            Ok(())
        }
        fn abandon_replace(&mut self) {}
    }
    let (source, mut server) = scripted();
    let (log, logged) = mpsc::channel();
    let handle = Reflector::builder(source).start_with(Picky { refusals: 1, log });
    let stream = server.sync(&[], "7").await;
    handle.ready().await.unwrap();
    stream.send(vec![WatchEvent::Added(object("a", "u1", "9"))]);
    let again = server.watch().await;
    assert_eq!(again.options.send_initial_events, Some(true), "the collection is read anew");
    assert!(handle.status().last_error.unwrap().to_string().contains("disk full"));
    let stream = again.open();
    stream.send(vec![end_bookmark("10"), WatchEvent::Added(object("b", "u2", "11"))]);
    handle.watch_status().wait_for(|s| s.version == ResourceVersion::new("11")).await.unwrap();
    assert_eq!(logged.try_iter().collect::<Vec<_>>(), ["begin", "commit", "begin", "commit", "apply 1"]);
    handle.stop().await;
}

#[tokio::test(start_paused = true)]
async fn resync_follows_its_period_and_its_predicate() {
    struct Counting(mpsc::Sender<()>);
    impl Store<Json> for Counting {
        fn apply(&mut self, _: Vec<Change<Json>>, _: Option<&ResourceVersion>) -> Result<(), StoreError> {
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
        fn resync(&mut self) -> Result<(), StoreError> {
            self.0.send(()).ok();
            Ok(())
        }
    }
    let (source, mut server) = scripted();
    let (sender, resyncs) = mpsc::channel();
    let mut asked = 0;
    let handle = Reflector::builder(source)
        .resync_every(Duration::from_secs(10))
        .resync_if(move || {
            asked += 1;
            asked % 2 == 0
        })
        .start_with(Counting(sender));
    let _stream = server.sync(&[], "7").await;
    handle.ready().await.unwrap();
    tokio::time::sleep(Duration::from_secs(45)).await;
    assert_eq!(resyncs.try_iter().count(), 2);
    handle.stop().await;
}

/// stackabletech/trino-operator#936, radar#477: seven reflectors, one of which never works; the others do not notice.
#[tokio::test(start_paused = true)]
async fn one_failing_reflector_blocks_no_other() {
    let (source, mut broken) = scripted();
    let failing = Reflector::builder(source).start();
    let mut working = Vec::new();
    for _ in 0..6 {
        let (source, mut server) = scripted();
        let letters = Reflector::builder(source).start();
        let stream = server.sync(&[object("a", "u1", "5")], "7").await;
        letters.ready().await.unwrap();
        working.push((letters, stream));
    }
    for _ in 0..5 {
        broken.watch().await.refuse(Failure::transport("deadline has elapsed"));
    }
    for (letters, stream) in &working {
        stream.send(vec![WatchEvent::Modified(object("a", "u1", "8"))]);
        until(letters, |status| status.version == ResourceVersion::new("8")).await;
    }
    assert!(!failing.status().synced);
    for (letters, _stream) in working {
        letters.stop().await;
    }
    failing.stop().await;
}

/// kube#1316: quick restarts.
#[tokio::test(start_paused = true)]
async fn a_hundred_starts_and_stops_leave_nothing() {
    for _ in 0..100 {
        let (source, mut server) = scripted();
        let letters = Reflector::builder(source).start();
        let stream = server.sync(&[object("a", "u1", "5")], "7").await;
        letters.ready().await.unwrap();
        letters.stop().await;
        stream.closed().await;
    }
    let alive = tokio::runtime::Handle::current().metrics().num_alive_tasks();
    assert_eq!(alive, 0, "tasks are left");
}
