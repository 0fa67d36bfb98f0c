//! One stored object: its JSON bytes, serialized once, and the small header that keys, selectors and events need.

use std::{
    ops::Range,
    sync::{Arc, OnceLock},
};

use bytes::Bytes;
use reflector_pack::{Packed, Packer};
use serde_json::Value;

use super::{json, registry::Resource};

/// The members of ObjectMeta in the order of the Go struct.
pub(super) const METADATA_ORDER: [&str; 15] = [
    "name",
    "generateName",
    "namespace",
    "selfLink",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "labels",
    "annotations",
    "ownerReferences",
    "finalizers",
    "managedFields",
];

/// An immutable version of an object, shared by the log, the caches and every answer in flight.
#[derive(Debug, Clone)]
pub(super) struct Object {
    key: Arc<str>,
    name_at: usize,
    uid: Box<str>,
    revision: u64,
    labels: Labels,
    fields: Box<[Box<str>]>,
    body: Stored,
    metadata: Range<u32>,
    version: Range<u32>,
    /// Once somebody asked for it.
    message: OnceLock<Message>,
}

/// Sorted by key. The pods of one application have the same ones, and share them where they were loaded together.
pub(super) type Labels = Arc<[(Box<str>, Box<str>)]>;

/// The bytes of one object.
#[derive(Debug, Clone)]
enum Stored {
    Plain(Bytes),
    /// Of a large collection, with what packs it.
    Packed(Packed, Arc<Packer>),
}

/// What is kept of an object's protobuf.
#[derive(Debug, Clone)]
enum Message {
    /// How long it is: it is made anew each time.
    Length(usize),
    /// All of it, because the collection is large.
    Packed(Packed),
}

/// What an [`Object`] is made of.
pub(super) struct Parts<'a> {
    pub(super) namespace: &'a str,
    pub(super) name: &'a str,
    pub(super) uid: &'a str,
    pub(super) revision: u64,
    pub(super) labels: Labels,
    pub(super) fields: Box<[Box<str>]>,
    pub(super) body: Body,
}

/// The storage key: namespace and name in one string, so that byte order is the order of lists.
pub(super) fn storage_key(namespace: &str, name: &str) -> Arc<str> {
    if namespace.is_empty() { name.into() } else { format!("{namespace}/{name}").into() }
}

impl Object {
    /// Serializes `value` with `revision` as its resourceVersion.
    ///
    /// Built-in objects are stored without kind and apiVersion, as lists show them; custom ones with both and with
    /// sorted keys, as the real server's unstructured codec writes them.
    pub(super) fn encode(resource: &Resource, value: &json::Object, revision: u64) -> Self {
        let empty = json::Object::new();
        let metadata = value.get("metadata").and_then(Value::as_object).unwrap_or(&empty);
        let text = |name: &str| metadata.get(name).and_then(Value::as_str).unwrap_or_default();
        let namespace = if resource.namespaced { text("namespace") } else { "" };
        let mut body = Body::default();
        if resource.custom {
            body.custom(resource, value, metadata, revision);
        } else {
            body.builtin(value, metadata, revision);
        }
        let labels = metadata.get("labels").and_then(Value::as_object);
        let mut labels: Vec<(Box<str>, Box<str>)> = labels
            .into_iter()
            .flatten()
            .map(|(k, v)| (k.as_str().into(), v.as_str().unwrap_or_default().into()))
            .collect();
        labels.sort();
        Self::new(Parts {
            namespace,
            name: text("name"),
            uid: text("uid"),
            revision,
            labels: labels.into(),
            fields: resource.field_values(value),
            body,
        })
    }

    pub(super) fn new(parts: Parts<'_>) -> Self {
        let Parts { namespace, name, uid, revision, labels, fields, body } = parts;
        Self {
            key: storage_key(namespace, name),
            name_at: if namespace.is_empty() { 0 } else { namespace.len() + 1 },
            uid: uid.into(),
            revision,
            labels,
            fields,
            // Without the slack of a growing Vec, which would be kept for as long as the object.
            body: Stored::Plain(body.out.into_boxed_slice().into()),
            metadata: body.metadata,
            version: body.version,
            message: OnceLock::new(),
        }
    }

    /// The same object in less memory.
    pub(super) fn packed(self, packer: &Arc<Packer>) -> Self {
        match &self.body {
            Stored::Plain(bytes) => Self { body: Stored::Packed(packer.pack(bytes), packer.clone()), ..self },
            Stored::Packed(..) => self,
        }
    }

    pub(super) fn key(&self) -> &Arc<str> {
        &self.key
    }

