//! CustomResourceDefinitions: from their spec to served resources, and the status the server gives them.

use serde_json::{Value, json};

use super::{
    json::{Object, at, text_at},
    registry::{Column, Conversion, CustomResource, Resource},
    status::{Cause, Outcome, Status},
};

/// The resources that a definition serves, the storage version first.
pub(super) fn resources(definition: &Value) -> Vec<Resource> {
    let text = |path: &[&str]| text_at(definition, path).to_owned();
    let uid = text(&["metadata", "uid"]);
    let (group, plural) = (text(&["spec", "group"]), text(&["spec", "names", "plural"]));
    // The uid keeps a later definition of the same name apart.
    let storage: std::sync::Arc<str> = format!("{group}/{plural}#{uid}").into();
    let mut versions: Vec<&Value> =
        at(definition, &["spec", "versions"]).and_then(Value::as_array).into_iter().flatten().collect();
    versions.sort_by_key(|version| version["storage"] != true);
    let mut resources: Vec<Resource> = Vec::new();
    for version in versions {
        if version["storage"] != true && version["served"] != true {
            continue;
        }
        let mut resource = Resource::from_custom(&CustomResource {
            group: group.clone(),
            version: text_at(version, &["name"]).into(),
            kind: text(&["spec", "names", "kind"]),
            plural: plural.clone(),
            short_names: strings(at(definition, &["spec", "names", "shortNames"])),
            namespaced: text(&["spec", "scope"]) == "Namespaced",
            status: at(version, &["subresources", "status"]).is_some(),
            selectable_fields: selectable_fields(version),
        });
        resource.storage = storage.clone();
        resource.categories = strings(at(definition, &["spec", "names", "categories"]));
        resource.columns = columns(version);
        for (target, name) in [(&mut resource.singular, "singular"), (&mut resource.list_kind, "listKind")] {
            let given = text(&["spec", "names", name]);
            if !given.is_empty() {
                *target = given;
            }
        }
        if at(version, &["subresources", "scale"]).is_some() {
            resource.add_subresource("scale");
        }
        if let Some(stored) = resources.first() {
            resource.conversion = Conversion::ApiVersion;
            resource.fields = stored.fields.clone();
        }
        resources.push(resource);
    }
    resources
}

/// Refuses a definition that could not be served.
pub(super) fn check(definition: &Value) -> Outcome<()> {
    let text = |path: &[&str]| text_at(definition, path);
    let (group, plural) = (text(&["spec", "group"]), text(&["spec", "names", "plural"]));
    let (name, expected) = (text(&["metadata", "name"]), format!("{plural}.{group}"));
    let mut causes = Vec::new();
    for (field, value) in [
        ("spec.group", group),
        ("spec.names.plural", plural),
        ("spec.names.kind", text(&["spec", "names", "kind"])),
        ("spec.scope", text(&["spec", "scope"])),
    ] {
        if value.is_empty() {
            causes.push(Cause { reason: "FieldValueRequired", message: "Required value".into(), field });
        }
    }
    let versions = at(definition, &["spec", "versions"]).and_then(Value::as_array);
    let stored = versions.into_iter().flatten().filter(|v| v["storage"] == true).count();
    if stored != 1 {
        let message = "Invalid value: must have exactly one version marked as storage version".into();
        causes.push(Cause { reason: "FieldValueInvalid", message, field: "spec.versions" });
    }
    if name != expected {
        let message = format!("Invalid value: \"{name}\": must be spec.names.plural+\".\"+spec.group");
        causes.push(Cause { reason: "FieldValueInvalid", message, field: "metadata.name" });
    }
    if causes.is_empty() {
        return Ok(());
    }
    Err(Status::invalid("apiextensions.k8s.io", "CustomResourceDefinition", name, causes))
}

fn strings(value: Option<&Value>) -> Vec<String> {
    let list = value.and_then(Value::as_array);
    list.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

fn selectable_fields(version: &Value) -> Vec<String> {
    let fields = version["selectableFields"].as_array();
    fields.into_iter().flatten().map(|f| text_at(f, &["jsonPath"]).to_owned()).collect()
}

fn columns(version: &Value) -> Vec<Column> {
    let column = |c: &Value| Column {
        name: text_at(c, &["name"]).into(),
        kind: text_at(c, &["type"]).into(),
        format: text_at(c, &["format"]).into(),
        description: text_at(c, &["description"]).into(),
        priority: c["priority"].as_i64().unwrap_or(0),
        path: text_at(c, &["jsonPath"]).trim_start_matches('.').split('.').map(str::to_owned).collect(),
    };
    match version["additionalPrinterColumns"].as_array() {
        Some(columns) => columns.iter().map(column).collect(),
        None => vec![Column {
            name: "Age".into(),
            kind: "date".into(),
            format: String::new(),
            description:
                "CreationTimestamp is a timestamp representing the server time when this object was created."
                    .into(),
            priority: 0,
            path: vec!["metadata".into(), "creationTimestamp".into()],
        }],
    }
}

/// The definition with the status that the server's own controllers would give it.
pub(super) fn established(mut definition: Object, now: &str) -> Object {
    let value = Value::Object(definition.clone());
    let stored: Vec<&str> = at(&value, &["spec", "versions"])
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter(|v| v["storage"] == true)
        .map(|v| text_at(v, &["name"]))
        .collect();
    let condition = |kind: &str, reason: &str, message: &str| json!({"type": kind, "status": "True", "lastTransitionTime": now, "reason": reason, "message": message});
    let status = json!({
        "conditions": [
            condition("NamesAccepted", "NoConflicts", "no conflicts found"),
            condition("Established", "InitialNamesAccepted", "the initial names have been accepted"),
        ],
        "acceptedNames": at(&value, &["spec", "names"]),
        "storedVersions": stored,
    });
    definition.insert("status".into(), status);
    definition
}
