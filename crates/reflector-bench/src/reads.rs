//! Reads: get, list, by namespace, by index, by selector, a snapshot.

use std::{collections::HashMap, hint::black_box, sync::Arc};

use k8s_openapi::api::core::v1::Pod;
use kube::{
    core::{Expression, Selector},
    runtime::{
        reflector::{ObjectRef, Store as KubeStore},
        watcher,
    },
};
use reflector::{Cache, Change, IndexBy, LabelSelector, Object, Store};

use crate::{table::Row, timing::time};

type Key = (String, String);
type Error = Box<dyn std::error::Error>;

/// The same pods in the three stores.
struct Stores {
    ours: Cache<Pod>,
    kube: KubeStore<Pod>,
    floor: HashMap<Key, Arc<Pod>>,
}

fn fill(pods: &[String]) -> Result<Stores, Error> {
    let (ours, mut writer) = Cache::new();
    let (kube, mut kube_writer) = kube::runtime::reflector::store();
    let mut floor = HashMap::new();
    kube_writer.apply_watcher_event(&watcher::Event::Init);
    for json in pods {
        let object: Object<Pod> = Object::from_json(json)?;
        let pod: Pod = serde_json::from_str(json)?;
        kube_writer.apply_watcher_event(&watcher::Event::InitApply(pod.clone()));
        let namespace = object.namespace().unwrap_or_default().to_owned();
        floor.insert((namespace, object.name().to_owned()), Arc::new(pod));
        writer.stage(vec![Change::Upsert(object)])?;
    }
    kube_writer.apply_watcher_event(&watcher::Event::InitDone);
    writer.commit_replace(None)?;
    Ok(Stores { ours, kube, floor })
}

/// Measures every read.
pub(crate) fn measure(pods: &[String]) -> Result<Vec<Row>, Error> {
    let Stores { ours, kube, floor } = fill(pods)?;
    let middle = pods.len() / 2;
    let (namespace, name) = (format!("ns-{:02}", middle % 100), format!("pod-{middle:06}"));
    let node = |pod: &Pod| pod.spec.as_ref().and_then(|spec| spec.node_name.clone());
    let by_node = ours.index(move |pod: &Pod| node(pod));
    let mut floor_by_node: HashMap<String, Vec<Arc<Pod>>> = HashMap::new();
    for pod in floor.values() {
        floor_by_node.entry(node(pod).unwrap_or_default()).or_default().push(Arc::clone(pod));
    }
    let row = |name: &str, ours, kube, floor| Row { name: name.to_owned(), ours, kube, floor };
    let reference = ObjectRef::<Pod>::new(&name).within(&namespace);
    let key = (namespace.clone(), name.clone());
    let in_namespace = |pod: &Pod| pod.metadata.namespace.as_deref() == Some(&*namespace);
    let on_node = |pod: &Pod| pod.spec.as_ref().and_then(|s| s.node_name.as_deref()) == Some("node-1");
    let is_app = |pod: &Pod| {
        pod.metadata.labels.as_ref().and_then(|labels| labels.get("app")).is_some_and(|app| app == "app-1")
    };
    let scan = |wanted: &dyn Fn(&Pod) -> bool| -> Vec<Arc<Pod>> {
        floor.values().filter(|pod| wanted(pod)).cloned().collect()
    };
    let selector: LabelSelector = "app=app-1".parse()?;
    let kube_selector = Selector::from(Expression::Equal("app".into(), "app-1".into()));
    let select = || ours.select(&selector);

    let mut rows = vec![
        row(
            "get",
            time(|| ours.get(Some(&namespace), &name)),
            Some(time(|| kube.get(&reference))),
            Some(time(|| floor.get(&key).cloned())),
        ),
        row(
            "list of everything",
            time(|| ours.list()),
            Some(time(|| kube.state())),
            Some(time(|| floor.values().cloned().collect::<Vec<_>>())),
        ),
        row("walk through everything", time(|| ours.snapshot().iter().map(black_box).count()), None, {
            Some(time(|| floor.values().map(black_box).count()))
        }),
        row("snapshot", time(|| ours.snapshot()), Some(time(|| kube.state())), Some(time(|| floor.clone()))),
        row(
            "by namespace",
            time(|| ours.snapshot().namespace(&namespace).cloned().collect::<Vec<_>>()),
            Some(time(|| kube.state_filter(in_namespace))),
            Some(time(|| scan(&in_namespace))),
        ),
        row(
            "by index (node)",
            time(|| ours.by(&by_node, "node-1")),
            Some(time(|| kube.state_filter(on_node))),
            Some(time(|| floor_by_node.get("node-1").cloned())),
        ),
        row(
            "by label selector",
            time(select),
            Some(time(|| kube.state_filter_selector(&kube_selector))),
            Some(time(|| scan(&is_app))),
        ),
    ];
    ours.index_by(IndexBy::label("app"));
    let kube_time = rows.last().and_then(|row| row.kube);
    rows.push(row("by label selector, label indexed", time(select), kube_time, None));
    Ok(rows)
}
