//! Whatever is reported, in whatever order and at whatever time: it does not panic, keeps its contract, and never sleeps
//! for ever.

use std::time::Duration;

use proptest::prelude::*;

use super::rig::{failure, rv};
use crate::protocol::{EventKind, InitialRead, Machine, Options, Order, Phase, Time};

const FAILURES: [&str; 16] = [
    "410 Expired",
    "410",
    "429",
    "503/700",
    "401",
    "403",
    "404",
    "405",
    "422",
    "500",
    "500 StoreReadError",
    "too large by cause",
    "transport",
    "malformed",
    "unreadable version",
    "silent",
];
const VERSIONS: [&str; 7] = ["", "0", "1", "7", "8", "99999999999999999999999", "opaque"];
const TOKENS: [&str; 4] = ["", "", "t", "u"];

#[derive(Clone, Debug)]
enum Input {
    /// Milliseconds pass.
    Pass(u64),
    /// It sleeps until its deadline, and this much longer.
    Sleep(u64),
    Page(usize, usize),
    ListFailed(usize),
    WatchFailed(usize),
    Open,
    Event(usize, usize),
    Bookmark(usize, bool),
    Error(usize),
    Broken(usize),
    Ended,
    Checked(usize),
    CheckFailed(usize),
    Reopened,
    ReopenFailed(usize),
    Progress,
    Invalid,
    StoreFailed,
    Stop,
}

fn input() -> impl Strategy<Value = Input> {
    let failures = 0..FAILURES.len();
    let versions = 0..VERSIONS.len();
    prop_oneof![
        4 => (0..5_000_u64).prop_map(Input::Pass),
        8 => prop_oneof![9 => Just(0), 1 => 0..100_000_u64].prop_map(Input::Sleep),
        6 => (versions.clone(), 0..TOKENS.len()).prop_map(|(v, t)| Input::Page(v, t)),
        2 => failures.clone().prop_map(Input::ListFailed),
        2 => failures.clone().prop_map(Input::WatchFailed),
        6 => Just(Input::Open),
        6 => (0..3_usize, versions.clone()).prop_map(|(k, v)| Input::Event(k, v)),
        6 => (versions.clone(), any::<bool>()).prop_map(|(v, end)| Input::Bookmark(v, end)),
        2 => failures.clone().prop_map(Input::Error),
        2 => failures.clone().prop_map(Input::Broken),
        3 => Just(Input::Ended),
        4 => versions.prop_map(Input::Checked),
        2 => failures.clone().prop_map(Input::CheckFailed),
        4 => Just(Input::Reopened),
        2 => failures.prop_map(Input::ReopenFailed),
        2 => Just(Input::Progress),
        1 => Just(Input::Invalid),
        1 => Just(Input::StoreFailed),
    ]
}

/// What the driver has open, by the contract.
#[derive(Default)]
struct Driver {
    main: bool,
    second: bool,
    staging: bool,
    stopped: bool,
}

impl Driver {
    fn carry_out(&mut self, machine: &mut Machine) {
        while let Some(order) = machine.poll_order() {
            assert!(!self.stopped, "{order:?} after the end");
            match order {
                Order::List(options) => {
                    assert!(!self.main && self.staging, "{options:?}");
                    let (continues, version) = (options.continue_token.is_some(), options.version.is_some());
                    // 422 otherwise.
                    assert!(!(continues && version), "{options:?}");
                    assert!(version || options.version_match.is_none(), "{options:?}");
                    self.main = true;
                }
                Order::Watch(options) => {
                    assert!(!self.main, "{options:?}");
                    assert!(options.send_initial_events.is_none() || self.staging);
                    self.main = true;
                }
                Order::Check(_) | Order::Reopen(_) => {
                    assert!(self.main && !self.second, "a second request beside nothing, or a third one");
                    self.second = true;
                }
                Order::Close => self.main = false,
                Order::CloseSecond => self.second = false,
                Order::BeginReplace { .. } => self.staging = true,
                Order::CommitReplace { .. } => assert!(std::mem::take(&mut self.staging), "nothing staged"),
                Order::AbandonReplace => self.staging = false,
                Order::Stopped => self.stopped = true,
                Order::Refresh | Order::Bookmark(_) | Order::Resync | Order::Report(_) => {}
            }
        }
    }
}

