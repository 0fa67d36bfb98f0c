//! Protobuf: documents, the envelope of a list that is written piece by piece, and the frames of a watch.
//!
//! Objects are stored as JSON, and their messages are made of it when they are asked for.

use bytes::Bytes;
use reflector_protobuf::{
    Envelope, Kind, PREFIX, from_json,
    wire::{self, Fields},
};
use serde_json::{Value, json};

use super::{
    json,
    status::{Outcome, Status},
};

/// The tag of a field whose values have a length.
const fn tag(field: u8) -> u8 {
    field << 3 | 2
}

/// What follows the object in an envelope: content encoding and content type, both empty.
const ENVELOPE_END: [u8; 4] = [tag(3), 0, tag(4), 0];

/// The message of an object.
///
/// Types are not checked when an object is stored: one with a value that its type does not have is empty here.
pub(super) fn message(kind: Kind, json: &[u8]) -> Vec<u8> {
    from_json(kind, json).unwrap_or_default()
}

/// The document of an object: its message in an envelope.
pub(super) fn document(kind: Kind, json: &[u8]) -> Vec<u8> {
    reflector_protobuf::envelope(kind, &message(kind, json))
}

/// The document of a Status.
pub(super) fn status(status: &Status) -> Vec<u8> {
    Kind::find("v1", "Status").map_or_else(Vec::new, |kind| document(kind, &json::to_vec(&status.to_json())))
}

fn bytes(field: u8, value: &[u8], out: &mut Vec<u8>) {
    out.push(tag(field));
    wire::write_varint(value.len() as u64, out);
    out.extend_from_slice(value);
}

/// How long an item is in its list.
pub(super) fn item_len(message: usize) -> u64 {
    1 + wire::varint_len(message as u64) as u64 + message as u64
}

/// Appends one item of a list.
pub(super) fn write_item(message: &[u8], out: &mut Vec<u8>) {
    bytes(2, message, out);
}

/// What stands before the items of a list, which are `items` bytes together: the envelope begins with the length of all.
pub(super) fn open_list(kind: Kind, metadata: &json::Object, items: u64, out: &mut Vec<u8>) {
    let head = message(kind, &json::to_vec(&json!({"metadata": metadata})));
    out.extend_from_slice(&PREFIX);
    let mut types = Vec::new();
    bytes(1, kind.api_version().as_bytes(), &mut types);
    bytes(2, kind.kind().as_bytes(), &mut types);
    bytes(1, &types, out);
    out.push(tag(2));
    wire::write_varint(head.len() as u64 + items, out);
    out.extend_from_slice(&head);
}

/// What stands after the items of a list.
pub(super) fn close_list(out: &mut Vec<u8>) {
    out.extend_from_slice(&ENVELOPE_END);
}

/// One frame of a watch: its length, then a `WatchEvent` with a document.
pub(crate) fn event(kind: &str, document: &[u8]) -> Bytes {
    let mut object = Vec::with_capacity(document.len() + 8);
    bytes(1, document, &mut object);
    let mut out = Vec::with_capacity(object.len() + kind.len() + 16);
    out.extend_from_slice(&[0; 4]);
    bytes(1, kind.as_bytes(), &mut out);
    bytes(2, &object, &mut out);
    // Objects end at 3 MiB.
    let length = u32::try_from(out.len() - 4).unwrap_or(u32::MAX);
    out[..4].copy_from_slice(&length.to_be_bytes());
    out.into()
}

/// The type and the object of a frame; `None` of what is none.
pub(crate) fn read_event(frame: &[u8]) -> Option<(String, Value)> {
    let (mut kind, mut object) = (None, None);
    for field in Fields::new(frame.get(4..)?) {
        let field = field.ok()?;
        match (field.number, field.value) {
            (1, wire::Value::Bytes(text)) => kind = String::from_utf8(text.to_vec()).ok(),
            (2, wire::Value::Bytes(raw)) => {
                if let wire::Value::Bytes(document) = Fields::new(raw).next()?.ok()?.value {
                    object = serde_json::from_slice(&to_json(document, None).ok()?).ok();
                }
            }
            _ => {}
        }
    }
    Some((kind?, object?))
}

