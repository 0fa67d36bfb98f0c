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
            Self::Fields(fields) => fields.name,
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
            Self::Fields(fields) => error.in_field(fields.name),
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
    name: &'static str,
    found: Found<'de>,
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

/// The value of the field that was named last.
#[derive(Clone, Copy)]
enum Found<'de> {
    Header(&'static str),
    Absent(&'static FieldRow),
    Present(&'static FieldRow, Payload<'de>),
}

impl<'a, 'de> Fields<'a, 'de> {
    #[inline(always)]
    #[allow(clippy::needless_pass_by_value, reason = "it is taken apart")]
    pub(super) fn new(message: Opened<'a, 'de>) -> Self {
        let Opened { context, depth, message, source, kind } = message;
        Self {
            context,
            depth,
            header: if kind.is_some() { 2 } else { 0 },
            kind,
            run: 0,
            name: "",
            found: Found::Header(""),
            frame: Frame::new(message, source),
            outer: [None; MAX_EMBEDDING],
        }
    }

    fn next(&mut self) -> Result<bool, Error> {
        if self.header > 0 {
            return Ok(self.next_of_header());
        }
        let context = self.context;
        while self.run != 0 {
            if self.frame.source.next_of(context, self.run)?.is_none() {
                self.run = 0;
            }
        }
        loop {
            let Some((number, payload, rest)) = self.frame.source.peek(context)? else {
                if self.rest_of_rows()? {
                    return Ok(true);
                }
                match self.outer.iter_mut().rev().find_map(Option::take) {
                    Some(frame) => self.frame = frame,
                    None => return Ok(false),
                }
                continue;
            };
            let mut rows = self.frame.rows.iter();
            let row = rows.find(|row| u32::from(row.number) >= number || row.is_implied());
            let row = match row {
                Some(row) if u32::from(row.number) == number => row,
                Some(row) if u32::from(row.number) < number => {
                    self.frame.rows = rows.as_slice();
                    if self.imply(row)? {
                        return Ok(true);
                    }
                    continue;
                }
                _ => {
                    self.skip(number, rest)?;
                    continue;
                }
            };
            self.frame.rows = rows.as_slice();
            self.frame.source = rest;
            if !row.is_plain() {
                if row.is_inline() {
                    self.embed(row, payload)?;
                    continue;
                }
                self.run = number;
            } else if row.omits_zero() && payload.is_zero() {
                continue;
            }
            self.name = row.name();
            self.found = Found::Present(row, payload);
            return Ok(true);
        }
    }

    #[cold]
    fn next_of_header(&mut self) -> bool {
        let Some(kind) = self.kind else { return false };
        let (name, text) = match self.header {
            2 => ("apiVersion", kind.api_version()),
            _ => ("kind", kind.kind()),
        };
        self.header -= 1;
        self.name = name;
        self.found = Found::Header(text);
        true
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
            self.embed(row, Payload::EMPTY)?;
            return Ok(false);
        }
        self.name = row.name();
        self.found = Found::Absent(row);
        Ok(true)
    }

    /// A field that is not in the table; or one that is, behind its time.
    #[cold]
    #[inline(never)]
    fn skip(&mut self, number: u32, rest: Source<'de>) -> Result<(), Error> {
        if self.frame.message.field_by_number(number).is_some() {
            return Err(self.context.give_up());
        }
        self.frame.source = rest;
        Ok(())
    }

    /// Goes on with the fields of an embedded message.
    fn embed(&mut self, row: &'static FieldRow, payload: Payload<'de>) -> Result<(), Error> {
        let message = Message::at(row.message);
        let inner = Frame::new(message, Source::new(self.context, message, payload)?);
        let outer = std::mem::replace(&mut self.frame, inner);
        // Deeper embedding is not in the table.
        let place = self.outer.iter_mut().find(|place| place.is_none()).ok_or(ErrorKind::Depth)?;
        *place = Some(outer);
        Ok(())
    }

    #[inline]
    fn value(&mut self) -> Node<'_, 'de> {
        let (context, depth) = (self.context, self.depth);
        let (row, what) = match self.found {
            Found::Present(row, payload) => {
                let number = row.number.into();
                let what = match row.shape() {
                    Shape::Single => What::One(payload),
                    Shape::List => What::List(number, payload, &mut self.frame.source),
                    Shape::Map => What::Map(number, payload, &mut self.frame.source),
                };
                (row, what)
            }
            Found::Absent(row) => (row, zero(row)),
            Found::Header(text) => {
                let (ty, message) = (Type::String, self.frame.message);
                return Node { context, depth, ty, message, what: What::Text(text) };
            }
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
fn zero<'a, 'de>(row: &FieldRow) -> What<'a, 'de> {
    if row.shape() != Shape::Single || row.is_pointer() {
        return What::Null;
    }
    What::One(match row.ty {
        Type::Bool | Type::Int32 | Type::Int64 => Payload::Varint(0),
        Type::Double => Payload::I64(0),
        Type::Bytes | Type::Strings => return What::Null,
        _ => Payload::EMPTY,
    })
}

/// The entries of a map, each a message {1 key, 2 value}.
pub(super) struct Entries<'a, 'de> {
    context: &'a Context<'de>,
    depth: u8,
    ty: Type,
    message: Message,
    number: u32,
    first: Option<Payload<'de>>,
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
        first: Payload<'de>,
        source: &'a mut Source<'de>,
    ) -> Self {
        let (key, value) = ("", Payload::EMPTY);
        Self { context, depth, ty, message, number, first: Some(first), source, key, value }
    }

    fn next(&mut self) -> Result<bool, Error> {
        let entry = match self.first.take() {
            Some(first) => first,
            None => match self.source.next_of(self.context, self.number)? {
                Some(next) => next,
                None => return Ok(false),
            },
        };
        let (mut key, mut value) = ("", Payload::EMPTY);
        entry.each(self.context, |number, payload| {
            match number {
                1 => key = payload.text()?,
                2 => value = payload,
                _ => {}
            }
            Ok(())
        })?;
        (self.key, self.value) = (key, value);
        Ok(true)
    }

    #[inline]
    fn value(&self) -> Node<'_, 'de> {
        let Self { context, depth, ty, message, .. } = *self;
        Node { context, depth, ty, message, what: What::One(self.value) }
    }
}

/// So many entries or elements follow under that number. Looks at the tags only.
pub(super) fn count<'de>(context: &Context<'de>, mut source: Source<'de>, number: u32) -> usize {
    let mut count = 0;
    while let Ok(Some(_)) = source.next_of(context, number) {
        count += 1;
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_message_is_embedded_deeper_than_there_is_room() {
        fn depth(message: Message) -> usize {
            let inner =
                message.fields().filter(|field| field.is_inline()).filter_map(crate::schema::Field::message);
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
