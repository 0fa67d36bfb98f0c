//! gzip.

use std::io::Write;

use flate2::{Compression, write::GzEncoder};
use reflector::wire::{Inflate, Limits, WatchCutter, WireError};
use serde::de::IgnoredAny;

use crate::common::{EVENTS, every_cut};

fn gzip(plain: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(plain).unwrap();
    encoder.finish().unwrap()
}

/// What chunks unfold to, and the end.
fn inflate(chunks: &[&[u8]]) -> (Vec<u8>, Result<(), WireError>) {
    let mut inflate = Inflate::new();
    let mut plain = Vec::new();
    for chunk in chunks {
        let pushed = inflate.push(chunk, |slice| {
            plain.extend_from_slice(slice);
            Ok::<(), WireError>(())
        });
        if let Err(error) = pushed {
            return (plain, Err(error));
        }
    }
    (plain, inflate.finish())
}

#[test]
fn c25_many_members_and_each_event_as_it_comes() {
    let mut inflate = Inflate::new();
    let mut cutter = WatchCutter::<IgnoredAny>::new(None, Limits::default());
    let mut events = Vec::new();
    for (n, line) in EVENTS.lines().enumerate() {
        // The event is there when its member is, before the next member begins.
        inflate.push(&gzip(line.as_bytes()), |slice| cutter.push(slice, &mut events)).unwrap();
        assert_eq!(events.len(), n + 1);
    }
    inflate.finish().unwrap();
    cutter.finish().unwrap();
}

#[test]
fn c25_a_flush_within_a_member_is_enough() {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    let mut inflate = Inflate::new();
    let mut plain = Vec::new();
    for line in EVENTS.lines() {
        encoder.write_all(line.as_bytes()).unwrap();
        encoder.flush().unwrap();
        let chunk = std::mem::take(encoder.get_mut());
        inflate
            .push(&chunk, |slice| {
                plain.extend_from_slice(slice);
                Ok::<(), WireError>(())
            })
            .unwrap();
        assert!(plain.ends_with(line.as_bytes()));
    }
}

#[test]
fn c25_cuts_mean_nothing() {
    let body: Vec<u8> = EVENTS.lines().flat_map(|line| gzip(line.as_bytes())).collect();
    let plain: String = EVENTS.lines().collect();
    every_cut(&body, |chunks| {
        let (got, end) = inflate(chunks);
        assert_eq!((String::from_utf8(got).unwrap(), end), (plain.clone(), Ok(())));
    });
}

#[test]
fn truncation_at_every_byte_is_noticed() {
    let first = gzip(b"one");
    let body = [&first[..], &gzip(b"two")].concat();
    for end in 0..body.len() {
        let (_, result) = inflate(&[&body[..end]]);
        if end == 0 || end == first.len() {
            assert_eq!(result, Ok(()), "complete at {end}");
        } else {
            let member_end = if end < first.len() { first.len() } else { body.len() };
            let in_checksum = end >= member_end - 8;
            let offset = match &result {
                Err(WireError::Truncated { offset, .. }) if !in_checksum => *offset,
                Err(WireError::Gzip { offset, .. }) if in_checksum => *offset,
                other => panic!("{end}: {other:?}"),
            };
            assert_eq!(offset, end as u64);
        }
    }
}

#[test]
fn damage_is_an_error_with_its_place() {
    let good = gzip(EVENTS.as_bytes());
    assert!(matches!(inflate(&[b"plain text, not gzip at all"]).1, Err(WireError::Gzip { offset: 0, .. })));
    let garbage_behind = [&good[..], b"garbage that is no member"].concat();
    assert!(
        matches!(inflate(&[&garbage_behind]).1, Err(WireError::Gzip { offset, .. }) if offset == good.len() as u64)
    );
    // One byte flipped anywhere: an error or, in a header's free fields, no harm. Never wrong text, never a panic.
    for at in 0..good.len() {
        let mut bad = good.clone();
        bad[at] ^= 0x55;
        let (plain, end) = inflate(&[&bad]);
        assert!(end.is_err() || plain == EVENTS.as_bytes(), "{at}");
    }
}

#[test]
fn a_gzip_bomb_comes_in_bounded_slices_and_can_be_stopped() {
    let bomb = gzip(&vec![b' '; 64 << 20]);
    assert!(bomb.len() < 1 << 20);
    let (mut largest, mut total) = (0, 0);
    let mut inflater = Inflate::new();
    let stopped = inflater.push(&bomb, |slice| {
        largest = largest.max(slice.len());
        total += slice.len();
        if total > 8 << 20 {
            return Err(WireError::TooLarge { offset: 0, what: "enough", name: "test", limit: 8 << 20 });
        }
        Ok(())
    });
    assert!(matches!(stopped, Err(WireError::TooLarge { .. })));
    assert!(largest <= 128 << 10, "{largest}");
    assert!(total < 9 << 20, "{total}");
    assert!(inflater.push(b"more", |_| Ok::<(), WireError>(())).is_err());
}
