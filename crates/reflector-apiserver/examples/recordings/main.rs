//! Asks the test server what a real one was asked, and compares the answers.
//!
//! `cargo run --release -p reflector-apiserver --example recordings -- FOLDER`, where the folder holds recorded exchanges of a
//! kube-apiserver 1.36 (`index.json` and the bodies). For each case a server is started, given the objects that the recorded
//! one had at that time, asked over HTTP, and given the writes that happened while the recorded watch ran. Status, headers and
//! bodies must be equal; versions, uids, times and managed fields are normalised. Each difference is printed, and as the last
//! line `{"agree": N, "of": M}`.
//!
//! `-- FOLDER NAME...` replays only these cases, and `-v` in front of the names prints the bodies; `-q` leaves out
//! the slow ones.
#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a program for developers")]

mod case;
mod compare;
mod history;
#[path = "../../tests/support/http1.rs"]
mod http1;
mod ordered;
mod replay;

use std::{collections::BTreeMap, path::PathBuf, process::ExitCode, sync::Arc};

use tokio::{sync::Semaphore, task::JoinSet};

use self::{case::Case, replay::Replay};

/// Why a case is not replayed.
fn left_out(case: &Case) -> Option<&'static str> {
    let name = case.name.as_str();
    let starts = |prefixes: &[&str]| prefixes.iter().any(|prefix| name.starts_with(prefix));
    if starts(&["cbor-"]) || name.ends_with("-cbor") {
        Some("needs the gate CBORServingAndStorage (alpha, off)")
    } else if starts(&["shard-"]) {
        Some("needs the gate ShardedListAndWatch (alpha, off)")
    } else if starts(&["term-"]) {
        Some("the recorded server was being shut down, with flags for it")
    } else if starts(&["err-429-", "maxinflight-"]) {
        Some("overload protection (APF or max-in-flight with tiny limits) is for faults to play")
    } else if starts(&["etcd-"]) {
        Some("the recorded server's etcd was stopped or dead")
    } else if name == "watch-token-expiry" {
        Some("lasts 780 s")
    } else if name == "version" {
        Some("names the recorded build")
    } else {
        None
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let Some(folder) = arguments.next().map(PathBuf::from) else {
        println!("usage: recordings FOLDER [-v] [NAME...]");
        return ExitCode::FAILURE;
    };
    let mut wanted: Vec<String> = arguments.collect();
    let verbose = wanted.first().is_some_and(|first| first == "-v");
    let quick = wanted.first().is_some_and(|first| first == "-q");
    wanted.retain(|name| !name.starts_with('-'));
    let cases = match case::read(&folder) {
        Ok(cases) => cases,
        Err(error) => {
            println!("skipped: no recordings in {}: {error}", folder.display());
            return ExitCode::FAILURE;
        }
    };
    let replay = Arc::new(Replay::new(cases, &folder));
    let mut omitted: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    // Most cases wait for a clock; few need a processor.
    let places = Arc::new(Semaphore::new(8));
    let mut tasks = JoinSet::new();
    for index in 0..replay.cases.len() {
        let case = &replay.cases[index];
        let slow = (quick && case.elapsed > 10.0).then_some("slow, and -q was given");
        if let Some(reason) = left_out(case).or(slow) {
            omitted.entry(reason).or_default().push(&case.name);
        } else if wanted.is_empty() || wanted.contains(&case.name) {
            let (replay, places) = (Arc::clone(&replay), Arc::clone(&places));
            tasks.spawn(async move {
                let _place = places.acquire().await;
                (index, replay.run(index, verbose).await)
            });
        }
    }
    let mut results: Vec<(usize, Option<String>)> = tasks.join_all().await;
    results.sort_by_key(|(index, _)| *index);
    let mut agree = 0;
    for (index, difference) in &results {
        match difference {
            None => agree += 1,
            Some(difference) => println!("{}: {difference}", replay.cases[*index].name),
        }
    }
    for (reason, names) in omitted {
        println!("left out, {reason}: {}", names.join(" "));
    }
    println!("{{\"agree\": {agree}, \"of\": {}}}", results.len());
    ExitCode::SUCCESS
}
