//! Protobuf, cut in every way: what comes out is what comes out of the JSON of the same objects.

use std::fs;

use proptest::prelude::*;
use reflector::{
    Encoding, Object,
    wire::{EventType, Limits, ListCutter, ListItem, ListMeta, Status, WatchCutter, WatchEvent, WireError},
};
use reflector_protobuf::{Kind, envelope, from_json};
use serde::de::IgnoredAny;
use serde_json::{Value, json};

use crate::common::shared;

type Items = Vec<ListItem<IgnoredAny>>;
type Events = Vec<WatchEvent<IgnoredAny>>;

fn list<'a>(
    chunks: impl IntoIterator<Item = &'a [u8]>,
    limits: Limits,
) -> (Items, Result<ListMeta, WireError>) {
    let mut cutter = ListCutter::protobuf(limits);
    let mut items = Vec::new();
    let failed = chunks.into_iter().try_for_each(|chunk| cutter.push(chunk, &mut items));
    let end = cutter.finish();
    if let Err(error) = failed {
        assert_eq!(end.as_ref().unwrap_err(), &error, "an error was forgotten");
    }
    (items, end)
}

fn watch<'a>(chunks: impl IntoIterator<Item = &'a [u8]>, limits: Limits) -> (Events, Result<(), WireError>) {
    let mut cutter = WatchCutter::protobuf(limits);
    let mut events = Vec::new();
    let failed = chunks.into_iter().try_for_each(|chunk| cutter.push(chunk, &mut events));
    let end = cutter.finish();
    if let Err(error) = failed {
        assert_eq!(end.as_ref().unwrap_err(), &error, "an error was forgotten");
    }
    (events, end)
}

/// Everything that can be told of an object.
fn shown(object: &Object<IgnoredAny>) -> Value {
    let labels: serde_json::Map<_, _> =
        object.labels().iter().map(|(n, v)| (n.to_owned(), v.into())).collect();
    json!([
        object.key().to_string(),
        object.uid().to_string(),
        object.version().map(ToString::to_string),
        labels,
        serde_json::from_slice::<Value>(&object.json().unwrap()).unwrap(),
    ])
}

fn items(items: &Items) -> Vec<Value> {
    let item = |item: &ListItem<IgnoredAny>| match item {
        ListItem::Object(object) => shown(object),
        ListItem::Invalid(invalid) => json!(invalid.to_string()),
    };
    items.iter().map(item).collect()
}

fn events(events: &Events) -> Vec<Value> {
    let event = |event: &WatchEvent<IgnoredAny>| match event {
        WatchEvent::Added(object) => json!(["ADDED", shown(object)]),
        WatchEvent::Modified(object) => json!(["MODIFIED", shown(object)]),
        WatchEvent::Deleted(object) => json!(["DELETED", shown(object)]),
        other => json!(format!("{other:?}")),
    };
    events.iter().map(event).collect()
}

fn kind(api_version: &str, kind: &str) -> Kind {
    Kind::find(api_version, kind).unwrap()
}

/// A small list, as a server sends it.
fn maps() -> Vec<u8> {
    let json = json!({
        "metadata": {"resourceVersion": "9", "continue": "more", "remainingItemCount": 3},
        "items": [
            {"metadata": {"name": "a", "namespace": "n", "uid": "3d59765c-c072-4b2d-aa22-95c9d90a1609",
                "resourceVersion": "7", "labels": {"tier": "web", "app": "cart"}}, "data": {"k": "v"}},
            {"metadata": {"name": "", "namespace": "n", "resourceVersion": "8"}},
            {"metadata": {"name": "b", "resourceVersion": "9"}, "data": {"long": "x".repeat(300)}},
        ],
    });
    let list = kind("v1", "ConfigMapList");
    envelope(list, &from_json(list, json.to_string().as_bytes()).unwrap())
}

