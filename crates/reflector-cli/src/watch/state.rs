//! What becomes of the connection, told on stderr: one line per change, and none twice.

use std::{collections::HashMap, time::Instant};

use jiff::Zoned;
use reflector::protocol::{Class, ErrorReport, Phase, Status};

use crate::{
    format::{counted, seconds},
    output::{self, DIM, GREEN, YELLOW, one_line},
};

/// Tells of changes.
pub(super) struct Teller {
    /// What is watched.
    target: String,
    /// Whether it has been in sync.
    connected: bool,
    /// Since when it is not, if that has been told.
    trouble: Option<Instant>,
    /// What was told last of what failed.
    last: Option<Class>,
    /// Relists so far, by reason.
    relists: HashMap<String, u64>,
    merged: u64,
    polling: bool,
    say: Box<dyn FnMut(String) + Send>,
}

impl Teller {
    pub(super) fn new(target: String) -> Self {
        let say = |line: String| output::note(&format!("{DIM}reflector:{DIM:#} {line}"));
        Self::with(target, Box::new(say))
    }

    fn with(target: String, say: Box<dyn FnMut(String) + Send>) -> Self {
        let relists = HashMap::new();
        Self { target, connected: false, trouble: None, last: None, relists, merged: 0, polling: false, say }
    }

    /// Something failed for the first time, or in another way than before.
    pub(super) fn failed(&mut self, report: &ErrorReport) {
        // These lead to a relist at once, which is told with its reason.
        if matches!(report.class, Class::Expired | Class::Rewound) || self.last == Some(report.class) {
            return;
        }
        self.last = Some(report.class);
        let what = match report.class {
            Class::Absent => "resource absent",
            Class::Forbidden => "forbidden",
            Class::Unauthorized => "credentials refused",
            _ if self.trouble.is_some() => "still stale",
            _ if !self.connected => "not connected",
            _ => "stale",
        };
        let since = match (self.connected, self.trouble) {
            (true, None) => format!(", stale since {}", Zoned::now().strftime("%H:%M:%S")),
            _ => String::new(),
        };
        // `stale, stale since` says it twice.
        let what = if what == "stale" {
            since.trim_start_matches(", ").to_owned()
        } else {
            format!("{what}{since}")
        };
        self.trouble.get_or_insert_with(Instant::now);
        let next = if report.retry_in.is_zero() {
            "trying again at once".to_owned()
        } else {
            format!("trying again in {}", seconds(report.retry_in))
        };
        let error = one_line(&report.to_string());
        (self.say)(format!("{YELLOW}{what}{YELLOW:#}: {error}; {next}"));
    }

    /// The relists so far; those that are new are told.
    pub(super) fn relisted(&mut self, by_reason: &[(String, u64)]) {
        for (reason, count) in by_reason {
            let told = self.relists.insert(reason.clone(), *count).unwrap_or(0);
            if *count > told && !matches!(reason.as_str(), "poll" | "verify") {
                (self.say)(format!("{YELLOW}relisting{YELLOW:#}: {}", sentence(reason)));
                self.trouble.get_or_insert_with(Instant::now);
            }
        }
    }

    /// What is going on now.
    pub(super) fn state(&mut self, status: &Status, objects: usize) {
        if !status.synced {
            return;
        }
        let live = match status.phase {
            Phase::Watching => true,
            Phase::Polling { .. } => {
                if !std::mem::replace(&mut self.polling, true) {
                    (self.say)("it cannot be watched: it is listed from time to time instead".to_owned());
                }
                true
            }
            _ => false,
        };
        if !live {
            return;
        }
        let version = status.version.as_ref().map(|v| format!(", version {v}")).unwrap_or_default();
        let what = format!("{}{version}", counted(objects, "object"));
        if !std::mem::replace(&mut self.connected, true) {
            (self.say)(format!("{GREEN}watching{GREEN:#} {}: {what}", self.target));
        } else if let Some(since) = self.trouble {
            (self.say)(format!("{GREEN}current again{GREEN:#} after {}: {what}", seconds(since.elapsed())));
        }
        self.trouble = None;
        self.last = None;
    }

    /// How many changes were merged so far.
    pub(super) fn merged(&mut self, merged: u64) {
        if merged > 0 && self.merged == 0 {
            (self.say)("the reader of stdout is slow: changes of the same object are merged".to_owned());
        }
        self.merged = merged;
    }
}

/// Why a collection is read again, for people.
fn sentence(reason: &str) -> &str {
    match reason {
        "expired" => "the version to watch from has expired (410)",
        "too_large" => "the server is behind the version seen last",
        "short_watch" => "watches ended at once, again and again",
        "malformed" => "the watch could not be read, again and again",
        "stream_error" => "the watch ended with an error",
        "rewound" => "the collection went back in time",
        "absent" => "the resource was absent",
        "store" => "a change could not be kept",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    fn teller() -> (Teller, Arc<Mutex<Vec<String>>>) {
        let lines = Arc::new(Mutex::new(Vec::new()));
        let sink = Arc::clone(&lines);
        let say = move |line: String| {
            let plain = anstream::adapter::strip_str(&line).to_string();
            sink.lock().unwrap().push(plain);
        };
        (Teller::with("pods".to_owned(), Box::new(say)), lines)
    }

    #[test]
    fn relists_are_told_once_each_with_their_reason() {
        let (mut teller, lines) = teller();
        teller.relisted(&[("expired".to_owned(), 1)]);
        teller.relisted(&[("expired".to_owned(), 1)]);
        teller.relisted(&[("expired".to_owned(), 2), ("poll".to_owned(), 7)]);
        let expected = "relisting: the version to watch from has expired (410)";
        assert_eq!(*lines.lock().unwrap(), [expected, expected]);
    }

    #[test]
    fn merging_is_told_once() {
        let (mut teller, lines) = teller();
        teller.merged(0);
        teller.merged(5);
        teller.merged(9);
        assert_eq!(lines.lock().unwrap().len(), 1);
    }
}
