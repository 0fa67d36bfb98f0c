//! Secondary indexes of the cache. Names in comments are client-go's tests (inventory, appendix A.3).
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, BTreeSet};

use futures::{FutureExt, StreamExt};
use proptest::prelude::*;
use reflector::{
    Cache, Change, IndexBy, Object, Policy, Store,
    protocol::History,
    store::{CacheWriter, UnknownIndex},
};
use serde::Deserialize;

#[derive(Deserialize)]
struct Pod {
    spec: Spec,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec {
    node_name: Option<String>,
    #[serde(default)]
    ports: Vec<u16>,
}

fn pod(name: &str, version: u64, spec: &str) -> Object<Pod> {
    labelled(name, version, "{}", spec)
}

fn labelled(name: &str, version: u64, labels: &str, spec: &str) -> Object<Pod> {
    let json = format!(
        r#"{{"metadata":{{"namespace":"ns","name":"{name}","uid":"u-{name}","resourceVersion":"{version}",
            "labels":{labels}}},"spec":{spec}}}"#
    );
    Object::from_json(json).unwrap()
}

fn on(node: &str) -> String {
    format!(r#"{{"nodeName":"{node}"}}"#)
}

fn upsert(writer: &mut CacheWriter<Pod>, objects: impl IntoIterator<Item = Object<Pod>>) {
    writer.apply(objects.into_iter().map(Change::Upsert).collect(), None).unwrap();
}

fn names(objects: &[Object<Pod>]) -> String {
    objects.iter().map(Object::name).collect::<Vec<_>>().join(" ")
}

fn node(pod: &Pod) -> Option<String> {
    pod.spec.node_name.clone()
}

#[test]
fn objects_are_found_by_the_values_of_a_closure() {
    // client-go: Index, GetIndexFuncValues, MultiIndexKeys
    let (cache, mut writer) = Cache::new();
    let by_node = cache.index(node);
    let by_port = cache.index(|pod: &Pod| pod.spec.ports.clone());
    let by_place =
        cache.index(|pod: &Pod| node(pod).into_iter().zip(pod.spec.ports.clone()).collect::<Vec<_>>());
    upsert(
        &mut writer,
        [
            pod("a", 1, r#"{"nodeName":"n1","ports":[80,443,80]}"#),
            pod("b", 1, r#"{"nodeName":"n2","ports":[80]}"#),
            pod("c", 1, "{}"),
        ],
    );
    assert_eq!(names(&cache.by(&by_node, "n1").unwrap()), "a");
    assert_eq!(names(&cache.by(&by_port, &80).unwrap()), "a b");
    assert_eq!(names(&cache.by(&by_port, &1).unwrap()), "", "an unknown value has no objects");
    assert_eq!(names(&cache.by(&by_place, &("n2".to_owned(), 80)).unwrap()), "b");
    let snapshot = cache.snapshot();
    assert_eq!(snapshot.values(&by_port).unwrap().collect::<BTreeSet<_>>(), BTreeSet::from([&80, &443]));
    assert_eq!(snapshot.count_by(&by_port, &80).unwrap(), 2);
}

#[test]
fn updates_and_deletions_move_objects() {
    // client-go: ThreadSafeStoreIndexingFunctionsWithMultipleValues, ST-7
    let (cache, mut writer) = Cache::new();
    let by_node = cache.index(node);
    upsert(&mut writer, [pod("a", 1, &on("n1")), pod("b", 1, &on("n1"))]);
    let before = cache.snapshot();
    upsert(&mut writer, [pod("a", 2, &on("n2"))]);
    assert_eq!(names(&cache.by(&by_node, "n1").unwrap()), "b");
    assert_eq!(cache.by(&by_node, "n2").unwrap()[0].version().unwrap().to_string(), "2");
    upsert(&mut writer, [pod("a", 3, &on("n2"))]);
    assert_eq!(cache.by(&by_node, "n2").unwrap()[0].version().unwrap().to_string(), "3");
    writer.apply(vec![Change::Delete(pod("b", 4, &on("elsewhere")))], None).unwrap();
    assert_eq!(names(&cache.by(&by_node, "n1").unwrap()), "");
    assert_eq!(before.count_by(&by_node, "n1").unwrap(), 2, "a snapshot keeps its index");
}

#[test]
fn empty_values_vanish() {
    // client-go: ThreadSafeStoreDeleteRemovesEmptySetsFromIndex, ThreadSafeStoreAddKeepsNonEmptySetPostDelete
    let (cache, mut writer) = Cache::new();
    let by_node = cache.index(node);
    upsert(&mut writer, [pod("a", 1, &on("n1")), pod("b", 1, &on("n1")), pod("c", 1, &on("n2"))]);
    writer.apply(vec![Change::Delete(pod("c", 2, "{}")), Change::Delete(pod("a", 2, "{}"))], None).unwrap();
    assert_eq!(cache.snapshot().values(&by_node).unwrap().collect::<Vec<_>>(), ["n1"]);
}

#[test]
fn a_relist_reaches_the_indexes() {
    // fabric8#2994: a deletion that a relist finds must not stay in the index.
    let (cache, mut writer) = Cache::new();
    let by_node = cache.index(node);
    upsert(&mut writer, [pod("a", 1, &on("n1")), pod("b", 1, &on("n1"))]);
    writer.begin_replace(History::Same);
    writer
        .stage(vec![Change::Upsert(pod("a", 1, &on("n1"))), Change::Upsert(pod("c", 5, &on("n1")))])
        .unwrap();
    assert_eq!(names(&cache.by(&by_node, "n1").unwrap()), "a b", "nothing is seen before the commit");
    writer.commit_replace(None).unwrap();
    assert_eq!(names(&cache.by(&by_node, "n1").unwrap()), "a c");
}

#[test]
fn what_has_no_values_marks_itself_and_harms_nobody() {
    // ST-8: client-go panics with the lock held.
    let (cache, mut writer) = Cache::new();
    let by_node = cache.index(node);
    let fallible = cache.index_by(IndexBy::try_object(|pod: &Pod| {
        pod.spec.node_name.clone().map(|node| [node]).ok_or("no node")
    }));
    let panicking = cache.index(|pod: &Pod| {
        assert!(pod.spec.ports.is_empty(), "ports!");
        pod.spec.node_name.clone()
    });
    upsert(
        &mut writer,
        [pod("broken", 1, "7"), pod("none", 1, "{}"), pod("ports", 1, r#"{"nodeName":"n1","ports":[1]}"#)],
    );
    let unindexed = |index| {
        let snapshot = cache.snapshot();
        snapshot.unindexed(index).unwrap().map(|o| o.name().to_owned()).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(unindexed(&by_node), "broken");
    assert_eq!(unindexed(&fallible), "broken none");
    assert_eq!(unindexed(&panicking), "broken ports");
    assert_eq!(names(&cache.by(&by_node, "n1").unwrap()), "ports");
    // Later revisions that have values are indexed, and the marks are gone.
    upsert(&mut writer, [pod("broken", 2, &on("n1")), pod("ports", 2, &on("n1"))]);
    assert_eq!((unindexed(&by_node), unindexed(&panicking)), (String::new(), String::new()));
    assert_eq!(names(&cache.by(&panicking, "n1").unwrap()), "broken ports");
    // And the other way round.
    upsert(&mut writer, [pod("ports", 3, "7")]);
    assert_eq!(unindexed(&by_node), "ports");
    writer.apply(vec![Change::Delete(pod("ports", 4, "7"))], None).unwrap();
    assert_eq!(unindexed(&by_node), "");
}

#[test]
fn an_index_function_that_changes_its_mind_leaves_no_ghost() {
    use std::sync::atomic::{AtomicU32, Ordering};
    let (cache, mut writer) = Cache::new();
    let calls = AtomicU32::new(0);
    let odd = cache.index(move |_: &Pod| [calls.fetch_add(1, Ordering::Relaxed)]);
    for version in 1..5 {
        upsert(&mut writer, [pod("a", version, "{}")]);
    }
    assert_eq!(cache.snapshot().values(&odd).unwrap().count(), 1);
    writer.apply(vec![Change::Delete(pod("a", 9, "{}"))], None).unwrap();
    assert_eq!(cache.snapshot().values(&odd).unwrap().count(), 0);
}

#[test]
fn indexes_may_come_late_and_go() {
    // client-go: Indexer (SI-8), ST-9
    let (cache, mut writer) = Cache::new();
    upsert(&mut writer, [pod("a", 1, &on("n1"))]);
    let old = cache.snapshot();
    let by_node = cache.index(node);
    assert_eq!(names(&cache.by(&by_node, "n1").unwrap()), "a");
    upsert(&mut writer, [pod("b", 1, &on("n1"))]);
    assert_eq!(names(&cache.by(&by_node, "n1").unwrap()), "a b");
    assert_eq!(old.by(&by_node, "n1").err(), Some(UnknownIndex), "the snapshot is older");
    let (other, _writer) = Cache::<Pod>::new();
    assert_eq!(other.by(&by_node, "n1").err(), Some(UnknownIndex), "another cache");
    cache.remove_index(&by_node);
    assert_eq!(cache.by(&by_node, "n1").err(), Some(UnknownIndex), "removed");
}

/// Decoding is what an index costs: what is there when it comes is asked once.
#[test]
fn an_index_that_comes_late_asks_each_object_once() {
    use std::sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    };
    let (cache, mut writer) = Cache::<Pod>::new();
    upsert(&mut writer, (0..20).map(|i| pod(&format!("p{i}"), 1, "{}")).collect::<Vec<_>>());
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let index =
        cache.index_by(IndexBy::handle(move |_: &Object<Pod>| Ok([count.fetch_add(1, Ordering::Relaxed)])));
    assert_eq!(cache.snapshot().values(&index).unwrap().count(), 20);
    assert_eq!(asked.load(Ordering::Relaxed), 20);
}

/// A value is found by what it is, and not by its hash alone.
#[test]
fn values_that_hash_alike_are_told_apart() {
    #[derive(Clone, PartialEq, Eq)]
    struct Alike(String);
    impl std::hash::Hash for Alike {
        fn hash<H: std::hash::Hasher>(&self, _: &mut H) {}
    }
    let (cache, mut writer) = Cache::<Pod>::new();
    let index = cache.index_by(IndexBy::handle(|o: &Object<Pod>| Ok([Alike(o.name().to_owned())])));
    upsert(&mut writer, [pod("a", 1, "{}"), pod("b", 1, "{}")]);
    for name in ["a", "b"] {
        assert_eq!(names(&cache.by(&index, &Alike(name.to_owned())).unwrap()), name);
    }
    assert_eq!(names(&cache.by(&index, &Alike("c".to_owned())).unwrap()), "");
}

#[test]
fn metadata_is_indexed_without_decoding() {
    let (cache, mut writer) = Cache::new();
    let by_app = cache.index_by(IndexBy::label("app"));
    let by_owner = cache.index_by(IndexBy::owner_uid());
    let by_uid = cache.index_by(IndexBy::handle(|o: &Object<Pod>| Ok([o.uid().to_string()])));
    let broken = labelled("broken", 1, r#"{"app":"web"}"#, "7");
    let owned = Object::from_json(
        r#"{"metadata":{"namespace":"ns","name":"owned","uid":"u",
            "ownerReferences":[{"uid":"o1","name":"x","kind":"ReplicaSet"},{"uid":"o2"}]},"spec":7}"#,
    );
    upsert(&mut writer, [broken, owned.unwrap()]);
    assert_eq!(names(&cache.by(&by_app, "web").unwrap()), "broken");
    assert_eq!(names(&cache.by(&by_owner, "o2").unwrap()), "owned");
    assert_eq!(names(&cache.by(&by_uid, "u-broken").unwrap()), "broken");
    assert_eq!(cache.snapshot().unindexed(&by_owner).unwrap().count(), 0);
}

#[test]
fn readers_see_objects_and_indexes_of_one_moment() {
    let (cache, mut writer) = Cache::new();
    let by_node = cache.index(node);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            loop {
                let snapshot = cache.snapshot();
                let node =
                    snapshot.get(Some("ns"), "a").map(|a| a.get().unwrap().spec.node_name.clone().unwrap());
                let found = |n| snapshot.count_by(&by_node, n).unwrap();
                match node.as_deref() {
                    Some("end") => return,
                    Some(n) => assert_eq!((found(n), snapshot.values(&by_node).unwrap().count()), (1, 1)),
                    None => assert_eq!(snapshot.values(&by_node).unwrap().count(), 0),
                }
            }
        });
        for version in 1..2000 {
            upsert(&mut writer, [pod("a", version, &on(if version % 2 == 0 { "even" } else { "odd" }))]);
        }
        upsert(&mut writer, [pod("a", 9999, &on("end"))]);
        reader.join().unwrap();
    });
}

