//! Defects of subscriptions that were found by reading, each as the shortest story that showed it.

use std::{
    sync::{Arc, OnceLock, atomic::AtomicBool, mpsc},
    task::Context,
    time::Duration,
};

use reflector::{IndexBy, store::LagMeter};

use super::*;

/// Runs a story that used to wait for itself for ever.
fn must_end(story: impl FnOnce() + Send + 'static) {
    let (done, ended) = mpsc::channel();
    std::thread::spawn(move || {
        story();
        done.send(()).ok();
    });
    assert!(ended.recv_timeout(Duration::from_secs(30)).is_ok(), "it panicked, or waits for itself");
}

/// Symptom: a bookmark that vouched for changes which were dropped. Cause: what came after the end was still queued.
#[test]
fn who_lagged_is_told_nothing_more() {
    let (cache, mut writer) = synced();
    let policy = Policy::Every { bound: 1, when_full: WhenFull::End };
    let mut slow = cache.subscription().policy(policy).bookmarks().resyncs().subscribe();
    told(&mut slow);
    apply(&mut writer, vec![add("a", 2), add("b", 3), add("c", 4)]);
    assert_eq!(slow.ended(), Some(Ended::Lagged));
    writer.bookmark(&ResourceVersion::new("9").unwrap());
    writer.resync().unwrap();
    slow.resync();
    apply(&mut writer, vec![add("d", 10)]);
    assert_eq!((slow.lag().waiting, slow.lag().present), (0, 0), "it holds nothing");
    assert!(slow.next().now_or_never().unwrap().is_none());
}

/// Symptom: a bookmark, a sync, or a resync after the end; or an end that said that everything had been told, with changes
/// that were not. Cause: what waits is counted when it is put in line, which may be when something else comes.
#[test]
fn who_turns_out_to_have_lagged_is_told_nothing_more() {
    type Then = fn(CacheWriter<Json>, &Subscription<Json>) -> Option<CacheWriter<Json>>;
    let thens: [Then; 4] = [
        |mut writer, _| {
            writer.bookmark(&ResourceVersion::new("9").unwrap());
            Some(writer)
        },
        |mut writer, _| {
            writer.resync().unwrap();
            Some(writer)
        },
        |writer, slow| {
            slow.resync();
            Some(writer)
        },
        |_, _| None,
    ];
    for (number, then) in thens.into_iter().enumerate() {
        let (cache, mut writer) = synced();
        let policy = Policy::Every { bound: 2, when_full: WhenFull::End };
        let mut slow = cache.subscription().policy(policy).bookmarks().resyncs().subscribe();
        assert_eq!(told(&mut slow), "=a@1 synced");
        // Two are put in line, and one more is not yet.
        apply(&mut writer, vec![add("b", 2), add("c", 3)]);
        apply(&mut writer, vec![add("d", 4)]);
        let _writer = then(writer, &slow);
        assert_eq!(told(&mut slow), "", "{number}");
        assert_eq!(slow.ended(), Some(Ended::Lagged), "{number}");
    }
}

/// The same for one that lagged before the first sync. Symptom: it was told to be in sync, with nothing told before.
#[test]
fn who_lagged_before_the_sync_is_not_synced() {
    let (cache, mut writer) = Cache::new();
    let policy = Policy::Every { bound: 1, when_full: WhenFull::End };
    let mut slow = cache.subscription().policy(policy).subscribe();
    apply(&mut writer, vec![add("a", 2), add("b", 3), add("c", 4)]);
    assert_eq!(slow.ended(), Some(Ended::Lagged));
    replace(&mut writer, vec![add("a", 2)]);
    assert_eq!(told(&mut slow), "");
    assert!(!slow.is_synced());
    // Where it shows only when the sync comes.
    let (cache, mut writer) = Cache::new();
    let policy = Policy::Every { bound: 2, when_full: WhenFull::End };
    let mut slow = cache.subscription().policy(policy).subscribe();
    apply(&mut writer, vec![add("a", 2), add("b", 3)]);
    apply(&mut writer, vec![add("c", 4)]);
    replace(&mut writer, vec![add("a", 2), add("b", 3), add("c", 4)]);
    assert_eq!((told(&mut slow), slow.ended()), (String::new(), Some(Ended::Lagged)));
}

/// Symptom: after the end of the stream came more events. Cause: a resync did not ask whether it had ended.
#[test]
fn a_stream_that_has_ended_stays_ended() {
    let (cache, writer) = synced();
    let mut all = cache.subscribe();
    told(&mut all);
    drop(writer);
    assert!(all.next().now_or_never().unwrap().is_none());
    all.resync();
    assert!(all.next().now_or_never().unwrap().is_none());
}

/// Symptom: the deletion of an object that was never told. Cause: the first list took the place of what was to be told,
/// although changes had come before it.
#[test]
fn a_first_list_after_changes_leaves_no_gap() {
    let (cache, mut writer) = Cache::new();
    apply(&mut writer, vec![add("a", 1)]);
    let mut all = cache.subscribe();
    apply(&mut writer, vec![delete("a", 2)]);
    replace(&mut writer, vec![add("b", 3)]);
    assert_eq!(told(&mut all), "=a@1 -a@2 =b@3 synced");
}

