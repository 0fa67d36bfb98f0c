//! What was typed, worked out.

use crate::{
    args::{self, WatchOutput},
    connect::Connection,
    discovery::Resource,
    error::Error,
    resolve::Name,
};

/// How objects are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Table { wide: bool },
    Name,
    Json,
    Yaml,
}

/// What `reflector watch` is to do.
#[derive(Debug)]
pub(crate) struct Options {
    resource: String,
    namespaces: Namespaces,
    pub(super) labels: Option<String>,
    pub(super) fields: Option<String>,
    pub(super) form: Form,
    pub(super) once: bool,
    pub(super) metadata_only: bool,
    pub(super) cluster: args::Cluster,
}

#[derive(Debug)]
enum Namespaces {
    All,
    One(String),
    /// That of the context.
    Default,
}

impl TryFrom<args::Watch> for Options {
    type Error = Error;

    fn try_from(args: args::Watch) -> Result<Self, Error> {
        let namespaces = match args.namespace {
            _ if args.all_namespaces => Namespaces::All,
            Some(namespace) if is_name(&namespace) => Namespaces::One(namespace),
            Some(namespace) => return Err(Error::usage(format!("`{namespace}` is no name of a namespace"))),
            None => Namespaces::Default,
        };
        let form = match args.output {
            None => Form::Table { wide: false },
            Some(WatchOutput::Wide) => Form::Table { wide: true },
            Some(WatchOutput::Name) => Form::Name,
            Some(WatchOutput::Json) => Form::Json,
            Some(WatchOutput::Yaml) => Form::Yaml,
        };
        if args.resource.contains(['/', ' ']) {
            let resource = &args.resource;
            return Err(Error::usage(format!(
                "`{resource}` is no resource; for one object use --field-selector metadata.name=NAME"
            )));
        }
        Ok(Self {
            resource: args.resource,
            namespaces,
            labels: args.selector,
            fields: args.field_selector,
            form,
            once: args.once,
            metadata_only: args.metadata_only,
            cluster: args.cluster,
        })
    }
}

impl Options {
    pub(super) fn name(&self) -> Name<'_> {
        Name::new(&self.resource)
    }

    /// The namespace to ask for; `None` is all of them.
    pub(super) fn scope(&self, connection: &Connection, resource: &Resource) -> Option<String> {
        match &self.namespaces {
            _ if !resource.namespaced => None,
            Namespaces::All => None,
            Namespaces::One(namespace) => Some(namespace.clone()),
            Namespaces::Default => Some(connection.namespace.clone()),
        }
    }
}

/// Whether it may stand in a path: a DNS label (RFC 1123).
fn is_name(text: &str) -> bool {
    (1..=63).contains(&text.len())
        && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn namespaces_cannot_leave_their_path() {
        for text in ["a", "kube-system", "x1"] {
            assert!(is_name(text), "{text}");
        }
        for text in ["", "a/b", "..", "A", "a?b", "ä", &"a".repeat(64)] {
            assert!(!is_name(text), "{text}");
        }
    }
}
