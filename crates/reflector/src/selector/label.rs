//! Label selectors: requirements on labels, all of which must hold.

use std::{fmt, str::FromStr};

use super::{LabelSelectorError, RequirementError, parse, rules};
use crate::ObjectMeta;

/// What objects are selected by their labels: all requirements must hold, and where there are none, everything is
/// selected.
///
/// It is read from the text that Kubernetes takes, and checked as strictly: a selector that exists here is one that a
/// server takes. Its text has the requirements in order and without repetitions, so equal selectors have equal texts.
///
/// ```
/// use reflector::LabelSelector;
///
/// let read: LabelSelector = "tier in (b, a), app == web".parse()?;
/// let built = LabelSelector::everything().eq("app", "web")?.one_of("tier", ["a", "b"])?;
/// assert_eq!(read, built);
/// assert_eq!(read.to_string(), "app=web,tier in (a,b)");
///
/// let labels = [("app", "web"), ("tier", "a")];
/// assert!(read.matches_labels(|key| labels.iter().find(|(k, _)| *k == key).map(|(_, value)| *value)));
///
/// let error = "app=web,tier in a".parse::<LabelSelector>().unwrap_err();
/// assert_eq!(error.to_string(), "at byte 16: expected `(`, found `a`");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct LabelSelector {
    /// Sorted and without repetitions.
    requirements: Vec<Requirement>,
}

/// A requirement on one label.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Requirement {
    key: Box<str>,
    operator: Operator,
    /// Sorted and without repetitions.
    values: Box<[Box<str>]>,
}

/// What a [`Requirement`] asks of its label.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Operator {
    /// It is there, with one of the values: `=`, `==`, `in`.
    In,
    /// It is not there, or has none of the values: `!=`, `notin`.
    NotIn,
    /// It is there.
    Exists,
    /// It is not there.
    DoesNotExist,
    /// It is there, and an integer that is larger than the value: `>`.
    GreaterThan,
    /// It is there, and an integer that is smaller than the value: `<`.
    LessThan,
}

impl LabelSelector {
    /// Selects everything; the beginning of a selector that is built.
    #[must_use]
    pub fn everything() -> Self {
        Self::default()
    }

    /// The selector that a `metav1.LabelSelector` stands for: its `matchLabels` as names and values, and its
    /// `matchExpressions` as name, operator (`In`, `NotIn`, `Exists` or `DoesNotExist`) and values.
    ///
    /// Without any it selects everything. A field of an API type that is *absent* usually means nothing instead; that
    /// is for the caller to see.
    ///
    /// ```
    /// use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector as Meta;
    /// use reflector::LabelSelector;
    ///
    /// let meta: Meta = serde_json::from_str(
    ///     r#"{"matchLabels":{"app":"web"},"matchExpressions":[{"key":"tier","operator":"In","values":["a","b"]}]}"#,
    /// )?;
    /// let selector = LabelSelector::from_match(
    ///     meta.match_labels.unwrap_or_default(),
    ///     meta.match_expressions.unwrap_or_default().into_iter().map(|e| (e.key, e.operator, e.values.unwrap_or_default())),
    /// )?;
    /// assert_eq!(selector.to_string(), "app=web,tier in (a,b)");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`RequirementError`] for the first label or expression that cannot be.
    pub fn from_match<K, V, L, O, E>(
        labels: impl IntoIterator<Item = (K, V)>,
        expressions: impl IntoIterator<Item = (L, O, E)>,
    ) -> Result<Self, RequirementError>
    where
        K: AsRef<str>,
        V: AsRef<str>,
        L: AsRef<str>,
        O: AsRef<str>,
        E: IntoIterator<Item: AsRef<str>>,
    {
        let equal =
            labels.into_iter().map(|(key, value)| Requirement::new(key.as_ref(), Operator::In, [value]));
        let others = expressions.into_iter().map(|(key, operator, values)| {
            let (key, operator) = (key.as_ref(), operator.as_ref());
            let operator = match operator {
                "In" => Operator::In,
                "NotIn" => Operator::NotIn,
                "Exists" => Operator::Exists,
                "DoesNotExist" => Operator::DoesNotExist,
                other => {
                    let (key, operator) = (key.to_owned(), other.to_owned());
                    return Err(RequirementError::UnknownOperator { key, operator });
                }
            };
            Requirement::new(key, operator, values)
        });
        equal.chain(others).collect()
    }

