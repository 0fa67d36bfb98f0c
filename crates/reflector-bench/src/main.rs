//! Measurements, side by side with the peers in one run. What counts is the ratio: the times are those of the machine.
#![allow(clippy::print_stdout, reason = "it is a command")]

mod decode;
mod fanout;
mod pods;
mod process;
mod reads;
mod soak;
mod survive;
mod svg;
mod sync;
mod table;
mod timing;
mod usage;

use std::alloc::System;

use clap::{Parser, Subcommand};
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

/// The allocator of the system, which counts how often it is asked. That costs everybody some nanoseconds each time.
#[global_allocator]
static HEAP: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// What a measurement fails with: it is told and nothing else.
type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Measures reflector beside its peers.
#[derive(Parser)]
struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Reads and subscriptions, beside kube-runtime's `Store` and a plain `HashMap`.
    Store {
        /// How many objects, several counts after each other.
        #[arg(long, value_delimiter = ',', default_values_t = [1_000, 100_000])]
        objects: Vec<usize>,
    },
    /// Decoding one pod: all of it and six fields, from JSON and from protobuf.
    Decode,
    /// From nothing to a synced copy, watch events and a relist, beside kube-runtime: whole processes.
    Sync(sync::Options),
    /// Everything that goes wrong, beside kube-runtime: who has what the server has after it.
    Survive(survive::Options),
    /// The server of a measurement.
    #[command(hide = true)]
    Serve { pods: usize },
    /// The client of a measurement.
    #[command(hide = true)]
    Client { who: sync::Who, url: String },
    /// Load and faults for as long as you like: what must stay flat, and the copies right.
    Soak(soak::Options),
    /// The server of a soak.
    #[command(hide = true)]
    SoakServer { objects: usize, rate: f64, seed: u64 },
    /// The client of a soak.
    #[command(hide = true)]
    SoakClient { url: String, seed: u64 },
}

fn main() -> Result<(), Failure> {
    match Args::parse().what {
        What::Store { objects } => {
            for count in objects {
                let pods = pods::pods(count);
                let mut rows = reads::measure(&pods).map_err(|error| error.to_string())?;
                rows.extend(fanout::measure(&pods).map_err(|error| error.to_string())?);
                println!("{count} pods\n\n{}", table::Table(&rows));
            }
        }
        What::Decode => println!("{}", decode::measure()?),
        What::Sync(options) => sync::measure(options)?,
        What::Survive(options) => survive::measure(&options)?,
        What::Serve { pods } => sync::serve(pods)?,
        What::Client { who, url } => sync::client(who, &url)?,
        What::Soak(options) => soak::measure(&options)?,
        What::SoakServer { objects, rate, seed } => soak::serve(objects, rate, seed)?,
        What::SoakClient { url, seed } => soak::client(&url, seed)?,
    }
    Ok(())
}
