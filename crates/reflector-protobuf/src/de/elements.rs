//! The elements of a JSON list.

use super::{
    members::count,
    node::{Node, What},
    source::{Context, Payload, Source},
};
use crate::{
    error::Error,
    schema::{Message, Type},
    wire::{self, WireType},
};

/// The elements that are still to be read.
pub(super) struct Elements<'a, 'de> {
    context: &'a Context<'de>,
    depth: u8,
    ty: Type,
    message: Message,
    number: u32,
    first: Option<&'a Payload<'de>>,
    current: Payload<'de>,
    source: Origin<'a, 'de>,
    /// What is left of several numbers in one field.
    packed: &'de [u8],
    /// Of the next element.
    index: usize,
}

enum Origin<'a, 'de> {
    /// The fields of the message around the list.
    Outer(&'a mut Source<'de>),
    Own(Source<'de>),
}

impl<'a, 'de> Elements<'a, 'de> {
    /// A field of a message, of which the first element has been read.
    #[inline]
    pub(super) fn new(
        context: &'a Context<'de>,
        depth: u8,
        ty: Type,
        message: Message,
        number: u32,
        first: &'a Payload<'de>,
        source: &'a mut Source<'de>,
    ) -> Self {
        let (first, source) = (Some(first), Origin::Outer(source));
        Self {
            context,
            depth,
            ty,
            message,
            number,
            first,
            current: Payload::EMPTY,
            source,
            packed: &[],
            index: 0,
        }
    }

    /// All fields of that number from a source of its own.
    pub(super) fn owned(
        context: &'a Context<'de>,
        depth: u8,
        ty: Type,
        message: Message,
        number: u32,
        source: Source<'de>,
    ) -> Self {
        Self {
            context,
            depth,
            ty,
            message,
            number,
            first: None,
            current: Payload::EMPTY,
            source: Origin::Own(source),
            packed: &[],
            index: 0,
        }
    }

    /// The next element; `None` at the end.
    #[inline]
    pub(super) fn next(&mut self) -> Result<Option<Node<'_, 'de>>, Error> {
        let mut found = self.step();
        if let Err(error) = &mut found {
            error.in_element(self.index);
        }
        if !found? {
            return Ok(None);
        }
        self.index += 1;
        let Self { context, depth, ty, message, .. } = *self;
        Ok(Some(Node { context, depth, ty, message, what: What::One(&self.current) }))
    }

    fn step(&mut self) -> Result<bool, Error> {
        loop {
            if !self.packed.is_empty() {
                self.current = self.next_packed()?;
                return Ok(true);
            }
            match self.first.take() {
                Some(first) => self.current = *first,
                None => {
                    let source = match &mut self.source {
                        Origin::Outer(source) => &mut **source,
                        Origin::Own(source) => source,
                    };
                    if !source.next_of(self.context, self.number, &mut self.current)? {
                        return Ok(false);
                    }
                }
            }
            match (self.ty, self.current.whole()) {
                // Numbers may be packed: Go does not write them so, but reads them.
                (Type::Bool | Type::Int32 | Type::Int64 | Type::Double, Some(bytes)) => self.packed = bytes,
                _ => return Ok(true),
            }
        }
    }

    #[cold]
    fn next_packed(&mut self) -> Result<Payload<'de>, Error> {
        let mut at = 0;
        let wire_type = if self.ty == Type::Double { WireType::I64 } else { WireType::Varint };
        let value = wire::read_value(self.packed, &mut at, wire_type)?;
        self.packed = self.packed.get(at..).unwrap_or_default();
        Ok(value.into())
    }

    /// Says where an error of the element that was read last was.
    #[cold]
    pub(super) fn locate(&self, error: &mut Error) {
        error.in_element(self.index.saturating_sub(1));
    }

    /// How many elements are left, unless they are packed.
    pub(super) fn size_hint(&self) -> usize {
        let source = match &self.source {
            Origin::Outer(source) => **source,
            Origin::Own(source) => *source,
        };
        usize::from(self.first.is_some()) + count(self.context, source, self.number)
    }
}
