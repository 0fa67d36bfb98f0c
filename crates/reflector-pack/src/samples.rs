//! What a new dictionary is learned from: what comes by now, and some of everything that came before.
//!
//! Lists come in the order of their keys, so what comes by in a row is of one namespace and alike. A dictionary made
//! of that alone would not know the others, whose changes come later.

use crate::{Options, Packed};

/// One in so many samples is recent. Those are much alike where a rollout goes from one namespace to the next, and would
/// take most of the dictionary if they were half of what it is made from.
const RECENT: usize = 4;

#[derive(Default)]
pub(crate) struct Samples {
    /// Copies of what has come by since a new dictionary is wanted.
    recent: Vec<Vec<u8>>,
    recent_bytes: usize,
    gathering: bool,
    /// Every `stride`-th of all, kept packed.
    spread: Vec<Packed>,
    stride: u64,
    seen: u64,
}

impl Samples {
    /// From now on, copies are kept.
    pub(crate) fn gather(&mut self) {
        self.gathering = true;
    }

    /// Whether copies are kept.
    pub(crate) fn are_gathered(&self) -> bool {
        self.gathering
    }

    /// Keeps one as part of everything, if it is its turn.
    pub(crate) fn note(&mut self, packed: &Packed, options: &Options) {
        self.spread(packed, options.samples - options.samples / RECENT);
    }

    /// Looks at one; gives the samples out when they are wanted and enough: first the recent ones.
    pub(crate) fn see(&mut self, bytes: &[u8], options: &Options) -> Option<Vec<Vec<u8>>> {
        if !self.gathering {
            return None;
        }
        self.recent.push(bytes.to_vec());
        self.recent_bytes += bytes.len();
        let enough = (options.samples / RECENT, options.sample_bytes / RECENT);
        if self.recent.len() < enough.0 && self.recent_bytes < enough.1 {
            return None;
        }
        (self.gathering, self.recent_bytes) = (false, 0);
        let mut samples = std::mem::take(&mut self.recent);
        let mut budget = options.sample_bytes - enough.1;
        for packed in self.spread.iter().rev() {
            let Some(left) = budget.checked_sub(packed.len()) else { break };
            budget = left;
            samples.extend(packed.unpack());
        }
        Some(samples)
    }

    pub(crate) fn memory(&self) -> usize {
        let spread: usize = self.spread.iter().map(|packed| size_of::<Packed>() + packed.packed_len()).sum();
        self.recent_bytes + spread
    }

    /// Packs what is kept with another dictionary; what does not become smaller is no good sample.
    pub(crate) fn repack(&mut self, mut pack: impl FnMut(&[u8]) -> Option<Packed>) {
        let old = std::mem::take(&mut self.spread);
        self.spread = old.iter().filter_map(|packed| pack(&packed.unpack().ok()?)).collect();
    }

    /// Keeps every `stride`-th; when there are too many, every second goes and the stride doubles.
    fn spread(&mut self, packed: &Packed, max: usize) {
        if self.seen.is_multiple_of(self.stride.max(1)) {
            if self.spread.len() >= max {
                let mut odd = false;
                self.spread.retain(|_| {
                    odd = !odd;
                    odd
                });
                self.stride = self.stride.max(1).saturating_mul(2);
            }
            if self.seen.is_multiple_of(self.stride.max(1)) {
                self.spread.push(packed.clone());
            }
        }
        self.seen += 1;
    }
}
