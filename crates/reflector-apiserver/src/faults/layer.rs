//! The layer over the core.

#[cfg(feature = "http")]
use std::sync::Arc;
use std::{collections::HashMap, time::Duration};

use bytes::Bytes;
use http::Request;

use super::{Faults, Step, exchange::Running};
use crate::{core::Core, request::RequestInfo};

/// An exchange with a [`FaultyCore`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Exchange(u64);

/// A [`Core`] whose answers suffer faults.
#[derive(Debug)]
pub struct FaultyCore {
    core: Core,
    faults: Faults,
    exchanges: HashMap<Exchange, Running>,
    next: u64,
    /// Counts what may have changed the core behind its revision.
    disturbances: u64,
}

impl FaultyCore {
    /// A core without faults yet; the chance that faults depend on comes from the seed.
    pub fn new(core: Core, seed: u64) -> Self {
        Self { core, faults: Faults::new(seed), exchanges: HashMap::new(), next: 0, disturbances: 0 }
    }

    /// The core below.
    pub fn core(&self) -> &Core {
        &self.core
    }

    /// The core below, to be changed. What waits must be polled afterwards.
    pub fn core_mut(&mut self) -> &mut Core {
        self.disturbances += 1;
        &mut self.core
    }

    /// The faults in force.
    pub fn faults(&self) -> &Faults {
        &self.faults
    }

    /// The faults in force, to be changed.
    pub fn faults_mut(&mut self) -> &mut Faults {
        &mut self.faults
    }

    /// Takes a request; its answer comes by [`poll`](Self::poll).
    pub fn open(&mut self, now: Duration, request: Request<Bytes>) -> Exchange {
        let info = RequestInfo::parse(request.method(), request.uri());
        let plan = info.as_ref().map(|info| self.faults.draw(info, now)).unwrap_or_default();
        let id = Exchange(self.next);
        self.next += 1;
        let running = Running::new(plan, info, request, now, self.faults.counts());
        self.exchanges.insert(id, running);
        id
    }

    /// The next step of an answer. After [`Step::Wait`] poll again when the core's revision has moved or the time has come; after
    /// [`Step::End`] and [`Step::Cut`] nothing follows.
    pub fn poll(&mut self, id: Exchange, now: Duration) -> Step {
        match self.exchanges.get_mut(&id) {
            Some(running) => {
                self.disturbances += u64::from(running.disturbs_server(now));
                running.poll(now, &mut self.core, self.faults.counts())
            }
            None => Step::End,
        }
    }

    /// Forgets an exchange, whether its answer is complete or not.
    pub fn close(&mut self, id: Exchange) {
        if let Some(inner) = self.exchanges.remove(&id).and_then(|running| running.inner()) {
            self.core.close(inner);
        }
    }

    /// Differs when anything may have changed that an exchange waits for.
    pub fn stamp(&self) -> (u64, u64) {
        (self.core.revision(), self.disturbances)
    }

    /// The resource whose changes alone concern this exchange until its time has come; `None` if it may wait for anything.
    #[cfg(feature = "http")]
    pub(crate) fn waits_for(&self, id: Exchange) -> Option<Arc<str>> {
        self.core.waits_for(self.exchanges.get(&id)?.inner()?)
    }

    /// Whose objects have changed since the last call.
    #[cfg(feature = "http")]
    pub(crate) fn take_changed(&mut self) -> Vec<Arc<str>> {
        self.core.take_changed()
    }

    /// How many exchanges are open.
    pub fn open_exchanges(&self) -> usize {
        self.exchanges.len()
    }
}
