#![allow(clippy::unwrap_used, unused)]
use futures::{FutureExt, StreamExt};
use reflector::{
    Cache, Change, Event, Index, IndexBy, LabelSelector, Object, Policy, ResourceVersion, Store,
    Subscription,
    protocol::History,
    store::{CacheWriter, NamespaceWriters, ShortLived, WhenFull},
};
use std::collections::BTreeMap;
type Json = serde_json::Value;
struct Rng(u64);
impl Rng {
    fn next(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % n
    }
}
type Held = BTreeMap<(String, String), (u64, String, String)>; // key -> version, uid, tint
fn obj(ns: &str, name: &str, v: u64, uid: &str, tint: &str) -> Object<Json> {
    Object::from_json(format!(r#"{{"metadata":{{"namespace":"{ns}","name":"{name}","uid":"{uid}","resourceVersion":"{v}","labels":{{"tint":"{tint}"}}}}}}"#)).unwrap()
}
fn rv(v: u64) -> ResourceVersion {
    ResourceVersion::new(&v.to_string()).unwrap()
}
fn num(o: &Object<Json>) -> u64 {
    o.version().unwrap().to_string().parse().unwrap()
}
struct Sub {
    s: Subscription<Json>,
    ns: Option<String>,
    tint: Option<String>,
    known: Held,
    synced: u32,
    name: String,
    changed: bool,
}
impl Sub {
    fn sees(&self, k: &(String, String), tint: &str) -> bool {
        self.ns.as_ref().is_none_or(|n| *n == k.0) && self.tint.as_ref().is_none_or(|t| t == tint)
    }
    fn read(&mut self, n: u64, history: &BTreeMap<u64, Held>) {
        for _ in 0..n {
            let Some(Some(e)) = self.s.next().now_or_never() else { return };
            let ent = |o: &Object<Json>| {
                (
                    (o.namespace().unwrap().to_owned(), o.name().to_owned()),
                    (num(o), o.uid().to_owned(), o.label("tint").unwrap().to_owned()),
                )
            };
            let name = self.name.clone();
            match &e {
                Event::Added { object, initial } => {
                    let (k, v) = ent(object);
                    assert!(self.sees(&k, &v.2));
                    assert_eq!(*initial, self.synced == 0, "{name} initial {e:?}");
                    let old = self.known.insert(k, v);
                    assert!(old.is_none(), "{name}: {e:?} over {old:?}");
                }
                Event::Updated { old, new } => {
                    let (k, v) = ent(new);
                    assert!(self.sees(&k, &v.2));
                    let (_, ov) = ent(old);
                    let was = self.known.insert(k, v.clone());
                    assert_eq!(was.as_ref(), Some(&ov), "{name} {e:?}");
                    assert_eq!(ov.1, v.1, "{name} uid");
                    assert!(ov.0 < v.0);
                }
                Event::Deleted { last, final_state_unknown } => {
                    let (k, v) = ent(last);
                    let was = self.known.remove(&k);
                    let was = was.unwrap_or_else(|| panic!("{name}: {e:?} of unknown"));
                    assert_eq!(was.1, v.1, "{name} uid of the deleted");
                    assert!(v.0 >= was.0);
                }
                Event::Synced => {
                    self.synced += 1;
                    assert_eq!(self.synced, 1);
                }
                Event::Resync(o) => {
                    let (k, v) = ent(o);
                    assert!(self.synced == 1);
                    assert_eq!(self.known.get(&k), Some(&v), "{name} {e:?}");
                }
                Event::Bookmark(v) => {
                    let v: u64 = v.to_string().parse().unwrap();
                    // the model at v, or the latest before it
                    let (_, model) = history.range(..=v).next_back().unwrap();
                    for (k, m) in model {
                        if !self.sees(k, &m.2) {
                            continue;
                        }
                        match self.known.get(k) {
                            Some(h) => assert!(h.0 >= m.0, "{name} bookmark {v}: {k:?} {h:?} < {m:?}"),
                            None => {
                                let (_, latest) = history.iter().next_back().unwrap();
                                assert!(
                                    history.range(v + 1..).any(|(_, h)| h.get(k).is_none_or(|l| l.0 > m.0)),
                                    "{name} bookmark {v}: {k:?} unknown"
                                );
                            }
                        }
                    }
                    for (k, h) in &self.known {
                        if h.0 <= v {
                            assert!(
                                model.get(k).is_some_and(|m| m.0 >= h.0)
                                    || history.range(..=v).next_back().unwrap().1.get(k) == Some(h),
                                "{name} bookmark {v}: {k:?} {h:?} is gone by then"
                            );
                        }
                    }
                }
                _ => unreachable!(),
            }
        }
    }
}
fn check_indexes(
    cache: &Cache<Json>,
    model: &Held,
    by: &[Index<Json, String>],
    multi: &Index<Json, (String, u64)>,
) {
    let snap = cache.snapshot();
    assert_eq!(snap.len(), model.len());
    for tint in ["r", "g", ""] {
        for i in by {
            let got: Vec<_> = snap
                .by(i, tint)
                .unwrap()
                .map(|o| (o.namespace().unwrap().to_owned(), o.name().to_owned()))
                .collect();
            let want: Vec<_> = model.iter().filter(|(_, v)| v.2 == tint).map(|(k, _)| k.clone()).collect();
            assert_eq!(got, want);
            assert_eq!(snap.count_by(i, tint).unwrap(), want.len());
        }
        for text in [format!("tint={tint}"), format!("tint in ({tint},g)")] {
            let sel: LabelSelector = text.parse().unwrap();
            let got: Vec<_> =
                snap.select(&sel).map(|o| (o.namespace().unwrap().to_owned(), o.name().to_owned())).collect();
            let want: Vec<_> = model
                .iter()
                .filter(|(_, v)| v.2 == tint || (text.contains("in") && text.contains(" in ") && v.2 == "g"))
                .map(|(k, _)| k.clone())
                .collect();
            assert_eq!(got, want, "{text}");
            let got: Vec<_> = snap.select_in("n1", &sel).map(|o| o.name().to_owned()).collect();
            assert_eq!(got, want.iter().filter(|k| k.0 == "n1").map(|k| k.1.clone()).collect::<Vec<_>>());
        }
    }
    let fails: Vec<_> = snap.unindexed(multi).unwrap().map(num).collect();
    let mut want: Vec<_> = model.values().map(|v| v.0).filter(|v| v % 7 == 0).collect();
    assert_eq!(fails, want);
    let mut groups: BTreeMap<(String, u64), usize> = BTreeMap::new();
    for v in model.values() {
        if v.0 % 7 != 0 {
            for x in [(v.2.clone(), v.0 % 3), (v.1.clone(), 0), (v.2.clone(), v.0 % 3)]
                .into_iter()
                .collect::<std::collections::BTreeSet<_>>()
            {
                *groups.entry(x).or_default() += 1;
            }
        }
    }
    let mut got: Vec<_> = snap.values(multi).unwrap().cloned().collect();
    got.sort();
    assert_eq!(got, groups.keys().cloned().collect::<Vec<_>>());
    for (g, n) in groups {
        assert_eq!(snap.count_by(multi, &g).unwrap(), n);
    }
}
fn run(seed: u64) {
    let mut r = Rng(seed.wrapping_mul(0x9E3779B97F4A7C15) | 1);
    let by_ns = r.next(2) == 0;
    let nss = if by_ns { vec!["n1", "n2", "n3"] } else { vec!["n1", "n2"] };
    let (cache, maker, mut writers): (
        Cache<Json>,
        Option<NamespaceWriters<Json>>,
        Vec<Option<CacheWriter<Json>>>,
    ) = if by_ns {
        let (c, m) = Cache::by_namespace();
        let w = nss.iter().map(|n| Some(m.writer(n))).collect();
        (c, Some(m), w)
    } else {
        let (c, w) = Cache::new();
        (c, None, vec![Some(w)])
    };
    let multi = cache.index_by(IndexBy::handle(|o: &Object<Json>| {
        let v = num(o);
        if v % 7 == 0 {
            if v % 2 == 0 {
                panic!("x")
            }
            return Err("seven".into());
        }
        Ok(vec![
            (o.label("tint").unwrap().to_owned(), v % 3),
            (o.uid().to_owned(), 0),
            (o.label("tint").unwrap().to_owned(), v % 3),
        ])
    }));
    let mut by = vec![cache.index_by(IndexBy::label("tint"))];
    let mut synced_scope = vec![false; writers.len()];
    let mut model = Held::new();
    let mut history: BTreeMap<u64, Held> = BTreeMap::from([(0, Held::new())]);
    let mut v = 1;
    let mut uids = 0u64;
    let mut subs: Vec<Sub> = Vec::new();
    for step in 0..r.next(120) + 10 {
        match r.next(12) {
            0 if subs.len() < 8 => {
                let policy = match r.next(6) {
                    0 => Policy::Merge(ShortLived::Cancel),
                    1 => Policy::Merge(ShortLived::Deliver),
                    2 => Policy::Every { bound: 3, when_full: WhenFull::Merge },
                    3 => Policy::Every { bound: 1, when_full: WhenFull::Merge },
                    4 => Policy::Every { bound: 10000, when_full: WhenFull::End },
                    _ => Policy::Block { bound: 2 },
                };
                let ns = (r.next(3) == 0).then(|| nss[r.next(nss.len() as u64) as usize].to_owned());
                let tint = (r.next(3) == 0).then(|| "r".to_owned());
                let mut b = cache.subscription().policy(policy).bookmarks().resyncs();
                if let Some(n) = &ns {
                    b = b.namespace(n);
                }
                if let Some(t) = &tint {
                    b = b.labels(format!("tint={t}").parse().unwrap());
                }
                subs.push(Sub {
                    s: b.subscribe(),
                    name: format!("seed {seed} step {step} {policy:?} ns {ns:?} tint {tint:?}"),
                    ns,
                    tint,
                    known: Held::new(),
                    synced: 0,
                    changed: false,
                });
            }
            1 if !subs.is_empty() => {
                let i = r.next(subs.len() as u64) as usize;
                if r.next(4) == 0 {
                    subs.swap_remove(i);
                } else {
                    let n = r.next(3) + 1;
                    subs[i].read(n, &history);
                }
            }
            2 | 3 => {
                for s in &mut subs {
                    if r.next(2) == 0 {
                        let n = r.next(6);
                        s.read(n, &history);
                    }
                }
            }
            4 => {
                let i = r.next(writers.len() as u64) as usize;
                if let Some(w) = &mut writers[i] {
                    if synced_scope[i] {
                        if by_ns {
                            v += 1;
                            history.insert(v, model.clone());
                        }
                        // per-namespace: bookmark is of the lowest
                        else {
                            v += 1;
                            history.insert(v, model.clone());
                        }
                        w.bookmark(&rv(v));
                    }
                }
            }
            5 => {
                let i = r.next(writers.len() as u64) as usize;
                if let Some(w) = &mut writers[i] {
                    w.resync().unwrap();
                }
            }
            6 => {
                if !subs.is_empty() {
                    let i = r.next(subs.len() as u64) as usize;
                    subs[i].s.resync();
                }
            }
            7 => {
                // replace
                let i = r.next(writers.len() as u64) as usize;
                if let Some(w) = &mut writers[i] {
                    let mine: Vec<&str> = if by_ns { vec![nss[i]] } else { nss.clone() };
                    let mut next: Held = model
                        .iter()
                        .filter(|(k, _)| !mine.contains(&k.0.as_str()))
                        .map(|(k, v)| (k.clone(), v.clone()))
                        .collect();
                    let mut list = Vec::new();
                    for n in &mine {
                        for o in 0..5 {
                            if r.next(3) == 0 {
                                continue;
                            }
                            let k = ((*n).to_owned(), format!("o{o}"));
                            let same = model.get(&k).cloned().filter(|_| r.next(2) == 0);
                            let e = same.unwrap_or_else(|| {
                                v += 1;
                                let uid = match model.get(&k) {
                                    Some(m) if r.next(2) == 0 => m.1.clone(),
                                    _ => {
                                        uids += 1;
                                        format!("u{uids}")
                                    }
                                };
                                (v, uid, ["r", "g", ""][r.next(3) as usize].to_owned())
                            });
                            list.push(Change::Upsert(obj(&k.0, &k.1, e.0, &e.1, &e.2)));
                            next.insert(k, e);
                        }
                    }
                    w.begin_replace(if r.next(3) == 0 { History::Unknown } else { History::Same });
                    let extra = list.first().cloned();
                    w.stage(list).unwrap();
                    if let Some(e) = extra {
                        w.stage(vec![e]).unwrap();
                    }
                    v += 1;
                    model = next;
                    history.insert(v, model.clone());
                    w.commit_replace(Some(&rv(v))).unwrap();
                    synced_scope[i] = true;
                }
            }
            8 if by_ns && r.next(4) == 0 => {
                let i = r.next(3) as usize;
                if writers[i].take().is_some() {
                    maker.as_ref().unwrap().remove(nss[i]);
                    v += 1;
                    model.retain(|k, _| k.0 != nss[i]);
                    history.insert(v, model.clone());
                    synced_scope[i] = false;
                } else {
                    writers[i] = Some(maker.as_ref().unwrap().writer(nss[i]));
                }
            }
            9 => {
                if by.len() < 3 {
                    by.push(cache.index_by(IndexBy::label("tint")));
                } else {
                    cache.remove_index(&by.remove(r.next(3) as usize));
                }
            }
            _ => {
                let i = r.next(writers.len() as u64) as usize;
                if !synced_scope[i] {
                    continue;
                }
                if let Some(w) = &mut writers[i] {
                    let mut changes = Vec::new();
                    for _ in 0..r.next(4) + 1 {
                        let n = if by_ns { nss[i] } else { nss[r.next(2) as usize] };
                        let k = (n.to_owned(), format!("o{}", r.next(5)));
                        v += 1;
                        match model.get(&k).cloned() {
                            Some(m) if r.next(3) == 0 => {
                                changes.push(Change::Delete(obj(&k.0, &k.1, v, &m.1, &m.2)));
                                model.remove(&k);
                            }
                            m => {
                                let uid = match m {
                                    Some(m) if r.next(4) != 0 => m.1,
                                    _ => {
                                        uids += 1;
                                        format!("u{uids}")
                                    }
                                };
                                let t = ["r", "g", ""][r.next(3) as usize];
                                changes.push(Change::Upsert(obj(&k.0, &k.1, v, &uid, t)));
                                model.insert(k, (v, uid, t.to_owned()));
                            }
                        }
                        history.insert(v, model.clone());
                    }
                    w.apply(changes, Some(&rv(v))).unwrap();
                }
            }
        }
        check_indexes(&cache, &model, &by, &multi);
    }
    let synced = cache.is_synced();
    for s in &mut subs {
        s.read(100000, &history);
        if s.s.ended().is_none() {
            let want: Held =
                model.iter().filter(|(k, v)| s.sees(k, &v.2)).map(|(k, v)| (k.clone(), v.clone())).collect();
            assert_eq!(s.known, want, "{}", s.name);
        }
        if synced {
            assert_eq!(s.synced, 1, "{}", s.name);
        }
    }
}
#[test]
fn fuzz() {
    std::panic::set_hook(Box::new(|i| {
        let t = i.to_string();
        if !t.ends_with("x") {
            eprintln!("{t}");
        }
    }));
    let from: u64 = std::env::var("SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(0);
    let mut bad = 0;
    for s in from..from + 4000 {
        if std::panic::catch_unwind(|| run(s)).is_err() {
            bad += 1;
            eprintln!("seed {s}");
            if bad > 4 {
                panic!()
            }
        }
    }
    assert_eq!(bad, 0);
}
