use serde_json::json;

use super::Rig;
use crate::{
    core::{Core, CoreOptions, OperatorError},
    seed::{Cluster, ClusterOptions},
};

/// Enough for a dictionary, and for objects packed with it.
const PODS: usize = 700;
const ALL: &str = "/api/v1/pods";

fn cluster(pods: usize) -> Cluster {
    Cluster::new(ClusterOptions { pods, seed: 5, ..ClusterOptions::default() })
}

fn loaded(pods: usize) -> Rig {
    let mut rig = Rig::with(CoreOptions::default());
    rig.core.load("pods", cluster(pods).pods().map(|pod| pod.json)).unwrap();
    rig
}

#[test]
fn what_is_loaded_is_the_same_as_what_is_created() {
    let mut core = Rig::with(CoreOptions::default()).core;
    for pod in cluster(PODS).pods() {
        core.create("pods", serde_json::from_str(&pod.json).unwrap()).unwrap();
    }
    let loaded = loaded(PODS).core;
    let brief = loaded.objects_without_bodies("pods").unwrap();
    let (created, loaded) = (core.objects("pods").unwrap(), loaded.objects("pods").unwrap());
    assert_eq!((created.len(), brief.len()), (PODS, PODS));
    assert!(brief.iter().zip(&loaded).all(|(a, b)| a.revision == b.revision && a.body.is_empty()));
    for (created, loaded) in created.iter().zip(&loaded) {
        assert!(created == loaded, "{}/{} differs", created.namespace, created.name);
    }
    assert_eq!(created.len(), loaded.len());
}

#[test]
fn selectors_find_what_is_loaded() {
    let mut rig = loaded(PODS);
    let items = |rig: &mut Rig, query: &str| {
        rig.get(&format!("{ALL}?{query}")).json()["items"].as_array().unwrap().clone()
    };
    let on_node = items(&mut rig, "fieldSelector=spec.nodeName=node-0003");
    assert!(!on_node.is_empty() && on_node.len() < PODS / 2);
    assert!(on_node.iter().all(|pod| pod["spec"]["nodeName"] == "node-0003"));
    let label = on_node[0]["metadata"]["labels"]["app.kubernetes.io/name"].as_str().unwrap();
    let labelled = items(&mut rig, &format!("labelSelector=app.kubernetes.io/name={label}"));
    assert!(labelled.contains(&on_node[0]));
    assert!(labelled.iter().all(|pod| pod["metadata"]["labels"]["app.kubernetes.io/name"] == label));
}

#[test]
fn the_history_begins_after_loading() {
    let mut rig = loaded(PODS);
    let revision = rig.core.revision();
    let last = cluster(PODS).pods().last().unwrap();
    let old = rig.core.object("pods", &last.namespace, &last.name).unwrap();
    let mut pod: serde_json::Value = serde_json::from_slice(&old.body).unwrap();
    pod["status"]["phase"] = json!("Failed");
    let new = rig.core.update("pods", pod).unwrap();
    let watch = |rig: &mut Rig, from: u64| {
        rig.get(&format!("{ALL}?watch=true&timeoutSeconds=1&resourceVersion={from}")).body()
    };
    let events = watch(&mut rig, revision);
    let event: serde_json::Value = serde_json::from_str(events.trim()).unwrap();
    assert_eq!((&event["type"], &event["object"]["status"]["phase"]), (&json!("MODIFIED"), &json!("Failed")));
    assert_eq!(event["object"]["metadata"]["resourceVersion"], json!(new.revision.to_string()));
    let expired: serde_json::Value = serde_json::from_str(watch(&mut rig, revision - 1).trim()).unwrap();
    assert_eq!(expired["object"]["code"], 410);
}

#[test]
fn taken_names_are_left_out_and_what_is_no_object_is_refused() {
    let mut core = Core::new(CoreOptions::default());
    let text = r#"{"metadata":{"name":"a","labels":{"x":"<\u003e"}},"data":{"b":"c"}}"#;
    assert_eq!(core.load("configmaps", [text, text]).unwrap(), 1);
    let stored = core.object("configmaps", "default", "a").unwrap();
    assert!(!stored.uid.is_empty() && stored.revision == core.revision());
    assert_eq!(core.count("namespaces").unwrap(), 1);
    for wrong in
        ["", "[]", "{}", "{\"metadata\":1}", r#"{"metadata":{"name":"A"}}"#, "{\"metadata\":{\"name\":\"b\"}"]
    {
        let refused = core.load("configmaps", [wrong]);
        assert!(matches!(refused, Err(OperatorError::Refused { .. })), "{wrong}: {refused:?}");
    }
    assert_eq!(core.count("configmaps").unwrap(), 1);
}

#[test]
fn pages_count_what_remains() {
    let mut rig = loaded(PODS);
    for path in [ALL, "/api/v1/namespaces/search/pods"] {
        let total = rig.get(path).json()["items"].as_array().unwrap().len();
        let (mut seen, mut next) = (0, String::new());
        loop {
            let page = rig.get(&format!("{path}?limit=30&continue={next}")).json();
            seen += page["items"].as_array().unwrap().len();
            let metadata = &page["metadata"];
            assert_eq!(metadata["remainingItemCount"].as_u64().unwrap_or(0), (total - seen) as u64);
            // Writes in between change nothing: the pages are of one state.
            let name = format!("new-{seen}-of-{total}");
            rig.core.create("pods", json!({"metadata": {"name": name, "namespace": "search"}})).unwrap();
            match metadata["continue"].as_str() {
                Some(token) => next = token.to_owned(),
                None => break,
            }
        }
        assert_eq!(seen, total);
    }
}
