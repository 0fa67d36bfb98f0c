//! What the examples run on: an API server in process, with a few pods. With a cluster of your own, take
//! `kube_client(kube::Config::infer().await?)?` instead.
#![allow(dead_code, unreachable_pub, reason = "each example uses its own part")]

use kube::{Client, Config};
use reflector_apiserver::ApiServer;
use serde_json::json;

/// What examples fail with.
pub type Error = Box<dyn std::error::Error + Send + Sync>;

/// A server and its client.
pub struct Cluster {
    /// Keep it: dropping it ends the server.
    pub server: ApiServer,
    /// A client of it.
    pub client: Client,
}

impl Cluster {
    /// A server with six pods of two applications, on three nodes, in two namespaces.
    pub async fn start() -> Result<Self, Error> {
        let server = ApiServer::start().await?;
        let client = reflector::kube_client(Config::new(server.url().parse()?))?;
        let cluster = Self { server, client };
        for i in 0..6 {
            let namespace = ["shop", "bank"][i % 2];
            cluster.create(namespace, &format!("pod-{i}"), &format!("node-{}", i % 3))?;
        }
        Ok(cluster)
    }

    /// Creates a pod.
    pub fn create(&self, namespace: &str, name: &str, node: &str) -> Result<(), Error> {
        self.server.with_core(|core| core.create("pods", pod(namespace, name, node, "Pending")))?;
        Ok(())
    }

    /// Changes the phase of a pod.
    pub fn change(&self, namespace: &str, name: &str, node: &str, phase: &str) -> Result<(), Error> {
        self.server.with_core(|core| core.update("pods", pod(namespace, name, node, phase)))?;
        Ok(())
    }

    /// Deletes a pod.
    pub fn delete(&self, namespace: &str, name: &str) -> Result<(), Error> {
        self.server.with_core(|core| core.delete("pods", namespace, name))?;
        Ok(())
    }
}

fn pod(namespace: &str, name: &str, node: &str, phase: &str) -> serde_json::Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"namespace": namespace, "name": name, "labels": {"app": namespace}},
        "spec": {"nodeName": node, "containers": [{"name": "main", "image": "registry.k8s.io/pause:3.10"}]},
        "status": {"phase": phase},
    })
}
