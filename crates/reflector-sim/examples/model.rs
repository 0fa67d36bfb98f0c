//! Walks through the larger scopes of the model checker and prints what it found.
#![allow(clippy::print_stdout, reason = "it is a command")]

use std::{process::ExitCode, time::Instant};

use reflector_sim::model::{Limits, Scope, explore};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let small = arguments.iter().any(|argument| argument == "--small");
    let wanted: Vec<_> = arguments.iter().filter(|argument| !argument.starts_with("--")).collect();
    let scopes = if small { Scope::small() } else { Scope::large() };
    let limits = Limits { states: 20_000_000, compare_every: 50 };
    println!("| scope | states | transitions | depth | good | recovery | in | burst | compared | seconds |");
    println!("|---|---|---|---|---|---|---|---|---|---|");
    for scope in
        scopes.iter().filter(|scope| wanted.is_empty() || wanted.iter().any(|name| *name == scope.name))
    {
        let started = Instant::now();
        match explore(scope, limits) {
            Ok(report) => println!(
                "| {} | {}{} | {} | {} | {} | {} | {:?} | {} | {} | {:.1} |",
                scope.name,
                report.states,
                if report.complete { "" } else { " (not all)" },
                report.transitions,
                report.depth,
                report.good,
                report.recovery,
                report.recovery_time,
                report.burst,
                report.compared,
                started.elapsed().as_secs_f64()
            ),
            Err(story) => {
                println!("{story}");
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::SUCCESS
}
