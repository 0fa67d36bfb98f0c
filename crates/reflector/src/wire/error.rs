//! What can be wrong with a response body as a whole, as opposed to one object in it.

/// A response body that cannot be read on: what, where, and which limit if one was hit.
///
/// Offsets count the bytes of the (decompressed) body from zero. No variant ever quotes the body beyond a single
/// character, a kind, or the `message` that a server meant to be read: a body may be a Secret.
///
/// After an error a cutter is spent: whatever was cut before stays good, and every further `push` returns the same
/// error.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WireError {
    /// The bytes are not JSON (RFC 8259), or not JSON of this shape.
    #[error("malformed JSON at byte {offset}: {what}")]
    Syntax {
        /// Where the offending byte is.
        offset: u64,
        /// What was expected and what was found.
        what: String,
    },
    /// The bytes are not protobuf, or not that of Kubernetes.
    #[error("malformed protobuf near byte {offset}: {what}")]
    Protobuf {
        /// Where the field began that cannot be read.
        offset: u64,
        /// What was expected and what was found.
        what: String,
    },
    /// Something is larger than its limit allows.
    #[error("{what} at byte {offset} is larger than the limit of {limit} bytes ({name})")]
    TooLarge {
        /// Where it began.
        offset: u64,
        /// What it is: an object, the envelope around the objects, …
        what: &'static str,
        /// The field of [`Limits`](super::Limits) that set the limit.
        name: &'static str,
        /// The limit, in bytes.
        limit: usize,
    },
    /// Arrays and objects are nested deeper than [`Limits::depth_max`](super::Limits::depth_max) allows.
    #[error("nested deeper at byte {offset} than the limit of {limit} levels (depth_max)")]
    TooDeep {
        /// Where the bracket is that was one too many.
        offset: u64,
        /// The limit, in levels.
        limit: usize,
    },
    /// The body ended too early.
    #[error("the body ended at byte {offset}, {pending} bytes into an unfinished {what}")]
    Truncated {
        /// How many bytes came.
        offset: u64,
        /// How many of them belong to the value that is not complete; these are lost.
        pending: u64,
        /// What is not complete: a list, a watch event, a gzip member.
        what: &'static str,
    },
    /// The bytes are not gzip (RFC 1952), or are damaged.
    #[error("damaged gzip data near byte {offset} of the compressed body: {what}")]
    Gzip {
        /// How many compressed bytes were taken before.
        offset: u64,
        /// What the decoder said.
        what: String,
    },
    /// A member of a list that is not an object and not a list member's type, such as a numeric `resourceVersion`.
    #[error("malformed {member} of the list, which began at byte {offset}: {what}")]
    Envelope {
        /// Where the member's value began.
        offset: u64,
        /// Which member.
        member: &'static str,
        /// What is wrong with it.
        what: String,
    },
    /// A well-formed document that is not a list: a `Status` or `Table` that came with 200 (client-go: RF-26).
    #[error("expected a list, found {}{}", kind_text(.kind), message_text(.message))]
    NotAList {
        /// Its kind; empty if it has none.
        kind: String,
        /// Its `message`, if it has one; one line.
        message: String,
    },
    /// A well-formed value in a watch stream that is not an event: a list, for instance, from a server that ignored
    /// `watch=true`.
    #[error("expected a watch event at byte {offset}, found {}{}", kind_text(.kind), message_text(.message))]
    NotAnEvent {
        /// Where it began.
        offset: u64,
        /// Its kind; empty if it has none.
        kind: String,
        /// Its `message`, if it has one; one line.
        message: String,
    },
}

fn kind_text(kind: &str) -> String {
    if kind.is_empty() { "an object without a kind".to_owned() } else { format!("kind {kind}") }
}

fn message_text(message: &str) -> String {
    if message.is_empty() { String::new() } else { format!(": {message}") }
}
