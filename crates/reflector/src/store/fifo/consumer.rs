//! The side that takes.

use std::{
    fmt,
    ops::Deref,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use metrics::Gauge;
use tokio::sync::Notify;

use super::{DeltaFifoOptions, DeltaFifoWriter, Deltas, queue::Queue};
use crate::Cache;

/// A queue of changes by key: the side that takes. Clones take from the same queue.
///
/// - Each [`pop`](Self::pop) gives one key and everything that happened to it since it was taken last; keys come in the
///   order of their arrival.
/// - Several consumers may take at once. What is taken is a guard: as long as it lives, nobody else gets its key, so
///   the changes of one key are never processed at the same time nor out of order.
/// - The queue is as long as there are keys with unprocessed changes, and each key as long as [`Compress`](super::Compress) says.
/// - What failed is gone, as is what was dropped unprocessed: whoever wants to try again keeps the key, and looks it up
///   in [`known`](Self::known).
///
/// When the reflector ends, or [`close`](Self::close) is called, consumers get what waits, and `None` after that. When
/// the last clone is dropped, what waits is dropped and nothing is queued any more.
///
/// ```
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use reflector::{KubeListWatch, Reflector, kube_client, store::{DeltaFifo, DeltaFifoOptions, FifoDelta}};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = reflector_apiserver::ApiServer::start().await?;
/// # let client = kube_client(kube::Config::new(server.url().parse()?))?;
/// let (fifo, writer) = DeltaFifo::<ConfigMap>::new(DeltaFifoOptions::default());
/// let handle = Reflector::builder(KubeListWatch::namespaced(client, "shop")).start_with(writer);
/// # tokio::task::yield_now().await;
/// # handle.synced().await?;
/// # fifo.close();
/// while let Some(popped) = fifo.pop().await {
///     for delta in popped.iter() {
///         match delta {
///             FifoDelta::Deleted { last, .. } => println!("{} is gone", last.key()),
///             other => println!("{} is there", other.object().key()),
///         }
///     }
///     popped.finish();
/// }
/// handle.stop().await;
/// # Ok(()) }
/// ```
pub struct DeltaFifo<K> {
    consumers: Arc<Consumers<K>>,
}

/// All clones together.
struct Consumers<K> {
    shared: Arc<Shared<K>>,
    known: Cache<K>,
}

impl<K> Drop for Consumers<K> {
    fn drop(&mut self) {
        self.shared.change(|queue| {
            queue.close();
            queue.clear();
        });
    }
}

/// What both sides share.
pub(super) struct Shared<K> {
    queue: Mutex<Queue<K>>,
    /// Something can be taken, or nothing will ever be.
    ready: Notify,
    /// The initial list is processed, or never will be.
    synced: Notify,
    depth: Option<Gauge>,
}

impl<K> Shared<K> {
    fn lock(&self) -> MutexGuard<'_, Queue<K>> {
        // Each step leaves the queue whole, and none runs code of others.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One step, and the news of it for everybody who waits.
    ///
    /// Who waits has been waiting since before it looked, see [`until`](Self::until), so all are woken whom the step may
    /// concern. All, and not just one: the one might be busy with something else, or about to be dropped.
    pub(super) fn change<T>(&self, step: impl FnOnce(&mut Queue<K>) -> T) -> T {
        let mut queue = self.lock();
        let was_synced = queue.has_synced() || queue.never_syncs();
        let result = step(&mut queue);
        let wake = queue.is_ready() || queue.is_over();
        let is_synced = queue.has_synced() || queue.never_syncs();
        self.show_depth(&queue);
        drop(queue);
        if wake {
            self.ready.notify_waiters();
        }
        if is_synced && !was_synced {
            self.synced.notify_waiters();
        }
        result
    }

    /// Waits until a look at the queue gives something.
    async fn until<T>(&self, news: &Notify, mut look: impl FnMut(&mut Queue<K>) -> Option<T>) -> T {
        loop {
            // Waits from here on: what happens between the look and the await is not missed.
            let next = news.notified();
            let found = {
                let mut queue = self.lock();
                let found = look(&mut queue);
                self.show_depth(&queue);
                found
            };
            match found {
                Some(found) => return found,
                None => next.await,
            }
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "nobody has so many keys")]
    fn show_depth(&self, queue: &Queue<K>) {
        if let Some(depth) = &self.depth {
            depth.set(queue.len() as f64);
        }
    }
}

impl<K> DeltaFifo<K> {
    /// An empty queue: the side that takes, and the side that a reflector writes to.
    #[must_use]
    pub fn new(options: DeltaFifoOptions) -> (Self, DeltaFifoWriter<K>) {
        let (known, writer) = Cache::new();
        let depth = options.name.map(|name| metrics::gauge!("reflector_fifo_depth", "name" => name));
        let shared = Arc::new(Shared {
            queue: Mutex::new(Queue::new(options.compress)),
            ready: Notify::new(),
            synced: Notify::new(),
            depth,
        });
        let writer =
            DeltaFifoWriter::new(Arc::clone(&shared), known.clone(), writer, options.deliver_unchanged);
        (Self { consumers: Arc::new(Consumers { shared, known }) }, writer)
    }

    fn shared(&self) -> &Arc<Shared<K>> {
        &self.consumers.shared
    }

    fn guard(&self, deltas: Deltas<K>) -> Popped<K> {
        Popped { shared: Arc::clone(self.shared()), deltas }
    }

    /// Takes the key that came first, and everything that happened to it; waits until there is one. `None` once the queue
    /// is closed and empty.
    ///
    /// Cancel-safe: a future that is dropped has taken nothing. A key that somebody processes is not ready: whoever holds
    /// the only guards and waits here waits for himself.
    pub async fn pop(&self) -> Option<Popped<K>> {
        let taken = self.shared().until(&self.shared().ready, |queue| match queue.take() {
            Some(deltas) => Some(Some(deltas)),
            None => queue.is_over().then_some(None),
        });
        taken.await.map(|deltas| self.guard(deltas))
    }

    /// Takes up to `max` keys at once, in the order of their arrival; waits until there is one, not until there are
    /// `max`. `None` once the queue is closed and empty.
    ///
    /// Keys of the [initial list](Deltas::in_initial_list) and others are never in one batch (RQ-8). A `max` of zero
    /// means one. Cancel-safe, as [`pop`](Self::pop).
    pub async fn pop_batch(&self, max: usize) -> Option<Vec<Popped<K>>> {
        let taken = self.shared().until(&self.shared().ready, |queue| {
            let batch = queue.take_batch(max);
            (!batch.is_empty() || queue.is_over()).then_some(batch)
        });
        let batch = taken.await;
        let batch: Vec<_> = batch.into_iter().map(|deltas| self.guard(deltas)).collect();
        (!batch.is_empty()).then_some(batch)
    }

    /// Takes the key that came first, if one is ready now.
    #[must_use]
    pub fn try_pop(&self) -> Option<Popped<K>> {
        let taken = {
            let mut queue = self.shared().lock();
            let taken = queue.take();
            self.shared().show_depth(&queue);
            taken
        };
        taken.map(|deltas| self.guard(deltas))
    }

    /// How many keys wait. Those that are being processed wait only if something came for them since.
    #[must_use]
    pub fn len(&self) -> usize {
        self.shared().lock().len()
    }

    /// Whether no key waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The objects that are there, as far as is known. Never behind what was taken; ahead of it by what waits.
    #[must_use]
    pub fn known(&self) -> &Cache<K> {
        &self.consumers.known
    }

    /// Whether the first complete list has come and every key of it has been processed: each guard finished or dropped.
    /// Once true it stays true. An empty list is processed when it comes.
    #[must_use]
    pub fn has_synced(&self) -> bool {
        self.shared().lock().has_synced()
    }

    /// Waits until [`has_synced`](Self::has_synced). `false` if that never happens, since the queue was closed before the
    /// first complete list came. If it was closed later, somebody still has to take what waits.
    pub async fn synced(&self) -> bool {
        let synced = self.shared().until(&self.shared().synced, |queue| {
            let synced = queue.has_synced();
            (synced || queue.never_syncs()).then_some(synced)
        });
        synced.await
    }

    /// Ends the queue: what waits can still be taken, and nothing is queued any more. The writer is not refused, and goes
    /// on keeping [`known`](Self::known).
    pub fn close(&self) {
        self.shared().change(Queue::close);
    }

    /// Whether it is closed: by [`close`](Self::close), or since the writer is gone.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.shared().lock().is_closed()
    }
}

