//! What users report of other reflectors: events, indexes, memory by keys, staleness.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use reflector::{
    Cache, Change, IndexBy, LabelSelector, Object, Reflector, ResourceVersion, Store, StoreError,
    protocol::History, wire::WatchEvent,
};

use crate::{common::*, support::*};

/// kube#1590 (K11), bottlerocket-update-operator#106: shared streams deliver no deletes, and a delete during a gap is
/// missed.
#[tokio::test(start_paused = true)]
async fn e35_e37_every_subscriber_is_told_of_every_deletion_with_the_last_state() {
    let objects = [object("a", "u1", "5"), object("b", "u2", "6"), object("c", "u3", "7")];
    let (letters, mut server, stream) = synced(&objects, "7").await;
    let mut subscribers = [letters.cache().subscribe(), letters.cache().subscribe()];
    for all in &mut subscribers {
        assert_eq!(told(all), "=a@5 =b@6 =c@7 synced");
    }
    stream.send(vec![WatchEvent::Deleted(object("a", "u1", "8"))]);
    until_version(&letters, "8").await;
    // b goes while nobody watches.
    stream.send(vec![error(410, "Expired")]);
    let _stream = server.sync(&[object("c", "u3", "7")], "12").await;
    until_version(&letters, "12").await;
    for all in &mut subscribers {
        assert_eq!(told(all), "-a@8 -b@6?");
    }
    letters.stop().await;
}

/// kube#1630: a late subscription has no race between its snapshot and its stream.
#[tokio::test(start_paused = true)]
async fn e36_whoever_comes_at_any_time_holds_the_same_in_the_end() {
    let (letters, _server, stream) = synced(&[object("o0", "u0", "5")], "9").await;
    let mut subscribers = Vec::new();
    for version in 10..200_u32 {
        let (name, text) = (format!("o{}", version % 5), version.to_string());
        let object = object(&name, &format!("u{}", version % 5), &text);
        let gone = version % 3 == 0 && letters.cache().get(Some("ns"), &name).is_some();
        subscribers.push((letters.cache().subscribe(), Fold::default()));
        stream.send(vec![if gone { WatchEvent::Deleted(object) } else { WatchEvent::Modified(object) }]);
        // Some read at once, some late, and some never before the end.
        for (all, fold) in subscribers.iter_mut().step_by(3) {
            fold.follow(all);
        }
        until_version(&letters, &text).await;
    }
    for (all, fold) in &mut subscribers {
        fold.follow(all);
        assert_eq!(fold.content(), content(letters.cache()));
    }
    letters.stop().await;
}

/// fabric8#2994: a delete that was found by a relist did not reach the index.
#[tokio::test(start_paused = true)]
async fn e38_what_a_relist_did_not_find_is_in_no_index() {
    let (letters, mut server, stream) = synced(&[object("a", "u1", "5"), object("b", "u2", "6")], "7").await;
    let by_uid = letters.cache().index_by(IndexBy::field("metadata.uid"));
    assert_eq!(letters.cache().by(&by_uid, "u1").unwrap().len(), 1);
    stream.send(vec![error(410, "Expired")]);
    let _stream = server.sync(&[object("b", "u9", "11")], "12").await;
    until_version(&letters, "12").await;
    let found = |uid: &str| letters.cache().by(&by_uid, uid).unwrap().len();
    assert_eq!((found("u1"), found("u2"), found("u9")), (0, 0, 1));
    letters.stop().await;
}

/// kubernetes-client/java#1234, #1259, javascript#301: each relist was an update of everything.
#[tokio::test(start_paused = true)]
async fn e39_a_relist_of_what_has_not_changed_is_told_to_nobody() {
    // Made anew for each list, as the wire does.
    let objects =
        || -> Vec<_> { (0..500).map(|i| object(&format!("o{i:03}"), &format!("u{i}"), "5")).collect() };
    let (letters, mut server, mut stream) = synced(&objects(), "7").await;
    let mut all = letters.cache().subscribe();
    told(&mut all);
    for version in ["8", "9", "10"] {
        stream.send(vec![error(410, "Expired")]);
        stream = server.sync(&objects(), version).await;
        until_version(&letters, version).await;
        assert_eq!(told(&mut all), "");
        assert_eq!(all.lag().waiting, 0);
    }
    letters.stop().await;
}

