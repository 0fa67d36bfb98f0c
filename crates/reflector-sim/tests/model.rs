//! The model checker: what it walks through in every test run, that it can fail, and that its copy is a fair one.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Instant;

use reflector::{Cache, Change, Object as CacheObject, Store, protocol::History};
use reflector_sim::model::{Content, Copy, KEYS, Limits, Object, Scope, explore};

/// Every state within the small scopes keeps the rules, and leads to a copy that is true.
#[test]
fn every_state_keeps_the_rules() {
    let mut compared = 0;
    for scope in Scope::small() {
        let started = Instant::now();
        let report = match explore(&scope, Limits { compare_every: 200, ..Limits::default() }) {
            Ok(report) => report,
            Err(story) => panic!("{story}"),
        };
        println!("{}: {report:?} in {:?}", scope.name, started.elapsed());
        assert!(report.complete && report.good > 0);
        compared += report.compared;
    }
    assert!(compared > 100, "{compared}");
}

/// What `docs/architecture.md` says that nobody can see, the walk finds: it is no walk that finds nothing. A restored
/// server gives out versions as high as the copy's before anybody looks.
#[test]
fn what_cannot_be_seen_is_found() {
    let story = explore(&Scope::unseen(), Limits::default()).expect_err("this cannot be healed");
    assert!(story.rule.contains("never gets synced again"), "{story}");
    let text = story.to_string();
    assert!(text.contains("etcd is restored") && text.contains("somebody writes"), "{text}");
}

/// The copy of the model and the cache of the library make the same of the same orders.
#[test]
fn the_copy_of_the_model_is_the_cache() {
    let mut random = 1_u64;
    let mut draw = move |below: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) % below
    };
    for _ in 0..300 {
        let (cache, mut writer) = Cache::<serde_json::Value>::new();
        let mut copy = Copy::default();
        for _ in 0..40 {
            let key = usize::try_from(draw(KEYS as u64)).unwrap();
            let object = Object {
                uid: u8::try_from(1 + draw(2)).unwrap(),
                version: 1 + draw(6),
                stamp: u8::try_from(draw(3)).unwrap(),
            };
            let deleted = draw(3) == 0;
            match draw(8) {
                0 => {
                    let history = if draw(2) == 0 { History::Same } else { History::Unknown };
                    writer.begin_replace(history);
                    copy.begin(history);
                }
                1 => {
                    writer.abandon_replace();
                    copy.abandon();
                }
                2 if copy.staged.is_some() => {
                    writer.commit_replace(None).unwrap();
                    assert!(copy.commit());
                }
                _ if copy.staged.is_some() => {
                    writer.stage(vec![change(key, object, deleted)]).unwrap();
                    assert!(copy.stage(key, object, deleted));
                }
                _ => {
                    writer.apply(vec![change(key, object, deleted)], None).unwrap();
                    copy.apply(key, object, deleted);
                }
            }
            assert_eq!(content(&cache), copy.content);
        }
    }
}

fn change(key: usize, object: Object, deleted: bool) -> Change<serde_json::Value> {
    let Object { uid, version, stamp } = object;
    let json = format!(
        r#"{{"metadata":{{"name":"{key}","uid":"{uid}","resourceVersion":"{version}"}},"stamp":{stamp}}}"#
    );
    let object = CacheObject::from_json(json).unwrap();
    if deleted { Change::Delete(object) } else { Change::Upsert(object) }
}

fn content(cache: &Cache<serde_json::Value>) -> Content {
    let mut content = Content::default();
    for object in &cache.snapshot() {
        let stamp = object.get().unwrap()["stamp"].as_u64().unwrap();
        content[object.name().parse::<usize>().unwrap()] = Some(Object {
            uid: object.uid().to_string().parse().unwrap(),
            version: object.version().unwrap().to_string().parse().unwrap(),
            stamp: u8::try_from(stamp).unwrap(),
        });
    }
    content
}
