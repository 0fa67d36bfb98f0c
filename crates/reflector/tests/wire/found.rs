//! What fuzzers found, by name.

use reflector::wire::{Limits, ListCutter, WatchCutter, WireError};
use reflector_protobuf::{Kind, PREFIX, envelope, from_json, wire};
use serde::de::IgnoredAny;

fn list_error<'a>(
    mut cutter: ListCutter<IgnoredAny>,
    chunks: impl IntoIterator<Item = &'a [u8]>,
) -> WireError {
    let mut items = Vec::new();
    let failed = chunks.into_iter().try_for_each(|chunk| cutter.push(chunk, &mut items));
    failed.and_then(|()| cutter.finish().map(drop)).unwrap_err()
}

fn watch_error<'a>(chunks: impl IntoIterator<Item = &'a [u8]>, limits: Limits) -> WireError {
    let mut cutter = WatchCutter::<IgnoredAny>::new(None, limits);
    let mut events = Vec::new();
    let failed = chunks.into_iter().try_for_each(|chunk| cutter.push(chunk, &mut events));
    failed.and_then(|()| cutter.finish()).unwrap_err()
}

/// Where a body breaks two rules, the one counts that it breaks first. In one chunk it was the other.
#[test]
fn of_two_faults_the_first_is_told_in_whatever_chunks() {
    let limits = Limits::default().object_bytes_max(20).envelope_bytes_max(30).depth_max(6);
    let large_then_deep = br#"{"items":[{"text":"0123456789012345","deep":[[[[[[1]]]]]]}]}"#;
    let large_then_broken = br#"{"items":[{"text":"0123456789012345" ?"#;
    for body in [&large_then_deep[..], large_then_broken] {
        let expected =
            WireError::TooLarge { offset: 10, what: "an object", name: "object_bytes_max", limit: 20 };
        for size in [1, 7, body.len()] {
            assert_eq!(list_error(ListCutter::new(None, limits), body.chunks(size)), expected, "{size}");
        }
    }
    // The object passes its limit before the event does.
    let object_first = br#"{"type":"ADDED","object":{"text":"0123456789012345678901234567890123456789"}}"#;
    // The event does, in a member that nobody asked for.
    let event_first =
        br#"{"x":"0123456789012345678901234567890123456789","object":{"text":"0123456789012345"}}"#;
    for (body, offset) in [(&object_first[..], 25), (event_first, 0)] {
        for size in [1, 7, body.len()] {
            let error = watch_error(body.chunks(size), limits);
            assert!(
                matches!(error, WireError::TooLarge { offset: at, .. } if at == offset),
                "{size}: {error}"
            );
        }
    }
}

/// What a Status says that came instead of a list depended on how much of it had arrived.
#[test]
fn a_status_in_protobuf_is_waited_for() {
    let kind = Kind::find("v1", "Status").unwrap();
    let body = envelope(kind, &from_json(kind, br#"{"message":"go away","code":500}"#).unwrap());
    for size in 1..body.len() {
        let error = list_error(ListCutter::protobuf(Limits::default()), body.chunks(size));
        assert_eq!(error, WireError::NotAList { kind: "Status".into(), message: "go away".into() });
    }
    // One that is larger than anything a server says is not waited for.
    let limits = Limits::default().envelope_bytes_max(20);
    let error = list_error(ListCutter::protobuf(limits), body.chunks(1));
    assert_eq!(error, WireError::NotAList { kind: "Status".into(), message: String::new() });
}

/// A number in the place of an item was given out as an item of eight bytes.
#[test]
fn a_number_in_the_place_of_an_item_is_malformed() {
    let mut body = PREFIX.to_vec();
    body.extend_from_slice(b"\x0a\x0e\x0a\x02v1\x12\x08NodeList\x12\x09");
    for number in [1, 2] {
        let mut body = body.clone();
        wire::write_tag(number, wire::WireType::I64, &mut body);
        body.extend_from_slice(&[0; 8]);
        let error = list_error(ListCutter::protobuf(Limits::default()), [&body[..]]);
        assert!(error.to_string().contains(&format!("field {number} is of another wire type")), "{error}");
    }
    // So is one in the place of the list.
    let body = [&body[..body.len() - 2], b"\x10\x05"].concat();
    let error = list_error(ListCutter::protobuf(Limits::default()), [&body[..]]);
    assert!(error.to_string().contains("field 2 is of another wire type"), "{error}");
}
