//! How small the items of a list become, by level, size of the dictionary, and whether they are packed one by one or in batches.
//!
//! `cargo run --release -p reflector-pack --example ratio -- FILE` where each line of the file is one byte string, or
//! each frame (four bytes of length, most significant first) of a file whose name ends in `.pbseq`.

#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "an example")]

use std::{collections::HashMap, env, fs, sync::Arc, time::Instant};

use reflector_pack::{Options, Packed, Packer};

fn main() {
    let file = env::args().nth(1).expect("the name of a file");
    let text = fs::read(&file).expect("a file");
    let items = if file.ends_with(".pbseq") { frames(&text) } else { lines(&text) };
    let original: usize = items.iter().map(|item| item.len()).sum();
    let show = |what: &str, packer: &Packer, started: Instant, packed: &[Packed]| {
        let each = u32::try_from(items.len()).unwrap();
        let packing = started.elapsed() / each;
        let started = Instant::now();
        packed.iter().for_each(|packed| assert!(packed.unpack().is_ok()));
        let unpacking = started.elapsed() / each;
        let size: usize = packed.iter().map(Packed::packed_len).sum();
        let dictionaries: HashMap<_, _> =
            packed.iter().filter_map(Packed::dictionary).map(|d| (Arc::as_ptr(d), d.memory())).collect();
        println!(
            "{what}: {:6} -> {:4} bytes + {:3} of {} dictionaries, pack {packing:?}, unpack {unpacking:?}, packer {} KiB",
            original / items.len(),
            size / items.len(),
            dictionaries.values().sum::<usize>() / items.len(),
            dictionaries.len(),
            packer.memory() >> 10
        );
    };
    for level in [1, 3, 5, 9] {
        for kib in [64, 112] {
            let mut options = Options::default();
            (options.level, options.dictionary_bytes) = (level, kib << 10);
            let packer = Packer::new(options);
            let started = Instant::now();
            packer.learn(&items[..items.len().min(options.samples)]);
            let packed: Vec<_> = items.iter().map(|item| packer.pack(item)).collect();
            show(&format!("level {level}, {kib:3} KiB, one by one    "), &packer, started, &packed);
        }
        for (kib, batch) in [(16, 512), (24, 512), (32, 512), (24, 768), (24, 1024), (32, 1024), (32, 2048)] {
            let mut options = Options::default();
            (options.level, options.batch_dictionary_bytes) = (level, kib << 10);
            let packer = Packer::new(options);
            let started = Instant::now();
            let packed: Vec<_> = items.chunks(batch).flat_map(|batch| packer.pack_batch(batch)).collect();
            show(&format!("level {level}, {kib:3} KiB, batches of {batch:4}"), &packer, started, &packed);
            // Changes come one by one, in their order (a rollout) or from everywhere. The stride visits all, if it is
            // prime to their number.
            for (what, stride) in [("in order", 1), ("from everywhere", 7919)] {
                let changes = (0..items.len()).map(|i| items[i * stride % items.len()]);
                let started = Instant::now();
                let packed: Vec<_> = changes.map(|item| packer.pack(item)).collect();
                let what = format!("    changed {what}, learned {} times", packer.times_learned());
                show(&what, &packer, started, &packed);
            }
        }
    }
}

fn lines(text: &[u8]) -> Vec<&[u8]> {
    text.split(|b| *b == b'\n').filter(|line| !line.is_empty()).collect()
}

fn frames(mut bytes: &[u8]) -> Vec<&[u8]> {
    let mut frames = Vec::new();
    while let Some((length, rest)) = bytes.split_first_chunk() {
        let (frame, rest) = rest.split_at(u32::from_be_bytes(*length) as usize);
        frames.push(frame);
        bytes = rest;
    }
    frames
}
