//! JSON as Go writes it: compact, with `<`, `>`, `&` and U+2028/9 escaped, or indented by two blanks.

use std::io;

use serde::Serialize;
use serde_json::{Map, Value, ser::Formatter};

/// A JSON object.
pub(super) type Object = Map<String, Value>;

/// Serializes compactly, without a trailing newline.
pub(super) fn to_vec(value: &impl Serialize) -> Vec<u8> {
    let mut out = Vec::with_capacity(128);
    write(&mut out, value);
    out
}

/// Appends `value` compactly.
pub(super) fn write(out: &mut Vec<u8>, value: &impl Serialize) {
    let start = out.len();
    let mut serializer = serde_json::Serializer::with_formatter(&mut *out, GoFormatter);
    // Values made of maps with text keys cannot fail to serialize, and a Vec takes all bytes.
    if value.serialize(&mut serializer).is_err() {
        out.truncate(start);
        out.extend_from_slice(b"null");
    }
}

/// Appends `text` as a JSON string.
pub(super) fn write_str(out: &mut Vec<u8>, text: &str) {
    write(out, &text);
}

/// The escapes of Go's `encoding/json` with HTML escaping on, which kube-apiserver uses.
struct GoFormatter;

impl Formatter for GoFormatter {
    fn write_string_fragment<W: ?Sized + io::Write>(
        &mut self,
        writer: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        let bytes = fragment.as_bytes();
        // U+2028 and U+2029 begin with 0xE2.
        if memchr::memchr3(b'<', b'>', b'&', bytes).is_none() && memchr::memchr(0xE2, bytes).is_none() {
            return writer.write_all(bytes);
        }
        let mut rest = fragment;
        while let Some(at) = rest.find(['<', '>', '&', '\u{2028}', '\u{2029}']) {
            let (plain, special) = rest.split_at(at);
            writer.write_all(plain.as_bytes())?;
            let Some(c) = special.chars().next() else {
                break;
            };
            write!(writer, "\\u{:04x}", u32::from(c))?;
            rest = &special[c.len_utf8()..];
        }
        writer.write_all(rest.as_bytes())
    }
}

/// Indents compact JSON as it streams by, like Go's `json.Indent` with two blanks: a 200,000-item list is
/// never held for the sake of its looks.
#[derive(Debug, Default)]
pub(super) struct Indenter {
    depth: usize,
    in_string: bool,
    escaped: bool,
    /// An object or array has been opened and is still empty.
    opened: bool,
}

impl Indenter {
    /// Takes the next piece of compact JSON, cut anywhere.
    pub(super) fn push(&mut self, input: &[u8], out: &mut Vec<u8>) {
        for &byte in input {
            if self.in_string {
                out.push(byte);
                match byte {
                    _ if self.escaped => self.escaped = false,
                    b'\\' => self.escaped = true,
                    b'"' => self.in_string = false,
                    _ => {}
                }
                continue;
            }
            match byte {
                b' ' | b'\n' | b'\r' | b'\t' => {}
                b'{' | b'[' => {
                    self.first_element(out);
                    out.push(byte);
                    self.depth += 1;
                    self.opened = true;
                }
                b'}' | b']' => {
                    self.depth = self.depth.saturating_sub(1);
                    if !std::mem::take(&mut self.opened) {
                        self.newline(out);
                    }
                    out.push(byte);
                }
                b',' => {
                    out.push(byte);
                    self.newline(out);
                }
                b':' => out.extend_from_slice(b": "),
                _ => {
                    self.first_element(out);
                    self.in_string = byte == b'"';
                    out.push(byte);
                }
            }
        }
    }

    fn first_element(&mut self, out: &mut Vec<u8>) {
        if std::mem::take(&mut self.opened) {
            self.newline(out);
        }
    }

    fn newline(&self, out: &mut Vec<u8>) {
        out.push(b'\n');
        out.resize(out.len() + 2 * self.depth, b' ');
    }
}

/// The member at a dotted path.
pub(super) fn at<'a>(value: &'a Value, path: &[&str]) -> Option<&'a Value> {
    path.iter().try_fold(value, |v, name| v.get(name))
}

/// The text at a path, or "".
pub(super) fn text_at<'a>(value: &'a Value, path: &[&str]) -> &'a str {
    at(value, path).and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn html_characters_are_escaped() {
        let out = to_vec(&json!({"a<": "x & \u{2028}y\u{20ac}>\"\n"}));
        assert_eq!(String::from_utf8(out).unwrap(), r#"{"a\u003c":"x \u0026 \u2028y€\u003e\"\n"}"#);
    }

    #[test]
    fn indenting_agrees_with_serde_json_at_every_cut() {
        let value =
            json!({"a": [], "b": {}, "c": [1, {"d": "x\"{[,:\\"}], "e": {"f": null}, "g": [[], [2, 3]]});
        let compact = to_vec(&value);
        for cut in 0..=compact.len() {
            let mut indenter = Indenter::default();
            let mut out = Vec::new();
            indenter.push(&compact[..cut], &mut out);
            indenter.push(&compact[cut..], &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), serde_json::to_string_pretty(&value).unwrap());
        }
    }
}
