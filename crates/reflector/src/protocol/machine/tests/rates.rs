//! Under every fault the number of requests per minute is bounded, it never stops trying, and it syncs once the server is
//! healed.
//!
//! A fault is a server that answers wrongly for ever. The machine lives with it for an hour, with several seeds, once
//! from the start and once after it was in sync; then the server is healed.

use std::time::Duration;

use super::{
    rig::failure,
    server::{Answer, Ask, Fact, SOON, Server, Sim, World, healthy},
};
use crate::protocol::{EventKind, Options, Time};

const HOUR: Duration = Duration::from_secs(3600);

/// The slow wait is up to two minutes, and a connection is silent for up to 90 s before anybody asks.
const HEALED_WITHIN: Duration = Duration::from_secs(240);

/// The most requests in any minute of an hour with this server; it is fine afterwards.
pub(super) fn live_with(name: &str, options: &Options, server: Server<'_>) -> usize {
    let mut most = 0;
    for seed in 0..6 {
        for synced in [false, true] {
            let mut sim = Sim::new(options.clone(), seed);
            if synced {
                sim.run(Duration::from_secs(500), &healthy);
                assert!(sim.machine.status().synced);
                sim.cut();
            }
            let start = sim.now;
            sim.requests.clear();
            sim.run(start + HOUR, server);
            most = most.max(sim.most_per_minute());
            keeps_trying(name, &sim, start);
            heals(name, seed, synced, &mut sim);
        }
    }
    most
}

/// No pause is longer than a watch that the server is content with: those live for ten minutes at most.
fn keeps_trying(name: &str, sim: &Sim, start: Time) {
    let times = [&[start], sim.requests.as_slice(), &[sim.now]].concat();
    let longest = times.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap();
    assert!(longest <= Duration::from_secs(660), "{name}: nothing asked for {longest:?}");
}

fn heals(name: &str, seed: u64, synced: bool, sim: &mut Sim) {
    sim.world.version += 1_000_000;
    let current = sim.world.rv().unwrap();
    let until = sim.now + HEALED_WITHIN;
    let healed = sim.run_to(until, &healthy, |sim| {
        let status = sim.machine.status();
        status.synced && status.version.is_some_and(|v| !v.is_older_than(&current) && v.is_comparable())
    });
    let status = sim.machine.status();
    assert!(healed, "{name}, seed {seed}, synced {synced}: not healed, {status:#?}");
}

#[track_caller]
fn bounded(name: &str, bound: usize, server: Server<'_>) {
    let most = live_with(name, &Options::default(), server);
    println!("{most:3} of {bound:3} per minute: {name}");
    assert!(most <= bound, "{name}: {most} requests in a minute, more than {bound}");
}

/// The refusal of any request.
fn refused(ask: Ask, name: &str) -> Answer {
    let failure = failure(name);
    vec![(
        SOON,
        match ask {
            Ask::List | Ask::NextPage => Fact::ListFailed(failure),
            Ask::Streaming | Ask::Watch => Fact::WatchFailed(failure),
            Ask::Check => Fact::Checked(Err(failure)),
            Ask::Reopen => Fact::ReopenFailed(failure),
        },
    )]
}

const FAILURES: [&str; 24] = [
    "410 Expired",
    "410",
    "429",
    "429/1",
    "429/5",
    "503",
    "503/10",
    "401 Unauthorized",
    "403 Forbidden",
    "404 NotFound",
    "404",
    "405 MethodNotAllowed",
    "400 BadRequest",
    "406 NotAcceptable",
    "422 Invalid",
    "500 InternalError",
    "500 StoreReadError",
    "502",
    "504",
    "too large by cause",
    "transport",
    "malformed",
    "unreadable version",
    "silent",
];

/// Its name, the requests that are refused there, and the bound.
type Place = (&'static str, fn(Ask) -> bool, usize);

const PLACES: [Place; 8] = [
    ("every request", |_| true, 14),
    ("lists", |ask| matches!(ask, Ask::List | Ask::NextPage | Ask::Check), 14),
    ("later pages", |ask| ask == Ask::NextPage, 2),
    ("lists and streaming lists", |ask| matches!(ask, Ask::List | Ask::Check | Ask::Streaming), 14),
    ("streaming lists", |ask| ask == Ask::Streaming, 14),
    ("streaming lists and later pages", |ask| matches!(ask, Ask::NextPage | Ask::Streaming), 36),
    ("watches", |ask| matches!(ask, Ask::Watch | Ask::Reopen), 26),
    ("all kinds of watches", |ask| matches!(ask, Ask::Watch | Ask::Streaming | Ask::Reopen), 26),
];

/// Every class at every place.
#[test]
fn every_refusal_at_every_place() {
    for failure in FAILURES {
        for (place, hit, bound) in PLACES {
            let server = |world: &mut World, ask| {
                if hit(ask) { refused(ask, failure) } else { healthy(world, ask) }
            };
            bounded(&format!("{failure} on {place}"), bound, &server);
        }
    }
}

/// The same as ERROR events, at once or after an event, in watches or in all streams.
#[test]
fn every_error_in_every_stream() {
    for name in FAILURES {
        for (streaming, events) in [(false, 0), (false, 1), (true, 0), (true, 1)] {
            let server = |world: &mut World, ask| {
                let (Ask::Watch | Ask::Streaming | Ask::Reopen) = ask else { return healthy(world, ask) };
                if ask == Ask::Streaming && !streaming {
                    return refused(ask, "422 Invalid");
                }
                let opened = if ask == Ask::Reopen { Fact::Reopened } else { Fact::Open };
                let mut answer = vec![(SOON, opened)];
                answer.extend((0..events).map(|_| (SOON, Fact::Change(EventKind::Added))));
                answer.push((SOON, Fact::Error(failure(name))));
                answer
            };
            bounded(&format!("ERROR {name} after {events} events, streaming {streaming}"), 26, &server);
        }
    }
}
