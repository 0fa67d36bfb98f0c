//! Writes and what they refuse, and the events they cause.

use std::time::Duration;

use serde_json::{Value, json};

use super::Rig;
use crate::core::CoreOptions;

const MAPS: &str = "/api/v1/namespaces/ns/configmaps";
const MERGE: &str = "application/merge-patch+json";

#[test]
fn a_created_object_gets_what_the_server_decides() {
    let mut rig = Rig::new();
    let answer = rig.post(MAPS, &json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"generateName": "x-"}, "data": {"a": "b"}}));
    assert_eq!(answer.code, 201);
    let object = answer.json();
    let name = object["metadata"]["name"].as_str().unwrap();
    assert!(name.starts_with("x-") && name.len() == 7, "{name}");
    assert_eq!(object["metadata"]["uid"].as_str().unwrap().len(), 36);
    assert_eq!(object["metadata"]["creationTimestamp"], "1970-01-01T00:00:00Z");
    assert_eq!(object["metadata"]["resourceVersion"], "3");
    assert_eq!(object["metadata"].get("generation"), None);
    let pods = "/api/v1/namespaces/ns/pods";
    let pod = rig.post(
        pods,
        &json!({"metadata": {"name": "p"}, "spec": {"containers": []}, "status": {"phase": "Running"}}),
    );
    assert_eq!(pod.json()["metadata"]["generation"], 1);
    assert_eq!(pod.json()["status"]["phase"], "Pending", "a client does not set the status");
}

#[test]
fn writes_are_refused_for_the_reasons_of_the_real_server() {
    let mut rig = Rig::with_maps(&["a"]);
    let a = format!("{MAPS}/a");
    let json_type = "application/json";
    let table: Vec<(&str, &str, &str, Value, u16, &str)> = vec![
        ("POST", MAPS, json_type, json!({"metadata": {"name": "a"}}), 409, "AlreadyExists"),
        ("POST", MAPS, json_type, json!({"metadata": {}}), 422, "Invalid"),
        ("POST", MAPS, json_type, json!({"metadata": {"name": "x", "namespace": "y"}}), 400, "BadRequest"),
        (
            "POST",
            "/api/v1/namespaces/no/configmaps",
            json_type,
            json!({"metadata": {"name": "x"}}),
            404,
            "NotFound",
        ),
        ("POST", "/api/v1/configmaps", json_type, json!({}), 405, "MethodNotAllowed"),
        ("POST", MAPS, "application/xml", json!({}), 415, "UnsupportedMediaType"),
        ("POST", MAPS, json_type, json!({"kind": "Pod"}), 400, "BadRequest"),
        ("PUT", &a, json_type, json!({"metadata": {"name": "a", "resourceVersion": "1"}}), 409, "Conflict"),
        ("PUT", &a, json_type, json!({"metadata": {"name": "b"}}), 400, "BadRequest"),
        ("PUT", &a, json_type, json!({"metadata": {"name": "a", "uid": "x"}}), 409, "Conflict"),
        ("PATCH", &a, json_type, json!({}), 415, "UnsupportedMediaType"),
        ("PATCH", &a, MERGE, json!({"metadata": {"resourceVersion": "1"}}), 409, "Conflict"),
        ("PATCH", "/api/v1/namespaces/ns/configmaps/no", MERGE, json!({}), 404, "NotFound"),
        ("DELETE", &a, json_type, json!({"preconditions": {"resourceVersion": "1"}}), 409, "Conflict"),
        ("DELETE", &a, json_type, json!({"preconditions": {"uid": "x"}}), 409, "Conflict"),
        ("DELETE", "/api/v1/namespaces", json_type, json!({}), 405, "MethodNotAllowed"),
    ];
    let before = rig.core.revision();
    for (method, path, content_type, body, code, reason) in table {
        let answer = rig.send(method, path, content_type, &body);
        assert_eq!(
            (answer.code, answer.json()["reason"].as_str()),
            (code, Some(reason)),
            "{method} {path} {body}"
        );
    }
    assert_eq!(rig.core.revision(), before);
}

