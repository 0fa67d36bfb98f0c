//! Fences: reads that show one's own writes, before and while the watch catches up.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../support/mod.rs"]
mod support;

mod review;

use std::{pin::pin, time::Duration};

use futures::{FutureExt, poll};
use reflector::{
    Cache, Change, FencedCache, Index, IndexBy, Object, ObjectKey, ResourceVersion, Store, WaitError,
    fence::ReadError,
    protocol::History,
    store::{CacheWriter, UnknownIndex},
};
use support::Json;

const SOON: Duration = Duration::from_secs(5);

fn rv(text: &str) -> Option<ResourceVersion> {
    ResourceVersion::new(text)
}

fn pod(name: &str, uid: &str, version: &str, app: &str) -> Object<Json> {
    let meta = format!(r#""namespace":"ns","name":"{name}","uid":"{uid}","resourceVersion":"{version}""#);
    Object::from_json(format!(r#"{{"metadata":{{{meta},"labels":{{"app":"{app}"}}}}}}"#)).unwrap()
}

fn key(name: &str) -> ObjectKey {
    ObjectKey::new(Some("ns"), name)
}

/// A cache that the test fills, and a fenced view of it.
struct Rig {
    cache: Cache<Json>,
    writer: CacheWriter<Json>,
    pods: FencedCache<Json>,
    by_app: Index<Json, String>,
}

impl Rig {
    /// A synced cache with one pod `a@5`, of the app `x`.
    fn new() -> Self {
        let (cache, mut writer) = Cache::new();
        let by_app = cache.index_by(IndexBy::label("app"));
        writer.begin_replace(History::Same);
        writer.stage(vec![Change::Upsert(pod("a", "u1", "5", "x"))]).unwrap();
        writer.commit_replace(rv("5").as_ref()).unwrap();
        Self { pods: FencedCache::new(cache.clone()), cache, writer, by_app }
    }

    fn watch_put(&mut self, name: &str, uid: &str, version: &str) {
        self.watch(Change::Upsert(pod(name, uid, version, "x")), version);
    }

    fn watch_delete(&mut self, name: &str, uid: &str, version: &str) {
        self.watch(Change::Delete(pod(name, uid, version, "x")), version);
    }

    fn watch(&mut self, change: Change<Json>, version: &str) {
        self.writer.apply(vec![change], rv(version).as_ref()).unwrap();
    }

    fn write(&self, name: &str, uid: &str, version: &str) {
        self.pods.written(pod(name, uid, version, "x"));
    }

    /// What a reader is shown: `a@5 b@7`.
    fn shown(&self) -> String {
        let listed = text(&self.pods.list());
        assert_eq!(text(&self.pods.namespace("ns")), listed);
        for name in ["a", "b", "c"] {
            let one = self.pods.get(Some("ns"), name).map(|pod| text(&[pod])).unwrap_or_default();
            let in_list = listed.split(' ').find(|pod| pod.starts_with(name)).unwrap_or_default();
            assert_eq!(one, in_list, "one by one and all at once");
        }
        listed
    }

    fn by_app(&self, app: &str) -> String {
        text(&self.pods.by(&self.by_app, app).unwrap())
    }
}

fn text(pods: &[Object<Json>]) -> String {
    let pods: Vec<_> = pods.iter().map(|pod| format!("{}@{}", pod.name(), pod.version().unwrap())).collect();
    pods.join(" ")
}

// client-go: MutationCacheOnAddOrUpdate.
#[test]
fn a_write_is_shown_until_the_watch_brings_it_or_something_later() {
    let mut rig = Rig::new();
    rig.write("a", "u1", "7");
    rig.write("b", "u2", "8");
    assert_eq!(rig.shown(), "a@7 b@8");
    rig.watch_put("a", "u1", "6");
    assert_eq!(rig.shown(), "a@7 b@8", "older keeps");
    rig.watch_put("a", "u1", "7");
    assert_eq!(rig.shown(), "a@7 b@8", "equal clears");
    assert_eq!(rig.pods.fenced(), 1);
    rig.watch_put("b", "u2", "8");
    rig.write("a", "u1", "10");
    rig.watch_put("a", "u1", "11");
    assert_eq!(rig.shown(), "a@11 b@8", "newer clears");
    assert!(rig.pods.is_caught_up() && rig.pods.fenced() == 0);
}

#[test]
fn an_older_answer_overwrites_nothing_newer() {
    let mut rig = Rig::new();
    rig.write("a", "u1", "4");
    assert_eq!(rig.shown(), "a@5", "what is cached is newer");
    rig.write("a", "u1", "9");
    rig.write("a", "u1", "10");
    rig.write("a", "u1", "8");
    assert_eq!(rig.shown(), "a@10", "as a number, and whatever the order");
    // The collection is further than the answer, though the object is not there: it was deleted since.
    rig.writer.bookmark(&rv("20").unwrap());
    rig.write("c", "u3", "15");
    assert_eq!(rig.shown(), "a@5");
    assert_eq!(rig.pods.fenced(), 0);
}

// client-go: MutationCacheOnDelete.
#[test]
fn a_deletion_that_the_watch_brings_ends_the_fences_before_it_and_no_other() {
    let mut rig = Rig::new();
    rig.write("a", "u1", "7");
    rig.watch_delete("a", "u1", "8");
    assert_eq!(rig.shown(), "", "the same uid");
    rig.write("b", "u2", "10");
    rig.watch_delete("b", "u9", "11");
    assert_eq!(rig.shown(), "", "a later one of another uid");
    rig.watch_put("a", "u3", "12");
    rig.write("a", "u4", "15");
    rig.watch_delete("a", "u3", "14");
    assert_eq!(rig.shown(), "a@15", "an earlier one of another uid");
}

// client-go: MutationCacheUpdateConcurrentDelete.
#[test]
fn an_answer_that_comes_after_the_deletion_was_seen_is_hidden() {
    let mut rig = Rig::new();
    rig.watch_delete("a", "u1", "8");
    rig.write("a", "u1", "7");
    assert_eq!(rig.shown(), "");
    // And after the deletion was recorded, with and without its version.
    rig.watch_put("b", "u2", "9");
    rig.pods.deleted(&key("b"), "u2", rv("12").as_ref());
    rig.pods.deleted(&key("c"), "u3", None);
    rig.write("b", "u2", "10");
    rig.write("c", "u3", "11");
    assert_eq!(rig.shown(), "");
    rig.watch_put("c", "u3", "11");
    assert_eq!(rig.shown(), "", "nor when the watch is there");
}

// client-go: MutationCacheUpdateConcurrentRecreate.
#[test]
fn an_answer_that_comes_after_the_object_was_made_anew_loses() {
    let mut rig = Rig::new();
    rig.watch_delete("a", "u1", "8");
    rig.watch_put("a", "u2", "9");
    rig.write("a", "u1", "7");
    assert_eq!(rig.shown(), "a@9");
    assert_eq!(rig.pods.fenced(), 0);
    // Both recorded, in the wrong order.
    rig.write("a", "u4", "14");
    rig.pods.deleted(&key("a"), "u2", rv("12").as_ref());
    rig.write("a", "u2", "11");
    assert_eq!(rig.shown(), "a@14");
}

// client-go: MutationCacheOnDeleteClearsStaleMutation.
#[test]
fn a_deletion_empties_the_result_of_an_index() {
    let mut rig = Rig::new();
    rig.write("a", "u1", "7");
    assert_eq!(rig.by_app("x"), "a@7");
    rig.watch_delete("a", "u1", "8");
    assert_eq!(rig.by_app("x"), "");
}

#[test]
fn a_deletion_hides_the_uid_and_nothing_else() {
    let mut rig = Rig::new();
    rig.pods.deleted(&key("a"), "u1", None);
    assert_eq!(rig.shown(), "");
    rig.watch_put("a", "u1", "6");
    assert_eq!(rig.shown(), "", "an update from before");
    assert!(!rig.pods.is_caught_up());
    rig.write("a", "u2", "9");
    assert_eq!(rig.shown(), "a@9", "made anew by us");
    rig.watch_delete("a", "u1", "7");
    assert_eq!(rig.shown(), "a@9");
    rig.watch_put("a", "u3", "12");
    assert_eq!(rig.shown(), "a@12", "made anew by another");
    assert_eq!(rig.pods.fenced(), 0);
}

/// Servers answer to a delete with the version of the deletion, with that of the last state, or with none.
#[test]
fn a_deletion_stands_until_the_watch_brings_it_whatever_version_the_answer_had() {
    for version in ["8", "5", ""] {
        let mut rig = Rig::new();
        rig.pods.deleted(&key("a"), "u1", rv(version).as_ref());
        assert_eq!(rig.shown(), "", "{version}");
        rig.writer.bookmark(&rv("7").unwrap());
        assert_eq!(rig.shown(), "", "{version}");
        rig.watch_delete("a", "u1", "8");
        assert_eq!(rig.pods.list().len(), 0);
        assert_eq!(rig.pods.fenced(), 0, "{version}");
    }
}

#[test]
fn an_object_that_was_made_and_deleted_before_the_watch_saw_it_stays_hidden() {
    let mut rig = Rig::new();
    rig.write("b", "u2", "6");
    rig.pods.deleted(&key("b"), "u2", None);
    assert_eq!(rig.shown(), "a@5");
    rig.watch_put("a", "u1", "6");
    rig.write("b", "u2", "6");
    assert_eq!(rig.shown(), "a@6", "and its late answer too");
    let mut rig = Rig::new();
    rig.pods.deleted(&key("b"), "u2", None);
    rig.watch_put("b", "u2", "6");
    assert_eq!(rig.shown(), "a@5");
    rig.watch_delete("b", "u2", "7");
    assert_eq!(rig.shown(), "a@5");
    assert_eq!(rig.pods.fenced(), 0);
}

#[test]
fn a_deletion_is_later_than_every_older_state_of_the_name() {
    let rig = Rig::new();
    // The pod that is cached was deleted by somebody else, and the name was used twice since.
    rig.write("a", "u2", "8");
    rig.pods.deleted(&key("a"), "u3", rv("11").as_ref());
    assert_eq!(rig.shown(), "");
    // Without a uid only the version counts; without both there is nothing to record.
    let rig = Rig::new();
    rig.pods.deleted(&key("a"), "", None);
    assert_eq!((rig.shown().as_str(), rig.pods.fenced()), ("a@5", 0));
    rig.pods.deleted(&key("a"), "", rv("6").as_ref());
    assert_eq!(rig.shown(), "");
}

/// Both were found by the property.
#[test]
fn a_deletion_without_a_version_is_later_than_what_its_object_is_known_by() {
    let mut rig = Rig::new();
    // The pod that is cached was deleted by somebody else, and the name was used again by us.
    rig.write("a", "u2", "9");
    rig.pods.deleted(&key("a"), "u2", None);
    assert_eq!(rig.shown(), "", "a@5 is from before a@9");
    rig.watch_put("a", "u3", "12");
    assert_eq!(rig.shown(), "a@12");
    // The answers come in the wrong order: the last one tells that the second one is old.
    rig.pods.deleted(&key("b"), "u5", None);
    rig.write("b", "u4", "13");
    assert_eq!(rig.shown(), "a@12 b@13");
    rig.write("b", "u5", "15");
    assert_eq!(rig.shown(), "a@12");
}

#[test]
fn an_index_finds_a_written_object_by_what_it_is_now() {
    let mut rig = Rig::new();
    rig.pods.written(pod("a", "u1", "7", "y"));
    rig.pods.written(pod("b", "u2", "8", "y"));
    rig.watch_put("c", "u3", "6");
    assert_eq!(rig.by_app("x"), "c@6");
    assert_eq!(rig.by_app("y"), "a@7 b@8");
    rig.pods.deleted(&key("b"), "u2", None);
    assert_eq!(rig.by_app("y"), "a@7");
    rig.cache.remove_index(&rig.by_app);
    assert_eq!(rig.pods.by(&rig.by_app, "y").unwrap_err(), UnknownIndex);
}

#[test]
fn an_object_whose_values_are_unknown_is_found_by_none() {
    let rig = Rig::new();
    let broken = rig.cache.index_by(IndexBy::handle(|pod: &Object<Json>| match pod.name() {
        "a" => Ok(["one"]),
        "b" => Err("no value".into()),
        _ => panic!("an index function of a user"),
    }));
    rig.write("b", "u2", "7");
    rig.write("c", "u3", "8");
    assert_eq!(text(&rig.pods.by(&broken, "one").unwrap()), "a@5");
}

#[test]
fn a_namespace_is_fenced_by_its_own_version() {
    let (cache, writers) = Cache::<Json>::by_namespace();
    let (mut ns, mut other) = (writers.writer("ns"), writers.writer("other"));
    let pods = FencedCache::new(cache);
    other.bookmark(&rv("100").unwrap());
    pods.written(pod("a", "u1", "7", "x"));
    assert_eq!(text(&pods.list()), "a@7");
    assert!(pods.namespace("other").is_empty());
    ns.bookmark(&rv("7").unwrap());
    assert_eq!(text(&pods.list()), "", "the namespace is at 7, and has no such pod");
}

#[test]
fn versions_without_an_order_are_believed_in_the_order_of_arrival() {
    let mut rig = Rig::new();
    rig.watch_put("a", "u1", "k");
    rig.write("a", "u1", "m");
    rig.write("b", "u2", "n");
    assert_eq!(rig.shown(), "a@m b@n");
    rig.writer.bookmark(&rv("o").unwrap());
    rig.write("a", "u1", "l");
    assert_eq!(rig.shown(), "a@l b@n", "the last answer");
    rig.watch_put("a", "u1", "z");
    assert_eq!(rig.shown(), "a@z b@n", "another state has come since");
    rig.watch_put("b", "u2", "n");
    assert_eq!(rig.pods.fenced(), 1);
    assert_eq!((rig.shown().as_str(), rig.pods.fenced()), ("a@z b@n", 0));
    rig.write("a", "u1", "p");
    rig.watch_delete("a", "u1", "q");
    assert_eq!(rig.shown(), "b@n", "it was there, and is gone");
    rig.pods.deleted(&key("b"), "u2", rv("r").as_ref());
    assert_eq!(rig.shown(), "");
    rig.watch_delete("b", "u2", "s");
    rig.watch_put("b", "u3", "t");
    assert_eq!((rig.shown().as_str(), rig.pods.fenced()), ("b@t", 0));
}

#[test]
fn clones_share_their_fences_and_typed_answers_are_recorded() {
    let rig = Rig::new();
    let other = rig.pods.clone();
    let meta = serde_json::json!({ "namespace": "ns", "name": "b", "resourceVersion": "9" });
    other.written_typed(&serde_json::json!({ "metadata": meta })).unwrap();
    assert_eq!(rig.shown(), "a@5 b@9");
    let error = other.written_typed(&serde_json::json!({ "kind": "Pod" })).unwrap_err();
    assert!(error.to_string().starts_with("cannot record what was written: "), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_fence_that_the_watch_never_honours_falls_at_its_limit() {
    let mut rig = Rig::new();
    let limit = Duration::from_secs(60);
    rig.write("a", "u1", "7");
    rig.pods.deleted(&key("c"), "u3", None);
    tokio::time::advance(limit - Duration::from_secs(1)).await;
    rig.write("b", "u2", "8");
    assert_eq!(rig.shown(), "a@7 b@8");
    tokio::time::advance(Duration::from_secs(1)).await;
    assert_eq!(rig.shown(), "a@5 b@8", "each by its own age");
    assert_eq!(rig.pods.fenced(), 1);
    // A later write of the same object begins anew.
    rig.write("b", "u2", "9");
    tokio::time::advance(limit - Duration::from_secs(1)).await;
    assert_eq!(rig.shown(), "a@5 b@9");
    tokio::time::advance(limit).await;
    rig.watch_put("a", "u1", "6");
    assert_eq!((rig.shown().as_str(), rig.pods.fenced()), ("a@6", 0));
}

#[test]
fn only_fences_that_were_missed_are_counted() {
    let recorder = metrics_util::debugging::DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    metrics::with_local_recorder(&recorder, || {
        let mut rig = Rig::new();
        rig.pods = rig.pods.clone().limit(Duration::ZERO);
        // Seen before it was recorded: nobody misses it.
        rig.pods.deleted(&key("c"), "u3", None);
        rig.write("b", "u2", "7");
        rig.pods.deleted(&key("a"), "u1", None);
        assert_eq!(rig.shown(), "a@5");
    });
    let counted = snapshotter.snapshot().into_vec().into_iter().find_map(|(key, _, _, value)| {
        (key.key().name() == "reflector_fences_expired_total").then_some(value)
    });
    assert_eq!(counted, Some(metrics_util::debugging::DebugValue::Counter(2)));
}

#[test]
fn fences_that_nobody_reads_are_swept_and_live_ones_are_kept() {
    let mut rig = Rig::new();
    for i in 0..2000 {
        let version = (1000 + i).to_string();
        rig.write(&format!("p{i}"), &format!("u{i}"), &version);
        rig.writer.bookmark(&rv(&version).unwrap());
    }
    assert!(rig.pods.fenced() <= 65, "{} are kept", rig.pods.fenced());
    for i in 0..2000 {
        rig.write(&format!("q{i}"), &format!("v{i}"), &(5000 + i).to_string());
    }
    assert_eq!(rig.pods.list().len(), 2001, "none is evicted for lack of room");
}

#[tokio::test(start_paused = true)]
async fn a_read_that_waits_gives_one_state_of_the_cache_that_has_everything() {
    let mut rig = Rig::new();
    let (pods, by_app) = (rig.pods.clone(), rig.by_app);
    assert!(pods.wait(SOON).list().now_or_never().unwrap().is_ok(), "nothing to wait for");
    rig.write("a", "u1", "7");
    let waiting = pods.wait(SOON);
    let (mut one, mut index) = (pin!(waiting.get(Some("ns"), "a")), pin!(waiting.by(&by_app, "x")));
    let (mut all, mut named) = (pin!(waiting.list()), pin!(waiting.namespace("ns")));
    assert!(poll!(one.as_mut()).is_pending() && poll!(index.as_mut()).is_pending());
    assert!(poll!(all.as_mut()).is_pending() && poll!(named.as_mut()).is_pending());
    assert!(waiting.get(Some("ns"), "b").await.unwrap().is_none(), "another key does not wait");
    assert!(waiting.namespace("other").await.unwrap().is_empty());
    rig.watch_put("a", "u1", "6");
    assert!(poll!(one.as_mut()).is_pending());
    rig.watch_put("a", "u1", "8");
    assert_eq!(text(&[one.await.unwrap().unwrap()]), "a@8");
    assert_eq!(text(&index.await.unwrap()), "a@8");
    assert_eq!(text(&all.await.unwrap()), "a@8");
    assert_eq!(text(&named.await.unwrap()), "a@8");
}

#[tokio::test(start_paused = true)]
async fn a_read_that_waits_sees_deletions_too() {
    let mut rig = Rig::new();
    let pods = rig.pods.clone();
    pods.deleted(&key("a"), "u1", None);
    let waiting = pods.wait(SOON);
    let mut read = pin!(waiting.snapshot());
    assert!(poll!(read.as_mut()).is_pending());
    rig.watch_delete("a", "u1", "9");
    assert!(read.await.unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_stream_of_writes_does_not_hold_a_read_up() {
    let mut rig = Rig::new();
    let pods = rig.pods.clone();
    rig.write("a", "u1", "7");
    let waiting = pods.wait(SOON);
    let mut read = pin!(waiting.list());
    assert!(poll!(read.as_mut()).is_pending());
    // Another write of another object, and of the same one.
    rig.write("b", "u2", "9");
    rig.write("a", "u1", "10");
    rig.watch_put("a", "u1", "6");
    assert!(poll!(read.as_mut()).is_pending());
    rig.watch_put("a", "u1", "7");
    assert_eq!(text(&read.await.unwrap()), "a@7");
    assert_eq!(rig.shown(), "a@10 b@9");
}

#[tokio::test(start_paused = true)]
async fn a_read_that_waits_in_vain_says_for_what() {
    let rig = Rig::new();
    for name in ["b", "c", "d", "e"] {
        rig.write(name, "u", "9");
    }
    let late = rig.pods.wait(SOON).get(Some("ns"), "c").await.unwrap_err();
    assert_eq!(late, ReadError::Deadline { limit: SOON, waiting: vec![key("c")], reached: rv("5") });
    let late = rig.pods.wait(SOON).list().await.unwrap_err();
    assert_eq!(
        late.to_string(),
        "the copy has not caught up within 5s with writes to ns/b, ns/c, ns/d, 1 more; it is at version 5"
    );
    let Rig { writer, pods, by_app, .. } = rig;
    let waiting = pods.wait(SOON);
    let mut read = pin!(waiting.by(&by_app, "x"));
    assert!(poll!(read.as_mut()).is_pending());
    drop(writer);
    assert!(matches!(read.await.unwrap_err(), ReadError::Stopped { waiting } if waiting.len() == 4));
    pods.cache().remove_index(&by_app);
    assert_eq!(pods.wait(SOON).by(&by_app, "x").await.unwrap_err(), ReadError::Index(UnknownIndex));
}

#[tokio::test]
async fn waits_can_be_spawned() {
    let rig = Rig::new();
    let pods = rig.pods.clone();
    let read = tokio::spawn(async move {
        let pod = pods.wait(SOON).get(Some("ns"), "a").await.unwrap();
        let seen = |_: Option<&Object<Json>>| Ok::<_, std::convert::Infallible>(true);
        pods.cache().wait_until_within(Some("ns"), "a", SOON, seen).await.unwrap();
        pods.cache().wait_for_within(&rv("5").unwrap(), SOON).await.unwrap();
        pod
    });
    assert!(read.await.unwrap().is_some());
}

/// The whole way: over HTTP to the server, and back by the watch.
#[cfg(feature = "kube")]
#[tokio::test]
async fn what_was_written_over_http_is_read_back_at_once() {
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::Api;
    use reflector::{KubeListWatch, Reflector};

    let cluster = support::cluster::Cluster::start(1).await;
    let source = KubeListWatch::<ConfigMap>::namespaced(cluster.client(), "ns");
    let builder = Reflector::builder(source).options(support::cluster::fast);
    // Before the start, so that the cache is behind for certain.
    let maps = FencedCache::new(builder.cache().clone());
    let api: Api<ConfigMap> = Api::namespaced(cluster.client(), "ns");
    let mut new = ConfigMap::default();
    new.metadata.name = Some("new".to_owned());
    let answer = api.create(&Default::default(), &new).await.unwrap();
    maps.written_typed(&answer).unwrap();
    assert!(maps.cache().is_empty());
    assert_eq!(maps.get(Some("ns"), "new").unwrap().get().unwrap().metadata.uid, answer.metadata.uid);

    let reflector = builder.start();
    let waiting = maps.wait(support::cluster::PATIENCE);
    let seen = waiting.get(Some("ns"), "new").await.unwrap().unwrap();
    assert_eq!(seen.version().map(ToString::to_string), answer.metadata.resource_version);

    let mut changed = answer.clone();
    changed.data = Some([("k".to_owned(), "v".to_owned())].into());
    let changed = api.replace("new", &Default::default(), &changed).await.unwrap();
    maps.written_typed(&changed).unwrap();
    assert_eq!(maps.get(Some("ns"), "new").unwrap().get().unwrap().data, changed.data);
    assert_eq!(waiting.get(Some("ns"), "new").await.unwrap().unwrap().get().unwrap().data, changed.data);

    api.delete("new", &Default::default()).await.unwrap();
    maps.deleted(&key("new"), changed.metadata.uid.as_deref().unwrap_or_default(), None);
    assert!(maps.get(Some("ns"), "new").is_none());
    assert_eq!(waiting.list().await.unwrap().len(), 1);
    assert!(maps.is_caught_up());
    reflector.stop().await;
}
