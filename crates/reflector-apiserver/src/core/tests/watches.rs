//! WATCH: start modes, transitions, bookmarks, and the ways in which a watch ends.

use std::time::Duration;

use bytes::Bytes;
use http::Request;
use serde_json::json;

use super::{Look, Rig};
use crate::core::{CoreOptions, Step};

const MAPS: &str = "/api/v1/namespaces/ns/configmaps";
const NO_INITIAL: &str = "sendInitialEvents=false&resourceVersionMatch=NotOlderThan";
const INITIAL: &str = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan";

fn ended(events: &[&str]) -> (Vec<String>, bool) {
    (events.iter().map(|e| (*e).to_owned()).collect(), true)
}

fn running(events: &[&str]) -> (Vec<String>, bool) {
    (events.iter().map(|e| (*e).to_owned()).collect(), false)
}

fn brief(look: &Look) -> (Vec<String>, bool) {
    (look.brief(), look.ended)
}

#[test]
fn modes_a_to_f_begin_as_documented() {
    // Versions: a 3, b 4, a again 5. Then c is created as 6 while the watch runs.
    let table: &[(&str, String, &[&str], &[&str])] = &[
        ("A", "resourceVersion=4".into(), &["MODIFIED a@5"], &["ADDED c@6"]),
        ("A, explicit", format!("resourceVersion=4&{NO_INITIAL}"), &["MODIFIED a@5"], &["ADDED c@6"]),
        ("A, future", "resourceVersion=6".into(), &[], &[]),
        ("B", String::new(), &["ADDED a@5", "ADDED b@4"], &["ADDED c@6"]),
        (
            "B, bookmarks",
            "allowWatchBookmarks=1".into(),
            &["ADDED a@5", "ADDED b@4", "BOOKMARK @5 end"],
            &["ADDED c@6"],
        ),
        ("C", "resourceVersion=0".into(), &["ADDED a@5", "ADDED b@4"], &["ADDED c@6"]),
        (
            "D",
            format!("resourceVersion=3&allowWatchBookmarks=1&{INITIAL}"),
            &["ADDED a@5", "ADDED b@4", "BOOKMARK @5 end"],
            &["ADDED c@6"],
        ),
        ("E", format!("allowWatchBookmarks=1&{NO_INITIAL}"), &[], &["ADDED c@6"]),
        ("F", format!("resourceVersion=0&{NO_INITIAL}"), &[], &["ADDED c@6"]),
    ];
    for (mode, query, first, then) in table {
        let mut rig = Rig::with_maps(&["a", "b"]);
        rig.change("a", json!({}), "2");
        let id = rig.watch(&format!("{MAPS}?watch=1&{query}"));
        let look = rig.look(id);
        assert_eq!((look.head, brief(&look)), (Some(200), running(first)), "{mode}");
        rig.put("c", json!({}));
        assert_eq!(brief(&rig.look(id)), running(then), "{mode}");
    }
}

#[test]
fn a_watch_list_from_the_future_fails_in_the_stream() {
    let mut rig = Rig::with_maps(&["a"]);
    let id = rig.watch(&format!("{MAPS}?watch=1&resourceVersion=99&{INITIAL}"));
    assert_eq!(rig.look(id), Look { until: Some(Duration::from_secs(3)), ..Look::default() });
    rig.now = Duration::from_secs(3);
    let look = rig.look(id);
    assert_eq!((look.head, brief(&look)), (Some(200), ended(&["ERROR 504"])));
    assert_eq!(look.events[0]["object"]["details"]["retryAfterSeconds"], 1);
    // Events have no cache: nobody waits.
    let id = rig.watch(&format!("/api/v1/events?watch=1&resourceVersion=99&{INITIAL}"));
    let look = rig.look(id);
    assert_eq!(brief(&look), ended(&["ERROR 504"]));
    assert!((1..=3).contains(&look.events[0]["object"]["details"]["retryAfterSeconds"].as_u64().unwrap()));
}

