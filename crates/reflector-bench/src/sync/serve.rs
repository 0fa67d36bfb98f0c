//! The server's process.

use reflector_apiserver::{
    ApiServer, Verb,
    core::CoreOptions,
    faults::Fault,
    seed::{Cluster, ClusterOptions},
};
use serde_json::{Value, json};

use crate::{Failure, process::orders};

/// Serves pods, says where, and then does what it is told: `burst N` or `relist`.
pub(super) async fn run(pods: usize) -> Result<(), Failure> {
    let mut options = CoreOptions::default();
    // A burst is written at once; no watch may be cut off for being behind.
    options.history = 1 << 20;
    options.watch_buffer = 1 << 20;
    let cluster = Cluster::new(ClusterOptions { pods, ..ClusterOptions::default() });
    let server = ApiServer::builder().core(options).start().await?;
    server.with_core(|core| core.load("pods", cluster.pods().map(|pod| pod.json)))?;
    println!("{}", server.url());
    let mut orders = orders();
    while let Some(order) = orders.recv().await {
        match order.split_once(' ') {
            Some(("burst", events)) => println!("{}", burst(&server, events.parse()?)?),
            _ => {
                // The next watch is told in its stream that its version is gone, as a server does it. kube-runtime reads
                // everything anew only for that, and not for a status 410.
                server.inject(Fault::on(Verb::Watch).resource("pods").once().error_event(410, 0));
                server.restart();
                println!("done");
            }
        }
    }
    server.stop().await;
    Ok(())
}

/// Changes pods in turn and returns the last version.
fn burst(server: &ApiServer, events: usize) -> Result<u64, Failure> {
    server.with_core(|core| {
        let pods = core.objects("pods")?;
        let mut last = 0;
        for (n, stored) in pods.iter().cycle().take(events).enumerate() {
            let mut pod: Value =
                serde_json::from_slice(&core.object("pods", &stored.namespace, &stored.name)?.body)?;
            pod["metadata"]["annotations"]["example.com/round"] = json!(n.to_string());
            last = core.update("pods", pod)?.revision;
        }
        Ok(last)
    })
}
