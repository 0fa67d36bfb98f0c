//! A soak: demonstration-like load with faults, in real time, for as long as you like. Memory, descriptors, tasks and lag
//! must stay flat, and the copies must equal the server in the end.

mod actors;
mod client;
mod copies;
mod equal;
mod judge;
mod picture;
mod probe;
mod report;
mod sample;
mod schedule;
mod serve;

use std::{
    fs,
    io::Write,
    path::PathBuf,
    thread,
    time::{Duration, Instant},
};

use clap::Args;
use jiff::SignedDuration;
use tokio::runtime::Builder;

use self::{
    judge::Timed,
    report::{Outcome, Settled},
    sample::Sample,
};
use crate::{
    Failure,
    process::{Process, one_thread},
};

const AFTER_HELP: &str = "\
A server and a client run as processes of their own. On the server pods change without end, in bunches too, and what goes \
wrong never ends either: refused requests, broken, cut and silent watches, expired versions, objects that nobody can read, \
restarts, and a port that is closed for a while. In the client there are four copies of all pods (kept as they came, packed \
with an index, decoded from JSON, and that of an informer), and one of a changing set of namespaces; reflectors, \
subscribers, handlers and indexes come and go around them.

In the end load and faults stop, every copy is compared with the server object by object, and all of the client is stopped, \
after which no task and no descriptor may be left. The second quarter of the run is compared with the last one, with bounds \
that the table at the end shows; runs of less than five minutes are not judged. The exit code is 0 only if everything was \
flat, equal, and gone.";

/// How long, and how much.
#[derive(Args)]
#[command(after_long_help = AFTER_HELP)]
pub(crate) struct Options {
    /// How long load and faults go on: `30m`, `8h`.
    #[arg(long, default_value = "30m", value_name = "TIME", value_parser = duration)]
    duration: Duration,
    /// Where all chance comes from: data, changes, faults, and who comes and goes.
    #[arg(long, default_value_t = 0, value_name = "N")]
    seed: u64,
    /// How many pods there are; about as many stay.
    #[arg(long, default_value_t = 1_000, value_name = "N")]
    objects: usize,
    /// Changes per second.
    #[arg(long, default_value_t = 200.0, value_name = "N")]
    rate: f64,
    /// How often everything is measured.
    #[arg(long, default_value = "2s", value_name = "TIME", value_parser = duration)]
    interval: Duration,
    /// The folder of `soak.json`, of `soak.csv`, which has every number of every moment, and of `soak.svg`.
    #[arg(long, default_value = "target/bench", value_name = "DIR")]
    out: PathBuf,
    /// Write the picture here too.
    #[arg(long, value_name = "FILE")]
    picture: Option<PathBuf>,
}

/// glibc keeps what is freed, in each of its arenas as much as once was in use there, and threads come and go between them:
/// with the default of eight per core, resident memory goes up in steps for hours while no more is in use.
const ARENAS: [(&str, &str); 1] = [("MALLOC_ARENA_MAX", "2")];

/// A line is printed so often.
const TELL_EVERY: Duration = Duration::from_secs(30);

fn duration(text: &str) -> Result<Duration, String> {
    let duration = text.parse::<SignedDuration>().ok().and_then(|duration| Duration::try_from(duration).ok());
    duration
        .filter(|duration| !duration.is_zero())
        .ok_or_else(|| format!("`{text}` is no time like 30m or 10s"))
}

/// The server's process.
pub(crate) fn serve(objects: usize, rate: f64, seed: u64) -> Result<(), Failure> {
    one_thread()?.block_on(serve::run(objects, rate, seed))
}

/// The client's process. Unlike measurements of speed, it has more than one thread: races are to happen.
pub(crate) fn client(url: &str, seed: u64) -> Result<(), Failure> {
    Builder::new_multi_thread().worker_threads(2).enable_all().build()?.block_on(client::run(url, seed))
}

