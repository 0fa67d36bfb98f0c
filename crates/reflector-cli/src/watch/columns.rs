//! The columns of the kinds that people look at most; every other kind has its name and age.
//!
//! They are made from the object itself, as of the change that is shown. The tables that a server makes for `kubectl`
//! would take a request of their own, and could not come from the copy.

use jiff::Timestamp;
use serde_json::Value;

use crate::{discovery::Resource, format::age_since};

mod pod;

type Cells = fn(&Value, Timestamp) -> Vec<String>;

/// The columns of one kind.
#[derive(Clone, Copy)]
struct Layout {
    headers: &'static [&'static str],
    cells: Cells,
    /// What `-o wide` adds after the age.
    wide_headers: &'static [&'static str],
    wide_cells: Cells,
    /// Whether there is a column AGE after the others.
    age: bool,
}

pub(super) struct Columns {
    layout: Layout,
    wide: bool,
}

const fn nothing(_: &Value, _: Timestamp) -> Vec<String> {
    Vec::new()
}

const PLAIN: Layout =
    Layout { headers: &[], cells: nothing, wide_headers: &[], wide_cells: nothing, age: true };

const fn layout(headers: &'static [&'static str], cells: Cells) -> Layout {
    Layout { headers, cells, ..PLAIN }
}

const fn wide(mut layout: Layout, headers: &'static [&'static str], cells: Cells) -> Layout {
    layout.wide_headers = headers;
    layout.wide_cells = cells;
    layout
}

impl Columns {
    pub(super) fn of(resource: &Resource, metadata_only: bool, wide: bool) -> Self {
        let layout = if metadata_only { PLAIN } else { of(&resource.group, &resource.plural) };
        Self { layout, wide }
    }

    pub(super) fn headers(&self) -> Vec<&'static str> {
        let mut headers = self.layout.headers.to_vec();
        if self.layout.age {
            headers.push("AGE");
        }
        if self.wide {
            headers.extend(self.layout.wide_headers);
        }
        headers
    }

    pub(super) fn cells(&self, object: &Value, now: Timestamp) -> Vec<String> {
        let mut cells = (self.layout.cells)(object, now);
        if self.layout.age {
            cells.push(age_since(text(object, "/metadata/creationTimestamp"), now));
        }
        if self.wide {
            cells.extend((self.layout.wide_cells)(object, now));
        }
        cells
    }
}

fn of(group: &str, plural: &str) -> Layout {
    match (group, plural) {
        ("", "pods") => {
            wide(layout(&["READY", "STATUS", "RESTARTS"], pod::cells), &["IP", "NODE"], |pod, _| {
                vec![or_none(text(pod, "/status/podIP")), or_none(text(pod, "/spec/nodeName"))]
            })
        }
        ("", "nodes") => wide(
            layout(&["STATUS", "ROLES", "VERSION"], |node, _| {
                vec![
                    node_status(node),
                    node_roles(node),
                    text(node, "/status/nodeInfo/kubeletVersion").to_owned(),
                ]
            }),
            &["INTERNAL-IP", "OS-IMAGE"],
            |node, _| vec![or_none(&node_address(node)), or_none(text(node, "/status/nodeInfo/osImage"))],
        ),
        ("", "namespaces" | "persistentvolumes") => {
            layout(&["STATUS"], |object, _| vec![text(object, "/status/phase").to_owned()])
        }
        ("", "services") => layout(&["TYPE", "CLUSTER-IP", "PORT(S)"], |service, _| {
            vec![
                text(service, "/spec/type").to_owned(),
                or_none(text(service, "/spec/clusterIP")),
                ports(service),
            ]
        }),
        ("", "configmaps") => {
            layout(&["DATA"], |map, _| vec![(len(map, "/data") + len(map, "/binaryData")).to_string()])
        }
        // How many entries, and never what is in them.
        ("", "secrets") => layout(&["TYPE", "DATA"], |secret, _| {
            vec![text(secret, "/type").to_owned(), len(secret, "/data").to_string()]
        }),
        ("" | "events.k8s.io", "events") => {
            Layout { age: false, ..layout(&["LAST SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE"], event) }
        }
        ("apps", "deployments") => wide(
            layout(&["READY", "UP-TO-DATE", "AVAILABLE"], |object, _| {
                vec![
                    ready(object),
                    number(object, "/status/updatedReplicas").to_string(),
                    number(object, "/status/availableReplicas").to_string(),
                ]
            }),
            &["CONTAINERS", "IMAGES"],
            |object, _| vec![containers(object, "name"), containers(object, "image")],
        ),
        ("apps", "statefulsets") => wide(
            layout(&["READY"], |object, _| vec![ready(object)]),
            &["CONTAINERS", "IMAGES"],
            |object, _| vec![containers(object, "name"), containers(object, "image")],
        ),
        ("apps", "replicasets") => layout(&["DESIRED", "CURRENT", "READY"], |set, _| {
            let numbers = ["/spec/replicas", "/status/replicas", "/status/readyReplicas"];
            numbers.map(|path| number(set, path).to_string()).to_vec()
        }),
        ("apps", "daemonsets") => layout(&["DESIRED", "CURRENT", "READY"], |set, _| {
            let numbers =
                ["/status/desiredNumberScheduled", "/status/currentNumberScheduled", "/status/numberReady"];
            numbers.map(|path| number(set, path).to_string()).to_vec()
        }),
        ("batch", "jobs") => layout(&["COMPLETIONS"], |job, _| {
            let wanted = job.pointer("/spec/completions").and_then(Value::as_i64).unwrap_or(1);
            vec![format!("{}/{wanted}", number(job, "/status/succeeded"))]
        }),
        _ => PLAIN,
    }
}

