//! The demonstration while it runs: a few lines that are redrawn on a terminal, or a line per second.

use std::{
    cell::Cell,
    fmt::Write,
    time::{Duration, Instant},
};

use k8s_openapi::api::core::v1::Pod;
use reflector::{Reflector, protocol::Phase};
use reflector_apiserver::RunningCluster;

use super::{Options, report::reasons};
use crate::{
    counters::Counters,
    format::{bytes, seconds},
    memory::Memory,
    output::{self, BOLD, DIM, GREEN, YELLOW},
};

/// Where the numbers come from.
pub(super) struct Numbers<'a> {
    pub(super) reflector: &'a Reflector<Pod>,
    pub(super) cluster: &'a RunningCluster,
    pub(super) counters: &'a Counters,
    /// Changes that the server has taken.
    pub(super) changes: &'a Cell<u64>,
}

/// What the demonstration is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    Preparing,
    Running,
    Settling,
    Comparing,
}

/// Shows it on stderr.
pub(super) struct View {
    redraw: bool,
    stage: Stage,
    /// When the stage began, and how long it is meant to take.
    began: Instant,
    length: Duration,
    /// Lines on the screen that the next drawing replaces.
    lines: usize,
    /// When the events were counted last, and how many there were.
    counted: (Instant, u64),
    rate: f64,
}

const REDRAW: Duration = Duration::from_millis(100);
/// The width of the names.
const NAME: usize = 9;
const LINE: Duration = Duration::from_secs(1);

impl View {
    pub(super) fn new() -> Self {
        let now = Instant::now();
        Self {
            redraw: output::stderr_is_terminal(),
            stage: Stage::Preparing,
            began: now,
            length: Duration::ZERO,
            lines: 0,
            counted: (now, 0),
            rate: 0.0,
        }
    }

    /// A new stage begins.
    pub(super) fn stage(&mut self, stage: Stage, options: &Options) {
        self.stage = stage;
        self.began = Instant::now();
        self.length = match stage {
            Stage::Running => options.duration,
            Stage::Settling => options.settle,
            Stage::Preparing | Stage::Comparing => Duration::ZERO,
        };
        let line = match stage {
            Stage::Preparing => {
                format!("making up a cluster of {} pods, seed {}", options.objects, options.seed)
            }
            Stage::Running => format!(
                "{} changes per second and faults ({}) for {}",
                options.rate,
                options.profile,
                seconds(options.duration)
            ),
            Stage::Settling => "changes and faults have ended; waiting until all is quiet".to_owned(),
            Stage::Comparing => "comparing the copy with the server, object by object".to_owned(),
        };
        self.clear();
        output::note(&format!("{DIM}{line}{DIM:#}"));
    }

    /// Shows the numbers for as long as the work takes.
    pub(super) async fn watch(&mut self, numbers: &Numbers<'_>, work: impl Future<Output = ()>) {
        let mut ticks = tokio::time::interval(if self.redraw { REDRAW } else { LINE });
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        // The first tick comes at once, when there is nothing to see.
        ticks.tick().await;
        tokio::pin!(work);
        loop {
            tokio::select! {
                () = &mut work => break,
                _ = ticks.tick() => self.show(numbers),
            }
        }
        self.clear();
    }

    /// Takes what is drawn off the screen.
    pub(super) fn end(&mut self) {
        self.clear();
    }

    fn clear(&mut self) {
        if self.lines > 0 {
            output::draw(&up(self.lines));
            self.lines = 0;
        }
    }

    fn show(&mut self, numbers: &Numbers<'_>) {
        self.count(numbers.reflector.status().counts.events);
        if !self.redraw {
            return output::note(&self.line(numbers));
        }
        let text = self.drawing(numbers);
        let back = if self.lines > 0 { up(self.lines) } else { String::new() };
        output::draw(&format!("{back}{text}"));
        self.lines = text.lines().count();
    }

    fn count(&mut self, events: u64) {
        let (then, before) = self.counted;
        let passed = then.elapsed();
        // A rate over less than this jumps about.
        if passed >= Duration::from_millis(950) {
            #[expect(clippy::cast_precision_loss, reason = "it is shown without decimals")]
            let more = events.saturating_sub(before) as f64;
            self.rate = more / passed.as_secs_f64();
            self.counted = (Instant::now(), events);
        }
    }

