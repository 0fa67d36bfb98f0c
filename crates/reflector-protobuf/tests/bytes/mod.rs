//! Fields by hand.
#![allow(dead_code, reason = "each test uses its part")]

use reflector_protobuf::wire::{WireType, write_tag, write_varint};

pub(crate) fn int(number: u32, value: i64) -> Vec<u8> {
    let mut out = Vec::new();
    write_tag(number, WireType::Varint, &mut out);
    write_varint(value as u64, &mut out);
    out
}

pub(crate) fn bool(number: u32, value: bool) -> Vec<u8> {
    int(number, value.into())
}

pub(crate) fn double(number: u32, value: f64) -> Vec<u8> {
    let mut out = Vec::new();
    write_tag(number, WireType::I64, &mut out);
    out.extend(value.to_le_bytes());
    out
}

pub(crate) fn bytes(number: u32, value: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    write_tag(number, WireType::Bytes, &mut out);
    write_varint(value.len() as u64, &mut out);
    out.extend(value);
    out
}

pub(crate) fn text(number: u32, value: &str) -> Vec<u8> {
    bytes(number, value.as_bytes())
}

pub(crate) fn message(number: u32, fields: &[Vec<u8>]) -> Vec<u8> {
    bytes(number, &fields.concat())
}
