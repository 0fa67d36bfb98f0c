//! Subscriptions: a snapshot, then every change, without a gap and without a duplicate.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod folding;
mod namespaces;
mod random;
mod review;

use std::{
    future::poll_fn,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Poll, Wake, Waker},
};

use futures::{FutureExt, StreamExt};
use reflector::{
    Cache, Change, Event, Object, Policy, ResourceVersion, Store, Subscription,
    protocol::History,
    store::{CacheWriter, Ended, ShortLived, WhenFull},
};

type Json = serde_json::Value;

fn object(name: &str, uid: &str, version: u64) -> Object<Json> {
    tinted(name, uid, version, "")
}

/// An object with a label to filter by.
fn tinted(name: &str, uid: &str, version: u64, tint: &str) -> Object<Json> {
    let json = format!(
        r#"{{"metadata":{{"namespace":"ns","name":"{name}","uid":"{uid}","resourceVersion":"{version}",
            "labels":{{"tint":"{tint}"}}}}}}"#
    );
    Object::from_json(json).unwrap()
}

fn add(name: &str, version: u64) -> Change<Json> {
    Change::Upsert(object(name, name, version))
}

fn delete(name: &str, version: u64) -> Change<Json> {
    Change::Delete(object(name, name, version))
}

fn apply(writer: &mut CacheWriter<Json>, changes: Vec<Change<Json>>) {
    writer.apply(changes, None).unwrap();
}

fn replace(writer: &mut CacheWriter<Json>, objects: Vec<Change<Json>>) {
    writer.begin_replace(History::Same);
    writer.stage(objects).unwrap();
    writer.commit_replace(None).unwrap();
}

/// A synced cache with `a@1`.
fn synced() -> (Cache<Json>, CacheWriter<Json>) {
    let (cache, mut writer) = Cache::new();
    replace(&mut writer, vec![add("a", 1)]);
    (cache, writer)
}

/// Everything that can be had now, in one line each.
fn told(subscription: &mut Subscription<Json>) -> String {
    let mut lines = Vec::new();
    while let Some(Some(event)) = subscription.next().now_or_never() {
        lines.push(line(&event));
    }
    lines.join(" ")
}

fn line(event: &Event<Json>) -> String {
    let show = |o: &Object<Json>| format!("{}@{}", o.name(), o.version().unwrap());
    match event {
        Event::Added { object, initial: true } => format!("={}", show(object)),
        Event::Added { object, initial: false } => format!("+{}", show(object)),
        Event::Updated { old, new } => format!("{}>{}", show(old), show(new)),
        Event::Deleted { last, final_state_unknown } => {
            format!("-{}{}", show(last), if *final_state_unknown { "?" } else { "" })
        }
        Event::Synced => "synced".to_owned(),
        Event::Bookmark(version) => format!("bookmark@{version}"),
        Event::Resync(object) => format!("~{}", show(object)),
        other => format!("{other:?}"),
    }
}

#[test]
fn a_subscriber_from_the_start_sees_the_first_content_and_its_end() {
    let (cache, mut writer) = Cache::new();
    let mut all = cache.subscribe();
    assert_eq!(told(&mut all), "");
    replace(&mut writer, vec![add("b", 2), add("a", 1)]);
    assert_eq!(told(&mut all), "=a@1 =b@2 synced");
    apply(&mut writer, vec![add("c", 3), add("a", 4), delete("b", 5)]);
    assert_eq!(told(&mut all), "+c@3 a@1>a@4 -b@5");
}

#[test]
fn a_late_subscriber_sees_what_is_there_and_then_what_follows() {
    // kube#1630: no race between the snapshot and the stream.
    let (cache, mut writer) = synced();
    let mut late = cache.subscribe();
    apply(&mut writer, vec![add("b", 2), add("a", 3)]);
    assert_eq!(told(&mut late), "=a@1 synced +b@2 a@1>a@3");
    assert!(late.is_synced());
}

