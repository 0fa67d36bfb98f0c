//! A.3: LIST, its versions and pages.

use super::rig::{Rig, lists, rv, secs};
use crate::{
    protocol::{Class, Deadline, History, InitialRead, Options},
    source::Selection,
};

/// Which version and limit each list asks for, by what was seen before.
#[test]
fn versions_and_limits() {
    struct Case {
        rule: &'static str,
        read: InitialRead,
        page_size: Option<u32>,
        /// The token of the first page of the first list.
        token: &'static str,
        first: &'static str,
        relist: &'static str,
        /// After the version was given up.
        dropped: &'static str,
    }
    let any = InitialRead::Any;
    let fresh = InitialRead::Consistent;
    let case = |rule, read, page_size, token, [first, relist, dropped]: [&'static str; 3]| Case {
        rule,
        read,
        page_size,
        token,
        first,
        relist,
        dropped,
    };
    // RF-20 and RF-21, except that the match is spelled out (a version with a limit alone means exactly that version),
    // and that the list without a version stays paged (RF-24 would ask for everything).
    let floor = "list rv=10 match=NotOlderThan";
    let floor_paged = "list rv=10 match=NotOlderThan limit=500";
    let cases = [
        case("RF-20, consistent", fresh, Some(500), "", ["list limit=500", floor, "list limit=500"]),
        case(
            "NotPaginatingNotConsistentReads",
            fresh,
            Some(500),
            "t",
            ["list limit=500", floor, "list limit=500"],
        ),
        case("RF-20, any; K7", any, Some(500), "", ["list rv=0 limit=500", floor, "list limit=500"]),
        case(
            "RF-22, PaginatingNonConsistentReadsIfWatchCacheDisabled",
            any,
            Some(500),
            "t",
            ["list rv=0 limit=500", floor_paged, "list limit=500"],
        ),
        case("WatchListPageSize", fresh, Some(4), "", ["list limit=4", floor, "list limit=4"]),
        case("unpaged", fresh, None, "", ["list", floor, "list"]),
    ];
    for Case { rule, read, page_size, token, first, relist, dropped } in cases {
        let mut rig = Rig::start(Options { initial_read: read, page_size, ..lists() });
        assert_eq!(rig.take(), format!("begin first list; {first}"), "{rule}");
        rig.page("10", token);
        if !token.is_empty() {
            rig.page("10", "");
        }
        rig.open().take();
        rig.error("410").take_ends_with(relist, rule);
        rig.list_fails("410").take_ends_with(dropped, rule);
    }
}

impl Rig {
    #[track_caller]
    fn take_ends_with(&mut self, end: &str, rule: &str) {
        let orders = self.take();
        assert_eq!(orders.rsplit("; ").next().unwrap(), end, "{rule}: {orders}");
    }
}

/// PG-2, kube#1524: version and match on the first page only, selectors and limit on every page and watch.
#[test]
fn pages() {
    let selection =
        Selection { labels: Some("a=b".into()), fields: Some("x=y".into()), ..Selection::default() };
    let mut rig = Rig::start(Options { selection, initial_read: InitialRead::Any, ..lists() });
    rig.expect("begin first list; list labels=a=b fields=x=y rv=0 limit=500");
    rig.page("10", "t1").expect("list labels=a=b fields=x=y limit=500 continue=t1");
    rig.page("", "t2").expect("list labels=a=b fields=x=y limit=500 continue=t2");
    rig.page("10", "").expect("commit 10; watch labels=a=b fields=x=y rv=10");
    rig.open().advance(90.0).expect("check labels=a=b fields=x=y limit=1");
    rig.checked(Ok(None)).expect("reopen labels=a=b fields=x=y rv=10");
    // The cache is off, so the next one is paged, with the match on its first page.
    rig.error("410").expect(
        "close second; report watch expired; begin expired list; \
         list labels=a=b fields=x=y rv=10 match=NotOlderThan limit=500",
    );
    rig.page("10", "t3").expect("list labels=a=b fields=x=y limit=500 continue=t3");
}

