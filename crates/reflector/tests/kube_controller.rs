//! Events, stores and controllers of kube's runtime on a reflector; the controllers over HTTP against the embedded API
//! server.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::{collections::BTreeMap, io, pin::pin, sync::Arc};

use bytes::Bytes;
use futures::{FutureExt, Stream, StreamExt, stream::BoxStream};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    ResourceExt,
    core::{ApiResource, DynamicObject, GroupVersionKind},
    runtime::{
        controller::{self, Action, Controller},
        reflector::{ObjectRef, store::Store},
        watcher,
    },
};
use reflector::{
    Cache, Change, KubeListWatch, Object, ObjectMeta, Reflector, ResourceVersion, Store as _, kube_runtime,
    store::CacheWriter,
};
use reflector_apiserver::{Verb, faults::Fault};
use serde_json::json;
use support::cluster::*;
use tokio::sync::mpsc;

/// A ConfigMap; `data` may be what no ConfigMap has.
fn config(name: &str, version: &str, data: &str) -> Object<ConfigMap> {
    let metadata =
        format!(r#"{{"namespace":"ns","name":"{name}","uid":"{name}","resourceVersion":"{version}"}}"#);
    Object::from_json(format!(
        r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{metadata},"data":{data}}}"#
    ))
    .unwrap()
}

const BROKEN: &str = r#"{"key":5}"#;

