//! A.6: versions, and collections that go back in time.

use super::rig::{Rig, failure, lists, rv};
use crate::protocol::{Class, Disposition, EventKind, History};

/// K8: an older version is counted and is no progress; the store decides about the object, by uid and version.
#[test]
fn regressions_are_counted() {
    let mut rig = Rig::synced(lists(), "10");
    rig.modified("15").modified("12").expect("");
    assert_eq!((rig.version().as_str(), rig.status().counts.regressions), ("15", 1));
    assert_eq!(rig.event(EventKind::Modified, "14"), Disposition::Apply);
    // An equal one is none: bookmarks may repeat a version.
    rig.bookmark("15").expect("bookmark 15");
    assert_eq!((rig.version().as_str(), rig.status().counts.regressions), ("15", 2));
    rig.bookmark("14").expect("");
    // As long as no machine word holds.
    rig.modified("100000000000000000000000").modified("99999999999999999999999");
    assert_eq!((rig.version().len(), rig.status().counts.regressions), (24, 4));
}

/// D28: no honest stream goes back behind its start. A list of one object tells a rewind from a replay.
#[test]
fn a_rewind_is_noticed_by_an_event_or_bookmark() {
    for bookmark in [false, true] {
        let mut rig = Rig::synced(lists(), "10");
        if bookmark { rig.bookmark("5") } else { rig.modified("5") }.expect("check limit=1");
        rig.checked(Ok(rv("6")))
            .expect("close; close second; report watch rewound; begin rewound list; list limit=500");
        assert_eq!((rig.last().class, rig.version().as_str()), (Class::Rewound, "10"));
        rig.page("6", "").expect("commit 6; watch rv=6");
    }
}

/// D30: a server that replays what it has is asked once per idle limit, and no relist follows.
#[test]
fn a_replay_is_no_rewind() {
    let mut rig = Rig::synced(lists(), "10");
    rig.added("5").expect("check limit=1");
    rig.added("6").added("7").expect("");
    rig.checked(Ok(rv("10"))).expect("");
    rig.added("8").expect("");
    rig.advance(80.0).added("8").expect("");
    rig.advance(10.0).added("8").expect("check limit=1");
    // A check that fails is reported, and settles nothing.
    rig.checked(Err(failure("503"))).expect("report list unavailable");
    rig.advance(89.0).added("8").expect("").advance(1.0).added("8").expect("check limit=1");
    rig.advance(80.0).bookmark("10").advance(10.0).expect("bookmark 10; close second");
}

/// D28: the server was restored and accepts the watch of a future version in silence; the check finds out.
#[test]
fn a_rewind_is_noticed_by_the_check_of_silence() {
    let mut rig = Rig::synced(lists(), "10");
    rig.advance(90.0).expect("check limit=1");
    rig.checked(Ok(rv("7")))
        .expect("close; close second; report watch rewound; begin rewound list; list limit=500");
}

/// D30: opaque versions are taken in the order of arrival.
#[test]
fn opaque_versions() {
    let mut rig = Rig::synced(lists(), "b");
    rig.modified("a").modified("7").modified("007").expect("");
    assert_eq!((rig.version().as_str(), rig.status().counts.regressions), ("007", 0));
    rig.advance(90.0).expect("check limit=1");
    rig.checked(Ok(rv("a"))).expect("reopen rv=007");
}

/// RF-43, ReflectorResourceVersionUpdate: after a start without a version the state comes first, in any order.
#[test]
fn synthetic_events_are_no_progress() {
    let mut rig = Rig::synced(lists(), "");
    rig.added("9").added("3").expect("");
    assert_eq!((rig.version().as_str(), rig.status().counts.regressions), ("-", 0));
    for (kind, version) in [(EventKind::Modified, "11"), (EventKind::Added, "12"), (EventKind::Deleted, "13")]
    {
        rig.event(kind, version);
        assert_eq!(rig.version(), version);
    }
    let mut rig = Rig::synced(lists(), "");
    rig.added("9").bookmark("9").added("10").expect("bookmark 9");
    assert_eq!(rig.version(), "10");
    // With a version the first Added is progress.
    let mut rig = Rig::synced(lists(), "10");
    rig.added("11");
    assert_eq!(rig.version(), "11");
}

/// Events and bookmarks without a version, or with "0", move nothing.
#[test]
fn no_version_is_no_progress() {
    let mut rig = Rig::synced(lists(), "10");
    rig.modified("").modified("0").bookmark("").bookmark("0").expect("");
    assert_eq!(rig.version(), "10");
    assert_eq!(rig.status().counts.events, 2);
}

/// kubernetes#107457: equal versions mean equal objects only as long as the copy's own version is of use.
#[test]
fn the_history_is_in_doubt_once_the_version_was_given_up() {
    let mut rig = Rig::synced(lists(), "10");
    rig.watch_fails("410 Expired").take();
    assert_eq!(rig.history, Some(History::Same), "not older than the copy");
    rig.list_fails("410 Expired").take();
    assert_eq!(rig.history, Some(History::Unknown), "asked for without a version");

    let mut rig = Rig::synced(lists(), "10");
    rig.advance(90.0).checked(Ok(rv("7"))).take();
    assert_eq!(rig.history, Some(History::Unknown), "it went back in time");
    // The state that was believed is the history from then on.
    rig.page("7", "").open().watch_fails("410 Expired").take();
    rig.advance(60.0).take();
    assert_eq!(rig.history, Some(History::Same));
}
