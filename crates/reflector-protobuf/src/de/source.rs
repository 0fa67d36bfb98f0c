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

/// The value of a field.
#[derive(Clone, Copy, Debug)]
pub(super) enum Payload<'de> {
    Bytes(&'de [u8]),
    Varint(u64),
    I64(u64),
    /// No type is encoded so.
    I32,
    /// A message in several pieces, which lie in the context.
    Parts(usize),
}

impl<'de> From<Value<'de>> for Payload<'de> {
    fn from(value: Value<'de>) -> Self {
        match value {
            Value::Varint(value) => Self::Varint(value),
            Value::I64(value) => Self::I64(value),
            Value::Bytes(value) => Self::Bytes(value),
            Value::I32(_) => Self::I32,
        }
    }
}

impl<'de> Payload<'de> {
    pub(super) const EMPTY: Self = Self::Bytes(&[]);

    #[cold]
    #[inline(never)]
    fn mismatch(&self, expected: WireType) -> Error {
        let found = match self {
            Self::Bytes(_) | Self::Parts(_) => WireType::Bytes,
            Self::Varint(_) => WireType::Varint,
            Self::I64(_) => WireType::I64,
            Self::I32 => WireType::I32,
        };
        ErrorKind::WireType { found, expected }.into()
    }

    #[inline]
    pub(super) fn varint(&self) -> Result<u64, Error> {
        match self {
            Self::Varint(value) => Ok(*value),
            other => Err(other.mismatch(WireType::Varint)),
        }
    }

    #[inline]
    pub(super) fn double(&self) -> Result<f64, Error> {
        match self {
            Self::I64(bits) => Ok(f64::from_bits(*bits)),
            other => Err(other.mismatch(WireType::I64)),
        }
    }

    #[inline]
    pub(super) fn bytes(&self) -> Result<&'de [u8], Error> {
        match self {
            Self::Bytes(bytes) => Ok(bytes),
            other => Err(other.mismatch(WireType::Bytes)),
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
        match self {
            Self::Bytes(bytes) => bytes.is_empty(),
            Self::Varint(value) => *value == 0,
            // Also minus zero, as in Go.
            Self::I64(bits) => bits << 1 == 0,
            _ => false,
        }
    }

    /// Calls `f` with each field of the message.
    #[inline]
    pub(super) fn each(
        self,
        context: &Context<'de>,
        mut f: impl FnMut(u32, Payload<'de>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let parts;
        let (first, others): (_, &[_]) = match self {
            Self::Parts(id) => {
                parts = context.parts.borrow().get(id).cloned().unwrap_or_default();
                (&[][..], &parts)
            }
            other => (other.bytes()?, &[]),
        };
        let mut others = others.iter();
        let mut source = Source { bytes: first, sorted: 0, at: 0 };
        loop {
            while let Some((number, payload, rest)) = source.peek(context)? {
                source = rest;
                f(number, payload)?;
            }
            match others.next() {
                Some(next) => source.bytes = next,
                None => return Ok(()),
            }
        }
    }
}

/// The fields of a message that are still to be read.
#[derive(Clone, Copy)]
pub(super) struct Source<'de> {
    /// What is left of its bytes.
    bytes: &'de [u8],
    /// Or which of the sorted messages in the context it is, counted from 1, and where in it.
    sorted: usize,
    at: usize,
}

impl<'de> Source<'de> {
    /// The fields of that message.
    #[inline(always)]
    pub(super) fn new(
        context: &Context<'de>,
        message: Message,
        payload: Payload<'de>,
    ) -> Result<Self, Error> {
        match payload {
            Payload::Bytes(bytes) if !context.sorts => Ok(Self { bytes, sorted: 0, at: 0 }),
            _ => Self::merged(context, message, payload),
        }
    }

    /// Its fields in the order of their numbers, what stands there only once merged as Go would.
    #[cold]
    fn merged(context: &Context<'de>, message: Message, payload: Payload<'de>) -> Result<Self, Error> {
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
    pub(super) fn only(context: &Context<'de>, payload: Payload<'de>, number: u32) -> Result<Self, Error> {
        let mut found = entries(context, payload)?;
        found.retain(|(n, _)| *n == number);
        Ok(context.keep(found))
    }

    /// The next field, and what comes behind it.
    #[inline(always)]
    pub(super) fn peek(&self, context: &Context<'de>) -> Result<Option<(u32, Payload<'de>, Self)>, Error> {
        if let Some((number, payload, rest)) = field(self.bytes) {
            return Ok(Some((number, payload, Self { bytes: rest, ..*self })));
        }
        if self.bytes.is_empty() && self.sorted == 0 {
            return Ok(None);
        }
        self.peek_slowly(context)
    }

    #[cold]
    #[inline(never)]
    fn peek_slowly(&self, context: &Context<'de>) -> Result<Option<(u32, Payload<'de>, Self)>, Error> {
        if let Some(id) = self.sorted.checked_sub(1) {
            let entry = context.entry(id, self.at);
            return Ok(entry.map(|(number, payload)| (number, payload, Self { at: self.at + 1, ..*self })));
        }
        let mut at = 0;
        let (number, wire_type) = wire::read_tag(self.bytes, &mut at)?;
        let value = wire::read_value(self.bytes, &mut at, wire_type)?;
        let bytes = self.bytes.get(at..).unwrap_or_default();
        Ok(Some((number, value.into(), Self { bytes, ..*self })))
    }

    /// The next field, if it has that number.
    #[inline(always)]
    pub(super) fn next_of(
        &mut self,
        context: &Context<'de>,
        number: u32,
    ) -> Result<Option<Payload<'de>>, Error> {
        Ok(match self.peek(context)? {
            Some((found, payload, rest)) if found == number => {
                *self = rest;
                Some(payload)
            }
            _ => None,
        })
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
fn field(bytes: &[u8]) -> Option<(u32, Payload<'_>, &[u8])> {
    let (tag, bytes) = short_varint(bytes)?;
    let number = tag >> 3;
    if number == 0 {
        return None;
    }
    match tag & 7 {
        2 => {
            let (len, bytes) = short_varint(bytes)?;
            let (value, rest) = bytes.split_at_checked(len as usize)?;
            Some((number, Payload::Bytes(value), rest))
        }
        0 => {
            let (value, rest) = short_varint(bytes)?;
            Some((number, Payload::Varint(value.into()), rest))
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

fn entries<'de>(context: &Context<'de>, payload: Payload<'de>) -> Result<Vec<Entry<'de>>, Error> {
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
        Ok(Payload::Parts(parts.len() - 1))
    }

    /// All fields of that number as one message.
    pub(super) fn joined(&self, payload: Payload<'de>, number: u32) -> Result<Option<Payload<'de>>, Error> {
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
