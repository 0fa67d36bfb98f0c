//! What is popped after which steps.

use super::*;

fn check(options: &DeltaFifoOptions, cases: &[(&str, &str, &str)]) {
    for (what, script, expected) in cases {
        let mut rig = Rig::new(options.clone());
        assert_eq!(rig.run(script).rest(), *expected, "{what}: {script}");
        assert_eq!(rig.fifo.len(), 0);
    }
}

#[test]
fn df1_changes_are_collected_by_key_and_keys_come_in_the_order_of_their_arrival() {
    check(
        &DeltaFifoOptions::default(),
        &[
            // client-go: DeltaFIFO_basic
            (
                "two producers, each in order",
                "put a:1; put x:2; put b:3; put y:4; put c:5; put z:6",
                "+a@1 | +x@2 | +b@3 | +y@4 | +c@5 | +z@6",
            ),
            // client-go: DeltaFIFO_addUpdate
            ("an update of what waits", "put a:1; put a:2", "+a@1 a@1>2"),
            // client-go: DeltaFIFO_addReplace
            ("a list with what waits", "put a:1; list a:2", "+a@1 a@1=2"),
            // client-go: DeltaFIFO_detectLineJumpers
            (
                "a key keeps its place, and gets a new one when it was taken",
                "put a:1; put b:2; put a:3; put c:4; pop; put a:5; put b:6",
                "+a@1 a@1>3 | +b@2 b@2>6 | +c@4 | a@3>5",
            ),
        ],
    );
}

#[test]
fn df2_deletions_are_told_once_and_only_of_what_was_there() {
    check(
        &DeltaFifoOptions::default(),
        &[
            // client-go: DeltaFIFO_enqueueingNoLister
            ("of an unknown key", "put a:1; del b:2", "+a@1"),
            // client-go: DeltaFIFO_enqueueingWithLister
            ("of a known key", "put a:1; pop; del a:2", "+a@1 | -a@2"),
            // client-go: DeltaFIFO_DeleteExistingNonPropagated
            ("of what waits", "put a:1; del a:2", "+a@1 -a@2"),
            ("twice", "put a:1; del a:2; del a:2; del a:3", "+a@1 -a@2"),
            ("twice, and taken in between", "put a:1; pop; del a:2; pop; del a:3", "+a@1 | -a@2"),
            ("a tombstone and what it did not know", "put a:1; pop; list; del a:3", "+a@1 | -a@3"),
            ("a tombstone and an older deletion", "put a:5; pop; list; del a:3", "+a@5 | -a@5?"),
            ("a tombstone and that of another object", "put a:5; pop; list; del a/two:9", "+a@5 | -a@5?"),
            ("a tombstone that was taken", "put a:5; pop; list; pop; del a:9", "+a@5 | -a@5?"),
            (
                "a tombstone, and the object is back",
                "put a:1; pop; list; put a:7; del a:8",
                "+a@1 | -a@1? +a@7 -a@8",
            ),
        ],
    );
}

/// The same, in one batch: what the batch tells of the key comes after the tombstone.
#[test]
fn df2_a_deletion_after_a_return_does_not_complete_the_tombstone_before_it() {
    let mut rig = Rig::new(DeltaFifoOptions::default());
    rig.run("put a:1; pop; list");
    rig.writer.apply(vec![Change::Upsert(parse("a:7")), Change::Delete(parse("a:8"))], None).unwrap();
    assert_eq!(rig.rest(), "+a@1 | -a@1? +a@7 -a@8");
}

