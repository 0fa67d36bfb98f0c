//! Finds one value of an object, without decoding the others.

use std::{borrow::Cow, collections::HashMap};

use serde_json::value::RawValue;

use super::{
    Root,
    members::Members,
    node::{Form, Leaf},
    read,
};
use crate::{Kind, error::Error};

/// What a path leads to, see [`find`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Found<'a> {
    /// A string; or a number, boolean or time as its JSON writes it.
    Text(Cow<'a, str>),
    /// An object or a list.
    Other,
}

/// Finds the value at a path of JSON names in an object's message (without [`Envelope`](crate::Envelope)), as a field
/// selector compares it. `None` where JSON has nothing there, or null.
///
/// Of a message on the way only tags and lengths are read. Strings are borrowed. There are no paths into lists.
///
/// ```
/// use reflector_protobuf::{Found, Kind, find, from_json};
///
/// let kind = Kind::find("v1", "Pod").ok_or("no such kind")?;
/// let pod = from_json(kind, br#"{"metadata":{"name":"cart"},"spec":{"hostNetwork":true}}"#)?;
/// let text = |path: &[&str]| find(kind, &pod, path);
/// assert_eq!(text(&["metadata", "name"])?, Some(Found::Text("cart".into())));
/// assert_eq!(text(&["spec", "hostNetwork"])?, Some(Found::Text("true".into())));
/// assert_eq!(text(&["spec", "nodeName"])?, None);
/// assert_eq!(text(&["spec"])?, Some(Found::Other));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// Where the bytes are damaged on the way there.
pub fn find<'a>(kind: Kind, bytes: &'a [u8], path: &[&str]) -> Result<Option<Found<'a>>, Error> {
    read(bytes, Root::Object(kind), |node| search(node.form()?, path))
}

fn search<'de>(form: Form<'_, 'de>, path: &[&str]) -> Result<Option<Found<'de>>, Error> {
    let Some((name, rest)) = path.split_first() else { return value(form) };
    let mut members = match form {
        Form::Message(message) => message.members(),
        Form::Map(entries) => Members::Entries(entries),
        Form::Json(json) => return in_json(json, path),
        Form::Leaf(_) | Form::Elements(_) => return Ok(None),
    };
    let mut found = None;
    while members.next()? {
        if members.name() == *name {
            let mut result = members.value().form().and_then(|form| search(form, rest));
            if let Err(error) = &mut result {
                members.locate(error);
            }
            found = result?;
            // A key can be there twice, and the last one counts; a field has been merged.
            if let Members::Fields(_) = members {
                break;
            }
        }
    }
    Ok(found)
}

fn value<'de>(form: Form<'_, 'de>) -> Result<Option<Found<'de>>, Error> {
    let text = match form {
        Form::Leaf(leaf) => match leaf {
            Leaf::Null => return Ok(None),
            Leaf::Bool(value) => if value { "true" } else { "false" }.into(),
            Leaf::Unsigned(value) => value.to_string().into(),
            Leaf::Signed(value) => value.to_string().into(),
            Leaf::Float(value) => serde_json::to_string(&value)?.into(),
            Leaf::Text(text) => text.into(),
            Leaf::Time(text) => text.as_str().to_owned().into(),
            Leaf::Owned(text) => text.into(),
        },
        Form::Json(json) => return in_json(json, &[]),
        Form::Message(_) | Form::Map(_) | Form::Elements(_) => return Ok(Some(Found::Other)),
    };
    Ok(Some(Found::Text(text)))
}

/// The same in JSON that is in the protobuf.
#[cold]
fn in_json<'de>(json: &'de [u8], path: &[&str]) -> Result<Option<Found<'de>>, Error> {
    let mut json: &RawValue = serde_json::from_slice(json)?;
    for name in path {
        if !json.get().starts_with('{') {
            return Ok(None);
        }
        let mut members: HashMap<String, &RawValue> = serde_json::from_str(json.get())?;
        match members.remove(*name) {
            Some(member) => json = member,
            None => return Ok(None),
        }
    }
    let json = json.get();
    Ok(match json.as_bytes().first() {
        Some(b'n') | None => None,
        Some(b'{' | b'[') => Some(Found::Other),
        Some(b'"') => Some(Found::Text(serde_json::from_str::<String>(json)?.into())),
        Some(_) => Some(Found::Text(json.into())),
    })
}
