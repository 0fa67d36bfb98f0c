//! The members of a JSON object: the fields of a message, or the entries of a map.

use super::{
    node::{Node, Opened, What},
    source::{Context, Payload, Source},
};
use crate::{
    Kind,
    error::{Error, ErrorKind},
    schema::{FieldRow, Message, Shape, Type},
};

/// The members that are still to be read.
pub(super) enum Members<'a, 'de> {
    Fields(Fields<'a, 'de>),
    Entries(Entries<'a, 'de>),
}

impl<'de> Members<'_, 'de> {
    /// Goes to the next member; `false` at the end.
    #[inline]
    pub(super) fn next(&mut self) -> Result<bool, Error> {
        match self {
            Self::Fields(fields) => {
                let mut found = fields.next();
                if let Err(error) = &mut found {
                    error.shift(fields.offset());
                }
                found
            }
            Self::Entries(entries) => entries.next(),
        }
    }

    /// The name of the member.
    #[inline]
    pub(super) fn name(&self) -> &'de str {
        match self {
            Self::Fields(fields) => fields.name(),
            Self::Entries(entries) => entries.key,
        }
    }

    /// The value of the member.
    #[inline]
    pub(super) fn value(&mut self) -> Node<'_, 'de> {
        match self {
            Self::Fields(fields) => fields.value(),
            Self::Entries(entries) => entries.value(),
        }
    }

    /// Says where an error of that value was.
    #[cold]
    pub(super) fn locate(&self, error: &mut Error) {
        match self {
            Self::Fields(fields) => error.in_field(fields.name()),
            Self::Entries(entries) => error.in_key(entries.key),
        }
    }
}

/// The fields of a message. Walks bytes and table side by side, both in the order of the numbers.
pub(super) struct Fields<'a, 'de> {
    context: &'a Context<'de>,
    depth: u8,
    /// Of `apiVersion` and `kind`, which an object has first, so many are still to be given.
    header: u8,
    kind: Option<Kind>,
    /// The number of the list or map whose elements may still lie before us.
    run: u32,
    /// The field that was named last; `None` where it was `apiVersion` or `kind`.
    row: Option<&'static FieldRow>,
    /// Is it on the wire?
    present: bool,
    payload: Payload<'de>,
    frame: Frame<'de>,
    /// The messages that embed this one: their fields stand in the same object.
    outer: [Option<Frame<'de>>; MAX_EMBEDDING],
}

/// How many messages embed each other (a test looks into the table): a `Rule` in a `RuleWithOperations` in a
/// `NamedRuleWithOperations`.
const MAX_EMBEDDING: usize = 2;

#[derive(Clone, Copy)]
struct Frame<'de> {
    message: Message,
    /// Those that have not been passed.
    rows: &'static [FieldRow],
    source: Source<'de>,
    /// How many bytes there were in the beginning.
    len: usize,
}

impl<'de> Frame<'de> {
    #[inline(always)]
    fn new(message: Message, source: Source<'de>) -> Self {
        Self { message, rows: message.rows(), source, len: source.len() }
    }
}

enum Step {
    Found,
    Again,
    End,
}

impl<'a, 'de> Fields<'a, 'de> {
    #[inline(always)]
    pub(super) fn new(message: &Opened<'a, 'de>) -> Self {
        let Opened { context, depth, message, source, kind } = *message;
        Self {
            context,
            depth,
            header: if kind.is_some() { 2 } else { 0 },
            kind,
            run: 0,
            row: None,
            present: false,
            payload: Payload::EMPTY,
            frame: Frame::new(message, source),
            outer: [None; MAX_EMBEDDING],
        }
    }

    fn next(&mut self) -> Result<bool, Error> {
        if self.header > 0 {
            return Ok(self.next_of_header());
        }
        if self.run != 0 {
            self.finish_run()?;
        }
        loop {
            let step = match self.frame.source.common() {
                Some((number, payload, rest)) => self.step(number, payload, rest)?,
                None => self.uncommon()?,
            };
            match step {
                Step::Found => return Ok(true),
                Step::Again => {}
                Step::End => return Ok(false),
            }
        }
    }

