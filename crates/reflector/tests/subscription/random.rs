//! Random writers, indexes and subscribers, beside a model that is a plain map: after every step the cache and its
//! indexes are what the model says, and in the end so is what every subscriber was told, whatever it wanted and however
//! it read. Bookmarks are held against the history of the model.

use std::collections::{BTreeMap, BTreeSet};

use reflector::{Index, IndexBy, LabelSelector, store::NamespaceWriters};

use super::*;

/// So many stories, each of up to 130 steps: about two seconds. For a thorough search, say 5 000.
const STORIES: u64 = 45;

const TINTS: [&str; 3] = ["red", "green", ""];
const NAMESPACES: [&str; 3] = ["n1", "n2", "n3"];

/// Xorshift: the same story for the same seed.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from((self.0 >> 11) % n as u64).unwrap()
    }

    fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }
}

/// Namespace and name.
type Key = (String, String);

/// What the model knows of an object.
#[derive(Clone, Debug, PartialEq)]
struct State {
    version: u64,
    uid: String,
    tint: String,
}

type Model = BTreeMap<Key, State>;

fn make(key: &Key, state: &State) -> Object<Json> {
    let (State { version, uid, tint }, (namespace, name)) = (state, key);
    let json = format!(
        r#"{{"metadata":{{"namespace":"{namespace}","name":"{name}","uid":"{uid}","resourceVersion":"{version}",
            "labels":{{"tint":"{tint}"}}}}}}"#
    );
    Object::from_json(json).unwrap()
}

fn number(version: &ResourceVersion) -> u64 {
    version.to_string().parse().unwrap()
}

fn version_of(object: &Object<Json>) -> u64 {
    number(object.version().unwrap())
}

fn key_of(object: &Object<Json>) -> Key {
    (object.namespace().unwrap().to_owned(), object.name().to_owned())
}

fn state_of(object: &Object<Json>) -> State {
    let tint = object.label("tint").unwrap().to_owned();
    State { version: version_of(object), uid: object.uid().to_string(), tint }
}

/// The model after each version.
struct Past(BTreeMap<u64, Model>);

impl Past {
    fn at(&self, version: u64) -> &Model {
        self.0.range(..=version).next_back().unwrap().1
    }

    /// Whether an object went, or changed, after a version.
    fn moved_on_after(&self, version: u64, key: &Key, state: &State) -> bool {
        let moved = |later: Option<&State>| later.is_none_or(|later| later.version > state.version);
        self.0.range(version + 1..).any(|(_, model)| moved(model.get(key)))
    }
}

/// A subscriber, what it wants, and what it knows from what it was told.
struct Reader {
    name: String,
    subscription: Subscription<Json>,
    namespace: Option<&'static str>,
    tint: Option<&'static str>,
    known: Model,
    synced: bool,
}

impl Reader {
    fn random(random: &mut Random, cache: &Cache<Json>, story: &str) -> Self {
        let policy = random.pick(&[
            Policy::Merge(ShortLived::Cancel),
            Policy::Merge(ShortLived::Deliver),
            Policy::Every { bound: 3, when_full: WhenFull::Merge },
            Policy::Every { bound: 1, when_full: WhenFull::Merge },
            Policy::Every { bound: 2, when_full: WhenFull::End },
            Policy::Every { bound: 10_000, when_full: WhenFull::End },
            Policy::Block { bound: 2 },
        ]);
        let namespace = random.one_in(3).then(|| random.pick(&NAMESPACES[..2]));
        let tint = random.one_in(3).then_some("red");
        let mut wanted = cache.subscription().policy(policy).bookmarks().resyncs();
        if let Some(namespace) = namespace {
            wanted = wanted.namespace(namespace);
        }
        if let Some(tint) = tint {
            wanted = wanted.labels(format!("tint={tint}").parse().unwrap());
        }
        let name = format!("{story} {policy:?} {namespace:?} {tint:?}");
        let subscription = wanted.subscribe();
        Self { name, subscription, namespace, tint, known: Model::new(), synced: false }
    }

    fn wants(&self, key: &Key, state: &State) -> bool {
        self.namespace.is_none_or(|namespace| namespace == key.0)
            && self.tint.is_none_or(|tint| tint == state.tint)
    }

    fn read(&mut self, events: usize, past: &Past) {
        for _ in 0..events {
            let Some(Some(event)) = self.subscription.next().now_or_never() else { return };
            assert_ne!(self.subscription.ended(), Some(Ended::Lagged), "{} {event:?}", self.name);
            self.take(&event, past);
        }
    }

