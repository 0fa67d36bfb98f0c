//! Rows of results: as a table, as JSON, as a picture.

use std::fmt::{self, Write as _};

use serde_json::{Value, json};

use crate::svg::{self, Color};

/// One claim and what was measured.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) name: &'static str,
    pub(super) unit: &'static str,
    pub(super) ours: Option<f64>,
    pub(super) peer: Option<f64>,
    /// What `value` must be: ours by the peer's, or the peer's by ours where more is better.
    pub(super) bar: Bar,
}

/// What is asked for.
#[derive(Debug, Clone, Copy)]
pub(super) enum Bar {
    /// Ours is at most the peer's divided by this.
    Part(f64),
    /// Ours is at least the peer's times this.
    Times(f64),
    /// Ours is at most this many of its unit.
    Limit(f64),
    /// Nothing; the row is there to compare with.
    None,
}

impl Row {
    /// Ours by the peer's.
    pub(super) fn ratio(&self) -> Option<f64> {
        Some(self.ours? / self.peer.filter(|peer| *peer > 0.0)?)
    }

    /// `None` where nothing was measured or nothing is asked for.
    pub(super) fn met(&self) -> Option<bool> {
        match self.bar {
            Bar::Part(part) => Some(self.ratio()? * part <= 1.0),
            Bar::Times(times) => Some(self.ratio()? >= times),
            Bar::Limit(limit) => Some(self.ours? <= limit),
            Bar::None => None,
        }
    }

    fn json(&self) -> Value {
        json!({
            "name": self.name, "unit": self.unit, "ours": self.ours, "peer": self.peer,
            "ratio": self.ratio(), "bar": self.bar.to_string(), "met": self.met(),
        })
    }
}

impl fmt::Display for Bar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Part(part) => write!(f, "≤ 1/{part}"),
            Self::Times(times) => write!(f, "≥ {times} ×"),
            Self::Limit(limit) => write!(f, "≤ {limit:.1}"),
            Self::None => f.write_str("–"),
        }
    }
}

/// A Markdown table. What was not measured says so.
pub(super) fn table(rows: &[Row]) -> String {
    let mut out =
        "| measured | unit | reflector | kube-runtime | ratio | bar | met |\n|---|---|---|---|---|---|---|\n"
            .to_owned();
    for row in rows {
        let number = |value: Option<f64>| value.map_or("–".to_owned(), |value| format!("{value:.1}"));
        let ratio = row.ratio().map_or("–".to_owned(), |ratio| format!("{ratio:.3}"));
        let met = match (row.ours, row.met()) {
            (None, _) => "not measured",
            (_, None) => "–",
            (_, Some(true)) => "yes",
            (_, Some(false)) => "no",
        };
        let (ours, peer) = (number(row.ours), number(row.peer));
        // Writing into a string cannot fail.
        let _ = writeln!(
            out,
            "| {} | {} | {ours} | {peer} | {ratio} | {} | {met} |",
            row.name, row.unit, row.bar
        );
    }
    out
}

pub(super) fn json(rows: &[Row]) -> Value {
    rows.iter().map(Row::json).collect()
}

/// Two bars for each row that has a peer, the longer one being the whole width.
pub(super) fn picture(rows: &[Row]) -> String {
    let rows: Vec<_> = rows.iter().filter(|row| row.ratio().is_some()).collect();
    let height = 40 + rows.len() * 56;
    let mut out = svg::begin(720, height);
    svg::legend(&mut out, 10, 10, Color::Blue, "reflector");
    svg::legend(&mut out, 110, 10, Color::Grey, "kube-runtime");
    for (n, row) in rows.iter().enumerate() {
        let (Some(ours), Some(peer)) = (row.ours, row.peer) else { continue };
        let y = 40 + n * 56;
        let _ = writeln!(out, r#"<text x="10" y="{}">{} ({})</text>"#, y + 12, row.name, row.unit);
        for (color, value, y) in [(Color::Blue, ours, y + 18), (Color::Grey, peer, y + 34)] {
            let width = 560.0 * value / ours.max(peer);
            let _ = writeln!(
                out,
                r#"<rect class="{color}" x="10" y="{y}" width="{width:.1}" height="13"/><text x="{:.1}" y="{}">{value:.1}</text>"#,
                width + 16.0,
                y + 11,
            );
        }
    }
    out + svg::END
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(ours: f64, peer: f64, bar: Bar) -> Row {
        Row { name: "a", unit: "ms", ours: Some(ours), peer: Some(peer), bar }
    }

    #[test]
    fn a_bar_is_met_at_its_edge_and_not_beyond() {
        assert_eq!(row(1.0, 8.0, Bar::Part(8.0)).met(), Some(true));
        assert_eq!(row(1.1, 8.0, Bar::Part(8.0)).met(), Some(false));
        assert_eq!(row(10.0, 1.0, Bar::Times(10.0)).met(), Some(true));
        assert_eq!(row(9.9, 1.0, Bar::Times(10.0)).met(), Some(false));
        assert_eq!(Row { ours: None, ..row(0.0, 1.0, Bar::Part(8.0)) }.met(), None);
    }
}
