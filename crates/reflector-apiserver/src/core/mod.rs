//! The API server without I/O, clock or randomness of its own.
//!
//! A [`Core`] is an etcd log and one API server with its watch caches. [`Core::open`] takes a whole HTTP request and
//! runs it through the pipeline of kube-apiserver 1.36: routing, negotiation, decoding, validation, handler. What the
//! answer is comes out of [`Core::poll`], step by step, which is to be called until it says [`Step::Wait`] or
//! [`Step::End`], and again when [`Core::revision`] has moved or the time named has come. Time is a [`Duration`] since
//! the epoch of [`CoreOptions`], so that a test or a simulator can let an hour pass in no time.
//!
//! ```
//! use std::time::Duration;
//!
//! use reflector_apiserver::core::{Core, CoreOptions, Step};
//!
//! let mut core = Core::new(CoreOptions::default());
//! core.create("configmaps", serde_json::json!({"metadata": {"name": "a", "namespace": "default"}}))?;
//!
//! let request = http::Request::get("/api/v1/namespaces/default/configmaps").body(Default::default())?;
//! let id = core.open(Duration::ZERO, request);
//! let Step::Head(head) = core.poll(id, Duration::ZERO) else { panic!("the head comes first") };
//! assert_eq!(head.status(), 200);
//! let Step::Data(data) = core.poll(id, Duration::ZERO) else { panic!("then the list") };
//! assert!(data.starts_with(br#"{"kind":"ConfigMapList","apiVersion":"v1""#));
//! assert!(matches!(core.poll(id, Duration::ZERO), Step::End));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Connections, compression and the headers Date, Audit-Id and Content-Length are the business of whoever drives the
//! core, and so are the discovery documents, for which [`Core::registry`] has the facts.

mod accept;
mod builtin;
mod crd;
mod etcd;
mod exchange;
mod fields;
mod handler;
mod json;
mod list;
mod load;
mod names;
mod object;
mod operator;
mod patch;
mod printers;
pub(crate) mod protobuf;
mod query;
#[cfg(feature = "http")]
mod refusal;
mod registry;
mod route;
mod scale;
mod selector;
mod server;
mod status;
#[cfg(test)]
mod tests;
mod token;
mod validate;
mod view;
mod watch;
mod write;

use std::{collections::HashMap, sync::Arc, time::Duration};

use bytes::Bytes;
use jiff::Timestamp;

#[cfg(feature = "http")]
pub(crate) use self::refusal::refusal;
#[doc(hidden)]
pub use self::token::check_continue_token;
use self::{etcd::Etcd, exchange::Exchange, server::Server, watch::EventCache};
pub use self::{
    operator::{OperatorError, StoredObject},
    registry::{CustomResource, Registry, Resource, Subresource},
};

/// How a [`Core`] behaves.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct CoreOptions {
    /// The wall time when the clock of the core stands at zero.
    pub epoch: Timestamp,
    /// Where uids, generated names and jitter come from: the same seed gives the same server.
    pub seed: u64,
    /// The revision before the first write.
    pub first_revision: u64,
    /// How many changes of each resource can be watched and rebuilt.
    pub history: usize,
    /// Whether a write into a namespace that does not exist creates it. A real server answers 404.
    pub lenient_namespaces: bool,
    /// Whether pods on a node are deleted gracefully, and how long the kubelet takes to finish it. `None` deletes at
    /// once.
    pub graceful_pods: Option<Duration>,
    /// How many events may wait for one reader.
    pub watch_buffer: usize,
    /// How long more than that may wait before the watch is ended.
    pub slow_reader_grace: Duration,
}

impl Default for CoreOptions {
    fn default() -> Self {
        Self {
            epoch: Timestamp::UNIX_EPOCH,
            seed: 0,
            first_revision: 1,
            history: 16_384,
            lenient_namespaces: true,
            graceful_pods: None,
            watch_buffer: 1000,
            slow_reader_grace: Duration::from_secs(5),
        }
    }
}

/// Names a request that is being answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ExchangeId(u64);

/// What the answer to a request consists of.
#[derive(Debug)]
pub enum Step {
    /// Status and headers; always the first step that is not a wait.
    Head(http::Response<()>),
    /// A piece of the body; in a watch exactly one event, in JSON with its newline. A list in protobuf, whose length
    /// stands before its items, begins with empty pieces while it is measured.
    Data(Bytes),
    /// The answer is complete.
    End,
    /// Nothing to say until the revision moves, or until this time.
    Wait {
        /// When to ask again at the latest.
        until: Option<Duration>,
    },
}

