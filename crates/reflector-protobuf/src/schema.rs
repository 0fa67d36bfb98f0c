//! What the messages look like: which number carries which JSON field, and of which type.
//!
//! The facts are those of Kubernetes 1.36. They stand in one constant table of some 50 KB, which the example
//! `generate_table` writes: nothing is built at start-up.

use std::fmt;

mod table;

pub(crate) use table::FieldRow;
use table::{KindRow, MessageRow};

/// An `apiVersion` and `kind` that have a protobuf form.
///
/// Lists (`PodList`), `Status`, `PartialObjectMetadata` and its list are among them. Custom resources and `Table` are
/// not: a server has no protobuf for them.
///
/// ```
/// # use reflector_protobuf::Kind;
/// let kind = Kind::find("apps/v1", "Deployment").expect("a built-in kind");
/// assert_eq!((kind.api_version(), kind.kind()), ("apps/v1", "Deployment"));
/// assert_eq!(Kind::find("example.com/v1", "Gadget"), None);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Kind(u16);

impl Kind {
    /// The kind of that name. Costs a binary search over some 330 names.
    pub fn find(api_version: &str, kind: &str) -> Option<Self> {
        let found = table::KINDS
            .binary_search_by(|row| (row.api_version(), row.kind()).cmp(&(api_version, kind)))
            .ok()?;
        u16::try_from(found).ok().map(Self)
    }

    /// Every kind, ordered by `apiVersion` and `kind`.
    pub fn all() -> impl ExactSizeIterator<Item = Self> {
        (0..table::KINDS.len() as u16).map(Self)
    }

    fn row(self) -> &'static KindRow {
        &table::KINDS[usize::from(self.0)]
    }

    /// As it stands in an object: `v1`, `apps/v1`.
    pub fn api_version(self) -> &'static str {
        self.row().api_version()
    }

    /// As it stands in an object: `Pod`, `PodList`.
    pub fn kind(self) -> &'static str {
        self.row().kind()
    }

    /// What its objects are on the wire.
    pub fn message(self) -> Message {
        Message(self.row().message)
    }
}

impl fmt::Debug for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Kind({} {})", self.api_version(), self.kind())
    }
}

/// A message: the protobuf form of one Go struct.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Message(u16);

impl Message {
    /// The message of that name, without the prefix `k8s.io.` and with the source's folders: `api.core.v1.PodSpec`.
    pub fn find(name: &str) -> Option<Self> {
        let found = table::MESSAGES.binary_search_by(|row| row.name().cmp(name)).ok()?;
        u16::try_from(found).ok().map(Self)
    }

    /// Every message that an object of a [`Kind`] can contain, and `WatchEvent`, ordered by name.
    pub fn all() -> impl ExactSizeIterator<Item = Self> {
        (0..table::MESSAGES.len() as u16).map(Self)
    }

    /// The one that a row of the table names.
    #[inline]
    pub(crate) fn at(index: u16) -> Self {
        Self(index)
    }

    fn row(self) -> &'static MessageRow {
        &table::MESSAGES[usize::from(self.0)]
    }

    /// See [`Message::find`].
    pub fn name(self) -> &'static str {
        self.row().name()
    }

    pub(crate) fn rows(self) -> &'static [FieldRow] {
        self.row().fields()
    }

    /// Its fields, ordered by number.
    pub fn fields(self) -> impl ExactSizeIterator<Item = Field> + Clone {
        self.rows().iter().map(Field)
    }

    /// The field of that number: mostly one look, since the numbers of most messages have no gaps.
    pub fn field_by_number(self, number: u32) -> Option<Field> {
        let rows = self.rows();
        let number = u8::try_from(number).ok()?;
        match rows.get(usize::from(number).wrapping_sub(1)) {
            Some(row) if row.number == number => Some(Field(row)),
            _ => rows.binary_search_by_key(&number, |row| row.number).ok().map(|at| Field(&rows[at])),
        }
    }

    /// The field that has this name in JSON; not one of an embedded message ([`Field::is_inline`]).
    pub fn field_by_json_name(self, name: &str) -> Option<Field> {
        self.rows().iter().find(|row| !row.is_inline() && row.name() == name).map(Field)
    }
}

impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Message({})", self.name())
    }
}

/// One field of a message.
#[derive(Clone, Copy)]
pub struct Field(&'static FieldRow);

impl Field {
    /// The number on the wire, from 1.
    pub fn number(self) -> u32 {
        self.0.number.into()
    }

    /// The name in JSON; empty for an embedded message ([`Field::is_inline`]).
    pub fn json_name(self) -> &'static str {
        self.0.name()
    }

    /// The type of a single value: of an element where [`Field::shape`] is a list, of a value where it is a map.
    pub fn ty(self) -> Type {
        self.0.ty
    }

    /// The message that [`Type::Message`] stands for; `None` for other types.
    pub fn message(self) -> Option<Message> {
        (self.0.ty == Type::Message).then_some(Message(self.0.message))
    }

    /// How many values there can be.
    pub fn shape(self) -> Shape {
        self.0.shape()
    }

    /// Is it a pointer in Go? A zero value on the wire is an explicit one then.
    pub fn is_pointer(self) -> bool {
        self.0.is_pointer()
    }

    /// Does JSON leave out a zero value? (Not for a struct that is no pointer: Go always writes those.)
    pub fn is_omitempty(self) -> bool {
        self.0.is_omitempty()
    }

    /// Does JSON leave it out where the struct is zero? (`omitzero` in Go: `creationTimestamp` alone.)
    pub fn is_omitzero(self) -> bool {
        self.0.is_omitzero()
    }

    /// Do the fields of this message stand in its parent in JSON?
    pub fn is_inline(self) -> bool {
        self.0.is_inline()
    }
}

impl fmt::Debug for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Field")
            .field("number", &self.number())
            .field("json_name", &self.json_name())
            .field("ty", &self.ty())
            .field("message", &self.message())
            .field("shape", &self.shape())
            .field("pointer", &self.is_pointer())
            .field("omitempty", &self.is_omitempty())
            .field("inline", &self.is_inline())
            .finish()
    }
}

/// How many values a field has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Shape {
    /// One or none.
    Single,
    /// One occurrence on the wire for each element.
    List,
    /// One entry message {1 key, 2 value} on the wire for each; the keys are strings.
    Map,
}

/// The type of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Type {
    /// A varint, 0 or 1.
    Bool,
    /// A varint, sign-extended to 64 bits.
    Int32,
    /// A varint.
    Int64,
    /// Eight bytes, little-endian.
    Double,
    /// UTF-8.
    String,
    /// Base64 in JSON.
    Bytes,
    /// See [`Field::message`].
    Message,
    /// `meta/v1.Time`: {1 seconds, 2 nanoseconds}; RFC 3339 with whole seconds in JSON, null where the message is empty.
    Time,
    /// `meta/v1.MicroTime`: the same with six decimals.
    MicroTime,
    /// `resource.Quantity`: {1 string}; a string in JSON.
    Quantity,
    /// `intstr.IntOrString`: {1: 0 for a number or 1 for a string, 2 number, 3 string}.
    IntOrString,
    /// `runtime.RawExtension`: {1 bytes}, which are JSON or an object in its [`Envelope`](crate::Envelope).
    RawExtension,
    /// `apiextensions/v1.JSON` and `meta/v1.FieldsV1`: {1 bytes of JSON}.
    Json,
    /// `JSONSchemaPropsOrArray`: {1 schema, 2 list of schemas}.
    SchemaOrArray,
    /// `JSONSchemaPropsOrBool`: {1 bool, 2 schema}.
    SchemaOrBool,
    /// `JSONSchemaPropsOrStringArray`: {1 schema, 2 list of strings}.
    SchemaOrStrings,
    /// A Go type that is a list of strings: {1 repeated string}; a list in JSON.
    Strings,
}

#[cfg(test)]
#[path = "schema/schema_tests.rs"]
mod tests;
