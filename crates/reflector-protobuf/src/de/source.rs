//! Where the fields of a message come from: mostly straight from its bytes.
//!
//! Go writes the fields of a message in the order of their numbers, each list in one run. Reading relies on that and
//! walks bytes and table side by side. Protobuf allows any order, though, and a message in several pieces: where a
//! reader meets that it notes it, gives up, and the whole object is read again with each message sorted beforehand.

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
};

use crate::{
    error::{Error, ErrorKind},
    schema::{Message, Shape, Type},
    wire::{self, Value, WireType},
};

/// What the readers of one object share.
#[derive(Default)]
pub(super) struct Context<'de> {
    /// Sort each message before reading it.
    pub(super) sorts: bool,
    /// Was something found that only a sorting reader can read? Its error may have been swallowed on its way up.
    pub(super) disordered: Cell<bool>,
    sorted: RefCell<Vec<Rc<[Entry<'de>]>>>,
    parts: RefCell<Vec<Rc<[&'de [u8]]>>>,
}

type Entry<'de> = (u32, Payload<'de>);

/// The value of a field. Not an enum: a compiler copies that through memory, and waits for it on each field.
#[derive(Clone, Copy)]
pub(super) struct Payload<'de> {
    wire_type: WireType,
    /// The number that it is. For bytes 0, or which of the messages in pieces in the context it is, counted from 1.
    number: u64,
    bytes: &'de [u8],
}

impl<'de> From<Value<'de>> for Payload<'de> {
    fn from(value: Value<'de>) -> Self {
        let wire_type = value.wire_type();
        match value {
            Value::Varint(number) | Value::I64(number) => Self { wire_type, number, bytes: &[] },
            Value::I32(number) => Self { wire_type, number: number.into(), bytes: &[] },
            Value::Bytes(bytes) => Self::of(bytes),
        }
    }
}

impl<'de> Payload<'de> {
    pub(super) const EMPTY: Self = Self::of(&[]);
    pub(super) const ZERO: Self = Self { wire_type: WireType::Varint, number: 0, bytes: &[] };
    pub(super) const ZERO_DOUBLE: Self = Self { wire_type: WireType::I64, number: 0, bytes: &[] };

    #[inline(always)]
    pub(super) const fn of(bytes: &'de [u8]) -> Self {
        Self { wire_type: WireType::Bytes, number: 0, bytes }
    }

    #[inline]
    pub(super) fn varint(&self) -> Result<u64, Error> {
        match self.wire_type {
            WireType::Varint => Ok(self.number),
            _ => Err(mismatch(self.wire_type, WireType::Varint)),
        }
    }

    #[inline]
    pub(super) fn double(&self) -> Result<f64, Error> {
        match self.wire_type {
            WireType::I64 => Ok(f64::from_bits(self.number)),
            _ => Err(mismatch(self.wire_type, WireType::I64)),
        }
    }

    /// Its bytes, if they are in one piece.
    #[inline]
    pub(super) fn whole(&self) -> Option<&'de [u8]> {
        (self.wire_type == WireType::Bytes && self.number == 0).then_some(self.bytes)
    }

    #[inline]
    pub(super) fn bytes(&self) -> Result<&'de [u8], Error> {
        match self.whole() {
            Some(bytes) => Ok(bytes),
            None => Err(mismatch(self.wire_type, WireType::Bytes)),
        }
    }

    #[inline]
    pub(super) fn text(&self) -> Result<&'de str, Error> {
        match std::str::from_utf8(self.bytes()?) {
            Ok(text) => Ok(text),
            Err(error) => Err(error.into()),
        }
    }

    /// Zero, false or empty: what JSON leaves out where the field is no pointer and has omitempty.
    #[inline]
    pub(super) fn is_zero(&self) -> bool {
        match self.wire_type {
            // Also minus zero, as in Go.
            WireType::I64 => self.number << 1 == 0,
            _ => self.number == 0 && self.bytes.is_empty(),
        }
    }

    /// A time, but too short for the seconds of Go's zero time, which take ten bytes.
    #[inline]
    pub(super) fn is_short_time(&self) -> bool {
        (1..10).contains(&self.bytes.len())
    }

    /// Calls `f` with each field of the message.
    #[inline]
    pub(super) fn each(
        &self,
        context: &Context<'de>,
        mut f: impl FnMut(u32, Payload<'de>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let parts;
        let (first, others): (_, &[_]) = match self.whole() {
            Some(bytes) => (bytes, &[]),
            None => {
                parts = context.parts_of(self)?;
                (&[][..], &parts)
            }
        };
        let mut others = others.iter();
        let mut source = Source { bytes: first, sorted: 0, at: 0 };
        loop {
            while let Some((number, payload, rest)) = source.peek(context)? {
                source.advance(rest);
                f(number, payload)?;
            }
            match others.next() {
                Some(next) => source.bytes = next,
                None => return Ok(()),
            }
        }
    }
}

