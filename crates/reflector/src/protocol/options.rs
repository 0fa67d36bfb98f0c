//! The numbers of the protocol. Every default has a reason, and most are client-go's.

use std::{sync::Arc, time::Duration};

use super::BackoffOptions;
use crate::source::Selection;

/// How fresh the very first list has to be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum InitialRead {
    /// The most recent state: the version is left unset. As cheap as `Any` since Kubernetes 1.31 (KEP-2340).
    #[default]
    Consistent,
    /// Whatever the server has in its cache: version "0", where the limit is ignored. May be arbitrarily old, and may
    /// go back in time between servers (K14).
    Any,
}

/// All options of the protocol machine.
///
/// ```
/// use std::time::Duration;
/// use reflector::protocol::Options;
/// let options = Options { page_size: Some(100), idle_limit: Duration::from_secs(30), ..Options::default() };
/// assert_eq!(options.initial_deadline, Duration::from_secs(10));
/// ```
#[derive(Clone, Debug)]
pub struct Options {
    /// What is reflected, for messages: `pods in namespace shop`. Set by the builder from the source.
    pub target: Arc<str>,
    /// Which part of the collection, repeated on every request.
    pub selection: Selection,
    /// Whether the first sync and relists use the streaming list (KEP-3157) where the server can. Default true.
    pub streaming: bool,
    /// A streaming list without any event for this long is given up, and a LIST takes its place. Default 10 s. Shorter
    /// gives up on servers that wait for their cache (they may take 3 s), longer delays the first sync behind proxies
    /// that drop the parameter (K5).
    pub initial_deadline: Duration,
    /// After falling back, the streaming list is tried again no sooner than this. Default 30 min.
    pub streaming_probe_after: Duration,
    /// How fresh the first list has to be.
    pub initial_read: InitialRead,
    /// Objects per page of a LIST; `None` asks for everything at once. Default 500.
    pub page_size: Option<u32>,
    /// A page of a LIST that has not ended so long after it was asked for is given up, even though bytes keep coming: a
    /// server that drips, or never ends, is no better than a silent one. Default 30 min; API servers end such a request
    /// after a minute by themselves, unless told otherwise. `Duration::MAX` switches it off.
    pub list_deadline: Duration,
    /// A watch asks the server for a random life in `[min, max)`, so that many clients spread. Default 5 to 10 min.
    pub watch_timeout: (Duration, Duration),
    /// How long after a watch's own timeout the client ends it by itself. Default 30 s.
    pub deadline_margin: Duration,
    /// Silence after which a connection is no longer trusted: a list or an unanswered request is given up, a watch is
    /// checked and re-opened. Default 90 s; bookmarks come about every 60 s. `Duration::MAX` switches it off.
    pub idle_limit: Duration,
    /// The waits after failures.
    pub backoff: BackoffOptions,
    /// Where only somebody's action helps (403, 404, 422, …), waits grow until `[slow_retry, 2 × slow_retry)`; a
    /// request that is wrong in itself (400, 406, 422) starts with that. Default 60 s.
    pub slow_retry: Duration,
    /// A watch that ends cleanly sooner than this, without an event, counts as a failure (RF-34). Default 1 s.
    pub short_watch: Duration,
    /// So many short or unreadable watches in a row, and the collection is read anew (K2). Default 3.
    pub short_watches_max: u32,
    /// So many watches at a version ahead of the server, and the collection is read anew (K9). Default 3.
    pub too_large_max: u32,
    /// How long in-stream 500s are answered by watching again from the same version; after that, or where a quiet
    /// minute has not passed in between, the collection is read anew (RD-1). Default 30 s.
    pub internal_error_budget: Duration,
    /// Once a resource has been absent (404) for this long, confirmed by a later probe, its objects are deleted from
    /// the store. Default `None`: they are kept, since a proxy's wrong 404 must not look like a mass deletion.
    pub delete_absent_after: Option<Duration>,
    /// The interval of lists where the resource cannot be watched (405). Default 30 s.
    pub poll_interval: Duration,
    /// How often the store is told to resync. Default `None`.
    pub resync_every: Option<Duration>,
    /// How often the collection is read anew although nothing is wrong, to verify the copy against servers that are
    /// not to be trusted with watches. It asks for the most recent state, and is counted from the last read that did; of
    /// a resource that is polled one list in so long is such a read. Default `None`.
    pub relist_every: Option<Duration>,
}

impl Options {
    /// The options within the bounds in which nothing can become a hot loop.
    pub(crate) fn bounded(mut self) -> Self {
        let second = Duration::from_secs(1);
        // "Never" is often written as `Duration::MAX`, and times are added up.
        let far = |duration: Duration| duration.min(FAR);
        self.backoff.first = far(self.backoff.first.max(Duration::from_millis(10)));
        self.backoff.cap = far(self.backoff.cap.max(self.backoff.first));
        self.idle_limit = self.idle_limit.max(second);
        self.list_deadline = self.list_deadline.max(second);
        self.initial_deadline = far(self.initial_deadline.max(second));
        self.slow_retry = far(self.slow_retry.max(second));
        self.poll_interval = far(self.poll_interval.max(second));
        self.streaming_probe_after = far(self.streaming_probe_after);
        self.watch_timeout.0 = far(self.watch_timeout.0.max(second));
        // RF-5: a maximum below the minimum is raised to it, and the randomness is gone.
        self.watch_timeout.1 = far(self.watch_timeout.1.max(self.watch_timeout.0));
        self.resync_every = self.resync_every.map(|every| far(every.max(second)));
        self.relist_every = self.relist_every.map(|every| far(every.max(second)));
        self
    }
}

/// A hundred years.
const FAR: Duration = Duration::from_secs(100 * 365 * 86_400);

impl Default for Options {
    fn default() -> Self {
        Self {
            target: "objects".into(),
            selection: Selection::default(),
            streaming: true,
            initial_deadline: Duration::from_secs(10),
            streaming_probe_after: Duration::from_secs(30 * 60),
            initial_read: InitialRead::default(),
            page_size: Some(500),
            list_deadline: Duration::from_secs(30 * 60),
            watch_timeout: (Duration::from_secs(300), Duration::from_secs(600)),
            deadline_margin: Duration::from_secs(30),
            idle_limit: Duration::from_secs(90),
            backoff: BackoffOptions::default(),
            slow_retry: Duration::from_secs(60),
            short_watch: Duration::from_secs(1),
            short_watches_max: 3,
            too_large_max: 3,
            internal_error_budget: Duration::from_secs(30),
            delete_absent_after: None,
            poll_interval: Duration::from_secs(30),
            resync_every: None,
            relist_every: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a person may mean is left as it is; what means "never" is far enough, and times can still be added up.
    #[test]
    fn only_never_is_cut_short() {
        let years = |years: u64| Duration::from_secs(years * 365 * 86_400);
        let polled =
            |interval| Options { poll_interval: interval, ..Options::default() }.bounded().poll_interval;
        assert_eq!(polled(years(99)), years(99));
        assert_eq!(polled(Duration::MAX), years(100));
    }
}
