//! From the bytes of an object to its header.

use std::str;

use bytes::Bytes;
use reflector_protobuf::{
    Kind,
    wire::{Fields, Value, WireError as Malformed},
};

use crate::{
    Encoding, Labels, Object, ObjectKey, ObjectMeta, ResourceVersion, Uid,
    wire::{EventType, InvalidObject},
};

/// The members of `metadata` that matter, by their numbers in `ObjectMeta`.
mod number {
    pub(super) const NAME: u32 = 1;
    pub(super) const NAMESPACE: u32 = 3;
    pub(super) const UID: u32 = 5;
    pub(super) const VERSION: u32 = 6;
    pub(super) const LABELS: u32 = 11;
    pub(super) const ANNOTATIONS: u32 = 12;
}

/// What is known of an object, as it lies in its bytes. Of members that come twice the last counts, as in Go.
#[derive(Debug, Default)]
pub(super) struct Header<'a> {
    found: bool,
    name: &'a [u8],
    namespace: &'a [u8],
    uid: &'a [u8],
    version: &'a [u8],
    labels: Vec<(&'a [u8], &'a [u8])>,
    annotations: Vec<(&'a [u8], &'a [u8])>,
}

/// What is wrong with an object, and where.
#[derive(Debug)]
pub(super) struct Wrong {
    path: String,
    reason: String,
}

impl Wrong {
    fn new(path: &str, reason: impl Into<String>) -> Self {
        Self { path: path.to_owned(), reason: reason.into() }
    }

    fn malformed(path: &'static str) -> impl Fn(Malformed) -> Self {
        move |error| Self::new(path, error.to_string())
    }
}

impl<'a> Header<'a> {
    /// Reads as much as can be read; with what is wrong, if that is not all.
    pub(super) fn read(body: &'a [u8]) -> (Self, Option<Wrong>) {
        let mut header = Self::default();
        let wrong = header.take(body).err();
        (header, wrong)
    }

    fn take(&mut self, body: &'a [u8]) -> Result<(), Wrong> {
        for field in Fields::new(body) {
            // In every object of the API, field 1 is `metadata`.
            if let (1, Value::Bytes(metadata)) =
                field.map(|field| (field.number, field.value)).map_err(Wrong::malformed(""))?
            {
                self.found = true;
                self.metadata(metadata)?;
            }
        }
        Ok(())
    }

    fn metadata(&mut self, metadata: &'a [u8]) -> Result<(), Wrong> {
        for field in Fields::new(metadata) {
            let field = field.map_err(Wrong::malformed("metadata"))?;
            let Value::Bytes(value) = field.value else { continue };
            match field.number {
                number::NAME => self.name = value,
                number::NAMESPACE => self.namespace = value,
                number::UID => self.uid = value,
                number::VERSION => self.version = value,
                number::LABELS => {
                    self.labels.push(entry(value).map_err(Wrong::malformed("metadata.labels"))?);
                }
                number::ANNOTATIONS => {
                    self.annotations.push(entry(value).map_err(Wrong::malformed("metadata.annotations"))?);
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// The version.
    pub(super) fn version(&self) -> Result<Option<ResourceVersion>, Wrong> {
        Ok(ResourceVersion::new(text(self.version, "metadata.resourceVersion")?))
    }

    /// Whether an annotation has exactly this value.
    pub(super) fn has_annotation(&self, name: &str, value: &str) -> bool {
        let found = self.annotations.iter().rev().find(|(n, _)| *n == name.as_bytes());
        found.is_some_and(|(_, v)| *v == value.as_bytes())
    }

    fn key(&self) -> Result<ObjectKey, Wrong> {
        if !self.found {
            return Err(Wrong::new("metadata", "missing"));
        }
        let (name, namespace) =
            (text(self.name, "metadata.name")?, text(self.namespace, "metadata.namespace")?);
        if name.is_empty() {
            return Err(Wrong::new("metadata.name", "missing or empty"));
        }
        Ok(ObjectKey::new(Some(namespace), name))
    }

    fn labels(&self) -> Result<Labels, Wrong> {
        const PATH: &str = "metadata.labels";
        let pair = |&(name, value): &(&'a [u8], &'a [u8])| Ok((text(name, PATH)?, text(value, PATH)?));
        let pairs: Vec<_> = self.labels.iter().map(pair).collect::<Result<_, _>>()?;
        Ok(Labels::from_iter(pairs))
    }

    fn meta(&self) -> Result<ObjectMeta, Wrong> {
        Ok(ObjectMeta {
            key: self.key()?,
            uid: Uid::new(text(self.uid, "metadata.uid")?),
            version: self.version()?,
            labels: self.labels()?,
        })
    }
}

/// Key and value of a map's entry; what is absent is empty.
fn entry(bytes: &[u8]) -> Result<(&[u8], &[u8]), Malformed> {
    let (mut key, mut value) = (&[][..], &[][..]);
    for field in Fields::new(bytes) {
        match field.map(|field| (field.number, field.value))? {
            (1, Value::Bytes(bytes)) => key = bytes,
            (2, Value::Bytes(bytes)) => value = bytes,
            _ => {}
        }
    }
    Ok((key, value))
}

fn text<'a>(bytes: &'a [u8], path: &str) -> Result<&'a str, Wrong> {
    str::from_utf8(bytes).map_err(|_| Wrong::new(path, "not UTF-8"))
}

/// The object whose bytes are `body`, in an allocation of its own and of its exact size. It begins at `offset`.
pub(super) fn object<K>(kind: Kind, body: &[u8], offset: u64) -> Result<Object<K>, Box<InvalidObject>> {
    let (header, wrong) = Header::read(body);
    match wrong.map_or_else(|| header.meta(), Err) {
        Ok(meta) => Ok(Object::new(meta, Encoding::Protobuf(kind), Bytes::copy_from_slice(body))),
        Err(wrong) => Err(invalid(&header, wrong, body.len(), offset)),
    }
}

/// What is left to say of an object that cannot be kept.
pub(super) fn invalid(header: &Header<'_>, wrong: Wrong, bytes: usize, offset: u64) -> Box<InvalidObject> {
    Box::new(InvalidObject {
        key: header.key().ok(),
        version: header.version().ok().flatten(),
        event: None::<EventType>,
        path: wrong.path,
        reason: wrong.reason,
        offset,
        bytes,
    })
}

/// What is left to say of an object of which nothing could be read.
pub(super) fn unreadable(reason: impl Into<String>, bytes: usize, offset: u64) -> Box<InvalidObject> {
    invalid(&Header::default(), Wrong::new("", reason), bytes, offset)
}

/// An object of a kind whose fields nobody knows. Its metadata lies where that of every object does, so that a deletion
/// can be told all the same.
pub(super) fn unknown(body: &[u8], reason: String, offset: u64) -> Box<InvalidObject> {
    invalid(&Header::read(body).0, Wrong::new("", reason), body.len(), offset)
}
