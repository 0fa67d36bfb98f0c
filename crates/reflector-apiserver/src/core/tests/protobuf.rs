//! Bodies in protobuf, against recorded ones of kube-apiserver 1.36: the same objects at the same revisions must give the
//! same bytes.

use std::{fs, path::PathBuf};

use bytes::Bytes;
use http::Request;
use reflector_protobuf::{
    Envelope, Kind, envelope, from_json, to_json,
    wire::{Fields, Value as WireValue},
};
use serde_json::{Value, json};

use super::{Rig, Step};
use crate::core::{CoreOptions, CustomResource};

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
const METADATA: &str = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";
const METADATA_LIST: &str =
    "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";
const INITIAL: &str = "watch=true&timeoutSeconds=2&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";

fn shared(name: &str) -> Option<Vec<u8>> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared").join(name);
    let read = fs::read(&path).ok();
    if read.is_none() {
        eprintln!("SKIPPED: no {}", path.display());
    }
    read
}

fn recorded_json(name: &str) -> Option<Value> {
    shared(name).map(|text| serde_json::from_slice(&text).unwrap())
}

/// A core with the objects of a list, each at the revision that it has there.
fn rig_with(resource: &str, list: &Value) -> Rig {
    let mut rig = Rig::with(CoreOptions { lenient_namespaces: false, ..CoreOptions::default() });
    let mut items: Vec<&Value> = list["items"].as_array().unwrap().iter().collect();
    let revision =
        |item: &Value| item["metadata"]["resourceVersion"].as_str().unwrap().parse::<u64>().unwrap();
    items.sort_by_key(|item| revision(item));
    for namespace in ["default", "bench-00", "semantics"] {
        // Some may be there already.
        let _ = rig.core.create("namespaces", json!({"metadata": {"name": namespace}}));
    }
    for item in items {
        rig.core.advance_revision_to(revision(item) - 1);
        let stored = rig.core.create(resource, item.clone()).unwrap();
        assert_eq!(stored.revision, revision(item), "{}", stored.name);
    }
    rig.core.advance_revision_to(revision(list));
    rig
}

fn fields(document: &[u8]) -> Vec<(u32, &[u8])> {
    let envelope = Envelope::parse(document).unwrap();
    let fields = Fields::new(envelope.raw).map(Result::unwrap);
    fields.map(|field| (field.number, &envelope.raw[field.range])).collect()
}

/// The frames of a watch, each with its length.
fn frames(mut stream: &[u8]) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    while let Some((length, rest)) = stream.split_first_chunk::<4>() {
        let length = u32::from_be_bytes(*length) as usize;
        let (_, after) = rest.split_at(length);
        frames.push(stream[..4 + length].to_vec());
        stream = after;
    }
    assert!(stream.is_empty());
    frames
}

/// The type and the document of an event.
fn event(frame: &[u8]) -> (String, Vec<u8>) {
    let mut event = (String::new(), Vec::new());
    for field in Fields::new(&frame[4..]) {
        match field.map(|field| (field.number, field.value)).unwrap() {
            (1, WireValue::Bytes(kind)) => event.0 = String::from_utf8(kind.to_vec()).unwrap(),
            (2, WireValue::Bytes(raw)) => match Fields::new(raw).next().unwrap().unwrap().value {
                WireValue::Bytes(document) => event.1 = document.to_vec(),
                other => panic!("{other:?}"),
            },
            other => panic!("{other:?}"),
        }
    }
    event
}

fn value(document: &[u8]) -> Value {
    let envelope = Envelope::parse(document).unwrap();
    let kind = Kind::find(envelope.api_version, envelope.kind).unwrap();
    let mut json = Vec::new();
    to_json(kind, envelope.raw, &mut json).unwrap();
    serde_json::from_slice(&json).unwrap()
}

#[test]
fn lists_agree_to_the_byte() {
    for (resource, path) in [
        ("services", "/api/v1/services"),
        ("clusterroles", "/apis/rbac.authorization.k8s.io/v1/clusterroles"),
    ] {
        let Some(list) = recorded_json(&format!("corpus/{resource}.json")) else { return };
        let recorded = shared(&format!("corpus/{resource}.pb")).unwrap();
        let answer = rig_with(resource, &list).get_as(path, PROTOBUF);
        assert_eq!(answer.headers["content-type"], PROTOBUF);
        assert!(answer.chunks.concat() == recorded, "{resource}");
    }
}

#[test]
fn lists_without_items_agree_to_the_byte() {
    for (name, accept) in [("list-cm-empty-pb", PROTOBUF), ("list-cm-pom-empty-pb", METADATA_LIST)] {
        let Some(recorded) = shared(&format!("recordings/{name}.body.pb")) else { return };
        let mut rig = rig_with("configmaps", &json!({"items": [], "metadata": value(&recorded)["metadata"]}));
        let answer = rig.get_as("/api/v1/namespaces/semantics/configmaps?labelSelector=none%3Dx", accept);
        assert_eq!(Bytes::from(answer.chunks.concat()), Bytes::from(recorded), "{name}");
    }
}

