//! What a change costs, with indexes and subscribers.

use std::time::Duration;

use futures::{FutureExt, StreamExt};
use k8s_openapi::api::core::v1::Pod;
use kube::runtime::watcher;
use reflector::{Cache, Change, Object, Store, Subscription};

use crate::{pods::unversioned, table::Row, timing::time};

type Error = Box<dyn std::error::Error>;

/// So many changes come together, of as many pods.
const BATCH: usize = 100;

fn drain(subscription: &mut Subscription<Pod>) -> usize {
    std::iter::from_fn(|| subscription.next().now_or_never().flatten()).count()
}

/// Measures one change, and one change as told to each of 1, 10 and 100 subscribers.
pub(crate) fn measure(pods: &[String]) -> Result<Vec<Row>, Error> {
    let (cache, mut writer) = Cache::new();
    for json in pods {
        writer.stage(vec![Change::Upsert(Object::from_json(json)?)])?;
    }
    writer.commit_replace(None)?;
    // Without versions every object that comes is a change, so that two prepared batches can take turns.
    let step = (pods.len() / BATCH).max(1);
    let batch = || -> Result<Vec<Object<Pod>>, Error> {
        (0..BATCH).map(|i| Ok(Object::from_json(unversioned(i * step % pods.len(), pods.len()))?)).collect()
    };
    let batches = [batch()?, batch()?];
    let mut turn = 0;
    let per_change = |taken: Duration| taken / BATCH as u32;

    let (_kube, mut kube_writer) = kube::runtime::reflector::store::<Pod>();
    let events = batches[0].iter().map(|object| Ok(watcher::Event::Apply(object.get()?.as_ref().clone())));
    let events = events.collect::<Result<Vec<_>, Error>>()?;
    let kube = time(|| events.iter().for_each(|event| kube_writer.apply_watcher_event(event)));

    let mut rows = Vec::new();
    let mut measure = |name: String, subscribers: usize, kube: Option<Duration>| {
        let mut all: Vec<_> = (0..subscribers).map(|_| cache.subscribe()).collect();
        all.iter_mut().map(drain).for_each(drop);
        let ours = time(|| {
            turn += 1;
            let changes = batches[turn % 2].iter().cloned().map(Change::Upsert).collect();
            // A cache takes everything.
            writer.apply(changes, None).ok();
            let told: usize = all.iter_mut().map(drain).sum();
            debug_assert_eq!(told, subscribers * BATCH);
        });
        rows.push(Row { name, ours: per_change(ours), kube: kube.map(per_change), floor: None });
    };
    measure("one change of a batch".to_owned(), 0, Some(kube));
    for subscribers in [1, 10, 100] {
        measure(format!("the same, told to {subscribers}"), subscribers, None);
    }
    cache.index(|pod: &Pod| pod.spec.as_ref().and_then(|spec| spec.node_name.clone()));
    measure("the same, with an index of the decoded pod".to_owned(), 0, None);
    Ok(rows)
}
