//! Who comes and goes: reflectors, namespaces, subscribers, handlers, indexes, readers. Each does so until it is aborted.

use std::{
    collections::BTreeSet,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use fastrand::Rng;
use futures::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use reflector::{
    Cache, Event, IndexBy, NamespacedReflector, Policy, Reflector, SharedInformer,
    informer::Callbacks,
    store::{ShortLived, WhenFull},
};
use tokio::{task::JoinSet, time};

use super::{
    copies::{Copies, impatient, of_namespace},
    equal::Versions,
};
use crate::Failure;

/// The first sync of who comes is waited for so long.
const SYNC_WITHIN: Duration = Duration::from_secs(10);

/// How often somebody has come and gone.
#[derive(Clone, Default)]
pub(super) struct Lives(Arc<AtomicU64>);

impl Lives {
    pub(super) fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    fn one_more(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// Starts them all.
pub(super) fn start(
    copies: &Copies,
    client: &Client,
    seed: u64,
    lives: &Lives,
    tasks: &mut JoinSet<()>,
) -> Result<(), Failure> {
    let packed = copies.packed().ok_or("there is no packed copy")?;
    let namespaces: BTreeSet<String> =
        packed.snapshot().iter().filter_map(|pod| pod.namespace().map(str::to_owned)).collect();
    let namespaces: Vec<String> = namespaces.into_iter().collect();
    if namespaces.is_empty() {
        return Err("there are no pods".into());
    }
    let mut rng = Rng::with_seed(seed);
    tasks.spawn(reflectors(client.clone(), namespaces.clone(), rng.fork(), lives.clone()));
    tasks.spawn(members(Arc::clone(&copies.namespaced), namespaces, rng.fork(), lives.clone()));
    tasks.spawn(subscribers(packed.clone(), rng.fork(), lives.clone()));
    tasks.spawn(handlers(Arc::clone(&copies.informer), rng.fork(), lives.clone()));
    tasks.spawn(indexes(packed.clone(), lives.clone()));
    tasks.spawn(readers(packed.clone(), rng, lives.clone()));
    tasks.spawn(laggard(packed.clone()));
    Ok(())
}

async fn pause(rng: &mut Rng) {
    time::sleep(Duration::from_millis(rng.u64(200..1500))).await;
}

/// A reflector of a namespace, stopped or dropped after a while, in sync or not.
async fn reflectors(client: Client, namespaces: Vec<String>, mut rng: Rng, lives: Lives) {
    loop {
        let Some(namespace) = rng.choice(&namespaces) else { return };
        let builder = Reflector::builder(of_namespace(&client, namespace)).seed(rng.u64(..));
        let pods = builder.options(impatient).start();
        let mut events = pods.cache().subscribe();
        if rng.bool() {
            // Its failure would only be that it takes longer.
            let _ = time::timeout(SYNC_WITHIN, pods.synced()).await;
            let _ =
                time::timeout(Duration::from_millis(200), async { while events.next().await.is_some() {} })
                    .await;
        }
        if rng.bool() {
            pods.stop().await;
        } else {
            drop(pods);
        }
        lives.one_more();
        pause(&mut rng).await;
    }
}

/// Namespaces in one cache.
async fn members(pods: Arc<NamespacedReflector<Pod>>, namespaces: Vec<String>, mut rng: Rng, lives: Lives) {
    loop {
        let Some(namespace) = rng.choice(&namespaces) else { return };
        if !pods.add(namespace) {
            pods.remove(namespace).await;
            lives.one_more();
        }
        pause(&mut rng).await;
    }
}

/// Subscribers with every policy, some of which go with something unread.
async fn subscribers(cache: Cache<Pod>, mut rng: Rng, lives: Lives) {
    let policies = [
        Policy::default(),
        Policy::Merge(ShortLived::Deliver),
        Policy::Every { bound: 1000, when_full: WhenFull::Merge },
        Policy::Every { bound: 1000, when_full: WhenFull::End },
        Policy::Block { bound: 1000 },
    ];
    for policy in policies.into_iter().cycle() {
        let mut events = cache.subscription().policy(policy).subscribe();
        let _ = time::timeout(Duration::from_millis(rng.u64(10..1000)), async {
            while events.next().await.is_some() {}
        })
        .await;
        // The one that blocks must not stand in the way of the others unread.
        if !matches!(policy, Policy::Block { .. }) {
            pause(&mut rng).await;
        }
        lives.one_more();
    }
}

/// Handlers of the informer.
async fn handlers(informer: Arc<SharedInformer<Pod>>, mut rng: Rng, lives: Lives) {
    loop {
        let Ok(handler) = informer.add_handler(Callbacks::new().on_add(|_, _| {})) else { return };
        if rng.bool() {
            let _ = time::timeout(SYNC_WITHIN, handler.synced()).await;
        }
        pause(&mut rng).await;
        // Nothing but a handler can be refused that.
        let _ = handler.remove_and_wait().await;
        lives.one_more();
    }
}

/// Indexes that are added and removed while the cache changes.
async fn indexes(cache: Cache<Pod>, lives: Lives) {
    loop {
        let index = cache.index_by(IndexBy::<Pod, String>::label("app.kubernetes.io/name"));
        time::sleep(Duration::from_secs(3)).await;
        cache.remove_index(&index);
        lives.one_more();
        time::sleep(Duration::from_secs(3)).await;
    }
}

/// Readers who hold a snapshot for a while, and decode some of it.
async fn readers(cache: Cache<Pod>, mut rng: Rng, lives: Lives) {
    loop {
        let snapshot = cache.snapshot();
        let from = rng.usize(..snapshot.len().max(1));
        for pod in snapshot.iter().skip(from).take(20) {
            // Some are broken on purpose.
            let _ = pod.get();
        }
        time::sleep(Duration::from_secs(5)).await;
        drop(snapshot);
        lives.one_more();
    }
}

/// A subscriber who takes an event now and then, for ever.
async fn laggard(cache: Cache<Pod>) {
    let mut events = cache.subscribe();
    while events.next().await.is_some() {
        time::sleep(Duration::from_millis(50)).await;
    }
}

/// What a subscriber knows who has heard everything.
#[derive(Clone, Default)]
pub(super) struct Mirror(Arc<Mutex<Versions>>);

impl Mirror {
    /// Listens until the copy ends.
    pub(super) async fn listen(self, cache: Cache<Pod>) {
        let mut events = cache.subscribe();
        drop(cache);
        while let Some(event) = events.next().await {
            let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            match event {
                Event::Added { object, .. } | Event::Updated { new: object, .. } => {
                    known.insert(object.key().clone(), object.version().cloned());
                }
                Event::Deleted { last, .. } => {
                    known.remove(last.key());
                }
                _ => {}
            }
        }
    }

    pub(super) fn known(&self) -> Versions {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