    pub(super) fn name(&self) -> &str {
        &self.key[self.name_at..]
    }

    pub(super) fn namespace(&self) -> &str {
        &self.key[..self.name_at.saturating_sub(1)]
    }

    pub(super) fn uid(&self) -> &str {
        &self.uid
    }

    pub(super) fn revision(&self) -> u64 {
        self.revision
    }

    pub(super) fn label(&self, key: &str) -> Option<&str> {
        let at = self.labels.binary_search_by(|(k, _)| (**k).cmp(key)).ok()?;
        Some(&self.labels[at].1)
    }

    pub(super) fn field(&self, index: usize) -> Option<&str> {
        self.fields.get(index).map(|f| &**f)
    }

    /// The serialized object as stored, unpacked if need be.
    pub(super) fn body(&self) -> Bytes {
        match &self.body {
            Stored::Plain(bytes) => bytes.clone(),
            // What was packed can be unpacked; the empty object is better than a panic if it ever could not.
            Stored::Packed(packed, _) => packed.unpack().map_or(Bytes::from_static(b"{}"), Bytes::from),
        }
    }

    /// How long [`Object::body`] is.
    pub(super) fn body_len(&self) -> usize {
        match &self.body {
            Stored::Plain(bytes) => bytes.len(),
            Stored::Packed(packed, _) => packed.len(),
        }
    }

    /// Its message in protobuf, which `make` makes if it is not kept.
    pub(super) fn message(&self, make: impl FnOnce() -> Vec<u8>) -> Vec<u8> {
        match self.message.get() {
            // As with the body.
            Some(Message::Packed(packed)) => packed.unpack().unwrap_or_default(),
            _ => make(),
        }
    }

    /// How long its message is; `make` makes it the first time.
    pub(super) fn message_len(&self, make: impl FnOnce() -> Vec<u8>) -> usize {
        let message = self.message.get_or_init(|| match &self.body {
            Stored::Plain(_) => Message::Length(make().len()),
            Stored::Packed(_, packer) => Message::Packed(packer.pack(&make())),
        });
        match message {
            Message::Length(length) => *length,
            Message::Packed(packed) => packed.len(),
        }
    }

    /// Appends the stored bytes, with another resourceVersion if `revision` says so.
    pub(super) fn write(&self, out: &mut Vec<u8>, revision: Option<u64>) {
        let body = self.body();
        self.write_range(out, &body, 0..body.len(), revision);
    }

    /// Appends the bytes of `metadata` alone.
    pub(super) fn write_metadata(&self, out: &mut Vec<u8>, revision: Option<u64>) {
        let range = self.metadata.start as usize..self.metadata.end as usize;
        self.write_range(out, &self.body(), range, revision);
    }

    fn write_range(&self, out: &mut Vec<u8>, body: &[u8], range: Range<usize>, revision: Option<u64>) {
        let mut copy = |range| out.extend_from_slice(body.get(range).unwrap_or_default());
        match revision {
            Some(revision) if revision != self.revision => {
                copy(range.start..self.version.start as usize);
                out.extend_from_slice(revision.to_string().as_bytes());
                out.extend_from_slice(body.get(self.version.end as usize..range.end).unwrap_or_default());
            }
            _ => copy(range),
        }
    }

    /// Parses the object, including the kind and apiVersion that built-in ones are stored without.
    pub(super) fn to_value(&self, resource: &Resource) -> json::Object {
        let mut value = json::Object::new();
        value.insert("kind".into(), resource.kind.clone().into());
        value.insert("apiVersion".into(), resource.api_version().into());
        // What `encode` wrote always parses; an empty object is better than a panic if it ever did not.
        let stored: json::Object = serde_json::from_slice(&self.body()).unwrap_or_default();
        value.extend(stored.into_iter().filter(|(k, _)| k != "kind" && k != "apiVersion"));
        value
    }
}

/// The bytes under construction, and where metadata and resourceVersion come to lie in them.
#[derive(Default)]
pub(super) struct Body {
    pub(super) out: Vec<u8>,
    pub(super) metadata: Range<u32>,
    pub(super) version: Range<u32>,
}

impl Body {
    fn builtin(&mut self, value: &json::Object, metadata: &json::Object, revision: u64) {
        self.out.push(b'{');
        let order = METADATA_ORDER.iter().copied().filter(|name| match metadata.get(*name) {
            _ if *name == "resourceVersion" => true,
            None | Some(Value::Null) => false,
            Some(Value::String(text)) => !text.is_empty(),
            Some(Value::Array(items)) => !items.is_empty(),
            Some(Value::Object(members)) => !members.is_empty(),
            Some(_) => true,
        });
        self.metadata(metadata, order, revision);
        for (name, member) in value {
            match (name.as_str(), member) {
                ("kind" | "apiVersion" | "metadata", _) | ("spec" | "status" | "data", Value::Null) => {}
                ("data" | "binaryData" | "stringData", _) => {
                    self.name(name);
                    write_sorted(&mut self.out, member);
                }
                _ => {
                    self.name(name);
                    json::write(&mut self.out, member);
                }
            }
        }
        self.out.push(b'}');
    }

