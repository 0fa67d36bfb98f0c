//! The reflector's brain: a state machine without I/O, clock or randomness of its own.
//!
//! Inputs are facts, outputs are [`Order`]s; the time is an argument, and so is the seed of the jitter. All rules about
//! resource versions, pages, fallbacks, refusals, back-off, silence and streaming lists live here and nowhere else. The
//! same code is run by the tokio driver, by simulators and by model checkers.
//!
//! ```text
//!                 ┌──────────── Syncing ───────────┐
//!  start ────────▶│ streaming list ──fallback──▶   │
//!   410, rewound, │        │            pages of   │
//!   short ×3, …   │        │ end        a list     │
//!        ▲        │        │ bookmark     │ last   │
//!        │        └────────┼──────────────┼────────┘
//!        │                 ▼ commit       ▼ commit
//!        │            same stream     new watch ◀──────────┐
//!        │                 └──────┬───────┘                │ clean end: at once
//!        └──────────────────── Watching ───────────────────┤
//!                                 │ failure                │
//!                                 ▼                        │
//!                   Waiting (back-off, Retry-After) ───────┘ same version
//!
//!  404: Absent, probed slowly.   405: Polling, lists at an interval.
//! ```
//!
//! See [`Machine`] for the contract with its driver.

pub(crate) mod backoff;
mod failure;
mod fingerprint;
mod machine;
mod options;
mod order;
pub(crate) mod random;
mod revision;
mod status;

use std::{fmt, time::Duration};

pub use backoff::BackoffOptions;
pub use failure::{Class, ErrorReport, Failure, FailureKind};
pub use machine::{Deadline, EventKind, Machine};
pub use options::{InitialRead, Options};
pub use order::{CheckResult, Disposition, History, Order, SyncMethod, SyncReason};
pub use revision::Revision;
pub use status::{Counts, Phase, Status, Streaming};

/// Time as the machine knows it: since an origin that the driver chooses. It never goes back.
pub type Time = Duration;

/// What a request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verb {
    /// LIST.
    List,
    /// WATCH.
    Watch,
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::List => "list",
            Self::Watch => "watch",
        })
    }
}
