use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use super::*;

type Json = serde_json::Value;

fn object(name: &str, version: &str) -> Object<Json> {
    let json = format!(
        r#"{{"metadata":{{"namespace":"ns","name":"{name}","uid":"u-{name}","resourceVersion":"{version}"}}}}"#
    );
    Object::from_json(json).unwrap()
}

fn put(name: &str, version: &str) -> Vec<Change<Json>> {
    vec![Change::Upsert(object(name, version))]
}

fn rv(text: &str) -> Option<ResourceVersion> {
    ResourceVersion::new(text)
}

/// A store with a time to live of 100 ns, and its time in ns.
struct Rig {
    store: TtlStore<Json>,
    time: Arc<AtomicU64>,
}

impl Rig {
    fn new(ttl: u64) -> Self {
        let (start, time) = (Instant::now(), Arc::new(AtomicU64::new(0)));
        let clock = Arc::clone(&time);
        let now = move || start + Duration::from_nanos(clock.load(SeqCst));
        Self { store: TtlStore::with_clock(Duration::from_nanos(ttl), now), time }
    }

    fn at(&self, time: u64) -> &TtlStore<Json> {
        self.time.store(time, SeqCst);
        &self.store
    }
}

fn versions(store: &TtlStore<Json>) -> String {
    let shown: Vec<_> =
        store.list().iter().map(|o| format!("{}@{}", o.name(), o.version().unwrap())).collect();
    shown.join(" ")
}

/// client-go: TTLPolicy
#[test]
fn ex1_strictly_more_than_the_time_to_live_ends_a_life() {
    for (ttl, age, lives) in [
        (100, 0, true),
        (100, 99, true),
        (100, 100, true),
        (100, 101, false),
        (0, u64::MAX / 4, true),
        (1, 2, false),
    ] {
        let rig = Rig::new(ttl);
        rig.store.insert(object("a", "1"));
        let store = rig.at(age);
        assert_eq!(store.get(Some("ns"), "a").is_some(), lives, "{age} of {ttl}");
        assert_eq!(store.len(), usize::from(lives));
    }
}

/// client-go: TTLExpirationBasic
#[test]
fn ex1_what_has_expired_is_removed_by_the_read_that_meets_it() {
    let rig = Rig::new(100);
    rig.store.insert(object("a", "1"));
    rig.store.insert(object("b", "2"));
    let store = rig.at(101);
    assert!(store.is_empty() && store.keys().is_empty());
    // `keys` has met them all.
    assert_eq!(store.held(), 0);
    store.insert(object("a", "3"));
    store.insert(object("b", "4"));
    rig.at(300);
    assert!(store.get_key(object("a", "1").key()).is_none());
    assert_eq!(store.held(), 1, "only a was looked at");
    assert_eq!(store.purge(), 1);
    assert_eq!((store.held(), store.purge()), (0, 0));
}

/// A read that meets a writer leaves the work to others, and waits for nobody.
#[test]
fn reads_do_not_wait_for_a_writer() {
    let rig = Rig::new(100);
    rig.store.insert(object("a", "1"));
    let store = rig.at(101);
    let writing = store.shared.writing.lock().unwrap();
    assert!(store.get(Some("ns"), "a").is_none());
    assert!(store.list().is_empty());
    assert_eq!(store.held(), 1);
    drop(writing);
    assert!(store.list().is_empty());
    assert_eq!(store.held(), 0);
}

/// client-go: ReAddExpiredItem
#[test]
fn ex1_an_object_that_is_put_again_lives_again() {
    let rig = Rig::new(100);
    rig.store.insert(object("a", "1"));
    let store = rig.at(101);
    assert!(store.insert(object("a", "2")).is_none(), "what had expired is nothing");
    assert_eq!(versions(store), "a@2");
    rig.at(201);
    assert_eq!(store.insert(object("a", "3")).unwrap().version(), rv("2").as_ref());
    rig.at(301);
    assert_eq!(versions(store), "a@3");
    // It was put again between the look at the clock and the removal.
    store.insert(object("a", "4"));
    let (key, held) = (KeyRef { namespace: Some("ns"), name: "a" }, object("a", "4"));
    assert_eq!(store.forget(key).unwrap().version(), held.version());
    assert_eq!(versions(store), "a@4");
}

/// client-go: TTLList
#[test]
fn ex1_a_list_has_only_what_lives() {
    let rig = Rig::new(100);
    rig.at(0).insert(object("a", "1"));
    rig.at(50).insert(object("b", "2"));
    rig.at(60).insert(object("c", "3"));
    let store = rig.at(120);
    assert_eq!(store.len(), 2);
    assert_eq!(store.held(), 3);
    assert_eq!(versions(store), "b@2 c@3");
    assert_eq!(store.held(), 2);
    assert_eq!(store.keys().iter().map(ToString::to_string).collect::<Vec<_>>(), ["ns/b", "ns/c"]);
    assert_eq!(store.remove(object("b", "").key()).unwrap().name(), "b");
    assert!(store.remove(object("b", "").key()).is_none());
    assert!(rig.at(161).remove(object("c", "").key()).is_none(), "it had expired");
    assert_eq!(rig.store.held(), 0);
}

