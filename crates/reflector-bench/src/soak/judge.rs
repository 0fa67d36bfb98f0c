//! Whether a soak was flat.
//!
//! The second quarter of it is compared with the last: of what is a level the median, of what is counted the growth. Only more
//! is bad. The first quarter is left out: there tables, dictionaries and the server's history come to their size.

use std::{fmt::Write as _, time::Duration};

use serde_json::{Value, json};

use super::sample::Sample;

/// Shorter runs are not judged: a quarter is too little for things to come to their size.
pub(super) const SHORTEST: Duration = Duration::from_secs(5 * 60);

/// What is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Of {
    Level,
    /// Per minute, of what is counted from the start.
    Growth,
}

/// What the last quarter may have more than the second: a share of that, and something on top.
struct Rule {
    /// The name of a number, or its beginning.
    of: &'static str,
    what: Of,
    percent: f64,
    slack: f64,
}

const fn rule(of: &'static str, what: Of, percent: f64, slack: f64) -> Rule {
    Rule { of, what, percent, slack }
}

/// The slack of what is counted one by one is what comes and goes by itself: a connection, a reflector of a namespace. Lags
/// depend on when the machine does something else.
const RULES: [Rule; 16] = [
    rule("client_heap_mib", Of::Level, 2.0, 1.0),
    rule("client_rss_mib", Of::Level, 5.0, 4.0),
    rule("client_fds", Of::Level, 0.0, 4.0),
    rule("client_threads", Of::Level, 0.0, 1.0),
    rule("client_tasks", Of::Level, 0.0, 6.0),
    rule("client_cpu_s", Of::Growth, 25.0, 1.0),
    rule("lag_ms_", Of::Level, 50.0, 20.0),
    rule("stale_ms_", Of::Level, 50.0, 100.0),
    rule("objects_", Of::Level, 2.0, 20.0),
    rule("relists", Of::Growth, 50.0, 5.0),
    rule("errors", Of::Growth, 50.0, 10.0),
    rule("server_heap_mib", Of::Level, 2.0, 2.0),
    rule("server_rss_mib", Of::Level, 5.0, 8.0),
    rule("server_fds", Of::Level, 0.0, 8.0),
    rule("server_tasks", Of::Level, 0.0, 8.0),
    rule("server_exchanges", Of::Level, 0.0, 8.0),
];

/// One number of the whole run.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Verdict {
    pub(super) name: String,
    what: Of,
    early: f64,
    late: f64,
    bound: f64,
    worst: f64,
}

impl Verdict {
    pub(super) fn is_flat(&self) -> bool {
        self.late <= self.bound
    }
}

/// A sample and when it was taken, since the start.
pub(super) type Timed = (Duration, Sample);

/// The verdict on everything that has a rule; `None` if the run was too short for one.
pub(super) fn judge(samples: &[Timed]) -> Option<Vec<Verdict>> {
    let whole = samples.last().map_or(Duration::ZERO, |(at, _)| *at);
    if whole < SHORTEST {
        return None;
    }
    let quarter = |n: u32| -> Vec<&Timed> {
        let (begin, end) = (whole * n / 4, whole * (n + 1) / 4);
        samples.iter().filter(|(at, _)| (begin..=end).contains(at)).collect()
    };
    let (early, late) = (quarter(1), quarter(3));
    let (_, last) = samples.last()?;
    let ruled =
        last.names().filter_map(|name| Some((name, RULES.iter().find(|rule| name.starts_with(rule.of))?)));
    let verdicts = ruled.map(|(name, rule)| {
        let value = |quarter: &[&Timed]| match rule.what {
            Of::Level => median(quarter.iter().map(|(_, sample)| sample.get(name)).collect()),
            Of::Growth => growth(quarter, name),
        };
        let (early, late) = (value(&early), value(&late));
        Verdict {
            name: name.to_owned(),
            what: rule.what,
            early,
            late,
            bound: early * (1.0 + rule.percent / 100.0) + rule.slack,
            worst: samples.iter().map(|(_, sample)| sample.get(name)).fold(0.0, f64::max),
        }
    });
    Some(verdicts.collect())
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}

/// Per minute.
fn growth(quarter: &[&Timed], name: &str) -> f64 {
    let (Some((begin, before)), Some((end, after))) = (quarter.first(), quarter.last()) else { return 0.0 };
    let minutes = end.saturating_sub(*begin).as_secs_f64() / 60.0;
    if minutes > 0.0 { (after.get(name) - before.get(name)) / minutes } else { 0.0 }
}

