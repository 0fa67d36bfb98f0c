//! What is read from protobuf equals what is read from the JSON of the same object.
// Helpers outside the test functions are tests too.
#![allow(clippy::unwrap_used, clippy::print_stderr, clippy::needless_pass_by_value)]

mod data;

use reflector_protobuf::{Kind, from_slice, to_json};
use serde_json::Value;

use data::{Pair, corpus, fixtures};

fn differences(a: &Value, b: &Value, path: &str, found: &mut Vec<String>) {
    match (a, b) {
        (Value::Object(a), Value::Object(b)) => {
            let keys: std::collections::BTreeSet<_> = a.keys().chain(b.keys()).collect();
            for key in keys {
                let path = format!("{path}.{key}");
                match (a.get(key), b.get(key)) {
                    (Some(a), Some(b)) => differences(a, b, &path, found),
                    (a, b) => found.push(format!("{path}: {a:?} from protobuf, {b:?} from JSON")),
                }
            }
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            for (i, (a, b)) in a.iter().zip(b).enumerate() {
                differences(a, b, &format!("{path}[{i}]"), found);
            }
        }
        _ if a == b => {}
        _ => found.push(format!("{path}: {a} from protobuf, {b} from JSON")),
    }
}

fn check_values(pair: &Pair) {
    let Pair { name, kind, message, json } = pair;
    let expected: Value = serde_json::from_slice(json).unwrap();
    let mut found = Vec::new();
    let value: Value = from_slice(*kind, message).unwrap_or_else(|error| panic!("{name}: {error:?}"));
    differences(&value, &expected, "", &mut found);
    assert!(found.is_empty(), "{name}: {found:#?}");
    let mut text = Vec::new();
    to_json(*kind, message, &mut text).unwrap();
    let value: Value = serde_json::from_slice(&text).unwrap();
    assert_eq!(value, expected, "{name}");
}

#[test]
fn values_of_the_fixtures_are_equal() {
    let Some(pairs) = fixtures() else { return };
    assert_eq!(pairs.len(), 166);
    pairs.iter().for_each(check_values);
}

#[test]
fn values_of_the_corpus_are_equal() {
    let Some(pairs) = corpus() else { return };
    assert!(pairs.len() > 600, "{}", pairs.len());
    pairs.iter().for_each(check_values);
}

macro_rules! typed {
    ($($path:path),* $(,)?) => {
        /// Compares as each type of `k8s-openapi`; `false` where it has none.
        fn check_typed(pair: &Pair) -> bool {
            use k8s_openapi::Resource;
            $({
                use $path as K;
                if (K::API_VERSION, K::KIND) == (pair.kind.api_version(), pair.kind.kind()) {
                    let found = from_slice::<K>(pair.kind, &pair.message);
                    match serde_json::from_slice::<K>(&pair.json) {
                        Ok(expected) => assert_eq!(found.unwrap(), expected, "{}", pair.name),
                        // k8s-openapi takes no null for a time, in neither format.
                        Err(error) => {
                            assert!(error.to_string().contains("null"), "{}: {error}", pair.name);
                            found.unwrap_err();
                            return false;
                        }
                    }
                    return true;
                }
            })*
            false
        }
    };
}

include!("data/types.in");

#[test]
fn structs_of_the_fixtures_are_equal() {
    let Some(pairs) = fixtures() else { return };
    let typed = pairs.iter().filter(|pair| check_typed(pair)).count();
    assert_eq!(typed, 98);
}

#[test]
fn structs_of_the_corpus_are_equal() {
    let Some(pairs) = corpus() else { return };
    let untyped: Vec<_> =
        pairs.iter().filter(|pair| !check_typed(pair)).map(|pair| pair.name.clone()).collect();
    // Lists are generic there, and partial metadata is no type of it.
    assert!(
        untyped.iter().all(|name| name.starts_with("List ") || name.contains("-metadata")),
        "{untyped:?}"
    );
}

#[test]
fn lists_are_equal() {
    use k8s_openapi::{List, api::core::v1::Pod};
    let Some(pairs) = corpus() else { return };
    let pods = Kind::find("v1", "PodList").unwrap();
    let pair = pairs.iter().find(|pair| pair.kind == pods).unwrap();
    let expected: List<Pod> = serde_json::from_slice(&pair.json).unwrap();
    let found: List<Pod> = from_slice(pods, &pair.message).unwrap();
    assert_eq!(found.items.len(), 200);
    assert_eq!(found, expected);
}