fn whole(name: &str, version: &str) -> Object<ConfigMap> {
    config(name, version, r#"{"key":"value"}"#)
}

fn broken(name: &str, version: &str) -> Object<ConfigMap> {
    config(name, version, BROKEN)
}

fn synced(writer: &mut CacheWriter<ConfigMap>, objects: Vec<Object<ConfigMap>>) {
    writer.stage(objects.into_iter().map(Change::Upsert).collect()).unwrap();
    writer.commit_replace(ResourceVersion::new("1").as_ref()).unwrap();
}

fn shown(event: &watcher::Event<ConfigMap>) -> String {
    let of = |map: &ConfigMap| format!("{}@{}", map.name_any(), map.resource_version().unwrap());
    match event {
        watcher::Event::Init => "init".into(),
        watcher::Event::InitApply(map) => format!("init {}", of(map)),
        watcher::Event::InitDone => "done".into(),
        watcher::Event::Apply(map) => format!("+{}", of(map)),
        watcher::Event::Delete(map) => format!("-{}", of(map)),
    }
}

/// What a stream has told so far.
fn told(events: &mut kube_runtime::Events<ConfigMap>) -> Vec<String> {
    std::iter::from_fn(|| events.next().now_or_never().flatten())
        .map(|event| shown(&event.expect("it never fails")))
        .collect()
}

#[test]
fn the_first_state_comes_whole_and_then_every_change() {
    let (cache, mut writer) = Cache::new();
    let mut events = kube_runtime::events(cache.subscribe());
    assert!(told(&mut events).is_empty(), "nothing before the sync");
    synced(&mut writer, vec![whole("a", "5"), whole("b", "6")]);
    assert_eq!(told(&mut events), ["init", "init a@5", "init b@6", "done"]);
    let changes = vec![Change::Upsert(whole("a", "7")), Change::Delete(whole("b", "8"))];
    writer.apply(changes, None).unwrap();
    assert_eq!(told(&mut events), ["+a@7", "-b@8"]);
    // A new list is told by what differs.
    synced(&mut writer, vec![whole("a", "7"), whole("c", "9")]);
    assert_eq!(told(&mut events), ["+c@9"]);
    drop(writer);
    assert!(matches!(events.next().now_or_never(), Some(None)), "it ends with the reflector");
}

/// kube's events have no deletion before `InitDone`: what has gone by then must not have been told.
#[test]
fn what_goes_before_the_sync_is_not_in_the_first_state() {
    let (cache, writers) = Cache::by_namespace();
    let (mut ns, mut other) = (writers.writer("ns"), writers.writer("other"));
    let mut events = kube_runtime::events(cache.subscribe());
    synced(&mut ns, vec![whole("a", "5"), whole("b", "6"), whole("c", "6")]);
    assert!(told(&mut events).is_empty(), "the other namespace is awaited");
    let changes = vec![Change::Delete(whole("a", "7")), Change::Upsert(whole("b", "8"))];
    ns.apply(changes, None).unwrap();
    assert!(told(&mut events).is_empty());
    synced(&mut other, vec![]);
    assert_eq!(told(&mut events), ["init", "init b@8", "init c@6", "done"]);
}

#[test]
fn what_does_not_decode_is_left_out_and_the_stream_goes_on() {
    let (cache, mut writer) = Cache::new();
    let mut events = kube_runtime::events(cache.subscribe());
    synced(&mut writer, vec![broken("a", "5"), whole("b", "6")]);
    assert_eq!(told(&mut events), ["init", "init b@6", "done"]);
    // A deletion of what was never told is not told.
    writer.apply(vec![Change::Delete(broken("a", "7")), Change::Upsert(broken("c", "8"))], None).unwrap();
    assert_eq!(told(&mut events), [""; 0]);
    // Once it fits, it comes.
    writer.apply(vec![Change::Upsert(whole("c", "9"))], None).unwrap();
    assert_eq!(told(&mut events), ["+c@9"]);
}

#[test]
fn the_last_good_state_stays_until_the_object_is_deleted() {
    let (cache, mut writer) = Cache::new();
    let mut events = kube_runtime::events(cache.subscribe());
    synced(&mut writer, vec![whole("a", "5"), whole("b", "6"), whole("c", "6")]);
    told(&mut events);
    let changes = ["a", "b"].map(|name| Change::Upsert(broken(name, "7")));
    writer.apply(changes.into(), None).unwrap();
    assert_eq!(told(&mut events), [""; 0]);
    writer.apply(vec![Change::Delete(broken("a", "8"))], None).unwrap();
    assert_eq!(told(&mut events), ["-a@5"]);
    writer.apply(vec![Change::Upsert(whole("b", "9"))], None).unwrap();
    assert_eq!(told(&mut events), ["+b@9"]);
    // Both at once, so that nobody saw the broken one; and a deletion that could not be read at all.
    let unread = Object::new(
        ObjectMeta { version: ResourceVersion::new("12"), ..whole("c", "6").meta().clone() },
        reflector::Encoding::Json,
        Bytes::from_static(b"{}"),
    );
    let changes =
        vec![Change::Upsert(broken("b", "10")), Change::Delete(broken("b", "11")), Change::Delete(unread)];
    writer.apply(changes, None).unwrap();
    assert_eq!(told(&mut events), ["-b@9", "-c@6"]);
}

#[tokio::test]
async fn a_store_of_kube_follows_the_cache() {
    let (cache, mut writer) = Cache::new();
    let (store, fill) = kube_runtime::store(cache.subscribe());
    let mut fill = Box::pin(fill);
    assert!(fill.as_mut().now_or_never().is_none());
    assert!(store.wait_until_ready().now_or_never().is_none(), "not before the sync");
    synced(&mut writer, vec![whole("a", "5"), broken("b", "6")]);
    assert!(fill.as_mut().now_or_never().is_none());
    store.wait_until_ready().await.unwrap();
    let key = |name| ObjectRef::new(name).within("ns");
    assert_eq!(store.get(&key("a")).unwrap().resource_version().unwrap(), "5");
    assert!(store.get(&key("b")).is_none());
    writer.apply(vec![Change::Delete(whole("a", "7"))], None).unwrap();
    assert!(fill.as_mut().now_or_never().is_none());
    assert!(store.is_empty());
    drop(writer);
    fill.await;
}

#[tokio::test]
async fn a_store_that_never_synced_says_so() {
    let (cache, writer) = Cache::<ConfigMap>::new();
    let (store, fill) = kube_runtime::store(cache.subscribe());
    drop(writer);
    fill.await;
    assert!(store.wait_until_ready().await.is_err());
}

/// A controller that tells whom it reconciles.
struct Controlled {
    maps: Reflector<ConfigMap>,
    reconciled: mpsc::UnboundedReceiver<String>,
    results: BoxStream<'static, Result<ObjectRef<ConfigMap>, controller::Error<io::Error, watcher::Error>>>,
}

fn reflect(cluster: &Cluster) -> Reflector<ConfigMap> {
    let source = KubeListWatch::<ConfigMap>::namespaced(cluster.client(), "ns");
    Reflector::builder(source).seed(1).options(fast).start()
}

fn control(
    maps: Reflector<ConfigMap>,
    input: (Store<ConfigMap>, impl Stream<Item = watcher::Result<ConfigMap>> + Send + 'static),
    more: impl FnOnce(Controller<ConfigMap>) -> Controller<ConfigMap>,
) -> Controlled {
    let (tell, reconciled) = mpsc::unbounded_channel();
    let reconcile = move |map: Arc<ConfigMap>, _: Arc<()>| {
        let value = map.data.as_ref().and_then(|data| data.get("value")).cloned().unwrap_or_default();
        tell.send(format!("{}={value}", map.name_any())).ok();
        async { Ok(Action::await_change()) }
    };
    let (store, touched) = input;
    let results = more(Controller::for_stream(touched, store))
        .run(reconcile, |_, _: &io::Error, _| Action::await_change(), Arc::new(()))
        .map(|result| result.map(|(map, _)| map))
        .boxed();
    Controlled { maps, reconciled, results }
}

impl Controlled {
    /// A controller of all maps.
    fn new(cluster: &Cluster) -> Self {
        let maps = reflect(cluster);
        let input = kube_runtime::for_controller(maps.cache().subscribe());
        control(maps, input, |controller| controller)
    }

    /// The next result.
    async fn result(&mut self) -> Result<ObjectRef<ConfigMap>, controller::Error<io::Error, watcher::Error>> {
        tokio::time::timeout(PATIENCE, self.results.next()).await.expect("no result").expect("it has ended")
    }

    /// The next `n` reconciliations, sorted; all must succeed.
    async fn reconciled(&mut self, n: usize) -> Vec<String> {
        for _ in 0..n {
            self.result().await.unwrap();
        }
        let mut all: Vec<_> = std::iter::from_fn(|| self.reconciled.try_recv().ok()).collect();
        assert_eq!(all.len(), n, "{all:?}");
        all.sort();
        all
    }
}

#[tokio::test]
async fn a_controller_reconciles_what_is_there_and_what_changes() {
    let cluster = Cluster::start(3).await;
    let mut controlled = Controlled::new(&cluster);
    assert_eq!(controlled.reconciled(3).await, ["cm-0=0", "cm-1=0", "cm-2=0"]);
    cluster.update("cm-1", "new");
    assert_eq!(controlled.reconciled(1).await, ["cm-1=new"]);
    cluster.create("cm-9");
    assert_eq!(controlled.reconciled(1).await, ["cm-9=0"]);
    controlled.maps.stop().await;
    let end = tokio::time::timeout(PATIENCE, controlled.results.next()).await.unwrap();
    assert!(end.is_none(), "the controller ends with the reflector: {end:?}");
}

/// What kube does with it: the reconciler is not called, and the stream of results names the object.
#[tokio::test]
async fn a_deleted_main_object_is_told_as_not_found() {
    let cluster = Cluster::start(2).await;
    let mut controlled = Controlled::new(&cluster);
    controlled.reconciled(2).await;
    cluster.delete("cm-1");
    let result = controlled.result().await;
    let Err(controller::Error::ObjectNotFound(gone)) = result else { panic!("{result:?}") };
    assert_eq!((gone.name.as_str(), gone.namespace.as_deref()), ("cm-1", Some("ns")));
    assert!(controlled.reconciled.try_recv().is_err(), "the reconciler was called");
    controlled.maps.stop().await;
}

/// One reflector feeds both: the owners by one subscription, the owned by another.
#[tokio::test]
async fn a_deleted_owned_object_reconciles_its_owner() {
    let cluster = Cluster::start(2).await;
    let uid = cluster.server.with_core(|core| core.objects("configmaps").unwrap()[1].uid.clone());
    let owner =
        json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "cm-1", "uid": uid, "controller": true}]);
    let mut owned = map("owned", "0");
    owned["metadata"]["ownerReferences"] = owner;
    cluster.server.with_core(|core| core.create("configmaps", owned).unwrap());

    let maps = reflect(&cluster);
    maps.ready().await.unwrap();
    let only = |owned: bool| {
        maps.cache().subscription().filter(move |map| (map.name() == "owned") == owned).subscribe()
    };
    let (input, owned) = (kube_runtime::for_controller(only(false)), kube_runtime::touched(only(true)));
    let mut controlled = control(maps, input, |controller| controller.owns_stream(owned));
    // Of the owned one's first state and its owner's own, one reconciliation may come or two.
    let mut first = BTreeMap::<_, usize>::new();
    while first.len() < 2 {
        *first.entry(controlled.result().await.unwrap().name).or_default() += 1;
    }
    cluster.update("cm-0", "mark");
    while controlled.result().await.unwrap().name != "cm-0" {}
    while controlled.reconciled.try_recv().is_ok() {}

    cluster.delete("owned");
    assert_eq!(controlled.reconciled(1).await, ["cm-1=0"]);
    controlled.maps.stop().await;
}

