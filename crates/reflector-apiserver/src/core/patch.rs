//! PATCH: JSON merge patch (RFC 7386), JSON patch (RFC 6902) and strategic merge patch for the lists with well-known
//! merge keys.

use serde_json::Value;

use super::{
    json::Object,
    status::{Outcome, Status},
};

/// The body types that PATCH takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PatchType {
    Json,
    Merge,
    Strategic,
    /// Server-side apply, taken as a strategic merge that may create.
    Apply,
}

impl PatchType {
    /// By Content-Type; custom resources have no strategic merge patch.
    pub(super) fn new(content_type: &str, custom: bool) -> Outcome<Self> {
        match content_type.split(';').next().unwrap_or_default().trim() {
            "application/json-patch+json" => Ok(Self::Json),
            "application/merge-patch+json" => Ok(Self::Merge),
            "application/strategic-merge-patch+json" if !custom => Ok(Self::Strategic),
            "application/apply-patch+yaml" => Ok(Self::Apply),
            _ => Err(Status::new(415, "UnsupportedMediaType", "415: Unsupported Media Type")
                .with(Default::default())),
        }
    }

    /// Applies a patch to an object.
    pub(super) fn apply(self, object: Object, patch: &Value, custom: bool) -> Outcome<Object> {
        let mut target = Value::Object(object);
        match self {
            Self::Json => json_patch(&mut target, patch)?,
            Self::Merge => merge(&mut target, patch),
            Self::Apply if custom => merge(&mut target, patch),
            Self::Strategic | Self::Apply => strategic(&mut target, patch, ""),
        }
        match target {
            Value::Object(object) => Ok(object),
            _ => Err(Status::bad_request("the patch does not leave an object")),
        }
    }
}

fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    let members = as_object(target);
    for (name, value) in patch {
        if value.is_null() {
            members.shift_remove(name);
        } else {
            merge(members.entry(name.clone()).or_insert(Value::Null), value);
        }
    }
}

/// The members of `value`, which becomes an object if it is none.
fn as_object(value: &mut Value) -> &mut Object {
    if !value.is_object() {
        *value = Value::Object(Object::new());
    }
    match value {
        Value::Object(members) => members,
        _ => unreachable!("made an object above"),
    }
}

fn json_patch(target: &mut Value, patch: &Value) -> Outcome<()> {
    let Value::Array(operations) = patch else {
        return Err(Status::bad_request("a JSON patch is a list of operations"));
    };
    for operation in operations {
        let text = |name: &str| operation.get(name).and_then(Value::as_str);
        let (Some(op), Some(path)) = (text("op"), text("path")) else {
            return Err(Status::bad_request("a JSON patch operation needs op and path"));
        };
        let value = || operation.get("value").cloned().unwrap_or(Value::Null);
        let from = text("from").unwrap_or_default();
        let done = match op {
            "add" => add(target, path, value()),
            "remove" => remove(target, path).map(drop),
            "replace" => target.pointer_mut(path).map(|at| *at = value()),
            "move" => remove(target, from).and_then(|value| add(target, path, value)),
            "copy" => target.pointer(from).cloned().and_then(|value| add(target, path, value)),
            "test" => (target.pointer(path) == Some(&value())).then_some(()),
            _ => return Err(Status::bad_request(format!("Unexpected kind: {op}"))),
        };
        if done.is_none() {
            let message =
                format!("the server rejected our request due to an error in our request: {op} {path}");
            return Err(Status::new(422, "Invalid", message).with(Default::default()));
        }
    }
    Ok(())
}

/// The parent of what a JSON pointer names, and the last part of the pointer.
fn parent<'a>(target: &'a mut Value, path: &str) -> Option<(&'a mut Value, String)> {
    let (parent, last) = path.rsplit_once('/')?;
    Some((target.pointer_mut(parent)?, last.replace("~1", "/").replace("~0", "~")))
}

