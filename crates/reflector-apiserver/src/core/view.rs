//! How one answer writes objects: whole, as metadata only, or as rows of a Table.
//!
//! Whole objects are copied from the stored bytes. Everything else, and the second versions of a resource, is parsed
//! and written anew, object by object.

use std::{borrow::Cow, sync::Arc};

use bytes::Bytes;
use jiff::Timestamp;
use reflector_protobuf::Kind;
use serde_json::{Value, json};

use super::{
    accept::{Format, Media, Transform},
    json,
    object::{self, Object},
    printers, protobuf,
    registry::{Conversion, Resource},
    status::{Outcome, Status},
};

/// What becomes of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    Full,
    /// `PartialObjectMetadata` of this version of meta.k8s.io.
    Metadata(&'static str),
    Table(&'static str, Include),
}

/// `includeObject` of a Table request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Include {
    None,
    Metadata,
    Object,
}

/// The writer of one answer.
#[derive(Debug, Clone)]
pub(super) struct View {
    pub(super) resource: Arc<Resource>,
    pub(super) shape: Shape,
    pub(super) format: Format,
    pub(super) pretty: bool,
    /// For the ages in tables.
    pub(super) now: Timestamp,
}

impl View {
    /// The view of a list or of a single object; each has its own transformation.
    pub(super) fn new(
        resource: &Arc<Resource>,
        media: Media,
        include: Option<&str>,
        list: bool,
        now: Timestamp,
    ) -> Outcome<Self> {
        let shape = match media.transform {
            Transform::None => Shape::Full,
            Transform::Metadata(version) if !list => Shape::Metadata(version),
            Transform::MetadataList(version) if list => Shape::Metadata(version),
            Transform::Metadata(_) => return Err(wrong_transform(resource, true)),
            Transform::MetadataList(_) => return Err(wrong_transform(resource, false)),
            Transform::Table(version) => Shape::Table(version, parse_include(include)?),
        };
        let Media { format, pretty, .. } = media;
        Ok(Self { resource: resource.clone(), shape, format, pretty: pretty && format == Format::Json, now })
    }

    /// The kind that protobuf is written as. Negotiation has left nothing that has none.
    fn message(&self, list: bool) -> Option<Kind> {
        let Resource { kind, list_kind, .. } = &*self.resource;
        match (self.shape, list) {
            (Shape::Full, false) => Kind::find(&self.resource.api_version(), kind),
            (Shape::Full, true) => Kind::find(&self.resource.api_version(), list_kind),
            (Shape::Metadata(version), false) => Kind::find(version, "PartialObjectMetadata"),
            (Shape::Metadata(version), true) => Kind::find(version, "PartialObjectMetadataList"),
            (Shape::Table(..), _) => None,
        }
    }

    /// The document of JSON that stands in `out` from `start` on.
    fn transcode(&self, out: &mut Vec<u8>, start: usize) {
        if self.format == Format::Protobuf {
            let document = self.message(false).map(|kind| protobuf::document(kind, &out[start..]));
            out.truncate(start);
            out.extend_from_slice(&document.unwrap_or_default());
        }
    }

    /// Finishes a document: JSON indented for people, with a newline for programs.
    pub(super) fn finish(&self, out: Vec<u8>) -> Bytes {
        match self.format {
            Format::Json => super::exchange::finish(out, self.pretty),
            Format::Protobuf => out.into(),
        }
    }

    /// The message of one item of a list in protobuf.
    pub(super) fn item_message(&self, object: &Object) -> Vec<u8> {
        if self.is_stored_form() {
            object.message(|| self.make_message(object))
        } else {
            self.make_message(object)
        }
    }

    /// Whether objects are shown as they are stored.
    fn is_stored_form(&self) -> bool {
        self.shape == Shape::Full && self.resource.conversion == Conversion::None
    }

    fn make_message(&self, object: &Object) -> Vec<u8> {
        let mut json = Vec::with_capacity(object.body_len() + 64);
        self.write_item(&mut json, object);
        self.message(false).map(|kind| protobuf::message(kind, &json)).unwrap_or_default()
    }