#[test]
fn selectors_turn_changes_into_transitions() {
    let mut rig = Rig::new();
    rig.put("tr", json!({"sel": "in"})); // 3
    rig.change("tr", json!({"sel": "in"}), "2"); // 4
    rig.change("tr", json!({"sel": "out"}), "3"); // 5
    rig.change("tr", json!({"sel": "out"}), "4"); // 6
    rig.change("tr", json!({"sel": "in"}), "5"); // 7
    assert_eq!(
        rig.change("tr", json!({"sel": "in"}), "5"),
        7,
        "a write that changes nothing has no revision"
    );
    rig.drop_map("tr"); // 8
    let id = rig.watch(&format!("{MAPS}?watch=1&resourceVersion=2&labelSelector=sel%3Din"));
    let look = rig.look(id);
    let expected = ["ADDED tr@3", "MODIFIED tr@4", "DELETED tr@5", "ADDED tr@7", "DELETED tr@8"];
    assert_eq!(brief(&look), running(&expected));
    // An object that leaves the selector is shown as it was when it still matched.
    assert_eq!(look.events[2]["object"]["data"]["k"], "2");
    assert_eq!(look.events[4]["object"]["data"]["k"], "5");
    let id = rig.watch(&format!("{MAPS}?watch=1&resourceVersion=2&fieldSelector=metadata.name%3Dother"));
    assert_eq!(brief(&rig.look(id)), running(&[]));
}

#[test]
fn namespaces_do_not_leak_into_each_other() {
    let mut rig = Rig::with(CoreOptions::default());
    rig.core.create("configmaps", json!({"metadata": {"name": "x", "namespace": "ns-b"}})).unwrap(); // 3 is the namespace
    let one = rig.watch(&format!("{MAPS}?watch=1&resourceVersion=2"));
    let all = rig.watch("/api/v1/configmaps?watch=1&resourceVersion=2");
    let named = rig.watch("/api/v1/watch/namespaces/ns-b/configmaps/x");
    assert_eq!(brief(&rig.look(one)), running(&[]));
    assert_eq!(brief(&rig.look(all)), running(&["ADDED x@4"]));
    assert_eq!(brief(&rig.look(named)), running(&["ADDED x@4"]));
}

#[test]
fn bookmarks_come_every_minute_and_before_the_deadline_if_there_is_progress() {
    let mut rig = Rig::with_maps(&["a"]);
    let id = rig.watch(&format!("{MAPS}?watch=1&resourceVersion=3&allowWatchBookmarks=1&timeoutSeconds=100"));
    let quiet =
        rig.watch(&format!("{MAPS}?watch=1&resourceVersion=99&allowWatchBookmarks=1&timeoutSeconds=100"));
    let silent = rig.watch(&format!("{MAPS}?watch=1&resourceVersion=3&timeoutSeconds=100"));
    let until = rig.look(id).until.unwrap();
    assert!((60..62).contains(&until.as_secs()), "{until:?}");
    rig.now = until;
    assert_eq!(brief(&rig.look(id)), running(&[]), "no progress, no bookmark");
    rig.core.advance_revision_to(10);
    assert_eq!(rig.look(id).until, Some(Duration::from_secs(98)));
    rig.now = Duration::from_secs(98);
    assert_eq!(brief(&rig.look(id)), running(&["BOOKMARK @10"]));
    rig.now = Duration::from_secs(100);
    assert_eq!(brief(&rig.look(id)), ended(&[]));
    assert_eq!(brief(&rig.look(quiet)), ended(&[]));
    assert_eq!(brief(&rig.look(silent)), ended(&[]));
}

#[test]
fn uncached_resources_get_the_end_bookmark_only() {
    let mut rig = Rig::new();
    rig.core.create("events", json!({"metadata": {"name": "e", "namespace": "ns"}})).unwrap();
    let id = rig.watch("/api/v1/events?watch=1&allowWatchBookmarks=1&timeoutSeconds=300");
    assert_eq!(brief(&rig.look(id)), running(&["ADDED e@3", "BOOKMARK @3 end"]));
    rig.core.advance_revision_to(10);
    rig.now = Duration::from_secs(299);
    assert_eq!(brief(&rig.look(id)), running(&[]));
    rig.core.compact(10);
    let id = rig.watch("/api/v1/events?watch=1&resourceVersion=3");
    let look = rig.look(id);
    assert_eq!(brief(&look), ended(&["ERROR 410"]));
    assert_eq!(look.events[0]["object"]["message"], "The resourceVersion for the provided watch is too old.");
}

