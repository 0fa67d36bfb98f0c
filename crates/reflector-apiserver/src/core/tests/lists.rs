//! LIST and GET: which state is read, paging, expiry, formats.

use std::time::Duration;

use http::Request;
use serde_json::json;

use super::Rig;
use crate::core::{CoreOptions, token::Token};

const MAPS: &str = "/api/v1/namespaces/ns/configmaps";

#[test]
fn every_mode_reads_the_state_it_names() {
    let mut rig = Rig::with_maps(&["a", "b", "c"]); // 3, 4, 5
    rig.drop_map("a"); // 6
    rig.put("d", json!({})); // 7
    let table: &[(&str, &[&str], u64)] = &[
        ("", &["b", "c", "d"], 7),
        ("?resourceVersion=0", &["b", "c", "d"], 7),
        ("?resourceVersion=0&limit=1", &["b", "c", "d"], 7),
        ("?resourceVersion=4", &["b", "c", "d"], 7),
        ("?resourceVersion=4&resourceVersionMatch=NotOlderThan", &["b", "c", "d"], 7),
        ("?resourceVersion=4&resourceVersionMatch=NotOlderThan&limit=1", &["b"], 7),
        ("?resourceVersion=4&resourceVersionMatch=Exact", &["a", "b"], 4),
        ("?resourceVersion=5&limit=2", &["a", "b"], 5),
        ("?resourceVersion=6&resourceVersionMatch=Exact", &["b", "c"], 6),
        ("?limit=2", &["b", "c"], 7),
        ("?limit=-1", &["b", "c", "d"], 7),
        ("?fieldSelector=metadata.name%3Dc&limit=1", &["c"], 7),
        ("?fieldSelector=metadata.name!%3Dc", &["b", "d"], 7),
    ];
    for (query, names, version) in table {
        let answer = rig.get(&format!("{MAPS}{query}"));
        assert_eq!(
            (answer.code, answer.names(), answer.version()),
            (200, names.iter().map(|n| (*n).to_owned()).collect(), *version),
            "{query}"
        );
    }
    assert_eq!(rig.get("/api/v1/namespaces/nowhere/configmaps").json()["items"], json!([]));
}

#[test]
fn pages_of_one_chain_show_one_state() {
    let mut rig = Rig::with_maps(&["a", "b", "c", "d", "e"]); // 3..=7
    let first = rig.get(&format!("{MAPS}?limit=2"));
    let metadata = &first.json()["metadata"];
    assert_eq!(
        (metadata["remainingItemCount"].as_u64(), first.names()),
        (Some(3), vec!["a".into(), "b".into()])
    );
    let token = metadata["continue"].as_str().unwrap().to_owned();
    assert_eq!(Token::decode(&token), Ok(Token { revision: 7, start: "b\0".into() }));
    rig.drop_map("c");
    rig.put("ca", json!({}));
    let second = rig.get(&format!("{MAPS}?limit=2&continue={token}"));
    assert_eq!((second.names(), second.version()), (vec!["c".into(), "d".into()], 7));
    let last = second.json()["metadata"]["continue"].as_str().unwrap().to_owned();
    let third = rig.get(&format!("{MAPS}?limit=2&continue={last}"));
    assert_eq!((third.names(), third.json()["metadata"].get("continue")), (vec!["e".to_owned()], None));
    let rest = rig.get(&format!("{MAPS}?continue={token}"));
    assert_eq!(rest.names(), ["c", "d", "e"]);
    let newest = Token { revision: -1, start: "b\0".into() }.encode(false);
    let newest = rig.get(&format!("{MAPS}?limit=2&continue={newest}"));
    assert_eq!((newest.names(), newest.version()), (vec!["ca".into(), "d".into()], 9));
}