/// client-go's advances only by some of its writes (inventory 11).
#[test]
fn every_write_advances_the_version() {
    let rig = Rig::new(100);
    let (store, mut writer) = (&rig.store, rig.store.writer());
    assert_eq!(store.version(), None);
    store.insert(object("a", "5"));
    assert_eq!(store.version(), rv("5"));
    store.insert(object("b", "4"));
    assert_eq!(store.version(), rv("5"), "not back");
    writer.apply(put("a", "7"), rv("7").as_ref()).unwrap();
    assert_eq!(store.version(), rv("7"));
    writer.apply(vec![Change::Delete(object("a", "8"))], rv("8").as_ref()).unwrap();
    assert_eq!(store.version(), rv("8"));
    store.remove(object("b", "4").key());
    assert_eq!(store.version(), rv("8"), "a key has no version");
    writer.bookmark(&rv("9").unwrap());
    assert_eq!(store.version(), rv("9"));
    writer.begin_replace(History::Same);
    writer.commit_replace(rv("6").as_ref()).unwrap();
    assert_eq!(store.version(), rv("6"), "a list is what there is");
}

#[test]
fn a_replacement_gives_all_the_same_age_and_a_failed_one_leaves_no_trace() {
    let rig = Rig::new(100);
    let mut writer = rig.store.writer();
    writer.apply([put("a", "1"), put("x", "1")].concat(), None).unwrap();
    rig.at(50);
    writer.begin_replace(History::Same);
    writer.stage([put("a", "1"), put("b", "2"), put("c", "3"), put("b", "1")].concat()).unwrap();
    writer.stage(vec![Change::Delete(object("c", "4")), Change::Delete(object("a", ""))]).unwrap();
    writer.stage(put("a", "1")).unwrap();
    assert_eq!(versions(&rig.store), "a@1 x@1");
    let store = rig.at(80);
    writer.commit_replace(rv("9").as_ref()).unwrap();
    writer.begin_replace(History::Same);
    writer.stage(put("ghost", "5")).unwrap();
    writer.abandon_replace();
    writer.begin_replace(History::Same);
    writer.abandon_replace();
    rig.at(180);
    assert_eq!(versions(store), "a@1 b@2");
    rig.at(181);
    assert_eq!(versions(store), "");
}

#[test]
fn through_the_writer_nothing_goes_back_and_every_event_is_a_sign_of_life() {
    let rig = Rig::new(100);
    let mut writer = rig.store.writer();
    writer.apply(put("a", "5"), None).unwrap();
    writer.apply(put("b", "5"), None).unwrap();
    let store = rig.at(60);
    writer.apply(put("a", "5"), None).unwrap();
    writer.apply(put("b", "4"), None).unwrap();
    writer.apply(vec![Change::Delete(object("a", "4"))], None).unwrap();
    assert_eq!(versions(store), "a@5 b@5");
    rig.at(110);
    assert_eq!(versions(store), "a@5", "an older state of b is no sign of life");
    writer.apply(vec![Change::Delete(object("a", "6"))], None).unwrap();
    writer.apply(put("a", "5"), None).unwrap();
    assert_eq!(versions(store), "", "a replay of what was deleted");
    writer.apply(put("a", "7"), None).unwrap();
    assert_eq!(versions(store), "a@7");
}

/// As in the cache: the later deletion is the one that a replay is held against.
#[test]
fn a_replayed_deletion_does_not_open_the_way_for_a_ghost() {
    let rig = Rig::new(100);
    let mut writer = rig.store.writer();
    let gone = |version: &str| vec![Change::Delete(object("a", version))];
    writer.apply([put("a", "3"), gone("10")].concat(), None).unwrap();
    for replay in [gone("5"), put("a", "8"), gone("10"), put("a", "10")] {
        writer.apply(replay, None).unwrap();
        assert_eq!(versions(&rig.store), "");
    }
    writer.apply([gone("20"), put("a", "15")].concat(), None).unwrap();
    assert_eq!(versions(&rig.store), "", "the last deletion counts");
    writer.apply(put("a", "21"), None).unwrap();
    assert_eq!(versions(&rig.store), "a@21");
}

#[test]
fn what_has_expired_holds_nothing_up_whether_it_was_purged_or_not() {
    for purged in [false, true] {
        for (change, left) in [(put("a", "5"), "a@5"), (vec![Change::Delete(object("a", "5"))], "")] {
            let rig = Rig::new(100);
            let mut writer = rig.store.writer();
            writer.apply(put("a", "10"), None).unwrap();
            let store = rig.at(101);
            if purged {
                store.purge();
            }
            writer.apply(change, None).unwrap();
            assert_eq!(versions(store), left, "{purged}");
            // The deletion of what had expired is remembered, too.
            writer.apply(put("a", "4"), None).unwrap();
            assert_eq!(versions(store), left, "{purged}");
        }
    }
}

/// A list is what there is, also on a server that went back.
#[test]
fn a_replacement_may_bring_an_earlier_revision() {
    let rig = Rig::new(100);
    let mut writer = rig.store.writer();
    writer.apply(put("a", "10"), None).unwrap();
    writer.begin_replace(History::Unknown);
    writer.stage(put("a", "5")).unwrap();
    writer.commit_replace(rv("5").as_ref()).unwrap();
    assert_eq!(versions(&rig.store), "a@5");
}

#[test]
fn many_threads_write_and_nothing_is_lost() {
    let rig = Rig::new(100);
    rig.at(0).insert(object("old", "1"));
    rig.at(101);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let store = &rig.store;
            scope.spawn(move || {
                for i in 0..200 {
                    store.insert(object(&format!("o{thread}-{i}"), "5"));
                    assert!(store.get(Some("ns"), &format!("o{thread}-{i}")).is_some());
                    if i % 20 == 0 {
                        assert!(store.list().iter().all(|object| object.name() != "old"));
                    }
                }
            });
        }
    });
    assert_eq!(rig.store.len(), 800);
    rig.store.purge();
    assert_eq!(rig.store.held(), 800);
}
