use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::{Encoding, Labels, ObjectKey, ObjectMeta, Uid};

type Json = serde_json::Value;

fn object(name: &str, uid: &str, version: &str) -> Object<Json> {
    let json = format!(
        r#"{{"metadata":{{"namespace":"ns","name":"{name}","uid":"{uid}","resourceVersion":"{version}"}}}}"#
    );
    Object::from_json(json).unwrap()
}

fn rv(text: &str) -> Option<ResourceVersion> {
    ResourceVersion::new(text)
}

/// What happened, in one line each: `+a@5`, `a@5>a@6`, `-a@6`, `-a@6?` where the final state is unknown.
fn text(delta: &Delta<Json>) -> String {
    let show = |o: &Object<Json>| format!("{}@{}", o.name(), o.version().unwrap());
    match delta {
        Delta::Added(new) => format!("+{}", show(new)),
        Delta::Updated { old, new } => format!("{}>{}", show(old), show(new)),
        Delta::Deleted { last, final_state_unknown } => {
            format!("-{}{}", show(last), if *final_state_unknown { "?" } else { "" })
        }
    }
}

/// A cache, its writer, and all that was told.
struct Rig {
    cache: Cache<Json>,
    writer: CacheWriter<Json>,
}

impl Rig {
    fn new() -> Self {
        let (cache, writer) = Cache::new();
        Self { cache, writer }
    }

    fn put(&mut self, name: &str, uid: &str, version: &str) -> String {
        self.change(Change::Upsert(object(name, uid, version)))
    }

    fn delete(&mut self, name: &str, uid: &str, version: &str) -> String {
        self.change(Change::Delete(object(name, uid, version)))
    }

    fn change(&mut self, change: Change<Json>) -> String {
        let mut told = Vec::new();
        self.writer.apply_with(vec![change], None, &mut |delta| told.push(text(&delta))).unwrap();
        told.join(" ")
    }

    fn begin(&mut self) {
        Store::<Json>::begin_replace(&mut self.writer, History::Same);
    }

    fn stage(&mut self, objects: &[(&str, &str, &str)]) {
        let changes = objects.iter().map(|(n, u, v)| Change::Upsert(object(n, u, v))).collect();
        self.writer.stage(changes).unwrap();
    }

    fn commit(&mut self, version: &str) -> String {
        let mut told = Vec::new();
        self.writer.commit_with(rv(version).as_ref(), &mut |delta| told.push(text(&delta))).unwrap();
        told.join(" ")
    }

    fn content(&self) -> String {
        let snapshot = self.cache.snapshot();
        let all: Vec<_> = snapshot.iter().map(|o| format!("{}@{}", o.name(), o.version().unwrap())).collect();
        all.join(" ")
    }
}

/// ST-3, and K8: no object goes back in time.
#[test]
fn k8_an_older_revision_never_replaces_a_newer_one() {
    let mut rig = Rig::new();
    assert_eq!(rig.put("a", "u1", "5"), "+a@5");
    assert_eq!(rig.put("a", "u1", "7"), "a@5>a@7");
    assert_eq!(rig.put("a", "u1", "6"), "");
    assert_eq!(rig.put("a", "u1", "7"), "");
    assert_eq!(rig.writer.regressions(), 1);
    assert_eq!(rig.content(), "a@7");
}

/// kubernetes#133565: same name, other uid.
#[test]
fn another_uid_under_the_same_name_is_a_delete_and_an_add() {
    let mut rig = Rig::new();
    rig.put("a", "u1", "5");
    assert_eq!(rig.put("a", "u2", "9"), "-a@5? +a@9");
    // A replay of the deletion of the first one does not touch the second.
    assert_eq!(rig.delete("a", "u1", "8"), "");
    assert_eq!(rig.content(), "a@9");
    assert_eq!(rig.delete("a", "u2", "10"), "-a@10");
    assert_eq!(rig.delete("a", "u2", "10"), "");
    assert_eq!(rig.content(), "");
}

#[test]
fn the_deletion_of_an_unseen_successor_ends_what_is_held() {
    let mut rig = Rig::new();
    rig.put("a", "u1", "5");
    assert_eq!(rig.delete("a", "u2", "9"), "-a@5?");
}

