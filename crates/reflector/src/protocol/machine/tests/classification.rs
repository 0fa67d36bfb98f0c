//! Every class of failure at every place: what is ordered at once, how long it waits, and what it asks then.
//!
//! Inventory 2.9, with the gaps closed: nothing but an expired, unreadable or too large version costs a relist, and no
//! class is tried again without a wait more than once.

use super::rig::{Rig, lists};
use crate::protocol::Options;

/// The failure, the orders at once, the bounds of the wait in seconds, and the orders after it. Without a wait the
/// orders at once are all.
type Row = (&'static str, &'static str, Option<(f64, f64)>, &'static str);

const FIRST: Option<(f64, f64)> = Some((0.8, 1.6));
const SECOND: Option<(f64, f64)> = Some((1.6, 3.2));
const SLOW: Option<(f64, f64)> = Some((60.0, 120.0));
const AT_ONCE: Option<(f64, f64)> = Some((0.0, 0.0));
/// A `Retry-After` of seven seconds, with up to half of that on top.
const ASKED: Option<(f64, f64)> = Some((7.0, 10.5));

#[track_caller]
fn check(table: &[Row], place: fn() -> Rig, fail: fn(&mut Rig, &str)) {
    for (name, orders, wait, then) in table {
        let mut rig = place();
        let version = rig.version();
        fail(&mut rig, name);
        assert_eq!(rig.take(), *orders, "{name}");
        if let Some((low, high)) = *wait {
            rig.expect_wait(low, high);
            assert_eq!(rig.take(), *then, "{name}");
            assert_eq!(rig.last().retry_in, rig.now);
        }
        // The version that the store is current as of never changes by a failure.
        assert_eq!(rig.version(), version, "{name}");
        assert!(rig.last().first && rig.status().last_error.is_some(), "{name}");
    }
}

#[test]
fn first_page_of_the_first_list() {
    let then = "begin first list; list limit=500";
    let table: &[Row] = &[
        ("410 Expired", "abandon; report list expired", FIRST, then),
        ("too large by cause", "abandon; report list too_large", FIRST, then),
        ("429/7", "abandon; report list throttled", ASKED, then),
        ("429", "abandon; report list throttled", FIRST, then),
        ("503/7", "abandon; report list unavailable", ASKED, then),
        ("401", "abandon; report list unauthorized", AT_ONCE, "refresh; begin first list; list limit=500"),
        ("403", "abandon; report list forbidden", FIRST, then),
        ("404", "abandon; report list absent", FIRST, "begin absent list; list limit=500"),
        ("405", "abandon; report list not_supported", FIRST, then),
        ("400", "abandon; report list mistake", SLOW, then),
        ("406", "abandon; report list mistake", SLOW, then),
        ("422", "abandon; report list mistake", SLOW, then),
        ("500", "abandon; report list internal", FIRST, then),
        ("502", "abandon; report list server", FIRST, then),
        ("transport", "abandon; report list transport", FIRST, then),
        ("malformed", "abandon; report list malformed", FIRST, then),
        ("silent", "abandon; report list silent", FIRST, then),
    ];
    let place = || {
        let mut rig = Rig::start(lists());
        rig.expect("begin first list; list limit=500");
        rig
    };
    check(table, place, |rig, name| {
        rig.list_fails(name);
    });
}

/// RF-23: expired and too large, in all three forms, are asked again at once for the most recent state.
#[test]
fn first_page_of_a_relist() {
    let again = "begin expired list; list rv=10 match=NotOlderThan";
    let table: &[Row] = &[
        ("410 Expired", "report list expired; begin expired list; list limit=500", None, ""),
        ("410", "report list expired; begin expired list; list limit=500", None, ""),
        ("unreadable version", "report list expired; begin expired list; list limit=500", None, ""),
        ("too large by cause", "report list too_large; begin expired list; list limit=500", None, ""),
        ("too large by cause message", "report list too_large; begin expired list; list limit=500", None, ""),
        ("too large by message", "report list too_large; begin expired list; list limit=500", None, ""),
        ("429", "abandon; report list throttled", SECOND, again),
        ("503", "abandon; report list unavailable", SECOND, again),
        ("500", "abandon; report list internal", SECOND, again),
        ("transport", "abandon; report list transport", SECOND, again),
        ("malformed", "abandon; report list malformed", SECOND, again),
        ("403", "abandon; report list forbidden", SECOND, again),
        ("404", "abandon; report list absent", SECOND, "begin absent list; list limit=500"),
        // Servers have many words for a version, or a match, that they do not understand.
        ("422", "report list mistake; begin expired list; list limit=500", None, ""),
    ];
    let place = || {
        let mut rig = Rig::synced(lists(), "10");
        rig.error("410 Expired");
        rig.expect("close second; report watch expired; begin expired list; list rv=10 match=NotOlderThan");
        rig
    };
    // The row of failures began with the 410 of the watch.
    for (name, orders, wait, then) in table {
        let mut rig = place();
        rig.list_fails(name).expect(orders);
        if let Some((low, high)) = *wait {
            rig.expect_wait(low, high).expect(then);
        }
        assert_eq!(rig.last().attempt, 2);
        assert!(rig.status().synced);
    }
}

/// K6, PG-4: an expired token begins the list again; everything else asks for the same page again.
#[test]
fn later_pages() {
    let page = "list limit=500 continue=t";
    let restart = "report list expired; begin first list; list limit=500";
    let table: &[Row] = &[
        ("410 Expired", restart, None, ""),
        ("400", "report list mistake; begin first list; list limit=500", None, ""),
        ("too large by cause", "report list too_large", FIRST, page),
        ("429/7", "report list throttled", ASKED, page),
        ("503", "report list unavailable", FIRST, page),
        ("401", "report list unauthorized", AT_ONCE, "refresh; list limit=500 continue=t"),
        ("403", "report list forbidden", FIRST, page),
        ("404", "abandon; report list absent", FIRST, "begin absent list; list limit=500"),
        ("500", "report list internal", FIRST, page),
        ("502", "report list server", FIRST, page),
        ("transport", "report list transport", FIRST, page),
        ("malformed", "report list malformed", FIRST, page),
        ("silent", "report list silent", FIRST, page),
    ];
    let place = || {
        let mut rig = Rig::start(lists());
        rig.page("10", "t").take();
        rig
    };
    check(table, place, |rig, name| {
        rig.list_fails(name);
    });
}

/// Errors that say that the request is not understood lead to a list; errors that may pass do not.
#[test]
fn streaming_list_before_it_opens() {
    let then = "begin first streaming; watch match=NotOlderThan initial";
    let mistake = "report watch mistake; begin first list; list limit=500";
    let table: &[Row] = &[
        ("410", "abandon; report watch expired", FIRST, then),
        ("too large by cause", "abandon; report watch too_large", FIRST, then),
        ("429/7", "abandon; report watch throttled", ASKED, then),
        ("503/7", "abandon; report watch unavailable", ASKED, then),
        (
            "401",
            "abandon; report watch unauthorized",
            AT_ONCE,
            "refresh; begin first streaming; watch match=NotOlderThan initial",
        ),
        ("403", "abandon; report watch forbidden", FIRST, then),
        (
            "404",
            "abandon; report watch absent",
            FIRST,
            "begin absent streaming; watch match=NotOlderThan initial",
        ),
        ("405", "report watch not_supported; begin first list; list limit=500", None, ""),
        ("400", mistake, None, ""),
        ("406", mistake, None, ""),
        ("422", mistake, None, ""),
        ("500", "abandon; report watch internal", FIRST, then),
        ("502", "abandon; report watch server", FIRST, then),
        ("transport", "abandon; report watch transport", FIRST, then),
        ("malformed", "abandon; report watch malformed", FIRST, then),
        ("silent", "report watch silent; begin first list; list limit=500", None, ""),
    ];
    let place = || {
        let mut rig = Rig::start(Options::default());
        rig.expect("begin first streaming; watch match=NotOlderThan initial");
        rig
    };
    check(table, place, |rig, name| {
        rig.watch_fails(name);
    });
}

#[test]
fn streaming_list_after_it_opened() {
    let then = "begin first streaming; watch match=NotOlderThan initial";
    let table: &[Row] = &[
        ("410", "abandon; report watch expired", FIRST, then),
        ("too large by cause", "abandon; report watch too_large", FIRST, then),
        ("429/7", "abandon; report watch throttled", ASKED, then),
        ("503", "abandon; report watch unavailable", FIRST, then),
        ("403", "abandon; report watch forbidden", FIRST, then),
        ("500", "report watch internal; begin first list; list limit=500", None, ""),
        ("500 StoreReadError", "report watch server; begin first list; list limit=500", None, ""),
        ("422", "report watch mistake; begin first list; list limit=500", None, ""),
        ("transport", "abandon; report watch transport", FIRST, then),
        ("malformed", "abandon; report watch malformed", FIRST, then),
    ];
    let place = || {
        let mut rig = Rig::start(Options::default());
        rig.open().added("5").take();
        rig
    };
    check(table, place, |rig, name| {
        rig.error(name);
    });
}

/// A relist by streaming asks for nothing older than the last version (WL-2), and gives it up once (WL-5).
#[test]
fn streaming_relist() {
    for name in ["410 Expired", "too large by cause", "too large by message", "too large by cause message"] {
        let mut rig = Rig::streamed(Options::default(), "10");
        rig.error("410 Expired");
        rig.expect(
            "close second; report watch expired; begin expired streaming; \
             watch rv=10 match=NotOlderThan initial",
        );
        let class = if name.starts_with("410") { "expired" } else { "too_large" };
        rig.open().error(name);
        rig.expect(&format!(
            "report watch {class}; begin expired streaming; watch match=NotOlderThan initial"
        ));
        rig.error(name);
        rig.expect(&format!("abandon; report watch {class}"));
        rig.expect_wait(1.6, 3.2).expect("begin expired streaming; watch match=NotOlderThan initial");
        rig.open().error(name);
        rig.take();
        rig.expect_wait(3.2, 6.4).take();
        // Three in a row, and the list takes over.
        rig.error(name);
        rig.expect(&format!("report watch {class}; begin expired list; list limit=500"));
    }
}

/// RF-31 and RF-32, without the relist that client-go makes of everything but 429 and a refused connection.
#[test]
fn start_of_a_watch() {
    let then = "watch rv=10";
    let relist = "close second; report watch expired; begin expired list; list rv=10 match=NotOlderThan";
    let table: &[Row] = &[
        // K1: as a status line.
        ("410 Expired", relist, None, ""),
        ("410", relist, None, ""),
        (
            "unreadable version",
            "close second; report watch expired; begin expired list; list limit=500",
            None,
            "",
        ),
        ("too large by cause", "close second; report watch too_large", FIRST, then),
        ("429/7", "close second; report watch throttled", ASKED, then),
        ("503/7", "close second; report watch unavailable", ASKED, then),
        ("401", "close second; report watch unauthorized", AT_ONCE, "refresh; watch rv=10"),
        ("403", "close second; report watch forbidden", FIRST, then),
        ("404", "close second; abandon; report watch absent", FIRST, "begin absent list; list limit=500"),
        (
            "405",
            "close second; report watch not_supported",
            Some((30.0, 30.0)),
            "begin poll list; list rv=10 match=NotOlderThan",
        ),
        ("400", "close second; report watch mistake", SLOW, then),
        ("422", "close second; report watch mistake", SLOW, then),
        ("500", "close second; report watch internal", FIRST, then),
        ("502", "close second; report watch server", FIRST, then),
        ("504", "close second; report watch server", FIRST, then),
        ("transport", "close second; report watch transport", FIRST, then),
        ("malformed", "close second; report watch malformed", FIRST, then),
        ("silent", "close second; report watch silent", FIRST, then),
    ];
    let place = || {
        let mut rig = Rig::start(lists());
        rig.page("10", "").expect("begin first list; list limit=500; commit 10; watch rv=10");
        rig
    };
    check(table, place, |rig, name| {
        rig.watch_fails(name);
    });
}

/// RF-35, RF-37, and RF-36 closed: the error handler sees all of them.
#[test]
fn error_in_a_watch() {
    let then = "watch rv=10";
    let relist = |class: &str, reason: &str| -> &'static str {
        let text =
            format!("close second; report watch {class}; begin {reason} list; list rv=10 match=NotOlderThan");
        Box::leak(text.into_boxed_str())
    };
    let table: &[Row] = &[
        ("410 Expired", relist("expired", "expired"), None, ""),
        ("0 Expired", relist("expired", "expired"), None, ""),
        ("too large by cause", "close second; report watch too_large", FIRST, then),
        ("429/7", "close second; report watch throttled", ASKED, then),
        ("503/7", "close second; report watch unavailable", ASKED, then),
        ("401", "close second; report watch unauthorized", AT_ONCE, "refresh; watch rv=10"),
        ("403", "close second; report watch forbidden", FIRST, then),
        ("404", "close second; abandon; report watch absent", FIRST, "begin absent list; list limit=500"),
        ("422", relist("mistake", "stream_error"), None, ""),
        ("500 InternalError", "close second; report watch internal", FIRST, then),
        ("500 StoreReadError", relist("server", "stream_error"), None, ""),
        ("502", relist("server", "stream_error"), None, ""),
    ];
    check(
        table,
        || Rig::synced(lists(), "10"),
        |rig, name| {
            rig.error(name);
        },
    );
    let broken: &[Row] = &[
        ("transport", "close second; report watch transport", FIRST, then),
        ("malformed", "close second; report watch malformed", FIRST, then),
    ];
    check(
        broken,
        || Rig::synced(lists(), "10"),
        |rig, name| {
            rig.broken(name);
        },
    );
}
