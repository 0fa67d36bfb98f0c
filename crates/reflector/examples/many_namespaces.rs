//! One cache of several namespaces, each with its own watch: `cargo run -p reflector --example many_namespaces`.
#![allow(clippy::print_stdout, reason = "it is an example")]

mod cluster;

use cluster::{Cluster, Error};
use k8s_openapi::api::core::v1::Pod;
use reflector::{KubeListWatch, NamespacedReflector};
use reflector_apiserver::AccessRule;

fn show(pods: &NamespacedReflector<Pod>) {
    for namespace in pods.namespaces() {
        let snapshot = pods.cache().snapshot();
        let names: Vec<_> = snapshot.namespace(&namespace).map(|pod| pod.name().to_owned()).collect();
        println!("{namespace} at {:?}: {}", snapshot.version_of(&namespace), names.join(" "));
    }
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    let cluster = Cluster::start().await?;
    // One namespace that we may not read: it is named, and keeps nobody from reading the others.
    let vault = AccessRule { namespace: Some("vault".to_owned()), ..AccessRule::default() };
    cluster.server.with_auth(|auth| auth.deny.push(vault));

    let client = cluster.client.clone();
    let source = move |namespace: &str| KubeListWatch::<Pod>::namespaced(client.clone(), namespace);
    let pods = NamespacedReflector::builder(source)
        .configure(|_, builder| builder.labels("app"))
        .start(["shop", "vault"]);
    if let Err(error) = pods.ready().await {
        println!("{error}");
    }
    pods.ready_of("shop").await?;
    show(&pods);

    // Namespaces come and go while it runs.
    pods.remove("vault").await;
    pods.add("bank");
    pods.ready().await?;
    show(&pods);
    assert_eq!(pods.cache().len(), 6);
    pods.remove("shop").await;
    assert_eq!(pods.cache().len(), 3);
    pods.stop().await;
    Ok(())
}
