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

    /// The numbers that the authors' own code makes of this seed: equal seeds make equal runs, also in later versions.
    #[test]
    fn it_is_splitmix64() {
        let mut random = Random::new(1_234_567);
        let expected: [u64; 5] = [
            6_457_827_717_110_365_317,
            3_203_168_211_198_807_973,
            9_817_491_932_198_370_423,
            4_593_380_528_125_082_431,
            16_408_922_859_458_223_821,
        ];
        assert_eq!(expected, std::array::from_fn(|_| random.next()));
    }

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
