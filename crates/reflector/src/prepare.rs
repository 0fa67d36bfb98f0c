//! Between the wire and the store: transforms, and the form in which bodies are kept.
//!
//! This work may take longer than reading the socket does, and a server drops watchers that do not read. So what is a
//! lot at once is given to other threads, several parts at a time, while the next ones are read; their order stays what
//! it was.

use std::{
    collections::VecDeque,
    fmt,
    future::pending,
    mem,
    panic::resume_unwind,
    sync::{
        Arc, LazyLock,
        atomic::{AtomicUsize, Ordering},
    },
    thread::available_parallelism,
};

use bytes::BytesMut;
use futures::{FutureExt, StreamExt, future::BoxFuture, stream, stream::BoxStream};
use metrics::Counter;
use reflector_pack::{Options as PackOptions, Packer};
use serde::de::DeserializeOwned;
use tokio::{sync::Semaphore, task::spawn_blocking};

use crate::{
    Object,
    protocol::Failure,
    source::{ListPart, ListStream, WatchStream},
    store::Lookup,
    transform::Chain,
    wire::{ListItem, WatchEvent},
};

/// In which form a reflector keeps the bodies of its objects. See [`Builder::body`](crate::Builder::body).
///
/// | form | memory | reading |
/// |---|---|---|
/// | [`wire`](Self::wire) | what the server sent | decodes at each [`get`](Object::get) |
/// | [`packed`](Self::packed) | about a twentieth of that | unpacks in a microsecond or two, then decodes |
/// | [`decoded`](Self::decoded) | what the type needs: little for a struct of a few fields, much for a whole `Pod` | gives out what is there |
///
/// What the numbers are on real pods is told in `docs/performance.md`.
pub struct BodyForm<K>(Form<K>);

enum Form<K> {
    Wire,
    Packed(PackOptions),
    Decoded(fn(Object<K>) -> Object<K>),
}

impl<K> BodyForm<K> {
    /// The bytes as they came.
    #[must_use]
    pub fn wire() -> Self {
        Self(Form::Wire)
    }

    /// The bytes, each body by itself, compressed with dictionaries that are learned from the collection's own objects.
    /// Collections of less than 2 MiB are kept as they came; so is what comes before there is that much.
    #[must_use]
    pub fn packed() -> Self {
        Self::packed_with(PackOptions::default())
    }

    /// The same, with a level, a size of the dictionary and so on.
    #[must_use]
    pub fn packed_with(options: PackOptions) -> Self {
        Self(Form::Packed(options))
    }

    /// Nothing but the decoded value. For types of few fields: everything else of the object is dropped, so that
    /// [`Object::json`] and indexes by other fields find nothing but the metadata of its header.
    ///
    /// An object that does not fit the type is kept as it came.
    #[must_use]
    pub fn decoded() -> Self
    where
        K: DeserializeOwned + Send + Sync + 'static,
    {
        Self(Form::Decoded(Object::decoded))
    }
}

impl<K> Default for BodyForm<K> {
    /// [`packed`](Self::packed).
    fn default() -> Self {
        Self::packed()
    }
}

impl<K> fmt::Debug for BodyForm<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Form::Wire => "wire",
            Form::Packed(_) => "packed",
            Form::Decoded(_) => "decoded",
        })
    }
}

/// What is done to every object that comes.
pub(crate) struct Preparation<K> {
    transforms: Chain<K>,
    errors: Counter,
    keep: Keep<K>,
    /// Finds what the store holds.
    held: Option<Lookup<K>>,
    /// How many bytes have come, as long as there is nothing to pack with.
    seen: AtomicUsize,
}

enum Keep<K> {
    Wire,
    Packed(Packer),
    Decoded(fn(Object<K>) -> Object<K>),
}

/// So many bytes are prepared at once where they are; more are worth another thread.
const FEW: usize = 64 << 10;

/// A dictionary and what packs with it take about a megabyte: a collection of fewer bytes than this is not packed.
const WORTH_PACKING: usize = 2 << 20;

/// From fewer objects nothing can be learned.
const SAMPLES_MIN: usize = 32;

