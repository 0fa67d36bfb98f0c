//! A subscriber that is slower than what happens: it misses no object and no deletion, and holds up nobody.
//! `cargo run -p reflector --example slow_subscriber`.
#![allow(clippy::print_stdout, reason = "it is an example")]

mod cluster;

use std::time::Duration;

use cluster::{Cluster, Error};
use futures::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use reflector::{Event, KubeListWatch, Reflector};

#[tokio::main]
async fn main() -> Result<(), Error> {
    let cluster = Cluster::start().await?;
    let pods = Reflector::builder(KubeListWatch::<Pod>::all(cluster.client.clone())).start();
    let mut slow = pods.cache().subscription().namespace("shop").subscribe();
    // The content first; then a thousand changes of one pod, and the end of another.
    while !matches!(slow.next().await, Some(Event::Synced) | None) {}
    for i in 0..1000 {
        cluster.change("shop", "pod-2", "node-2", ["Running", "Pending"][i % 2])?;
        cluster.create("shop", "short-lived", "node-0")?;
        cluster.delete("shop", "short-lived")?;
    }
    cluster.delete("shop", "pod-4")?;

    let mut heard = 0;
    while let Some(event) = slow.next().await {
        heard += 1;
        match event {
            Event::Updated { old, new } => {
                println!("{}: {:?} -> {:?}", new.key(), old.version(), new.version());
            }
            Event::Deleted { last, .. } if last.name() == "pod-4" => break,
            _ => {}
        }
        // Work that takes long.
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    println!("3001 changes, told in {heard} events; {:?}", slow.lag());
    assert!(heard < 500);
    pods.stop().await;
    Ok(())
}
