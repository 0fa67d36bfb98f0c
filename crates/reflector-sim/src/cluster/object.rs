//! One object of the cluster, and how a server writes it: as JSON or as protobuf, in lists and in events.

use reflector::{ResourceVersion, Uid};
use reflector_protobuf::wire::{self, WireType, write_tag, write_varint};

use crate::plan::Format;

/// Which object: its place in the order of all names there are.
pub(crate) type Key = u8;

/// How many names there are.
pub(crate) const KEYS: Key = 16;

/// The namespace of a key. Namespaces and names are in the order of the keys.
pub(crate) fn namespace(key: Key) -> &'static str {
    if key < KEYS / 2 { "blue" } else { "red" }
}

/// The name of a key.
pub(crate) fn name(key: Key) -> String {
    format!("o{key:02}")
}

/// The key of a name.
pub(crate) fn key_of(name: &str) -> Option<Key> {
    name.strip_prefix('o')?.parse().ok()
}

/// One revision of one object.
#[derive(Debug)]
pub(crate) struct Record {
    pub(crate) key: Key,
    pub(crate) uid: Uid,
    pub(crate) rev: u64,
    pub(crate) version: ResourceVersion,
    /// The number of the write that made it: no two revisions have the same, whatever etcd is restored from.
    pub(crate) write: u64,
    /// Whether the selector selects it.
    pub(crate) selected: bool,
    /// The value of a label.
    pub(crate) tier: u8,
}

impl Record {
    pub(crate) fn new(key: Key, uid: u64, rev: u64, write: u64, selected: bool, tier: u8) -> Self {
        let uid = Uid::new(&format!("00000000-0000-4000-8000-{uid:012x}"));
        Self { key, uid, rev, version: version(rev), write, selected, tier }
    }
}

/// A version as the client sees it.
///
/// # Panics
///
/// Never: a number is a version.
#[expect(clippy::expect_used, reason = "a number is a version")]
pub(crate) fn version(rev: u64) -> ResourceVersion {
    ResourceVersion::new(&rev.to_string()).expect("a number is a version")
}

/// The number that a version is.
pub(crate) fn number(version: &ResourceVersion) -> Option<u64> {
    version.to_string().parse().ok()
}

/// What an event says.
#[derive(Clone, Copy)]
pub(crate) enum Event<'a> {
    /// `ADDED`, `MODIFIED` or `DELETED`, the object, and the version that it is said to have.
    Change(&'static str, &'a Record, u64),
    /// `BOOKMARK`, and whether it ends the initial events.
    Bookmark(u64, bool),
    /// `ERROR`: code, reason and message.
    Error(u16, &'static str, &'static str),
}

/// Writes one event.
pub(crate) fn event(format: Format, event: Event<'_>, out: &mut Vec<u8>) {
    match format {
        Format::Json => json_event(event, out),
        Format::Protobuf => protobuf_event(event, out),
    }
}

/// Writes one page of a list.
pub(crate) fn list<'a>(
    format: Format,
    items: impl Iterator<Item = &'a Record>,
    rev: Option<u64>,
    token: Option<&str>,
) -> Vec<u8> {
    let version = rev.map(|rev| rev.to_string()).unwrap_or_default();
    let token = token.unwrap_or_default();
    match format {
        Format::Json => {
            let mut out = format!(
                r#"{{"kind":"ConfigMapList","apiVersion":"v1","metadata":{{"resourceVersion":"{version}","continue":"{token}"}},"items":["#
            )
            .into_bytes();
            for (i, item) in items.enumerate() {
                if i > 0 {
                    out.push(b',');
                }
                out.push(b'{');
                json_members(item, item.rev, &mut out);
                out.push(b'}');
            }
            out.extend_from_slice(b"]}\n");
            out
        }
        Format::Protobuf => {
            let mut message = Vec::new();
            let mut meta = Vec::new();
            field(2, version.as_bytes(), &mut meta);
            field(3, token.as_bytes(), &mut meta);
            field(1, &meta, &mut message);
            for item in items {
                field(2, &protobuf_object(item, item.rev), &mut message);
            }
            document("ConfigMapList", &message)
        }
    }
}

/// The body of a refusal.
pub(crate) fn status(code: u16, reason: &str, message: &str) -> String {
    format!(
        r#"{{"kind":"Status","apiVersion":"v1","metadata":{{}},"status":"Failure","message":"{message}","reason":"{reason}","code":{code}}}"#
    )
}