#[test]
fn a_watch_lives_as_long_as_it_asked_for() {
    let mut rig = Rig::with_maps(&["a"]);
    let none = rig.watch(&format!("{MAPS}?watch=1&timeoutSeconds=-1&resourceVersion=3"));
    let look = rig.look(none);
    assert_eq!((look.head, brief(&look)), (Some(200), ended(&[])));
    let unset = rig.watch(&format!("{MAPS}?watch=1&timeoutSeconds=0&resourceVersion=3"));
    let until = rig.look(unset).until.unwrap().as_secs();
    assert!((1800..3600).contains(&until), "{until}");
}

#[test]
fn the_window_is_cut_by_history_forgetting_and_restarts() {
    let mut rig = Rig::with(CoreOptions { history: 2, ..CoreOptions::default() });
    for name in ["a", "b", "c"] {
        rig.put(name, json!({})); // 3, 4, 5; 3 is dropped
    }
    let expired = |rig: &mut Rig, version: u64, message: &str| {
        let id = rig.watch(&format!("{MAPS}?watch=1&resourceVersion={version}"));
        let look = rig.look(id);
        assert_eq!((look.head, brief(&look)), (Some(200), ended(&["ERROR 410"])));
        assert_eq!(look.events[0]["object"]["message"], message);
    };
    expired(&mut rig, 2, "too old resource version: 2 (3)");
    let id = rig.watch(&format!("{MAPS}?watch=1&resourceVersion=3"));
    assert_eq!(brief(&rig.look(id)), running(&["ADDED b@4", "ADDED c@5"]));
    rig.core.forget_history("configmaps").unwrap();
    expired(&mut rig, 4, "too old resource version: 4 (5)");
    rig.core.advance_revision_to(9);
    let alive = rig.watch(&format!("{MAPS}?watch=1&resourceVersion=5"));
    assert_eq!(brief(&rig.look(alive)), running(&[]));
    rig.core.restart(rig.now);
    assert_eq!(brief(&rig.look(alive)), ended(&[]));
    expired(&mut rig, 5, "too old resource version: 5 (9)");
    let list = rig.watch(&format!("{MAPS}?watch=1&resourceVersion=5&{INITIAL}"));
    assert_eq!(rig.look(list).events.len(), 3, "a watch-list never expires");
}

#[test]
fn a_slow_reader_loses_the_stream_in_silence() {
    let options =
        CoreOptions { watch_buffer: 2, slow_reader_grace: Duration::from_secs(1), ..CoreOptions::default() };
    let mut rig = Rig::with(options);
    let id = rig.watch(&format!("{MAPS}?watch=1&resourceVersion=2"));
    assert_eq!(rig.look(id).head, Some(200));
    for i in 0..6 {
        rig.put(&format!("m{i}"), json!({}));
    }
    assert!(matches!(rig.core.poll(id, rig.now), crate::core::Step::Data(_)));
    rig.now += Duration::from_secs(2);
    assert_eq!(brief(&rig.look(id)), ended(&[]));
}

#[test]
fn a_reader_overtaken_by_history_loses_the_stream() {
    let mut rig = Rig::with(CoreOptions { history: 3, ..CoreOptions::default() });
    let id = rig.watch(&format!("{MAPS}?watch=1&resourceVersion=2"));
    rig.look(id);
    for i in 0..6 {
        rig.put(&format!("m{i}"), json!({}));
    }
    assert_eq!(brief(&rig.look(id)), ended(&[]));
}