    /// How long that is, which the object remembers if it can.
    pub(super) fn item_message_len(&self, object: &Object) -> usize {
        if self.is_stored_form() {
            object.message_len(|| self.make_message(object))
        } else {
            self.make_message(object).len()
        }
    }

    /// What stands before the items of a list in protobuf, which are `items` bytes together.
    pub(super) fn open_messages(&self, out: &mut Vec<u8>, metadata: &json::Object, items: u64) {
        if let Some(kind) = self.message(true) {
            protobuf::open_list(kind, metadata, items, out);
        }
    }

    /// A whole list at once.
    pub(super) fn write_list(&self, out: &mut Vec<u8>, metadata: &json::Object, objects: &[Arc<Object>]) {
        if self.format == Format::Protobuf {
            let mut items = Vec::new();
            for object in objects {
                protobuf::write_item(&self.item_message(object), &mut items);
            }
            self.open_messages(out, metadata, items.len() as u64);
            out.extend_from_slice(&items);
            return protobuf::close_list(out);
        }
        self.open_list(out, metadata);
        let mut any = false;
        for object in objects {
            out.extend_from_slice(if any { b"," } else { self.first_item() });
            any = true;
            self.write_item(out, object);
        }
        out.extend_from_slice(if any { b"]" } else { self.no_items() });
        self.close_list(out, metadata);
    }

    /// One object on its own, with kind and apiVersion.
    pub(super) fn write_object(
        &self,
        out: &mut Vec<u8>,
        object: &Object,
        revision: Option<u64>,
        first: bool,
    ) {
        let object = self.convert(object);
        let start = out.len();
        match self.shape {
            Shape::Full => self.write_full(out, &object, revision),
            Shape::Metadata(version) => self.write_partial(out, &object, revision, version),
            Shape::Table(version, include) => {
                let table_revision = revision.unwrap_or(object.revision());
                self.open_table(out, version, &json!({"resourceVersion": table_revision.to_string()}), first);
                self.write_row(out, &object, revision, include, version);
                out.extend_from_slice(b"]}");
            }
        }
        self.transcode(out, start);
    }

    /// One item of a list, or one row, in JSON.
    pub(super) fn write_item(&self, out: &mut Vec<u8>, object: &Object) {
        let object = self.convert(object);
        match self.shape {
            Shape::Full => object.write(out, None),
            Shape::Metadata(version) => self.write_partial(out, &object, None, version),
            Shape::Table(version, include) => self.write_row(out, &object, None, include, version),
        }
    }

    /// What stands before the items in JSON; `metadata` has resourceVersion, continue, remainingItemCount.
    pub(super) fn open_list(&self, out: &mut Vec<u8>, metadata: &json::Object) {
        let (kind, version) = match self.shape {
            Shape::Table(version, _) => return self.open_table(out, version, metadata, true),
            Shape::Metadata(version) => ("PartialObjectMetadataList", Cow::Borrowed(version)),
            Shape::Full => (self.resource.list_kind.as_str(), Cow::Owned(self.resource.api_version())),
        };
        if self.resource.custom && self.shape == Shape::Full {
            out.extend_from_slice(b"{\"apiVersion\":");
            json::write_str(out, &version);
        } else {
            out.extend_from_slice(b"{\"kind\":");
            json::write_str(out, kind);
            out.extend_from_slice(b",\"apiVersion\":");
            json::write_str(out, &version);
            out.extend_from_slice(b",\"metadata\":");
            json::write(out, metadata);
        }
        out.extend_from_slice(b",\"items\":");
    }