fn frame(r#type: &str, object: &[u8]) -> Vec<u8> {
    let field = |number: u8, bytes: &[u8]| {
        let mut field = vec![number << 3 | 2];
        reflector_protobuf::wire::write_varint(bytes.len() as u64, &mut field);
        [field, bytes.to_vec()].concat()
    };
    let event = [field(1, r#type.as_bytes()), field(2, &field(1, object))].concat();
    [&u32::try_from(event.len()).unwrap().to_be_bytes()[..], &event].concat()
}

fn object(api_version: &str, name: &str, json: &Value) -> Vec<u8> {
    let kind = kind(api_version, name);
    envelope(kind, &from_json(kind, json.to_string().as_bytes()).unwrap())
}

fn stream() -> Vec<u8> {
    let map = |name: &str, version: &str| {
        object(
            "v1",
            "ConfigMap",
            &json!({"metadata": {"name": name, "namespace": "n", "resourceVersion": version}}),
        )
    };
    let end = json!({"metadata": {"resourceVersion": "12",
        "annotations": {"k8s.io/initial-events-end": "true"}}});
    let expired = json!({"status": "Failure", "message": "too old", "reason": "Expired", "code": 410});
    [
        frame("ADDED", &map("a", "10")),
        frame("MODIFIED", &map("a", "11")),
        frame("BOOKMARK", &object("v1", "ConfigMap", &end)),
        frame("DELETED", &map("a", "13")),
        frame("DELETED", &map("", "14")),
        frame("SOMETHING", b""),
        frame("ADDED", b"no envelope"),
        frame("ERROR", &object("v1", "Status", &expired)),
    ]
    .concat()
}

#[test]
fn a_list_is_cut_into_its_items() {
    let (found, end) = list([&maps()[..]], Limits::default());
    let ListItem::Object(first) = &found[0] else { panic!("{found:?}") };
    assert_eq!(first.encoding(), Encoding::Protobuf(kind("v1", "ConfigMap")));
    assert_eq!(
        shown(first),
        json!(["n/a", "3d59765c-c072-4b2d-aa22-95c9d90a1609", "7", {"app": "cart", "tier": "web"}, {
            "apiVersion": "v1", "kind": "ConfigMap", "data": {"k": "v"},
            "metadata": {"name": "a", "namespace": "n", "uid": "3d59765c-c072-4b2d-aa22-95c9d90a1609",
                "resourceVersion": "7", "labels": {"tier": "web", "app": "cart"}},
        }])
    );
    let ListItem::Invalid(second) = &found[1] else { panic!("{found:?}") };
    assert_eq!(
        (second.path.as_str(), second.version.as_ref().unwrap().to_string()),
        ("metadata.name", "8".into())
    );
    assert!(matches!(&found[2], ListItem::Object(third) if third.key().to_string() == "b"));
    let end = end.unwrap();
    assert_eq!(end.version.unwrap().to_string(), "9");
    assert_eq!((end.continue_token.as_deref(), end.remaining), (Some("more"), Some(3)));
    assert_eq!(end.types.unwrap().kind, "ConfigMap");
}

#[test]
fn a_stream_is_cut_into_its_events() {
    let (found, end) = watch([&stream()[..]], Limits::default());
    end.unwrap();
    assert!(matches!(&found[0], WatchEvent::Added(object) if object.key().to_string() == "n/a"));
    assert!(
        matches!(&found[1], WatchEvent::Modified(object) if object.version().unwrap().to_string() == "11")
    );
    let WatchEvent::Bookmark { version, initial_events_end: true } = &found[2] else { panic!("{found:?}") };
    assert_eq!(version.as_ref().unwrap().to_string(), "12");
    assert!(matches!(&found[3], WatchEvent::Deleted(_)));
    assert!(matches!(&found[4], WatchEvent::Invalid(invalid) if invalid.path == "metadata.name"));
    assert!(matches!(&found[5], WatchEvent::Unknown(kind) if kind == "SOMETHING"));
    assert!(matches!(&found[6], WatchEvent::Invalid(invalid) if invalid.key.is_none()));
    let WatchEvent::Error(status) = &found[7] else { panic!("{found:?}") };
    assert_eq!((status.code, status.reason.as_str(), status.message.as_str()), (410, "Expired", "too old"));
}

#[test]
fn where_the_bytes_are_cut_means_nothing() {
    let (body, stream) = (maps(), stream());
    let (whole, whole_events) =
        (list([&body[..]], Limits::default()), watch([&stream[..]], Limits::default()));
    let same = |chunks: Vec<&[u8]>| {
        let found = list(chunks, Limits::default());
        assert_eq!((items(&found.0), found.1), (items(&whole.0), whole.1.clone()));
    };
    let same_events = |chunks: Vec<&[u8]>| {
        let found = watch(chunks, Limits::default());
        assert_eq!((events(&found.0), found.1), (events(&whole_events.0), whole_events.1.clone()));
    };
    same(body.chunks(1).collect());
    same_events(stream.chunks(1).collect());
    (0..body.len()).for_each(|at| same(vec![&body[..at], &body[at..]]));
    (0..stream.len()).for_each(|at| same_events(vec![&stream[..at], &stream[at..]]));
}

#[test]
fn a_body_that_ends_too_early_is_told_at_every_byte() {
    let (body, stream) = (maps(), stream());
    for at in 0..body.len() {
        let (found, end) = list([&body[..at]], Limits::default());
        // What follows the list in its envelope are two empty texts, which nobody misses if they are missing whole.
        if at == body.len() - 4 || at == body.len() - 2 {
            assert!(end.is_ok() && found.len() == 3, "{at}: {end:?}");
        } else {
            let offset = at as u64;
            assert_eq!(end, Err(WireError::Truncated { offset, pending: offset, what: "list" }), "{at}");
        }
    }
    let mut ends = vec![0];
    while let Some(&at) = ends.last().filter(|at| **at < stream.len()) {
        let length = u32::from_be_bytes(stream[at..at + 4].try_into().unwrap());
        ends.push(at + 4 + usize::try_from(length).unwrap());
    }
    for at in 0..=stream.len() {
        let (found, end) = watch([&stream[..at]], Limits::default());
        let complete = ends.iter().filter(|end| **end <= at).count() - 1;
        let pending = (at - ends[complete]) as u64;
        let truncated = WireError::Truncated { offset: at as u64, pending, what: "watch event" };
        assert_eq!(end, if pending == 0 { Ok(()) } else { Err(truncated) }, "{at}");
        assert_eq!(found.len(), complete);
    }
}

/// What nobody knows is passed over, wherever it stands, and an object that cannot be kept is told with its place.
#[test]
fn unknown_fields_are_passed_over() {
    let body = maps();
    let unnamed = from_json(
        kind("v1", "ConfigMap"),
        br#"{"metadata": {"name": "", "namespace": "n", "resourceVersion": "8"}}"#,
    )
    .unwrap();
    let prefix = reflector_protobuf::PREFIX.len();
    for unknown in [&b""[..], b"\x4a\x03abc", b"\x4a\x00", b"\x4a\x00\x4a\x01x", b"\x48\x07"] {
        for at in [prefix, body.len()] {
            let body = [&body[..at], unknown, &body[at..]].concat();
            let place = body.windows(unnamed.len()).position(|bytes| bytes == unnamed).unwrap();
            for size in [1, body.len()] {
                let (found, end) = list(body.chunks(size), Limits::default());
                assert!(end.is_ok(), "{unknown:?}, {at}: {end:?}");
                let [ListItem::Object(_), ListItem::Invalid(invalid), ListItem::Object(_)] = &found[..]
                else {
                    panic!("{unknown:?}, {at}: {found:?}");
                };
                assert_eq!((invalid.offset, invalid.bytes), (place as u64, unnamed.len()));
            }
        }
    }
}

/// An object that cannot be kept may still be a deletion.
#[test]
fn an_invalid_object_is_told_with_its_event() {
    let unnamed = object("v1", "ConfigMap", &json!({"metadata": {"resourceVersion": "8"}}));
    for (name, body, event) in [
        ("ADDED", &unnamed[..], EventType::Added),
        ("MODIFIED", &unnamed, EventType::Modified),
        ("DELETED", &unnamed, EventType::Deleted),
        ("BOOKMARK", b"no envelope", EventType::Bookmark),
    ] {
        let (found, _) = watch([&frame(name, body)[..]], Limits::default());
        let [WatchEvent::Invalid(invalid)] = &found[..] else { panic!("{found:?}") };
        assert_eq!(invalid.event, Some(event));
    }
}

/// KEP-3157: the annotation has to be exactly "true".
#[test]
fn only_one_bookmark_ends_the_initial_events() {
    let ends = |annotations: Value| {
        let json = json!({"metadata": {"resourceVersion": "12", "annotations": annotations}});
        let body = frame("BOOKMARK", &object("v1", "ConfigMap", &json));
        let (found, _) = watch([&body[..]], Limits::default());
        let [WatchEvent::Bookmark { initial_events_end, .. }] = found[..] else { panic!("{found:?}") };
        initial_events_end
    };
    assert!(ends(json!({"k8s.io/initial-events-end": "true", "other": "false"})));
    for annotations in [json!(null), json!({"k8s.io/initial-events-end": "True"}), json!({"other": "true"})] {
        assert!(!ends(annotations));
    }
}

#[test]
fn limits_are_kept() {
    let (found, end) = list([&maps()[..]], Limits::default().object_bytes_max(200));
    assert_eq!(found.len(), 2);
    assert!(matches!(end, Err(WireError::TooLarge { name: "object_bytes_max", limit: 200, .. })), "{end:?}");
    let (_, end) = list([&maps()[..]], Limits::default().envelope_bytes_max(20));
    assert!(matches!(end, Err(WireError::TooLarge { name: "envelope_bytes_max", .. })), "{end:?}");
    let (found, end) = watch([&stream()[..]], Limits::default().object_bytes_max(10).envelope_bytes_max(10));
    assert!(found.is_empty() && matches!(end, Err(WireError::TooLarge { limit: 20, .. })), "{end:?}");
    // The length alone is enough to refuse a frame: nothing is waited for, and nothing kept.
    let (_, end) = watch([&[0xff; 4][..]], Limits::default());
    assert!(matches!(end, Err(WireError::TooLarge { .. })), "{end:?}");
}

#[test]
fn what_is_no_list_is_told() {
    let status = json!({"status": "Failure", "message": "go away", "code": 500});
    let (_, end) = list([&object("v1", "Status", &status)[..]], Limits::default());
    let not = WireError::NotAList { kind: "Status".into(), message: "go away".into() };
    assert_eq!(end.unwrap_err(), not);
    let (_, end) = list([&b"{\"kind\":\"PodList\"}"[..]], Limits::default());
    assert!(matches!(end, Err(WireError::Protobuf { offset: 0, .. })), "{end:?}");
    let mut gadgets = maps();
    let at = gadgets.windows(9).position(|w| w == b"ConfigMap").unwrap();
    gadgets[at] = b'X';
    let (_, end) = list([&gadgets[..]], Limits::default());
    assert!(end.unwrap_err().to_string().contains("no protobuf form of v1 XonfigMap is known"));
}

#[test]
fn a_refusal_in_protobuf_is_read() {
    let json = json!({"status": "Failure", "message": "no", "reason": "Forbidden", "code": 403,
        "details": {"name": "a", "kind": "pods", "retryAfterSeconds": 3}});
    let status =
        Status::from_body(403, Some("application/vnd.kubernetes.protobuf"), &object("v1", "Status", &json));
    let same =
        Status::from_body(403, None, json!({"kind": "Status", "apiVersion": "v1"}).to_string().as_bytes());
    assert_eq!((status.code, status.reason.as_str(), status.message.as_str()), (403, "Forbidden", "no"));
    assert_eq!(status.details.retry_after_seconds, Some(3));
    assert_ne!(status, same);
}

/// Lists of a real server, the same at the same version in both formats.
#[test]
fn real_lists_are_the_same_in_both_formats() {
    let Some(folder) = shared("corpus") else { return };
    let names = [
        "apiservices",
        "clusterroles",
        "customresourcedefinitions",
        "flowschemas",
        "namespaces",
        "pods-200",
        "services",
    ];
    for name in names {
        let body = fs::read(folder.join(name).with_extension("pb")).unwrap();
        let json = fs::read(folder.join(name).with_extension("json")).unwrap();
        let mut cutter = ListCutter::<IgnoredAny>::new(None, Limits::default());
        let mut expected = Vec::new();
        cutter.push(&json, &mut expected).unwrap();
        cutter.finish().unwrap();
        for chunk in [1, 7, 4096, usize::MAX] {
            let (found, end) = list(body.chunks(chunk), Limits::default());
            end.unwrap();
            assert_eq!(found.len(), expected.len());
            for (found, expected) in items(&found).iter().zip(items(&expected)) {
                assert!(*found == expected, "{name}: {found} is not {expected}");
            }
        }
    }
}

#[test]
fn a_real_watch_is_the_same_in_both_formats() {
    let Some(folder) = shared("corpus") else { return };
    let body = fs::read(folder.join("pods-churn.pbseq")).unwrap();
    let json = fs::read(folder.join("pods-churn.jsonl")).unwrap();
    let mut cutter = WatchCutter::<IgnoredAny>::new(None, Limits::default());
    let mut expected = Vec::new();
    cutter.push(&json, &mut expected).unwrap();
    let expected = events(&expected);
    for chunk in [1, 7, 4096, usize::MAX] {
        let (found, end) = watch(body.chunks(chunk), Limits::default());
        assert!(end.is_ok() || matches!(end, Err(WireError::Truncated { .. })));
        let found = events(&found);
        let common = found.len().min(expected.len());
        assert!(common > 200);
        (0..common)
            .for_each(|i| assert!(found[i] == expected[i], "{i}: {} is not {}", found[i], expected[i]));
    }
}

proptest! {
    #[test]
    fn damaged_bytes_are_no_panic(at in 0usize..2000, byte in any::<u8>(), cut in 1usize..600) {
        for body in [maps(), stream()] {
            let mut body = body;
            let at = at % body.len();
            body[at] = byte;
            let limits = Limits::default().object_bytes_max(1 << 20);
            let (whole, pieces) = (list([&body[..]], limits), list(body.chunks(cut), limits));
            prop_assert_eq!((whole.0.len(), whole.1), (pieces.0.len(), pieces.1));
            let (whole, pieces) = (watch([&body[..]], limits), watch(body.chunks(cut), limits));
            prop_assert_eq!((whole.0.len(), whole.1), (pieces.0.len(), pieces.1));
            for item in &list([&body[..]], limits).0 {
                if let ListItem::Object(object) = item {
                    let _ = (object.json(), object.decode_as::<Value>());
                }
            }
        }
    }
}
