//! Field selectors: `key=value`, `==`, `!=`, joined by commas (`k8s.io/apimachinery/pkg/fields`).

use super::{
    object::Object,
    registry::Resource,
    status::{Outcome, Status},
};

/// A parsed field selector; empty matches everything.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct FieldSelector(Vec<Term>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Term {
    key: String,
    equal: bool,
    value: String,
}

impl FieldSelector {
    /// Parses a selector without regard to a resource.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let mut terms = Vec::new();
        for part in split_terms(text) {
            if part.is_empty() {
                continue;
            }
            let Some((key, equal, value)) = split_term(part) else {
                return Err(format!("invalid selector: '{text}'; can't understand '{part}'"));
            };
            terms.push(Term { key: key.to_owned(), equal, value: unescape(value)? });
        }
        Ok(Self(terms))
    }

    /// The selector for exactly one name, as the deprecated single-object watch has it.
    pub(super) fn and_name(mut self, name: &str) -> Self {
        self.0.push(Term { key: "metadata.name".into(), equal: true, value: name.into() });
        self
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Refuses keys that the resource does not offer; the wording depends on the type.
    pub(super) fn check(&self, resource: &Resource) -> Outcome<()> {
        for term in &self.0 {
            if resource.field_index(&term.key).is_none() {
                return Err(Status::bad_request(resource.unknown_field(&term.key)));
            }
        }
        Ok(())
    }

    /// The value that the object must have under `key`, if the selector fixes it.
    pub(super) fn exact(&self, key: &str) -> Option<&str> {
        self.0.iter().find(|t| t.equal && t.key == key).map(|t| t.value.as_str())
    }

    pub(super) fn matches(&self, resource: &Resource, object: &Object) -> bool {
        self.0.iter().all(|term| {
            let value = match term.key.as_str() {
                "metadata.name" => object.name(),
                "metadata.namespace" => object.namespace(),
                key => resource.field_index(key).and_then(|i| object.field(i)).unwrap_or_default(),
            };
            (value == term.value) == term.equal
        })
    }
}

/// Splits at commas that no backslash protects.
fn split_terms(text: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let (mut start, mut escaped) = (0, false);
    for (at, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            ',' => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts
}

fn split_term(part: &str) -> Option<(&str, bool, &str)> {
    for (at, _) in part.char_indices() {
        let rest = &part[at..];
        for (operator, equal) in [("!=", false), ("==", true), ("=", true)] {
            if let Some(value) = rest.strip_prefix(operator) {
                return Some((&part[..at], equal, value));
            }
        }
    }
    None
}

fn unescape(value: &str) -> Result<String, String> {
    let mut out = String::with_capacity(value.len());
    let mut chars = value.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some(c @ ('\\' | ',' | '=')) => out.push(c),
                other => {
                    let sequence: String = std::iter::once('\\').chain(other).collect();
                    return Err(format!("invalid field selector: invalid escape sequence: {sequence}"));
                }
            },
            ',' | '=' => {
                return Err(format!("invalid field selector: unescaped character in value: {c}"));
            }
            _ => out.push(c),
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terms_are_split_and_unescaped() {
        let selector = FieldSelector::parse(r"metadata.name=a\,b,x!=,y==1").unwrap();
        let terms: Vec<_> = selector.0.iter().map(|t| (t.key.as_str(), t.equal, t.value.as_str())).collect();
        assert_eq!(terms, [("metadata.name", true, "a,b"), ("x", false, ""), ("y", true, "1")]);
        assert_eq!(selector.exact("metadata.name"), Some("a,b"));
        assert_eq!(selector.exact("x"), None);
    }

    #[test]
    fn errors_carry_the_parsers_text() {
        assert_eq!(
            FieldSelector::parse("foo").unwrap_err(),
            "invalid selector: 'foo'; can't understand 'foo'"
        );
        assert!(FieldSelector::parse(r"a=\x").unwrap_err().contains(r"invalid escape sequence: \x"));
        assert!(FieldSelector::parse("a=b=c").unwrap_err().contains("unescaped character in value: ="));
    }
}
