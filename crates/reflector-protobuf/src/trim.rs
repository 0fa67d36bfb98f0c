//! Takes parts out of a message, without decoding the others.

pub mod path;
mod plan;

pub use path::PathError;

use plan::{Planner, Rule, State, Target};

use crate::{
    de::MAX_DEPTH,
    schema::Message,
    wire::{self, Fields, Value, WireError, WireType},
};

/// Takes parts of an object away, in its protobuf.
///
/// The parts are named by JSON pointers (RFC 6901), in which `*` stands for every member of an object or map and every
/// element of a list. An index is that of the list before anything was taken away. What is left are the same bytes; only
/// the lengths of the messages around a part change.
///
/// In JSON, a part that was taken away is absent, with two exceptions that lie in protobuf. A field that JSON always has
/// is zero, empty or null there; and a list or map of which nothing is left is as if it had been taken away itself. JSON
/// that is in the protobuf (`FieldsV1`, `RawExtension`, `JSON`) is not looked into.
///
/// ```
/// use reflector_protobuf::{Kind, Trim, from_slice, from_json};
/// use serde_json::{Value, json};
///
/// let kind = Kind::find("v1", "ConfigMap").ok_or("no such kind")?;
/// let trim = Trim::new(kind.message(), ["/metadata/managedFields", "/data/a~1b", "/spec"])?;
/// assert_eq!(trim.ignored(), ["/spec"]);
///
/// let message = from_json(kind, br#"{"metadata":{"managedFields":[{}]},"data":{"a/b":"1","c":"2"}}"#)?;
/// let mut trimmed = Vec::new();
/// trim.trim(&message, &mut trimmed)?;
/// let value: Value = from_slice(kind, &trimmed)?;
/// assert_eq!(value["data"], json!({"c": "2"}));
/// assert_eq!(value["metadata"], json!({}));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Trim {
    root: Target,
    states: Box<[State]>,
    ignored: Box<[String]>,
}

impl Trim {
    /// Takes these parts away from messages of that type. Costs up to some hundred microseconds; the result is for many
    /// messages.
    ///
    /// # Errors
    /// Where a path is no pointer, or one to the whole object.
    pub fn new<P: AsRef<str>>(
        message: Message,
        paths: impl IntoIterator<Item = P>,
    ) -> Result<Self, PathError> {
        let (mut useful, mut ignored) = (Vec::new(), Vec::new());
        for path in paths {
            let path = path.as_ref();
            let steps = path::parse(path)?;
            // Nothing that is deeper can be read; nor may the plan recurse without a bound.
            let exists = steps.len() <= MAX_DEPTH.into()
                && Planner::new(std::slice::from_ref(&steps)).plan(message) != Target::Keep;
            if exists {
                useful.push(steps);
            } else {
                ignored.push(path.to_owned());
            }
        }
        let mut planner = Planner::new(&useful);
        let root = planner.plan(message);
        Ok(Self { root, states: planner.states.into(), ignored: ignored.into() })
    }

    /// The paths that lead to nothing that is in messages of this type. Among them are those to `apiVersion` and `kind`,
    /// which are in the [`Envelope`](crate::Envelope).
    #[must_use]
    pub fn ignored(&self) -> &[String] {
        &self.ignored
    }

    /// Whether there is nothing to take away from any message.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.root == Target::Keep
    }

    /// Appends to `out` what is left of a message (without [`Envelope`](crate::Envelope)).
    ///
    /// Only tags and lengths are read, on the way to what goes. An element of a list is what has a tag of its own: Go
    /// packs none.
    ///
    /// # Errors
    /// Where the bytes are damaged on that way; `out` is as it was then.
    pub fn trim(&self, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), WireError> {
        let Target::Enter(root) = self.root else {
            out.extend_from_slice(bytes);
            return Ok(());
        };
        let start = out.len();
        out.reserve(bytes.len());
        let result = self.message(root, bytes, out);
        if result.is_err() {
            out.truncate(start);
        }
        result
    }

    fn message(&self, state: usize, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), WireError> {
        let rules = self.states.get(state).map(|state| &*state.rules).unwrap_or_default();
        let mut indices = Indices::default();
        let mut kept = 0;
        for field in Fields::new(bytes) {
            let field = field?;
            let target = match rules.get(field.number as usize) {
                None => continue,
                Some(Rule::All(target)) => *target,
                Some(Rule::List { at, others }) => {
                    let index = indices.next(field.number);
                    at.iter().find(|(at, _)| *at == index).map_or(*others, |(_, target)| *target)
                }
                Some(Rule::Map { at, others }) => {
                    let Value::Bytes(entry) = field.value else { continue };
                    let key = key(entry).map_err(|error| error.shifted(field.range.end - entry.len()))?;
                    at.iter().find(|(at, _)| at.as_bytes() == key).map_or(*others, |(_, target)| *target)
                }
            };
            match (target, field.value) {
                (Target::Drop, _) => {
                    out.extend_from_slice(bytes.get(kept..field.range.start).unwrap_or_default());
                }
                (Target::Enter(state), Value::Bytes(inner)) => {
                    out.extend_from_slice(bytes.get(kept..field.range.start).unwrap_or_default());
                    wire::write_tag(field.number, WireType::Bytes, out);
                    let start = out.len();
                    // Mostly the new length has as many bytes as the old one.
                    wire::write_varint(inner.len() as u64, out);
                    let room = out.len() - start;
                    let offset = field.range.end - inner.len();
                    self.message(state, inner, out).map_err(|error| error.shifted(offset))?;
                    set_len(start, room, out);
                }
                // Nothing to do, or not what the table says.
                _ => continue,
            }
            kept = field.range.end;
        }
        out.extend_from_slice(bytes.get(kept..).unwrap_or_default());
        Ok(())
    }
}

/// How many elements there have been under each number.
#[derive(Default)]
struct Indices(Vec<(u32, usize)>);

impl Indices {
    fn next(&mut self, number: u32) -> usize {
        match self.0.iter_mut().find(|(known, _)| *known == number) {
            Some((_, count)) => {
                *count += 1;
                *count
            }
            None => {
                self.0.push((number, 0));
                0
            }
        }
    }
}

/// The key of an entry of a map.
fn key(entry: &[u8]) -> Result<&[u8], WireError> {
    let mut key: &[u8] = b"";
    for field in Fields::new(entry) {
        if let wire::WireField { number: 1, value: Value::Bytes(text), .. } = field? {
            key = text;
        }
    }
    Ok(key)
}

/// Writes the length of what is behind `start` and the room for that length, of which not all may be needed.
fn set_len(start: usize, room: usize, out: &mut Vec<u8>) {
    let len = out.len() - start - room;
    let needed = wire::varint_len(len as u64);
    if needed < room {
        out.copy_within(start + room.., start + needed);
        out.truncate(start + needed + len);
    }
    let mut rest = len;
    for (i, byte) in out.iter_mut().skip(start).take(needed).enumerate() {
        *byte = (rest & 0x7f) as u8 | if i + 1 < needed { 0x80 } else { 0 };
        rest >>= 7;
    }
}

#[cfg(test)]
#[path = "trim/trim_tests.rs"]
mod tests;