/// Number and value of a field, and the bytes behind it.
type Peeked<'de> = (u32, Payload<'de>, &'de [u8]);

/// The fields of a message that are still to be read.
#[derive(Clone, Copy)]
pub(super) struct Source<'de> {
    /// What is left of its bytes.
    bytes: &'de [u8],
    /// Or which of the sorted messages in the context it is, counted from 1, and how many fields have been read.
    sorted: usize,
    at: usize,
}

impl<'de> Source<'de> {
    /// The fields of that message.
    #[inline(always)]
    pub(super) fn new(
        context: &Context<'de>,
        message: Message,
        payload: &Payload<'de>,
    ) -> Result<Self, Error> {
        match payload.whole() {
            Some(bytes) if !context.sorts => Ok(Self { bytes, sorted: 0, at: 0 }),
            _ => Self::merged(context, message, payload),
        }
    }

    /// Its fields in the order of their numbers, what stands there only once merged as Go would.
    #[cold]
    fn merged(context: &Context<'de>, message: Message, payload: &Payload<'de>) -> Result<Self, Error> {
        let entries = entries(context, payload)?;
        let mut merged = Vec::with_capacity(entries.len());
        for run in entries.chunk_by(|a, b| a.0 == b.0) {
            let Some((number, last)) = run.last() else { continue };
            match message.field_by_number(*number) {
                Some(field) if field.shape() == Shape::Single => merged.push(match field.ty() {
                    Type::Bool | Type::Int32 | Type::Int64 | Type::Double | Type::String | Type::Bytes => {
                        (*number, *last)
                    }
                    // Go's own unmarshalling of times begins afresh each time.
                    Type::Time | Type::MicroTime => (*number, *last),
                    _ => (*number, context.join(run)?),
                }),
                _ => merged.extend_from_slice(run),
            }
        }
        Ok(context.keep(merged))
    }

    /// Those fields of a message of a custom type that have this number.
    pub(super) fn only(context: &Context<'de>, payload: &Payload<'de>, number: u32) -> Result<Self, Error> {
        let mut found = entries(context, payload)?;
        found.retain(|(n, _)| *n == number);
        Ok(context.keep(found))
    }

