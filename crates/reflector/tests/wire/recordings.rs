//! What a real kube-apiserver 1.36 sent, cut in every way and compared with serde_json.

use std::{
    fs,
    io::Read,
    path::{Path, PathBuf},
};

use reflector::{
    Object,
    wire::{Inflate, Limits, Status, WireError},
};
use serde::{Deserialize, de::IgnoredAny};
use serde_json::{Value, value::RawValue};

use crate::common::{Shown, every_cut, list, list_chunks, shared, watch, watch_chunks};

/// A recorded exchange, as the folder's index tells it.
struct Exchange {
    status: u16,
    content_type: Option<String>,
    body: PathBuf,
}

fn recordings() -> Vec<Exchange> {
    let Some(folder) = shared("recordings") else { return Vec::new() };
    let index: Value = serde_json::from_slice(&fs::read(folder.join("index.json")).unwrap()).unwrap();
    let exchange = |entry: &Value| {
        let header =
            |pair: &&Value| pair[0].as_str().is_some_and(|name| name.eq_ignore_ascii_case("content-type"));
        Some(Exchange {
            status: entry["status"].as_str()?.split(' ').nth(1)?.parse().ok()?,
            content_type: entry["resheaders"]
                .as_array()?
                .iter()
                .find(header)
                .and_then(|p| Some(p[1].as_str()?.into())),
            body: folder.join(entry["bodyfile"].as_str()?),
        })
    };
    index.as_object().unwrap().values().filter_map(exchange).collect()
}

fn named(path: &Path, end: &str) -> bool {
    path.to_string_lossy().ends_with(end)
}

#[derive(Deserialize)]
struct RawList<'a> {
    #[serde(borrow)]
    items: Option<Vec<&'a RawValue>>,
}

/// Every item is there, byte by byte but for the types in front; its header is what serde_json reads.
fn check_list(name: &Path, body: &[u8]) {
    let whole = list(body);
    let meta = whole.1.as_ref().unwrap_or_else(|error| panic!("{}: {error}", name.display()));
    let value: Value = serde_json::from_slice(body).unwrap();
    let raw: RawList<'_> = serde_json::from_slice(body).unwrap();
    let text = |value: &Value| value.as_str().filter(|text| !text.is_empty()).map(str::to_owned);
    assert_eq!(meta.version.as_ref().map(ToString::to_string), text(&value["metadata"]["resourceVersion"]));
    assert_eq!(meta.continue_token, text(&value["metadata"]["continue"]));
    assert_eq!(meta.remaining, value["metadata"]["remainingItemCount"].as_u64());
    assert_eq!(meta.shard_selector, text(&value["metadata"]["shardInfo"]["selector"]));
    let raws = raw.items.unwrap_or_default();
    assert_eq!(raws.len(), whole.0.len());
    for (raw, cut) in raws.iter().zip(&whole.0) {
        let source: Value = serde_json::from_str(raw.get()).unwrap();
        let object = Object::<Value>::from_json(cut.json()).unwrap();
        let read = object.get().unwrap();
        let list_kind = value["kind"].as_str().unwrap();
        if source["kind"].is_string() {
            assert_eq!(cut.json(), raw.get());
        } else {
            assert_eq!(list_kind.strip_suffix("List"), read["kind"].as_str());
            assert_eq!(value["apiVersion"], read["apiVersion"]);
            assert!(cut.json().ends_with(&raw.get()[1..]));
        }
        let member = |name: &str| source["metadata"][name].as_str();
        assert_eq!(object.uid(), member("uid").unwrap_or_default());
        assert_eq!((object.namespace(), Some(object.name())), (member("namespace"), member("name")));
        let labels = source["metadata"]["labels"].as_object().cloned().unwrap_or_default();
        assert_eq!(object.labels().len(), labels.len());
        assert!(object.labels().iter().all(|(name, value)| labels[name] == value));
    }
    every_cut(body, |chunks| {
        let cut = list_chunks(chunks.iter().copied(), None, Limits::default());
        assert!(cut == whole, "{}: cut otherwise", name.display());
    });
}

#[derive(Deserialize)]
struct RawEvent<'a> {
    r#type: &'a str,
    #[serde(borrow)]
    object: &'a RawValue,
}

