//! Random documents in random chunks: what comes out is what serde_json reads from the whole.

use proptest::{collection::vec, prelude::*, sample::Index};
use reflector::{
    Object,
    wire::{Inflate, Limits, Status, WireError},
};
use serde_json::{Map, Value, json};

use crate::common::{Shown, list, list_chunks, watch, watch_chunks};

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,12}".prop_map(Value::from),
        "[\\\\\"{}\\[\\],:\u{0}-\u{1f}a-c]{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::from),
            vec((name(), inner), 0..4)
                .prop_map(|members| Value::from(members.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

/// Names that mean something somewhere, among others.
fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        "(metadata|name|kind|apiVersion|items|object|type|labels|resourceVersion)".prop_map(String::from),
        ".{0,6}".prop_map(String::from),
    ]
}

/// An object with a name, and anything else.
fn object() -> impl Strategy<Value = Value> {
    (".{1,8}", vec((name(), value()), 0..4), vec(("[a-z]{1,3}", ".{0,3}"), 0..3), any::<bool>()).prop_map(
        |(object_name, extra, labels, typed)| {
            let mut object: Map<String, Value> = extra.into_iter().collect();
            let labels: Map<String, Value> = labels.into_iter().map(|(n, v)| (n, v.into())).collect();
            object.insert(
                "metadata".into(),
                json!({"name": object_name, "labels": labels, "zzz": [{"name": 5}]}),
            );
            if typed {
                object.insert("kind".into(), "K".into());
                object.insert("apiVersion".into(), "v1".into());
            }
            object.into()
        },
    )
}

/// What serde_json reads of its own text: of some numbers it is not the number that was written.
fn reread(value: &Value) -> Value {
    serde_json::from_str(&value.to_string()).unwrap()
}

fn text(value: &Value, pretty: bool) -> String {
    if pretty { serde_json::to_string_pretty(value) } else { serde_json::to_string(value) }.unwrap()
}

