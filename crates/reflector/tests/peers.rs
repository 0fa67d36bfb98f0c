//! What users of other reflectors suffer from, replayed over HTTP against the embedded API server.
//!
//! `k…` and `b1` are defects that were confirmed in kube-runtime 5.0.0 and kubert 0.25.0; each test says what was seen
//! there. Others are named after the report.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![cfg(feature = "kube")]

mod support;

use std::time::{Duration, Instant};

use kube::core::DynamicObject;
use reflector::{
    Format, KubeListWatch, Reflector,
    protocol::{Class, InitialRead, Phase, Streaming},
};
use reflector_apiserver::{
    Verb,
    faults::{Effect, ErrorBody, Fault, Gzip, InitialEventsEnd, Interruption, Point},
};
use support::cluster::*;

/// kube-runtime: the same version is tried again for ever, and the store stays stale.
#[tokio::test]
async fn k1_a_410_as_http_status_leads_to_a_relist() {
    let cluster = Cluster::start(3).await;
    let maps = cluster.start_reflector();
    maps.ready().await.unwrap();
    cluster.fault(Fault::on(Verb::Watch).status(410).reason("Expired").once());
    cluster.server.restart();
    cluster.update("cm-1", "new");
    cluster.converge(&maps).await;
    assert_eq!(maps.status().counts.relists, 1, "{:?}", cluster.requests());
}

#[tokio::test]
async fn k1_a_410_as_event_leads_to_a_relist() {
    let cluster = Cluster::start(3).await;
    let maps = cluster.builder().streaming(false).start();
    maps.ready().await.unwrap();
    cluster.fault(Fault::on(Verb::Watch).error_event(410, 0).once());
    cluster.server.restart();
    cluster.delete("cm-0");
    cluster.converge(&maps).await;
    assert_eq!(maps.status().counts.relists, 1, "{:?}", cluster.requests());
}

/// kube-runtime: 16,505 requests in two seconds.
#[tokio::test]
async fn k2_watches_that_end_at_once_are_backed_off_and_then_relisted() {
    let cluster = Cluster::start(1).await;
    let maps = cluster.builder().streaming(false).start();
    maps.ready().await.unwrap();
    cluster.fault(Fault::on(Verb::Watch).end_at_once());
    cluster.server.restart();
    let began = Instant::now();
    until(&maps, |status| status.counts.relists >= 2).await;
    let watches = cluster.count(Verb::Watch);
    // Twice three short watches, with 20 ms and more between them; and one before.
    assert!(watches <= 10, "{watches} watches in {:?}", began.elapsed());
    cluster.clear_faults();
    cluster.update("cm-0", "new");
    cluster.converge(&maps).await;
}

/// kube-runtime: the bad event is dropped, and the old state stays for ever; the error names nothing.
#[tokio::test]
async fn k3_an_undecodable_event_keeps_its_key_and_its_version() {
    use k8s_openapi::api::core::v1::ConfigMap;
    let cluster = Cluster::start(2).await;
    // An object that does not fit its type is not made in protobuf.
    let source = KubeListWatch::<ConfigMap>::namespaced(cluster.client(), "ns").format(Format::Json);
    let maps = Reflector::builder(source).options(fast).start();
    maps.ready().await.unwrap();
    cluster.fault(Fault::on(Verb::Watch).effect(Effect::Undecodable(1)).once());
    cluster.server.restart();
    until(&maps, |_| cluster.count(Verb::Watch) >= 2).await;
    cluster.update("cm-0", "bad");
    cluster.update("cm-1", "good");
    until(&maps, |_| copy(maps.cache()) == cluster.truth()).await;
    let bad: Vec<_> = maps.cache().list().iter().filter_map(|map| map.get().err()).collect();
    assert_eq!(bad.len(), 1);
    assert!(bad[0].to_string().contains("ns/cm-0") && !bad[0].path.is_empty(), "{}", bad[0]);
}

/// kube-runtime: the whole list fails, is tried again for ever, and the store stays empty.
#[tokio::test]
async fn k4_an_undecodable_item_does_not_stop_a_list() {
    use k8s_openapi::api::core::v1::ConfigMap;
    let cluster = Cluster::start(5).await;
    cluster.fault(Fault::on(Verb::List).effect(Effect::Undecodable(1)));
    let source = KubeListWatch::<ConfigMap>::namespaced(cluster.client(), "ns");
    let maps = Reflector::builder(source).options(fast).page_size(None).streaming(false).start();
    maps.ready().await.unwrap();
    assert_eq!(copy(maps.cache()), cluster.truth());
    assert_eq!(maps.cache().list().iter().filter(|map| map.get().is_err()).count(), 1);
}

