//! Trimming bytes, beside taking the same out of a decoded value.

use std::str;

use reflector::{
    Object,
    transform::{Transform, Trim},
};
use reflector_protobuf::{Kind, from_slice, path::Step, to_json};
use serde_json::Value;

use crate::memory;

/// A path, a line end, and an object in JSON; or in protobuf, where a null and two bytes that choose its kind come first.
pub(crate) fn trim(input: &[u8]) {
    let Some(at) = input.iter().position(|byte| *byte == b'\n') else { return };
    let (path, body) = (&input[..at], &input[at + 1..]);
    let Ok(path) = str::from_utf8(path) else { return };
    match body.split_first_chunk::<3>() {
        Some((&[0, low, high], message)) => protobuf(path, u16::from_le_bytes([low, high]), message),
        _ => json(path, body),
    }
}

fn json(path: &str, body: &[u8]) {
    let (Ok(object), Ok(trim)) = (Object::<Value>::from_json(body), Trim::new().path(path)) else { return };
    let Ok(steps) = reflector_protobuf::path::parse(path) else { return };
    let bound = (1 << 16) + 100 * body.len();
    let trimmed = memory::bounded(bound, || trim.transform(object.clone()));
    let trimmed = trimmed.expect("an object that was read can be trimmed");
    assert_eq!(trimmed.meta(), object.meta());
    // serde_json stops at some depth.
    let Ok(mut expected) = serde_json::from_slice::<Value>(&object.bytes().unwrap()) else { return };
    take_out(&mut expected, &steps);
    let found: Value = serde_json::from_slice(&trimmed.bytes().unwrap()).expect("what is left is JSON");
    assert_eq!(found, expected);
}

fn take_out(value: &mut Value, steps: &[Step]) {
    let Some((step, rest)) = steps.split_first() else { return };
    let named = |name: &str| match step {
        Step::Any => true,
        Step::Name(own, _) => **own == *name,
    };
    let numbered = |index: usize| match step {
        Step::Any => true,
        Step::Name(_, own) => *own == Some(index),
    };
    match value {
        Value::Object(members) if rest.is_empty() => members.retain(|name, _| !named(name)),
        Value::Object(members) => {
            members.iter_mut().filter(|(name, _)| named(name)).for_each(|(_, value)| take_out(value, rest));
        }
        Value::Array(elements) => {
            let mut index = 0..;
            if rest.is_empty() {
                elements.retain(|_| !index.next().is_some_and(numbered));
            } else {
                let elements = elements.iter_mut().zip(index).filter(|(_, index)| numbered(*index));
                elements.for_each(|(value, _)| take_out(value, rest));
            }
        }
        _ => {}
    }
}

fn protobuf(path: &str, kind: u16, message: &[u8]) {
    let kind = Kind::all().nth(usize::from(kind) % Kind::all().len()).unwrap();
    let Ok(trim) = reflector_protobuf::Trim::new(kind.message(), [path]) else { return };
    let mut trimmed = Vec::new();
    if trim.trim(message, &mut trimmed).is_err() {
        assert!(trimmed.is_empty(), "something is left of what cannot be trimmed");
        return;
    }
    assert!(trimmed.len() <= message.len(), "it grew");
    if !trim.ignored().is_empty() {
        assert_eq!(trimmed, message, "nothing was to be taken out");
    }
    let Ok(steps) = reflector_protobuf::path::parse(path) else { return };
    let indexed = steps.iter().any(|step| matches!(step, Step::Name(_, Some(_))));
    if !indexed {
        let mut again = Vec::new();
        trim.trim(&trimmed, &mut again).expect("what is left can be trimmed");
        assert_eq!(again, trimmed, "something was left over");
    }
    if from_slice::<Value>(kind, message).is_ok() {
        let value = from_slice::<Value>(kind, &trimmed).expect("what is left can be read");
        to_json(kind, &trimmed, &mut Vec::new()).expect("what is left can be written");
        // A field that JSON always has is zero, empty or null.
        if !indexed && !path.contains('*') {
            let found = value.pointer(path);
            assert!(trim.is_empty() || found.is_none_or(is_nothing), "{path} is still {found:?}");
        }
    }
}

fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(bool) => !bool,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty() || text == "0",
        Value::Array(elements) => elements.is_empty(),
        Value::Object(members) => members.values().all(is_nothing),
    }
}
