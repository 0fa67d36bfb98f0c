//! Scenarios of client-go's own tests, in virtual time.

use std::{sync::mpsc, time::Duration};

use reflector::{
    Cache, Change, Policy, Reflector, ResourceVersion, Store, StoreError,
    protocol::{Failure, History},
    store::WhenFull,
    wire::WatchEvent,
};

use crate::{common::*, support::*};

/// client-go: CloseWatchChannelOnError, HandleWatchResultChanClosedAfter.
#[tokio::test(start_paused = true)]
async fn an_error_in_the_stream_closes_it() {
    let (letters, mut server, stream) = synced(&[object("a", "u1", "5")], "7").await;
    stream.send(vec![error(500, "InternalError")]);
    stream.closed().await;
    assert_eq!(server.watch().await.options.version, ResourceVersion::new("7"), "it goes on where it was");
    letters.stop().await;
}

/// client-go: ListAndWatchWithErrors. Whatever happens in between, after each list the copy is that list.
#[tokio::test(start_paused = true)]
async fn each_list_is_what_there_is_whatever_failed_before() {
    let (source, mut server) = scripted();
    let letters = Reflector::builder(source).streaming(false).seed(1).start();
    let a = |version| object("a", "u1", version);
    let b = |version| object("b", "u2", version);
    let gone = || refused(410, "Expired", "too old");
    // The list, as of a version, and what fails first.
    let cycles = [
        (vec![], "1", None),
        (vec![a("3")], "4", Some(Failure::transport("reset"))),
        (vec![a("3"), b("12")], "13", None),
        (vec![b("12")], "22", Some(refused(500, "InternalError", "out of order"))),
        (vec![a("31")], "34", Some(refused(429, "TooManyRequests", "later"))),
        (vec![], "45", Some(Failure::malformed("no list"))),
    ];
    for (objects, version, failure) in cycles {
        let mut list = server.list().await;
        if let Some(failure) = failure {
            list.refuse(failure);
            list = server.list().await;
        }
        list.page(&objects, version, None);
        until_version(&letters, version).await;
        let expected: Vec<_> = objects.iter().map(short).collect();
        assert_eq!(content(letters.cache()), expected.join(" "));
        // Refused at first, then two events, and then the history is gone.
        server.watch().await.refuse(refused(500, "InternalError", "out of order"));
        let watch = server.watch().await;
        assert_eq!(watch.options.version, ResourceVersion::new(version));
        let later = (version.parse::<u64>().unwrap() + 1).to_string();
        let stream = watch.open();
        stream.send(vec![WatchEvent::Added(object("c", "u3", &later)), bookmark(&later)]);
        until_version(&letters, &later).await;
        assert!(content(letters.cache()).ends_with(&format!("c@{later}")));
        stream.fail(gone());
    }
    letters.stop().await;
}

/// Takes everything, and refuses a resync.
struct Unwilling {
    resyncs: mpsc::Sender<()>,
    refuses: u32,
}

impl Store<Json> for Unwilling {
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
        self.resyncs.send(()).ok();
        self.refuses -= 1;
        if self.refuses == 0 { Err(StoreError::new("not again")) } else { Ok(()) }
    }
}

/// client-go: ReflectorResync. There the cycle ends silently at the second call; here it is said, and read anew.
#[tokio::test(start_paused = true)]
async fn a_resync_that_fails_is_reported_and_leads_to_a_new_read() {
    let (source, mut server) = scripted();
    let (resyncs, called) = mpsc::channel();
    let letters = Reflector::builder(source)
        .resync_every(Duration::from_secs(10))
        .start_with(Unwilling { resyncs, refuses: 2 });
    let _stream = server.sync(&[], "7").await;
    letters.ready().await.unwrap();
    let again = server.watch().await;
    assert_eq!(again.options.send_initial_events, Some(true));
    assert_eq!(called.try_iter().count(), 2);
    assert!(letters.status().last_error.unwrap().to_string().contains("not again"));
    letters.stop().await;
}

/// client-go: ReplacesStoreOnUnsafeDelete. An object that etcd cannot read any more is deleted by force, and its watch
/// gets an error instead of its last state.
#[tokio::test(start_paused = true)]
async fn what_the_server_cannot_read_is_dropped_by_the_next_read() {
    let (letters, mut server, stream) =
        synced(&[object("a", "u1", "5"), object("corrupt", "u2", "6")], "7").await;
    let held = letters.cache().get(Some("ns"), "a").unwrap();
    let mut all = letters.cache().subscribe();
    assert_eq!(told(&mut all), "=a@5 =corrupt@6 synced");
    stream.send(vec![error(500, "StoreReadError")]);
    let _stream = server.sync(&[object("a", "u1", "5")], "9").await;
    until_version(&letters, "9").await;
    assert_eq!(told(&mut all), "-corrupt@6?");
    assert!(letters.cache().get(Some("ns"), "a").unwrap().ptr_eq(&held));
    letters.stop().await;
}

