//! Many namespaces in one cache, against one scripted source per namespace.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures::{FutureExt, StreamExt, poll};
use reflector::{
    Cache, Control, Event, NamespaceNotReady, NamespacedBuilder, NamespacedReflector, NotReady, Object,
    ResourceVersion, Subscription,
    protocol::{Class, Failure, Status},
    source::{ListOptions, ListStream, ListWatch, WatchOptions, WatchStream},
    wire::WatchEvent,
};
use support::*;
use tokio::{sync::mpsc, time::Instant};

/// A scripted source that tells its namespace.
struct Letters(String, Scripted);

impl ListWatch<Json> for Letters {
    async fn list(&self, options: ListOptions) -> Result<ListStream<Json>, Failure> {
        self.1.list(options).await
    }

    async fn watch(&self, options: WatchOptions) -> Result<WatchStream<Json>, Failure> {
        self.1.watch(options).await
    }

    fn describe(&self) -> String {
        format!("letters in namespace {}", self.0)
    }
}

/// The servers of the namespaces, in the order in which they were added.
struct Servers(mpsc::UnboundedReceiver<(String, Server)>);

impl Servers {
    fn take(&mut self, namespace: &str) -> Server {
        let (of, server) = self.0.try_recv().expect("no namespace was added");
        assert_eq!(of, namespace);
        server
    }

    /// Nothing was added.
    fn none(&mut self) -> bool {
        self.0.try_recv().is_err()
    }
}

fn letters() -> (NamespacedBuilder<Json, Letters>, Servers) {
    let (added, servers) = mpsc::unbounded_channel();
    let builder = NamespacedReflector::builder(move |namespace: &str| {
        let (source, server) = scripted();
        added.send((namespace.to_owned(), server)).unwrap();
        Letters(namespace.to_owned(), source)
    });
    (builder.configure(|_, builder| builder.seed(1)), Servers(servers))
}

/// Two namespaces in sync: a/x, a/y as of 10, b/x as of 20.
async fn two() -> (NamespacedReflector<Json>, [(Server, Stream); 2], Servers) {
    let (builder, mut servers) = letters();
    let letters = builder.start(["a", "b"]);
    let (mut a, mut b) = (servers.take("a"), servers.take("b"));
    let of_a = a.sync(&[letter("a", "x", "5"), letter("a", "y", "6")], "10").await;
    let of_b = b.sync(&[letter("b", "x", "15")], "20").await;
    letters.ready().await.unwrap();
    (letters, [(a, of_a), (b, of_b)], servers)
}

