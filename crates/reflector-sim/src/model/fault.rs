//! What can go wrong, and where.

use std::fmt;

use reflector::protocol::Failure;

use super::scope::TICK;

/// One thing that goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fault {
    /// 410, as a status or in the stream.
    Expired,
    /// 504: the version is ahead of the server.
    TooLarge,
    /// 429 with `Retry-After`.
    Throttled,
    /// 503.
    Unavailable,
    /// 500 `InternalError`.
    Internal,
    /// 502, or an error of the server's own in the stream.
    BadGateway,
    /// 401.
    Unauthorized,
    /// 403.
    Forbidden,
    /// 404, once.
    NotFound,
    /// 405.
    NotSupported,
    /// 422.
    Mistake,
    /// No connection, or one that breaks off.
    Reset,
    /// An answer that cannot be read.
    Malformed,
    /// No answer, or a stream that falls silent: for ever, or until it wakes.
    Hang,
    /// The stream ends cleanly, at once.
    End,
    /// The stream ends cleanly, after a while.
    EndLater,
    /// The bookmark that ends the initial events does not come.
    BookmarkLost,
    /// `sendInitialEvents` is ignored: the watch is a plain one.
    Ignored,
    /// `continue` is ignored: the first page comes again.
    TokenIgnored,
    /// A state older than the one asked for.
    Older,
    /// A page that is cut after its first object.
    CutPage,
    /// The next change or replacement is refused by the store.
    StoreRefuses,
}

impl Fault {
    /// All of them.
    pub const ALL: [Self; 22] = [
        Self::Expired,
        Self::TooLarge,
        Self::Throttled,
        Self::Unavailable,
        Self::Internal,
        Self::BadGateway,
        Self::Unauthorized,
        Self::Forbidden,
        Self::NotFound,
        Self::NotSupported,
        Self::Mistake,
        Self::Reset,
        Self::Malformed,
        Self::Hang,
        Self::End,
        Self::EndLater,
        Self::BookmarkLost,
        Self::Ignored,
        Self::TokenIgnored,
        Self::Older,
        Self::CutPage,
        Self::StoreRefuses,
    ];

    /// The text that the cause has to keep on its way to the status.
    #[must_use]
    pub fn message(self) -> String {
        format!("injected {self:?}")
    }

    /// The failure that a request or a stream ends with.
    #[must_use]
    pub fn failure(self) -> Option<Failure> {
        let (code, reason) = match self {
            Self::Expired => (410, "Expired"),
            Self::TooLarge => return Some(too_large(self.message())),
            Self::Throttled => (429, "TooManyRequests"),
            Self::Unavailable => (503, "ServiceUnavailable"),
            Self::Internal => (500, "InternalError"),
            Self::BadGateway => (502, ""),
            Self::Unauthorized => (401, "Unauthorized"),
            Self::Forbidden => (403, "Forbidden"),
            Self::NotFound => (404, "NotFound"),
            Self::NotSupported => (405, "MethodNotAllowed"),
            Self::Mistake => (422, "Invalid"),
            Self::Reset => return Some(Failure::transport(self.message())),
            Self::Malformed | Self::CutPage => return Some(Failure::malformed(self.message())),
            _ => return None,
        };
        let retry_after = (self == Self::Throttled).then_some(TICK);
        Some(Failure::refused(code, reason, self.message(), [], retry_after))
    }

    /// Whether an open stream can say this in an ERROR event.
    #[must_use]
    pub fn is_stream_error(self) -> bool {
        matches!(
            self,
            Self::Expired
                | Self::TooLarge
                | Self::Internal
                | Self::BadGateway
                | Self::Unavailable
                | Self::Forbidden
        )
    }

    /// Whether an open stream can break off like this.
    #[must_use]
    pub fn breaks_stream(self) -> bool {
        matches!(self, Self::Reset | Self::Malformed)
    }
}

/// What a server says to a version that is ahead of it.
#[must_use]
pub(super) fn too_large(message: String) -> Failure {
    Failure::refused(504, "Timeout", message, [("ResourceVersionTooLarge", "")], None)
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Expired => "says 410",
            Self::TooLarge => "says that the version is ahead of it",
            Self::Throttled => "says 429, with Retry-After",
            Self::Unavailable => "says 503",
            Self::Internal => "says 500",
            Self::BadGateway => "says 502",
            Self::Unauthorized => "says 401",
            Self::Forbidden => "says 403",
            Self::NotFound => "says 404",
            Self::NotSupported => "says 405",
            Self::Mistake => "says 422",
            Self::Reset => "breaks the connection",
            Self::Malformed => "sends what cannot be read",
            Self::Hang => "falls silent",
            Self::End => "ends the stream cleanly at once",
            Self::EndLater => "ends the stream cleanly after a while",
            Self::BookmarkLost => "loses the bookmark that ends the initial events",
            Self::Ignored => "ignores sendInitialEvents and opens a plain watch",
            Self::TokenIgnored => "ignores the continue token and sends the first page",
            Self::Older => "answers with a state older than asked for",
            Self::CutPage => "cuts the page after its first object",
            Self::StoreRefuses => "is not to blame: the store will refuse what comes next",
        })
    }
}