    /// What the list of no items has in place of them.
    pub(super) fn no_items(&self) -> &'static [u8] {
        match self.shape {
            Shape::Metadata(_) => b"null",
            Shape::Full => b"[]",
            Shape::Table(..) => b"]",
        }
    }

    /// What stands before the first item, if there is one.
    pub(super) fn first_item(&self) -> &'static [u8] {
        if matches!(self.shape, Shape::Table(..)) { b"" } else { b"[" }
    }

    /// What stands after the items and their closing bracket.
    pub(super) fn close_list(&self, out: &mut Vec<u8>, metadata: &json::Object) {
        if self.resource.custom && self.shape == Shape::Full {
            let text = |name: &str| metadata.get(name).cloned();
            let mut sorted = json::Object::new();
            sorted.insert("continue".into(), text("continue").unwrap_or_else(|| json!("")));
            for name in ["remainingItemCount", "resourceVersion"] {
                if let Some(value) = text(name) {
                    sorted.insert(name.into(), value);
                }
            }
            out.extend_from_slice(b",\"kind\":");
            json::write_str(out, &self.resource.list_kind);
            out.extend_from_slice(b",\"metadata\":");
            json::write(out, &sorted);
        }
        out.extend_from_slice(b"}");
    }

    /// The object of a bookmark: nothing but the version, and the mark at the end of the initial events.
    pub(super) fn write_bookmark(&self, out: &mut Vec<u8>, revision: u64, end: bool, first: bool) {
        let metadata = |sorted: bool| {
            let mut metadata = json::Object::new();
            let version = ("resourceVersion".to_owned(), json!(revision.to_string()));
            let mark = ("annotations".to_owned(), json!({"k8s.io/initial-events-end": "true"}));
            match (end, sorted) {
                (false, _) => metadata.extend([version]),
                (true, true) => metadata.extend([mark, version]),
                (true, false) => metadata.extend([version, mark]),
            }
            metadata
        };
        let start = out.len();
        let Resource { kind, custom, zero, .. } = &*self.resource;
        let version = self.resource.api_version();
        match self.shape {
            Shape::Full if *custom => {
                json::write(out, &json!({"apiVersion": version, "kind": kind, "metadata": metadata(true)}));
            }
            Shape::Full => {
                json::write(out, &json!({"kind": kind, "apiVersion": version, "metadata": metadata(false)}));
                if !zero.is_empty() {
                    out.pop();
                    out.push(b',');
                    out.extend_from_slice(zero.as_bytes());
                    out.push(b'}');
                }
            }
            Shape::Metadata(version) => json::write(out, &partial(version, &metadata(false))),
            Shape::Table(version, include) => {
                self.open_table(out, version, &json!({"resourceVersion": revision.to_string()}), first);
                let cells = printers::cells(&self.resource, &json!({}), self.now);
                // The mark must be found whatever was asked for, so the end bookmark always carries its metadata.
                let object = match include {
                    Include::None if !end => Value::Null,
                    _ => partial(version, &metadata(false)),
                };
                json::write(out, &json!({"cells": cells, "object": object}));
                out.extend_from_slice(b"]}");
            }
        }
        self.transcode(out, start);
    }

    fn write_full(&self, out: &mut Vec<u8>, object: &Object, revision: Option<u64>) {
        if self.resource.custom {
            return object.write(out, revision);
        }
        out.extend_from_slice(b"{\"kind\":");
        json::write_str(out, &self.resource.kind);
        out.extend_from_slice(b",\"apiVersion\":");
        json::write_str(out, &self.resource.api_version());
        let brace = out.len();
        object.write(out, revision);
        out[brace] = b',';
    }

    fn write_partial(&self, out: &mut Vec<u8>, object: &Object, revision: Option<u64>, version: &str) {
        out.extend_from_slice(b"{\"kind\":\"PartialObjectMetadata\",\"apiVersion\":");
        json::write_str(out, version);
        out.extend_from_slice(b",\"metadata\":");
        if self.resource.custom {
            // Stored with sorted keys, but shown as the Go struct that it is here.
            let mut metadata = Vec::new();
            object.write_metadata(&mut metadata, revision);
            let metadata: json::Object = serde_json::from_slice(&metadata).unwrap_or_default();
            json::write(out, &object::order_metadata(&metadata));
        } else {
            object.write_metadata(out, revision);
        }
        out.push(b'}');
    }

    fn open_table(&self, out: &mut Vec<u8>, version: &str, metadata: &impl serde::Serialize, first: bool) {
        out.extend_from_slice(b"{\"kind\":\"Table\",\"apiVersion\":");
        json::write_str(out, version);
        out.extend_from_slice(b",\"metadata\":");
        json::write(out, metadata);
        out.extend_from_slice(b",\"columnDefinitions\":");
        // In a watch only the first event has them.
        let columns = if first { printers::columns(&self.resource) } else { Value::Null };
        json::write(out, &columns);
        out.extend_from_slice(b",\"rows\":[");
    }

    fn write_row(
        &self,
        out: &mut Vec<u8>,
        object: &Object,
        revision: Option<u64>,
        include: Include,
        version: &str,
    ) {
        let value = Value::Object(object.to_value(&self.resource));
        out.extend_from_slice(b"{\"cells\":");
        json::write(out, &printers::cells(&self.resource, &value, self.now));
        out.extend_from_slice(b",\"object\":");
        match include {
            Include::None => out.extend_from_slice(b"null"),
            Include::Metadata => self.write_partial(out, object, revision, version),
            Include::Object => self.write_full(out, object, revision),
        }
        out.push(b'}');
    }

    fn convert<'a>(&self, object: &'a Object) -> Cow<'a, Object> {
        let value = match self.resource.conversion {
            Conversion::None => return Cow::Borrowed(object),
            Conversion::Events => rename_members(object.to_value(&self.resource), |names| names),
            Conversion::ApiVersion => object.to_value(&self.resource),
        };
        Cow::Owned(Object::encode(&self.resource, &value, object.revision()))
    }
}