#[test]
fn df3_a_replacement_tells_what_is_gone_first_and_then_what_is_there() {
    check(
        &DeltaFifoOptions::default(),
        &[
            // client-go: DeltaFIFO_replaceWithDeleteDeltaIn (issue 83810)
            ("a deletion that waits, and a list", "list a:1; pop; del a:2; list a:3", "=a@1 | -a@2 =a@3"),
            // client-go: DeltaFIFO_ReplaceMakesDeletionsForObjectsOnlyInQueue
            ("added", "put a:1; list", "+a@1 -a@1?"),
            ("replaced", "list a:1; list", "=a@1 -a@1?"),
            ("deleted", "put a:1; pop; del a:2; list", "+a@1 | -a@2"),
            ("replaced twice", "list a:1; list a:2; list", "=a@1 a@1=2 -a@2?"),
            ("two empty lists", "put a:1; list; list", "+a@1 -a@1?"),
            ("added, deleted, added", "put a:1; del a:2; put a:3; list", "+a@1 -a@2 +a@3 -a@3?"),
            // client-go: DeltaFIFO_ReplaceMakesDeletions
            (
                "a deletion waits",
                "list a:1 b:2 c:3; pop; pop; pop; del c:4; list a:1",
                "=a@1 | =b@2 | =c@3 | -c@4 | -b@2?",
            ),
            (
                "an addition waits",
                "list a:1 b:2; pop; pop; put c:3; list a:1",
                "=a@1 | =b@2 | +c@3 -c@3? | -b@2?",
            ),
            (
                "a deletion and an addition wait",
                "list a:1 b:2; pop; pop; del b:3; put b:4; list a:1",
                "=a@1 | =b@2 | -b@3 +b@4 -b@4?",
            ),
            ("a list waits", "list a:1 b:2; list a:1", "=a@1 | =b@2 -b@2?"),
            ("nothing is known", "list a:1 b:2", "=a@1 | =b@2"),
            // client-go: DeltaFIFO_ReplaceMakesDeletionsReplaced, DeltaFIFO_ReplaceDeltaType
            (
                "the tombstone holds the newest state",
                "list b:1; pop; put b:5; list a:7",
                "=b@1 | b@1>5 -b@5? | =a@7",
            ),
            ("the same revision is silent", "list a:1 b:2; pop; pop; list a:1 b:3", "=a@1 | =b@2 | b@2=3"),
            ("an older list is what there is", "put a:9; pop; list a:4", "+a@9 | a@9=4"),
        ],
    );
}

#[test]
fn a_list_that_broke_leaves_no_trace() {
    check(
        &DeltaFifoOptions::default(),
        &[
            ("nothing before it", "fail a:1 b:2", ""),
            ("nothing of it later", "put a:1; pop; fail b:2; list a:1", "+a@1"),
            ("nothing is deleted by it", "put a:1; fail; put a:2", "+a@1 a@1>2"),
        ],
    );
    let mut rig = Rig::new(DeltaFifoOptions::default());
    assert!(!rig.run("fail").fifo.has_synced());
    assert!(rig.run("list").fifo.has_synced());
}

#[test]
fn a_list_is_delivered_whole_if_that_is_wanted() {
    check(
        &DeltaFifoOptions::default().deliver_unchanged(true),
        &[
            ("unchanged", "list a:1 b:2; pop; pop; list a:1 b:2", "=a@1 | =b@2 | a@1=1 | b@2=2"),
            ("mixed", "list a:1 b:2 d:3; list b:2 c:4 d:5", "=a@1 -a@1? | =b@2 b@2=2 | =d@3 d@3=5 | =c@4"),
            ("another object", "list a:1; pop; list a/two:3", "=a@1 | -a@1? =a@3"),
        ],
    );
}

#[test]
fn df4_a_resync_says_what_is_there_where_nothing_waits() {
    check(
        &DeltaFifoOptions::default(),
        &[
            // client-go: DeltaFIFO_Resync
            ("known", "list a:1 b:2; pop; pop; resync", "=a@1 | =b@2 | ~a@1 | ~b@2"),
            // client-go: DeltaFIFO_ResyncNonExisting
            ("a deletion waits", "list a:1; pop; del a:2; resync", "=a@1 | -a@2"),
            // client-go: DeltaFIFO_UpdateResyncRace
            ("an update waits", "list a:1; pop; put a:2; resync", "=a@1 | a@1>2"),
            ("a resync waits", "list a:1; pop; resync; resync", "=a@1 | ~a@1"),
            ("an update after it", "list a:1; pop; resync; put a:2", "=a@1 | ~a@1 a@1>2"),
            ("gone", "list a:1; del a:2; pop; resync", "=a@1 -a@2"),
            ("it is being processed", "list a:1; take; resync; pop; finish", "=a@1 | nothing | ~a@1"),
        ],
    );
}

