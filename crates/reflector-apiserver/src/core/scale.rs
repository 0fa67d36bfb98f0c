//! The `scale` subresource: autoscaling/v1 Scale over `spec.replicas`.

use serde_json::{Value, json};

use super::{
    accept::Media,
    exchange::Reply,
    json::{self, at, text_at},
    object::Object,
    registry::Resource,
    status::{Outcome, Status},
};

/// The Scale of an object.
pub(super) fn reply(resource: &Resource, object: &Object, media: Media) -> Outcome<Reply> {
    let value = Value::Object(object.to_value(resource));
    let text = |path: &[&str]| text_at(&value, path).to_owned();
    let labels = at(&value, &["spec", "selector", "matchLabels"]).and_then(Value::as_object);
    let selector: Vec<String> = labels
        .into_iter()
        .flatten()
        .map(|(k, v)| format!("{k}={}", v.as_str().unwrap_or_default()))
        .collect();
    let number = |path: &[&str]| at(&value, path).and_then(Value::as_i64).unwrap_or(0);
    let scale = json!({
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {
            "name": object.name(),
            "namespace": object.namespace(),
            "uid": object.uid(),
            "resourceVersion": object.revision().to_string(),
            "creationTimestamp": text(&["metadata", "creationTimestamp"]),
        },
        "spec": {"replicas": number(&["spec", "replicas"])},
        "status": {"replicas": number(&["status", "replicas"]), "selector": selector.join(",")},
    });
    Ok(Reply::value(200, &scale, media))
}

/// The object with the replicas of a Scale.
pub(super) fn apply(mut object: json::Object, scale: &Value) -> Outcome<json::Object> {
    let replicas = at(scale, &["spec", "replicas"]).and_then(Value::as_u64);
    let replicas = replicas.ok_or_else(|| Status::bad_request("a Scale needs spec.replicas"))?;
    match object.get_mut("spec") {
        Some(Value::Object(spec)) => drop(spec.insert("replicas".into(), json!(replicas))),
        _ => drop(object.insert("spec".into(), json!({"replicas": replicas}))),
    }
    Ok(object)
}
