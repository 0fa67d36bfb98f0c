//! Many namespaces in one cache, over HTTP, against the embedded API server.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![cfg(feature = "kube")]

mod support;

use futures::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use reflector::{KubeListWatch, NamespaceNotReady, NamespacedReflector};
use reflector_apiserver::{ApiServer, Verb, faults::Fault};
use serde_json::json;
use support::cluster::{PATIENCE, fast};

fn create(server: &ApiServer, namespace: &str, name: &str) {
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap",
                     "metadata": {"namespace": namespace, "name": name}});
    server.with_core(|core| core.create("configmaps", map).unwrap());
}

fn keys(maps: &NamespacedReflector<ConfigMap>) -> Vec<String> {
    maps.cache().keys().iter().map(ToString::to_string).collect()
}

async fn converge(maps: &NamespacedReflector<ConfigMap>, expected: &[&str]) {
    let mut subscription = maps.cache().subscribe();
    let wait = async {
        while keys(maps) != expected {
            subscription.next().await.expect("the reflector has ended");
        }
    };
    let done = tokio::time::timeout(PATIENCE, wait).await;
    assert!(done.is_ok(), "{:?} and not {expected:?}", keys(maps));
}

/// Lists and watches of the API server, a forbidden namespace among them.
#[tokio::test]
async fn namespaces_are_read_from_an_api_server() {
    let server = ApiServer::start().await.unwrap();
    for (namespace, name) in [("a", "x"), ("b", "x"), ("c", "x"), ("other", "x")] {
        create(&server, namespace, name);
    }
    server.inject(Fault::any().resource("configmaps").namespace("b").status(403));
    let client = reflector::kube_client(kube::Config::new(server.url().parse().unwrap())).unwrap();
    let maps = NamespacedReflector::builder(move |namespace| {
        KubeListWatch::<ConfigMap>::namespaced(client.clone(), namespace)
    })
    .configure(|_, builder| builder.seed(1).options(fast))
    .start(["a", "b"]);
    let error = tokio::time::timeout(PATIENCE, maps.ready()).await.unwrap().unwrap_err();
    assert_eq!(error.failures().iter().map(NamespaceNotReady::namespace).collect::<Vec<_>>(), ["b"]);
    assert_eq!(keys(&maps), ["a/x"]);

    create(&server, "a", "y");
    converge(&maps, &["a/x", "a/y"]).await;
    maps.add("c");
    converge(&maps, &["a/x", "a/y", "c/x"]).await;
    server.with_faults(reflector_apiserver::faults::Faults::clear);
    tokio::time::timeout(PATIENCE, maps.synced()).await.unwrap().unwrap();
    assert_eq!(keys(&maps), ["a/x", "a/y", "b/x", "c/x"]);

    maps.remove("c").await;
    converge(&maps, &["a/x", "a/y", "b/x"]).await;

    // A relist of a: what was deleted meanwhile goes, and b is not read again.
    server.inject(
        Fault::on(Verb::Watch).resource("configmaps").namespace("a").status(410).reason("Expired").once(),
    );
    server.restart();
    server.with_core(|core| core.delete("configmaps", "a", "x").unwrap());
    let mut status = maps.watch_status("a").unwrap();
    let relisted = status.wait_for(|status| status.counts.syncs == 2);
    tokio::time::timeout(PATIENCE, relisted).await.unwrap().unwrap();
    assert_eq!(keys(&maps), ["a/y", "b/x"]);
    assert_eq!(maps.status("b").unwrap().counts.syncs, 1);
    maps.stop().await;
}