/// K6, PG-4, D26: restart once, then one unpaged list, then the back-off. The inconsistent token is never taken.
#[test]
fn an_expired_token() {
    let mut rig = Rig::start(lists());
    rig.page("10", "t").take();
    rig.list_fails("410 Expired").expect("report list expired; begin first list; list limit=500");
    rig.page("11", "u").expect("list limit=500 continue=u");
    rig.list_fails("410 Expired").expect("report list expired; begin first list; list");
    rig.page("12", "v").expect("list continue=v");
    rig.list_fails("410 Expired").expect("abandon; report list expired");
    rig.expect_wait(0.8, 1.6).expect("begin first list; list limit=500");
    // Or it works.
    rig.page("13", "w").list_fails("410").page("14", "x").list_fails("410").take();
    rig.page("15", "").expect("commit 15; watch rv=15");
    // And the next list is paged again.
    rig.open().take();
    rig.error("unreadable version").take();
    rig.expect_wait(1.6, 3.2).expect("begin expired list; list limit=500");
}

/// A server that ignores the token sends its first page for ever.
#[test]
fn a_repeated_token() {
    let mut rig = Rig::start(lists());
    rig.page("10", "t").take();
    rig.page("10", "t").expect("report list malformed; begin first list; list limit=500");
    rig.page("10", "t")
        .page("10", "t")
        .expect("list limit=500 continue=t; report list malformed; begin first list; list");
    rig.page("10", "").expect("commit 10; watch rv=10");
}

/// A proxy ignores the token, and something was deleted in between: the first page of a later state comes, and is the
/// last one. Together they would be a state that the collection never had. Found by model checking.
#[test]
fn pages_of_two_states() {
    let mut rig = Rig::start(lists());
    rig.page("10", "t").take();
    rig.page("11", "").expect("report list malformed; begin first list; list limit=500");
    rig.page("11", "u").take();
    rig.page("12", "u").expect("report list malformed; begin first list; list");
    // The best it can do. PG-2: the version of the whole is that of the first page, and the watch tells the rest.
    rig.page("12", "v").take();
    rig.page("13", "").expect("commit 12; watch rv=12");
}

/// D32: no version, an empty token. The watch makes it fast, and lists at an interval make it right, because a delete
/// between list and watch is told by nobody.
#[test]
fn no_version() {
    for version in ["", "0"] {
        let mut rig = Rig::start(lists());
        rig.take();
        rig.page(version, "").expect("commit -; watch");
        rig.open().added("7").modified("8").expect("");
        assert_eq!(rig.version(), "8");
        rig.expect_deadline(Deadline::Verify, 30.0)
            .expect("close; close second; begin verify list; list limit=500");
        rig.page(version, "").expect("commit -; watch");
        rig.open().advance(5.0).ended().expect("close second");
        rig.expect_wait(25.0, 25.0).expect("begin verify list; list limit=500");
        rig.page(version, "").take();
        rig.watch_fails("transport").take();
        rig.expect_wait(0.8, 1.6).expect("begin verify list; list limit=500");
    }
}

/// A page that keeps failing costs a new list; overload does not, it would only add to it.
#[test]
fn failures_of_one_page() {
    let mut rig = Rig::start(lists());
    rig.page("10", "t").take();
    rig.list_fails("502").expect("report list server");
    rig.expect_wait(0.8, 1.6).expect("list limit=500 continue=t");
    rig.list_fails("transport").take();
    rig.expect_wait(1.6, 3.2).expect("list limit=500 continue=t");
    rig.list_fails("malformed").expect("abandon; report list malformed");
    rig.expect_wait(3.2, 6.4).expect("begin first list; list limit=500");

    let mut rig = Rig::start(lists());
    rig.page("10", "t").take();
    for _ in 0..10 {
        rig.list_fails("429/90").expect("report list throttled");
        rig.expect_wait(90.0, 135.0).expect("list limit=500 continue=t");
    }
    rig.page("10", "").expect("commit 10; watch rv=10");
}

