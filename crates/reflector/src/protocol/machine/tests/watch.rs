//! A.4: WATCH, its ends and errors.

use super::rig::{Rig, lists, rv, secs};
use crate::protocol::{Class, Counts, EventKind, Options, Phase};

const RELIST: &str = "close second; report watch expired; begin expired list; list rv=10 match=NotOlderThan";

/// RF-33: a clean end is normal; the next watch begins at once where the last one was.
#[test]
fn a_clean_end() {
    let mut rig = Rig::synced(lists(), "10");
    rig.advance(50.0).modified("11").advance(50.0).bookmark("15").advance(50.0).ended();
    rig.expect("bookmark 15; close second; watch rv=15");
    rig.open().advance(30.0).ended().expect("close second; watch rv=15");
    assert_eq!(rig.status().counts.errors, 0);
}

/// Inventory 2.11: one event and a clean end at once is work done, but not faster than once a second.
#[test]
fn clean_ends_are_spaced() {
    let mut rig = Rig::synced(lists(), "10");
    for version in ["11", "12", "13"] {
        rig.modified(version).advance(0.25).ended().expect("close second");
        rig.expect_wait(0.75, 0.75).expect(&format!("watch rv={version}"));
        rig.open();
    }
}

/// K2, RF-34, B11: three short watches, each with a longer wait, and then a relist.
#[test]
fn short_watches() {
    let mut rig = Rig::synced(lists(), "10");
    for (low, high) in [(0.8, 1.6), (1.6, 3.2)] {
        rig.advance(0.5).ended().expect("close second; report watch short_watch");
        rig.expect_wait(low, high).expect("watch rv=10");
        rig.open();
    }
    rig.ended().expect("close second; abandon; report watch short_watch");
    assert_eq!(rig.last().attempt, 3);
    rig.expect_wait(3.2, 6.4).expect("begin short_watch list; list rv=10 match=NotOlderThan");
    rig.page("10", "").open().take();
    // It goes on with long waits: the list's success is no health.
    rig.ended().expect("close second; report watch short_watch").expect_wait(6.4, 12.8);
}

/// An invalid object is no accepted event (RF-40), a bookmark is one.
#[test]
fn what_makes_a_watch_short() {
    let mut rig = Rig::synced(lists(), "10");
    rig.machine.handle_invalid(rig.now);
    rig.ended().expect("close second; report watch short_watch");
    let mut rig = Rig::synced(lists(), "10");
    rig.bookmark("10").ended().expect("bookmark 10; close second");
}

/// K1, B12: 410 as status line or as ERROR, also after events; the relist is at least as new as the last version.
#[test]
fn expired() {
    let mut rig = Rig::synced(lists(), "10");
    rig.ended().take();
    rig.expect_wait(0.8, 1.6).expect("watch rv=10");
    rig.watch_fails("410").expect("close second; abandon; report watch expired");
    let mut rig = Rig::synced(lists(), "10");
    rig.error("410 Expired").expect(RELIST);
    let mut rig = Rig::synced(lists(), "9");
    rig.modified("10").error("410 Expired").expect(RELIST);
}

/// The first 410 after a time of health relists at once; the next ones wait longer and longer.
#[test]
fn expired_again_and_again() {
    let mut rig = Rig::synced(lists(), "10");
    rig.error("410").expect(RELIST);
    for (low, high) in [(1.6, 3.2), (3.2, 6.4), (6.4, 12.8), (12.8, 25.6), (25.6, 51.2), (30.0, 60.0)] {
        rig.page("10", "").open().take();
        rig.error("410").expect("close second; abandon; report watch expired");
        rig.expect_wait(low, high).expect("begin expired list; list rv=10 match=NotOlderThan");
    }
}

/// K9, D27: a few more tries at the same version, then the most recent state.
#[test]
fn too_large() {
    let mut rig = Rig::start(lists());
    rig.page("10", "").take();
    for (low, high) in [(0.8, 1.6), (1.6, 3.2), (3.2, 6.4)] {
        rig.watch_fails("too large by cause").expect("close second; report watch too_large");
        rig.expect_wait(low, high).expect("watch rv=10");
    }
    rig.watch_fails("too large by message").expect("close second; abandon; report watch too_large");
    rig.expect_wait(6.4, 12.8).expect("begin too_large list; list limit=500");
    // An etcd that was restored is behind us, and is believed.
    rig.page("3", "").expect("commit 3; watch rv=3");
}

/// NoRelistOnTooManyRequests, BackoffOnTooManyRequests, B17: no relist, however often, at the start or in the stream.
#[test]
fn overload_costs_no_relist() {
    let mut rig = Rig::synced(lists(), "10");
    rig.error("429/3").expect("close second; report watch throttled");
    rig.expect_wait(3.0, 4.5).expect("watch rv=10");
    for _ in 0..8 {
        rig.watch_fails("429/3").expect("close second; report watch throttled");
        rig.expect_wait(3.0, 60.0).expect("watch rv=10");
    }
    rig.watch_fails("503/3").expect("close second; report watch unavailable");
    rig.expect_wait(30.0, 60.0).expect("watch rv=10");
    assert_eq!((rig.status().counts.lists, rig.version().as_str()), (1, "10"));
}

/// cilium#25551, B16: the list came through, the watch gets 429 for three minutes, and then 410.
#[test]
fn the_list_is_kept_while_the_watch_is_refused() {
    let mut rig = Rig::start(lists());
    rig.page("10", "").take();
    while rig.now < secs(180.0) {
        rig.watch_fails("429/1").expect("close second; report watch throttled");
        rig.expect_wait(1.0, 60.0).expect("watch rv=10");
        assert!(rig.status().synced);
    }
    assert_eq!(rig.status().counts.lists, 1);
    rig.watch_fails("410").expect("close second; abandon; report watch expired");
    rig.expect_wait(30.0, 60.0).expect("begin expired list; list rv=10 match=NotOlderThan");
}

