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
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread::available_parallelism,
};

use futures::{StreamExt, TryStreamExt, stream, stream::BoxStream};
use metrics::Counter;
use reflector_pack::{Options as PackOptions, Packer};
use serde::de::DeserializeOwned;
use tokio::task::spawn_blocking;

use crate::{
    Object,
    protocol::Failure,
    source::{ListPart, ListStream, WatchStream},
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

    /// The bytes, each body by itself, compressed with a dictionary that is learned from the collection's own objects.
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
    pub(crate) fn new(transforms: Chain<K>, form: &BodyForm<K>, errors: Counter) -> Arc<Self> {
        let keep = match &form.0 {
            Form::Wire => Keep::Wire,
            Form::Packed(options) => Keep::Packed(Packer::new(*options)),
            Form::Decoded(decoded) => Keep::Decoded(*decoded),
        };
        Arc::new(Self { transforms, errors, keep, seen: AtomicUsize::new(0) })
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
            Keep::Packed(packer) if many && !packer.has_learned() => {
                // What is learned from is what will be packed, and a transform runs once for each object.
                let transformed = self.each(parts, Self::transform);
                self.each(self.learn_from(transformed), Self::keep)
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

    /// Holds the first objects back until there are enough to learn from, and then gives them out with the others.
    fn learn_from<P: Part<K>>(self: &Arc<Self>, parts: Parts<P>) -> Parts<P> {
        let state =
            Holding { parts, held: Vec::new(), objects: 0, bytes: 0, ready: VecDeque::new(), learned: false };
        let this = Arc::clone(self);
        stream::try_unfold(state, move |mut state| {
            let this = Arc::clone(&this);
            async move {
                loop {
                    if let Some(part) = state.ready.pop_front() {
                        return Ok(Some((part, state)));
                    }
                    let Some(part) = state.parts.try_next().await? else { return Ok(None) };
                    if state.learned {
                        return Ok(Some((part, state)));
                    }
                    for object in part.objects() {
                        state.objects += 1;
                        state.bytes += object.memory();
                        this.seen.fetch_add(object.memory(), Ordering::Relaxed);
                    }
                    let end = part.is_end();
                    state.held.push(part);
                    if !end && !this.is_enough(state.objects, state.bytes) {
                        // Nothing yet; but that something has come is a sign of life.
                        return Ok(Some((P::empty(), state)));
                    }
                    state.learned = true;
                    let held = mem::take(&mut state.held);
                    let learns = state.objects >= SAMPLES_MIN && this.is_worth_it();
                    state.ready = if learns { this.learn(held).await.into() } else { held.into() };
                }
            }
        })
        .boxed()
    }

    fn is_enough(&self, objects: usize, bytes: usize) -> bool {
        match &self.keep {
            Keep::Packed(packer) => {
                objects >= packer.options().samples && self.is_worth_it()
                    || bytes >= packer.options().sample_bytes
            }
            Keep::Wire | Keep::Decoded(_) => true,
        }
    }

    fn is_worth_it(&self) -> bool {
        self.seen.load(Ordering::Relaxed) >= WORTH_PACKING
    }

    /// Learns from these objects; gives everything back as it was.
    fn learn<P: Part<K>>(self: &Arc<Self>, parts: Vec<P>) -> impl Future<Output = Vec<P>> + use<K, P> {
        let this = Arc::clone(self);
        elsewhere(move || {
            if let Keep::Packed(packer) = &this.keep {
                let objects = parts.iter().flat_map(Part::objects);
                packer.learn(&objects.filter_map(|object| object.bytes().ok()).collect::<Vec<_>>());
            }
            parts
        })
    }

    async fn part<P: Part<K>>(self: Arc<Self>, mut part: P, work: Work<K>) -> P {
        let bytes: usize = part.objects().map(Object::memory).sum();
        let prepare = move || {
            part.objects_mut().for_each(|object| *object = work(&self, object.clone()));
            part
        };
        if bytes < FEW { prepare() } else { elsewhere(prepare).await }
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

/// What has been held back.
struct Holding<P> {
    parts: Parts<P>,
    held: Vec<P>,
    objects: usize,
    bytes: usize,
    /// What is given out next.
    ready: VecDeque<P>,
    learned: bool,
}

/// What comes of a list or a watch at once.
trait Part<K: 'static>: Send + 'static {
    fn empty() -> Self;
    fn objects(&self) -> impl Iterator<Item = &Object<K>>;
    fn objects_mut(&mut self) -> impl Iterator<Item = &mut Object<K>>;
    /// Whether the state is complete with it.
    fn is_end(&self) -> bool;
}

impl<K: Send + 'static> Part<K> for ListPart<K> {
    fn empty() -> Self {
        Self::Items(Vec::new())
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

/// Runs this on a thread that may take its time. A panic is passed on.
async fn elsewhere<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) if error.is_panic() => resume_unwind(error.into_panic()),
        // The runtime ends, and this task with it.
        Err(_) => pending().await,
    }
}
