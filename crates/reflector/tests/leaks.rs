//! What has come and gone leaves nothing: no task, and no byte.
//!
//! The allocator of this binary counts the bytes that are in use. Its tests take turns, since they share it.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::{
    future::Future,
    sync::{Mutex, MutexGuard, PoisonError},
};

use futures::{FutureExt, StreamExt};
use peak_alloc::PeakAlloc;
use reflector::{
    Cache, Change, IndexBy, Object, Policy, Reflector, SharedInformer, Store, Subscription,
    informer::Callbacks,
    protocol::History,
    store::{CacheWriter, WhenFull},
    wire::{Limits, ListCutter, ListItem, WatchEvent},
};
use support::*;

#[global_allocator]
static HEAP: PeakAlloc = PeakAlloc;

static TURN: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What tables may have grown by, and what the test harness does meanwhile.
const SLACK: usize = 32 << 10;

/// Runs the same for some rounds, until everything has its size, and then many times, after which no more bytes may
/// be in use.
fn assert_flat(rounds: usize, mut round: impl FnMut()) {
    (0..rounds / 10).for_each(|_| round());
    let before = HEAP.current_usage();
    (0..rounds).for_each(|_| round());
    let after = HEAP.current_usage();
    assert!(after <= before + SLACK, "{} bytes are left of {rounds} rounds", after - before);
}

/// In virtual time, and alone.
fn run(test: impl Future<Output = ()>) {
    let _alone = alone();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.unwrap().block_on(test);
}

fn tasks() -> usize {
    tokio::runtime::Handle::current().metrics().num_alive_tasks()
}

fn put(name: &str, version: u64) -> Change<Json> {
    Change::Upsert(object(name, name, &version.to_string()))
}

/// An object with a body of about a kilobyte.
fn large(i: usize) -> Object<Json> {
    let body = "x".repeat(1000);
    let json = format!(
        r#"{{"metadata":{{"namespace":"ns","name":"o{i}","uid":"u{i}","resourceVersion":"5"}},"body":"{body}"}}"#
    );
    Object::from_json(json).unwrap()
}

fn replace(writer: &mut CacheWriter<Json>, objects: impl Iterator<Item = Object<Json>>) {
    writer.begin_replace(History::Same);
    let mut objects = objects.peekable();
    while objects.peek().is_some() {
        writer.stage(objects.by_ref().take(500).map(Change::Upsert).collect()).unwrap();
    }
    writer.commit_replace(None).unwrap();
}

fn drain(subscription: &mut Subscription<Json>) -> usize {
    std::iter::from_fn(|| subscription.next().now_or_never().flatten()).count()
}

#[test]
fn a_hundred_thousand_subscriptions_leave_no_byte() {
    let _alone = alone();
    let (cache, mut writer) = Cache::new();
    replace(&mut writer, (0..3).map(large));
    let mut version = 10;
    assert_flat(100_000, || {
        let mut one = cache.subscribe();
        version += 1;
        // Some hear of nothing, some have read it all, and some go with something unread.
        if version % 10 == 0 {
            assert!(drain(&mut one) > 0);
            writer.apply(vec![put("a", version)], None).unwrap();
        }
    });
    assert_eq!(cache.subscribers(), 0);
}

#[test]
fn handlers_that_went_leave_no_byte() {
    run(async {
        let (source, mut server) = scripted();
        let informer = SharedInformer::new(Reflector::builder(source).seed(1));
        informer.start().unwrap();
        let _stream = server.sync(&[object("a", "u1", "5")], "5").await;
        informer.ready().await.unwrap();
        let before = tasks();
        let mut used = 0;
        for round in 0..15_000 {
            let handler = informer.add_handler(Callbacks::new()).unwrap();
            if round % 2 == 0 {
                handler.synced().await.unwrap();
            }
            handler.remove_and_wait().await.unwrap();
            assert!(tasks() <= before + 1);
            if round == 1_500 {
                used = HEAP.current_usage();
            }
        }
        let left = HEAP.current_usage().saturating_sub(used);
        assert!(left <= SLACK, "{left} bytes are left");
        assert_eq!((informer.handlers().len(), informer.cache().subscribers()), (0, 0));
        informer.stop().await.unwrap();
    });
}

#[test]
fn reflectors_that_were_stopped_leave_no_byte() {
    run(async {
        let before = tasks();
        let mut used = 0;
        for round in 0..4_000 {
            let (source, mut server) = scripted();
            let letters = Reflector::builder(source).start();
            let mut all = letters.cache().subscribe();
            let stream = server.sync(&[object("a", "u1", "5")], "7").await;
            letters.ready().await.unwrap();
            assert!(all.next().await.is_some());
            if round % 2 == 0 {
                letters.stop().await;
            } else {
                drop(letters);
                stream.closed().await;
                while tasks() > before {
                    tokio::task::yield_now().await;
                }
            }
            assert_eq!(tasks(), before);
            if round == 400 {
                used = HEAP.current_usage();
            }
        }
        let left = HEAP.current_usage().saturating_sub(used);
        assert!(left <= SLACK, "{left} bytes are left");
    });
}

/// datadog-operator#3327: an index that is not worth it can be given up.
#[test]
fn g56_an_index_that_went_leaves_no_byte() {
    let _alone = alone();
    let (cache, mut writer) = Cache::new();
    replace(&mut writer, (0..200).map(large));
    assert_flat(100, || {
        let index = cache.index_by(IndexBy::field("metadata.name"));
        assert_eq!(cache.by(&index, "o7").unwrap().len(), 1);
        cache.remove_index(&index);
    });
}

