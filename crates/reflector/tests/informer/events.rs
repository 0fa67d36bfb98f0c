//! What handlers are told, and in which order.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use reflector::{
    Event, Reflector, SharedInformer,
    informer::{Callbacks, HandlerOptions, from_async_fn, from_fn},
    wire::WatchEvent,
};

use crate::{common::*, support::*};

/// SI-20. client-go: SharedInformer_AddWhileActive.
#[tokio::test(start_paused = true)]
async fn a_late_handler_is_told_what_there_is_and_then_every_change() {
    let (informer, mut server) = informer();
    let (early, mut early_sees) = recorder();
    let early = informer.add_handler(early).unwrap();
    assert!(!early.is_synced());
    informer.start().unwrap();
    let stream = server.sync(&[object("a", "u1", "5"), object("b", "u2", "6")], "7").await;
    assert_eq!(early_sees.take(3).await, "initial a@5 initial b@6 synced");
    early.synced().await.unwrap();
    stream.send(vec![WatchEvent::Added(object("c", "u3", "8"))]);
    assert_eq!(early_sees.next().await, "+c@8");

    let (late, mut late_sees) = recorder();
    let late = informer.add_handler(late).unwrap();
    assert!(!late.is_synced(), "it has not been told anything yet");
    stream.send(vec![
        WatchEvent::Modified(object("a", "u1", "9")),
        WatchEvent::Deleted(object("b", "u2", "10")),
    ]);
    late.synced().await.unwrap();
    assert_eq!(late_sees.take(6).await, "initial a@5 initial b@6 initial c@8 synced a@5>a@9 -b@10");
    assert_eq!(early_sees.take(2).await, "a@5>a@9 -b@10");
    informer.stop().await.unwrap();
}

/// client-go: SharedInformerWatchDisruption, Controller_ResetWatch, ReplaceEvents.
#[tokio::test(start_paused = true)]
async fn after_a_relist_handlers_see_what_changed_and_nothing_else() {
    let first = [object("a", "u1", "5"), object("b", "u2", "6"), object("c", "u3", "7")];
    let (informer, mut server, stream) = synced(&first, "7").await;
    let (handler, mut seen) = recorder();
    let handler = informer.add_handler(handler).unwrap();
    settled(&handler, &mut seen).await;
    stream.send(vec![expired()]);
    // The update of b and the birth of d were missed, and so was the end of c.
    let _stream =
        server.sync(&[object("a", "u1", "5"), object("b", "u2", "8"), object("d", "u4", "9")], "9").await;
    assert_eq!(seen.take(3).await, "-c@7? b@6>b@8 +d@9");
    informer.drain().await.unwrap();
    assert_eq!(seen.rest(), [""; 0]);
}

/// CT-7. client-go: Controller_ReplaceEvents.
#[tokio::test(start_paused = true)]
async fn during_the_events_of_a_relist_the_cache_is_final() {
    let (informer, mut server, stream) = synced(&[object("a", "u1", "5"), object("b", "u2", "6")], "7").await;
    let cache = informer.cache().clone();
    let (sender, mut receiver) = tokio::sync::mpsc::unbounded_channel();
    let handler = Callbacks::new().on_delete(move |_, _| sender.send(content(&cache)).unwrap());
    informer.add_handler(handler).unwrap().synced().await.unwrap();
    stream.send(vec![expired()]);
    let _stream = server.sync(&[object("c", "u3", "8")], "8").await;
    assert_eq!(receiver.recv().await.unwrap(), "c@8");
    assert_eq!(receiver.recv().await.unwrap(), "c@8");
    informer.stop().await.unwrap();
}

/// Another object under the same name is told as such, unlike client-go (8.1).
#[tokio::test(start_paused = true)]
async fn another_uid_is_another_object() {
    let (informer, _server, stream) = synced(&[object("a", "u1", "5")], "5").await;
    let (handler, mut seen) = recorder();
    let handler = informer.add_handler(handler).unwrap();
    settled(&handler, &mut seen).await;
    stream.send(vec![WatchEvent::Modified(object("a", "u2", "6"))]);
    assert_eq!(seen.take(2).await, "-a@5? +a@6");
    informer.stop().await.unwrap();
}