fn json_members(record: &Record, rev: u64, out: &mut Vec<u8>) {
    let Record { key, uid, write, tier, .. } = record;
    let app = if record.selected { "in" } else { "out" };
    let text = format!(
        r#""metadata":{{"name":"{}","namespace":"{}","uid":"{uid}","resourceVersion":"{rev}","labels":{{"app":"{app}","tier":"t{tier}"}}}},"data":{{"write":"{write}"}}"#,
        name(*key),
        namespace(*key)
    );
    out.extend_from_slice(text.as_bytes());
}

fn json_event(event: Event<'_>, out: &mut Vec<u8>) {
    let types = r#""kind":"ConfigMap","apiVersion":"v1""#;
    match event {
        Event::Change(kind, record, rev) => {
            out.extend_from_slice(format!(r#"{{"type":"{kind}","object":{{{types},"#).as_bytes());
            json_members(record, rev, out);
            out.extend_from_slice(b"}}\n");
        }
        Event::Bookmark(rev, end) => {
            let end = if end { r#","annotations":{"k8s.io/initial-events-end":"true"}"# } else { "" };
            let text = format!(
                r#"{{"type":"BOOKMARK","object":{{{types},"metadata":{{"resourceVersion":"{rev}"{end}}}}}}}"#
            );
            out.extend_from_slice(text.as_bytes());
            out.push(b'\n');
        }
        Event::Error(code, reason, message) => {
            let status = status(code, reason, message);
            out.extend_from_slice(format!(r#"{{"type":"ERROR","object":{status}}}"#).as_bytes());
            out.push(b'\n');
        }
    }
}

fn protobuf_event(event: Event<'_>, out: &mut Vec<u8>) {
    let (kind, document) = match event {
        Event::Change(kind, record, rev) => (kind, document("ConfigMap", &protobuf_object(record, rev))),
        Event::Bookmark(rev, end) => {
            let mut meta = Vec::new();
            field(6, rev.to_string().as_bytes(), &mut meta);
            if end {
                pair(12, "k8s.io/initial-events-end", "true", &mut meta);
            }
            let mut message = Vec::new();
            field(1, &meta, &mut message);
            ("BOOKMARK", document("ConfigMap", &message))
        }
        Event::Error(code, reason, message) => {
            let mut status = Vec::new();
            field(2, b"Failure", &mut status);
            field(3, message.as_bytes(), &mut status);
            field(4, reason.as_bytes(), &mut status);
            write_tag(6, WireType::Varint, &mut status);
            write_varint(code.into(), &mut status);
            ("ERROR", document("Status", &status))
        }
    };
    let mut object = Vec::new();
    field(1, &document, &mut object);
    let mut frame = Vec::new();
    field(1, kind.as_bytes(), &mut frame);
    field(2, &object, &mut frame);
    out.extend_from_slice(&u32::try_from(frame.len()).unwrap_or(u32::MAX).to_be_bytes());
    out.extend_from_slice(&frame);
}

fn protobuf_object(record: &Record, rev: u64) -> Vec<u8> {
    let mut meta = Vec::new();
    field(1, name(record.key).as_bytes(), &mut meta);
    field(3, namespace(record.key).as_bytes(), &mut meta);
    field(5, record.uid.to_string().as_bytes(), &mut meta);
    field(6, rev.to_string().as_bytes(), &mut meta);
    pair(11, "app", if record.selected { "in" } else { "out" }, &mut meta);
    pair(11, "tier", &format!("t{}", record.tier), &mut meta);
    let mut message = Vec::new();
    field(1, &meta, &mut message);
    pair(2, "write", &record.write.to_string(), &mut message);
    message
}

fn document(kind: &str, message: &[u8]) -> Vec<u8> {
    let mut types = Vec::new();
    field(1, b"v1", &mut types);
    field(2, kind.as_bytes(), &mut types);
    let mut out = reflector_protobuf::PREFIX.to_vec();
    field(1, &types, &mut out);
    field(2, message, &mut out);
    field(3, b"", &mut out);
    field(4, b"", &mut out);
    out
}

fn field(number: u32, value: &[u8], out: &mut Vec<u8>) {
    wire::write_tag(number, WireType::Bytes, out);
    write_varint(value.len() as u64, out);
    out.extend_from_slice(value);
}

fn pair(number: u32, key: &str, value: &str, out: &mut Vec<u8>) {
    let mut entry = Vec::new();
    field(1, key.as_bytes(), &mut entry);
    field(2, value.as_bytes(), &mut entry);
    field(number, &entry, out);
}
