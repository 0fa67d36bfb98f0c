//! The handle on one handler, and the list of all of an informer.

use std::{
    any::Any,
    collections::{BTreeMap, HashSet},
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use tokio::sync::watch;

use crate::store::Lag;

/// How a handler is.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HandlerState {
    /// It is called for what comes.
    Running,
    /// It was [removed](Registration::remove).
    Removed,
    /// Its informer has ended.
    Stopped,
    /// It was too slow for its [`Policy::Every`](crate::Policy::Every), and wanted to end then.
    Lagged,
    /// It panicked, and [`OnPanic`](super::OnPanic) says that this ends it; the message of the panic.
    Panicked(Arc<str>),
}

/// A handle on one handler of an informer.
///
/// Cheap to clone. Dropping it changes nothing: the handler goes on. [`remove`](Self::remove) ends it.
#[derive(Clone)]
pub struct Registration {
    inner: Arc<Inner>,
}

struct Inner {
    id: HandlerId,
    name: Arc<str>,
    order: watch::Sender<Order>,
    progress: watch::Sender<Progress>,
    lag: Box<dyn Fn() -> Option<Lag> + Send + Sync>,
}

/// What a handler is to do. The first order other than `Run` stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    Run,
    Remove,
    Stop,
}

struct Progress {
    state: HandlerState,
    /// Latched.
    synced: bool,
}

/// Which handler, of which informer. Never used twice in a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct HandlerId {
    informer: u64,
    handler: u64,
}

pub(super) fn next_id() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

tokio::task_local! {
    /// The handler that is being called.
    pub(super) static INSIDE: HandlerId;
}

/// Whether this is called by a handler of an informer.
pub(super) fn inside_informer(informer: u64) -> bool {
    INSIDE.try_with(|id| id.informer == informer).unwrap_or(false)
}

/// It was called by a handler, and waits for the end of that very handler, which cannot be before the handler returns.
///
/// What was asked for stands, and comes about as soon as the handler returns. Only the waiting was refused.
#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq)]
#[error("a handler cannot wait for its own end: that comes when the handler has returned")]
pub struct InsideHandler;

/// A handler has ended before it was in sync.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[error("the handler {handler} has ended before it was in sync: {state:?}")]
pub struct NotSynced {
    /// Its name.
    pub handler: Arc<str>,
    /// How it has ended.
    pub state: HandlerState,
}

impl Registration {
    /// What the handler is called in logs, metrics and errors. Unique among the running handlers of its informer.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// How the handler is.
    #[must_use]
    pub fn state(&self) -> HandlerState {
        self.inner.progress.borrow().state.clone()
    }

    /// Whether the informer was in sync, and the handler has processed everything that there was then (SI-24). Stays
    /// true.
    #[must_use]
    pub fn is_synced(&self) -> bool {
        self.inner.progress.borrow().synced
    }

    /// Waits until [`is_synced`](Self::is_synced). A handler that waits for itself here waits for ever.
    ///
    /// # Errors
    ///
    /// [`NotSynced`] if the handler ends before.
    pub async fn synced(&self) -> Result<(), NotSynced> {
        let mut progress = self.inner.progress.subscribe();
        let seen = progress.wait_for(|seen| seen.synced || seen.state != HandlerState::Running).await;
        match seen {
            Ok(seen) if seen.synced => Ok(()),
            seen => {
                let state = seen.map_or(HandlerState::Stopped, |seen| seen.state.clone());
                Err(NotSynced { handler: Arc::clone(&self.inner.name), state })
            }
        }
    }

    /// How far behind the handler is, the event in hand not counted; `None` once it has ended.
    #[must_use]
    pub fn lag(&self) -> Option<Lag> {
        (self.inner.lag)()
    }

    /// Ends the handler: the call in hand is completed, and what waits is not delivered (SI-22). Does not wait for
    /// that. May be called at any time, from anywhere, any number of times.
    pub fn remove(&self) {
        self.order(Order::Remove);
    }

    /// [Removes](Self::remove) the handler, and waits until it has ended (SI-23): it is not called any more, and was
    /// dropped. Gives how it ended; that may have been before.
    ///
    /// If two handlers wait for each other's end, none comes.
    ///
    /// # Errors
    ///
    /// [`InsideHandler`] if the handler itself calls this. It is removed, but only once it returns.
    pub async fn remove_and_wait(&self) -> Result<HandlerState, InsideHandler> {
        self.remove();
        self.removed().await
    }

