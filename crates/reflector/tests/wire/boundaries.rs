//! Every recorded list and watch, cut at every byte: nothing is lost, nothing comes twice, and a body that ends too early
//! says so.
//!
//! A body is fed in chunks of one byte. At every offset three things are asked of it: what has come out is exactly what
//! ended before, counted by a parser that has the whole body; if it ended there it would say so; and if the rest came in one
//! chunk, what comes next would be what comes next in the whole. In bodies above [`LARGE`] that is asked at the ends of
//! pieces, within [`AROUND`] bytes of them, and at every [`STRIDE`]th byte.

use std::{collections::HashSet, fs, io::Read, path::Path};

use reflector::wire::{Inflate, Limits, ListCutter, ListItem, ListMeta, WatchCutter, WatchEvent, WireError};
use reflector_protobuf::{
    Envelope,
    wire::{Fields, Value as Field},
};
use serde::{Deserialize, de::IgnoredAny};
use serde_json::{Value, value::RawValue};

use crate::common::{Shown, shared, shown_event, shown_item};

const LARGE: usize = 64 << 10;
const AROUND: usize = 4;
const STRIDE: usize = 499;

/// A list or a stream.
trait Cutter: Clone {
    type Piece;
    type End: PartialEq + std::fmt::Debug;

    fn push(&mut self, chunk: &[u8], pieces: &mut Vec<Self::Piece>) -> Result<(), WireError>;
    fn finish(self) -> Result<Self::End, WireError>;
    fn shown(piece: &Self::Piece) -> Shown;
}

impl Cutter for ListCutter<IgnoredAny> {
    type Piece = ListItem<IgnoredAny>;
    type End = ListMeta;

    fn push(&mut self, chunk: &[u8], pieces: &mut Vec<Self::Piece>) -> Result<(), WireError> {
        self.push(chunk, pieces)
    }

    fn finish(self) -> Result<ListMeta, WireError> {
        self.finish()
    }

    fn shown(piece: &Self::Piece) -> Shown {
        shown_item(piece)
    }
}

impl Cutter for WatchCutter<IgnoredAny> {
    type Piece = WatchEvent<IgnoredAny>;
    type End = ();

    fn push(&mut self, chunk: &[u8], pieces: &mut Vec<Self::Piece>) -> Result<(), WireError> {
        self.push(chunk, pieces)
    }

    fn finish(self) -> Result<(), WireError> {
        self.finish()
    }

    fn shown(piece: &Self::Piece) -> Shown {
        shown_event(piece)
    }
}

/// A body, and where in it things end.
struct Body<'a> {
    name: &'a str,
    bytes: &'a [u8],
    /// Where its pieces end, in order.
    ends: Vec<usize>,
    /// Where it may end.
    complete: Vec<bool>,
}

impl Body<'_> {
    fn is_asked(&self, at: usize) -> bool {
        let next = self.ends.partition_point(|end| *end < at);
        let near = |end: Option<&usize>| end.is_some_and(|end| end.abs_diff(at) <= AROUND);
        self.bytes.len() <= LARGE
            || at.is_multiple_of(STRIDE)
            || near(self.ends.get(next))
            || near(next.checked_sub(1).and_then(|before| self.ends.get(before)))
    }

    /// Asks at every offset. Returns at how many.
    fn check<C: Cutter>(&self, cutter: &C) -> usize {
        let Self { name, bytes, ends, complete } = self;
        let (mut whole, mut all) = (cutter.clone(), Vec::new());
        whole.push(bytes, &mut all).unwrap_or_else(|error| panic!("{name}: {error}"));
        let end = whole.finish();
        let whole: Vec<Shown> = all.iter().map(C::shown).collect();
        assert_eq!(whole.len(), ends.len(), "{name}: pieces");
        let (mut cutter, mut came) = (cutter.clone(), Vec::new());
        let (mut count, mut asked) = (0, 0);
        for at in 0..=bytes.len() {
            if let Some(byte) = at.checked_sub(1).map(|before| &bytes[before..at]) {
                cutter.push(byte, &mut came).unwrap();
            }
            for piece in came.drain(..) {
                assert_eq!(Some(&C::shown(&piece)), whole.get(count), "{name}: piece {count} at byte {at}");
                count += 1;
            }
            assert_eq!(count, ends.partition_point(|end| *end <= at), "{name}: pieces until byte {at}");
            if !self.is_asked(at) {
                continue;
            }
            asked += 1;
            match cutter.clone().finish() {
                Ok(early) => {
                    assert!(complete[at], "{name}: taken for complete at byte {at}");
                    // Some recordings end in the middle of an event.
                    assert!(end.is_err() || end.as_ref() == Ok(&early), "{name}: at byte {at}");
                }
                Err(WireError::Truncated { offset, pending, .. }) => {
                    assert!(!complete[at], "{name}: complete at byte {at}");
                    assert_eq!(offset, at as u64, "{name}");
                    assert!((1..=at as u64).contains(&pending) || at == 0, "{name}: {pending} at byte {at}");
                }
                Err(other) => panic!("{name}: at byte {at}: {other}"),
            }
            let mut rest = cutter.clone();
            let until = ends.get(count).copied().unwrap_or(bytes.len());
            rest.push(&bytes[at..until], &mut came).unwrap();
            let next: Vec<Shown> = came.drain(..).map(|piece| C::shown(&piece)).collect();
            assert_eq!(next, whole[count..(count + 1).min(whole.len())], "{name}: cut at byte {at}");
            if until == bytes.len() {
                assert_eq!(rest.finish(), end, "{name}: cut at byte {at}");
            }
        }
        asked
    }
}

