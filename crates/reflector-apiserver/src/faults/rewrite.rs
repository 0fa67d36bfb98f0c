//! Changes to bodies: of documents, of events, and of resource versions wherever they stand. Protobuf is changed by way of
//! its JSON.
//!
//! What cannot be read as what is expected here is passed on as it is: a fault never makes the server fail.

use bytes::Bytes;
use memchr::memmem;
use reflector_protobuf::PREFIX;
use serde::{Deserialize, Serialize};
use serde_json::{Value, value::RawValue};

use crate::core::protobuf;

/// An event of a watch.
#[derive(Debug, Serialize, Deserialize)]
struct Event {
    r#type: String,
    object: Value,
    #[serde(skip)]
    protobuf: bool,
}

impl Event {
    fn read(bytes: &[u8]) -> Option<Self> {
        if bytes.starts_with(b"{") {
            return serde_json::from_slice(bytes).ok();
        }
        let (r#type, object) = protobuf::read_event(bytes)?;
        Some(Self { r#type, object, protobuf: true })
    }

    fn write(&self, original: &Bytes) -> Bytes {
        if self.protobuf {
            return protobuf::write_event(&self.r#type, &self.object).unwrap_or_else(|| original.clone());
        }
        let Ok(mut bytes) = serde_json::to_vec(self) else {
            return original.clone();
        };
        bytes.push(b'\n');
        bytes.into()
    }
}

/// The event that ends a watch with the JSON of a Status.
pub(super) fn error_event(status: &[u8], in_protobuf: bool) -> Bytes {
    let in_protobuf = in_protobuf.then(|| serde_json::from_slice(status).ok()).flatten();
    if let Some(event) = in_protobuf.and_then(|status| protobuf::write_event("ERROR", &status)) {
        return event;
    }
    [b"{\"type\":\"ERROR\",\"object\":", status, b"}\n"].concat().into()
}

/// The event with its object changed.
pub(super) fn event_object(bytes: &Bytes, change: impl FnOnce(&mut Value)) -> Bytes {
    let Some(mut event) = Event::read(bytes) else {
        return bytes.clone();
    };
    change(&mut event.object);
    event.write(bytes)
}

/// The event with another type.
pub(super) fn event_type(bytes: &Bytes, r#type: &str) -> Bytes {
    let Some(mut event) = Event::read(bytes) else {
        return bytes.clone();
    };
    r#type.clone_into(&mut event.r#type);
    event.write(bytes)
}

/// `namespace/name` of the event's object, unless it is a bookmark or an error.
pub(super) fn event_key(bytes: &Bytes) -> Option<String> {
    let event = Event::read(bytes)?;
    if matches!(event.r#type.as_str(), "BOOKMARK" | "ERROR") {
        return None;
    }
    let metadata = &event.object["metadata"];
    let namespace = metadata["namespace"].as_str().unwrap_or_default();
    Some(format!("{namespace}/{}", metadata["name"].as_str()?))
}

/// Is this the bookmark that ends the initial events?
pub(super) fn is_initial_events_end(bytes: &[u8]) -> bool {
    memmem::find(bytes, b"k8s.io/initial-events-end").is_some()
        && memmem::find(&bytes[..bytes.len().min(64)], b"BOOKMARK").is_some()
}

/// Takes the mark off the bookmark.
pub(super) fn unmark(object: &mut Value) {
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.remove("annotations");
    }
}

/// Gives a field a type that no client can decode, and leaves kind, key and version as they are.
pub(super) fn spoil(object: &mut Value) {
    let Some(object) = object.as_object_mut() else {
        return;
    };
    let field = ["spec", "data", "status"].into_iter().find(|field| object.contains_key(*field));
    match field {
        Some(field) => {
            object.insert(field.to_owned(), Value::from("not what the schema says"));
        }
        None => {
            if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
                metadata.insert("labels".to_owned(), Value::from(7));
            }
        }
    }
}

/// Takes away the metadata.
pub(super) fn strip_metadata(object: &mut Value) {
    if let Some(object) = object.as_object_mut() {
        object.remove("metadata");
    }
}

/// A list whose items are not looked into.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct List {
    kind: String,
    api_version: String,
    pub(super) metadata: Value,
    pub(super) items: Option<Vec<Box<RawValue>>>,
}

impl List {
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        serde_json::from_slice(bytes).ok()
    }

    /// Changes one item, counted from 1.
    pub(super) fn change_item(&mut self, n: u64, change: impl FnOnce(&mut Value)) -> Option<()> {
        let index = usize::try_from(n).ok()?.checked_sub(1)?;
        let item = self.items.as_mut()?.get_mut(index)?;
        let mut value: Value = serde_json::from_str(item.get()).ok()?;
        change(&mut value);
        *item = serde_json::value::to_raw_value(&value).ok()?;
        Some(())
    }

    pub(super) fn write(&self, items_first: bool) -> Option<Bytes> {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct ItemsFirst<'a> {
            items: &'a Option<Vec<Box<RawValue>>>,
            api_version: &'a str,
            kind: &'a str,
            metadata: &'a Value,
        }
        let mut bytes = if items_first {
            serde_json::to_vec(&ItemsFirst {
                items: &self.items,
                api_version: &self.api_version,
                kind: &self.kind,
                metadata: &self.metadata,
            })
        } else {
            serde_json::to_vec(self)
        }
        .ok()?;
        bytes.push(b'\n');
        Some(bytes.into())
    }
}

const OPAQUE: &str = "opaque-";

