//! Protobuf as it is on the wire: varints and fields, without knowing what they mean.
//!
//! ```
//! use reflector_protobuf::wire::{Fields, Value, WireError};
//!
//! let bytes = [0x08, 0x96, 0x01, 0x12, 0x02, b'h', b'i'];
//! let fields = Fields::new(&bytes).map(|field| field.map(|f| (f.number, f.value))).collect::<Result<Vec<_>, _>>()?;
//! assert_eq!(fields, [(1, Value::Varint(150)), (2, Value::Bytes(b"hi"))]);
//! # Ok::<(), WireError>(())
//! ```

use std::ops::Range;

/// Bytes that are not protobuf. The offset is that of the tag or the value that was begun there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WireError {
    /// They end in the middle of a field.
    #[error("the bytes end within the field at offset {offset}")]
    Truncated {
        /// From the start of the bytes that were given.
        offset: usize,
    },
    /// A number that does not fit into 64 bits.
    #[error("a varint of more than 64 bits at offset {offset}")]
    Overflow {
        /// From the start of the bytes that were given.
        offset: usize,
    },
    /// Field number 0, or one beyond 2^29 - 1.
    #[error("a field number out of range at offset {offset}")]
    FieldNumber {
        /// From the start of the bytes that were given.
        offset: usize,
    },
    /// A wire type that does not exist, or one of the groups that protobuf has given up.
    #[error("wire type {wire_type} at offset {offset}")]
    WireType {
        /// The lowest three bits of the tag.
        wire_type: u8,
        /// From the start of the bytes that were given.
        offset: usize,
    },
}

impl WireError {
    /// Where the field or varint was begun that cannot be read.
    #[must_use]
    pub fn offset(&self) -> usize {
        match self {
            Self::Truncated { offset }
            | Self::Overflow { offset }
            | Self::FieldNumber { offset }
            | Self::WireType { offset, .. } => *offset,
        }
    }

    /// The same, for bytes that lie `by` further inside of others.
    #[must_use]
    pub fn shifted(mut self, by: usize) -> Self {
        let (Self::Truncated { offset }
        | Self::Overflow { offset }
        | Self::FieldNumber { offset }
        | Self::WireType { offset, .. }) = &mut self;
        *offset += by;
        self
    }
}

/// How the value of a field is encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum WireType {
    /// A varint.
    Varint = 0,
    /// Eight bytes.
    I64 = 1,
    /// A length and that many bytes.
    Bytes = 2,
    /// Four bytes.
    I32 = 5,
}

/// The value of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Value<'a> {
    /// A varint.
    Varint(u64),
    /// Eight bytes, little-endian.
    I64(u64),
    /// A string, bytes, or a message.
    Bytes(&'a [u8]),
    /// Four bytes, little-endian.
    I32(u32),
}

impl Value<'_> {
    /// How it was encoded.
    pub fn wire_type(&self) -> WireType {
        match self {
            Self::Varint(_) => WireType::Varint,
            Self::I64(_) => WireType::I64,
            Self::Bytes(_) => WireType::Bytes,
            Self::I32(_) => WireType::I32,
        }
    }
}

/// One field as [`Fields`] finds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WireField<'a> {
    /// 1 to 2^29 - 1.
    pub number: u32,
    /// Its value.
    pub value: Value<'a>,
    /// Where tag and value lie in the bytes of the message.
    pub range: Range<usize>,
}

/// Reads one varint at `*at` and moves `*at` behind it.
///
/// # Errors
/// [`WireError::Truncated`] and [`WireError::Overflow`]; `*at` stays where it was.
#[inline]
pub fn read_varint(bytes: &[u8], at: &mut usize) -> Result<u64, WireError> {
    match bytes.get(*at) {
        Some(&byte) if byte < 0x80 => {
            *at += 1;
            Ok(byte.into())
        }
        _ => read_long_varint(bytes, at),
    }
}