    /// And the label must have this value.
    ///
    /// # Errors
    ///
    /// [`RequirementError`] if the name or the value cannot be one of a label.
    pub fn eq(self, key: &str, value: &str) -> Result<Self, RequirementError> {
        Requirement::new(key, Operator::In, [value]).map(|requirement| self.and(requirement))
    }

    /// And the label must not have this value; it may be absent.
    ///
    /// # Errors
    ///
    /// [`RequirementError`] if the name or the value cannot be one of a label.
    pub fn not_eq(self, key: &str, value: &str) -> Result<Self, RequirementError> {
        Requirement::new(key, Operator::NotIn, [value]).map(|requirement| self.and(requirement))
    }

    /// And the label must have one of these values.
    ///
    /// # Errors
    ///
    /// [`RequirementError`] if the name or a value cannot be one of a label, or there are no values.
    pub fn one_of(
        self,
        key: &str,
        values: impl IntoIterator<Item: AsRef<str>>,
    ) -> Result<Self, RequirementError> {
        Requirement::new(key, Operator::In, values).map(|requirement| self.and(requirement))
    }

    /// And the label must have none of these values; it may be absent.
    ///
    /// # Errors
    ///
    /// [`RequirementError`] if the name or a value cannot be one of a label, or there are no values.
    pub fn none_of(
        self,
        key: &str,
        values: impl IntoIterator<Item: AsRef<str>>,
    ) -> Result<Self, RequirementError> {
        Requirement::new(key, Operator::NotIn, values).map(|requirement| self.and(requirement))
    }

    /// And the label must be there.
    ///
    /// # Errors
    ///
    /// [`RequirementError`] if the name cannot be one of a label.
    pub fn exists(self, key: &str) -> Result<Self, RequirementError> {
        Requirement::new(key, Operator::Exists, [""; 0]).map(|requirement| self.and(requirement))
    }

    /// And the label must not be there.
    ///
    /// # Errors
    ///
    /// [`RequirementError`] if the name cannot be one of a label.
    pub fn does_not_exist(self, key: &str) -> Result<Self, RequirementError> {
        Requirement::new(key, Operator::DoesNotExist, [""; 0]).map(|requirement| self.and(requirement))
    }

    /// And the label must be an integer that is larger than this.
    ///
    /// # Errors
    ///
    /// [`RequirementError`] if the name cannot be one of a label, or the number is negative, which no value of a label
    /// can be.
    pub fn greater_than(self, key: &str, bound: i64) -> Result<Self, RequirementError> {
        Requirement::new(key, Operator::GreaterThan, [bound.to_string()]).map(|r| self.and(r))
    }

    /// And the label must be an integer that is smaller than this.
    ///
    /// # Errors
    ///
    /// [`RequirementError`] if the name cannot be one of a label, or the number is negative, which no value of a label
    /// can be.
    pub fn less_than(self, key: &str, bound: i64) -> Result<Self, RequirementError> {
        Requirement::new(key, Operator::LessThan, [bound.to_string()]).map(|r| self.and(r))
    }

    /// And this requirement must hold.
    #[must_use]
    pub fn and(mut self, requirement: Requirement) -> Self {
        if let Err(at) = self.requirements.binary_search(&requirement) {
            self.requirements.insert(at, requirement);
        }
        self
    }

    /// The requirements, ordered by key, without repetitions.
    #[must_use]
    pub fn requirements(&self) -> &[Requirement] {
        &self.requirements
    }

    /// Whether nothing is required.
    #[must_use]
    pub fn is_everything(&self) -> bool {
        self.requirements.is_empty()
    }

    /// Whether an object is selected.
    #[must_use]
    pub fn matches(&self, meta: &ObjectMeta) -> bool {
        self.matches_labels(|key| meta.labels.get(key))
    }

    /// Whether labels are selected; `label` gives the value of one by its name.
    #[must_use]
    pub fn matches_labels<'a>(&self, label: impl Fn(&str) -> Option<&'a str>) -> bool {
        self.requirements.iter().all(|requirement| requirement.matches(label(&requirement.key)))
    }
}

