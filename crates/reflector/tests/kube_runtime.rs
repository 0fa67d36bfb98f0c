//! kube-rs' own watcher, in both modes, against the embedded API server: the server must satisfy clients that know
//! nothing of this project.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![cfg(feature = "kube")]

mod support;

use std::{collections::BTreeMap, pin::pin};

use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, ResourceExt,
    runtime::watcher::{self, Event},
};
use support::cluster::*;

/// Folds the events of a watcher until what it has seen is the truth.
async fn follow(cluster: &Cluster, config: watcher::Config) -> bool {
    let api: Api<ConfigMap> = Api::namespaced(cluster.client(), "ns");
    let mut events = pin!(watcher::watcher(api, config));
    let mut seen = BTreeMap::new();
    let mut changed = false;
    while let Some(event) = events.try_next().await.expect("the watcher fails") {
        let line = |map: &ConfigMap| {
            format!("{}@{} {}", map.name_any(), map.resource_version().unwrap(), map.uid().unwrap())
        };
        match event {
            Event::Init => seen.clear(),
            Event::InitApply(map) | Event::Apply(map) => _ = seen.insert(map.name_any(), line(&map)),
            Event::Delete(map) => _ = seen.remove(&map.name_any()),
            Event::InitDone => {
                assert!(seen.values().eq(&cluster.truth()), "the first state is not whole");
                cluster.update("cm-0", "new");
                cluster.delete("cm-1");
                cluster.create("cm-9");
                changed = true;
            }
        }
        if changed && seen.values().eq(&cluster.truth()) {
            return true;
        }
    }
    false
}

#[tokio::test]
async fn kube_runtime_lists_and_watches() {
    let cluster = Cluster::start(5).await;
    let done =
        tokio::time::timeout(PATIENCE, follow(&cluster, watcher::Config::default().page_size(2))).await;
    assert_eq!(done, Ok(true));
}

#[tokio::test]
async fn kube_runtime_streams_the_list() {
    let cluster = Cluster::start(5).await;
    let done =
        tokio::time::timeout(PATIENCE, follow(&cluster, watcher::Config::default().streaming_lists())).await;
    assert_eq!(done, Ok(true));
}

/// The two live on one server, and see the same.
#[tokio::test]
async fn kube_runtime_and_reflector_agree() {
    let cluster = Cluster::start(3).await;
    let maps = cluster.start_reflector();
    maps.ready().await.unwrap();
    let api: Api<ConfigMap> = Api::namespaced(cluster.client(), "ns");
    let applied = pin!(watcher::watcher(api, watcher::Config::default()).take(4).try_collect::<Vec<_>>());
    let events = tokio::time::timeout(PATIENCE, applied).await.unwrap().unwrap();
    let names: Vec<_> = events
        .iter()
        .filter_map(|event| if let Event::InitApply(map) = event { Some(map.name_any()) } else { None })
        .collect();
    assert_eq!(names, maps.cache().keys().iter().map(|key| key.name().to_owned()).collect::<Vec<_>>());
}
