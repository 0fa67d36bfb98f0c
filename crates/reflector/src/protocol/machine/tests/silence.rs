//! A.7: silence proves nothing, so it asks.

use super::rig::{Rig, failure, lists, rv, secs};
use crate::protocol::{Class, Deadline, EventKind, Options, Phase};

/// A1, A5: idle, checked, opened a second time, and swapped; no event is lost, and nothing is relisted.
#[test]
fn a_silent_watch_is_opened_again_before_it_is_closed() {
    let mut rig = Rig::synced(lists(), "10");
    rig.expect_deadline(Deadline::WatchIdle, 90.0).expect("check limit=1");
    let proof = rig.status().last_proof;
    rig.advance(0.1).checked(Ok(rv("20"))).expect("reopen rv=10");
    // Others have written; that proves nothing.
    assert_eq!(rig.status().last_proof, proof);
    rig.reopened().expect("");
    assert_eq!((rig.status().phase, rig.status().counts.errors), (Phase::Watching, 0));
    assert_eq!(rig.event(EventKind::Modified, "15"), crate::protocol::Disposition::Apply);
    rig.expect_deadline(Deadline::WatchIdle, 90.0);
}

/// The version of the collection is ours: the copy is current after all.
#[test]
fn an_equal_check_is_a_proof() {
    let mut rig = Rig::synced(lists(), "10");
    rig.advance(90.0).checked(Ok(rv("10"))).expect("check limit=1; reopen rv=10");
    assert_eq!(rig.status().last_proof, Some(secs(90.0)));
}

/// The swapped watch lives by its own timeout, not by that of the first one.
#[test]
fn the_second_watch_has_its_own_timeout() {
    let mut rig = Rig::synced(lists(), "10");
    rig.advance(90.0).checked(Ok(rv("10"))).take();
    let asked = rig.now;
    rig.advance(1.0).reopened();
    let second = *rig.timeouts.last().unwrap();
    while let Some((at, deadline)) = rig.machine.poll_timeout() {
        assert!(rig.now < secs(1000.0));
        if deadline == Deadline::WatchTimeout {
            assert_eq!(at, asked + second + secs(30.0));
            return;
        }
        rig.advance(10.0).bookmark("10").take();
    }
}

/// What proves that the copy is current calls the check off.
#[test]
fn life_cancels_the_check() {
    let words: [fn(&mut Rig); 2] =
        [|rig| drop(rig.added("11").version()), |rig| drop(rig.added("").version())];
    for word in words {
        let mut rig = Rig::synced(lists(), "10");
        rig.advance(90.0).expect("check limit=1").advance(1.0);
        word(&mut rig);
        rig.expect("close second");
        rig.checked(Ok(rv("1"))).expect("");
        rig.advance(89.0).expect("").advance(1.0).expect("check limit=1");
        rig.checked(Ok(rv("12"))).take();
        word(&mut rig);
        rig.expect("close second").reopened().expect("").advance(89.0).expect("");
    }
}

/// Bytes prove only that somebody is there: the check goes on, but its failure does not end the watch.
#[test]
fn bytes_alone_hide_no_silence() {
    let mut rig = Rig::synced(lists(), "10");
    for _ in 0..8 {
        rig.advance(10.0).bytes();
    }
    rig.advance(10.0).expect("check limit=1");
    rig.advance(1.0).bytes();
    rig.checked(Err(failure("transport"))).expect("report list transport; reopen rv=10");
    rig.advance(1.0).bytes();
    rig.reopen_fails("transport").expect("report watch transport");
    rig.advance(90.0).expect("check limit=1").advance(1.0).bytes();
    rig.advance(90.0).expect("close second; report list silent; check limit=1");
}

