//! Packing, and learning what to pack with.

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use crate::{
    Packed,
    dictionary::{Compressor, learn, ratio},
    samples::Samples,
};

/// How to pack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Options {
    /// The level of zstd, from 1 (fast) to 19 (small). Default 3.
    pub level: i32,
    /// How large a dictionary may become, in bytes. Default 112 KiB, zstd's own. Larger ones hold more kinds of
    /// objects, and take longer to learn.
    pub dictionary_bytes: usize,
    /// How many byte strings a dictionary is learned from. Default 512. More take more time and, for that time, memory.
    pub samples: usize,
    /// How many bytes of samples are enough, also where they are fewer. Default 4 MiB.
    pub sample_bytes: usize,
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
    current: Option<Arc<Compressor>>,
    /// How well it packed what it had not seen when it was learned; what is packed later is held against this.
    expected: f64,
    window: Window,
    /// How much was packed with it, in bytes of the packed form.
    packed: u64,
    samples: Samples,
    /// How often it has learned.
    learned: u64,
}

/// So many in a row are looked at together: one odd object says nothing.
const WINDOW: u32 = 512;

/// A dictionary stays in use until what was packed with it is so many times its own size. So dictionaries take a
/// bounded part of the whole, however often the collection changes.
const WORTH: u64 = 8;

/// Packed bytes per original byte, over [`WINDOW`] byte strings.
#[derive(Default)]
struct Window {
    count: u32,
    original: usize,
    packed: usize,
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

    /// Learns a dictionary from samples, for what is packed from now on. Takes some ten milliseconds per megabyte of
    /// samples. With too little to learn from (a few dozen byte strings, or a few kilobytes) nothing changes.
    pub fn learn<S: AsRef<[u8]>>(&self, samples: &[S]) {
        let Options { dictionary_bytes, level, .. } = self.options;
        let Some((compressor, expected)) = learn(samples, dictionary_bytes, level) else { return };
        let mut state = self.state();
        state.learned += 1;
        (state.expected, state.window, state.packed) = (expected, Window::default(), 0);
        // They would keep the old dictionary.
        state.samples.repack(|bytes| compressor.packed(bytes));
        state.current = Some(Arc::new(compressor));
    }

    /// Packs one byte string. Those that would not become smaller are kept as they are.
    ///
    /// Where the dictionary has worn out, this call may take the time to learn a new one.
    #[must_use]
    pub fn pack(&self, bytes: &[u8]) -> Packed {
        let current = self.state().current.clone();
        let packed = current.and_then(|current| current.packed(bytes));
        let packed = packed.unwrap_or_else(|| Packed::stored(bytes));
        let worn = self.state().look(bytes, &packed, &self.options);
        if let Some(samples) = worn {
            self.learn(&samples);
        }
        packed
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

impl State {
    /// Notices that the dictionary does not fit any more, and gathers samples for a new one; gives them out when they
    /// are enough.
    fn look(&mut self, bytes: &[u8], packed: &Packed, options: &Options) -> Option<Vec<Vec<u8>>> {
        let current = self.current.as_ref()?;
        self.packed += packed.packed_len() as u64;
        if let Some(samples) = self.samples.see(bytes, packed, options) {
            return Some(samples);
        }
        if let Some(ratio) = self.window.add(bytes.len(), packed.packed_len()) {
            let limit = f64::from(options.relearn_at_percent) / 100.0;
            if ratio > self.expected * limit && self.packed > WORTH * current.dictionary.memory() as u64 {
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
        self.original = self.original.saturating_add(original);
        self.packed = self.packed.saturating_add(packed);
        (self.count >= WINDOW).then(|| {
            let Self { original, packed, .. } = std::mem::take(self);
            ratio(packed, original)
        })
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
