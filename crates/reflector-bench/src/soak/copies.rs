//! The copies of a soak: in every form, for as long as it lasts.

use std::{sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::Pod;
use kube::{Api, Client};
use reflector::{
    BodyForm, Builder, Cache, Format, IndexBy, KubeListWatch, NamespacedReflector, Reflector, SharedInformer,
    health::Monitor,
    protocol::{BackoffOptions, Options},
    source::ListWatch,
};
use tokio::task::JoinSet;

use super::{
    equal::Copy,
    probe::{self, Lag},
    sample::Sample,
};
use crate::Failure;

/// Everything that stays.
pub(super) struct Copies {
    reflectors: Vec<Reflector<Pod>>,
    pub(super) informer: Arc<SharedInformer<Pod>>,
    pub(super) namespaced: Arc<NamespacedReflector<Pod>>,
    /// The copies of all pods, those of the reflectors and of the informer.
    all: Vec<Whole>,
}

/// A copy of all pods.
struct Whole {
    name: &'static str,
    cache: Cache<Pod>,
    monitor: Monitor,
    lag: Lag,
}

/// Faults are to be found, and damage repaired, within seconds; the defaults are made for clusters.
pub(super) fn impatient(options: &mut Options) {
    options.backoff = BackoffOptions {
        first: Duration::from_millis(100),
        cap: Duration::from_secs(2),
        reset_after: Duration::from_secs(5),
    };
    options.watch_timeout = (Duration::from_secs(30), Duration::from_secs(60));
    options.idle_limit = Duration::from_secs(5);
    options.initial_deadline = Duration::from_secs(3);
    options.streaming_probe_after = Duration::from_secs(30);
    options.slow_retry = Duration::from_secs(1);
    // An object that came without metadata is passed over, and a deletion of that kind is lost: only a verifying read
    // sets that right, as docs/architecture.md says.
    options.relist_every = Some(Duration::from_secs(30));
}

/// The reflectors of one namespace that come and go.
pub(super) fn of_namespace(client: &Client, namespace: &str) -> KubeListWatch<Pod> {
    KubeListWatch::namespaced(client.clone(), namespace)
}

impl Copies {
    /// Starts all, and waits until they have synced.
    pub(super) async fn start(client: &Client, seed: u64) -> Result<Self, Failure> {
        let builder = |name: &str, format, form| {
            let source = KubeListWatch::<Pod>::all(client.clone()).format(format);
            let builder = Reflector::builder(source).name(name).seed(seed).options(impatient);
            builder.body(form)
        };
        let wire = builder("wire", Format::Protobuf, BodyForm::wire()).start();
        let decoded = builder("decoded", Format::Json, BodyForm::decoded()).start();
        let packed = with_index(builder("packed", Format::Protobuf, BodyForm::packed())).start();
        let informer = builder("informer", Format::Protobuf, BodyForm::packed());
        let informer = Arc::new(SharedInformer::new(informer));
        informer.start()?;
        let reflectors = vec![wire, packed, decoded];
        let mut all: Vec<_> = ["wire", "packed", "decoded"]
            .into_iter()
            .zip(&reflectors)
            .map(|(name, reflector)| Whole {
                name,
                cache: reflector.cache().clone(),
                monitor: reflector.monitor(),
                lag: Lag::default(),
            })
            .collect();
        all.push(Whole {
            name: "informer",
            cache: informer.cache().clone(),
            monitor: informer.monitor().ok_or("it has been started")?,
            lag: Lag::default(),
        });
        for reflector in &reflectors {
            reflector.synced().await?;
        }
        informer.synced().await?;
        let source = client.clone();
        let namespaced =
            NamespacedReflector::<Pod>::builder(move |namespace: &str| of_namespace(&source, namespace))
                .configure(|_, builder| builder.options(impatient))
                .start([probe::NAMESPACE]);
        Ok(Self { reflectors, informer, namespaced: Arc::new(namespaced), all })
    }

    /// The copy that subscribers, indexes and readers are let loose on.
    pub(super) fn packed(&self) -> Option<&Cache<Pod>> {
        self.all.iter().find(|copy| copy.name == "packed").map(|copy| &copy.cache)
    }

    /// Measures the lag of each copy of all pods, until they are aborted.
    pub(super) fn probe(&self, client: &Client, tasks: &mut JoinSet<()>) {
        for copy in &self.all {
            let pods = Api::namespaced(client.clone(), probe::NAMESPACE);
            tasks.spawn(probe::run(pods, copy.name, copy.cache.clone(), copy.lag.clone()));
        }
    }

    pub(super) fn sample(&self, sample: &mut Sample) {
        let millis = |time: Duration| (time.as_secs_f64() * 1e4).round() / 10.0;
        let (mut events, mut relists, mut errors, mut invalid) = (0, 0, 0, 0);
        for Whole { name, cache, monitor, lag } in &self.all {
            sample.set(format!("lag_ms_{name}"), millis(lag.take()));
            sample.set(format!("stale_ms_{name}"), millis(monitor.staleness().unwrap_or_default()));
            sample.set(format!("objects_{name}"), cache.len() as f64);
            let counts = monitor.status().counts;
            events += counts.events;
            relists += counts.relists;
            errors += counts.errors;
            invalid += counts.invalid;
        }
        let sums = [("events", events), ("relists", relists), ("errors", errors), ("invalid", invalid)];
        for (name, sum) in sums {
            sample.set(name, sum as f64);
        }
    }

    /// The present of all, to be compared.
    pub(super) fn snapshots(&self) -> Vec<Copy> {
        let whole = self.all.iter().map(|Whole { name, cache, .. }| Copy {
            name,
            snapshot: cache.snapshot(),
            typed: *name == "decoded",
            namespaces: None,
        });
        let some = Copy {
            name: "namespaced",
            snapshot: self.namespaced.cache().snapshot(),
            typed: false,
            namespaces: Some(self.namespaced.namespaces()),
        };
        whole.chain([some]).collect()
    }

    /// Stops all, and waits until nothing of them runs.
    pub(super) async fn stop(self) -> Result<(), Failure> {
        for reflector in self.reflectors {
            reflector.stop().await;
        }
        self.informer.stop().await?;
        let namespaced = Arc::into_inner(self.namespaced).ok_or("somebody still uses the namespaces")?;
        namespaced.stop().await;
        Ok(())
    }
}

/// With an index that stays.
fn with_index<L: ListWatch<Pod>>(mut builder: Builder<Pod, L>) -> Builder<Pod, L> {
    builder.index_by(IndexBy::field("spec.nodeName"));
    builder
}
