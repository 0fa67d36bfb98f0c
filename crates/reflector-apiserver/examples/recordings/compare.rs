//! What must be equal in two answers, and what cannot be.

use std::{collections::HashMap, io::Read};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};

use crate::{case::Case, http1::Reply, ordered::Node};

/// The headers that a client may depend on.
const HEADERS: [&str; 8] = [
    "Content-Type",
    "Content-Encoding",
    "Vary",
    "Retry-After",
    "Warning",
    "X-Content-Type-Options",
    "Allow",
    "Connection",
];

/// The first difference, if any.
pub(crate) fn difference(case: &Case, reply: &Reply) -> Option<String> {
    if case.status != reply.status {
        let said: String = reply.text().chars().take(200).collect();
        return Some(format!("status {}, recorded {}: {said}", reply.status, case.status));
    }
    for name in HEADERS {
        let (have, want) = (all(&reply.headers, name), all(&case.headers, name));
        if have != want {
            return Some(format!("{name}: {have:?}, recorded {want:?}"));
        }
    }
    let length = |headers: &[(String, String)]| !all(headers, "Content-Length").is_empty();
    if length(&reply.headers) != length(&case.headers) {
        return Some(format!(
            "Content-Length: {}, recorded {} ({} and {} bytes)",
            length(&reply.headers),
            length(&case.headers),
            reply.body.len(),
            case.body.len()
        ));
    }
    body(case, reply)
}

fn all<'a>(headers: &'a [(String, String)], name: &str) -> Vec<&'a str> {
    headers
        .iter()
        .filter(|(have, _)| have.eq_ignore_ascii_case(name))
        .map(|(_, value)| value.as_str())
        .collect()
}

fn body(case: &Case, reply: &Reply) -> Option<String> {
    let (have, want) = match case.header("Content-Encoding") {
        Some("gzip") => (gunzip(&reply.body)?, gunzip(&case.body)?),
        _ => (reply.body.clone(), case.body.clone()),
    };
    match case.header("Content-Type") {
        _ if have == want => None,
        Some("application/json") if case.is_watch() && case.status == 200 => events(case, &have, &want),
        Some("application/json") => {
            let indented = |bytes: &[u8]| bytes.starts_with(b"{\n");
            if indented(&have) != indented(&want) {
                return Some(format!("indented: {}, recorded {}", indented(&have), indented(&want)));
            }
            if have.ends_with(b"\n") != want.ends_with(b"\n") {
                return Some(format!(
                    "last newline: {}, recorded {}",
                    have.ends_with(b"\n"),
                    want.ends_with(b"\n")
                ));
            }
            let (have, want) = (parse(&have)?, parse(&want)?);
            normalised(have).difference(&normalised(want), "body")
        }
        Some("application/yaml") => {
            let (have, want) = (yaml(&have), yaml(&want));
            let mut lines = have.lines().zip(want.lines()).filter(|(have, want)| have != want);
            lines.next().map(|(have, want)| format!("yaml: {have:?}, recorded {want:?}"))
        }
        Some(kind) if kind.contains("protobuf") || kind.contains("cbor") => Some(format!(
            "{kind}: the body differs ({} bytes, recorded {}); its versions and times cannot be normalised here",
            have.len(),
            want.len()
        )),
        _ => Some(format!(
            "body {:?}, recorded {:?}",
            String::from_utf8_lossy(&have),
            String::from_utf8_lossy(&want)
        )),
    }
}

fn parse(bytes: &[u8]) -> Option<Node> {
    serde_json::from_slice(bytes).ok()
}

fn gunzip(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    flate2::read::MultiGzDecoder::new(bytes).read_to_end(&mut out).ok()?;
    Some(out)
}

/// Streams are compared event by event. Repeated bookmarks count once: a server may send one more or less.
fn events(case: &Case, have: &[u8], want: &[u8]) -> Option<String> {
    let read = |bytes: &[u8]| {
        let lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        let mut normaliser = Normaliser::default();
        let mut events: Vec<Node> = lines.map_while(parse).map(|event| normaliser.node(event, "")).collect();
        events.dedup_by(|a, b| is_plain_bookmark(a) && is_plain_bookmark(b));
        events
    };
    let (mut have, want) = (read(have), read(want));
    if !case.complete {
        // The recorder stopped reading.
        have.truncate(want.len());
    }
    let kinds = |events: &[Node]| {
        events
            .iter()
            .filter_map(|event| event.get("type")?.text().map(str::to_owned))
            .collect::<Vec<_>>()
            .join(" ")
    };
    if have.len() != want.len() {
        return Some(format!("events [{}], recorded [{}]", kinds(&have), kinds(&want)));
    }
    let mut pairs = have.iter().zip(&want).enumerate();
    pairs.find_map(|(n, (have, want))| have.difference(want, &format!("event[{n}]")))
}

