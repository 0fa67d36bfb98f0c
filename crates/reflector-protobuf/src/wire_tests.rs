use super::*;

#[test]
fn varints_come_back_as_they_went() {
    for value in (0..64).flat_map(|bit| [(1u64 << bit) - 1, 1 << bit]).chain([u64::MAX]) {
        let mut bytes = Vec::new();
        write_varint(value, &mut bytes);
        assert_eq!(bytes.len(), varint_len(value), "{value}");
        let mut at = 0;
        assert_eq!(read_varint(&bytes, &mut at), Ok(value));
        assert_eq!(at, bytes.len());
        let cut = &bytes[..bytes.len() - 1];
        assert_eq!(read_varint(cut, &mut 0), Err(WireError::Truncated { offset: 0 }));
    }
}

#[test]
fn a_varint_of_more_than_64_bits_is_an_error() {
    assert_eq!(
        read_varint(b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02", &mut 0),
        Err(WireError::Overflow { offset: 0 })
    );
    assert_eq!(read_varint(&[0xff; 11], &mut 0), Err(WireError::Overflow { offset: 0 }));
}

#[test]
fn fields_end_after_an_error() {
    let cases: [(&[u8], WireError); 7] = [
        (b"\x08\x01\x12\x05ab", WireError::Truncated { offset: 3 }),
        (b"\x08\x01\x11ab", WireError::Truncated { offset: 3 }),
        (b"\x08\x01\x15ab", WireError::Truncated { offset: 3 }),
        (b"\x08\x01\x10", WireError::Truncated { offset: 3 }),
        (b"\x08\x01\x0b", WireError::WireType { wire_type: 3, offset: 2 }),
        (b"\x08\x01\x02\x00", WireError::FieldNumber { offset: 2 }),
        (b"\x08\x01\x12\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", WireError::Truncated { offset: 3 }),
    ];
    for (bytes, error) in cases {
        let mut fields = Fields::new(bytes);
        assert_eq!(fields.next(), Some(Ok(WireField { number: 1, value: Value::Varint(1), range: 0..2 })));
        assert_eq!(fields.next(), Some(Err(error)), "{bytes:?}");
        assert_eq!(fields.next(), None);
    }
}