#[test]
fn selectors_hide_the_remaining_count_and_may_leave_a_page_short() {
    let mut rig = Rig::new();
    for (name, app) in [("a", "x"), ("b", "y"), ("c", "x"), ("d", "y")] {
        rig.put(name, json!({"app": app}));
    }
    let page = rig.get(&format!("{MAPS}?labelSelector=app%3Dx&limit=2"));
    assert_eq!(page.names(), ["a", "c"]);
    assert!(page.json()["metadata"]["continue"].is_string());
    assert_eq!(page.json()["metadata"].get("remainingItemCount"), None);
}

#[test]
fn lists_are_in_the_order_of_one_string() {
    let mut rig = Rig::with(CoreOptions::default());
    for namespace in ["a", "a-b", "b"] {
        rig.core.create("secrets", json!({"metadata": {"name": "s", "namespace": namespace}})).unwrap();
    }
    let list = rig.get("/api/v1/secrets").json();
    let order: Vec<_> =
        list["items"].as_array().unwrap().iter().map(|i| i["metadata"]["namespace"].clone()).collect();
    assert_eq!(order, ["a-b", "a", "b"]);
    let narrowed = rig.get("/api/v1/secrets?fieldSelector=metadata.namespace%3Da&limit=1").json();
    assert_eq!(narrowed["items"].as_array().unwrap().len(), 1);
    let page = rig.get("/api/v1/secrets?limit=1").json();
    let token = Token::decode(page["metadata"]["continue"].as_str().unwrap()).unwrap();
    assert_eq!(token.start, "a-b/s\0");
}

#[test]
fn compacted_states_are_expired() {
    let mut rig = Rig::with_maps(&["a", "b", "c"]);
    let token = Token { revision: 4, start: "a\0".into() }.encode(true);
    rig.core.compact(5);
    let exact = rig.get(&format!("{MAPS}?resourceVersion=4&resourceVersionMatch=Exact"));
    assert_eq!((exact.code, exact.json()["reason"].clone()), (410, json!("Expired")));
    assert_eq!(exact.json()["message"], "The resourceVersion for the provided list is too old.");
    assert_eq!(rig.get(&format!("{MAPS}?resourceVersion=4&limit=1")).code, 410);
    let page = rig.get(&format!("{MAPS}?limit=1&continue={token}"));
    assert_eq!(page.code, 410);
    let inconsistent = page.json()["metadata"]["continue"].as_str().unwrap().to_owned();
    assert_eq!(inconsistent, Token { revision: -1, start: "a\0".into() }.encode(false));
    assert_eq!(rig.get(&format!("{MAPS}?continue={inconsistent}")).names(), ["b", "c"]);
    // What was not compacted, and what names only a lower bound, is still served.
    assert_eq!(rig.get(&format!("{MAPS}?resourceVersion=5&resourceVersionMatch=Exact")).code, 200);
    assert_eq!(rig.get(&format!("{MAPS}?resourceVersion=1")).code, 200);
}

#[test]
fn history_is_bounded() {
    let mut rig = Rig::with(CoreOptions { history: 3, ..CoreOptions::default() });
    for name in ["a", "b", "c", "d", "e"] {
        rig.put(name, json!({})); // 3..=7
    }
    assert_eq!(rig.get(&format!("{MAPS}?resourceVersion=3&resourceVersionMatch=Exact")).code, 410);
    assert_eq!(rig.get(&format!("{MAPS}?resourceVersion=4&resourceVersionMatch=Exact")).names(), ["a", "b"]);
}

#[test]
fn future_versions_are_waited_for() {
    let mut rig = Rig::with_maps(&["a"]);
    for path in [
        format!("{MAPS}?resourceVersion=99"),
        format!("{MAPS}?resourceVersion=99&limit=2"),
        format!("{MAPS}?resourceVersion=99&resourceVersionMatch=Exact"),
        format!("{MAPS}/a?resourceVersion=99"),
    ] {
        let answer = rig.get(&path);
        assert_eq!((answer.code, answer.took), (504, Duration::from_secs(3)), "{path}");
        assert_eq!(answer.headers["retry-after"], "1");
        assert_eq!(answer.json()["message"], "Timeout: Too large resource version: 99, current: 3");
    }
    let id = rig.watch(&format!("{MAPS}?resourceVersion=4"));
    assert_eq!(rig.look(id).head, None);
    rig.put("b", json!({}));
    assert_eq!(rig.look(id).head, Some(200));
}

