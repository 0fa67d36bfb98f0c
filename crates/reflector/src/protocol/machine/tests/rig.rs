//! A machine, a clock, and words for what a server says, so that a test reads like a conversation.

use std::time::Duration;

use crate::{
    ResourceVersion,
    protocol::{
        CheckResult, Deadline, Disposition, ErrorReport, EventKind, Failure, History, Machine, Options,
        Order, Status, SyncMethod, Time,
    },
    source::{ListOptions, Selection, WatchOptions},
};

pub(super) struct Rig {
    pub(super) machine: Machine,
    pub(super) now: Time,
    /// Every report so far.
    pub(super) reports: Vec<ErrorReport>,
    /// The timeouts of the watches asked for so far.
    pub(super) timeouts: Vec<Duration>,
    /// What the last read of the collection had to do with the copy.
    pub(super) history: Option<History>,
}

pub(super) fn secs(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds)
}

pub(super) fn rv(text: &str) -> Option<ResourceVersion> {
    ResourceVersion::new(text)
}

/// Without the streaming list, for rules that concern LIST and WATCH.
pub(super) fn lists() -> Options {
    Options { streaming: false, ..Options::default() }
}

/// A failure from its short name: a code, a code and a reason, or a layer; `/7` at the end is a Retry-After.
pub(super) fn failure(name: &str) -> Failure {
    let (what, after) = name.split_once('/').map_or((name, None), |(what, after)| (what, Some(after)));
    let after = after.map(|seconds| Duration::from_secs(seconds.parse().unwrap()));
    let refused = |code, reason: &str, message: &str, causes: &[(&str, &str)]| {
        Failure::refused(code, reason, message, causes.iter().copied(), after)
    };
    match what {
        "transport" => Failure::transport("connection reset"),
        "malformed" => Failure::malformed("not JSON"),
        "silent" => Failure::deadline("no answer"),
        "too large by cause" => refused(504, "Timeout", "wait", &[("ResourceVersionTooLarge", "x")]),
        "too large by cause message" => {
            refused(504, "Timeout", "wait", &[("", "Too large resource version")])
        }
        "too large by message" => refused(504, "", "Timeout: Too large resource version: 9, current: 7", &[]),
        "unreadable version" => refused(500, "", "resourceVersion: Invalid value: \"x\"", &[]),
        _ => {
            let (code, reason) = what.split_once(' ').unwrap_or((what, ""));
            refused(code.parse().unwrap(), reason, "refused", &[])
        }
    }
}

impl Rig {
    /// Started, and its first orders are still to be taken.
    pub(super) fn start(options: Options) -> Self {
        let mut machine = Machine::new(options, 7);
        machine.start(Time::ZERO);
        Self { machine, now: Time::ZERO, reports: Vec::new(), timeouts: Vec::new(), history: None }
    }

    /// Synced by a list at `version`, with the watch open.
    pub(super) fn synced(options: Options, version: &str) -> Self {
        let mut rig = Self::start(Options { streaming: false, ..options });
        rig.page(version, "").open().take();
        assert!(rig.status().synced);
        rig
    }

    /// Synced by a streaming list at `version`, which goes on as the watch.
    pub(super) fn streamed(options: Options, version: &str) -> Self {
        let mut rig = Self::start(options);
        rig.open().end_bookmark(version).take();
        assert!(rig.status().synced);
        rig
    }

    pub(super) fn status(&self) -> Status {
        self.machine.status()
    }

    pub(super) fn version(&self) -> String {
        self.status().version.map_or_else(|| "-".to_owned(), |v| v.to_string())
    }

    /// The orders that are due, as text.
    pub(super) fn take(&mut self) -> String {
        let mut texts = Vec::new();
        while let Some(order) = self.machine.poll_order() {
            match &order {
                Order::Report(report) => self.reports.push(report.clone()),
                Order::BeginReplace { history, .. } => self.history = Some(*history),
                Order::Watch(watch) | Order::Reopen(watch) => self.timeouts.extend(watch.timeout),
                _ => {}
            }
            texts.push(text(&order));
        }
        texts.join("; ")
    }

    #[track_caller]
    pub(super) fn expect(&mut self, orders: &str) -> &mut Self {
        assert_eq!(self.take(), orders, "at {:?}, {:?}", self.now, self.status().phase);
        self
    }

    /// A wait of `[low, high)` seconds follows, and passes.
    #[track_caller]
    pub(super) fn expect_wait(&mut self, low: f64, high: f64) -> &mut Self {
        let (at, deadline) = self.machine.poll_timeout().unwrap();
        assert!(matches!(deadline, Deadline::Retry | Deadline::Poll), "{deadline:?}");
        let wait = at - self.now;
        assert!(wait >= secs(low) && (wait < secs(high) || low >= high), "waits {wait:?}");
        self.at(at)
    }

    /// Nothing is ordered before this deadline, which comes after exactly so many seconds, and passes.
    #[track_caller]
    pub(super) fn expect_deadline(&mut self, what: Deadline, seconds: f64) -> &mut Self {
        let (at, deadline) = self.machine.poll_timeout().unwrap();
        assert_eq!((deadline, at - self.now), (what, secs(seconds)));
        self.at(at)
    }

    pub(super) fn at(&mut self, at: Time) -> &mut Self {
        self.now = at;
        self.machine.handle_timeout(at);
        self
    }

