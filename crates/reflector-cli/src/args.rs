//! What can be typed. What it means is worked out by each command's `Options`.

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use clap::{Args, Parser, Subcommand, ValueEnum, builder::Styles};
use clap_complete::Shell;

use crate::format::parse_duration;

const AFTER_HELP: &str = "\
Exit codes:
  0  done; also when ended by Ctrl-C or SIGTERM, and when the reader of a pipe has gone
  1  it failed, or cannot go on
  2  what was typed makes no sense

Environment:
  KUBECONFIG  the kubeconfig files, as for kubectl
  NO_COLOR    no colours, as `--color never`
  RUST_LOG    what is logged to stderr, instead of -v: `reflector=debug`";

const DEMO_HELP: &str = "\
The demonstration is the real thing: an API server on a loopback port, and a reflector that speaks HTTP to it. Only the \
patience of the reflector is shorter than its defaults, so that much happens within seconds: a watch is asked to last \
a few seconds (more in large clusters) instead of 5 to 10 min, waits after failures begin with 0.1 s instead of 0.8 s and \
end with 1 s instead of 30 s, and a silent connection is given up after 5 s instead of 90 s.

At the end changes and faults stop, and once all is quiet the copy is compared with the server's own objects, one by \
one: key, uid, version and content. The exit code is 0 only if they are equal.";

const WATCH_HELP: &str = "\
RESOURCE is a plural, a singular, a short name or a kind, alone or with its group, or with version and group: pods, po, \
Pod, deploy, deployments.apps, deployments.v1.apps.

Changes are printed to stdout as they happen. What becomes of the connection is told on stderr, one line per change: \
stale since when, relisting and why, absent, forbidden. After the first list nothing ends the watch but Ctrl-C: it \
retries, resumes and relists, and prints what changed meanwhile.

A slow reader never holds up the watch: when it falls behind, the changes of each object are merged.";

const APISERVER_HELP: &str = "\
Faults are a profile (none, some, storm), or texts of the form VERBS[:RESOURCE[:NAMESPACE]]:SETTING[,SETTING...]:

  --faults watch:pods:status=429,retry-after=2,times=3
  --faults list:reset,every=2
  --faults 'watch:error=410@5events'

With -v every fault that is injected is told on stderr.";

/// A local copy of a Kubernetes collection, true through every fault.
#[derive(Debug, Parser)]
#[command(name = "reflector", version, max_term_width = 100, styles = Styles::styled())]
#[command(after_long_help = AFTER_HELP, arg_required_else_help = true)]
pub(crate) struct Cli {
    /// Log to stderr: -v what happens, -vv each request.
    #[arg(short, long, action = clap::ArgAction::Count, global = true, help_heading = "Global options")]
    pub(crate) verbose: u8,
    /// When to use colours.
    #[arg(
        long,
        value_enum,
        default_value_t,
        value_name = "WHEN",
        global = true,
        help_heading = "Global options"
    )]
    pub(crate) color: When,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// When to use colours.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub(crate) enum When {
    /// On terminals, unless `NO_COLOR` is set.
    #[default]
    Auto,
    /// Also into files and pipes.
    Always,
    /// Never.
    Never,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Mirror a server that misbehaves, and prove at the end that the copy is right.
    Demo(Demo),
    /// Follow a resource like `kubectl get --watch`, through every fault.
    Watch(Watch),
    /// Run the embedded API server.
    Apiserver(Apiserver),
    /// Print a completion script for a shell.
    Completions {
        /// Which shell.
        shell: Shell,
    },
}

#[derive(Debug, Args)]
#[command(after_long_help = DEMO_HELP)]
pub(crate) struct Demo {
    /// How many pods there are at the start.
    #[arg(long, default_value_t = 1000, value_name = "N")]
    pub(crate) objects: usize,
    /// Changes per second.
    #[arg(long, default_value_t = 200.0, value_name = "N", value_parser = rate)]
    pub(crate) rate: f64,
    /// How long changes and faults go on.
    #[arg(long, default_value = "10s", value_name = "TIME", value_parser = parse_duration)]
    pub(crate) duration: Duration,
    /// How much goes wrong.
    #[arg(long, value_enum, default_value_t, value_name = "PROFILE")]
    pub(crate) faults: Faults,
    /// In which form the copy keeps its objects.
    #[arg(long, value_enum, default_value_t, value_name = "FORM")]
    pub(crate) body: Body,
    /// Where all chance comes from: data, changes and faults. Drawn, and shown, if not given.
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
    /// How long to wait for quiet at the end.
    #[arg(long, default_value = "60s", value_name = "TIME", value_parser = parse_duration)]
    pub(crate) settle: Duration,
    /// How the result is told; with json the last line on stdout is one JSON object.
    #[arg(short, long, value_enum, default_value_t, value_name = "FORMAT")]
    pub(crate) output: DemoOutput,
}

