//! The table: rows of eight bytes, and one string with all names.

use super::{Shape, Type, Type::*};

include!("table.in");

// The flags of a field, as the generated rows name them.
const P: u8 = 1;
const O: u8 = 2;
const I: u8 = 4;
const Z: u8 = 32;
const S: u8 = 0;
const L: u8 = 8;
const M: u8 = 16;

pub(crate) struct FieldRow {
    name_at: u16,
    name_len: u8,
    pub(crate) number: u8,
    pub(crate) ty: Type,
    flags: u8,
    /// An index into `MESSAGES` where the type is `Message`.
    pub(crate) message: u16,
}

impl FieldRow {
    #[inline]
    pub(crate) fn name(&self) -> &'static str {
        name(self.name_at.into(), self.name_len)
    }

    #[inline]
    pub(crate) fn is_pointer(&self) -> bool {
        self.flags & P != 0
    }

    #[inline]
    pub(crate) fn is_omitempty(&self) -> bool {
        self.flags & O != 0
    }

    #[inline]
    pub(crate) fn is_omitzero(&self) -> bool {
        self.flags & Z != 0
    }

    #[inline]
    pub(crate) fn is_inline(&self) -> bool {
        self.flags & I != 0
    }

    /// Is it, or may a field that it embeds be, in JSON also where it is not on the wire?
    #[inline]
    pub(crate) fn is_implied(&self) -> bool {
        self.flags & O == 0
    }

    /// Is it one value and not embedded?
    #[inline]
    pub(crate) fn is_plain(&self) -> bool {
        self.flags & (I | L | M) == 0
    }

    /// Does JSON leave it out where the wire has a zero value?
    #[inline]
    pub(crate) fn omits_zero(&self) -> bool {
        self.is_omitzero() || (self.flags & (P | O | L | M) == O && self.ty as u8 <= Type::Bytes as u8)
    }

    #[inline]
    pub(crate) fn shape(&self) -> Shape {
        match self.flags & (L | M) {
            L => Shape::List,
            M => Shape::Map,
            _ => Shape::Single,
        }
    }
}

pub(super) struct MessageRow {
    name_at: u32,
    name_len: u8,
    first: u16,
    count: u8,
}

impl MessageRow {
    pub(super) fn name(&self) -> &'static str {
        name(self.name_at, self.name_len)
    }

    #[inline]
    pub(super) fn fields(&self) -> &'static [FieldRow] {
        let first = usize::from(self.first);
        &FIELDS[first..first + usize::from(self.count)]
    }
}

pub(super) struct KindRow {
    api_version_at: u32,
    api_version_len: u8,
    kind_at: u32,
    kind_len: u8,
    pub(super) message: u16,
}

impl KindRow {
    pub(super) fn api_version(&self) -> &'static str {
        name(self.api_version_at, self.api_version_len)
    }

    pub(super) fn kind(&self) -> &'static str {
        name(self.kind_at, self.kind_len)
    }
}

#[inline]
fn name(at: u32, len: u8) -> &'static str {
    let at = at as usize;
    &NAMES[at..at + usize::from(len)]
}

const fn f(name_at: u16, name_len: u8, number: u8, ty: Type, flags: u8, message: u16) -> FieldRow {
    FieldRow { name_at, name_len, number, ty, flags, message }
}

const fn m(name_at: u32, name_len: u8, first: u16, count: u8) -> MessageRow {
    MessageRow { name_at, name_len, first, count }
}

const fn k(api_version_at: u32, api_version_len: u8, kind_at: u32, kind_len: u8, message: u16) -> KindRow {
    KindRow { api_version_at, api_version_len, kind_at, kind_len, message }
}