impl Requirement {
    /// A requirement from its parts.
    ///
    /// # Errors
    ///
    /// [`RequirementError`] if the name or a value cannot be one of a label, or if there are too few or too many
    /// values: `In` and `NotIn` take one or more, `Exists` and `DoesNotExist` none, `GreaterThan` and `LessThan` one
    /// integer.
    pub fn new(
        key: &str,
        operator: Operator,
        values: impl IntoIterator<Item: AsRef<str>>,
    ) -> Result<Self, RequirementError> {
        if let Some(rule) = rules::broken_by_key(key) {
            return Err(RequirementError::Key { key: key.to_owned(), rule });
        }
        let mut values: Vec<Box<str>> = values.into_iter().map(|value| value.as_ref().into()).collect();
        let takes = match operator {
            Operator::In | Operator::NotIn if values.is_empty() => Some("at least one"),
            Operator::Exists | Operator::DoesNotExist if !values.is_empty() => Some("none"),
            Operator::GreaterThan | Operator::LessThan if values.len() != 1 => Some("one"),
            _ => None,
        };
        if let Some(takes) = takes {
            let found = values.len();
            return Err(RequirementError::ValueCount { key: key.to_owned(), operator, found, takes });
        }
        for value in &values {
            let (key, value) = (key.to_owned(), value.to_string());
            if matches!(operator, Operator::GreaterThan | Operator::LessThan) && value.parse::<i64>().is_err()
            {
                return Err(RequirementError::NotAnInteger { key, value });
            }
            if let Some(rule) = rules::broken_by_value(&value) {
                return Err(RequirementError::Value { key, value, rule });
            }
        }
        values.sort_unstable();
        values.dedup();
        Ok(Self { key: key.into(), operator, values: values.into() })
    }

    /// The name of the label.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }

    /// What is asked of it.
    #[must_use]
    pub fn operator(&self) -> Operator {
        self.operator
    }

    /// The values that it is compared with, in order and without repetitions.
    pub fn values(&self) -> impl ExactSizeIterator<Item = &str> {
        self.values.iter().map(|value| &**value)
    }

    /// Whether a label with this value, or the lack of it, is what is asked for.
    #[must_use]
    pub fn matches(&self, value: Option<&str>) -> bool {
        let listed = || value.is_some_and(|value| self.values.iter().any(|one| **one == *value));
        match self.operator {
            Operator::In => listed(),
            Operator::NotIn => !listed(),
            Operator::Exists => value.is_some(),
            Operator::DoesNotExist => value.is_none(),
            Operator::GreaterThan => self.compare(value, |label, bound| label > bound),
            Operator::LessThan => self.compare(value, |label, bound| label < bound),
        }
    }

    /// What is no number is neither larger nor smaller.
    fn compare(&self, value: Option<&str>, holds: fn(i64, i64) -> bool) -> bool {
        let number = |text: &str| text.parse::<i64>().ok();
        let bound = self.values.first().and_then(|bound| number(bound));
        value.and_then(number).zip(bound).is_some_and(|(label, bound)| holds(label, bound))
    }
}

impl FromIterator<Requirement> for LabelSelector {
    fn from_iter<I: IntoIterator<Item = Requirement>>(requirements: I) -> Self {
        let mut requirements: Vec<_> = requirements.into_iter().collect();
        requirements.sort_unstable();
        requirements.dedup();
        Self { requirements }
    }
}

impl FromStr for LabelSelector {
    type Err = LabelSelectorError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        parse::requirements(text).map(|requirements| requirements.into_iter().collect())
    }
}

impl From<LabelSelector> for String {
    /// The text, for a request.
    fn from(selector: LabelSelector) -> Self {
        selector.to_string()
    }
}

impl fmt::Display for LabelSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, requirement) in self.requirements.iter().enumerate() {
            write!(f, "{}{requirement}", if i == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (key, values) = (&self.key, self.values.join(","));
        match self.operator {
            Operator::Exists => write!(f, "{key}"),
            Operator::DoesNotExist => write!(f, "!{key}"),
            Operator::GreaterThan => write!(f, "{key}>{values}"),
            Operator::LessThan => write!(f, "{key}<{values}"),
            Operator::In if self.values.len() == 1 => write!(f, "{key}={values}"),
            Operator::NotIn if self.values.len() == 1 => write!(f, "{key}!={values}"),
            Operator::In => write!(f, "{key} in ({values})"),
            Operator::NotIn => write!(f, "{key} notin ({values})"),
        }
    }
}

impl fmt::Display for Operator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::In => "In",
            Self::NotIn => "NotIn",
            Self::Exists => "Exists",
            Self::DoesNotExist => "DoesNotExist",
            Self::GreaterThan => "GreaterThan",
            Self::LessThan => "LessThan",
        })
    }
}
