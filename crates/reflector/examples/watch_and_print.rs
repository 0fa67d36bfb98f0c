//! Prints what is there, and then what changes: `cargo run -p reflector --example watch_and_print`.
#![allow(clippy::print_stdout, reason = "it is an example")]

mod cluster;

use cluster::{Cluster, Error};
use futures::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use reflector::{Event, KubeListWatch, Object, Reflector};

fn phase(pod: &Object<Pod>) -> String {
    // Decoded here. An object that does not fit its type is an error of that object, and of nothing else.
    let phase = pod.get().map(|pod| pod.status.as_ref().and_then(|status| status.phase.clone()));
    phase.unwrap_or_default().unwrap_or_default()
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    let cluster = Cluster::start().await?;
    let pods = Reflector::builder(KubeListWatch::<Pod>::all(cluster.client.clone())).start();
    let mut events = pods.cache().subscribe();

    while let Some(event) = events.next().await {
        match event {
            Event::Added { object, initial } => {
                println!(
                    "{} {} {}",
                    if initial { "there is" } else { "added   " },
                    object.key(),
                    phase(&object)
                );
            }
            Event::Updated { old, new } => {
                println!("changed  {} {} -> {}", new.key(), phase(&old), phase(&new));
            }
            Event::Deleted { last, .. } => {
                println!("deleted  {}", last.key());
                break;
            }
            Event::Synced => {
                println!("that is all that there was, as of {:?}", pods.cache().version());
                // Now something happens.
                cluster.create("shop", "pod-7", "node-1")?;
                cluster.change("bank", "pod-1", "node-1", "Running")?;
                cluster.delete("shop", "pod-0")?;
            }
            _ => {}
        }
    }
    pods.stop().await;
    Ok(())
}
