//! The client's process: the copies, and who comes and goes around them.

use std::time::{Duration, Instant};

use kube::Config;
use reflector::kube_client;
use tokio::{task::JoinSet, time};

use super::{
    actors::{self, Lives, Mirror},
    copies::Copies,
    equal::{differences, until_equal, versions},
    sample::Sample,
};
use crate::{Failure, process::orders};

/// So long after the end of the faults everything has to be equal: a verifying read of each copy and some retries.
const EQUAL_WITHIN: Duration = Duration::from_secs(120);
/// So long connections may take to end that nobody needs any more.
const GONE_WITHIN: Duration = Duration::from_secs(15);

/// Answers each line with a sample; after `settle` with what differs, a line for each, then how long it took; after `end`
/// with what is left of everything.
pub(super) async fn run(url: &str, seed: u64) -> Result<(), Failure> {
    let mut orders = orders();
    let base = Sample::of_this_process()?;
    let client = kube_client(Config::new(url.parse()?))?;
    let copies = Copies::start(&client, seed).await?;
    // A replacement may need as much again, and the allocator keeps that. When it happens to all at once is chance, so it
    // is had at the beginning: what becomes resident later is a leak, or fragmentation.
    Copies::start(&client, seed).await?.stop().await?;
    let packed = copies.packed().ok_or("there is no packed copy")?.clone();
    let mirror = Mirror::default();
    let listening = tokio::spawn(mirror.clone().listen(packed.clone()));
    let (mut tasks, lives) = (JoinSet::new(), Lives::default());
    copies.probe(&client, &mut tasks);
    actors::start(&copies, &client, seed, &lives, &mut tasks)?;
    println!("synced");
    while let Some(order) = orders.recv().await {
        match order.as_str() {
            "settle" => {
                stop(&mut tasks).await?;
                let differing = |list: &str| -> Result<Vec<String>, Failure> {
                    let mut found = differences(list, &copies.snapshots())?;
                    if mirror.known() != versions(&packed.snapshot()) {
                        found.push("a subscriber knows another state than its copy has".to_owned());
                    }
                    Ok(found)
                };
                let (took, found) = until_equal(&client, EQUAL_WITHIN, differing).await?;
                for difference in found {
                    println!("{difference}");
                }
                println!("{}", took.as_secs_f64());
            }
            "end" => break,
            _ => {
                // Whoever has ended before it was told to is told of at once.
                if let Some(ended) = tasks.try_join_next() {
                    ended?;
                    return Err("somebody ended early".into());
                }
                let mut sample = Sample::default();
                sample.append("client_", Sample::of_this_process()?);
                copies.sample(&mut sample);
                sample.set("lives", lives.count() as f64);
                println!("{sample}");
            }
        }
    }
    stop(&mut tasks).await?;
    copies.stop().await?;
    drop((client, packed));
    listening.await?;
    drop(mirror);
    println!("{}", left(&base).await?);
    Ok(())
}

/// Ends everybody; a panic of one of them is passed on.
async fn stop(tasks: &mut JoinSet<()>) -> Result<(), Failure> {
    tasks.abort_all();
    while let Some(ended) = tasks.join_next().await {
        if let Err(error) = ended
            && error.is_panic()
        {
            return Err(error.into());
        }
    }
    Ok(())
}

/// What there is more than at the start, once the last task has ended, or after a while.
async fn left(base: &Sample) -> Result<Sample, Failure> {
    let begin = Instant::now();
    loop {
        let now = Sample::of_this_process()?;
        if now.get("tasks") <= base.get("tasks") || begin.elapsed() > GONE_WITHIN {
            let mut left = Sample::default();
            for name in ["tasks", "fds", "heap_mib"] {
                left.set(name, now.get(name) - base.get(name));
            }
            return Ok(left);
        }
        time::sleep(Duration::from_millis(100)).await;
    }
}