fn add(target: &mut Value, path: &str, value: Value) -> Option<()> {
    if path.is_empty() {
        *target = value;
        return Some(());
    }
    match parent(target, path)? {
        (Value::Object(members), name) => drop(members.insert(name, value)),
        (Value::Array(items), last) => {
            let at = if last == "-" { items.len() } else { last.parse().ok()? };
            if at > items.len() {
                return None;
            }
            items.insert(at, value);
        }
        _ => return None,
    }
    Some(())
}

fn remove(target: &mut Value, path: &str) -> Option<Value> {
    match parent(target, path)? {
        (Value::Object(members), name) => members.shift_remove(&name),
        (Value::Array(items), last) => {
            let at: usize = last.parse().ok()?;
            (at < items.len()).then(|| items.remove(at))
        }
        _ => None,
    }
}

/// The key by which elements of a list are matched, from the `patchMergeKey` tags of the Go types.
fn merge_key(list: &str) -> Option<&'static str> {
    Some(match list {
        "containers"
        | "initContainers"
        | "ephemeralContainers"
        | "env"
        | "volumes"
        | "imagePullSecrets"
        | "resourceClaims" => "name",
        "ports" => "containerPort",
        "conditions" => "type",
        "volumeMounts" => "mountPath",
        "volumeDevices" => "devicePath",
        "ownerReferences" => "uid",
        "hostAliases" => "ip",
        "topologySpreadConstraints" => "topologyKey",
        "addresses" => "type",
        "secrets" => "name",
        _ => return None,
    })
}

fn strategic(target: &mut Value, patch: &Value, name: &str) {
    match patch {
        Value::Object(patch) => strategic_object(as_object(target), patch),
        Value::Array(patch) => strategic_list(target, patch, name),
        scalar => *target = scalar.clone(),
    }
}

fn strategic_object(members: &mut Object, patch: &Object) {
    if patch.get("$patch").and_then(Value::as_str) == Some("replace") {
        *members =
            patch.iter().filter(|(n, _)| *n != "$patch").map(|(n, v)| (n.clone(), v.clone())).collect();
        return;
    }
    if let Some(Value::Array(kept)) = patch.get("$retainKeys") {
        members.retain(|name, _| kept.iter().any(|k| k.as_str() == Some(name)));
    }
    for (name, value) in patch {
        if let Some(list) = name.strip_prefix("$deleteFromPrimitiveList/") {
            if let (Some(Value::Array(items)), Value::Array(gone)) = (members.get_mut(list), value) {
                items.retain(|item| !gone.contains(item));
            }
            continue;
        }
        // What is left of the directives only orders lists.
        if name.starts_with('$') {
            continue;
        }
        let deleted = value.get("$patch").and_then(Value::as_str) == Some("delete");
        if value.is_null() || deleted {
            members.shift_remove(name);
        } else {
            strategic(members.entry(name.clone()).or_insert(Value::Null), value, name);
        }
    }
}

