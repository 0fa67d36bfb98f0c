//! A.8: timers, errors of the store, reports, and the end.

use super::rig::{Rig, lists, secs};
use crate::protocol::{Class, Deadline, Disposition, EventKind, History, Options, Phase};

/// RF-50, ReflectorResyncChan; RF-52: the timer does not begin anew with every relist.
#[test]
fn resync() {
    let mut rig = Rig::start(Options { resync_every: Some(secs(50.0)), ..lists() });
    rig.take();
    // Nothing to resync before the first sync.
    rig.advance(80.0).expect("").page("10", "").open().take();
    rig.expect_deadline(Deadline::Resync, 50.0).expect("resync");
    rig.advance(30.0).modified("11").error("410").take();
    rig.page("12", "").take();
    rig.expect_deadline(Deadline::Resync, 20.0).expect("resync");
    // Also while it waits for a server.
    rig.watch_fails("503/500").take();
    rig.expect_deadline(Deadline::Resync, 50.0).expect("resync");
}

/// D30: verification against servers whose watches are not to be trusted; counted from the last read that asked for the
/// most recent state. One that is not older than the copy verifies nothing.
#[test]
fn relist_every() {
    let mut rig = Rig::synced(Options { relist_every: Some(secs(80.0)), ..lists() }, "10");
    rig.advance(40.0).error("410").take();
    rig.page("11", "").open().take();
    rig.expect_deadline(Deadline::Verify, 40.0)
        .expect("close; close second; begin verify list; list limit=500");
    // A stalled cache would answer from what it has, and equal versions would hide it.
    assert_eq!(rig.history, Some(History::Unknown));
    rig.page("11", "").expect("commit 11; watch rv=11");
    assert_eq!(rig.status().counts.errors, 1);
}

/// RF-42: what the store could not take is read again, with a wait, whatever was going on.
#[test]
fn a_failing_store() {
    let mut rig = Rig::synced(lists(), "10");
    for (low, high) in [(0.8, 1.6), (1.6, 3.2), (3.2, 6.4)] {
        rig.modified("11");
        rig.machine.handle_store_failed(rig.now, "full");
        rig.expect("close; close second; abandon; abandon; report watch malformed");
        assert!(rig.last().failure.message().contains("full"));
        rig.expect_wait(low, high).expect("begin store list; list rv=11 match=NotOlderThan");
        rig.page("11", "").open().take();
    }
}

/// B18: class, attempt count, elapsed time and wait of every error; the row ends with a success.
#[test]
fn reports() {
    let mut rig = Rig::synced(lists(), "10");
    rig.error("429").take();
    assert_eq!((rig.last().attempt, rig.last().elapsed, rig.last().first), (1, secs(0.0), true));
    let (at, _) = rig.machine.poll_timeout().unwrap();
    assert_eq!(rig.last().retry_in, at);
    rig.at(at).watch_fails("429").take();
    assert_eq!((rig.last().attempt, rig.last().elapsed, rig.last().first), (2, at, false));
    let (at, _) = rig.machine.poll_timeout().unwrap();
    rig.at(at).watch_fails("transport").take();
    assert_eq!((rig.last().attempt, rig.last().first, rig.last().class), (3, true, Class::Transport));
    let (at, _) = rig.machine.poll_timeout().unwrap();
    rig.at(at).open().modified("11").error("429").take();
    assert_eq!((rig.last().attempt, rig.last().elapsed, rig.last().first), (1, secs(0.0), true));
    assert_eq!(rig.status().counts.errors, 4);
}

type Case = (&'static str, fn() -> Rig);

/// ReflectorStopWatch, RunUntil, WatchStoppedBefore: the end at every state, and nothing after it.
#[test]
fn stop() {
    let states: [Case; 8] = [
        ("created", || Rig { machine: crate::protocol::Machine::new(lists(), 1), ..Rig::start(lists()) }),
        ("listing", || Rig::start(lists())),
        ("streaming", || Rig::start(Options::default())),
        ("connecting", || {
            let mut rig = Rig::start(lists());
            rig.page("10", "");
            rig
        }),
        ("watching", || Rig::synced(lists(), "10")),
        ("checking", || {
            let mut rig = Rig::synced(lists(), "10");
            rig.advance(90.0);
            rig
        }),
        ("re-opening", || {
            let mut rig = Rig::synced(lists(), "10");
            rig.advance(90.0).checked(Ok(None));
            rig
        }),
        ("waiting", || {
            let mut rig = Rig::synced(lists(), "10");
            rig.error("401");
            rig
        }),
    ];
    for (name, state) in states {
        let mut rig = state();
        rig.machine.handle_stop();
        assert_eq!(rig.take(), "close; close second; abandon; stopped", "{name}");
        let before = format!("{:?}", rig.machine);
        rig.machine.handle_stop();
        rig.machine.start(rig.now);
        rig.machine.handle_store_failed(rig.now, "full");
        rig.machine.handle_progress(rig.now);
        rig.machine.handle_invalid(rig.now);
        assert_eq!(rig.event(EventKind::Added, "9"), Disposition::Drop);
        rig.page("1", "").list_fails("410").watch_fails("410").open().end_bookmark("2").bookmark("3").ended();
        rig.error("410").broken("transport").checked(Ok(None)).reopened().reopen_fails("410").advance(1e4);
        rig.expect("");
        assert_eq!((rig.status().phase, rig.machine.poll_timeout()), (Phase::Stopped, None), "{name}");
        assert_eq!(format!("{:?}", rig.machine), before, "{name}");
    }
}