fn letter(namespace: &str, name: &str, version: &str) -> Object<Json> {
    let meta = format!(
        r#""namespace":"{namespace}","name":"{name}","uid":"{namespace}-{name}","resourceVersion":"{version}""#
    );
    Object::from_json(format!(r#"{{"metadata":{{{meta}}}}}"#)).unwrap()
}

fn content(cache: &Cache<Json>) -> String {
    let all: Vec<_> = cache.list().iter().map(|o| format!("{}@{}", o.key(), o.version().unwrap())).collect();
    all.join(" ")
}

async fn until(letters: &NamespacedReflector<Json>, namespace: &str, what: impl FnMut(&Status) -> bool) {
    letters.watch_status(namespace).unwrap().wait_for(what).await.expect("it has ended");
}

/// What a subscriber has been told so far.
fn told(subscription: &mut Subscription<Json>) -> Vec<String> {
    let mut told = Vec::new();
    while let Some(Some(event)) = subscription.next().now_or_never() {
        let key = |object: &Object<Json>| object.key().to_string();
        told.push(match &event {
            Event::Added { object, .. } => format!("+{}", key(object)),
            Event::Updated { new, .. } => format!("~{}", key(new)),
            Event::Deleted { last, final_state_unknown: false } => format!("-{}", key(last)),
            Event::Deleted { last, .. } => format!("?{}", key(last)),
            Event::Synced => "synced".to_owned(),
            Event::Resync(object) => format!("={}", key(object)),
            other => panic!("unexpected: {other:?}"),
        });
    }
    told
}

fn expired() -> WatchEvent<Json> {
    let body = br#"{"kind":"Status","status":"Failure","reason":"Expired","message":"too old","code":410}"#;
    WatchEvent::Error(Box::new(reflector::wire::Status::from_body(410, None, body)))
}

fn alive() -> usize {
    tokio::runtime::Handle::current().metrics().num_alive_tasks()
}

/// kube-state-metrics#942: the list of one namespace threw out the objects of all others.
#[tokio::test(start_paused = true)]
async fn a_new_list_of_one_namespace_touches_no_other() {
    let (letters, [(mut a, of_a), (mut b, _of_b)], _) = two().await;
    let mut subscription = letters.cache().subscribe();
    assert_eq!(told(&mut subscription), ["+a/x", "+a/y", "+b/x", "synced"]);
    of_a.send(vec![expired()]);
    a.sync(&[letter("a", "y", "6"), letter("a", "z", "25")], "30").await;
    until(&letters, "a", |status| status.version == ResourceVersion::new("30")).await;
    assert_eq!(content(letters.cache()), "a/y@6 a/z@25 b/x@15");
    assert_eq!(told(&mut subscription), ["?a/x", "+a/z"]);
    assert!(b.try_next().is_none(), "b was asked");
    assert_eq!(letters.status("b").unwrap().counts.syncs, 1);
    letters.stop().await;
}

#[tokio::test(start_paused = true)]
async fn every_namespace_has_its_own_version_and_status() {
    let (letters, [(_a, of_a), _b], _) = two().await;
    of_a.send(vec![WatchEvent::Modified(letter("a", "x", "40"))]);
    until(&letters, "a", |status| status.version == ResourceVersion::new("40")).await;
    let snapshot = letters.cache().snapshot();
    assert_eq!(snapshot.version_of("a"), ResourceVersion::new("40").as_ref());
    assert_eq!(snapshot.version_of("b"), ResourceVersion::new("20").as_ref());
    assert_eq!(snapshot.version_of("c"), None);
    assert_eq!(snapshot.version(), ResourceVersion::new("20").as_ref(), "the lowest");
    let events: Vec<_> = letters.statuses().values().map(|status| status.counts.events).collect();
    assert_eq!(events, [1, 0]);
    assert!(letters.status("c").is_none() && letters.uptime_of("c").is_none());
    assert_eq!(letters.monitor("a").unwrap().target(), "letters in namespace a");
    letters.stop().await;
}

#[tokio::test(start_paused = true)]
async fn the_staleness_is_the_worst_one() {
    let (letters, [(_a, of_a), _b], mut servers) = two().await;
    tokio::time::advance(Duration::from_secs(7)).await;
    of_a.send(vec![bookmark("50")]);
    until(&letters, "a", |status| status.version == ResourceVersion::new("50")).await;
    assert_eq!(letters.staleness_of("a"), Some(Duration::ZERO));
    assert_eq!(letters.staleness(), letters.staleness_of("b"));
    assert!(letters.staleness() >= Some(Duration::from_secs(7)));
    letters.add("c");
    let _c = servers.take("c");
    assert_eq!(letters.staleness(), None, "nobody knows how old c is");
    letters.stop().await;
}

/// On a runtime with threads, so that the first namespace may sync before the second one is there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_cache_is_synced_when_all_namespaces_are() {
    for _ in 0..20 {
        let builder = NamespacedReflector::builder(|namespace: &str| Fixed(namespace.to_owned()));
        let mut subscription = builder.cache().subscribe();
        let letters = builder.start(["a", "b", "c"]);
        let mut before = 0;
        while !matches!(subscription.next().await.unwrap(), Event::Synced) {
            before += 1;
        }
        assert_eq!(before, 3, "synced too early");
        letters.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_synced_while_one_namespace_is_not() {
    let (builder, mut servers) = letters();
    let letters = builder.start(["a", "b"]);
    let mut subscription = letters.cache().subscribe();
    let (mut a, mut b) = (servers.take("a"), servers.take("b"));
    let _of_a = a.sync(&[letter("a", "x", "5")], "10").await;
    letters.ready_of("a").await.unwrap();
    let mut synced = Box::pin(letters.synced());
    assert!(poll!(&mut synced).is_pending());
    assert!(!letters.cache().is_synced());
    assert_eq!(told(&mut subscription), ["+a/x"]);
    let _of_b = b.sync(&[letter("b", "x", "5")], "10").await;
    synced.await.unwrap();
    assert!(letters.cache().is_synced());
    assert_eq!(told(&mut subscription), ["+b/x", "synced"]);
    letters.stop().await;
}

/// controller-runtime#1653: one namespace without permission, and nothing worked, without a reason.
#[tokio::test(start_paused = true)]
async fn a_forbidden_namespace_is_named_and_keeps_no_other_from_being_read() {
    let (builder, mut servers) = letters();
    let letters = builder.start(["a", "b"]);
    let (mut a, mut b) = (servers.take("a"), servers.take("b"));
    b.watch().await.refuse(refused(403, "Forbidden", "cannot watch letters in b"));
    let mut ready = Box::pin(letters.ready());
    until(&letters, "b", |status| status.blocked.is_some()).await;
    assert!(poll!(&mut ready).is_pending(), "a may still become ready");
    let _of_a = a.sync(&[letter("a", "x", "5")], "10").await;
    let error = ready.await.unwrap_err();
    let [NamespaceNotReady::Reflector { namespace, source: NotReady::Blocked(cause) }] = error.failures()
    else {
        panic!("{error:?}")
    };
    assert_eq!((namespace.as_str(), cause.class), ("b", Class::Forbidden));
    assert!(error.to_string().starts_with("namespace b: not synced: "), "{error}");
    assert!(error.to_string().contains("cannot watch letters in b"), "{error}");

    letters.ready_of("a").await.unwrap();
    assert_eq!(content(letters.cache()), "a/x@5");
    assert_eq!(letters.ready_of("b").await.unwrap_err().namespace(), "b");
    assert!(matches!(letters.ready_of("c").await, Err(NamespaceNotReady::Absent { .. })));

    // The permission comes: nobody need do anything.
    let _of_b = b.sync(&[letter("b", "x", "5")], "10").await;
    letters.synced().await.unwrap();
    letters.ready().await.unwrap();
    assert_eq!(content(letters.cache()), "a/x@5 b/x@5");
    letters.stop().await;
}

#[tokio::test(start_paused = true)]
async fn namespaces_come_and_go_while_subscribers_see_a_consistent_story() {
    let (letters, [_a, (mut b, of_b)], mut servers) = two().await;
    let mut subscription = letters.cache().subscribe();
    assert_eq!(told(&mut subscription), ["+a/x", "+a/y", "+b/x", "synced"]);
    assert!(letters.add("c"));
    assert!(!letters.add("c"), "it is there");
    let mut c = servers.take("c");
    assert!(servers.none(), "an idempotent add asks for no source");
    assert_eq!(letters.namespaces(), ["a", "b", "c"]);
    assert!(!letters.cache().snapshot().is_synced_in("c"), "c has not come");
    let _of_c = c.sync(&[letter("c", "x", "25")], "30").await;
    letters.ready().await.unwrap();
    assert_eq!(told(&mut subscription), ["+c/x"], "the sync is told once");

    let mut removal = Box::pin(letters.remove("b"));
    assert!(poll!(&mut removal).is_pending(), "the task has not ended");
    assert_eq!(content(letters.cache()), "a/x@5 a/y@6 c/x@25", "but its objects are gone");
    assert!(removal.await);
    of_b.closed().await;
    assert!(b.try_next().is_none());
    assert_eq!(told(&mut subscription), ["?b/x"]);
    assert_eq!(letters.cache().snapshot().version_of("b"), None);
    assert_eq!(letters.namespaces(), ["a", "c"]);
    assert!(!letters.remove("b").await, "it is not there");
    assert!(letters.status("b").is_none());
    letters.stop().await;
    assert!(subscription.next().await.is_none(), "the subscription ends");
}

#[tokio::test(start_paused = true)]
async fn waiting_for_all_regards_namespaces_that_come_and_go() {
    let (builder, mut servers) = letters();
    let letters = builder.start(["a", "b"]);
    let (mut a, _b) = (servers.take("a"), servers.take("b"));
    let _of_a = a.sync(&[], "10").await;
    let mut ready = Box::pin(letters.ready());
    assert!(poll!(&mut ready).is_pending());
    letters.add("c");
    letters.remove("b").await;
    assert!(poll!(&mut ready).is_pending(), "c is waited for");
    let _of_c = servers.take("c").sync(&[], "10").await;
    ready.await.expect("b is no failure");
    letters.stop().await;
}

/// The set is never half-removed: neither before the first poll of a removal, nor when it is dropped.
#[tokio::test(start_paused = true)]
async fn a_removal_that_is_dropped_has_removed_all_or_nothing() {
    let (letters, [_a, (_b, of_b)], mut servers) = two().await;
    let base = alive();
    drop(letters.remove("b"));
    assert_eq!(content(letters.cache()), "a/x@5 a/y@6 b/x@15");

    assert!(letters.remove("b").now_or_never().is_none(), "nothing to wait for");
    assert_eq!(content(letters.cache()), "a/x@5 a/y@6");
    assert_eq!(letters.namespaces(), ["a"]);
    // It may be added before the old task has ended.
    assert!(letters.add("b"));
    let mut b = servers.take("b");
    let _of_b = b.sync(&[letter("b", "new", "40")], "41").await;
    letters.ready_of("b").await.unwrap();
    assert_eq!(content(letters.cache()), "a/x@5 a/y@6 b/new@40");
    of_b.closed().await;
    assert_eq!(alive(), base, "the task of the dropped removal has ended by itself");
    letters.stop().await;
}

/// The task may choose to take one more change before it sees that it is to end.
#[tokio::test(start_paused = true)]
async fn what_comes_after_a_removal_goes_nowhere() {
    for _ in 0..20 {
        let (letters, [_a, (_b, of_b)], _) = two().await;
        assert!(letters.remove("b").now_or_never().is_none());
        of_b.send(vec![WatchEvent::Added(letter("b", "late", "30"))]);
        of_b.closed().await;
        assert_eq!(content(letters.cache()), "a/x@5 a/y@6");
        assert_eq!(letters.cache().snapshot().version_of("b"), None);
        letters.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_object_of_another_namespace_is_refused() {
    let (letters, [(mut a, of_a), _b], _) = two().await;
    of_a.send(vec![WatchEvent::Added(letter("b", "ghost", "30"))]);
    until(&letters, "a", |status| status.last_error.is_some()).await;
    let error = letters.status("a").unwrap().last_error.unwrap();
    assert!(error.to_string().contains("b/ghost is not in namespace a"), "{error}");
    assert_eq!(content(letters.cache()), "a/x@5 a/y@6 b/x@15");
    assert!(letters.status("b").unwrap().last_error.is_none());
    // A new read makes it good.
    a.sync(&[letter("a", "x", "5")], "31").await;
    until(&letters, "a", |status| status.version == ResourceVersion::new("31")).await;
    assert_eq!(content(letters.cache()), "a/x@5 b/x@15");
    letters.stop().await;
}

/// Each namespace has a period of its own, and they pass at the same time: every object is told once per period.
#[tokio::test(start_paused = true)]
async fn a_resync_of_a_namespace_tells_its_own_objects() {
    let (builder, mut servers) = letters();
    let builder = builder.configure(|namespace, builder| {
        builder.resync_every(Duration::from_secs(if namespace == "a" { 10 } else { 20 }))
    });
    let letters = builder.start(["a", "b"]);
    let (mut a, mut b) = (servers.take("a"), servers.take("b"));
    let _of_a = a.sync(&[letter("a", "x", "5"), letter("a", "y", "5")], "10").await;
    let _of_b = b.sync(&[letter("b", "x", "5")], "10").await;
    letters.ready().await.unwrap();
    let mut all = letters.cache().subscription().resyncs().subscribe();
    let mut of_b = letters.cache().subscription().resyncs().namespace("b").subscribe();
    assert_eq!((told(&mut all).len(), told(&mut of_b).len()), (4, 2));
    tokio::time::sleep(Duration::from_secs(15)).await;
    assert_eq!(told(&mut all), ["=a/x", "=a/y"]);
    assert_eq!(told(&mut of_b), [""; 0]);
    // Both periods pass before anybody looks: none of the two is lost.
    tokio::time::sleep(Duration::from_secs(10)).await;
    let mut both = told(&mut all);
    both.sort();
    assert_eq!(both, ["=a/x", "=a/y", "=b/x"]);
    assert_eq!(told(&mut of_b), ["=b/x"]);
    letters.stop().await;
}

#[tokio::test(start_paused = true)]
async fn each_reflector_is_configured_by_its_namespace() {
    let (builder, mut servers) = letters();
    let builder = builder.configure(|namespace, builder| builder.labels(format!("team={namespace}")));
    let letters = builder.start(["a"]);
    letters.add("b");
    for namespace in ["a", "b"] {
        let watch = servers.take(namespace).watch().await;
        assert_eq!(watch.options.selection.labels, Some(format!("team={namespace}")));
    }
    letters.stop().await;
}

/// One that its handler has ended is a failure that names it, keeps its objects, and can be started anew.
#[tokio::test(start_paused = true)]
async fn a_namespace_that_has_ended_is_started_anew_by_add() {
    let (builder, mut servers) = letters();
    let builder = builder.configure(|namespace, builder| {
        let control = if namespace == "b" { Control::Stop } else { Control::Continue };
        builder.on_error(move |_| control)
    });
    let letters = builder.start(["a", "b"]);
    let (mut a, mut b) = (servers.take("a"), servers.take("b"));
    let _of_a = a.sync(&[], "10").await;
    b.watch().await.refuse(refused(500, "InternalError", "b is broken"));
    let error = letters.synced().await.unwrap_err();
    assert!(
        error.to_string().starts_with("namespace b: stopped before it was in sync: ")
            && error.to_string().contains("b is broken"),
        "{error}"
    );
    assert!(letters.add("b"));
    let _of_b = servers.take("b").sync(&[letter("b", "x", "5")], "10").await;
    letters.synced().await.unwrap();
    assert_eq!(content(letters.cache()), "b/x@5");
    letters.stop().await;
}

#[tokio::test(start_paused = true)]
async fn indexes_span_all_namespaces() {
    let (mut builder, mut servers) = letters();
    let name = |letter: &Json| letter["metadata"]["name"].as_str().map(ToOwned::to_owned);
    let early = builder.index(name);
    let letters = builder.start(["a", "b"]);
    let late = letters.cache().index(name);
    let _streams = [
        servers.take("a").sync(&[letter("a", "x", "1")], "10").await,
        servers.take("b").sync(&[letter("b", "x", "1")], "10").await,
    ];
    letters.ready().await.unwrap();
    let found = |index| {
        let found = letters.cache().by(index, "x").unwrap();
        found.iter().map(|o| o.key().to_string()).collect::<Vec<_>>()
    };
    assert_eq!((found(&early), found(&late)), (vec!["a/x".into(), "b/x".into()], found(&early)));
    letters.remove("a").await;
    assert_eq!((found(&early), found(&late)), (vec!["b/x".into()], found(&early)));
    letters.stop().await;
}

#[tokio::test(start_paused = true)]
async fn no_namespaces_are_ready_and_the_first_one_counts() {
    let (builder, mut servers) = letters();
    let letters = builder.start([""; 0]);
    letters.ready().await.unwrap();
    assert!(letters.namespaces().is_empty() && letters.staleness().is_none());
    letters.add("a");
    assert!(letters.ready().now_or_never().is_none());
    drop(servers.take("a"));
    letters.stop().await;
}

#[tokio::test(start_paused = true)]
async fn no_task_is_left_after_stop_or_drop() {
    let base = alive();
    let (letters, [(_a, of_a), (_b, of_b)], _) = two().await;
    assert_eq!(alive(), base + 2);
    // One whose removal nobody waits for is joined too.
    assert!(letters.remove("b").now_or_never().is_none());
    let cache = letters.stop().await;
    assert_eq!(alive(), base);
    assert_eq!(content(&cache), "a/x@5 a/y@6", "the cache stays readable");
    of_a.closed().await;
    of_b.closed().await;

    let (letters, [(_a, of_a), (_b, of_b)], _) = two().await;
    let mut subscription = letters.cache().subscribe();
    drop(letters);
    of_a.closed().await;
    of_b.closed().await;
    while subscription.next().await.is_some() {}
    tokio::task::yield_now().await;
    assert_eq!(alive(), base);
}

#[tokio::test(start_paused = true)]
async fn a_thousand_cycles_leave_nothing() {
    let (letters, _open, mut servers) = two().await;
    let mut subscription = letters.cache().subscribe();
    let base = alive();
    for i in 0..1000 {
        assert!(letters.add("c"));
        let mut c = servers.take("c");
        let _of_c = c.sync(&[letter("c", "x", "5")], "10").await;
        letters.ready_of("c").await.unwrap();
        // Every third removal is not waited for.
        if i % 3 == 0 {
            assert!(letters.remove("c").now_or_never().is_none());
        } else {
            assert!(letters.remove("c").await);
        }
        assert!(alive() <= base + 2, "{} tasks after {i} cycles", alive() - base);
    }
    tokio::task::yield_now().await;
    assert_eq!(alive(), base);
    assert_eq!(content(letters.cache()), "a/x@5 a/y@6 b/x@15");
    assert_eq!(
        told(&mut subscription),
        ["+a/x", "+a/y", "+b/x", "synced"],
        "what came and went is cancelled"
    );
    letters.stop().await;
}

/// One letter per namespace, for ever.
struct Fixed(String);

impl ListWatch<Json> for Fixed {
    async fn list(&self, _: ListOptions) -> Result<ListStream<Json>, Failure> {
        Err(Failure::refused(500, "InternalError", "only streams here", [], None))
    }

    async fn watch(&self, _: WatchOptions) -> Result<WatchStream<Json>, Failure> {
        let events = vec![WatchEvent::Added(letter(&self.0, "x", "5")), end_bookmark("10")];
        Ok(futures::stream::iter([Ok(events)]).chain(futures::stream::pending()).boxed())
    }

    fn describe(&self) -> String {
        format!("letters in namespace {}", self.0)
    }
}

/// Each add that was new is undone by exactly one removal that found something, in whatever order they come.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn adds_and_removals_of_several_tasks_are_one_after_the_other() {
    let builder = NamespacedReflector::builder(|namespace: &str| Fixed(namespace.to_owned()));
    let letters = Arc::new(builder.start(["a"]));
    let counts: Arc<[[AtomicUsize; 2]; 3]> = Arc::default();
    counts[0][0].store(1, Ordering::Relaxed);
    let tasks: Vec<_> = (0..6)
        .map(|task| {
            let (letters, counts) = (Arc::clone(&letters), Arc::clone(&counts));
            tokio::spawn(async move {
                for i in 0..100 {
                    let at = (task + i) % 3;
                    let namespace = ["a", "b", "c"][at];
                    let removal = (task * 7 + i * 5) % 4 < 2;
                    let done = if removal { letters.remove(namespace).await } else { letters.add(namespace) };
                    counts[at][usize::from(removal)].fetch_add(done.into(), Ordering::Relaxed);
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    let there: Vec<_> = ["a", "b", "c"]
        .into_iter()
        .zip(&*counts)
        .filter(|(_, [adds, removals])| {
            let (adds, removals) = (adds.load(Ordering::Relaxed), removals.load(Ordering::Relaxed));
            assert!(adds == removals || adds == removals + 1, "{adds} adds, {removals} removals");
            adds > removals
        })
        .map(|(namespace, _)| namespace)
        .collect();
    assert_eq!(letters.namespaces(), there);
    letters.synced().await.unwrap();
    let expected: Vec<_> = there.iter().map(|namespace| format!("{namespace}/x@5")).collect();
    assert_eq!(content(letters.cache()), expected.join(" "));
    Arc::into_inner(letters).unwrap().stop().await;
}

/// The gauge of a removed namespace says that nothing is there, and coming back makes no second series.
#[test]
fn a_namespace_has_one_series_however_often_it_comes_and_goes() {
    let recorder = metrics_util::debugging::DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    metrics::with_local_recorder(&recorder, || {
        runtime.block_on(async {
            let (letters, _open, mut servers) = two().await;
            for _ in 0..5 {
                letters.add("c");
                let _of_c = servers.take("c").sync(&[letter("c", "x", "5")], "10").await;
                letters.ready_of("c").await.unwrap();
                letters.remove("c").await;
            }
            letters.stop().await;
        });
    });
    let snapshot = snapshotter.snapshot().into_vec();
    let objects: BTreeMap<_, _> = snapshot
        .into_iter()
        .filter(|(key, ..)| key.key().name() == "reflector_objects")
        .map(|(key, _, _, value)| {
            let labels = key.key().labels().map(|label| label.value().to_owned());
            (labels.collect::<String>(), format!("{value:?}"))
        })
        .collect();
    let expected = [("a", "Gauge(2.0)"), ("b", "Gauge(1.0)"), ("c", "Gauge(0.0)")]
        .map(|(namespace, value)| (format!("letters in namespace {namespace}"), value.to_owned()));
    assert_eq!(objects, BTreeMap::from(expected));
}

/// Waits of one namespace are its own: b is served while a backs off.
#[tokio::test(start_paused = true)]
async fn a_namespace_that_backs_off_delays_no_other() {
    let (letters, [(mut a, of_a), (_b, of_b)], _) = two().await;
    of_a.fail(Failure::transport("gone"));
    a.watch().await.refuse(refused(500, "InternalError", "overloaded"));
    let before = Instant::now();
    of_b.send(vec![WatchEvent::Modified(letter("b", "x", "21"))]);
    until(&letters, "b", |status| status.version == ResourceVersion::new("21")).await;
    assert_eq!(before.elapsed(), Duration::ZERO);
    assert_eq!(content(letters.cache()), "a/x@5 a/y@6 b/x@21");
    letters.stop().await;
}