/// D28, K14: a lagging or restored server. Once more for the most recent state, and then it is believed.
#[test]
fn an_older_list() {
    let mut rig = Rig::synced(lists(), "10");
    rig.error("410").take();
    rig.page("9", "").expect("report list rewound; begin expired list; list limit=500");
    assert_eq!((rig.last().class, rig.version().as_str()), (Class::Rewound, "10"));
    rig.page("9", "").expect("commit 9; watch rv=9");
    // RF-28: the new version is of use again.
    rig.watch_fails("410").take();
    rig.expect_wait(1.6, 3.2).expect("begin expired list; list rv=9 match=NotOlderThan");
}

/// Opaque versions say nothing about age.
#[test]
fn an_opaque_list() {
    let mut rig = Rig::synced(lists(), "10");
    rig.error("410").take();
    rig.page("b64:x", "").expect("commit b64:x; watch rv=b64:x");
}

/// A list is given up after 90 s without a byte, however long it takes with them.
#[test]
fn silence() {
    let mut rig = Rig::start(lists());
    rig.take();
    for _ in 0..10 {
        rig.advance(80.0);
        rig.machine.handle_progress(rig.now);
    }
    rig.expect_deadline(Deadline::ListIdle, 90.0).expect("close; abandon; report list silent");
    rig.expect_wait(0.8, 1.6).expect("begin first list; list limit=500");
    rig.page("1", "t").take();
    rig.advance(89.0).expect("").advance(1.0).expect("close; report list silent");
    rig.expect_wait(1.6, 3.2).expect("list limit=500 continue=t");
}

/// Drop by drop, a server could hold a list open for ever: bytes come, and nothing is ever synced.
#[test]
fn a_list_that_drips_for_ever() {
    let mut rig = Rig::start(lists());
    rig.take();
    for _ in 0..22 {
        rig.advance(80.0).expect("");
        rig.machine.handle_progress(rig.now);
    }
    rig.expect_deadline(Deadline::ListEnd, 40.0).expect("close; abandon; report list silent");
    assert_eq!(rig.reports[0].failure.to_string(), "the list had not ended after 1800s");
    // Each page has the time for itself.
    rig.expect_wait(0.8, 1.6).expect("begin first list; list limit=500");
    rig.advance(80.0);
    rig.page("1", "t").take();
    for _ in 0..22 {
        rig.advance(80.0).expect("");
        rig.machine.handle_progress(rig.now);
    }
    rig.advance(40.0).expect("close; report list silent");
    let mut rig = Rig::start(Options { list_deadline: std::time::Duration::MAX, ..lists() });
    rig.take();
    for _ in 0..100 {
        rig.advance(80.0).expect("");
        rig.machine.handle_progress(rig.now);
    }
}

/// `Duration::MAX` in any option is "never", and nothing overflows.
#[test]
fn never_is_a_time() {
    let never = std::time::Duration::MAX;
    let options = Options {
        initial_deadline: never,
        streaming_probe_after: never,
        deadline_margin: never,
        idle_limit: never,
        list_deadline: never,
        slow_retry: never,
        poll_interval: never,
        resync_every: Some(never),
        relist_every: Some(never),
        watch_timeout: (secs(1.0), never),
        ..Options::default()
    };
    let mut rig = Rig::start(options);
    rig.take();
    rig.watch_fails("405").take();
    rig.page("1", "").expect("commit 1");
    assert!(rig.machine.poll_timeout().is_some());
    let mut rig = Rig::start(Options { slow_retry: never, ..lists() });
    rig.list_fails("422").take();
    assert!(rig.machine.poll_timeout().is_some());
}