/// K8: a replay of an object that has been deleted makes no ghost; a new object of the name, or a later state, is none.
#[test]
fn k8_a_replay_does_not_bring_back_what_was_deleted() {
    let mut rig = Rig::new();
    rig.put("a", "u1", "5");
    assert_eq!(rig.delete("a", "u1", "8"), "-a@8");
    assert_eq!(rig.put("a", "u1", "5"), "");
    assert_eq!(rig.put("a", "u1", "8"), "");
    assert_eq!(rig.writer.regressions(), 2);
    // It comes back into the selection.
    assert_eq!(rig.put("a", "u1", "9"), "+a@9");
    assert_eq!(rig.delete("a", "u1", "10"), "-a@10");
    assert_eq!(rig.put("a", "u2", "11"), "+a@11");
    // What a list says is there is there.
    assert_eq!(rig.delete("a", "u2", "12"), "-a@12");
    rig.begin();
    rig.stage(&[("a", "u2", "11")]);
    assert_eq!(rig.commit("11"), "+a@11");
}

/// Symptom: an object that had been deleted was there again after a replay. Cause: a deletion that could not be read says
/// neither of which object nor when, and a grave without a uid and a version holds nothing.
#[test]
fn k8_a_replay_does_not_bring_back_what_was_deleted_unread() {
    let mut rig = Rig::new();
    rig.put("a", "u1", "5");
    let key = ObjectKey::new(Some("ns"), "a");
    let meta = ObjectMeta { key, uid: Uid::default(), version: None, labels: Labels::default() };
    assert_eq!(rig.change(Change::Delete(Object::new(meta, Encoding::Json, "{}".into()))), "-a@5?");
    assert_eq!(rig.put("a", "u1", "5"), "");
    assert_eq!(rig.put("a", "u1", "6"), "+a@6", "a later state is none");
}

