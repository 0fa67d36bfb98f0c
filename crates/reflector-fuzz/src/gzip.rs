//! Gzip members, beside flate2's reader.

use std::io::{Read, Write};

use flate2::{Compression, write::GzEncoder};
use reflector::wire::{Inflate, WireError};

use crate::{control::Control, memory};

/// What a bomb may unfold to before its reader has enough of it.
const ENOUGH: usize = 1 << 20;

/// What chunks unfold to, and the end. The slices are as small as promised.
fn inflate(chunks: &[&[u8]]) -> (Vec<u8>, Result<(), WireError>) {
    let mut inflate = Inflate::new();
    let mut plain = Vec::new();
    for chunk in chunks {
        let pushed = inflate.push(chunk, |slice| {
            assert!(!slice.is_empty() && slice.len() <= 128 << 10, "a slice of {} bytes", slice.len());
            let room = ENOUGH - plain.len();
            plain.extend_from_slice(&slice[..slice.len().min(room)]);
            if slice.len() > room {
                return Err(WireError::TooLarge { offset: 0, what: "it", name: "ENOUGH", limit: ENOUGH });
            }
            Ok(())
        });
        if let Err(error) = pushed {
            assert!(inflate.push(b"", |_| Ok::<(), WireError>(())).is_err(), "an error was forgotten");
            return (plain, Err(error));
        }
    }
    (plain, inflate.finish())
}

/// Any bytes as members, or members made of any bytes.
pub(crate) fn members(input: &[u8]) {
    let Some((control, body)) = Control::split(input) else { return };
    if control.chose(0) {
        made(control, body);
    } else {
        any(control, body);
    }
}

/// Pieces of the body, each a member: it comes out as it went in, and what is cut off is missed.
fn made(control: Control, plain: &[u8]) {
    // An encoder takes its time.
    let plain = &plain[..plain.len().min(300)];
    let mut body = Vec::new();
    for (n, piece) in plain.chunks(usize::from(control.chose(1)) * 60 + 30).enumerate() {
        let mut encoder = GzEncoder::new(body, Compression::new(n as u32 % 10));
        encoder.write_all(piece).unwrap();
        if control.chose(2) {
            encoder.flush().unwrap();
        }
        body = encoder.finish().unwrap();
    }
    for chunks in control.cuts(&body) {
        let (got, end) = inflate(&chunks);
        assert_eq!((&*got, end), (plain, Ok(())));
    }
    let place = control.place(body.len());
    let (got, end) = inflate(&[&body[..place]]);
    assert!(plain.starts_with(&got));
    let complete = place == 0 || is_between_members(&body, place);
    assert!(end.is_err() || got.len() == plain.len() || complete, "cut at {place}");
}

/// Whether what comes before this place is whole for flate2's reader, too.
fn is_between_members(body: &[u8], place: usize) -> bool {
    flate2::read::MultiGzDecoder::new(&body[..place]).read_to_end(&mut Vec::new()).is_ok()
}

fn any(control: Control, body: &[u8]) {
    // The largest part of it is the window of the decoder, and what has come out.
    let whole = memory::bounded(4 * ENOUGH, || inflate(&[body]));
    for chunks in control.cuts(body) {
        let cut = memory::bounded(4 * ENOUGH, || inflate(&chunks));
        assert_eq!(cut.1.is_ok(), whole.1.is_ok(), "{:?} and {:?}", cut.1, whole.1);
        // Of damaged data a decoder gives out what it has, and in larger chunks it notices earlier.
        let (short, long) = if cut.0.len() < whole.0.len() { (&cut, &whole) } else { (&whole, &cut) };
        assert!(long.0.starts_with(&short.0));
        if whole.1.is_ok() {
            assert!(cut.0 == whole.0);
        }
    }
    let mut plain = Vec::new();
    let read = flate2::read::MultiGzDecoder::new(body).take(2 * ENOUGH as u64).read_to_end(&mut plain);
    if whole.1.is_ok() {
        assert!(plain == whole.0, "{} bytes, but {}", whole.0.len(), plain.len());
        // The reader wants at least one member.
        assert!(read.is_ok() || body.is_empty(), "{read:?}");
    } else if !matches!(whole.1, Err(WireError::TooLarge { .. })) {
        assert!(read.is_err() || plain.len() > ENOUGH, "only ours fails: {:?}", whole.1);
    }
}