#[tokio::test]
async fn k4_an_item_without_metadata_does_not_stop_a_list() {
    let cluster = Cluster::start(5).await;
    cluster.fault(Fault::on(Verb::List).effect(Effect::WithoutMetadata(2)));
    let maps = cluster.builder().page_size(None).streaming(false).start();
    maps.ready().await.unwrap();
    assert_eq!(maps.cache().len(), 4);
    assert_eq!(maps.status().counts.invalid, 1);
}

/// kube-runtime: never ready, and no error.
#[tokio::test]
async fn k5_a_server_that_ignores_streaming_lists_is_listed() {
    for end in [InitialEventsEnd::Missing, InitialEventsEnd::Plain] {
        let cluster = Cluster::start(3).await;
        cluster.fault(Fault::on(Verb::Watch).ignore_query(["sendInitialEvents"]).initial_events_end(end));
        let maps = cluster.start_reflector();
        maps.ready().await.unwrap();
        cluster.converge(&maps).await;
        assert!(matches!(maps.status().streaming, Streaming::FellBack { .. }));
        assert!(cluster.count(Verb::List) >= 2, "{:?}", cluster.requests());
    }
}

/// kube-runtime: begins at page 1 again for ever.
#[tokio::test]
async fn k6_continue_tokens_that_always_expire_end_in_one_whole_list() {
    let cluster = Cluster::start(5).await;
    cluster.fault(Fault::on(Verb::List).expire_continue());
    let maps = cluster.builder().streaming(false).start();
    maps.ready().await.unwrap();
    assert_eq!(copy(maps.cache()), cluster.truth());
    let lists: Vec<_> = cluster.requests().into_iter().filter(|r| r.starts_with("list")).collect();
    assert_eq!(
        lists,
        ["list limit=2", "list limit=2 continue", "list limit=2", "list limit=2 continue", "list"]
    );
}

/// kube-runtime: `any_semantic()` silently means a quorum read.
#[tokio::test]
async fn k7_any_is_asked_for_as_version_zero() {
    let cluster = Cluster::start(3).await;
    let maps = cluster.builder().streaming(false).initial_read(InitialRead::Any).start();
    maps.ready().await.unwrap();
    assert_eq!(cluster.requests()[0], "list rv=0 limit=2");
    assert_eq!(maps.cache().len(), 3);
}

/// kube-runtime: the older state overwrites the newer one.
#[tokio::test]
async fn k8_no_object_goes_back_in_time() {
    let cluster = Cluster::start(2).await;
    cluster.fault(Fault::on(Verb::Watch).effect(Effect::RegressVersions));
    let maps = cluster.start_reflector();
    maps.ready().await.unwrap();
    for i in 0..5 {
        cluster.update("cm-0", &format!("v{i}"));
    }
    cluster.create("last");
    until(&maps, |_| maps.cache().get(Some("ns"), "last").is_some()).await;
    assert_eq!(copy(maps.cache()), cluster.truth());
}

/// kube-runtime: the same version for ever, and with the stock client minutes of silence.
#[tokio::test]
async fn k9_a_version_that_stays_ahead_is_given_up() {
    let cluster = Cluster::start(2).await;
    let maps = cluster.builder().streaming(false).start();
    maps.ready().await.unwrap();
    let too_large = "Timeout: Too large resource version: 10, current: 9";
    cluster.fault(Fault::on(Verb::Watch).status(504).reason("Timeout").message(too_large).times(4));
    cluster.server.restart();
    cluster.update("cm-0", "new");
    cluster.converge(&maps).await;
    let status = maps.status();
    assert_eq!(status.last_error.map(|e| e.class), Some(Class::TooLarge));
    assert_eq!(status.counts.relists, 1);
    assert!(cluster.requests().iter().any(|r| r == "list limit=2"), "{:?}", cluster.requests());
}

/// kube-runtime: listed objects of dynamic types have no types, watched ones have.
#[tokio::test]
async fn k13_listed_objects_say_what_they_are() {
    let cluster = Cluster::start(1).await;
    let maps = cluster.builder().streaming(false).start();
    maps.ready().await.unwrap();
    cluster.create("watched");
    cluster.converge(&maps).await;
    for map in &maps.cache().snapshot() {
        let types = map.get().unwrap().types.clone().unwrap();
        assert_eq!((types.api_version.as_str(), types.kind.as_str()), ("v1", "ConfigMap"), "{}", map.key());
    }
}

/// kube-runtime: streaming lists ask for version "0", which may be arbitrarily old.
#[tokio::test]
async fn k14_streaming_lists_never_ask_for_an_old_state() {
    let cluster = Cluster::start(1).await;
    let maps = cluster.start_reflector();
    maps.ready().await.unwrap();
    cluster.fault(Fault::on(Verb::Watch).status(410).reason("Expired").once());
    let version = maps.cache().version().unwrap();
    cluster.server.restart();
    until(&maps, |status| status.counts.relists == 1 && matches!(status.phase, Phase::Watching)).await;
    let requests = cluster.requests();
    assert_eq!(requests[0], "watch match=NotOlderThan initial");
    assert!(requests.contains(&format!("watch rv={version} match=NotOlderThan initial")), "{requests:?}");
}

