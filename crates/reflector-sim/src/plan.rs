//! A schedule, written down: what the cluster is like, how the reflector is set up, and what happens when.
//!
//! A plan is data, so that parts of it can be left out to see whether it still fails, and so that it can be kept as a
//! regression test whatever becomes of the generator.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::cluster::object::{Key, name};

/// Milliseconds since the beginning.
pub type Millis = u64;

/// One schedule.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// The seed of everything that the plan leaves open: delays, the cuts between chunks, whom the load balancer takes.
    pub seed: u64,
    /// How the reflector is set up.
    #[serde(default)]
    pub setup: Setup,
    /// What the cluster, and the way to it, are like for good.
    #[serde(default)]
    pub nature: Nature,
    /// What happens, in the order of time.
    pub steps: Vec<Step>,
}

/// One thing that happens.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// When.
    pub at: Millis,
    /// What.
    pub action: Action,
}

/// How the reflector is set up, and who follows it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Setup {
    /// Whether it may use streaming lists.
    pub streaming: bool,
    /// Objects per page.
    pub page_size: Option<u32>,
    /// Whether the first list may be any (version "0").
    pub any: bool,
    /// Whether it has a selector.
    pub selector: bool,
    /// The interval of resyncs.
    pub resync_every: Option<Millis>,
    /// The interval of verifying reads.
    pub relist_every: Option<Millis>,
    /// How long an absent resource keeps its objects.
    pub delete_absent_after: Option<Millis>,
    /// The least life of a watch; the greatest is twice that.
    pub watch_timeout: Millis,
    /// How long errors in streams are answered by watching again.
    pub internal_error_budget: Millis,
    /// The subscribers.
    pub followers: Vec<Follower>,
    /// Whether a delta FIFO keeps all changes.
    pub compress: bool,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            streaming: true,
            page_size: Some(500),
            any: false,
            selector: false,
            resync_every: None,
            relist_every: None,
            delete_absent_after: None,
            watch_timeout: 300_000,
            internal_error_budget: 30_000,
            followers: vec![Follower::default()],
            compress: false,
        }
    }
}

/// A subscriber.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Follower {
    /// How changes wait for it.
    pub queue: Queue,
    /// Whether it wants only the selected objects.
    pub filtered: bool,
    /// How long it may let its events wait.
    pub slowness: Millis,
}

/// How changes wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub enum Queue {
    /// Merged.
    #[default]
    Merge,
    /// Merged; short lives are told.
    Deliver,
    /// Each by itself, merged when there are too many.
    Every(usize),
    /// Each by itself, and the end when there are too many.
    End(usize),
    /// Each by itself; the reflector waits when there are too many.
    Block(usize),
}

/// What the cluster, and the way to it, are like for good.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Nature {
    /// How many API servers there are.
    pub servers: usize,
    /// How far behind etcd a watch cache is at the most.
    pub lag: Millis,
    /// How long a message is under way at the most.
    pub latency: Millis,
    /// What becomes of a streaming list.
    pub streaming: Streaming,
    /// Whether bookmarks arrive.
    pub bookmarks: bool,
    /// Whether the resource can be watched.
    pub watchable: bool,
    /// Whether lists have a version.
    pub versions: bool,
    /// Whether there is a watch cache for lists; without one even those of any version come in pages.
    pub cached: bool,
    /// Whether a limit is kept.
    pub limits: bool,
    /// Whether a continue token is looked at.
    pub continues: bool,
    /// Whether a list that must not be older than a version is not.
    pub floors: bool,
    /// Whether a watch is ended by its own timeout.
    pub timeouts: bool,
    /// Whether a proxy holds the head of an answer back until there is something to send with it.
    pub holds_heads: bool,
    /// How long a proxy lets a stream be.
    pub proxy_timeout: Option<Millis>,
    /// Whether a watch that is too old is refused at once, and not in the stream.
    pub refuses_old_at_once: bool,
    /// Whether a watch that is too old is ended at once, without a word.
    pub ends_old_silently: bool,
    /// What objects are written in.
    pub format: Format,
    /// The size of chunks at the most; 0 is whole.
    pub chunk: usize,
    /// How many objects there are at first.
    pub objects: Key,
}

impl Default for Nature {
    fn default() -> Self {
        Self {
            servers: 1,
            lag: 20,
            latency: 10,
            streaming: Streaming::Works,
            bookmarks: true,
            watchable: true,
            versions: true,
            cached: true,
            limits: true,
            continues: true,
            floors: true,
            timeouts: true,
            holds_heads: false,
            proxy_timeout: None,
            refuses_old_at_once: false,
            ends_old_silently: false,
            format: Format::Json,
            chunk: 0,
            objects: 3,
        }
    }
}

