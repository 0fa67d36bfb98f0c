//! What the tests of the watch without a copy have in common.

use std::time::Duration;

use reflector::{
    ResourceVersion,
    watch::{RetryWatchBuilder, RetryWatcher},
    wire::{Status, WatchEvent},
};

use super::{Json, Scripted, Server, object, scripted};

/// A version.
pub fn rv(text: &str) -> ResourceVersion {
    ResourceVersion::new(text).unwrap()
}

/// A watch that begins after a version, and its server.
pub fn builder(from: &str) -> (RetryWatchBuilder<Json, Scripted>, Server) {
    let (source, server) = scripted();
    (RetryWatcher::builder(source, rv(from)).seed(1), server)
}

/// An object that is new.
pub fn added(name: &str, version: &str) -> WatchEvent<Json> {
    WatchEvent::Added(object(name, "u", version))
}

/// An error in the stream.
pub fn status(code: u16, reason: &str, message: &str, retry_after: Option<u32>) -> WatchEvent<Json> {
    let mut status = Status::default();
    status.code = code;
    status.reason = reason.into();
    status.message = message.into();
    status.details.retry_after_seconds = retry_after;
    WatchEvent::Error(Box::new(status))
}

/// What is waited for must come; in virtual time, so that a test that needs it fails at once.
pub async fn in_time<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(3600), what).await.expect("it never came")
}
