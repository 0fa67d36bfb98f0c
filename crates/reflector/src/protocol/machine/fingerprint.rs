//! The state of the whole machine, told to a hasher.

use std::hash::Hasher;

use super::{Machine, Next, State};
use crate::protocol::{Streaming, Time, fingerprint::Fingerprint, random::Random};

impl Machine {
    /// Tells a hasher everything that decides what the machine will do, and nothing else: two machines with equal
    /// options, equal fingerprints and equal seeds answer equal facts with equal requests. For model checkers.
    ///
    /// Not in it: what is only told (counts, reports, reasons), and the state of the jitter. Orders have to be carried out
    /// before, so what a commit would go back to if it failed is not in it either.
    #[doc(hidden)]
    pub fn fingerprint(&self, now: Time, into: &mut dyn Hasher) {
        let mut print = Fingerprint { now, into };
        let print = &mut print;
        match &self.state {
            State::Created => print.value(0),
            State::Listing(list) => {
                print.value(1);
                list.fingerprint(&self.options, print);
            }
            State::Initial(initial) => {
                print.value(2);
                initial.fingerprint(print);
            }
            State::Watching(watch) => {
                print.value(3);
                watch.fingerprint(&self.options, print);
            }
            State::Waiting { until, next, deadline } => {
                print.value((4, deadline));
                print.ahead(Some(*until));
                match next {
                    Next::Sync(_) => print.value(0),
                    Next::Page(list) => {
                        print.value(1);
                        list.fingerprint(&self.options, print);
                    }
                    Next::Watch => print.value(2),
                }
            }
            State::Stopped => print.value(5),
        }
        print.value((&self.version, self.synced, self.version_unavailable, self.cache_off));
        print.value((self.fallback_unproven, self.refresh_due, self.blocked.is_some()));
        print.value(&self.cycle);
        match &self.streaming {
            Streaming::FellBack { until, .. } => print.ahead(Some(*until)),
            // A streaming list that worked is no more welcome than one that was not tried.
            Streaming::Unknown | Streaming::Works => print.value(0),
            Streaming::Disabled => print.value(1),
        }
        self.backoff.fingerprint(self.options.slow_retry.max(self.options.backoff.cap), print);
        self.row.fingerprint(&self.options, print);
        let absence = self.absence.as_ref();
        print.value(absence.map(|absence| absence.deleted));
        if let Some(limit) = self.options.delete_absent_after {
            print.age(absence.map(|absence| absence.since), limit);
        }
        // One decides when silence is noticed, and all together do.
        print.age(self.checked, self.options.idle_limit);
        print.age(self.last_proof.max(self.checked).max(self.read), self.options.idle_limit);
        print.ahead(self.unwatchable_until);
        print.ahead(self.next_resync);
        print.ahead(self.next_verify);
    }

    /// Begins the jitter anew, so that it depends on nothing that is not in the [fingerprint](Self::fingerprint).
    #[doc(hidden)]
    pub fn reseed(&mut self, seed: u64) {
        self.random = Random::new(seed);
    }
}