/// A request that nobody answers is a failure, even where it is not needed: the watch has shown that it lives. Found by
/// model checking.
#[test]
fn a_second_request_without_an_answer_is_reported() {
    let mut rig = Rig::synced(lists(), "10");
    rig.bookmark("7").expect("check limit=1");
    rig.advance(90.0).expect("close second; report list silent; check limit=1");
    assert_eq!(rig.last().class, Class::Silent);
    rig.checked(Ok(rv("10"))).expect("reopen rv=10");
    rig.advance(1.0).bytes();
    rig.advance(89.0).expect("close second; report watch silent; check limit=1");
}

/// D28, A5: a proxy that ends every watch in time does not hide that the server has nothing to say.
#[test]
fn silence_is_counted_across_watches() {
    let mut rig = Rig::synced(lists(), "10");
    let mut checks = 0;
    for _ in 0..60 {
        rig.advance(30.0);
        let orders = rig.take();
        if orders.contains("check") {
            checks += 1;
            rig.checked(Ok(rv("12"))).expect("reopen rv=10").reopened();
            continue;
        }
        rig.ended().expect("close second; watch rv=10").open();
    }
    assert_eq!(checks, 20, "one in 90 seconds of half an hour");
    // And the next one finds that the collection went back in time.
    rig.advance(90.0).expect("check limit=1").checked(Ok(rv("7")));
    rig.expect("close; close second; report watch rewound; begin rewound list; list limit=500");
}

/// An answer that was on its way while events came is older than they are, and no rewind.
#[test]
fn a_late_answer_is_no_rewind() {
    let mut rig = Rig::synced(lists(), "10");
    rig.added("5").expect("check limit=1");
    rig.modified("12").modified("13").expect("");
    rig.checked(Ok(rv("11"))).expect("");
    assert_eq!(rig.version(), "13");
}

/// A1: nobody answers. Dead within twice the idle limit; the version stays, and no list is wasted.
#[test]
fn a_dead_connection() {
    let mut rig = Rig::synced(lists(), "10");
    rig.advance(90.0).expect("check limit=1");
    rig.expect_deadline(Deadline::Second, 90.0).expect("close; close second; report watch silent");
    rig.expect_wait(0.8, 1.6).expect("watch rv=10");
    // Or the check says so at once.
    for name in ["transport", "silent", "malformed"] {
        let mut rig = Rig::synced(lists(), "10");
        rig.advance(90.0).take();
        rig.checked(Err(failure(name))).expect(&format!("close; close second; report list {name}"));
        rig.expect_wait(0.8, 1.6).expect("watch rv=10");
    }
    // Or the second watch hangs.
    let mut rig = Rig::synced(lists(), "10");
    rig.advance(90.0).checked(Ok(None)).expect("check limit=1; reopen rv=10");
    rig.expect_deadline(Deadline::Second, 90.0).expect("close; close second; report watch silent");
}

/// A refusal is an answer: the server is there. The re-opening tells whether the watch is.
#[test]
fn a_refused_check() {
    for (name, class) in [("403", "forbidden"), ("500", "internal"), ("404", "absent")] {
        let mut rig = Rig::synced(lists(), "10");
        rig.advance(90.0).take();
        rig.checked(Err(failure(name))).expect(&format!("report list {class}; reopen rv=10"));
        assert!(rig.status().blocked.is_none());
    }
    // Who wants to be left alone is left alone.
    let mut rig = Rig::synced(lists(), "10");
    rig.advance(90.0).take();
    rig.checked(Err(failure("429/5"))).expect("report list throttled");
    rig.expect_deadline(Deadline::WatchIdle, 90.0).expect("check limit=1");
}

#[test]
fn a_refused_second_watch() {
    let cases = [
        // Overload: the first watch stays, and is left alone for a while.
        ("429/5", "report watch throttled", Class::Throttled),
        ("503", "report watch unavailable", Class::Unavailable),
        ("transport", "close; close second; report watch transport", Class::Transport),
        // Permissions are looked at when a watch starts: the first one may go on.
        ("401", "report watch unauthorized", Class::Unauthorized),
        ("403", "report watch forbidden", Class::Forbidden),
        ("404", "close; close second; abandon; report watch absent", Class::Absent),
        (
            "410",
            "close; close second; report watch expired; begin expired list; list rv=10 match=NotOlderThan",
            Class::Expired,
        ),
    ];
    for (name, orders, class) in cases {
        let mut rig = Rig::synced(lists(), "10");
        rig.advance(90.0).checked(Ok(None)).take();
        rig.reopen_fails(name).expect(orders);
        assert_eq!(rig.last().class, class);
        if name == "429/5" {
            rig.expect_deadline(Deadline::WatchIdle, 90.0).expect("check limit=1");
        }
    }
}

