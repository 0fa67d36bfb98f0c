//! A storm: whatever can go wrong for a while, in an order that comes from a seed.
//!
//! etcd is not restored in it: what is restored and then overtaken by new writes before anybody looks cannot be seen by
//! any client.

use std::time::Duration;

use reflector_apiserver::faults::Profile;

use super::stage::Act;

/// How long it lasts, in steps of half a second.
const STEPS: usize = 60;

pub(super) fn storm(seed: u64) -> Vec<Act> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut acts = vec![Act::Synced, Act::Profile(Profile::Storm)];
    for _ in 0..STEPS {
        acts.push(Act::Write(random.usize(0..3)));
        acts.extend(match random.u8(0..16) {
            0 => Some(Act::Cut),
            1 => Some(Act::Mute),
            2 => Some(Act::Refuse),
            3 | 4 => Some(Act::Accept),
            5 => Some(Act::Restart),
            6 => Some(Act::Forget),
            7 => Some(Act::Recreate(2)),
            _ => None,
        });
        acts.push(Act::Pause(Duration::from_millis(500)));
    }
    acts.extend([Act::Calm, Act::Accept]);
    acts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_is_a_storm() {
        assert_eq!(storm(7), storm(7));
        assert_ne!(storm(7), storm(8));
        // Whatever was drawn, it is over at the end.
        assert!(storm(7).ends_with(&[Act::Calm, Act::Accept]));
    }
}