fn strategic_list(target: &mut Value, patch: &[Value], name: &str) {
    let directive = |item: &Value| item.get("$patch").and_then(Value::as_str).map(str::to_owned);
    let replaces = patch.iter().any(|item| directive(item).as_deref() == Some("replace"));
    let key = match merge_key(name) {
        // Ports of a Service are told apart by `port`, those of a container by `containerPort`.
        Some("containerPort") if patch.iter().any(|p| p.get("containerPort").is_none()) => Some("port"),
        key => key,
    };
    let primitive = patch.iter().all(|item| !item.is_object());
    let items = match target {
        Value::Array(items) if !replaces => items,
        _ => {
            *target = patch.iter().filter(|item| directive(item).is_none()).cloned().collect();
            return;
        }
    };
    match key {
        _ if primitive && name == "finalizers" => {
            let new: Vec<_> = patch.iter().filter(|item| !items.contains(item)).cloned().collect();
            items.extend(new);
        }
        Some(key) if !primitive => {
            for item in patch {
                let found =
                    items.iter().position(|old| old.get(key).is_some() && old.get(key) == item.get(key));
                match (found, directive(item).as_deref()) {
                    (Some(at), Some("delete")) => drop(items.remove(at)),
                    (Some(at), _) => strategic(&mut items[at], item, ""),
                    (None, Some(_)) => {}
                    (None, None) => items.push(item.clone()),
                }
            }
        }
        _ => *items = patch.to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn apply(kind: PatchType, object: Value, patch: &Value) -> Result<Value, u16> {
        let Value::Object(object) = object else { panic!("an object") };
        kind.apply(object, patch, false).map(Value::Object).map_err(|s| s.code)
    }

    #[test]
    fn merge_patches_replace_lists_and_drop_nulls() {
        let object = json!({"a": {"b": 1, "c": 2}, "d": [1, 2]});
        let patched =
            apply(PatchType::Merge, object, &json!({"a": {"b": null, "x": {"y": null, "z": 1}}, "d": [3]}));
        assert_eq!(patched, Ok(json!({"a": {"c": 2, "x": {"z": 1}}, "d": [3]})));
    }

    #[test]
    fn json_patches_do_what_rfc_6902_says() {
        let object = json!({"a": [1, 2], "b": {"x/y": 1}});
        let table = [
            (
                json!([{"op": "add", "path": "/a/1", "value": 9}]),
                Ok(json!({"a": [1, 9, 2], "b": {"x/y": 1}})),
            ),
            (
                json!([{"op": "add", "path": "/a/-", "value": 9}]),
                Ok(json!({"a": [1, 2, 9], "b": {"x/y": 1}})),
            ),
            (json!([{"op": "remove", "path": "/b/x~1y"}]), Ok(json!({"a": [1, 2], "b": {}}))),
            (
                json!([{"op": "replace", "path": "/a/0", "value": 5}]),
                Ok(json!({"a": [5, 2], "b": {"x/y": 1}})),
            ),
            (
                json!([{"op": "move", "from": "/a/0", "path": "/c"}]),
                Ok(json!({"a": [2], "b": {"x/y": 1}, "c": 1})),
            ),
            (
                json!([{"op": "copy", "from": "/a/0", "path": "/c"}]),
                Ok(json!({"a": [1, 2], "b": {"x/y": 1}, "c": 1})),
            ),
            (json!([{"op": "test", "path": "/a/0", "value": 1}]), Ok(object.clone())),
            (json!([{"op": "test", "path": "/a/0", "value": 2}]), Err(422)),
            (json!([{"op": "remove", "path": "/nope"}]), Err(422)),
            (json!([{"op": "add", "path": "/a/7", "value": 2}]), Err(422)),
            (json!([{"op": "frob", "path": "/a"}]), Err(400)),
            (json!({}), Err(400)),
        ];
        for (patch, expected) in table {
            assert_eq!(apply(PatchType::Json, object.clone(), &patch), expected, "{patch}");
        }
    }

    #[test]
    fn strategic_patches_merge_lists_by_key() {
        let object = json!({"spec": {"containers": [
            {"name": "a", "image": "a:1", "env": [{"name": "X", "value": "1"}]},
            {"name": "b", "image": "b:1"},
        ], "args": [1]}});
        let patch = json!({"spec": {"$setElementOrder/containers": [{"name": "a"}], "args": [2], "containers": [
            {"name": "a", "image": "a:2", "env": [{"name": "Y", "value": "2"}]},
            {"name": "b", "$patch": "delete"},
            {"name": "c", "image": "c:1"},
        ]}});
        let expected = json!({"spec": {"containers": [
            {"name": "a", "image": "a:2", "env": [{"name": "X", "value": "1"}, {"name": "Y", "value": "2"}]},
            {"name": "c", "image": "c:1"},
        ], "args": [2]}});
        assert_eq!(apply(PatchType::Strategic, object, &patch), Ok(expected));
    }

    #[test]
    fn strategic_directives_replace_and_delete() {
        let object = json!({"a": {"x": 1}, "b": {"y": 1}, "finalizers": ["f", "g"]});
        let patch = json!({"a": {"$patch": "replace", "z": 2}, "b": {"$patch": "delete"},
            "$deleteFromPrimitiveList/finalizers": ["f"], "finalizers": ["h"]});
        let expected = json!({"a": {"z": 2}, "finalizers": ["g", "h"]});
        assert_eq!(apply(PatchType::Strategic, object, &patch), Ok(expected));
    }
}
