//! Fences against a model: whatever the order in which answers are recorded and events arrive, a reader never sees
//! anything from before what it has been told.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    collections::{BTreeMap, HashSet, VecDeque},
    time::Duration,
};

use futures::FutureExt;
use proptest::prelude::*;
use reflector::{
    Cache, Change, FencedCache, Index, IndexBy, Object, ObjectKey, ResourceVersion, Store, protocol::History,
    store::CacheWriter,
};

type Json = serde_json::Value;

const NAMES: [&str; 2] = ["a", "b"];
const APPS: [&str; 2] = ["x", "y"];

#[derive(Clone, Debug)]
enum Op {
    /// A create or an update, by us or by somebody else.
    Put { name: usize, app: usize, ours: bool },
    /// A delete; the answer has the version of the deletion, that of the last state, or none.
    Delete { name: usize, ours: bool, answer: usize },
    /// One of the answers that are under way is recorded.
    Record(usize),
    /// The watch brings so many events together.
    Deliver(usize),
    /// The collection is read anew.
    Relist,
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => (0..2usize, 0..2usize, prop::bool::weighted(0.7)).prop_map(|(name, app, ours)| Op::Put { name, app, ours }),
        2 => (0..2usize, prop::bool::weighted(0.7), 0..3usize)
            .prop_map(|(name, ours, answer)| Op::Delete { name, ours, answer }),
        4 => any::<usize>().prop_map(Op::Record),
        4 => (1..4usize).prop_map(Op::Deliver),
        1 => Just(Op::Relist),
    ]
}

/// A state of one name, and the version from which on it was so.
type History1 = Vec<(u64, Option<Object<Json>>)>;

enum Answer {
    Written(Object<Json>),
    Deleted { name: usize, uid: String, version: Option<u64> },
}

struct Model {
    /// How the server gives versions: as numbers or as text without an order.
    version: u64,
    history: [History1; 2],
    /// What the watch has still to bring.
    events: VecDeque<(u64, Change<Json>)>,
    answers: Vec<Answer>,
    /// The latest version of each name that was recorded.
    told: [u64; 2],
    /// The moment in the history that each name was shown at.
    shown: [u64; 2],
    banned: HashSet<String>,
    writer: CacheWriter<Json>,
    pods: FencedCache<Json>,
    by_app: Index<Json, String>,
    runtime: tokio::runtime::Runtime,
}

fn rv(version: u64) -> ResourceVersion {
    ResourceVersion::new(&version.to_string()).unwrap()
}

