//! Uids, in few bytes.

use std::fmt;

/// `metadata.uid`, as the server wrote it; empty if it wrote none.
///
/// API servers use UUIDs (RFC 9562), which are kept in sixteen bytes; any other text is kept as it is.
///
/// ```
/// use reflector::Uid;
///
/// let uid = Uid::new("3d59765c-c072-4b2d-aa22-95c9d90a1609");
/// assert_eq!(uid, "3d59765c-c072-4b2d-aa22-95c9d90a1609");
/// assert_eq!(uid.to_string(), "3d59765c-c072-4b2d-aa22-95c9d90a1609");
/// assert!(Uid::default().is_empty());
/// ```
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct Uid(Repr);

#[derive(Clone, Default, PartialEq, Eq, Hash)]
enum Repr {
    #[default]
    Empty,
    /// In the one form in which it is written: small letters, hyphens in their places.
    Uuid([u8; 16]),
    Text(Box<str>),
}

/// The length of a UUID's text.
const UUID: usize = 36;

impl Uid {
    /// Takes the server's text.
    #[must_use]
    pub fn new(text: &str) -> Self {
        match (text, uuid(text)) {
            ("", _) => Self(Repr::Empty),
            (_, Some(bytes)) => Self(Repr::Uuid(bytes)),
            (text, None) => Self(Repr::Text(text.into())),
        }
    }

    /// Whether the server sent none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        matches!(self.0, Repr::Empty)
    }
}

/// The bytes of a UUID, provided that its text can be made from them again.
fn uuid(text: &str) -> Option<[u8; 16]> {
    let text: &[u8; UUID] = text.as_bytes().try_into().ok()?;
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let (mut bytes, mut at) = ([0; 16], 0);
    for (i, byte) in bytes.iter_mut().enumerate() {
        if matches!(i, 4 | 6 | 8 | 10) {
            if text[at] != b'-' {
                return None;
            }
            at += 1;
        }
        *byte = digit(text[at])? << 4 | digit(text[at + 1])?;
        at += 2;
    }
    Some(bytes)
}

impl From<&str> for Uid {
    fn from(text: &str) -> Self {
        Self::new(text)
    }
}

impl From<&Uid> for Uid {
    fn from(uid: &Uid) -> Self {
        uid.clone()
    }
}

impl From<String> for Uid {
    fn from(text: String) -> Self {
        Self::new(&text)
    }
}

impl PartialEq<str> for Uid {
    fn eq(&self, text: &str) -> bool {
        *self == Self::new(text)
    }
}

impl PartialEq<&str> for Uid {
    fn eq(&self, text: &&str) -> bool {
        *self == **text
    }
}

impl fmt::Display for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = match &self.0 {
            Repr::Empty => return Ok(()),
            Repr::Text(text) => return f.write_str(text),
            Repr::Uuid(bytes) => bytes,
        };
        for (i, byte) in bytes.iter().enumerate() {
            if matches!(i, 4 | 6 | 8 | 10) {
                f.write_str("-")?;
            }
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.to_string(), f)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn any_text_is_given_back(text in "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|[0-9a-fA-F-]{35,37}|.{0,40}") {
            let uid = Uid::new(&text);
            prop_assert_eq!(uid.to_string(), &*text);
            prop_assert_eq!(uid.is_empty(), text.is_empty());
            prop_assert!(uid == *text);
        }

        #[test]
        fn a_uuid_takes_no_allocation(text in "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}") {
            prop_assert!(matches!(Uid::new(&text).0, Repr::Uuid(_)));
        }
    }

    #[test]
    fn capital_letters_and_misplaced_hyphens_are_kept_as_text() {
        for text in ["3D59765C-c072-4b2d-aa22-95c9d90a1609", "3d59765cc-072-4b2d-aa22-95c9d90a1609"] {
            assert!(matches!(Uid::new(text).0, Repr::Text(_)), "{text}");
            assert_eq!(Uid::new(text).to_string(), text);
        }
    }
}
