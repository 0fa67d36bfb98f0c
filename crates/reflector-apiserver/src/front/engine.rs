//! What all connections share: the core under its faults, the log, the clock, and the bell that rings on changes.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use jiff::Timestamp;
use tokio::{sync::watch, time::Instant};

use super::{auth::Auth, log::LoggedRequest};
use crate::faults::{Exchange, FaultyCore};

/// The oldest requests are forgotten beyond this many.
const LOG_LENGTH: usize = 100_000;

/// The state behind the lock.
#[derive(Debug)]
pub(super) struct Engine {
    pub(super) layer: FaultyCore,
    pub(super) auth: Auth,
    pub(super) rng: fastrand::Rng,
    log: VecDeque<LoggedRequest>,
    /// The number of the log's first request.
    first: u64,
    bells: Bells,
}

/// Ring when something changed that an exchange may wait for.
#[derive(Debug)]
struct Bells {
    /// Rings on every change.
    any: watch::Sender<()>,
    /// Ring on changes of one resource: a write is not to wake every watch there is.
    of: HashMap<Arc<str>, watch::Sender<()>>,
}

impl Bells {
    fn ring(&self, changed: &[Arc<str>]) {
        self.any.send_replace(());
        for bell in changed.iter().filter_map(|storage| self.of.get(storage)) {
            bell.send_replace(());
        }
    }

    fn ring_all(&self) {
        self.any.send_replace(());
        for bell in self.of.values() {
            bell.send_replace(());
        }
    }
}

impl Engine {
    pub(super) fn new(layer: FaultyCore, auth: Auth, seed: u64) -> Self {
        Self {
            layer,
            auth,
            rng: fastrand::Rng::with_seed(seed),
            log: VecDeque::new(),
            first: 0,
            bells: Bells { any: watch::Sender::new(()), of: HashMap::new() },
        }
    }

    /// The bell that rings when this exchange has something to say that it had not when it was last polled under the same
    /// lock.
    pub(super) fn bell(&mut self, exchange: Exchange) -> watch::Receiver<()> {
        let Bells { any, of } = &mut self.bells;
        match self.layer.waits_for(exchange) {
            Some(storage) => of.entry(storage).or_insert_with(|| watch::Sender::new(())).subscribe(),
            None => any.subscribe(),
        }
    }

    pub(super) fn log(&self) -> impl Iterator<Item = &LoggedRequest> {
        self.log.iter()
    }

    pub(super) fn clear_log(&mut self) {
        self.first += self.log.len() as u64;
        self.log.clear();
    }

    /// Logs a request; the number is for its status later.
    pub(super) fn note(&mut self, request: LoggedRequest) -> u64 {
        if self.log.len() >= LOG_LENGTH {
            self.log.pop_front();
            self.first += 1;
        }
        self.log.push_back(request);
        self.first + self.log.len() as u64 - 1
    }

    pub(super) fn note_status(&mut self, number: u64, status: http::StatusCode) {
        let index = number.checked_sub(self.first).and_then(|index| usize::try_from(index).ok());
        if let Some(request) = index.and_then(|index| self.log.get_mut(index)) {
            request.status = Some(status);
        }
    }
}

/// The engine with its lock, clock and bell.
#[derive(Debug)]
pub(super) struct Shared {
    engine: Mutex<Engine>,
    start: Instant,
    epoch: Timestamp,
}

impl Shared {
    pub(super) fn new(engine: Engine, epoch: Timestamp) -> Self {
        Self { engine: Mutex::new(engine), start: Instant::now(), epoch }
    }

    /// The time since the server's start.
    pub(super) fn now(&self) -> Duration {
        self.start.elapsed()
    }

    /// When a time since the server's start is.
    pub(super) fn instant(&self, since_start: Duration) -> Instant {
        // A time that does not fit is as good as never.
        self.start.checked_add(since_start).unwrap_or_else(|| self.start + Duration::from_secs(1 << 32))
    }

