//! How long to wait after failures.
//!
//! Waits double from `first` to `cap`, and each is drawn from `[d, 2d)`: jitter factor 1.0, the numbers of client-go.
//! The lower bound is what bounds the number of requests per minute, the width is what spreads a herd. The state goes
//! back to `first` only after a time of *health*, not some time after the last reset: under a permanent outage the
//! waits stay long (RF-12 tells of the saw-tooth this avoids). A watch that had lived for a while when its connection was
//! cut ends no health, and costs the first wait each time.

use std::time::Duration;

use super::{Time, fingerprint::Fingerprint, random::Random};

/// The numbers of a back-off.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackoffOptions {
    /// The first wait is in `[first, 2 × first)`. Default 0.8 s. Near zero, failures become a hot loop. A watch that had
    /// been open for 10 s when its connection was cut costs this wait each time, and counts as no failure in a row.
    pub first: Duration,
    /// The waits grow until `[cap, 2 × cap)`. Default 30 s. Longer means later recovery, shorter more load.
    pub cap: Duration,
    /// Health of this length takes the waits back to `first`. Default 2 min.
    pub reset_after: Duration,
}

impl Default for BackoffOptions {
    fn default() -> Self {
        Self {
            first: Duration::from_millis(800),
            cap: Duration::from_secs(30),
            reset_after: Duration::from_secs(120),
        }
    }
}

/// A watch that lived so long before its connection was cut had worked. Load balancers cut each of them, once a minute
/// for ever; without this, waits would grow to half of the time.
pub(crate) const LIVED: Duration = Duration::from_secs(10);

const GROWTH_MAX: Duration = Duration::from_secs(3600);

#[derive(Clone, Debug)]
pub(crate) struct Backoff {
    options: BackoffOptions,
    /// The lower bound of the next wait; `None` while there was no failure.
    next: Option<Duration>,
    healthy_since: Option<Time>,
}

impl Backoff {
    pub(crate) fn new(options: BackoffOptions) -> Self {
        Self { options, next: None, healthy_since: None }
    }

    /// Whether no failure is remembered: what went wrong now may be tried again at once.
    pub(crate) fn is_fresh(&mut self, now: Time) -> bool {
        self.forgive(now);
        self.next.is_none()
    }

    /// Things work from now on, as far as is known.
    pub(crate) fn healthy(&mut self, now: Time) {
        self.healthy_since.get_or_insert(now);
    }

    /// Counts a failure and says how long to wait: from `[d, 2d)`, where `d` has doubled up to `cap`.
    pub(crate) fn wait_at_most(&mut self, now: Time, cap: Duration, random: &mut Random) -> Duration {
        let lower = self.fail(now).min(cap);
        random.between(lower, lower * 2)
    }

    /// The wait after what is no failure in a row: nothing is counted, and health goes on.
    pub(crate) fn first_wait(&self, random: &mut Random) -> Duration {
        random.between(self.options.first, self.options.first * 2)
    }

    /// Counts a failure that is answered at once; the next one waits.
    pub(crate) fn fail(&mut self, now: Time) -> Duration {
        self.forgive(now);
        self.healthy_since = None;
        let lower = self.next.unwrap_or(self.options.first);
        // Some classes have a longer cap than others, and they share this state: so it grows a little further.
        self.next = Some((lower * 2).min(self.options.cap.max(GROWTH_MAX)));
        lower
    }

    /// Waits beyond `longest` make no difference.
    pub(super) fn fingerprint(&self, longest: Duration, print: &mut Fingerprint<'_>) {
        print.value(self.next.map(|next| next.min(longest)));
        print.age(self.healthy_since, self.options.reset_after);
    }

    fn forgive(&mut self, now: Time) {
        if self.healthy_since.is_some_and(|since| now.saturating_sub(since) >= self.options.reset_after) {
            self.next = None;
        }
    }
}

/// Nobody wants to be left alone for longer than this, whatever the header says.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(600);

/// The wait, but not shorter than the server asked for. Everybody who was refused got the same number: the jitter goes on
/// top, never below (k8s#79805).
pub(crate) fn at_least(wait: Duration, asked: Option<Duration>, random: &mut Random) -> Duration {
    let asked = asked.map_or(Duration::ZERO, |asked| asked.min(RETRY_AFTER_MAX));
    let floor = asked + random.between(Duration::ZERO, asked.max(Duration::from_secs(2)) / 2);
    if asked.is_zero() { wait } else { wait.max(floor) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CAP: Duration = Duration::from_secs(30);

    fn secs(s: u64) -> Time {
        Duration::from_secs(s)
    }

    #[test]
    fn doubles_to_the_cap_with_jitter_factor_one() {
        let mut backoff = Backoff::new(BackoffOptions::default());
        let mut random = Random::new(1);
        for lower_ms in [800, 1600, 3200, 6400, 12_800, 25_600, 30_000, 30_000] {
            let lower = Duration::from_millis(lower_ms);
            let wait = backoff.wait_at_most(secs(0), CAP, &mut random);
            assert!(wait >= lower && wait < lower * 2, "{wait:?} is not in [{lower:?}, {:?})", lower * 2);
        }
    }

    /// RF-12: client-go since 0.36 starts over two minutes after the last reset, healthy or not.
    #[test]
    fn a_permanent_outage_has_no_saw_tooth() {
        let mut backoff = Backoff::new(BackoffOptions::default());
        let mut random = Random::new(2);
        let mut now = secs(0);
        let mut tries_after_ten_minutes = 0;
        while now < secs(3600) {
            now += backoff.wait_at_most(now, CAP, &mut random);
            tries_after_ten_minutes += usize::from(now > secs(600));
        }
        // 50 minutes at 30 to 60 seconds each.
        assert!((50..=100).contains(&tries_after_ten_minutes), "{tries_after_ten_minutes}");
    }

    #[test]
    fn only_two_minutes_of_health_reset_it() {
        let mut backoff = Backoff::new(BackoffOptions::default());
        backoff.fail(secs(0));
        backoff.fail(secs(1));
        backoff.healthy(secs(2));
        assert!(!backoff.is_fresh(secs(121)));
        assert!(backoff.is_fresh(secs(122)));
        assert_eq!(backoff.fail(secs(122)), Duration::from_millis(800));
        // A failure ends the health: time alone forgives nothing.
        assert!(!backoff.is_fresh(secs(9999)));
    }
}