/// A server whose tokens go in a circle would be asked for ever, at full speed.
#[test]
fn tokens_in_a_circle() {
    let mut rig = Rig::start(lists());
    rig.take();
    rig.page("10", "a").take();
    rig.page("10", "b").expect("list limit=500 continue=b");
    rig.page("10", "a").expect("report list malformed; begin first list; list limit=500");
    rig.page("10", "a").page("10", "b").take();
    rig.page("10", "a").expect("report list malformed; begin first list; list");
    rig.page("10", "").expect("commit 10; watch rv=10");
}

/// Nor is one believed that always has another page.
#[test]
fn a_list_without_an_end() {
    let mut rig = Rig::start(lists());
    for page in 1..=100_000 {
        rig.page("10", &page.to_string());
        assert_eq!(rig.status().counts.errors, 0, "page {page}");
        rig.machine.poll_order();
    }
    rig.take();
    rig.page("10", "another").expect("report list malformed; begin first list; list limit=500");
}

/// The store could not commit the first list: nothing is in sync, and nothing is claimed to be.
#[test]
fn a_first_commit_that_fails() {
    let mut rig = Rig::start(lists());
    rig.take();
    rig.page("10", "").expect("commit 10; watch rv=10");
    rig.machine.handle_commit_failed(rig.now, "disk full");
    let status = rig.status();
    assert!(!status.synced && status.version.is_none() && status.last_proof.is_none());
    rig.expect("close; close second; abandon; abandon; report watch malformed");
    rig.expect_wait(0.8, 1.6).expect("begin store list; list limit=500");
}

/// What a list shows was the present state when its first page was asked for, and perhaps not any more when its last
/// one has come.
#[test]
fn a_long_list_is_as_old_as_its_first_page() {
    let mut rig = Rig::start(lists());
    rig.take();
    rig.advance(40.0).page("10", "a").take();
    rig.advance(40.0).page("10", "").expect("commit 10; watch rv=10");
    assert_eq!(rig.status().last_proof, Some(secs(0.0)));
    // It was read just now all the same: there is no hurry to ask whether the server is there.
    rig.open().expect_deadline(Deadline::WatchIdle, 90.0);
}

/// What the store has refused proves nothing, in lists and in watches.
#[test]
fn what_is_refused_by_the_store_is_no_proof() {
    let mut rig = Rig::synced(lists(), "10");
    rig.advance(5.0).bytes().modified("11").take();
    let proof = rig.status().last_proof;
    assert_eq!(proof, Some(rig.now));
    rig.advance(5.0).bytes().modified("12");
    rig.machine.handle_store_failed(rig.now, "no room");
    assert_eq!(rig.status().last_proof, proof);
    rig.take();
    let (at, _) = rig.machine.poll_timeout().unwrap();
    rig.at(at).page("13", "").take();
    rig.machine.handle_commit_failed(rig.now, "disk full");
    assert_eq!((rig.status().last_proof, rig.status().synced), (proof, true));
}

/// A commit that failed has changed nothing, also not what is known of the copy: its version, how old it is, and that
/// the history is in doubt. With the new version the next read would take equal versions for equal objects. Found by
/// model checking.
#[test]
fn a_later_commit_that_fails() {
    let mut rig = Rig::synced(lists(), "10");
    let proof = rig.status().last_proof;
    rig.advance(90.0).expect("check limit=1").checked(Ok(rv("7")));
    rig.expect("close; close second; report watch rewound; begin rewound list; list limit=500");
    rig.page("7", "").expect("commit 7; watch rv=7");
    rig.machine.handle_commit_failed(rig.now, "disk full");
    assert_eq!((rig.version().as_str(), rig.status().last_proof), ("10", proof));
    rig.take();
    rig.expect_wait(1.6, 3.2).expect("begin store list; list limit=500");
    assert_eq!(rig.history, Some(History::Unknown));
}
