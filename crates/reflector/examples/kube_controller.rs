//! A controller of kube's runtime on a reflector: `cargo run -p reflector --example kube_controller --features kube-runtime`.
//!
//! It needs no cluster. It ends once every ConfigMap has been reconciled, those that come while it runs too.
#![allow(clippy::print_stdout)]

use std::{collections::BTreeSet, error::Error, io, sync::Arc};

use futures::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, Config, ResourceExt,
    api::PostParams,
    runtime::controller::{Action, Controller},
};
use reflector::{KubeListWatch, Reflector, kube_client, kube_runtime};
use reflector_apiserver::ApiServer;

const MAPS: usize = 5;

async fn reconcile(map: Arc<ConfigMap>, _: Arc<()>) -> io::Result<Action> {
    println!("reconciling {}", map.name_any());
    Ok(Action::await_change())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let server = ApiServer::start().await?;
    let client = kube_client(Config::new(server.url().parse()?))?;
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), "shop");

    // Instead of `Controller::new(api, watcher::Config::default())`:
    let maps = Reflector::builder(KubeListWatch::<ConfigMap>::namespaced(client, "shop")).start();
    let (store, touched) = kube_runtime::for_controller(maps.cache().subscribe());
    let mut results = Controller::for_stream(touched, store)
        .run(reconcile, |_, _, _| Action::await_change(), Arc::new(()))
        .boxed();

    let create = async |i| {
        let mut map = ConfigMap::default();
        map.metadata.name = Some(format!("map-{i}"));
        api.create(&PostParams::default(), &map).await
    };
    create(0).await?;
    let mut seen = BTreeSet::new();
    while let Some(result) = results.next().await {
        let (map, _) = result?;
        if seen.insert(map.name) && seen.len() < MAPS {
            create(seen.len()).await?;
        }
        if seen.len() == MAPS {
            break;
        }
    }
    maps.stop().await;
    Ok(())
}
