use serde_json::{Value as Json, json};

use super::*;
use crate::{Kind, from_json, from_slice};

fn kind(api_version: &str, kind: &str) -> Kind {
    Kind::find(api_version, kind).unwrap()
}

fn trimmed(kind: Kind, paths: &[&str], object: &Json) -> Json {
    let trim = Trim::new(kind.message(), paths).unwrap();
    assert_eq!(trim.ignored(), [""; 0], "{paths:?}");
    let mut out = b"before".to_vec();
    trim.trim(&from_json(kind, object.to_string().as_bytes()).unwrap(), &mut out).unwrap();
    from_slice(kind, out.strip_prefix(b"before").unwrap()).unwrap()
}

#[test]
fn paths_that_lead_nowhere_are_ignored() {
    let pod = kind("v1", "Pod").message();
    let nowhere = [
        "/kind",
        "/apiVersion",
        "/metadata/managedfields",
        "/metadata/name/x",
        "/metadata/creationTimestamp/*",
        "/metadata/managedFields/0/fieldsV1/f:spec",
        "/spec/containers/name",
        "/spec/containers/01",
        "/spec/containers/*/resources/limits/cpu/x",
        "/",
    ];
    let trim = Trim::new(pod, nowhere).unwrap();
    assert_eq!(trim.ignored(), nowhere);
    assert!(trim.is_empty());
    let mut out = Vec::new();
    trim.trim(b"anything", &mut out).unwrap();
    assert_eq!(out, b"anything");

    let schema = Message::find("apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps").unwrap();
    let deep = "/not".repeat(MAX_DEPTH.into());
    let deeper = "/not".repeat(100_000);
    assert_eq!(Trim::new(schema, [&deep, &deeper]).unwrap().ignored(), [deeper]);
    // One state for each message and step, not one for each way.
    assert!(Trim::new(schema, ["/*".repeat(60)]).unwrap().states.len() < 1000);
}

#[test]
fn lists_maps_and_embedded_messages_are_entered() {
    let pod = kind("v1", "Pod");
    let object = json!({
        "metadata": {"name": "a", "labels": {"a": "1", "b/c": "2"}, "finalizers": ["x", "y", "z"]},
        "spec": {
            "containers": [{"name": "a", "image": "i", "env": [{"name": "e"}]}, {"name": "b", "image": "j"}],
            "volumes": [{"name": "v", "hostPath": {"path": "/p", "type": "t"}}, {"name": "w", "emptyDir": {}}],
        },
    });
    let paths = [
        "/metadata/labels/b~1c",
        "/metadata/finalizers/1",
        "/metadata/finalizers/5",
        "/spec/containers/*/image",
        "/spec/containers/0/env",
        "/spec/volumes/*/hostPath/type",
        "/spec/volumes/1/emptyDir",
    ];
    let read = trimmed(pod, &paths, &object);
    assert_eq!(read["metadata"]["labels"], json!({"a": "1"}));
    assert_eq!(read["metadata"]["finalizers"], json!(["x", "z"]));
    assert_eq!(
        read["spec"]["containers"],
        json!([{"name": "a", "resources": {}}, {"name": "b", "resources": {}}])
    );
    assert_eq!(read["spec"]["volumes"], json!([{"name": "v", "hostPath": {"path": "/p"}}, {"name": "w"}]));
}

#[test]
fn several_paths_to_one_place_all_hold() {
    let pod = kind("v1", "Pod");
    let object = json!({"spec": {"containers": [
        {"name": "a", "image": "i", "command": ["x"], "args": ["y"]},
        {"name": "b", "image": "j", "command": ["x"], "args": ["y"]},
    ]}});
    let read = trimmed(
        pod,
        &["/spec/containers/*/image", "/spec/containers/1/args", "/*/containers/0/command"],
        &object,
    );
    assert_eq!(
        read["spec"]["containers"],
        json!([
            {"name": "a", "args": ["y"], "resources": {}},
            {"name": "b", "command": ["x"], "resources": {}},
        ])
    );
    let read = trimmed(pod, &["/spec", "/spec/containers/*/image"], &object);
    assert_eq!(read.get("spec"), None);
}

#[test]
fn values_of_maps_and_odd_schemas_are_entered() {
    let definition = kind("apiextensions.k8s.io/v1", "CustomResourceDefinition");
    let schema = json!({
        "properties": {"a": {"title": "t", "type": "x"}, "b": {"title": "t"}},
        "items": [{"title": "t", "type": "x"}, {"title": "u"}],
        "additionalProperties": {"title": "t", "items": {"title": "t", "type": "x"}},
        "dependencies": {"a": {"title": "t", "type": "x"}, "b": ["a", "b"]},
    });
    let object = json!({"spec": {"versions": [{"name": "v", "schema": {"openAPIV3Schema": schema}}]}});
    let paths = [
        "properties/*/title",
        "properties/a/type",
        "items/0/title",
        "items/1",
        "additionalProperties/title",
        "additionalProperties/items/title",
        "dependencies/*/title",
        "dependencies/b/0",
    ];
    let paths = paths.map(|path| format!("/spec/versions/*/schema/openAPIV3Schema/{path}"));
    let read = trimmed(definition, &paths.each_ref().map(String::as_str), &object);
    assert_eq!(
        read["spec"]["versions"][0]["schema"]["openAPIV3Schema"],
        json!({
            "properties": {"a": {}, "b": {}},
            "items": [{"type": "x"}],
            "additionalProperties": {"items": {"type": "x"}},
            "dependencies": {"a": {"type": "x"}, "b": ["b"]},
        })
    );
}

#[test]
fn lengths_shrink_by_as_many_bytes_as_they_need() {
    let config = kind("v1", "ConfigMap");
    let trim = Trim::new(config.message(), ["/metadata/annotations/x"]).unwrap();
    for len in [0, 1, 50, 126, 127, 128, 300, 16_383, 16_384, 40_000] {
        for rest in [0, 1, 100, 130, 20_000] {
            let metadata = json!({"annotations": {"a": "r".repeat(rest), "x": "y".repeat(len)}, "uid": "u"});
            let message = from_json(config, json!({"metadata": metadata}).to_string().as_bytes()).unwrap();
            let metadata = json!({"annotations": {"a": "r".repeat(rest)}, "uid": "u"});
            let expected = from_json(config, json!({"metadata": metadata}).to_string().as_bytes()).unwrap();
            let mut out = Vec::new();
            trim.trim(&message, &mut out).unwrap();
            assert!(out == expected, "{len} {rest}");
        }
    }
}

#[test]
fn errors_say_where_and_leave_nothing() {
    let trim = Trim::new(kind("v1", "Pod").message(), ["/metadata/labels/a", "/metadata/uid"]).unwrap();
    for (bytes, offset) in [
        (&b"\x12\x01a\x0a\x05"[..], 4),
        (b"\x12\x01a\x0a\x02\x0a\x05", 6),
        // A label, which is cut within its key.
        (b"\x12\x01a\x0a\x04\x5a\x02\x0a\x01", 8),
    ] {
        let mut out = b"before".to_vec();
        assert_eq!(trim.trim(bytes, &mut out), Err(WireError::Truncated { offset }), "{bytes:?}");
        assert_eq!(out, b"before");
    }
    // Not looked into.
    let mut out = Vec::new();
    trim.trim(b"\x12\x02\x0a\x05", &mut out).unwrap();
    assert_eq!(out, b"\x12\x02\x0a\x05");
}