    /// The next field in the common case that it stands in bytes, in a common form; and the bytes behind it.
    #[inline(always)]
    pub(super) fn common(&self) -> Option<Peeked<'de>> {
        field(self.bytes)
    }

    /// The next field, and the bytes behind it.
    #[inline(always)]
    pub(super) fn peek(&self, context: &Context<'de>) -> Result<Option<Peeked<'de>>, Error> {
        match self.common() {
            Some(found) => Ok(Some(found)),
            None if self.bytes.is_empty() && self.sorted == 0 => Ok(None),
            None => self.peek_slowly(context),
        }
    }

    #[cold]
    #[inline(never)]
    fn peek_slowly(&self, context: &Context<'de>) -> Result<Option<Peeked<'de>>, Error> {
        if let Some(id) = self.sorted.checked_sub(1) {
            return Ok(context.entry(id, self.at).map(|(number, payload)| (number, payload, self.bytes)));
        }
        let mut at = 0;
        let (number, wire_type) = wire::read_tag(self.bytes, &mut at)?;
        let value = wire::read_value(self.bytes, &mut at, wire_type)?;
        Ok(Some((number, value.into(), self.bytes.get(at..).unwrap_or_default())))
    }

    /// Goes behind the field that was peeked at.
    #[inline(always)]
    pub(super) fn advance(&mut self, rest: &'de [u8]) {
        self.bytes = rest;
        self.at += 1;
    }

    /// The next field, if it has that number: writes its value where it belongs, since a detour takes longer than the
    /// rest.
    #[inline(always)]
    pub(super) fn next_of(
        &mut self,
        context: &Context<'de>,
        number: u32,
        into: &mut Payload<'de>,
    ) -> Result<bool, Error> {
        match self.common() {
            Some((found, payload, rest)) => {
                if found != number {
                    return Ok(false);
                }
                *into = payload;
                self.advance(rest);
                Ok(true)
            }
            None if self.bytes.is_empty() && self.sorted == 0 => Ok(false),
            None => self.next_slowly(context, number, into),
        }
    }

    #[cold]
    #[inline(never)]
    fn next_slowly(
        &mut self,
        context: &Context<'de>,
        number: u32,
        into: &mut Payload<'de>,
    ) -> Result<bool, Error> {
        match self.peek_slowly(context)? {
            Some((found, payload, rest)) if found == number => {
                *into = payload;
                self.advance(rest);
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    /// How many bytes are still to be read, unless the message was sorted.
    #[inline(always)]
    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }
}

/// The next field where it has a common form: a number of up to two bytes, and so on. For others there is `wire`, which
/// also says what is wrong.
#[inline(always)]
fn field(bytes: &[u8]) -> Option<Peeked<'_>> {
    let (tag, bytes) = short_varint(bytes)?;
    let number = tag >> 3;
    if number == 0 {
        return None;
    }
    match tag & 7 {
        2 => {
            let (len, bytes) = short_varint(bytes)?;
            let (value, rest) = bytes.split_at_checked(len as usize)?;
            Some((number, Payload::of(value), rest))
        }
        0 => {
            let (value, rest) = short_varint(bytes)?;
            Some((number, Payload { number: value.into(), ..Payload::ZERO }, rest))
        }
        _ => None,
    }
}

/// A varint of one or two bytes.
#[inline(always)]
fn short_varint(bytes: &[u8]) -> Option<(u32, &[u8])> {
    match bytes {
        [one @ ..0x80, rest @ ..] => Some(((*one).into(), rest)),
        [one, two @ ..0x80, rest @ ..] => Some((u32::from(one & 0x7f) | u32::from(*two) << 7, rest)),
        _ => None,
    }
}

#[cold]
#[inline(never)]
fn mismatch(found: WireType, expected: WireType) -> Error {
    ErrorKind::WireType { found, expected }.into()
}

fn entries<'de>(context: &Context<'de>, payload: &Payload<'de>) -> Result<Vec<Entry<'de>>, Error> {
    let mut entries = Vec::new();
    payload.each(context, |number, payload| {
        entries.push((number, payload));
        Ok(())
    })?;
    // Stable.
    entries.sort_by_key(|(number, _)| *number);
    Ok(entries)
}

impl<'de> Context<'de> {
    /// For the second, slower reading.
    pub(super) fn sorting() -> Self {
        Self { sorts: true, ..Self::default() }
    }

    fn keep(&self, entries: Vec<Entry<'de>>) -> Source<'de> {
        let mut sorted = self.sorted.borrow_mut();
        sorted.push(entries.into());
        Source { bytes: &[], sorted: sorted.len(), at: 0 }
    }

    fn entry(&self, id: usize, at: usize) -> Option<Entry<'de>> {
        self.sorted.borrow().get(id)?.get(at).copied()
    }

    /// The pieces of one message.
    fn join(&self, run: &[Entry<'de>]) -> Result<Payload<'de>, Error> {
        if let [(_, one)] = run {
            return Ok(*one);
        }
        let pieces = run.iter().map(|(_, payload)| payload.bytes()).collect::<Result<Rc<[_]>, _>>()?;
        let mut parts = self.parts.borrow_mut();
        parts.push(pieces);
        Ok(Payload { number: parts.len() as u64, ..Payload::EMPTY })
    }

    fn parts_of(&self, payload: &Payload<'de>) -> Result<Rc<[&'de [u8]]>, Error> {
        let id = usize::try_from(payload.number).ok().and_then(|id| id.checked_sub(1));
        let found = id.and_then(|id| self.parts.borrow().get(id).cloned());
        found
            .filter(|_| payload.wire_type == WireType::Bytes)
            .ok_or_else(|| mismatch(payload.wire_type, WireType::Bytes))
    }

    /// All fields of that number as one message.
    pub(super) fn joined(&self, payload: &Payload<'de>, number: u32) -> Result<Option<Payload<'de>>, Error> {
        let mut found = entries(self, payload)?;
        found.retain(|(n, _)| *n == number);
        if found.is_empty() { Ok(None) } else { self.join(&found).map(Some) }
    }

    /// The fields are not as Go writes them.
    #[cold]
    pub(super) fn give_up(&self) -> Error {
        self.disordered.set(true);
        ErrorKind::Disordered.into()
    }
}