    /// Each event fits to what was told before it.
    fn take(&mut self, event: &Event<Json>, past: &Past) {
        let at = format!("{} {event:?}", self.name);
        if let Event::Added { object, .. } | Event::Updated { new: object, .. } = event {
            assert!(self.wants(&key_of(object), &state_of(object)), "{at}");
        }
        match event {
            Event::Added { object, initial } => {
                assert_eq!(*initial, !self.synced, "{at}");
                assert_eq!(self.known.insert(key_of(object), state_of(object)), None, "{at}");
            }
            Event::Updated { old, new } => {
                let known = self.known.insert(key_of(new), state_of(new));
                assert_eq!(known, Some(state_of(old)), "{at}");
                assert!(old.uid() == new.uid() && version_of(old) < version_of(new), "{at}");
            }
            Event::Deleted { last, .. } => {
                let known = self.known.remove(&key_of(last)).expect(&at);
                assert!(*last.uid() == *known.uid && known.version <= version_of(last), "{at}");
            }
            Event::Synced => assert!(!std::mem::replace(&mut self.synced, true), "{at}"),
            Event::Resync(object) => {
                assert!(self.synced, "{at}");
                assert_eq!(self.known.get(&key_of(object)), Some(&state_of(object)), "{at}");
            }
            Event::Bookmark(version) => self.vouch(number(version), past, &at),
            other => panic!("{at} {other:?}"),
        }
    }

    /// A bookmark says that everything up to its version has been told.
    fn vouch(&self, version: u64, past: &Past, at: &str) {
        let then = past.at(version);
        for (key, state) in then.iter().filter(|(key, state)| self.wants(key, state)) {
            match self.known.get(key) {
                Some(known) => assert!(known.version >= state.version, "{at}: {key:?} is old"),
                None => assert!(past.moved_on_after(version, key, state), "{at}: {key:?} is missing"),
            }
        }
        for (key, known) in self.known.iter().filter(|(_, known)| known.version <= version) {
            assert!(
                then.get(key).is_some_and(|state| state.version >= known.version),
                "{at}: {key:?} was gone"
            );
        }
    }

    fn finish(mut self, world: &World) {
        self.read(usize::MAX, &world.past);
        if self.subscription.ended() == Some(Ended::Lagged) {
            assert_eq!(self.subscription.next().now_or_never().map(|event| event.is_none()), Some(true));
            return;
        }
        let there: Model = world.model.clone().into_iter().filter(|(k, s)| self.wants(k, s)).collect();
        assert_eq!(self.known, there, "{}", self.name);
        assert_eq!(self.synced, world.cache.is_synced(), "{}", self.name);
        let lag = self.subscription.lag();
        assert_eq!((lag.waiting, lag.present), (0, 0), "{}", self.name);
    }
}

/// A writer and its part.
struct Part {
    namespaces: Vec<&'static str>,
    writer: Option<CacheWriter<Json>>,
    /// The version of this part is known, so that a bookmark means something.
    listed: bool,
}

struct World {
    random: Random,
    cache: Cache<Json>,
    /// Only if the cache is filled by namespace.
    maker: Option<NamespaceWriters<Json>>,
    parts: Vec<Part>,
    model: Model,
    past: Past,
    version: u64,
    uids: u64,
    by_tint: Vec<Index<Json, String>>,
    /// None, one or several values, and some failures.
    by_many: Index<Json, (String, u64)>,
    readers: Vec<Reader>,
}

fn many(object: &Object<Json>) -> Result<Vec<(String, u64)>, &'static str> {
    let State { version, uid, tint } = state_of(object);
    match version % 14 {
        0 => std::panic::resume_unwind(Box::new("without a word")),
        7 => Err("seven"),
        5 => Ok(vec![]),
        _ => Ok(vec![(tint.clone(), version % 3), (uid, 0), (tint, version % 3)]),
    }
}

