//! Protobuf to JSON without a value in between.

use serde_json::value::RawValue;

use super::{
    Root,
    members::Members,
    node::{Form, Leaf},
    read,
};
use crate::{Kind, compact::compact, error::Error};

/// Appends the JSON of an object to `out`, from its message (without [`Envelope`](crate::Envelope)).
///
/// The JSON is on one line, says what the server's JSON says, and its members have the order of the numbers.
///
/// ```
/// use reflector_protobuf::{Kind, to_json};
///
/// let kind = Kind::find("v1", "Namespace").ok_or("no such kind")?;
/// let mut json = Vec::new();
/// to_json(kind, b"\x0a\x07\x0a\x05shire", &mut json)?;
/// assert_eq!(json, br#"{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"shire"}}"#);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// Where the bytes are damaged; `out` is as it was then.
pub fn to_json(kind: Kind, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), Error> {
    let start = out.len();
    let result = read(bytes, Root::Object(kind), |node| {
        out.truncate(start);
        write(node.form()?, out)
    });
    if result.is_err() {
        out.truncate(start);
    }
    result
}

pub(super) fn write(form: Form<'_, '_>, out: &mut Vec<u8>) -> Result<(), Error> {
    match form {
        Form::Leaf(leaf) => match leaf {
            Leaf::Null => out.extend_from_slice(b"null"),
            Leaf::Bool(value) => out.extend_from_slice(if value { b"true" } else { b"false" }),
            Leaf::Unsigned(value) => serde_json::to_writer(out, &value)?,
            Leaf::Signed(value) => serde_json::to_writer(out, &value)?,
            Leaf::Float(value) => serde_json::to_writer(out, &value)?,
            Leaf::Text(text) => serde_json::to_writer(out, text)?,
            Leaf::Owned(text) => serde_json::to_writer(out, &text)?,
            Leaf::Time(text) => serde_json::to_writer(out, text.as_str())?,
        },
        Form::Message(message) => write_members(message.members(), out)?,
        Form::Map(entries) => write_members(Members::Entries(entries), out)?,
        Form::Elements(mut elements) => {
            out.push(b'[');
            let mut first = true;
            while let Some(element) = elements.next()? {
                if !std::mem::take(&mut first) {
                    out.push(b',');
                }
                let mut written = element.form().and_then(|form| write(form, out));
                if let Err(error) = &mut written {
                    elements.locate(error);
                }
                written?;
            }
            out.push(b']');
        }
        Form::Json(json) => {
            // Checks it, and leaves numbers as they are.
            let json: &RawValue = serde_json::from_slice(json)?;
            compact(json.get(), out);
        }
    }
    Ok(())
}

fn write_members(mut members: Members<'_, '_>, out: &mut Vec<u8>) -> Result<(), Error> {
    out.push(b'{');
    let mut first = true;
    while members.next()? {
        if !std::mem::take(&mut first) {
            out.push(b',');
        }
        serde_json::to_writer(&mut *out, members.name())?;
        out.push(b':');
        let mut written = members.value().form().and_then(|form| write(form, out));
        if let Err(error) = &mut written {
            members.locate(error);
        }
        written?;
    }
    out.push(b'}');
    Ok(())
}
