//! A controller that keeps three workers, and creates each of them once although its copy is behind its own writes:
//! `cargo run -p reflector --example fenced_controller`.
#![allow(clippy::print_stdout, reason = "it is an example")]

mod cluster;

use std::time::Duration;

use cluster::{Cluster, Error};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api,
    api::{DeleteParams, PostParams, Preconditions},
};
use reflector::{FencedCache, KubeListWatch, Reflector};
use reflector_apiserver::{Verb, faults::Fault};

const WORKERS: usize = 3;

#[tokio::main]
async fn main() -> Result<(), Error> {
    let cluster = Cluster::start().await?;
    // A slow network, so that the copy is behind.
    cluster.server.inject(Fault::on(Verb::Watch).slow(100, Duration::from_millis(50)));
    let api: Api<ConfigMap> = Api::namespaced(cluster.client.clone(), "shop");
    let source = KubeListWatch::<ConfigMap>::namespaced(cluster.client.clone(), "shop");
    let maps = Reflector::builder(source).start();
    maps.ready().await?;
    let workers = FencedCache::new(maps.cache().clone());

    // Each round looks at what there is. The copy does not know of the rounds before: without the fences each would
    // find too few and create more.
    for round in 1..=5 {
        let there = workers.list().len();
        println!("round {round}: {there} workers, {} in the copy", maps.cache().len());
        if there < WORKERS {
            let mut worker = ConfigMap::default();
            worker.metadata.generate_name = Some("worker-".to_owned());
            let created = api.create(&PostParams::default(), &worker).await?;
            workers.written_typed(&created)?;
        }
    }
    assert_eq!(workers.list().len(), WORKERS);

    // A deletion is seen at once too, and by its uid: whoever takes the name is another one.
    let first = workers.list().swap_remove(0);
    // With a precondition, so that nobody else is deleted who took the name meanwhile.
    let only = Preconditions { uid: Some(first.uid().to_string()), ..Preconditions::default() };
    api.delete(first.name(), &DeleteParams { preconditions: Some(only), ..DeleteParams::default() }).await?;
    workers.deleted(first.key(), first.uid(), None);
    assert_eq!(workers.list().len(), WORKERS - 1);

    // Or wait until the copy has seen all of it.
    let there = workers.wait(Duration::from_secs(10)).list().await?;
    println!("the copy has caught up: {} workers", there.len());
    assert_eq!(maps.cache().len(), WORKERS - 1);
    maps.stop().await;
    Ok(())
}
