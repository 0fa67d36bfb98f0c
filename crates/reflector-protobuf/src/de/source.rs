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
    wire::{self, Value, WireError, WireType},
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
    Wire(Value<'de>),
    /// A message in several pieces, which lie in the context.
    Parts(usize),
}

impl<'de> Payload<'de> {
    pub(super) const EMPTY: Self = Self::Wire(Value::Bytes(&[]));

    fn wire_type(&self) -> WireType {
        match self {
            Self::Wire(value) => value.wire_type(),
            Self::Parts(_) => WireType::Bytes,
        }
    }

    #[cold]
    fn mismatch(&self, expected: WireType) -> Error {
        ErrorKind::WireType { found: self.wire_type(), expected }.into()
    }

    #[inline]
    pub(super) fn varint(&self) -> Result<u64, Error> {
        match self {
            Self::Wire(Value::Varint(value)) => Ok(*value),
            other => Err(other.mismatch(WireType::Varint)),
        }
    }

    #[inline]
    pub(super) fn double(&self) -> Result<f64, Error> {
        match self {
            Self::Wire(Value::I64(bits)) => Ok(f64::from_bits(*bits)),
            other => Err(other.mismatch(WireType::I64)),
        }
    }

    #[inline]
    pub(super) fn bytes(&self) -> Result<&'de [u8], Error> {
        match self {
            Self::Wire(Value::Bytes(bytes)) => Ok(bytes),
            other => Err(other.mismatch(WireType::Bytes)),
        }
    }

    #[inline]
    pub(super) fn text(&self) -> Result<&'de str, Error> {
        Ok(std::str::from_utf8(self.bytes()?)?)
    }

    /// Zero, false or empty: what JSON leaves out where the field is no pointer and has omitempty.
    #[inline]
    pub(super) fn is_zero(&self) -> bool {
        match self {
            Self::Wire(Value::Varint(value)) => *value == 0,
            Self::Wire(Value::Bytes(bytes)) => bytes.is_empty(),
            // Also minus zero, as in Go.
            Self::Wire(Value::I64(bits)) => bits << 1 == 0,
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
        let mut read = |bytes: &'de [u8]| {
            let mut at = 0;
            while at < bytes.len() {
                let (number, wire_type) = wire::read_tag(bytes, &mut at)?;
                f(number, Self::Wire(wire::read_value(bytes, &mut at, wire_type)?))?;
            }
            Ok(())
        };
        match self {
            Self::Parts(id) => {
                let parts = context.parts.borrow().get(id).cloned().unwrap_or_default();
                parts.iter().try_for_each(|part| read(part))
            }
            other => read(other.bytes()?),
        }
    }
}

/// The fields of a message that are still to be read.
#[derive(Clone, Copy)]
pub(super) enum Source<'de> {
    Wire(&'de [u8]),
    Sorted { id: usize, at: usize },
}

impl<'de> Source<'de> {
    /// The fields of that message.
    #[inline]
    pub(super) fn new(
        context: &Context<'de>,
        message: Message,
        payload: Payload<'de>,
    ) -> Result<Self, Error> {
        if context.sorts { Self::merged(context, message, payload) } else { Ok(Self::Wire(payload.bytes()?)) }
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
                    // Go's own unmarshalling of times begins afresh each time.
                    Type::Bool | Type::Int32 | Type::Int64 | Type::Double | Type::String | Type::Bytes => {
                        (*number, *last)
                    }
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
    #[inline]
    pub(super) fn peek(
        &self,
        context: &Context<'de>,
    ) -> Result<Option<(u32, Payload<'de>, Self)>, WireError> {
        match *self {
            Self::Wire([]) => Ok(None),
            Self::Wire(bytes) => {
                let mut at = 0;
                let (number, wire_type) = wire::read_tag(bytes, &mut at)?;
                let value = wire::read_value(bytes, &mut at, wire_type)?;
                let rest = bytes.get(at..).unwrap_or_default();
                Ok(Some((number, Payload::Wire(value), Self::Wire(rest))))
            }
            Self::Sorted { id, at } => Ok(context
                .entry(id, at)
                .map(|(number, payload)| (number, payload, Self::Sorted { id, at: at + 1 }))),
        }
    }

    /// The next field, if it has that number.
    #[inline]
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

    /// How many bytes are still to be read; `None` where the message was sorted.
    pub(super) fn len(&self) -> Option<usize> {
        match self {
            Self::Wire(bytes) => Some(bytes.len()),
            Self::Sorted { .. } => None,
        }
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
        Source::Sorted { id: sorted.len() - 1, at: 0 }
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