/// kube-runtime: each object is cloned into the store, and a relist holds the old map and the new one.
#[tokio::test]
async fn k15_a_relist_keeps_the_objects_that_have_not_changed() {
    let cluster = Cluster::start(3).await;
    let maps = cluster.start_reflector();
    maps.ready().await.unwrap();
    let before = maps.cache().list();
    cluster.fault(Fault::on(Verb::Watch).status(410).reason("Expired").once());
    cluster.server.restart();
    until(&maps, |status| status.counts.relists == 1 && matches!(status.phase, Phase::Watching)).await;
    let after = maps.cache().list();
    assert!(before.iter().zip(&after).all(|(a, b)| a.ptr_eq(b)));
}

/// kubert: what was deleted after an interrupted relist stays in the index for ever.
#[tokio::test]
async fn b1_an_interrupted_relist_leaves_no_ghost() {
    let cluster = Cluster::start(6).await;
    let maps = cluster.builder().streaming(false).start();
    maps.ready().await.unwrap();
    cluster.fault(Fault::on(Verb::Watch).status(410).reason("Expired").once());
    // The relist is cut in the middle, so that some objects have come and others have not.
    cluster.fault(Fault::on(Verb::List).cut_after_bytes(300).times(1));
    cluster.server.restart();
    until(&maps, |status| status.counts.errors >= 2).await;
    cluster.delete("cm-1");
    cluster.delete("cm-4");
    cluster.converge(&maps).await;
}

/// kube#1791, client-go#374, kubernetes-client/javascript#596: a connection that is dead and was never closed.
#[tokio::test]
async fn a1_a_blackholed_watch_is_noticed_and_resumed() {
    let cluster = Cluster::start(1).await;
    cluster.fault(Fault::on(Verb::Watch).interrupt(Point::Events(2), Interruption::Blackhole).once());
    let maps = cluster.start_reflector();
    maps.ready().await.unwrap();
    let began = Instant::now();
    cluster.update("cm-0", "unseen");
    cluster.converge(&maps).await;
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    assert_eq!(maps.status().counts.relists, 0, "it was resumed, not read anew");
}

/// fabric8#4781: the server keeps the watch open, and says nothing although objects change.
#[tokio::test]
async fn a5_a_stalled_watch_is_opened_again() {
    let cluster = Cluster::start(1).await;
    cluster.fault(Fault::on(Verb::Watch).interrupt(Point::Events(2), Interruption::Hang).once());
    let maps = cluster.start_reflector();
    maps.ready().await.unwrap();
    cluster.update("cm-0", "unseen");
    cluster.converge(&maps).await;
}

/// client-go#374 (A9), trino-operator#936 (A2): everything that shares a network dies at once; each recovers by itself.
#[tokio::test]
async fn a9_all_watches_recover_from_dead_connections() {
    let cluster = Cluster::start(2).await;
    let dead = Fault::on(Verb::Watch).interrupt(Point::Events(3), Interruption::Blackhole);
    cluster.fault(dead.times(5));
    let client = cluster.client();
    let resource = kube::core::ApiResource::erase::<k8s_openapi::api::core::v1::ConfigMap>(&());
    let source = || KubeListWatch::<DynamicObject>::dynamic(client.clone(), &resource, Some("ns"));
    let all: Vec<_> = (0..5).map(|_| Reflector::builder(source()).options(fast).start()).collect();
    for maps in &all {
        maps.ready().await.unwrap();
    }
    cluster.update("cm-0", "unseen");
    for maps in &all {
        cluster.converge(maps).await;
        assert_eq!(maps.status().counts.relists, 0);
    }
}

/// kubeclient#273, dotnet-operator-sdk#763: a watch of nothing ends, and is not opened again.
#[tokio::test]
async fn a10_an_empty_collection_is_watched_on() {
    let cluster = Cluster::start(0).await;
    cluster.fault(
        Fault::on(Verb::Watch).interrupt(Point::After(Duration::from_millis(300)), Interruption::End).once(),
    );
    let maps = cluster.start_reflector();
    maps.ready().await.unwrap();
    until(&maps, |status| status.counts.watches >= 2).await;
    cluster.create("first");
    cluster.converge(&maps).await;
}

