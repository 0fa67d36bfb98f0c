//! When the server was last heard of, in each state, and by what.

use super::rig::{Rig, lists, rv, secs};
use crate::protocol::Options;

/// Asks a server that has said nothing yet, or is silent since the time 0.
type Begin = fn() -> Rig;

/// What comes.
type Come = fn(&mut Rig) -> &mut Rig;

fn listing() -> Rig {
    Rig::start(lists())
}

fn streaming() -> Rig {
    Rig::start(Options::default())
}

fn watching() -> Rig {
    Rig::synced(Options::default(), "10")
}

/// Silent for so long that it was asked.
fn checking() -> Rig {
    let mut rig = watching();
    rig.advance(90.0).take();
    rig
}

fn reopening() -> Rig {
    let mut rig = checking();
    rig.checked(Ok(rv("11"))).take();
    rig
}

/// Any good answer, and each part of one, is a contact at the time when it comes.
#[test]
fn whatever_comes_is_a_contact() {
    let cases: [(&str, Begin, Come); 22] = [
        ("bytes of a list", listing, Rig::bytes),
        ("an unusable object of a list", listing, Rig::unusable),
        ("a page", listing, |rig| rig.page("10", "next")),
        ("the last page", listing, |rig| rig.page("10", "")),
        ("headers of a streaming list", streaming, Rig::open),
        ("bytes of a streaming list", streaming, Rig::bytes),
        ("an unusable object of a streaming list", streaming, Rig::unusable),
        ("an object of a streaming list", streaming, |rig| rig.added("3")),
        ("a plain bookmark of a streaming list", streaming, |rig| rig.bookmark("3")),
        ("the end of a streaming list", streaming, |rig| rig.end_bookmark("3")),
        ("headers of a watch", watching, Rig::open),
        ("bytes of a watch", watching, Rig::bytes),
        ("an unusable object of a watch", watching, Rig::unusable),
        ("an event", watching, |rig| rig.modified("11")),
        ("an event without a version", watching, |rig| rig.modified("")),
        ("an event from the past", watching, |rig| rig.modified("9")),
        ("a bookmark", watching, |rig| rig.bookmark("11")),
        ("the clean end of a watch", watching, Rig::ended),
        ("a check of the same version", checking, |rig| rig.checked(Ok(rv("10")))),
        ("a check of a later version", checking, |rig| rig.checked(Ok(rv("11")))),
        ("a check of an earlier version", checking, |rig| rig.checked(Ok(rv("9")))),
        ("the second watch", reopening, Rig::reopened),
    ];
    for (what, begin, come) in cases {
        let mut rig = begin();
        rig.advance(5.0).take();
        assert_ne!(rig.status().last_contact, Some(rig.now), "{what}: nothing has come yet");
        come(&mut rig);
        assert_eq!(rig.status().last_contact, Some(rig.now), "{what}");
    }
}

/// Our own limits, refusals of the network and our own clock are none.
#[test]
fn silence_is_no_contact() {
    let mut rig = Rig::start(lists());
    rig.advance(89.0).list_fails("transport").take();
    assert_eq!(rig.status().last_contact, None);
    let mut rig = watching();
    rig.advance(90.0).take();
    rig.advance(90.0).take();
    assert_eq!(rig.status().last_contact, Some(secs(0.0)));
}

/// An object that cannot be used is counted wherever one may come, and nowhere else.
#[test]
fn unusable_objects_are_counted_where_objects_come() {
    for (begin, counted) in [(listing as Begin, 1), (streaming, 1), (watching, 1), (waiting, 0)] {
        let mut rig = begin();
        rig.unusable();
        assert_eq!(rig.status().counts.invalid, counted, "{:?}", rig.status().phase);
    }
}

fn waiting() -> Rig {
    let mut rig = listing();
    rig.list_fails("503");
    rig
}

/// A fact about a request that is not open changes nothing.
#[test]
fn what_does_not_fit_the_state_is_no_contact() {
    let facts: [Come; 9] = [
        Rig::bytes,
        |rig| rig.page("10", ""),
        Rig::open,
        |rig| rig.added("3"),
        |rig| rig.bookmark("3"),
        |rig| rig.end_bookmark("3"),
        Rig::ended,
        |rig| rig.checked(Ok(rv("3"))),
        Rig::reopened,
    ];
    for fact in facts {
        let mut rig = waiting();
        let before = format!("{:?}", rig.status());
        rig.take();
        rig.now += secs(0.1);
        fact(&mut rig);
        rig.expect("");
        assert_eq!(format!("{:?}", rig.status()), before);
    }
}
