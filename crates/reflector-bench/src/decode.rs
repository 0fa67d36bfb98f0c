//! Decoding one pod, from JSON and from protobuf.

use std::fmt::{self, Display, Formatter};

use k8s_openapi::api::core::v1::Pod;
use reflector_apiserver::seed::{Cluster, ClusterOptions};
use reflector_protobuf::{Kind, from_json, from_slice};
use serde::Deserialize;
use serde_json::Value;

use crate::{Failure, timing::time};

/// Six fields of a pod.
#[derive(Deserialize)]
#[allow(dead_code, reason = "they are decoded, and not read")]
struct Slim {
    metadata: Metadata,
    spec: Spec,
    status: Status,
}

#[derive(Deserialize)]
#[allow(dead_code, reason = "they are decoded, and not read")]
struct Metadata {
    name: String,
    namespace: String,
    uid: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
#[allow(dead_code, reason = "they are decoded, and not read")]
struct Spec {
    node_name: Option<String>,
}

#[derive(Deserialize)]
#[allow(dead_code, reason = "they are decoded, and not read")]
struct Status {
    phase: Option<String>,
    #[serde(rename = "podIP")]
    pod_ip: Option<String>,
}

/// How many of each are decoded in a second.
#[derive(Debug)]
pub(crate) struct Rates {
    pub(crate) json: f64,
    pub(crate) protobuf: f64,
    pub(crate) slim: f64,
    /// What custom resources are read with, which have no protobuf.
    slim_json: Vec<(&'static str, f64)>,
}

impl Display for Rates {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let mut row = |what: &str, rate: f64| {
            writeln!(f, "| {what} | {:.2} µs | {:.2} × |", 1e6 / rate, rate / self.json)
        };
        row("`Pod` by serde_json", self.json)?;
        row("`Pod` from protobuf", self.protobuf)?;
        row("six fields from protobuf", self.slim)?;
        self.slim_json.iter().try_for_each(|(parser, rate)| row(&format!("six fields by {parser}"), *rate))
    }
}

/// The JSON and the protobuf of one pod.
type Both = (Vec<u8>, Vec<u8>);

/// Measures with a hundred pods, without their `managedFields`.
pub(crate) fn measure() -> Result<Rates, Failure> {
    const PODS: usize = 100;
    let kind = Kind::find("v1", "Pod").ok_or("pods have a protobuf form")?;
    let cluster = Cluster::new(ClusterOptions { pods: PODS, ..ClusterOptions::default() });
    let mut pods = Vec::new();
    for pod in cluster.pods() {
        let mut pod: Value = serde_json::from_str(&pod.json)?;
        pod["metadata"].as_object_mut().ok_or("no metadata")?.remove("managedFields");
        let json = serde_json::to_vec(&pod)?;
        let protobuf = from_json(kind, &json)?;
        pods.push((json, protobuf));
    }
    let rate = |taken: std::time::Duration| PODS as f64 / taken.as_secs_f64();
    let all = |decode: &dyn Fn(&Both) -> bool| rate(time(|| assert!(pods.iter().all(decode), "it decodes")));
    Ok(Rates {
        json: all(&|(json, _)| serde_json::from_slice::<Pod>(json).is_ok()),
        protobuf: all(&|(_, protobuf)| from_slice::<Pod>(kind, protobuf).is_ok()),
        slim: all(&|(_, protobuf)| from_slice::<Slim>(kind, protobuf).is_ok()),
        slim_json: vec![
            ("serde_json", all(&|(json, _)| serde_json::from_slice::<Slim>(json).is_ok())),
            #[cfg(feature = "simd")]
            ("sonic-rs", all(&|(json, _)| sonic_rs::from_slice::<Slim>(json).is_ok())),
            // It writes into what it reads, so it needs a copy.
            #[cfg(feature = "simd")]
            ("simd-json", all(&|(json, _)| simd_json::from_slice::<Slim>(&mut json.clone()).is_ok())),
        ],
    })
}
