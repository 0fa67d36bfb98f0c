//! Waiting for versions, for a condition on one object, and for events, in virtual time.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::{convert::Infallible, future::Future, pin::pin, time::Duration};

use futures::{FutureExt, poll};
use reflector::{
    Cache, Change, Event, Object, ResourceVersion, Store, WaitError,
    condition::{Precondition, Unmet, until_with_sync},
    protocol::History,
    store::{CacheWriter, Snapshot},
};
use support::{Json, content, object};

const SOON: Duration = Duration::from_secs(5);

fn rv(text: &str) -> ResourceVersion {
    ResourceVersion::new(text).unwrap()
}

fn put(writer: &mut CacheWriter<Json>, name: &str, uid: &str, version: &str) {
    writer.apply(vec![Change::Upsert(object(name, uid, version))], Some(&rv(version))).unwrap();
}

fn delete(writer: &mut CacheWriter<Json>, name: &str, uid: &str, version: &str) {
    writer.apply(vec![Change::Delete(object(name, uid, version))], Some(&rv(version))).unwrap();
}

fn replace(writer: &mut CacheWriter<Json>, objects: &[(&str, &str, &str)], version: &str) {
    writer.begin_replace(History::Same);
    let staged = objects.iter().map(|(name, uid, rv)| Change::Upsert(object(name, uid, rv)));
    writer.stage(staged.collect()).unwrap();
    writer.commit_replace(Some(&rv(version))).unwrap();
}

/// Whether the future still waits.
async fn waits<F: Future>(future: std::pin::Pin<&mut F>) -> bool {
    poll!(future).is_pending()
}

