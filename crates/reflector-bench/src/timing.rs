//! How long something takes, on a machine that does other things too.

use std::{
    hint::black_box,
    time::{Duration, Instant},
};

/// Each sample lasts about so long.
const SAMPLE: Duration = Duration::from_millis(20);
const SAMPLES: usize = 9;

/// The median time of one call.
pub(crate) fn time<T>(mut call: impl FnMut() -> T) -> Duration {
    let mut calls = 1_u32;
    loop {
        let taken = sample(calls, &mut call);
        if taken >= SAMPLE / 4 || calls >= 1 << 24 {
            let scale = SAMPLE.as_secs_f64() / taken.as_secs_f64().max(1e-9);
            calls = ((f64::from(calls) * scale) as u32).max(1);
            break;
        }
        calls *= 4;
    }
    let mut samples: Vec<_> = (0..SAMPLES).map(|_| sample(calls, &mut call) / calls).collect();
    samples.sort();
    samples[SAMPLES / 2]
}

fn sample<T>(calls: u32, call: &mut impl FnMut() -> T) -> Duration {
    let start = Instant::now();
    for _ in 0..calls {
        black_box(call());
    }
    start.elapsed()
}