    /// Waits until the handler has ended, however, and gives how.
    ///
    /// # Errors
    ///
    /// [`InsideHandler`] if the handler itself calls this.
    pub async fn removed(&self) -> Result<HandlerState, InsideHandler> {
        if INSIDE.try_with(|id| *id == self.inner.id).unwrap_or(false) {
            return Err(InsideHandler);
        }
        let mut progress = self.inner.progress.subscribe();
        let seen = progress.wait_for(|seen| seen.state != HandlerState::Running).await;
        Ok(seen.map_or(HandlerState::Stopped, |seen| seen.state.clone()))
    }

    pub(super) fn id(&self) -> HandlerId {
        self.inner.id
    }

    pub(super) fn order(&self, order: Order) {
        self.inner.order.send_if_modified(|current| {
            let first = *current == Order::Run;
            if first {
                *current = order;
            }
            first
        });
    }

    pub(super) fn orders(&self) -> watch::Receiver<Order> {
        self.inner.order.subscribe()
    }

    pub(super) fn set_synced(&self) {
        self.inner.progress.send_modify(|progress| progress.synced = true);
    }

    fn end(&self, state: HandlerState) {
        self.inner.progress.send_modify(|progress| progress.state = state);
    }
}

impl fmt::Debug for Registration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registration")
            .field("name", &self.inner.name)
            .field("state", &self.state())
            .field("synced", &self.is_synced())
            .finish()
    }
}

/// What a panic leaves.
pub(super) type Payload = Box<dyn Any + Send>;

/// The running handlers of an informer.
pub(super) struct Roster {
    pub(super) informer: u64,
    entries: Mutex<Entries>,
    /// The first panic that is to be raised again.
    panic: Mutex<Option<Payload>>,
}

#[derive(Default)]
struct Entries {
    by_id: BTreeMap<u64, Registration>,
    names: HashSet<Arc<str>>,
    /// Those that failed before they were in sync, until one of the same name comes.
    failed: BTreeMap<Arc<str>, HandlerState>,
}

/// So many handlers that failed are remembered.
const FAILED_MAX: usize = 64;

impl Roster {
    pub(super) fn new() -> Self {
        Self { informer: next_id(), entries: Mutex::default(), panic: Mutex::default() }
    }

    fn entries(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a handler. The wished name gets a number if it is taken, the lowest that is free: so the number of
    /// metrics is bounded by how many run at once.
    pub(super) fn enter(
        self: &Arc<Self>,
        wish: &Arc<str>,
        lag: impl Fn() -> Option<Lag> + Send + Sync + 'static,
    ) -> Member {
        let mut entries = self.entries();
        let mut name = Arc::clone(wish);
        let mut number = 2;
        while entries.names.contains(&name) {
            name = format!("{wish}#{number}").into();
            number += 1;
        }
        let id = HandlerId { informer: self.informer, handler: next_id() };
        let registration = Registration {
            inner: Arc::new(Inner {
                id,
                name: Arc::clone(&name),
                order: watch::Sender::new(Order::Run),
                progress: watch::Sender::new(Progress { state: HandlerState::Running, synced: false }),
                lag: Box::new(lag),
            }),
        };
        entries.failed.remove(&name);
        entries.names.insert(name);
        entries.by_id.insert(id.handler, registration.clone());
        Member { roster: Arc::clone(self), registration, end: HandlerState::Stopped }
    }

    /// All running handlers, the oldest first.
    pub(super) fn all(&self) -> Vec<Registration> {
        self.entries().by_id.values().cloned().collect()
    }

    /// A handler that failed before it was in sync, and how.
    pub(super) fn failed(&self) -> Option<(Arc<str>, HandlerState)> {
        self.entries().failed.first_key_value().map(|(name, state)| (Arc::clone(name), state.clone()))
    }

    pub(super) fn stop_all(&self) {
        self.all().iter().for_each(|registration| registration.order(Order::Stop));
    }

    pub(super) fn keep_panic(&self, payload: Payload) {
        self.panic.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(payload);
    }

    pub(super) fn take_panic(&self) -> Option<Payload> {
        self.panic.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// A handler's place in the roster. However its task ends, dropping this says so to everybody.
pub(super) struct Member {
    pub(super) roster: Arc<Roster>,
    pub(super) registration: Registration,
    /// How it ends.
    pub(super) end: HandlerState,
}

impl Drop for Member {
    fn drop(&mut self) {
        let removed = {
            let mut entries = self.roster.entries();
            entries.names.remove(&self.registration.inner.name);
            let failed = matches!(self.end, HandlerState::Panicked(_) | HandlerState::Lagged);
            if failed && !self.registration.is_synced() && entries.failed.len() < FAILED_MAX {
                entries.failed.insert(Arc::clone(&self.registration.inner.name), self.end.clone());
            }
            entries.by_id.remove(&self.registration.inner.id.handler)
        };
        drop(removed);
        self.registration.end(self.end.clone());
    }
}