/// client-go: WatchList/1.
#[tokio::test(start_paused = true)]
async fn nothing_is_shown_of_a_state_whose_end_did_not_come() {
    let (source, mut server) = scripted();
    let letters = Reflector::builder(source).start();
    let mut all = letters.cache().subscribe();
    let stream = server.watch().await.open();
    stream.send(vec![WatchEvent::Added(object("a", "u1", "5"))]);
    letters.handle().watch_status().wait_for(|status| status.last_contact.is_some()).await.unwrap();
    let cache = letters.stop().await;
    assert!(server.try_next().is_none(), "one request was enough");
    assert_eq!((content(&cache), told(&mut all)), (String::new(), String::new()));
}

/// client-go: StoreResourceVersion; and ReflectorWatchHandler, whose last version goes down with a lower event (K8).
#[tokio::test(start_paused = true)]
async fn the_copy_is_as_new_as_the_last_event() {
    let (letters, _server, stream) = synced(&[object("a", "u1", "5")], "7").await;
    let cache = letters.cache().clone();
    let here = || format!("{} as of {}", content(&cache), cache.version().unwrap());
    assert_eq!(here(), "a@5 as of 7");
    let events = [
        (WatchEvent::Modified(object("a", "u1", "8")), "8", "a@8 as of 8"),
        (WatchEvent::Added(object("b", "u2", "9")), "9", "a@8 b@9 as of 9"),
        (WatchEvent::Deleted(object("a", "u1", "11")), "11", "b@9 as of 11"),
        (bookmark("30"), "30", "b@9 as of 30"),
    ];
    for (event, version, expected) in events {
        stream.send(vec![event]);
        until_version(&letters, version).await;
        assert_eq!(here(), expected);
    }
    letters.stop().await;
}

/// client-go: ThreadSafeStoreRV.
#[test]
fn the_version_of_a_cache_moves_with_what_is_put_into_it() {
    let (cache, mut writer) = Cache::<Json>::new();
    let rv = |version: &str| ResourceVersion::new(version);
    assert_eq!(cache.version(), None);
    let mut apply = |changes: Vec<Change<Json>>, version: &str| {
        writer.apply(changes, rv(version).as_ref()).unwrap();
        cache.version()
    };
    let put = |name, version| Change::Upsert(object(name, name, version));
    assert_eq!(apply(vec![put("a", "1")], "1"), rv("1"));
    assert_eq!(apply(vec![put("a", "1")], "1"), rv("1"));
    assert_eq!(apply(vec![put("a", "5")], "5"), rv("5"));
    assert_eq!(apply(vec![Change::Delete(object("a", "a", "6"))], "6"), rv("6"));
    assert_eq!(apply(vec![put("a", "7"), put("b", "8"), put("c", "9")], "9"), rv("9"));
    writer.begin_replace(History::Same);
    writer.stage(vec![put("d", "3")]).unwrap();
    assert_eq!(cache.version(), rv("9"));
    writer.commit_replace(rv("20").as_ref()).unwrap();
    assert_eq!(cache.version(), rv("20"));
}

/// client-go: OrdersEvents, RealFIFO_basic, RealFIFO_detectLineJumpers, RealFIFO_addUpdate.
#[test]
fn a_thousand_changes_come_one_by_one_in_their_order() {
    let (cache, mut writer) = Cache::<Json>::new();
    writer.begin_replace(History::Same);
    writer.commit_replace(None).unwrap();
    let policy = Policy::Every { bound: 10_000, when_full: WhenFull::End };
    let mut all = cache.subscription().policy(policy).subscribe();
    assert_eq!(told(&mut all), "synced");
    let mut expected = Vec::new();
    for version in 10..1_010_u32 {
        let (name, version) = (format!("o{}", version % 7), version.to_string());
        let held = cache.get(Some("ns"), &name);
        let new = object(&name, &name, &version);
        expected.push(match &held {
            Some(old) => format!("{}>{}", short(old), short(&new)),
            None => format!("+{}", short(&new)),
        });
        writer.apply(vec![Change::Upsert(new)], None).unwrap();
    }
    assert_eq!(told(&mut all), expected.join(" "));
}

/// client-go: ReadsDoNotCallPush.
#[test]
fn reading_tells_nobody_anything() {
    let (cache, mut writer) = Cache::<Json>::new();
    writer.begin_replace(History::Same);
    writer.stage(vec![Change::Upsert(object("a", "u1", "1"))]).unwrap();
    writer.commit_replace(None).unwrap();
    let mut all = cache.subscribe();
    assert_eq!(told(&mut all), "=a@1 synced");
    assert!(cache.get(Some("ns"), "a").is_some());
    assert_eq!((cache.list().len(), cache.snapshot().len()), (1, 1));
    assert_eq!(told(&mut all), "");
}
