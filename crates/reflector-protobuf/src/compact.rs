//! JSON text that is kept as it is, but for white space.

/// Appends JSON without the white space between its values: a line stays a line, and Go writes it the same.
pub(crate) fn compact(json: &str, out: &mut Vec<u8>) {
    let is_space = |byte: u8| matches!(byte, b' ' | b'\n' | b'\r' | b'\t');
    // Mostly there is none anywhere. No early end, so that it is done in vectors.
    if !json.bytes().fold(false, |any, byte| any | is_space(byte)) {
        out.extend_from_slice(json.as_bytes());
        return;
    }
    let (mut in_string, mut escaped) = (false, false);
    out.extend(json.bytes().filter(|&byte| {
        if in_string {
            (in_string, escaped) = (escaped || byte != b'"', !escaped && byte == b'\\');
            return true;
        }
        in_string = byte == b'"';
        !is_space(byte)
    }));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_white_space_between_values_goes() {
        for (json, expected) in [
            ("{}", "{}"),
            (" { \"a b\" :\t[ 1.50,\r\n2e3 ] } ", r#"{"a b":[1.50,2e3]}"#),
            (r#"["\\" , "\" ", " \\\" "]"#, r#"["\\","\" "," \\\" "]"#),
        ] {
            let mut out = b"x".to_vec();
            compact(json, &mut out);
            assert_eq!(out, format!("x{expected}").into_bytes());
        }
    }
}
