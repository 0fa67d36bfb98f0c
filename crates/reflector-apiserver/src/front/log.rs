//! The request log: what came, in order, for tests to assert on.

use std::{fmt, time::Duration};

use http::{Method, StatusCode};

use crate::request::{RequestInfo, Verb};

/// A request that the server took.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoggedRequest {
    /// When it came, since the server's start.
    pub at: Duration,
    /// The method.
    pub method: Method,
    /// Path and query, as sent.
    pub path: String,
    /// What it asked for, where it is about a resource.
    pub info: Option<RequestInfo>,
    /// The status of the answer; `None` while there is none, or if there never was one.
    pub status: Option<StatusCode>,
}

impl LoggedRequest {
    /// The verb, where the request is about a resource.
    pub fn verb(&self) -> Option<Verb> {
        self.info.as_ref().map(|info| info.verb)
    }
}

impl fmt::Display for LoggedRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.method, self.path)?;
        match self.status {
            Some(status) => write!(f, " {}", status.as_u16()),
            None => f.write_str(" -"),
        }
    }
}
