//! Packing, and learning what to pack with.

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use crate::{
    Packed,
    dictionary::{Compressor, Ratio, learn},
    samples::Samples,
};

/// How to pack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Options {
    /// The level of zstd, from 1 (fast) to 19 (small). Default 3.
    pub level: i32,
    /// How large a dictionary for a whole collection may become, in bytes. Default 112 KiB, zstd's own. Larger ones hold
    /// more kinds of objects, and take longer to learn.
    pub dictionary_bytes: usize,
    /// How many byte strings a dictionary is learned from. Default 512. More take more time and, for that time, memory.
    pub samples: usize,
    /// How many bytes of samples are enough, also where they are fewer. Default 4 MiB.
    pub sample_bytes: usize,
    /// How large the dictionary of one [batch](Packer::pack_batch) may become, in bytes. Default 24 KiB. Every batch that
    /// is unlike the one before it has one, so it must be small beside what the batch takes.
    pub batch_dictionary_bytes: usize,
    /// How many byte strings make a batch. Default 512.
    pub batch: usize,
    /// How many bytes make a batch, also where they are fewer strings. Default 4 MiB.
    pub batch_bytes: usize,
    /// A new dictionary is learned when what is packed has become so much larger, in percent of what it was after the
    /// last one. Default 150.
    pub relearn_at_percent: u32,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            level: 3,
            dictionary_bytes: 112 << 10,
            samples: 512,
            sample_bytes: 4 << 20,
            batch_dictionary_bytes: 24 << 10,
            batch: 512,
            batch_bytes: 4 << 20,
            relearn_at_percent: 150,
        }
    }
}

/// Packs byte strings one by one, with a dictionary that it learns from them. May be used from several threads at once.
pub struct Packer {
    options: Options,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// What is packed alone is packed with this.
    current: Option<Arc<Compressor>>,
    window: Window,
    /// How much was packed with it, in bytes of the packed form.
    packed: u64,
    samples: Samples,
    /// What the last batch was packed with.
    batch: Option<Arc<Compressor>>,
    /// How often it has learned.
    learned: u64,
}

/// So many in a row are looked at together: one odd object says nothing.
const WINDOW: u32 = 512;

/// A dictionary stays in use until what was packed with it is so many times its own size. So dictionaries take a
/// bounded part of the whole, however often the collection changes.
const WORTH: u64 = 8;

/// Of a batch, one in so many shows how well a dictionary suits it.
const PROBES: usize = 16;

/// Of a batch, so many are learned from: they are neighbours, and tell much of each other.
const BATCH_SAMPLES: usize = 96;

/// What was packed lately, up to [`WINDOW`] byte strings.
#[derive(Default)]
struct Window {
    count: u32,
    ratio: Ratio,
}

impl Packer {
    /// A packer that has learned nothing yet: it keeps what it gets as it is.
    #[must_use]
    pub fn new(options: Options) -> Self {
        Self { options, state: Mutex::default() }
    }

    /// Whether it has a dictionary.
    #[must_use]
    pub fn has_learned(&self) -> bool {
        self.times_learned() > 0
    }

    /// How often it has learned a dictionary.
    #[must_use]
    pub fn times_learned(&self) -> u64 {
        self.state().learned
    }

    /// How it packs.
    #[must_use]
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Whether its dictionary has worn out, so that one of the next calls of [`pack`](Self::pack) learns a new one.
    #[must_use]
    pub fn is_worn(&self) -> bool {
        self.state().samples.are_gathered()
    }

    /// Learns a dictionary from samples, for what is packed alone from now on. Takes some ten milliseconds per megabyte
    /// of samples. With too little to learn from (a few dozen byte strings, or a few kilobytes) nothing changes.
    pub fn learn<S: AsRef<[u8]>>(&self, samples: &[S]) {
        let Options { dictionary_bytes, level, .. } = self.options;
        let Some(compressor) = learn(samples, dictionary_bytes, level) else { return };
        let mut state = self.state();
        // They would keep the old dictionaries.
        state.samples.repack(|bytes| compressor.packed(bytes));
        state.use_from_now_on(Arc::new(compressor));
    }

    /// Packs one byte string. Those that would not become smaller are kept as they are.
    ///
    /// Where the dictionary has worn out, this call may take the time to learn a new one.
    #[must_use]
    pub fn pack(&self, bytes: &[u8]) -> Packed {
        let current = self.state().current.clone();
        let packed = packed_or_stored(current.as_deref(), bytes);
        let worn = self.state().look(bytes, &packed, &self.options);
        if let Some(samples) = worn {
            self.learn(&samples);
        }
        packed
    }

