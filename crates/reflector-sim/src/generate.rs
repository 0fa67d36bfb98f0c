//! Schedules from seeds.

use fastrand::Rng;

use crate::{
    cluster::object::KEYS,
    plan::{Action, Fault, Follower, Format, Meets, Millis, Nature, Plan, Queue, Setup, Step, Streaming},
};

/// The schedule of a seed.
#[must_use]
pub fn plan(seed: u64) -> Plan {
    let mut rng = Rng::with_seed(seed);
    let rng = &mut rng;
    let setup = setup(rng);
    let nature = nature(rng);
    let steps = steps(rng, &nature);
    Plan { seed: rng.u64(..), setup, nature, steps }
}

/// True once in so many times.
fn once_in(rng: &mut Rng, times: u32) -> bool {
    rng.u32(0..times) == 0
}

fn one_of<T: Copy>(rng: &mut Rng, all: &[T]) -> T {
    all[rng.usize(0..all.len())]
}

fn setup(rng: &mut Rng) -> Setup {
    let seconds = |rng: &mut Rng, from, to| rng.u64(from..to) * 1000;
    Setup {
        streaming: rng.bool(),
        page_size: one_of(rng, &[Some(500), Some(3), Some(3), Some(1), None]),
        any: once_in(rng, 5),
        selector: rng.bool(),
        resync_every: once_in(rng, 4).then(|| seconds(rng, 5, 120)),
        relist_every: once_in(rng, 5).then(|| seconds(rng, 60, 400)),
        delete_absent_after: once_in(rng, 4).then(|| seconds(rng, 0, 120)),
        watch_timeout: if rng.bool() { 300_000 } else { seconds(rng, 2, 60) },
        internal_error_budget: one_of(rng, &[30_000, 30_000, 0]),
        followers: (0..rng.usize(0..4)).map(|_| follower(rng)).collect(),
        compress: rng.bool(),
    }
}

fn follower(rng: &mut Rng) -> Follower {
    let queue = match rng.u8(0..6) {
        0 | 1 => Queue::Merge,
        2 => Queue::Deliver,
        3 => Queue::Every(rng.usize(1..20)),
        4 => Queue::End(rng.usize(5..40)),
        _ => Queue::Block(rng.usize(1..10)),
    };
    Follower { queue, filtered: rng.bool(), slowness: one_of(rng, &[0, 10, 1000, 20_000]) }
}

fn nature(rng: &mut Rng) -> Nature {
    Nature {
        servers: rng.usize(1..4),
        lag: one_of(rng, &[0, 20, 300, 5000]),
        latency: one_of(rng, &[1, 10, 200]),
        streaming: one_of(
            rng,
            &[Streaming::Works, Streaming::Works, Streaming::Works, Streaming::Ignored, Streaming::Refused],
        ),
        bookmarks: !once_in(rng, 5),
        watchable: !once_in(rng, 25),
        versions: !once_in(rng, 25),
        cached: !once_in(rng, 6),
        limits: !once_in(rng, 8),
        continues: !once_in(rng, 15),
        floors: !once_in(rng, 10),
        timeouts: !once_in(rng, 8),
        holds_heads: once_in(rng, 6),
        proxy_timeout: once_in(rng, 5).then(|| one_of(rng, &[500, 5000, 30_000, 60_000])),
        refuses_old_at_once: rng.bool(),
        ends_old_silently: once_in(rng, 8),
        format: if once_in(rng, 4) { Format::Protobuf } else { Format::Json },
        chunk: one_of(rng, &[0, 0, 40, 200, 1000]),
        objects: one_of(rng, &[0, 1, 3, 8, KEYS]),
    }
}

/// What writers like to do.
#[derive(Clone, Copy)]
enum Temper {
    Calm,
    Recreating,
    Hot,
    Sweeping,
    Flipping,
}

fn steps(rng: &mut Rng, nature: &Nature) -> Vec<Step> {
    let mut length: Millis = one_of(rng, &[30_000, 120_000, 600_000]);
    if once_in(rng, 30) {
        // Long enough for what is tried again after half an hour.
        length = 3_600_000;
    }
    let temper = one_of(
        rng,
        &[Temper::Calm, Temper::Calm, Temper::Recreating, Temper::Hot, Temper::Sweeping, Temper::Flipping],
    );
    let writes = rng.usize(0..40);
    let faults = rng.usize(0..8);
    let mut steps = Vec::with_capacity(writes + faults);
    for _ in 0..writes {
        steps.push(Step { at: rng.u64(0..length), action: write(rng, temper) });
    }
    for _ in 0..faults {
        steps.push(Step { at: rng.u64(0..length), action: fault(rng, nature) });
    }
    if once_in(rng, 20) {
        steps.push(Step { at: rng.u64(0..length), action: Action::Stop });
    }
    steps.sort_by_key(|step| step.at);
    steps
}

fn write(rng: &mut Rng, temper: Temper) -> Action {
    let key = rng.u8(0..KEYS);
    let few = rng.u8(0..3);
    match (temper, rng.u8(0..10)) {
        (_, 0) => Action::Other(rng.u16(1..50)),
        (Temper::Recreating, 1..=5) => Action::Recreate(few),
        (Temper::Hot, 1..=4) => Action::Hot(few, rng.u8(2..20)),
        (Temper::Sweeping, 1) => Action::DeleteAll,
        (Temper::Sweeping, 2) => Action::CreateAll,
        (Temper::Flipping, 1..=6) => Action::Flip(key % 5),
        (_, 7 | 8) => Action::Delete(key),
        _ => Action::Put(key),
    }
}

/// A span of time, short or long.
fn span(rng: &mut Rng) -> Millis {
    one_of(rng, &[200, 3000, 20_000, 100_000, 300_000])
}

fn fault(rng: &mut Rng, nature: &Nature) -> Action {
    let meets = one_of(
        rng,
        &[Meets::All, Meets::Lists, Meets::Pages, Meets::Watches, Meets::Seconds, Meets::Reopens],
    );
    match rng.u8(0..26) {
        0 => Action::Compact(rng.bool()),
        1 | 2 => Action::Restart(rng.usize(0..nature.servers), span(rng)),
        3 => Action::CacheStall(rng.usize(0..nature.servers), span(rng)),
        // Where lists have no version, nothing can tell that a collection went back in time.
        4 if nature.versions => Action::Restore(rng.u64(1..60), rng.bool()),
        5 => Action::DeleteCrd(span(rng)),
        6 => Action::Forbid(span(rng), rng.bool()),
        7 => Action::ExpireToken(if rng.bool() { 0 } else { span(rng) }),
        8 => Action::Cut,
        9 => Action::HalfOpen,
        10 => Action::Partition(span(rng), rng.bool()),
        11 => Action::Slow(one_of(rng, &[500, 5000, 20_000])),
        12..=15 => Action::Answer(one_of(rng, &Fault::ALL), meets, rng.u8(1..9)),
        16 | 17 => Action::Outage(one_of(rng, &Fault::ALL), meets, span(rng)),
        18 => Action::Inject(one_of(
            rng,
            &[
                Fault::ExpiredEvent,
                Fault::InternalEvent,
                Fault::UnreadableEvent,
                Fault::BadRequestEvent,
                Fault::ThrottledEvent,
            ],
        )),
        19 => Action::CloseStreams,
        20 => Action::Replay,
        21 => Action::Unreadable(rng.u8(0..KEYS), rng.bool()),
        22 => Action::StoreFails(rng.u8(1..4)),
        23 => Action::CommitFails,
        24 => Action::Follow(follower(rng)),
        _ => Action::Leave(rng.usize(0..3)),
    }
}