/// Runs, records and judges.
pub(crate) fn measure(options: &Options) -> Result<(), Failure> {
    let Options { objects, rate, seed, .. } = options;
    let seed = seed.to_string();
    let mut server = Process::start(&["soak-server", &objects.to_string(), &rate.to_string(), &seed])?;
    let url = server.answer()?;
    let mut client = Process::start_with(&["soak-client", &url, &seed], &ARENAS)?;
    client.answer()?;

    let samples = record(options, &mut server, &mut client)?;
    let calm: Sample = server.ask("calm")?.parse()?;
    println!(
        "load and faults have stopped after {} writes and {} faults",
        calm.get("writes"),
        calm.get("faults")
    );
    let settled = settle(&mut client)?;
    let left: Sample = client.ask("end")?.parse()?;
    println!("left of the client: {left}");

    let picture = picture::draw(&samples);
    fs::write(options.out.join("soak.svg"), &picture)?;
    if let Some(path) = &options.picture {
        fs::write(path, picture)?;
    }
    let verdicts = judge::judge(&samples);
    let last = samples.last().map(|(_, sample)| sample.clone()).unwrap_or_default();
    let outcome = Outcome { calm, last, settled, left, verdicts };
    fs::write(options.out.join("soak.json"), format!("{:#}\n", outcome.json(options)))?;
    outcome.tell()
}

/// Takes a sample at each interval and writes it down at once: a run of hours may end early. Prints some of them.
fn record(options: &Options, server: &mut Process, client: &mut Process) -> Result<Vec<Timed>, Failure> {
    fs::create_dir_all(&options.out)?;
    let mut file = fs::File::create(options.out.join("soak.csv"))?;
    let (begin, mut samples, mut tell_at) = (Instant::now(), Vec::<Timed>::new(), Duration::ZERO);
    while begin.elapsed() < options.duration {
        thread::sleep(options.interval.min(options.duration.saturating_sub(begin.elapsed())));
        let mut sample: Sample = client.ask("sample")?.parse()?;
        sample.append("server_", server.ask("sample")?.parse()?);
        let at = begin.elapsed();
        if samples.is_empty() {
            let names: Vec<_> = sample.names().collect();
            writeln!(file, "seconds,{}", names.join(","))?;
        }
        let values: Vec<_> = sample.values().map(|value| format!("{value:.3}")).collect();
        writeln!(file, "{:.3},{}", at.as_secs_f64(), values.join(","))?;
        if at >= tell_at {
            println!("{}", line(at, &sample));
            tell_at = at + TELL_EVERY;
        }
        samples.push((at, sample));
    }
    Ok(samples)
}

fn line(at: Duration, sample: &Sample) -> String {
    format!(
        "{:>6.0} s  {:.0} MiB ({:.1} in use), {} fds, {} threads, {} tasks; lag {:.0} ms, stale {:.0} ms; \
         {} events, {} relists, {} errors, {} came and went; server {:.0} MiB, {} writes, {} requests, {} faults",
        at.as_secs_f64(),
        sample.get("client_rss_mib"),
        sample.get("client_heap_mib"),
        sample.get("client_fds"),
        sample.get("client_threads"),
        sample.get("client_tasks"),
        sample.worst("lag_ms_"),
        sample.worst("stale_ms_"),
        sample.get("events"),
        sample.get("relists"),
        sample.get("errors"),
        sample.get("lives"),
        sample.get("server_rss_mib"),
        sample.get("server_writes"),
        sample.get("server_requests"),
        sample.get("server_faults"),
    )
}

/// Waits until the copies are equal, for as long as the client has patience.
fn settle(client: &mut Process) -> Result<Settled, Failure> {
    let mut differences = Vec::new();
    let mut line = client.ask("settle")?;
    loop {
        if let Ok(seconds) = line.parse::<f64>() {
            println!("compared for {seconds:.1} s: {} differences", differences.len());
            return Ok(Settled { seconds, differences });
        }
        println!("{line}");
        differences.push(line);
        line = client.answer()?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read() {
        assert_eq!(duration("30m"), Ok(Duration::from_secs(1800)));
        assert!(duration("0s").is_err() && duration("soon").is_err() && duration("-3s").is_err());
    }
}