/// Tells the machine, and whether the fact ends the main or the second request.
fn tell(machine: &mut Machine, now: Time, input: &Input, driver: &mut Driver) {
    let phase = machine.status().phase;
    let listing = matches!(phase, Phase::Syncing { method: crate::protocol::SyncMethod::List, .. });
    let version = |v: &usize| rv(VERSIONS[*v]);
    let fail = |f: &usize| failure(FAILURES[*f]);
    match input {
        Input::Page(..) | Input::ListFailed(_) if listing => driver.main = false,
        Input::WatchFailed(_) | Input::Error(_) | Input::Broken(_) | Input::Ended if !listing => {
            driver.main = false;
        }
        Input::Checked(_) | Input::CheckFailed(_) | Input::ReopenFailed(_) => {}
        _ => {}
    }
    match input {
        Input::Page(v, t) => machine.handle_page(now, version(v), Some(TOKENS[*t].to_owned())),
        Input::ListFailed(f) => machine.handle_list_failed(now, fail(f)),
        Input::WatchFailed(f) => machine.handle_watch_failed(now, fail(f)),
        Input::Open => machine.handle_watch_opened(now),
        Input::Event(kind, v) => {
            let kind = [EventKind::Added, EventKind::Modified, EventKind::Deleted][*kind];
            machine.handle_event(now, kind, version(v).as_ref());
        }
        Input::Bookmark(v, end) => machine.handle_bookmark(now, version(v).as_ref(), *end),
        Input::Error(f) => machine.handle_stream_error(now, fail(f)),
        Input::Broken(f) => machine.handle_stream_broken(now, fail(f)),
        Input::Ended => machine.handle_stream_ended(now),
        Input::Checked(v) => machine.handle_checked(now, Ok(version(v))),
        Input::CheckFailed(f) => machine.handle_checked(now, Err(fail(f))),
        Input::Reopened => machine.handle_reopened(now),
        Input::ReopenFailed(f) => machine.handle_reopen_failed(now, fail(f)),
        Input::Progress => machine.handle_progress(now),
        Input::Invalid => machine.handle_invalid(now),
        Input::StoreFailed => machine.handle_store_failed(now, "full"),
        Input::Stop => machine.handle_stop(),
        Input::Pass(_) | Input::Sleep(_) => machine.handle_timeout(now),
    }
}

/// What a driver could report of its second request: the answer to what it was last asked, and only if it is open.
#[derive(Clone, Copy, PartialEq)]
enum SecondKind {
    Check,
    Reopen,
}

fn kind_of(input: &Input) -> Option<SecondKind> {
    match input {
        Input::Checked(_) | Input::CheckFailed(_) => Some(SecondKind::Check),
        Input::Reopened | Input::ReopenFailed(_) => Some(SecondKind::Reopen),
        _ => None,
    }
}

fn options(n: usize) -> Options {
    Options {
        streaming: n & 1 == 0,
        initial_read: if n & 2 == 0 { InitialRead::Consistent } else { InitialRead::Any },
        delete_absent_after: (n & 4 == 0).then_some(Duration::from_secs(5)),
        resync_every: (n & 8 == 0).then_some(Duration::from_secs(7)),
        relist_every: (n & 16 == 0).then_some(Duration::from_secs(40)),
        idle_limit: if n & 32 == 0 { Duration::from_secs(90) } else { Duration::from_secs(3) },
        poll_interval: if n & 64 == 0 { Duration::from_secs(30) } else { Duration::MAX },
        streaming_probe_after: if n & 64 == 0 { Duration::from_secs(60) } else { Duration::MAX },
        ..Options::default()
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn it_keeps_its_contract(
        seed in any::<u64>(),
        n in 0..128_usize,
        inputs in prop::collection::vec(input(), 1..120),
        stop in any::<bool>(),
    ) {
        let mut machine = Machine::new(options(n), seed);
        let mut driver = Driver::default();
        let mut now = Time::ZERO;
        machine.start(now);
        driver.carry_out(&mut machine);
        let stop = stop.then_some(Input::Stop);
        for input in inputs.iter().chain(stop.iter()).chain(inputs.iter().filter(|_| stop.is_some())) {
            now = match (input, machine.poll_timeout()) {
                (Input::Pass(ms), _) => now + Duration::from_millis(*ms),
                (Input::Sleep(more), Some((at, _))) if at < Time::from_secs(1 << 30) => {
                    at.max(now) + Duration::from_millis(*more)
                }
                _ => now,
            };
            let second = machine.second_kind();
            let fits = kind_of(input).is_none_or(|kind| second == Some(kind));
            if !fits && driver.second {
                // Another answer than the one asked for: no driver reports that, yet it must not matter.
                tell(&mut machine, now, input, &mut driver);
                prop_assert!(machine.second_kind() == second);
                continue;
            }
            if kind_of(input).is_some() {
                driver.second = false;
            }
            tell(&mut machine, now, input, &mut driver);
            driver.carry_out(&mut machine);
            if driver.stopped {
                prop_assert!(machine.poll_timeout().is_none());
                continue;
            }
            // It waits for something, and its deadline is ahead once the time was told.
            machine.handle_timeout(now);
            driver.carry_out(&mut machine);
            let (at, _) = machine.poll_timeout().expect("it would sleep for ever");
            prop_assert!(at > now, "{at:?} is not after {now:?}");
            prop_assert_eq!(driver.second, machine.second_kind().is_some());
            let idle = matches!(
                machine.status().phase,
                Phase::Waiting { .. } | Phase::Polling { .. } | Phase::Absent { .. }
            );
            prop_assert_eq!(driver.main, !idle, "{:?}", machine.status().phase);
        }
    }
}

impl Machine {
    fn second_kind(&self) -> Option<SecondKind> {
        let super::super::State::Watching(watch) = &self.state else { return None };
        match watch.second_name()? {
            "check" => Some(SecondKind::Check),
            _ => Some(SecondKind::Reopen),
        }
    }
}