#[test]
fn k8_no_object_goes_back_and_another_object_of_the_name_is_another_one() {
    check(
        &DeltaFifoOptions::default(),
        &[
            ("older", "put a:5; put a:4; put a:5", "+a@5"),
            ("older, after it was taken", "put a:5; pop; put a:4", "+a@5"),
            ("a replay after the deletion", "put a:5; del a:6; put a:5", "+a@5 -a@6"),
            ("another object", "put a:5; put a/two:7", "+a@5 -a@5? +a@7"),
            ("another object, by a list", "put a:5; list a/two:7", "+a@5 -a@5? =a@7"),
            ("an older deletion", "put a:5; del a:4", "+a@5"),
            ("the deletion of an unseen successor", "put a:5; del a/two:7", "+a@5 -a@5?"),
        ],
    );
    assert_eq!(Rig::new(DeltaFifoOptions::default()).run("put a:5; put a:4").writer.regressions(), 1);
}

#[test]
fn all_that_can_be_folded_is_folded_if_that_is_wanted() {
    check(
        &DeltaFifoOptions::default().compress(Compress::All),
        &[
            ("added and updated", "put a:1; put a:2; put a:3", "+a@3"),
            ("updated twice", "put a:1; pop; put a:2; put a:3", "+a@1 | a@1>3"),
            ("listed and updated", "list a:1; put a:2", "=a@2"),
            ("listed twice", "list a:1; pop; list a:2; list a:3", "=a@1 | a@1=3"),
            ("added and listed", "put a:1; list a:2", "+a@2"),
            ("updated and listed", "put a:1; pop; put a:2; list a:3", "+a@1 | a@1=3"),
            ("said again and updated", "put a:1; pop; resync; put a:2", "+a@1 | a@1>2"),
            ("a deletion is seen", "put a:1; put a:2; del a:3", "+a@2 -a@3"),
            ("an end is seen", "put a:1; pop; put a:2; del a:3", "+a@1 | a@1>2 -a@3"),
            ("another object", "put a:1; pop; put a/two:3; put a/two:4", "+a@1 | -a@1? +a@4"),
            (
                "a life in between is not",
                "put a:1; pop; put a:2; del a:3; put a:4; put a:5; del a:6; put a/two:7; del a/two:8; put a:9",
                "+a@1 | a@1>2 -a@3 +a@9",
            ),
        ],
    );
}

#[test]
fn a_key_that_is_being_processed_is_not_given_to_anybody_else() {
    check(
        &DeltaFifoOptions::default(),
        &[
            (
                "other keys are",
                "put a:1; take; put a:2; put b:3; take; take; finish; finish",
                "+a@1 | +b@3 | nothing | a@1>2",
            ),
            (
                "it gets the place of its arrival back",
                "put a:1; take; put a:2; put b:3; finish; put c:4; put a:5",
                "+a@1 | a@1>2 a@2>5 | +b@3 | +c@4",
            ),
            (
                "also after the end",
                "put a:1; take; put a:2; close; pop; finish; put a:3",
                "+a@1 | nothing | a@1>2",
            ),
        ],
    );
}

#[test]
fn q2_synced_means_that_the_first_list_is_processed() {
    // The script, and whether it is synced then.
    let cases = [
        // client-go: DeltaFIFO_HasSynced
        ("", false),
        ("list", true),
        ("list a:1 b:2", false),
        ("list a:1 b:2; pop", false),
        ("list a:1 b:2; pop; pop", true),
        ("list a:1 a:1; pop", true),
        // client-go takes any change for the whole; here that is only what a list says.
        ("put a:1; pop", false),
        ("put a:1; list a:1", false),
        ("put a:1; list a:1; pop", true),
        ("put a:1; pop; list a:1", true),
        // client-go: DeltaFIFO_HasSyncedCorrectOnDeletion
        ("put b:1; pop; list a:2", false),
        ("put b:1; pop; list a:2; pop", false),
        ("put b:1; pop; list a:2; pop; pop", true),
        // Taken is not processed (beats DF-5).
        ("list a:1 b:2; take; take", false),
        ("list a:1 b:2; take; take; finish", false),
        ("list a:1 b:2; take; take; finish; finish", true),
        // What was taken before the list may be a part of it.
        ("put a:1; take; list a:1", false),
        ("put a:1; take; list a:1; finish", true),
        ("put a:1; take; list a:2; finish", false),
        ("put a:1; take; list a:2; finish; pop", true),
        // What comes later is not a part of it, except for a key that waits anyway.
        ("list a:1; put b:2; pop", true),
        ("list a:1; put a:2; pop", true),
        ("list a:1; list a:1 b:2; pop", true),
        ("list a:1; take; put a:2; finish", true),
        // For ever.
        ("list; put a:1", true),
        ("list a:1; pop; list b:2", true),
        // After the end.
        ("list a:1; close; pop", true),
        ("close; list", false),
    ];
    for (script, synced) in cases {
        let mut rig = Rig::new(DeltaFifoOptions::default());
        assert_eq!(rig.run(script).fifo.has_synced(), synced, "{script}");
    }
}

