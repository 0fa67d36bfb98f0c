//! More of what users of other reflectors suffer from: versions, decoding, permissions, proxies.
//!
//! Each test is named after the report that it replays, over HTTP against the embedded API server.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![cfg(feature = "kube")]

mod support;

use std::time::Duration;

use kube::core::DynamicObject;
use reflector::{
    KubeListWatch, NotReady, Object, Reflector, kube_client,
    protocol::{Class, Phase},
};
use reflector_apiserver::{
    Verb,
    faults::{Effect, ErrorBody, Fault, Interruption, Point},
};
use support::cluster::*;

/// kubernetes#107457: etcd is restored from a backup.
#[tokio::test]
async fn d28_a_restored_etcd_is_noticed() {
    let cluster = Cluster::start(3).await;
    let before = cluster.server.with_core(|core| core.revision());
    let maps = cluster.start_reflector();
    maps.ready().await.unwrap();
    for i in 0..10 {
        cluster.update("cm-0", &format!("lost-{i}"));
    }
    cluster.create("never-was");
    cluster.converge(&maps).await;
    cluster.server.with_core(|core| core.rewind(before).unwrap());
    cluster.server.restart();
    cluster.update("cm-1", "after the restore");
    cluster.converge(&maps).await;
}

/// porch#1101, karmada#3377: versions that are no numbers.
#[tokio::test]
async fn d30_opaque_versions_work() {
    let cluster = Cluster::start(3).await;
    cluster.fault(Fault::on(Verb::List).or_on(Verb::Watch).effect(Effect::OpaqueVersions));
    let maps = cluster.start_reflector();
    maps.ready().await.unwrap();
    cluster.update("cm-0", "new");
    cluster.delete("cm-2");
    let names = |cache: &reflector::Cache<DynamicObject>| -> Vec<String> {
        cache.list().iter().map(|map: &Object<DynamicObject>| map.name().to_owned()).collect()
    };
    until(&maps, |_| {
        let value = |map: Object<DynamicObject>| map.get().unwrap().data["data"]["value"].clone();
        names(maps.cache()) == ["cm-0", "cm-1"]
            && maps.cache().get(Some("ns"), "cm-0").is_some_and(|map| value(map) == "new")
    })
    .await;
}

/// kube#1524: only page 1 was stored.
#[tokio::test]
async fn d31_all_pages_are_stored() {
    let cluster = Cluster::start(5).await;
    let maps = cluster.builder().streaming(false).start();
    maps.ready().await.unwrap();
    assert_eq!(copy(maps.cache()), cluster.truth());
    assert_eq!(cluster.count(Verb::List), 3);
}

/// kube#1259: a list without a version.
#[tokio::test]
async fn d32_a_list_without_a_version_is_watched_all_the_same() {
    let cluster = Cluster::start(3).await;
    cluster.fault(Fault::on(Verb::List).effect(Effect::EmptyListVersion));
    let maps = cluster.builder().streaming(false).start();
    maps.ready().await.unwrap();
    cluster.update("cm-0", "new");
    cluster.delete("cm-1");
    cluster.converge(&maps).await;
}

/// kubernetes#83810, kubernetes#133565: deleted and made again under the same name, while nobody was looking.
#[tokio::test]
async fn e34_a_recreation_during_a_gap_is_seen() {
    let cluster = Cluster::start(2).await;
    let maps = cluster.start_reflector();
    maps.ready().await.unwrap();
    let uid = maps.cache().get(Some("ns"), "cm-0").unwrap().uid().to_string();
    cluster.fault(Fault::on(Verb::Watch).status(410).reason("Expired").once());
    cluster.server.restart();
    cluster.delete("cm-0");
    cluster.create("cm-0");
    cluster.converge(&maps).await;
    assert_ne!(maps.cache().get(Some("ns"), "cm-0").unwrap().uid().to_string(), uid);
}