    fn line(&self, numbers: &Numbers<'_>) -> String {
        let status = numbers.reflector.status();
        format!(
            "{:>5.1}s {:<17} {} objects, {:.0} events/s, {}, {} relists, {} requests, {} faults{}",
            self.began.elapsed().as_secs_f64(),
            short(&status.phase),
            numbers.reflector.cache().len(),
            self.rate,
            lag(numbers),
            status.counts.relists,
            status.counts.lists + status.counts.watches,
            faults(numbers),
            Memory::now().resident.map(|memory| format!(", {}", bytes(memory))).unwrap_or_default(),
        )
    }

    fn drawing(&self, numbers: &Numbers<'_>) -> String {
        let status = numbers.reflector.status();
        let live = matches!(status.phase, Phase::Watching);
        let color = if live { GREEN } else { YELLOW };
        let relists = numbers.counters.by("reflector_relists_total", "reason").into_iter().collect();
        let injected = numbers.cluster.server().with_faults(|faults| faults.injected().clone());
        let injected = injected.into_iter().map(|(kind, count)| (kind.to_owned(), count)).collect();
        let memory = Memory::now().resident.map_or_else(|| "unknown".to_owned(), bytes);
        let width = output::stderr_width().saturating_sub(NAME + 1).max(20);
        let mut text = String::new();
        let mut line = |name: &str, what: String| {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "{BOLD}{name:<NAME$}{BOLD:#}{}", cut(&what, width));
        };
        line("time", self.progress());
        line("state", format!("{color}{}{color:#}", status.phase));
        line("objects", format!("{}, {}", numbers.reflector.cache().len(), lag(numbers)));
        line("events", format!("{} ({:.0}/s)", status.counts.events, self.rate));
        line("requests", format!("{} lists, {} watches", status.counts.lists, status.counts.watches));
        line("relists", format!("{}{}", status.counts.relists, reasons(&relists)));
        line("faults", format!("{}{}", faults(numbers), reasons(&injected)));
        line("memory", format!("{memory} with the server"));
        text
    }

    /// `[########------------] 4.1 s of 10 s`
    fn progress(&self) -> String {
        const WIDTH: usize = 30;
        let (elapsed, length) = (self.began.elapsed(), self.length.max(Duration::from_millis(1)));
        let share = (elapsed.as_secs_f64() / length.as_secs_f64()).min(1.0);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "between 0 and the width"
        )]
        #[expect(clippy::cast_precision_loss, reason = "the width is small")]
        let done = (share * WIDTH as f64) as usize;
        let bar = format!("{}{}", "#".repeat(done), "-".repeat(WIDTH - done));
        format!(
            "[{bar}] {} of {}{}",
            seconds(elapsed),
            seconds(length),
            if self.stage == Stage::Settling { " at the most" } else { "" }
        )
    }
}

/// The cursor to the beginning of the line so many lines above, and the screen below it blank.
fn up(lines: usize) -> String {
    format!("\x1b[{lines}F\x1b[J")
}

/// At most so many characters: a line that wraps cannot be redrawn.
fn cut(text: &str, longest: usize) -> String {
    if text.chars().count() <= longest {
        return text.to_owned();
    }
    let cut: String = text.chars().take(longest - 1).collect();
    format!("{cut}…")
}

fn short(phase: &Phase) -> &'static str {
    match phase {
        Phase::Watching => "watching",
        Phase::Syncing { .. } => "listing",
        Phase::Waiting { .. } => "waiting to retry",
        Phase::Connecting => "connecting",
        _ => "elsewhere",
    }
}

fn faults(numbers: &Numbers<'_>) -> u64 {
    numbers.cluster.server().with_faults(|faults| faults.injected().values().sum())
}

/// How far the copy is behind, in versions, and in time if it is long.
fn lag(numbers: &Numbers<'_>) -> String {
    let revision = numbers.cluster.server().with_core(|core| core.revision());
    let version =
        numbers.reflector.cache().version().and_then(|version| version.to_string().parse::<u64>().ok());
    let Some(version) = version else { return "nothing yet".to_owned() };
    let behind = revision.saturating_sub(version);
    match numbers.reflector.staleness() {
        Some(stale) if stale >= Duration::from_millis(500) => {
            format!("{behind} versions and {} behind", seconds(stale))
        }
        _ => format!("{behind} versions behind"),
    }
}
