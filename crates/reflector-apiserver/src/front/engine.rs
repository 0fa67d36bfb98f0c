//! What all connections share: the core under its faults, the log, the clock, and the bell that rings on changes.

use std::{
    collections::VecDeque,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use jiff::Timestamp;
use tokio::{sync::watch, time::Instant};

use super::{auth::Auth, log::LoggedRequest};
use crate::faults::FaultyCore;

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
}

impl Engine {
    pub(super) fn new(layer: FaultyCore, auth: Auth, seed: u64) -> Self {
        Self { layer, auth, rng: fastrand::Rng::with_seed(seed), log: VecDeque::new(), first: 0 }
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
    bell: watch::Sender<u64>,
    start: Instant,
    epoch: Timestamp,
}

impl Shared {
    pub(super) fn new(engine: Engine, epoch: Timestamp) -> Self {
        Self { engine: Mutex::new(engine), bell: watch::Sender::new(0), start: Instant::now(), epoch }
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

    /// Rings whenever something changed that an exchange may wait for.
    pub(super) fn bell(&self) -> watch::Receiver<u64> {
        self.bell.subscribe()
    }

    /// Does something with the engine, and rings the bell if that changed anything.
    pub(super) fn with<R>(&self, act: impl FnOnce(&mut Engine, Duration) -> R) -> R {
        // A panic in a caller's closure must not take the server down with it.
        let mut engine = self.engine.lock().unwrap_or_else(PoisonError::into_inner);
        // The clock is read under the lock: the core's time never goes back.
        let now = self.now();
        let before = engine.layer.stamp();
        let result = act(&mut engine, now);
        let changed = engine.layer.stamp() != before;
        drop(engine);
        if changed {
            self.bell.send_modify(|rings| *rings += 1);
        }
        result
    }
}
