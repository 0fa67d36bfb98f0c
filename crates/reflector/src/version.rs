//! Resource versions: opaque text that may be comparable.
//!
//! A server hands out resource versions and promises nothing about their text, except this (KEP-5504): where a
//! version is a decimal number without a leading zero, versions *of one resource type of one server* may be compared
//! as numbers, of any length. Aggregated servers may use any text at all. So comparison is partial:
//! [`ResourceVersion::compare`] answers `None` where the rule does not apply, and whoever asks falls back to the order
//! of arrival.

use std::{cmp::Ordering, fmt};

/// The version of an object or of a collection, as the server wrote it. Never empty.
///
/// The absence of a version (a request without one, a list that carries none) is `Option::None`.
///
/// ```
/// use std::cmp::Ordering;
/// use reflector::ResourceVersion;
///
/// let old = ResourceVersion::new("999").unwrap();
/// let new = ResourceVersion::new("1000").unwrap();
/// assert_eq!(old.compare(&new), Some(Ordering::Less));
///
/// let opaque = ResourceVersion::new("b64:x9").unwrap();
/// assert_eq!(old.compare(&opaque), None);
/// assert!(ResourceVersion::new("").is_none());
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct ResourceVersion(Repr);

/// Nearly every version fits a machine word, and a cache holds one per object.
#[derive(Clone, PartialEq, Eq, Hash)]
enum Repr {
    /// A well-formed decimal that fits; never zero, so its text is the number's.
    Number(u64),
    /// Everything else: longer decimals, "0", opaque text.
    Text(Box<str>),
}

impl ResourceVersion {
    /// Takes the server's text; `None` if it is empty, which means that no version was given.
    #[must_use]
    pub fn new(text: &str) -> Option<Self> {
        if text.is_empty() {
            return None;
        }
        if well_formed(text)
            && let Ok(number) = text.parse()
        {
            return Some(Self(Repr::Number(number)));
        }
        Some(Self(Repr::Text(text.into())))
    }

    /// Whether this version is a well-formed decimal: digits only, no leading zero, not "0" (KEP-5504).
    #[must_use]
    pub fn is_comparable(&self) -> bool {
        match &self.0 {
            Repr::Number(_) => true,
            Repr::Text(text) => well_formed(text),
        }
    }

    /// Compares two versions of the same resource type from the same server, by value.
    ///
    /// `None` unless both [are comparable](Self::is_comparable) or their texts are equal.
    #[must_use]
    pub fn compare(&self, other: &Self) -> Option<Ordering> {
        match (&self.0, &other.0) {
            (Repr::Number(a), Repr::Number(b)) => Some(a.cmp(b)),
            (Repr::Text(a), Repr::Text(b)) if a == b => Some(Ordering::Equal),
            _ if self.is_comparable() && other.is_comparable() => {
                let (a, b) = (self.to_string(), other.to_string());
                Some(a.len().cmp(&b.len()).then_with(|| a.cmp(&b)))
            }
            _ => None,
        }
    }

    /// Whether this version is known to be older than `other`; `false` where they cannot be compared.
    #[must_use]
    pub fn is_older_than(&self, other: &Self) -> bool {
        self.compare(other) == Some(Ordering::Less)
    }

    /// The last 15 decimal digits as a number that a gauge holds exactly; `None` for opaque text.
    pub(crate) fn gauge(&self) -> Option<u64> {
        match &self.0 {
            Repr::Number(n) => Some(n % 1_000_000_000_000_000),
            Repr::Text(text) if well_formed(text) => text[text.len() - 15..].parse().ok(),
            Repr::Text(_) => None,
        }
    }
}

fn well_formed(text: &str) -> bool {
    text.bytes().all(|b| b.is_ascii_digit()) && !text.starts_with('0')
}

impl fmt::Display for ResourceVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Repr::Number(n) => write!(f, "{n}"),
            Repr::Text(text) => f.write_str(text),
        }
    }
}

impl fmt::Debug for ResourceVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn rv(text: &str) -> ResourceVersion {
        ResourceVersion::new(text).unwrap()
    }

    #[test]
    fn only_well_formed_decimals_compare() {
        use Ordering::{Equal, Greater, Less};
        let cases = [
            ("1", "2", Some(Less)),
            ("10", "9", Some(Greater)),
            ("7", "7", Some(Equal)),
            // Longer than 64 and than 128 bits: by length, then by text.
            ("18446744073709551616", "18446744073709551615", Some(Greater)),
            (
                "340282366920938463463374607431768211457",
                "340282366920938463463374607431768211456",
                Some(Greater),
            ),
            ("99999999999999999999999999999999999999999", "1", Some(Greater)),
            // "0" means "any" in a request, and no object has it.
            ("0", "1", None),
            ("01", "2", None),
            ("-1", "2", None),
            ("1 ", "2", None),
            ("a", "b", None),
            ("a", "a", Some(Equal)),
            ("1", "a", None),
        ];
        for (a, b, expected) in cases {
            assert_eq!(rv(a).compare(&rv(b)), expected, "{a} with {b}");
        }
    }

    #[test]
    fn gauge_keeps_the_last_fifteen_digits() {
        assert_eq!(rv("12").gauge(), Some(12));
        assert_eq!(rv("1234567890123456789").gauge(), Some(567_890_123_456_789));
        assert_eq!(rv("99999000000000000000000000001").gauge(), Some(1));
        assert_eq!(rv("x").gauge(), None);
    }

    proptest! {
        #[test]
        fn text_survives(text in "\\PC{1,40}") {
            prop_assert_eq!(rv(&text).to_string(), text);
        }

        #[test]
        fn numbers_compare_as_numbers(a in 1u128.., b in 1u128..) {
            prop_assert_eq!(rv(&a.to_string()).compare(&rv(&b.to_string())), Some(a.cmp(&b)));
        }
    }
}
