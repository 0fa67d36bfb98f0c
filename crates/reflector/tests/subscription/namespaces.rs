//! Caches that are filled by namespace: defects that were found by reading, each as the shortest story that showed it.

use reflector::store::NamespaceWriters;

use super::*;

/// The writers of the namespaces `ns` and `zz`, and the maker of more.
fn two() -> (Cache<Json>, NamespaceWriters<Json>, CacheWriter<Json>, CacheWriter<Json>) {
    let (cache, writers) = Cache::by_namespace();
    let (ns, zz) = (writers.writer("ns"), writers.writer("zz"));
    (cache, writers, ns, zz)
}

/// An object of the other namespace.
fn other(name: &str, version: u64) -> Change<Json> {
    let json = format!(
        r#"{{"metadata":{{"namespace":"zz","name":"{name}","uid":"{name}","resourceVersion":"{version}"}}}}"#
    );
    Change::Upsert(Object::from_json(json).unwrap())
}

fn five() -> Vec<Change<Json>> {
    (1..6).map(|i| add(&format!("o{i}"), i)).collect()
}

fn may_go_on(writer: &mut CacheWriter<Json>) -> bool {
    poll_fn(|cx| writer.poll_ready(cx)).now_or_never().is_some()
}

/// Symptom: subscribers ended as too slow, or stopped all reading, although nobody could have read faster. Cause: the
/// first list of a namespace was queued object by object.
#[test]
fn the_first_list_of_a_namespace_is_no_lag() {
    let (cache, _writers, mut ns, mut zz) = two();
    let ending = Policy::Every { bound: 2, when_full: WhenFull::End };
    let mut ending = cache.subscription().policy(ending).subscribe();
    let mut blocking = cache.subscription().policy(Policy::Block { bound: 2 }).subscribe();
    replace(&mut ns, five());
    assert_eq!(ending.ended(), None);
    assert!(may_go_on(&mut ns) && may_go_on(&mut zz), "a subscriber may wait for the sync before it reads");
    replace(&mut zz, vec![]);
    for all in [&mut ending, &mut blocking] {
        assert_eq!(told(all), "=o1@1 =o2@2 =o3@3 =o4@4 =o5@5 synced");
    }
}

/// Symptom: a resync of one namespace told all. Cause: it did not say of which it was.
#[test]
fn a_resync_of_a_namespace_tells_that_namespace() {
    let (cache, _writers, mut ns, mut zz) = two();
    replace(&mut ns, vec![add("a", 1)]);
    replace(&mut zz, vec![other("z", 1)]);
    let mut all = cache.subscription().resyncs().subscribe();
    let mut half = cache.subscription().resyncs().namespace("ns").subscribe();
    told(&mut all);
    told(&mut half);
    ns.resync().unwrap();
    assert_eq!((told(&mut all), told(&mut half)), ("~a@1".to_owned(), "~a@1".to_owned()));
    zz.resync().unwrap();
    assert_eq!((told(&mut all), told(&mut half)), ("~z@1".to_owned(), String::new()));
    // Both at once are both told.
    ns.resync().unwrap();
    zz.resync().unwrap();
    assert_eq!(told(&mut all), "~a@1 ~z@1");
}

/// Symptom: an object that no list of its namespace could take away. Cause: only one of the two ways to apply looked.
#[test]
fn a_stray_is_refused_whichever_way_it_comes() {
    let (cache, _writers, _ns, mut zz) = two();
    assert!(zz.apply_with(vec![add("stray", 9)], None, &mut |_| panic!("nothing to tell")).is_err());
    assert!(zz.apply(vec![delete("stray", 9)], None).is_err());
    assert!(zz.stage(vec![add("stray", 9)]).is_err());
    replace(&mut zz, vec![]);
    assert!(cache.is_empty());
}