    /// Passes the elements that nobody wanted.
    fn finish_run(&mut self) -> Result<(), Error> {
        while self.frame.source.next_of(self.context, self.run, &mut self.payload)? {}
        self.run = 0;
        Ok(())
    }

    /// No bytes are left, or the next field has a rarer form.
    #[inline(never)]
    fn uncommon(&mut self) -> Result<Step, Error> {
        if let Some((number, payload, rest)) = self.frame.source.peek(self.context)? {
            return self.step(number, payload, rest);
        }
        if self.rest_of_rows()? {
            return Ok(Step::Found);
        }
        match self.outer.iter_mut().rev().find_map(Option::take) {
            Some(frame) => {
                self.frame = frame;
                Ok(Step::Again)
            }
            None => Ok(Step::End),
        }
    }

    /// Deals with the next field, or with one before it that is not there.
    #[inline(always)]
    fn step(&mut self, number: u32, payload: Payload<'de>, rest: &'de [u8]) -> Result<Step, Error> {
        let mut rows = self.frame.rows.iter();
        let row = rows.find(|row| u32::from(row.number) >= number || row.is_implied());
        let row = match row {
            Some(row) if u32::from(row.number) == number => row,
            Some(row) if u32::from(row.number) < number => {
                self.frame.rows = rows.as_slice();
                return Ok(if self.imply(row)? { Step::Found } else { Step::Again });
            }
            _ => {
                self.skip(number, rest)?;
                return Ok(Step::Again);
            }
        };
        self.frame.rows = rows.as_slice();
        self.frame.source.advance(rest);
        self.payload = payload;
        if !row.is_plain() {
            if row.is_inline() {
                self.embed(row)?;
                return Ok(Step::Again);
            }
            self.run = number;
        } else if row.omits_zero() && payload.is_zero() {
            return Ok(Step::Again);
        }
        self.row = Some(row);
        self.present = true;
        Ok(Step::Found)
    }

    #[inline]
    fn name(&self) -> &'static str {
        self.row.map_or_else(|| self.header().0, FieldRow::name)
    }

    #[cold]
    fn next_of_header(&mut self) -> bool {
        self.header -= 1;
        true
    }

    /// Name and value of `apiVersion`, and then of `kind`.
    #[cold]
    fn header(&self) -> (&'static str, &'static str) {
        match (self.kind, self.header) {
            (Some(kind), 1) => ("apiVersion", kind.api_version()),
            (Some(kind), _) => ("kind", kind.kind()),
            (None, _) => ("", ""),
        }
    }

    /// No bytes are left: is there something that JSON has nevertheless?
    fn rest_of_rows(&mut self) -> Result<bool, Error> {
        let mut rows = self.frame.rows.iter();
        let Some(row) = rows.find(|row| row.is_implied()) else { return Ok(false) };
        self.frame.rows = rows.as_slice();
        // What is embedded may have something, and then the message that is left for it.
        if self.imply(row)? { Ok(true) } else { self.rest_of_rows() }
    }

    /// A field that is not on the wire is in JSON: itself, which `true` says, or what it embeds.
    fn imply(&mut self, row: &'static FieldRow) -> Result<bool, Error> {
        if row.is_inline() {
            self.payload = Payload::EMPTY;
            self.embed(row)?;
            return Ok(false);
        }
        self.row = Some(row);
        self.present = false;
        Ok(true)
    }

    /// A field that is not in the table; or one that is, behind its time.
    #[cold]
    #[inline(never)]
    fn skip(&mut self, number: u32, rest: &'de [u8]) -> Result<(), Error> {
        if self.frame.message.field_by_number(number).is_some() {
            return Err(self.context.give_up());
        }
        self.frame.source.advance(rest);
        Ok(())
    }

    /// Goes on with the fields of an embedded message, which the payload is.
    fn embed(&mut self, row: &'static FieldRow) -> Result<(), Error> {
        let message = Message::at(row.message);
        let inner = Frame::new(message, Source::new(self.context, message, &self.payload)?);
        let outer = std::mem::replace(&mut self.frame, inner);
        // Deeper embedding is not in the table.
        let place = self.outer.iter_mut().find(|place| place.is_none()).ok_or(ErrorKind::Depth)?;
        *place = Some(outer);
        Ok(())
    }

    #[inline]
    fn value(&mut self) -> Node<'_, 'de> {
        let (context, depth) = (self.context, self.depth);
        let Some(row) = self.row else {
            let what = What::Text(self.header().1);
            return Node { context, depth, ty: Type::String, message: self.frame.message, what };
        };
        let number = row.number.into();
        let what = match row.shape() {
            _ if !self.present => absent(row),
            Shape::Single => What::One(&self.payload),
            Shape::List => What::List(number, &self.payload, &mut self.frame.source),
            Shape::Map => What::Map(number, &self.payload, &mut self.frame.source),
        };
        Node { context, depth, ty: row.ty, message: Message::at(row.message), what }
    }

    /// How far the message has been read.
    #[cold]
    fn offset(&self) -> usize {
        self.frame.len - self.frame.source.len()
    }
}

