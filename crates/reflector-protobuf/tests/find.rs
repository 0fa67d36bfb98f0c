//! What is found in protobuf is what the JSON of the same object has.
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "also in what the tests share")]

mod data;

use proptest::{prelude::*, sample::Index};
use reflector_protobuf::{Found, Kind, find, from_json, from_slice};
use serde_json::{Value, json};

use data::{Pair, objects};

/// As one compares it with everything decoded.
fn naive(value: &Value) -> Option<Found<'_>> {
    match value {
        Value::Null => None,
        Value::String(text) => Some(Found::Text(text.into())),
        Value::Bool(_) | Value::Number(_) => Some(Found::Text(value.to_string().into())),
        Value::Array(_) | Value::Object(_) => Some(Found::Other),
    }
}

/// Checks all paths that lead to something in the JSON, and gives how many. The others that are looked for must not be
/// there: one name too far, and each name of the schema that the object does not have.
fn check<'a>(kind: Kind, message: &[u8], value: &'a Value, path: &mut Vec<&'a str>) -> usize {
    assert_eq!(find(kind, message, path).unwrap(), naive(value), "{kind:?} {path:?}");
    let mut count = 1;
    path.push("nothing");
    assert_eq!(find(kind, message, path).unwrap(), None, "{kind:?} {path:?}");
    path.pop();
    if let Value::Object(members) = value {
        for (name, value) in members {
            path.push(name);
            count += check(kind, message, value, path);
            path.pop();
        }
    }
    count
}

#[test]
fn all_paths_of_all_objects() {
    let Some(objects) = objects() else { return };
    let count: usize = objects
        .iter()
        .map(|Pair { kind, json, message, .. }| {
            let value: Value = serde_json::from_slice(json).unwrap();
            for field in kind.message().fields().filter(|field| !field.is_inline()) {
                let name = field.json_name();
                let expected = value.get(name).and_then(naive);
                assert_eq!(find(*kind, message, &[name]).unwrap(), expected, "{kind:?} {name}");
            }
            check(*kind, message, &value, &mut Vec::new())
        })
        .sum();
    assert!(count > 10_000, "{count}");
}

#[test]
fn zeros_that_json_leaves_out_are_not_there() {
    let pod = Kind::find("v1", "Pod").unwrap();
    let json = json!({"spec": {
        "hostNetwork": false, "nodeName": "", "priority": 0, "activeDeadlineSeconds": -1, "enableServiceLinks": false,
    }});
    let message = from_json(pod, json.to_string().as_bytes()).unwrap();
    let spec = |name: &str| match find(pod, &message, &["spec", name]).unwrap() {
        Some(Found::Text(text)) => Some(text.into_owned()),
        None => None,
        Some(other) => panic!("{other:?}"),
    };
    assert_eq!((spec("hostNetwork"), spec("nodeName")), (None, None));
    // These are pointers.
    let pointers = (spec("priority"), spec("activeDeadlineSeconds"), spec("enableServiceLinks"));
    assert_eq!(pointers, (Some("0".into()), Some("-1".into()), Some("false".into())));
}

#[test]
fn what_comes_twice_or_in_another_order() {
    let namespace = Kind::find("v1", "Namespace").unwrap();
    let find = |bytes: &[u8], path: &[&str]| match find(namespace, bytes, path).unwrap() {
        Some(Found::Text(text)) => text.into_owned(),
        other => panic!("{other:?}"),
    };
    // status, then metadata in two parts
    let bytes = b"\x1a\x03\x0a\x01p\x0a\x03\x0a\x01a\x0a\x06\x0a\x01b\x2a\x01u";
    assert_eq!(find(bytes, &["metadata", "name"]), "b");
    assert_eq!(find(bytes, &["metadata", "uid"]), "u");
    assert_eq!(find(bytes, &["status", "phase"]), "p");
    // labels: a=1, b=2, a=3
    let bytes = b"\x0a\x18\x5a\x06\x0a\x01a\x12\x011\x5a\x06\x0a\x01b\x12\x012\x5a\x06\x0a\x01a\x12\x013";
    assert_eq!(find(bytes, &["metadata", "labels", "a"]), "3");
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(bytes: Vec<u8>, which: Index, cut: Index, flip: Index, to: u8) {
        let paths: [&[&str]; 5] =
            [&["metadata", "name"], &["spec", "nodeName"], &["status", "phase"], &["data", "a"], &["metadata", "labels", "a"]];
        let Some(objects) = objects() else { return Ok(()) };
        let Pair { kind, message, .. } = &objects[which.index(objects.len())];
        let mut message = message.clone();
        message.truncate(cut.index(message.len() + 1));
        if !message.is_empty() {
            let at = flip.index(message.len());
            message[at] = to;
        }
        for path in paths {
            let _ = find(*kind, &bytes, path);
            if let (Ok(found), Ok(value)) = (find(*kind, &message, path), from_slice::<Value>(*kind, &message)) {
                let expected = path.iter().try_fold(&value, |value, name| value.get(name));
                prop_assert_eq!(found, expected.and_then(naive));
            }
        }
    }
}