/// Symptom: no bookmarks for a subscriber of one namespace while another namespace had no version. Cause: it was told the
/// lowest version of all.
#[test]
fn a_subscriber_of_one_namespace_gets_its_bookmarks() {
    let (cache, _writers, mut ns, mut zz) = two();
    replace(&mut ns, vec![]);
    let mut half = cache.subscription().namespace("ns").bookmarks().subscribe();
    let mut all = cache.subscription().bookmarks().subscribe();
    let version = |text| ResourceVersion::new(text).unwrap();
    ns.bookmark(&version("9"));
    assert_eq!((told(&mut half), told(&mut all)), ("bookmark@9".to_owned(), String::new()));
    replace(&mut zz, vec![]);
    zz.bookmark(&version("5"));
    assert_eq!(told(&mut all), "synced bookmark@5", "of all it is the lowest");
    zz.bookmark(&version("12"));
    assert_eq!(told(&mut all), "bookmark@9", "whichever namespace has it");
}

/// Symptom: `is_synced` of the cache became false again, and that of a subscription did not. Cause: it was asked anew
/// of all namespaces that there are.
#[test]
fn a_namespace_that_joins_later_does_not_undo_the_sync() {
    let (cache, writers, mut ns, mut zz) = two();
    replace(&mut ns, vec![]);
    let half = cache.snapshot();
    assert!(half.is_empty() && half.is_synced_in("ns") && !half.is_synced());
    replace(&mut zz, vec![]);
    let mut all = cache.subscribe();
    assert_eq!(told(&mut all), "synced");
    let mut late = writers.writer("late");
    assert!(cache.is_synced() && all.is_synced() && cache.snapshot().is_synced());
    assert!(!cache.snapshot().is_synced_in("late"));
    replace(&mut late, vec![]);
    assert_eq!(told(&mut all), "", "and it is not told twice");
}

/// Symptom: the sync was never told. Cause: a bookmark of a writer whose namespace had been removed brought the
/// namespace back, and nobody would ever list it.
#[test]
fn what_was_removed_does_not_come_back_by_a_bookmark() {
    let (cache, writers, mut ns, mut zz) = two();
    replace(&mut ns, vec![add("a", 1)]);
    let mut all = cache.subscribe();
    assert_eq!(told(&mut all), "=a@1");
    writers.remove("ns");
    ns.bookmark(&ResourceVersion::new("4").unwrap());
    replace(&mut zz, vec![]);
    assert_eq!(told(&mut all), "-a@1? synced");
}

/// Symptom: the sync was not told when the last namespace that was waited for was taken out.
#[test]
fn a_namespace_that_is_removed_before_its_first_list_is_not_waited_for() {
    let (cache, writers, mut ns, zz) = two();
    let mut all = cache.subscribe();
    replace(&mut ns, vec![add("a", 1)]);
    drop(zz);
    assert_eq!(told(&mut all), "=a@1");
    writers.remove("zz");
    assert_eq!(told(&mut all), "synced");
}

/// Symptom: objects of a namespace that nobody reflects any more. Cause: a writer went on writing after its namespace
/// was removed, or given to another writer.
#[test]
fn a_writer_whose_part_is_not_its_own_any_more_changes_nothing() {
    let (cache, writers, mut removed, _zz) = two();
    replace(&mut removed, vec![add("a", 1)]);
    writers.remove("ns");
    let all_fail = |writer: &mut CacheWriter<Json>| {
        let applied = writer.apply(vec![add("b", 2)], None).is_err();
        writer.begin_replace(History::Same);
        writer.stage(vec![add("c", 3)]).unwrap();
        applied && writer.commit_replace(None).is_err()
    };
    assert!(all_fail(&mut removed) && cache.is_empty());
    let mut first = writers.writer("ns");
    replace(&mut first, vec![add("d", 4)]);
    let mut second = writers.writer("ns");
    assert!(all_fail(&mut first));
    assert_eq!(cache.keys().len(), 1, "what was there is there until the new writer has listed");
    replace(&mut second, vec![add("e", 5)]);
    assert_eq!(cache.keys()[0].name(), "e");
}

