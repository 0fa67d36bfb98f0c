//! A.2: the list takes over where the streaming list does not work.

use super::rig::{Rig, secs};
use crate::protocol::{Class, Deadline, Options, Streaming};

fn reason(rig: &Rig) -> String {
    match rig.status().streaming {
        Streaming::FellBack { reason, .. } => reason,
        other => panic!("{other:?}"),
    }
}

/// WatchList/3, WatchList/4, WL-6: refused once, remembered, and tried again half an hour later.
#[test]
fn the_fallback_is_remembered_and_probed_again() {
    let mut rig = Rig::start(Options { watch_timeout: (secs(3600.0), secs(3600.0)), ..Options::default() });
    rig.take();
    rig.watch_fails("422 Invalid").expect("report watch mistake; begin first list; list limit=500");
    assert_eq!(reason(&rig), "422 Invalid: refused");
    rig.page("10", "").open().expect("commit 10; watch rv=10");
    // It has a remedy, so nobody has to be called.
    assert!(rig.status().blocked.is_none());
    for _ in 0..179 {
        rig.advance(10.0).bookmark("10").expect("bookmark 10");
    }
    rig.error("410")
        .expect("close second; report watch expired; begin expired list; list rv=10 match=NotOlderThan");
    rig.page("20", "").open().take();
    rig.advance(15.0).modified("21").error("410").take();
    rig.expect_wait(1.6, 3.2).expect("begin expired streaming; watch rv=21 match=NotOlderThan initial");
    rig.open().end_bookmark("30").expect("commit 30");
    assert_eq!(rig.status().streaming, Streaming::Works);
}

/// K5, C20: 200 and silence.
#[test]
fn silence_is_given_up_after_ten_seconds() {
    let mut rig = Rig::start(Options::default());
    rig.open().take();
    rig.expect_deadline(Deadline::InitialEvents, 10.0)
        .expect("close; report watch silent; begin first list; list limit=500");
    assert_eq!(reason(&rig), "no initial event for 10s, and no bookmark that ends them for 10s");
    assert_eq!(rig.last().class, Class::Silent);
    rig.page("10", "").expect("commit 10; watch rv=10");
}

/// K5 on a busy collection: the state, then changes for ever. They are no progress, or it would never sync.
#[test]
fn changes_for_ever_are_no_progress() {
    let mut rig = Rig::start(Options::default());
    rig.open().added("1").added("2").take();
    for version in 3..12 {
        rig.advance(1.0).modified(&version.to_string()).expect("");
    }
    rig.advance(1.0).expect("close; report watch silent; begin first list; list limit=500");
}

/// K5 with new objects for ever: the plain bookmark gives it away, and without one the timeout of the watch.
#[test]
fn new_objects_for_ever_are_no_progress_either() {
    let mut rig = Rig::start(Options::default());
    rig.open().take();
    for version in 1..60 {
        rig.advance(1.0).added(&version.to_string()).expect("");
    }
    rig.bookmark("60").expect("");
    for version in 61..70 {
        rig.advance(1.0).added(&version.to_string()).expect("");
    }
    rig.advance(1.0).expect("close; report watch silent; begin first list; list limit=500");

    let mut rig = Rig::start(Options::default());
    rig.open().take();
    let end = rig.timeouts[0] + secs(30.0);
    while rig.now + secs(1.0) < end {
        rig.advance(1.0).added("7").expect("");
    }
    rig.advance(1.0).expect("close; report watch silent; begin first list; list limit=500");
}

/// kubernetes#140890: a clean end before the bookmark. WL-5 would ask again for ever.
#[test]
fn a_clean_early_end() {
    for events in 0..2 {
        let mut rig = Rig::start(Options::default());
        rig.open().take();
        for _ in 0..events {
            rig.added("1");
        }
        rig.ended().expect("report watch malformed; begin first list; list limit=500");
        assert!(reason(&rig).contains("without the bookmark"));
    }
}

/// Nobody was reached, however often: that says nothing of streaming lists.
#[test]
fn a_network_failure_is_no_reason() {
    let mut rig = Rig::start(Options::default());
    rig.take();
    for _ in 0..20 {
        rig.watch_fails("transport").expect("abandon; report watch transport");
        let (at, _) = rig.machine.poll_timeout().unwrap();
        rig.at(at).expect("begin first streaming; watch match=NotOlderThan initial");
    }
    assert_eq!(rig.status().streaming, Streaming::Unknown);
}

/// Nothing answers at all, then the list does not come either: the streaming list was not to blame.
#[test]
fn a_fallback_during_an_outage_is_taken_back() {
    let mut rig = Rig::start(Options::default());
    rig.take();
    rig.expect_deadline(Deadline::InitialEvents, 10.0)
        .expect("close; report watch silent; begin first list; list limit=500");
    rig.expect_deadline(Deadline::ListIdle, 90.0).expect("close; abandon; report list silent");
    assert_eq!(rig.status().streaming, Streaming::Unknown);
    rig.expect_wait(0.8, 1.6).expect("begin first streaming; watch match=NotOlderThan initial");
}

/// Streams that break again and again, each after it opened: a proxy cuts them. Three in a row.
#[test]
fn three_broken_streams() {
    let mut rig = Rig::start(Options::default());
    rig.take();
    for (low, high) in [(0.8, 1.6), (1.6, 3.2)] {
        rig.open().added("1").broken("transport").expect("abandon; report watch transport");
        rig.expect_wait(low, high).expect("begin first streaming; watch match=NotOlderThan initial");
    }
    rig.open().broken("transport").expect("report watch transport; begin first list; list limit=500");
}

/// WatchList/7: overload is no reason either, and waits as long as it is told.
#[test]
fn overload_is_no_reason() {
    let mut rig = Rig::start(Options::default());
    rig.take();
    for _ in 0..5 {
        rig.watch_fails("429/20").expect("abandon; report watch throttled");
        rig.expect_wait(20.0, 45.0).expect("begin first streaming; watch match=NotOlderThan initial");
    }
    rig.open().end_bookmark("3").expect("commit 3");
}

/// WatchList/2: switched off.
#[test]
fn switched_off() {
    let mut rig = Rig::start(Options { streaming: false, ..Options::default() });
    rig.expect("begin first list; list limit=500");
    rig.page("10", "").expect("commit 10; watch rv=10");
    assert_eq!(rig.status().streaming, Streaming::Disabled);
}