/// kubernetes-client/javascript: a line that is no JSON was passed over, and its event with it.
#[tokio::test]
async fn e41_a_broken_line_is_an_error_and_is_read_again() {
    let cluster = Cluster::start(1).await;
    let maps = cluster.start_reflector();
    maps.ready().await.unwrap();
    // Within the event, and then the answer ends as if it were complete.
    let broken = Effect::Interrupt(Point::Bytes(80), Interruption::End);
    cluster.fault(Fault::on(Verb::Watch).effect(broken).once());
    cluster.server.restart();
    cluster.update("cm-0", "new");
    cluster.converge(&maps).await;
    let error = maps.status().last_error.unwrap();
    assert_eq!(error.class, Class::Malformed, "{error}");
}

/// kube#1986: a Status of many lines, a page of HTML and a line of text, where a watch was asked for.
#[tokio::test]
async fn f44_error_bodies_of_all_forms_are_understood() {
    let bodies = [
        (ErrorBody::PrettyStatus, "forbidden here"),
        (ErrorBody::Status, "forbidden here"),
        (ErrorBody::Html("<html><head><title>Access denied</title></head></html>".into()), "Access denied"),
        (ErrorBody::Text("go away\n".into()), "go away"),
        (ErrorBody::Empty, "403"),
    ];
    for (body, says) in bodies {
        let cluster = Cluster::start(1).await;
        let fault = Fault::on(Verb::Watch).status(403).message("forbidden here").body(body);
        cluster.fault(fault.times(1));
        let maps = cluster.start_reflector();
        let Err(NotReady::Blocked(error)) = maps.ready().await else { panic!("not blocked") };
        assert_eq!(error.class, Class::Forbidden);
        assert!(error.to_string().contains(says), "{error} should say {says}");
        maps.synced().await.unwrap();
    }
}

/// fluent-bit#11268: events that are split over many chunks.
#[tokio::test]
async fn f45_one_byte_at_a_time_is_enough() {
    let cluster = Cluster::start(2).await;
    cluster.fault(Fault::on(Verb::List).or_on(Verb::Watch).effect(Effect::Chunks(1)));
    let maps = cluster.start_reflector();
    maps.ready().await.unwrap();
    cluster.update("cm-0", "new");
    cluster.converge(&maps).await;
}

#[tokio::test]
async fn f45_an_object_of_two_mebibytes_passes() {
    let cluster = Cluster::start(0).await;
    cluster.server.with_core(|core| core.create("configmaps", map("large", &"x".repeat(2 << 20))).unwrap());
    for streaming in [true, false] {
        let maps = cluster.builder().streaming(streaming).start();
        maps.ready().await.unwrap();
        cluster.converge(&maps).await;
    }
}

/// controller-runtime#1653: a denied permission is told with verb, resource and namespace; and grants itself.
#[tokio::test]
async fn i65_a_denied_permission_is_named() {
    let cluster = Cluster::start(1).await;
    let rule = reflector_apiserver::AccessRule { resource: Some("configmaps".into()), ..Default::default() };
    cluster.server.with_auth(|auth| auth.deny.push(rule));
    let maps = cluster.start_reflector();
    let Err(NotReady::Blocked(error)) = maps.ready().await else { panic!("not blocked") };
    let text = error.to_string();
    assert!(text.starts_with("cannot watch configmaps in namespace ns: 403 Forbidden: "), "{text}");
    assert!(text.contains(r#"cannot watch resource "configmaps""#), "{text}");
    cluster.server.with_auth(|auth| auth.deny.clear());
    maps.synced().await.unwrap();
    assert!(maps.status().blocked.is_none());
}

/// kubernetes#79610: a CustomResourceDefinition that is missing, appears, and is deleted again.
#[tokio::test]
async fn i68_a_resource_may_come_and_go() {
    let cluster = Cluster::start(0).await;
    let gadgets =
        kube::core::ApiResource::from_gvk(&kube::core::GroupVersionKind::gvk("example.com", "v1", "Gadget"));
    let source = KubeListWatch::<DynamicObject>::dynamic(cluster.client(), &gadgets, None);
    let reflector = Reflector::builder(source).options(fast).start();
    let Err(NotReady::Blocked(error)) = reflector.ready().await else { panic!("not blocked") };
    assert_eq!(error.class, Class::Absent);
    until(&reflector, |status| matches!(status.phase, Phase::Absent { .. })).await;

    let definition = serde_json::json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": "gadgets.example.com" },
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": { "plural": "gadgets", "singular": "gadget", "kind": "Gadget" },
            "versions": [{ "name": "v1", "served": true, "storage": true,
                           "schema": { "openAPIV3Schema": { "type": "object" } } }],
        },
    });
    let gadget = serde_json::json!({
        "apiVersion": "example.com/v1", "kind": "Gadget", "metadata": { "namespace": "ns", "name": "g" },
    });
    cluster.server.with_core(|core| {
        core.create("customresourcedefinitions", definition).unwrap();
        core.create("gadgets.example.com", gadget).unwrap();
    });
    reflector.synced().await.unwrap();
    until(&reflector, |_| reflector.cache().len() == 1).await;

    // The deletion of the definition deletes the objects first, so their deletes arrive as events.
    cluster
        .server
        .with_core(|core| core.delete("customresourcedefinitions", "", "gadgets.example.com").unwrap());
    until(&reflector, |status| matches!(status.phase, Phase::Absent { .. })).await;
    assert!(reflector.cache().is_empty());
}