#[test]
fn an_empty_collection_is_synced_too() {
    let (cache, mut writer) = Cache::new();
    let mut all = cache.subscribe();
    replace(&mut writer, vec![]);
    assert_eq!(told(&mut all), "synced");
}

#[test]
fn a_relist_is_told_as_what_it_changed_deletions_first() {
    // kube#1590 (K11), bottlerocket-update-operator#106; client-go: ReplaceEvents, ResetWatch
    let (cache, mut writer) = synced();
    apply(&mut writer, vec![add("b", 2), add("c", 3)]);
    let mut all = cache.subscribe();
    told(&mut all);
    replace(
        &mut writer,
        vec![add("a", 1), Change::Upsert(object("b", "other", 7)), add("c", 8), add("d", 9)],
    );
    assert_eq!(told(&mut all), "-b@2? +b@7 c@3>c@8 +d@9");
    // kubernetes-client/java#1234: nothing for what has not changed.
    replace(
        &mut writer,
        vec![add("a", 1), Change::Upsert(object("b", "other", 7)), add("c", 8), add("d", 9)],
    );
    assert_eq!(told(&mut all), "");
}

#[test]
fn changes_that_wait_are_merged_per_object() {
    // DF-1, DF-2
    let (cache, mut writer) = synced();
    let mut slow = cache.subscribe();
    told(&mut slow);
    apply(&mut writer, vec![add("b", 2), add("a", 3), add("b", 4), add("a", 5), add("c", 6)]);
    assert_eq!(told(&mut slow), "+b@4 a@1>a@5 +c@6");
    apply(&mut writer, vec![add("a", 7), delete("a", 8), add("d", 9), delete("d", 10)]);
    assert_eq!(told(&mut slow), "-a@8", "d was never heard of");
}

/// `a@2` is a revision of `a`, `-a@3` its end, and `a'@4` another object under the same name.
fn change(text: &str) -> Change<Json> {
    let (uid, version) = text.trim_start_matches('-').split_once('@').unwrap();
    let object = object(uid.trim_end_matches('\''), uid, version.parse().unwrap());
    if text.starts_with('-') { Change::Delete(object) } else { Change::Upsert(object) }
}

#[test]
fn what_is_merged_is_what_differs_from_what_was_told() {
    // DF-1, DF-2
    let cases = [
        ("b@2 b@3", "+b@3"),
        ("b@2 -b@3", ""),
        ("b@2 -b@3 b'@4", "+b@4"),
        ("b@2 c@3 b@4", "+b@4 +c@3"),
        ("a@2 a@3", "a@1>a@3"),
        ("a@2 -a@3", "-a@3"),
        ("-a@2 a'@3", "-a@2 +a@3"),
        ("-a@2 a'@3 a'@4", "-a@2 +a@4"),
        ("-a@2 a'@3 -a'@4", "-a@2"),
        ("a@2 -a@3 a'@4 -a'@5 a''@6", "-a@3 +a@6"),
    ];
    // From the start, and from the moment when there is too much.
    for policy in [Policy::default(), Policy::Every { bound: 1, when_full: WhenFull::Merge }] {
        for (changes, expected) in cases {
            let changes: Vec<_> = changes.split(' ').map(change).collect();
            for at_once in [1, changes.len()] {
                let (cache, mut writer) = synced();
                let mut slow = cache.subscription().policy(policy).subscribe();
                told(&mut slow);
                changes.chunks(at_once).for_each(|batch| apply(&mut writer, batch.to_vec()));
                assert_eq!(told(&mut slow), expected, "{policy:?}, {at_once} at once");
            }
        }
    }
}

