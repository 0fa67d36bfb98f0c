//! The columns of `Table` answers, as `kubectl get` shows them (`k8s.io/kubernetes/pkg/printers/internalversion`).

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{
    json::{at, text_at},
    registry::Resource,
};

const NAME: &str = "Name must be unique within a namespace. Is required when creating resources, although some \
                    resources may allow a client to request the generation of an appropriate name automatically. \
                    Name is primarily intended for creation idempotence and configuration definition. Cannot be \
                    updated. More info: \
                    https://kubernetes.io/docs/concepts/overview/working-with-objects/names#names";
const AGE: &str = "CreationTimestamp is a timestamp representing the server time when this object was created. It is \
                   not guaranteed to be set in happens-before order across separate operations. Clients may not set \
                   this value. It is represented in RFC3339 form and is in UTC.\n\nPopulated by the system. \
                   Read-only. Null for lists. More info: \
                   https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata";
const DATA: &str = "Data contains the configuration data. Each key must consist of alphanumeric characters, '-', '_' \
                    or '.'. Values with non-UTF-8 byte sequences must use the BinaryData field. The keys stored in \
                    Data must not overlap with the keys in the BinaryData field, this is enforced during validation \
                    process.";
const NODE: &str = "NodeName indicates in which node this pod is scheduled. If empty, this pod is a candidate for \
                    scheduling by the scheduler defined in schedulerName. Once this field is set, the kubelet for \
                    this node becomes responsible for the lifecycle of this pod. This field should not be used to \
                    express a desire for the pod to be scheduled on a specific node. \
                    https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/#nodename";
const NOMINATED: &str = "nominatedNodeName is set only when this pod preempts other pods on the node, but it cannot \
                         be scheduled right away as preemption victims receive their graceful termination periods. \
                         This field does not guarantee that the pod will be scheduled on this node. Scheduler may \
                         decide to place the pod elsewhere if other nodes become available sooner. Scheduler may also \
                         decide to give the resources on this node to a higher priority pod that is created after \
                         preemption. As a result, this field may be different than PodSpec.nodeName when the pod is \
                         scheduled.";
const GATES: &str = "If specified, all readiness gates will be evaluated for pod readiness. A pod is ready when all \
                     its containers are ready AND all conditions specified in the readiness gates have status equal \
                     to \"True\" More info: https://git.k8s.io/enhancements/keps/sig-network/580-pod-readiness-gates";

/// Name, type, format, description, priority.
type Definition = (&'static str, &'static str, &'static str, &'static str, i64);

const NAME_COLUMN: Definition = ("Name", "string", "name", NAME, 0);
const AGE_COLUMN: Definition = ("Age", "string", "", AGE, 0);

const PODS: &[Definition] = &[
    NAME_COLUMN,
    ("Ready", "string", "", "The aggregate readiness state of this pod for accepting traffic.", 0),
    ("Status", "string", "", "The aggregate status of the containers in this pod.", 0),
    (
        "Restarts",
        "string",
        "",
        "The number of times the containers in this pod have been restarted and when the last container in this pod \
         has restarted.",
        0,
    ),
    AGE_COLUMN,
    (
        "IP",
        "string",
        "",
        "podIP address allocated to the pod. Routable at least within the cluster. Empty if not yet allocated.",
        1,
    ),
    ("Node", "string", "", NODE, 1),
    ("Nominated Node", "string", "", NOMINATED, 1),
    ("Readiness Gates", "string", "", GATES, 1),
];
const NODES: &[Definition] = &[
    NAME_COLUMN,
    ("Status", "string", "", "The status of the node", 0),
    ("Roles", "string", "", "The roles of the node", 0),
    AGE_COLUMN,
    ("Version", "string", "", "Kubelet Version reported by the node.", 0),
];
const DEPLOYMENTS: &[Definition] = &[
    NAME_COLUMN,
    ("Ready", "string", "", "Number of the pod with ready state", 0),
    ("Up-to-date", "string", "", "Total number of non-terminated pods with the desired template spec.", 0),
    ("Available", "string", "", "Total number of available pods.", 0),
    AGE_COLUMN,
];
const NAMESPACES: &[Definition] =
    &[NAME_COLUMN, ("Status", "string", "", "The status of the namespace", 0), AGE_COLUMN];
