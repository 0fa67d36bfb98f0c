//! Seed data: a cluster's worth of realistic objects, from a seed and fast.
//!
//! Pods are what informers hold most of, so pods are what is made here: about 11 kB of JSON each, nearly half of it
//! `managedFields`, as real ones have them. A few dozen applications of different shape have most of the pods (a few large
//! ones, many small ones), and a long tail of one-off jobs has the rest. Uids, name suffixes, container ids, addresses, times
//! and restart counts differ from pod to pod; images, digests and config checksums from application to application.
//!
//! Each application is serialised once, into a template with gaps; a pod is a copy with the gaps filled.
//!
//! ```
//! use reflector_apiserver::seed::{Cluster, ClusterOptions};
//!
//! let cluster = Cluster::new(ClusterOptions { pods: 100, ..ClusterOptions::default() });
//! assert_eq!(cluster.pods().count(), 100);
//! let again = Cluster::new(ClusterOptions { pods: 100, ..ClusterOptions::default() });
//! assert!(cluster.pods().eq(again.pods()));
//! ```

mod application;
mod churn;
mod template;

pub use self::churn::{Churn, ChurnOptions, Write};

use jiff::{SignedDuration, Timestamp};

use self::{
    application::Application,
    template::{Filler, Template},
};

/// How large a cluster, and from which seed.
#[derive(Debug, Clone)]
pub struct ClusterOptions {
    /// Where all chance comes from.
    pub seed: u64,
    /// How many pods.
    pub pods: usize,
    /// How many namespaces, at least one.
    pub namespaces: usize,
    /// How many nodes, at least one; 0 means one for every 40 pods.
    pub nodes: usize,
    /// How many applications besides the one-offs, at least one.
    pub applications: usize,
    /// The present of the cluster: its objects are older.
    pub epoch: Timestamp,
}

impl Default for ClusterOptions {
    fn default() -> Self {
        Self { seed: 0, pods: 1_000, namespaces: 8, nodes: 0, applications: 40, epoch: Timestamp::UNIX_EPOCH }
    }
}

/// An object to be created.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Object {
    /// The plural name of its resource.
    pub resource: &'static str,
    /// Its namespace, empty for cluster-scoped objects.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The object as JSON.
    pub json: String,
}

/// One pod in this many is a one-off of the long tail.
const ONE_OFF: usize = 25;

/// A made-up cluster.
#[derive(Debug)]
pub struct Cluster {
    options: ClusterOptions,
    applications: Vec<(Application, Template)>,
    /// Upper bounds of the applications' shares, the last being the sum.
    shares: Vec<f64>,
}

impl Cluster {
    /// Makes up the applications.
    pub fn new(mut options: ClusterOptions) -> Self {
        options.namespaces = options.namespaces.max(1);
        options.applications = options.applications.max(1);
        if options.nodes == 0 {
            options.nodes = options.pods.div_ceil(40).max(1);
        }
        let mut rng = fastrand::Rng::with_seed(options.seed);
        let mut shares = Vec::with_capacity(options.applications);
        let mut sum = 0.0;
        let applications = (0..options.applications)
            .map(|n| {
                // Zipf: the n-th application has a share of 1/n.
                sum += 1.0 / (n + 1) as f64;
                shares.push(sum);
                let namespace = namespace_name(n % options.namespaces);
                let application = Application::make_up(n, namespace, &mut rng);
                let template = application.template();
                (application, template)
            })
            .collect();
        Self { options, applications, shares }
    }

