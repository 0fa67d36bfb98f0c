//! The cutters of JSON, beside serde_json.

use std::{borrow::Cow, collections::BTreeMap, str};

use reflector::{
    Object, ResourceVersion,
    wire::{ListCutter, TypeMeta, WatchCutter, WireError},
};
use serde::{Deserialize, de::IgnoredAny};
use serde_json::value::RawValue;

use crate::{
    control::Control,
    pieces::{self, Piece},
};

#[derive(Deserialize)]
struct RawList<'a> {
    #[serde(default)]
    metadata: Option<RawListMeta>,
    #[serde(borrow, default)]
    items: Option<Vec<&'a RawValue>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RawListMeta {
    resource_version: Option<String>,
    r#continue: Option<String>,
}

/// An object as serde reads it; what it does not take is no matter of this comparison.
#[derive(Deserialize)]
struct RawObject<'a> {
    metadata: RawMeta,
    #[serde(borrow, default)]
    kind: Option<&'a RawValue>,
    #[serde(borrow, default, rename = "apiVersion")]
    api_version: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RawMeta {
    name: Option<String>,
    namespace: Option<String>,
    uid: Option<String>,
    resource_version: Option<String>,
    labels: Option<BTreeMap<String, Option<String>>>,
}

#[derive(Deserialize)]
struct RawEvent<'a> {
    #[serde(borrow)]
    r#type: Cow<'a, str>,
    #[serde(borrow)]
    object: &'a RawValue,
}

/// A list.
pub(crate) fn list(input: &[u8]) {
    let Some((control, body)) = Control::split(input) else { return };
    let types = control.chose(1).then(|| TypeMeta::new("example.com/v1", "Gadget"));
    let (pieces, end) = pieces::check_cuts(control, body, |chunks| {
        pieces::list(ListCutter::new(types.clone(), control.limits()), chunks)
    });
    let Ok(text) = str::from_utf8(body) else { return };
    let is_json = serde_json::from_str::<IgnoredAny>(text).is_ok();
    check_grammar(is_json, end.as_ref().err());
    let (Ok(meta), Ok(list)) = (end, serde_json::from_str::<RawList<'_>>(text)) else { return };
    let expected = list.metadata.unwrap_or_default();
    assert_eq!(meta.version, ResourceVersion::new(&expected.resource_version.unwrap_or_default()));
    assert_eq!(meta.continue_token.unwrap_or_default(), expected.r#continue.unwrap_or_default());
    let items = list.items.unwrap_or_default();
    assert_eq!(pieces.len(), items.len());
    for (piece, item) in pieces.iter().zip(items) {
        check_object(piece, item.get());
    }
}

/// A stream of events.
pub(crate) fn stream(input: &[u8]) {
    let Some((control, body)) = Control::split(input) else { return };
    let types = control.chose(1).then(|| TypeMeta::new("example.com/v1", "Gadget"));
    let (pieces, end) = pieces::check_cuts(control, body, |chunks| {
        pieces::watch(WatchCutter::new(types.clone(), control.limits()), chunks)
    });
    let Ok(text) = str::from_utf8(body) else { return };
    let values = || serde_json::Deserializer::from_str(text);
    // serde_json takes bare values and wants white space between some of them; events are objects.
    let is_stream = values().into_iter::<&RawValue>().all(|v| v.is_ok_and(|v| v.get().starts_with('{')));
    check_grammar(is_stream, end.as_ref().err());
    for (piece, event) in pieces.iter().zip(values().into_iter::<RawEvent<'_>>().map_while(Result::ok)) {
        match &*event.r#type {
            "ADDED" | "MODIFIED" | "DELETED" => {
                let told = match piece {
                    Piece::Object { event, .. } => *event,
                    Piece::Invalid(invalid) => invalid.event,
                    Piece::Other(other) => panic!("{} became {other}", event.r#type),
                };
                assert_eq!(told.map(|told| told.to_string()).as_deref(), Some(&*event.r#type));
                check_object(piece, event.object.get());
            }
            "BOOKMARK" | "ERROR" => assert!(!matches!(piece, Piece::Object { .. }), "{piece:?}"),
            _ => assert!(matches!(piece, Piece::Other(_)), "{piece:?}"),
        }
    }
}

/// What is JSON is no syntax error and not cut short, and what is not is one of them, unless something else was wrong
/// before.
fn check_grammar(is_json: bool, error: Option<&WireError>) {
    let structural = matches!(error, Some(WireError::Syntax { .. } | WireError::Truncated { .. }));
    if is_json {
        // A document that is no object is refused as early as its first byte; so is a second one.
        let allowed = matches!(error, Some(WireError::Syntax { offset, what })
            if what.starts_with("expected `{`") || (*offset > 0 && what.starts_with("expected nothing after")));
        // Nothing but white space is a stream without events, and no list.
        assert!(!structural || allowed || matches!(error, Some(WireError::Truncated { .. })), "{error:?}");
        assert!(!matches!(error, Some(WireError::Truncated { pending: 1.., .. })), "{error:?}");
    } else {
        assert!(error.is_some(), "what is no JSON was taken");
    }
}

/// The header of an object is what serde reads, and its bytes are those that came, but for the types in front.
fn check_object(piece: &Piece, text: &str) {
    let read = serde_json::from_str::<RawObject<'_>>(text)
        .ok()
        .filter(|read| read.metadata.name.as_deref().is_some_and(|name| !name.is_empty()));
    match (piece, read) {
        (Piece::Object { meta, bytes, .. }, read) => {
            let kept = str::from_utf8(bytes).expect("an object that is not UTF-8 is kept");
            assert!(kept.ends_with(&text[1..]), "{kept} is not {text}");
            let again = Object::<IgnoredAny>::from_json(bytes).expect("what is kept can be read again");
            assert_eq!(again.meta(), meta);
            let Some(read) = read else { return };
            if read.kind.is_some() && read.api_version.is_some() {
                assert_eq!(kept, text);
            }
            let RawMeta { name, namespace, uid, resource_version, labels } = read.metadata;
            assert_eq!(Some(meta.key.name()), name.as_deref());
            assert_eq!(meta.key.namespace(), namespace.as_deref().filter(|namespace| !namespace.is_empty()));
            assert_eq!(meta.uid.to_string(), uid.unwrap_or_default());
            assert_eq!(meta.version, ResourceVersion::new(&resource_version.unwrap_or_default()));
            let labels: Vec<_> =
                labels.into_iter().flatten().map(|(n, v)| (n, v.unwrap_or_default())).collect();
            let told: Vec<_> = meta.labels.iter().map(|(n, v)| (n.to_owned(), v.to_owned())).collect();
            assert_eq!(told, labels);
        }
        (Piece::Invalid(invalid), Some(_)) => panic!("{text} is an object, and yet: {invalid}"),
        (Piece::Other(other), _) => panic!("{text} became {other}"),
        (Piece::Invalid(_), None) => {}
    }
}
