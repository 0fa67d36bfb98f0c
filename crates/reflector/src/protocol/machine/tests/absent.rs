//! A.4: 401, 403, 404, 405.

use super::rig::{Rig, lists, secs};
use crate::protocol::{Class, History, Options, Phase, Verb};

/// I71: fresh credentials and one retry at once; then with waits, and fresh credentials before every request.
#[test]
fn unauthorized() {
    let mut rig = Rig::synced(lists(), "10");
    rig.error("401 Unauthorized").expect("close second; report watch unauthorized");
    assert!(rig.status().blocked.is_none());
    rig.expect_wait(0.0, 0.0).expect("refresh; watch rv=10");
    for (low, high) in [(0.8, 1.6), (1.6, 3.2), (3.2, 6.4)] {
        rig.watch_fails("401").expect("close second; report watch unauthorized");
        assert_eq!(rig.status().blocked.unwrap().class, Class::Unauthorized);
        rig.expect_wait(low, high).expect("refresh; watch rv=10");
    }
    rig.open().expect("");
    assert!(rig.status().blocked.is_none());
    // The next token expires an hour later.
    rig.modified("11").advance(80.0).error("401").take();
    rig.expect_wait(0.0, 0.0).expect("refresh; watch rv=11");
    // One that expires at once makes no hot loop.
    rig.open().modified("12").error("401").take();
    rig.expect_wait(0.8, 60.0).expect("refresh; watch rv=12");
}

/// I65, I67: quickly at first, since permissions come late after a start; then slowly. It says what is missing.
#[test]
fn forbidden() {
    let mut rig = Rig::start(Options { target: "pods in namespace shop".into(), ..lists() });
    rig.take();
    let waits = [0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 51.2, 60.0, 60.0];
    for low in waits {
        rig.list_fails("403 Forbidden").expect("abandon; report list forbidden");
        let blocked = rig.status().blocked.unwrap();
        assert_eq!((blocked.class, blocked.verb), (Class::Forbidden, Verb::List));
        assert_eq!(blocked.to_string(), "cannot list pods in namespace shop: 403 Forbidden: refused");
        rig.expect_wait(low, low * 2.0).expect("begin first list; list limit=500");
    }
    rig.page("10", "").take();
    assert!(rig.status().blocked.is_none() && rig.status().synced);
}

/// I68, I69: absent, said so, probed slowly, and back by itself; the store keeps what it has.
#[test]
fn absent() {
    let mut rig = Rig::synced(lists(), "10");
    rig.ended().take();
    rig.expect_wait(0.8, 1.6).take();
    rig.watch_fails("404").expect("close second; abandon; report watch absent");
    for low in [1.6, 3.2, 6.4, 12.8, 25.6, 51.2, 60.0, 60.0] {
        assert!(matches!(rig.status().phase, Phase::Absent { .. }));
        assert_eq!(rig.status().blocked.unwrap().class, Class::Absent);
        rig.expect_wait(low, low * 2.0).expect("begin absent list; list limit=500");
        rig.list_fails("404").expect("abandon; report list absent");
    }
    rig.expect_wait(60.0, 120.0).take();
    // What comes back under this name has a history of its own: a lower version is no rewind.
    rig.page("3", "").expect("commit 3; watch rv=3");
    assert!(rig.status().blocked.is_none());
}

/// The objects go only after the period, and only if a later probe confirms it.
#[test]
fn absent_for_long() {
    let options = Options { delete_absent_after: Some(secs(10.0)), ..lists() };
    let mut rig = Rig::synced(options.clone(), "10");
    rig.error("404").expect("close second; abandon; report watch absent");
    let mut deleted = 0;
    for _ in 0..8 {
        let (at, _) = rig.machine.poll_timeout().unwrap();
        rig.at(at).expect("begin absent list; list limit=500");
        rig.list_fails("404");
        let orders = rig.take();
        if orders.contains("commit") {
            assert_eq!(orders, "begin absent list; commit -; report list absent");
            assert!(rig.now >= secs(10.0));
            deleted += 1;
        } else {
            assert_eq!(orders, "abandon; report list absent");
        }
    }
    assert_eq!(deleted, 1);
    let (at, _) = rig.machine.poll_timeout().unwrap();
    rig.at(at).page("3", "").take();
    assert_eq!((rig.version().as_str(), rig.status().synced), ("3", true));

    // Another answer in between: the absence is not confirmed.
    let mut rig = Rig::synced(options.clone(), "10");
    rig.error("404").take();
    for name in ["404", "404", "503", "404", "503", "404", "503"] {
        let (at, _) = rig.machine.poll_timeout().unwrap();
        rig.at(at).list_fails(name);
        assert!(!rig.take().contains("commit"), "{:?}", rig.now);
    }

    // Never synced: an absent resource must not look like an empty one.
    let mut rig = Rig::start(options);
    for _ in 0..8 {
        rig.list_fails("404");
        assert!(!rig.take().contains("commit") && !rig.status().synced);
        let (at, _) = rig.machine.poll_timeout().unwrap();
        rig.at(at);
    }
}

/// The store could not be emptied: it holds what it held, and the copy was complete before.
#[test]
fn a_deletion_of_what_is_absent_that_fails() {
    let mut rig = Rig::synced(Options { delete_absent_after: Some(secs(1.0)), ..lists() }, "10");
    rig.error("404").take();
    let (at, _) = rig.machine.poll_timeout().unwrap();
    rig.at(at).list_fails("404");
    rig.expect("begin absent list; list limit=500; begin absent list; commit -; report list absent");
    rig.machine.handle_commit_failed(rig.now, "disk full");
    assert_eq!((rig.version().as_str(), rig.status().synced), ("10", true));
}

/// I70: lists at an interval, and the watch is tried again half an hour later.
#[test]
fn polling() {
    let mut rig = Rig::start(Options::default());
    rig.take();
    rig.watch_fails("405").expect("report watch not_supported; begin first list; list limit=500");
    rig.page("10", "").expect("commit 10");
    assert!(matches!(rig.status().phase, Phase::Polling { .. }));
    let mut polls = 0;
    while rig.now < secs(1800.0) {
        rig.expect_wait(30.0, 30.0);
        if rig.now < secs(1800.0) {
            rig.expect("begin poll list; list rv=10 match=NotOlderThan").page("10", "").expect("commit 10");
            polls += 1;
        }
    }
    rig.expect("begin poll streaming; watch rv=10 match=NotOlderThan initial");
    assert_eq!(polls, 59);
    // A poll that fails waits like any other list.
    rig.watch_fails("405").take();
    rig.list_fails("503").expect("abandon; report list unavailable");
    rig.expect_wait(0.8, 6.4).expect("begin poll list; list rv=10 match=NotOlderThan");
}

/// Lists that are not older than the copy verify nothing, however many there are. Found by model checking.
#[test]
fn polling_is_verified_too() {
    let mut rig = Rig::start(Options { relist_every: Some(secs(80.0)), ..lists() });
    rig.page("10", "").take();
    rig.watch_fails("405").take();
    for _ in 0..2 {
        rig.expect_wait(30.0, 30.0).expect("begin poll list; list rv=10 match=NotOlderThan");
        rig.page("10", "").take();
        assert_eq!(rig.history, Some(History::Same));
    }
    rig.expect_wait(30.0, 30.0).expect("begin poll list; list limit=500");
    assert_eq!(rig.history, Some(History::Unknown));
    rig.page("10", "").take();
    rig.expect_wait(30.0, 30.0).expect("begin poll list; list rv=10 match=NotOlderThan");
}