    pub(super) fn advance(&mut self, seconds: f64) -> &mut Self {
        self.at(self.now + secs(seconds))
    }

    pub(super) fn open(&mut self) -> &mut Self {
        self.machine.handle_watch_opened(self.now);
        self
    }

    pub(super) fn page(&mut self, version: &str, token: &str) -> &mut Self {
        self.machine.handle_page(self.now, rv(version), Some(token.to_owned()));
        self
    }

    pub(super) fn list_fails(&mut self, name: &str) -> &mut Self {
        self.machine.handle_list_failed(self.now, failure(name));
        self
    }

    pub(super) fn watch_fails(&mut self, name: &str) -> &mut Self {
        self.machine.handle_watch_failed(self.now, failure(name));
        self
    }

    /// An ERROR event.
    pub(super) fn error(&mut self, name: &str) -> &mut Self {
        self.machine.handle_stream_error(self.now, failure(name));
        self
    }

    pub(super) fn broken(&mut self, name: &str) -> &mut Self {
        self.machine.handle_stream_broken(self.now, failure(name));
        self
    }

    pub(super) fn ended(&mut self) -> &mut Self {
        self.machine.handle_stream_ended(self.now);
        self
    }

    /// Bytes that make no event yet.
    pub(super) fn bytes(&mut self) -> &mut Self {
        self.machine.handle_progress(self.now);
        self
    }

    /// An object without usable metadata.
    pub(super) fn unusable(&mut self) -> &mut Self {
        self.machine.handle_invalid(self.now);
        self
    }

    pub(super) fn event(&mut self, kind: EventKind, version: &str) -> Disposition {
        self.machine.handle_event(self.now, kind, rv(version).as_ref())
    }

    pub(super) fn added(&mut self, version: &str) -> &mut Self {
        self.event(EventKind::Added, version);
        self
    }

    pub(super) fn modified(&mut self, version: &str) -> &mut Self {
        self.event(EventKind::Modified, version);
        self
    }

    pub(super) fn bookmark(&mut self, version: &str) -> &mut Self {
        self.machine.handle_bookmark(self.now, rv(version).as_ref(), false);
        self
    }

    pub(super) fn end_bookmark(&mut self, version: &str) -> &mut Self {
        self.machine.handle_bookmark(self.now, rv(version).as_ref(), true);
        self
    }

    pub(super) fn checked(&mut self, result: CheckResult) -> &mut Self {
        self.machine.handle_checked(self.now, result);
        self
    }

    pub(super) fn reopened(&mut self) -> &mut Self {
        self.machine.handle_reopened(self.now);
        self
    }

    pub(super) fn reopen_fails(&mut self, name: &str) -> &mut Self {
        self.machine.handle_reopen_failed(self.now, failure(name));
        self
    }

    pub(super) fn last(&self) -> &ErrorReport {
        self.reports.last().unwrap()
    }
}

/// An order in few words. Timeouts of watches are left out: they are random, and have a test of their own.
fn text(order: &Order) -> String {
    match order {
        Order::Refresh => "refresh".into(),
        Order::List(options) => format!("list{}", list(options)),
        Order::Check(options) => format!("check{}", list(options)),
        Order::Watch(options) => format!("watch{}", watch(options)),
        Order::Reopen(options) => format!("reopen{}", watch(options)),
        Order::Close => "close".into(),
        Order::CloseSecond => "close second".into(),
        Order::BeginReplace { reason, method, history: _ } => {
            let method = if *method == SyncMethod::Streaming { "streaming" } else { "list" };
            format!("begin {} {method}", reason.as_str())
        }
        Order::CommitReplace { version } => {
            format!("commit {}", version.as_ref().map_or_else(|| "-".to_owned(), ToString::to_string))
        }
        Order::AbandonReplace => "abandon".into(),
        Order::Bookmark(version) => format!("bookmark {version}"),
        Order::Resync => "resync".into(),
        Order::Report(report) => format!("report {} {}", report.verb, report.class.as_str()),
        Order::Stopped => "stopped".into(),
    }
}

fn selection(selection: &Selection) -> String {
    let labels = selection.labels.as_ref().map(|l| format!(" labels={l}"));
    let fields = selection.fields.as_ref().map(|f| format!(" fields={f}"));
    labels.into_iter().chain(fields).collect()
}

fn list(options: &ListOptions) -> String {
    let mut text = selection(&options.selection);
    text += &options.version.as_ref().map(|v| format!(" rv={v}")).unwrap_or_default();
    text += &options.version_match.map(|m| format!(" match={}", m.as_str())).unwrap_or_default();
    text += &options.limit.map(|l| format!(" limit={l}")).unwrap_or_default();
    text + &options.continue_token.as_ref().map(|t| format!(" continue={t}")).unwrap_or_default()
}

/// Bookmarks and a timeout are always asked for.
fn watch(options: &WatchOptions) -> String {
    assert!(options.bookmarks && options.timeout.is_some(), "{options:?}");
    let mut text = selection(&options.selection);
    text += &options.version.as_ref().map(|v| format!(" rv={v}")).unwrap_or_default();
    text += &options.version_match.map(|m| format!(" match={}", m.as_str())).unwrap_or_default();
    if options.send_initial_events == Some(true) { text + " initial" } else { text }
}
