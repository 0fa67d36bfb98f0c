//! Which format is asked for and read, over HTTP.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use http::{Request, Response};
use kube::{
    Client,
    client::Body,
    core::{ApiResource, DynamicObject, GroupVersionKind},
};
use reflector::{Encoding, Format, KubeListWatch, Reflector, protocol::InitialRead};
use reflector_apiserver::{
    Verb,
    faults::{Effect, Fault, Gzip},
};
use support::cluster::*;

/// In which encodings the objects are kept, each once.
fn encodings(maps: &Maps) -> Vec<&'static str> {
    let name = |encoding| match encoding {
        Encoding::Json => "json",
        Encoding::Protobuf(kind) => kind.kind(),
        _ => "another",
    };
    let mut names: Vec<_> = maps.cache().list().iter().map(|map| name(map.encoding())).collect();
    names.dedup();
    names
}

#[tokio::test]
async fn protobuf_is_asked_for_in_lists_and_watches() {
    for streaming in [true, false] {
        let cluster = Cluster::start(3).await;
        let maps = cluster.builder().streaming(streaming).start();
        maps.ready().await.unwrap();
        cluster.update("cm-0", "new");
        cluster.converge(&maps).await;
        assert_eq!(encodings(&maps), ["ConfigMap"], "streaming {streaming}");
        assert_eq!(maps.status().counts.errors, 0, "{:?}", maps.status().last_error);
        let map = maps.cache().get(Some("ns"), "cm-0").unwrap();
        assert_eq!(map.get().unwrap().data["data"]["value"], "new");
    }
}

#[tokio::test]
async fn json_is_asked_for_where_it_is_wanted() {
    let cluster = Cluster::start(3).await;
    let maps: Maps = Reflector::builder(cluster.source().format(Format::Json)).options(fast).start();
    maps.ready().await.unwrap();
    assert_eq!(encodings(&maps), ["json"]);
}

#[tokio::test]
async fn a_server_that_takes_no_protobuf_is_asked_for_json_from_then_on() {
    let cluster = Cluster::start(3).await;
    cluster.fault(Fault::on(Verb::Watch).status(406).reason("NotAcceptable").once());
    let maps = cluster.start_reflector();
    maps.ready().await.unwrap();
    assert_eq!(encodings(&maps), ["json"]);
    assert_eq!(maps.status().counts.errors, 0, "{:?}", maps.status().last_error);
    // Also after the next relist.
    cluster.fault(Fault::on(Verb::Watch).status(410).reason("Expired").once());
    cluster.server.restart();
    until(&maps, |status| status.counts.syncs >= 2).await;
    cluster.update("cm-0", "new");
    cluster.converge(&maps).await;
    assert_eq!(encodings(&maps), ["json"]);
}

#[tokio::test]
async fn metadata_comes_in_protobuf_too() {
    let cluster = Cluster::start(3).await;
    let source: KubeListWatch<_> = cluster.source().metadata_only();
    let maps = Reflector::builder(source).options(fast).start();
    maps.ready().await.unwrap();
    let map = maps.cache().get(Some("ns"), "cm-0").unwrap();
    assert!(matches!(map.encoding(), Encoding::Protobuf(kind) if kind.kind() == "PartialObjectMetadata"));
    assert_eq!(map.get().unwrap().metadata.name.as_deref(), Some("cm-0"));
}

#[tokio::test]
async fn compressed_protobuf_is_read() {
    let cluster = Cluster::start(30).await;
    cluster.fault(Fault::on(Verb::List).effect(Effect::Gzip(Gzip::Whole)));
    cluster.fault(Fault::on(Verb::Watch).effect(Effect::Gzip(Gzip::MemberPerEvent)));
    let maps = cluster.builder().streaming(false).initial_read(InitialRead::default()).start();
    maps.ready().await.unwrap();
    cluster.update("cm-0", "new");
    cluster.converge(&maps).await;
    assert_eq!(encodings(&maps), ["ConfigMap"]);
}

/// Something between the server and the client breaks protobuf, which it does not know, and leaves JSON alone.
#[tokio::test]
async fn protobuf_that_cannot_be_read_is_asked_for_as_json_from_then_on() {
    let cluster = Cluster::start(3).await;
    let (inner, broken) = (cluster.client(), Arc::new(AtomicUsize::new(0)));
    let counter = Arc::clone(&broken);
    let proxy = tower::service_fn(move |request: Request<Body>| {
        let (inner, counter) = (inner.clone(), Arc::clone(&counter));
        let watch = request.uri().query().is_some_and(|query| query.contains("watch"));
        async move {
            let (mut parts, body) = inner.send(request).await?.into_parts();
            let content_type = parts.headers.get("content-type").map(|value| value.as_bytes().to_vec());
            let protobuf =
                content_type.is_some_and(|t| t.starts_with(b"application/vnd.kubernetes.protobuf"));
            if protobuf {
                counter.fetch_add(1, Ordering::Relaxed);
                parts.headers.remove("content-length");
            }
            // No field has the wire type 7. A watch begins with the length of its first frame.
            let broken: &[u8] =
                if watch { b"\0\0\0\x08\x0f\x0f\x0f\x0f\x0f\x0f\x0f\x0f" } else { b"k8s\0\x0f\x0f\x0f\x0f" };
            let body = if protobuf { Body::from(broken.to_vec()) } else { body };
            Ok::<_, kube::Error>(Response::from_parts(parts, body))
        }
    });
    for streaming in [false, true] {
        broken.store(0, Ordering::Relaxed);
        let resource =
            ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk("", "v1", "ConfigMap"), "configmaps");
        let client = Client::new(proxy.clone(), "ns");
        let source = KubeListWatch::<DynamicObject>::dynamic(client, &resource, Some("ns"));
        let maps = Reflector::builder(source).options(fast).streaming(streaming).start();
        until(&maps, |status| status.synced).await;
        cluster.update("cm-0", if streaming { "streamed" } else { "listed" });
        cluster.converge(&maps).await;
        assert_eq!(encodings(&maps), ["json"]);
        assert_eq!(broken.load(Ordering::Relaxed), 1, "it is remembered");
        let error = maps.status().last_error.unwrap().to_string();
        assert!(error.contains("protobuf"), "{error}");
        maps.stop().await;
    }
}
