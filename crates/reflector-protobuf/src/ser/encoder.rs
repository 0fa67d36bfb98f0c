//! Messages whose fields come in any order, written in the order of their numbers.
//!
//! Each field is encoded as it comes, to the end of one buffer; where a message ends, the parts of it that lie there are
//! put in order, what is absent and has to be there is put between them, and the length before them.

use serde::de::MapAccess;

use super::{
    value::{Key, Name, Slot},
    zero,
};
use crate::{
    error::Error,
    schema::{FieldRow, Message, Type},
    wire::{self, WireType},
};

/// The state of writing one object.
#[derive(Default)]
pub(super) struct Encoder {
    pub(super) out: Vec<u8>,
    scratch: Vec<u8>,
    /// Of the messages that have begun.
    parts: Vec<Part>,
    /// Of the maps that have begun.
    entries: Vec<Entry>,
    /// Where an error was, from the innermost one outwards.
    pub(super) trail: Vec<Segment>,
}

/// A field of a message, with its tag, somewhere in the buffer.
struct Part {
    order: u32,
    start: usize,
    end: usize,
}

/// An entry of a map, without tag and length.
struct Entry {
    /// Only the text of the key.
    key: (usize, usize),
    start: usize,
    end: usize,
}

pub(super) enum Segment {
    Field(&'static str),
    Key(Box<str>),
    Index(usize),
}

/// A field that has been found by its name.
#[derive(Clone, Copy)]
pub(super) struct Found {
    /// Where it stands among the fields of its object: one byte for the row, then for those of the messages that are
    /// embedded there.
    order: u32,
    pub(super) row: &'static FieldRow,
}

/// The row of the message itself is in this byte, those of embedded ones in the bytes after it.
const OUTERMOST: u32 = 16;

impl Encoder {
    pub(super) fn new(capacity: usize) -> Self {
        Self { out: Vec::with_capacity(capacity), ..Self::default() }
    }

    /// With the place where it was.
    #[cold]
    pub(super) fn located(self, mut error: Error) -> Error {
        for segment in self.trail {
            match segment {
                Segment::Field(name) => error.in_field(name),
                Segment::Key(key) => error.in_key(&key),
                Segment::Index(index) => error.in_element(index),
            }
        }
        error
    }

    /// Writes a message; with tag and length if it has a number.
    pub(super) fn message<'de, A: MapAccess<'de>>(
        &mut self,
        number: Option<u32>,
        message: Message,
        mut members: A,
    ) -> Result<(), A::Error> {
        let (start, base) = (self.out.len(), self.parts.len());
        let rows = message.rows();
        let mut hint = 0;
        while let Some(found) = members.next_key_seed(Name { rows, hint: &mut hint })? {
            let Some(Found { order, row }) = found else {
                members.next_value::<serde::de::IgnoredAny>()?;
                continue;
            };
            let start = self.out.len();
            if let Err(error) = members.next_value_seed(Slot::field(self, row)) {
                self.trail.push(Segment::Field(row.name()));
                return Err(error);
            }
            self.parts.push(Part { order, start, end: self.out.len() });
        }
        let parts = self.parts.get_mut(base..).unwrap_or_default();
        if !parts.is_sorted_by_key(|part| part.order) {
            // Stable: of those that occur twice the last one stays the last.
            parts.sort_by_key(|part| part.order);
        }
        self.scratch.clear();
        assemble(rows, parts, OUTERMOST, &self.out, &mut self.scratch);
        self.parts.truncate(base);
        self.out.truncate(start);
        match number {
            Some(number) => bytes(number, &self.scratch, &mut self.out),
            None => self.out.extend_from_slice(&self.scratch),
        }
        Ok(())
    }