const SERVICES: &[Definition] = &[
    NAME_COLUMN,
    ("Type", "string", "", "type determines how the Service is exposed.", 0),
    ("Cluster-IP", "string", "", "clusterIP is the IP address of the service.", 0),
    ("External-IP", "string", "", "externalIPs is a list of IP addresses for which nodes accept traffic.", 0),
    ("Port(s)", "string", "", "The list of ports that are exposed by this service.", 0),
    AGE_COLUMN,
];
const CONFIG_MAPS: &[Definition] = &[NAME_COLUMN, ("Data", "string", "", DATA, 0), AGE_COLUMN];
const SECRETS: &[Definition] = &[
    NAME_COLUMN,
    ("Type", "string", "", "Used to facilitate programmatic handling of secret data.", 0),
    ("Data", "string", "", "Data contains the secret data.", 0),
    AGE_COLUMN,
];
const JOBS: &[Definition] = &[
    NAME_COLUMN,
    ("Status", "string", "", "Status of the job.", 0),
    ("Completions", "string", "", "Number of completed pods.", 0),
    ("Duration", "string", "", "Time required to complete the job.", 0),
    AGE_COLUMN,
];
const EVENTS: &[Definition] = &[
    (
        "Last Seen",
        "string",
        "",
        "The time at which the most recent occurrence of this event was recorded.",
        0,
    ),
    ("Type", "string", "", "Type of this event (Normal, Warning).", 0),
    ("Reason", "string", "", "This should be a short, machine understandable string.", 0),
    ("Object", "string", "", "The object that this event is about.", 0),
    ("Message", "string", "", "A human-readable description of the status of this operation.", 0),
];
const OTHERS: &[Definition] = &[NAME_COLUMN, AGE_COLUMN];

fn definitions(resource: &Resource) -> &'static [Definition] {
    match (resource.group.as_str(), resource.plural.as_str()) {
        ("", "pods") => PODS,
        ("", "nodes") => NODES,
        ("", "namespaces") => NAMESPACES,
        ("", "services") => SERVICES,
        ("", "configmaps") => CONFIG_MAPS,
        ("", "secrets") => SECRETS,
        ("" | "events.k8s.io", "events") => EVENTS,
        ("apps", "deployments") => DEPLOYMENTS,
        ("batch", "jobs") => JOBS,
        _ => OTHERS,
    }
}

/// `columnDefinitions`.
pub(super) fn columns(resource: &Resource) -> Value {
    let definition = |name: &str, kind: &str, format: &str, description: &str, priority: i64| json!({"name": name, "type": kind, "format": format, "description": description, "priority": priority});
    if resource.columns.is_empty() {
        return definitions(resource).iter().map(|(n, t, f, d, p)| definition(n, t, f, d, *p)).collect();
    }
    let (name, kind, format, description, priority) = NAME_COLUMN;
    let mut columns = vec![definition(name, kind, format, description, priority)];
    for c in &resource.columns {
        columns.push(definition(&c.name, &c.kind, &c.format, &c.description, c.priority));
    }
    columns.into()
}

/// The cells of one row.
pub(super) fn cells(resource: &Resource, object: &Value, now: Timestamp) -> Vec<Value> {
    let name = json!(text_at(object, &["metadata", "name"]));
    let created = json!(age(text_at(object, &["metadata", "creationTimestamp"]), now));
    let text = |path: &[&str]| json!(text_at(object, path));
    if !resource.columns.is_empty() {
        return std::iter::once(name).chain(custom_cells(resource, object, now)).collect();
    }
    match (resource.group.as_str(), resource.plural.as_str()) {
        ("", "pods") => pod_cells(object, name, created),
        ("", "nodes") => {
            let version = text(&["status", "nodeInfo", "kubeletVersion"]);
            vec![name, node_status(object), node_roles(object), created, version]
        }
        ("", "namespaces") => vec![name, text(&["status", "phase"]), created],
        ("", "services") => service_cells(object, name, created),
        ("", "configmaps") => {
            let count = count(object, &["data"]) + count(object, &["binaryData"]);
            vec![name, json!(count), created]
        }
        ("", "secrets") => vec![name, text(&["type"]), json!(count(object, &["data"])), created],
        ("" | "events.k8s.io", "events") => event_cells(object, now),
        ("apps", "deployments") => {
            let number = |path: &[&str]| number_at(object, path);
            let ready = format!("{}/{}", number(&["status", "readyReplicas"]), number(&["spec", "replicas"]));
            let updated = number(&["status", "updatedReplicas"]);
            vec![name, json!(ready), json!(updated), json!(number(&["status", "availableReplicas"])), created]
        }
        ("batch", "jobs") => job_cells(object, name, created, now),
        _ => vec![name, created],
    }
}

