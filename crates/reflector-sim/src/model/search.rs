//! The walk: breadth first through every state, and then back from where all is well.

use std::{
    collections::{HashMap, HashSet},
    hash::{DefaultHasher, Hash, Hasher},
    time::Duration,
};

use super::{
    scope::Scope,
    story::{Story, tell},
    world::{Action, World},
};

/// What was found in a scope.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// States that differ.
    pub states: usize,
    /// Steps that were taken, each from a state to a state.
    pub transitions: usize,
    /// The longest of the shortest ways to a state.
    pub depth: usize,
    /// States in which the copy is what the server has, and follows.
    pub good: usize,
    /// The most steps from a state to a good one, if nothing goes wrong any more.
    pub recovery: usize,
    /// The longest time that this takes.
    pub recovery_time: Duration,
    /// The most requests without time passing.
    pub burst: u8,
    /// States that were come to in two ways, and whose futures were compared.
    pub compared: usize,
    /// Whether every state was walked through; if not, the limit was reached.
    pub complete: bool,
}

/// How far a walk goes.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// No more states than this.
    pub states: usize,
    /// Of each so many repeated states, one is expanded again and compared with the first one: the fingerprint must not
    /// hide anything that matters. Zero compares none.
    pub compare_every: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { states: usize::MAX, compare_every: 0 }
    }
}

/// How a state was first come to, and where it goes.
struct Node {
    parent: u32,
    action: Action,
    /// The next state if nothing goes wrong any more.
    next: u32,
    /// How long that takes.
    wait: Duration,
    good: bool,
    /// What all its steps lead to.
    future: u64,
}

/// Whatever went wrong: if a good server takes longer than this to be reflected, it is never.
const RECOVERY_MAX: Duration = Duration::from_secs(3600);

/// The node that has none, and the one that is not known.
const NONE: u32 = u32::MAX;

/// All that is known of a walk.
struct Walk<'a> {
    scope: &'a Scope,
    nodes: Vec<Node>,
    index: HashMap<u64, u32>,
    report: Report,
}

/// Walks through all states of a scope, and checks each.
///
/// # Errors
///
/// The shortest story that breaks a rule, or the shortest to a state from which nothing leads to a copy that is true.
pub fn explore(scope: &Scope, limits: Limits) -> Result<Report, Box<Story>> {
    let mut walk = Walk {
        scope,
        nodes: Vec::new(),
        index: HashMap::new(),
        report: Report { complete: true, ..Report::default() },
    };
    walk.walk(limits)?;
    walk.look_back()?;
    walk.report.states = walk.nodes.len();
    Ok(walk.report)
}