/// kube's own watcher tells everything again after a 410, and its controller reconciles everything.
#[tokio::test]
async fn a_relist_reconciles_what_has_changed_and_nothing_else() {
    let cluster = Cluster::start(50).await;
    let mut controlled = Controlled::new(&cluster);
    controlled.reconciled(50).await;
    cluster.fault(Fault::on(Verb::Watch).status(410).reason("Expired").once());
    cluster.server.restart();
    cluster.update("cm-7", "missed");
    assert_eq!(controlled.reconciled(1).await, ["cm-7=missed"]);
    until(&controlled.maps, |status| status.counts.syncs == 2).await;
    cluster.update("cm-8", "mark");
    assert_eq!(controlled.reconciled(1).await, ["cm-8=mark"], "and nothing in between");
    controlled.maps.stop().await;
}

#[tokio::test]
async fn types_that_are_known_at_run_time_are_controlled_too() {
    let cluster = Cluster::start(2).await;
    let maps = cluster.start_reflector();
    let resource =
        ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk("", "v1", "ConfigMap"), "configmaps");
    let (store, touched) =
        kube_runtime::for_controller_with::<DynamicObject>(maps.cache().subscribe(), resource.clone());
    let results = Controller::for_stream_with(touched, store, resource)
        .run(
            |map, _| async move {
                let types = map.types.as_ref().expect("lists leave the type out, the reflector does not");
                assert_eq!((types.api_version.as_str(), types.kind.as_str()), ("v1", "ConfigMap"));
                Ok::<_, io::Error>(Action::await_change())
            },
            |_, _, _| Action::await_change(),
            Arc::new(()),
        )
        .take(2)
        .collect::<Vec<_>>();
    let results = tokio::time::timeout(PATIENCE, pin!(results)).await.unwrap();
    let mut names: Vec<_> = results.into_iter().map(|result| result.unwrap().0.name).collect();
    names.sort();
    assert_eq!(names, ["cm-0", "cm-1"]);
    maps.stop().await;
}