fn read_long_varint(bytes: &[u8], at: &mut usize) -> Result<u64, WireError> {
    let offset = *at;
    let mut value = 0;
    for (i, &byte) in bytes.get(offset..).unwrap_or_default().iter().take(10).enumerate() {
        let bits = u64::from(byte & 0x7f);
        // The tenth byte holds the last bit.
        if i == 9 && byte > 1 {
            return Err(WireError::Overflow { offset });
        }
        value |= bits << (7 * i);
        if byte < 0x80 {
            *at = offset + i + 1;
            return Ok(value);
        }
    }
    Err(WireError::Truncated { offset })
}

/// Appends a varint: 1 to 10 bytes.
#[inline]
pub fn write_varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// How many bytes [`write_varint`] appends.
#[inline]
pub fn varint_len(value: u64) -> usize {
    (64 - (value | 1).leading_zeros() as usize).div_ceil(7)
}

/// Appends the tag of a field.
#[inline]
pub fn write_tag(number: u32, wire_type: WireType, out: &mut Vec<u8>) {
    write_varint(u64::from(number) << 3 | wire_type as u64, out);
}

/// Reads the tag at `*at`: number and wire type.
///
/// # Errors
/// Where there is none; `*at` is undefined then.
#[inline]
pub fn read_tag(bytes: &[u8], at: &mut usize) -> Result<(u32, WireType), WireError> {
    let offset = *at;
    let tag = read_varint(bytes, at)?;
    let wire_type = match tag & 7 {
        0 => WireType::Varint,
        1 => WireType::I64,
        2 => WireType::Bytes,
        5 => WireType::I32,
        other => return Err(WireError::WireType { wire_type: other as u8, offset }),
    };
    match tag >> 3 {
        number @ 1..=0x1fff_ffff => Ok((number as u32, wire_type)),
        _ => Err(WireError::FieldNumber { offset }),
    }
}

/// Reads the value of that type at `*at`, and moves `*at` behind it.
///
/// # Errors
/// Where it is cut; `*at` is undefined then.
#[inline]
pub fn read_value<'a>(bytes: &'a [u8], at: &mut usize, wire_type: WireType) -> Result<Value<'a>, WireError> {
    let offset = *at;
    Ok(match wire_type {
        WireType::Varint => Value::Varint(read_varint(bytes, at)?),
        WireType::Bytes => {
            let len = read_varint(bytes, at)?;
            let len = usize::try_from(len).map_err(|_| WireError::Truncated { offset })?;
            Value::Bytes(take(bytes, at, len).ok_or(WireError::Truncated { offset })?)
        }
        WireType::I64 => Value::I64(u64::from_le_bytes(array(bytes, at, offset)?)),
        WireType::I32 => Value::I32(u32::from_le_bytes(array(bytes, at, offset)?)),
    })
}

fn array<const N: usize>(bytes: &[u8], at: &mut usize, offset: usize) -> Result<[u8; N], WireError> {
    take(bytes, at, N).and_then(|found| found.try_into().ok()).ok_or(WireError::Truncated { offset })
}

#[inline]
fn take<'a>(bytes: &'a [u8], at: &mut usize, len: usize) -> Option<&'a [u8]> {
    let found = bytes.get(*at..)?.get(..len)?;
    *at += len;
    Some(found)
}

/// The fields of a message in the order of the wire. Ends after the first error.
#[derive(Debug, Clone)]
pub struct Fields<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Fields<'a> {
    /// Over the bytes of one message.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// Where the next field begins.
    pub fn offset(&self) -> usize {
        self.at
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<WireField<'a>, WireError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let start = self.at;
        if start == self.bytes.len() {
            return None;
        }
        let field = read_tag(self.bytes, &mut self.at).and_then(|(number, wire_type)| {
            let value = read_value(self.bytes, &mut self.at, wire_type)?;
            Ok(WireField { number, value, range: start..self.at })
        });
        if field.is_err() {
            self.at = self.bytes.len();
        }
        Some(field)
    }
}

#[cfg(test)]
#[path = "wire_tests.rs"]
mod tests;
