//! Bytes that no server sends: never a panic, and any order of the fields reads the same.
// Helpers outside the test functions are tests too.
#![allow(clippy::unwrap_used, clippy::print_stderr, clippy::needless_pass_by_value)]

mod bytes;
mod data;

use bytes::bytes;
use data::{Pair, fixtures};
use proptest::prelude::*;
use reflector_protobuf::{
    Kind, Message, Shape, Type, from_message, from_slice,
    fuzz::{one_input, one_object},
    wire::{Fields, Value as Wire},
};
use serde_json::Value;

/// The same message with its fields in another order, and its messages in pieces.
fn shuffled(message: Message, from: &[u8], random: &mut impl FnMut(usize) -> usize) -> Vec<u8> {
    let mut runs: Vec<(u32, Vec<Vec<u8>>)> = Vec::new();
    for field in Fields::new(from) {
        let field = field.unwrap();
        let known = message.field_by_number(field.number);
        let inner = known
            .and_then(|known| Some((known, known.message()?)))
            .filter(|(known, _)| known.shape() != Shape::Map);
        let pieces = match (inner, field.value) {
            (Some((known, inner)), Wire::Bytes(value)) => {
                let value = shuffled(inner, value, random);
                let mut fields = Fields::new(&value).map(|field| value[field.unwrap().range].to_vec());
                if known.shape() == Shape::Single && random(2) == 0 {
                    let first: Vec<u8> = fields.by_ref().take(random(4)).flatten().collect();
                    let rest: Vec<u8> = fields.flatten().collect();
                    vec![bytes(field.number, &first), bytes(field.number, &rest)]
                } else {
                    vec![bytes(field.number, &value)]
                }
            }
            // What counts is the last.
            (_, value)
                if known
                    .is_some_and(|known| known.shape() == Shape::Single && known.ty() == Type::String) =>
            {
                assert!(matches!(value, Wire::Bytes(_)));
                vec![bytes(field.number, b"not this"), from[field.range].to_vec()]
            }
            _ => vec![from[field.range].to_vec()],
        };
        match runs.iter_mut().find(|(number, _)| *number == field.number) {
            Some((_, run)) => run.extend(pieces),
            None => runs.push((field.number, pieces)),
        }
    }
    // One after the other from any run.
    let mut out = Vec::new();
    while !runs.is_empty() {
        let at = random(runs.len());
        out.extend(runs[at].1.remove(0));
        if runs[at].1.is_empty() {
            runs.swap_remove(at);
        }
    }
    out
}

#[test]
fn any_order_reads_the_same() {
    let Some(pairs) = fixtures() else { return };
    let mut state = 1u64;
    let mut random = |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) as usize % below
    };
    for Pair { name, kind, message, .. } in &pairs {
        let expected: Value = from_slice(*kind, message).unwrap();
        for _ in 0..3 {
            let other = shuffled(kind.message(), message, &mut random);
            let value: Value = from_slice(*kind, &other).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_eq!(value, expected, "{name}");
        }
    }
}

#[test]
fn damaged_fixtures_do_not_panic() {
    let Some(pairs) = fixtures() else { return };
    for Pair { kind, message, .. } in &pairs {
        let step = (message.len() / 40).max(1);
        for at in (0..message.len()).step_by(step) {
            for change in [0x01, 0x07, 0x80, 0xff] {
                let mut message = message.clone();
                message[at] ^= change;
                one_object(*kind, &message);
            }
            one_object(*kind, &message[..at]);
            one_object(*kind, &message[at..]);
        }
    }
}

/// Fields of all sorts, some with plausible contents.
fn plausible() -> impl Strategy<Value = Vec<u8>> {
    let leaf = prop_oneof![
        proptest::collection::vec(any::<u8>(), 0..12),
        "[a-z{}\\[\\]\":0-9]{0,6}".prop_map(String::into_bytes)
    ];
    leaf.prop_recursive(6, 40, 6, |inner| {
        proptest::collection::vec((1..45u32, inner, any::<i64>(), 0..8u8), 0..6).prop_map(|fields| {
            let fields = fields.into_iter().map(|(number, inner, int, sort)| match sort {
                0 => bytes::int(number, int),
                1 => bytes::int(number, int & 1),
                2 => bytes::double(number, int as f64),
                3 => bytes::text(number, "v1"),
                _ => bytes::bytes(number, &inner),
            });
            fields.collect::<Vec<_>>().concat()
        })
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn no_bytes_panic_as_any_message(bytes in prop_oneof![proptest::collection::vec(any::<u8>(), 0..200), plausible()]) {
        for message in Message::all() {
            let _ = from_message::<Value>(message, &bytes);
        }
        one_input(&bytes);
        for kind in Kind::all() {
            one_object(kind, &bytes);
        }
    }
}