/// A value that cannot be hashed if it is "bad".
#[derive(Clone, PartialEq, Eq)]
struct Brittle(String);

impl std::hash::Hash for Brittle {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        if self.0 == "bad" {
            std::panic::resume_unwind(Box::new("it cannot be hashed"));
        }
        self.0.hash(state);
    }
}

/// Symptom: changes that no subscriber was told, and a writer that had panicked. Cause: only the function of an index was
/// guarded, and not its values. Such an index is removed, since nobody can tell what is in it.
#[test]
fn an_index_whose_values_panic_goes_and_nothing_else_is_lost() {
    let (cache, mut writer) = Cache::new();
    let brittle = cache.index_by(IndexBy::handle(|o: &Object<Pod>| Ok([Brittle(o.name().to_owned())])));
    let by_node = cache.index(node);
    upsert(&mut writer, [pod("good", 1, &on("n1"))]);
    assert_eq!(cache.snapshot().values(&brittle).unwrap().count(), 1);
    let mut all = cache.subscription().policy(Policy::Block { bound: 10 }).subscribe();
    upsert(&mut writer, [pod("fine", 2, &on("n1")), pod("bad", 3, &on("n1")), pod("late", 4, &on("n1"))]);
    assert_eq!(cache.snapshot().values(&brittle).err(), Some(UnknownIndex));
    assert_eq!(names(&cache.list()), "bad fine good late");
    assert_eq!(names(&cache.by(&by_node, "n1").unwrap()), "bad fine good late");
    let mut told = Vec::new();
    while let Some(Some(event)) = all.next().now_or_never() {
        told.extend(event.object().map(|object| object.name().to_owned()));
    }
    assert_eq!(told, ["good", "fine", "bad", "late"]);
}

