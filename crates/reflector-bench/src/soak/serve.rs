//! The server's process: load and faults that do not end.

use std::{
    cell::Cell,
    net::{Ipv4Addr, SocketAddr},
    pin::pin,
    time::Duration,
};

use reflector_apiserver::{
    ApiServer, RunningCluster,
    faults::{Faults, Profile},
    seed::ChurnOptions,
};
use tokio::time;

use super::{
    sample::Sample,
    schedule::{self, Upheaval, Upheavals},
};
use crate::{Failure, process::orders};

/// What has been counted since the start.
#[derive(Default)]
struct Counts {
    writes: Cell<u64>,
    requests: Cell<u64>,
}

/// Serves pods that change, says where, and answers each line with a sample; after `calm` nothing changes any more, and
/// nothing goes wrong.
pub(super) async fn run(objects: usize, rate: f64, seed: u64) -> Result<(), Failure> {
    let cluster = RunningCluster::start(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), objects, seed).await?;
    let server = cluster.server();
    server.with_faults(|faults| {
        faults.set_profile(Profile::Some);
        for fault in schedule::faults() {
            faults.add(fault);
        }
    });
    println!("{}", server.url());
    let mut orders = orders();
    let counts = Counts::default();
    {
        let options = ChurnOptions { steady: true, ..cluster.churn_options(rate) };
        let count = |taken| counts.writes.set(counts.writes.get() + u64::from(taken));
        let churn = cluster.churn(options, Duration::MAX, count);
        let mut load = pin!(async { tokio::join!(churn, upheavals(server, seed)) });
        loop {
            tokio::select! {
                order = orders.recv() => match order.as_deref() {
                    None => return Ok(()),
                    Some("calm") => break,
                    Some(_) => println!("{}", sample(server, &counts)?),
                },
                _ = &mut load => return Err("the load has ended".into()),
            }
        }
    }
    server.with_faults(Faults::clear);
    println!("{}", sample(server, &counts)?);
    while orders.recv().await.is_some() {}
    cluster.stop().await;
    Ok(())
}

fn sample(server: &ApiServer, counts: &Counts) -> Result<Sample, Failure> {
    // They are kept for tests, up to a hundred thousand; here that would look like a leak.
    counts.requests.set(counts.requests.get() + server.requests().len() as u64);
    server.clear_requests();
    let mut sample = Sample::of_this_process()?;
    sample.set("exchanges", server.open_exchanges() as f64);
    sample.set("writes", counts.writes.get() as f64);
    sample.set("requests", counts.requests.get() as f64);
    sample.set("faults", server.with_faults(|faults| faults.injected().values().sum::<u64>()) as f64);
    Ok(sample)
}

async fn upheavals(server: &ApiServer, seed: u64) {
    for (pause, upheaval) in Upheavals::new(seed) {
        time::sleep(pause).await;
        match upheaval {
            Upheaval::Outage(length) => {
                let outage = server.go_down().await;
                time::sleep(length).await;
                drop(outage);
            }
            Upheaval::ForgetHistory => server.with_core(|core| {
                core.compact(core.revision());
                // There are pods in this server.
                let _ = core.forget_history("pods");
            }),
            Upheaval::Restart => server.restart(),
        }
    }
}