impl<K: Send + 'static> Preparation<K> {
    pub(crate) fn new(
        transforms: Chain<K>,
        form: &BodyForm<K>,
        errors: Counter,
        held: Option<Lookup<K>>,
    ) -> Arc<Self> {
        let keep = match &form.0 {
            Form::Wire => Keep::Wire,
            Form::Packed(options) => Keep::Packed(Packer::new(*options)),
            Form::Decoded(decoded) => Keep::Decoded(*decoded),
        };
        Arc::new(Self { transforms, errors, keep, held, seen: AtomicUsize::new(0) })
    }

    /// A list, prepared.
    pub(crate) fn list(self: &Arc<Self>, parts: ListStream<K>) -> ListStream<K> {
        self.prepared(parts, true)
    }

    /// A watch, prepared. `initial` says whether it begins with the state, until a bookmark ends that.
    pub(crate) fn watch(self: &Arc<Self>, events: WatchStream<K>, initial: bool) -> WatchStream<K> {
        self.prepared(events, initial)
    }

    fn prepared<P: Part<K>>(self: &Arc<Self>, parts: Parts<P>, many: bool) -> Parts<P> {
        match &self.keep {
            Keep::Wire if self.transforms.is_empty() => parts,
            Keep::Packed(_) if many => {
                // What is packed together has been transformed before.
                self.pack_batches(self.each(parts, Self::transform))
            }
            _ => self.each(parts, |this, object| this.keep(this.transform(object))),
        }
    }

    /// Does something with each object.
    fn each<P: Part<K>>(self: &Arc<Self>, parts: Parts<P>, work: Work<K>) -> Parts<P> {
        let this = Arc::clone(self);
        // Not `try_buffered`, which lets an error overtake what came before it: a watch that breaks right after its first
        // events would never get anywhere.
        let work = move |part: Result<P, Failure>| {
            let this = Arc::clone(&this);
            async move { Ok(this.part(part?, work).await) }
        };
        parts.map(work).buffered(width()).boxed()
    }

    /// Packs what comes until the state is complete in batches, and one by one from then on. While one batch is packed,
    /// the next one is read.
    fn pack_batches<P: Part<K>>(self: &Arc<Self>, parts: Parts<P>) -> Parts<P> {
        let state = Gathering {
            preparation: Arc::clone(self),
            parts,
            over: None,
            batch: Batch::new(),
            buffer: BytesMut::new(),
            spare: BytesMut::new(),
            packing: None,
            packed: VecDeque::new(),
            complete: false,
        };
        stream::unfold(state, async |mut state| Some((state.next().await?, state))).boxed()
    }

    /// Packs a batch, if the collection is worth it.
    async fn batch<P: Part<K>>(self: Arc<Self>, batch: Batch<P>) -> Vec<P> {
        let Batch { mut parts, bytes, changes, .. } = batch;
        let seen = self.seen.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes);
        if changes {
            for part in &mut parts {
                *part = Arc::clone(&self).part(mem::replace(part, P::empty()), Self::keep).await;
            }
            return parts;
        }
        let prepare = move || {
            let objects_mut = parts.iter_mut().flat_map(P::objects_mut);
            let new: Vec<_> = objects_mut.filter_map(|object| self.unless_held(object)).collect();
            match &self.keep {
                Keep::Packed(packer) if new.len() >= SAMPLES_MIN && seen >= WORTH_PACKING => {
                    Object::pack_batch(new.into_iter(), packer);
                }
                Keep::Packed(packer) if packer.has_learned() => {
                    new.into_iter().for_each(|object| *object = object.clone().packed(packer));
                }
                _ => new.into_iter().for_each(Object::copy_body),
            }
            parts
        };
        if bytes < FEW { prepare() } else { elsewhere(prepare).await }
    }

    /// An object, unless the store holds the same with the same body: then it becomes that one, and nothing is left to do.
    fn unless_held<'a>(&self, object: &'a mut Object<K>) -> Option<&'a mut Object<K>> {
        let held = self.held.as_ref().and_then(|held| held(object.key()));
        match held.filter(|held| held.same_revision(object) && held.same_body(object)) {
            Some(held) => {
                *object = held;
                None
            }
            None => Some(object),
        }
    }

    async fn part<P: Part<K>>(self: Arc<Self>, mut part: P, work: Work<K>) -> P {
        let bytes: usize = part.objects().map(Object::memory).sum();
        let learns = matches!(&self.keep, Keep::Packed(packer) if packer.is_worn());
        let prepare = move || {
            part.objects_mut().for_each(|object| *object = work(&self, object.clone()));
            part
        };
        if bytes < FEW && !learns { prepare() } else { elsewhere(prepare).await }
    }

    fn transform(&self, object: Object<K>) -> Object<K> {
        self.transforms.apply(object, &self.errors)
    }

    fn keep(&self, object: Object<K>) -> Object<K> {
        match &self.keep {
            Keep::Packed(packer) if packer.has_learned() => object.packed(packer),
            Keep::Packed(_) | Keep::Wire => object,
            Keep::Decoded(decoded) => decoded(object),
        }
    }
}

