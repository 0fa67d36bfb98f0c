//! Makes a schedule that fails as short as it can be.

use crate::{
    plan::{Nature, Plan, Setup},
    world::run,
};

/// So many runs at the most: a story that is a little too long is better than none.
const RUNS_MAX: usize = 4000;

struct Shrinker {
    plan: Plan,
    runs: usize,
}

/// The shortest schedule found that fails as well: fewer steps, and a plainer cluster. One that does not fail is given
/// back as it is.
#[must_use]
pub fn shrink(plan: &Plan) -> Plan {
    let mut shrinker = Shrinker { plan: plan.clone(), runs: 0 };
    if !fails(plan) {
        return shrinker.plan;
    }
    // Each may make the other possible.
    while shrinker.drop_steps() | shrinker.simplify() | shrinker.hasten() {}
    shrinker.plan
}

fn fails(plan: &Plan) -> bool {
    run(plan, false).failure.is_some()
}

impl Shrinker {
    fn try_instead(&mut self, plan: Plan) -> bool {
        if plan == self.plan || self.runs >= RUNS_MAX {
            return false;
        }
        self.runs += 1;
        let as_well = fails(&plan);
        if as_well {
            self.plan = plan;
        }
        as_well
    }

    /// Leaves steps out: halves first, then less and less, then each.
    fn drop_steps(&mut self) -> bool {
        let mut shorter = false;
        let mut size = self.plan.steps.len().div_ceil(2).max(1);
        loop {
            let mut at = 0;
            while at < self.plan.steps.len() {
                let mut plan = self.plan.clone();
                plan.steps.drain(at..(at + size).min(plan.steps.len()));
                if self.try_instead(plan) {
                    shorter = true;
                } else {
                    at += size;
                }
            }
            if size == 1 {
                return shorter;
            }
            size = size.div_ceil(2);
        }
    }

    /// Takes one thing after the other back to what is usual.
    fn simplify(&mut self) -> bool {
        let usual = (Setup::default(), Nature::default());
        let mut simpler = false;
        macro_rules! usual {
            ($part:ident, $usual:expr, $($field:ident),*) => {
                $(
                    let mut plan = self.plan.clone();
                    plan.$part.$field = $usual.$field.clone();
                    simpler |= self.try_instead(plan);
                )*
            };
        }
        let mut plan = self.plan.clone();
        plan.setup.followers.clear();
        simpler |= self.try_instead(plan);
        if !self.plan.setup.followers.is_empty() {
            for which in (0..self.plan.setup.followers.len()).rev() {
                let mut plan = self.plan.clone();
                plan.setup.followers.remove(which);
                simpler |= self.try_instead(plan);
            }
        }
        usual!(
            setup,
            usual.0,
            streaming,
            page_size,
            any,
            selector,
            resync_every,
            relist_every,
            delete_absent_after,
            watch_timeout,
            internal_error_budget,
            compress
        );
        usual!(
            nature,
            usual.1,
            servers,
            lag,
            latency,
            streaming,
            bookmarks,
            watchable,
            versions,
            cached,
            limits,
            continues,
            floors,
            timeouts,
            holds_heads,
            proxy_timeout,
            refuses_old_at_once,
            ends_old_silently,
            format,
            chunk,
            objects
        );
        simpler
    }

    /// Lets the steps come at full seconds, one after the other.
    fn hasten(&mut self) -> bool {
        let mut plan = self.plan.clone();
        for (at, step) in (1..).zip(&mut plan.steps) {
            step.at = at * 1000;
        }
        self.try_instead(plan)
    }
}
