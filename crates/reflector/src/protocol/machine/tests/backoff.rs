//! A.5: the back-off, one per source.

use super::rig::{Rig, lists, secs};
use crate::protocol::{BackoffOptions, Options};

/// InitConnBackoff: 0.8 s doubling to [30, 60).
#[test]
fn doubles_to_its_cap() {
    let mut rig = Rig::start(lists());
    rig.take();
    for low in [0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30.0, 30.0, 30.0] {
        rig.list_fails("transport").expect("abandon; report list transport");
        rig.expect_wait(low, low * 2.0).expect("begin first list; list limit=500");
    }
}

/// NewReflectorWithCustomBackoff.
#[test]
fn custom() {
    let backoff = BackoffOptions { first: secs(0.01), cap: secs(0.1), reset_after: secs(5.0) };
    let mut rig = Rig::start(Options { backoff, ..lists() });
    rig.take();
    for low in [0.01, 0.02, 0.04, 0.08, 0.1, 0.1] {
        rig.list_fails("502").take();
        rig.expect_wait(low, low * 2.0).take();
    }
}

/// RF-12: time alone forgives nothing, and neither does a success; two minutes of health do.
#[test]
fn only_health_resets_it() {
    let mut rig = Rig::synced(lists(), "10");
    rig.error("503/600").take();
    rig.expect_wait(600.0, 900.0).expect("watch rv=10");
    rig.watch_fails("transport").take();
    rig.expect_wait(1.6, 3.2).take();
    rig.open();
    for _ in 0..11 {
        rig.advance(10.0).bookmark("10").take();
    }
    rig.error("503").take();
    rig.expect_wait(3.2, 6.4).take();
    rig.open();
    for _ in 0..12 {
        rig.advance(10.0).bookmark("10").take();
    }
    rig.error("503").take();
    rig.expect_wait(0.8, 1.6).expect("watch rv=10");
}

/// A load balancer that cuts every watch once a minute must not blind us for half of the time: client-go does not wait at
/// all. A connection that breaks again and again within seconds is another matter.
#[test]
fn a_watch_that_lived_before_it_was_cut_costs_the_first_wait() {
    let mut rig = Rig::synced(lists(), "10");
    for version in ["11", "12", "13", "14", "15", "16"] {
        rig.advance(20.0).modified(version).advance(40.0).broken("transport");
        rig.expect("close second; report watch transport");
        assert_eq!(rig.last().attempt, 1);
        rig.expect_wait(0.8, 1.6).expect(&format!("watch rv={version}"));
        rig.open();
    }
    for low in [0.8, 1.6, 3.2] {
        rig.advance(9.0).modified("17").broken("transport").take();
        rig.expect_wait(low, low * 2.0).expect("watch rv=17");
        rig.open();
    }
    // It is not forgotten either, until there were two minutes without such a failure, cuts or not.
    for low in [0.8, 0.8] {
        rig.advance(55.0).bookmark("17").broken("transport").take();
        rig.expect_wait(low, low * 2.0).take();
        rig.open();
    }
    rig.broken("transport").take();
    rig.expect_wait(6.4, 12.8).take();
    rig.open();
    for low in [0.8, 0.8, 0.8] {
        rig.advance(55.0).bookmark("17").broken("transport").take();
        rig.expect_wait(low, low * 2.0).take();
        rig.open();
    }
    rig.broken("transport").take();
    rig.expect_wait(0.8, 1.6).expect("watch rv=17");
}

/// Without a version each cut means a new read of everything.
#[test]
fn cut_without_a_version_counts() {
    let mut rig = Rig::synced(lists(), "0");
    for low in [0.8, 1.6, 3.2] {
        rig.advance(15.0).broken("transport").take();
        rig.expect_wait(low, low * 2.0).expect("begin verify list; list limit=500");
        rig.page("0", "").open().take();
    }
}

/// RF-11: lists, streaming lists and watches advance one state.
#[test]
fn one_state_for_all() {
    let mut rig = Rig::start(Options::default());
    rig.take();
    rig.watch_fails("transport").take();
    rig.expect_wait(0.8, 1.6).take();
    rig.watch_fails("422").take();
    rig.list_fails("transport").take();
    rig.expect_wait(1.6, 3.2).take();
    rig.page("10", "").watch_fails("transport").take();
    rig.expect_wait(3.2, 6.4).expect("watch rv=10");
}

/// k8s#79805, B15: Retry-After is the least, with jitter on top, also where the back-off is longer.
#[test]
fn retry_after_is_a_floor() {
    let mut waits = Vec::new();
    for seed in 0..50 {
        let mut rig = Rig::start(lists());
        rig.machine = crate::protocol::Machine::new(lists(), seed);
        rig.machine.start(rig.now);
        rig.list_fails("429/2").take();
        let (at, _) = rig.machine.poll_timeout().unwrap();
        waits.push(at);
    }
    assert!(waits.iter().all(|wait| (secs(2.0)..secs(3.0)).contains(wait)));
    assert!(waits.iter().any(|wait| *wait > secs(2.8)) && waits.iter().any(|wait| *wait < secs(2.2)));
    let mut rig = Rig::start(lists());
    for low in [1.0, 1.6, 3.2, 6.4] {
        rig.list_fails("429/1").take();
        rig.expect_wait(low, low * 2.0 + 1.0).take();
    }
}