/// flotta-operator#134: lists by label were the top user of the CPU. With an index the rest is not looked at.
#[test]
fn g57_a_list_by_an_indexed_label_does_not_look_at_the_rest() {
    let labelled = |i: usize| {
        let app = if i == 7_777 { "rare" } else { "common" };
        let json = format!(r#"{{"metadata":{{"namespace":"ns","name":"o{i}","labels":{{"app":"{app}"}}}}}}"#);
        Change::Upsert(Object::<Json>::from_json(json).unwrap())
    };
    let (cache, mut writer) = Cache::new();
    writer.apply((0..20_000).map(labelled).collect(), None).unwrap();
    let rare: LabelSelector = "app=rare".parse().unwrap();
    let fastest = || {
        let once = || {
            let start = Instant::now();
            assert_eq!(cache.snapshot().select(&rare).count(), 1);
            start.elapsed()
        };
        (0..10).map(|_| once()).min().unwrap()
    };
    let scanned = fastest();
    cache.index_by(IndexBy::label("app"));
    let looked_up = fastest();
    // It is thousands of times faster; this bound is one that no machine's bad day can reach.
    assert!(looked_up * 20 < scanned, "{looked_up:?} and {scanned:?}");
}

/// Knows keys and versions, and no bodies.
#[derive(Default)]
struct Keys {
    held: BTreeMap<String, String>,
    staged: BTreeMap<String, String>,
    gone: Arc<Mutex<Vec<String>>>,
}

impl Store<Json> for Keys {
    fn apply(&mut self, changes: Vec<Change<Json>>, _: Option<&ResourceVersion>) -> Result<(), StoreError> {
        for change in changes {
            match change {
                Change::Upsert(o) => drop(self.held.insert(o.key().to_string(), short(&o))),
                Change::Delete(o) => self.gone.lock().unwrap().extend(self.held.remove(&o.key().to_string())),
            }
        }
        Ok(())
    }
    fn begin_replace(&mut self, _: History) {
        self.staged.clear();
    }
    fn stage(&mut self, changes: Vec<Change<Json>>) -> Result<(), StoreError> {
        for change in changes {
            match change {
                Change::Upsert(o) => drop(self.staged.insert(o.key().to_string(), short(&o))),
                Change::Delete(o) => drop(self.staged.remove(&o.key().to_string())),
            }
        }
        Ok(())
    }
    fn commit_replace(&mut self, _: Option<&ResourceVersion>) -> Result<(), StoreError> {
        let before = std::mem::replace(&mut self.held, std::mem::take(&mut self.staged));
        let gone = before.into_iter().filter(|(key, _)| !self.held.contains_key(key)).map(|(_, short)| short);
        self.gone.lock().unwrap().extend(gone);
        Ok(())
    }
    fn abandon_replace(&mut self) {
        self.staged.clear();
    }
}

/// fabric8#3587: keys and versions alone, and deletions are known all the same.
#[tokio::test(start_paused = true)]
async fn g58_a_store_of_keys_knows_what_was_deleted() {
    let (source, mut server) = scripted();
    let keys = Keys::default();
    let gone = Arc::clone(&keys.gone);
    let letters = Reflector::builder(source).start_with(keys);
    let objects = [object("a", "u1", "5"), object("b", "u2", "6"), object("c", "u3", "7")];
    let stream = server.sync(&objects, "7").await;
    stream.send(vec![WatchEvent::Deleted(object("a", "u1", "8")), error(410, "Expired")]);
    let _stream = server.sync(&[object("c", "u3", "7")], "12").await;
    letters.watch_status().wait_for(|s| s.version == ResourceVersion::new("12")).await.unwrap();
    assert_eq!(*gone.lock().unwrap(), ["a@5", "b@6"]);
    letters.stop().await;
}

/// kubespawner#81: a watch that does not begin where the list ended loses what happens in between.
#[tokio::test(start_paused = true)]
async fn h62_the_watch_begins_where_the_list_ended() {
    let (source, mut server) = scripted();
    let letters = Reflector::builder(source).streaming(false).start();
    server.list().await.page(&[object("a", "u1", "5")], "7", None);
    let watch = server.watch().await;
    assert_eq!(watch.options.version, ResourceVersion::new("7"));
    // What happened between the list and the watch.
    watch.open().send(vec![WatchEvent::Deleted(object("a", "u1", "8"))]);
    until_version(&letters, "8").await;
    assert!(letters.cache().is_empty());
    letters.stop().await;
}

/// Kubus#135: a verified relist that heals, and tells what it healed.
#[tokio::test(start_paused = true)]
async fn h64_a_verifying_read_tells_what_the_watch_never_did() {
    let (source, mut server) = scripted();
    let letters = Reflector::builder(source)
        .streaming(false)
        .options(|options| options.relist_every = Some(Duration::from_secs(60)))
        .start();
    server.list().await.page(&[object("a", "u1", "5"), object("b", "u2", "6")], "7", None);
    let _stream = server.watch().await.open();
    letters.ready().await.unwrap();
    let mut all = letters.cache().subscribe();
    assert_eq!(told(&mut all), "=a@5 =b@6 synced");
    // The watch says nothing; then the same version with another body, one object more and one less.
    let list = server.list().await;
    assert_eq!(list.options.version, None, "the most recent state, and not the one of a stalled cache");
    let silently = r#"{"metadata":{"namespace":"ns","name":"a","uid":"u1","resourceVersion":"5"},"x":1}"#;
    list.page(&[Object::from_json(silently).unwrap(), object("c", "u3", "8")], "9", None);
    until_version(&letters, "9").await;
    assert_eq!(told(&mut all), "-b@6? a@5>a@5 +c@8");
    letters.stop().await;
}