    /// Packs what came together, in its order: a part of an ordered list, whose neighbours are much alike.
    ///
    /// A dictionary of their own suits them far better than one of the whole collection. They get one where it saves
    /// more than it takes; else they are packed with that of the batch before. What is packed alone afterwards is
    /// packed with the last one of them, until that has worn out.
    #[must_use]
    pub fn pack_batch<S: AsRef<[u8]>>(&self, batch: &[S]) -> Vec<Packed> {
        let before = self.state().batch.clone();
        let own = self.own_dictionary(batch, before.as_deref());
        let learned = own.is_some();
        let compressor = own.map(Arc::new).or(before);
        let pack = |bytes: &S| packed_or_stored(compressor.as_deref(), bytes.as_ref());
        let packed: Vec<_> = batch.iter().map(pack).collect();
        let mut state = self.state();
        if let Some(compressor) = compressor.filter(|_| learned) {
            state.batch = Some(Arc::clone(&compressor));
            state.use_from_now_on(compressor);
        }
        packed.iter().for_each(|packed| state.samples.note(packed, &self.options));
        packed
    }

    /// A dictionary for this batch, if it saves more than it takes.
    fn own_dictionary<S: AsRef<[u8]>>(&self, batch: &[S], before: Option<&Compressor>) -> Option<Compressor> {
        let Options { batch_dictionary_bytes, level, .. } = self.options;
        let bytes: usize = batch.iter().map(|bytes| bytes.as_ref().len()).sum();
        let probes: Vec<&[u8]> = batch.iter().step_by(PROBES).map(AsRef::as_ref).collect();
        let saved = |by: f64, instead_of: f64| (instead_of - by) * bytes as f64;
        let now = before.map_or(1.0, |before| before.ratio(probes.iter().copied()).value());
        // As well as the last one did on its own batch is as well as a new one can be expected to do.
        if let Some(before) = before
            && saved(before.expected, now) < before.dictionary.memory() as f64
        {
            return None;
        }
        let stride = (batch.len() / BATCH_SAMPLES).max(1);
        let samples: Vec<&[u8]> = batch.iter().step_by(stride).map(AsRef::as_ref).collect();
        let own = learn(&samples, batch_dictionary_bytes, level)?;
        (saved(own.ratio(probes.into_iter()).value(), now) > own.dictionary.memory() as f64).then_some(own)
    }

    /// How much memory the packer itself takes, in bytes, its present dictionary included. Beside it, as many compressors as
    /// there were threads packing at once, eight at the most and about a megabyte each, are kept for all packers of the
    /// process.
    #[must_use]
    pub fn memory(&self) -> usize {
        let state = self.state();
        let current = state.current.as_ref().map_or(0, |current| Compressor::memory(current));
        current + state.samples.memory()
    }

    // Nothing that can panic runs under the lock.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn packed_or_stored(compressor: Option<&Compressor>, bytes: &[u8]) -> Packed {
    compressor.and_then(|compressor| compressor.packed(bytes)).unwrap_or_else(|| Packed::stored(bytes))
}

impl State {
    fn use_from_now_on(&mut self, compressor: Arc<Compressor>) {
        self.learned += 1;
        (self.window, self.packed) = (Window::default(), 0);
        self.current = Some(compressor);
    }

    /// Notices that the dictionary does not fit any more, and gathers samples for a new one; gives them out when they
    /// are enough.
    fn look(&mut self, bytes: &[u8], packed: &Packed, options: &Options) -> Option<Vec<Vec<u8>>> {
        let current = self.current.as_ref()?;
        self.packed += packed.packed_len() as u64;
        self.samples.note(packed, options);
        if let Some(samples) = self.samples.see(bytes, options) {
            return Some(samples);
        }
        if let Some(ratio) = self.window.add(bytes.len(), packed.packed_len()) {
            let limit = f64::from(options.relearn_at_percent) / 100.0;
            if ratio > current.expected * limit && self.packed > WORTH * current.dictionary.memory() as u64 {
                self.samples.gather();
            }
        }
        None
    }
}

impl Window {
    /// The ratio, at the end of a window.
    fn add(&mut self, original: usize, packed: usize) -> Option<f64> {
        self.count += 1;
        self.ratio.add(original, packed);
        (self.count >= WINDOW).then(|| std::mem::take(self).ratio.value())
    }
}

impl fmt::Debug for Packer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Packer")
            .field("options", &self.options)
            .field("times_learned", &self.times_learned())
            .finish_non_exhaustive()
    }
}
