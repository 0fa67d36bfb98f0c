//! The fences of all keys.

use std::{
    collections::{BTreeMap, VecDeque},
    ops::Bound,
    time::Duration,
};

use tokio::time::Instant;

use super::record::{Answer, Record, View};
use crate::{Object, ObjectKey, ResourceVersion, Uid, store::Snapshot};

/// Fewer records than this are not worth a sweep.
const SWEEP_MIN: usize = 64;

/// Which keys a read concerns.
#[derive(Clone, Copy)]
pub(super) enum Keys<'a> {
    One(&'a ObjectKey),
    Namespace(&'a str),
    All,
}

impl Keys<'_> {
    fn first(self) -> Bound<ObjectKey> {
        match self {
            Keys::One(key) => Bound::Included(key.clone()),
            Keys::Namespace(namespace) => Bound::Included(ObjectKey::new(Some(namespace), "")),
            Keys::All => Bound::Unbounded,
        }
    }

    fn contain(self, key: &ObjectKey) -> bool {
        match self {
            Keys::One(one) => key == one,
            Keys::Namespace(namespace) => key.namespace() == Some(namespace),
            Keys::All => true,
        }
    }
}

pub(super) struct State<K> {
    records: BTreeMap<ObjectKey, Record<K>>,
    /// When each fence was recorded, the oldest first. The fence may be void already.
    recorded: VecDeque<(Instant, ObjectKey)>,
    /// With so many records, the void ones are looked for: no read may have asked for them.
    sweep_at: usize,
    /// For how long a fence stands at the most.
    pub(super) limit: Duration,
}

impl<K> State<K> {
    pub(super) fn new(limit: Duration) -> Self {
        Self { records: BTreeMap::new(), recorded: VecDeque::new(), sweep_at: SWEEP_MIN, limit }
    }

    pub(super) fn write(&mut self, object: Object<K>, snapshot: &Snapshot<K>) {
        let key = object.key().clone();
        let at = self.begin(snapshot);
        let view = View::of_key(snapshot, &key);
        let record = self.records.entry(key.clone()).or_insert_with(Record::new);
        record.write(object, &view, at);
        self.end(key, at);
    }

    pub(super) fn delete(
        &mut self,
        key: &ObjectKey,
        uid: &Uid,
        version: Option<&ResourceVersion>,
        snapshot: &Snapshot<K>,
    ) {
        let at = self.begin(snapshot);
        let view = View::of_key(snapshot, key);
        let record = self.records.entry(key.clone()).or_insert_with(Record::new);
        record.delete(uid, version, &view, at);
        self.end(key.clone(), at);
    }

    fn begin(&mut self, snapshot: &Snapshot<K>) -> Instant {
        if self.records.len() >= self.sweep_at {
            self.answers(Keys::All, snapshot);
            // Twice what is live, so that a sweep costs each record little.
            self.sweep_at = (2 * self.records.len()).max(SWEEP_MIN);
        }
        self.expire(snapshot);
        Instant::now()
    }

    fn end(&mut self, key: ObjectKey, at: Instant) {
        if self.records.get(&key).is_some_and(Record::is_empty) {
            self.records.remove(&key);
        } else {
            self.recorded.push_back((at, key));
        }
        // Most fences fall long before their limit; their entries are not to wait for it.
        if self.recorded.len() > 2 * self.records.len() + SWEEP_MIN {
            let records = &self.records;
            self.recorded.retain(|(at, key)| records.get(key).is_some_and(|record| record.is_of(*at)));
        }
    }

    /// Drops the fences that the server has not honoured for too long.
    pub(super) fn expire(&mut self, snapshot: &Snapshot<K>) {
        let limit = self.limit;
        let Some(before) = Instant::now().checked_sub(limit) else { return };
        while self.recorded.front().is_some_and(|(at, _)| *at <= before)
            && let Some((_, key)) = self.recorded.pop_front()
        {
            let Some(record) = self.records.get_mut(&key) else { continue };
            let view = View::of_key(snapshot, &key);
            record.settle(&view);
            let missed = record.expire(before, &view);
            if missed > 0 {
                metrics::counter!("reflector_fences_expired_total", "type" => std::any::type_name::<K>())
                    .increment(missed as u64);
                tracing::warn!(%key, ?limit, "a write has not come back by the watch, and is not shown any more");
            }
            if record.is_empty() {
                self.records.remove(&key);
            }
        }
    }

    /// Settles the records of some keys, and gives, in the order of the keys, those which change what is shown.
    pub(super) fn answers(&mut self, keys: Keys<'_>, snapshot: &Snapshot<K>) -> Vec<(ObjectKey, Answer<K>)> {
        let (mut answers, mut void) = (Vec::new(), Vec::new());
        let range = self.records.range_mut((keys.first(), Bound::Unbounded));
        for (key, record) in range.take_while(|(key, _)| keys.contain(key)) {
            let view = View::of_key(snapshot, key);
            record.settle(&view);
            if record.is_empty() {
                void.push(key.clone());
                continue;
            }
            match record.answer(&view) {
                Answer::Cached => {}
                answer => answers.push((key.clone(), answer)),
            }
        }
        void.iter().for_each(|key| drop(self.records.remove(key)));
        answers
    }

    /// A copy of the records of some keys.
    pub(super) fn fences(&self, keys: Keys<'_>) -> Vec<(ObjectKey, Record<K>)> {
        let range = self.records.range((keys.first(), Bound::Unbounded));
        let concerned = range.take_while(|(key, _)| keys.contain(key));
        concerned.map(|(key, record)| (key.clone(), record.clone())).collect()
    }

    pub(super) fn len(&self) -> usize {
        self.records.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Cache, Change, Store};

    /// Symptom: with a long limit, each write of one object left an entry although its fence had fallen long ago.
    #[test]
    fn entries_of_fences_that_have_fallen_do_not_wait_for_the_limit() {
        let (cache, mut writer) = Cache::<serde_json::Value>::new();
        let mut state = State::new(Duration::MAX);
        for version in 1..1000 {
            let json = format!(r#"{{"metadata":{{"name":"a","uid":"u","resourceVersion":"{version}"}}}}"#);
            let object = Object::from_json(json).unwrap();
            state.write(object.clone(), &cache.snapshot());
            writer.apply(vec![Change::Upsert(object)], None).unwrap();
            state.answers(Keys::All, &cache.snapshot());
            assert!(state.recorded.len() <= SWEEP_MIN + 2, "{} entries", state.recorded.len());
        }
        // What stands is not forgotten.
        state.write(
            Object::from_json(r#"{"metadata":{"name":"b","resourceVersion":"7"}}"#).unwrap(),
            &cache.snapshot(),
        );
        assert!(state.recorded.iter().any(|(_, key)| key.name() == "b"));
    }
}