#[test]
fn initial_events_are_a_snapshot() {
    let mut rig = Rig::with_maps(&["a", "b"]);
    let id = rig.watch(&format!("{MAPS}?watch=1&allowWatchBookmarks=1"));
    assert!(matches!(rig.core.poll(id, rig.now), crate::core::Step::Head(_)));
    assert!(matches!(rig.core.poll(id, rig.now), crate::core::Step::Data(_)));
    rig.drop_map("b");
    rig.put("c", json!({}));
    let expected = ["ADDED b@4", "BOOKMARK @4 end", "DELETED b@5", "ADDED c@6"];
    assert_eq!(brief(&rig.look(id)), running(&expected));
}

#[test]
fn bookmarks_show_the_zero_values_of_their_type() {
    let mut rig = Rig::new();
    let id = rig.watch("/api/v1/pods?watch=1&allowWatchBookmarks=1");
    rig.core.poll(id, rig.now);
    let crate::core::Step::Data(data) = rig.core.poll(id, rig.now) else { panic!("a bookmark") };
    assert_eq!(
        String::from_utf8(data.into()).unwrap(),
        "{\"type\":\"BOOKMARK\",\"object\":{\"kind\":\"Pod\",\"apiVersion\":\"v1\",\"metadata\":{\"resourceVersion\":\"2\",\"annotations\":{\"k8s.io/initial-events-end\":\"true\"}},\"spec\":{\"containers\":null},\"status\":{}}}\n"
    );
}

#[test]
fn table_watches_name_their_columns_once() {
    let mut rig = Rig::with_maps(&["a", "b"]);
    let request = http::Request::get(format!("{MAPS}?watch=1&allowWatchBookmarks=1&includeObject=None"))
        .header("accept", "application/json;as=Table;v=v1;g=meta.k8s.io");
    let id = rig.open(request.body(bytes::Bytes::new()).unwrap());
    let events = rig.look(id).events;
    let columns: Vec<_> = events.iter().map(|e| e["object"]["columnDefinitions"].is_array()).collect();
    assert_eq!(columns, [true, false, false]);
    assert_eq!(events[0]["object"]["rows"][0]["object"], json!(null));
    let mark = &events[2]["object"]["rows"][0];
    assert_eq!(mark["cells"], json!(["", 0, "<unknown>"]));
    assert_eq!(mark["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"], "true");
}

#[test]
fn a_watch_for_a_list_of_metadata_ends_before_it_says_anything() {
    let mut rig = Rig::with_maps(&["a"]);
    let accept = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";
    let answer = rig.get_as(&format!("{MAPS}?watch=1"), accept);
    assert_eq!((answer.code, answer.body()), (200, String::new()));
}

#[test]
fn the_largest_version_and_a_late_clock_are_no_trouble() {
    let mut rig = Rig::with_maps(&["a"]);
    rig.now = Duration::from_secs(86_400);
    let max = u64::MAX;
    for path in ["/api/v1/events", MAPS] {
        let id = rig.watch(&format!("{path}?watch=1&resourceVersion={max}&timeoutSeconds={}", i64::MAX));
        assert_eq!(brief(&rig.look(id)), running(&[]));
    }
    let answer = rig.get(&format!("{MAPS}/a?watch=true"));
    assert_eq!(answer.code, 200);
}

#[test]
fn watches_of_one_form_share_the_bytes_of_an_event() {
    let mut rig = Rig::with_maps(&["a"]);
    let open = |rig: &mut Rig, accept: &str| {
        let request =
            Request::get("/api/v1/configmaps?watch=true&resourceVersion=3").header("accept", accept);
        let id = rig.open(request.body(Bytes::new()).unwrap());
        assert!(matches!(rig.core.poll(id, rig.now), Step::Head(_)));
        id
    };
    let metadata = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
    let ids =
        ["application/json", "application/json", metadata, metadata].map(|accept| open(&mut rig, accept));
    rig.change("a", json!({}), "2");
    let [whole, again, partial, partial_again] = ids.map(|id| match rig.core.poll(id, rig.now) {
        Step::Data(data) => data,
        step => panic!("{step:?}"),
    });
    assert_eq!((whole.as_ptr(), partial.as_ptr()), (again.as_ptr(), partial_again.as_ptr()));
    assert_ne!(whole, partial);
}
