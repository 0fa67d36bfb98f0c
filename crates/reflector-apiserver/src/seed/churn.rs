//! Churn: writes as a busy cluster makes them, without I/O.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Uri, header};

use super::{Cluster, Object};

/// How much changes, and what.
#[derive(Debug, Clone)]
pub struct ChurnOptions {
    /// Where all chance comes from.
    pub seed: u64,
    /// Writes per second.
    pub rate: f64,
    /// Shares of status patches, label flips, creations, deletions, and deletions that are followed by the creation of another
    /// object under the same name.
    pub mix: [u32; 5],
    /// One write in this many begins the deletion of a whole bunch; 0 for never.
    pub mass_delete_every: u32,
    /// How many objects such a bunch has.
    pub mass_delete: usize,
    /// Whether the number of objects is kept: below that of the start objects are created where one or the other was
    /// drawn, else deleted. Without it the number drifts, and what goes in bunches does not come back.
    pub steady: bool,
}

impl Default for ChurnOptions {
    fn default() -> Self {
        Self {
            seed: 0,
            rate: 10.0,
            mix: [70, 10, 8, 8, 4],
            mass_delete_every: 5_000,
            mass_delete: 100,
            steady: false,
        }
    }
}

/// A write on the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Write {
    /// A new object.
    Create(Object),
    /// A merge patch of an object's status.
    PatchStatus {
        /// The object's resource.
        resource: &'static str,
        /// The object's namespace.
        namespace: String,
        /// The object's name.
        name: String,
        /// The patch as JSON.
        patch: String,
    },
    /// A merge patch of an object.
    Patch {
        /// The object's resource.
        resource: &'static str,
        /// The object's namespace.
        namespace: String,
        /// The object's name.
        name: String,
        /// The patch as JSON.
        patch: String,
    },
    /// The end of an object, without grace.
    Delete {
        /// The object's resource.
        resource: &'static str,
        /// The object's namespace.
        namespace: String,
        /// The object's name.
        name: String,
    },
}

impl Write {
    /// The write as a request, for the core or for a socket.
    pub fn request(&self) -> Request<Bytes> {
        let path = |resource: &str, namespace: &str, rest: &str| match namespace {
            "" => format!("/api/v1/{resource}{rest}"),
            _ => format!("/api/v1/namespaces/{namespace}/{resource}{rest}"),
        };
        let (method, path, kind, body) = match self {
            Self::Create(object) => {
                let path = path(object.resource, &object.namespace, "");
                (Method::POST, path, "application/json", object.json.clone())
            }
            Self::PatchStatus { resource, namespace, name, patch } => {
                let path = path(resource, namespace, &format!("/{name}/status"));
                (Method::PATCH, path, "application/merge-patch+json", patch.clone())
            }
            Self::Patch { resource, namespace, name, patch } => {
                let path = path(resource, namespace, &format!("/{name}"));
                (Method::PATCH, path, "application/merge-patch+json", patch.clone())
            }
            Self::Delete { resource, namespace, name } => {
                let path = path(resource, namespace, &format!("/{name}?gracePeriodSeconds=0"));
                (Method::DELETE, path, "application/json", String::new())
            }
        };
        let mut request = Request::new(Bytes::from(body));
        *request.method_mut() = method;
        // Names are those of Kubernetes: nothing in them needs escaping.
        *request.uri_mut() = path.parse::<Uri>().unwrap_or_default();
        request.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
        request
    }
}

/// A pod that the driver knows to be there.
#[derive(Debug, Clone)]
struct Live {
    namespace: String,
    name: String,
}

/// Drives changes to a cluster's pods: told the time, it yields the writes that are due.
#[derive(Debug)]
pub struct Churn {
    cluster: Cluster,
    options: ChurnOptions,
    rng: fastrand::Rng,
    live: Vec<Live>,
    /// How many there were at the start.
    start: usize,
    /// Writes that must come next, last first.
    pending: Vec<Write>,
    next_pod: usize,
    written: u64,
}

impl Churn {
    /// Churn on a cluster whose pods have all been created.
    pub fn new(cluster: Cluster, options: ChurnOptions) -> Self {
        let live: Vec<Live> =
            cluster.pods().map(|pod| Live { namespace: pod.namespace, name: pod.name }).collect();
        let rng = fastrand::Rng::with_seed(options.seed);
        let start = live.len();
        Self { next_pod: start, cluster, options, rng, live, start, pending: Vec::new(), written: 0 }
    }

    /// When the next write is due, since the start.
    pub fn next_at(&self) -> Duration {
        if self.options.rate <= 0.0 {
            return Duration::MAX;
        }
        Duration::try_from_secs_f64((self.written + 1) as f64 / self.options.rate).unwrap_or(Duration::MAX)
    }

    /// The next write that is due at this time since the start; call it until there is none.
    pub fn poll(&mut self, now: Duration) -> Option<Write> {
        if now < self.next_at() {
            return None;
        }
        self.written += 1;
        Some(self.pending.pop().unwrap_or_else(|| self.make_up()))
    }