fn pod(name: &str, uid: &str, version: u64, app: &str) -> Object<Json> {
    let meta = format!(r#""namespace":"ns","name":"{name}","uid":"{uid}","resourceVersion":"{version}""#);
    Object::from_json(format!(r#"{{"metadata":{{{meta},"labels":{{"app":"{app}"}}}}}}"#)).unwrap()
}

fn text(pod: &Object<Json>) -> String {
    format!("{}/{}@{}", pod.name(), pod.uid(), pod.version().unwrap())
}

impl Model {
    fn new() -> Self {
        let (cache, writer) = Cache::new();
        let by_app = cache.index_by(IndexBy::label("app"));
        Self {
            version: 8,
            history: [vec![(0, None)], vec![(0, None)]],
            events: VecDeque::new(),
            answers: Vec::new(),
            told: [0; 2],
            shown: [0; 2],
            banned: HashSet::new(),
            writer,
            pods: FencedCache::new(cache),
            by_app,
            runtime: tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap(),
        }
    }

    fn state(&self, name: usize) -> Option<Object<Json>> {
        self.history[name].last().unwrap().1.clone()
    }

    fn step(&mut self, op: &Op) {
        match *op {
            Op::Put { name, app, ours } => {
                self.version += 1;
                let uid =
                    self.state(name).map_or_else(|| format!("u{}", self.version), |o| o.uid().to_string());
                let object = pod(NAMES[name], &uid, self.version, APPS[app]);
                self.history[name].push((self.version, Some(object.clone())));
                self.events.push_back((self.version, Change::Upsert(object.clone())));
                if ours {
                    self.answers.push(Answer::Written(object));
                }
            }
            Op::Delete { name, ours, answer } => {
                let Some(last) = self.state(name) else { return };
                self.version += 1;
                let deleted =
                    pod(NAMES[name], &last.uid().to_string(), self.version, last.label("app").unwrap());
                self.history[name].push((self.version, None));
                self.events.push_back((self.version, Change::Delete(deleted)));
                if ours {
                    let last_version = last.version().unwrap().to_string().parse().unwrap();
                    let version = [Some(self.version), Some(last_version), None][answer];
                    self.answers.push(Answer::Deleted { name, uid: last.uid().to_string(), version });
                }
            }
            Op::Record(which) if !self.answers.is_empty() => self.record(which % self.answers.len()),
            Op::Record(_) => {}
            Op::Deliver(count) => {
                let count = count.min(self.events.len());
                let events: Vec<_> = self.events.drain(..count).collect();
                let Some(version) = events.last().map(|(version, _)| rv(*version)) else { return };
                let changes = events.into_iter().map(|(_, change)| change).collect();
                self.writer.apply(changes, Some(&version)).unwrap();
            }
            Op::Relist => {
                self.events.clear();
                self.writer.begin_replace(History::Same);
                let there = (0..2).filter_map(|name| self.state(name)).map(Change::Upsert).collect();
                self.writer.stage(there).unwrap();
                self.writer.commit_replace(Some(&rv(self.version))).unwrap();
            }
        }
    }

    fn record(&mut self, which: usize) {
        match self.answers.remove(which) {
            Answer::Written(object) => {
                let name = NAMES.iter().position(|name| *name == object.name()).unwrap();
                let version = object.version().unwrap().to_string().parse().unwrap();
                self.told[name] = self.told[name].max(version);
                self.pods.written(object);
            }
            Answer::Deleted { name, uid, version } => {
                self.told[name] = self.told[name].max(version.unwrap_or_default());
                self.pods.deleted(&ObjectKey::new(Some("ns"), NAMES[name]), &*uid, version.map(rv).as_ref());
                self.banned.insert(uid);
            }
        }
    }

    /// What is shown must be a state that the server had, not from before what was told, not from before what was shown
    /// earlier, and of no deleted uid.
    fn check(&mut self) -> Result<(), TestCaseError> {
        let mut all = BTreeMap::new();
        for (name, text_name) in NAMES.iter().enumerate() {
            let shown = self.pods.get(Some("ns"), text_name);
            prop_assert!(
                !shown.as_ref().is_some_and(|o| self.banned.contains(&o.uid().to_string())),
                "{shown:?} is deleted"
            );
            let after = self.told[name].max(self.shown[name]);
            let history = &self.history[name];
            let at = history.iter().enumerate().find(|(i, (_, state))| {
                let until = history.get(i + 1).map_or(u64::MAX, |(next, _)| *next);
                state.as_ref().map(text) == shown.as_ref().map(text) && until > after
            });
            let Some((_, (from, _))) = at else {
                return Err(TestCaseError::fail(format!("{text_name}: {shown:?} is from before {after}")));
            };
            self.shown[name] = self.shown[name].max(*from);
            all.extend(shown.map(|shown| (*text_name, shown)));
        }
        let texts = |pods: Vec<Object<Json>>| pods.iter().map(text).collect::<Vec<_>>();
        let expected: Vec<_> = all.values().map(text).collect();
        prop_assert_eq!(texts(self.pods.list()), expected.clone());
        prop_assert_eq!(texts(self.pods.namespace("ns")), expected.clone());
        for app in APPS {
            let of_app = all.values().filter(|pod| pod.label("app") == Some(app)).map(text);
            prop_assert_eq!(texts(self.pods.by(&self.by_app, app).unwrap()), of_app.collect::<Vec<_>>());
        }
        let _time = self.runtime.enter();
        let waited = self.pods.wait(Duration::from_secs(60)).list().now_or_never();
        prop_assert_eq!(waited.is_some(), self.pods.is_caught_up());
        if let Some(waited) = waited {
            prop_assert_eq!(texts(waited.unwrap()), expected);
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_reader_never_goes_back_and_arrives_at_the_truth(ops in prop::collection::vec(op(), 1..60)) {
        let mut model = Model::new();
        for op in &ops {
            model.step(op);
            model.check()?;
        }
        while !model.answers.is_empty() {
            model.record(0);
            model.check()?;
        }
        model.step(&Op::Deliver(usize::MAX));
        model.check()?;
        prop_assert!(model.pods.is_caught_up());
        for (name, text_name) in NAMES.iter().enumerate() {
            let cached = model.pods.cache().get(Some("ns"), text_name);
            prop_assert_eq!(cached.as_ref().map(text), model.state(name).as_ref().map(text));
        }
    }
}