    /// Writes the entries of a map.
    pub(super) fn map<'de, A: MapAccess<'de>>(
        &mut self,
        row: &FieldRow,
        mut members: A,
    ) -> Result<(), A::Error> {
        let (outset, base) = (self.out.len(), self.entries.len());
        let (ty, message) = (row.ty, Message::at(row.message));
        loop {
            let start = self.out.len();
            let Some(len) = members.next_key_seed(Key { out: &mut self.out })? else { break };
            let key = (self.out.len() - len, self.out.len());
            match members.next_value_seed(Slot::new(self, 2, ty, message)) {
                Ok(true) => {}
                // As Go writes nil bytes.
                Ok(false) if ty == Type::Bytes => {}
                Ok(false) => zero::value(2, ty, message, &mut self.out),
                Err(error) => {
                    let key = self.out.get(key.0..key.1).unwrap_or_default();
                    self.trail.push(Segment::Key(String::from_utf8_lossy(key).into()));
                    return Err(error);
                }
            }
            self.entries.push(Entry { key, start, end: self.out.len() });
        }
        let out = &self.out;
        let text = |entry: &Entry| out.get(entry.key.0..entry.key.1).unwrap_or_default();
        let entries = self.entries.get_mut(base..).unwrap_or_default();
        if !entries.is_sorted_by_key(text) {
            entries.sort_by(|a, b| text(a).cmp(text(b)));
        }
        self.scratch.clear();
        for same in entries.chunk_by(|a, b| text(a) == text(b)) {
            let Some(last) = same.last() else { continue };
            let entry = out.get(last.start..last.end).unwrap_or_default();
            bytes(row.number.into(), entry, &mut self.scratch);
        }
        self.entries.truncate(base);
        self.out.truncate(outset);
        self.out.extend_from_slice(&self.scratch);
        Ok(())
    }
}

/// Finds the field of that name. They mostly come in the order of the rows: the search begins at the hint.
pub(super) fn find(rows: &'static [FieldRow], hint: &mut usize, name: &str) -> Option<Found> {
    let (before, behind) = rows.split_at_checked(*hint)?;
    let is_it = |row: &FieldRow| row.name() == name && !row.is_inline();
    let at = match behind.iter().position(is_it) {
        Some(at) => before.len() + at,
        None => match before.iter().position(is_it) {
            Some(at) => at,
            None => return find_embedded(rows, OUTERMOST, name),
        },
    };
    *hint = at + 1;
    Some(Found { order: order(at, OUTERMOST), row: rows.get(at)? })
}

fn find_embedded(rows: &'static [FieldRow], shift: u32, name: &str) -> Option<Found> {
    rows.iter().enumerate().filter(|(_, row)| row.is_inline()).find_map(|(at, row)| {
        let (inner, inner_shift) = (Message::at(row.message).rows(), shift.checked_sub(8)?);
        let found = match inner.iter().position(|row| row.name() == name && !row.is_inline()) {
            Some(at) => Found { order: order(at, inner_shift), row: inner.get(at)? },
            None => find_embedded(inner, inner_shift, name)?,
        };
        Some(Found { order: order(at, shift) | found.order, row: found.row })
    })
}

/// Zero is for: not there.
fn order(at: usize, shift: u32) -> u32 {
    (at as u32 + 1) << shift
}

/// Appends the parts, which are in order, and what else has to be there.
fn assemble(rows: &[FieldRow], mut parts: &[Part], shift: u32, from: &[u8], out: &mut Vec<u8>) {
    for (at, row) in rows.iter().enumerate() {
        let upto = order(at, shift) | ((1 << shift) - 1);
        let mask = (1 << (shift + 8)) - 1;
        let (run, rest) = parts.split_at(parts.iter().take_while(|part| part.order & mask <= upto).count());
        parts = rest;
        if row.is_inline() {
            if !row.is_pointer() || !run.is_empty() {
                wire::write_tag(row.number.into(), WireType::Bytes, out);
                let start = out.len();
                assemble(Message::at(row.message).rows(), run, shift.saturating_sub(8), from, out);
                close(start, out);
            }
            continue;
        }
        match run.last() {
            // Null wrote nothing.
            Some(part) if part.start < part.end => {
                out.extend_from_slice(from.get(part.start..part.end).unwrap_or_default());
            }
            _ => zero::field(row, out),
        }
    }
}

/// Appends a field of bytes.
#[inline]
pub(super) fn bytes(number: u32, bytes: &[u8], out: &mut Vec<u8>) {
    wire::write_tag(number, WireType::Bytes, out);
    wire::write_varint(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}

/// Appends a field of a number.
#[inline]
pub(super) fn varint(number: u32, value: i64, out: &mut Vec<u8>) {
    wire::write_tag(number, WireType::Varint, out);
    wire::write_varint(value as u64, out);
}

/// Puts its length before what begins at `start`.
pub(super) fn close(start: usize, out: &mut Vec<u8>) {
    let end = out.len();
    wire::write_varint((end - start) as u64, out);
    let len = out.len() - end;
    if let Some(tail) = out.get_mut(start..) {
        tail.rotate_right(len);
    }
}