/// What is done with one object.
type Work<K> = fn(&Preparation<K>, Object<K>) -> Object<K>;

type Parts<P> = BoxStream<'static, Result<P, Failure>>;

/// What is packed together.
struct Batch<P> {
    parts: Vec<P>,
    objects: usize,
    bytes: usize,
    /// These are changes: they come from everywhere, and have no more in common than the whole collection.
    changes: bool,
}

impl<P> Batch<P> {
    fn new() -> Self {
        Self { parts: Vec::new(), objects: 0, bytes: 0, changes: false }
    }
}

/// What comes, as batches.
struct Gathering<K, P> {
    preparation: Arc<Preparation<K>>,
    parts: Parts<P>,
    /// How `parts` ended.
    over: Option<Result<(), Failure>>,
    /// What has come, and is packed next.
    batch: Batch<P>,
    /// Where the bodies of that are. They live for a moment, and much that is allocated meanwhile lives long: one by one
    /// they would leave holes between that, in which the next ones do not fit.
    buffer: BytesMut,
    /// Where those of the batch before are, which is used again as soon as that is packed. Large pieces of memory are
    /// best kept: an allocator that gets them back often stops giving them back to the system.
    spare: BytesMut,
    packing: Option<BoxFuture<'static, Vec<P>>>,
    /// What is given out next.
    packed: VecDeque<P>,
    /// The state is complete: what comes now are changes.
    complete: bool,
}

impl<K: Send + 'static, P: Part<K>> Gathering<K, P> {
    async fn next(&mut self) -> Option<Result<P, Failure>> {
        loop {
            if let Some(part) = self.packed.pop_front() {
                return Some(Ok(part));
            }
            let due = self.is_due();
            match &mut self.packing {
                Some(packing) if due || self.over.is_some() => {
                    self.packed = packing.await.into();
                    self.packing = None;
                }
                Some(packing) => tokio::select! {
                    biased;
                    packed = packing => {
                        self.packed = packed.into();
                        self.packing = None;
                    }
                    part = self.parts.next() => return Some(Ok(self.take(part))),
                },
                None if due || self.over.is_some() && !self.batch.parts.is_empty() => {
                    let batch = mem::replace(&mut self.batch, Batch::new());
                    mem::swap(&mut self.buffer, &mut self.spare);
                    if self.complete {
                        (self.buffer, self.spare) = (BytesMut::new(), BytesMut::new());
                    }
                    self.packing = Some(Arc::clone(&self.preparation).batch(batch).boxed());
                }
                None => match self.over.replace(Ok(())) {
                    Some(Ok(())) => return None,
                    // Nothing has overtaken what came before it.
                    Some(Err(failure)) => return Some(Err(failure)),
                    None => {
                        self.over = None;
                        let part = self.parts.next().await;
                        return Some(Ok(self.take(part)));
                    }
                },
            }
        }
    }

    /// Whether there is enough for a batch, or nothing to wait for.
    fn is_due(&self) -> bool {
        let Keep::Packed(packer) = &self.preparation.keep else { return true };
        let options = packer.options();
        !self.batch.parts.is_empty() && self.complete
            || self.batch.objects >= options.batch
            || self.batch.bytes >= options.batch_bytes
    }

    /// Takes what came. Gives out at once what is no object, for that cannot be packed, and there may be millions. If it
    /// is nothing, it says that something has come: a sign of life.
    fn take(&mut self, part: Option<Result<P, Failure>>) -> P {
        match part {
            Some(Ok(mut part)) => {
                self.batch.changes = self.complete;
                self.complete = self.complete || part.is_end();
                let others = part.take_others();
                for object in part.objects_mut() {
                    if !self.batch.changes {
                        self.hold(object);
                    }
                    self.batch.objects += 1;
                    self.batch.bytes += object.memory();
                }
                self.batch.parts.push(part);
                return others;
            }
            Some(Err(failure)) => self.over = Some(Err(failure)),
            None => self.over = Some(Ok(())),
        }
        P::empty()
    }

    fn hold(&mut self, object: &mut Object<K>) {
        if self.batch.objects == 0
            && let Keep::Packed(packer) = &self.preparation.keep
        {
            self.buffer.reserve(packer.options().batch_bytes);
        }
        object.move_body(&mut self.buffer);
    }
}

