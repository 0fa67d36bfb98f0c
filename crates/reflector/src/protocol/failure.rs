//! What went wrong, and what kind of thing it is.
//!
//! A [`Failure`] is what a source saw. Its [`Class`] decides what happens next; the table of reasons is the one of
//! client-go (inventory 2.9), with the gaps closed.

use std::{error::Error, fmt, sync::Arc, time::Duration};

use super::Verb;

/// One failed request, or the end of one stream, as the source saw it.
#[derive(Clone)]
pub struct Failure {
    kind: FailureKind,
    message: String,
    retry_after: Option<Duration>,
    source: Option<Arc<dyn Error + Send + Sync>>,
}

/// At which layer a request failed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FailureKind {
    /// The server answered with an error, as an HTTP status or as an ERROR event.
    Refused {
        /// The HTTP status code, or the code in the Status.
        code: u16,
        /// The `reason` of the Status; empty if the body was no Status or gave none.
        reason: String,
    },
    /// The server says that the version asked for is ahead of it (504 with cause `ResourceVersionTooLarge`, and its
    /// older forms).
    TooLarge,
    /// No answer: name resolution, connect, TLS, reset, timeout.
    Transport,
    /// An answer that is not what was asked for: cut short, not JSON, not a list.
    Malformed,
    /// An answer that did not come, or a stream that stayed silent, within our own limit.
    Deadline,
}

/// The text with which servers of all ages say that a version is ahead of them.
const TOO_LARGE: &str = "too large resource version";

impl Failure {
    /// The server's refusal: an HTTP status, or the code of a Status in a stream.
    ///
    /// `causes` are the reasons of the causes in `details`, if any. All three forms of "too large a version" are
    /// recognised: by cause, by cause message, and by message of a timeout (RF-23, inventory 2.9).
    #[must_use]
    pub fn refused<'a>(
        code: u16,
        reason: &str,
        message: impl Into<String>,
        causes: impl IntoIterator<Item = (&'a str, &'a str)>,
        retry_after: Option<Duration>,
    ) -> Self {
        let message = message.into();
        let timeout = reason == "Timeout" || code == 504;
        let says_so = |text: &str| text.to_ascii_lowercase().contains(TOO_LARGE);
        let too_large = causes
            .into_iter()
            .any(|(reason, message)| reason == "ResourceVersionTooLarge" || (timeout && says_so(message)))
            || (timeout && says_so(&message));
        let kind = if too_large {
            FailureKind::TooLarge
        } else {
            FailureKind::Refused { code, reason: reason.to_owned() }
        };
        Self { kind, message, retry_after, source: None }
    }

    /// No answer came: the transport failed.
    #[must_use]
    pub fn transport(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::caused(FailureKind::Transport, error)
    }

    /// The answer is not what was asked for.
    #[must_use]
    pub fn malformed(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::caused(FailureKind::Malformed, error)
    }

    /// Our own limit passed.
    #[must_use]
    pub fn deadline(message: impl Into<String>) -> Self {
        Self { kind: FailureKind::Deadline, message: message.into(), retry_after: None, source: None }
    }

    fn caused(kind: FailureKind, error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        let source: Arc<dyn Error + Send + Sync> = error.into().into();
        Self { kind, message: chain(&*source), retry_after: None, source: Some(source) }
    }

    /// At which layer it failed.
    #[must_use]
    pub fn kind(&self) -> &FailureKind {
        &self.kind
    }

    /// What the server or the transport said, in one line.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }

    /// How long the server wants to be left alone.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        self.retry_after
    }

    /// What kind of failure this is, and so what happens next.
    #[must_use]
    pub fn class(&self) -> Class {
        let (code, reason) = match &self.kind {
            FailureKind::TooLarge => return Class::TooLarge,
            FailureKind::Transport => return Class::Transport,
            FailureKind::Malformed => return Class::Malformed,
            FailureKind::Deadline => return Class::Silent,
            FailureKind::Refused { code, reason } => (*code, reason.as_str()),
        };
        match (code, reason) {
            (_, "Expired" | "Gone") | (410, _) => Class::Expired,
            (_, "TooManyRequests") | (429, _) => Class::Throttled,
            (503, _) => Class::Unavailable,
            (401, _) => Class::Unauthorized,
            (403, _) => Class::Forbidden,
            (404, _) => Class::Absent,
            (405, _) => Class::NotSupported,
            // A proxy's, or the server's, patience was over: nothing is wrong with the request.
            (408, _) => Class::Server,
            // The version came from the server, so this can only be another server, or another kind of one.
            (400 | 500, _) if self.says_that_the_version_is_unreadable() => Class::Expired,
            (500, "InternalError" | "") => Class::Internal,
            (400..=499, _) => Class::Mistake,
            _ => Class::Server,
        }
    }
}