#[derive(Deserialize)]
struct RawList<'a> {
    #[serde(borrow)]
    items: Option<Vec<&'a RawValue>>,
}

#[derive(Deserialize)]
struct RawEvent<'a> {
    #[serde(borrow, rename = "type")]
    _type: &'a RawValue,
}

/// Where a part of a body ends in it.
fn end_of(body: &[u8], part: &str) -> usize {
    part.as_ptr().addr() - body.as_ptr().addr() + part.len()
}

/// A list in JSON; `None` if it is something else.
fn json_list<'a>(name: &'a str, bytes: &'a [u8]) -> Option<Body<'a>> {
    let raw: RawList<'_> = serde_json::from_slice(bytes).ok()?;
    serde_json::from_slice::<Value>(bytes).ok()?.get("items")?;
    let ends = raw.items.unwrap_or_default().iter().map(|item| end_of(bytes, item.get())).collect();
    let end = bytes.trim_ascii_end().len();
    Some(Body { name, bytes, ends, complete: (0..=bytes.len()).map(|at| at >= end).collect() })
}

/// A stream in JSON; `None` if it is something else.
fn json_watch<'a>(name: &'a str, bytes: &'a [u8]) -> Option<Body<'a>> {
    let mut values = serde_json::Deserializer::from_slice(bytes).into_iter::<RawEvent<'_>>();
    let mut ends = Vec::new();
    while let Some(Ok(_)) = values.next() {
        ends.push(values.byte_offset());
    }
    let mut complete = vec![false; bytes.len() + 1];
    for from in [0].iter().chain(&ends) {
        let blank = bytes[*from..].iter().take_while(|byte| byte.is_ascii_whitespace()).count();
        complete[*from..=*from + blank].fill(true);
    }
    (!ends.is_empty()).then_some(Body { name, bytes, ends, complete })
}

/// A list in protobuf; `None` if it is something else.
fn protobuf_list<'a>(name: &'a str, bytes: &'a [u8]) -> Option<Body<'a>> {
    let envelope = Envelope::parse(bytes).ok().filter(|envelope| envelope.kind.ends_with("List"))?;
    let start = envelope.raw.as_ptr().addr() - bytes.as_ptr().addr();
    let items = Fields::new(envelope.raw).map(Result::unwrap).filter(|field| field.number == 2);
    let ends = items.map(|field| start + field.range.end).collect();
    // Behind the list in its envelope are two empty texts, of two bytes each.
    let end = start + envelope.raw.len();
    let complete = (0..=bytes.len()).map(|at| at >= end && (at - end).is_multiple_of(2)).collect();
    Some(Body { name, bytes, ends, complete })
}

/// A stream in protobuf.
fn protobuf_watch<'a>(name: &'a str, bytes: &'a [u8]) -> Body<'a> {
    let (mut ends, mut at) = (Vec::new(), 0);
    while let Some((length, rest)) = bytes[at..].split_first_chunk::<4>() {
        let length = u32::from_be_bytes(*length) as usize;
        if rest.len() < length {
            break;
        }
        assert!(matches!(Fields::new(&rest[..length]).next().unwrap().unwrap().value, Field::Bytes(_)));
        at += 4 + length;
        ends.push(at);
    }
    let complete = (0..=bytes.len()).map(|at| at == 0 || ends.contains(&at)).collect();
    Body { name, bytes, ends, complete }
}