/// What comes of a list or a watch at once.
trait Part<K: 'static>: Send + 'static {
    fn empty() -> Self;
    /// Takes out what is no object, where it has no place among the others that it must keep.
    fn take_others(&mut self) -> Self;
    fn objects(&self) -> impl Iterator<Item = &Object<K>>;
    fn objects_mut(&mut self) -> impl Iterator<Item = &mut Object<K>>;
    /// Whether the state is complete with it.
    fn is_end(&self) -> bool;
}

impl<K: Send + 'static> Part<K> for ListPart<K> {
    fn empty() -> Self {
        Self::Items(Vec::new())
    }

    fn take_others(&mut self) -> Self {
        let Self::Items(items) = self else { return Self::empty() };
        let others: Vec<_> = items.extract_if(.., |item| matches!(item, ListItem::Invalid(_))).collect();
        if !others.is_empty() {
            items.shrink_to_fit();
        }
        Self::Items(others)
    }

    fn objects(&self) -> impl Iterator<Item = &Object<K>> {
        let items = if let Self::Items(items) = self { &items[..] } else { &[] };
        items.iter().filter_map(|item| if let ListItem::Object(object) = item { Some(object) } else { None })
    }

    fn objects_mut(&mut self) -> impl Iterator<Item = &mut Object<K>> {
        let items = if let Self::Items(items) = self { &mut items[..] } else { &mut [] };
        items
            .iter_mut()
            .filter_map(|item| if let ListItem::Object(object) = item { Some(object) } else { None })
    }

    fn is_end(&self) -> bool {
        matches!(self, Self::End(_))
    }
}

impl<K: Send + 'static> Part<K> for Vec<WatchEvent<K>> {
    fn empty() -> Self {
        Self::new()
    }

    fn take_others(&mut self) -> Self {
        // Events stay in their order. One that is no object completes the state, and is held back no longer.
        Self::new()
    }

    fn objects(&self) -> impl Iterator<Item = &Object<K>> {
        self.iter().filter_map(|event| match event {
            WatchEvent::Added(object) | WatchEvent::Modified(object) | WatchEvent::Deleted(object) => {
                Some(object)
            }
            _ => None,
        })
    }

    fn objects_mut(&mut self) -> impl Iterator<Item = &mut Object<K>> {
        self.iter_mut().filter_map(|event| match event {
            WatchEvent::Added(object) | WatchEvent::Modified(object) | WatchEvent::Deleted(object) => {
                Some(object)
            }
            _ => None,
        })
    }

    fn is_end(&self) -> bool {
        // Whatever is no object must not be held up: a bookmark, an error, an event that nobody knows.
        self.iter().any(|event| {
            !matches!(event, WatchEvent::Added(_) | WatchEvent::Modified(_) | WatchEvent::Deleted(_))
        })
    }
}

/// How many parts are prepared at once.
fn width() -> usize {
    available_parallelism().map_or(2, |threads| threads.get().clamp(2, 8))
}

