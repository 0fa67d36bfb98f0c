//! What Go writes for what is not there.

use super::encoder::{bytes, close, varint};
use crate::{
    schema::{FieldRow, Message, Shape, Type},
    wire::{self, WireType},
};

/// A field that is absent from its message: nothing for pointers, lists and maps, and else a zero value.
pub(super) fn field(row: &FieldRow, out: &mut Vec<u8>) {
    let absent =
        row.is_pointer() || row.shape() != Shape::Single || matches!(row.ty, Type::Bytes | Type::Strings);
    if !absent {
        value(row.number.into(), row.ty, Message::at(row.message), out);
    }
}

/// A zero value.
pub(super) fn value(number: u32, ty: Type, message: Message, out: &mut Vec<u8>) {
    match ty {
        Type::Bool | Type::Int32 | Type::Int64 => varint(number, 0, out),
        Type::Double => {
            wire::write_tag(number, WireType::I64, out);
            out.extend_from_slice(&[0; 8]);
        }
        Type::Message => {
            wire::write_tag(number, WireType::Bytes, out);
            let start = out.len();
            // No Go struct contains itself, so this ends.
            message.rows().iter().for_each(|row| field(row, out));
            close(start, out);
        }
        Type::Quantity => bytes(number, b"\x0a\x010", out),
        Type::IntOrString => bytes(number, b"\x08\x00\x10\x00\x1a\x00", out),
        Type::SchemaOrBool => bytes(number, b"\x08\x00", out),
        Type::String
        | Type::Bytes
        | Type::Time
        | Type::MicroTime
        | Type::RawExtension
        | Type::Json
        | Type::SchemaOrArray
        | Type::SchemaOrStrings
        | Type::Strings => bytes(number, b"", out),
    }
}