fn text<'a>(object: &'a Value, path: &str) -> &'a str {
    object.pointer(path).and_then(Value::as_str).unwrap_or_default()
}

fn number(object: &Value, path: &str) -> i64 {
    object.pointer(path).and_then(Value::as_i64).unwrap_or_default()
}

fn len(object: &Value, path: &str) -> usize {
    object.pointer(path).and_then(Value::as_object).map_or(0, serde_json::Map::len)
}

fn items<'a>(object: &'a Value, path: &str) -> &'a [Value] {
    object.pointer(path).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn or_none(text: &str) -> String {
    if text.is_empty() { "<none>".to_owned() } else { text.to_owned() }
}

/// Replicas that are ready, of those that are wanted.
fn ready(object: &Value) -> String {
    let wanted = object.pointer("/spec/replicas").and_then(Value::as_i64).unwrap_or(1);
    format!("{}/{wanted}", number(object, "/status/readyReplicas"))
}

fn containers(object: &Value, field: &str) -> String {
    let containers = items(object, "/spec/template/spec/containers").iter();
    containers.filter_map(|c| c.get(field)?.as_str()).collect::<Vec<_>>().join(",")
}

fn node_status(node: &Value) -> String {
    let ready = items(node, "/status/conditions").iter().find(|c| text(c, "/type") == "Ready");
    let mut status = match ready.map(|condition| text(condition, "/status")) {
        Some("True") => "Ready".to_owned(),
        Some(_) => "NotReady".to_owned(),
        None => "Unknown".to_owned(),
    };
    if node.pointer("/spec/unschedulable").and_then(Value::as_bool) == Some(true) {
        status.push_str(",SchedulingDisabled");
    }
    status
}

fn node_roles(node: &Value) -> String {
    let labels = node.pointer("/metadata/labels").and_then(Value::as_object);
    let names = labels.into_iter().flat_map(serde_json::Map::keys);
    let roles: Vec<&str> = names.filter_map(|name| name.strip_prefix("node-role.kubernetes.io/")).collect();
    or_none(&roles.join(","))
}

fn node_address(node: &Value) -> String {
    let internal = items(node, "/status/addresses").iter().find(|a| text(a, "/type") == "InternalIP");
    internal.map(|address| text(address, "/address").to_owned()).unwrap_or_default()
}

/// `80/TCP,443:30443/TCP`
fn ports(service: &Value) -> String {
    let port = |port: &Value| {
        let protocol = match text(port, "/protocol") {
            "" => "TCP",
            protocol => protocol,
        };
        match number(port, "/nodePort") {
            0 => format!("{}/{protocol}", number(port, "/port")),
            node => format!("{}:{node}/{protocol}", number(port, "/port")),
        }
    };
    or_none(&items(service, "/spec/ports").iter().map(port).collect::<Vec<_>>().join(","))
}