/// core/v1 Event and events.k8s.io/v1 Event are one thing under two sets of names.
const EVENT_NAMES: [(&str, &str); 7] = [
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
    ("reportingComponent", "reportingController"),
];

/// From the members of a request to those that are stored.
pub(super) fn to_stored(resource: &Resource, value: json::Object) -> json::Object {
    match resource.conversion {
        Conversion::Events => rename_members(value, |(core, new)| (new, core)),
        Conversion::None | Conversion::ApiVersion => value,
    }
}

fn rename_members(
    value: json::Object,
    direction: fn((&'static str, &'static str)) -> (&'static str, &'static str),
) -> json::Object {
    let rename = |(name, member): (String, Value)| {
        let mut names = EVENT_NAMES.into_iter().map(direction);
        match names.find(|(from, _)| *from == name) {
            Some((_, to)) => (to.to_owned(), member),
            None => (name, member),
        }
    };
    value.into_iter().map(rename).collect()
}

fn partial(version: &str, metadata: &json::Object) -> Value {
    json!({"kind": "PartialObjectMetadata", "apiVersion": version, "metadata": metadata})
}

fn parse_include(include: Option<&str>) -> Outcome<Include> {
    match include.unwrap_or_default() {
        "" | "Metadata" => Ok(Include::Metadata),
        "None" => Ok(Include::None),
        "Object" => Ok(Include::Object),
        other => Err(Status::bad_request(format!(
            "Unable to convert to Table as requested: includeObject: Invalid value: \"{other}\": must be 'Metadata', \
             'Object', 'None', or empty"
        ))),
    }
}

/// The name of the type in Go's internal packages, which these messages expose.
fn wrong_transform(resource: &Resource, is_list: bool) -> Box<Status> {
    let package = match resource.group.split('.').next() {
        None | Some("") => "core",
        Some(package) => package,
    };
    let kind = if is_list { &resource.list_kind } else { &resource.kind };
    let go_type = match (resource.custom, is_list) {
        (true, true) => "*unstructured.UnstructuredList".to_owned(),
        (true, false) => "*unstructured.Unstructured".to_owned(),
        (false, _) => format!("*{package}.{kind}"),
    };
    let message = if is_list {
        format!("you requested PartialObjectMetadata, but the requested object is a list ({go_type})")
    } else {
        format!("you requested PartialObjectMetadataList, but the requested object is not a list ({go_type})")
    };
    Status::new(406, "NotAcceptable", message)
}
