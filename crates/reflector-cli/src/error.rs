//! Why the command ends early.

use std::process::ExitCode;

/// One line for people, and a code for scripts.
#[derive(Debug)]
pub(crate) enum Error {
    /// What was typed makes no sense.
    Usage(String),
    /// It cannot go on.
    Failed(String),
    /// Whoever read stdout has gone: nobody to tell, and nothing wrong.
    PipeClosed,
}

impl Error {
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::Usage(message.into())
    }

    pub(crate) fn failed(message: impl Into<String>) -> Self {
        Self::Failed(message.into())
    }

    /// What came of writing to stdout.
    pub(crate) fn stdout(error: &std::io::Error) -> Self {
        match error.kind() {
            std::io::ErrorKind::BrokenPipe => Self::PipeClosed,
            _ => Self::Failed(format!("cannot write to stdout: {error}")),
        }
    }

    pub(crate) fn exit_code(&self) -> ExitCode {
        match self {
            Self::PipeClosed => ExitCode::SUCCESS,
            Self::Failed(_) => ExitCode::from(1),
            Self::Usage(_) => ExitCode::from(2),
        }
    }
}