/// In Markdown, for the documentation.
pub(super) fn table(verdicts: &[Verdict]) -> String {
    let mut out =
        "| measured | second quarter | last quarter | bound | at worst | flat |\n|---|---|---|---|---|---|\n"
            .to_owned();
    for verdict in verdicts {
        let Verdict { name, what, early, late, bound, worst } = verdict;
        let (unit, worst) = match what {
            Of::Level => ("", format!("{worst:.1}")),
            // It is the last one.
            Of::Growth => (" per minute", "–".to_owned()),
        };
        let flat = if verdict.is_flat() { "yes" } else { "no" };
        // Writing into a string cannot fail.
        let _ = writeln!(out, "| `{name}`{unit} | {early:.1} | {late:.1} | {bound:.1} | {worst} | {flat} |");
    }
    out
}

/// The same for programs.
pub(super) fn json(verdicts: &[Verdict]) -> Value {
    let row = |verdict: &Verdict| {
        let Verdict { name, what, early, late, bound, worst } = verdict;
        json!({
            "name": name,
            "per_minute": *what == Of::Growth,
            "second_quarter": early,
            "last_quarter": late,
            "bound": bound,
            "worst": worst,
            "flat": verdict.is_flat(),
        })
    };
    verdicts.iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A run of so many minutes, a sample a second; the value by the second.
    fn run(minutes: u64, name: &str, value: impl Fn(f64) -> f64) -> Vec<Timed> {
        let sample = |second: u64| {
            let mut sample = Sample::default();
            sample.set(name, value(second as f64));
            (Duration::from_secs(second), sample)
        };
        (0..=minutes * 60).map(sample).collect()
    }

    fn flat(samples: &[Timed]) -> bool {
        let verdicts = judge(samples).unwrap();
        assert_eq!(verdicts.len(), 1);
        verdicts[0].is_flat()
    }

    #[test]
    fn what_stays_is_flat_and_what_grows_is_not() {
        assert!(flat(&run(30, "client_heap_mib", |_| 200.0)));
        // A quarter of an hour lies between the middles of the quarters: 2 % and one MiB are a third of a MiB per minute.
        assert!(flat(&run(30, "client_heap_mib", |second| 200.0 + second / 60.0 * 0.32)));
        assert!(!flat(&run(30, "client_heap_mib", |second| 200.0 + second / 60.0 * 0.36)));
        assert!(!flat(&run(30, "client_tasks", |second| 20.0 + second / 60.0)));
    }

    #[test]
    fn the_warm_up_and_peaks_do_not_count() {
        // A quarter of the time.
        assert!(flat(&run(30, "client_heap_mib", |second| second.min(450.0))));
        assert!(!flat(&run(30, "client_heap_mib", |second| second.min(1_200.0))));
        // For less than half of the quarter.
        let peaks = |second: f64| if second > 900.0 && second % 5.0 < 2.0 { 1_000.0 } else { 100.0 };
        assert!(flat(&run(30, "client_heap_mib", peaks)));
        let mostly = |second: f64| if second > 900.0 && second % 5.0 < 3.0 { 1_000.0 } else { 100.0 };
        assert!(!flat(&run(30, "client_heap_mib", mostly)));
    }

    #[test]
    fn less_is_never_bad() {
        assert!(flat(&run(30, "client_fds", |second| 1_000.0 - second / 10.0)));
    }

    #[test]
    fn of_what_is_counted_the_growth_is_judged() {
        assert!(flat(&run(30, "errors", |second| second)));
        // From 60 to 102 per minute in the last quarter, where 100 are allowed.
        let faster = |more: f64| move |second: f64| second + (second - 1_350.0).max(0.0) * more;
        assert!(flat(&run(30, "errors", faster(0.66))));
        assert!(!flat(&run(30, "errors", faster(0.7))));
    }

    #[test]
    fn of_several_copies_each_is_judged() {
        let mut samples = run(30, "lag_ms_wire", |_| 5.0);
        for (at, sample) in &mut samples {
            sample.set("lag_ms_packed", at.as_secs_f64());
            sample.set("lives", at.as_secs_f64());
        }
        let verdicts: Vec<_> =
            judge(&samples).unwrap().into_iter().map(|v| (v.name.clone(), v.is_flat())).collect();
        assert_eq!(verdicts, [("lag_ms_wire".to_owned(), true), ("lag_ms_packed".to_owned(), false)]);
    }

    #[test]
    fn short_runs_are_not_judged() {
        assert_eq!(judge(&run(4, "client_fds", |_| 1.0)), None);
        assert_eq!(judge(&[]), None);
        assert!(flat(&run(5, "client_fds", |_| 1.0)));
    }
}