#[test]
fn q3_the_initial_list_is_marked_exactly() {
    let mut rig = Rig::new(DeltaFifoOptions::default());
    rig.run("put z:1; list a:2 b:3; put c:4; put b:5; take");
    let mark = |popped: &Popped<Json>| format!("{} {}", popped.key(), popped.in_initial_list());
    let marks: Vec<_> = std::iter::from_fn(|| rig.fifo.try_pop()).map(|p| mark(&p)).collect();
    assert_eq!(mark(&rig.held[0]), "ns/z true");
    assert_eq!(marks, ["ns/a true", "ns/b true", "ns/c false"]);
    assert!(!rig.fifo.has_synced());
    rig.run("finish; put a:6; take");
    assert_eq!(mark(&rig.held[0]), "ns/a false");
    assert!(rig.fifo.has_synced());
}

#[tokio::test]
async fn rq8_a_batch_has_each_key_once_and_ends_where_the_initial_list_ends() {
    // client-go: RealFIFO_PopMultipleDeltaInBatch
    let mut rig = Rig::new(DeltaFifoOptions::default());
    rig.run("list a:1 b:2 c:3; put d:4; put a:5; put e:6");
    let show = |batch: &[Popped<Json>]| batch.iter().map(|p| texts(p)).collect::<Vec<_>>().join(" | ");
    let first = rig.fifo.pop_batch(2).await.unwrap();
    assert_eq!(show(&first), "=a@1 a@1>5 | =b@2");
    let second = rig.fifo.pop_batch(9).await.unwrap();
    assert_eq!(show(&second), "=c@3");
    assert!(!rig.fifo.has_synced());
    drop((first, second));
    assert!(rig.fifo.has_synced());
    rig.run("put b:7");
    let third = rig.fifo.pop_batch(0).await.unwrap();
    assert_eq!(show(&third), "+d@4");
    let fourth = rig.fifo.pop_batch(9).await.unwrap();
    assert_eq!(show(&fourth), "+e@6 | b@2>7");
    rig.run("close");
    assert!(rig.fifo.pop_batch(9).await.is_none());
}

#[test]
fn what_is_known_is_ahead_of_what_was_taken() {
    let mut rig = Rig::new(DeltaFifoOptions::default());
    rig.run("list a:1 b:2; put a:3");
    let known = rig.fifo.known();
    assert_eq!((known.len(), known.version()), (2, ResourceVersion::new("99")));
    assert_eq!(known.get(Some("ns"), "a").unwrap().version(), ResourceVersion::new("3").as_ref());
    assert_eq!(Store::<Json>::object_count(&rig.writer), Some(2));
    let popped = rig.fifo.try_pop().unwrap();
    assert!(popped.current().unwrap().ptr_eq(&known.get_key(popped.key()).unwrap()));
    rig.run("del b:4");
    assert!(rig.fifo.try_pop().unwrap().current().is_none());
    rig.writer.bookmark(&ResourceVersion::new("120").unwrap());
    assert_eq!(rig.fifo.known().version(), ResourceVersion::new("120"));
}

#[test]
fn nothing_is_queued_for_nobody() {
    let mut rig = Rig::new(DeltaFifoOptions::default());
    rig.run("list a:1 b:2; take");
    let (other, _) = DeltaFifo::new(DeltaFifoOptions::default());
    let clone = rig.fifo.clone();
    drop(std::mem::replace(&mut rig.fifo, other));
    assert_eq!(clone.len(), 1);
    assert!(!clone.is_closed());
    drop(clone);
    let waiting = |rig: &Rig| rig.writer.shared.change(|queue| queue.len());
    assert_eq!(waiting(&rig), 0);
    // The writer is not refused, and the guard that is left does no harm.
    rig.run("put a:5; list c:7; resync; finish");
    assert_eq!(waiting(&rig), 0);
}
