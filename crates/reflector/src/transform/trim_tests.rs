//! Trimming, against the definition on decoded values.

use proptest::{collection::vec, prelude::*, sample::select};
use serde_json::{Map, Value, json};

use super::*;

fn trimmed(json: &str, paths: &[&str]) -> Result<String, TransformError> {
    let meta = Object::<Value>::from_json(r#"{"metadata":{"name":"a"}}"#).unwrap().meta().clone();
    let object: Object<Value> =
        Object::new(meta, crate::Encoding::Json, bytes::Bytes::copy_from_slice(json.as_bytes()));
    let trim = paths.iter().fold(Trim::new(), |trim, path| trim.path(path).unwrap());
    trim.transform(object).map(|object| String::from_utf8(object.json().unwrap().to_vec()).unwrap())
}

#[test]
fn commas_stay_right() {
    let table = [
        (r#"{"a":1,"b":2,"c":3}"#, &["/a"][..], r#"{"b":2,"c":3}"#),
        (r#"{"a":1,"b":2,"c":3}"#, &["/b"], r#"{"a":1,"c":3}"#),
        (r#"{"a":1,"b":2,"c":3}"#, &["/c"], r#"{"a":1,"b":2}"#),
        (r#"{"a":1,"b":2,"c":3}"#, &["/a", "/b"], r#"{"c":3}"#),
        (r#"{"a":1,"b":2,"c":3}"#, &["/a", "/c"], r#"{"b":2}"#),
        (r#"{"a":1,"b":2,"c":3}"#, &["/b", "/c"], r#"{"a":1}"#),
        (r#"{"a":1,"b":2,"c":3}"#, &["/a", "/b", "/c"], "{}"),
        (r#"{ "a" : 1 , "b" : 2 }"#, &["/a"], r#"{ "b" : 2 }"#),
        (r#"{ "a" : 1 , "b" : 2 }"#, &["/b"], r#"{ "a" : 1 }"#),
        (r#"{"a":[1,2,3]}"#, &["/a/0"], r#"{"a":[2,3]}"#),
        (r#"{"a":[1,2,3]}"#, &["/a/1", "/a/00", "/a/-"], r#"{"a":[1,3]}"#),
        (r#"{"a":[1,2,3]}"#, &["/a/*"], r#"{"a":[]}"#),
        (r#"{"a":[{"x":1,"y":2},{"x":3}],"b":{"x":4}}"#, &["/a/*/x"], r#"{"a":[{"y":2},{}],"b":{"x":4}}"#),
        (
            r#"{"a":{"x":1,"z":2},"b":{"x":4,"y":1},"c":"x"}"#,
            &["/*/x"],
            r#"{"a":{"z":2},"b":{"y":1},"c":"x"}"#,
        ),
        (r#"{"a":{"b":{"c":1}},"d":1}"#, &["/a/b", "/a/b/c"], r#"{"a":{},"d":1}"#),
        (r#"{"a":",\"a\":","\u0062":{"a":1},"c":1}"#, &["/b", "/c"], r#"{"a":",\"a\":"}"#),
        (r#"{"a":1,"a":2,"b":1}"#, &["/a"], r#"{"b":1}"#),
        (r#"{"a/b":1,"c~":1,"":1,"d":1}"#, &["/a~1b", "/c~0", "/"], r#"{"d":1}"#),
    ];
    for (json, paths, expected) in table {
        assert_eq!(trimmed(json, paths).unwrap(), expected, "{json} {paths:?}");
    }
}

#[test]
fn names_may_be_long_and_escaped() {
    let name = "x".repeat(300);
    let escaped = "\\u0078".repeat(300);
    let json = format!(r#"{{"a":{{"{name}":1,"b":2,"{escaped}":3}}}}"#);
    assert_eq!(trimmed(&json, &[&format!("/a/{name}")]).unwrap(), r#"{"a":{"b":2}}"#);
}

#[test]
fn what_has_nothing_to_trim_is_not_copied() {
    let json = r#"{"metadata":{"name":"a","annotations":{"x":"y"}},"spec":{}}"#;
    let object: Object<Value> = Object::from_json(json).unwrap();
    let trim = Trim::new().managed_fields().last_applied().path("/spec/*").unwrap();
    let same = trim.transform(object.clone()).unwrap();
    assert!(same.ptr_eq(&object));
    let bare = Trim::new().transform(object.clone()).unwrap();
    assert!(bare.ptr_eq(&object));
}

#[test]
fn the_header_stays_and_the_usual_ballast_goes() {
    let json = r#"{"metadata":{"name":"a","namespace":"n","uid":"u","resourceVersion":"7","labels":{"l":"v"},
        "managedFields":[{"manager":"x"}],
        "annotations":{"kubectl.kubernetes.io/last-applied-configuration":"{}"}}}"#;
    let object: Object<Value> = Object::from_json(json).unwrap();
    let trimmed = Trim::new().managed_fields().last_applied().transform(object.clone()).unwrap();
    assert_eq!(trimmed.meta(), object.meta());
    let again: Object<Value> = Object::from_json(trimmed.json().unwrap()).unwrap();
    assert_eq!(again.meta(), object.meta());
    let metadata = &trimmed.get().unwrap()["metadata"];
    assert_eq!((&metadata["annotations"], metadata.get("managedFields")), (&json!({}), None));
}

#[test]
fn a_broken_body_is_an_error() {
    for json in ["", "{", r#"{"a":1,"b""#, r#"{"a":1,}"#, "[]", r#"{"a":1]"#] {
        assert!(trimmed(json, &["/a"]).is_err(), "{json}");
    }
}

/// The definition: what the path leads to is not there any more.
fn without(value: &Value, paths: &[Vec<&str>]) -> Value {
    let rest = |name: &str| -> Vec<Vec<&str>> {
        let led = paths.iter().filter(|path| path.first().is_some_and(|step| *step == "*" || *step == name));
        led.map(|path| path[1..].to_vec()).collect()
    };
    let stays = |rest: &[Vec<&str>]| rest.iter().all(|path| !path.is_empty());
    match value {
        Value::Object(members) => {
            let members = members.iter().map(|(name, value)| (name, value, rest(name)));
            let kept = members.filter(|(_, _, rest)| stays(rest));
            Value::Object(kept.map(|(name, value, rest)| (name.clone(), without(value, &rest))).collect())
        }
        Value::Array(elements) => {
            let elements = elements.iter().enumerate().map(|(i, value)| (value, rest(&i.to_string())));
            elements.filter(|(_, rest)| stays(rest)).map(|(value, rest)| without(value, &rest)).collect()
        }
        other => other.clone(),
    }
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        "[ab\"\\\\{}\\[\\],: \u{e4}]{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 48, 5, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..5).prop_map(Value::from),
            vec(("[a-d]|0|\u{e4}\"", inner), 0..5)
                .prop_map(|members| members.into_iter().collect::<Map<_, _>>().into()),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn trimming_is_removing_the_paths(
        values in vec(value(), 3),
        paths in vec(vec(select(vec!["*", "a", "b", "c", "0", "1"]), 1..4), 0..4),
        pretty: bool,
    ) {
        // All paths begin with a name: with a wildcard they would meet the metadata.
        let paths: Vec<_> = paths.into_iter().map(|mut path| { if path[0] == "*" { path[0] = "a" } path }).collect();
        let body = json!({"a": values[0], "b": values[1], "metadata": {"name": "x", "uid": "u"}, "c": values[2]});
        let json = if pretty { serde_json::to_string_pretty(&body) } else { serde_json::to_string(&body) }.unwrap();
        let object: Object<Value> = Object::from_json(&json).unwrap();
        let trim = paths.iter().fold(Trim::new(), |trim, path| trim.path(&format!("/{}", path.join("/"))).unwrap());
        let trimmed = trim.transform(object.clone()).unwrap();
        let expected = without(&body, &paths);
        let read: Value = serde_json::from_slice(&trimmed.json().unwrap()).unwrap();
        prop_assert_eq!(&read, &expected);
        prop_assert_eq!(trimmed.meta(), object.meta());
        prop_assert_eq!(expected == body, trimmed.ptr_eq(&object));
        if !pretty {
            // Compact stays compact: nothing is left over.
            prop_assert_eq!(trimmed.json().unwrap().len(), read.to_string().len());
        }
    }
}
