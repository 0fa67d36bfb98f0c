//! Field selectors: fields of an object that must or must not have a value.

use std::{borrow::Cow, fmt, str::FromStr};

use super::{
    FieldSelectorError,
    lookup::{self, Found},
};
use crate::{Encoding, Object};

/// What objects are selected by their fields: all requirements must hold, and where there are none, everything is
/// selected.
///
/// Its text is that of Kubernetes: `path=value`, `path==value` and `path!=value`, joined by commas; `\`, `,` and `=` in
/// a value have a backslash before them. Here any path is allowed; a server knows few for each resource.
///
/// A field is found in the JSON of an object: a string compares as it is, a number or boolean as it is written; a field
/// that is absent or null is empty, and objects and arrays never equal anything. A server compares the same, with two
/// exceptions. It fills in some fields before it compares: to it a Node without `spec.unschedulable` has `false` there.
/// And some of its fields are no paths in the JSON, so here they are empty: `source` of an Event is its
/// `source.component`, or else `reportingComponent`, and `status.successful` of a Job is `status.succeeded`. Such
/// selectors belong into the request.
///
/// ```
/// use reflector::{FieldSelector, Object};
///
/// let selector: FieldSelector = r"spec.nodeName=node-1,metadata.name!=a\,b".parse()?;
/// assert_eq!(selector, FieldSelector::everything().eq("spec.nodeName", "node-1")?.not_eq("metadata.name", "a,b")?);
/// assert_eq!(selector.to_string(), r"spec.nodeName=node-1,metadata.name!=a\,b");
///
/// let pod: Object<serde::de::IgnoredAny> =
///     Object::from_json(r#"{"metadata":{"name":"cart"},"spec":{"nodeName":"node-1"}}"#)?;
/// assert!(selector.matches(&pod));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct FieldSelector {
    requirements: Vec<FieldRequirement>,
}

/// A field that must, or must not, have a value.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FieldRequirement {
    path: Box<str>,
    equal: bool,
    value: Box<str>,
}

impl FieldSelector {
    /// Selects everything; the beginning of a selector that is built.
    #[must_use]
    pub fn everything() -> Self {
        Self::default()
    }

    /// And the field must have this value.
    ///
    /// # Errors
    ///
    /// [`FieldSelectorError::Path`] if the path cannot be one of a field.
    pub fn eq(self, path: &str, value: &str) -> Result<Self, FieldSelectorError> {
        FieldRequirement::new(path, true, value).map(|requirement| self.and(requirement))
    }

    /// And the field must not have this value.
    ///
    /// # Errors
    ///
    /// [`FieldSelectorError::Path`] if the path cannot be one of a field.
    pub fn not_eq(self, path: &str, value: &str) -> Result<Self, FieldSelectorError> {
        FieldRequirement::new(path, false, value).map(|requirement| self.and(requirement))
    }

    fn and(mut self, requirement: FieldRequirement) -> Self {
        self.requirements.push(requirement);
        self
    }

    /// The requirements, in the order in which they were given.
    #[must_use]
    pub fn requirements(&self) -> &[FieldRequirement] {
        &self.requirements
    }

    /// Whether nothing is required.
    #[must_use]
    pub fn is_everything(&self) -> bool {
        self.requirements.is_empty()
    }

    /// Whether an object is selected. Name and namespace are compared without a look at the body.
    #[must_use]
    pub fn matches<K>(&self, object: &Object<K>) -> bool {
        self.requirements.iter().all(|requirement| requirement.matches(object))
    }
}

impl FieldRequirement {
    fn new(path: &str, equal: bool, value: &str) -> Result<Self, FieldSelectorError> {
        let allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_');
        if path.split('.').any(|name| name.is_empty() || !name.bytes().all(allowed)) {
            return Err(FieldSelectorError::Path { path: path.to_owned() });
        }
        Ok(Self { path: path.into(), equal, value: value.into() })
    }

    /// The path of the field: names joined by dots.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Whether the field must have the value (`=`), or must not (`!=`).
    #[must_use]
    pub fn must_equal(&self) -> bool {
        self.equal
    }

