//! Random numbers from a seed that is an argument, so that a run can be repeated.

use std::time::Duration;

/// SplitMix64 (Steele, Lea and Flood, 2014): enough for jitter, and one word of state.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A duration in `[low, high)`, in whole milliseconds; `low` if the range is empty.
    pub(crate) fn between(&mut self, low: Duration, high: Duration) -> Duration {
        let span = u64::try_from(high.saturating_sub(low).as_millis()).unwrap_or(u64::MAX);
        low + Duration::from_millis(self.next().checked_rem(span).unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stays_in_range_and_moves() {
        let mut random = Random::new(7);
        let (low, high) = (Duration::from_secs(300), Duration::from_secs(600));
        let drawn: Vec<_> = (0..100).map(|_| random.between(low, high)).collect();
        assert!(drawn.iter().all(|d| (low..high).contains(d)));
        assert!(drawn.iter().any(|d| *d < low + Duration::from_secs(60)));
        assert!(drawn.iter().any(|d| *d > high - Duration::from_secs(60)));
        assert_eq!(random.between(low, low), low);
    }
}