fn check_watch(name: &Path, body: &[u8]) {
    let whole = watch(body);
    let all: Result<Vec<()>, _> =
        serde_json::Deserializer::from_slice(body).into_iter().map(|v| v.map(|_: IgnoredAny| ())).collect();
    match (&all, &whole.1) {
        (Ok(_), Ok(())) => {}
        // Some recordings end in the middle of an event.
        (Err(error), Err(WireError::Truncated { .. })) if error.is_eof() => {}
        (all, ours) => panic!("{}: {all:?}, {ours:?}", name.display()),
    }
    let events = serde_json::Deserializer::from_slice(body).into_iter::<RawEvent<'_>>();
    let events: Vec<_> = events.map_while(Result::ok).collect();
    assert_eq!(events.len(), whole.0.len());
    for (event, cut) in events.iter().zip(&whole.0) {
        let object: Value = serde_json::from_str(event.object.get()).unwrap();
        let version = object["metadata"]["resourceVersion"].as_str().unwrap_or_default();
        match (event.r#type, cut) {
            ("BOOKMARK", Shown::Other(shown)) => {
                let end = object["metadata"]["annotations"]["k8s.io/initial-events-end"] == "true";
                let expected = format!("Bookmark {{ version: Some({version}), initial_events_end: {end} }}");
                assert_eq!(*shown, expected);
            }
            ("ERROR", Shown::Other(shown)) => assert!(shown.contains("is_status_object: true"), "{shown}"),
            (_, Shown::Object(kind, _, cut_version, json)) => {
                assert_eq!((*kind, &**json, &**cut_version), (event.r#type, event.object.get(), version));
            }
            // A Table has no name: whoever watches Tables has every event told as invalid.
            (_, Shown::Invalid(invalid)) => {
                assert_eq!(object["kind"], "Table", "{invalid}");
                assert_eq!(invalid.path, "metadata.name");
            }
            (_, other) => panic!("{}: {other:?}", name.display()),
        }
    }
    every_cut(body, |chunks| {
        assert!(
            watch_chunks(chunks.iter().copied(), Limits::default()) == whole,
            "{}: cut otherwise",
            name.display()
        );
    });
}

#[test]
fn f45_recorded_lists() {
    for Exchange { body: name, .. } in
        recordings().iter().filter(|e| e.status == 200 && named(&e.body, ".json"))
    {
        let body = fs::read(name).unwrap();
        let value: Value = serde_json::from_slice(&body).unwrap();
        if value.get("items").is_some() {
            check_list(name, &body);
        } else {
            // A Table, one object, or what discovery answers.
            let kind = value["kind"].as_str().unwrap_or_default();
            let result = list(&body).1;
            let refused = matches!(&result, Err(WireError::NotAList { kind: k, .. }) if k == kind);
            assert!(refused || kind == "APIResourceList", "{}: {result:?}", name.display());
        }
    }
}

#[test]
fn f45_recorded_watches() {
    for Exchange { body: name, .. } in
        recordings().iter().filter(|e| e.status == 200 && named(&e.body, ".jsonl"))
    {
        let body = fs::read(name).unwrap();
        let first = serde_json::Deserializer::from_slice(&body).into_iter::<Value>().next();
        if first.is_some_and(|value| value.is_ok_and(|value| value.get("type").is_none())) {
            // The server took it for something else than a watch.
            assert!(
                matches!(watch(&body).1, Err(WireError::NotAnEvent { offset: 0, .. })),
                "{}",
                name.display()
            );
            continue;
        }
        check_watch(name, &body);
    }
}

#[test]
fn f44_recorded_errors() {
    for Exchange { status: code, content_type, body: name } in recordings().iter().filter(|e| e.status >= 400)
    {
        let body = fs::read(name).unwrap();
        let status = Status::from_body(*code, content_type.as_deref(), &body);
        assert_eq!(status.code, *code, "{}", name.display());
        assert!(!status.message.is_empty() && status.message.chars().count() <= 1024, "{}", name.display());
        match serde_json::from_slice::<Value>(&body) {
            Ok(value) => {
                assert!(status.is_status_object, "{}", name.display());
                assert_eq!(status.reason, value["reason"].as_str().unwrap_or_default());
                assert_eq!(status.continue_token.as_deref(), value["metadata"]["continue"].as_str());
                let seconds = value["details"]["retryAfterSeconds"].as_u64();
                assert_eq!(status.details.retry_after_seconds.map(u64::from), seconds);
                let causes = value["details"]["causes"].as_array().map_or(0, Vec::len);
                assert_eq!(status.details.causes.len(), causes);
            }
            Err(_) => assert_eq!(status.is_status_object, body.starts_with(b"k8s\0"), "{}", name.display()),
        }
    }
}

#[test]
fn c25_recorded_gzip_bodies() {
    for Exchange { body: name, .. } in recordings().iter().filter(|e| named(&e.body, ".gz")) {
        let packed = fs::read(name).unwrap();
        let mut plain = Vec::new();
        flate2::read::MultiGzDecoder::new(&packed[..]).read_to_end(&mut plain).unwrap();
        for size in [1, 1000, packed.len()] {
            let (mut inflate, mut got) = (Inflate::new(), Vec::new());
            for chunk in packed.chunks(size) {
                let take = |slice: &[u8]| {
                    got.extend_from_slice(slice);
                    Ok::<(), WireError>(())
                };
                inflate.push(chunk, take).unwrap();
            }
            inflate.finish().unwrap();
            assert!(got == plain, "{}", name.display());
        }
        if named(name, ".json.gz") {
            check_list(name, &plain);
        }
    }
}

#[test]
fn f45_corpus() {
    let Some(folder) = shared("corpus") else { return };
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if named(&path, ".json") {
            check_list(&path, &fs::read(&path).unwrap());
        } else if named(&path, ".jsonl") {
            check_watch(&path, &fs::read(&path).unwrap());
        }
    }
}