impl Failure {
    /// kube-apiserver's words for a version that is no number: on WATCH (500) and on LIST (400).
    fn says_that_the_version_is_unreadable(&self) -> bool {
        ["resourceVersion: Invalid value", "invalid resource version"]
            .iter()
            .any(|s| self.message.starts_with(s))
    }
}

/// An error and its causes in one line, without the repetitions that some of them make.
fn chain(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        next = cause.source();
    }
    text
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            FailureKind::Refused { code, reason } if reason.is_empty() => {
                write!(f, "{code}: {}", self.message)
            }
            FailureKind::Refused { code, reason } => write!(f, "{code} {reason}: {}", self.message),
            FailureKind::TooLarge => write!(f, "504 Timeout: {}", self.message),
            _ => f.write_str(&self.message),
        }
    }
}

impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}({self})", self.kind)
    }
}

impl Error for Failure {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.as_deref().map(|e| e as _)
    }
}

/// The kinds of failure, by what is done about them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Class {
    /// 410: the version or the continue token is too old. The collection is read anew.
    Expired,
    /// The version asked for is ahead of the server. A few more tries, then the collection is read anew.
    TooLarge,
    /// 429: overload. The same request again, not before `Retry-After`.
    Throttled,
    /// 503: not now. The same request again, not before `Retry-After`.
    Unavailable,
    /// 401. One more try with fresh credentials, then slowly; check the token or certificate.
    Unauthorized,
    /// 403. Tried again slowly; grant `list` and `watch` on the resource.
    Forbidden,
    /// 404: no such resource. Probed slowly, resumes by itself when it appears.
    Absent,
    /// 405: the resource cannot be watched, or not listed. Lists at an interval instead of a watch.
    NotSupported,
    /// 400, 406, 422 and the like: the request itself is wrong, and repeating it does not help. Tried again slowly.
    Mistake,
    /// 500 `InternalError`, or a 500 without a reason.
    Internal,
    /// Any other answer of the server.
    Server,
    /// Name resolution, connect, TLS, reset, timeout. The same request again.
    Transport,
    /// The body is not what was asked for. The same request again; a few in a row, and the collection is read anew.
    Malformed,
    /// Nothing came within our own limit.
    Silent,
    /// A watch that ended within a second without an event (RF-34).
    ShortWatch,
    /// The collection went back in time: etcd was restored, or another server answers.
    Rewound,
}

impl Class {
    /// A short stable name, used as label of metrics and in logs.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Expired => "expired",
            Self::TooLarge => "too_large",
            Self::Throttled => "throttled",
            Self::Unavailable => "unavailable",
            Self::Unauthorized => "unauthorized",
            Self::Forbidden => "forbidden",
            Self::Absent => "absent",
            Self::NotSupported => "not_supported",
            Self::Mistake => "mistake",
            Self::Internal => "internal",
            Self::Server => "server",
            Self::Transport => "transport",
            Self::Malformed => "malformed",
            Self::Silent => "silent",
            Self::ShortWatch => "short_watch",
            Self::Rewound => "rewound",
        }
    }

    /// Whether waiting alone does not help: somebody has to change something. Such a cause is what `ready()` returns.
    #[must_use]
    pub fn needs_somebody(self) -> bool {
        matches!(
            self,
            Self::Unauthorized | Self::Forbidden | Self::Absent | Self::NotSupported | Self::Mistake
        )
    }
}

