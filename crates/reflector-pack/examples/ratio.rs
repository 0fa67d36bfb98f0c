//! How small the items of a list become, by level and size of the dictionary.
//!
//! `cargo run --release -p reflector-pack --example ratio -- FILE` where each line of the file is one byte string, or
//! each frame (four bytes of length, most significant first) of a file whose name ends in `.pbseq`.

#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "an example")]

use std::{env, fs, time::Instant};

use reflector_pack::{Options, Packer};

fn main() {
    let file = env::args().nth(1).expect("the name of a file");
    let text = fs::read(&file).expect("a file");
    let items = if file.ends_with(".pbseq") { frames(&text) } else { lines(&text) };
    let original: usize = items.iter().map(|item| item.len()).sum();
    for level in [1, 3, 5, 7, 9, 12] {
        for kib in [64, 112, 256, 512] {
            let mut options = Options::default();
            (options.level, options.dictionary_bytes) = (level, kib << 10);
            let packer = Packer::new(options);
            let start = Instant::now();
            packer.learn(&items[..items.len().min(options.samples)]);
            let learned = start.elapsed();
            let start = Instant::now();
            let packed: Vec<_> = items.iter().map(|item| packer.pack(item)).collect();
            let packing = start.elapsed() / u32::try_from(items.len()).unwrap();
            let start = Instant::now();
            packed.iter().for_each(|p| assert!(p.unpack().is_ok()));
            let unpacking = start.elapsed() / u32::try_from(items.len()).unwrap();
            let size: usize = packed.iter().map(reflector_pack::Packed::packed_len).sum();
            println!(
                "level {level:2}, {kib:3} KiB: {:6} -> {:5} bytes, learned in {learned:?}, pack {packing:?}, unpack {unpacking:?}, packer {} KiB",
                original / items.len(),
                size / items.len(),
                packer.memory() >> 10
            );
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
