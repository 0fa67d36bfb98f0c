//! The built-in resources, as kube-apiserver 1.36 serves them.

use super::registry::{ALL_VERBS, Conversion, Field, FieldErrors, Resource};

/// One line of the table.
struct Builtin {
    group: &'static str,
    version: &'static str,
    kind: &'static str,
    plural: &'static str,
    short_names: &'static [&'static str],
    categories: &'static [&'static str],
    namespaced: bool,
    subresources: &'static [&'static str],
    generation: bool,
    members: &'static [&'static str],
    zero: &'static str,
    /// Labels with the value of an object that lacks the field.
    fields: &'static [(&'static str, &'static str)],
}

const SPEC_STATUS: &[&str] = &["spec", "status"];
const ALL: &[&str] = &["all"];
const STATUS: &[&str] = &["status"];
const SCALE: &[&str] = &["status", "scale"];

const DEFAULT: Builtin = Builtin {
    group: "",
    version: "v1",
    kind: "",
    plural: "",
    short_names: &[],
    categories: &[],
    namespaced: true,
    subresources: &[],
    generation: false,
    members: SPEC_STATUS,
    zero: "",
    fields: &[],
};

const CORE: &[Builtin] = &[
    Builtin {
        kind: "Pod",
        plural: "pods",
        short_names: &["po"],
        categories: ALL,
        subresources: STATUS,
        generation: true,
        zero: r#""spec":{"containers":null},"status":{}"#,
        fields: &[
            ("spec.nodeName", ""),
            ("spec.restartPolicy", ""),
            ("spec.schedulerName", ""),
            ("spec.serviceAccountName", ""),
            ("spec.hostNetwork", "false"),
            ("status.phase", ""),
            ("status.podIP", ""),
            ("status.nominatedNodeName", ""),
        ],
        ..DEFAULT
    },
    Builtin {
        kind: "Node",
        plural: "nodes",
        short_names: &["no"],
        namespaced: false,
        subresources: STATUS,
        zero: r#""spec":{},"status":{"daemonEndpoints":{"kubeletEndpoint":{"Port":0}},"nodeInfo":{"machineID":"","systemUUID":"","bootID":"","kernelVersion":"","osImage":"","containerRuntimeVersion":"","kubeletVersion":"","kubeProxyVersion":"","operatingSystem":"","architecture":""}}"#,
        fields: &[("spec.unschedulable", "false")],
        ..DEFAULT
    },
    Builtin {
        kind: "Namespace",
        plural: "namespaces",
        short_names: &["ns"],
        namespaced: false,
        subresources: STATUS,
        zero: r#""spec":{},"status":{}"#,
        fields: &[("status.phase", "")],
        ..DEFAULT
    },
    Builtin {
        kind: "Service",
        plural: "services",
        short_names: &["svc"],
        categories: ALL,
        subresources: STATUS,
        zero: r#""spec":{},"status":{"loadBalancer":{}}"#,
        fields: &[("spec.clusterIP", ""), ("spec.type", "")],
        ..DEFAULT
    },
    Builtin {
        kind: "Endpoints",
        plural: "endpoints",
        short_names: &["ep"],
        members: &["subsets"],
        ..DEFAULT
    },
    Builtin {
        kind: "ConfigMap",
        plural: "configmaps",
        short_names: &["cm"],
        members: &["data", "binaryData", "immutable"],
        ..DEFAULT
    },
    Builtin {
        kind: "Secret",
        plural: "secrets",
        members: &["data", "stringData", "type", "immutable"],
        fields: &[("type", "")],
        ..DEFAULT
    },
    Builtin {
        kind: "Event",
        plural: "events",
        short_names: &["ev"],
        members: &[],
        zero: r#""involvedObject":{},"source":{},"firstTimestamp":null,"lastTimestamp":null,"eventTime":null,"reportingComponent":"","reportingInstance":"""#,
        fields: &[
            ("involvedObject.kind", ""),
            ("involvedObject.namespace", ""),
            ("involvedObject.name", ""),
            ("involvedObject.uid", ""),
            ("involvedObject.apiVersion", ""),
            ("involvedObject.resourceVersion", ""),
            ("involvedObject.fieldPath", ""),
            ("reason", ""),
            ("reportingComponent", ""),
            ("type", ""),
            ("source.component", ""),
        ],
        ..DEFAULT
    },
    Builtin {
        kind: "ServiceAccount",
        plural: "serviceaccounts",
        short_names: &["sa"],
        members: &["secrets", "imagePullSecrets", "automountServiceAccountToken"],
        ..DEFAULT
    },
    Builtin {
        kind: "PersistentVolumeClaim",
        plural: "persistentvolumeclaims",
        short_names: &["pvc"],
        subresources: STATUS,
        zero: r#""spec":{"resources":{}},"status":{}"#,
        ..DEFAULT
    },
    Builtin {
        kind: "PersistentVolume",
        plural: "persistentvolumes",
        short_names: &["pv"],
        namespaced: false,
        subresources: STATUS,
        zero: r#""spec":{},"status":{}"#,
        ..DEFAULT
    },
];