/// Symptom: an object was decoded once for each index. Once for all of them is enough, and the result is dropped then.
#[test]
fn an_object_is_decoded_once_for_all_its_indexes() {
    use std::sync::atomic::{AtomicUsize, Ordering};
    static DECODED: AtomicUsize = AtomicUsize::new(0);
    struct Counted;
    impl<'de> Deserialize<'de> for Counted {
        fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
            DECODED.fetch_add(1, Ordering::Relaxed);
            serde::de::IgnoredAny::deserialize(from).map(|_| Self)
        }
    }
    let (cache, mut writer) = Cache::<Counted>::new();
    for i in 0..5 {
        cache.index(move |_: &Counted| [i]);
    }
    let make = |version| {
        let json = format!(r#"{{"metadata":{{"name":"a","uid":"a","resourceVersion":"{version}"}}}}"#);
        Change::Upsert(Object::from_json(json).unwrap())
    };
    writer.apply(vec![make(1)], None).unwrap();
    assert_eq!(DECODED.load(Ordering::Relaxed), 1);
    writer.apply(vec![make(2), make(3)], None).unwrap();
    assert_eq!(DECODED.load(Ordering::Relaxed), 3);
}

proptest! {
    /// Whatever happens, an index finds exactly what a scan of the objects finds.
    #[test]
    fn an_index_is_what_a_scan_would_find(
        steps in prop::collection::vec((0..6_u8, 0..20_usize, prop::collection::vec(0..4_u16, 0..4)), 1..80),
        late in 0..80_usize,
    ) {
        let (cache, mut writer) = Cache::new();
        let early = cache.index(|pod: &Pod| pod.spec.ports.clone());
        let mut indexes = vec![early];
        for (version, (kind, name, ports)) in steps.into_iter().enumerate() {
            if version == late {
                indexes.push(cache.index(|pod: &Pod| pod.spec.ports.clone()));
            }
            let object = pod(&format!("p{name}"), version as u64 + 1, &format!(r#"{{"ports":{ports:?}}}"#));
            match kind {
                0 => writer.apply(vec![Change::Delete(object)], None).unwrap(),
                1 => {
                    writer.begin_replace(History::Same);
                    let kept = cache.list().into_iter().take(name).map(Change::Upsert);
                    writer.stage(kept.chain([Change::Upsert(object)]).collect()).unwrap();
                    writer.commit_replace(None).unwrap();
                }
                _ => upsert(&mut writer, [object]),
            }
            let mut scan: BTreeMap<u16, BTreeSet<String>> = BTreeMap::new();
            for object in &cache.snapshot() {
                for port in &object.get().unwrap().spec.ports {
                    scan.entry(*port).or_default().insert(format!("{object:?}"));
                }
            }
            for index in &indexes {
                let values: BTreeSet<_> = cache.snapshot().values(index).unwrap().copied().collect();
                prop_assert_eq!(values, scan.keys().copied().collect::<BTreeSet<_>>());
                for (port, objects) in &scan {
                    let found: Vec<_> = cache.by(index, port).unwrap().iter().map(|o| format!("{o:?}")).collect();
                    prop_assert_eq!(&found.into_iter().collect::<BTreeSet<_>>(), objects);
                }
            }
        }
    }
}

/// A first list is indexed on several threads: everything is where it belongs, and what fails is known.
#[test]
fn a_first_list_of_many_objects_is_indexed_whole() {
    const OBJECTS: usize = 3_000;
    let threads = std::sync::Arc::new(std::sync::Mutex::new(std::collections::HashSet::new()));
    let (cache, mut writer) = Cache::<serde_json::Value>::new();
    let seen = std::sync::Arc::clone(&threads);
    let by_shard = cache.index_by(IndexBy::try_object(move |object: &serde_json::Value| {
        seen.lock().unwrap().insert(std::thread::current().id());
        let shard = object["spec"]["shard"].as_u64().ok_or("no shard")?;
        Ok::<_, &str>([shard])
    }));
    // Hashing its values panics for one object: this index is removed, and the other one is not harmed.
    #[derive(Clone, PartialEq, Eq)]
    struct Bomb(bool);
    impl std::hash::Hash for Bomb {
        fn hash<H: std::hash::Hasher>(&self, _: &mut H) {
            assert!(!self.0, "it goes off");
        }
    }
    let bombs = cache.index_by(IndexBy::handle(|object| Ok([Bomb(object.name() == "o2000")])));
    let objects = (0..OBJECTS).map(|i| {
        let spec = if i % 1000 == 7 { String::new() } else { format!(r#""shard":{}"#, i % 10) };
        let json = format!(
            r#"{{"metadata":{{"name":"o{i:04}","uid":"u{i}","resourceVersion":"5"}},"spec":{{{spec}}}}}"#
        );
        Change::Upsert(Object::from_json(json).unwrap())
    });
    writer.begin_replace(History::Same);
    writer.stage(objects.collect()).unwrap();
    writer.commit_replace(None).unwrap();
    let snapshot = cache.snapshot();
    let names: Vec<_> = snapshot.by(&by_shard, &3).unwrap().map(|object| object.name().to_owned()).collect();
    assert_eq!(names, (0..300).map(|i| format!("o{:04}", i * 10 + 3)).collect::<Vec<_>>());
    assert_eq!(snapshot.by(&by_shard, &7).unwrap().count(), 297);
    assert_eq!(snapshot.unindexed(&by_shard).unwrap().count(), 3);
    assert!(snapshot.by(&bombs, &Bomb(false)).is_err(), "nobody knows what is in it");
    if std::thread::available_parallelism().unwrap().get() > 1 {
        assert!(threads.lock().unwrap().len() > 1, "one thread did it all");
    }
    // What was put in comes out again.
    writer.begin_replace(History::Same);
    writer.commit_replace(None).unwrap();
    assert_eq!(cache.snapshot().by(&by_shard, &3).unwrap().count(), 0);
}
