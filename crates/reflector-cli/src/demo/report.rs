//! What the demonstration came to.

use std::{collections::BTreeMap, fmt::Write, time::Duration};

use serde::Serialize;

use super::{Options, view::Numbers};
use crate::{
    format::bytes,
    memory::Memory,
    output::{BOLD, GREEN, RED},
};

/// So many differences are shown.
const SHOWN: usize = 20;

/// The result, as the last line of `-o json` has it.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    objects: usize,
    changes: u64,
    events: u64,
    lists: u64,
    watches: u64,
    relists: u64,
    relists_by_reason: BTreeMap<String, u64>,
    /// All that the server took.
    requests: usize,
    errors_by_class: BTreeMap<String, u64>,
    faults: u64,
    faults_by_kind: BTreeMap<&'static str, u64>,
    profile: String,
    received_bytes: u64,
    pub(super) converged: bool,
    resource_version: Option<String>,
    elapsed_s: f64,
    peak_rss_bytes: Option<u64>,
    /// What the objects of the copy take.
    copy_bytes: usize,
    /// What they would take as they came.
    copy_unpacked_bytes: usize,
    seed: u64,
    /// None if it converged.
    pub(super) differences: Vec<String>,
}

impl Report {
    pub(super) fn new(
        options: &Options,
        numbers: &Numbers<'_>,
        elapsed: Duration,
        differences: Vec<String>,
    ) -> Self {
        let status = numbers.reflector.status();
        let server = numbers.cluster.server();
        let faults = server.with_faults(|faults| faults.injected().clone());
        let counters = numbers.counters;
        let memory = numbers.reflector.cache().memory();
        Self {
            objects: numbers.reflector.cache().len(),
            changes: numbers.changes.get(),
            events: status.counts.events,
            lists: status.counts.lists,
            watches: status.counts.watches,
            relists: status.counts.relists,
            relists_by_reason: counters.by("reflector_relists_total", "reason").into_iter().collect(),
            requests: server.requests().len(),
            errors_by_class: counters.by("reflector_errors_total", "class").into_iter().collect(),
            faults: faults.values().sum(),
            faults_by_kind: faults,
            profile: options.profile.to_string(),
            received_bytes: counters.sum("reflector_received_bytes_total"),
            converged: differences.is_empty(),
            resource_version: numbers.reflector.cache().version().map(|version| version.to_string()),
            elapsed_s: (elapsed.as_secs_f64() * 1000.0).round() / 1000.0,
            peak_rss_bytes: Memory::now().peak,
            copy_bytes: memory.total(),
            copy_unpacked_bytes: memory.headers + memory.unpacked,
            seed: options.seed,
            differences,
        }
    }

    /// One line.
    pub(super) fn json(&self) -> String {
        // Nothing in it can fail to serialise.
        let mut line = serde_json::to_string(self).unwrap_or_default();
        line.push('\n');
        line
    }

    /// A few lines for people.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a String cannot fail.
        let _ = self.write(&mut text);
        text
    }

    fn write(&self, text: &mut String) -> std::fmt::Result {
        for difference in self.differences.iter().take(SHOWN) {
            writeln!(text, "{RED}differs{RED:#}  {difference}")?;
        }
        if self.differences.len() > SHOWN {
            writeln!(text, "         and {} more", self.differences.len() - SHOWN)?;
        }
        let version = self.resource_version.as_deref().unwrap_or("none");
        writeln!(text, "objects  {} at version {version}, after {} changes", self.objects, self.changes)?;
        writeln!(text, "events   {} taken, {} received", self.events, bytes(self.received_bytes))?;
        writeln!(text, "requests {}: {} lists, {} watches", self.requests, self.lists, self.watches)?;
        writeln!(text, "relists  {}{}", self.relists, reasons(&self.relists_by_reason))?;
        let kinds = self.faults_by_kind.iter().map(|(kind, count)| ((*kind).to_owned(), *count)).collect();
        writeln!(text, "faults   {}{}", self.faults, reasons(&kinds))?;
        writeln!(
            text,
            "copy     {} of memory for what would be {} as it came",
            bytes(self.copy_bytes as u64),
            bytes(self.copy_unpacked_bytes as u64)
        )?;
        let peak = self.peak_rss_bytes.map(|peak| format!(", {} of memory with the server", bytes(peak)));
        writeln!(text, "took     {:.1} s{}, seed {}", self.elapsed_s, peak.unwrap_or_default(), self.seed)?;
        let (color, verdict) = if self.converged {
            (GREEN, format!("The copy is right: all {} objects are equal to the server's.", self.objects))
        } else {
            (RED, "The copy is wrong.".to_owned())
        };
        writeln!(text, "{BOLD}{color}{verdict}{color:#}{BOLD:#}")
    }
}

/// `: 3 expired, 1 rewound`
pub(super) fn reasons(counts: &BTreeMap<String, u64>) -> String {
    let mut by_count: Vec<(&String, &u64)> = counts.iter().collect();
    by_count.sort_by(|a, b| b.1.cmp(a.1).then_with(|| a.0.cmp(b.0)));
    let listed: Vec<String> =
        by_count.into_iter().map(|(reason, count)| format!("{count} {reason}")).collect();
    if listed.is_empty() { String::new() } else { format!(": {}", listed.join(", ")) }
}