/// What becomes of a streaming list.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Streaming {
    /// It is one.
    Works,
    /// The parameter is dropped, by an old server or by a proxy: a plain watch.
    Ignored,
    /// The server refuses the parameter.
    Refused,
}

/// What objects are written in.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Format {
    /// JSON.
    Json,
    /// The protobuf of Kubernetes.
    Protobuf,
}

/// What a request is answered with, instead of what it asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Fault {
    /// 429 with `Retry-After: 2`.
    Throttled,
    /// 503 with `Retry-After: 1`.
    Unavailable,
    /// 500 `InternalError`.
    Internal,
    /// 500 of another kind.
    Unreadable,
    /// 502 in HTML.
    BadGateway,
    /// 504 `Timeout`.
    Timeout,
    /// 400 `BadRequest`.
    BadRequest,
    /// 404 of a proxy that has lost its way.
    WrongPath,
    /// 405.
    NotAllowed,
    /// 410 `Expired`.
    Expired,
    /// 410 in an event.
    ExpiredEvent,
    /// 500 `InternalError` in an event.
    InternalEvent,
    /// 500 of another kind in an event.
    UnreadableEvent,
    /// 400 in an event.
    BadRequestEvent,
    /// 429 in an event.
    ThrottledEvent,
    /// 504 with the words for a version that is ahead.
    TooLarge,
    /// The version is no number that this server can read.
    UnreadableVersion,
    /// A success whose body is empty.
    Empty,
    /// A success whose body breaks off cleanly.
    Truncated,
    /// A success whose body is something else.
    Garbage,
    /// The connection is reset before the answer.
    Reset,
    /// The connection is reset in the middle of the answer.
    ResetInside,
    /// No answer at all, ever.
    Silence,
    /// An answer that stops in the middle, and the connection stays.
    Stall,
    /// The continue token is called expired.
    TokenExpired,
    /// A page whose continue token leads back to it.
    Circle,
}

impl Fault {
    /// All of them.
    pub const ALL: [Self; 26] = [
        Self::Throttled,
        Self::Unavailable,
        Self::Internal,
        Self::Unreadable,
        Self::BadGateway,
        Self::Timeout,
        Self::BadRequest,
        Self::WrongPath,
        Self::NotAllowed,
        Self::Expired,
        Self::ExpiredEvent,
        Self::InternalEvent,
        Self::UnreadableEvent,
        Self::BadRequestEvent,
        Self::ThrottledEvent,
        Self::TooLarge,
        Self::UnreadableVersion,
        Self::Empty,
        Self::Truncated,
        Self::Garbage,
        Self::Reset,
        Self::ResetInside,
        Self::Silence,
        Self::Stall,
        Self::TokenExpired,
        Self::Circle,
    ];
}

/// Which requests a fault meets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Meets {
    /// All.
    All,
    /// Lists.
    Lists,
    /// Pages after the first.
    Pages,
    /// Watches.
    Watches,
    /// The requests beside a watch.
    Seconds,
    /// Watches that are opened again beside a silent one.
    Reopens,
}

