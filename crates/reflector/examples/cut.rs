//! How fast are lists cut? `cargo run --release -p reflector --example cut -- LIST.json [ROUNDS]`
//!
//! Prints the best of several rounds for the cutter (objects with their headers, each in its own allocation) and, for
//! scale, for serde_json skipping the same document.
#![allow(clippy::print_stdout)]

use std::{error::Error, io::Write, time::Instant};

use flate2::{Compression, write::GzEncoder};
use reflector::wire::{Inflate, Limits, ListCutter};
use serde::de::IgnoredAny;

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let path = args.next().ok_or("usage: cut LIST.json [ROUNDS]")?;
    let rounds: usize = args.next().map_or(Ok(50), |rounds| rounds.parse())?;
    let body = std::fs::read(&path)?;
    for chunk in [8 << 10, 64 << 10, 1 << 20] {
        let mut count = 0;
        let best = best(rounds, || {
            let mut cutter = ListCutter::<IgnoredAny>::new(None, Limits::default());
            let mut items = Vec::new();
            count = 0;
            for chunk in body.chunks(chunk) {
                cutter.push(chunk, &mut items)?;
                count += items.len();
                items.clear();
            }
            cutter.finish()?;
            Ok(())
        })?;
        report(&format!("cut in chunks of {} KiB, {count} items", chunk >> 10), body.len(), best);
    }
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(&body)?;
    let packed = encoder.finish()?;
    let inflated = best(rounds, || {
        let (mut inflate, mut cutter) =
            (Inflate::new(), ListCutter::<IgnoredAny>::new(None, Limits::default()));
        let mut items = Vec::new();
        inflate.push(&packed, |plain| {
            items.clear();
            cutter.push(plain, &mut items)
        })?;
        inflate.finish()?;
        cutter.finish()?;
        Ok(())
    })?;
    report("gunzip and cut", body.len(), inflated);
    let skipped = best(rounds, || {
        serde_json::from_slice::<IgnoredAny>(&body)?;
        Ok(())
    })?;
    report("serde_json, IgnoredAny", body.len(), skipped);
    let values = best(rounds.min(10), || {
        serde_json::from_slice::<serde_json::Value>(&body)?;
        Ok(())
    })?;
    report("serde_json, Value", body.len(), values);
    Ok(())
}

/// The shortest time of so many rounds, in seconds.
fn best(rounds: usize, mut round: impl FnMut() -> Result<(), Box<dyn Error>>) -> Result<f64, Box<dyn Error>> {
    let mut best = f64::INFINITY;
    for _ in 0..rounds {
        let start = Instant::now();
        round()?;
        best = best.min(start.elapsed().as_secs_f64());
    }
    Ok(best)
}

fn report(what: &str, bytes: usize, seconds: f64) {
    println!("{what}: {:.0} MB/s", bytes as f64 / seconds / 1e6);
}
