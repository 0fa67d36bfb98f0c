//! Schedules as part of the ordinary tests.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{fs, path::Path, thread::available_parallelism, time::Instant};

use reflector_sim::{
    corpus, generate, run, run_many, shrink,
    transitions::{NEVER, TRANSITIONS},
};

const SCHEDULES: u64 = 20_000;

/// Everything holds in every schedule, and each transition of the machine is taken, or the list says why not.
#[test]
fn twenty_thousand_schedules() {
    let threads = available_parallelism().map_or(1, |threads| threads.get().min(2));
    let begin = Instant::now();
    let summary = run_many(0..SCHEDULES, threads);
    println!("{SCHEDULES} schedules in {:?} on {threads} threads, {} facts", begin.elapsed(), summary.facts);
    if let Some(first) = summary.failed.first() {
        let outcome = run(&shrink(&generate::plan(first.seed)), true);
        let story = outcome.story.join("\n");
        panic!("{} failures; seed {}: {}\n{story}", summary.failed.len(), first.seed, first.failure);
    }
    let excused: Vec<_> = NEVER.iter().map(|(name, _)| *name).collect();
    let missing: Vec<_> = summary.covered.missing().filter(|name| !excused.contains(name)).collect();
    assert!(missing.is_empty(), "never taken, and nobody says why: {missing:#?}");
    for (place, (name, _)) in TRANSITIONS.iter().enumerate() {
        assert!(!(summary.covered.has(place) && excused.contains(name)), "`{name}` is taken after all");
    }
    // What cannot be known is the exception.
    assert!(summary.excused * 100 < SCHEDULES, "{} of {SCHEDULES} are excused", summary.excused);
}

/// What failed once does not fail again.
#[test]
fn the_corpus_holds() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus/schedules.jsonl");
    let kept = corpus::read(&fs::read_to_string(path).unwrap()).unwrap();
    assert!(!kept.is_empty());
    for schedule in kept {
        let outcome = run(&schedule.plan, true);
        if let Some(failure) = outcome.failure {
            panic!("{}: {failure}\n{}", schedule.name, outcome.story.join("\n"));
        }
    }
}

/// The same schedule is the same story.
#[test]
fn a_schedule_runs_the_same_way_twice() {
    for seed in 0..50 {
        let plan = generate::plan(seed);
        let (first, second) = (run(&plan, true), run(&plan, true));
        assert_eq!(first.story, second.story, "seed {seed}");
        assert_eq!(first.facts, run(&plan, false).facts, "seed {seed}: telling changes nothing");
    }
}

/// Each transition has a name of its own, and what is excused is in the table.
#[test]
fn the_table_of_transitions_is_sound() {
    let mut names: Vec<_> = TRANSITIONS.iter().map(|(name, _)| *name).collect();
    names.sort_unstable();
    let all = names.len();
    names.dedup();
    assert_eq!(names.len(), all);
    assert!(all <= 128, "more than a set can hold");
    assert!(NEVER.iter().all(|(name, reason)| names.contains(name) && !reason.is_empty()));
}