fn number_at(object: &Value, path: &[&str]) -> i64 {
    at(object, path).and_then(Value::as_i64).unwrap_or(0)
}

fn count(object: &Value, path: &[&str]) -> usize {
    match at(object, path) {
        Some(Value::Object(members)) => members.len(),
        Some(Value::Array(items)) => items.len(),
        _ => 0,
    }
}

fn items<'a>(object: &'a Value, path: &[&str]) -> &'a [Value] {
    at(object, path).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

fn or_none(text: &str) -> Value {
    json!(if text.is_empty() { "<none>" } else { text })
}

fn pod_cells(pod: &Value, name: Value, created: Value) -> Vec<Value> {
    let statuses = items(pod, &["status", "containerStatuses"]);
    let total = items(pod, &["spec", "containers"]).len();
    let ready = statuses.iter().filter(|s| s["ready"] == true).count();
    let restarts: i64 = statuses.iter().map(|s| number_at(s, &["restartCount"])).sum();
    let reason = text_at(pod, &["status", "reason"]);
    let mut status = if reason.is_empty() { text_at(pod, &["status", "phase"]) } else { reason };
    for container in statuses {
        let waiting = text_at(container, &["state", "waiting", "reason"]);
        let terminated = text_at(container, &["state", "terminated", "reason"]);
        if let Some(why) = [waiting, terminated].into_iter().find(|r| !r.is_empty()) {
            status = why;
        }
    }
    if at(pod, &["metadata", "deletionTimestamp"]).is_some() {
        status = "Terminating";
    }
    vec![
        name,
        json!(format!("{ready}/{total}")),
        json!(status),
        json!(restarts.to_string()),
        created,
        or_none(text_at(pod, &["status", "podIP"])),
        or_none(text_at(pod, &["spec", "nodeName"])),
        or_none(text_at(pod, &["status", "nominatedNodeName"])),
        or_none(""),
    ]
}

fn node_status(node: &Value) -> Value {
    let ready = items(node, &["status", "conditions"]).iter().find(|c| c["type"] == "Ready");
    let status = match ready.map(|c| &c["status"] == "True") {
        Some(true) => "Ready",
        Some(false) => "NotReady",
        None => "Unknown",
    };
    let cordoned = at(node, &["spec", "unschedulable"]) == Some(&Value::Bool(true));
    json!(if cordoned { format!("{status},SchedulingDisabled") } else { status.to_owned() })
}

fn node_roles(node: &Value) -> Value {
    let labels = at(node, &["metadata", "labels"]).and_then(Value::as_object);
    let mut roles: Vec<&str> = labels
        .into_iter()
        .flatten()
        .filter_map(|(label, _)| {
            label.strip_prefix("node-role.kubernetes.io/").filter(|role| !role.is_empty())
        })
        .collect();
    roles.sort_unstable();
    or_none(&roles.join(","))
}

fn service_cells(service: &Value, name: Value, created: Value) -> Vec<Value> {
    let ports: Vec<String> = items(service, &["spec", "ports"])
        .iter()
        .map(|port| {
            let protocol = Some(text_at(port, &["protocol"])).filter(|p| !p.is_empty()).unwrap_or("TCP");
            match number_at(port, &["nodePort"]) {
                0 => format!("{}/{protocol}", number_at(port, &["port"])),
                node => format!("{}:{node}/{protocol}", number_at(port, &["port"])),
            }
        })
        .collect();
    let addresses: Vec<&str> = items(service, &["status", "loadBalancer", "ingress"])
        .iter()
        .map(|i| Some(text_at(i, &["ip"])).filter(|ip| !ip.is_empty()).unwrap_or(text_at(i, &["hostname"])))
        .collect();
    vec![
        name,
        json!(text_at(service, &["spec", "type"])),
        or_none(text_at(service, &["spec", "clusterIP"])),
        or_none(&addresses.join(",")),
        or_none(&ports.join(",")),
        created,
    ]
}