/// kube#577: refused connections are tried again without a pause.
#[tokio::test]
async fn b13_refused_connections_are_backed_off() {
    let cluster = Cluster::start(0).await;
    let client = cluster.client();
    cluster.server.stop().await;
    let resource = kube::core::ApiResource::erase::<k8s_openapi::api::core::v1::ConfigMap>(&());
    let source = KubeListWatch::<DynamicObject>::dynamic(client, &resource, None);
    let maps = Reflector::builder(source).start();
    let status = until(&maps, |status| status.counts.errors == 2).await;
    let error = status.last_error.unwrap();
    assert_eq!(error.class, Class::Transport);
    assert!(error.elapsed >= Duration::from_millis(800), "{:?}", error.elapsed);
    assert!(error.to_string().contains("onnect"), "{error}");
}

/// kubernetes#79805: `Retry-After` is a floor, and jitter goes on top.
#[tokio::test]
async fn b15_retry_after_is_a_floor() {
    let cluster = Cluster::start(1).await;
    cluster.fault(
        Fault::on(Verb::Watch).status(429).retry_after(1).body(ErrorBody::Text("Too many".into())).once(),
    );
    let maps = cluster.start_reflector();
    let began = Instant::now();
    maps.ready().await.unwrap();
    assert!(began.elapsed() >= Duration::from_secs(1), "{:?}", began.elapsed());
}

/// openshift/kubernetes#669, cilium#25551: overload at the start of a watch, or in it, costs no list.
#[tokio::test]
async fn b17_a_429_costs_no_list() {
    let cluster = Cluster::start(3).await;
    // The watch ends soon, by itself and cleanly, so that the next ones meet the overload.
    let soon = Point::After(Duration::from_millis(100));
    cluster.fault(Fault::on(Verb::Watch).interrupt(soon, Interruption::End).once());
    cluster.fault(Fault::on(Verb::Watch).after(1).status(429).times(4));
    cluster.fault(Fault::on(Verb::Watch).after(5).error_event(429, 0).once());
    let maps = cluster
        .builder()
        .streaming(false)
        .page_size(None)
        .options(|o| o.short_watch = Duration::ZERO)
        .start();
    maps.ready().await.unwrap();
    until(&maps, |status| status.counts.errors >= 5).await;
    cluster.update("cm-0", "new");
    cluster.converge(&maps).await;
    assert_eq!(cluster.count(Verb::List), 1, "{:?}", cluster.requests());
    assert_eq!(maps.status().counts.relists, 0);
}

/// kubernetes-client/java#2330 (A4): dead for longer than a watch lives, then healed.
#[tokio::test]
async fn a4_a_long_outage_heals() {
    let cluster = Cluster::start(2).await;
    let maps = cluster.start_reflector();
    maps.ready().await.unwrap();
    cluster.fault(Fault::any().interrupt(Point::Request, Interruption::Blackhole).times(3));
    cluster.server.restart();
    cluster.update("cm-0", "in the dark");
    cluster.converge(&maps).await;
    assert!(maps.status().counts.errors >= 1);
}

/// kubernetes#122805: the bookmark comes late, and the state before it is not shown.
#[tokio::test]
async fn c21_a_late_end_bookmark_is_waited_for() {
    let cluster = Cluster::start(3).await;
    let late = InitialEventsEnd::Late(Duration::from_millis(600));
    cluster.fault(Fault::on(Verb::Watch).initial_events_end(late).once());
    let maps = cluster.start_reflector();
    maps.ready().await.unwrap();
    assert_eq!(cluster.count(Verb::List), 0);
    assert_eq!(maps.status().streaming, Streaming::Works);
}

/// kube#1844: initial events are asked for again at every reconnect.
#[tokio::test]
async fn c22_a_reconnect_does_not_ask_for_everything_again() {
    let cluster = Cluster::start(3).await;
    let end = Interruption::End;
    cluster.fault(Fault::on(Verb::Watch).interrupt(Point::After(Duration::from_millis(300)), end).once());
    let maps = cluster.start_reflector();
    maps.ready().await.unwrap();
    until(&maps, |status| status.counts.watches >= 2).await;
    cluster.update("cm-0", "new");
    cluster.converge(&maps).await;
    let requests = cluster.requests();
    assert!(requests[0].contains("initial") && !requests[1].contains("initial"), "{requests:?}");
}

/// kube#2079: Kubernetes 1.37 compresses watches, one gzip member per event.
#[tokio::test]
async fn c25_watches_of_many_gzip_members_are_read_as_they_come() {
    for gzip in [Gzip::MemberPerEvent, Gzip::Whole] {
        let cluster = Cluster::start(3).await;
        cluster.fault(Fault::on(Verb::Watch).gzip(gzip));
        let maps = cluster.start_reflector();
        maps.ready().await.unwrap();
        for i in 0..20 {
            cluster.update("cm-1", &format!("v{i}"));
        }
        cluster.converge(&maps).await;
        let status = maps.status();
        assert_eq!((status.counts.errors, status.counts.lists), (0, 0), "{:?}", status.last_error);
    }
}