#[test]
fn answers_about_one_object_agree_to_the_byte() {
    let Some(recorded) = shared("recordings/get-cm-pb.body.pb") else { return };
    let object = value(&recorded);
    let list = json!({"items": [object], "metadata": object["metadata"]});
    let path = "/api/v1/namespaces/semantics/configmaps/cm-01";
    let answer = rig_with("configmaps", &list).get_as(path, PROTOBUF);
    assert_eq!(answer.headers["content-type"], PROTOBUF);
    assert_eq!(Bytes::from(answer.chunks.concat()), Bytes::from(recorded));

    let recorded = value(&shared("recordings/create-cm-pb-response.body.pb").unwrap());
    let request = Request::post("/api/v1/namespaces/semantics/configmaps?dryRun=All");
    let request = request.header("content-type", "application/json").header("accept", PROTOBUF);
    let body = Bytes::from_static(br#"{"metadata":{"name":"z"}}"#);
    let mut answered =
        value(&rig_with("configmaps", &list).complete(request.body(body).unwrap()).chunks.concat());
    // What the server makes up.
    for name in ["uid", "creationTimestamp"] {
        assert!(answered["metadata"][name].is_string());
        answered["metadata"][name] = recorded["metadata"][name].clone();
    }
    assert_eq!(answered, recorded);
}

#[test]
fn a_list_of_many_chunks_agrees_to_the_byte() {
    let Some(list) = recorded_json("corpus/pods-200.json") else { return };
    let recorded = shared("corpus/pods-200.pb").unwrap();
    let mut rig = rig_with("pods", &list);
    // The second list knows the lengths already.
    for _ in 0..2 {
        let answer = rig.get_as("/api/v1/pods", PROTOBUF);
        assert!(answer.chunks.len() > 10 && answer.chunks.iter().all(|chunk| chunk.len() < 256 * 1024));
        let body = answer.chunks.concat();
        let (ours, theirs) = (fields(&body), fields(&recorded));
        assert_eq!(ours.len(), 201);
        // The recorded one is a page, with a token before its items.
        for (ours, theirs) in ours.iter().zip(&theirs).skip(1) {
            assert!(ours == theirs, "{:?}", String::from_utf8_lossy(ours.1));
        }
    }
}

#[test]
fn metadata_of_custom_resources_agrees_to_the_byte() {
    let Some(list) = recorded_json("corpus/gadgets-60.json") else { return };
    let recorded = shared("corpus/gadgets-60-metadata.pb").unwrap();
    let mut rig = Rig::new();
    rig.core.register(&CustomResource {
        group: "example.com".into(),
        version: "v1".into(),
        kind: "Gadget".into(),
        plural: "gadgets".into(),
        namespaced: true,
        ..CustomResource::default()
    });
    let _ = rig.core.create("namespaces", json!({"metadata": {"name": "bench-00"}}));
    for item in list["items"].as_array().unwrap() {
        let revision: u64 = item["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap();
        rig.core.advance_revision_to(revision - 1);
        rig.core.create("gadgets", item.clone()).unwrap();
    }
    let path = "/apis/example.com/v1/gadgets";
    let body = rig.get_as(path, METADATA_LIST).chunks.concat();
    assert!(body == recorded, "{}", String::from_utf8_lossy(&body));
    // The same objects one by one, and as a stream.
    let watch = rig.get_as(&format!("{path}?{INITIAL}"), METADATA);
    assert_eq!(watch.headers["content-type"], "application/vnd.kubernetes.protobuf;stream=watch");
    let frames = frames(&watch.chunks.concat());
    let items: Vec<_> = fields(&recorded).into_iter().filter(|(number, _)| *number == 2).collect();
    assert_eq!(frames.len(), items.len() + 1);
    let (kind, bookmark) = event(frames.last().unwrap());
    assert_eq!(kind, "BOOKMARK");
    assert_eq!(value(&bookmark)["metadata"]["annotations"]["k8s.io/initial-events-end"], "true");
    // There is no other protobuf of them.
    assert_eq!(rig.get_as(path, PROTOBUF).code, 406);
    assert_eq!(
        rig.get_as(path, &format!("{PROTOBUF},application/json")).headers["content-type"],
        "application/json"
    );
}

#[test]
fn watches_agree_to_the_byte() {
    let Some(list) = recorded_json("recordings/list-pods-json.body.json") else { return };
    let recorded = shared("recordings/watchlist-pods-pb.body.pbseq").unwrap();
    let mut rig = rig_with("pods", &list);
    let path = format!("/api/v1/namespaces/semantics/pods?{INITIAL}");
    let ours = frames(&rig.get_as(&path, PROTOBUF).chunks.concat());
    let theirs = frames(&recorded);
    assert_eq!(ours.len(), theirs.len());
    for (ours, theirs) in ours.iter().zip(&theirs) {
        assert_eq!(event(ours).0, event(theirs).0);
        let (mut ours, mut theirs) = (value(&event(ours).1), value(&event(theirs).1));
        // The bookmark's revision is the server's own.
        if ours["metadata"]["annotations"]["k8s.io/initial-events-end"] == "true" {
            ours["metadata"]["resourceVersion"] = json!("");
            theirs["metadata"]["resourceVersion"] = json!("");
        }
        assert_eq!(ours, theirs);
    }
    assert!(ours[0] == theirs[0]);
}

#[test]
fn changes_are_frames_whose_bytes_are_shared() {
    let mut rig = Rig::with_maps(&["a"]);
    let path = "/api/v1/namespaces/ns/configmaps?watch=true&timeoutSeconds=9";
    let open = |rig: &mut Rig, accept: &str| {
        let request = Request::get(path).header("accept", accept).body(Bytes::new()).unwrap();
        let id = rig.open(request);
        while !matches!(rig.core.poll(id, rig.now), Step::Wait { .. }) {}
        id
    };
    let (one, two) = (open(&mut rig, PROTOBUF), open(&mut rig, PROTOBUF));
    let (metadata, plain) = (open(&mut rig, METADATA), open(&mut rig, "application/json"));
    let revision = rig.change("a", json!({}), "2");
    let dropped = rig.drop_map("a");
    let mut next = |id| match rig.core.poll(id, rig.now) {
        Step::Data(data) => data,
        other => panic!("{other:?}"),
    };
    let (first, second) = (next(one), next(two));
    assert_eq!(first.as_ptr(), second.as_ptr());
    let (kind, document) = event(&first);
    assert_eq!(kind, "MODIFIED");
    assert_eq!(value(&document)["data"], json!({"k": "2"}));
    assert_eq!(value(&document)["metadata"]["resourceVersion"], revision.to_string());
    let (_, document) = event(&next(metadata));
    assert_eq!(value(&document)["kind"], "PartialObjectMetadata");
    assert_eq!(value(&document)["data"], Value::Null);
    assert!(next(plain).starts_with(b"{\"type\":\"MODIFIED\""));
    // A deletion shows its own revision.
    let (kind, document) = event(&next(one));
    assert_eq!(kind, "DELETED");
    assert_eq!(value(&document)["metadata"]["resourceVersion"], dropped.to_string());
}

#[test]
fn the_last_word_of_a_watch_is_a_status() {
    let mut rig = Rig::with_maps(&["a", "b"]);
    rig.core.advance_revision_to(50);
    rig.core.compact_unnoticed(40);
    rig.core.restart(rig.now);
    let answer = rig.get_as("/api/v1/configmaps?watch=true&resourceVersion=1", PROTOBUF);
    let frames = frames(&answer.chunks.concat());
    let (kind, document) = event(&frames[0]);
    assert_eq!(kind, "ERROR");
    let status = value(&document);
    assert_eq!((&status["kind"], &status["code"]), (&json!("Status"), &json!(410)));
}

#[test]
fn writes_take_and_answer_protobuf() {
    let mut rig = Rig::new();
    let kind = Kind::find("v1", "ConfigMap").unwrap();
    let path = "/api/v1/namespaces/ns/configmaps";
    let mut send = |method: &str, path: &str, body: Vec<u8>| {
        let request = Request::builder().method(method).uri(path);
        let request =
            request.header("content-type", PROTOBUF).header("accept", format!("{PROTOBUF},application/json"));
        rig.complete(request.body(body.into()).unwrap())
    };
    let document = |data: &str| {
        let json = json!({"metadata": {"name": "a"}, "data": {"k": data}}).to_string();
        envelope(kind, &from_json(kind, json.as_bytes()).unwrap())
    };
    let created = send("POST", path, document("1"));
    assert_eq!(created.code, 201, "{created:?}");
    let created = value(&created.chunks.concat());
    assert_eq!((&created["data"]["k"], &created["metadata"]["namespace"]), (&json!("1"), &json!("ns")));
    assert!(created["metadata"]["creationTimestamp"].is_string(), "{created}");
    let updated = send("PUT", &format!("{path}/a"), document("2"));
    assert_eq!(updated.code, 200, "{updated:?}");
    assert_eq!(value(&updated.chunks.concat())["data"]["k"], "2");
    let again = send("POST", path, document("1"));
    assert_eq!((again.code, &value(&again.chunks.concat())["reason"]), (409, &json!("AlreadyExists")));
    for broken in [&b"{}"[..], b"k8s\0\x0a\xff", b"k8s\0\x0a\x0d\x0a\x02v1\x12\x07Nothing", b""] {
        assert_eq!(send("POST", path, broken.to_vec()).code, 400, "{broken:?}");
    }
    // Options with preconditions: another uid, and then no more than a grace period.
    let other = b"k8s\0\x0a\x13\x0a\x02v1\x12\x0dDeleteOptions\x12\x07\x12\x05\x0a\x03abc";
    let kept = send("DELETE", &format!("{path}/a"), other.to_vec());
    assert_eq!(kept.code, 409, "{kept:?}");
    let zero = b"k8s\0\x0a\x13\x0a\x02v1\x12\x0dDeleteOptions\x12\x02\x08\x00";
    let gone = send("DELETE", &format!("{path}/a"), zero.to_vec());
    assert_eq!(value(&gone.chunks.concat())["status"], "Success");
}
