//! How long it takes until a write is seen in a copy.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api,
    api::{Patch, PatchParams, PostParams},
};
use reflector::{Cache, ResourceVersion};
use serde_json::json;
use tokio::time::{self, MissedTickBehavior};

use crate::Failure;

/// The namespace of the pods that are written to be seen.
pub(super) const NAMESPACE: &str = "soak";

const EVERY: Duration = Duration::from_millis(500);
/// A server that is down is asked again after this.
const RETRY: Duration = Duration::from_millis(50);
/// A write whose answer got lost is repeated after this.
const ANSWER_WITHIN: Duration = Duration::from_secs(2);

/// How long writes took to be seen.
#[derive(Debug, Clone, Default)]
pub(super) struct Lag(Arc<Mutex<Progress>>);

#[derive(Debug, Default)]
struct Progress {
    since: Option<Instant>,
    worst: Duration,
}

impl Lag {
    fn begin(&self) {
        self.progress().since = Some(Instant::now());
    }

    fn end(&self) {
        let mut progress = self.progress();
        if let Some(since) = progress.since.take() {
            progress.worst = progress.worst.max(since.elapsed());
        }
    }

    /// The worst since this was called last; a write that has not been seen yet counts with its age.
    pub(super) fn take(&self) -> Duration {
        let mut progress = self.progress();
        let waiting = progress.since.map_or(Duration::ZERO, |since| since.elapsed());
        std::mem::take(&mut progress.worst).max(waiting)
    }

    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Writes to a pod of its own over HTTP again and again, and waits each time until the copy has it. The time counts from
/// when the write is first tried.
pub(super) async fn run(pods: Api<Pod>, name: &'static str, cache: Cache<Pod>, lag: Lag) {
    let mut ticks = time::interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    for round in 0_u64.. {
        ticks.tick().await;
        lag.begin();
        let version = loop {
            match time::timeout(ANSWER_WITHIN, write(&pods, name, round)).await {
                Ok(Ok(version)) => break version,
                // The server may be down; that is part of the lag.
                Ok(Err(_)) | Err(_) => time::sleep(RETRY).await,
            }
        };
        if cache.wait_for(&version).await.is_err() {
            return;
        }
        lag.end();
    }
}

async fn write(pods: &Api<Pod>, name: &str, round: u64) -> Result<ResourceVersion, Failure> {
    let metadata = json!({"name": name, "annotations": {"example.com/round": round.to_string()}});
    let patch = Patch::Merge(json!({"metadata": metadata}));
    let pod = match pods.patch(name, &PatchParams::default(), &patch).await {
        Err(kube::Error::Api(status)) if status.code == 404 => {
            // Protobuf has resources always, so the server's JSON has to have them too where both are compared.
            let spec =
                json!({"containers": [{"name": "main", "image": "registry.example/probe", "resources": {}}]});
            let pod = serde_json::from_value(json!({"metadata": metadata, "spec": spec}))?;
            pods.create(&PostParams::default(), &pod).await?
        }
        answered => answered?,
    };
    let version = pod.metadata.resource_version.as_deref().and_then(ResourceVersion::new);
    Ok(version.ok_or("a pod without a version")?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_waited_for_counts_with_its_age_and_the_worst_is_told_once() {
        let lag = Lag::default();
        assert_eq!(lag.take(), Duration::ZERO);
        lag.begin();
        let waiting = lag.take();
        assert!(lag.take() > waiting);
        lag.end();
        assert!(lag.take() > waiting);
        assert_eq!(lag.take(), Duration::ZERO);
    }
}
