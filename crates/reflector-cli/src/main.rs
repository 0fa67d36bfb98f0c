//! The command `reflector`: follow a Kubernetes collection through every fault, and see it demonstrated.

mod apiserver;
mod args;
mod connect;
mod counters;
mod demo;
mod discovery;
mod error;
mod format;
mod memory;
mod output;
mod resolve;
mod signals;
mod watch;

use std::process::ExitCode;

use clap::{CommandFactory, Parser};
use tracing_subscriber::EnvFilter;

use crate::{
    args::{Cli, Command},
    error::Error,
};

fn main() -> ExitCode {
    let cli = Cli::parse();
    output::set_color(cli.color);
    log_to_stderr(cli.verbose);
    match run(cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            output::error(&error);
            error.exit_code()
        }
    }
}

fn run(cli: Cli) -> Result<(), Error> {
    let verbose = cli.verbose;
    match cli.command {
        Command::Demo(args) => block_on(demo::run(args.try_into()?)),
        Command::Watch(args) => block_on(watch::run(args.try_into()?)),
        Command::Apiserver(args) => block_on(apiserver::run(apiserver::Options::new(args, verbose)?)),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "reflector", &mut script);
            output::print(&script)
        }
    }
}

fn block_on(work: impl Future<Output = Result<(), Error>>) -> Result<(), Error> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Error::failed(format!("cannot start: {error}")))?;
    let result = runtime.block_on(work);
    // A thread that is blocked on a terminal must not keep the command from ending.
    runtime.shutdown_background();
    result
}

/// `RUST_LOG` wins over `-v`. Without either nothing is logged: what people have to know is printed.
fn log_to_stderr(verbose: u8) {
    let default = match verbose {
        0 => "off",
        1 => "reflector=info",
        2 => "reflector=debug,reflector_apiserver=debug",
        _ => "trace",
    };
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(default));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(output::stderr_has_color())
        .init();
}
