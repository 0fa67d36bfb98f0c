//! Protobuf: the cutters beside a parser that has the whole body before it, and serde beside the transcoder.

use reflector::wire::{ListCutter, WatchCutter};
use reflector_protobuf::{
    Envelope, Kind, PREFIX, envelope, from_json, from_slice,
    fuzz::one_input,
    to_json,
    wire::{Fields, Value, WireType, write_tag, write_varint},
};
use serde_json::Value as Json;

use crate::{
    control::Control,
    pieces::{self, Piece},
};

fn field(number: u32, content: &[u8], out: &mut Vec<u8>) {
    write_tag(number, WireType::Bytes, out);
    write_varint(content.len() as u64, out);
    out.extend_from_slice(content);
}

/// A list whose lengths are right, around any bytes: few of the inputs that a fuzzer makes up get past them otherwise.
fn wrapped(control: Control, raw: &[u8]) -> Vec<u8> {
    let (api_version, kind) =
        if control.chose(2) { ("v1", "ConfigMapList") } else { ("apps/v1", "DeploymentList") };
    let (mut types, mut body) = (Vec::new(), PREFIX.to_vec());
    field(1, api_version.as_bytes(), &mut types);
    field(2, kind.as_bytes(), &mut types);
    field(1, &types, &mut body);
    if control.chose(3) {
        field(2, raw, &mut body);
        return body;
    }
    // Its items: a byte of length, and what follows is one of them.
    let (mut list, mut rest) = (Vec::new(), raw);
    while let Some((&length, more)) = rest.split_first() {
        let (item, more) = more.split_at(usize::from(length).min(more.len()));
        field(if length % 16 == 15 { 1 } else { 2 }, item, &mut list);
        rest = more;
    }
    field(2, &list, &mut body);
    body
}

/// A list.
pub(crate) fn list(input: &[u8]) {
    let Some((control, bytes)) = Control::split(input) else { return };
    let made = control.chose(1).then(|| wrapped(control, bytes));
    let body = made.as_deref().unwrap_or(bytes);
    let (pieces, end) = pieces::check_cuts(control, body, |chunks| {
        pieces::list(ListCutter::protobuf(control.limits()), chunks)
    });
    let Ok(meta) = end else { return };
    // The cutter does not look at texts that it does not need.
    let Ok(envelope) = Envelope::parse(body) else { return };
    let items: Vec<_> = Fields::new(envelope.raw)
        .map(Result::unwrap)
        .filter_map(|field| match (field.number, field.value) {
            (2, Value::Bytes(item)) => Some(item),
            _ => None,
        })
        .collect();
    assert_eq!(pieces.len(), items.len());
    for (piece, item) in pieces.iter().zip(items) {
        match piece {
            Piece::Object { bytes, meta, .. } => {
                assert_eq!(bytes, item);
                assert!(!meta.key.name().is_empty());
            }
            Piece::Invalid(invalid) => assert_eq!(invalid.bytes, item.len()),
            Piece::Other(other) => panic!("{other}"),
        }
    }
    if let Some(types) = meta.types {
        assert_eq!(
            (&*types.api_version, Some(&*types.kind)),
            (envelope.api_version, envelope.kind.strip_suffix("List"))
        );
    }
}

/// A stream whose lengths are right: of each event a byte chooses the type and one the length of the object.
fn framed(bytes: &[u8]) -> Vec<u8> {
    let kind = Kind::find("v1", "ConfigMap").unwrap();
    let (mut body, mut rest) = (Vec::new(), bytes);
    while let Some((&[choice, length], more)) = rest.split_first_chunk::<2>() {
        let (message, more) = more.split_at(usize::from(length).min(more.len()));
        let name = ["ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR", "", "NEW"][usize::from(choice) % 7];
        let object = if choice & 0x80 == 0 { envelope(kind, message) } else { message.to_vec() };
        let (mut raw, mut event) = (Vec::new(), Vec::new());
        field(1, &object, &mut raw);
        field(1, name.as_bytes(), &mut event);
        field(2, &raw, &mut event);
        body.extend_from_slice(&u32::try_from(event.len()).unwrap().to_be_bytes());
        body.extend(event);
        rest = more;
    }
    body
}

/// A stream of events.
pub(crate) fn watch(input: &[u8]) {
    let Some((control, bytes)) = Control::split(input) else { return };
    let made = control.chose(1).then(|| framed(bytes));
    let body = made.as_deref().unwrap_or(bytes);
    let (pieces, end) = pieces::check_cuts(control, body, |chunks| {
        pieces::watch(WatchCutter::protobuf(control.limits()), chunks)
    });
    let mut rest = body;
    for piece in &pieces {
        let (length, more) = rest.split_first_chunk::<4>().expect("a piece is a frame");
        let (frame, more) = more.split_at(u32::from_be_bytes(*length) as usize);
        if let Piece::Object { bytes, meta, .. } = piece {
            assert!(!meta.key.name().is_empty());
            assert!(
                frame.windows(bytes.len()).any(|part| part == bytes),
                "an object that is not in its frame"
            );
        }
        rest = more;
    }
    if end.is_ok() {
        assert!(rest.is_empty(), "bytes were lost");
    }
}

/// Any bytes as an object of any kind: both readers agree, and what was read once survives being written and read
/// again.
pub(crate) fn serde(input: &[u8]) {
    one_input(input);
    let Some((chosen, message)) = input.split_first_chunk::<2>() else { return };
    let chosen = usize::from(u16::from_le_bytes(*chosen)) % Kind::all().len();
    let kind = Kind::all().nth(chosen).unwrap();
    let mut json = Vec::new();
    if to_json(kind, message, &mut json).is_err() || from_slice::<Json>(kind, message).is_err() {
        return;
    }
    // What is left out, such as what JSON cannot say, is left out once.
    let Ok(written) = from_json(kind, &json) else { return };
    let mut again = Vec::new();
    to_json(kind, &written, &mut again).expect("what was written can be read");
    let rewritten = from_json(kind, &again).expect("what was read can be written");
    assert_eq!(rewritten, written, "{kind:?}: {}", String::from_utf8_lossy(&json));
}