#[test]
fn a_write_that_changes_nothing_leaves_no_trace() {
    let mut rig = Rig::with_maps(&["a"]);
    let patch = rig.send("PATCH", &format!("{MAPS}/a"), MERGE, &json!({"data": {"k": "1"}}));
    assert_eq!((patch.code, rig.core.revision()), (200, 3));
    let object = rig.get(&format!("{MAPS}/a")).json();
    assert_eq!(
        rig.send("PUT", &format!("{MAPS}/a"), "application/json", &object).json()["metadata"]["resourceVersion"],
        "3"
    );
    let dry = rig.send("PATCH", &format!("{MAPS}/a?dryRun=All"), MERGE, &json!({"data": {"k": "2"}}));
    assert_eq!((dry.json()["data"]["k"].clone(), rig.core.revision()), (json!("2"), 3));
    let dry = rig.post(&format!("{MAPS}?dryRun=All"), &json!({"metadata": {"name": "z"}}));
    assert_eq!(
        (dry.code, dry.json()["metadata"].get("resourceVersion"), rig.core.revision()),
        (201, None, 3)
    );
}

#[test]
fn status_and_spec_are_written_apart() {
    let mut rig = Rig::new();
    let path = "/apis/apps/v1/namespaces/ns/deployments";
    rig.post(path, &json!({"metadata": {"name": "d"}, "spec": {"replicas": 1}}));
    let one = format!("{path}/d");
    let status = rig
        .send(
            "PATCH",
            &format!("{one}/status"),
            MERGE,
            &json!({"status": {"replicas": 1}, "spec": {"replicas": 9}}),
        )
        .json();
    assert_eq!(
        (
            status["status"]["replicas"].clone(),
            status["spec"]["replicas"].clone(),
            status["metadata"]["generation"].clone()
        ),
        (json!(1), json!(1), json!(1))
    );
    let main =
        rig.send("PATCH", &one, MERGE, &json!({"status": {"replicas": 7}, "spec": {"replicas": 2}})).json();
    assert_eq!(
        (
            main["status"]["replicas"].clone(),
            main["spec"]["replicas"].clone(),
            main["metadata"]["generation"].clone()
        ),
        (json!(1), json!(2), json!(2))
    );
    let scale = rig.send("PATCH", &format!("{one}/scale"), MERGE, &json!({"spec": {"replicas": 5}})).json();
    assert_eq!((scale["kind"].clone(), scale["spec"]["replicas"].clone()), (json!("Scale"), json!(5)));
    assert_eq!(rig.get(&format!("{one}/scale")).json()["status"]["replicas"], 1);
}

#[test]
fn finalizers_hold_an_object_until_the_last_is_gone() {
    let mut rig = Rig::new();
    let pods = "/api/v1/namespaces/ns/pods";
    rig.post(pods, &json!({"metadata": {"name": "p", "finalizers": ["example.com/hold"]}, "spec": {}})); // 3
    let id = rig.watch(&format!("{pods}?watch=1&resourceVersion=3"));
    let deleted = rig.send("DELETE", &format!("{pods}/p"), "", &Value::Null).json(); // 4
    assert_eq!(deleted["metadata"]["deletionTimestamp"], "1970-01-01T00:00:00Z");
    assert_eq!(
        (
            deleted["metadata"]["generation"].clone(),
            deleted["metadata"]["deletionGracePeriodSeconds"].clone()
        ),
        (json!(2), json!(0))
    );
    rig.send("DELETE", &format!("{pods}/p"), "", &Value::Null);
    let patched =
        rig.send("PATCH", &format!("{pods}/p"), MERGE, &json!({"metadata": {"finalizers": null}})).json(); // 5
    assert_eq!(patched["metadata"]["resourceVersion"], "4", "the answer shows the older version");
    let look = rig.look(id);
    assert_eq!(look.brief(), ["MODIFIED p@4", "DELETED p@5"]);
    assert_eq!(look.events[1]["object"]["metadata"]["finalizers"], json!(["example.com/hold"]));
    assert_eq!(rig.get(&format!("{pods}/p")).code, 404);
}