/// What happens.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Action {
    /// A writer creates or changes an object.
    Put(Key),
    /// A writer deletes an object.
    Delete(Key),
    /// A writer deletes an object and creates another one under its name at once.
    Recreate(Key),
    /// A writer takes an object into the selector, or out of it.
    Flip(Key),
    /// A writer changes one object so many times within a second.
    Hot(Key, u8),
    /// A writer deletes everything.
    DeleteAll,
    /// A writer creates everything that is not there.
    CreateAll,
    /// Objects of other types are written, which only moves the revision.
    Other(u16),
    /// etcd forgets its history, and with `true` the servers' watch caches forget theirs.
    Compact(bool),
    /// An API server restarts, and is down for so long.
    Restart(usize, Millis),
    /// The watch cache of an API server stands still for so long.
    CacheStall(usize, Millis),
    /// etcd is restored from a snapshot so many revisions ago; with `true` its revisions go on beyond what they were.
    Restore(u64, bool),
    /// The custom resource definition is deleted, and created again after so long.
    DeleteCrd(Millis),
    /// The permission is withdrawn for so long; with `true` open watches are ended.
    Forbid(Millis, bool),
    /// The token expires, and cannot be renewed for so long.
    ExpireToken(Millis),
    /// All connections are reset.
    Cut,
    /// All connections stay, and nothing ever comes on them.
    HalfOpen,
    /// Nothing passes for so long, in either direction; with `true` it arrives later.
    Partition(Millis, bool),
    /// Every message takes so long, for a minute.
    Slow(Millis),
    /// The next requests of a kind, so many of them, are answered with a fault.
    Answer(Fault, Meets, u8),
    /// Every request of a kind is answered with a fault, for so long.
    Outage(Fault, Meets, Millis),
    /// An error event comes on the open watch.
    Inject(Fault),
    /// All streams end cleanly.
    CloseStreams,
    /// The events that were sent last are sent once more; if there are none, some from before.
    Replay,
    /// An object that cannot be read comes on the open watch, with the name of one that is there; with `true` as a
    /// deletion that really takes place.
    Unreadable(Key, bool),
    /// The store refuses the next changes, so many times.
    StoreFails(u8),
    /// The store refuses the next commit.
    CommitFails,
    /// One more subscriber comes.
    Follow(Follower),
    /// A subscriber goes.
    Leave(usize),
    /// The user stops the reflector.
    Stop,
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Put(key) => write!(f, "a writer puts {}", name(*key)),
            Self::Delete(key) => write!(f, "a writer deletes {}", name(*key)),
            Self::Recreate(key) => write!(f, "a writer deletes {0} and creates another {0}", name(*key)),
            Self::Flip(key) => write!(f, "a writer changes whether {} is selected", name(*key)),
            Self::Hot(key, n) => write!(f, "a writer changes {} {n} times within a second", name(*key)),
            Self::DeleteAll => f.write_str("a writer deletes everything"),
            Self::CreateAll => f.write_str("a writer creates everything that is not there"),
            Self::Other(n) => write!(f, "{n} objects of other types are written"),
            Self::Compact(caches) => {
                f.write_str("etcd is compacted")?;
                f.write_str(if *caches { ", and the watch caches forget their history" } else { "" })
            }
            Self::Restart(server, down) => write!(f, "server {server} restarts, down for {}", Time(*down)),
            Self::CacheStall(server, stall) => {
                write!(f, "the watch cache of server {server} stands still for {}", Time(*stall))
            }
            Self::Restore(back, bump) => {
                write!(f, "etcd is restored from {back} revisions ago")?;
                f.write_str(if *bump { ", with its revisions bumped" } else { "" })
            }
            Self::DeleteCrd(absent) => write!(f, "the resource is deleted for {}", Time(*absent)),
            Self::Forbid(time, ends) => {
                write!(f, "the permission is withdrawn for {}", Time(*time))?;
                f.write_str(if *ends { ", and watches are ended" } else { "" })
            }
            Self::ExpireToken(time) => {
                write!(f, "the token expires, and cannot be renewed for {}", Time(*time))
            }
            Self::Cut => f.write_str("all connections are reset"),
            Self::HalfOpen => f.write_str("nothing comes any more on the open connections"),
            Self::Partition(time, late) => {
                write!(f, "nothing passes for {}", Time(*time))?;
                f.write_str(if *late { ", and then arrives" } else { ", and is lost" })
            }
            Self::Slow(time) => write!(f, "for a minute every message takes {}", Time(*time)),
            Self::Answer(fault, meets, n) => {
                write!(f, "the next {n} of {meets:?} are answered with {fault:?}")
            }
            Self::Outage(fault, meets, time) => {
                write!(f, "for {} {meets:?} are answered with {fault:?}", Time(*time))
            }
            Self::Inject(fault) => write!(f, "{fault:?} comes on the open watch"),
            Self::CloseStreams => f.write_str("all streams end cleanly"),
            Self::Replay => f.write_str("the open watch repeats its last events"),
            Self::Unreadable(key, false) => write!(f, "{} comes with unreadable metadata", name(*key)),
            Self::Unreadable(key, true) => {
                write!(f, "{} is deleted, and the event is unreadable", name(*key))
            }
            Self::StoreFails(n) => write!(f, "the store refuses the next {n} changes"),
            Self::CommitFails => f.write_str("the store refuses the next commit"),
            Self::Follow(follower) => write!(f, "a subscriber comes: {follower:?}"),
            Self::Leave(which) => write!(f, "subscriber {which} goes"),
            Self::Stop => f.write_str("the user stops the reflector"),
        }
    }
}

/// A time for people.
pub(crate) struct Time(pub(crate) Millis);

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:03} s", self.0 / 1000, self.0 % 1000)
    }
}