/// A proxy's wrong 404 is no mass deletion, unless it is asked for and confirmed.
#[tokio::test]
async fn i68_a_404_deletes_nothing_unless_asked() {
    for (delete, left) in [(None, 2), (Some(Duration::from_millis(50)), 0)] {
        let cluster = Cluster::start(2).await;
        let maps = cluster.builder().options(|options| options.delete_absent_after = delete).start();
        maps.ready().await.unwrap();
        cluster.fault(
            Fault::on(Verb::List).or_on(Verb::Watch).status(404).body(ErrorBody::Text("404 page".into())),
        );
        cluster.server.restart();
        let is_absent = |phase: &Phase| matches!(phase, Phase::Absent { .. });
        until(&maps, |status| status.counts.errors >= 5 && is_absent(&status.phase)).await;
        assert_eq!(maps.cache().len(), left);
        cluster.clear_faults();
        cluster.create("after");
        cluster.converge(&maps).await;
    }
}

/// kopf#871: a resource that can be listed and not watched.
#[tokio::test]
async fn i70_what_cannot_be_watched_is_polled() {
    let cluster = Cluster::start(2).await;
    cluster.fault(Fault::on(Verb::Watch).status(405).reason("MethodNotAllowed"));
    let maps = cluster.start_reflector();
    maps.synced().await.unwrap();
    until(&maps, |status| matches!(status.phase, Phase::Polling { .. })).await;
    cluster.update("cm-0", "new");
    cluster.converge(&maps).await;
}

/// krustlet#187: the token is rotated.
#[tokio::test]
async fn i71_a_rotated_token_is_fetched() {
    let cluster = Cluster::start(1).await;
    cluster.server.with_auth(|auth| auth.token = Some("second".into()));
    let url: http::Uri = cluster.server.url().parse().unwrap();
    let client = |token: &str| {
        let mut config = kube::Config::new(url.clone());
        config.auth_info.token = Some(token.to_owned().into());
        kube_client(config)
    };
    let fresh = client("second").unwrap();
    let resource = kube::core::ApiResource::erase::<k8s_openapi::api::core::v1::ConfigMap>(&());
    let source = KubeListWatch::<DynamicObject>::dynamic(client("first").unwrap(), &resource, Some("ns"));
    let source = source.renew(move || std::future::ready(Ok(fresh.clone())));
    let maps = Reflector::builder(source).options(fast).start();
    maps.ready().await.unwrap();
    assert_eq!(maps.status().counts.errors, 1);
    cluster.converge(&maps).await;
}

/// kubernetes#121635 (I67), bunkerweb#3750 (I71): the token is revoked while everything works. Running watches go on, as
/// servers look at it only when a request starts; the next request fetches the new one.
#[tokio::test]
async fn i71_a_token_that_is_revoked_in_mid_life_is_fetched_anew() {
    let cluster = Cluster::start(1).await;
    cluster.server.with_auth(|auth| auth.token = Some("first".into()));
    let url: http::Uri = cluster.server.url().parse().unwrap();
    let client = move |token: &str| {
        let mut config = kube::Config::new(url.clone());
        config.auth_info.token = Some(token.to_owned().into());
        kube_client(config)
    };
    let resource = kube::core::ApiResource::erase::<k8s_openapi::api::core::v1::ConfigMap>(&());
    let source = KubeListWatch::<DynamicObject>::dynamic(client("first").unwrap(), &resource, Some("ns"));
    let source = source.renew(move || std::future::ready(client("second")));
    let maps = Reflector::builder(source).options(fast).start();
    maps.ready().await.unwrap();
    cluster.server.with_auth(|auth| auth.token = Some("second".into()));
    cluster.update("cm-0", "still seen");
    cluster.converge(&maps).await;
    assert_eq!(maps.status().counts.errors, 0);
    cluster.server.restart();
    cluster.update("cm-0", "seen again");
    cluster.converge(&maps).await;
    assert_eq!(maps.status().last_error.map(|error| error.class), Some(Class::Unauthorized));
}

