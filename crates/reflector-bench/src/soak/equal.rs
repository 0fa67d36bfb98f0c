//! The proof: every copy and what the server lists, object by object.

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    time::{Duration, Instant},
};

use k8s_openapi::api::core::v1::Pod;
use kube::{Client, api::ListParams, core::Request};
use reflector::{Object, ObjectKey, ResourceVersion, store::Snapshot};
use serde::Deserialize;
use serde_json::{Value, value::RawValue};

use crate::Failure;

/// So many differences of a copy are told.
const SHOWN: usize = 5;
/// How often it is looked.
const LOOK: Duration = Duration::from_secs(1);

/// The keys that somebody knows, and the versions of the objects.
pub(super) type Versions = BTreeMap<ObjectKey, Option<ResourceVersion>>;

/// What must equal the server's state.
pub(super) struct Copy {
    pub(super) name: &'static str,
    pub(super) snapshot: Snapshot<Pod>,
    /// Whether only what the type has is kept; else it is everything that the server has.
    pub(super) typed: bool,
    /// Only of these namespaces; of all where there are none.
    pub(super) namespaces: Option<Vec<String>>,
}

#[derive(Deserialize)]
struct List<'a> {
    #[serde(borrow)]
    items: Vec<&'a RawValue>,
}

#[derive(Deserialize)]
struct Head {
    metadata: Metadata,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    namespace: String,
    name: String,
    uid: String,
    resource_version: String,
}