fn chunks<'a>(mut body: &'a [u8], cuts: &[Index]) -> Vec<&'a [u8]> {
    let mut chunks = Vec::new();
    for cut in cuts {
        let (chunk, rest) = body.split_at(cut.index(body.len() + 1));
        chunks.push(chunk);
        body = rest;
    }
    chunks.push(body);
    chunks
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn lists_yield_what_serde_json_reads(
        items in vec(object(), 0..5),
        extra in vec(("[a-h]{3,6}", value()), 0..3),
        (items_first, pretty) in any::<(bool, bool)>(),
        cuts in vec(any::<Index>(), 0..12),
    ) {
        // Assembled by hand, since a map would sort the members.
        let items_text = format!("\"items\":{}", text(&json!(items), pretty));
        let head = r#""kind":"KList","apiVersion":"v1","metadata":{"resourceVersion":"7"}"#.to_owned();
        let mut members: Vec<String> =
            extra.iter().map(|(n, v)| format!("\"{n}\" : {}", text(v, pretty))).collect();
        members.extend(if items_first { [items_text, head] } else { [head, items_text] });
        let body = format!("{{{}}}\n", members.join(","));
        let (cut, meta) = list_chunks(chunks(body.as_bytes(), &cuts), None, Limits::default());
        prop_assert_eq!(meta.unwrap().version.unwrap().to_string(), "7");
        prop_assert_eq!(cut.len(), items.len());
        for (cut, mut item) in cut.iter().zip(items) {
            if !items_first {
                let members = item.as_object_mut().unwrap();
                members.entry("kind").or_insert("K".into());
                members.entry("apiVersion").or_insert("v1".into());
            }
            prop_assert_eq!(serde_json::from_str::<Value>(cut.json()).unwrap(), reread(&item));
            let object = Object::<Value>::from_json(cut.json()).unwrap();
            prop_assert_eq!(object.name(), item["metadata"]["name"].as_str().unwrap());
            let mut labels: Vec<_> =
                item["metadata"]["labels"].as_object().unwrap().iter().map(|(n, v)| (&**n, v.as_str().unwrap())).collect();
            // Whether serde_json's maps are sorted is a matter of its features.
            labels.sort_unstable();
            prop_assert_eq!(object.labels().iter().collect::<Vec<_>>(), labels);
        }
    }

    #[test]
    fn streams_yield_what_serde_json_reads(
        objects in vec((object(), any::<bool>(), "[ \n\r\t]{0,3}"), 0..5),
        pretty in any::<bool>(),
        cuts in vec(any::<Index>(), 0..12),
    ) {
        let body: String = objects.iter().map(|(object, type_first, gap)| {
            let object = format!("\"object\":{}", text(object, pretty));
            let kind = r#""type":"ADDED""#.to_owned();
            let (a, b) = if *type_first { (kind, object) } else { (object, kind) };
            format!("{{{a},{b}}}{gap}")
        }).collect();
        let (events, end) = watch_chunks(chunks(body.as_bytes(), &cuts), Limits::default());
        prop_assert_eq!(end, Ok(()));
        let got: Vec<Value> = events.iter().map(|event| serde_json::from_str(event.json()).unwrap()).collect();
        prop_assert_eq!(got, objects.iter().map(|(object, ..)| reread(object)).collect::<Vec<_>>());
    }

    /// One damaged byte: accepted if and only if serde_json accepts it, and what is given out is still JSON.
    #[test]
    fn the_grammar_is_serde_jsons(items in vec(object(), 1..4), at in any::<Index>(), byte in prop_oneof![
        any::<u8>(), proptest::sample::select(&b"\"\\{}[]:,0-+.eEtfnu \n"[..])
    ]) {
        let mut body = text(&json!({"items": items}), false).into_bytes();
        let at = at.index(body.len());
        body[at] = byte;
        let (cut, meta) = list(&body);
        let utf8 = std::str::from_utf8(&body).is_ok();
        let read = serde_json::from_slice::<serde::de::IgnoredAny>(&body);
        // Of a list whose `items` are no array nothing more is read.
        if utf8 && !matches!(meta, Err(WireError::Envelope { .. })) {
            let structural = !matches!(meta, Err(WireError::Syntax { .. } | WireError::Truncated { .. }));
            prop_assert_eq!(structural, read.is_ok(), "{:?} {:?}", meta, read);
        }
        for item in cut {
            if let Shown::Object(_, _, _, json) = item {
                prop_assert!(serde_json::from_str::<serde::de::IgnoredAny>(&json).is_ok());
            }
        }
    }

    #[test]
    fn garbage_never_panics(
        bytes in prop_oneof![
            vec(any::<u8>(), 0..200),
            vec(proptest::sample::select(&b"{}[]\":,\\u0019-.eE truefalsn\"type\"object\"items\"metadata\""[..]), 0..200),
        ],
        cuts in vec(any::<Index>(), 0..4),
    ) {
        for prefix in [&b""[..], br#"{"items":["#, br#"{"type":"ADDED","object":{"metadata":{"#] {
            let body = [prefix, &bytes].concat();
            let parts = chunks(&body, &cuts);
            prop_assert_eq!(list_chunks(parts.iter().copied(), None, Limits::default()), list(&body));
            prop_assert_eq!(watch_chunks(parts.iter().copied(), Limits::default()), watch(&body));
            let _ = Object::<()>::from_json(&body);
            prop_assert!(!Status::from_body(500, None, &body).message.is_empty());
            prop_assert!(!Status::from_body(500, Some("text/html"), &body).message.is_empty());
            let mut inflate = Inflate::new();
            let _ = inflate.push(&body, |_| Ok::<(), WireError>(()));
            let _ = inflate.push(&[&b"\x1f\x8b\x08\0\0\0\0\0\0\0"[..], &bytes].concat(), |_| Ok::<(), WireError>(()));
            let _ = inflate.finish();
        }
    }
}
