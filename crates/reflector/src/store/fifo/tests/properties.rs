//! Any changes, taken at any time: who follows the deltas has what is known.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;

#[derive(Clone, Debug)]
enum Op {
    Put(u8, u8, u8),
    Delete(u8, u8, u8),
    Replace(Vec<(u8, u8, u8)>, bool),
    Resync,
    Pop,
    Batch(usize),
    Finish(prop::sample::Index),
}

fn op() -> impl Strategy<Value = Op> {
    let revision = || (0u8..5, 0u8..3, 1u8..20);
    prop_oneof![
        3 => revision().prop_map(|(n, u, v)| Op::Put(n, u, v)),
        2 => revision().prop_map(|(n, u, v)| Op::Delete(n, u, v)),
        1 => (prop::collection::vec(revision(), 0..6), any::<bool>())
            .prop_map(|(items, whole)| Op::Replace(items, whole)),
        1 => Just(Op::Resync),
        3 => Just(Op::Pop),
        1 => (0usize..4).prop_map(Op::Batch),
        3 => any::<prop::sample::Index>().prop_map(Op::Finish),
    ]
}

fn make((n, u, v): (u8, u8, u8)) -> Object<Json> {
    object(&n.to_string(), &format!("u{n}-{u}"), &v.to_string())
}

/// A consumer, and what the first list obliges it to.
#[derive(Default)]
struct Follower {
    view: BTreeMap<ObjectKey, Object<Json>>,
    /// Each with whether it was taken after the first list came.
    guards: Vec<(Popped<Json>, bool)>,
    /// Keys of the first list that were not taken in that revision when it came.
    due: BTreeSet<ObjectKey>,
    /// Keys that were being processed when it came.
    open: BTreeSet<ObjectKey>,
    listed: bool,
}

impl Follower {
    fn take(&mut self, popped: Popped<Json>, compress: Compress) {
        assert!(self.guards.iter().all(|(other, _)| other.key() != popped.key()), "one guard per key");
        assert!(!popped.is_empty());
        assert!(compress == Compress::Deletes || popped.len() <= 3, "{popped:?}");
        for delta in popped.iter() {
            self.follow(popped.key(), delta);
        }
        self.guards.push((popped, self.listed));
    }

    /// Each delta fits what was there, to the very revision.
    fn follow(&mut self, key: &ObjectKey, delta: &FifoDelta<Json>) {
        let held = self.view.get(key);
        let is = |object: &Object<Json>| held.is_some_and(|held| held.ptr_eq(object));
        let older = |new: &Object<Json>, old: &Object<Json>| {
            new.version().unwrap().is_older_than(old.version().unwrap())
        };
        let fits = match delta {
            FifoDelta::Added(_) => held.is_none(),
            FifoDelta::Updated { old, new } => is(old) && !older(new, old) && new.uid() == old.uid(),
            // A list may say that the server has gone back.
            FifoDelta::Replaced { old: Some(old), new } => is(old) && new.uid() == old.uid(),
            FifoDelta::Replaced { old: None, .. } => held.is_none(),
            FifoDelta::Sync(object) => is(object),
            FifoDelta::Deleted { last, .. } => held.is_some_and(|held| !older(last, held)),
        };
        assert!(fits, "{delta:?} does not fit {held:?}");
        if delta.is_deleted() {
            self.view.remove(key);
        } else {
            self.view.insert(key.clone(), delta.object().clone());
        }
    }

    fn finish(&mut self, index: usize) {
        let (popped, after_list) = self.guards.swap_remove(index);
        let key = popped.key().clone();
        popped.finish();
        self.open.remove(&key);
        if after_list {
            self.due.remove(&key);
        }
    }

    /// The first list has come.
    fn oblige(&mut self, fifo: &DeltaFifo<Json>) {
        self.listed = true;
        let taken = |object: &Object<Json>| self.view.get(object.key()).is_some_and(|o| o.ptr_eq(object));
        let content = fifo.known().list();
        self.due = content.iter().filter(|o| !taken(o)).map(|o| o.key().clone()).collect();
        self.open = self.guards.iter().map(|(popped, _)| popped.key().clone()).collect();
    }
}

fn carry_out(rig: &mut Rig, follower: &mut Follower, compress: Compress, op: Op) {
    match op {
        Op::Put(n, u, v) => rig.writer.apply(vec![Change::Upsert(make((n, u, v)))], None).unwrap(),
        Op::Delete(n, u, v) => rig.writer.apply(vec![Change::Delete(make((n, u, v)))], None).unwrap(),
        Op::Replace(items, whole) => {
            rig.writer.begin_replace(History::Same);
            rig.writer.stage(items.into_iter().map(|i| Change::Upsert(make(i))).collect()).unwrap();
            if !whole {
                return rig.writer.abandon_replace();
            }
            rig.writer.commit_replace(None).unwrap();
            if !follower.listed {
                follower.oblige(&rig.fifo);
            }
        }
        Op::Resync => rig.writer.resync().unwrap(),
        Op::Pop => {
            if let Some(popped) = rig.fifo.try_pop() {
                follower.take(popped, compress);
            }
        }
        Op::Batch(max) => {
            use futures::FutureExt;
            let batch = rig.fifo.pop_batch(max).now_or_never().flatten().unwrap_or_default();
            assert!(batch.len() <= max.max(1));
            assert!(batch.windows(2).all(|pair| pair[0].in_initial_list() == pair[1].in_initial_list()));
            batch.into_iter().for_each(|popped| follower.take(popped, compress));
        }
        Op::Finish(index) if !follower.guards.is_empty() => {
            follower.finish(index.index(follower.guards.len()));
        }
        Op::Finish(_) => {}
    }
}

proptest! {
    #[test]
    fn who_follows_the_deltas_has_what_is_known(
        ops in prop::collection::vec(op(), 0..80),
        all in any::<bool>(),
        unchanged in any::<bool>(),
    ) {
        let compress = if all { Compress::All } else { Compress::Deletes };
        let mut rig = Rig::new(DeltaFifoOptions::default().compress(compress).deliver_unchanged(unchanged));
        let mut follower = Follower::default();
        let mut was_synced = false;
        for op in ops {
            carry_out(&mut rig, &mut follower, compress, op);
            let synced = rig.fifo.has_synced();
            prop_assert!(synced || !was_synced, "for ever");
            let early = !follower.listed || !follower.due.is_empty() || !follower.open.is_empty();
            prop_assert!(!(synced && early), "not early: {:?} {:?}", follower.due, follower.open);
            was_synced = synced;
        }
        while let Some(popped) = rig.fifo.try_pop() {
            follower.take(popped, compress);
            follower.finish(follower.guards.len() - 1);
        }
        // What waited for a guard.
        while !follower.guards.is_empty() {
            follower.finish(0);
            while let Some(popped) = rig.fifo.try_pop() {
                follower.take(popped, compress);
                follower.finish(follower.guards.len() - 1);
            }
        }
        prop_assert!(rig.fifo.is_empty());
        prop_assert_eq!(rig.fifo.has_synced(), follower.listed, "not late");
        let content = rig.fifo.known().list();
        prop_assert_eq!(content.len(), follower.view.len());
        prop_assert!(content.iter().zip(follower.view.values()).all(|(a, b)| a.ptr_eq(b)));
    }
}
