//! A server with a made-up cluster in it that changes.

use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};

use jiff::Timestamp;

use super::{builder::StartError, server::ApiServer};
use crate::{
    core::{Core, CoreOptions, OperatorError, Step},
    seed::{self, Churn, ChurnOptions, ClusterOptions, Object, Write},
};

/// A running server and the recipe of its objects: what demonstrations and long tests run on.
#[derive(Debug)]
pub struct RunningCluster {
    server: ApiServer,
    options: ClusterOptions,
}

/// Why there is no cluster.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClusterError {
    /// The server did not start.
    #[error(transparent)]
    Start(#[from] StartError),
    /// An object was not taken.
    #[error("cannot make up the cluster")]
    MakeUp(#[from] OperatorError),
}

/// Objects that are made in one go: requests are answered in between.
const BATCH: usize = 200;
/// Changes that are made in one go, and the pause after them where more are due: the server has one lock, and requests
/// are to have it too.
const BURST: usize = 25;
const PAUSE: Duration = Duration::from_millis(1);
/// The largest bunch of pods that is deleted at once.
const BUNCH_MAX: usize = 100;

impl RunningCluster {
    /// Starts a server and fills it with this many pods, on nodes and in namespaces.
    ///
    /// # Errors
    ///
    /// When the address is not free.
    pub async fn start(listen: SocketAddr, pods: usize, seed: u64) -> Result<Self, ClusterError> {
        let epoch = Timestamp::now();
        let core = CoreOptions { epoch, ..CoreOptions::default() };
        let server = ApiServer::builder().core(core).seed(seed).address(listen).start().await?;
        let options = ClusterOptions { seed, pods, epoch, ..ClusterOptions::default() };
        let cluster = Self { server, options };
        if pods > 0 {
            cluster.fill().await?;
        }
        Ok(cluster)
    }

    /// The server.
    pub fn server(&self) -> &ApiServer {
        &self.server
    }

    async fn fill(&self) -> Result<(), OperatorError> {
        let made_up = seed::Cluster::new(self.options.clone());
        let objects: [(_, &mut dyn Iterator<Item = Object>); 3] = [
            ("namespaces", &mut made_up.namespaces()),
            ("nodes", &mut made_up.nodes()),
            ("pods", &mut made_up.pods()),
        ];
        for (resource, objects) in objects {
            loop {
                let batch: Vec<String> = objects.take(BATCH).map(|object| object.json).collect();
                if batch.is_empty() {
                    break;
                }
                // Names are drawn, so that in a large cluster a few come twice. The first has it.
                self.server.with_core(|core| core.load(resource, &batch))?;
                // It is much work, and a signal may come.
                tokio::task::yield_now().await;
            }
        }
        Ok(())
    }

    /// Churn of the cluster's seed at this rate, with bunches that are deleted at once.
    pub fn churn_options(&self, rate: f64) -> ChurnOptions {
        ChurnOptions {
            seed: self.options.seed,
            rate,
            mass_delete_every: 1000,
            mass_delete: (self.options.pods / 20).min(BUNCH_MAX),
            ..ChurnOptions::default()
        }
    }

    /// Changes pods for some time; tells of each change whether the server took it.
    pub async fn churn(&self, options: ChurnOptions, duration: Duration, mut told: impl FnMut(bool)) {
        if options.rate <= 0.0 {
            return;
        }
        let mut churn = Churn::new(seed::Cluster::new(self.options.clone()), options);
        let started = Instant::now();
        loop {
            let due: Vec<Write> = std::iter::from_fn(|| churn.poll(started.elapsed())).take(BURST).collect();
            if due.is_empty() {
                let wait = churn.next_at().saturating_sub(started.elapsed());
                let left = duration.saturating_sub(started.elapsed());
                if left.is_zero() {
                    return;
                }
                tokio::time::sleep(wait.min(left)).await;
                continue;
            }
            let now = self.server.now();
            let taken: Vec<bool> =
                self.server.with_core(|core| due.iter().map(|write| apply(core, now, write)).collect());
            taken.into_iter().for_each(&mut told);
            if started.elapsed() >= duration {
                return;
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Ends the server, see [`ApiServer::stop`].
    pub async fn stop(self) {
        self.server.stop().await;
    }
}

/// Creates an object; whether there is one more now.
fn create(core: &mut Core, object: &Object) -> Result<bool, OperatorError> {
    // What the generator makes is valid JSON; if it were not, the core would refuse it.
    let value = serde_json::from_str(&object.json).unwrap_or_default();
    match core.create(object.resource, value) {
        // Names are drawn, so that in a large cluster a few come twice. The first has it.
        Err(OperatorError::Refused { code: 409, .. }) => Ok(false),
        created => created.map(|_| true),
    }
}

/// Makes a change past the faults, as if by another client.
fn apply(core: &mut Core, now: Duration, write: &Write) -> bool {
    if let Write::Create(object) = write {
        // The operator may give a status and a uid; a client may not.
        return create(core, object).unwrap_or(false);
    }
    let id = core.open(now, write.request());
    let mut taken = false;
    loop {
        match core.poll(id, now) {
            Step::Head(head) => taken = head.status().is_success(),
            Step::Data(_) => {}
            // A write does not wait.
            Step::End | Step::Wait { .. } => break,
        }
    }
    core.close(id);
    taken
}
