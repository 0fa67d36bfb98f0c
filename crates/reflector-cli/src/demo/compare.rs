//! The proof: the copy and the server's own objects, one by one.

use reflector::{Object, store::Snapshot};
use reflector_apiserver::core::StoredObject;
use serde_json::Value;

/// Whether both have the same objects in the same revisions; the content is not looked at.
pub(super) fn same_revisions<K>(copy: &Snapshot<K>, truth: &[StoredObject]) -> bool {
    copy.len() == truth.len()
        && truth.iter().all(|stored| {
            find(copy, stored).is_some_and(|object| {
                *object.uid() == *stored.uid && version_of(object) == stored.revision.to_string()
            })
        })
}

/// Every difference, as a sentence each. `body` gives the JSON of an object of `truth`: one at a time, as all of them
/// together may be gigabytes.
pub(super) fn differences<K, B: AsRef<[u8]>>(
    copy: &Snapshot<K>,
    truth: &[StoredObject],
    body: impl Fn(&StoredObject) -> B,
) -> Vec<String> {
    let mut differences: Vec<String> =
        truth.iter().filter_map(|stored| difference(copy, stored, &body)).collect();
    let have = |object: &Object<K>| {
        let namespace = object.namespace().unwrap_or_default();
        truth.iter().any(|stored| stored.name == object.name() && stored.namespace == namespace)
    };
    // Looked for only where there must be one: it takes the square of the number of objects.
    let missing = differences.iter().filter(|difference| difference.ends_with(MISSING)).count();
    if copy.len() + missing != truth.len() {
        let ghosts = copy.iter().filter(|object| !have(object));
        differences
            .extend(ghosts.map(|object| format!("{}: in the copy and not on the server", object.key())));
    }
    differences
}

const MISSING: &str = "on the server and not in the copy";

fn find<'a, K>(copy: &'a Snapshot<K>, stored: &StoredObject) -> Option<&'a Object<K>> {
    copy.get(Some(&stored.namespace), &stored.name)
}

fn version_of<K>(object: &Object<K>) -> String {
    object.version().map(ToString::to_string).unwrap_or_default()
}

fn difference<K, B: AsRef<[u8]>>(
    copy: &Snapshot<K>,
    stored: &StoredObject,
    body: impl Fn(&StoredObject) -> B,
) -> Option<String> {
    let key = format!("{}/{}", stored.namespace, stored.name);
    let Some(object) = find(copy, stored) else { return Some(format!("{key}: {MISSING}")) };
    if *object.uid() != *stored.uid {
        return Some(format!("{key}: uid {} in the copy, {} on the server", object.uid(), stored.uid));
    }
    let version = version_of(object);
    if version != stored.revision.to_string() {
        return Some(format!("{key}: version {version} in the copy, {} on the server", stored.revision));
    }
    let ours: Value = match object.decode_as() {
        Ok(value) => value,
        Err(error) => return Some(format!("{key}: the copy cannot be read: {error}")),
    };
    let mut theirs: Value = serde_json::from_slice(body(stored).as_ref()).unwrap_or_default();
    // Items of a list come without their type, which the reflector fills in (K13).
    if let Some(object) = theirs.as_object_mut() {
        object.entry("apiVersion").or_insert_with(|| "v1".into());
        object.entry("kind").or_insert_with(|| "Pod".into());
    }
    (ours != theirs)
        .then(|| format!("{key}: the content differs at version {version}, at {}", path(&ours, &theirs)))
}

/// Where two values differ first.
fn path(a: &Value, b: &Value) -> String {
    match (a, b) {
        (Value::Object(a), Value::Object(b)) => {
            let names = a.keys().chain(b.keys());
            let differs = names.into_iter().find(|name| a.get(*name) != b.get(*name));
            differs.map_or_else(String::new, |name| {
                format!(
                    ".{name}{}",
                    path(a.get(name).unwrap_or(&Value::Null), b.get(name).unwrap_or(&Value::Null))
                )
            })
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            let differs = a.iter().zip(b).position(|(a, b)| a != b).unwrap_or_default();
            format!("[{differs}]{}", path(&a[differs], &b[differs]))
        }
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use reflector::{Cache, Change, Store};
    use reflector_apiserver::core::{Core, CoreOptions};
    use serde_json::json;

    use super::*;

    fn body(stored: &StoredObject) -> Vec<u8> {
        stored.body.to_vec()
    }

    /// A copy of the core, changed by `change` on the way.
    fn copy(core: &Core, change: impl Fn(&mut Value)) -> Snapshot<Value> {
        let (cache, mut writer) = Cache::new();
        for stored in core.objects("pods").unwrap() {
            let mut value: Value = serde_json::from_slice(&stored.body).unwrap();
            value["kind"] = "Pod".into();
            value["apiVersion"] = "v1".into();
            change(&mut value);
            let object = Object::from_json(value.to_string()).unwrap();
            writer.apply(vec![Change::Upsert(object)], None).unwrap();
        }
        cache.snapshot()
    }

    fn core() -> Core {
        let mut core = Core::new(CoreOptions::default());
        for name in ["a", "b"] {
            let pod = json!({"metadata": {"namespace": "x", "name": name}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
            core.create("pods", pod).unwrap();
        }
        core
    }

    #[test]
    fn an_equal_copy_has_no_differences() {
        let core = core();
        let copy = copy(&core, |_| {});
        let truth = core.objects("pods").unwrap();
        assert!(same_revisions(&copy, &truth));
        assert_eq!(differences(&copy, &truth, body), [""; 0]);
    }

    #[test]
    fn every_kind_of_difference_is_found() {
        let core = core();
        let truth = core.objects("pods").unwrap();
        let only_b = |change: fn(&mut Value)| {
            copy(&core, move |value| {
                if value["metadata"]["name"] == "b" {
                    change(value);
                }
            })
        };
        type Case = (fn(&mut Value), &'static str);
        let cases: [Case; 4] = [
            (|pod| pod["metadata"]["uid"] = "other".into(), "x/b: uid other in the copy"),
            (|pod| pod["metadata"]["resourceVersion"] = "999".into(), "x/b: version 999 in the copy"),
            (|pod| pod["spec"]["containers"][0]["image"] = "j".into(), "at .spec.containers[0].image"),
            (|pod| pod["kind"] = "Node".into(), "at .kind"),
        ];
        for (change, expected) in cases {
            let found = differences(&only_b(change), &truth, body);
            assert_eq!(found.len(), 1, "{found:?}");
            assert!(found[0].contains(expected), "{found:?}");
        }
        let renamed = differences(&only_b(|pod| pod["metadata"]["name"] = "ghost".into()), &truth, body);
        assert_eq!(
            renamed,
            ["x/b: on the server and not in the copy", "x/ghost: in the copy and not on the server"]
        );
        assert_eq!(
            differences(&only_b(|_| {}), &truth[..1], body),
            ["x/b: in the copy and not on the server"]
        );
    }
}