/// A4: the server does not keep the timeout it was told. Alive: the next watch at once; dead: after a wait.
#[test]
fn a_watch_that_outlives_its_timeout() {
    let mut rig = Rig::synced(lists(), "10");
    let end = rig.timeouts_first() + secs(30.0);
    while rig.now + secs(20.0) < end {
        rig.advance(20.0).bookmark("11").expect("bookmark 11");
    }
    rig.at(end).expect("close; close second; watch rv=11");
    assert_eq!(rig.status().counts.errors, 0);

    let mut rig = Rig::synced(Options { idle_limit: secs(1e6), ..lists() }, "10");
    let end = rig.timeouts_first() + secs(30.0);
    rig.at(end).expect("close; close second; watch rv=10");
    // Never opened, so nobody is known to be there.
    let end = rig.now + *rig.timeouts.last().unwrap() + secs(30.0);
    rig.at(end).expect("close; close second; report watch silent");
}

impl Rig {
    fn timeouts_first(&self) -> std::time::Duration {
        self.timeouts[0]
    }
}

/// No headers for as long as that: nothing can be lost by giving it up.
#[test]
fn a_watch_that_never_opens() {
    let mut rig = Rig::start(lists());
    rig.page("10", "").take();
    assert_eq!(rig.status().phase, Phase::Connecting);
    rig.expect_deadline(Deadline::WatchIdle, 90.0).expect("close; close second; report watch silent");
    rig.expect_wait(0.8, 1.6).expect("watch rv=10");
}

/// Without a version a second watch could miss deletes, so the collection is read again.
#[test]
fn silence_without_a_version() {
    let mut rig = Rig::streamed(Options::default(), "");
    rig.advance(90.0).checked(Ok(None)).expect(
        "check limit=1; close; close second; begin verify streaming; watch match=NotOlderThan initial",
    );
}

/// A proxy that holds the headers back until there is an event, and a collection that went back in time and is quiet: no
/// watch is ever answered, and only a check tells.
#[test]
fn watches_without_headers_are_checked() {
    let mut rig = Rig::start(lists());
    rig.page("10", "").take();
    rig.advance(50.0).watch_fails("transport").take();
    rig.expect_wait(0.8, 1.6).expect("watch rv=10");
    // The silence goes on from watch to watch.
    let asked = rig.now;
    rig.at(secs(90.0)).expect("check limit=1");
    rig.checked(Ok(rv("10"))).expect("");
    assert_eq!(rig.status().last_proof, Some(secs(90.0)));
    // Not answered at all: given up.
    rig.at(asked + secs(90.0)).expect("close; close second; report watch silent");
    rig.expect_wait(0.8, 3.2).expect("watch rv=10");
    rig.at(secs(180.0)).expect("check limit=1");
    rig.checked(Ok(rv("9"))).take();
    assert_eq!(rig.last().class, Class::Rewound);
}

/// A check that is refused is not asked for again at once.
#[test]
fn checks_beside_an_unanswered_watch_are_bounded() {
    let mut rig = Rig::start(lists());
    rig.page("10", "").take();
    rig.advance(89.0).watch_fails("503/7").take();
    rig.expect_wait(7.0, 14.0).expect("watch rv=10");
    rig.expect_deadline(Deadline::WatchIdle, 1.0).expect("check limit=1");
    rig.checked(Err(failure("429"))).expect("report list throttled");
    rig.expect_deadline(Deadline::WatchIdle, 89.0).expect("close; close second; report watch silent");
}