fn event_cells(event: &Value, now: Timestamp) -> Vec<Value> {
    // Either version of Event may be shown.
    let either = |names: [&[&str]; 2]| names.into_iter().map(|n| text_at(event, n)).find(|t| !t.is_empty());
    let text = |names| either(names).unwrap_or_default();
    let seen = either([&["lastTimestamp"], &["deprecatedLastTimestamp"]])
        .or_else(|| either([&["eventTime"], &["metadata", "creationTimestamp"]]))
        .unwrap_or_default();
    let kind = text([&["involvedObject", "kind"], &["regarding", "kind"]]).to_lowercase();
    let name = text([&["involvedObject", "name"], &["regarding", "name"]]);
    let kind_and_name = if name.is_empty() { kind } else { format!("{kind}/{name}") };
    vec![
        json!(age(seen, now)),
        json!(text_at(event, &["type"])),
        json!(text_at(event, &["reason"])),
        json!(kind_and_name),
        json!(text([&["message"], &["note"]]).trim()),
    ]
}

fn job_cells(job: &Value, name: Value, created: Value, now: Timestamp) -> Vec<Value> {
    let condition = |kind: &str| {
        items(job, &["status", "conditions"]).iter().any(|c| c["type"] == kind && c["status"] == "True")
    };
    let status = ["Complete", "Failed", "Suspended"].into_iter().find(|c| condition(c)).unwrap_or("Running");
    let wanted = at(job, &["spec", "completions"]).and_then(Value::as_i64).unwrap_or(1);
    let started = text_at(job, &["status", "startTime"]).parse::<Timestamp>();
    let ended = text_at(job, &["status", "completionTime"]).parse::<Timestamp>();
    let took =
        started.map_or(String::new(), |from| human(ended.unwrap_or(now).as_second() - from.as_second()));
    let completions = format!("{}/{wanted}", number_at(job, &["status", "succeeded"]));
    vec![name, json!(status), json!(completions), json!(took), created]
}

fn custom_cells<'a>(
    resource: &'a Resource,
    object: &'a Value,
    now: Timestamp,
) -> impl Iterator<Item = Value> + use<'a> {
    resource.columns.iter().map(move |column| {
        let path: Vec<&str> = column.path.iter().map(String::as_str).collect();
        match (column.kind.as_str(), at(object, &path)) {
            ("date", found) => json!(age(found.and_then(Value::as_str).unwrap_or_default(), now)),
            (_, found) => found.cloned().unwrap_or(Value::Null),
        }
    })
}

/// How long ago, in the way of kubectl.
fn age(created: &str, now: Timestamp) -> String {
    match created.parse::<Timestamp>() {
        Ok(created) => human(now.as_second() - created.as_second()),
        Err(_) => "<unknown>".into(),
    }
}

/// `HumanDuration` of `k8s.io/apimachinery/pkg/util/duration`.
fn human(seconds: i64) -> String {
    let (minutes, hours) = (seconds / 60, seconds / 3600);
    let (days, years) = (hours / 24, hours / 24 / 365);
    let two = |big: i64, unit: char, small: i64, small_unit: char| match small {
        0 => format!("{big}{unit}"),
        _ => format!("{big}{unit}{small}{small_unit}"),
    };
    match seconds {
        ..-1 => "<invalid>".into(),
        -1..0 => "0s".into(),
        0..120 => format!("{seconds}s"),
        _ if minutes < 10 => two(minutes, 'm', seconds % 60, 's'),
        _ if minutes < 180 => format!("{minutes}m"),
        _ if hours < 8 => two(hours, 'h', minutes % 60, 'm'),
        _ if hours < 48 => format!("{hours}h"),
        _ if days < 8 => two(days, 'd', hours % 24, 'h'),
        _ if days < 365 * 2 => format!("{days}d"),
        _ if years < 8 => two(years, 'y', days % 365, 'd'),
        _ => format!("{years}y"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_those_of_kubectl() {
        let table = [
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (194, "3m14s"),
            (600, "10m"),
            (3 * 3600 - 1, "179m"),
            (3 * 3600, "3h"),
            (7 * 3600 + 300, "7h5m"),
            (47 * 3600, "47h"),
            (50 * 3600, "2d2h"),
            (9 * 86_400, "9d"),
            (730 * 86_400, "2y"),
        ];
        for (seconds, expected) in table {
            assert_eq!(human(seconds), expected);
        }
    }
}