impl Walk<'_> {
    fn walk(&mut self, limits: Limits) -> Result<(), Box<Story>> {
        let root = World::new(self.scope).map_err(|rule| tell(self.scope, &[], rule))?;
        self.add(&root, root.digest(), NONE, Action::Pass);
        let mut level = vec![(0, root)];
        let mut again = Vec::new();
        let mut seen_again = 0_usize;
        while !level.is_empty() {
            let mut next_level = Vec::new();
            for (id, world) in level {
                if self.nodes.len() >= limits.states {
                    self.report.complete = false;
                    return Ok(());
                }
                let mut futures = Vec::new();
                let good = world.good_action(self.scope);
                for (action, successor) in self.successors(id, &world)? {
                    let digest = successor.digest();
                    let wait = successor.now.saturating_sub(world.now);
                    futures.push((action, digest));
                    self.report.transitions += 1;
                    let to = match self.index.get(&digest) {
                        Some(to) => {
                            seen_again += 1;
                            if limits.compare_every > 0 && seen_again.is_multiple_of(limits.compare_every) {
                                again.push((id, action, *to, successor));
                            }
                            *to
                        }
                        None => {
                            let to = self.add(&successor, digest, id, action);
                            next_level.push((to, successor));
                            to
                        }
                    };
                    if action == good {
                        let node = self.node(id);
                        (node.next, node.wait) = (to, wait);
                    }
                }
                self.node(id).future = hash(&futures);
            }
            self.report.depth += usize::from(!next_level.is_empty());
            level = next_level;
        }
        again.into_iter().try_for_each(|(id, action, same, world)| self.compare(id, action, same, &world))
    }

    /// Adds a state that was not known.
    fn add(&mut self, world: &World, digest: u64, parent: u32, action: Action) -> u32 {
        let id = u32::try_from(self.nodes.len()).unwrap_or(NONE);
        let good = world.is_good();
        self.report.good += usize::from(good);
        self.report.burst = self.report.burst.max(world.past.burst);
        self.nodes.push(Node { parent, action, next: NONE, wait: Duration::ZERO, good, future: 0 });
        self.index.insert(digest, id);
        id
    }

    fn node(&mut self, id: u32) -> &mut Node {
        &mut self.nodes[id as usize]
    }

    fn successors(&self, id: u32, world: &World) -> Result<Vec<(Action, World)>, Box<Story>> {
        world.judge_stop().map_err(|rule| tell(self.scope, &self.path(id), rule))?;
        let step = |action| match world.step(self.scope, action) {
            Ok(next) => Ok((action, next)),
            Err(rule) => {
                let mut path = self.path(id);
                path.push(action);
                Err(tell(self.scope, &path, rule))
            }
        };
        world.actions(self.scope).into_iter().map(step).collect()
    }

    /// The actions that lead to a state.
    fn path(&self, mut id: u32) -> Vec<Action> {
        let mut path = Vec::new();
        while let Some(node) = self.nodes.get(id as usize)
            && node.parent != NONE
        {
            path.push(node.action);
            id = node.parent;
        }
        path.reverse();
        path
    }

    /// Two states that were taken for one have to have the same future.
    fn compare(&mut self, id: u32, action: Action, same: u32, world: &World) -> Result<(), Box<Story>> {
        let mut path = self.path(id);
        path.push(action);
        let futures: Vec<_> =
            self.successors(id, world)?.iter().map(|(action, next)| (*action, next.digest())).collect();
        self.report.compared += 1;
        if hash(&futures) == self.node(same).future {
            return Ok(());
        }
        let other = self.path(same);
        let rule =
            format!("this state was taken for the one of another story, and has another future: {other:?}");
        Err(tell(self.scope, &path, rule))
    }

    /// If faults stop, it gets synced: from each state the good steps lead to a good one.
    fn look_back(&mut self) -> Result<(), Box<Story>> {
        if !self.report.complete {
            return Ok(());
        }
        // The number of steps to a good state, and the time that they take, where it is known.
        let mut steps: Vec<Option<(usize, Duration)>> =
            self.nodes.iter().map(|node| node.good.then_some((0, Duration::ZERO))).collect();
        let mut on_way = vec![false; self.nodes.len()];
        for start in 0..self.nodes.len() {
            let mut way = Vec::new();
            let mut at = start;
            while steps[at].is_none() && !on_way[at] {
                on_way[at] = true;
                way.push(at);
                at = self.nodes[at].next as usize;
            }
            let Some((mut rest, mut time)) = steps[at] else { return Err(self.never(start)) };
            for at in way.into_iter().rev() {
                (rest, time) = (rest + 1, time + self.nodes[at].wait);
                steps[at] = Some((rest, time));
                on_way[at] = false;
            }
        }
        if let Some(slow) = steps.iter().position(|known| known.is_some_and(|(_, time)| time > RECOVERY_MAX))
        {
            return Err(self.never(slow));
        }
        let known = || steps.iter().flatten();
        self.report.recovery = known().map(|(steps, _)| *steps).max().unwrap_or(0);
        self.report.recovery_time = known().map(|(_, time)| *time).max().unwrap_or_default();
        Ok(())
    }

    /// The story of a state from which good steps lead nowhere, or not in time.
    fn never(&self, start: usize) -> Box<Story> {
        let mut path = self.path(u32::try_from(start).unwrap_or(NONE));
        let rule =
            format!("after step {} nothing goes wrong any more, and it never gets synced again", path.len());
        let root = World::new(self.scope);
        let mut world =
            root.and_then(|root| path.iter().try_fold(root, |world, action| world.step(self.scope, *action)));
        // Once around is enough, and a few steps of what only grows.
        let mut seen = HashSet::new();
        while let Ok(at) = world
            && !at.is_good()
            && seen.len() < 40
            && seen.insert(at.digest())
        {
            let action = at.good_action(self.scope);
            path.push(action);
            world = at.step(self.scope, action);
        }
        tell(self.scope, &path, rule)
    }
}

fn hash(futures: &[(Action, u64)]) -> u64 {
    let mut hasher = DefaultHasher::new();
    futures.hash(&mut hasher);
    hasher.finish()
}