    fn make_up(&mut self) -> Write {
        let every = u64::from(self.options.mass_delete_every);
        if every > 0 && self.written.is_multiple_of(every) && self.live.len() > self.options.mass_delete {
            self.pending = (0..self.options.mass_delete).map(|_| self.delete()).collect();
            if let Some(write) = self.pending.pop() {
                return write;
            }
        }
        let total: u32 = self.options.mix.iter().sum();
        let mut at = self.rng.u32(..total.max(1));
        let choice = self.options.mix.iter().position(|share| {
            let here = at < *share;
            at = at.wrapping_sub(*share);
            here
        });
        match choice {
            _ if self.live.is_empty() => self.create(),
            Some(0) => self.patch_status(),
            Some(1) => self.flip_label(),
            Some(2 | 3) if self.options.steady => {
                if self.live.len() < self.start {
                    self.create()
                } else {
                    self.delete()
                }
            }
            Some(3) => self.delete(),
            Some(4) => self.recreate(),
            _ => self.create(),
        }
    }

    fn some(&mut self) -> Live {
        let index = self.rng.usize(..self.live.len());
        self.live[index].clone()
    }

    fn create(&mut self) -> Write {
        let object = self.cluster.pod(self.next_pod, &mut self.rng);
        self.next_pod += 1;
        self.live.push(Live { namespace: object.namespace.clone(), name: object.name.clone() });
        Write::Create(object)
    }

    fn delete(&mut self) -> Write {
        let index = self.rng.usize(..self.live.len());
        let Live { namespace, name } = self.live.swap_remove(index);
        Write::Delete { resource: "pods", namespace, name }
    }

    /// Another pod under the name of one that goes.
    fn recreate(&mut self) -> Write {
        let Live { namespace, name } = self.some();
        let mut object = self.cluster.pod(self.next_pod, &mut self.rng);
        self.next_pod += 1;
        let renamed = |from: &str, to: &str, member: &str, json: &str| {
            json.replacen(&format!(r#""{member}":"{from}""#), &format!(r#""{member}":"{to}""#), 1)
        };
        object.json = renamed(&object.name, &name, "name", &object.json);
        object.json = renamed(&object.namespace, &namespace, "namespace", &object.json);
        object.name.clone_from(&name);
        object.namespace.clone_from(&namespace);
        self.pending.push(Write::Create(object));
        Write::Delete { resource: "pods", namespace, name }
    }

    fn patch_status(&mut self) -> Write {
        let Live { namespace, name } = self.some();
        let ready = self.rng.u8(..4) > 0;
        // A server that knows the type keeps no empty text.
        let message = if ready { "null" } else { r#""readiness probe failed""# };
        let patch = format!(
            r#"{{"status":{{"phase":"Running","message":{message},"observedGeneration":{}}}}}"#,
            self.rng.u32(1..1_000_000)
        );
        Write::PatchStatus { resource: "pods", namespace, name, patch }
    }

    fn flip_label(&mut self) -> Write {
        let Live { namespace, name } = self.some();
        let value = if self.rng.bool() { r#""true""# } else { "null" };
        let patch = format!(r#"{{"metadata":{{"labels":{{"canary":{value}}}}}}}"#);
        Write::Patch { resource: "pods", namespace, name, patch }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::seed::ClusterOptions;

    fn churn() -> Churn {
        let cluster = Cluster::new(ClusterOptions { pods: 300, ..ClusterOptions::default() });
        let options =
            ChurnOptions { rate: 100.0, mass_delete_every: 400, mass_delete: 50, ..ChurnOptions::default() };
        Churn::new(cluster, options)
    }

    #[test]
    fn writes_come_at_their_rate_and_fit_what_is_there() {
        let mut churn = churn();
        let mut live: HashSet<(String, String)> =
            churn.live.iter().map(|live| (live.namespace.clone(), live.name.clone())).collect();
        let mut count = 0;
        while let Some(write) = churn.poll(Duration::from_secs(20)) {
            count += 1;
            match write {
                Write::Create(object) => {
                    let value: serde_json::Value = serde_json::from_str(&object.json).unwrap();
                    assert_eq!(value["metadata"]["name"], object.name.as_str());
                    assert_eq!(value["metadata"]["namespace"], object.namespace.as_str());
                    assert!(live.insert((object.namespace, object.name)));
                }
                Write::Delete { namespace, name, .. } => assert!(live.remove(&(namespace, name))),
                Write::Patch { namespace, name, patch, .. }
                | Write::PatchStatus { namespace, name, patch, .. } => {
                    assert!(serde_json::from_str::<serde_json::Value>(&patch).is_ok());
                    assert!(live.contains(&(namespace, name)));
                }
            }
        }
        assert_eq!(count, 2_000);
        assert!(churn.next_at() > Duration::from_secs(20));
    }

    #[test]
    fn steady_churn_keeps_the_number_of_objects() {
        let most = |steady| {
            let mut churn = churn();
            churn.options.steady = steady;
            // Of the 370 writes between two bunches one in six may bring an object back.
            churn.options.mass_delete = 30;
            let mut distance = 0;
            while churn.poll(Duration::from_secs(600)).is_some() {
                distance = distance.max(churn.live.len().abs_diff(churn.start));
            }
            distance
        };
        // All of a bunch has come back before the next, or nearly all.
        assert!(most(true) <= 40, "{}", most(true));
        assert!(most(false) > 40);
    }

    #[test]
    fn the_same_seed_brings_the_same_writes() {
        let writes = || {
            let mut churn = churn();
            std::iter::from_fn(move || churn.poll(Duration::from_secs(5))).collect::<Vec<_>>()
        };
        assert_eq!(writes(), writes());
    }
}
