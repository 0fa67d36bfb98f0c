//! First inputs, made of recordings of a real server.

use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
};

use flate2::{Compression, write::GzEncoder};
use reflector_protobuf::{Envelope, Kind};
use serde_json::Value;

/// Larger inputs cost a fuzzer more than they teach it.
const LARGEST: usize = 24 << 10;

/// The inputs for a target that can be made of the folders `recordings`, `corpus` and `api-testdata` below `shared`, with
/// names that say where they come from. Without the folders, those that need none.
///
/// # Errors
///
/// If a file cannot be read.
pub fn of(target: &str, shared: &Path) -> std::io::Result<Vec<(String, Vec<u8>)>> {
    let mut seeds = Vec::new();
    let mut add = |name: String, control: &[u8], body: &[u8]| {
        if body.len() <= LARGEST {
            seeds.push((name, [control, body].concat()));
        }
    };
    match target {
        "json_list" | "json_stream" => {
            let end = if target == "json_list" { ".json" } else { ".jsonl" };
            for (name, body) in files(shared, end)? {
                add(name.clone(), b"\0\x11", &body);
                add(name + "-small", b"\x03\x23", &body);
            }
        }
        "protobuf_list" | "protobuf_watch" => {
            let end = if target == "protobuf_list" { ".pb" } else { ".pbseq" };
            for (name, body) in files(shared, end)? {
                add(name, b"\0\x11", &body);
            }
            for (name, body) in files(shared, ".pb")?.into_iter().filter(|(_, body)| body.len() < 256) {
                if let Ok(envelope) = Envelope::parse(&body) {
                    let length = [u8::try_from(envelope.raw.len()).unwrap_or(u8::MAX)];
                    let first: &[u8] = if target == "protobuf_list" { b"\x06\x11" } else { b"\x02\x11\0" };
                    add(name + "-wrapped", &[first, &length].concat(), envelope.raw);
                }
            }
        }
        "protobuf_serde" => {
            for (name, body) in files(shared, ".pb")? {
                let Some((kind, message)) = kind_of(&body) else { continue };
                add(name, &kind.to_le_bytes(), message);
            }
        }
        "gzip" => {
            for (name, body) in files(shared, ".gz")? {
                add(name, b"\0\x11", &body);
            }
            for (name, body) in files(shared, ".jsonl")?.into_iter().filter(|(_, body)| body.len() < 4000) {
                add(name.clone(), b"\x07\x11", &body);
                let mut members = Vec::new();
                for line in body.split_inclusive(|b| *b == b'\n') {
                    let mut encoder = GzEncoder::new(members, Compression::fast());
                    encoder.write_all(line)?;
                    members = encoder.finish()?;
                }
                add(name + "-members", b"\0\x11", &members);
            }
        }
        "trim" => {
            for (n, (name, body)) in files(shared, ".json")?.into_iter().enumerate() {
                add(name, &[TRIMMED[n % TRIMMED.len()].as_bytes(), b"\n"].concat(), &body);
            }
            for (n, (name, body)) in files(shared, ".pb")?.into_iter().enumerate() {
                let Some((kind, message)) = kind_of(&body) else { continue };
                let [low, high] = kind.to_le_bytes();
                let path = TRIMMED[n % TRIMMED.len()];
                add(name, &[path.as_bytes(), &[b'\n', 0, low, high]].concat(), message);
            }
        }
        "selector" => {
            for (n, text) in SELECTORS.iter().enumerate() {
                add(format!("written-{n}"), b"", text.as_bytes());
            }
        }
        "continue_token" => {
            for (n, text) in TOKENS.iter().enumerate() {
                add(format!("written-{n}"), b"\x01\0", text.as_bytes());
            }
            for (name, body) in files(shared, ".json")? {
                let list: Value = serde_json::from_slice(&body).unwrap_or_default();
                if let Some(token) = list["metadata"]["continue"].as_str().filter(|token| !token.is_empty()) {
                    add(name, b"\0\0", token.as_bytes());
                }
            }
        }
        _ => {}
    }
    Ok(seeds)
}

/// The number of an object's kind, and its message.
fn kind_of(body: &[u8]) -> Option<(u16, &[u8])> {
    let envelope = Envelope::parse(body).ok()?;
    let same = |kind: Kind| kind.api_version() == envelope.api_version && kind.kind() == envelope.kind;
    let number = Kind::all().position(same)?;
    Some((u16::try_from(number).ok()?, envelope.raw))
}

const TRIMMED: [&str; 5] =
    ["/metadata/managedFields", "/spec/*/name", "/data/*", "/status", "/spec/template/spec/containers/0"];

const SELECTORS: [&str; 12] = [
    "",
    "a",
    "!a",
    "a=b",
    "a==1,b!=in",
    "a in (b, 1),b notin (,in)",
    "a>1,a<12",
    "example.com/a notin ()",
    "a in (b,,1)",
    "metadata.name=m1,metadata.namespace!=ns",
    r"metadata.name!=a\,b\=c\\",
    "spec.nodeName=x",
];

const TOKENS: [&str; 8] = [
    r#"{"v":"meta.k8s.io/v1","rv":13,"start":"m1\u0000"}"#,
    r#"{"v":"meta.k8s.io/v1","rv":-1,"start":"m3\u0000"}"#,
    r#"{"v":"meta.k8s.io/v1","rv":5,"start":"/m1\u0000"}"#,
    r#"{"v":"meta.k8s.io/v1","rv":1000000,"start":"m1"}"#,
    r#"{"v":"meta.k8s.io/v1","rv":13,"start":"../other/m1"}"#,
    r#"{"v":"meta.k8s.io/v1","rv":13,"start":"./m1/"}"#,
    r#"{"v":"meta.k8s.io/v1","rv":0,"start":""}"#,
    r#"{"v":"meta.k8s.io/v2","rv":9223372036854775807,"start":"\ud800"}"#,
];

/// The files below the three folders whose names end so.
fn files(shared: &Path, end: &str) -> std::io::Result<Vec<(String, Vec<u8>)>> {
    let mut paths: Vec<PathBuf> = Vec::new();
    for folder in ["recordings", "corpus", "api-testdata"] {
        let folder = shared.join(folder);
        if folder.is_dir() {
            for entry in fs::read_dir(folder)? {
                paths.push(entry?.path());
            }
        }
    }
    paths.sort();
    let named = |path: &Path| Some(path.file_name()?.to_str()?.to_owned()).filter(|name| name.ends_with(end));
    paths
        .iter()
        .filter_map(|path| Some((named(path)?, path)))
        .map(|(name, path)| Ok((name, fs::read(path)?)))
        .collect()
}