/// One failure in its context, as the error handler and the status see it.
#[derive(Clone, Debug, thiserror::Error)]
#[error("cannot {verb} {target}: {failure}")]
#[non_exhaustive]
pub struct ErrorReport {
    /// What was being done.
    pub verb: Verb,
    /// Of what: resource, group and namespace.
    pub target: Arc<str>,
    /// What went wrong.
    #[source]
    pub failure: Failure,
    /// What kind of failure it is.
    pub class: Class,
    /// Failures in a row so far, this one included.
    pub attempt: u32,
    /// Since the first failure of this row.
    pub elapsed: Duration,
    /// How long it waits before the next request; zero means at once.
    pub retry_in: Duration,
    /// Whether the failure before this one was of another class, or there was none. Logs and people want only these.
    pub first: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Code, reason, message, causes, and the class they make.
    type Case = (u16, &'static str, &'static str, &'static [(&'static str, &'static str)], Class);

    #[test]
    fn reasons_and_codes_make_the_class() {
        let none: [(&str, &str); 0] = [];
        let cases: &[Case] = &[
            (410, "Expired", "too old", &[], Class::Expired),
            (410, "Gone", "", &[], Class::Expired),
            (410, "", "from a proxy", &[], Class::Expired),
            (0, "Expired", "", &[], Class::Expired),
            (429, "TooManyRequests", "", &[], Class::Throttled),
            (429, "", "Too many requests, please try again later.", &[], Class::Throttled),
            (500, "TooManyRequests", "", &[], Class::Throttled),
            (503, "ServiceUnavailable", "", &[], Class::Unavailable),
            (401, "Unauthorized", "Unauthorized", &[], Class::Unauthorized),
            (403, "Forbidden", "", &[], Class::Forbidden),
            (404, "NotFound", "", &[], Class::Absent),
            (404, "", "404 page not found", &[], Class::Absent),
            (405, "MethodNotAllowed", "", &[], Class::NotSupported),
            (400, "BadRequest", "", &[], Class::Mistake),
            (406, "NotAcceptable", "", &[], Class::Mistake),
            (422, "Invalid", "", &[], Class::Mistake),
            (408, "", "", &[], Class::Server),
            (500, "InternalError", "", &[], Class::Internal),
            (500, "", "", &[], Class::Internal),
            (500, "resourceVersion", "resourceVersion: Invalid value: \"abc\"", &[], Class::Expired),
            // A known reason that is not InternalError: the server cannot read what it has (RF-35).
            (500, "StoreReadError", "", &[], Class::Server),
            (502, "", "", &[], Class::Server),
            (504, "Timeout", "etcd is slow", &[], Class::Server),
            // The three forms of "too large" (FullListIfTooLarge).
            (504, "Timeout", "x", &[("ResourceVersionTooLarge", "y")], Class::TooLarge),
            (504, "Timeout", "x", &[("", "Too large resource version")], Class::TooLarge),
            (504, "", "Timeout: Too large resource version: 10, current: 9", &[], Class::TooLarge),
            (500, "InternalError", "Too large resource version", &[], Class::Internal),
        ];
        for (code, reason, message, causes, class) in cases {
            let failure = Failure::refused(*code, reason, *message, causes.iter().copied(), None);
            assert_eq!(failure.class(), *class, "{code} {reason} {message}");
        }
        assert_eq!(Failure::refused(504, "Timeout", "", none, None).class(), Class::Server);
        assert_eq!(Failure::transport("reset").class(), Class::Transport);
        assert_eq!(Failure::malformed("cut").class(), Class::Malformed);
        assert_eq!(Failure::deadline("slow").class(), Class::Silent);
    }

    /// What a server refused is told with its code, in the words of the server; what is our own needs none.
    #[test]
    fn a_failure_in_one_line() {
        let refused =
            |code, reason: &str, message: &str| Failure::refused(code, reason, message, [], None).to_string();
        assert_eq!(refused(410, "Expired", "too old"), "410 Expired: too old");
        assert_eq!(refused(502, "", "bad gateway"), "502: bad gateway");
        assert_eq!(
            refused(504, "", "Too large resource version: 9"),
            "504 Timeout: Too large resource version: 9"
        );
        assert_eq!(Failure::transport("reset").to_string(), "reset");
        assert_eq!(Failure::deadline("no answer").to_string(), "no answer");
    }

    #[test]
    fn the_message_keeps_every_cause_once() {
        #[derive(Debug, thiserror::Error)]
        #[error("connect: refused")]
        struct Outer(#[source] Inner);
        #[derive(Debug, thiserror::Error)]
        #[error("refused")]
        struct Inner(#[source] std::io::Error);
        let failure = Failure::transport(Outer(Inner(std::io::Error::other("no route"))));
        assert_eq!(failure.message(), "connect: refused: no route");
        assert!(failure.source().is_some());
    }
}
