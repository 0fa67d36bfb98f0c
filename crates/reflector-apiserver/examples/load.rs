//! What a large cluster costs: making it up, loading it, holding it, listing it; without HTTP.
//!
//! `cargo run --release -p reflector-apiserver --example load -- [PODS]`
#![allow(clippy::print_stdout, reason = "a program for a terminal")]

use std::{
    error::Error,
    fs,
    time::{Duration, Instant},
};

use bytes::Bytes;
use reflector_apiserver::{
    core::{Core, CoreOptions, Step},
    seed::{Cluster, ClusterOptions},
};

fn main() -> Result<(), Box<dyn Error>> {
    let pods = std::env::args().nth(1).map_or(Ok(20_000), |text| text.parse())?;
    let cluster = Cluster::new(ClusterOptions { pods, ..ClusterOptions::default() });
    let begin = Instant::now();
    let (mut bytes, mut managed) = (0, 0);
    for pod in cluster.pods() {
        bytes += pod.json.len();
        let from = pod.json.find(r#""managedFields":["#).unwrap_or_default();
        managed += pod.json.find(r#"},"spec":"#).unwrap_or_default() - from;
    }
    println!(
        "made up {pods} pods, {} bytes on average, {:.1} % of it managedFields, {:.1} us per pod",
        bytes / pods.max(1),
        managed as f64 * 100.0 / bytes as f64,
        each(begin.elapsed(), pods)
    );
    let before = resident();
    let begin = Instant::now();
    let mut core = Core::new(CoreOptions::default());
    let loaded = core.load("pods", cluster.pods().map(|pod| pod.json))?;
    let time = each(begin.elapsed(), pods);
    println!("loaded {loaded} of them, {time:.1} us per pod with making up, {} MiB", resident() - before);
    list(&mut core, "", "application/json");
    list(&mut core, "limit=500", "application/json");
    // The first one in protobuf encodes the objects, the second one only unpacks them.
    for _ in 0..2 {
        list(&mut core, "", "application/vnd.kubernetes.protobuf");
    }
    println!("{} MiB", resident() - before);
    Ok(())
}

/// Reads all pages of a list.
fn list(core: &mut Core, query: &str, accept: &str) {
    let begin = Instant::now();
    let (mut pages, mut bytes, mut next) = (0, 0, String::new());
    let mut slowest = Duration::ZERO;
    loop {
        let page = Instant::now();
        let uri = format!("/api/v1/pods?{query}&continue={next}");
        let request = http::Request::get(uri).header("accept", accept).body(Bytes::new()).unwrap_or_default();
        let id = core.open(Duration::ZERO, request);
        let mut start = None;
        loop {
            match core.poll(id, Duration::ZERO) {
                Step::Data(data) => {
                    bytes += data.len();
                    start.get_or_insert(data);
                }
                Step::Head(_) => {}
                Step::Wait { .. } | Step::End => break,
            }
        }
        pages += 1;
        slowest = slowest.max(page.elapsed());
        let start = start.map(|data| String::from_utf8_lossy(&data).into_owned()).unwrap_or_default();
        let token = start.split_once(r#""continue":""#).and_then(|(_, rest)| rest.split_once('"'));
        match token {
            Some((token, _)) => next = token.to_owned(),
            None => break,
        }
    }
    println!(
        "list ?{query} as {accept}: {pages} pages, {bytes} bytes, {:?}, slowest page {slowest:?}",
        begin.elapsed()
    );
}

fn each(time: Duration, count: usize) -> f64 {
    time.as_secs_f64() * 1e6 / count.max(1) as f64
}

/// The memory of this process, in MiB; 0 where `/proc` does not tell.
fn resident() -> usize {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<usize>().ok());
    kib.unwrap_or_default() / 1024
}
