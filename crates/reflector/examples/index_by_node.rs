//! Finds pods by the node they are on: `cargo run -p reflector --example index_by_node`.
#![allow(clippy::print_stdout, reason = "it is an example")]

mod cluster;

use cluster::{Cluster, Error};
use reflector::{IndexBy, KubeListWatch, LabelSelector, Reflector};
use serde::Deserialize;

/// Just the fields that are needed; everything else is skipped.
#[derive(Deserialize)]
struct Pod {
    spec: Spec,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec {
    node_name: Option<String>,
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    let cluster = Cluster::start().await?;
    let resource = kube::core::ApiResource::erase::<k8s_openapi::api::core::v1::Pod>(&());
    let source = KubeListWatch::<Pod>::dynamic(cluster.client.clone(), &resource, None);

    let mut builder = Reflector::builder(source);
    let by_node = builder.index(|pod: &Pod| pod.spec.node_name.clone());
    // Selectors on this label look at no other objects.
    builder.index_by(IndexBy::label("app"));
    let pods = builder.start();
    pods.ready().await?;

    // One moment: objects, indexes and version belong together.
    let snapshot = pods.cache().snapshot();
    for node in ["node-0", "node-1", "node-2"] {
        let names: Vec<_> = snapshot.by(&by_node, node)?.map(|pod| pod.key().to_string()).collect();
        println!("{node}: {}", names.join(", "));
        assert_eq!(names.len(), 2);
    }
    let selector: LabelSelector = "app in (shop, other)".parse()?;
    println!("of the shop: {}", snapshot.select(&selector).count());
    assert_eq!(snapshot.unindexed(&by_node)?.count(), 0, "every pod could be read");
    pods.stop().await;
    Ok(())
}