/// A waker that changes the cache.
struct Meddling(Cache<Json>, AtomicBool);

impl Wake for Meddling {
    fn wake(self: Arc<Self>) {
        self.0.index_by(IndexBy::label("x"));
        self.1.store(true, Ordering::SeqCst);
    }
}

/// Symptom: a writer hung. Cause: wakers ran under the lock of the content.
#[test]
fn a_waker_may_use_the_cache() {
    must_end(|| {
        let (cache, mut writer) = synced();
        let meddling = Arc::new(Meddling(cache.clone(), AtomicBool::new(false)));
        let waker = Waker::from(Arc::clone(&meddling));
        let mut all = cache.subscribe();
        told(&mut all);
        assert!(all.poll_next_unpin(&mut Context::from_waker(&waker)).is_pending());
        apply(&mut writer, vec![add("a", 2)]);
        assert!(meddling.1.load(Ordering::SeqCst), "it was woken");
    });
}

/// The one value of an index, which looks at a subscription when it goes.
#[derive(Clone)]
struct Watchful {
    meter: Arc<OnceLock<LagMeter<Json>>>,
    looks: Arc<AtomicUsize>,
}

impl PartialEq for Watchful {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Watchful {}

impl std::hash::Hash for Watchful {
    fn hash<H: std::hash::Hasher>(&self, _: &mut H) {}
}

impl Drop for Watchful {
    fn drop(&mut self) {
        if self.meter.get().is_some_and(|meter| meter.lag().is_some()) {
            self.looks.fetch_add(1, Ordering::SeqCst);
        }
    }
}

/// Symptom: a reader hung. Cause: old content, with values of indexes, was dropped under the lock of the queue.
#[test]
fn old_content_goes_when_no_lock_is_held() {
    must_end(|| {
        let (cache, _writer) = synced();
        let value = Watchful { meter: Arc::default(), looks: Arc::default() };
        let (meter, looks) = (Arc::clone(&value.meter), Arc::clone(&value.looks));
        let index = cache.index_by(IndexBy::handle(move |_: &Object<Json>| Ok([value.clone()])));
        let mut all = cache.subscribe();
        meter.set(all.meter()).unwrap();
        // From here on only the content that the subscriber has not told yet holds the value.
        cache.remove_index(&index);
        assert_eq!(looks.load(Ordering::SeqCst), 0);
        assert_eq!(told(&mut all), "=a@1 synced");
        assert!(looks.load(Ordering::SeqCst) > 0, "the value is gone");
    });
}

/// Symptom: the event at which a filter panicked was missing, and the stream went on with a gap. An object for which a
/// filter panics is not wanted, and what is told still folds.
#[test]
fn a_filter_that_panics_leaves_the_object_out() {
    let (cache, mut writer) = synced();
    let panics = || std::panic::resume_unwind(Box::new("the filter panics"));
    let wants = move |object: &Object<Json>| object.label("tint") != Some("red") || panics();
    let mut all = cache.subscription().filter(wants).subscribe();
    assert_eq!(told(&mut all), "=a@1 synced");
    apply(&mut writer, vec![Change::Upsert(tinted("b", "b", 2, "red")), add("c", 3)]);
    assert_eq!(told(&mut all), "+c@3");
    apply(&mut writer, vec![Change::Upsert(tinted("a", "a", 4, "red")), add("b", 5)]);
    assert_eq!(told(&mut all), "-a@1 +b@5");
}

/// The same for what asks whether a part has changed: what cannot be compared may differ.
#[test]
fn a_comparison_that_panics_counts_as_a_change() {
    let (cache, mut writer) = synced();
    let part = |object: &Object<Json>| match object.label("tint") {
        Some("red") => std::panic::resume_unwind(Box::new("the comparison panics")),
        _ => 0,
    };
    let mut parts = cache.subscription().changed(part).subscribe();
    told(&mut parts);
    apply(&mut writer, vec![Change::Upsert(tinted("a", "a", 2, "red"))]);
    assert_eq!(told(&mut parts), "a@1>a@2");
}

/// Symptom: a deletion was told after two hundred objects that had not changed. Cause: a resync went before what was in
/// line already.
#[test]
fn a_change_does_not_wait_for_a_whole_resync() {
    let (cache, mut writer) = Cache::new();
    replace(&mut writer, (0..200).map(|i| add(&format!("o{i}"), 1)).collect());
    let mut all = cache.subscription().resyncs().subscribe();
    told(&mut all);
    apply(&mut writer, vec![delete("o0", 9)]);
    writer.resync().unwrap();
    let first = all.next().now_or_never().flatten().unwrap();
    assert_eq!(line(&first), "-o0@9");
    // What comes while the resync is being told does not wait for the rest of it either.
    assert!(matches!(all.next().now_or_never(), Some(Some(Event::Resync(_)))));
    apply(&mut writer, vec![delete("o99", 10)]);
    let next = all.next().now_or_never().flatten().unwrap();
    assert_eq!(line(&next), "-o99@10");
    assert_eq!(told(&mut all).split(' ').count(), 197, "each of the others once");
}
