//! Schedules that failed once, and must not again.
//!
//! They are in `corpus/schedules.jsonl`. The command prints a schedule that fails in its shortest form, as a line of JSON:
//! with a name, that is the next line of the file.

use serde::{Deserialize, Serialize};

use crate::Plan;

/// One schedule of the corpus.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Kept {
    /// What went wrong when it was found.
    pub name: String,
    /// The schedule itself, so that it stays what it is when the generator changes.
    pub plan: Plan,
}

/// Reads the text of a corpus: one JSON object a line, empty lines between them.
///
/// # Errors
///
/// If a line is not of that form; with its number, from one.
pub fn read(text: &str) -> Result<Vec<Kept>, (usize, serde_json::Error)> {
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    lines.map(|(number, line)| serde_json::from_str(line).map_err(|error| (number + 1, error))).collect()
}
