//! The entry for a fuzzer.

use serde_json::Value;

use crate::{Kind, from_slice, to_json};

/// Reads the bytes as an object of the kind that the first two of them choose, in both ways.
///
/// # Panics
/// Where the two ways differ: that is what a fuzzer looks for, besides any other panic.
pub fn one_input(bytes: &[u8]) {
    if let Some((chosen, message)) = bytes.split_first_chunk::<2>() {
        let chosen = usize::from(u16::from_le_bytes(*chosen)) % Kind::all().len();
        if let Some(kind) = Kind::all().nth(chosen) {
            one_object(kind, message);
        }
    }
}

/// The same for an object of that kind.
///
/// # Panics
/// As [`one_input`].
pub fn one_object(kind: Kind, message: &[u8]) {
    let mut json = Vec::new();
    let written = to_json(kind, message, &mut json);
    let Ok(value) = from_slice::<Value>(kind, message) else { return };
    assert!(written.is_ok(), "{kind:?} is read, but not written as JSON: {written:?}");
    match serde_json::from_slice(&json) {
        Ok(again) => assert!(is_same(&again, &value), "{kind:?} is read as {value}, and written as {again}"),
        // JSON within an object has levels of its own only where it is read with the object.
        Err(error) => {
            assert!(error.to_string().contains("recursion limit"), "{kind:?} is written as {error}");
        }
    }
}

fn is_same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is_same(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| is_same(a, b)))
        }
        // serde_json may read the last bit of a float otherwise than it was written.
        (Value::Number(a), Value::Number(b)) if a.is_f64() && b.is_f64() => {
            let (a, b) = (a.as_f64().unwrap_or_default(), b.as_f64().unwrap_or_default());
            a == b || (a - b).abs() <= a.abs() * f64::EPSILON
        }
        _ => a == b,
    }
}