impl<K> Clone for DeltaFifo<K> {
    fn clone(&self) -> Self {
        Self { consumers: Arc::clone(&self.consumers) }
    }
}

impl<K> fmt::Debug for DeltaFifo<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut f = f.debug_struct("DeltaFifo");
        f.field("waiting", &self.len()).field("known", self.known()).field("synced", &self.has_synced());
        f.finish()
    }
}

/// The changes of one key, taken from a [`DeltaFifo`], and the sole right to process that key.
///
/// Derefs to [`Deltas`]. Finishing or dropping it, also by a panic or the cancellation of the consumer, says that the
/// changes have been processed.
#[must_use = "what is dropped counts as processed"]
pub struct Popped<K> {
    shared: Arc<Shared<K>>,
    deltas: Deltas<K>,
}

impl<K> Popped<K> {
    /// The changes have been processed. The same as dropping it, in words.
    pub fn finish(self) {}
}

impl<K> Deref for Popped<K> {
    type Target = Deltas<K>;

    fn deref(&self) -> &Deltas<K> {
        &self.deltas
    }
}

impl<K> Drop for Popped<K> {
    fn drop(&mut self) {
        self.shared.change(|queue| queue.finish(&self.deltas.key));
    }
}

impl<K> fmt::Debug for Popped<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.deltas, f)
    }
}
