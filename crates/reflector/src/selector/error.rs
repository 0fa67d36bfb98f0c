//! What can be wrong with a selector, and what is allowed instead.

use super::Operator;

/// A text that is no label selector.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LabelSelectorError {
    /// The text does not follow the grammar.
    #[error("at byte {at}: expected {expected}, found {found}")]
    Syntax {
        /// Where, in bytes from zero.
        at: usize,
        /// What may stand there.
        expected: &'static str,
        /// What stands there, quoted; or that the text ends there.
        found: String,
    },
    /// One of the requirements cannot be.
    #[error("at byte {at}: {source}")]
    Requirement {
        /// Where the requirement begins, in bytes from zero.
        at: usize,
        /// What is wrong with it.
        #[source]
        source: RequirementError,
    },
}

/// A requirement on a label that cannot be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RequirementError {
    /// Not the name of a label.
    #[error("`{key}` cannot be the name of a label: {rule}")]
    Key {
        /// What was given.
        key: String,
        /// The rule that it breaks.
        rule: &'static str,
    },
    /// Not the value of a label.
    #[error("`{value}` cannot be a value of the label `{key}`: {rule}")]
    Value {
        /// Which label.
        key: String,
        /// What was given.
        value: String,
        /// The rule that it breaks.
        rule: &'static str,
    },
    /// Compared with something that is not a number.
    #[error("`{key}` is compared with `{value}`, which is not an integer of 64 bits")]
    NotAnInteger {
        /// Which label.
        key: String,
        /// What was given.
        value: String,
    },
    /// Too few or too many values for the operator.
    #[error("`{key}` has {found} values, but {operator} takes {takes}")]
    ValueCount {
        /// Which label.
        key: String,
        /// The operator.
        operator: Operator,
        /// How many values were given.
        found: usize,
        /// How many it takes, in words.
        takes: &'static str,
    },
    /// An operator that is none of `In`, `NotIn`, `Exists` and `DoesNotExist`.
    #[error("`{operator}`, used with `{key}`, is none of `In`, `NotIn`, `Exists` and `DoesNotExist`")]
    UnknownOperator {
        /// Which label.
        key: String,
        /// What was given.
        operator: String,
    },
}

/// A text that is no field selector, or a requirement on a field that cannot be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FieldSelectorError {
    /// A part between commas without an operator.
    #[error("at byte {at}: `{term}` has none of the operators `=`, `==` and `!=`")]
    NoOperator {
        /// Where the part begins, in bytes from zero.
        at: usize,
        /// The part.
        term: String,
    },
    /// Not the path of a field.
    #[error(
        "`{path}` cannot be the path of a field: it must be names joined by dots, each of ASCII letters, digits, `-` \
         and `_`"
    )]
    Path {
        /// What was given.
        path: String,
    },
    /// A backslash before something that needs none.
    #[error("at byte {at}: a backslash may only stand before `\\`, `,` and `=`")]
    Escape {
        /// Where the backslash is, in bytes from zero.
        at: usize,
    },
    /// A `=` in a value without a backslash before it.
    #[error("at byte {at}: `=` in a value must be written `\\=`")]
    Unescaped {
        /// Where it is, in bytes from zero.
        at: usize,
    },
}
