//! Between the wire and the store: nothing overtakes anything, and bodies are kept as asked.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use reflector::{
    BodyForm, Object, Reflector, ResourceVersion,
    protocol::Failure,
    source::ListPart,
    transform::Trim,
    wire::{ListItem, ListMeta, WatchEvent},
};
use serde_json::json;
use support::*;

/// An object of some eight kilobytes, of which little is its own.
fn large(i: usize, version: usize) -> Object<Json> {
    let words: Vec<String> =
        (0..400_u32).map(|n| format!("{:x}-word", n.wrapping_mul(2_654_435_761))).collect();
    let body = json!({
        "metadata": {"namespace": "ns", "name": format!("o{i:04}"), "uid": format!("u{i}"),
            "resourceVersion": version.to_string(), "labels": {"app": format!("a{}", i % 3)}},
        "spec": {"words": words, "own": i.wrapping_mul(0x9e37_79b9)},
    });
    Object::from_json(body.to_string()).unwrap()
}

async fn at<K: Send + 'static>(reflector: &Reflector<K>, version: &str) {
    let mut status = reflector.handle().watch_status();
    status.wait_for(|status| status.version == ResourceVersion::new(version)).await.unwrap();
}

/// A server that breaks every watch right after its first events: each of them is progress, or there is none for ever.
#[tokio::test(start_paused = true)]
async fn an_error_does_not_overtake_the_events_before_it() {
    for transformed in [false, true] {
        let (source, mut server) = scripted();
        let mut builder = Reflector::builder(source);
        if transformed {
            builder = builder.body(BodyForm::wire()).transform(Trim::new().managed_fields());
        }
        let letters = builder.start();
        let mut stream = server.sync(&[object("a", "u1", "5")], "6").await;
        letters.ready().await.unwrap();
        for version in 7..20 {
            let version = version.to_string();
            stream.send(vec![WatchEvent::Modified(object("a", "u1", &version))]);
            stream.fail(Failure::transport("connection reset"));
            let watch = server.watch().await;
            assert_eq!(watch.options.version, ResourceVersion::new(&version), "the event was lost");
            assert_eq!(content(letters.cache()), format!("a@{version}"));
            stream = watch.open();
        }
        letters.stop().await;
    }
}

#[tokio::test]
async fn a_large_collection_is_packed_and_reads_as_it_came() {
    const OBJECTS: usize = 1_000;
    let (source, mut server) = scripted();
    let letters = Reflector::builder(source).streaming(false).start();
    let objects: Vec<_> = (0..OBJECTS).map(|i| large(i, 5)).collect();
    let pages = |objects: &[Object<Json>]| {
        let mut parts: Vec<_> = objects
            .chunks(20)
            .map(|part| Ok(ListPart::Items(part.iter().cloned().map(ListItem::Object).collect())))
            .collect();
        let mut end = ListMeta::default();
        end.version = ResourceVersion::new("6");
        parts.push(Ok(ListPart::End(end)));
        parts
    };
    server.list().await.parts(pages(&objects));
    letters.ready().await.unwrap();
    let memory = letters.cache().memory();
    assert_eq!(memory.objects, OBJECTS);
    assert!(memory.bodies * 10 < memory.unpacked, "{memory:?}");
    assert!(memory.dictionaries > 0 && memory.dictionaries < 300_000, "{memory:?}");
    let objects_alone: usize = letters.cache().list().iter().map(Object::memory).sum();
    assert_eq!(memory.total(), objects_alone + memory.dictionaries, "each dictionary once");
    for (kept, came) in letters.cache().list().iter().zip(&objects) {
        assert_eq!(kept.key(), came.key());
        assert_eq!((kept.json().unwrap(), kept.get().unwrap()), (came.json().unwrap(), came.get().unwrap()));
        assert_eq!(kept.label("app"), came.label("app"));
    }

    // An event is packed too.
    let stream = server.watch().await.open();
    stream.send((7..40).map(|version| WatchEvent::Modified(large(7, version))).collect());
    at(&letters, "39").await;
    let kept = letters.cache().get(Some("ns"), "o0007").unwrap();
    assert_eq!(kept.json().unwrap(), large(7, 39).json().unwrap());
    let packed = letters.cache().memory();
    assert!(packed.bodies < memory.bodies + 2_000, "{packed:?} after {memory:?}");
    letters.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_small_collection_is_kept_as_it_came() {
    let (source, mut server) = scripted();
    let letters = Reflector::builder(source).start();
    let objects: Vec<_> = (0..100).map(|i| large(i, 5)).collect();
    let _stream = server.sync(&objects, "6").await;
    letters.ready().await.unwrap();
    let memory = letters.cache().memory();
    assert_eq!((memory.bodies, memory.dictionaries), (memory.unpacked, 0));
}

#[tokio::test(start_paused = true)]
async fn decoded_objects_have_their_value_and_nothing_else() {
    let (source, mut server) = scripted();
    let letters = Reflector::builder(source).body(BodyForm::decoded()).start();
    let _stream = server.sync(&[large(1, 5)], "6").await;
    letters.ready().await.unwrap();
    let kept = letters.cache().list().remove(0);
    assert!(std::sync::Arc::ptr_eq(&kept.get().unwrap(), &kept.get().unwrap()));
    assert_eq!(kept.get().unwrap(), large(1, 5).get().unwrap());
    let left: Json = serde_json::from_slice(&kept.json().unwrap()).unwrap();
    assert!(left.get("spec").is_none() && left["metadata"]["name"] == "o0001", "{left}");
    assert!(kept.bytes().is_err() && kept.decode_as::<Json>().is_err());
    let memory = letters.cache().memory();
    assert_eq!(memory.bodies, size_of::<Json>());
}
