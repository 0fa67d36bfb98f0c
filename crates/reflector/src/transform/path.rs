//! Paths into JSON: pointers of RFC 6901, with a wildcard.

use std::fmt;

use reflector_protobuf::{
    PathError as Malformed,
    path::{Step, parse},
};

/// One path, from the object down.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Path {
    steps: Box<[Step]>,
}

/// Where a value lies in what is around it.
#[derive(Clone, Copy)]
pub(super) enum Place<'a> {
    Member(&'a [u8]),
    Element(usize),
}

/// A path that cannot be trimmed away.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PathError {
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
    /// It would take away what the reflector has to know of every object.
    #[error("`{path}` cannot be trimmed away, since it would take `{needed}` with it")]
    Needed {
        /// What was given.
        path: String,
        /// What would go too.
        needed: &'static str,
    },
}

/// What the header of an object is read from.
const NEEDED: [&str; 5] = [
    "/metadata/name",
    "/metadata/namespace",
    "/metadata/uid",
    "/metadata/resourceVersion",
    "/metadata/labels",
];

impl Path {
    /// Reads a pointer that leads to something that may go.
    pub(super) fn new(path: &str) -> Result<Self, PathError> {
        let needed = |needed| PathError::Needed { path: path.to_owned(), needed };
        let steps = parse(path).map_err(|error| match error {
            Malformed::NoSlash { path } => PathError::NoSlash { path },
            Malformed::Escape { path } => PathError::Escape { path },
            // Everything would go.
            _ => needed(NEEDED[0]),
        })?;
        let this = Self { steps };
        match NEEDED.into_iter().find(|name| this.meets(name)) {
            Some(name) => Err(needed(name)),
            None => Ok(this),
        }
    }

    /// How many steps it has; never none.
    pub(super) fn len(&self) -> usize {
        self.steps.len()
    }

    /// Whether a step, counted from zero, may lead to this place.
    pub(super) fn leads_to(&self, step: usize, place: Place<'_>) -> bool {
        match self.steps.get(step) {
            Some(Step::Any) => true,
            Some(Step::Name(name, index)) => match place {
                Place::Member(member) => *name.as_bytes() == *member,
                Place::Element(at) => *index == Some(at),
            },
            None => false,
        }
    }

    /// Whether it leads to the other, to something around it, or to something in it.
    fn meets(&self, other: &str) -> bool {
        let names = other.split('/').skip(1);
        self.steps.iter().zip(names).all(|(step, name)| match step {
            Step::Any => true,
            Step::Name(step, _) => **step == *name,
        })
    }
}

impl fmt::Debug for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Path {
    /// The pointer.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.steps.iter().try_for_each(|step| match step {
            Step::Any => f.write_str("/*"),
            Step::Name(name, _) => write!(f, "/{}", name.replace('~', "~0").replace('/', "~1")),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pointers_are_read_and_shown() {
        for path in ["/a", "/a/*/b", "/a~1b/~0~01", "/", "/a//b", "/metadata/annotations/*", "/*/annotations"]
        {
            assert_eq!(format!("{:?}", Path::new(path).unwrap()), path);
        }
        assert_eq!(Path::new("a"), Err(PathError::NoSlash { path: "a".into() }));
        for path in ["/~", "/a~2", "/~~0"] {
            assert_eq!(Path::new(path), Err(PathError::Escape { path: path.into() }));
        }
    }

    #[test]
    fn what_every_object_needs_cannot_go() {
        let table = [
            ("", "/metadata/name"),
            ("/metadata", "/metadata/name"),
            ("/*", "/metadata/name"),
            ("/*/*", "/metadata/name"),
            ("/metadata/*", "/metadata/name"),
            ("/*/namespace", "/metadata/namespace"),
            ("/metadata/uid", "/metadata/uid"),
            ("/metadata/resourceVersion/x", "/metadata/resourceVersion"),
            ("/metadata/labels/app", "/metadata/labels"),
        ];
        for (path, needed) in table {
            assert_eq!(Path::new(path), Err(PathError::Needed { path: path.into(), needed }));
        }
    }
}
