//! The whole run as a picture: curves over time, one panel below the other.

use std::{fmt::Write as _, time::Duration};

use super::{judge::Timed, sample::Sample};
use crate::svg::{self, Color};

/// A curve: its name, its colour, and its value at a moment.
struct Curve {
    name: &'static str,
    color: Color,
    value: fn(&Sample) -> f64,
}

struct Panel {
    title: &'static str,
    /// Each step of the axis is ten times the one before.
    logarithmic: bool,
    /// What grows by is shown, per minute.
    growth: bool,
    curves: &'static [Curve],
}

const fn curve(name: &'static str, color: Color, value: fn(&Sample) -> f64) -> Curve {
    Curve { name, color, value }
}

const PANELS: [Panel; 5] = [
    Panel {
        title: "memory of the client, MiB",
        logarithmic: false,
        growth: false,
        curves: &[
            curve("resident", Color::Blue, |sample| sample.get("client_rss_mib")),
            curve("in use", Color::Orange, |sample| sample.get("client_heap_mib")),
        ],
    },
    Panel {
        title: "memory of the server, MiB",
        logarithmic: false,
        growth: false,
        curves: &[
            curve("resident", Color::Blue, |sample| sample.get("server_rss_mib")),
            curve("in use", Color::Orange, |sample| sample.get("server_heap_mib")),
        ],
    },
    Panel {
        title: "the client has",
        logarithmic: false,
        growth: false,
        curves: &[
            curve("tasks", Color::Blue, |sample| sample.get("client_tasks")),
            curve("descriptors", Color::Orange, |sample| sample.get("client_fds")),
            curve("threads", Color::Grey, |sample| sample.get("client_threads")),
        ],
    },
    Panel {
        title: "the worst copy, ms (log)",
        logarithmic: true,
        growth: false,
        curves: &[
            curve("stale for", Color::Grey, |sample| sample.worst("stale_ms_")),
            curve("until a write is seen", Color::Blue, |sample| sample.worst("lag_ms_")),
        ],
    },
    Panel {
        title: "per minute",
        logarithmic: false,
        growth: true,
        curves: &[
            curve("errors", Color::Orange, |sample| sample.get("errors")),
            curve("relists", Color::Blue, |sample| sample.get("relists")),
        ],
    },
];

/// The width of the curves, and where they begin.
const WIDTH: usize = 640;
const LEFT: usize = 60;
/// The height of a panel's curves, and of all of it.
const HEIGHT: usize = 110;
const PANEL: usize = HEIGHT + 44;
/// So many points has a curve at the most: each is the worst of some samples.
const POINTS: usize = 320;

/// Draws all panels.
pub(super) fn draw(samples: &[Timed]) -> String {
    let whole = samples.last().map_or(Duration::ZERO, |(at, _)| *at);
    let mut out = svg::begin(LEFT + WIDTH + 20, PANELS.len() * PANEL + 30);
    for (n, panel) in PANELS.iter().enumerate() {
        panel.draw(&mut out, n * PANEL, samples);
    }
    let bottom = PANELS.len() * PANEL + 16;
    // Writing into a string cannot fail, here and below.
    let _ = writeln!(out, r#"<text x="{LEFT}" y="{bottom}">0</text>"#);
    let minutes = whole.as_secs_f64() / 60.0;
    let _ = writeln!(
        out,
        r#"<text x="{}" y="{bottom}" text-anchor="end">{minutes:.0} minutes</text>"#,
        LEFT + WIDTH
    );
    out + svg::END
}

impl Panel {
    fn draw(&self, out: &mut String, top: usize, samples: &[Timed]) {
        let curves: Vec<_> =
            self.curves.iter().map(|curve| (curve, self.points(samples, curve.value))).collect();
        let largest = curves.iter().flat_map(|(_, points)| points).map(|point| point.1).fold(1.0, f64::max);
        let scale = self.scaled(largest);
        let _ = writeln!(out, r#"<text x="{LEFT}" y="{}">{}</text>"#, top + 18, self.title);
        let mut x = LEFT + 220;
        for (curve, _) in &curves {
            svg::legend(out, x, top + 7, curve.color, curve.name);
            x += 40 + 8 * curve.name.len();
        }
        let (above, below) = (top + 30, top + 30 + HEIGHT);
        let _ = writeln!(
            out,
            r#"<path class="grey" d="M{LEFT} {above}V{below}H{}"/><text x="{}" y="{}" text-anchor="end">{largest:.0}</text><text x="{}" y="{below}" text-anchor="end">0</text>"#,
            LEFT + WIDTH,
            LEFT - 6,
            above + 10,
            LEFT - 6,
        );
        for (curve, points) in &curves {
            let _ = write!(out, r#"<polyline class="{}" points=""#, curve.color);
            for (at, value) in points {
                let x = LEFT as f64 + WIDTH as f64 * at;
                let y = below as f64 - HEIGHT as f64 * self.scaled(*value) / scale;
                let _ = write!(out, "{x:.0},{y:.1} ");
            }
            let _ = writeln!(out, r#""/>"#);
        }
    }

    fn scaled(&self, value: f64) -> f64 {
        if self.logarithmic { (1.0 + value.max(0.0)).log10() } else { value.max(0.0) }
    }

    /// Where between begin and end, and what.
    fn points(&self, samples: &[Timed], value: fn(&Sample) -> f64) -> Vec<(f64, f64)> {
        let whole = samples.last().map_or(1.0, |(at, _)| at.as_secs_f64().max(1.0));
        let some = samples.len().div_ceil(POINTS).max(1);
        let mut before = samples.first().map(|(at, sample)| (at.as_secs_f64(), value(sample)));
        let mut points = Vec::new();
        for samples in samples.chunks(if self.growth { some.max(samples.len() / 60) } else { some }) {
            let Some((at, last)) = samples.last() else { continue };
            let at = at.as_secs_f64();
            let worst = if self.growth {
                let now = (at, value(last));
                let (then, had) = before.replace(now).unwrap_or(now);
                if at > then { (now.1 - had) / (at - then) * 60.0 } else { continue }
            } else {
                samples.iter().map(|(_, sample)| value(sample)).fold(0.0, f64::max)
            };
            points.push((at / whole, worst));
        }
        points
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(count: u64, value: impl Fn(u64) -> f64) -> Vec<Timed> {
        let sample = |second: u64| {
            let mut sample = Sample::default();
            sample.set("errors", value(second));
            (Duration::from_secs(second), sample)
        };
        (0..count).map(sample).collect()
    }

    #[test]
    fn a_curve_shows_the_worst_and_growth_per_minute() {
        let panel = |growth| Panel { title: "", logarithmic: false, growth, curves: &[] };
        let peak = samples(3_200, |second| if second == 1_001 { 7.0 } else { 1.0 });
        let points = panel(false).points(&peak, |sample| sample.get("errors"));
        assert_eq!(points.len(), POINTS);
        assert_eq!(points.iter().filter(|(_, value)| *value > 1.0).count(), 1);
        let steady = samples(3_200, |second| second as f64 / 2.0);
        let points = panel(true).points(&steady, |sample| sample.get("errors"));
        assert!(!points.is_empty() && points.iter().all(|(_, value)| (value - 30.0).abs() < 1e-6));
    }

    #[test]
    fn nothing_draws_an_empty_picture() {
        assert!(draw(&[]).ends_with(svg::END));
    }
}
