//! The transitions, in the order of the code of the machine: each branch of its rules has a name.

use reflector::protocol::{Class, Phase, Streaming, SyncReason};

use super::{Asked, Input, Is, Step};

/// Transitions that no schedule takes, and why not.
pub const NEVER: &[(&str, &str)] = &[];

fn is_fallback(step: &Step<'_>) -> bool {
    step.lists()
        && !matches!(step.before.streaming, Streaming::FellBack { .. })
        && matches!(step.after.streaming, Streaming::FellBack { .. })
}

/// All transitions, with what they look like from outside.
pub const TRANSITIONS: &[(&str, Is)] = &[
    // The beginning.
    ("start: a streaming list", |s| s.input == Input::Start && s.streams()),
    ("start: a list", |s| s.input == Input::Start && s.lists()),
    // Lists.
    ("list: a page leads to the next", |s| s.listing() && s.asks(Asked::Page) && s.reports.is_empty()),
    ("list: the last page is committed, and a watch begins", |s| {
        s.listing() && s.input == (Input::PageEnd { more: false }) && s.committed() && s.watches()
    }),
    ("list: the last page is committed, and lists go on at an interval", |s| {
        s.listing() && s.committed() && matches!(s.after.phase, Phase::Polling { .. })
    }),
    ("list: without a version", |s| s.listing() && s.committed() && s.asks(Asked::Watch { version: false })),
    ("list: at a version, and paged, since the server has no cache", |s| {
        s.asks(Asked::List { version: true, limit: true })
    }),
    ("list: tokens in a circle, begun again", |s| {
        s.listing()
            && s.input == (Input::PageEnd { more: true })
            && s.reports(Class::Malformed)
            && s.asked.iter().any(|asked| matches!(asked, Asked::List { limit: true, .. }))
    }),
    ("list: tokens in a circle, asked for whole", |s| {
        s.listing()
            && s.input == (Input::PageEnd { more: true })
            && s.reports(Class::Malformed)
            && s.asked.iter().any(|asked| matches!(asked, Asked::List { limit: false, .. }))
    }),
    ("list: tokens in a circle, although asked for whole", |s| {
        s.listing() && s.input == (Input::PageEnd { more: true }) && s.reports(Class::Malformed) && s.waits()
    }),
    ("list: a token expired, begun again", |s| {
        s.list_failed(Class::Expired)
            && s.was.page
            && s.asked.iter().any(|asked| matches!(asked, Asked::List { limit: true, .. }))
    }),
    ("list: a token expired, asked for whole", |s| {
        s.list_failed(Class::Expired)
            && s.was.page
            && s.asked.iter().any(|asked| matches!(asked, Asked::List { limit: false, .. }))
    }),
    ("list: a token expired, although asked for whole", |s| {
        s.list_failed(Class::Expired) && s.was.page && s.waits()
    }),
    ("list: a page is called a mistake, begun again", |s| {
        s.list_failed(Class::Mistake) && s.was.page && s.lists()
    }),
    ("list: a page is called a mistake a second time", |s| {
        s.list_failed(Class::Mistake) && s.was.page && s.waits()
    }),
    ("list: the version is too old", |s| s.list_failed(Class::Expired) && s.was.version && s.lists()),
    ("list: the version is ahead", |s| s.list_failed(Class::TooLarge) && s.was.version && s.lists()),
    ("list: the version is called a mistake", |s| {
        s.list_failed(Class::Mistake) && s.was.version && !s.was.page && s.lists()
    }),
    ("list: too old, though without a version", |s| {
        s.list_failed(Class::Expired) && !s.was.version && !s.was.page && s.waits()
    }),
    ("list: ahead, though without a version", |s| {
        s.list_failed(Class::TooLarge) && !s.was.version && s.waits()
    }),
    ("list: older than what was asked for", |s| {
        s.listing()
            && s.input == (Input::PageEnd { more: false })
            && s.reports(Class::Rewound)
            && s.asked.iter().any(|asked| matches!(asked, Asked::List { version: false, .. }))
    }),
    ("list: absent", |s| s.list_failed(Class::Absent) && matches!(s.after.phase, Phase::Absent { .. })),
    ("list: the first page fails, and waits", |s| s.list_failed(Class::Server) && !s.was.page && s.waits()),
    ("list: a later page fails, and waits", |s| s.list_failed(Class::Server) && s.was.page && s.waits()),
    ("list: the same page again", |s| s.waiting() && s.time() && s.asks(Asked::Page)),
    ("list: throttled", |s| s.list_failed(Class::Throttled) && s.waits()),
    ("list: unavailable", |s| s.list_failed(Class::Unavailable) && s.waits()),
    ("list: unauthorized", |s| s.list_failed(Class::Unauthorized)),
    ("list: forbidden", |s| s.list_failed(Class::Forbidden) && s.waits()),
    ("list: not allowed", |s| s.list_failed(Class::NotSupported) && s.waits()),
    ("list: a mistake", |s| s.list_failed(Class::Mistake) && !s.was.version && !s.was.page && s.waits()),
    ("list: an internal error", |s| s.list_failed(Class::Internal) && s.waits()),
    ("list: not reached", |s| s.list_failed(Class::Transport) && !s.was.opened && s.waits()),
    ("list: broken off", |s| s.list_failed(Class::Transport) && s.was.opened && s.waits()),
    ("list: unreadable", |s| s.list_failed(Class::Malformed) && s.waits()),
    ("list: stands still", |s| s.listing() && s.time() && s.reports(Class::Silent) && s.waits()),
    ("list: does not come through either, so streaming lists are not to blame", |s| {
        s.listing()
            && matches!(s.before.streaming, Streaming::FellBack { .. })
            && s.after.streaming == Streaming::Unknown
    }),
    // Streaming lists.
    ("streaming: initial events are staged", |s| s.streaming() && s.events().change && !s.committed()),
    ("streaming: the end bookmark commits, and the watch goes on", |s| {
        s.streaming() && s.events().end && s.committed() && s.after.phase == Phase::Watching
    }),
    ("streaming: a plain bookmark", |s| s.streaming() && s.events().bookmark),
    ("streaming: older than what was asked for", |s| {
        s.streaming() && s.events().end && s.reports(Class::Rewound) && s.streams()
    }),
    ("streaming: the version is too old", |s| s.streaming_failed(Class::Expired) && s.streams()),
    ("streaming: the version is ahead", |s| s.streaming_failed(Class::TooLarge) && s.streams()),
    ("streaming: too old, though without a version", |s| s.streaming_failed(Class::Expired) && s.waits()),
    ("streaming: ahead, though without a version", |s| s.streaming_failed(Class::TooLarge) && s.waits()),
    ("streaming: throttled", |s| s.streaming_failed(Class::Throttled) && s.waits()),
    ("streaming: unavailable", |s| s.streaming_failed(Class::Unavailable) && s.waits()),
    ("streaming: unauthorized", |s| s.streaming_failed(Class::Unauthorized)),
    ("streaming: forbidden", |s| s.streaming_failed(Class::Forbidden) && s.waits()),
    ("streaming: absent", |s| {
        s.streaming_failed(Class::Absent) && matches!(s.after.phase, Phase::Absent { .. })
    }),
    ("streaming: not reached", |s| s.streaming_failed(Class::Transport) && !s.was.opened && s.waits()),
    ("streaming: broken off, and tried again", |s| {
        s.streaming_failed(Class::Transport) && s.was.opened && s.waits()
    }),
    ("streaming: broken off, and given up", |s| s.streaming_failed(Class::Transport) && is_fallback(s)),
    ("streaming: unreadable", |s| s.streaming_failed(Class::Malformed) && s.waits()),
    ("streaming: an internal error", |s| s.streaming_failed(Class::Internal) && !s.in_stream() && s.waits()),
    ("streaming: another error of the server", |s| s.streaming_failed(Class::Server) && s.waits()),
    ("streaming: refused in the stream", |s| {
        s.streaming() && s.in_stream() && s.reports(Class::Internal) && is_fallback(s)
    }),
    ("streaming: not supported", |s| s.streaming_failed(Class::NotSupported) && is_fallback(s)),
    ("streaming: a mistake", |s| s.streaming_failed(Class::Mistake) && is_fallback(s)),
    ("streaming: ended without its bookmark", |s| s.streaming() && s.input == Input::Ended && is_fallback(s)),
    ("streaming: not answered", |s| s.streaming() && s.time() && !s.was.opened && is_fallback(s)),
    ("streaming: silent", |s| s.streaming() && s.time() && s.was.opened && is_fallback(s)),
    ("streaming: tried again after a while", |s| {
        matches!(s.before.streaming, Streaming::FellBack { .. }) && s.streams()
    }),
    // Watches.
    ("watch: opens", |s| s.watching() && s.input == Input::WatchOpened),
    ("watch: a change", |s| s.watching() && s.events().change),
    ("watch: a bookmark", |s| s.watching() && s.events().bookmark),
    ("watch: an event from before", |s| s.after.counts.regressions > s.before.counts.regressions),
    ("watch: an event from before the watch is asked about", |s| {
        s.after.counts.regressions > s.before.counts.regressions && s.asks(Asked::Check)
    }),
    ("watch: an unreadable object", |s| s.after.counts.invalid > s.before.counts.invalid),
    ("watch: too old, read at once", |s| s.watch_failed(Class::Expired) && s.reads(SyncReason::Expired)),
    ("watch: too old, read after a wait", |s| s.watch_failed(Class::Expired) && s.waits()),
    ("watch: the version is ahead", |s| s.watch_failed(Class::TooLarge) && s.waits()),
    ("watch: the version stays ahead", |s| s.waiting() && s.reads(SyncReason::TooLarge)),
    ("watch: not supported", |s| {
        s.watch_failed(Class::NotSupported) && matches!(s.after.phase, Phase::Polling { .. })
    }),
    ("watch: unreadable", |s| s.watch_failed(Class::Malformed) && s.waits()),
    ("watch: stays unreadable", |s| s.waiting() && s.reads(SyncReason::Malformed)),
    ("watch: a mistake", |s| s.watch_failed(Class::Mistake) && !s.in_stream() && s.waits()),
    ("watch: an internal error in the stream", |s| {
        s.watch_failed(Class::Internal) && s.in_stream() && s.waits()
    }),
    ("watch: an internal error in the stream, read at once", |s| {
        s.watch_failed(Class::Internal) && s.in_stream() && s.reads(SyncReason::StreamError)
    }),
    ("watch: another error in the stream, read at once", |s| {
        s.watch_failed(Class::Server) && s.in_stream() && s.reads(SyncReason::StreamError)
    }),
    ("watch: a mistake in the stream, read at once", |s| {
        s.watch_failed(Class::Mistake) && s.in_stream() && s.reads(SyncReason::StreamError)
    }),
    ("watch: errors in the stream, read after a wait", |s| s.waiting() && s.reads(SyncReason::StreamError)),
    ("watch: an internal error before it opens", |s| {
        s.watch_failed(Class::Internal) && !s.in_stream() && s.waits()
    }),
    ("watch: another error before it opens", |s| {
        s.watch_failed(Class::Server) && !s.in_stream() && s.waits()
    }),
    ("watch: throttled", |s| s.watch_failed(Class::Throttled) && s.waits()),
    ("watch: unavailable", |s| s.watch_failed(Class::Unavailable) && s.waits()),
    ("watch: unauthorized, at once again", |s| s.watch_failed(Class::Unauthorized) && s.watches()),
    ("watch: unauthorized, and waits", |s| s.watch_failed(Class::Unauthorized) && s.waits()),
    ("watch: forbidden", |s| s.watch_failed(Class::Forbidden) && s.waits()),
    ("watch: absent", |s| s.watch_failed(Class::Absent) && matches!(s.after.phase, Phase::Absent { .. })),
    ("watch: not reached, or broken off", |s| s.watch_failed(Class::Transport) && s.waits()),
    ("watch: short", |s| s.watching() && s.input == Input::Ended && s.reports(Class::ShortWatch)),
    ("watch: short again and again", |s| s.waiting() && s.reads(SyncReason::ShortWatch)),
    ("watch: ends, and goes on", |s| s.watching() && s.input == Input::Ended && s.watches()),
    ("watch: ends soon after an event", |s| {
        s.watching() && s.input == Input::Ended && s.reports.is_empty() && s.waits()
    }),
    ("watch: ends, and there is no version", |s| {
        s.watching()
            && s.input == Input::Ended
            && (s.reads(SyncReason::Verify) || matches!(s.after.phase, Phase::Polling { .. }))
    }),
    ("watch: outlives its timeout, and the next one begins", |s| {
        s.watching() && s.time() && s.reports.is_empty() && s.watches()
    }),
    ("watch: not answered", |s| s.watching() && s.time() && s.reports(Class::Silent) && !s.was.opened),
    ("watch: silent, and a check", |s| s.watching() && s.time() && s.was.opened && s.asks(Asked::Check)),
    ("watch: not answered yet, and a check", |s| {
        s.watching() && s.time() && !s.was.opened && s.asks(Asked::Check)
    }),
    // The second request.
    ("check: opened again", |s| s.input == (Input::Checked { version: true }) && s.asks(Asked::Reopen)),
    ("check: nothing to open again", |s| {
        s.input == (Input::Checked { version: true }) && s.asked.is_empty() && s.reports.is_empty()
    }),
    ("check: current after all", |s| {
        s.input == (Input::Checked { version: true }) && s.after.last_proof > s.before.last_proof
    }),
    ("check: the collection went back in time, read at once", |s| {
        s.input == (Input::Checked { version: true }) && s.reads(SyncReason::Rewound)
    }),
    ("check: the collection went back in time, read after a wait", |s| {
        s.waiting() && s.reads(SyncReason::Rewound)
    }),
    ("check: without a version", |s| s.input == (Input::Checked { version: false })),
    ("check: the server wants to be left alone", |s| {
        matches!(s.input, Input::CheckFailed(Class::Throttled | Class::Unavailable)) && s.asked.is_empty()
    }),
    ("check: not reached", |s| s.input == Input::CheckFailed(Class::Transport) && s.waits()),
    ("check: refused, and opened again", |s| {
        matches!(s.input, Input::CheckFailed(_)) && s.asks(Asked::Reopen)
    }),
    ("second: takes the place of the first", |s| s.input == Input::Reopened),
    ("second: not opened, and the first is dead", |s| {
        s.input == Input::ReopenFailed(Class::Transport) && s.waits()
    }),
    ("second: not opened, and the version is no good", |s| {
        matches!(
            s.input,
            Input::ReopenFailed(Class::Expired | Class::TooLarge | Class::Absent | Class::NotSupported)
        )
    }),
    ("second: not opened, and the first stays", |s| {
        matches!(s.input, Input::ReopenFailed(_)) && s.after.phase == Phase::Watching
    }),
    ("second: silent, and the first is dead", |s| {
        s.watching() && s.time() && s.reports(Class::Silent) && (s.was.check || s.was.reopen)
    }),
    ("second: needless, since something came", |s| {
        (s.was.check || s.was.reopen)
            && !s.is.check
            && !s.is.reopen
            && s.after.phase == Phase::Watching
            && matches!(s.input, Input::Events(_))
    }),
    // Whatever the state.
    ("resync", |s| s.resynced),
    ("verify: the collection is read anew", |s| s.time() && s.watching() && s.reads(SyncReason::Verify)),
    ("poll: the next list", |s| s.waiting() && s.time() && s.reads(SyncReason::Poll)),
    ("store: refuses, and everything is read anew", |s| s.waiting() && s.reads(SyncReason::Store)),
    ("absent: the objects are deleted after a while", |s| {
        s.before.version.is_some() && s.after.version.is_none() && s.reports(Class::Absent)
    }),
    ("absent: it is back", |s| {
        s.committed() && matches!(s.before.phase, Phase::Syncing { reason: SyncReason::Absent, .. })
    }),
    ("stop", |s| s.input == Input::Stop && s.after.phase == Phase::Stopped),
];
