//! Watch streams.

use reflector::wire::{EventType, Limits, TypeMeta, WatchCutter, WatchEvent, WireError};
use serde::de::IgnoredAny;

use crate::common::{EVENTS, Shown, every_cut, watch, watch_chunks};

/// The events of a body, uncut.
fn events(body: &str) -> Vec<WatchEvent<IgnoredAny>> {
    let mut cutter = WatchCutter::new(None, Limits::default());
    let mut events = Vec::new();
    cutter.push(body.as_bytes(), &mut events).unwrap();
    cutter.finish().unwrap();
    events
}

#[test]
fn events_come_with_their_objects() {
    let events = events(EVENTS);
    let [WatchEvent::Added(a), WatchEvent::Modified(m), WatchEvent::Deleted(d), bookmark] = &events[..]
    else {
        panic!("{events:?}");
    };
    let line = EVENTS.lines().next().unwrap();
    let source = line.strip_prefix(r#"{"type":"ADDED","object":"#).unwrap().strip_suffix('}').unwrap();
    assert_eq!(a.json().unwrap(), source.as_bytes());
    assert_eq!([a, m, d].map(|o| o.version().unwrap().to_string()), ["10", "11", "12"]);
    let WatchEvent::Bookmark { version: Some(version), initial_events_end: true } = bookmark else {
        panic!()
    };
    assert_eq!(version.to_string(), "13");
}

#[test]
fn f45_cuts_mean_nothing() {
    let whole = watch(EVENTS);
    every_cut(EVENTS.as_bytes(), |chunks| {
        assert_eq!(watch_chunks(chunks.iter().copied(), Limits::default()), whole);
    });
}

#[test]
fn j74_cut_off_at_every_byte_nothing_is_lost_and_nothing_doubled() {
    let three: String = EVENTS.lines().take(3).flat_map(|line| [line, "\n"]).collect();
    let (all, _) = watch(&three);
    let ends: Vec<usize> = three.match_indices('\n').map(|(at, _)| at).collect();
    for end in 0..=three.len() {
        let complete = ends.iter().filter(|&&e| e <= end).count();
        every_cut(&three.as_bytes()[..end.min(200)], |_| {});
        for chunk in [1, 7, three.len()] {
            let (events, result) = watch_chunks(three.as_bytes()[..end].chunks(chunk), Limits::default());
            assert_eq!(events, all[..complete], "at {end}");
            let begin = if complete == 0 { 0 } else { ends[complete - 1] + 1 };
            if end <= begin {
                assert_eq!(result, Ok(()), "at {end}");
            } else {
                let pending = (end - begin) as u64;
                let expected = WireError::Truncated { offset: end as u64, pending, what: "watch event" };
                assert_eq!(result, Err(expected), "at {end}");
            }
        }
    }
}

#[test]
fn newlines_mean_nothing() {
    let (whole, _) = watch(EVENTS);
    let joined: String = EVENTS.lines().collect();
    let spread = EVENTS.replace(",\"", " ,\r\n\t\"").replace('\n', "\n\n  ");
    assert_eq!(watch(&joined).0, whole);
    let (events, end) = watch(&spread);
    assert_eq!((events.len(), end), (4, Ok(())));
    let pretty: String = EVENTS
        .lines()
        .map(|line| {
            serde_json::to_string_pretty(&serde_json::from_str::<serde_json::Value>(line).unwrap()).unwrap()
        })
        .collect();
    assert_eq!(watch(&pretty).0.len(), 4);
}

#[test]
fn the_object_may_come_first() {
    let body =
        r#"{"object":{"metadata":{"name":"x","resourceVersion":"4"}},"other":[{"type":1}],"type":"ADDED"}"#;
    every_cut(body.as_bytes(), |chunks| {
        let (events, _) = watch_chunks(chunks.iter().copied(), Limits::default());
        let json = r#"{"metadata":{"name":"x","resourceVersion":"4"}}"#;
        assert_eq!(events, [Shown::Object("ADDED", "x".into(), "4".into(), json.into())]);
    });
}

#[test]
fn missing_types_are_filled_in_when_known() {
    let types = TypeMeta::new("v1", "Pod");
    let mut cutter = WatchCutter::<IgnoredAny>::new(Some(types), Limits::default());
    let mut events = Vec::new();
    cutter.push(br#"{"type":"ADDED","object":{"metadata":{"name":"x"}}}"#, &mut events).unwrap();
    let [WatchEvent::Added(object)] = &events[..] else { panic!() };
    assert_eq!(&object.json().unwrap()[..], br#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"x"}}"#);
}

#[test]
fn k3_f43_a_bad_object_is_its_own_error_and_tells_its_version() {
    let body = r#"{"type":"MODIFIED","object":{"metadata":{"name":"x","resourceVersion":"7","labels":[]}}}
{"type":"ADDED","object":{"metadata":{"name":"y"}}}
{"type":"DELETED","object":null}{"type":"DELETED"}{"type":5,"object":{}}"#;
    let events = events(body);
    let [
        WatchEvent::Invalid(bad),
        WatchEvent::Added(_),
        WatchEvent::Invalid(null),
        WatchEvent::Invalid(none),
        WatchEvent::Invalid(odd),
    ] = &events[..]
    else {
        panic!("{events:?}")
    };
    assert_eq!(
        bad.to_string(),
        "x (MODIFIED): `metadata.labels`: expected an object, found an array (59 bytes at byte 28)"
    );
    assert_eq!(bad.version.as_ref().unwrap().to_string(), "7");
    assert_eq!(null.event, Some(EventType::Deleted));
    assert_eq!(null.reason, "expected an object, found null");
    assert_eq!(none.reason, "the event has no object");
    assert_eq!((&*odd.path, odd.event), ("type", None));
}

#[test]
fn k3_a_body_that_does_not_fit_keeps_its_place_in_the_stream() {
    #[derive(serde::Deserialize)]
    struct Typed {
        #[allow(dead_code)]
        spec: u32,
    }
    let body = r#"{"type":"MODIFIED","object":{"metadata":{"name":"x","resourceVersion":"7"},"spec":"no"}}
{"type":"MODIFIED","object":{"metadata":{"name":"y","resourceVersion":"8"},"spec":1}}"#;
    let mut cutter = WatchCutter::<Typed>::new(None, Limits::default());
    let mut events = Vec::new();
    cutter.push(body.as_bytes(), &mut events).unwrap();
    let [WatchEvent::Modified(x), WatchEvent::Modified(y)] = &events[..] else { panic!() };
    let error = x.get().err().unwrap();
    assert_eq!((error.key.name(), &*error.path), ("x", "spec"));
    assert!(y.get().is_ok());
}

#[test]
fn bookmarks_of_any_kind() {
    for (object, version, end) in [
        (
            r#"{"kind":"Pod","metadata":{"resourceVersion":"5"},"spec":{"containers":null},"status":{}}"#,
            Some("5"),
            false,
        ),
        (r#"{"metadata":{"resourceVersion":""}}"#, None, false),
        (r#"{"metadata":null}"#, None, false),
        ("null", None, false),
        (r#"{"metadata":{"annotations":{"k8s.io/initial-events-end":"false"}}}"#, None, false),
        (r#"{"metadata":{"annotations":{"k8s.io/initial-events-end":true}}}"#, None, false),
        (r#"{"metadata":{"annotations":{"k8s.io/initial\u002devents-end":"tru\u0065"}}}"#, None, true),
        (r#"{"metadata":{"annotations":["k8s.io/initial-events-end"]}}"#, None, false),
    ] {
        let events = events(&format!(r#"{{"type":"BOOKMARK","object":{object}}}"#));
        let [WatchEvent::Bookmark { version: v, initial_events_end }] = &events[..] else {
            panic!("{events:?}")
        };
        assert_eq!(
            (v.as_ref().map(ToString::to_string).as_deref(), *initial_events_end),
            (version, end),
            "{object}"
        );
    }
    let events = events(r#"{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":5}}}"#);
    assert!(matches!(&events[..], [WatchEvent::Invalid(i)] if i.event == Some(EventType::Bookmark)));
}

#[test]
fn errors_and_unknown_types() {
    let gone = r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"too old resource version: 1 (9)","reason":"Expired","code":410}"#;
    // With an event around it, and without.
    for body in [format!(r#"{{"type":"ERROR","object":{gone}}}"#), gone.to_owned()] {
        let events = events(&body);
        let [WatchEvent::Error(status)] = &events[..] else { panic!("{events:?}") };
        assert_eq!(status.to_string(), "410 Expired: too old resource version: 1 (9)");
        assert!(status.is_status_object);
    }
    for body in
        [r#"{"type":"ERROR"}"#, r#"{"type":"ERROR","object":null}"#, r#"{"type":"ERROR","object":"a\nb"}"#]
    {
        let events = events(body);
        assert!(
            matches!(&events[..], [WatchEvent::Error(s)] if !s.is_status_object && !s.message.is_empty())
        );
    }
    let events = events(&format!(r#"{{"type":"{}","object":[1]}}"#, "NEW ".repeat(50)));
    assert!(
        matches!(&events[..], [WatchEvent::Unknown(t)] if t.starts_with("NEW NEW") && t.chars().count() <= 64 && t.ends_with('…'))
    );
}

#[test]
fn f44_what_is_not_a_stream_is_one_clear_error() {
    for (body, message) in [
        ("404 page not found\n", "malformed JSON at byte 0: expected `{`, found `4`"),
        ("<html><body>", "malformed JSON at byte 0: expected `{`, found `<`"),
        (r#"{"kind":"PodList","items":[]}"#, "expected a watch event at byte 0, found kind PodList"),
        (
            r#"{"message":"no\nroute"}"#,
            "expected a watch event at byte 0, found an object without a kind: no route",
        ),
        (r#"{"type":"ADDED" "object":{}}"#, "malformed JSON at byte 16: expected `,` or `}`, found `\"`"),
    ] {
        every_cut(body.as_bytes(), |chunks| {
            let (events, result) = watch_chunks(chunks.iter().copied(), Limits::default());
            assert_eq!((events.len(), result.unwrap_err().to_string()), (0, message.to_owned()));
        });
    }
    // A pretty Status of many lines is one error, not one per line.
    let pretty = "{\n  \"kind\": \"Status\",\n  \"message\": \"pods is forbidden\",\n  \"reason\": \"Forbidden\",\n  \"code\": 403\n}";
    let events = events(pretty);
    assert!(matches!(&events[..], [WatchEvent::Error(s)] if s.code == 403 && s.reason == "Forbidden"));
}

#[test]
fn f45_an_object_of_two_mib_passes() {
    let data = "x\\n".repeat(700_000);
    let object =
        format!(r#"{{"kind":"Secret","apiVersion":"v1","metadata":{{"name":"big"}},"data":"{data}"}}"#);
    let body = format!("{{\"type\":\"ADDED\",\"object\":{object}}}\n").repeat(2);
    for chunk in [1, 4096, 65_537, body.len()] {
        let (events, end) = watch_chunks(body.as_bytes().chunks(chunk), Limits::default());
        assert_eq!((events.len(), end), (2, Ok(())));
        assert!(events.iter().all(|event| event.json() == object));
    }
}

#[test]
fn limits_say_what_was_too_large() {
    let body =
        format!(r#"{{"type":"ADDED","object":{{"metadata":{{"name":"x"}},"d":"{}"}}}}"#, "y".repeat(2000));
    every_cut(body.as_bytes(), |chunks| {
        let (events, end) = watch_chunks(chunks.iter().copied(), Limits::default().object_bytes_max(2000));
        let message = "an object at byte 25 is larger than the limit of 2000 bytes (object_bytes_max)";
        assert_eq!((events.len(), end.unwrap_err().to_string()), (0, message.to_owned()));
        let limits = Limits::default().object_bytes_max(1000).envelope_bytes_max(100);
        let (_, end) = watch_chunks(chunks.iter().copied(), limits);
        assert!(matches!(end, Err(WireError::TooLarge { .. })), "{end:?}");
    });
    let bomb = format!(r#"{{"type":"ADDED","object":{}"#, r#"{"a":"#.repeat(20_000));
    assert!(matches!(watch(bomb).1, Err(WireError::TooDeep { limit: 10_000, .. })));
}

/// Where nothing can be said of an object, its event can be found by its place.
#[test]
fn an_event_without_an_object_is_told_with_its_place() {
    let first = r#"{"type":"SOMETHING","object":{}}"#;
    for second in [r#"{"type":"DELETED"}"#, r#"{"type":7}"#] {
        let events = events(&format!("{first}\n{second}"));
        let [_, WatchEvent::Invalid(invalid)] = &events[..] else { panic!("{second}: {events:?}") };
        assert_eq!((invalid.offset as usize, invalid.bytes), (first.len() + 1, 0), "{second}");
    }
}
