//! The results: as a table, and as JSON.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::{client::Who, judge::Outcome, scenarios::Scenario};

/// One scenario and what became of each client that was in it; `None` where the scenario is not for it.
pub(super) struct Row<'a> {
    pub(super) scenario: &'a Scenario,
    pub(super) outcomes: Vec<Option<Outcome>>,
}

/// A Markdown table in columns of equal width.
pub(super) fn table(clients: &[Who], rows: &[Row<'_>]) -> String {
    let mut lines = vec![vec!["scenario".to_owned()]];
    lines[0].extend(clients.iter().map(|who| who.name().to_owned()));
    for Row { scenario, outcomes } in rows {
        let mut line = vec![scenario.name.to_owned()];
        line.extend(
            outcomes.iter().map(|outcome| outcome.as_ref().map_or("–".to_owned(), ToString::to_string)),
        );
        lines.push(line);
    }
    let mut total = vec!["converged".to_owned()];
    total.extend((0..clients.len()).map(|who| {
        let (converged, all) = count(rows, who);
        format!("{converged} of {all}")
    }));
    lines.push(total);
    let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<_> = (0..=clients.len()).map(width).collect();
    let mut out = String::new();
    for (n, line) in lines.iter().enumerate() {
        for (text, width) in line.iter().zip(&widths) {
            // Writing into a string cannot fail.
            let _ = write!(out, "| {text:width$} ");
        }
        out.push_str("|\n");
        if n == 0 {
            for width in &widths {
                let _ = write!(out, "|{}", "-".repeat(width + 2));
            }
            out.push_str("|\n");
        }
    }
    out
}

/// How many scenarios one of them came through, and of how many.
fn count(rows: &[Row<'_>], who: usize) -> (usize, usize) {
    let outcomes = rows.iter().filter_map(|row| row.outcomes.get(who)?.as_ref());
    (outcomes.clone().filter(|outcome| outcome.converged.is_some()).count(), outcomes.count())
}

pub(super) fn json(clients: &[Who], rows: &[Row<'_>], seed: u64, patience: u64) -> Value {
    let row = |Row { scenario, outcomes }: &Row<'_>| {
        let clients: serde_json::Map<_, _> = clients
            .iter()
            .zip(outcomes)
            .map(|(who, outcome)| {
                (who.name().to_owned(), outcome.as_ref().map_or(Value::Null, Outcome::json))
            })
            .collect();
        json!({"name": scenario.name, "story": scenario.story, "clients": clients})
    };
    json!({"seed": seed, "patience": patience, "scenarios": rows.iter().map(row).collect::<Vec<_>>()})
}