/// A pod on its way out: when, what, and the uid that it must still have.
type Terminating = (Duration, Arc<Resource>, Arc<str>, Box<str>);

/// An etcd and an API server, driven by calls.
#[derive(Debug)]
pub struct Core {
    options: CoreOptions,
    now: Duration,
    etcd: Etcd,
    server: Server,
    registry: Registry,
    exchanges: HashMap<ExchangeId, Exchange>,
    next_exchange: u64,
    events: EventCache,
    random: fastrand::Rng,
    terminating: Vec<Terminating>,
}

impl Core {
    /// An empty cluster.
    pub fn new(options: CoreOptions) -> Self {
        Self {
            now: Duration::ZERO,
            etcd: Etcd::new(options.first_revision, options.history),
            server: Server::new(options.first_revision),
            registry: Registry::new(),
            exchanges: HashMap::new(),
            next_exchange: 0,
            events: EventCache::default(),
            random: fastrand::Rng::with_seed(options.seed),
            terminating: Vec::new(),
            options,
        }
    }

    /// Takes a request; its answer is asked for with [`Core::poll`].
    pub fn open(&mut self, now: Duration, request: http::Request<Bytes>) -> ExchangeId {
        self.advance(now);
        let exchange = self.handle(request);
        self.next_exchange += 1;
        let id = ExchangeId(self.next_exchange);
        self.exchanges.insert(id, exchange);
        id
    }

    /// The next step of an answer. Of an exchange that is over or unknown it is [`Step::End`].
    pub fn poll(&mut self, id: ExchangeId, now: Duration) -> Step {
        self.advance(now);
        let Some(mut exchange) = self.exchanges.remove(&id) else {
            return Step::End;
        };
        let step = self.step(&mut exchange);
        if matches!(step, Step::End) {
            return step;
        }
        self.exchanges.insert(id, exchange);
        match (step, self.terminating.iter().map(|(at, ..)| *at).min()) {
            (Step::Wait { until }, Some(at)) => {
                Step::Wait { until: Some(until.map_or(at, |until| until.min(at))) }
            }
            (step, _) => step,
        }
    }

    /// The client went away.
    pub fn close(&mut self, id: ExchangeId) {
        self.exchanges.remove(&id);
    }

    /// The revision of the last write.
    pub fn revision(&self) -> u64 {
        self.etcd.revision()
    }

    /// The resource whose changes alone concern this exchange until its time has come: that of a running watch. Others may
    /// wait for anything.
    #[cfg(feature = "http")]
    pub(crate) fn waits_for(&self, id: ExchangeId) -> Option<Arc<str>> {
        match self.exchanges.get(&id) {
            Some(Exchange::Watch(watch)) => Some(watch.storage().clone()),
            _ => None,
        }
    }

    /// Whose objects have changed since the last call.
    #[cfg(feature = "http")]
    pub(crate) fn take_changed(&mut self) -> Vec<Arc<str>> {
        self.etcd.take_changed()
    }

    /// What is served.
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// Sets the clock; it never goes back. [`Core::open`] and [`Core::poll`] do it too.
    pub fn advance(&mut self, now: Duration) {
        self.now = self.now.max(now);
        self.finish_termination();
    }

    /// The wall time.
    fn wall(&self) -> Timestamp {
        self.options.epoch.checked_add(self.now).unwrap_or(Timestamp::MAX)
    }

    fn timestamp(&self) -> String {
        self.timestamp_in(Duration::ZERO)
    }

    fn timestamp_in(&self, later: Duration) -> String {
        let at = self.wall().checked_add(later).unwrap_or(Timestamp::MAX);
        at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
    }

    fn random_uid(&mut self) -> String {
        let (a, b) = (self.random.u64(..), self.random.u64(..));
        format!(
            "{:08x}-{:04x}-4{:03x}-{:04x}-{:012x}",
            a >> 32,
            (a >> 16) & 0xffff,
            a & 0xfff,
            (b >> 48) & 0x3fff | 0x8000,
            b & 0xffff_ffff_ffff
        )
    }

    /// The five characters that `generateName` appends.
    fn random_suffix(&mut self) -> String {
        const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
        (0..5).map(|_| char::from(ALPHABET[self.random.usize(..ALPHABET.len())])).collect()
    }
}
