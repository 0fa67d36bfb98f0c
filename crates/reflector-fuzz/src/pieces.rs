//! What comes out of a cutter, in a form that can be compared; and what must hold of it however the body was cut.

use std::fmt::Debug;

use reflector::{
    Object, ObjectMeta,
    wire::{EventType, InvalidObject, ListCutter, ListItem, ListMeta, WatchCutter, WatchEvent, WireError},
};
use serde::de::IgnoredAny;

use crate::{control::Control, memory};

/// One thing that came out.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Piece {
    /// An object, as it is kept.
    Object { event: Option<EventType>, meta: ObjectMeta, bytes: Vec<u8> },
    /// An object that cannot be kept.
    Invalid(Box<InvalidObject>),
    /// What is no object.
    Other(String),
}

impl Piece {
    fn object(event: Option<EventType>, object: &Object<IgnoredAny>) -> Self {
        let bytes = object.bytes().unwrap().into_owned();
        // Whatever is told of it must be possible, too.
        let _ = (object.json().map(|json| json.len()), format!("{object:?}"));
        Self::Object { event, meta: object.meta().clone(), bytes }
    }

    fn event(event: &WatchEvent<IgnoredAny>) -> Self {
        match event {
            WatchEvent::Added(object) => Self::object(Some(EventType::Added), object),
            WatchEvent::Modified(object) => Self::object(Some(EventType::Modified), object),
            WatchEvent::Deleted(object) => Self::object(Some(EventType::Deleted), object),
            WatchEvent::Invalid(invalid) => Self::Invalid(invalid.clone()),
            other => Self::Other(format!("{other:?}")),
        }
    }
}

/// What came out before the end, and the end.
pub(crate) type Outcome<E> = (Vec<Piece>, Result<E, WireError>);

/// Runs a list through a cutter.
pub(crate) fn list(mut cutter: ListCutter<IgnoredAny>, chunks: &[&[u8]]) -> Outcome<ListMeta> {
    let mut items = Vec::new();
    for chunk in chunks {
        if let Err(error) = cutter.push(chunk, &mut items) {
            let before = items.len();
            assert_eq!(cutter.push(b"{}", &mut items).as_ref(), Err(&error), "an error was forgotten");
            assert_eq!(items.len(), before, "a spent cutter went on");
            assert_eq!(cutter.finish().as_ref(), Err(&error), "an error was forgotten");
            return (items.iter().map(item).collect(), Err(error));
        }
    }
    (items.iter().map(item).collect(), cutter.finish())
}

fn item(item: &ListItem<IgnoredAny>) -> Piece {
    match item {
        ListItem::Object(object) => Piece::object(None, object),
        ListItem::Invalid(invalid) => Piece::Invalid(invalid.clone()),
    }
}

/// Runs a stream through a cutter.
pub(crate) fn watch(mut cutter: WatchCutter<IgnoredAny>, chunks: &[&[u8]]) -> Outcome<()> {
    let mut events = Vec::new();
    for chunk in chunks {
        if let Err(error) = cutter.push(chunk, &mut events) {
            let before = events.len();
            assert_eq!(cutter.push(b"{}", &mut events).as_ref(), Err(&error), "an error was forgotten");
            assert_eq!(events.len(), before, "a spent cutter went on");
            assert_eq!(cutter.finish().as_ref(), Err(&error), "an error was forgotten");
            return (events.iter().map(Piece::event).collect(), Err(error));
        }
    }
    (events.iter().map(Piece::event).collect(), cutter.finish())
}

/// Cuts mean nothing, and the beginning of a body yields the beginning of what the whole yields. Returns what the whole
/// yields.
pub(crate) fn check_cuts<E: Debug + PartialEq>(
    control: Control,
    body: &[u8],
    run: impl Fn(&[&[u8]]) -> Outcome<E>,
) -> Outcome<E> {
    let bound = (1 << 16) + 200 * body.len();
    let whole = memory::bounded(bound, || run(&[body]));
    for chunks in control.cuts(body) {
        let cut = memory::bounded(bound, || run(&chunks));
        assert_eq!(cut, whole, "cut otherwise: {:?}", chunks.iter().map(|c| c.len()).collect::<Vec<_>>());
    }
    let place = control.place(body.len());
    let (pieces, end) = run(&[&body[..place]]);
    assert!(whole.0.starts_with(&pieces), "what came until byte {place} is no beginning: {pieces:?}");
    match (&end, &whole.1) {
        (Err(WireError::Truncated { offset, .. }), _) => assert_eq!(*offset, place as u64),
        // It may be complete, and be followed by what does not belong to it.
        (Ok(_) | Err(WireError::NotAList { .. }), Err(_)) => {}
        (end, whole) => assert_eq!(end, whole, "until byte {place}"),
    }
    if let (Err(error), true) = (&end, end != whole.1) {
        assert!(
            matches!(error, WireError::Truncated { .. } | WireError::NotAList { .. }),
            "until byte {place}: {error}"
        );
    }
    whole
}