/// kube#1209, #1487, kubernetes#73497: a relist needed twice or three times the memory.
#[test]
fn g49_a_relist_takes_no_second_copy() {
    let _alone = alone();
    const OBJECTS: usize = 10_000;
    let (_cache, mut writer) = Cache::<Json>::new();
    let empty = HEAP.current_usage();
    replace(&mut writer, (0..OBJECTS).map(large));
    let steady = HEAP.current_usage() - empty;
    assert!(steady > OBJECTS * 1000, "{steady} bytes are too few to be true");
    HEAP.reset_peak_usage();
    replace(&mut writer, (0..OBJECTS).map(large));
    let peak = HEAP.peak_usage() - empty;
    // A page of 500 objects, and two words for each object.
    assert!(peak < steady + steady / 5, "{peak} bytes at the peak, {steady} before and after");
    let after = HEAP.current_usage() - empty;
    assert!(after <= steady + SLACK, "{after} bytes after it, {steady} before");
}

/// kubernetes#113305; client-go: ReflectorListExtract. One object keeps nothing of the page that it came with.
#[test]
fn g51_an_object_does_not_keep_its_page() {
    let _alone = alone();
    let items: Vec<_> =
        (0..1_000).map(|i| String::from_utf8(large(i).json().unwrap().to_vec()).unwrap()).collect();
    let page = format!(r#"{{"metadata":{{"resourceVersion":"9"}},"items":[{}]}}"#, items.join(","));
    let before = HEAP.current_usage();
    let mut cut = Vec::new();
    let mut cutter = ListCutter::<Json>::new(None, Limits::default());
    cutter.push(page.as_bytes(), &mut cut).unwrap();
    cutter.finish().unwrap();
    assert!(HEAP.current_usage() > before + 1_000_000);
    let Some(ListItem::Object(kept)) = cut.pop() else { panic!("not an object") };
    drop(cut);
    let left = HEAP.current_usage() - before;
    assert!(left < 4_000, "one object of {} bytes keeps {left}", kept.json().unwrap().len());
}

/// client-go#1326, fabric8#3938: the queue of a slow handler grew for ever.
#[test]
fn g55_a_stuck_subscriber_takes_no_more_bytes_with_time() {
    let _alone = alone();
    let (cache, mut writer) = Cache::new();
    replace(&mut writer, (0..3).map(large));
    let every = Policy::Every { bound: 100, when_full: WhenFull::Merge };
    let _stuck = [Policy::default(), every].map(|policy| {
        let mut stuck = cache.subscription().policy(policy).subscribe();
        drain(&mut stuck);
        stuck
    });
    let mut version = 10;
    let mut peak_of = |rounds: usize| {
        HEAP.reset_peak_usage();
        for _ in 0..rounds {
            version += 3;
            let short_lived = format!("o{version}");
            writer.apply(vec![put("a", version), put(&short_lived, version + 1)], None).unwrap();
            let gone = object(&short_lived, &short_lived, &(version + 2).to_string());
            writer.apply(vec![Change::Delete(gone)], None).unwrap();
        }
        HEAP.peak_usage()
    };
    // What waits is put in order whenever there are 1024 steps of it, so the bytes go up and down, and a table may grow
    // once more. An entry that stayed in each round would be twice the early peak in the end.
    let (early, late) = (peak_of(5_000), peak_of(20_000));
    assert!(late < early + early / 2, "{early} bytes at first, {late} later");
}

/// An object of some eight kilobytes, of which little is its own.
fn packable(i: usize) -> Object<Json> {
    let words: String = (0..400_u32).map(|n| format!("\"{:x}\",", n.wrapping_mul(2_654_435_761))).collect();
    let json = format!(
        r#"{{"metadata":{{"namespace":"ns","name":"o{i:05}","uid":"u{i}","resourceVersion":"5"}},"own":{},"words":[{words}0]}}"#,
        i.wrapping_mul(0x9e37_79b9)
    );
    Object::from_json(json).unwrap()
}

/// Most of a collection goes, by watch events: what it took is given back, dictionaries and all.
#[test]
fn what_a_packed_collection_took_is_given_back_when_it_goes() {
    const OBJECTS: usize = 4_000;
    let _alone = alone();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(async {
        let (source, mut server) = scripted();
        let letters = Reflector::builder(source).start();
        let empty = HEAP.current_usage();
        let objects: Vec<_> = (0..OBJECTS).map(packable).collect();
        let plain: usize = objects.iter().map(Object::memory).sum();
        let stream = server.sync(&objects, "6").await;
        drop(objects);
        letters.ready().await.unwrap();
        let full = HEAP.current_usage().saturating_sub(empty);
        assert!(full * 4 < plain, "{full} bytes for {plain}");

        let gone = |i: usize| WatchEvent::Deleted(packable(i));
        for some in (100..OBJECTS).collect::<Vec<_>>().chunks(100) {
            stream.send(some.iter().map(|i| gone(*i)).collect());
        }
        let mut status = letters.handle().watch_status();
        while letters.cache().len() > 100 {
            status.changed().await.unwrap();
        }
        let left = HEAP.current_usage().saturating_sub(empty);
        // What packs the next ones, and samples of what there was, stay: less than this, however much there was.
        let memory = letters.cache().memory().total();
        assert!(left * 2 < full && left < 400_000 + memory, "{left} bytes of {full}; objects take {memory}");
        letters.stop().await;
    });
}
