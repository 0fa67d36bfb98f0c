//! Paths, turned into what to do with each field of each message on their way.

use std::collections::HashMap;

use super::path::Step;
use crate::schema::{FieldRow, Message, Shape, Type};

/// What to do with a message: a rule for each field number, none for those beyond.
#[derive(Clone, Debug)]
pub(super) struct State {
    pub(super) rules: Box<[Rule]>,
}

/// What to do with the values of a field.
#[derive(Clone, Debug)]
pub(super) enum Rule {
    /// The same with each.
    All(Target),
    /// With some elements of a list, by their index, something else than with the others.
    List { at: Box<[(usize, Target)]>, others: Target },
    /// The same for the entries of a map, by their key. What is entered is the entry.
    Map { at: Box<[(Box<str>, Target)]>, others: Target },
}

/// What to do with a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Target {
    Keep,
    Drop,
    /// Do with the message in it as that state says.
    Enter(usize),
}

/// A path, and how many of its steps have been made.
type Cursor = (usize, usize);

/// Follows all paths at once, so that a state knows what any of them wants of its message. Where several paths, or
/// wildcards, come to a message with the same steps before them, there is one state for it. Ends because each message
/// takes a step from each path.
pub(super) struct Planner<'a> {
    paths: &'a [Box<[Step]>],
    pub(super) states: Vec<State>,
    known: HashMap<(Type, Message, Vec<Cursor>), Target>,
}

impl<'a> Planner<'a> {
    pub(super) fn new(paths: &'a [Box<[Step]>]) -> Self {
        Self { paths, states: Vec::new(), known: HashMap::new() }
    }

    /// What to do with a message that all paths begin at.
    pub(super) fn plan(&mut self, message: Message) -> Target {
        self.target(Type::Message, message, (0..self.paths.len()).map(|path| (path, 0)).collect())
    }

    fn step(&self, (path, step): Cursor) -> Option<&'a Step> {
        self.paths.get(path)?.get(step)
    }

    /// Those paths whose next step is one of these, with that step made.
    fn led(&self, cursors: &[Cursor], is: impl Fn(&Step) -> bool) -> Vec<Cursor> {
        let led = cursors.iter().filter(|cursor| self.step(**cursor).is_some_and(&is));
        led.map(|(path, step)| (*path, step + 1)).collect()
    }

    /// Does one of the paths end here?
    fn ends(&self, cursors: &[Cursor]) -> bool {
        cursors.iter().any(|cursor| self.step(*cursor).is_none())
    }

    /// What to do with a value.
    fn target(&mut self, ty: Type, message: Message, cursors: Vec<Cursor>) -> Target {
        if self.ends(&cursors) {
            return Target::Drop;
        }
        if cursors.is_empty() {
            return Target::Keep;
        }
        let key = (ty, message, cursors);
        if let Some(target) = self.known.get(&key) {
            return *target;
        }
        let cursors = &key.2;
        let rules = match ty {
            Type::Message => {
                let rows = message.rows();
                let mut rules =
                    vec![Rule::All(Target::Keep); rows.last().map_or(0, |row| row.number.into()) + 1];
                for row in rows {
                    rules[usize::from(row.number)] = self.field(row, cursors);
                }
                rules
            }
            // What these have in JSON is directly in them.
            Type::SchemaOrArray => {
                let schema = self.target(Type::Message, message, cursors.clone());
                vec![Rule::All(Target::Keep), Rule::All(schema), self.list(Type::Message, message, cursors)]
            }
            Type::SchemaOrBool => {
                let schema = self.target(Type::Message, message, cursors.clone());
                vec![Rule::All(Target::Keep), Rule::All(Target::Keep), Rule::All(schema)]
            }
            Type::SchemaOrStrings => {
                let schema = self.target(Type::Message, message, cursors.clone());
                vec![Rule::All(Target::Keep), Rule::All(schema), self.list(Type::String, message, cursors)]
            }
            Type::Strings => vec![Rule::All(Target::Keep), self.list(Type::String, message, cursors)],
            // Nothing is in them, or JSON text is.
            _ => Vec::new(),
        };
        let target = self.state(rules);
        self.known.insert(key, target);
        target
    }

    /// The target of a message with these rules.
    fn state(&mut self, rules: Vec<Rule>) -> Target {
        if rules.iter().all(|rule| matches!(rule, Rule::All(Target::Keep))) {
            return Target::Keep;
        }
        self.states.push(State { rules: rules.into() });
        Target::Enter(self.states.len() - 1)
    }

    fn field(&mut self, row: &FieldRow, cursors: &[Cursor]) -> Rule {
        let (ty, message) = (row.ty, Message::at(row.message));
        if row.is_inline() {
            // Its members are those of the message around it.
            return Rule::All(self.target(ty, message, cursors.to_vec()));
        }
        let led = self.led(cursors, |step| step.is_name(row.name()));
        if self.ends(&led) {
            return Rule::All(Target::Drop);
        }
        match row.shape() {
            Shape::Single => Rule::All(self.target(ty, message, led)),
            Shape::List => self.list(ty, message, &led),
            Shape::Map => self.map(ty, message, &led),
        }
    }

    fn list(&mut self, ty: Type, message: Message, cursors: &[Cursor]) -> Rule {
        let others = self.target(ty, message, self.led(cursors, |step| *step == Step::Any));
        let mut indices: Vec<usize> = cursors
            .iter()
            .filter_map(|cursor| match self.step(*cursor) {
                Some(Step::Name(_, index)) => *index,
                _ => None,
            })
            .collect();
        indices.sort_unstable();
        indices.dedup();
        let at = indices.into_iter().map(|index| {
            let led = self.led(cursors, |step| step.is_index(index));
            (index, self.target(ty, message, led))
        });
        let at: Box<[_]> = at.filter(|(_, target)| *target != others).collect();
        if at.is_empty() { Rule::All(others) } else { Rule::List { at, others } }
    }

    fn map(&mut self, ty: Type, message: Message, cursors: &[Cursor]) -> Rule {
        let others = self.entry(ty, message, self.led(cursors, |step| *step == Step::Any));
        let mut keys: Vec<&str> = cursors
            .iter()
            .filter_map(|cursor| match self.step(*cursor) {
                Some(Step::Name(name, _)) => Some(&**name),
                _ => None,
            })
            .collect();
        keys.sort_unstable();
        keys.dedup();
        let at = keys.into_iter().map(|key| {
            let led = self.led(cursors, |step| step.is_name(key));
            (key.into(), self.entry(ty, message, led))
        });
        let at: Box<[_]> = at.filter(|(_, target)| *target != others).collect();
        if at.is_empty() { Rule::All(others) } else { Rule::Map { at, others } }
    }

    /// What to do with an entry of a map, {1 key, 2 value}.
    fn entry(&mut self, ty: Type, message: Message, cursors: Vec<Cursor>) -> Target {
        match self.target(ty, message, cursors) {
            value @ Target::Enter(_) => {
                self.state(vec![Rule::All(Target::Keep), Rule::All(Target::Keep), Rule::All(value)])
            }
            target => target,
        }
    }
}
