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
    pub(crate) dictionary: Arc<Dictionary>,
}

impl Compressor {
    pub(crate) fn memory(&self) -> usize {
        self.prepared.sizeof() + self.dictionary.memory()
    }

    /// The packed form, unless it would be as large as the original.
    pub(crate) fn packed(&self, bytes: &[u8]) -> Option<Packed> {
        let mut context = contexts().pop().or_else(CCtx::try_create)?;
        let mut packed = Vec::with_capacity(zstd_safe::compress_bound(bytes.len()));
        let result = context.compress_using_cdict(&mut packed, bytes, &self.prepared);
        let mut contexts = contexts();
        if contexts.len() < CONTEXTS {
            contexts.push(context);
        }
        drop(contexts);
        result.ok()?;
        // A copy of the exact size: the room was for the worst case.
        let smaller = packed.len() < bytes.len();
        smaller.then(|| Packed::new(Box::from(&packed[..]), Arc::clone(&self.dictionary)))
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

/// Makes a dictionary of at most `size` bytes from samples, and tells how well it packs: packed bytes per original byte.
/// `None` if there is too little to learn from.
pub(crate) fn learn<S: AsRef<[u8]>>(samples: &[S], size: usize, level: i32) -> Option<(Compressor, f64)> {
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
    // A dictionary larger than a tenth of its samples has learned them by heart.
    let mut content = Vec::with_capacity(size.min(all.len() / 10));
    zstd_safe::train_from_buffer(&mut content, &all, &lengths).ok()?;
    drop(all);
    let dictionary = Arc::new(Dictionary { prepared: DDict::try_create(&content)? });
    let compressor = Compressor { prepared: CDict::try_create(&content, level)?, dictionary };
    let packed = |bytes: &[u8]| compressor.packed(bytes).map_or(bytes.len(), |p| p.packed_len());
    let original: usize = unseen.iter().map(|bytes| bytes.len()).sum();
    let packed: usize = unseen.into_iter().map(packed).sum();
    Some((compressor, ratio(packed, original)))
}

/// One in so many samples is left out.
const UNSEEN: usize = 8;

/// Packed bytes per original byte; 1 where there are none.
#[allow(clippy::cast_precision_loss, reason = "a ratio needs no more than 52 bits")]
pub(crate) fn ratio(packed: usize, original: usize) -> f64 {
    if original == 0 { 1.0 } else { packed as f64 / original as f64 }
}
