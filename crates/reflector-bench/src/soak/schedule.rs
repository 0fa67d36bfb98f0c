//! What goes wrong and when, drawn from a seed. It never ends.

use std::time::Duration;

use fastrand::Rng;
use reflector_apiserver::{
    Verb,
    faults::{Effect, Fault, Interruption, Point},
};

/// What concerns the whole server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Upheaval {
    /// Connections are refused for so long.
    Outage(Duration),
    /// What is older than the present cannot be watched from any more.
    ForgetHistory,
    Restart,
}

/// The first one comes soon, so that short runs have one.
const FIRST: Duration = Duration::from_secs(4);

/// Upheavals, each with the pause before it. In every three of them each kind comes once.
pub(super) struct Upheavals {
    rng: Rng,
    first: bool,
    round: Vec<Upheaval>,
}

impl Upheavals {
    pub(super) fn new(seed: u64) -> Self {
        Self { rng: Rng::with_seed(seed), first: true, round: Vec::new() }
    }
}

impl Iterator for Upheavals {
    type Item = (Duration, Upheaval);

    fn next(&mut self) -> Option<Self::Item> {
        if self.round.is_empty() {
            let outage = Upheaval::Outage(Duration::from_millis(self.rng.u64(500..3_000)));
            self.round = vec![outage, Upheaval::ForgetHistory, Upheaval::Restart];
            self.rng.shuffle(&mut self.round);
        }
        let drawn = Duration::from_millis(self.rng.u64(10_000..30_000));
        let pause = if std::mem::take(&mut self.first) { FIRST } else { drawn };
        Some((pause, self.round.pop()?))
    }
}

/// What befalls single requests beside what the profile draws: refusals, silence, expired versions, and objects that nobody
/// can read.
pub(super) fn faults() -> Vec<Fault> {
    let on = |verb, probability| Fault::on(verb).resource("pods").probability(probability);
    let (list, watch) =
        (|probability| on(Verb::List, probability), |probability| on(Verb::Watch, probability));
    vec![
        watch(0.1).interrupt(Point::After(Duration::from_secs(3)), Interruption::Hang),
        watch(0.05).interrupt(Point::Events(40), Interruption::Blackhole),
        watch(0.05).hang(),
        watch(0.1).error_event(410, 20),
        watch(0.1).cut_after_events(30),
        watch(0.05).status(429).retry_after(1),
        watch(0.05).status(503),
        watch(0.1).effect(Effect::Undecodable(3)),
        watch(0.1).effect(Effect::WithoutMetadata(5)),
        watch(0.05).effect(Effect::UnknownType(2)),
        watch(0.1).effect(Effect::RegressVersions),
        list(0.1).status(429).retry_after(1),
        list(0.1).status(503),
        list(0.1).reset(),
        list(0.1).effect(Effect::Undecodable(4)),
        list(0.05).effect(Effect::WithoutMetadata(6)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_decides() {
        let some = |seed| Upheavals::new(seed).take(30).collect::<Vec<_>>();
        assert_eq!(some(1), some(1));
        assert_ne!(some(1), some(2));
    }

    #[test]
    fn every_kind_comes_in_time_and_none_too_often() {
        for seed in 0..100 {
            let some: Vec<_> = Upheavals::new(seed).take(30).collect();
            // Ten seconds are what CI has.
            assert!(some[0].0 < Duration::from_secs(5));
            // Outages and their ends leave time to recover: back-off has a cap of two seconds in a soak.
            assert!(some[1..].iter().all(|(pause, _)| (10..30).contains(&pause.as_secs())));
            for round in some.chunks(3) {
                let has = |wanted: fn(&Upheaval) -> bool| round.iter().any(|(_, upheaval)| wanted(upheaval));
                assert!(has(|upheaval| matches!(upheaval, Upheaval::Outage(_))));
                assert!(has(|upheaval| *upheaval == Upheaval::ForgetHistory));
                assert!(has(|upheaval| *upheaval == Upheaval::Restart));
            }
        }
    }
}
