//! Measurements, side by side with the peers in one run. What counts is the ratio: the times are those of the machine.
#![allow(clippy::print_stdout, reason = "it is a command")]

mod fanout;
mod pods;
mod reads;
mod table;
mod timing;

use clap::{Parser, Subcommand};

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
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    match Args::parse().what {
        What::Store { objects } => {
            for count in objects {
                let pods = pods::pods(count);
                let mut rows = reads::measure(&pods)?;
                rows.extend(fanout::measure(&pods)?);
                println!("{count} pods\n\n{}", table::Table(&rows));
            }
        }
    }
    Ok(())
}