impl World {
    fn new(seed: u64) -> Self {
        let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        let (cache, maker, parts) = if random.one_in(2) {
            let (cache, maker) = Cache::by_namespace();
            let part = |namespace| {
                let writer = Some(maker.writer(namespace));
                Part { namespaces: vec![namespace], writer, listed: false }
            };
            let parts = NAMESPACES.into_iter().map(part).collect();
            (cache, Some(maker), parts)
        } else {
            let (cache, writer) = Cache::new();
            let part = Part { namespaces: NAMESPACES[..2].into(), writer: Some(writer), listed: false };
            (cache, None, vec![part])
        };
        let by_many = cache.index_by(IndexBy::handle(|object| many(object).map_err(Into::into)));
        let by_tint = vec![cache.index_by(IndexBy::label("tint"))];
        let past = Past(BTreeMap::from([(0, Model::new())]));
        let (model, readers) = (Model::new(), Vec::new());
        Self { random, cache, maker, parts, model, past, version: 1, uids: 0, by_tint, by_many, readers }
    }

    fn step(&mut self, story: &str) {
        let at = self.random.below(self.parts.len());
        match self.random.below(12) {
            0 if self.readers.len() < 8 => {
                let reader = Reader::random(&mut self.random, &self.cache, story);
                self.readers.push(reader);
            }
            1 if !self.readers.is_empty() => {
                let gone = self.random.below(self.readers.len());
                self.readers.swap_remove(gone);
            }
            2 | 3 => self.let_read(),
            4 => self.bookmark(at),
            5 => self.parts[at].writer.iter_mut().for_each(|writer| writer.resync().unwrap()),
            6 if !self.readers.is_empty() => {
                let one = self.random.below(self.readers.len());
                self.readers[one].subscription.resync();
            }
            7 => self.replace(at),
            8 if self.random.one_in(3) => self.come_and_go(at),
            9 => self.index_anew(),
            _ => self.change(at),
        }
    }

    /// Some read a little, and most nothing.
    fn let_read(&mut self) {
        for reader in &mut self.readers {
            let events = self.random.below(6);
            if self.random.one_in(2) {
                reader.read(events, &self.past);
            }
        }
    }

    fn next_version(&mut self) -> u64 {
        self.version += 1;
        self.version
    }

    fn remember(&mut self) -> ResourceVersion {
        let version = self.version;
        self.past.0.insert(version, self.model.clone());
        ResourceVersion::new(&version.to_string()).unwrap()
    }

    /// A later revision of an object, or another object under the same name.
    fn successor(&mut self, of: Option<&State>) -> State {
        let uid = match of {
            Some(of) if !self.random.one_in(4) => of.uid.clone(),
            _ => {
                self.uids += 1;
                format!("u{}", self.uids)
            }
        };
        State { version: self.next_version(), uid, tint: self.random.pick(&TINTS).to_owned() }
    }

    fn bookmark(&mut self, at: usize) {
        if self.parts[at].listed {
            self.next_version();
            let version = self.remember();
            self.parts[at].writer.iter_mut().for_each(|writer| writer.bookmark(&version));
        }
    }

    /// A complete list, which may hold anything.
    fn replace(&mut self, at: usize) {
        let Some(mut writer) = self.parts[at].writer.take() else { return };
        let mut listed = Model::new();
        for namespace in self.parts[at].namespaces.clone() {
            for name in (0..5).map(|i| format!("o{i}")) {
                let key = (namespace.to_owned(), name);
                let held = self.model.remove(&key);
                match held {
                    _ if self.random.one_in(3) => {}
                    Some(held) if self.random.one_in(2) => drop(listed.insert(key, held)),
                    held => drop(listed.insert(key, self.successor(held.as_ref()))),
                }
            }
        }
        writer.begin_replace(if self.random.one_in(3) { History::Unknown } else { History::Same });
        let objects = listed.iter().map(|(key, state)| Change::Upsert(make(key, state)));
        writer.stage(objects.clone().collect()).unwrap();
        // A server may repeat itself from page to page.
        writer.stage(objects.take(1).collect()).unwrap();
        self.model.append(&mut listed);
        self.next_version();
        let version = self.remember();
        writer.commit_replace(Some(&version)).unwrap();
        (self.parts[at].writer, self.parts[at].listed) = (Some(writer), true);
    }

    /// Changes that come together. They may come before the first list.
    fn change(&mut self, at: usize) {
        let Some(mut writer) = self.parts[at].writer.take() else { return };
        let mut changes = Vec::new();
        for _ in 0..self.random.below(4) + 1 {
            let key = (
                self.random.pick(&self.parts[at].namespaces).to_owned(),
                format!("o{}", self.random.below(5)),
            );
            let held = self.model.get(&key).cloned();
            match held {
                Some(held) if self.random.one_in(3) => {
                    let last = State { version: self.next_version(), ..held };
                    changes.push(Change::Delete(make(&key, &last)));
                    self.model.remove(&key);
                }
                held => {
                    let state = self.successor(held.as_ref());
                    changes.push(Change::Upsert(make(&key, &state)));
                    self.model.insert(key, state);
                }
            }
            self.remember();
        }
        let version = self.remember();
        writer.apply(changes, Some(&version)).unwrap();
        self.parts[at].writer = Some(writer);
    }