/// Symptom: a cluster-scoped object was found under one spelling of "no namespace" and not under the other.
#[test]
fn an_empty_namespace_is_none() {
    let mut rig = Rig::new();
    let node = Object::from_json(r#"{"metadata":{"name":"n","uid":"n","resourceVersion":"1"}}"#).unwrap();
    rig.change(Change::Upsert(node));
    rig.put("a", "u1", "5");
    let snapshot = rig.cache.snapshot();
    for namespace in [None, Some("")] {
        assert!(rig.cache.get(namespace, "n").is_some() && snapshot.get(namespace, "n").is_some());
    }
    assert_eq!(snapshot.namespace("").count(), 1);
    assert_eq!(snapshot.namespace("ns").count(), 1);
}

#[test]
fn equal_revisions_keep_the_object_and_cause_nothing() {
    let mut rig = Rig::new();
    rig.put("a", "u1", "5");
    rig.put("b", "u2", "6");
    let before = rig.cache.get(Some("ns"), "a").unwrap();
    rig.begin();
    rig.stage(&[("a", "u1", "5"), ("b", "u2", "6")]);
    assert_eq!(rig.commit("8"), "");
    assert!(rig.cache.get(Some("ns"), "a").unwrap().ptr_eq(&before));
    assert_eq!(rig.cache.version(), rv("8"));
}

#[test]
fn a_replacement_tells_deletions_first_and_then_the_rest_in_order() {
    let mut rig = Rig::new();
    for (name, uid, version) in [("a", "u1", "1"), ("b", "u2", "2"), ("c", "u3", "3"), ("e", "u5", "5")] {
        rig.put(name, uid, version);
    }
    rig.begin();
    rig.stage(&[("e", "u9", "9"), ("d", "u4", "4"), ("b", "u2", "7"), ("a", "u1", "1")]);
    assert_eq!(rig.commit("10"), "-c@3? -e@5? b@2>b@7 +d@4 +e@9");
    assert_eq!(rig.content(), "a@1 b@7 d@4 e@9");
}

/// One under the name of another is a deletion and an addition.
#[test]
fn a_replacement_counts_what_it_touched() {
    let mut rig = Rig::new();
    let mut replace = |objects: &[(&str, &str, &str)]| {
        rig.begin();
        rig.stage(objects);
        rig.writer.commit_with(None, &mut |_| {}).unwrap()
    };
    let (a, b) = (("a", "1", "1"), ("b", "2", "1"));
    let first = [a, b, ("c", "3", "1"), ("d", "4", "1"), ("e", "5", "1"), ("f", "6", "1"), ("g", "7", "1")];
    assert_eq!(replace(&first), Replaced { added: 7, ..Replaced::default() });
    let second = [a, b, ("c", "3", "2"), ("d", "4", "2"), ("g", "8", "2"), ("h", "9", "2"), ("i", "10", "2")];
    assert_eq!(replace(&second), Replaced { added: 3, updated: 2, deleted: 3, unchanged: 2 });
}

/// B1: kubert's index keeps what was deleted between an interrupted relist and the next complete one.
#[test]
fn b1_nothing_of_an_interrupted_list_stays() {
    let mut rig = Rig::new();
    rig.put("a", "u1", "1");
    rig.put("b", "u2", "2");
    rig.begin();
    rig.stage(&[("b", "u2", "2"), ("ghost", "u7", "7")]);
    // The connection breaks; b and the newcomer are deleted; a full relist follows.
    Store::<Json>::abandon_replace(&mut rig.writer);
    rig.begin();
    rig.stage(&[("a", "u1", "1")]);
    assert_eq!(rig.commit("9"), "-b@2?");
    assert_eq!(rig.content(), "a@1");
}

/// The same, where nobody said that the first attempt was over.
#[test]
fn b1_a_new_attempt_starts_from_nothing() {
    let mut rig = Rig::new();
    rig.begin();
    rig.stage(&[("ghost", "u7", "7")]);
    rig.begin();
    rig.stage(&[("a", "u1", "1")]);
    assert_eq!(rig.commit("9"), "+a@1");
}

/// WL-3: changes and deletes before the end bookmark apply to what is staged.
#[test]
fn changes_apply_to_the_staging_area() {
    let mut rig = Rig::new();
    rig.put("a", "u1", "1");
    rig.begin();
    rig.stage(&[("a", "u1", "1"), ("b", "u2", "2"), ("c", "u3", "3"), ("b", "u2", "8"), ("c", "u3", "2")]);
    rig.writer
        .stage(vec![Change::Delete(object("a", "u1", "9")), Change::Delete(object("x", "u9", "9"))])
        .unwrap();
    assert_eq!(rig.content(), "a@1", "readers see nothing of it");
    assert_eq!(rig.commit("9"), "-a@1? +b@8 +c@3");
}

#[test]
fn a_list_that_is_older_than_the_copy_is_what_there_is() {
    let mut rig = Rig::new();
    rig.put("a", "u1", "500");
    rig.begin();
    rig.stage(&[("a", "u1", "40")]);
    assert_eq!(rig.commit("50"), "a@500>a@40");
    assert_eq!(rig.cache.version(), rv("50"));
}

/// kubernetes#107457: etcd was restored from a backup, and a version was given out twice.
#[test]
fn equal_versions_prove_nothing_once_the_history_is_unknown() {
    let of = |node: &str| {
        let meta = r#""metadata":{"namespace":"ns","name":"a","uid":"u1","resourceVersion":"40"}"#;
        Change::Upsert(
            Object::<Json>::from_json(format!(r#"{{{meta},"spec":{{"nodeName":"{node}"}}}}"#)).unwrap(),
        )
    };
    for (history, expected) in [(History::Same, ""), (History::Unknown, "a@40>a@40")] {
        let mut rig = Rig::new();
        rig.change(of("before"));
        Store::<Json>::begin_replace(&mut rig.writer, history);
        rig.writer.stage(vec![of("after")]).unwrap();
        assert_eq!(rig.commit("50"), expected);
    }
    // What has not changed is still not told.
    let mut rig = Rig::new();
    rig.change(of("before"));
    Store::<Json>::begin_replace(&mut rig.writer, History::Unknown);
    rig.writer.stage(vec![of("before")]).unwrap();
    assert_eq!(rig.commit("50"), "");
}

#[test]
fn snapshots_and_handles_stay_as_they_were() {
    let mut rig = Rig::new();
    rig.put("a", "u1", "1");
    let (snapshot, handle) = (rig.cache.snapshot(), rig.cache.get(Some("ns"), "a").unwrap());
    rig.delete("a", "u1", "2");
    assert_eq!(snapshot.len(), 1);
    assert_eq!(handle.version(), rv("1").as_ref());
    assert!(rig.cache.is_empty());
}

#[test]
fn a_namespace_is_read_alone_and_in_order() {
    let (cache, mut writer) = Cache::<Json>::new();
    let named = |namespace: &str, name: &str| {
        let namespace =
            if namespace.is_empty() { String::new() } else { format!(r#""namespace":"{namespace}","#) };
        Change::Upsert(
            Object::from_json(format!(r#"{{"metadata":{{{namespace}"name":"{name}"}}}}"#)).unwrap(),
        )
    };
    let keys = [("b", "2"), ("", "node"), ("a", "9"), ("b", "1"), ("ba", "0"), ("a-b", "5")];
    writer.apply(keys.map(|(ns, name)| named(ns, name)).into(), None).unwrap();
    let snapshot = cache.snapshot();
    let names = |ns| snapshot.namespace(ns).map(Object::name).collect::<Vec<_>>();
    assert_eq!(names("b"), ["1", "2"]);
    assert_eq!(names("a"), ["9"]);
    assert_eq!(names("zz"), [""; 0]);
    let all: Vec<_> = cache.keys().iter().map(ToString::to_string).collect();
    assert_eq!(all, ["node", "a/9", "a-b/5", "b/1", "b/2", "ba/0"]);
    assert!(cache.get(None, "node").is_some());
    assert!(cache.get(Some(""), "node").is_some());
    assert!(cache.get(Some("a"), "node").is_none());
}

#[derive(Clone, Debug)]
enum Op {
    Put(u8, u8, u8),
    Delete(u8, u8, u8),
    Replace(Vec<(u8, u8, u8)>, bool),
}

fn op() -> impl Strategy<Value = Op> {
    let revision = || (0u8..6, 0u8..3, 1u8..20);
    prop_oneof![
        revision().prop_map(|(n, u, v)| Op::Put(n, u, v)),
        revision().prop_map(|(n, u, v)| Op::Delete(n, u, v)),
        (prop::collection::vec(revision(), 0..8), any::<bool>())
            .prop_map(|(items, whole)| Op::Replace(items, whole)),
    ]
}

proptest! {
    /// Whatever comes in whatever order: who folds the deltas has the content, and every delta fits what was there.
    #[test]
    fn the_deltas_tell_the_whole_story(ops in prop::collection::vec(op(), 0..60)) {
        let (cache, mut writer) = Cache::<Json>::new();
        let mut folded: BTreeMap<ObjectKey, Object<Json>> = BTreeMap::new();
        let mut wrong = Vec::new();
        let make = |(n, u, v): (u8, u8, u8)| object(&n.to_string(), &format!("u{n}-{u}"), &v.to_string());
        for op in ops {
            let mut tell = |delta: Delta<Json>| {
                let key = delta.object().key().clone();
                let fits = match delta {
                    Delta::Added(new) => folded.insert(key, new).is_none(),
                    Delta::Updated { old, new } => folded.insert(key, new).is_some_and(|held| held.ptr_eq(&old)),
                    Delta::Deleted { .. } => folded.remove(&key).is_some(),
                };
                if !fits {
                    wrong.push(());
                }
            };
            match op {
                Op::Put(n, u, v) => writer.apply_with(vec![Change::Upsert(make((n, u, v)))], None, &mut tell).unwrap(),
                Op::Delete(n, u, v) => writer.apply_with(vec![Change::Delete(make((n, u, v)))], None, &mut tell).unwrap(),
                Op::Replace(items, whole) => {
                    Store::<Json>::begin_replace(&mut writer, History::Same);
                    writer.stage(items.into_iter().map(|i| Change::Upsert(make(i))).collect()).unwrap();
                    if whole {
                        writer.commit_with(None, &mut tell).unwrap();
                    } else {
                        Store::<Json>::abandon_replace(&mut writer);
                    }
                }
            }
            prop_assert!(wrong.is_empty());
            let content = cache.list();
            prop_assert_eq!(content.len(), folded.len());
            prop_assert!(content.iter().zip(folded.values()).all(|(a, b)| a.ptr_eq(b)));
        }
    }
}
