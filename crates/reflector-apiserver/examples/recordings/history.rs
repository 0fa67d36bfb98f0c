//! The history of the recorded server's objects, put together from all that its answers show.
//!
//! Every object in an answer has the version of its last write, every `DELETED` event that of the deletion. An object that a
//! later full list does not have any more was deleted in between.

use std::collections::{BTreeMap, HashMap, HashSet};

use reflector_apiserver::core::Core;
use serde_json::Value;

use crate::case::Case;

/// `resource/namespace/name`, the resource with its group.
type Key = (String, String, String);

/// What a revision did.
#[derive(Debug, Clone)]
pub(crate) enum Change {
    Write(Key, Value),
    Delete(Key),
}

impl Change {
    /// What it is about: `configmaps` or `widgets.example.com`.
    pub(crate) fn resource(&self) -> &str {
        match self {
            Self::Write((resource, ..), _) | Self::Delete((resource, ..)) => resource,
        }
    }
}

/// All revisions that are known.
#[derive(Debug, Default)]
pub(crate) struct History {
    pub(crate) changes: BTreeMap<u64, Change>,
}

/// What an answer shows of the server's state.
#[derive(Debug, Default)]
pub(crate) struct Sight {
    /// The revision when the request came, as far as the answer shows it.
    pub(crate) start: Option<u64>,
    /// The last revision that it shows.
    pub(crate) end: u64,
    /// What happened while it ran: second and revision.
    pub(crate) live: Vec<(f64, u64)>,
}

impl History {
    /// Puts the history together from the answers of one server.
    pub(crate) fn of<'a>(cases: impl Iterator<Item = &'a Case> + Clone) -> Self {
        let mut history = Self::default();
        for case in cases.clone() {
            history.learn(case);
        }
        for case in cases {
            history.infer_deletions(case);
        }
        history
    }

    fn learn(&mut self, case: &Case) {
        if !matches!(case.status, 200 | 201) || case.path.contains("dryRun") || !is_json(case) {
            return;
        }
        let Some(resource) = resource(&case.path) else {
            return;
        };
        if case.accept().contains("as=") || case.path.contains("/apis/events") {
            return;
        }
        if case.is_watch() {
            for (_, line) in case.lines() {
                let Ok(event) = serde_json::from_slice::<Value>(line) else {
                    continue;
                };
                let object = &event["object"];
                let (Some(version), Some(key)) = (version(object), key(&resource, object)) else {
                    continue;
                };
                match event["type"].as_str() {
                    Some("ADDED" | "MODIFIED") => self.write(version, key, object.clone()),
                    // A selector's DELETED may be a change that no longer matches: the full watch knows better.
                    Some("DELETED") if !case.path.contains("Selector") => self.delete(version, key),
                    _ => {}
                }
            }
        } else if let Ok(body) = serde_json::from_slice::<Value>(&case.body) {
            for item in body["items"].as_array().into_iter().flatten() {
                if let (Some(version), Some(key)) = (version(item), key(&resource, item)) {
                    self.write(version, key, item.clone());
                }
            }
        }
    }

    /// One more object.
    pub(crate) fn learn_object(&mut self, resource: &str, object: &Value) {
        if let (Some(version), Some(key)) = (version(object), key(resource, object)) {
            self.write(version, key, object.clone());
        }
    }

    fn write(&mut self, version: u64, key: Key, object: Value) {
        self.changes.insert(version, Change::Write(key, object));
    }

    fn delete(&mut self, version: u64, key: Key) {
        self.changes.entry(version).or_insert(Change::Delete(key));
    }

    /// A full list shows what is gone.
    fn infer_deletions(&mut self, case: &Case) {
        let partial = ["Selector", "limit", "continue", "Exact"].iter().any(|word| case.path.contains(word));
        if case.status != 200 || case.is_watch() || partial || !is_json(case) || case.accept().contains("as=")
        {
            return;
        }
        let Some(resource) = resource(&case.path) else {
            return;
        };
        let Ok(body) = serde_json::from_slice::<Value>(&case.body) else {
            return;
        };
        let (Some(listed), Some(items)) = (version(&body), body["items"].as_array()) else {
            return;
        };
        let present: HashSet<Key> = items.iter().filter_map(|item| key(&resource, item)).collect();
        let Some(namespace) = present.iter().next().map(|key| key.1.clone()) else {
            return;
        };
        let mut state: HashMap<&Key, u64> = HashMap::new();
        for (version, change) in self.changes.range(..=listed) {
            match change {
                Change::Write(key, _) => state.insert(key, *version),
                Change::Delete(key) => state.remove(key),
            };
        }
        let gone: Vec<(Key, u64)> = state
            .into_iter()
            .filter(|(key, _)| key.0 == resource && key.1 == namespace && !present.contains(*key))
            .map(|(key, version)| (key.clone(), version))
            .collect();
        for (key, last) in gone {
            if let Some(free) = (last + 1..=listed).rev().find(|version| !self.changes.contains_key(version))
            {
                self.changes.insert(free, Change::Delete(key));
            }
        }
    }

    /// Brings a server from one revision to another.
    pub(crate) fn apply(&self, core: &mut Core, from: u64, to: u64) -> Result<(), String> {
        if to <= from {
            return Ok(());
        }
        for (revision, change) in self.changes.range(from + 1..=to) {
            core.advance_revision_to(revision - 1);
            let result = match change {
                Change::Write((resource, namespace, name), object) => {
                    let there = core.object(resource, namespace, name).is_ok();
                    let mut object = object.clone();
                    // What an update carries of these is its precondition.
                    if let Some(metadata) = object["metadata"].as_object_mut() {
                        metadata.remove("resourceVersion");
                        if there {
                            metadata.remove("uid");
                        }
                        // Neither holds an object back nor lets it go: the history says when it went.
                        for name in ["finalizers", "deletionTimestamp", "deletionGracePeriodSeconds"] {
                            metadata.remove(name);
                        }
                    }
                    let written =
                        if there { core.update(resource, object) } else { core.create(resource, object) };
                    written.map(|_| ()).map_err(|error| error.to_string())
                }
                Change::Delete((resource, namespace, name)) => {
                    core.delete(resource, namespace, name).map(|_| ()).map_err(|error| error.to_string())
                }
            };
            result.map_err(|error| format!("revision {revision}: {error}"))?;
        }
        core.advance_revision_to(to);
        Ok(())
    }
}

