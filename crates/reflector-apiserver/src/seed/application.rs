//! Applications: what the pods of one workload have in common.

use std::fmt::Write as _;

use super::template::{Template, hex, mark, uuid};

/// Which controller owns the pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Owner {
    ReplicaSet,
    StatefulSet,
    DaemonSet,
    Job,
}

impl Owner {
    fn kind(self) -> &'static str {
        match self {
            Self::ReplicaSet => "ReplicaSet",
            Self::StatefulSet => "StatefulSet",
            Self::DaemonSet => "DaemonSet",
            Self::Job => "Job",
        }
    }

    fn api_version(self) -> &'static str {
        if self == Self::Job { "batch/v1" } else { "apps/v1" }
    }
}

#[derive(Debug)]
struct Container {
    name: &'static str,
    image: String,
    digest: String,
    port: u16,
    env: Vec<&'static str>,
    probes: bool,
}

/// What the pods of one workload have in common.
#[derive(Debug)]
pub(super) struct Application {
    name: String,
    pub(super) namespace: String,
    owner: Owner,
    owner_name: String,
    owner_uid: String,
    /// The pod template's hash, or the controller's revision.
    revision: String,
    checksum: String,
    labels: Vec<(&'static str, String)>,
    annotations: Vec<(&'static str, String)>,
    containers: Vec<Container>,
    service_account: String,
}

const DOMAINS: [&str; 12] = [
    "checkout",
    "catalog",
    "ingest",
    "billing",
    "session",
    "ledger",
    "thumbnail",
    "recommend",
    "quota",
    "audit",
    "geo",
    "mailer",
];
const ROLES: [&str; 8] = ["api", "worker", "gateway", "cache", "db", "scheduler", "consumer", "web"];
const TEAMS: [&str; 6] = ["red", "blue", "green", "amber", "violet", "slate"];
const SIDECARS: [&str; 4] = ["proxy", "metrics", "log-shipper", "vault-agent"];
const ENV: [&str; 10] = [
    "LOG_LEVEL",
    "HTTP_PORT",
    "DATABASE_URL",
    "CACHE_URL",
    "FEATURES",
    "REGION",
    "OTEL_EXPORTER_ENDPOINT",
    "GOMAXPROCS",
    "QUEUE_NAME",
    "RETRY_LIMIT",
];
/// The letters of name suffixes (apimachinery, `rand.String`): no vowels, so no words.
const SUFFIX: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

impl Application {
    /// The n-th application of a cluster.
    pub(super) fn make_up(n: usize, namespace: String, rng: &mut fastrand::Rng) -> Self {
        let domain = DOMAINS[n % DOMAINS.len()];
        let role = ROLES[(n / DOMAINS.len() + n) % ROLES.len()];
        let owner = match rng.u8(..10) {
            0 | 1 => Owner::StatefulSet,
            2 => Owner::DaemonSet,
            _ => Owner::ReplicaSet,
        };
        // No matter of chance: a few applications have most of the pods, and would decide how large those are.
        let containers = [2, 2, 1, 3, 2, 2][n % 6];
        Self::shape(format!("{domain}-{role}-{n}"), namespace, owner, containers, rng)
    }

    /// A job that runs once.
    pub(super) fn one_off(namespace: String, rng: &mut fastrand::Rng) -> Self {
        let name = format!("{}-{}-{}", DOMAINS[rng.usize(..DOMAINS.len())], "migrate", suffix(8, rng));
        let containers = 1 + usize::from(rng.u8(..10) < 8) + usize::from(rng.u8(..10) < 2);
        Self::shape(name, namespace, Owner::Job, containers, rng)
    }

    fn shape(name: String, namespace: String, owner: Owner, count: usize, rng: &mut fastrand::Rng) -> Self {
        let text = |digits, rng: &mut fastrand::Rng| {
            let mut out = String::new();
            hex(rng, digits, &mut out);
            out
        };
        let revision = suffix(10, rng);
        let owner_name = if owner == Owner::ReplicaSet { format!("{name}-{revision}") } else { name.clone() };
        let mut owner_uid = String::new();
        uuid(rng, &mut owner_uid);
        let version = format!("{}.{}.{}", rng.u8(1..5), rng.u8(..20), rng.u8(..10));
        let mut labels = vec![
            ("app.kubernetes.io/instance", format!("{name}-prod")),
            ("app.kubernetes.io/managed-by", "Helm".to_owned()),
            ("app.kubernetes.io/name", name.clone()),
            ("app.kubernetes.io/version", version.clone()),
            ("team", TEAMS[rng.usize(..TEAMS.len())].to_owned()),
        ];
        match owner {
            Owner::ReplicaSet => labels.push(("pod-template-hash", revision.clone())),
            Owner::Job => labels.push(("batch.kubernetes.io/job-name", name.clone())),
            _ => labels.push(("controller-revision-hash", format!("{name}-{revision}"))),
        }
        labels.sort();
        let annotations = vec![
            ("prometheus.io/path", "/metrics".to_owned()),
            ("prometheus.io/port", "9090".to_owned()),
            ("prometheus.io/scrape", "true".to_owned()),
        ];
        let mut names = SIDECARS;
        rng.shuffle(&mut names);
        let containers = std::iter::once("server")
            .chain(names)
            .take(count)
            .enumerate()
            .map(|(n, name)| {
                let mut env = ENV.to_vec();
                rng.shuffle(&mut env);
                env.truncate(rng.usize(3..7));
                env.sort_unstable();
                Container {
                    name,
                    image: format!("registry.example.com/{}/{name}:v{version}", TEAMS[n % TEAMS.len()]),
                    digest: text(64, rng),
                    port: 8080 + n as u16,
                    env,
                    probes: owner != Owner::Job && n < 2,
                }
            })
            .collect();
        let checksum = text(64, rng);
        let service_account = format!("{name}-sa");
        Self {
            name,
            namespace,
            owner,
            owner_name,
            owner_uid,
            revision,
            checksum,
            labels,
            annotations,
            containers,
            service_account,
        }
    }

    /// The name of the n-th pod of the cluster.
    pub(super) fn pod_name(&self, n: usize) -> String {
        match self.owner {
            Owner::ReplicaSet => format!("{}-{}-{}", self.name, self.revision, nth_suffix(n)),
            // Ordinals of a stateful set are small in reality; the cluster-wide one never collides.
            Owner::StatefulSet => format!("{}-{n}", self.name),
            Owner::DaemonSet | Owner::Job => format!("{}-{}", self.name, nth_suffix(n)),
        }
    }

    /// The pods of this application, serialised.
    pub(super) fn template(&self) -> Template {
        Template::new(&format!(
            r#"{{"apiVersion":"v1","kind":"Pod","metadata":{},"spec":{},"status":{}}}"#,
            self.metadata(),
            self.spec(),
            self.status()
        ))
    }

    fn metadata(&self) -> String {
        let generate_name = match self.owner {
            Owner::ReplicaSet => format!("{}-{}-", self.name, self.revision),
            _ => format!("{}-", self.name),
        };
        let labels = join(self.labels.iter().map(|(name, value)| format!(r#""{name}":"{value}""#)));
        let annotations = join(self.annotations.iter().map(|(name, value)| format!(r#""{name}":"{value}""#)));
        format!(
            r#"{{"name":"{}","generateName":"{generate_name}","namespace":"{}","uid":"{}","generation":1,"creationTimestamp":"{}","labels":{{{labels}}},"annotations":{{"checksum/config":"{}",{annotations}}},"ownerReferences":[{{"apiVersion":"{}","kind":"{}","name":"{}","uid":"{}","controller":true,"blockOwnerDeletion":true}}],"managedFields":{}}}"#,
            mark::NAME,
            self.namespace,
            mark::UID,
            mark::CREATED,
            self.checksum,
            self.owner.api_version(),
            self.owner.kind(),
            self.owner_name,
            self.owner_uid,
            self.managed_fields(),
        )
    }

    fn spec(&self) -> String {
        let containers = join(self.containers.iter().map(Container::spec));
        let restart = if self.owner == Owner::Job { "OnFailure" } else { "Always" };
        format!(
            r#"{{"volumes":[{{"name":"config","configMap":{{"name":"{0}-config","defaultMode":420}}}},{{"name":"{1}","projected":{{"sources":[{{"serviceAccountToken":{{"expirationSeconds":3607,"path":"token"}}}},{{"configMap":{{"name":"kube-root-ca.crt","items":[{{"key":"ca.crt","path":"ca.crt"}}]}}}},{{"downwardAPI":{{"items":[{{"path":"namespace","fieldRef":{{"apiVersion":"v1","fieldPath":"metadata.namespace"}}}}]}}}}],"defaultMode":420}}}}],"containers":[{containers}],"restartPolicy":"{restart}","terminationGracePeriodSeconds":30,"dnsPolicy":"ClusterFirst","serviceAccountName":"{2}","serviceAccount":"{2}","nodeName":"{3}","securityContext":{{"runAsUser":1000,"fsGroup":1000}},"schedulerName":"default-scheduler","tolerations":[{{"key":"node.kubernetes.io/not-ready","operator":"Exists","effect":"NoExecute","tolerationSeconds":300}},{{"key":"node.kubernetes.io/unreachable","operator":"Exists","effect":"NoExecute","tolerationSeconds":300}}],"priority":0,"enableServiceLinks":true,"preemptionPolicy":"PreemptLowerPriority"}}"#,
            self.name,
            mark::TOKEN,
            self.service_account,
            mark::NODE,
        )
    }

    fn status(&self) -> String {
        let running = self.owner != Owner::Job;
        let conditions = [
            "PodReadyToStartContainers",
            "Initialized",
            "Ready",
            "ContainersReady",
            "PodScheduled",
        ]
        .map(|kind| {
            let status = match kind {
                "Ready" | "ContainersReady" if running => mark::READY_WORD,
                "Ready" | "ContainersReady" => "False",
                _ => "True",
            };
            format!(
                r#"{{"type":"{kind}","status":"{status}","lastProbeTime":null,"lastTransitionTime":"{}"}}"#,
                mark::STARTED
            )
        });
        let phase = if running { "Running" } else { "Succeeded" };
        format!(
            r#"{{"phase":"{phase}","conditions":[{}],"hostIP":"{3}","hostIPs":[{{"ip":"{3}"}}],"podIP":"{4}","podIPs":[{{"ip":"{4}"}}],"startTime":"{1}","containerStatuses":[{2}],"qosClass":"Burstable"}}"#,
            join(conditions),
            mark::CREATED,
            join(self.containers.iter().map(|container| container.status(running))),
            mark::HOST_IP,
            mark::POD_IP,
        )
    }

    fn managed_fields(&self) -> String {
        let labels = join(self.labels.iter().map(|(name, _)| format!(r#""f:{name}":{{}}"#)));
        let annotations = join(self.annotations.iter().map(|(name, _)| format!(r#""f:{name}":{{}}"#)));
        let containers = join(self.containers.iter().map(Container::managed));
        let condition = |kind: &str| {
            format!(
                r#""k:{{\"type\":\"{kind}\"}}":{{".":{{}},"f:lastProbeTime":{{}},"f:lastTransitionTime":{{}},"f:status":{{}},"f:type":{{}}}}"#
            )
        };
        let conditions =
            join(["ContainersReady", "Initialized", "PodReadyToStartContainers", "Ready"].map(condition));
        format!(
            r#"[{{"manager":"kube-controller-manager","operation":"Update","apiVersion":"v1","time":"{1}","fieldsType":"FieldsV1","fieldsV1":{{"f:metadata":{{"f:annotations":{{".":{{}},"f:checksum/config":{{}},{annotations}}},"f:generateName":{{}},"f:labels":{{".":{{}},{labels}}},"f:ownerReferences":{{".":{{}},"k:{{\"uid\":\"{0}\"}}":{{}}}}}},"f:spec":{{"f:containers":{{{containers}}},"f:dnsPolicy":{{}},"f:enableServiceLinks":{{}},"f:restartPolicy":{{}},"f:schedulerName":{{}},"f:securityContext":{{".":{{}},"f:fsGroup":{{}},"f:runAsUser":{{}}}},"f:serviceAccount":{{}},"f:serviceAccountName":{{}},"f:terminationGracePeriodSeconds":{{}},"f:volumes":{{".":{{}},"k:{{\"name\":\"config\"}}":{{".":{{}},"f:configMap":{{".":{{}},"f:defaultMode":{{}},"f:name":{{}}}},"f:name":{{}}}}}}}}}}}},{{"manager":"kubelet","operation":"Update","apiVersion":"v1","time":"{2}","fieldsType":"FieldsV1","fieldsV1":{{"f:status":{{"f:conditions":{{{conditions}}},"f:containerStatuses":{{}},"f:hostIP":{{}},"f:hostIPs":{{}},"f:phase":{{}},"f:podIP":{{}},"f:podIPs":{{".":{{}},"k:{{\"ip\":\"{3}\"}}":{{".":{{}},"f:ip":{{}}}}}},"f:startTime":{{}}}}}},"subresource":"status"}}]"#,
            self.owner_uid,
            mark::CREATED,
            mark::STARTED,
            mark::POD_IP,
        )
    }
}

impl Container {
    fn spec(&self) -> String {
        let Self { name, image, port, .. } = self;
        let token = mark::TOKEN;
        let env = self
            .env
            .iter()
            .map(|variable| format!(r#"{{"name":"{variable}","value":"{}"}}"#, variable.to_lowercase()));
        let probe = |path: &str| {
            format!(
                r#"{{"httpGet":{{"path":"{path}","port":{port},"scheme":"HTTP"}},"initialDelaySeconds":5,"timeoutSeconds":1,"periodSeconds":10,"successThreshold":1,"failureThreshold":3}}"#
            )
        };
        let probes = if self.probes {
            format!(r#","livenessProbe":{},"readinessProbe":{}"#, probe("/healthz"), probe("/readyz"))
        } else {
            String::new()
        };
        format!(
            r#"{{"name":"{name}","image":"{image}","command":["/usr/bin/{name}"],"args":["--listen=:{port}","--log-level=info","--config=/etc/{name}/config.yaml"],"ports":[{{"name":"http","containerPort":{port},"protocol":"TCP"}},{{"name":"metrics","containerPort":9090,"protocol":"TCP"}}],"env":[{{"name":"POD_NAME","valueFrom":{{"fieldRef":{{"apiVersion":"v1","fieldPath":"metadata.name"}}}}}},{}],"resources":{{"limits":{{"cpu":"1","memory":"512Mi"}},"requests":{{"cpu":"100m","memory":"128Mi"}}}},"volumeMounts":[{{"name":"config","mountPath":"/etc/{name}"}},{{"name":"{token}","readOnly":true,"mountPath":"/var/run/secrets/kubernetes.io/serviceaccount"}}]{probes},"terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File","imagePullPolicy":"IfNotPresent","securityContext":{{"runAsNonRoot":true,"readOnlyRootFilesystem":true}}}}"#,
            join(env)
        )
    }

    fn status(&self, running: bool) -> String {
        let Self { name, image, digest, .. } = self;
        let id = mark::DIGEST;
        let (state, ready) = if running {
            (format!(r#"{{"running":{{"startedAt":"{}"}}}}"#, mark::STARTED), mark::READY)
        } else {
            let terminated = format!(
                r#"{{"terminated":{{"exitCode":0,"reason":"Completed","startedAt":"{0}","finishedAt":"{0}"}}}}"#,
                mark::STARTED
            );
            (terminated, "false")
        };
        format!(
            r#"{{"name":"{name}","state":{state},"lastState":{{}},"ready":{ready},"restartCount":{},"image":"{image}","imageID":"registry.example.com/{name}@sha256:{digest}","containerID":"containerd://{id}","started":{ready}}}"#,
            mark::RESTARTS
        )
    }

    fn managed(&self) -> String {
        let env = self.env.iter().map(|variable| {
            format!(r#""k:{{\"name\":\"{variable}\"}}":{{".":{{}},"f:name":{{}},"f:value":{{}}}}"#)
        });
        let probe = r#"{".":{},"f:failureThreshold":{},"f:httpGet":{".":{},"f:path":{},"f:port":{},"f:scheme":{}},"f:initialDelaySeconds":{},"f:periodSeconds":{},"f:successThreshold":{},"f:timeoutSeconds":{}}"#;
        let probes = if self.probes {
            format!(r#""f:livenessProbe":{probe},"f:readinessProbe":{probe},"#)
        } else {
            String::new()
        };
        let Self { name, port, .. } = self;
        let mut out = String::new();
        // Writing to a string cannot fail.
        let _ = write!(
            out,
            r#""k:{{\"name\":\"{name}\"}}":{{".":{{}},"f:args":{{}},"f:command":{{}},"f:env":{{".":{{}},{},"k:{{\"name\":\"POD_NAME\"}}":{{".":{{}},"f:name":{{}},"f:valueFrom":{{".":{{}},"f:fieldRef":{{}}}}}}}},"f:image":{{}},"f:imagePullPolicy":{{}},{probes}"f:name":{{}},"f:ports":{{".":{{}},"k:{{\"containerPort\":{port},\"protocol\":\"TCP\"}}":{{".":{{}},"f:containerPort":{{}},"f:name":{{}},"f:protocol":{{}}}},"k:{{\"containerPort\":9090,\"protocol\":\"TCP\"}}":{{".":{{}},"f:containerPort":{{}},"f:name":{{}},"f:protocol":{{}}}}}},"f:resources":{{".":{{}},"f:limits":{{".":{{}},"f:cpu":{{}},"f:memory":{{}}}},"f:requests":{{".":{{}},"f:cpu":{{}},"f:memory":{{}}}}}},"f:securityContext":{{".":{{}},"f:readOnlyRootFilesystem":{{}},"f:runAsNonRoot":{{}}}},"f:terminationMessagePath":{{}},"f:terminationMessagePolicy":{{}},"f:volumeMounts":{{".":{{}},"k:{{\"mountPath\":\"/etc/{name}\"}}":{{".":{{}},"f:mountPath":{{}},"f:name":{{}}}},"k:{{\"mountPath\":\"/var/run/secrets/kubernetes.io/serviceaccount\"}}":{{".":{{}},"f:mountPath":{{}},"f:name":{{}},"f:readOnly":{{}}}}}}}}"#,
            join(env)
        );
        out
    }
}

fn join(parts: impl IntoIterator<Item = String>) -> String {
    parts.into_iter().collect::<Vec<_>>().join(",")
}

pub(super) fn suffix(letters: usize, rng: &mut fastrand::Rng) -> String {
    (0..letters).map(|_| char::from(SUFFIX[rng.usize(..SUFFIX.len())])).collect()
}

/// Five letters that look random and come only once: chance alone would repeat itself among many pods.
fn nth_suffix(n: usize) -> String {
    let letters = SUFFIX.len() as u64;
    // No multiple of three, as 27 to the power of five is: so this is a permutation.
    let mut rest = (n as u64).wrapping_mul(7_368_787).wrapping_add(1_234_567) % letters.pow(5);
    let mut out = String::with_capacity(5);
    for _ in 0..5 {
        out.push(char::from(SUFFIX[(rest % letters) as usize]));
        rest /= letters;
    }
    out
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn suffixes_do_not_repeat() {
        let suffixes: HashSet<String> = (0..200_000).map(nth_suffix).collect();
        assert_eq!(suffixes.len(), 200_000);
    }
}