#[test]
fn pods_may_die_gracefully() {
    let mut rig =
        Rig::with(CoreOptions { graceful_pods: Some(Duration::from_secs(2)), ..CoreOptions::default() });
    let pods = "/api/v1/namespaces/ns/pods";
    rig.post(pods, &json!({"metadata": {"name": "p"}, "spec": {"nodeName": "n"}})); // 3
    let id = rig.watch(&format!("{pods}?watch=1&resourceVersion=3"));
    let deleted = rig.send("DELETE", &format!("{pods}/p"), "", &Value::Null).json();
    assert_eq!(deleted["metadata"]["deletionTimestamp"], "1970-01-01T00:00:30Z");
    let look = rig.look(id);
    assert_eq!((look.brief(), look.until), (vec!["MODIFIED p@4".to_owned()], Some(Duration::from_secs(2))));
    rig.now = Duration::from_secs(2);
    assert_eq!(rig.look(id).brief(), ["DELETED p@5"]);
}

#[test]
fn a_deleted_object_is_told_with_its_uid() {
    let mut rig = Rig::with_maps(&["a"]);
    let uid = rig.core.object("configmaps", "ns", "a").unwrap().uid;
    let answer = rig.send("DELETE", &format!("{MAPS}/a"), "", &Value::Null).json();
    assert_eq!(
        answer,
        json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success",
        "details": {"name": "a", "kind": "configmaps", "uid": uid}})
    );
}

#[test]
fn collections_are_deleted_by_selector() {
    let mut rig = Rig::new();
    for (name, app) in [("a", "x"), ("b", "y"), ("c", "x")] {
        rig.put(name, json!({"app": app}));
    }
    let deleted = rig.send("DELETE", &format!("{MAPS}?labelSelector=app%3Dx"), "", &Value::Null);
    assert_eq!((deleted.code, deleted.names()), (200, vec!["a".into(), "c".into()]));
    assert_eq!(rig.get(MAPS).names(), ["b"]);
}

#[test]
fn a_namespace_takes_its_objects_with_it() {
    let mut rig = Rig::with_maps(&["a", "b"]);
    rig.send("DELETE", "/api/v1/namespaces/ns", "", &Value::Null);
    assert_eq!(rig.core.count("configmaps"), Ok(0));
    assert_eq!(rig.get("/api/v1/namespaces/ns").code, 404);
}

#[test]
fn apply_creates_or_merges() {
    let mut rig = Rig::new();
    let apply = |rig: &mut Rig, body: &Value| {
        rig.send("PATCH", &format!("{MAPS}/a?fieldManager=t"), "application/apply-patch+yaml", body)
    };
    let created = apply(
        &mut rig,
        &json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"x": "1"}}),
    );
    assert_eq!(created.code, 201);
    let merged = apply(&mut rig, &json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"y": "2"}}));
    assert_eq!((merged.code, merged.json()["data"].clone()), (200, json!({"x": "1", "y": "2"})));
}

#[test]
fn unknown_members_are_dropped_with_a_warning() {
    let mut rig = Rig::new();
    let body = json!({"metadata": {"name": "w"}, "bogus": 1, "other": 2});
    let answer = rig.post(&format!("{MAPS}?fieldValidation=Warn"), &body);
    let warnings: Vec<_> =
        answer.headers.get_all("warning").iter().map(|w| w.to_str().unwrap().to_owned()).collect();
    assert_eq!(warnings, [r#"299 - "unknown field \"bogus\"""#, r#"299 - "unknown field \"other\"""#]);
    assert_eq!(answer.json().get("bogus"), None);
    assert_eq!(rig.post(&format!("{MAPS}?fieldValidation=Strict"), &body).code, 400);
}

#[test]
fn lenient_namespaces_come_into_being() {
    let mut rig = Rig::with(CoreOptions::default());
    assert_eq!(rig.post("/api/v1/namespaces/new/configmaps", &json!({"metadata": {"name": "x"}})).code, 201);
    assert_eq!(rig.get("/api/v1/namespaces/new").json()["status"]["phase"], "Active");
}

#[test]
fn the_same_seed_gives_the_same_server() {
    let body = |seed| {
        let mut rig = Rig::with(CoreOptions { seed, ..CoreOptions::default() });
        rig.post(MAPS, &json!({"metadata": {"generateName": "x-"}})).body()
    };
    assert_eq!(body(7), body(7));
    assert_ne!(body(7), body(8));
}