#[test]
fn another_uid_stays_two_events_however_they_merge() {
    // kubernetes#133565; client-go: DeltaFIFO_replaceWithDeleteDeltaIn (kubernetes#83810)
    let (cache, mut writer) = synced();
    let mut slow = cache.subscribe();
    told(&mut slow);
    let changes = vec![add("a", 2), delete("a", 3), Change::Upsert(object("a", "second", 4))];
    apply(&mut writer, changes);
    apply(&mut writer, vec![Change::Upsert(object("a", "second", 5))]);
    assert_eq!(told(&mut slow), "-a@3 +a@5");
    apply(
        &mut writer,
        vec![Change::Upsert(object("a", "third", 6)), Change::Upsert(object("a", "fourth", 7))],
    );
    assert_eq!(told(&mut slow), "-a@5? +a@7");
}

#[test]
fn short_lived_objects_are_delivered_on_demand() {
    let (cache, mut writer) = synced();
    let mut all = cache.subscription().policy(Policy::Merge(ShortLived::Deliver)).subscribe();
    told(&mut all);
    apply(&mut writer, vec![add("b", 2), add("b", 3), delete("b", 4)]);
    assert_eq!(told(&mut all), "+b@3 -b@4");
    // Of several under one name the last.
    let second = |version| object("b", "second", version);
    apply(&mut writer, vec![add("b", 5), delete("b", 6)]);
    apply(&mut writer, vec![Change::Upsert(second(7)), Change::Delete(second(8))]);
    assert_eq!(told(&mut all), "+b@7 -b@8");
}

#[test]
fn every_change_is_told_to_whom_wants_it() {
    let (cache, mut writer) = synced();
    let policy = Policy::Every { bound: 100, when_full: WhenFull::Merge };
    let mut all = cache.subscription().policy(policy).subscribe();
    told(&mut all);
    apply(&mut writer, vec![add("a", 2), add("a", 3), add("b", 4), delete("b", 5)]);
    assert_eq!(told(&mut all), "a@1>a@2 a@2>a@3 +b@4 -b@5");
}

#[test]
fn too_many_changes_are_merged_until_the_subscriber_has_caught_up() {
    let (cache, mut writer) = synced();
    let policy = Policy::Every { bound: 3, when_full: WhenFull::Merge };
    let mut slow = cache.subscription().policy(policy).subscribe();
    told(&mut slow);
    for version in 2..50 {
        apply(&mut writer, vec![add("a", version)]);
    }
    assert!(slow.lag().waiting <= 4, "{:?}", slow.lag());
    assert!(slow.lag().merged > 40);
    assert_eq!(told(&mut slow), "a@1>a@49");
    apply(&mut writer, vec![add("a", 50), add("a", 51)]);
    assert_eq!(told(&mut slow), "a@49>a@50 a@50>a@51", "and then every change again");
}

#[test]
fn or_the_subscription_ends_and_says_so() {
    let (cache, mut writer) = synced();
    let policy = Policy::Every { bound: 3, when_full: WhenFull::End };
    let mut slow = cache.subscription().policy(policy).subscribe();
    told(&mut slow);
    for version in 2..50 {
        apply(&mut writer, vec![add("a", version)]);
    }
    assert!(matches!(slow.next().now_or_never(), Some(None)));
    assert_eq!(slow.ended(), Some(Ended::Lagged));
    assert_eq!(slow.lag().waiting, 0, "what waited is freed");
}

#[test]
fn a_blocking_subscriber_holds_the_writer_until_it_has_read() {
    let (cache, mut writer) = synced();
    let mut slow = cache.subscription().policy(Policy::Block { bound: 2 }).subscribe();
    told(&mut slow);
    let woken = Arc::new(Counter::default());
    let waker = Waker::from(Arc::clone(&woken));
    let mut cx = std::task::Context::from_waker(&waker);
    assert!(writer.poll_ready(&mut cx).is_ready());
    apply(&mut writer, vec![add("a", 2), add("a", 3)]);
    assert!(writer.poll_ready(&mut cx).is_pending());
    assert!(writer.poll_ready(&mut cx).is_pending());
    assert_eq!(slow.next().now_or_never().flatten().as_ref().map(line).as_deref(), Some("a@1>a@2"));
    assert_eq!(woken.0.load(Ordering::SeqCst), 1);
    assert!(writer.poll_ready(&mut cx).is_ready());
    // One that goes lets the writer go on.
    apply(&mut writer, vec![add("a", 4), add("a", 5)]);
    assert!(writer.poll_ready(&mut cx).is_pending());
    drop(slow);
    assert_eq!(woken.0.load(Ordering::SeqCst), 2);
    assert!(writer.poll_ready(&mut cx).is_ready());
}

