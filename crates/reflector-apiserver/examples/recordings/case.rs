//! The recorded exchanges.

use std::{collections::BTreeMap, fs, io, path::Path};

use serde::Deserialize;

/// One line of `index.json`.
#[derive(Debug, Deserialize)]
struct Entry {
    port: u16,
    method: String,
    path: String,
    reqheaders: Vec<String>,
    reqbody: String,
    status: String,
    resheaders: Vec<(String, String)>,
    bodyfile: String,
    closed: String,
    elapsed: f64,
    marks: Vec<(f64, usize)>,
}

/// One recorded exchange.
#[derive(Debug)]
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) port: u16,
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) request_headers: Vec<(String, String)>,
    pub(crate) request_body: String,
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    pub(crate) complete: bool,
    pub(crate) elapsed: f64,
    /// Seconds, and how many bytes of the response had come by then.
    pub(crate) marks: Vec<(f64, usize)>,
    /// Seconds since the epoch, from the Date header: when the head was sent.
    pub(crate) date: i64,
}

impl Case {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(have, _)| have.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    pub(crate) fn accept(&self) -> &str {
        let accept = self.request_headers.iter().find(|(name, _)| name == "Accept");
        accept.map_or("", |(_, value)| value)
    }

    /// Is it about one object by its path?
    pub(crate) fn is_single(&self) -> bool {
        let path = self.path.split('?').next().unwrap_or_default();
        path.split('/').count() == 7 && path.starts_with("/api/v1/namespaces/")
    }

    pub(crate) fn is_watch(&self) -> bool {
        if self.is_single() {
            return false;
        }
        let query = self.path.split_once('?').map_or("", |(_, query)| query);
        self.path.contains("/v1/watch/")
            || query.split('&').any(|pair| pair == "watch=true" || pair == "watch")
    }

    pub(crate) fn parameter(&self, name: &str) -> Option<&str> {
        let query = self.path.split_once('?')?.1;
        query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='))
    }

    /// The lines of a watch, with the second at which each had come.
    pub(crate) fn lines(&self) -> Vec<(f64, &[u8])> {
        // The marks count the response with its head and chunk framing, which is not counted here: nothing seems to have come
        // later than it did.
        let head: usize =
            self.headers.iter().map(|(name, value)| name.len() + value.len() + 4).sum::<usize>() + 19;
        let mut at = head;
        let mut lines = Vec::new();
        for line in self.body.split_inclusive(|byte| *byte == b'\n') {
            at += line.len();
            let mut come = 0;
            let time = self.marks.iter().find(|(_, bytes)| {
                come += bytes;
                come >= at
            });
            lines.push((time.map_or(self.elapsed, |(time, _)| *time), line));
        }
        lines
    }
}

/// Reads the index and the bodies, in the order of recording.
pub(crate) fn read(folder: &Path) -> io::Result<Vec<Case>> {
    let index = fs::read(folder.join("index.json"))?;
    let index: BTreeMap<String, Entry> = serde_json::from_slice(&index)?;
    let mut cases = Vec::new();
    for (name, entry) in index {
        let body = fs::read(folder.join(&entry.bodyfile)).unwrap_or_default();
        let header = |line: &String| {
            let (name, value) = line.split_once(": ").unwrap_or((line, ""));
            (name.to_owned(), value.to_owned())
        };
        let date = entry.resheaders.iter().find(|(name, _)| name == "Date");
        let date = date.and_then(|(_, date)| jiff::fmt::rfc2822::parse(date).ok());
        cases.push(Case {
            name,
            port: entry.port,
            method: entry.method,
            path: entry.path,
            request_headers: entry.reqheaders.iter().map(header).collect(),
            request_body: entry.reqbody,
            status: entry.status.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0),
            date: date.map_or(0, |date| date.timestamp().as_second()),
            headers: entry.resheaders,
            body,
            complete: entry.closed == "complete",
            elapsed: entry.elapsed,
            marks: entry.marks,
        });
    }
    cases.sort_by_key(|case| case.date);
    Ok(cases)
}
