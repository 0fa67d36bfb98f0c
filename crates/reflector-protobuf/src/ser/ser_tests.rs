use serde_json::{Value, json};

use super::*;
use crate::{from_slice, schema::Field};

fn kind(api_version: &str, kind: &str) -> Kind {
    Kind::find(api_version, kind).unwrap()
}

/// What is read again of what was written.
fn again(kind: Kind, json: &str) -> Value {
    from_slice(kind, &from_json(kind, json.as_bytes()).unwrap()).unwrap()
}

#[test]
fn fields_are_in_the_order_of_their_numbers_and_zeros_are_written() {
    let class = kind("scheduling.k8s.io/v1", "PriorityClass");
    let message = from_json(class, br#"{"globalDefault":true,"value":-1,"metadata":{"uid":"u"}}"#).unwrap();
    // Name, generateName, namespace, selfLink, uid, resourceVersion, generation, creationTimestamp.
    let meta = b"\x0a\x11\x0a\x00\x12\x00\x1a\x00\x22\x00\x2a\x01u\x32\x00\x38\x00\x42\x00";
    let rest = b"\x10\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x18\x01\x22\x00";
    assert_eq!(message, [&meta[..], rest].concat());
    let service = kind("v1", "Service");
    assert_eq!(
        again(service, r#"{"spec":{"type":"A","ports":[{"port":-1,"name":"n"},null]}}"#)["spec"],
        json!({"type": "A", "ports": [{"name": "n", "port": -1, "targetPort": 0}, {"port": 0, "targetPort": 0}]}),
    );
}

#[test]
fn of_duplicates_the_last_counts() {
    let namespaces = kind("v1", "ConfigMap");
    for (json, expected) in [
        (r#"{"metadata":{"name":"a","name":"b"}}"#, json!({"name": "b"})),
        (r#"{"metadata":{"name":"a","name":null}}"#, json!({})),
        (r#"{"metadata":{"finalizers":["a"],"finalizers":[]}}"#, json!({})),
        (r#"{"metadata":{"labels":{"a":"b"},"name":"x","labels":null}}"#, json!({"name": "x"})),
        (r#"{"metadata":{"labels":{"b":"1","a":"2","b":"3"}}}"#, json!({"labels": {"a": "2", "b": "3"}})),
    ] {
        assert_eq!(again(namespaces, json)["metadata"], expected, "{json}");
    }
    let twice = from_json(namespaces, br#"{"data":{"b":"1","a":"2","b":"3"}}"#).unwrap();
    let once = from_json(namespaces, br#"{"data":{"a":"2","b":"3"}}"#).unwrap();
    assert_eq!(twice, once);
}

#[test]
fn schemas_can_be_other_things() {
    let definition = kind("apiextensions.k8s.io/v1", "CustomResourceDefinition");
    let schema = json!({
        "type": "object",
        "default": {"b": [1, 1.50, "x y"], "a": null},
        "enum": ["a", 1, true],
        "minimum": 0.1,
        "maximum": 5,
        "items": {"type": "string", "items": [{"type": "integer"}, {"format": "int32"}]},
        "additionalProperties": {"type": "boolean", "additionalProperties": false},
        "additionalItems": true,
        "dependencies": {"b": {"title": "t"}, "a": ["c", "d"]},
        "properties": {"z": {"type": "string"}, "y": {"nullable": true}},
    });
    let object = json!({"spec": {"versions": [{"name": "v1", "schema": {"openAPIV3Schema": schema}}]}});
    let read = again(definition, &object.to_string());
    assert_eq!(read["spec"]["versions"][0]["schema"]["openAPIV3Schema"], schema);
}

#[test]
fn times_lose_what_their_type_does_not_have() {
    let lease = kind("coordination.k8s.io/v1", "Lease");
    let read = |time: &str| {
        again(
            lease,
            &json!({"metadata": {"creationTimestamp": time}, "spec": {"renewTime": time}}).to_string(),
        )
    };
    for (text, seconds, micros) in [
        (
            "2024-05-06T07:08:09.123456789+02:00",
            json!("2024-05-06T05:08:09Z"),
            json!("2024-05-06T05:08:09.123456Z"),
        ),
        ("1969-12-31T23:59:59.999999Z", json!("1969-12-31T23:59:59Z"), json!("1969-12-31T23:59:59.999999Z")),
        ("0001-01-01T00:00:00Z", Value::Null, Value::Null),
    ] {
        let read = read(text);
        assert_eq!((&read["metadata"]["creationTimestamp"], &read["spec"]["renewTime"]), (&seconds, &micros));
    }
}

#[test]
fn json_within_stays_as_it_is_but_for_white_space() {
    let revision = kind("apps/v1", "ControllerRevision");
    let json = b"{\"revision\":1,\"data\": { \"b\" : [ 1.50, 2e3,\n\"x \\\" y\\\\\" ],\t\"a\":null } }";
    let message = from_json(revision, json).unwrap();
    let expected = br#"{"b":[1.50,2e3,"x \" y\\"],"a":null}"#;
    assert!(message.windows(expected.len()).any(|window| window == expected), "{}", message.escape_ascii());
    let null = from_json(revision, br#"{"data":null}"#).unwrap();
    assert_eq!(null, from_json(revision, b"{}").unwrap());
}

#[test]
fn errors_say_where() {
    let pod = kind("v1", "Pod");
    for (json, expected) in [
        ("[]", "invalid type: sequence, expected an object"),
        ("", "EOF while parsing a value"),
        ("{} {}", "trailing characters"),
        (
            r#"{"spec":{"containers":[{"name":"a"},{"name":7}]}}"#,
            "spec.containers[1].name: invalid type: integer `7`, expected a string",
        ),
        (
            r#"{"metadata":{"labels":{"a.b/c":true}}}"#,
            r#"metadata.labels["a.b/c"]: invalid type: boolean `true`, expected a string"#,
        ),
        (r#"{"metadata":{"labels":[]}}"#, "metadata.labels: invalid type: sequence, expected a map"),
        (
            r#"{"metadata":{"creationTimestamp":"yesterday"}}"#,
            "metadata.creationTimestamp: invalid value: string \"yesterday\", expected a time as in RFC 3339",
        ),
        (
            r#"{"spec":{"priority":2147483648}}"#,
            "spec.priority: invalid value: integer `2147483648`, expected an integer of 32 bits",
        ),
        (
            r#"{"metadata":{"generation":1.5}}"#,
            "metadata.generation: invalid type: floating point `1.5`, expected an integer of 64 bits",
        ),
    ] {
        let error = from_json(pod, json.as_bytes()).unwrap_err();
        let error = error.to_string();
        assert_eq!(error.rsplit_once(" at line 1 column ").unwrap().0, expected);
    }
    let error = from_json(kind("v1", "Secret"), br#"{"data":{"k":"-"}}"#).unwrap_err();
    assert!(error.to_string().starts_with("data[\"k\"]: invalid value"), "{error}");
}

#[test]
fn deep_json_is_an_error() {
    let definition = kind("apiextensions.k8s.io/v1", "CustomResourceDefinition");
    let deep = r#"{"not":"#.repeat(50_000);
    let json = format!(r#"{{"spec":{{"versions":[{{"schema":{{"openAPIV3Schema":{deep}"#);
    assert!(from_json(definition, json.as_bytes()).unwrap_err().to_string().contains("recursion limit"));
}

/// The place of a field among others is kept in one byte for each message that is embedded.
#[test]
fn rows_fit_into_a_byte() {
    fn depth(message: Message) -> usize {
        let inner = message.fields().filter(|field| field.is_inline()).filter_map(Field::message);
        inner.map(|inner| depth(inner) + 1).max().unwrap_or(0)
    }
    assert!(Message::all().all(|message| message.fields().len() < 255 && depth(message) <= 2));
}