/// CT-11. client-go: TypedFilteringResourceEventHandler.
#[tokio::test(start_paused = true)]
async fn a_filter_makes_its_four_transitions() {
    let (informer, _server, stream) = synced(&[object("a", "u1", "10"), object("b", "u2", "11")], "11").await;
    let (handler, mut seen) = recorder();
    let is_even =
        |o: &reflector::Object<Json>| o.version().unwrap().to_string().ends_with(['0', '2', '4', '6']);
    let options = HandlerOptions::new().filter(is_even).namespace("ns");
    informer.add_handler_with(handler, options).unwrap();
    assert_eq!(seen.take(2).await, "initial a@10 synced");
    // passes still; comes; is out, and stays; goes; is out, and is deleted.
    for event in [
        WatchEvent::Modified(object("a", "u1", "12")),
        WatchEvent::Modified(object("b", "u2", "14")),
        WatchEvent::Modified(object("a", "u1", "15")),
        WatchEvent::Modified(object("a", "u1", "17")),
        WatchEvent::Deleted(object("a", "u1", "19")),
        WatchEvent::Deleted(object("b", "u2", "21")),
    ] {
        stream.send(vec![event]);
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    }
    assert_eq!(seen.take(4).await, "a@10>a@12 +b@14 -a@12 -b@21");
    informer.stop().await.unwrap();
}

/// client-go: TypedResourceEventHandlerFuncs, DetailedFuncs.
#[tokio::test(start_paused = true)]
async fn closures_are_handlers_too() {
    let (informer, _server, stream) = synced(&[object("a", "u1", "5")], "5").await;
    let (sender, mut receiver) = tokio::sync::mpsc::unbounded_channel::<String>();
    let (one, two, three) = (sender.clone(), sender.clone(), sender);
    // Those that are not set are ignored.
    informer
        .add_handler(Callbacks::new().on_add(move |o, i| one.send(format!("{} {i}", short(&o))).unwrap()))
        .unwrap();
    assert_eq!(receiver.recv().await.unwrap(), "a@5 true");
    let handler = from_fn(move |event: Event<Json>| {
        if let Event::Updated { old, new } = event {
            two.send(format!("{}>{}", short(&old), short(&new))).unwrap();
        }
    });
    informer.add_handler(handler).unwrap();
    let handler = from_async_fn(move |event: Event<Json>| {
        let three = three.clone();
        async move {
            tokio::task::yield_now().await;
            if let Event::Deleted { last, .. } = event {
                three.send(format!("-{}", short(&last))).unwrap();
            }
        }
    });
    informer.add_handler(handler).unwrap();
    stream.send(vec![WatchEvent::Modified(object("a", "u1", "6"))]);
    assert_eq!(receiver.recv().await.unwrap(), "a@5>a@6");
    stream.send(vec![WatchEvent::Deleted(object("a", "u1", "7"))]);
    assert_eq!(receiver.recv().await.unwrap(), "-a@7");
    informer.stop().await.unwrap();
}

/// SI-8. client-go: SharedInformer_Indexer.
#[tokio::test(start_paused = true)]
async fn indexes_can_be_added_before_and_after_the_start() {
    let (informer, mut server) = informer();
    let name = |value: &Json| value["metadata"]["name"].as_str().map(str::to_owned);
    let before = informer.index(name);
    informer.start().unwrap();
    let stream = server.sync(&[object("a", "u1", "5")], "5").await;
    informer.ready().await.unwrap();
    let after = informer.index(name);
    let (handler, mut seen) = recorder();
    informer.add_handler(handler).unwrap();
    stream.send(vec![WatchEvent::Added(object("b", "u2", "6"))]);
    assert_eq!(seen.take(3).await, "initial a@5 synced +b@6");
    for index in [before, after] {
        assert_eq!(informer.cache().by(&index, "a").unwrap().len(), 1);
        assert_eq!(informer.cache().by(&index, "b").unwrap().len(), 1);
    }
    informer.stop().await.unwrap();
}

/// client-go: SharedInformerErrorHandling.
#[tokio::test(start_paused = true)]
async fn a_failure_reaches_the_error_handler() {
    let (source, mut server) = scripted();
    let (sender, mut receiver) = tokio::sync::mpsc::unbounded_channel();
    let builder = Reflector::builder(source).streaming(false).on_error(move |report| {
        sender.send(report.to_string()).unwrap();
        reflector::Control::Continue
    });
    let informer = SharedInformer::new(builder);
    informer.start().unwrap();
    server.list().await.refuse(refused(403, "Forbidden", "not for you"));
    assert!(receiver.recv().await.unwrap().contains("not for you"));
    assert!(informer.ready().await.unwrap_err().to_string().contains("not for you"));
    informer.stop().await.unwrap();
}