/// Asks of one body what its name says it is. Returns at how many offsets; none if it is neither list nor watch.
fn check(name: &str, bytes: &[u8]) -> usize {
    let (json, protobuf) = (|| ListCutter::new(None, Limits::default()), ListCutter::protobuf);
    if name.ends_with(".json") {
        json_list(name, bytes).map_or(0, |body| body.check(&json()))
    } else if name.ends_with(".jsonl") {
        json_watch(name, bytes).map_or(0, |body| body.check(&WatchCutter::new(None, Limits::default())))
    } else if name.ends_with(".pb") {
        protobuf_list(name, bytes).map_or(0, |body| body.check(&protobuf(Limits::default())))
    } else if name.ends_with(".pbseq") {
        protobuf_watch(name, bytes).check(&WatchCutter::protobuf(Limits::default()))
    } else {
        0
    }
}

/// The recorded bodies that end so, each shape once: some hundred differ only in versions and times.
fn recorded(end: &str) -> Vec<(String, Vec<u8>)> {
    let Some(folder) = shared("recordings") else { return Vec::new() };
    let mut shapes = HashSet::new();
    let name = |path: &Path| path.file_name().unwrap().to_string_lossy().into_owned();
    let mut paths: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let bodies = paths.iter().map(|path| (name(path), path)).filter(|(name, _)| name.ends_with(end));
    let bodies = bodies.map(|(name, path)| (name, fs::read(path).unwrap()));
    let shape =
        |bytes: &[u8]| bytes.iter().map(|b| if b.is_ascii_digit() { b'0' } else { *b }).collect::<Vec<u8>>();
    bodies.filter(|(_, bytes)| shapes.insert(shape(bytes))).collect()
}

fn check_all(end: &str, bodies_min: usize, offsets_min: usize) {
    let recorded = recorded(end);
    if recorded.is_empty() {
        return;
    }
    let asked: Vec<_> = recorded.iter().map(|(name, bytes)| check(name, bytes)).filter(|n| *n > 0).collect();
    let sum: usize = asked.iter().sum();
    assert!(asked.len() >= bodies_min && sum >= offsets_min, "{} bodies, {sum} offsets", asked.len());
}

#[test]
fn recorded_lists_in_json_at_every_byte() {
    check_all(".body.json", 40, 80_000);
}

#[test]
fn recorded_watches_in_json_at_every_byte() {
    check_all(".body.jsonl", 30, 90_000);
}

#[test]
fn recorded_bodies_in_protobuf_at_every_byte() {
    check_all(".body.pb", 5, 5_000);
    check_all(".body.pbseq", 5, 10_000);
}

/// Compressed ones: what they unfold to is cut at every byte as above, and they themselves at every byte near their ends and
/// at every [`STRIDE`]th.
#[test]
fn recorded_compressed_bodies_at_every_byte() {
    for (name, packed) in recorded(".gz") {
        let mut plain = Vec::new();
        flate2::read::MultiGzDecoder::new(&packed[..]).read_to_end(&mut plain).unwrap();
        assert!(check(name.trim_end_matches(".gz"), &plain) > 500, "{name} is no list");
        let (mut inflate, mut got) = (Inflate::new(), Vec::new());
        for (at, byte) in packed.chunks(1).enumerate() {
            inflate.push(byte, |slice| keep(&mut got, slice)).unwrap();
            assert!(plain.starts_with(&got), "{name}: at byte {at}");
        }
        inflate.finish().unwrap();
        assert!(got == plain, "{name}");
        for at in
            (1..packed.len()).filter(|at| at.is_multiple_of(STRIDE) || *at < 64 || *at > packed.len() - 64)
        {
            let (mut inflate, mut got) = (Inflate::new(), Vec::new());
            inflate.push(&packed[..at], |slice| keep(&mut got, slice)).unwrap();
            assert!(plain.starts_with(&got), "{name}: until byte {at}");
            let end = inflate.finish();
            // The last eight bytes are the checksum.
            assert!(
                matches!(end, Err(WireError::Truncated { offset, .. }) if offset == at as u64)
                    || matches!(end, Err(WireError::Gzip { .. }) if at >= packed.len() - 8),
                "{name}: ended at byte {at}: {end:?}"
            );
        }
    }
}

fn keep(got: &mut Vec<u8>, slice: &[u8]) -> Result<(), WireError> {
    got.extend_from_slice(slice);
    Ok(())
}