/// What an answer shows of when it was given.
pub(crate) fn sight(case: &Case) -> Sight {
    let mut sight = Sight::default();
    if !is_json(case) || case.status != 200 {
        return sight;
    }
    if !case.is_watch() {
        let body: Value = serde_json::from_slice(&case.body).unwrap_or_default();
        let exact = case.path.contains("Exact")
            || case.path.contains("continue")
            || body["kind"] != Value::Null && body.get("items").is_none() && body.get("rows").is_none();
        if let Some(version) = version(&body) {
            let legacy_exact = case.parameter("limit").is_some()
                && case.parameter("resourceVersion").is_some_and(|v| v != "0" && !v.is_empty());
            if !exact && !legacy_exact {
                sight.start = Some(version);
            }
            sight.end = version;
            sight.start = sight.start.or(Some(version));
            // It waited for a write.
            if case.elapsed > 0.5 && !exact {
                sight.start = Some(version - 1);
                sight.live.push((1.0, version));
            }
        }
        return sight;
    }
    let from: u64 = case.parameter("resourceVersion").and_then(|version| version.parse().ok()).unwrap_or(0);
    for (time, line) in case.lines() {
        let Ok(event) = serde_json::from_slice::<Value>(line) else {
            continue;
        };
        let mut object = &event["object"];
        if object["kind"] == "Table" && event["type"] != "BOOKMARK" {
            object = &object["rows"][0]["object"];
        }
        let Some(version) = version(object) else {
            continue;
        };
        let bookmark = event["type"] == "BOOKMARK";
        if time < 0.45 {
            sight.start = sight.start.max(Some(version));
        } else if !bookmark && sight.start.is_none_or(|start| version > start) && version > from {
            sight.live.push((time, version));
        } else if bookmark && sight.live.is_empty() {
            // A bookmark of a quiet watch shows where the server stood.
            sight.start = sight.start.max(Some(version));
        }
        sight.end = sight.end.max(version);
    }
    sight
}

fn is_json(case: &Case) -> bool {
    case.header("Content-Type") == Some("application/json") && case.header("Content-Encoding").is_none()
}

fn version(object: &Value) -> Option<u64> {
    object["metadata"]["resourceVersion"].as_str()?.parse().ok()
}

fn key(resource: &str, object: &Value) -> Option<Key> {
    let metadata = &object["metadata"];
    let namespace = metadata["namespace"].as_str().unwrap_or_default();
    Some((resource.to_owned(), namespace.to_owned(), metadata["name"].as_str()?.to_owned()))
}

/// `configmaps` or `widgets.example.com`, from the path of a collection.
fn resource(path: &str) -> Option<String> {
    let path = path.split('?').next().unwrap_or_default();
    let mut parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    let group = match *parts.first()? {
        "api" => {
            parts.drain(..2.min(parts.len()));
            ""
        }
        "apis" if parts.len() > 3 => {
            let group = parts[1];
            parts.drain(..3);
            group
        }
        _ => return None,
    };
    parts.retain(|part| *part != "watch");
    if parts.first() == Some(&"namespaces") && parts.len() > 2 {
        parts.drain(..2);
    }
    let plural = parts.first()?;
    Some(if group.is_empty() { (*plural).to_owned() } else { format!("{plural}.{group}") })
}
