//! From nothing to a synced copy and on, beside kube-runtime: time and memory of whole processes.

mod client;
mod report;
mod serve;

use std::{fs, path::PathBuf, time::Instant};

use clap::Args;
pub(crate) use client::Who;

use crate::{
    Failure,
    decode::{self, Rates},
    process::{Process, one_thread},
    usage::Usage,
};

use self::report::{Bar, Row};

/// What is measured and where the results go.
#[derive(Args)]
pub(crate) struct Options {
    /// How many pods.
    #[arg(long, default_value_t = 20_000)]
    pods: usize,
    /// How many watch events.
    #[arg(long, default_value_t = 20_000)]
    events: usize,
    /// How often; medians are shown.
    #[arg(long, default_value_t = 3)]
    runs: usize,
    /// Also the steady memory with packed bodies and one index at these numbers of pods.
    #[arg(long, value_delimiter = ',')]
    scale: Vec<usize>,
    /// The same as `--scale 10000,100000,1000000`, and the row about a million pods.
    #[arg(long)]
    million: bool,
    /// 300 pods, once: to see that it runs.
    #[arg(long)]
    smoke: bool,
    /// Only rows whose name contains this are reported.
    #[arg(long)]
    only: Option<String>,
    /// The folder of `report.json` and `sync.svg`.
    #[arg(long, default_value = "target/bench")]
    out: PathBuf,
    /// Write the picture here too.
    #[arg(long)]
    picture: Option<PathBuf>,
}

/// One client's life.
#[derive(Debug, Clone, Copy, Default)]
struct Life {
    base: Usage,
    wall: f64,
    synced: Usage,
    steady: Usage,
    watched: (Usage, Usage),
    relisted: (Usage, Usage),
}

impl Life {
    fn sync_cpu(&self) -> f64 {
        (self.synced.cpu.saturating_sub(self.base.cpu)).as_secs_f64() * 1e3
    }

    fn event_rate(&self, events: usize) -> f64 {
        events as f64 / self.watched.1.cpu.saturating_sub(self.watched.0.cpu).as_secs_f64()
    }
}

/// How often memory is asked for per watch event.
fn allocations(life: &Life, events: usize) -> f64 {
    life.watched.1.allocations.saturating_sub(life.watched.0.allocations) as f64 / events.max(1) as f64
}

/// The server's process.
pub(crate) fn serve(pods: usize) -> Result<(), Failure> {
    one_thread()?.block_on(serve::run(pods))
}

/// The client's process.
pub(crate) fn client(who: Who, url: &str) -> Result<(), Failure> {
    one_thread()?.block_on(client::run(who, url))
}

/// Measures everything and writes the results.
pub(crate) fn measure(mut options: Options) -> Result<(), Failure> {
    if options.smoke {
        (options.pods, options.events, options.runs) = (300, 300, 1);
    }
    let everybody = [Who::Json, Who::Wire, Who::Packed, Who::Kube, Who::KubeStreaming, Who::Floor];
    if options.million {
        options.scale = vec![10_000, 100_000, MILLION];
    }
    let mut lives: Vec<Vec<Life>> = vec![Vec::new(); everybody.len()];
    for run in 0..options.runs.max(1) {
        for n in 0..everybody.len() {
            // Who comes first changes from run to run.
            let n = (n + run) % everybody.len();
            if let (Some(who), Some(lives)) = (everybody.get(n), lives.get_mut(n)) {
                lives.push(live(*who, options.pods, options.events)?);
            }
        }
    }
    let mut million = None;
    for pods in &options.scale {
        let life = live(Who::Indexed, *pods, 0)?;
        let grown = life.steady.rss.saturating_sub(life.base.rss);
        println!(
            "{pods} pods, packed, one index: {} MiB above the base, {:.2} KiB each, synced in {:.1} s",
            grown / 1024,
            grown as f64 / *pods as f64,
            life.wall / 1e3
        );
        if *pods == MILLION {
            million = Some(mib(life.steady.rss));
        }
    }
    let [json, wire, packed, kube, streaming, floor] = &lives[..] else {
        return Err("six were measured".into());
    };
    let lives = Lives { json, wire, packed, kube, streaming, floor };
    let mut rows = rows(&lives, &decode::measure()?, million, options.events);
    if let Some(only) = &options.only {
        rows.retain(|row| row.name.contains(only.as_str()));
    }
    println!(
        "\n{} pods, {} events, {} runs\n\n{}",
        options.pods,
        options.events,
        options.runs,
        report::table(&rows)
    );
    fs::create_dir_all(&options.out)?;
    fs::write(options.out.join("report.json"), format!("{:#}\n", report::json(&rows)))?;
    let picture = report::picture(&rows);
    fs::write(options.out.join("sync.svg"), &picture)?;
    if let Some(path) = options.picture {
        fs::write(path, picture)?;
    }
    Ok(())
}