    /// Everything: namespaces, nodes, pods, in this order.
    pub fn objects(&self) -> impl Iterator<Item = Object> + '_ {
        self.namespaces().chain(self.nodes()).chain(self.pods())
    }

    /// The namespaces.
    pub fn namespaces(&self) -> impl Iterator<Item = Object> + '_ {
        (0..self.options.namespaces).map(|n| {
            let name = namespace_name(n);
            let json = format!(
                r#"{{"apiVersion":"v1","kind":"Namespace","metadata":{{"name":"{name}","labels":{{"kubernetes.io/metadata.name":"{name}"}}}},"spec":{{"finalizers":["kubernetes"]}},"status":{{"phase":"Active"}}}}"#
            );
            Object { resource: "namespaces", namespace: String::new(), name, json }
        })
    }

    /// The nodes.
    pub fn nodes(&self) -> impl Iterator<Item = Object> + '_ {
        (0..self.options.nodes).map(|n| {
            let name = template::node_name(n);
            let ip = template::host_ip(n);
            let zone = ["a", "b", "c"][n % 3];
            let json = format!(
                r#"{{"apiVersion":"v1","kind":"Node","metadata":{{"name":"{name}","labels":{{"kubernetes.io/arch":"amd64","kubernetes.io/hostname":"{name}","kubernetes.io/os":"linux","topology.kubernetes.io/zone":"zone-{zone}"}}}},"spec":{{"podCIDR":"10.{}.{}.0/24"}},"status":{{"capacity":{{"cpu":"16","memory":"65540000Ki","pods":"110"}},"allocatable":{{"cpu":"15800m","memory":"64000000Ki","pods":"110"}},"conditions":[{{"type":"Ready","status":"True","reason":"KubeletReady","message":"kubelet is posting ready status"}}],"addresses":[{{"type":"InternalIP","address":"{ip}"}},{{"type":"Hostname","address":"{name}"}}],"nodeInfo":{{"kubeletVersion":"v1.36.0","osImage":"Linux","containerRuntimeVersion":"containerd://2.1.0","kernelVersion":"6.12.0","operatingSystem":"linux","architecture":"amd64"}}}}}}"#,
                n / 256 % 256,
                n % 256,
            );
            Object { resource: "nodes", namespace: String::new(), name, json }
        })
    }

    /// The pods, the same ones every time.
    pub fn pods(&self) -> impl Iterator<Item = Object> + '_ {
        let mut rng = fastrand::Rng::with_seed(self.options.seed.wrapping_add(1));
        (0..self.options.pods).map(move |n| self.pod(n, &mut rng))
    }

    /// One more pod.
    fn pod(&self, n: usize, rng: &mut fastrand::Rng) -> Object {
        if n % ONE_OFF == ONE_OFF - 1 {
            let namespace = namespace_name(rng.usize(..self.options.namespaces));
            let application = Application::one_off(namespace, rng);
            return self.fill(&application, &application.template(), n, rng);
        }
        let total = self.shares.last().copied().unwrap_or(1.0);
        let at = rng.f64() * total;
        let index = self.shares.partition_point(|share| *share <= at).min(self.applications.len() - 1);
        let (application, template) = &self.applications[index];
        self.fill(application, template, n, rng)
    }

    fn fill(
        &self,
        application: &Application,
        template: &Template,
        n: usize,
        rng: &mut fastrand::Rng,
    ) -> Object {
        let name = application.pod_name(n);
        let age = SignedDuration::from_secs(rng.i64(60..30 * 86_400));
        let created = self.options.epoch.checked_sub(age).unwrap_or(self.options.epoch);
        let node = rng.usize(..self.options.nodes);
        let json = template.fill(&mut Filler { name: &name, created, node, ordinal: n, rng });
        Object { resource: "pods", namespace: application.namespace.clone(), name, json }
    }
}