    /// A namespace is taken out, or comes back, or gets another writer.
    fn come_and_go(&mut self, at: usize) {
        let Some(maker) = &self.maker else { return };
        let part = &mut self.parts[at];
        let namespace = part.namespaces[0];
        part.listed = false;
        if part.writer.is_some() && self.random.one_in(2) {
            part.writer = None;
            maker.remove(namespace);
            self.model.retain(|key, _| key.0 != namespace);
            self.next_version();
            self.remember();
        } else {
            part.writer = Some(maker.writer(namespace));
        }
    }

    fn index_anew(&mut self) {
        if self.by_tint.len() < 3 {
            self.by_tint.push(self.cache.index_by(IndexBy::label("tint")));
        } else {
            let gone = self.by_tint.remove(self.random.below(3));
            self.cache.remove_index(&gone);
        }
    }

    fn check(&self, story: &str) {
        let snapshot = self.cache.snapshot();
        let held: Model = snapshot.iter().map(|object| (key_of(object), state_of(object))).collect();
        assert_eq!(held, self.model, "{story}");
        for part in &self.parts {
            let Some(writer) = &part.writer else { continue };
            let there = self.model.keys().filter(|key| part.namespaces.contains(&&*key.0)).count();
            assert_eq!(writer.object_count(), Some(there), "{story}");
        }
        for tint in TINTS {
            let with = |other: &str| {
                let keys = self.model.iter().filter(|(_, s)| s.tint == tint || s.tint == other);
                keys.map(|(key, _)| key.clone()).collect::<Vec<_>>()
            };
            for index in &self.by_tint {
                let found: Vec<_> = snapshot.by(index, tint).unwrap().map(key_of).collect();
                assert_eq!(found, with(tint), "{story}");
                assert_eq!(snapshot.count_by(index, tint).unwrap(), found.len(), "{story}");
            }
            for (selector, wanted) in
                [(format!("tint={tint}"), with(tint)), (format!("tint in ({tint},green)"), with("green"))]
            {
                let parsed: LabelSelector = selector.parse().unwrap();
                let found: Vec<_> = snapshot.select(&parsed).map(key_of).collect();
                assert_eq!(found, wanted, "{story} {selector}");
                let found: Vec<_> = snapshot.select_in("n1", &parsed).map(key_of).collect();
                let wanted: Vec<_> = wanted.into_iter().filter(|key| key.0 == "n1").collect();
                assert_eq!(found, wanted, "{story} {selector}");
            }
        }
        self.check_many(story);
    }

    fn check_many(&self, story: &str) {
        let snapshot = self.cache.snapshot();
        let failed: Vec<_> = snapshot.unindexed(&self.by_many).unwrap().map(key_of).collect();
        let mut unindexed = Vec::new();
        let mut groups: BTreeMap<(String, u64), Vec<Key>> = BTreeMap::new();
        for (key, state) in &self.model {
            if state.version % 7 == 0 {
                unindexed.push(key.clone());
                continue;
            }
            for value in many(&make(key, state)).unwrap().into_iter().collect::<BTreeSet<_>>() {
                groups.entry(value).or_default().push(key.clone());
            }
        }
        assert_eq!(failed, unindexed, "{story}");
        let values: BTreeSet<_> = snapshot.values(&self.by_many).unwrap().cloned().collect();
        assert_eq!(values, groups.keys().cloned().collect(), "{story}");
        for (value, keys) in groups {
            let found: Vec<_> = snapshot.by(&self.by_many, &value).unwrap().map(key_of).collect();
            assert_eq!(found, keys, "{story}");
        }
    }
}

#[test]
fn whatever_happens_everybody_agrees_with_a_plain_map() {
    for seed in 0..STORIES {
        let mut world = World::new(seed);
        for step in 0..world.random.below(120) + 10 {
            let story = format!("seed {seed}, step {step}:");
            world.step(&story);
            world.check(&story);
        }
        for reader in std::mem::take(&mut world.readers) {
            reader.finish(&world);
        }
    }
}