/// How much is done elsewhere at once, in the whole process. More than there are cores would be done no sooner, and would
/// hold more parts in memory; and each further thread that ever allocated has memory of its own to keep, where the
/// allocator is glibc's.
static AT_ONCE: LazyLock<Arc<Semaphore>> = LazyLock::new(|| Arc::new(Semaphore::new(width())));

/// Runs this on a thread that may take its time. A panic is passed on.
async fn elsewhere<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    // Nobody closes it.
    let turn = Arc::clone(&AT_ONCE).acquire_owned().await;
    let done = spawn_blocking(move || {
        let _turn = turn;
        work()
    });
    match done.await {
        Ok(done) => done,
        Err(error) if error.is_panic() => resume_unwind(error.into_panic()),
        // The runtime ends, and this task with it.
        Err(_) => pending().await,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;
    use crate::wire::ListMeta;

    fn object(i: usize, version: usize) -> Object<()> {
        let words: String = (0..400_u32).map(|n| format!("{:x} ", n.wrapping_mul(2_654_435_761))).collect();
        let json = format!(
            r#"{{"metadata":{{"name":"o{i:04}","uid":"u{i}","resourceVersion":"{version}"}},"words":"{words}","own":{i}}}"#
        );
        Object::from_json(json).unwrap()
    }

    #[tokio::test]
    async fn no_more_is_prepared_at_once_than_there_are_cores() {
        let (running, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let gate = Arc::new(tokio::sync::RwLock::new(()));
        let closed = gate.write().await;
        let (started, mut starts) = tokio::sync::mpsc::unbounded_channel();
        let work = (0..4 * width()).map(|_| {
            let (running, most, gate) = (Arc::clone(&running), Arc::clone(&most), Arc::clone(&gate));
            let started = started.clone();
            tokio::spawn(elsewhere(move || {
                most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                started.send(()).unwrap();
                drop(gate.blocking_read());
                running.fetch_sub(1, Ordering::SeqCst);
            }))
        });
        let work: Vec<_> = work.collect();
        for _ in 0..width() {
            starts.recv().await.unwrap();
        }
        // Whoever does not wait for a turn is here within that many.
        for _ in 0..1000 {
            tokio::task::yield_now().await;
        }
        drop(closed);
        for done in work {
            done.await.unwrap();
        }
        assert_eq!(most.load(Ordering::SeqCst), width());
    }

    async fn prepared(preparation: &Arc<Preparation<()>>, objects: Vec<Object<()>>) -> Vec<Object<()>> {
        let parts: Vec<_> = objects
            .chunks(50)
            .map(|some| Ok(ListPart::Items(some.iter().cloned().map(ListItem::Object).collect())))
            .chain([Ok(ListPart::End(ListMeta::default()))])
            .collect();
        let parts: Vec<_> = preparation.list(stream::iter(parts).boxed()).collect().await;
        parts.iter().flat_map(|part| part.as_ref().unwrap().objects().cloned()).collect()
    }

    /// A relist brings what is held already: that is neither packed again, nor kept twice.
    #[tokio::test]
    async fn what_comes_as_it_is_held_is_not_packed_again() {
        let errors = metrics::counter!("test");
        let form = BodyForm::packed();
        let first = Preparation::new(Chain::default(), &form, errors.clone(), None);
        let held = prepared(&first, (0..1_200).map(|i| object(i, 5)).collect()).await;
        let by_key: HashMap<_, _> =
            held.iter().map(|object| (object.key().clone(), object.clone())).collect();
        let lookup: Lookup<()> = Box::new(move |key| by_key.get(key).cloned());

        let second = Preparation::new(Chain::default(), &form, errors, Some(lookup));
        let again = prepared(&second, (0..1_200).map(|i| object(i, 5 + i / 1_100)).collect()).await;
        assert_eq!(again.len(), held.len());
        for (i, (again, held)) in again.iter().zip(&held).enumerate() {
            assert_eq!(again.ptr_eq(held), i < 1_100, "{again:?}");
            assert_eq!(again.json().unwrap(), object(i, 5 + i / 1_100).json().unwrap());
        }
    }
}
