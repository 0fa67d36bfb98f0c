//! What an object is called.

use std::fmt;

/// The name of an object within its collection: an optional namespace, and a name.
///
/// Ordered by namespace, then by name; objects without a namespace come first. Shown as `namespace/name` or `name`
/// (ST-1).
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct ObjectKey {
    /// `namespace/name`, or `name`: one allocation, and one place to look at when keys are compared.
    text: Box<str>,
    /// Where the name begins; zero without a namespace.
    name_at: usize,
}

impl ObjectKey {
    /// A key from its parts; an empty namespace is the same as none.
    ///
    /// ```
    /// use reflector::ObjectKey;
    /// assert_eq!(ObjectKey::new(Some("kube-system"), "dns").to_string(), "kube-system/dns");
    /// assert_eq!(ObjectKey::new(Some(""), "node-1"), ObjectKey::new(None, "node-1"));
    /// ```
    #[must_use]
    pub fn new(namespace: Option<&str>, name: &str) -> Self {
        match namespace.filter(|namespace| !namespace.is_empty()) {
            Some(namespace) => {
                Self { text: format!("{namespace}/{name}").into(), name_at: namespace.len() + 1 }
            }
            None => Self { text: name.into(), name_at: 0 },
        }
    }

    /// The namespace; `None` for cluster-scoped objects.
    #[must_use]
    pub fn namespace(&self) -> Option<&str> {
        self.name_at.checked_sub(1).map(|end| &self.text[..end])
    }

    /// The name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.text[self.name_at..]
    }

    /// How many bytes its text has.
    pub(super) fn text_len(&self) -> usize {
        self.text.len()
    }

    fn parts(&self) -> (Option<&str>, &str) {
        (self.namespace(), self.name())
    }
}

impl PartialOrd for ObjectKey {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for ObjectKey {
    /// By the parts and not by the text, where `/` would come after `-`.
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.parts().cmp(&other.parts())
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::str::FromStr for ObjectKey {
    type Err = InvalidKey;

    /// Reads `namespace/name` or `name`; a leading slash is an empty namespace, which is none (ST-1).
    fn from_str(text: &str) -> Result<Self, InvalidKey> {
        match text.split_once('/') {
            None => Ok(Self::new(None, text)),
            Some((namespace, name)) if !name.contains('/') => Ok(Self::new(Some(namespace), name)),
            Some(_) => Err(InvalidKey { text: text.to_owned() }),
        }
    }
}

/// A text that is not `namespace/name` or `name`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` has more than one slash; a key is `namespace/name`, or `name` alone")]
pub struct InvalidKey {
    text: String,
}

impl fmt::Debug for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        // client-go: ObjectNames (ST-1)
        #[test]
        fn a_key_is_read_back_from_its_text(text in "[ab/-]{0,6}") {
            match text.parse::<ObjectKey>() {
                Ok(key) => prop_assert_eq!(key.to_string(), text.strip_prefix('/').unwrap_or(&text)),
                Err(_) => prop_assert!(text.matches('/').count() > 1),
            }
        }

        #[test]
        fn keys_are_ordered_by_namespace_and_then_by_name(
            a in ("[a-]{0,3}", "[a-]{0,3}"), b in ("[a-]{0,3}", "[a-]{0,3}"),
        ) {
            let key = |(namespace, name): &(String, String)| ObjectKey::new(Some(namespace), name);
            let parts = |(namespace, name): &(String, String)| {
                (Some(namespace.clone()).filter(|n| !n.is_empty()), name.clone())
            };
            prop_assert_eq!(key(&a).cmp(&key(&b)), parts(&a).cmp(&parts(&b)));
            prop_assert_eq!(key(&a) == key(&b), parts(&a) == parts(&b));
            let key = key(&a);
            prop_assert_eq!((key.namespace().map(str::to_owned), key.name().to_owned()), parts(&a));
        }
    }
}
