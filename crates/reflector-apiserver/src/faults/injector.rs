//! Which faults a request draws, and the count of what was injected.

use std::{
    collections::{BTreeMap, HashMap},
    time::Duration,
};

use super::{Effect, Fault, Profile, Respond, profile::Draw};
use crate::request::{RequestInfo, Verb};

/// A fault that has been added.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FaultId(u64);

/// The faults in force, and what they have done so far.
#[derive(Debug)]
pub struct Faults {
    rules: Vec<Rule>,
    next: u64,
    profile: Profile,
    /// Server-wide events of a profile (restarts, history cuts) are rare: when the last one was.
    upheaval: Option<Duration>,
    /// How many requests in a row the profile has hit: after some it lets one pass.
    streaks: HashMap<(Verb, String), u32>,
    rng: fastrand::Rng,
    counts: Counts,
}

#[derive(Debug)]
struct Rule {
    id: FaultId,
    fault: Fault,
    seen: u64,
    hits: u64,
    last: Option<Duration>,
}

/// How often each kind of fault took effect.
pub(super) type Counts = BTreeMap<&'static str, u64>;

pub(super) fn count(counts: &mut Counts, kind: &'static str) {
    *counts.entry(kind).or_default() += 1;
}

/// What happens to one request.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Plan {
    pub(super) respond: Option<Respond>,
    pub(super) effects: Vec<Effect>,
}

impl Faults {
    /// No faults yet. All chance comes from the seed.
    pub fn new(seed: u64) -> Self {
        Self {
            rules: Vec::new(),
            next: 0,
            profile: Profile::None,
            upheaval: None,
            streaks: HashMap::new(),
            rng: fastrand::Rng::with_seed(seed),
            counts: Counts::new(),
        }
    }

    /// Puts a fault in force. Where several match a request, all their effects apply; of made-up answers the first.
    pub fn add(&mut self, fault: Fault) -> FaultId {
        let id = FaultId(self.next);
        self.next += 1;
        self.rules.push(Rule { id, fault, seen: 0, hits: 0, last: None });
        id
    }

    /// Takes a fault back; exchanges that drew it already keep it.
    pub fn remove(&mut self, id: FaultId) {
        self.rules.retain(|rule| rule.id != id);
    }

    /// Takes all faults back and ends the profile.
    pub fn clear(&mut self) {
        self.rules.clear();
        self.profile = Profile::None;
    }

    /// Lets a profile draw faults, besides those that were added.
    pub fn set_profile(&mut self, profile: Profile) {
        self.profile = profile;
    }

    /// The profile in force.
    pub fn profile(&self) -> Profile {
        self.profile
    }

    /// How many requests this fault has hit.
    pub fn hits(&self, id: FaultId) -> u64 {
        self.rules.iter().find(|rule| rule.id == id).map_or(0, |rule| rule.hits)
    }

    /// How often each kind of fault took effect, by the names of the text form.
    pub fn injected(&self) -> &BTreeMap<&'static str, u64> {
        &self.counts
    }

    pub(super) fn counts(&mut self) -> &mut Counts {
        &mut self.counts
    }

    pub(super) fn draw(&mut self, info: &RequestInfo, now: Duration) -> Plan {
        let mut plan = Plan::default();
        for rule in &mut self.rules {
            if !rule.draws(info, now, &mut self.rng) {
                continue;
            }
            if plan.respond.is_none() {
                plan.respond.clone_from(&rule.fault.respond);
            }
            plan.effects.extend(rule.fault.effects.iter().cloned());
        }
        self.draw_from_profile(info, now, &mut plan);
        plan
    }

    fn draw_from_profile(&mut self, info: &RequestInfo, now: Duration, plan: &mut Plan) {
        /// A client gets through at the latest with the request after so many bad ones.
        const LONGEST_STREAK: u32 = 4;
        const UPHEAVAL_PAUSE: Duration = Duration::from_secs(20);

        let streak = self.streaks.entry((info.verb, info.resource.clone())).or_default();
        let calm = self.upheaval.is_some_and(|last| now < last + UPHEAVAL_PAUSE);
        match self.profile.draw(info.verb, calm, &mut self.rng) {
            Some(_) if *streak >= LONGEST_STREAK => *streak = 0,
            None => *streak = 0,
            Some(Draw { respond, effects, upheaval }) => {
                *streak += 1;
                if upheaval {
                    self.upheaval = Some(now);
                }
                if plan.respond.is_none() {
                    plan.respond = respond;
                }
                plan.effects.extend(effects);
            }
        }
    }
}

impl Rule {
    fn draws(&mut self, info: &RequestInfo, now: Duration, rng: &mut fastrand::Rng) -> bool {
        let fault = &self.fault;
        if !fault.matches(info) || fault.between.is_some_and(|(from, to)| now < from || now >= to) {
            return false;
        }
        let seen = self.seen;
        self.seen += 1;
        let turn = seen.checked_sub(fault.skip).is_some_and(|turn| turn % fault.every == 0);
        let cooling = self.last.is_some_and(|last| now < last + fault.cooldown);
        if !turn || cooling || fault.times.is_some_and(|times| self.hits >= times) {
            return false;
        }
        // No draw is spent on certainties, so that adding one does not change what chance brings.
        if fault.probability < 1.0 && rng.f64() >= fault.probability {
            return false;
        }
        self.hits += 1;
        self.last = Some(now);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list() -> RequestInfo {
        RequestInfo::parse(&http::Method::GET, &"/api/v1/namespaces/a/pods".parse().unwrap()).unwrap()
    }

    fn hits(fault: Fault, requests: u64) -> Vec<u64> {
        let mut faults = Faults::new(1);
        faults.add(fault.status(500));
        (0..requests).filter(|n| faults.draw(&list(), Duration::from_secs(*n)).respond.is_some()).collect()
    }

    #[test]
    fn after_every_and_times_choose_the_requests() {
        assert_eq!(hits(Fault::on(Verb::List).times(2), 5), [0, 1]);
        assert_eq!(hits(Fault::on(Verb::List).after(1).every(2), 6), [1, 3, 5]);
        assert_eq!(hits(Fault::on(Verb::List).cooldown(Duration::from_secs(3)), 7), [0, 3, 6]);
        assert_eq!(hits(Fault::any().between(Duration::from_secs(2), Duration::from_secs(4)), 7), [2, 3]);
        assert_eq!(hits(Fault::on(Verb::Watch), 3), [0; 0]);
        assert_eq!(hits(Fault::on(Verb::List).namespace("b"), 3), [0; 0]);
        assert_eq!(hits(Fault::on(Verb::List).namespace("a").resource("pods").once(), 3), [0]);
    }

    #[test]
    fn chance_comes_from_the_seed() {
        let some = hits(Fault::any().probability(0.5), 100);
        assert_eq!(some, hits(Fault::any().probability(0.5), 100));
        assert!((20..80).contains(&some.len()), "{some:?}");
    }

    #[test]
    fn a_storm_lets_a_request_pass_again_and_again() {
        let mut faults = Faults::new(7);
        faults.set_profile(Profile::Storm);
        let mut streak = 0;
        let mut hit = 0;
        for n in 0..10_000 {
            let plan = faults.draw(&list(), Duration::from_millis(n * 10));
            streak = if plan == Plan::default() { 0 } else { streak + 1 };
            hit += u32::from(streak > 0);
            assert!(streak <= 4);
        }
        assert!(hit > 1_000, "{hit}");
    }
}