fn namespace_name(n: usize) -> String {
    const TEAMS: [&str; 8] =
        ["payments", "search", "media", "identity", "logistics", "platform", "analytics", "storefront"];
    let team = TEAMS[n % TEAMS.len()];
    match n / TEAMS.len() {
        0 => team.to_owned(),
        more => format!("{team}-{more}"),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{HashMap, HashSet};

    use reflector_protobuf::{Kind, from_json};
    use serde_json::Value;

    use super::*;

    fn cluster(pods: usize) -> Cluster {
        Cluster::new(ClusterOptions { pods, seed: 3, ..ClusterOptions::default() })
    }

    #[test]
    fn pods_are_valid_and_distinct() {
        let pods: Vec<Object> = cluster(2_000).pods().collect();
        let mut names = HashSet::new();
        let mut applications: HashMap<String, usize> = HashMap::new();
        let mut uids = HashSet::new();
        for pod in &pods {
            let value: Value =
                serde_json::from_str(&pod.json).unwrap_or_else(|error| panic!("{error}: {}", pod.json));
            assert_eq!(value["metadata"]["name"], pod.name.as_str());
            assert_eq!(value["metadata"]["namespace"], pod.namespace.as_str());
            assert!(names.insert((&pod.namespace, &pod.name)), "{} twice", pod.name);
            assert!(uids.insert(value["metadata"]["uid"].as_str().unwrap().to_owned()));
            let app = value["metadata"]["labels"]["app.kubernetes.io/name"].as_str().unwrap();
            *applications.entry(app.to_owned()).or_default() += 1;
        }
        let one_offs = applications.values().filter(|count| **count == 1).count();
        assert!(one_offs >= 60, "{one_offs} one-offs");
        assert!(applications.values().any(|count| *count > 200));
    }

    /// A real server's list has 10,989 bytes of JSON for each of such pods, and 7,859 of protobuf; 46 % of the one and
    /// 62 % of the other are `managedFields`.
    #[test]
    fn pods_are_as_large_as_real_ones_whatever_the_seed() {
        let kind = Kind::find("v1", "Pod").unwrap();
        for seed in 0..5 {
            let cluster = Cluster::new(ClusterOptions { pods: 2_000, seed, ..ClusterOptions::default() });
            let (mut json, mut json_managed, mut protobuf, mut protobuf_rest) = (0, 0, 0, 0);
            for pod in cluster.pods() {
                let from = pod.json.find(r#","managedFields":["#).unwrap();
                let to = pod.json.find(r#"},"spec":"#).unwrap();
                json += pod.json.len();
                json_managed += to - from;
                protobuf += from_json(kind, pod.json.as_bytes()).unwrap().len();
                let rest = pod.json[..from].to_owned() + &pod.json[to..];
                protobuf_rest += from_json(kind, rest.as_bytes()).unwrap().len();
            }
            let (size, share) = (json / 2_000, json_managed as f64 / json as f64);
            assert!((10_500..11_500).contains(&size), "seed {seed}: {size} bytes of JSON on average");
            assert!((0.42..0.50).contains(&share), "seed {seed}: {share} of the JSON");
            let (size, share) = (protobuf / 2_000, 1.0 - protobuf_rest as f64 / protobuf as f64);
            assert!((7_500..8_300).contains(&size), "seed {seed}: {size} bytes of protobuf on average");
            assert!((0.59..0.65).contains(&share), "seed {seed}: {share} of the protobuf");
        }
    }

    #[test]
    fn pods_are_such_as_a_server_would_take() {
        for pod in cluster(500).pods() {
            let value: Value = serde_json::from_str(&pod.json).unwrap();
            // A name that comes twice would have been lost on the way.
            assert_eq!(value.to_string().len(), pod.json.len(), "{}", pod.name);
            let names = |list: &Value| -> Vec<String> {
                list.as_array().unwrap().iter().map(|item| item["name"].to_string()).collect()
            };
            let containers = value["spec"]["containers"].as_array().unwrap();
            let distinct: HashSet<String> = names(&value["spec"]["containers"]).into_iter().collect();
            assert_eq!(distinct.len(), containers.len(), "{}", pod.name);
            let volumes = names(&value["spec"]["volumes"]);
            for container in containers {
                assert!(names(&container["volumeMounts"]).iter().all(|name| volumes.contains(name)));
            }
        }
    }

    #[test]
    fn nodes_and_namespaces_are_there() {
        let cluster = cluster(100);
        for object in cluster.namespaces().chain(cluster.nodes()) {
            let value: Value = serde_json::from_str(&object.json).unwrap();
            assert_eq!(value["metadata"]["name"], object.name.as_str());
        }
        assert_eq!(cluster.nodes().count(), 3);
        assert_eq!(cluster.namespaces().count(), 8);
    }
}
