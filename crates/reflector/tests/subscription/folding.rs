//! Whatever happens, and however it is read: what is told folds to what is there.

use std::collections::BTreeMap;

use futures::{FutureExt, StreamExt};
use proptest::prelude::*;
use reflector::{
    Cache, Change, Event, Object, Policy, Store,
    store::{ShortLived, WhenFull},
};

use super::{Json, apply, replace, tinted};

/// One random thing that happens to the writer.
#[derive(Clone, Debug)]
enum Op {
    Upsert(u8, u8, bool),
    Delete(u8),
    Replace(Vec<(u8, u8, bool)>),
    Resync,
    Read(usize),
}

fn op() -> impl Strategy<Value = Op> {
    let one = (0..5_u8, 0..2_u8, any::<bool>());
    prop_oneof![
        6 => one.clone().prop_map(|(name, uid, red)| Op::Upsert(name, uid, red)),
        3 => (0..5_u8).prop_map(Op::Delete),
        1 => prop::collection::vec(one, 0..5).prop_map(Op::Replace),
        1 => Just(Op::Resync),
        4 => (0..6_usize).prop_map(Op::Read),
    ]
}

fn policies() -> [Policy; 5] {
    [
        Policy::default(),
        Policy::Merge(ShortLived::Deliver),
        Policy::Every { bound: 1000, when_full: WhenFull::Merge },
        Policy::Every { bound: 2, when_full: WhenFull::Merge },
        Policy::Block { bound: 3 },
    ]
}

/// Folds what is told, and checks that each event fits to what was told before.
#[derive(Default)]
struct Folded {
    known: BTreeMap<String, Object<Json>>,
    synced: bool,
}

impl Folded {
    fn take(&mut self, event: &Event<Json>) {
        let same = |a: &Object<Json>, b: &Object<Json>| a.uid() == b.uid();
        let newer = |new: &Object<Json>, old: &Object<Json>| {
            old.version().unwrap().is_older_than(new.version().unwrap())
        };
        match event {
            Event::Added { object, initial } => {
                assert_eq!(*initial, !self.synced);
                assert!(self.known.insert(object.name().to_owned(), object.clone()).is_none(), "{event:?}");
            }
            Event::Updated { old, new } => {
                let known = self.known.insert(new.name().to_owned(), new.clone()).unwrap();
                assert!(known.ptr_eq(old) && same(old, new) && newer(new, old), "{event:?}");
            }
            Event::Deleted { last, .. } => {
                let known = self.known.remove(last.name()).unwrap();
                assert!(same(&known, last), "{known:?} {event:?}");
            }
            Event::Resync(object) => assert!(self.known[object.name()].ptr_eq(object), "{event:?}"),
            Event::Synced => assert!(!std::mem::replace(&mut self.synced, true)),
            other => panic!("{other:?}"),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    /// Whatever happens, however it is read: what is told folds to what is there, under the filter.
    #[test]
    fn what_is_told_folds_to_what_is_there(ops in prop::collection::vec(op(), 1..60), joins in prop::collection::vec(0..60_usize, 1..4)) {
        let (cache, mut writer) = Cache::new();
        let mut version = 10;
        let mut make = |name: u8, uid: u8, red: bool| {
            version += 1;
            let uid = if uid == 0 { format!("{name}-0") } else { format!("{name}-{version}") };
            tinted(&format!("o{name}"), &uid, version, if red { "red" } else { "blue" })
        };
        let red = |o: &Object<Json>| o.label("tint") == Some("red");
        let mut readers = Vec::new();
        for (at, op) in ops.into_iter().enumerate() {
            for policy in policies().into_iter().filter(|_| at == 0 || joins.contains(&at)) {
                let all = cache.subscription().policy(policy).resyncs();
                let reds = cache.subscription().policy(policy).resyncs().filter(red);
                readers.push((false, all.subscribe(), Folded::default()));
                readers.push((true, reds.subscribe(), Folded::default()));
            }
            match op {
                Op::Upsert(name, uid, red) if cache.is_synced() => {
                    let held = cache.get(Some("ns"), &format!("o{name}"));
                    let object = make(name, uid, red);
                    // The same object again, or another one.
                    let object = match held.filter(|_| uid == 0) {
                        Some(held) => tinted(object.name(), &held.uid().to_string(), object.version().unwrap().to_string().parse().unwrap(), object.label("tint").unwrap()),
                        None => object,
                    };
                    apply(&mut writer, vec![Change::Upsert(object)]);
                }
                Op::Delete(name) => if let Some(held) = cache.get(Some("ns"), &format!("o{name}")) {
                    let now: u64 = make(name, 1, false).version().unwrap().to_string().parse().unwrap();
                    apply(&mut writer, vec![Change::Delete(tinted(held.name(), &held.uid().to_string(), now, held.label("tint").unwrap()))]);
                },
                Op::Replace(objects) => {
                    let kept = cache.list().into_iter().step_by(2).map(Change::Upsert);
                    let made: Vec<_> = objects.into_iter().map(|(name, uid, red)| Change::Upsert(make(name, uid, red))).collect();
                    replace(&mut writer, kept.chain(made).collect());
                }
                Op::Resync => writer.resync().unwrap(),
                Op::Read(events) => for (_, subscription, folded) in &mut readers {
                    for _ in 0..events {
                        if let Some(Some(event)) = subscription.next().now_or_never() {
                            folded.take(&event);
                        }
                    }
                },
                Op::Upsert(..) => {}
            }
        }
        for (reds, mut subscription, mut folded) in readers {
            while let Some(Some(event)) = subscription.next().now_or_never() {
                folded.take(&event);
            }
            let there: Vec<_> = cache.list().into_iter().filter(|o| !reds || red(o)).collect();
            prop_assert_eq!(folded.known.len(), there.len());
            prop_assert!(there.iter().all(|o| folded.known[o.name()].ptr_eq(o)));
            prop_assert_eq!(folded.synced, cache.is_synced());
            prop_assert_eq!(subscription.lag().waiting, 0);
        }
    }
}