mod versions {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_version_is_waited_for_and_what_it_brought_is_there() {
        let (cache, mut writer) = Cache::new();
        let seven = rv("7");
        let mut wait = pin!(cache.wait_for(&seven));
        assert!(waits(wait.as_mut()).await, "nothing is there");
        put(&mut writer, "a", "u1", "6");
        assert!(waits(wait.as_mut()).await);
        put(&mut writer, "a", "u1", "10");
        let snapshot = wait.await.unwrap();
        assert_eq!(snapshot.version(), Some(&rv("10")));
        assert_eq!(content(&cache), "a@10");
        // What is reached already, and by a bookmark.
        assert!(cache.wait_for(&rv("10")).now_or_never().unwrap().is_ok());
        let eleven = rv("11");
        let mut wait = pin!(cache.wait_for(&eleven));
        assert!(waits(wait.as_mut()).await);
        writer.bookmark(&rv("11"));
        wait.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_version_that_comes_before_the_first_poll_is_not_missed() {
        let (cache, mut writer) = Cache::<Json>::new();
        let one = rv("1");
        let wait = cache.wait_for(&one);
        writer.bookmark(&rv("1"));
        assert!(wait.now_or_never().unwrap().is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn opaque_versions_are_refused_at_once_and_any_is_reached_at_once() {
        let (cache, mut writer) = Cache::<Json>::new();
        let refused = |version: &str| {
            let version = rv(version);
            let error = cache.wait_for(&version).now_or_never().unwrap().unwrap_err();
            assert_eq!(error, WaitError::Opaque { version });
        };
        refused("x");
        refused("007");
        assert!(cache.wait_for(&rv("0")).now_or_never().is_none(), "nothing is no state");
        writer.begin_replace(History::Same);
        writer.commit_replace(None).unwrap();
        assert!(cache.wait_for(&rv("0")).now_or_never().unwrap().is_ok());
        // A server that gives "0" says nothing; one that gives text cannot be waited for.
        writer.bookmark(&rv("0"));
        assert!(cache.wait_for(&rv("7")).now_or_never().is_none());
        writer.bookmark(&rv("x-9"));
        let error = cache.wait_for(&rv("7")).now_or_never().unwrap().unwrap_err();
        assert_eq!(error, WaitError::Opaque { version: rv("x-9") });
    }

    #[tokio::test(start_paused = true)]
    async fn the_end_and_the_deadline_tell_how_far_the_copy_is() {
        let (cache, mut writer) = Cache::<Json>::new();
        let late = cache.wait_for_within(&rv("7"), SOON).await.unwrap_err();
        assert_eq!(late, WaitError::Deadline { version: rv("7"), reached: None, limit: SOON });
        writer.bookmark(&rv("5"));
        let late = cache.wait_for_within(&rv("7"), SOON).await.unwrap_err();
        assert_eq!(late.to_string(), "version 7 did not come within 5s; the copy is at version 5");
        let seven = rv("7");
        let mut wait = pin!(cache.wait_for(&seven));
        assert!(waits(wait.as_mut()).await && !cache.is_stopped());
        drop(writer);
        let stopped = WaitError::Stopped { version: rv("7"), reached: Some(rv("5")) };
        assert_eq!(wait.await.unwrap_err(), stopped);
        assert_eq!(cache.wait_for(&seven).await.unwrap_err(), stopped, "and afterwards");
        assert!(cache.is_stopped());
        assert!(cache.wait_for(&rv("5")).await.is_ok(), "what is there is there");
    }

    #[tokio::test(start_paused = true)]
    async fn a_namespace_is_waited_for_by_itself_and_all_of_them_for_the_whole() {
        let (cache, writers) = Cache::<Json>::by_namespace();
        let (mut a, mut b) = (writers.writer("a"), writers.writer("b"));
        a.bookmark(&rv("9"));
        b.bookmark(&rv("5"));
        assert!(cache.wait_for_in("a", &rv("9")).await.is_ok());
        let eight = rv("8");
        let mut whole = pin!(cache.wait_for(&eight));
        assert!(waits(whole.as_mut()).await);
        let late = cache.wait_for_in_within("b", &eight, SOON).await.unwrap_err();
        assert!(matches!(late, WaitError::Deadline { reached: Some(at), .. } if at == rv("5")));
        let absent = cache.wait_for_in_within("c", &eight, SOON).await.unwrap_err();
        assert!(matches!(absent, WaitError::Deadline { reached: None, .. }));
        b.bookmark(&rv("8"));
        whole.await.unwrap();
        assert!(cache.wait_for_in_within("b", &eight, SOON).await.is_ok());
    }

    #[tokio::test]
    async fn no_wake_up_is_lost_between_threads() {
        let (cache, mut writer) = Cache::<Json>::new();
        let writing = std::thread::spawn(move || {
            (1..=20_000).for_each(|i| writer.bookmark(&rv(&i.to_string())));
            writer
        });
        let waiting = async {
            for i in 1..=20_000 {
                cache.wait_for(&rv(&i.to_string())).await.unwrap();
            }
        };
        tokio::time::timeout(Duration::from_secs(30), waiting).await.expect("a wake-up was lost");
        writing.join().unwrap();
    }
}

mod one_object {
    use super::*;

    fn at(version: &str) -> impl FnMut(Option<&Object<Json>>) -> Result<bool, Infallible> {
        move |object| {
            Ok(object.is_some_and(|object| object.version() == ResourceVersion::new(version).as_ref()))
        }
    }

    fn gone(object: Option<&Object<Json>>) -> Result<bool, Infallible> {
        Ok(object.is_none())
    }

    #[tokio::test(start_paused = true)]
    async fn the_present_state_is_looked_at_first_and_then_every_change() {
        let (cache, mut writer) = Cache::new();
        put(&mut writer, "a", "u1", "5");
        let met = cache.wait_until(Some("ns"), "a", at("5")).now_or_never().unwrap().unwrap();
        assert_eq!(met.unwrap().version(), Some(&rv("5")));
        let asked = std::cell::RefCell::new(Vec::new());
        let mut seven = at("7");
        let mut wait = pin!(cache.wait_until(Some("ns"), "a", |object| {
            asked.borrow_mut().push(object.map(|o| o.version().unwrap().to_string()));
            seven(object)
        }));
        assert!(waits(wait.as_mut()).await);
        put(&mut writer, "b", "u2", "6");
        assert!(waits(wait.as_mut()).await);
        put(&mut writer, "a", "u1", "7");
        assert_eq!(wait.await.unwrap().unwrap().version(), Some(&rv("7")));
        assert_eq!(*asked.borrow(), [Some("5".to_owned()), Some("7".to_owned())], "nothing is asked twice");
    }

    /// E42 (kube#1576): a watch of an object that is not there says nothing, for ever.
    #[tokio::test(start_paused = true)]
    async fn e42_absence_counts_once_the_collection_is_known() {
        let (cache, mut writer) = Cache::new();
        let mut wait = pin!(cache.wait_until(Some("ns"), "a", gone));
        assert!(waits(wait.as_mut()).await, "before the first list nobody knows");
        replace(&mut writer, &[("b", "u2", "5")], "9");
        assert!(wait.await.unwrap().is_none());
        assert!(cache.wait_until(Some("ns"), "a", gone).await.unwrap().is_none());
        // And where absence is not what is waited for, the error tells that it is what there was.
        let late = cache.wait_until_within(Some("ns"), "a", SOON, at("9")).await.unwrap_err();
        assert!(matches!(late, Unmet::Deadline { last: Some(None), .. }));
        assert_eq!(late.to_string(), "a condition on ns/a was not met within 5s");
    }

    #[tokio::test(start_paused = true)]
    async fn the_absence_between_two_objects_of_one_name_is_seen() {
        let (cache, mut writer) = Cache::new();
        replace(&mut writer, &[("a", "u1", "5")], "5");
        let mut wait = pin!(cache.wait_until(Some("ns"), "a", gone));
        assert!(waits(wait.as_mut()).await);
        delete(&mut writer, "a", "u1", "6");
        put(&mut writer, "a", "u2", "7");
        assert!(wait.await.unwrap().is_none());
        let mut wait = pin!(cache.wait_until(Some("ns"), "a", at("9")));
        assert!(waits(wait.as_mut()).await);
        // Also after a relist, where nobody saw the deletion; the new object is asked about too.
        replace(&mut writer, &[("a", "u3", "9")], "9");
        assert_eq!(wait.await.unwrap().unwrap().uid(), "u3");
    }

    #[tokio::test(start_paused = true)]
    async fn an_end_a_failure_and_a_deadline_carry_the_last_state() {
        let (cache, mut writer) = Cache::new();
        put(&mut writer, "a", "u1", "5");
        let last = |unmet: &Unmet<Option<Object<Json>>, Infallible>| {
            unmet.last().map(|o| o.as_ref().map(|o| o.version().unwrap().to_string()))
        };
        let late = cache.wait_until_within(Some("ns"), "a", SOON, at("9")).await.unwrap_err();
        assert!(matches!(late, Unmet::Deadline { .. }));
        assert_eq!(last(&late), Some(Some("5".to_owned())));
        let unknown = cache.wait_until_within(Some("ns"), "b", SOON, gone).await.unwrap_err();
        assert_eq!(last(&unknown), None, "whether it is there was never known");
        let failed = cache
            .wait_until(Some("ns"), "a", |_| Err::<bool, _>(std::io::Error::other("cannot tell")))
            .await
            .unwrap_err();
        assert_eq!(failed.to_string(), "a condition on ns/a failed: cannot tell");
        assert!(matches!(failed.last(), Some(Some(_))));
        let mut wait = pin!(cache.wait_until(Some("ns"), "a", at("9")));
        assert!(waits(wait.as_mut()).await);
        put(&mut writer, "a", "u1", "6");
        drop(writer);
        let stopped = wait.await.unwrap_err();
        assert!(matches!(stopped, Unmet::Stopped { .. }));
        assert_eq!(last(&stopped), Some(Some("6".to_owned())), "what came last is looked at before the end");
    }
}

mod events {
    use super::*;

    type Condition = Box<dyn FnMut(&Event<Json>) -> Result<bool, std::io::Error>>;

    const NONE: Option<Precondition<Json, std::io::Error>> = None;

    fn told(is: impl Fn(&Event<Json>) -> bool + 'static) -> Condition {
        Box::new(move |event| Ok(is(event)))
    }

    fn added(name: &'static str) -> Condition {
        told(move |event| matches!(event, Event::Added { object, .. } if object.name() == name))
    }

    // client-go: UntilWithSync — no precondition + blocked list; precondition + blocked list.
    #[tokio::test(start_paused = true)]
    async fn a_list_that_does_not_come_ends_with_the_deadline() {
        let (cache, _writer) = Cache::new();
        let unmet = until_with_sync(&cache, Some(SOON), NONE, [added("a")]).await.unwrap_err();
        assert!(matches!(unmet, Unmet::Deadline { last: None, limit: SOON, .. }));
        let holds =
            Some(|_: &Snapshot<Json>| -> Result<bool, std::io::Error> { panic!("asked before the sync") });
        let unmet = until_with_sync(&cache, Some(SOON), holds, [added("a")]).await.unwrap_err();
        assert!(matches!(unmet, Unmet::Deadline { last: None, .. }));
    }

    // client-go: UntilWithSync — precondition true.
    #[tokio::test(start_paused = true)]
    async fn un_2_a_precondition_that_holds_needs_no_event() {
        let (cache, mut writer) = Cache::new();
        let holds = Some(|content: &Snapshot<Json>| Ok(content.len() == 1));
        let mut wait = pin!(until_with_sync(&cache, None, holds, [added("never")]));
        assert!(waits(wait.as_mut()).await, "the content is not known");
        replace(&mut writer, &[("a", "u1", "5")], "9");
        assert!(wait.await.unwrap().is_none());
        assert_eq!(cache.subscribers(), 0);
    }

    // client-go: UntilWithSync — precondition false then condition.
    #[tokio::test(start_paused = true)]
    async fn a_precondition_that_does_not_hold_leaves_it_to_the_events() {
        let (cache, mut writer) = Cache::new();
        replace(&mut writer, &[("a", "u1", "5")], "9");
        let holds = || Some(|content: &Snapshot<Json>| Ok(content.is_empty()));
        let event = until_with_sync(&cache, None, holds(), [added("a")]).await.unwrap().unwrap();
        assert!(matches!(event, Event::Added { initial: true, .. }), "what is there is told first");
        let mut wait = pin!(until_with_sync(&cache, None, holds(), [added("b")]));
        assert!(waits(wait.as_mut()).await);
        put(&mut writer, "b", "u2", "10");
        assert!(matches!(wait.await.unwrap(), Some(Event::Added { initial: false, .. })));
        assert!(until_with_sync(&cache, None, NONE, [] as [Condition; 0]).await.unwrap().is_none());
    }

    // client-go: UntilMultipleConditions.
    #[tokio::test(start_paused = true)]
    async fn un_1_one_event_may_meet_several_conditions_in_turn() {
        let (cache, mut writer) = Cache::new();
        let synced = || told(|event| matches!(event, Event::Synced));
        let deleted = || told(|event| matches!(event, Event::Deleted { .. }));
        let conditions = vec![added("a"), added("a"), synced(), deleted(), deleted()];
        let mut wait = pin!(until_with_sync(&cache, None, NONE, conditions));
        assert!(waits(wait.as_mut()).await);
        replace(&mut writer, &[("a", "u1", "5")], "9");
        assert!(waits(wait.as_mut()).await);
        delete(&mut writer, "a", "u1", "10");
        assert!(matches!(wait.await.unwrap(), Some(Event::Deleted { .. })));
    }

    // client-go: InformerWatcherDeletedFinalStateUnknown; a relist stands for what a 410 leads to.
    #[tokio::test(start_paused = true)]
    async fn what_a_relist_does_not_find_is_told_as_deleted_with_its_old_state() {
        let (cache, mut writer) = Cache::new();
        replace(&mut writer, &[("a", "u1", "5"), ("b", "u2", "6")], "9");
        let deleted = told(|event| matches!(event, Event::Deleted { .. }));
        let mut wait = pin!(until_with_sync(&cache, None, NONE, [deleted]));
        assert!(waits(wait.as_mut()).await);
        replace(&mut writer, &[("b", "u2", "6")], "20");
        let Some(Event::Deleted { last, final_state_unknown: true }) = wait.await.unwrap() else {
            panic!("another event");
        };
        assert_eq!((last.name(), last.version()), ("a", Some(&rv("5"))));
    }

    // client-go: UntilErrorCondition, UntilMultipleConditionsFail.
    #[tokio::test(start_paused = true)]
    async fn a_failure_and_an_end_carry_the_last_event() {
        let (cache, mut writer) = Cache::new();
        replace(&mut writer, &[("a", "u1", "5")], "9");
        let fails: Condition = Box::new(|_| Err(std::io::Error::other("cannot tell")));
        let unmet = until_with_sync(&cache, None, NONE, [added("a"), fails]).await.unwrap_err();
        assert!(matches!(&unmet, Unmet::Condition { error, last: Some(Event::Added { .. }), .. }
            if error.to_string() == "cannot tell"));
        let broken = Some(|_: &Snapshot<Json>| Err(std::io::Error::other("no precondition")));
        let unmet = until_with_sync(&cache, None, broken, [added("a")]).await.unwrap_err();
        assert!(matches!(unmet, Unmet::Condition { last: None, .. }));
        drop(writer);
        let unmet = until_with_sync(&cache, None, NONE, [added("b")]).await.unwrap_err();
        assert!(matches!(unmet, Unmet::Stopped { last: Some(Event::Synced), .. }), "{unmet}");
    }
}
