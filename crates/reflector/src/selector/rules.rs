//! What may be the name and the value of a label (`k8s.io/apimachinery/pkg/util/validation`).

const NAME: &str = "the part after an optional `/` must be 1 to 63 ASCII letters, digits, `-`, `_` and `.`, with a letter \
                    or digit at both ends";
const PREFIX: &str = "the part before the `/` must be a DNS name: at most 253 lower case ASCII letters, digits, `-` and \
                      `.`, with a letter or digit at both ends and around each dot";
const VALUE: &str = "it must be empty, or at most 63 ASCII letters, digits, `-`, `_` and `.`, with a letter or digit at \
                     both ends";

/// The rule that the name of a label breaks.
pub(super) fn broken_by_key(key: &str) -> Option<&'static str> {
    let (prefix, name) = match key.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, key),
    };
    match prefix {
        Some(prefix) if !is_dns_name(prefix) => Some(PREFIX),
        _ if !is_word(name) => Some(NAME),
        _ => None,
    }
}

/// The rule that the value of a label breaks.
pub(super) fn broken_by_value(value: &str) -> Option<&'static str> {
    (!value.is_empty() && !is_word(value)).then_some(VALUE)
}

/// `([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]`, at most 63 bytes.
fn is_word(text: &str) -> bool {
    let bytes = text.as_bytes();
    let inner = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    bytes.len() <= 63
        && bytes.iter().all(inner)
        && bytes.first().is_some_and(u8::is_ascii_alphanumeric)
        && bytes.last().is_some_and(u8::is_ascii_alphanumeric)
}

/// RFC 1123, all lower case, at most 253 bytes.
fn is_dns_name(text: &str) -> bool {
    let outer = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let is_label = |label: &str| {
        let bytes = label.as_bytes();
        bytes.iter().all(|b| outer(b) || *b == b'-')
            && bytes.first().is_some_and(outer)
            && bytes.last().is_some_and(outer)
    };
    text.len() <= 253 && text.split('.').all(is_label)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_labels_are_qualified_names() {
        let long = "x".repeat(63);
        for good in ["a", "A-b_c.9", "example.com/a", "a-b.c/X", &long] {
            assert_eq!(broken_by_key(good), None, "{good}");
        }
        for bad in ["", "-a", "a-", "a b", "ä", "example.com/", "a/b/c", &format!("{long}x")] {
            assert_eq!(broken_by_key(bad), Some(NAME), "{bad}");
        }
        for bad in ["/a", "A/b", "a..b/c", "-a/b", "a_b/c", &format!("{}/a", "x".repeat(254))] {
            assert_eq!(broken_by_key(bad), Some(PREFIX), "{bad}");
        }
    }

    #[test]
    fn values_of_labels_may_be_empty_and_short_words() {
        for good in ["", "a", "1.2_3-4", &"x".repeat(63)] {
            assert_eq!(broken_by_value(good), None, "{good}");
        }
        for bad in ["-1", "a/b", "a ", "ü", &"x".repeat(64)] {
            assert_eq!(broken_by_value(bad), Some(VALUE), "{bad}");
        }
    }
}
