//! A test server to play with: `kubectl --kubeconfig FILE get pods -A`.
//!
//! `cargo run -p reflector-apiserver --example serve -- [--kubeconfig FILE] [--port N] [--pods N] [--churn WRITES_PER_SECOND]
//! [--profile none|some|storm] [--fault TEXT]... [--seed N]`; it runs until it is interrupted.
#![allow(clippy::print_stdout, reason = "a program for a terminal")]

use std::{error::Error, net::SocketAddr};

use reflector_apiserver::{
    ApiServer,
    core::CoreOptions,
    faults::{Fault, Profile},
    seed::{Churn, ChurnOptions, Cluster, ClusterOptions, Write},
};
use tokio::time;

#[derive(Debug, Default)]
struct Arguments {
    kubeconfig: Option<String>,
    port: u16,
    pods: usize,
    churn: f64,
    profile: Profile,
    faults: Vec<Fault>,
    seed: u64,
}

fn arguments() -> Result<Arguments, Box<dyn Error>> {
    let mut parsed = Arguments::default();
    let mut arguments = std::env::args().skip(1);
    while let Some(name) = arguments.next() {
        let value = arguments.next().ok_or_else(|| format!("{name} needs a value"))?;
        match name.as_str() {
            "--kubeconfig" => parsed.kubeconfig = Some(value),
            "--port" => parsed.port = value.parse()?,
            "--pods" => parsed.pods = value.parse()?,
            "--churn" => parsed.churn = value.parse()?,
            "--profile" => parsed.profile = value.parse()?,
            "--fault" => parsed.faults.push(value.parse()?),
            "--seed" => parsed.seed = value.parse()?,
            _ => return Err(format!("unknown argument {name}").into()),
        }
    }
    Ok(parsed)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments = arguments()?;
    let mut options = CoreOptions::default();
    options.epoch = jiff::Timestamp::now();
    let cluster = Cluster::new(ClusterOptions {
        seed: arguments.seed,
        pods: arguments.pods,
        epoch: options.epoch,
        ..ClusterOptions::default()
    });
    let mut builder = ApiServer::builder()
        .core(options)
        .seed(arguments.seed)
        .address(SocketAddr::from(([127, 0, 0, 1], arguments.port)))
        .profile(arguments.profile);
    for fault in arguments.faults {
        builder = builder.fault(fault);
    }
    let server = builder.start().await?;
    let begin = time::Instant::now();
    server.with_core(|core| {
        core.load("namespaces", cluster.namespaces().map(|object| object.json))?;
        core.load("nodes", cluster.nodes().map(|object| object.json))?;
        core.load("pods", cluster.pods().map(|object| object.json))
    })?;
    println!("{} with {} pods, made in {:?}", server.url(), arguments.pods, begin.elapsed());
    if let Some(path) = arguments.kubeconfig {
        server.write_kubeconfig(&path)?;
        println!("kubectl --kubeconfig {path} get pods -A");
    }
    let churn = Churn::new(cluster, ChurnOptions { rate: arguments.churn, ..ChurnOptions::default() });
    tokio::select! {
        () = write(&server, churn) => {}
        _ = tokio::signal::ctrl_c() => {}
    }
    println!("injected: {:?}", server.with_faults(|faults| faults.injected().clone()));
    server.stop().await;
    Ok(())
}

async fn write(server: &ApiServer, mut churn: Churn) {
    let begin = time::Instant::now();
    loop {
        let Some(next) = begin.checked_add(churn.next_at()) else { return std::future::pending().await };
        time::sleep_until(next).await;
        while let Some(write) = churn.poll(begin.elapsed()) {
            apply(server, &write);
        }
    }
}

fn apply(server: &ApiServer, write: &Write) {
    server.apply(write.request());
}