    fn custom(&mut self, resource: &Resource, value: &json::Object, metadata: &json::Object, revision: u64) {
        let mut names: Vec<&str> = value.keys().map(String::as_str).collect();
        names.extend(["apiVersion", "kind", "metadata"]);
        names.sort_unstable();
        names.dedup();
        self.out.push(b'{');
        for name in names {
            match name {
                "apiVersion" => {
                    self.name(name);
                    json::write_str(&mut self.out, &resource.api_version());
                }
                "kind" => {
                    self.name(name);
                    json::write_str(&mut self.out, &resource.kind);
                }
                "metadata" => {
                    let mut members: Vec<&str> = metadata.keys().map(String::as_str).collect();
                    members.push("resourceVersion");
                    members.sort_unstable();
                    members.dedup();
                    self.metadata(metadata, members.into_iter(), revision);
                }
                _ => {
                    self.name(name);
                    write_sorted(&mut self.out, value.get(name).unwrap_or(&Value::Null));
                }
            }
        }
        self.out.push(b'}');
    }

    fn metadata<'a>(&mut self, metadata: &json::Object, order: impl Iterator<Item = &'a str>, revision: u64) {
        self.name("metadata");
        let start = self.here();
        self.out.push(b'{');
        for name in order {
            if name == "resourceVersion" {
                // 0 stands for an object that was never stored: a dry run shows no version.
                if revision > 0 {
                    self.revision(revision);
                }
                continue;
            }
            let Some(member) = metadata.get(name) else {
                continue;
            };
            self.name(name);
            match name {
                "labels" | "annotations" => write_sorted(&mut self.out, member),
                "managedFields" | "ownerReferences" => json::write(&mut self.out, member),
                _ => write_sorted(&mut self.out, member),
            }
        }
        self.out.push(b'}');
        self.metadata = start..self.here();
    }

    /// Writes a member that is a text.
    pub(super) fn member(&mut self, name: &str, text: &str) {
        self.name(name);
        json::write_str(&mut self.out, text);
    }

    /// Writes a member whose value is JSON already.
    pub(super) fn raw(&mut self, name: &str, json: &str) {
        self.name(name);
        self.out.extend_from_slice(json.as_bytes());
    }

    /// Writes resourceVersion, and remembers where.
    pub(super) fn revision(&mut self, revision: u64) {
        self.name("resourceVersion");
        self.out.push(b'"');
        let start = self.here();
        self.out.extend_from_slice(revision.to_string().as_bytes());
        self.version = start..self.here();
        self.out.push(b'"');
    }

    /// Writes the name of a member, and the comma before it where one is due.
    pub(super) fn name(&mut self, name: &str) {
        if self.out.last() != Some(&b'{') {
            self.out.push(b',');
        }
        json::write_str(&mut self.out, name);
        self.out.push(b':');
    }

    pub(super) fn here(&self) -> u32 {
        // Request bodies end at 3 MiB, so that objects stay far below 4 GiB.
        u32::try_from(self.out.len()).unwrap_or(u32::MAX)
    }
}

/// Writes with the keys of all maps sorted, as Go writes maps.
fn write_sorted(out: &mut Vec<u8>, value: &Value) {
    match value {
        Value::Object(members) => {
            let mut members: Vec<_> = members.iter().collect();
            members.sort_unstable_by_key(|(name, _)| *name);
            out.push(b'{');
            for (i, (name, member)) in members.into_iter().enumerate() {
                if i > 0 {
                    out.push(b',');
                }
                json::write_str(out, name);
                out.push(b':');
                write_sorted(out, member);
            }
            out.push(b'}');
        }
        Value::Array(items) => {
            out.push(b'[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.push(b',');
                }
                write_sorted(out, item);
            }
            out.push(b']');
        }
        scalar => json::write(out, scalar),
    }
}

/// Puts the members of ObjectMeta into the order of the Go struct, for custom objects shown as metadata only.
pub(super) fn order_metadata(metadata: &json::Object) -> json::Object {
    METADATA_ORDER
        .iter()
        .filter_map(|name| metadata.get(*name).map(|member| ((*name).to_owned(), member.clone())))
        .collect()
}