fn event(event: &Value, now: Timestamp) -> Vec<String> {
    let first = |paths: &[&str]| {
        let texts = paths.iter().map(|path| text(event, path));
        texts.into_iter().find(|text| !text.is_empty()).unwrap_or_default().to_owned()
    };
    let object = ["involvedObject", "regarding"].into_iter().find_map(|name| {
        let object = event.get(name)?;
        Some(format!("{}/{}", text(object, "/kind").to_lowercase(), text(object, "/name")))
    });
    let seen =
        first(&["/series/lastObservedTime", "/lastTimestamp", "/eventTime", "/deprecatedLastTimestamp"]);
    let seen = if seen.is_empty() { first(&["/metadata/creationTimestamp"]) } else { seen };
    vec![
        age_since(&seen, now),
        first(&["/type"]),
        first(&["/reason"]),
        object.unwrap_or_default(),
        first(&["/message", "/note"]),
    ]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn cells(group: &str, plural: &str, object: &Value) -> String {
        let resource = Resource { group: group.into(), plural: plural.into(), ..Resource::default() };
        let columns = Columns::of(&resource, false, true);
        let cells = columns.cells(object, "2026-01-01T00:00:10Z".parse().unwrap());
        assert_eq!(cells.len(), columns.headers().len(), "{plural}");
        cells.join(" ")
    }

    #[test]
    fn every_kind_has_a_cell_for_each_column_whatever_the_object() {
        let kinds = [
            ("", "pods"),
            ("", "nodes"),
            ("", "namespaces"),
            ("", "services"),
            ("", "configmaps"),
            ("", "secrets"),
            ("", "events"),
            ("apps", "deployments"),
            ("apps", "statefulsets"),
            ("apps", "replicasets"),
            ("apps", "daemonsets"),
            ("batch", "jobs"),
            ("example.com", "gadgets"),
        ];
        let odd = [
            json!(null),
            json!({}),
            json!({"spec": [], "status": "x", "data": 7, "metadata": {"labels": []}}),
        ];
        for (group, plural) in kinds {
            for object in &odd {
                cells(group, plural, object);
            }
        }
    }

    #[test]
    fn the_columns_of_common_kinds() {
        let at = json!({"creationTimestamp": "2026-01-01T00:00:00Z"});
        let deployment = json!({"metadata": at, "spec": {"replicas": 3, "template": {"spec": {"containers": [{"name": "a", "image": "i"}]}}},
            "status": {"readyReplicas": 1, "updatedReplicas": 2, "availableReplicas": 1}});
        assert_eq!(cells("apps", "deployments", &deployment), "1/3 2 1 10s a i");
        let node = json!({"metadata": {"creationTimestamp": "2026-01-01T00:00:00Z", "labels": {"node-role.kubernetes.io/worker": ""}},
            "spec": {"unschedulable": true}, "status": {"conditions": [{"type": "Ready", "status": "True"}],
            "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}], "nodeInfo": {"kubeletVersion": "v1.36.0", "osImage": "Linux"}}});
        assert_eq!(cells("", "nodes", &node), "Ready,SchedulingDisabled worker v1.36.0 10s 10.0.0.1 Linux");
        let service = json!({"metadata": at, "spec": {"type": "NodePort", "clusterIP": "10.0.0.9", "ports": [{"port": 80}, {"port": 53, "nodePort": 30053, "protocol": "UDP"}]}});
        assert_eq!(cells("", "services", &service), "NodePort 10.0.0.9 80/TCP,53:30053/UDP 10s");
        let secret = json!({"metadata": at, "type": "Opaque", "data": {"password": "aHVudGVyMg=="}});
        assert_eq!(cells("", "secrets", &secret), "Opaque 1 10s");
        let event = json!({"metadata": at, "type": "Warning", "reason": "BackOff", "message": "again",
            "lastTimestamp": "2026-01-01T00:00:05Z", "involvedObject": {"kind": "Pod", "name": "a"}});
        assert_eq!(cells("", "events", &event), "5s Warning BackOff pod/a again");
    }
}