#[derive(Default)]
struct Counter(AtomicUsize);

impl Wake for Counter {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn filters_have_four_transitions() {
    // client-go: TypedFilteringResourceEventHandler (CT-11)
    let (cache, mut writer) = synced();
    let red = |o: &Object<Json>| o.label("tint") == Some("red");
    let mut reds = cache.subscription().filter(red).subscribe();
    assert_eq!(told(&mut reds), "synced");
    let tint = |version, tint| vec![Change::Upsert(tinted("b", "b", version, tint))];
    apply(&mut writer, tint(2, "blue"));
    apply(&mut writer, tint(3, "blue"));
    assert_eq!(told(&mut reds), "");
    apply(&mut writer, tint(4, "red"));
    assert_eq!(told(&mut reds), "+b@4");
    apply(&mut writer, tint(5, "red"));
    assert_eq!(told(&mut reds), "b@4>b@5");
    apply(&mut writer, tint(6, "blue"));
    assert_eq!(told(&mut reds), "-b@5");
    apply(&mut writer, vec![Change::Delete(tinted("b", "b", 7, "red"))]);
    assert_eq!(told(&mut reds), "", "what was not known is not deleted");
    // What was known is, whatever its last state.
    apply(&mut writer, tint(8, "red"));
    told(&mut reds);
    apply(
        &mut writer,
        vec![Change::Upsert(tinted("b", "b", 9, "blue")), Change::Delete(tinted("b", "b", 10, "blue"))],
    );
    assert_eq!(told(&mut reds), "-b@10");
}

#[test]
fn a_namespace_is_heard_alone_and_others_wake_nobody() {
    let (cache, mut writer) = Cache::new();
    let elsewhere = |version| {
        let json = format!(r#"{{"metadata":{{"namespace":"zz","name":"z","resourceVersion":"{version}"}}}}"#);
        Change::Upsert(Object::<Json>::from_json(json).unwrap())
    };
    replace(&mut writer, vec![add("a", 1), elsewhere(2)]);
    let mut ns = cache.subscription().namespace("ns").subscribe();
    let mut zz = cache.subscription().namespace("zz").subscribe();
    assert_eq!(told(&mut ns), "=a@1 synced");
    assert_eq!(told(&mut zz), "=z@2 synced");
    let woken = Arc::new(Counter::default());
    let waker = Waker::from(Arc::clone(&woken));
    let mut cx = std::task::Context::from_waker(&waker);
    assert!(ns.poll_next_unpin(&mut cx).is_pending());
    apply(&mut writer, vec![elsewhere(3)]);
    assert_eq!(woken.0.load(Ordering::SeqCst), 0);
    apply(&mut writer, vec![elsewhere(4), add("a", 5)]);
    assert_eq!(woken.0.load(Ordering::SeqCst), 1);
    assert_eq!((told(&mut ns), told(&mut zz)), ("a@1>a@5".to_owned(), "z@2>z@4".to_owned()));
}

#[test]
fn only_changes_of_a_part_are_told() {
    let (cache, mut writer) = synced();
    let mut tints = cache.subscription().changed(|o| o.label("tint").map(str::to_owned)).subscribe();
    told(&mut tints);
    apply(&mut writer, vec![add("a", 2)]);
    assert_eq!(told(&mut tints), "");
    apply(&mut writer, vec![Change::Upsert(tinted("a", "a", 3, "red"))]);
    assert_eq!(told(&mut tints), "a@2>a@3");
    apply(&mut writer, vec![Change::Upsert(tinted("a", "a", 4, "red")), delete("a", 5)]);
    assert_eq!(told(&mut tints), "-a@5");
}

#[test]
fn bookmarks_and_resyncs_are_told_on_demand_in_their_place() {
    let (cache, mut writer) = synced();
    let mut all = cache.subscription().bookmarks().resyncs().subscribe();
    let mut plain = cache.subscribe();
    told(&mut all);
    apply(&mut writer, vec![add("b", 2)]);
    writer.bookmark(&ResourceVersion::new("7").unwrap());
    writer.bookmark(&ResourceVersion::new("8").unwrap());
    apply(&mut writer, vec![add("c", 9)]);
    writer.bookmark(&ResourceVersion::new("10").unwrap());
    assert_eq!(told(&mut all), "+b@2 bookmark@7 +c@9 bookmark@10", "and none for what is not told yet");
    writer.resync().unwrap();
    // DF-4: what has a change in line is not told again in an older state. client-go: UpdateResyncRace
    apply(&mut writer, vec![add("a", 11), delete("b", 12), add("d", 13)]);
    assert_eq!(told(&mut all), "a@1>a@11 -b@12 +d@13 ~c@9");
    assert_eq!(told(&mut plain), "=a@1 synced +c@9 a@1>a@11 +d@13", "b came and went");
    plain.resync();
    assert_eq!(told(&mut plain), "~a@11 ~c@9 ~d@13");
}

#[test]
fn changes_come_before_a_resync_also_where_every_change_is_told() {
    let (cache, mut writer) = synced();
    apply(&mut writer, vec![add("b", 2), add("c", 3)]);
    let policy = Policy::Every { bound: 3, when_full: WhenFull::Merge };
    let mut all = cache.subscription().policy(policy).resyncs().subscribe();
    told(&mut all);
    apply(&mut writer, vec![add("a", 4)]);
    writer.resync().unwrap();
    apply(&mut writer, vec![add("b", 5), add("b", 6)]);
    assert_eq!(told(&mut all), "a@1>a@4 b@2>b@5 b@5>b@6 ~c@3");
    // When changes come to be merged, nothing older is told after something newer.
    apply(&mut writer, vec![add("a", 7)]);
    writer.resync().unwrap();
    apply(&mut writer, (8..20).map(|version| add("a", version)).collect());
    assert_eq!(told(&mut all), "a@4>a@19 ~b@6 ~c@3");
}

#[test]
fn it_ends_after_everything_was_told() {
    let (cache, mut writer) = synced();
    let mut all = cache.subscribe();
    apply(&mut writer, vec![add("b", 2)]);
    drop(writer);
    assert_eq!(all.ended(), Some(Ended::Stopped));
    let rest: Vec<_> = all.by_ref().collect::<Vec<_>>().now_or_never().unwrap().iter().map(line).collect();
    assert_eq!(rest, ["=a@1", "synced", "+b@2"]);
    // One who comes after the end finds what there was.
    let rest: Vec<_> =
        cache.subscribe().collect::<Vec<_>>().now_or_never().unwrap().iter().map(line).collect();
    assert_eq!(rest, ["=a@1", "=b@2", "synced"]);
}

#[test]
fn a_namespace_at_a_time_is_synced_when_all_are() {
    let (cache, writers) = Cache::by_namespace();
    let (mut ns, mut zz) = (writers.writer("ns"), writers.writer("zz"));
    let mut all = cache.subscribe();
    replace(&mut ns, vec![add("a", 1)]);
    assert_eq!(told(&mut all), "=a@1");
    apply(&mut ns, vec![add("b", 2)]);
    assert_eq!((ns.object_count(), zz.object_count()), (Some(2), Some(0)));
    let mut late = cache.subscribe();
    assert_eq!(told(&mut late), "=a@1 =b@2");
    replace(&mut zz, vec![]);
    assert_eq!((told(&mut all), told(&mut late)), ("=b@2 synced".to_owned(), "synced".to_owned()));
    // kube-state-metrics#942: a replacement touches its own namespace only.
    replace(&mut zz, vec![]);
    assert_eq!(told(&mut all), "");
    assert!(zz.apply(vec![add("stray", 9)], None).is_err(), "it would be a ghost for ever");
    drop(ns);
    writers.remove("ns");
    assert_eq!(told(&mut all), "-a@1? -b@2?");
    assert!(cache.is_empty());
}

#[test]
fn k10_no_wake_up_is_lost_while_merged_changes_cancel_out() {
    let (cache, mut writer) = synced();
    let mut shared = cache.subscribe();
    told(&mut shared);
    let woken = Arc::new(Counter::default());
    let waker = Waker::from(Arc::clone(&woken));
    let mut cx = std::task::Context::from_waker(&waker);
    // Something that is nothing once it is looked at, and then something real.
    apply(&mut writer, vec![add("gone", 2), delete("gone", 3)]);
    assert!(shared.poll_next_unpin(&mut cx).is_pending());
    apply(&mut writer, vec![add("live", 4)]);
    assert_eq!(woken.0.load(Ordering::SeqCst), 1);
    assert_eq!(told(&mut shared), "+live@4");
}

#[tokio::test]
async fn k10_a_subscriber_in_a_task_hears_of_everything() {
    let (cache, mut writer) = synced();
    let mut shared = cache.subscription().filter(|o| o.name() == "live").subscribe();
    let heard = tokio::spawn(async move {
        while let Some(event) = shared.next().await {
            if event.object().is_some() {
                return line(&event);
            }
        }
        "nothing".to_owned()
    });
    for version in 2..2000 {
        apply(&mut writer, vec![add("gone", 2 * version), delete("gone", 2 * version + 1)]);
        if version % 100 == 0 {
            tokio::task::yield_now().await;
        }
    }
    apply(&mut writer, vec![add("live", 9999)]);
    assert_eq!(heard.await.unwrap(), "+live@9999");
}

#[tokio::test]
async fn a_flood_of_unwanted_objects_lets_others_have_their_turn() {
    let (cache, mut writer) = Cache::new();
    replace(&mut writer, (0..1000).map(|i| add(&format!("o{i}"), i + 1)).collect());
    let mut none = cache.subscription().filter(|_| false).subscribe();
    let mut polls = 0;
    let first = poll_fn(|cx| {
        polls += 1;
        match none.poll_next_unpin(cx) {
            Poll::Pending if polls < 100 => {
                cx.waker().wake_by_ref();
                Poll::Pending
            }
            other => other,
        }
    });
    assert_eq!(first.await.as_ref().map(line).as_deref(), Some("synced"));
    assert!(polls > 5);
}

#[test]
fn a_hundred_thousand_subscriptions_leave_nothing() {
    let (cache, mut writer) = synced();
    let kept = cache.subscribe();
    for i in 0..100_000_u64 {
        let mut one = cache.subscribe();
        if i % 1000 == 0 {
            apply(&mut writer, vec![add("a", i + 2)]);
            assert!(!told(&mut one).is_empty());
        }
    }
    assert_eq!(cache.subscribers(), 1);
    drop(kept);
    assert_eq!(cache.subscribers(), 0);
}

#[test]
fn a_stuck_subscriber_takes_memory_by_objects_and_not_by_time() {
    // client-go#1326, fabric8#3938
    let (cache, mut writer) = synced();
    let every = Policy::Every { bound: 1000, when_full: WhenFull::Merge };
    let stuck = [Policy::default(), every].map(|policy| cache.subscription().policy(policy).subscribe());
    for round in 0..2000_u64 {
        apply(&mut writer, vec![add("a", 10 * round + 2), add(&format!("o{round}"), 10 * round + 3)]);
        apply(&mut writer, vec![delete(&format!("o{round}"), 10 * round + 4)]);
    }
    for stuck in &stuck {
        assert!(stuck.lag().waiting <= 1024 + 2, "{:?}", stuck.lag());
        assert!(stuck.meter().lag().is_some());
    }
}