/// A server that wants to be left alone for a day is asked again after ten to fifteen minutes.
#[test]
fn retry_after_has_a_bound() {
    let mut rig = Rig::synced(lists(), "10");
    rig.error("503/86400").take();
    rig.expect_wait(600.0, 900.0).expect("watch rv=10");
}

/// RD-1, RetryInternalError: in-stream 500s.
#[test]
fn internal_errors_have_a_budget() {
    let retry = "close second; report watch internal";
    let relist =
        "close second; report watch internal; begin stream_error list; list rv=10 match=NotOlderThan";
    // Off.
    let off = Options { internal_error_budget: secs(0.0), ..lists() };
    Rig::synced(off, "10").error("500 InternalError").expect(relist);
    // Thirty seconds, and then a relist, and then a new budget. An event in between is no quiet minute.
    for event in [false, true] {
        let mut rig = Rig::synced(lists(), "10");
        let mut retries = 0;
        loop {
            rig.error("500");
            let orders = rig.take();
            if orders != retry {
                assert_eq!(orders, "close second; abandon; report watch internal");
                break;
            }
            retries += 1;
            assert!(retries <= 6, "at {:?}", rig.now);
            rig.expect_wait(0.8, 60.0).expect("watch rv=10");
            rig.open();
            if event {
                rig.modified("10");
            }
        }
        assert!(retries >= 3 && rig.now > secs(30.0), "{retries} until {:?}", rig.now);
        rig.expect_wait(6.4, 60.0).expect("begin stream_error list; list rv=10 match=NotOlderThan");
        rig.page("10", "").open().take();
        rig.error("500").expect(retry);
    }
    // A quiet minute begins a new window.
    let mut rig = Rig::synced(lists(), "10");
    for _ in 0..5 {
        rig.error("500").expect(retry);
        rig.expect_wait(0.8, 60.0).expect("watch rv=10");
        rig.open().advance(61.0).bookmark("10").take();
    }
}

/// An unreadable stream costs a relist only if nothing of it could be read, three times in a row.
#[test]
fn malformed_streams() {
    let mut rig = Rig::synced(lists(), "10");
    for (low, high) in [(0.8, 1.6), (1.6, 3.2)] {
        rig.broken("malformed").expect("close second; report watch malformed");
        rig.expect_wait(low, high).expect("watch rv=10");
        rig.open();
    }
    rig.broken("malformed").expect("close second; abandon; report watch malformed");
    rig.expect_wait(3.2, 6.4).expect("begin malformed list; list rv=10 match=NotOlderThan");
    let mut rig = Rig::synced(lists(), "10");
    for version in 11..20 {
        rig.modified(&version.to_string()).broken("malformed").take();
        rig.expect_wait(0.8, 60.0).expect(&format!("watch rv={version}"));
        rig.open();
    }
}

/// A.4, 400 and 422: reported as first once, slow, and after three in a row the version is not trusted any more.
#[test]
fn mistakes_are_slow() {
    let mut rig = Rig::start(lists());
    rig.page("10", "").take();
    for attempt in 1..3 {
        rig.watch_fails("422").expect("close second; report watch mistake");
        assert_eq!((rig.last().first, rig.last().attempt), (attempt == 1, attempt));
        assert_eq!(rig.status().blocked.unwrap().class, Class::Mistake);
        rig.expect_wait(60.0, 120.0).expect("watch rv=10");
    }
    rig.watch_fails("400").expect("close second; abandon; report watch mistake");
    assert!(!rig.last().first);
    rig.expect_wait(60.0, 120.0).expect("begin stream_error list; list rv=10 match=NotOlderThan");
    rig.page("10", "").expect("commit 10; watch rv=10");
    assert!(rig.status().blocked.is_none());
}

/// D29: whatever it says, a watch that carries an error is over, and events that come late are dropped.
#[test]
fn nothing_comes_after_the_end() {
    let mut rig = Rig::synced(lists(), "10");
    rig.error("429").take();
    let before = format!("{:?}", rig.machine);
    assert_eq!(rig.event(EventKind::Modified, "11"), crate::protocol::Disposition::Drop);
    rig.bookmark("12").end_bookmark("13").ended().error("410").broken("transport").open().reopened();
    rig.page("14", "").list_fails("410").watch_fails("410").checked(Ok(None)).reopen_fails("410").expect("");
    rig.machine.handle_progress(rig.now);
    rig.machine.handle_invalid(rig.now);
    assert_eq!(format!("{:?}", rig.machine), before);
    assert!(matches!(rig.status().phase, Phase::Waiting { .. }));
}

/// Every request and everything that came is counted once, checks and second watches among them.
#[test]
fn what_was_asked_and_what_came_is_counted() {
    let mut rig = Rig::start(lists());
    rig.page("10", "next").page("10", "").open();
    rig.modified("12").modified("11").bookmark("13").bookmark("14").take();
    rig.advance(90.0).checked(Ok(rv("15"))).reopened().modified("15");
    rig.advance(2.0).ended().advance(2.0).error("410").unusable().take();
    rig.page("20", "");
    let expected = Counts {
        lists: 4,
        watches: 4,
        events: 3,
        bookmarks: 2,
        syncs: 2,
        relists: 1,
        errors: 1,
        regressions: 1,
        invalid: 1,
    };
    assert_eq!(rig.status().counts, expected);
}