/// Makes every resource version of a body opaque.
pub(super) fn make_opaque(bytes: &Bytes) -> Bytes {
    versions(bytes, |version| {
        (!version.is_empty() && version.bytes().all(|byte| byte.is_ascii_digit()))
            .then(|| format!("{OPAQUE}{version}"))
    })
}

/// Turns opaque versions back into those that the server knows.
pub(super) fn make_transparent(bytes: &Bytes) -> Bytes {
    versions(bytes, |version| version.strip_prefix(OPAQUE).map(str::to_owned))
}

/// The version of a query, turned back.
pub(super) fn transparent_version(version: &str) -> &str {
    version.strip_prefix(OPAQUE).unwrap_or(version)
}

fn versions(bytes: &Bytes, change: impl Fn(&str) -> Option<String>) -> Bytes {
    if bytes.starts_with(&PREFIX) {
        return protobuf::change_document(bytes, |json| versions_in_json(json, change));
    }
    match Event::read(bytes).filter(|event| event.protobuf) {
        None => versions_in_json(bytes, change),
        Some(event) => {
            let object = Bytes::from(event.object.to_string());
            let object = serde_json::from_slice(&versions_in_json(&object, change)).unwrap_or_default();
            Event { object, ..event }.write(bytes)
        }
    }
}

fn versions_in_json(bytes: &Bytes, change: impl Fn(&str) -> Option<String>) -> Bytes {
    const MEMBER: &[u8] = b"\"resourceVersion\":";
    let mut out = Vec::with_capacity(bytes.len() + 64);
    let mut copied = 0;
    for found in memmem::find_iter(bytes, MEMBER) {
        let mut start = found + MEMBER.len();
        // Indented documents have a space here.
        while bytes.get(start) == Some(&b' ') {
            start += 1;
        }
        if bytes.get(start) != Some(&b'"') {
            continue;
        }
        start += 1;
        let Some(length) = memchr::memchr(b'"', &bytes[start..]) else {
            continue;
        };
        let changed = std::str::from_utf8(&bytes[start..start + length]).ok().and_then(&change);
        if let Some(changed) = changed {
            out.extend_from_slice(&bytes[copied..start]);
            out.extend_from_slice(changed.as_bytes());
            copied = start + length;
        }
    }
    if copied == 0 {
        return bytes.clone();
    }
    out.extend_from_slice(&bytes[copied..]);
    out.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_become_opaque_and_come_back() {
        let plain = Bytes::from_static(
            br#"{"metadata":{"resourceVersion":"12"},"items":[{"metadata":{"resourceVersion": "7"}},{"resourceVersion":""}]}"#,
        );
        let opaque = make_opaque(&plain);
        assert!(memmem::find(&opaque, b"\"opaque-12\"").is_some());
        assert!(memmem::find(&opaque, b"\"opaque-7\"").is_some());
        assert_eq!(make_transparent(&opaque), plain);
    }

    #[test]
    fn a_spoiled_event_keeps_its_key_and_version() {
        let event = Bytes::from_static(
            b"{\"type\":\"MODIFIED\",\"object\":{\"kind\":\"Pod\",\"metadata\":{\"name\":\"a\",\"namespace\":\"n\",\"resourceVersion\":\"5\"},\"spec\":{}}}\n",
        );
        let spoiled = event_object(&event, spoil);
        assert_eq!(event_key(&spoiled).as_deref(), Some("n/a"));
        let value: Value = serde_json::from_slice(&spoiled).unwrap();
        assert!(value["object"]["spec"].is_string());
        assert_eq!(value["object"]["metadata"]["resourceVersion"], "5");
    }

    #[test]
    fn events_in_protobuf_are_changed_too() {
        let pod = serde_json::json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "a", "namespace": "n", "resourceVersion": "5"},
            "spec": {"nodeName": "one"},
        });
        let event = protobuf::write_event("MODIFIED", &pod).unwrap();
        assert_eq!(event_key(&event).as_deref(), Some("n/a"));
        let (kind, object) = protobuf::read_event(&event_type(&event, "RELOCATED")).unwrap();
        assert_eq!((kind.as_str(), &object["spec"]["nodeName"]), ("RELOCATED", &Value::from("one")));
        let bare = event_object(&event, strip_metadata);
        let (_, bare) = protobuf::read_event(&bare).unwrap();
        assert_eq!(
            (&bare["metadata"]["name"], &bare["spec"]["nodeName"]),
            (&Value::Null, &Value::from("one"))
        );
        let opaque = make_opaque(&event);
        assert_eq!(protobuf::read_event(&opaque).unwrap().1["metadata"]["resourceVersion"], "opaque-5");
        assert_eq!(make_transparent(&opaque), event);
        // A spoiled one is a whole frame with an object that cannot be read.
        let spoiled = event_object(&event, spoil);
        let length = u32::from_be_bytes(*spoiled.first_chunk().unwrap());
        assert_eq!(length as usize + 4, spoiled.len());
        assert!(memmem::find(&spoiled, b"\x0a\x01a").is_some(), "the name is still there");
        assert!(protobuf::read_event(&spoiled).is_none());
    }

    #[test]
    fn what_is_no_json_passes_unchanged() {
        let bytes = Bytes::from_static(b"\x00\x01\xff");
        assert_eq!(event_object(&bytes, spoil), bytes);
        assert_eq!(make_opaque(&bytes), bytes);
        assert!(List::read(&bytes).is_none());
    }

    #[test]
    fn items_come_first_when_asked() {
        let list =
            List::read(br#"{"kind":"PodList","apiVersion":"v1","metadata":{},"items":[{"a":1}]}"#).unwrap();
        assert!(list.write(true).unwrap().starts_with(b"{\"items\":[{\"a\":1}]"));
    }
}
