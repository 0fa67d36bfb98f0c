//! What is written from JSON is what Go writes, byte for byte.
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "also in what the tests share")]

mod data;

use std::{fs, path::Path};

use reflector_protobuf::{Kind, envelope, from_json, to_vec};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, value::RawValue};

use data::{Pair, corpus, fixtures, objects};

fn check(Pair { name, kind, message: expected, json }: &Pair) {
    let message = from_json(*kind, json).unwrap_or_else(|error| panic!("{name}: {error}"));
    if message != *expected {
        let at = message.iter().zip(expected).take_while(|(a, b)| a == b).count();
        let near = |bytes: &[u8]| bytes[at.saturating_sub(30)..].escape_ascii().to_string();
        panic!("{name} at {at}: {:.80} instead of {:.80}", near(&message), near(expected));
    }
    let value: Value = serde_json::from_slice(json).unwrap();
    assert!(to_vec(*kind, &value).unwrap() == *expected, "{name}");
}

#[test]
fn fixtures_come_out_byte_for_byte() {
    let Some(pairs) = fixtures() else { return };
    pairs.iter().for_each(check);
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/api-testdata");
    for Pair { name, kind, message, .. } in &pairs {
        let body = fs::read(folder.join(format!("{name}.pb"))).unwrap();
        assert!(envelope(*kind, message) == body, "{name}");
    }
    assert_eq!(pairs.len(), 166);
}

#[test]
fn what_a_server_sends_comes_out_byte_for_byte() {
    let Some(pairs) = corpus() else { return };
    pairs.iter().for_each(check);
}

#[test]
fn types_come_out_as_their_json_does() {
    use k8s_openapi::{
        Resource,
        api::{apps::v1::StatefulSet, coordination::v1::Lease, core::v1::Pod, networking::v1::NetworkPolicy},
    };
    fn check<K: Resource + Serialize + DeserializeOwned>(pairs: &[Pair]) {
        let kind = Kind::find(K::API_VERSION, K::KIND).unwrap();
        let pairs: Vec<_> = pairs.iter().filter(|pair| pair.kind == kind).collect();
        assert!(!pairs.is_empty(), "{kind:?}");
        for Pair { name, message, json, .. } in pairs {
            let value: K = serde_json::from_slice(json).unwrap();
            assert!(to_vec(kind, &value).unwrap() == *message, "{name}");
            let raw: &RawValue = serde_json::from_slice(json).unwrap();
            assert!(to_vec(kind, raw).unwrap() == *message, "{name}");
        }
    }
    let Some(pairs) = objects() else { return };
    check::<Pod>(pairs);
    check::<StatefulSet>(pairs);
    check::<Lease>(pairs);
    check::<NetworkPolicy>(pairs);
}
