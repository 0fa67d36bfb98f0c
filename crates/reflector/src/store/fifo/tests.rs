mod properties;
mod scenarios;
mod waiting;

use super::*;
use crate::{Change, ResourceVersion, Store, protocol::History};

type Json = serde_json::Value;

fn object(name: &str, uid: &str, version: &str) -> Object<Json> {
    let json = format!(
        r#"{{"metadata":{{"namespace":"ns","name":"{name}","uid":"{uid}","resourceVersion":"{version}"}}}}"#
    );
    Object::from_json(json).unwrap()
}

/// `a:5` is revision 5 of `a`, `a/other:5` is that of another object of the name.
fn parse(text: &str) -> Object<Json> {
    let (name, version) = text.split_once(':').unwrap();
    let (name, uid) = name.split_once('/').unwrap_or((name, "one"));
    object(name, &format!("{name}-{uid}"), version)
}

/// What happened, in one word each: `+a@5`, `a@5>6`, `=a@5` replaced, `a@5=6` replaced, `~a@5` sync, `-a@6`, `-a@6?`.
fn text(delta: &FifoDelta<Json>) -> String {
    let version = |o: &Object<Json>| o.version().map(ToString::to_string).unwrap_or_default();
    let show = |o: &Object<Json>| format!("{}@{}", o.name(), version(o));
    match delta {
        FifoDelta::Added(new) => format!("+{}", show(new)),
        FifoDelta::Updated { old, new } => format!("{}>{}", show(old), version(new)),
        FifoDelta::Replaced { old: None, new } => format!("={}", show(new)),
        FifoDelta::Replaced { old: Some(old), new } => format!("{}={}", show(old), version(new)),
        FifoDelta::Sync(object) => format!("~{}", show(object)),
        FifoDelta::Deleted { last, final_state_unknown } => {
            format!("-{}{}", show(last), if *final_state_unknown { "?" } else { "" })
        }
    }
}

fn texts(deltas: &Deltas<Json>) -> String {
    assert!(deltas.iter().all(|delta| delta.object().key() == deltas.key()));
    deltas.iter().map(text).collect::<Vec<_>>().join(" ")
}

/// Both sides of a queue, and what was popped by a script.
struct Rig {
    fifo: DeltaFifo<Json>,
    writer: DeltaFifoWriter<Json>,
    popped: Vec<String>,
    held: Vec<Popped<Json>>,
}

impl Rig {
    fn new(options: DeltaFifoOptions) -> Self {
        let (fifo, writer) = DeltaFifo::new(options);
        Self { fifo, writer, popped: Vec::new(), held: Vec::new() }
    }

    fn replace(&mut self, objects: &[&str]) {
        self.writer.begin_replace(History::Same);
        self.writer.stage(objects.iter().map(|o| Change::Upsert(parse(o))).collect()).unwrap();
    }

    /// Steps separated by `;`: `put a:1`, `del a:2`, `list a:3 b:4`, `fail a:3` (a list that breaks), `resync`, `pop`,
    /// `take` (a pop that is not finished), `finish` (the oldest of those), `close`.
    fn run(&mut self, script: &str) -> &mut Self {
        for step in script.split(';') {
            let words: Vec<_> = step.split_whitespace().collect();
            match words[..] {
                ["put", what] => self.writer.apply(vec![Change::Upsert(parse(what))], None).unwrap(),
                ["del", what] => self.writer.apply(vec![Change::Delete(parse(what))], None).unwrap(),
                ["list", ref what @ ..] => {
                    self.replace(what);
                    self.writer.commit_replace(ResourceVersion::new("99").as_ref()).unwrap();
                }
                ["fail", ref what @ ..] => {
                    self.replace(what);
                    self.writer.abandon_replace();
                }
                ["resync"] => self.writer.resync().unwrap(),
                ["pop"] => {
                    let popped = self.fifo.try_pop();
                    self.popped.push(popped.map_or_else(|| "nothing".to_owned(), |p| texts(&p)));
                }
                ["take"] => {
                    let popped = self.fifo.try_pop();
                    self.popped.push(popped.as_ref().map_or_else(|| "nothing".to_owned(), |p| texts(p)));
                    self.held.extend(popped);
                }
                ["finish"] => self.held.remove(0).finish(),
                ["close"] => self.fifo.close(),
                [] => {}
                _ => panic!("what is {step:?}?"),
            }
        }
        self
    }

    /// What the script popped, and then everything that is left.
    fn rest(&mut self) -> String {
        while let Some(popped) = self.fifo.try_pop() {
            self.popped.push(texts(&popped));
        }
        std::mem::take(&mut self.popped).join(" | ")
    }
}