const GROUPED: &[Builtin] = &[
    Builtin {
        group: "discovery.k8s.io",
        kind: "EndpointSlice",
        plural: "endpointslices",
        members: &["addressType", "endpoints", "ports"],
        zero: r#""addressType":"","endpoints":null,"ports":null"#,
        ..DEFAULT
    },
    Builtin {
        group: "events.k8s.io",
        kind: "Event",
        plural: "events",
        short_names: &["ev"],
        members: &[],
        zero: r#""eventTime":null,"regarding":{},"deprecatedSource":{},"deprecatedFirstTimestamp":null,"deprecatedLastTimestamp":null"#,
        // In the order of core/v1, whose stored values they name.
        fields: &[
            ("regarding.kind", ""),
            ("regarding.namespace", ""),
            ("regarding.name", ""),
            ("regarding.uid", ""),
            ("regarding.apiVersion", ""),
            ("regarding.resourceVersion", ""),
            ("regarding.fieldPath", ""),
            ("reason", ""),
            ("reportingController", ""),
            ("type", ""),
        ],
        ..DEFAULT
    },
    Builtin {
        group: "apps",
        kind: "Deployment",
        plural: "deployments",
        short_names: &["deploy"],
        categories: ALL,
        subresources: SCALE,
        generation: true,
        zero: r#""spec":{"selector":null,"template":{"metadata":{},"spec":{"containers":null}},"strategy":{}},"status":{}"#,
        ..DEFAULT
    },
    Builtin {
        group: "apps",
        kind: "ReplicaSet",
        plural: "replicasets",
        short_names: &["rs"],
        categories: ALL,
        subresources: SCALE,
        generation: true,
        zero: r#""spec":{"selector":null,"template":{"metadata":{},"spec":{"containers":null}}},"status":{"replicas":0}"#,
        fields: &[("status.replicas", "0")],
        ..DEFAULT
    },
    Builtin {
        group: "apps",
        kind: "StatefulSet",
        plural: "statefulsets",
        short_names: &["sts"],
        categories: ALL,
        subresources: SCALE,
        generation: true,
        zero: r#""spec":{"selector":null,"template":{"metadata":{},"spec":{"containers":null}},"serviceName":"","updateStrategy":{}},"status":{"replicas":0,"availableReplicas":0}"#,
        ..DEFAULT
    },
    Builtin {
        group: "apps",
        kind: "DaemonSet",
        plural: "daemonsets",
        short_names: &["ds"],
        categories: ALL,
        subresources: STATUS,
        generation: true,
        zero: r#""spec":{"selector":null,"template":{"metadata":{},"spec":{"containers":null}},"updateStrategy":{}},"status":{"currentNumberScheduled":0,"numberMisscheduled":0,"desiredNumberScheduled":0,"numberReady":0}"#,
        ..DEFAULT
    },
    Builtin {
        group: "batch",
        kind: "Job",
        plural: "jobs",
        categories: ALL,
        subresources: STATUS,
        generation: true,
        zero: r#""spec":{"template":{"metadata":{},"spec":{"containers":null}}},"status":{}"#,
        fields: &[("status.successful", "0")],
        ..DEFAULT
    },
    Builtin {
        group: "batch",
        kind: "CronJob",
        plural: "cronjobs",
        short_names: &["cj"],
        categories: ALL,
        subresources: STATUS,
        generation: true,
        zero: r#""spec":{"schedule":"","jobTemplate":{"metadata":{},"spec":{"template":{"metadata":{},"spec":{"containers":null}}}}},"status":{}"#,
        ..DEFAULT
    },
    Builtin {
        group: "networking.k8s.io",
        kind: "Ingress",
        plural: "ingresses",
        short_names: &["ing"],
        subresources: STATUS,
        generation: true,
        zero: r#""spec":{},"status":{"loadBalancer":{}}"#,
        ..DEFAULT
    },
    Builtin {
        group: "networking.k8s.io",
        kind: "NetworkPolicy",
        plural: "networkpolicies",
        short_names: &["netpol"],
        generation: true,
        zero: r#""spec":{"podSelector":{}}"#,
        ..DEFAULT
    },
    Builtin {
        group: "coordination.k8s.io",
        kind: "Lease",
        plural: "leases",
        zero: r#""spec":{}"#,
        ..DEFAULT
    },
    Builtin {
        group: "rbac.authorization.k8s.io",
        kind: "Role",
        plural: "roles",
        members: &["rules"],
        zero: r#""rules":null"#,
        ..DEFAULT
    },
    Builtin {
        group: "rbac.authorization.k8s.io",
        kind: "RoleBinding",
        plural: "rolebindings",
        members: &["subjects", "roleRef"],
        zero: r#""roleRef":{"apiGroup":"","kind":"","name":""}"#,
        ..DEFAULT
    },
    Builtin {
        group: "rbac.authorization.k8s.io",
        kind: "ClusterRole",
        plural: "clusterroles",
        namespaced: false,
        members: &["rules", "aggregationRule"],
        zero: r#""rules":null"#,
        ..DEFAULT
    },
    Builtin {
        group: "rbac.authorization.k8s.io",
        kind: "ClusterRoleBinding",
        plural: "clusterrolebindings",
        namespaced: false,
        members: &["subjects", "roleRef"],
        zero: r#""roleRef":{"apiGroup":"","kind":"","name":""}"#,
        ..DEFAULT
    },
    Builtin {
        group: "storage.k8s.io",
        kind: "StorageClass",
        plural: "storageclasses",
        short_names: &["sc"],
        namespaced: false,
        members: &[],
        zero: r#""provisioner":"""#,
        ..DEFAULT
    },
    Builtin {
        group: "autoscaling",
        version: "v2",
        kind: "HorizontalPodAutoscaler",
        plural: "horizontalpodautoscalers",
        short_names: &["hpa"],
        categories: ALL,
        subresources: STATUS,
        zero: r#""spec":{"scaleTargetRef":{"kind":"","name":""},"maxReplicas":0},"status":{"desiredReplicas":0,"currentMetrics":null}"#,
        ..DEFAULT
    },
    Builtin {
        group: "policy",
        kind: "PodDisruptionBudget",
        plural: "poddisruptionbudgets",
        short_names: &["pdb"],
        subresources: STATUS,
        generation: true,
        zero: r#""spec":{},"status":{"disruptionsAllowed":0,"currentHealthy":0,"desiredHealthy":0,"expectedPods":0}"#,
        ..DEFAULT
    },
    Builtin {
        group: "scheduling.k8s.io",
        kind: "PriorityClass",
        plural: "priorityclasses",
        short_names: &["pc"],
        namespaced: false,
        generation: true,
        members: &[],
        zero: r#""value":0"#,
        ..DEFAULT
    },
    Builtin {
        group: "apiextensions.k8s.io",
        kind: "CustomResourceDefinition",
        plural: "customresourcedefinitions",
        short_names: &["crd", "crds"],
        categories: &["api-extensions"],
        namespaced: false,
        subresources: STATUS,
        generation: true,
        zero: r#""spec":{"group":"","names":{"plural":"","kind":""},"scope":"","versions":null},"status":{"conditions":null,"acceptedNames":{"plural":"","kind":""},"storedVersions":null}"#,
        ..DEFAULT
    },
];

