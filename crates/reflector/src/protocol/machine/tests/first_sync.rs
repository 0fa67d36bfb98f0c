//! A.1: the first sync by a streaming list.

use super::rig::{Rig, rv, secs};
use crate::protocol::{Deadline, Disposition, EventKind, InitialRead, Options, Phase, Streaming};

const ASK: &str = "begin first streaming; watch match=NotOlderThan initial";

/// ReflectorListAndWatch, WatchList/5, WL-4: one request, no list, and the same stream goes on.
#[test]
fn one_request_syncs_and_watches() {
    let mut rig = Rig::start(Options::default());
    rig.expect(ASK);
    rig.open();
    assert_eq!(rig.event(EventKind::Added, "9"), Disposition::Stage);
    assert_eq!(rig.event(EventKind::Added, "3"), Disposition::Stage);
    rig.expect("");
    assert!(!rig.status().synced && rig.version() == "-");
    rig.end_bookmark("12").expect("commit 12");
    assert!(rig.status().synced);
    assert_eq!((rig.status().phase, rig.version().as_str()), (Phase::Watching, "12"));
    assert_eq!(rig.status().streaming, Streaming::Works);
    assert_eq!(rig.event(EventKind::Modified, "13"), Disposition::Apply);
    rig.expect("");
    assert_eq!(rig.version(), "13");
    let counts = rig.status().counts;
    assert_eq!((counts.watches, counts.lists, counts.syncs, counts.relists), (1, 0, 1, 0));
}

/// kube#1844: the re-watch is a plain one, from the last event.
#[test]
fn the_next_watch_does_not_ask_for_the_state_again() {
    let mut rig = Rig::streamed(Options::default(), "12");
    rig.modified("13").advance(2.0).ended().expect("close second; watch rv=13");
}

/// WatchList/6: changes and deletes before the bookmark belong to the state.
#[test]
fn changes_before_the_bookmark_are_staged() {
    let mut rig = Rig::start(Options::default());
    rig.open().take();
    for (kind, version) in [(EventKind::Modified, "5"), (EventKind::Added, "3"), (EventKind::Deleted, "7")] {
        assert_eq!(rig.event(kind, version), Disposition::Stage);
    }
    assert_eq!(rig.version(), "-");
}

/// C23, WatchList/11, RF-45: only the annotation that is exactly "true" ends it. WatchListResourceVersion: its version.
#[test]
fn plain_bookmarks_do_not_end_it() {
    let mut rig = Rig::start(Options::default());
    rig.open().take();
    rig.bookmark("50").added("3").bookmark("51").expect("");
    assert!(!rig.status().synced && rig.version() == "-");
    rig.end_bookmark("60").expect("commit 60");
    assert_eq!(rig.version(), "60");
}

/// WL-9: an end bookmark without a version syncs all the same; what follows it is read anew when the stream is over,
/// since there is no version to go on from (D32).
#[test]
fn an_end_bookmark_without_a_version() {
    let mut rig = Rig::start(Options::default());
    rig.open().end_bookmark("").expect("begin first streaming; watch match=NotOlderThan initial; commit -");
    assert!(rig.status().synced);
    rig.advance(80.0).added("").advance(80.0).ended();
    rig.expect("close second; begin verify streaming; watch match=NotOlderThan initial");
}

/// A2, WatchTimeout: random in [5 min, 10 min), whole seconds.
#[test]
fn every_watch_has_a_random_timeout() {
    let mut rig = Rig::streamed(Options::default(), "12");
    for _ in 0..50 {
        rig.advance(1.0).ended().take();
    }
    assert_eq!(rig.timeouts.len(), 51);
    assert!(rig.timeouts.iter().all(|t| (secs(300.0)..secs(600.0)).contains(t) && t.subsec_nanos() == 0));
    assert!(rig.timeouts.iter().any(|t| *t < secs(360.0)) && rig.timeouts.iter().any(|t| *t > secs(540.0)));
}

/// RF-5: a maximum below the minimum is raised to it.
#[test]
fn a_fixed_timeout() {
    let options = Options { watch_timeout: (secs(900.0), secs(1.0)), ..Options::default() };
    let rig = Rig::streamed(options, "12");
    assert_eq!(rig.timeouts, [secs(900.0)]);
}

/// K7, K14: "any" means version 0, also in the streaming list, and only for the very first read.
#[test]
fn any_works_or_is_refused() {
    let mut rig = Rig::start(Options { initial_read: InitialRead::Any, ..Options::default() });
    rig.expect("begin first streaming; watch rv=0 match=NotOlderThan initial");
    rig.open().end_bookmark("12").error("410").expect(
        "commit 12; close second; report watch expired; begin expired streaming; \
         watch rv=12 match=NotOlderThan initial",
    );
}

/// RF-43 does not concern the stream that goes on: its first Added is progress.
#[test]
fn added_after_the_bookmark_is_progress() {
    let mut rig = Rig::streamed(Options::default(), "12");
    rig.added("14");
    assert_eq!(rig.version(), "14");
}

/// WatchList/8: a cut before the bookmark begins again with an empty staging area.
#[test]
fn a_cut_stream_leaves_nothing_behind() {
    let mut rig = Rig::start(Options::default());
    rig.open().added("3").take();
    rig.broken("transport").expect("abandon; report watch transport");
    rig.expect_wait(0.8, 1.6).expect(ASK);
}

/// The server ignores "not older than": its state is older than the one we have. It is asked once more, without a
/// version, and then believed (D28).
#[test]
fn an_older_state_is_not_taken_at_once() {
    let mut rig = Rig::streamed(Options::default(), "12");
    rig.error("410").take();
    rig.open()
        .end_bookmark("5")
        .expect("close; report watch rewound; begin expired streaming; watch match=NotOlderThan initial");
    assert_eq!(rig.version(), "12");
    rig.open().end_bookmark("5").expect("commit 5");
    assert_eq!(rig.version(), "5");
}

/// A list version of "0" or an opaque one.
#[test]
fn strange_versions_of_the_end_bookmark() {
    let mut rig = Rig::start(Options::default());
    rig.open().end_bookmark("0").take();
    assert_eq!(rig.version(), "-");
    let mut rig = Rig::streamed(Options::default(), "b64:x");
    rig.modified("b64:a").advance(2.0).ended().expect("close second; watch rv=b64:a");
}

#[test]
fn the_deadline_is_ten_seconds_after_the_last_event() {
    let mut rig = Rig::start(Options::default());
    rig.take();
    rig.advance(9.0).open().advance(9.0).added("1").advance(9.5).added("2").expect("");
    let (at, deadline) = rig.machine.poll_timeout().unwrap();
    assert_eq!((at - rig.now, deadline), (secs(10.0), Deadline::InitialEvents));
    // An object without usable metadata is one of them all the same.
    rig.advance(9.0);
    rig.machine.handle_invalid(rig.now);
    rig.advance(9.0).expect("");
    assert_eq!((rig.status().counts.invalid, rv("")), (1, None));
}