/// The frame of an event with any object.
pub(crate) fn write_event(kind: &str, object: &Value) -> Option<Bytes> {
    disturbed(object).map(|document| event(kind, &document))
}

/// A document whose JSON was changed in whatever way. One without change stays as it is.
pub(crate) fn change_document(document: &Bytes, change: impl FnOnce(&Bytes) -> Bytes) -> Bytes {
    let changed = to_json(document, None).ok().and_then(|json| {
        let json = Bytes::from(json);
        let changed = change(&json);
        if changed == json { None } else { disturbed(&serde_json::from_slice(&changed).ok()?) }
    });
    changed.map_or_else(|| document.clone(), Bytes::from)
}

/// The document of an object that somebody changed. One that its type does not fit any more has its metadata, and then
/// ends in the middle of a field.
fn disturbed(object: &Value) -> Option<Vec<u8>> {
    let kind = Kind::find(json::text_at(object, &["apiVersion"]), json::text_at(object, &["kind"]))?;
    let message = from_json(kind, &json::to_vec(object)).unwrap_or_else(|_| {
        let mut cut = message(kind, &json::to_vec(&json!({"metadata": object.get("metadata")})));
        cut.extend_from_slice(&[tag(2), 0x7f]);
        cut
    });
    Some(reflector_protobuf::envelope(kind, &message))
}

/// The JSON of a document in a request, with kind and apiVersion. `default` is the kind of one that does not say its own.
pub(super) fn to_json(document: &[u8], default: Option<Kind>) -> Outcome<Vec<u8>> {
    let refuse = |error: &dyn std::fmt::Display| {
        Status::bad_request(format!("the object provided is unrecognized: {error}"))
    };
    let envelope = Envelope::parse(document).map_err(|error| refuse(&error))?;
    let kind = match (envelope.api_version, envelope.kind) {
        ("", "") => default,
        (api_version, kind) => Kind::find(api_version, kind),
    };
    let kind = kind.ok_or_else(|| {
        Status::bad_request(format!(
            "no kind \"{}\" is registered for version \"{}\"",
            envelope.kind, envelope.api_version
        ))
    })?;
    let mut out = Vec::with_capacity(envelope.raw.len() * 2);
    reflector_protobuf::to_json(kind, envelope.raw, &mut out).map_err(|error| refuse(&error))?;
    Ok(out)
}

/// The JSON of `meta/v1.DeleteOptions`, which is no object and in every group: as far as the server heeds it.
pub(super) fn delete_options(document: &[u8]) -> Outcome<Value> {
    let refuse = |error: &dyn std::fmt::Display| Status::bad_request(error.to_string());
    let envelope = Envelope::parse(document).map_err(|error| refuse(&error))?;
    let text = |bytes: &[u8]| json!(String::from_utf8_lossy(bytes));
    let mut options = json!({});
    for field in Fields::new(envelope.raw) {
        let field = field.map_err(|error| refuse(&error))?;
        match (field.number, field.value) {
            (1, wire::Value::Varint(seconds)) => options["gracePeriodSeconds"] = json!(seconds.cast_signed()),
            (2, wire::Value::Bytes(preconditions)) => {
                for field in Fields::new(preconditions) {
                    let field = field.map_err(|error| refuse(&error))?;
                    match (field.number, field.value) {
                        (1, wire::Value::Bytes(uid)) => options["preconditions"]["uid"] = text(uid),
                        (2, wire::Value::Bytes(version)) => {
                            options["preconditions"]["resourceVersion"] = text(version);
                        }
                        _ => {}
                    }
                }
            }
            (5, wire::Value::Bytes(dry_run)) => options["dryRun"] = json!([text(dry_run)]),
            _ => {}
        }
    }
    Ok(options)
}
