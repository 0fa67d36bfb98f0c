//! Runs schedules, and tells the story of one that fails.

use std::{
    io::{self, Write},
    process::ExitCode,
    thread::available_parallelism,
    time::Instant,
};

use clap::Parser;
use reflector_sim::{
    Plan, Summary, generate, run, run_many, shrink,
    transitions::{NEVER, TRANSITIONS},
};
use serde_json::json;

/// Runs simulated clusters around a reflector, and checks that the copy stays true.
#[derive(Parser)]
struct Arguments {
    /// How many schedules.
    #[arg(long, default_value_t = 10_000)]
    schedules: u64,
    /// The seed of the first one; the others follow it.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// On how many threads; each schedule runs on one.
    #[arg(long)]
    threads: Option<usize>,
    /// Tell what happens in the schedule of this seed, as it is, and nothing else.
    #[arg(long)]
    story: Option<u64>,
}

fn main() -> io::Result<ExitCode> {
    let arguments = Arguments::parse();
    let mut out = io::stdout().lock();
    if let Some(seed) = arguments.story {
        let plan = generate::plan(seed);
        tell(&mut out, &plan)?;
        return Ok(ExitCode::SUCCESS);
    }
    let threads = arguments.threads.or_else(|| available_parallelism().ok().map(Into::into)).unwrap_or(1);
    let begin = Instant::now();
    let seeds = arguments.seed..arguments.seed.saturating_add(arguments.schedules);
    let summary = run_many(seeds, threads);
    let seconds = begin.elapsed().as_secs_f64();
    for failed in summary.failed.iter().take(20) {
        writeln!(out, "seed {}: {}", failed.seed, failed.failure)?;
    }
    if let Some(first) = summary.failed.first() {
        writeln!(out, "\nThe shortest form of the schedule of seed {}:\n", first.seed)?;
        tell(&mut out, &shrink(&generate::plan(first.seed)))?;
    }
    show(&mut out, &summary, seconds)?;
    Ok(if summary.failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The plan, its story, and how it ends.
fn tell(out: &mut impl Write, plan: &Plan) -> io::Result<()> {
    let outcome = run(plan, true);
    writeln!(out, "{}\n", serde_json::to_string(plan)?)?;
    for line in &outcome.story {
        writeln!(out, "{line}")?;
    }
    let end = outcome.failure.unwrap_or_else(|| "everything holds".to_owned());
    writeln!(out, "\n{end}\n")
}

#[expect(clippy::cast_precision_loss, reason = "a rate for people")]
fn show(out: &mut impl Write, summary: &Summary, seconds: f64) -> io::Result<()> {
    for name in summary.covered.missing() {
        let reason =
            NEVER.iter().find(|(never, _)| *never == name).map_or("not taken", |(_, reason)| *reason);
        writeln!(out, "transition `{name}`: {reason}")?;
    }
    writeln!(
        out,
        "{} facts; at most {} requests and {} failures in a minute; true again within {:.0} s after the last fault; {} copies could not \
         know of a restore",
        summary.facts,
        summary.requests_most,
        summary.failures_most,
        summary.caught_up_after.as_secs_f64(),
        summary.excused
    )?;
    let rate = summary.schedules as f64 / seconds.max(f64::EPSILON);
    let last = json!({
        "schedules": summary.schedules,
        "failures": summary.failed.len(),
        "per_second": rate.round(),
        "transitions_covered": summary.covered.count(),
        "transitions": TRANSITIONS.len(),
    });
    writeln!(out, "{last}")
}