/// Waits until nothing differs from what the server lists. Gives how long it took, and what still differs after `patience`.
pub(super) async fn until_equal(
    client: &Client,
    patience: Duration,
    differences: impl Fn(&str) -> Result<Vec<String>, Failure>,
) -> Result<(Duration, Vec<String>), Failure> {
    let begin = Instant::now();
    loop {
        let request = Request::new("/api/v1/pods").list(&ListParams::default())?;
        let found = match client.request_text(request).await {
            Ok(list) => differences(&list)?,
            // Connections from before may still be broken.
            Err(error) => vec![format!("the server cannot be read: {error}")],
        };
        if found.is_empty() || begin.elapsed() >= patience {
            return Ok((begin.elapsed(), found));
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Each difference from a list in JSON as a sentence, some of each copy.
pub(super) fn differences(list: &str, copies: &[Copy]) -> Result<Vec<String>, Failure> {
    let list: List<'_> = serde_json::from_str(list)?;
    let mut truth = Vec::with_capacity(list.items.len());
    for item in list.items {
        let Head { metadata } = serde_json::from_str(item.get())?;
        truth.push((metadata, item));
    }
    let mut all = Vec::new();
    for copy @ Copy { name, snapshot, namespaces, .. } in copies {
        let wanted = |namespace: &str| {
            namespaces.as_ref().is_none_or(|wanted| wanted.iter().any(|wanted| wanted == namespace))
        };
        let truth: Vec<_> = truth.iter().filter(|(head, _)| wanted(&head.namespace)).collect();
        let mut found: Vec<String> =
            truth.iter().filter_map(|(head, item)| difference(copy, head, item)).collect();
        let keys: HashSet<_> = truth.iter().map(|(head, _)| (head.namespace.as_str(), &*head.name)).collect();
        let ghosts = snapshot
            .iter()
            .filter(|object| !keys.contains(&(object.namespace().unwrap_or_default(), object.name())));
        found.extend(ghosts.map(|object| format!("{} is not on the server", object.key())));
        all.extend(found.into_iter().take(SHOWN).map(|difference| format!("{name}: {difference}")));
    }
    Ok(all)
}

fn difference(copy: &Copy, head: &Metadata, item: &RawValue) -> Option<String> {
    let key = format!("{}/{}", head.namespace, head.name);
    let Some(object) = copy.snapshot.get(Some(&head.namespace), &head.name) else {
        return Some(format!("{key} is missing"));
    };
    let version = object.version().map(ToString::to_string).unwrap_or_default();
    if *object.uid() != *head.uid || version != head.resource_version {
        return Some(format!("{key} is at {version}, the server at {}", head.resource_version));
    }
    match contents(object, item, copy.typed) {
        Ok((ours, theirs)) => first_difference(String::new(), &ours, &theirs)
            .map(|path| format!("{key} has another {path} at version {version}")),
        Err(error) => Some(format!("{key} cannot be read: {error}")),
    }
}

/// What the copy has and what the server has, comparable.
fn contents(object: &Object<Pod>, item: &RawValue, typed: bool) -> Result<(Value, Value), Failure> {
    if typed {
        let theirs: Pod = serde_json::from_str(item.get())?;
        return Ok((serde_json::to_value(&*object.get()?)?, serde_json::to_value(theirs)?));
    }
    let mut theirs: Value = serde_json::from_str(item.get())?;
    // Items of a list come without their type, which the reflector fills in (K13).
    theirs["apiVersion"] = "v1".into();
    theirs["kind"] = "Pod".into();
    Ok((object.decode_as()?, theirs))
}

/// The path of the first thing that only one of them has, or has otherwise.
fn first_difference(path: String, ours: &Value, theirs: &Value) -> Option<String> {
    match (ours, theirs) {
        (Value::Object(ours), Value::Object(theirs)) => {
            let names: BTreeSet<&String> = ours.keys().chain(theirs.keys()).collect();
            let (nothing, dot) = (Value::Null, if path.is_empty() { "" } else { "." });
            names.into_iter().find_map(|name| {
                let [ours, theirs] = [ours, theirs].map(|object| object.get(name).unwrap_or(&nothing));
                first_difference(format!("{path}{dot}{name}"), ours, theirs)
            })
        }
        (Value::Array(ours), Value::Array(theirs)) if ours.len() == theirs.len() => {
            let mut pairs = ours.iter().zip(theirs).enumerate();
            pairs.find_map(|(n, (ours, theirs))| first_difference(format!("{path}[{n}]"), ours, theirs))
        }
        _ => (ours != theirs).then_some(path),
    }
}

/// Keys and versions of a snapshot.
pub(super) fn versions(snapshot: &Snapshot<Pod>) -> Versions {
    snapshot.iter().map(|object| (object.key().clone(), object.version().cloned())).collect()
}

#[cfg(test)]
mod tests {
    use reflector::{Cache, Change, Store};

    use super::*;

    fn pod(name: &str, uid: &str, version: &str, image: &str) -> String {
        format!(
            r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"namespace":"n","name":"{name}","uid":"{uid}","resourceVersion":"{version}"}},"spec":{{"containers":[{{"name":"c","image":"{image}"}}]}}}}"#
        )
    }

    fn differences_of(copy: &[String], namespaces: Option<&[&str]>) -> Vec<String> {
        let namespaces: Option<Vec<String>> =
            namespaces.map(|names| names.iter().map(ToString::to_string).collect());
        let of = |typed| differences_of_a(typed, copy, namespaces.clone());
        assert_eq!(of(true), of(false));
        of(true)
    }

    fn differences_of_a(typed: bool, copy: &[String], namespaces: Option<Vec<String>>) -> Vec<String> {
        let truth = [pod("a", "1", "5", "i"), pod("b", "2", "6", "i")].join(",");
        let (cache, mut writer) = Cache::new();
        for object in copy {
            writer.apply(vec![Change::Upsert(Object::from_json(object).unwrap())], None).unwrap();
        }
        let copy = Copy { name: "copy", snapshot: cache.snapshot(), typed, namespaces };
        differences(&format!(r#"{{"items":[{truth}]}}"#), &[copy]).unwrap()
    }

    #[test]
    fn every_kind_of_difference_is_found() {
        let a = pod("a", "1", "5", "i");
        assert_eq!(differences_of(&[a.clone(), pod("b", "2", "6", "i")], None), [""; 0]);
        let cases = [
            (vec![], "copy: n/b is missing"),
            (vec![pod("b", "3", "6", "i")], "copy: n/b is at 6, the server at 6"),
            (vec![pod("b", "2", "4", "i")], "copy: n/b is at 4, the server at 6"),
            (vec![pod("b", "2", "6", "j")], "copy: n/b has another spec.containers[0].image at version 6"),
            (vec![pod("b", "2", "6", "i"), pod("c", "3", "7", "i")], "copy: n/c is not on the server"),
        ];
        for (others, expected) in cases {
            let copy: Vec<_> = [a.clone()].into_iter().chain(others).collect();
            assert_eq!(differences_of(&copy, None), [expected]);
        }
    }

    #[test]
    fn of_some_namespaces_only_those_are_compared() {
        assert_eq!(differences_of(&[], Some(&["other"])), [""; 0]);
    }
}
