//! What a review proved: symptoms and causes.

use super::*;
use reflector::transform::Trim;

fn one(name: &str, uid: &str, version: &str) -> Object<Json> {
    let json = format!(
        r#"{{"metadata":{{"namespace":"ns","name":"{name}","uid":"{uid}","resourceVersion":"{version}"}},
            "data":{{"password":"hunter2"}}}}"#
    );
    Object::from_json(json).unwrap()
}

fn shown(objects: &[Object<Json>]) -> String {
    let show = |o: &Object<Json>| format!("{}/{}@{}", o.name(), o.uid(), o.version().unwrap());
    objects.iter().map(show).collect::<Vec<_>>().join(" ")
}

fn version(text: &str) -> ResourceVersion {
    ResourceVersion::new(text).unwrap()
}

/// Symptom: what a transform strips was kept and shown, until the watch brought the object. Cause: answers of the
/// server were recorded as they came.
#[test]
fn what_was_written_is_transformed_too() {
    let (cache, _writer) = Cache::<Json>::new();
    let fenced = FencedCache::new(cache).transform(Trim::new().path("/data").unwrap());
    fenced.written(one("a", "u", "7"));
    let a = fenced.get(Some("ns"), "a").unwrap();
    assert!(!String::from_utf8_lossy(&a.json().unwrap()).contains("hunter2"));
    let failing = fenced.transform(|_| Err(reflector::transform::TransformError::new("no")));
    failing.written(one("b", "u", "8"));
    let b = failing.get(Some("ns"), "b").unwrap();
    assert!(b.get().is_err() && !String::from_utf8_lossy(&b.json().unwrap()).contains("hunter2"));
}

/// Symptom: with opaque versions, an object that was created anew vanished when the watch told of the end, or of a
/// last change, of the one before. Cause: any change under the name was taken as news of the new one.
#[test]
fn news_of_an_object_that_is_known_to_be_gone_says_nothing_of_its_successor() {
    for created_first in [false, true] {
        let (cache, mut writer) = Cache::new();
        writer.stage(vec![Change::Upsert(one("a", "old", "k"))]).unwrap();
        writer.commit_replace(Some(&version("k"))).unwrap();
        let fenced = FencedCache::new(cache);
        let key = ObjectKey::new(Some("ns"), "a");
        if created_first {
            fenced.written(one("a", "new", "m"));
        }
        fenced.deleted(&key, "old", None);
        if !created_first {
            fenced.written(one("a", "new", "m"));
        }
        writer.apply(vec![Change::Upsert(one("a", "old", "l"))], Some(&version("l"))).unwrap();
        assert_eq!(shown(&fenced.list()), "a/new@m");
        writer.apply(vec![Change::Delete(one("a", "old", "o"))], Some(&version("o"))).unwrap();
        assert_eq!(shown(&fenced.list()), "a/new@m");
        writer.apply(vec![Change::Upsert(one("a", "new", "p"))], Some(&version("p"))).unwrap();
        assert_eq!(shown(&fenced.list()), "a/new@p");
    }
}

/// Symptom: what was written in a namespace was shown for a minute after the namespace had been taken out.
#[tokio::test(start_paused = true)]
async fn a_namespace_that_is_taken_out_takes_its_fences_along() {
    let (cache, writers) = Cache::by_namespace();
    let _ns = writers.writer("ns");
    let fenced = FencedCache::new(cache);
    fenced.written(one("a", "u", "7"));
    assert_eq!(shown(&fenced.list()), "a/u@7");
    writers.remove("ns");
    assert_eq!(shown(&fenced.list()), "");
    fenced.written(one("b", "u", "8"));
    assert!(fenced.wait(Duration::from_secs(5)).list().await.unwrap().is_empty(), "nothing is waited for");
}

/// Symptom: one clone with a shorter limit dropped the fences of all.
#[tokio::test(start_paused = true)]
async fn the_limit_is_that_of_all_clones() {
    let (cache, _writer) = Cache::new();
    let fenced = FencedCache::new(cache).limit(Duration::from_secs(600));
    let clone = fenced.clone();
    fenced.written(one("a", "u", "7"));
    tokio::time::advance(Duration::from_secs(599)).await;
    assert_eq!(shown(&clone.list()), "a/u@7");
    tokio::time::advance(Duration::from_secs(2)).await;
    assert_eq!(shown(&clone.list()), "");
}

/// Symptom: `wait_for` hung for ever where the versions of two namespaces could not be compared with each other.
#[test]
fn a_version_that_cannot_be_compared_is_refused_in_whatever_namespace() {
    let (cache, writers) = Cache::<Json>::by_namespace();
    let (mut a, mut b) = (writers.writer("a"), writers.writer("b"));
    a.bookmark(&version("9"));
    assert!(cache.wait_for(&version("7")).now_or_never().is_none(), "b has not come");
    b.bookmark(&version("x-2"));
    assert!(matches!(cache.wait_for(&version("7")).now_or_never(), Some(Err(WaitError::Opaque { .. }))));
}
