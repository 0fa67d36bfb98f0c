//! Scenarios of client-go's own tests, over HTTP against the embedded API server.

use std::sync::Arc;

use futures::StreamExt;
use kube::core::DynamicObject;
use reflector::{Event, SharedInformer, informer::Callbacks};
use reflector_apiserver::{Verb, faults::Fault};

use crate::support::cluster::*;

/// client-go: Example, ExampleNewInformer: a controller that deletes everything it sees.
#[tokio::test]
async fn a_controller_may_delete_everything_it_sees() {
    let cluster = Arc::new(Cluster::start(3).await);
    let informer = SharedInformer::new(cluster.builder());
    let (deleted, mut deletions) = tokio::sync::mpsc::unbounded_channel();
    let executioner = Arc::clone(&cluster);
    let handler = Callbacks::<DynamicObject>::new()
        .on_add(move |map, _| executioner.delete(map.name()))
        .on_delete(move |last, _| deleted.send(last.name().to_owned()).unwrap());
    informer.add_handler(handler).unwrap();
    informer.start().unwrap();
    informer.ready().await.unwrap();
    cluster.create("later");
    let mut gone = Vec::new();
    while gone.len() < 4 {
        gone.push(tokio::time::timeout(PATIENCE, deletions.recv()).await.unwrap().unwrap());
    }
    gone.sort();
    assert_eq!(gone, ["cm-0", "cm-1", "cm-2", "later"]);
    assert!(cluster.truth().is_empty());
    informer.stop().await.unwrap();
}

/// What a subscriber is told until the end of the first state, and of a change after it.
async fn events(cluster: &Cluster, streaming: bool) -> Vec<String> {
    let maps = cluster.builder().streaming(streaming).start();
    let mut all = maps.cache().subscribe();
    let mut seen = Vec::new();
    loop {
        match tokio::time::timeout(PATIENCE, all.next()).await.unwrap().unwrap() {
            Event::Added { object, initial: true } => seen.push(object.key().to_string()),
            Event::Synced => break,
            other => panic!("{other:?} before the end of the first state"),
        }
    }
    assert_eq!(cluster.count(Verb::List) > 0, !streaming);
    // With a third event unread, it stops all the same.
    cluster.create("third");
    cluster.converge(&maps).await;
    maps.stop().await;
    cluster.delete("third");
    seen
}

/// client-go: NewInformerWatcher, ReflectorListAndWatch.
#[tokio::test]
async fn streamed_or_listed_the_state_is_the_same() {
    let cluster = Cluster::start(5).await;
    let streamed = events(&cluster, true).await;
    assert_eq!(streamed, ["ns/cm-0", "ns/cm-1", "ns/cm-2", "ns/cm-3", "ns/cm-4"]);
    assert_eq!(events(&cluster, false).await, streamed);
}

/// client-go: Dynamic and Metadata add/update/delete: the types are known at run time.
#[tokio::test]
async fn changes_of_types_known_at_run_time_are_told_with_old_and_new() {
    let cluster = Cluster::start(0).await;
    let maps = cluster.start_reflector();
    let mut all = maps.cache().subscribe();
    maps.ready().await.unwrap();
    let mut next = async || tokio::time::timeout(PATIENCE, all.next()).await.unwrap().unwrap();
    assert!(matches!(next().await, Event::Synced));
    cluster.create("m");
    let Event::Added { object, initial: false } = next().await else { panic!("not added") };
    assert_eq!(object.get().unwrap().types.as_ref().unwrap().kind, "ConfigMap");
    cluster.update("m", "new");
    let Event::Updated { old, new } = next().await else { panic!("not updated") };
    let value = |map: &reflector::Object<DynamicObject>| map.get().unwrap().data["data"]["value"].clone();
    assert_eq!((value(&old), value(&new)), ("0".into(), "new".into()));
    cluster.delete("m");
    let Event::Deleted { last, final_state_unknown: false } = next().await else { panic!("not deleted") };
    assert_eq!((last.name(), value(&last)), ("m", "new".into()));
    maps.stop().await;
}

/// client-go: Dynamic and Metadata UnSupportWatchListSemantics: a server that knows no streaming lists.
#[tokio::test]
async fn a_server_without_streaming_lists_is_listed() {
    let cluster = Cluster::start(2).await;
    let refusal =
        Fault::on(Verb::Watch).status(422).reason("Invalid").message("sendInitialEvents is forbidden");
    cluster.fault(refusal.once());
    let maps = cluster.start_reflector();
    maps.ready().await.unwrap();
    assert_eq!(copy(maps.cache()), cluster.truth());
    assert!(cluster.count(Verb::List) > 0);
    maps.stop().await;
}
