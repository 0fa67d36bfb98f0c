//! The table of results.

use std::{fmt, time::Duration};

/// One operation, by all who have it.
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) ours: Duration,
    pub(crate) kube: Option<Duration>,
    pub(crate) floor: Option<Duration>,
}

/// In Markdown, so that it can go into the documentation as it is.
pub(crate) struct Table<'a>(pub(crate) &'a [Row]);

impl fmt::Display for Table<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "| operation | reflector | kube-runtime | `HashMap` | × faster than kube-runtime |")?;
        writeln!(f, "|---|---|---|---|---|")?;
        for Row { name, ours, kube, floor } in self.0 {
            let show = |time: &Option<Duration>| time.map_or("–".to_owned(), show);
            let ratio = kube
                .map_or("–".to_owned(), |kube| format!("{:.1}", kube.as_secs_f64() / ours.as_secs_f64()));
            writeln!(f, "| {name} | {} | {} | {} | {ratio} |", show(&Some(*ours)), show(kube), show(floor))?;
        }
        Ok(())
    }
}

fn show(time: Duration) -> String {
    match time.as_nanos() {
        nanos @ 0..10_000 => format!("{nanos} ns"),
        nanos @ 10_000..10_000_000 => format!("{} µs", nanos / 1_000),
        nanos => format!("{} ms", nanos / 1_000_000),
    }
}