    /// The server's idea of the time of day.
    pub(super) fn timestamp(&self) -> Timestamp {
        self.epoch.saturating_add(self.now()).unwrap_or(self.epoch)
    }

    /// Does something with the engine, and rings the bells of what that changed.
    pub(super) fn with<R>(&self, act: impl FnOnce(&mut Engine, Duration) -> R) -> R {
        // A panic in a caller's closure must not take the server down with it.
        let mut engine = self.engine.lock().unwrap_or_else(PoisonError::into_inner);
        // The clock is read under the lock: the core's time never goes back.
        let now = self.now();
        let (revision, disturbances) = engine.layer.stamp();
        let result = act(&mut engine, now);
        let (new_revision, new_disturbances) = engine.layer.stamp();
        let changed = engine.layer.take_changed();
        if disturbances != new_disturbances {
            engine.bells.ring_all();
        } else if revision != new_revision || !changed.is_empty() {
            engine.bells.ring(&changed);
        }
        result
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http::Request;

    use super::*;
    use crate::{
        core::{Core, CoreOptions},
        faults::Step,
    };

    fn shared() -> Shared {
        let layer = FaultyCore::new(Core::new(CoreOptions::default()), 0);
        let shared = Shared::new(Engine::new(layer, Auth::default(), 0), Timestamp::UNIX_EPOCH);
        // The namespace, so that later writes are of one resource.
        shared.with(|engine, _| engine.layer.core_mut().load("namespaces", [NAMESPACE]).unwrap());
        shared
    }

    const NAMESPACE: &str = r#"{"metadata":{"name":"a"}}"#;

    /// The bell of a watch that has said all there is to say.
    fn watch(shared: &Shared, resource: &str) -> watch::Receiver<()> {
        let uri = format!("/api/v1/{resource}?watch=true");
        shared.with(|engine, now| {
            let exchange = engine.layer.open(now, Request::get(uri).body(Bytes::new()).unwrap());
            while !matches!(engine.layer.poll(exchange, now), Step::Wait { .. }) {}
            engine.bell(exchange)
        })
    }

    fn create_map(shared: &Shared) {
        let request =
            Request::post("/api/v1/namespaces/a/configmaps").header("content-type", "application/json");
        let request = request.body(Bytes::from_static(br#"{"metadata":{"name":"m"}}"#)).unwrap();
        let code = shared.with(|engine, now| {
            let exchange = engine.layer.open(now, request);
            match engine.layer.poll(exchange, now) {
                Step::Head(head) => head.status(),
                step => panic!("{step:?}"),
            }
        });
        assert_eq!(code, 201);
    }

    #[test]
    fn a_write_wakes_only_the_watches_of_its_resource() {
        let shared = shared();
        let (maps, secrets) = (watch(&shared, "configmaps"), watch(&shared, "secrets"));
        create_map(&shared);
        assert!(maps.has_changed().unwrap());
        assert!(!secrets.has_changed().unwrap());
    }

    #[test]
    fn what_the_operator_does_wakes_everyone() {
        let shared = shared();
        let bells = [watch(&shared, "configmaps"), watch(&shared, "secrets")];
        shared.with(|engine, now| engine.layer.core_mut().restart(now));
        assert!(bells.iter().all(|bell| bell.has_changed().unwrap()));
    }

    #[test]
    fn reads_that_wait_for_a_revision_wake_on_any_write() {
        let shared = shared();
        let uri = "/api/v1/secrets?resourceVersion=100&resourceVersionMatch=NotOlderThan";
        let bell = shared.with(|engine, now| {
            let exchange = engine.layer.open(now, Request::get(uri).body(Bytes::new()).unwrap());
            assert!(matches!(engine.layer.poll(exchange, now), Step::Wait { .. }));
            engine.bell(exchange)
        });
        create_map(&shared);
        assert!(bell.has_changed().unwrap());
    }
}
