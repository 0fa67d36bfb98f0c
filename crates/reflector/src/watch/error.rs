//! Why a [`RetryWatcher`](super::RetryWatcher) ended.

use std::sync::Arc;

use crate::{
    ObjectKey, ResourceVersion,
    protocol::{ErrorReport, Failure},
    wire::{EventType, InvalidObject},
};

/// Why a watch ended, or did not begin. It is the last thing that the stream yields.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RetryWatchError {
    /// "0" means "any state", so what would come first is unknown. Nothing was sent.
    #[error(
        "cannot watch {target} from version \"0\", which stands for any state; \
         list first, and start from the version of the list"
    )]
    StartVersion {
        /// What was to be watched.
        target: Arc<str>,
    },
    /// 410: what happened after the version is forgotten, so changes were missed.
    #[error(
        "cannot watch {target} on from version {version}: {failure}; \
         list again, and start anew from the version of that list"
    )]
    Expired {
        /// What was watched.
        target: Arc<str>,
        /// The last version that was seen, or the one that it was to start from.
        version: ResourceVersion,
        /// What the server said.
        #[source]
        failure: Failure,
    },
    /// 401 or 403: asking again does not help.
    #[error("cannot watch {target}: {failure}; {}", remedy(.failure))]
    Denied {
        /// What was watched.
        target: Arc<str>,
        /// The last version that was seen: a new watch can start after it once access is given.
        version: ResourceVersion,
        /// What the server said.
        #[source]
        failure: Failure,
    },
    /// An object came without a version, so there is no place to resume from.
    #[error(
        "cannot watch {target} on: {key} ({event}) has no resourceVersion, so nothing tells where to resume; \
         list again, or follow this resource with a reflector"
    )]
    NoVersion {
        /// What was watched.
        target: Arc<str>,
        /// The object.
        key: ObjectKey,
        /// The event that brought it.
        event: EventType,
    },
    /// An object came whose metadata cannot be read. Passing over it would lose a change.
    #[error("cannot watch {target} on: {object}; repair the object, list again, and start anew")]
    Invalid {
        /// What was watched.
        target: Arc<str>,
        /// What could be read of it.
        #[source]
        object: Box<InvalidObject>,
    },
    /// An event came of a type that this crate does not know. Passing over it might lose a change.
    #[error(
        "cannot watch {target} on: an event of the unknown type {kind:?} came; list again, and start anew"
    )]
    UnknownEvent {
        /// What was watched.
        target: Arc<str>,
        /// The type, as the server wrote it.
        kind: String,
    },
    /// The error handler said so.
    #[error("{0}; given up by the error handler after {n} failures in a row", n = .0.attempt)]
    GivenUp(
        /// The failure that it was asked about.
        #[source]
        Box<ErrorReport>,
    ),
}

fn remedy(failure: &Failure) -> &'static str {
    if failure.class() == crate::protocol::Class::Forbidden {
        "grant the verb `watch` on it"
    } else {
        "renew the credentials"
    }
}
