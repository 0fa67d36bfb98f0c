//! A counterexample, told.

use std::{error::Error, fmt};

use super::{
    scope::Scope,
    server::show,
    world::{Action, World},
};

/// What happened, step by step, and the rule that it breaks.
#[derive(Clone, Debug)]
pub struct Story {
    /// The scope in which it happens.
    pub scope: &'static str,
    /// What is wrong, as a sentence.
    pub rule: String,
    /// The actions that lead there.
    pub path: Vec<Action>,
    lines: Vec<String>,
}

/// Tells what happens along a path.
pub(super) fn tell(scope: &Scope, path: &[Action], rule: String) -> Box<Story> {
    let mut lines = vec![];
    let Ok(mut before) = World::new(scope) else {
        return Box::new(Story { scope: scope.name, rule, path: path.to_vec(), lines });
    };
    for (number, action) in path.iter().enumerate() {
        lines.push(format!("{:>3}. {action}", number + 1));
        let mut next = World { story: Some(Vec::new()), ..before.clone() };
        let kept = next.take_step(&before, scope, *action);
        lines.extend(next.story.take().unwrap_or_default().into_iter().map(|line| format!("     {line}")));
        lines.push(format!("     {}", next.summary()));
        before = next;
        if kept.is_err() {
            break;
        }
    }
    Box::new(Story { scope: scope.name, rule, path: path.to_vec(), lines })
}

impl World {
    /// The most important of a state, in a line.
    fn summary(&self) -> String {
        let status = self.machine.status();
        let synced = if status.synced { "synced" } else { "not synced" };
        format!(
            "[{:?}] {}, {synced}, version {:?}, copy {}; server {} at {}",
            self.now,
            status.phase,
            status.version,
            show(&self.copy.content),
            show(&self.server.content()),
            self.server.revision()
        )
    }
}

impl fmt::Display for Story {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "In the scope {:?}: {}.", self.scope, self.rule)?;
        self.lines.iter().try_for_each(|line| writeln!(f, "{line}"))
    }
}

impl Error for Story {}
