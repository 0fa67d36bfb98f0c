//! From the selectors of kube.

use kube::core::{Expression, Selector};

use super::{LabelSelector, Operator, Requirement, RequirementError};

impl TryFrom<Selector> for LabelSelector {
    type Error = RequirementError;

    /// ```
    /// use kube::core::{Expression, Selector};
    /// use reflector::LabelSelector;
    ///
    /// let selector: Selector = Expression::In("tier".into(), ["a".into(), "b".into()].into()).into();
    /// assert_eq!(LabelSelector::try_from(selector)?.to_string(), "tier in (a,b)");
    /// # Ok::<(), reflector::selector::RequirementError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`RequirementError`] for the first expression that a server would refuse; kube does not check them.
    fn try_from(selector: Selector) -> Result<Self, Self::Error> {
        selector.into_iter().map(Requirement::try_from).collect()
    }
}

impl TryFrom<Expression> for Requirement {
    type Error = RequirementError;

    fn try_from(expression: Expression) -> Result<Self, Self::Error> {
        match expression {
            Expression::In(key, values) => Self::new(&key, Operator::In, values),
            Expression::NotIn(key, values) => Self::new(&key, Operator::NotIn, values),
            Expression::Equal(key, value) => Self::new(&key, Operator::In, [value]),
            Expression::NotEqual(key, value) => Self::new(&key, Operator::NotIn, [value]),
            Expression::Exists(key) => Self::new(&key, Operator::Exists, [""; 0]),
            Expression::DoesNotExist(key) => Self::new(&key, Operator::DoesNotExist, [""; 0]),
        }
    }
}