fn is_plain_bookmark(event: &Node) -> bool {
    event.get("type").and_then(Node::text) == Some("BOOKMARK")
        && event.path(&["object", "metadata", "annotations"]).is_none()
}

fn normalised(node: Node) -> Node {
    Normaliser::default().node(node, "")
}

/// Replaces what differs from server to server: versions by their order of appearance, uids, times, ages.
#[derive(Debug, Default)]
struct Normaliser {
    versions: HashMap<String, usize>,
}

impl Normaliser {
    fn node(&mut self, node: Node, name: &str) -> Node {
        match node {
            Node::Object(members) => {
                let members = members.into_iter().filter(|(name, _)| name != "managedFields");
                Node::Object(
                    members
                        .map(|(name, value)| {
                            let value = self.node(value, &name);
                            (name, value)
                        })
                        .collect(),
                )
            }
            Node::Array(items) => Node::Array(items.into_iter().map(|item| self.node(item, name)).collect()),
            Node::Text(text) => Node::Text(self.text(text, name)),
            other => other,
        }
    }

    fn text(&mut self, text: String, name: &str) -> String {
        match name {
            "uid" => "UID".to_owned(),
            "resourceVersion" => self.version(text),
            "continue" => self.token(text),
            "serverAddress" => "ADDRESS".to_owned(),
            "cells" if is_age(&text) => "AGE".to_owned(),
            "message" => numbers(&text),
            _ if is_time(&text) => "TIME".to_owned(),
            _ => text,
        }
    }

    fn version(&mut self, text: String) -> String {
        if text.is_empty() || text == "0" {
            return text;
        }
        let next = self.versions.len();
        format!("version {}", self.versions.entry(text).or_insert(next))
    }

    fn token(&mut self, text: String) -> String {
        let Some(Node::Object(members)) = URL_SAFE_NO_PAD.decode(&text).ok().and_then(|bytes| parse(&bytes))
        else {
            return text;
        };
        let members: Vec<String> = members
            .into_iter()
            .map(|(name, value)| match (name.as_str(), value) {
                ("rv", Node::Number(rv)) if rv != "-1" => format!("rv={}", self.version(rv)),
                (name, value) => format!("{name}={value:?}"),
            })
            .collect();
        members.join(" ")
    }
}

/// `40322` in a message is a version of this server.
fn numbers(text: &str) -> String {
    let mut out = String::new();
    let mut digits = String::new();
    for c in text.chars().chain(['\0']) {
        if c.is_ascii_digit() {
            digits.push(c);
            continue;
        }
        out.push_str(if digits.len() > 2 && digits != "999999999" { "N" } else { &digits });
        digits.clear();
        out.push(c);
    }
    out
}

fn is_time(text: &str) -> bool {
    text.len() >= 20
        && text.ends_with('Z')
        && text.as_bytes().get(10) == Some(&b'T')
        && text.starts_with("20")
}

/// `5m12s`
fn is_age(text: &str) -> bool {
    text == "<unknown>"
        || (text.starts_with(|c: char| c.is_ascii_digit())
            && text.ends_with(['s', 'm', 'h', 'd'])
            && text.chars().all(|c| c.is_ascii_digit() || "smhd".contains(c)))
}

/// YAML by lines, without what differs.
fn yaml(bytes: &[u8]) -> String {
    let mut out = String::new();
    let mut skipped: Option<usize> = None;
    for line in String::from_utf8_lossy(bytes).lines() {
        let indent = line.len() - line.trim_start().len();
        if let Some(level) = skipped {
            let within = indent > level || (indent == level && line.trim_start().starts_with('-'));
            if within {
                continue;
            }
            skipped = None;
        }
        let name = line.trim_start().trim_start_matches("- ").split(':').next().unwrap_or_default();
        if name == "managedFields" {
            skipped = Some(indent);
            continue;
        }
        out.push_str(match name {
            "uid" | "resourceVersion" | "creationTimestamp" | "continue" => {
                &line[..line.find(':').unwrap_or(0)]
            }
            _ => line,
        });
        out.push('\n');
    }
    out
}
