//! The server's process: load and faults that do not end.

use std::{
    cell::Cell,
    net::{Ipv4Addr, SocketAddr},
    pin::pin,
    time::Duration,
};

use reflector_apiserver::{
    ApiServer, RunningCluster, Verb,
    faults::{Effect, Fault, Faults, Interruption, Point, Profile},
    seed::ChurnOptions,
};
use tokio::time::{self, MissedTickBehavior};

use super::sample::Sample;
use crate::{Failure, process::orders};

/// What concerns the whole server comes so often.
const UPHEAVAL_EVERY: Duration = Duration::from_secs(20);
/// The first one comes sooner, so that short runs have one.
const FIRST_UPHEAVAL: Duration = Duration::from_secs(5);
/// How long connections are refused.
const OUTAGE: Duration = Duration::from_millis(1500);

/// Serves pods that change, says where, and answers each line with a sample; after `calm` nothing changes any more, and
/// nothing goes wrong.
pub(super) async fn run(objects: usize, rate: f64, seed: u64) -> Result<(), Failure> {
    let cluster =
        RunningCluster::start(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), objects, seed).await?;
    let server = cluster.server();
    server.with_faults(|faults| {
        faults.set_profile(Profile::Some);
        for fault in faults_for_ever() {
            faults.add(fault);
        }
    });
    println!("{}", server.url());
    let mut orders = orders();
    let writes = Cell::new(0);
    {
        let options = ChurnOptions { steady: true, ..cluster.churn_options(rate) };
        let churn = cluster.churn(options, Duration::MAX, |taken| writes.set(writes.get() + u64::from(taken)));
        let mut load = pin!(async { tokio::join!(churn, upheavals(server)) });
        loop {
            tokio::select! {
                order = orders.recv() => match order.as_deref() {
                    None => return Ok(()),
                    Some("calm") => break,
                    Some(_) => println!("{}", sample(server, writes.get())?),
                },
                _ = &mut load => return Err("the load has ended".into()),
            }
        }
    }
    server.with_faults(Faults::clear);
    println!("{}", sample(server, writes.get())?);
    while orders.recv().await.is_some() {}
    cluster.stop().await;
    Ok(())
}

fn sample(server: &ApiServer, writes: u64) -> Result<Sample, Failure> {
    // It is kept for tests, up to a hundred thousand requests; here it would look like a leak.
    server.clear_requests();
    let mut sample = Sample::of_this_process()?;
    sample.set("exchanges", server.open_exchanges() as f64);
    sample.set("writes", writes as f64);
    sample.set("faults", server.with_faults(|faults| faults.injected().values().sum::<u64>()) as f64);
    Ok(sample)
}

/// Beside what the profile draws: silence, expired versions, and objects that nobody can read.
fn faults_for_ever() -> Vec<Fault> {
    let on = |verb, probability| Fault::on(verb).resource("pods").probability(probability);
    let (list, watch) = (|probability| on(Verb::List, probability), |probability| on(Verb::Watch, probability));
    vec![
        watch(0.1).interrupt(Point::After(Duration::from_secs(3)), Interruption::Hang),
        watch(0.05).interrupt(Point::Events(40), Interruption::Blackhole),
        watch(0.05).hang(),
        watch(0.1).error_event(410, 20),
        watch(0.1).cut_after_events(30),
        watch(0.05).status(429).retry_after(1),
        watch(0.05).status(503),
        watch(0.1).effect(Effect::Undecodable(3)),
        watch(0.1).effect(Effect::WithoutMetadata(5)),
        watch(0.05).effect(Effect::UnknownType(2)),
        watch(0.1).effect(Effect::RegressVersions),
        list(0.1).status(429).retry_after(1),
        list(0.1).status(503),
        list(0.1).reset(),
        list(0.1).effect(Effect::Undecodable(4)),
        list(0.05).effect(Effect::WithoutMetadata(6)),
    ]
}

/// The server goes down for a while, forgets its history, restarts, in turn.
async fn upheavals(server: &ApiServer) {
    let mut ticks = time::interval_at(time::Instant::now() + FIRST_UPHEAVAL, UPHEAVAL_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let outage = server.go_down().await;
        time::sleep(OUTAGE).await;
        drop(outage);
        ticks.tick().await;
        server.with_core(|core| {
            core.compact(core.revision());
            // There are pods in this server.
            let _ = core.forget_history("pods");
        });
        ticks.tick().await;
        server.restart();
    }
}
