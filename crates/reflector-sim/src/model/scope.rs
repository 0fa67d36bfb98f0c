//! How large the world is in which all interleavings are walked.

use std::time::Duration;

use reflector::protocol::{BackoffOptions, InitialRead, Options};

use super::fault::Fault;

/// What the server makes of a streaming list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Streaming {
    /// It serves it.
    Works,
    /// It refuses the parameter (before Kubernetes 1.32).
    Refused,
    /// It ignores the parameter, as some proxies do.
    Ignored,
}

/// A small world: how the machine is configured, what the server can do, and how much may happen.
#[derive(Clone, Debug)]
pub struct Scope {
    /// Its name, for reports.
    pub name: &'static str,
    /// The machine's options. The wait after a fallback is either nothing or for ever, so that it makes no states.
    pub options: Options,
    /// What the server makes of a streaming list.
    pub streaming: Streaming,
    /// How many writes there are.
    pub writes: u8,
    /// How many faults there are; `None` is without end.
    pub faults: Option<u8>,
    /// Which ones.
    pub kinds: Vec<Fault>,
    /// How often etcd is restored from a backup.
    pub restores: u8,
    /// Whether a restored server may give out versions as high as the copy's. Nobody can see that, and only a regular
    /// verification heals it.
    pub catch_up: bool,
    /// Whether a server refuses a watch from a version that is ahead of it. Most accept it, and say nothing.
    pub refuses_future: bool,
    /// How often the resource is deleted, and comes back.
    pub removals: u8,
}

/// What all waits are multiples of; near enough to the real ones to keep their order.
pub(super) const TICK: Duration = Duration::from_secs(45);

/// Never, within a walk.
const FAR: Duration = Duration::from_secs(100 * 365 * 86_400);

impl Scope {
    /// Nothing happens at all: the scopes below add to this. All times are multiples of one, so that states meet again.
    fn quiet(name: &'static str) -> Self {
        let backoff = BackoffOptions { first: TICK, cap: TICK, reset_after: TICK * 3 };
        Self {
            name,
            options: Options {
                // Two objects are two pages.
                page_size: Some(1),
                initial_deadline: TICK,
                streaming_probe_after: FAR,
                watch_timeout: (TICK * 5, TICK * 5),
                deadline_margin: TICK,
                idle_limit: TICK * 2,
                backoff,
                slow_retry: TICK,
                internal_error_budget: TICK,
                poll_interval: TICK,
                ..Options::default()
            },
            streaming: Streaming::Works,
            writes: 0,
            faults: Some(0),
            kinds: Fault::ALL.to_vec(),
            restores: 0,
            catch_up: false,
            refuses_future: false,
            removals: 0,
        }
    }

    /// What `cargo test` walks through: a corner of everything.
    #[must_use]
    pub fn small() -> Vec<Self> {
        vec![
            Self { writes: 1, faults: Some(1), ..Self::quiet("streaming") },
            Self { writes: 1, faults: Some(1), ..Self::quiet("pages").without_streaming() },
            Self {
                writes: 1,
                faults: Some(1),
                kinds: vec![Fault::StoreRefuses, Fault::Hang],
                restores: 1,
                ..Self::quiet("restored")
            },
            Self { restores: 1, refuses_future: true, ..Self::quiet("restored, refusing") }
                .without_streaming(),
            Self { writes: 1, removals: 1, ..Self::quiet("removed") },
            Self { faults: Some(1), streaming: Streaming::Ignored, ..Self::quiet("ignored") }
                .probing_at_once(),
            Self { faults: Some(2), kinds: vec![Fault::Expired, Fault::Older], ..Self::quiet("older") },
            Self { faults: None, kinds: vec![Fault::TokenIgnored], ..Self::quiet("storm of tokens") }
                .without_streaming(),
        ]
    }

    /// What the command walks through.
    #[must_use]
    pub fn large() -> Vec<Self> {
        vec![
            Self { writes: 2, faults: Some(2), ..Self::quiet("streaming") },
            Self { writes: 2, faults: Some(2), ..Self::quiet("pages").without_streaming() },
            Self { writes: 1, faults: Some(2), streaming: Streaming::Refused, ..Self::quiet("refused") }
                .probing_at_once(),
            Self { writes: 1, faults: Some(2), streaming: Streaming::Ignored, ..Self::quiet("ignored") },
            Self { writes: 2, faults: Some(1), restores: 1, ..Self::quiet("restored") },
            Self {
                writes: 2,
                faults: Some(1),
                restores: 1,
                catch_up: true,
                ..Self::quiet("restored, verified")
            }
            .verifying(),
            Self {
                writes: 1,
                faults: Some(1),
                restores: 1,
                refuses_future: true,
                ..Self::quiet("restored, refusing")
            },
            Self { writes: 1, faults: Some(1), removals: 1, ..Self::quiet("removed") },
            Self { writes: 1, faults: Some(1), removals: 1, ..Self::quiet("removed, deleting") }
                .deleting_absent(),
            Self { writes: 1, faults: Some(1), ..Self::quiet("any version first") }.any_version(),
            Self {
                faults: None,
                kinds: vec![Fault::Expired, Fault::Unauthorized, Fault::Mistake, Fault::Reset, Fault::End],
                ..Self::quiet("storm")
            },
            Self {
                faults: None,
                kinds: vec![
                    Fault::Expired,
                    Fault::Unauthorized,
                    Fault::TokenIgnored,
                    Fault::CutPage,
                    Fault::End,
                ],
                ..Self::quiet("storm of pages")
            }
            .without_streaming(),
        ]
    }

    /// What cannot be seen: after a restore the server gives out versions as high as the copy's, and nothing verifies.
    #[must_use]
    pub fn unseen() -> Self {
        Self { writes: 2, restores: 1, catch_up: true, ..Self::quiet("restored, not verified") }
    }

    fn without_streaming(mut self) -> Self {
        self.options.streaming = false;
        self
    }

    fn probing_at_once(mut self) -> Self {
        self.options.streaming_probe_after = Duration::ZERO;
        self
    }

    fn verifying(mut self) -> Self {
        self.options.relist_every = Some(TICK * 5);
        self
    }

    fn deleting_absent(mut self) -> Self {
        self.options.delete_absent_after = Some(TICK);
        self
    }

    fn any_version(mut self) -> Self {
        self.options.initial_read = InitialRead::Any;
        self.options.streaming = false;
        self
    }
}