/// What JSON has for a field that is not on the wire: Go's zero value.
fn absent<'a, 'de>(row: &FieldRow) -> What<'a, 'de> {
    if row.shape() != Shape::Single || row.is_pointer() {
        return What::Null;
    }
    What::One(match row.ty {
        Type::Bool | Type::Int32 | Type::Int64 => &Payload::ZERO,
        Type::Double => &Payload::ZERO_DOUBLE,
        Type::Bytes | Type::Strings => return What::Null,
        _ => &Payload::EMPTY,
    })
}

/// The entries of a map, each a message {1 key, 2 value}.
pub(super) struct Entries<'a, 'de> {
    context: &'a Context<'de>,
    depth: u8,
    ty: Type,
    message: Message,
    number: u32,
    first: Option<&'a Payload<'de>>,
    source: &'a mut Source<'de>,
    key: &'de str,
    value: Payload<'de>,
}

impl<'a, 'de> Entries<'a, 'de> {
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
        let (key, value) = ("", Payload::EMPTY);
        Self { context, depth, ty, message, number, first: Some(first), source, key, value }
    }

    fn next(&mut self) -> Result<bool, Error> {
        let mut next = Payload::EMPTY;
        let entry = match self.first.take() {
            Some(first) => first,
            None if self.source.next_of(self.context, self.number, &mut next)? => &next,
            None => return Ok(false),
        };
        let mut key = &[][..];
        self.value = Payload::EMPTY;
        entry.each(self.context, |number, payload| {
            match number {
                1 => key = payload.bytes()?,
                2 => self.value = payload,
                _ => {}
            }
            Ok(())
        })?;
        self.key = std::str::from_utf8(key)?;
        Ok(true)
    }

    #[inline]
    fn value(&self) -> Node<'_, 'de> {
        let Self { context, depth, ty, message, .. } = *self;
        Node { context, depth, ty, message, what: What::One(&self.value) }
    }
}

/// So many entries or elements follow under that number. Looks at the tags only.
pub(super) fn count<'de>(context: &Context<'de>, mut source: Source<'de>, number: u32) -> usize {
    let mut count = 0;
    let mut payload = Payload::EMPTY;
    while let Ok(true) = source.next_of(context, number, &mut payload) {
        count += 1;
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Field;

    #[test]
    fn no_message_is_embedded_deeper_than_there_is_room() {
        fn depth(message: Message) -> usize {
            let inner = message.fields().filter(|field| field.is_inline()).filter_map(Field::message);
            inner.map(|inner| depth(inner) + 1).max().unwrap_or(0)
        }
        assert_eq!(Message::all().map(depth).max(), Some(MAX_EMBEDDING));
    }

    /// A map of scalars that are no strings would need another zero than empty bytes for an entry without a value.
    #[test]
    fn the_values_of_maps_are_strings_or_messages() {
        let maps = Message::all().flat_map(Message::fields).filter(|field| field.shape() == Shape::Map);
        for field in maps {
            assert!(
                !matches!(field.ty(), Type::Bool | Type::Int32 | Type::Int64 | Type::Double),
                "{field:?}"
            );
        }
    }
}