#[test]
fn a_short_deadline_beats_the_wait() {
    let mut rig = Rig::with_maps(&["a"]);
    let answer = rig.get(&format!("{MAPS}?resourceVersion=99&timeout=1s"));
    assert_eq!((answer.code, answer.took), (504, Duration::from_secs(1)));
    assert_eq!(answer.headers["content-type"], "text/plain; charset=utf-8");
    assert!(answer.body().starts_with(r#"{"metadata":{},"status":"Failure""#));
}

#[test]
fn uncached_resources_follow_etcds_rules() {
    let mut rig = Rig::new();
    for name in ["a", "b", "c"] {
        rig.core
            .create("events", json!({"metadata": {"name": name, "namespace": "ns"}, "reason": "r"}))
            .unwrap();
    }
    let events = "/api/v1/namespaces/ns/events";
    let page = rig.get(&format!("{events}?resourceVersion=0&limit=2"));
    assert_eq!(page.names(), ["a", "b"]);
    let expected = Token { revision: 5, start: "b\0".into() }.encode(false);
    assert_eq!(page.json()["metadata"]["continue"], expected);
    let future = rig.get(&format!("{events}?resourceVersion=99"));
    assert_eq!((future.code, future.took, future.headers.get("retry-after")), (504, Duration::ZERO, None));
    assert_eq!(future.json()["details"].get("retryAfterSeconds"), None);
    let renamed =
        rig.get("/apis/events.k8s.io/v1/namespaces/ns/events?fieldSelector=reason%3Dr&limit=1").json();
    assert_eq!(
        (renamed["kind"].clone(), renamed["items"][0]["reason"].clone()),
        (json!("EventList"), json!("r"))
    );
}

#[test]
fn a_big_list_comes_in_pieces_and_whole() {
    let mut rig = Rig::new();
    let data = "x".repeat(2000);
    for i in 0..200 {
        let object =
            json!({"metadata": {"name": format!("m{i:03}"), "namespace": "ns"}, "data": {"k": data}});
        rig.core.create("configmaps", object).unwrap();
    }
    let list = rig.get(MAPS);
    assert!(list.chunks.len() > 5, "{} pieces", list.chunks.len());
    assert!(list.chunks.iter().all(|c| c.len() < 80_000));
    assert_eq!(list.names().len(), 200);
    let pretty = rig.get(&format!("{MAPS}?pretty=true"));
    assert_eq!(pretty.body(), serde_json::to_string_pretty(&list.json()).unwrap());
    assert_eq!(rig.get(&format!("{MAPS}?limit=150")).names().len(), 150);
}

#[test]
fn metadata_only_lists_have_null_for_nothing() {
    let mut rig = Rig::with_maps(&["a"]);
    let accept = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";
    let list = rig.get_as(MAPS, accept).json();
    assert_eq!(list["kind"], "PartialObjectMetadataList");
    assert_eq!(list["items"][0]["kind"], "PartialObjectMetadata");
    assert_eq!(list["items"][0].get("data"), None);
    let none = rig.get_as(&format!("{MAPS}?labelSelector=no"), accept).body();
    assert_eq!(
        none,
        "{\"kind\":\"PartialObjectMetadataList\",\"apiVersion\":\"meta.k8s.io/v1\",\"metadata\":{\"resourceVersion\":\"3\"},\"items\":null}\n"
    );
    assert_eq!(
        rig.get(&format!("{MAPS}?labelSelector=no")).body(),
        "{\"kind\":\"ConfigMapList\",\"apiVersion\":\"v1\",\"metadata\":{\"resourceVersion\":\"3\"},\"items\":[]}\n"
    );
}

#[test]
fn tables_have_rows() {
    let mut rig = Rig::with_maps(&["a"]);
    rig.now = Duration::from_secs(194);
    let accept = "application/json;as=Table;v=v1;g=meta.k8s.io";
    let table = rig.get_as(MAPS, accept).json();
    assert_eq!(table["rows"][0]["cells"], json!(["a", 1, "3m14s"]));
    assert_eq!(table["rows"][0]["object"]["kind"], "PartialObjectMetadata");
    let whole = rig.get_as(&format!("{MAPS}/a?includeObject=Object"), accept).json();
    assert_eq!(whole["rows"][0]["object"]["kind"], "ConfigMap");
    let none = rig.get_as(&format!("{MAPS}?includeObject=None&labelSelector=no"), accept).json();
    assert_eq!(none["rows"], json!([]));
}

#[test]
fn objects_are_shown_in_the_order_of_their_go_struct() {
    let mut rig = Rig::new();
    let object = json!({"metadata": {"labels": {"b": "1", "a": "2"}, "namespace": "ns", "name": "x", "uid": "u",
        "creationTimestamp": "2026-11-30T16:27:29Z"}, "data": {"z": "<", "y": ""}});
    rig.core.create("configmaps", object).unwrap();
    assert_eq!(
        rig.get(&format!("{MAPS}/x")).body(),
        "{\"kind\":\"ConfigMap\",\"apiVersion\":\"v1\",\"metadata\":{\"name\":\"x\",\"namespace\":\"ns\",\"uid\":\"u\",\"resourceVersion\":\"3\",\"creationTimestamp\":\"2026-11-30T16:27:29Z\",\"labels\":{\"a\":\"2\",\"b\":\"1\"}},\"data\":{\"y\":\"\",\"z\":\"\\u003c\"}}\n"
    );
}

#[test]
fn a_get_of_one_object_ignores_the_options_of_lists() {
    let mut rig = Rig::with_maps(&["a"]);
    let answer = rig.get(&format!("{MAPS}/a?watch=true&limit=x&fieldSelector=metadata.name%3Db"));
    assert_eq!((answer.code, answer.json()["kind"].clone()), (200, json!("ConfigMap")));
    assert_eq!(rig.get(&format!("{MAPS}/a?resourceVersion=abc")).code, 500);
    let head = Request::head(MAPS).body(bytes::Bytes::new()).unwrap();
    assert_eq!(rig.complete(head).code, 405);
}

#[test]
fn a_rewound_store_forgets() {
    let mut rig = Rig::with_maps(&["a", "b"]); // 3, 4
    rig.drop_map("a"); // 5
    rig.put("c", json!({})); // 6
    rig.core.rewind(4).unwrap();
    let list = rig.get(MAPS);
    assert_eq!((list.names(), list.version(), rig.core.revision()), (vec!["a".into(), "b".into()], 4, 4));
    assert_eq!(rig.put("d", json!({})), 5);
    assert_eq!(rig.get(&format!("{MAPS}?resourceVersion=6")).code, 504);
}

#[test]
fn snapshots_outlive_a_compaction_that_the_server_has_not_noticed() {
    let mut rig = Rig::with_maps(&["a", "b"]);
    rig.core.compact_unnoticed(4);
    assert_eq!(rig.get(&format!("{MAPS}?resourceVersion=3&resourceVersionMatch=Exact")).names(), ["a"]);
}

#[test]
fn deprecated_resources_warn_even_when_they_refuse() {
    let mut rig = Rig::new();
    let warning = |answer: super::Answer| answer.headers["warning"].to_str().unwrap().to_owned();
    assert!(warning(rig.get("/api/v1/endpoints")).contains("v1 Endpoints is deprecated"));
    assert!(warning(rig.get("/api/v1/componentstatuses?watch=1")).contains("ComponentStatus is deprecated"));
    assert_eq!(rig.get("/api/v1/componentstatuses").json()["metadata"], json!({}));
}
