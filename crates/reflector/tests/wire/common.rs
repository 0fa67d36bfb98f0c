//! Cutting in every way, and saying what came out.

use std::{io::Write, path::PathBuf};

use reflector::{
    Object,
    wire::{
        InvalidObject, Limits, ListCutter, ListItem, ListMeta, TypeMeta, WatchCutter, WatchEvent, WireError,
    },
};
use serde::de::IgnoredAny;

/// What came out, in a form that can be compared.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Shown {
    /// Event type (empty in lists), key, version, JSON.
    Object(&'static str, String, String, String),
    Invalid(Box<InvalidObject>),
    Other(String),
}

impl Shown {
    pub(crate) fn json(&self) -> &str {
        match self {
            Self::Object(_, _, _, json) => json,
            other => panic!("not an object: {other:?}"),
        }
    }
}

fn shown(event: &'static str, object: &Object<IgnoredAny>) -> Shown {
    let version = object.version().map(ToString::to_string).unwrap_or_default();
    let json = String::from_utf8(object.json().unwrap().to_vec()).unwrap();
    // Not more than it needs: the allocation is the object's own.
    Shown::Object(event, object.key().to_string(), version, json)
}

pub(crate) type Listed = (Vec<Shown>, Result<ListMeta, WireError>);

/// Cuts a list that comes in these chunks. What came before an error is kept.
pub(crate) fn list_chunks<'a>(
    chunks: impl IntoIterator<Item = &'a [u8]>,
    types: Option<TypeMeta>,
    limits: Limits,
) -> Listed {
    let mut cutter = ListCutter::<IgnoredAny>::new(types, limits);
    let mut items = Vec::new();
    let failed = chunks.into_iter().try_for_each(|chunk| cutter.push(chunk, &mut items));
    let meta = cutter.finish();
    assert_eq!(failed.is_err(), failed.is_err() && meta.is_err(), "an error was forgotten");
    (items.iter().map(shown_item).collect(), meta)
}

pub(crate) fn shown_item(item: &ListItem<IgnoredAny>) -> Shown {
    match item {
        ListItem::Object(object) => shown("", object),
        ListItem::Invalid(invalid) => Shown::Invalid(invalid.clone()),
    }
}

pub(crate) fn list(body: impl AsRef<[u8]>) -> Listed {
    list_chunks([body.as_ref()], None, Limits::default())
}

pub(crate) type Watched = (Vec<Shown>, Result<(), WireError>);

pub(crate) fn watch_chunks<'a>(chunks: impl IntoIterator<Item = &'a [u8]>, limits: Limits) -> Watched {
    let mut cutter = WatchCutter::<IgnoredAny>::new(None, limits);
    let mut events = Vec::new();
    let failed = chunks.into_iter().try_for_each(|chunk| cutter.push(chunk, &mut events));
    let end = cutter.finish();
    assert_eq!(failed.is_err(), failed.is_err() && end.is_err(), "an error was forgotten");
    (events.iter().map(shown_event).collect(), end)
}

pub(crate) fn shown_event(event: &WatchEvent<IgnoredAny>) -> Shown {
    match event {
        WatchEvent::Added(object) => shown("ADDED", object),
        WatchEvent::Modified(object) => shown("MODIFIED", object),
        WatchEvent::Deleted(object) => shown("DELETED", object),
        WatchEvent::Invalid(invalid) => Shown::Invalid(invalid.clone()),
        other => Shown::Other(format!("{other:?}")),
    }
}

pub(crate) fn watch(body: impl AsRef<[u8]>) -> Watched {
    watch_chunks([body.as_ref()], Limits::default())
}

/// Calls `check` with `body` in many different cuts: whole, byte by byte, in two parts at every place (for large
/// bodies at a few hundred), and in random parts.
pub(crate) fn every_cut(body: &[u8], mut check: impl FnMut(&[&[u8]])) {
    check(&[body]);
    if body.len() < 1 << 20 {
        check(&body.chunks(1).collect::<Vec<_>>());
    }
    let mut seed = 0x9e37_79b9_7f4a_7c15 ^ body.len() as u64;
    let mut random = move |below: usize| {
        // xorshift64*
        seed ^= seed >> 12;
        seed ^= seed << 25;
        seed ^= seed >> 27;
        (seed.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % below.max(1)
    };
    if body.len() <= 1500 {
        for at in 0..=body.len() {
            check(&[&body[..at], &body[at..]]);
        }
    } else {
        // The work per cut grows with the body.
        for _ in 0..(2_000_000 / body.len()).clamp(3, 100) {
            let at = random(body.len());
            check(&[&body[..at], &body[at..]]);
        }
    }
    for largest in [7, 100, 5000] {
        let mut rest = body;
        let mut chunks = Vec::new();
        while !rest.is_empty() {
            let (chunk, more) = rest.split_at((1 + random(largest)).min(rest.len()));
            chunks.push(chunk);
            rest = more;
        }
        check(&chunks);
    }
}

/// A folder of recorded data beside the workspace; `None`, said aloud, in a clone that has none.
pub(crate) fn shared(folder: &str) -> Option<PathBuf> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared").join(folder);
    if path.is_dir() {
        return Some(path);
    }
    // Past the capture of test output, which hides what a passing test says.
    let _ = writeln!(
        std::io::stderr(),
        "SKIPPED: no ../shared/{folder} beside the workspace; only the built-in excerpts were tested"
    );
    None
}

/// Two pods as kube-apiserver 1.36 lists them: no kind, no apiVersion.
pub(crate) const PODS: &str = r#"{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"40949","continue":"eyJ2","remainingItemCount":19},"items":[{"metadata":{"name":"a","namespace":"shop","uid":"u-a","resourceVersion":"278","labels":{"tier":"web","app":"cart \"x\\y\""},"managedFields":[{"fieldsV1":{"f:spec":{"k:{\"uid\":\"0\"}":{".":{}}}}}]},"spec":{"n":[1,-2.5e+3,0,true,false,null,{}],"t":"<>"}},{"metadata":{"name":"b","namespace":"shop","uid":"u-b","resourceVersion":"279"},"spec":{},"status":{}}]}
"#;

/// A list of custom resources: members sorted, so `items` come first, and an empty continue token (1.36).
pub(crate) const GADGETS: &str = r#"{"apiVersion":"example.com/v1","items":[{"apiVersion":"example.com/v1","kind":"Gadget","metadata":{"name":"g1","namespace":"n","resourceVersion":"5","uid":"u1"},"spec":{"text":"grüße \u00e9 \ud83d\ude00"}}],"kind":"GadgetList","metadata":{"continue":"","resourceVersion":"9"}}
"#;

/// Three events and a bookmark.
pub(crate) const EVENTS: &str = r#"{"type":"ADDED","object":{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a","namespace":"n","uid":"1","resourceVersion":"10"},"data":{"k":"}{\"]["}}}
{"type":"MODIFIED","object":{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a","namespace":"n","uid":"1","resourceVersion":"11"}}}
{"type":"DELETED","object":{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a","namespace":"n","uid":"1","resourceVersion":"12"}}}
{"type":"BOOKMARK","object":{"kind":"Pod","apiVersion":"v1","metadata":{"resourceVersion":"13","annotations":{"k8s.io/initial-events-end":"true"}},"spec":{"containers":null},"status":{}}}
"#;
