//! What a fault does to an exchange.

use std::time::Duration;

use http::{HeaderName, HeaderValue, StatusCode};

/// One thing that goes wrong. A fault may combine several.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Effect {
    /// Nothing happens for a while, then the request goes on.
    Delay(Duration),
    /// The answer stops somewhere.
    Interrupt(Point, Interruption),
    /// What becomes of the bookmark that ends the initial events.
    InitialEventsEnd(InitialEventsEnd),
    /// Query parameters that get lost on the way, as behind a proxy or an old aggregated server.
    IgnoreQuery(Vec<String>),
    /// Every event is sent twice.
    DuplicateEvents,
    /// After an event, the older state of the same object comes once more, with its older version.
    RegressVersions,
    /// The object of this event, or this item of the list (counted from 1), has a field of the wrong type.
    Undecodable(u64),
    /// The object of this event, or this item of the list (counted from 1), has no metadata.
    WithoutMetadata(u64),
    /// The type of this event (counted from 1) is one that no client knows.
    UnknownType(u64),
    /// The watch cache forgets the resource's history before the request: older versions are `410 Expired`.
    ForgetHistory,
    /// etcd compacts everything below the present revision before the request.
    Compact,
    /// Every continue token is `410 Expired`.
    ExpireContinue,
    /// The API server restarts before the request: running watches end, the watch window starts anew.
    Restart,
    /// etcd comes back from a backup this many revisions old.
    Rewind(u64),
    /// At most this many bytes at a time, with a pause after each.
    Slow(usize, Duration),
    /// Bytes come in chunks of this size.
    Chunks(usize),
    /// The body is compressed.
    Gzip(Gzip),
    /// Resource versions are opaque text, as some aggregated servers have them.
    OpaqueVersions,
    /// The list has an empty resource version.
    EmptyListVersion,
    /// `items` comes before `metadata` in the list.
    ItemsFirst,
    /// The list says `"items":null`; its items are lost, so it is for empty collections.
    ItemsNull,
}

impl Effect {
    /// The name under which injected faults are counted, and by which the text form knows them.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Delay(_) => "delay",
            Self::Interrupt(_, how) => how.kind(),
            Self::InitialEventsEnd(_) => "initial-events-end",
            Self::IgnoreQuery(_) => "ignore-query",
            Self::DuplicateEvents => "duplicate-events",
            Self::RegressVersions => "regress-versions",
            Self::Undecodable(_) => "undecodable",
            Self::WithoutMetadata(_) => "without-metadata",
            Self::UnknownType(_) => "unknown-type",
            Self::ForgetHistory => "forget-history",
            Self::Compact => "compact",
            Self::ExpireContinue => "expire-continue",
            Self::Restart => "restart",
            Self::Rewind(_) => "rewind",
            Self::Slow(..) => "slow",
            Self::Chunks(_) => "chunks",
            Self::Gzip(_) => "gzip",
            Self::OpaqueVersions => "opaque-versions",
            Self::EmptyListVersion => "empty-list-version",
            Self::ItemsFirst => "items-first",
            Self::ItemsNull => "items-null",
        }
    }
}

/// A made-up answer; the request never reaches the server proper.
#[derive(Debug, Clone, PartialEq)]
pub struct Respond {
    /// The HTTP status.
    pub status: StatusCode,
    /// Further headers, `Retry-After` among them.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// The `reason` of a Status body; by default the one that belongs to the code.
    pub reason: Option<String>,
    /// The `message` of a Status body; by default the words of the code.
    pub message: Option<String>,
    /// What the body is.
    pub body: ErrorBody,
}

impl Default for Respond {
    fn default() -> Self {
        Self {
            status: StatusCode::INTERNAL_SERVER_ERROR,
            headers: Vec::new(),
            reason: None,
            message: None,
            body: ErrorBody::Status,
        }
    }
}

/// The bodies that clients meet with an error.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum ErrorBody {
    /// A Kubernetes Status in compact JSON.
    #[default]
    Status,
    /// A Kubernetes Status in indented JSON: many lines.
    PrettyStatus,
    /// Plain text.
    Text(String),
    /// A page as proxies and load balancers make them.
    Html(String),
    /// Nothing.
    Empty,
}

/// Where in an exchange something happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Point {
    /// Before anything of the answer is sent.
    Request,
    /// After the status line and headers.
    Head,
    /// After so many bytes of the body (0: right after the head).
    Bytes(u64),
    /// After so many events of a watch (0: right after the head).
    Events(u64),
    /// So long after the head.
    After(Duration),
}

/// How an answer stops.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Interruption {
    /// A clean end, as if the answer were complete.
    End,
    /// The connection is closed in the middle: end of file without the end of the body.
    Close,
    /// The connection is reset.
    Reset,
    /// Nothing more comes on this exchange.
    Hang,
    /// Nothing more comes or goes on the whole connection, which stays open: a dead peer behind a load balancer.
    Blackhole,
    /// An `ERROR` event with this code, reason and message, then a clean end.
    Error {
        /// The Status code, such as 410.
        code: u16,
        /// The Status reason; by default the one that belongs to the code.
        reason: Option<String>,
        /// The Status message.
        message: Option<String>,
    },
}

impl Interruption {
    fn kind(&self) -> &'static str {
        match self {
            Self::End => "end",
            Self::Close => "cut",
            Self::Reset => "reset",
            Self::Hang => "hang",
            Self::Blackhole => "blackhole",
            Self::Error { .. } => "error-event",
        }
    }
}

/// What becomes of the bookmark with the annotation `k8s.io/initial-events-end`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InitialEventsEnd {
    /// It never comes.
    Missing,
    /// It comes without its annotation.
    Plain,
    /// It comes so much later; events go on in the meantime.
    Late(Duration),
}

/// How bodies are compressed, for clients that accept gzip.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gzip {
    /// One member for the whole body, flushed after each event.
    Whole,
    /// One member per event, as Kubernetes 1.37 does on watches (gate `WatchListCompression`).
    MemberPerEvent,
}
