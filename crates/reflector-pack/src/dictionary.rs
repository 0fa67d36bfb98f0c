//! What was learned from samples.

use std::{cell::RefCell, fmt, sync::Arc};

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
    pub(crate) fn packed(&self, bytes: &[u8], context: &mut CCtx<'_>) -> Option<Packed> {
        let length = u32::try_from(bytes.len()).ok()?;
        let mut packed = Vec::with_capacity(zstd_safe::compress_bound(bytes.len()));
        context.compress_using_cdict(&mut packed, bytes, &self.prepared).ok()?;
        // A copy of the exact size: the room was for the worst case.
        let smaller = packed.len() < bytes.len();
        smaller.then(|| Packed::new(Box::from(&packed[..]), length, Arc::clone(&self.dictionary)))
    }
}

/// Makes a dictionary of at most `size` bytes from samples; `None` if there is too little to learn from.
pub(crate) fn learn<S: AsRef<[u8]>>(samples: &[S], size: usize, level: i32) -> Option<Compressor> {
    let lengths: Vec<usize> = samples.iter().map(|sample| sample.as_ref().len()).collect();
    let mut all = Vec::with_capacity(lengths.iter().sum());
    samples.iter().for_each(|sample| all.extend_from_slice(sample.as_ref()));
    // A dictionary larger than a tenth of its samples has learned them by heart.
    let mut content = Vec::with_capacity(size.min(all.len() / 10));
    zstd_safe::train_from_buffer(&mut content, &all, &lengths).ok()?;
    drop(all);
    let dictionary = Arc::new(Dictionary { prepared: DDict::try_create(&content)? });
    Some(Compressor { prepared: CDict::try_create(&content, level)?, dictionary })
}
