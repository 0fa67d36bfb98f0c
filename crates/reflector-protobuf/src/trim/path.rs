//! Paths into JSON: pointers of RFC 6901, with a wildcard. For whatever else takes such paths, too.

/// What stands between two slashes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// `*`: every member, every element.
    Any,
    /// A member of this name, or an element of this index, if it is one.
    Name(Box<str>, Option<usize>),
}

impl Step {
    pub(super) fn is_name(&self, name: &str) -> bool {
        match self {
            Self::Any => true,
            Self::Name(own, _) => **own == *name,
        }
    }

    pub(super) fn is_index(&self, index: usize) -> bool {
        match self {
            Self::Any => true,
            Self::Name(_, own) => *own == Some(index),
        }
    }
}

/// A path that cannot be trimmed away.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PathError {
    /// It leads to the object itself.
    #[error("the empty path is the whole object")]
    Whole,
    /// Not a JSON pointer.
    #[error("`{path}` is not a JSON pointer: it must begin with `/`")]
    NoSlash {
        /// What was given.
        path: String,
    },
    /// A `~` that is no escape.
    #[error("`{path}` is not a JSON pointer: `~` must be written `~0`, and `/` in a name `~1`")]
    Escape {
        /// What was given.
        path: String,
    },
}

/// The steps of a pointer; at least one.
///
/// ```
/// use reflector_protobuf::path::{Step, parse};
///
/// let steps = parse("/metadata/annotations/example.com~1owner")?;
/// assert_eq!(steps[2], Step::Name("example.com/owner".into(), None));
/// # Ok::<(), reflector_protobuf::PathError>(())
/// ```
///
/// # Errors
/// Where it is no pointer, or one to the whole object.
pub fn parse(path: &str) -> Result<Box<[Step]>, PathError> {
    if path.is_empty() {
        return Err(PathError::Whole);
    }
    let Some(names) = path.strip_prefix('/') else {
        return Err(PathError::NoSlash { path: path.to_owned() });
    };
    let steps: Option<Box<[Step]>> = names.split('/').map(step).collect();
    steps.ok_or_else(|| PathError::Escape { path: path.to_owned() })
}

fn step(step: &str) -> Option<Step> {
    if step == "*" {
        return Some(Step::Any);
    }
    let mut parts = step.split('~');
    let mut name = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (c, rest) = match (part.strip_prefix('0'), part.strip_prefix('1')) {
            (Some(rest), _) => ('~', rest),
            (_, Some(rest)) => ('/', rest),
            _ => return None,
        };
        name.push(c);
        name.push_str(rest);
    }
    // An index with a sign or zeros before it is none (RFC 6901 §4).
    let index = name.parse::<usize>().ok().filter(|index| index.to_string() == name);
    Some(Step::Name(name.into(), index))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pointers_are_read() {
        let name = |name: &str| Step::Name(name.into(), None);
        assert_eq!(*parse("/a/*/b~1c~0~01").unwrap(), [name("a"), Step::Any, name("b/c~~1")]);
        assert_eq!(*parse("/").unwrap(), [name("")]);
        assert_eq!(*parse("/10/+1/01").unwrap(), [Step::Name("10".into(), Some(10)), name("+1"), name("01")]);
        assert_eq!(parse(""), Err(PathError::Whole));
        assert_eq!(parse("a"), Err(PathError::NoSlash { path: "a".into() }));
        for path in ["/~", "/a~2", "/~~0"] {
            assert_eq!(parse(path), Err(PathError::Escape { path: path.into() }));
        }
    }
}