/// Resources without storage: they only stand for their routes and refusals.
const ROUTES: &[(Builtin, &[&str])] = &[
    (
        Builtin {
            kind: "ComponentStatus",
            plural: "componentstatuses",
            short_names: &["cs"],
            namespaced: false,
            ..DEFAULT
        },
        &["get", "list"],
    ),
    (
        Builtin {
            group: "authorization.k8s.io",
            kind: "SubjectAccessReview",
            plural: "subjectaccessreviews",
            namespaced: false,
            ..DEFAULT
        },
        &["create"],
    ),
];

pub(super) fn resources() -> Vec<Resource> {
    let stored = CORE.iter().chain(GROUPED).map(|b| build(b, &ALL_VERBS));
    stored.chain(ROUTES.iter().map(|(b, verbs)| build(b, verbs))).collect()
}

fn build(builtin: &Builtin, verbs: &[&'static str]) -> Resource {
    let is_event = builtin.plural == "events";
    let storage = match builtin.group {
        "" => builtin.plural.into(),
        _ if is_event => "events".into(),
        group => format!("{group}/{}", builtin.plural).into(),
    };
    let mut verbs = verbs.to_vec();
    if builtin.plural == "namespaces" {
        verbs.retain(|verb| *verb != "deletecollection");
    }
    let strings = |list: &[&str]| list.iter().map(|s| (*s).to_owned()).collect();
    let mut resource = Resource {
        group: builtin.group.into(),
        version: builtin.version.into(),
        kind: builtin.kind.into(),
        list_kind: format!("{}List", builtin.kind),
        plural: builtin.plural.into(),
        singular: builtin.kind.to_lowercase(),
        short_names: strings(builtin.short_names),
        categories: strings(builtin.categories),
        namespaced: builtin.namespaced,
        verbs,
        subresources: Vec::new(),
        cached: !is_event,
        custom: false,
        storage,
        fields: builtin.fields.iter().map(|(label, default)| Field::new(label, default)).collect(),
        field_errors: match builtin.plural {
            "jobs" => FieldErrors::NotSupportedForKind,
            _ if builtin.fields.is_empty() => FieldErrors::Generic,
            _ => FieldErrors::NotSupported,
        },
        columns: Vec::new(),
        members: builtin.members,
        generation: builtin.generation,
        zero: builtin.zero,
        warning: match builtin.plural {
            "endpoints" => {
                Some("v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice")
            }
            "componentstatuses" => Some("v1 ComponentStatus is deprecated in v1.19+"),
            _ => None,
        },
        conversion: match builtin.group {
            "events.k8s.io" => Conversion::Events,
            _ => Conversion::None,
        },
    };
    for field in &mut resource.fields {
        if field.label == "source.component" {
            field.label = "source".into();
        }
    }
    for name in builtin.subresources {
        resource.add_subresource(name);
    }
    resource
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_values_are_json() {
        for resource in resources() {
            let text = format!("{{{}}}", resource.zero);
            serde_json::from_str::<serde_json::Value>(&text)
                .unwrap_or_else(|e| panic!("{}: {e}", resource.plural));
        }
    }
}