/// client-go: HammerController, Controller_Update.
#[tokio::test(start_paused = true)]
async fn folding_the_events_gives_the_cache_after_random_changes() {
    let (informer, _server, stream) = synced(&[], "1").await;
    let mut handlers = Vec::new();
    for _ in 0..3 {
        let fold = Arc::new(Mutex::new(BTreeMap::<String, String>::new()));
        let (add, update, delete) = (Arc::clone(&fold), Arc::clone(&fold), Arc::clone(&fold));
        let handler = Callbacks::<Json>::new()
            .on_add(move |o, _| assert!(add.lock().unwrap().insert(o.name().into(), short(&o)).is_none()))
            .on_update(move |old, new| {
                let before = update.lock().unwrap().insert(new.name().into(), short(&new));
                assert_eq!(before, Some(short(&old)));
            })
            .on_delete(move |last, _| assert!(delete.lock().unwrap().remove(last.name()).is_some()));
        informer
            .add_handler_with(
                handler,
                HandlerOptions::new().on_panic(reflector::informer::OnPanic::Propagate),
            )
            .unwrap();
        handlers.push(fold);
    }
    let (mut random, mut live) = (1_u64, BTreeMap::<u64, u64>::new());
    for version in 2..1_000_u64 {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let (key, chance) = ((random >> 33) % 10, (random >> 50) % 3);
        let made = |uid: u64| object(&format!("o{key}"), &format!("u{uid}"), &version.to_string());
        let event = match (live.get(&key).copied(), chance) {
            (None, _) => {
                live.insert(key, version);
                WatchEvent::Added(made(version))
            }
            (Some(uid), 0) => {
                live.remove(&key);
                WatchEvent::Deleted(made(uid))
            }
            (Some(uid), _) => WatchEvent::Modified(made(uid)),
        };
        stream.send(vec![event]);
        if chance == 1 {
            tokio::task::yield_now().await;
        }
    }
    stream.send(vec![bookmark("1000")]);
    while informer.status().version != reflector::ResourceVersion::new("1000") {
        tokio::task::yield_now().await;
    }
    informer.drain().await.unwrap();
    let expected: Vec<_> = informer.cache().list().iter().map(short).collect();
    assert!(expected.len() > 3, "{expected:?}");
    for fold in handlers {
        assert_eq!(fold.lock().unwrap().values().cloned().collect::<Vec<_>>(), expected);
    }
}

/// client-go: SharedInformerTransformer, TransformingInformer.
#[tokio::test(start_paused = true)]
async fn handlers_see_what_the_transform_made() {
    let (source, mut server) = scripted();
    let trim = reflector::transform::Trim::new().path("/spec").unwrap();
    let informer = SharedInformer::new(Reflector::builder(source).transform(trim));
    let (sender, mut receiver) = tokio::sync::mpsc::unbounded_channel::<String>();
    let (one, two) = (sender.clone(), sender);
    let json = |o: &reflector::Object<Json>| String::from_utf8_lossy(&o.json().unwrap()).into_owned();
    let handler = Callbacks::new()
        .on_add(move |o, _| one.send(json(&o)).unwrap())
        .on_update(move |old, new| two.send(json(&old) + &json(&new)).unwrap());
    informer.add_handler(handler).unwrap();
    informer.start().unwrap();
    let with_spec = |version: &str| {
        let text = String::from_utf8_lossy(&object("a", "u1", version).json().unwrap()).into_owned();
        reflector::Object::from_json(text.replacen('{', r#"{"spec":"secret","#, 1)).unwrap()
    };
    let stream = server.sync(&[with_spec("5")], "5").await;
    let added = receiver.recv().await.unwrap();
    assert!(added.contains("u1") && !added.contains("secret"), "{added}");
    stream.send(vec![WatchEvent::Modified(with_spec("6"))]);
    let updated = receiver.recv().await.unwrap();
    assert!(updated.contains("u1") && !updated.contains("secret"), "{updated}");
    informer.stop().await.unwrap();
}

/// SI-27. client-go: NameForHandler.
#[tokio::test(start_paused = true)]
async fn a_handler_is_called_after_its_type_or_its_closure() {
    let (informer, _server) = informer();
    let names = [
        informer.add_handler(recorder().0).unwrap(),
        informer.add_handler(Callbacks::new()).unwrap(),
        informer.add_handler(from_fn(|_: Event<Json>| ())).unwrap(),
        informer.add_handler_with(Callbacks::new(), HandlerOptions::new().name("mine")).unwrap(),
    ]
    .map(|handler| handler.name().to_owned());
    assert!(names[0].ends_with("::Recorder"), "{names:?}");
    assert_eq!((&*names[1], &*names[3]), ("callbacks", "mine"));
    assert!(names[2].contains("a_handler_is_called_after_its_type_or_its_closure"), "{names:?}");
    informer.stop().await.unwrap();
}