/// A server and a client of their own, from the start to the end.
fn live(who: Who, pods: usize, events: usize) -> Result<Life, Failure> {
    let mut server = Process::start(&["serve", &pods.to_string()])?;
    let url = server.answer()?;
    let mut client = Process::start(&["client", who.argument(), &url])?;
    let base = client.answer()?.parse()?;
    let begin = Instant::now();
    let synced: Usage = client.ask("go")?.parse()?;
    let wall = begin.elapsed().as_secs_f64() * 1e3;
    if who != Who::Floor && synced.count != pods as u64 {
        return Err(format!("{} has {} of {pods} pods", who.argument(), synced.count).into());
    }
    let steady = client.ask("settle")?.parse()?;
    let mut life = Life { base, wall, synced, steady, ..Life::default() };
    if who == Who::Floor || events == 0 {
        return Ok(life);
    }
    let before = client.ask("settle")?.parse()?;
    let version = server.ask(&format!("burst {events}"))?;
    life.watched = (before, client.ask(&format!("until {version}"))?.parse()?);
    if life.watched.1.count < events as u64 {
        return Err(format!("{} saw {} of {events} events", who.argument(), life.watched.1.count).into());
    }
    client.ask("subscribe")?;
    let before = client.ask("settle")?.parse()?;
    server.ask("relist")?;
    life.relisted = (before, client.ask("relisted")?.parse()?);
    Ok(life)
}

fn median(lives: &[Life], value: impl Fn(&Life) -> f64) -> f64 {
    let mut values: Vec<f64> = lives.iter().map(value).collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}

fn mib(kib: u64) -> f64 {
    kib as f64 / 1024.0
}

const MILLION: usize = 1_000_000;

/// All runs of everybody.
struct Lives<'a> {
    json: &'a [Life],
    wire: &'a [Life],
    packed: &'a [Life],
    kube: &'a [Life],
    streaming: &'a [Life],
    floor: &'a [Life],
}

fn rows(lives: &Lives<'_>, rates: &Rates, million: Option<f64>, events: usize) -> Vec<Row> {
    let Lives { json, wire, packed, kube, streaming, floor } = lives;
    // The peer is measured both ways, and each row takes what is better for it.
    let least = |value: &dyn Fn(&Life) -> f64| median(kube, value).min(median(streaming, value));
    let less = |name, unit, ours: &[Life], value: &dyn Fn(&Life) -> f64, bar| Row {
        name,
        unit,
        ours: Some(median(ours, value)),
        peer: Some(least(value)),
        bar,
    };
    let alone = |name, unit, ours: f64, bar| Row { name, unit, ours: Some(ours), peer: None, bar };
    let rss = |life: &Life| mib(life.steady.rss);
    let peak = |life: &Life| mib(life.synced.peak);
    let relist = |life: &Life| mib(life.relisted.1.peak);
    let before = |lives: &[Life]| median(lives, |life| mib(life.relisted.0.rss));
    let rate = |life: &Life| life.event_rate(events);
    let most = median(kube, rate).max(median(streaming, rate));
    let more = |name, ours: &[Life], bar| Row {
        name,
        unit: "1/s",
        ours: Some(median(ours, rate)),
        peer: Some(most),
        bar,
    };
    let peak_bar = |lives: &[Life]| Bar::Limit(1.15 * median(lives, rss) + 16.0);
    let relist_bar = |lives: &[Life]| Bar::Limit(before(lives) + 16.0);
    vec![
        less("CPU until synced, wire form", "ms", wire, &Life::sync_cpu, Bar::Part(8.0)),
        less("CPU until synced, packed", "ms", packed, &Life::sync_cpu, Bar::None),
        less("CPU until synced, JSON", "ms", json, &Life::sync_cpu, Bar::Part(3.0)),
        less("steady memory, wire form", "MiB", wire, &rss, Bar::Part(8.0)),
        less("steady memory, packed", "MiB", packed, &rss, Bar::Part(60.0)),
        less("steady memory, JSON", "MiB", json, &rss, Bar::None),
        less("peak until synced, wire form", "MiB", wire, &peak, peak_bar(wire)),
        less("peak until synced, packed", "MiB", packed, &peak, peak_bar(packed)),
        less("peak of an unchanged relist, wire form", "MiB", wire, &relist, relist_bar(wire)),
        less("peak of an unchanged relist, packed", "MiB", packed, &relist, relist_bar(packed)),
        alone(
            "events of an unchanged relist",
            "events",
            [wire, packed, json].map(|lives| median(lives, |life| life.relisted.1.count as f64)).iter().sum(),
            Bar::Limit(0.0),
        ),
        more("watch events per CPU second, wire form", wire, Bar::Times(10.0)),
        more("watch events per CPU second, packed", packed, Bar::None),
        more("watch events per CPU second, JSON", json, Bar::None),
        less(
            "allocations per watch event, wire form",
            "",
            wire,
            &|life| allocations(life, events),
            Bar::None,
        ),
        less("allocations per watch event, packed", "", packed, &|life| allocations(life, events), Bar::None),
        Row {
            name: "full Pod from protobuf, trimmed",
            unit: "1/s",
            ours: Some(rates.protobuf),
            peer: Some(rates.json),
            bar: Bar::Times(2.0),
        },
        Row {
            name: "six fields from protobuf",
            unit: "1/s",
            ours: Some(rates.slim),
            peer: Some(rates.json),
            bar: Bar::Times(15.0),
        },
        Row {
            name: "1,000,000 pods, packed, one index",
            unit: "MiB",
            ours: million,
            peer: None,
            bar: Bar::Limit(1.2 * 1024.0),
        },
        less("base of the process", "MiB", wire, &|life| mib(life.base.rss), Bar::None),
        alone("floor: CPU of reading and dropping", "ms", median(floor, Life::sync_cpu), Bar::None),
        alone("floor: memory", "MiB", median(floor, rss), Bar::None),
    ]
}