/// Symptom: a namespace was not read, since a subscriber of another one was slow. Cause: a writer waited for everybody.
#[test]
fn a_writer_waits_for_those_who_hear_of_its_changes() {
    let (cache, _writers, mut ns, mut zz) = two();
    let mut slow = cache.subscription().policy(Policy::Block { bound: 2 }).namespace("ns").subscribe();
    apply(&mut ns, vec![add("a", 1), add("b", 2)]);
    assert!(!may_go_on(&mut ns) && may_go_on(&mut zz));
    told(&mut slow);
    assert!(may_go_on(&mut ns));
}

/// Symptom: a namespace that came back was told before its end, so that in the end a follower had nothing. Cause: first
/// lists are told before what is in line.
#[test]
fn a_namespace_that_comes_back_is_told_after_its_end() {
    let (cache, writers, mut ns, mut zz) = two();
    replace(&mut ns, vec![add("a", 1)]);
    replace(&mut zz, vec![]);
    let mut all = cache.subscribe();
    told(&mut all);
    let mut late = cache.subscribe();
    writers.remove("ns");
    let mut ns = writers.writer("ns");
    replace(&mut ns, vec![add("a", 5), add("b", 6)]);
    assert_eq!(told(&mut all), "-a@1? +a@5 +b@6");
    assert_eq!(told(&mut late), "=a@1 synced -a@1? +a@5 +b@6");
}

/// Of a namespace that comes and goes, who has heard nothing hears nothing: such namespaces would pile up. Who has begun to
/// hear of it hears all, and its end. Other namespaces are not touched.
#[test]
fn a_namespace_that_is_removed_is_told_of_to_those_who_have_heard_of_it() {
    let (cache, writers, mut ns, mut zz) = two();
    let (mut unheard, mut heard) = (cache.subscribe(), cache.subscribe());
    replace(&mut ns, five());
    replace(&mut zz, vec![other("z", 7)]);
    assert_eq!(heard.next().now_or_never().flatten().as_ref().map(line).as_deref(), Some("=o1@1"));
    apply(&mut ns, vec![add("o1", 20)]);
    apply(&mut zz, vec![other("z", 21)]);
    writers.remove("ns");
    assert_eq!(told(&mut unheard), "=z@7 synced z@7>z@21");
    let all = "=o2@2 =o3@3 =o4@4 =o5@5 =z@7 synced -o1@20? z@7>z@21 -o2@2? -o3@3? -o4@4? -o5@5?";
    assert_eq!(told(&mut heard), all);
}

/// What a resync is still to tell of a namespace that is taken out meanwhile is not there any more; the rest is.
#[test]
fn a_resync_tells_nothing_of_a_namespace_that_is_gone() {
    let (cache, writers, mut ns, mut zz) = two();
    replace(&mut ns, five());
    replace(&mut zz, vec![other("z", 7)]);
    let mut all = cache.subscribe();
    told(&mut all);
    all.resync();
    assert_eq!(all.next().now_or_never().flatten().as_ref().map(line).as_deref(), Some("~o1@1"));
    writers.remove("ns");
    assert_eq!(told(&mut all), "-o1@1? -o2@2? -o3@3? -o4@4? -o5@5? ~z@7");
}

/// Counting objects takes no walk, so the count is kept: it must stay right.
#[test]
fn a_writer_knows_how_many_objects_it_has() {
    let (_cache, writers, mut ns, zz) = two();
    replace(&mut ns, five());
    assert_eq!((ns.object_count(), zz.object_count()), (Some(5), Some(0)));
    // An update, a deletion, the deletion of what is not there, and another object under the same name.
    let reborn = Change::Upsert(object("o2", "another", 11));
    apply(&mut ns, vec![add("o1", 9), delete("o5", 9), delete("none", 9), reborn]);
    assert_eq!(ns.object_count(), Some(4));
    assert_eq!(writers.writer("ns").object_count(), Some(4), "who takes it over has them too");
}