/// kube#1226 (I72): readiness can be awaited by anybody, and nobody has to poll anything.
#[tokio::test]
async fn i72_the_reflector_drives_itself() {
    let cluster = Cluster::start(2).await;
    let maps = std::sync::Arc::new(cluster.start_reflector());
    let waiting = [(); 3].map(|()| {
        let maps = std::sync::Arc::clone(&maps);
        tokio::spawn(async move { maps.ready().await.is_ok() })
    });
    for waiter in waiting {
        assert!(tokio::time::timeout(PATIENCE, waiter).await.unwrap().unwrap());
    }
}

/// kube#92: the connection is cut in the middle of an event.
#[tokio::test]
async fn j74_a_cut_in_mid_event_loses_nothing() {
    let cluster = Cluster::start(3).await;
    let maps = cluster.start_reflector();
    maps.ready().await.unwrap();
    for bytes in [1, 40, 200, 333, 600, 999] {
        cluster.fault(Fault::on(Verb::Watch).cut_after_bytes(bytes).once());
        cluster.server.restart();
        for name in ["cm-0", "cm-1", "cm-2"] {
            cluster.update(name, &format!("cut at {bytes}"));
        }
        cluster.converge(&maps).await;
    }
}

/// fabric8#3143: requests after the stop.
#[tokio::test]
async fn j77_nothing_is_asked_after_the_stop() {
    let cluster = Cluster::start(1).await;
    let maps = cluster.start_reflector();
    maps.ready().await.unwrap();
    let cache = maps.stop().await;
    let before = cluster.requests().len();
    cluster.update("cm-0", "new");
    cluster.server.restart();
    assert_eq!(cluster.requests().len(), before);
    assert_eq!(cache.len(), 1);
}

/// Metadata only: `items: null` for an empty list, and objects without their bodies.
#[tokio::test]
async fn metadata_only_leaves_the_bodies_at_the_server() {
    for streaming in [true, false] {
        let cluster = Cluster::start(0).await;
        let maps =
            Reflector::builder(cluster.source().metadata_only()).options(fast).streaming(streaming).start();
        maps.ready().await.unwrap();
        cluster.create("cm-0");
        until(&maps, |_| maps.cache().len() == 1).await;
        let map = maps.cache().get(Some("ns"), "cm-0").unwrap();
        assert_eq!(map.label("app"), Some("test"));
        assert!(!String::from_utf8_lossy(&map.json().unwrap()).contains("\"data\""));
        assert_eq!(map.get().unwrap().metadata.name.as_deref(), Some("cm-0"));
    }
}

/// Selectors are repeated on every page and on every watch; what leaves the selection is deleted from the copy.
#[tokio::test]
async fn selectors_hold_on_every_page_and_watch() {
    for streaming in [true, false] {
        let cluster = Cluster::start(5).await;
        let mut other = map("other", "0");
        other["metadata"]["labels"]["app"] = "other".into();
        cluster.server.with_core(|core| core.create("configmaps", other).unwrap());
        let maps = cluster.builder().streaming(streaming).labels("app=test").start();
        maps.ready().await.unwrap();
        assert_eq!(maps.cache().len(), 5);
        let mut leaving = map("cm-2", "0");
        leaving["metadata"]["labels"]["app"] = "other".into();
        cluster.server.with_core(|core| core.update("configmaps", leaving).unwrap());
        until(&maps, |_| maps.cache().len() == 4).await;
        assert!(cluster.server.requests().iter().all(|r| r.path.contains("labelSelector=app%3Dtest")));
    }
}
