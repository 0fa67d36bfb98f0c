//! Many schedules.

use std::{
    ops::Range,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

use crate::{generate, transitions::Covered, world};

/// A schedule that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failed {
    /// Its seed.
    pub seed: u64,
    /// What did not hold.
    pub failure: String,
}

/// What came of many schedules.
#[derive(Debug, Default)]
pub struct Summary {
    /// How many there were.
    pub schedules: u64,
    /// Those that failed, by their seeds.
    pub failed: Vec<Failed>,
    /// The transitions that were taken.
    pub covered: Covered,
    /// The most requests in any minute.
    pub requests_most: usize,
    /// The most failures in any minute.
    pub failures_most: usize,
    /// The longest time until a copy was true after the last fault.
    pub caught_up_after: Duration,
    /// How many facts the machines were told.
    pub facts: u64,
    /// How many copies could not know in the end that they were wrong.
    pub excused: u64,
}

impl Summary {
    fn and(&mut self, other: Self) {
        self.schedules += other.schedules;
        self.failed.extend(other.failed);
        self.covered = self.covered.and(other.covered);
        self.requests_most = self.requests_most.max(other.requests_most);
        self.failures_most = self.failures_most.max(other.failures_most);
        self.caught_up_after = self.caught_up_after.max(other.caught_up_after);
        self.facts += other.facts;
        self.excused += other.excused;
    }
}

/// Runs the schedules of these seeds, each by itself, on so many threads.
#[must_use]
pub fn run_many(seeds: Range<u64>, threads: usize) -> Summary {
    let next = AtomicU64::new(seeds.start);
    let all = Mutex::new(Summary::default());
    thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            scope.spawn(|| {
                let mut mine = Summary::default();
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end {
                        break;
                    }
                    mine.and(one(seed));
                }
                all.lock().unwrap_or_else(PoisonError::into_inner).and(mine);
            });
        }
    });
    let mut all = all.into_inner().unwrap_or_else(PoisonError::into_inner);
    all.failed.sort_by_key(|failed| failed.seed);
    all
}

fn one(seed: u64) -> Summary {
    let outcome = world::run(&generate::plan(seed), false);
    Summary {
        schedules: 1,
        failed: outcome.failure.map(|failure| Failed { seed, failure }).into_iter().collect(),
        covered: outcome.covered,
        requests_most: outcome.requests_most,
        failures_most: outcome.failures_most,
        caught_up_after: if outcome.excused { Duration::ZERO } else { outcome.caught_up_after },
        facts: outcome.facts,
        excused: outcome.excused.into(),
    }
}
