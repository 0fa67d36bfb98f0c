//! Selectors as values: what a server would select, decided here.
//!
//! | you want | take |
//! |---|---|
//! | `app=web,tier in (a,b)` | [`LabelSelector`] |
//! | `spec.nodeName=node-1` | [`FieldSelector`] |
//!
//! Both are read from the texts that Kubernetes takes, refuse what it would refuse, and write themselves as a text that
//! reads back as an equal selector. A [`Builder`](crate::Builder) takes either for the request.
//!
//! ```
//! use reflector::{FieldSelector, LabelSelector, Object};
//!
//! let pod: Object<serde::de::IgnoredAny> = Object::from_json(
//!     r#"{"metadata":{"name":"cart","labels":{"app":"web","tier":"a"}},"spec":{"nodeName":"node-1"}}"#,
//! )?;
//! let labels: LabelSelector = "app=web,tier in (a,b),!canary".parse()?;
//! assert!(labels.matches(pod.meta()));
//! let fields: FieldSelector = "spec.nodeName=node-1".parse()?;
//! assert!(fields.matches(&pod));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod error;
mod field;
#[cfg(feature = "kube")]
mod kube;
mod label;
mod lookup;
mod parse;
mod rules;

pub use self::{
    error::{FieldSelectorError, LabelSelectorError, RequirementError},
    field::{FieldRequirement, FieldSelector},
    label::{LabelSelector, Operator, Requirement},
};
pub(crate) use self::{field::field, lookup::Found};
