//! Subscribers and writers under explored schedules: nothing is lost, nothing comes twice, nobody sleeps for ever.
//!
//! A lost wake-up shows as a deadlock, which the checker reports with the schedule that leads to it.

use std::{collections::BTreeMap, future::poll_fn};

use futures::StreamExt;
use shuttle::{check_random, future::block_on, thread};

use super::*;
use crate::{Change, ResourceVersion, Store, store::CacheWriter};

type Json = serde_json::Value;

const SCHEDULES: usize = 1000;

fn change(name: &str, version: u64) -> Change<Json> {
    let json = format!(r#"{{"metadata":{{"name":"{name}","uid":"{name}","resourceVersion":"{version}"}}}}"#);
    Change::Upsert(Object::from_json(json).unwrap())
}

fn apply(writer: &mut CacheWriter<Json>, name: &str, version: u64) {
    writer.apply(vec![change(name, version)], ResourceVersion::new(&version.to_string()).as_ref()).unwrap();
}

/// Folds a subscription until it ends: names and versions. Panics where an event does not fit those before.
fn fold(mut subscription: Subscription<Json>) -> BTreeMap<String, String> {
    let mut known = BTreeMap::new();
    block_on(async {
        while let Some(event) = subscription.next().await {
            let Some(object) = event.object() else { continue };
            let new = object.version().unwrap().to_string();
            let old = known.insert(object.name().to_owned(), new);
            let expected = match &event {
                Event::Updated { old, .. } => old.version().map(ToString::to_string),
                _ => None,
            };
            assert_eq!(old, expected, "{event:?}");
        }
    });
    known
}

#[test]
fn whoever_joins_whenever_sees_everything_once() {
    check_random(
        || {
            let (cache, mut writer) = Cache::<Json>::new();
            let joining =
                [Policy::default(), Policy::Every { bound: 1, when_full: WhenFull::Merge }].map(|policy| {
                    let cache = cache.clone();
                    thread::spawn(move || fold(cache.subscription().policy(policy).subscribe()))
                });
            writer.stage(vec![change("a", 1)]).unwrap();
            writer.commit_replace(None).unwrap();
            for (name, version) in [("a", 2), ("b", 3), ("a", 4)] {
                apply(&mut writer, name, version);
            }
            drop(writer);
            let all = BTreeMap::from([("a".to_owned(), "4".to_owned()), ("b".to_owned(), "3".to_owned())]);
            for joined in joining {
                assert_eq!(joined.join().unwrap(), all);
            }
        },
        SCHEDULES,
    );
}

#[test]
fn a_writer_that_waits_for_room_is_woken() {
    check_random(
        || {
            let (cache, mut writer) = Cache::<Json>::new();
            let blocking = || cache.subscription().policy(Policy::Block { bound: 1 });
            let (reading, leaving) = (blocking().subscribe(), blocking().subscribe());
            let reader = thread::spawn(move || fold(reading));
            let leaver = thread::spawn(move || drop(leaving));
            for version in 1..4 {
                block_on(poll_fn(|cx| writer.poll_ready(cx)));
                apply(&mut writer, "a", version);
            }
            drop(writer);
            assert_eq!(reader.join().unwrap()["a"], "3");
            leaver.join().unwrap();
        },
        SCHEDULES,
    );
}

#[test]
fn several_writers_of_one_cache_keep_their_order() {
    check_random(
        || {
            let (cache, writers) = Cache::<Json>::by_namespace();
            let in_namespace = |namespace: &'static str| {
                let mut writer = writers.writer(namespace);
                thread::spawn(move || {
                    for version in 1..3 {
                        let json = format!(
                            r#"{{"metadata":{{"namespace":"{namespace}","name":"{namespace}","resourceVersion":"{version}"}}}}"#
                        );
                        writer.apply(vec![Change::Upsert(Object::from_json(json).unwrap())], None).unwrap();
                    }
                })
            };
            let threads = [in_namespace("a"), in_namespace("b")];
            let subscription = cache.subscribe();
            drop(writers);
            assert_eq!(fold(subscription).into_values().collect::<Vec<_>>(), ["2", "2"]);
            threads.into_iter().for_each(|thread| thread.join().unwrap());
        },
        SCHEDULES,
    );
}
