//! What was learned from samples.

use std::{
    cell::RefCell,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use zstd_safe::{CCtx, CDict, DCtx, DDict};

use crate::Packed;

/// What is needed to read what was packed with one dictionary. Shared by everything that was.
pub struct Dictionary {
    prepared: DDict<'static>,
}

impl Dictionary {
    /// How much memory it takes, in bytes.
    #[must_use]
    pub fn memory(&self) -> usize {
        self.prepared.sizeof()
    }

    /// The original of `packed`, which has `length` bytes.
    pub(crate) fn unpack(&self, packed: &[u8], length: usize) -> Option<Vec<u8>> {
        thread_local! {
            // A context takes some hundred kilobytes and is worth nothing between two uses but the time to make it.
            static CONTEXT: RefCell<Option<DCtx<'static>>> = const { RefCell::new(None) };
        }
        CONTEXT.with_borrow_mut(|context| {
            if context.is_none() {
                *context = DCtx::try_create();
            }
            let mut bytes = Vec::with_capacity(length);
            context.as_mut()?.decompress_using_ddict(&mut bytes, packed, &self.prepared).ok()?;
            (bytes.len() == length).then_some(bytes)
        })
    }
}

impl fmt::Debug for Dictionary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dictionary").field("memory", &self.memory()).finish()
    }
}

/// What is needed to pack with a dictionary: much larger than what is needed to read, and only kept while it is used.
pub(crate) struct Compressor {
    prepared: CDict<'static>,
    /// How well it packed what it had not seen when it was learned: packed bytes per original byte. What is packed later
    /// is held against this.
    pub(crate) expected: f64,
    pub(crate) dictionary: Arc<Dictionary>,
}

impl Compressor {
    pub(crate) fn memory(&self) -> usize {
        self.prepared.sizeof() + self.dictionary.memory()
    }

    /// The packed form, unless it would be as large as the original.
    pub(crate) fn packed(&self, bytes: &[u8]) -> Option<Packed> {
        let packed = self.frame(bytes)?;
        // A copy of the exact size: the room was for the worst case.
        let smaller = packed.len() < bytes.len();
        smaller.then(|| Packed::new(Box::from(&packed[..]), Arc::clone(&self.dictionary)))
    }

    /// How well it packs these.
    pub(crate) fn ratio<'a>(&self, items: impl Iterator<Item = &'a [u8]>) -> Ratio {
        let mut ratio = Ratio::default();
        for bytes in items {
            let packed = self.frame(bytes).map_or(bytes.len(), |packed| packed.len().min(bytes.len()));
            ratio.add(bytes.len(), packed);
        }
        ratio
    }

    fn frame(&self, bytes: &[u8]) -> Option<Vec<u8>> {
        let mut context = contexts().pop().or_else(CCtx::try_create)?;
        let mut packed = Vec::with_capacity(zstd_safe::compress_bound(bytes.len()));
        let result = context.compress_using_cdict(&mut packed, bytes, &self.prepared);
        let mut contexts = contexts();
        if contexts.len() < CONTEXTS {
            contexts.push(context);
        }
        drop(contexts);
        result.ok().map(|_| packed)
    }
}

/// So many compressors are kept between two uses; one takes about a megabyte.
const CONTEXTS: usize = 8;

/// What packs: for all dictionaries of the process, since a program may have thousands.
fn contexts() -> MutexGuard<'static, Vec<CCtx<'static>>> {
    static KEPT: Mutex<Vec<CCtx<'static>>> = Mutex::new(Vec::new());
    // Nothing that can panic runs under the lock.
    KEPT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes a dictionary of at most `size` bytes from samples. `None` if there is too little to learn from.
pub(crate) fn learn<S: AsRef<[u8]>>(samples: &[S], size: usize, level: i32) -> Option<Compressor> {
    // Some are left out, to see how well the dictionary does with what it has not seen.
    let (mut all, mut lengths, mut unseen) = (Vec::new(), Vec::new(), Vec::new());
    for (i, sample) in samples.iter().map(AsRef::as_ref).enumerate() {
        if i % UNSEEN == UNSEEN - 1 {
            unseen.push(sample);
        } else {
            all.extend_from_slice(sample);
            lengths.push(sample.len());
        }
    }
    let mut content = Vec::with_capacity(size.min(all.len() / SAMPLES_PER_DICTIONARY));
    zstd_safe::train_from_buffer(&mut content, &all, &lengths).ok()?;
    drop(all);
    // Whoever unpacks has the dictionary at hand. With the number zero a frame does not name it: four bytes less of each.
    content.get_mut(4..8)?.fill(0);
    let dictionary = Arc::new(Dictionary { prepared: DDict::try_create(&content)? });
    let mut compressor =
        Compressor { prepared: CDict::try_create(&content, level)?, expected: 1.0, dictionary };
    // The worse half: what comes next may be like either. Where some samples are of today and some of all times, those of
    // today are much alike and would promise too much.
    let (first, second) = unseen.split_at(unseen.len() / 2);
    let [first, second] = [first, second].map(|half| compressor.ratio(half.iter().copied()).value());
    compressor.expected = first.max(second);
    Some(compressor)
}

/// One in so many samples is left out.
const UNSEEN: usize = 8;

/// How much larger than the dictionary its samples must be together. From less it learns some of them by heart, and the
/// rest not at all: a dictionary of 256 KiB from four megabytes of pods packs them half as well as one of 112 KiB.
const SAMPLES_PER_DICTIONARY: usize = 28;

/// How much was packed into how much.
#[derive(Clone, Copy, Default)]
pub(crate) struct Ratio {
    original: usize,
    packed: usize,
}

impl Ratio {
    pub(crate) fn add(&mut self, original: usize, packed: usize) {
        self.original = self.original.saturating_add(original);
        self.packed = self.packed.saturating_add(packed);
    }

    /// Packed bytes per original byte; 1 where there are none.
    #[allow(clippy::cast_precision_loss, reason = "a ratio needs no more than 52 bits")]
    pub(crate) fn value(self) -> f64 {
        if self.original == 0 { 1.0 } else { self.packed as f64 / self.original as f64 }
    }
}
