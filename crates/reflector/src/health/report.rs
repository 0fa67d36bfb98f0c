//! The answer of a probe, as data, as text and as JSON.

use std::{fmt, time::Duration};

use serde::{Serialize, Serializer};

/// What was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Probe {
    /// Whether requests may be sent here.
    #[serde(rename = "readyz")]
    Ready,
    /// Whether the process should be left running.
    #[serde(rename = "livez")]
    Live,
}

impl fmt::Display for Probe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ready => "readyz",
            Self::Live => "livez",
        })
    }
}

/// The answer to one probe, source by source, in the order in which they were added.
///
/// As text it has the form of the API server's own probes, one line per source:
///
/// ```text
/// [+]pods ok
/// [~]nodes ok, but cannot watch: 503 ServiceUnavailable: …
/// [-]secrets in namespace shop failed: cannot list: 403 Forbidden: …
/// readyz check failed
/// ```
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Report {
    /// What was asked.
    pub probe: Probe,
    /// Whether all sources are well.
    pub ok: bool,
    /// The sources.
    pub sources: Vec<SourceReport>,
}

/// How one source is.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct SourceReport {
    /// What it is; one line.
    pub name: String,
    /// Whether it is well.
    pub ok: bool,
    /// Why it is not well; one line, without credentials. `None` where it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    /// What stands in the way at present, though it is well; one line, without credentials.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warning: Option<String>,
    /// How old its data may be; in JSON `stalenessSeconds`.
    #[serde(
        rename = "stalenessSeconds",
        serialize_with = "seconds",
        skip_serializing_if = "Option::is_none"
    )]
    pub staleness: Option<Duration>,
}

#[expect(clippy::ref_option, reason = "serde calls it so")]
fn seconds<S: Serializer>(duration: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
    duration.map(|d| d.as_secs_f64()).serialize(serializer)
}

impl Report {
    pub(super) fn new(probe: Probe, sources: Vec<SourceReport>) -> Self {
        Self { probe, ok: sources.iter().all(|source| source.ok), sources }
    }

    /// Whether all sources are well: 200 or 503.
    #[must_use]
    pub fn is_ok(&self) -> bool {
        self.ok
    }

    /// The sources that are not well.
    pub fn failed(&self) -> impl Iterator<Item = &SourceReport> {
        self.sources.iter().filter(|source| !source.ok)
    }

    /// The report as JSON: `{"probe":"readyz","ok":false,"sources":[{"name":"pods","ok":false,"cause":"…"}]}`.
    #[must_use]
    pub fn to_json(&self) -> String {
        // Nothing in it can fail to become JSON.
        serde_json::to_string(self)
            .unwrap_or_else(|_| format!(r#"{{"probe":"{}","ok":{}}}"#, self.probe, self.ok))
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for source in &self.sources {
            writeln!(f, "{source}")?;
        }
        writeln!(f, "{} check {}", self.probe, if self.ok { "passed" } else { "failed" })
    }
}

impl fmt::Display for SourceReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.cause, &self.warning) {
            (Some(cause), _) => write!(f, "[-]{} failed: {cause}", self.name),
            (None, Some(warning)) => write!(f, "[~]{} ok, but {warning}", self.name),
            (None, None) => write!(f, "[+]{} ok", self.name),
        }
    }
}
