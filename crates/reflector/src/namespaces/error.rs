//! Why namespaces are not ready.

use std::fmt;

use crate::NotReady;

/// Why one namespace is not ready.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NamespaceNotReady {
    /// Its reflector is not ready.
    #[error("namespace {namespace}: {source}")]
    Reflector {
        /// Which namespace.
        namespace: String,
        /// What stands in the way.
        source: NotReady,
    },
    /// It is not in the set: it was never added, or has been removed.
    #[error("namespace {namespace}: not reflected")]
    Absent {
        /// Which namespace.
        namespace: String,
    },
}

impl NamespaceNotReady {
    /// Which namespace.
    #[must_use]
    pub fn namespace(&self) -> &str {
        match self {
            Self::Reflector { namespace, .. } | Self::Absent { namespace } => namespace,
        }
    }
}

/// Some namespaces are not ready. All others are.
#[derive(Debug)]
pub struct NotAllReady {
    /// Never empty.
    failures: Vec<NamespaceNotReady>,
}

impl NotAllReady {
    /// The error, if there is one.
    pub(super) fn check(failures: Vec<NamespaceNotReady>) -> Result<(), Self> {
        if failures.is_empty() { Ok(()) } else { Err(Self { failures }) }
    }

    /// What is wrong, ordered by namespace. Every namespace that is not named here is ready.
    #[must_use]
    pub fn failures(&self) -> &[NamespaceNotReady] {
        &self.failures
    }
}

impl fmt::Display for NotAllReady {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, failure) in self.failures.iter().enumerate() {
            write!(f, "{}{failure}", if i == 0 { "" } else { "; " })?;
        }
        Ok(())
    }
}

impl std::error::Error for NotAllReady {
    /// The first failure.
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.failures.first().map(|failure| failure as _)
    }
}