/// In which form a copy keeps its objects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Body {
    /// Compressed with a dictionary learned from the collection itself.
    #[default]
    Packed,
    /// The bytes as they came.
    Wire,
    /// Nothing but the decoded pods.
    Decoded,
}

/// How much goes wrong.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub(crate) enum Faults {
    /// Nothing.
    None,
    /// One request in ten.
    #[default]
    Some,
    /// Four requests in five, with restarts and lost history.
    Storm,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum DemoOutput {
    #[default]
    Text,
    Json,
}

#[derive(Debug, Args)]
#[command(after_long_help = WATCH_HELP)]
pub(crate) struct Watch {
    /// What to follow: `pods`, `deploy`, `gadgets.example.com`.
    #[arg(value_name = "RESOURCE[.GROUP]")]
    pub(crate) resource: String,
    /// Only this namespace; by default that of the kubeconfig's context.
    #[arg(short, long, value_name = "NAMESPACE", conflicts_with = "all_namespaces")]
    pub(crate) namespace: Option<String>,
    /// All namespaces.
    #[arg(short = 'A', long)]
    pub(crate) all_namespaces: bool,
    /// Only objects with these labels: `app=web,tier in (a,b)`.
    #[arg(short = 'l', long, value_name = "SELECTOR")]
    pub(crate) selector: Option<String>,
    /// Only objects with these fields: `spec.nodeName=node-1`.
    #[arg(long, value_name = "SELECTOR")]
    pub(crate) field_selector: Option<String>,
    /// How to print objects. The content of Secrets is shown with json and yaml only.
    #[arg(short, long, value_enum, value_name = "FORMAT")]
    pub(crate) output: Option<WatchOutput>,
    /// Print the list once it is complete, and end.
    #[arg(long)]
    pub(crate) once: bool,
    /// Ask the server for nothing but metadata: names, labels, owners.
    #[arg(long)]
    pub(crate) metadata_only: bool,
    #[command(flatten)]
    pub(crate) cluster: Cluster,
}

/// Which cluster.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Cluster")]
pub(crate) struct Cluster {
    /// The address of the API server; with it no kubeconfig is needed.
    #[arg(long, value_name = "URL")]
    pub(crate) server: Option<String>,
    /// The context of the kubeconfig; by default its current one.
    #[arg(long, value_name = "CONTEXT")]
    pub(crate) context: Option<String>,
    /// The kubeconfig file; by default $KUBECONFIG, or ~/.kube/config.
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum WatchOutput {
    /// A table with more columns.
    Wide,
    /// Resource and name.
    Name,
    /// One line of JSON per change, or one List with --once.
    Json,
    /// One YAML document per change, or one List with --once.
    Yaml,
}

#[derive(Debug, Args)]
#[command(after_long_help = APISERVER_HELP)]
pub(crate) struct Apiserver {
    /// Where to listen; port 0 takes a free one.
    #[arg(long, default_value = "127.0.0.1:0", value_name = "ADDRESS")]
    pub(crate) listen: SocketAddr,
    /// How many pods there are at the start.
    #[arg(long, default_value_t = 0, value_name = "N")]
    pub(crate) objects: usize,
    /// Changes of pods per second.
    #[arg(long, default_value_t = 0.0, value_name = "N", value_parser = rate)]
    pub(crate) rate: f64,
    /// A fault or a profile of faults; may be repeated.
    #[arg(long, value_name = "SPEC")]
    pub(crate) faults: Vec<String>,
    /// Where all chance comes from.
    #[arg(long, default_value_t = 0, value_name = "N")]
    pub(crate) seed: u64,
    /// Write a kubeconfig to this file.
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig_out: Option<PathBuf>,
}

fn rate(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(rate) if rate.is_finite() && (0.0..=1_000_000.0).contains(&rate) => Ok(rate),
        _ => Err("expected a number from 0 to 1000000".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_definition_holds_together() {
        Cli::command().debug_assert();
    }

    #[test]
    fn rates_are_numbers_that_make_sense() {
        assert_eq!(rate("2.5"), Ok(2.5));
        for text in ["-1", "NaN", "inf", "many", ""] {
            assert!(rate(text).is_err(), "{text}");
        }
    }
}