    /// The value, without escapes.
    #[must_use]
    pub fn value(&self) -> &str {
        &self.value
    }

    /// Whether an object has what is required.
    #[must_use]
    pub fn matches<K>(&self, object: &Object<K>) -> bool {
        let same = match field(object, &self.path) {
            Found::Missing => self.value.is_empty(),
            Found::Text(text) => *text == *self.value,
            Found::Other => false,
        };
        same == self.equal
    }
}

/// A field of an object, by its dotted path. Name and namespace are taken from the header.
pub(crate) fn field<'a, K>(object: &'a Object<K>, path: &str) -> Found<'a> {
    match path {
        "metadata.name" => Found::Text(object.name().into()),
        "metadata.namespace" => object.namespace().map_or(Found::Missing, |name| Found::Text(name.into())),
        // What has no bytes has no fields that could be compared.
        path => match (object.encoding(), object.bytes()) {
            (_, Err(_)) => Found::Other,
            (Encoding::Json, Ok(Cow::Borrowed(json))) => lookup::find(json, path),
            (Encoding::Json, Ok(Cow::Owned(json))) => lookup::find(&json, path).into_owned(),
            (Encoding::Protobuf(kind), Ok(bytes)) => {
                let path: Vec<_> = path.split('.').collect();
                match reflector_protobuf::find(kind, &bytes, &path) {
                    Ok(Some(reflector_protobuf::Found::Text(text))) => Found::Text(text.into_owned().into()),
                    Ok(None) => Found::Missing,
                    Ok(Some(_)) | Err(_) => Found::Other,
                }
            }
        },
    }
}

impl FromStr for FieldSelector {
    type Err = FieldSelectorError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut selector = Self::everything();
        let mut at = 0;
        for term in terms(text) {
            // As in Kubernetes: `a=b,` is `a=b`.
            if !term.is_empty() {
                selector.requirements.push(requirement(term, at)?);
            }
            at += term.len() + 1;
        }
        Ok(selector)
    }
}

/// The parts between commas that no backslash protects.
fn terms(text: &str) -> impl Iterator<Item = &str> {
    let mut escaped = false;
    text.split(move |c| {
        let separates = c == ',' && !escaped;
        escaped = c == '\\' && !escaped;
        separates
    })
}

/// One part, which begins at byte `at` of the whole.
fn requirement(term: &str, at: usize) -> Result<FieldRequirement, FieldSelectorError> {
    let no_operator = || FieldSelectorError::NoOperator { at, term: term.to_owned() };
    let (left, right) = term.split_once('=').ok_or_else(no_operator)?;
    let (path, equal) = left.strip_suffix('!').map_or((left, true), |path| (path, false));
    let value = if equal { right.strip_prefix('=').unwrap_or(right) } else { right };
    let value = unescape(value, at + (term.len() - value.len()))?;
    FieldRequirement::new(path, equal, &value)
}

fn unescape(escaped: &str, start: usize) -> Result<String, FieldSelectorError> {
    let mut value = String::with_capacity(escaped.len());
    let mut chars = escaped.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some((_, c @ ('\\' | ',' | '='))) => value.push(c),
                _ => return Err(FieldSelectorError::Escape { at: start + at }),
            },
            '=' => return Err(FieldSelectorError::Unescaped { at: start + at }),
            c => value.push(c),
        }
    }
    Ok(value)
}

impl From<FieldSelector> for String {
    /// The text, for a request.
    fn from(selector: FieldSelector) -> Self {
        selector.to_string()
    }
}

impl fmt::Display for FieldSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, requirement) in self.requirements.iter().enumerate() {
            write!(f, "{}{requirement}", if i == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}

impl fmt::Display for FieldRequirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.path, if self.equal { "=" } else { "!=" })?;
        for c in self.value.chars() {
            if matches!(c, '\\' | ',' | '=') {
                f.write_str("\\")?;
            }
            write!(f, "{c}")?;
        }
        Ok(())
    }
}
