//! Servers with worse manners than a refusal: silence, hang-ups, endless pages, versions that make no sense.

use std::time::Duration;

use super::{
    rates::live_with,
    rig::failure,
    server::{Answer, Ask, Fact, SOON, Server, World, healthy},
};
use crate::{
    ResourceVersion,
    protocol::{EventKind, Options},
};

#[track_caller]
fn bounded(name: &str, bound: usize, server: Server<'_>) {
    let most = live_with(name, &Options::default(), server);
    println!("{most:3} of {bound:3} per minute: {name}");
    assert!(most <= bound, "{name}: {most} requests in a minute, more than {bound}");
}

fn is_stream(ask: Ask) -> bool {
    matches!(ask, Ask::Watch | Ask::Reopen)
}

fn opened(ask: Ask) -> (Duration, Fact) {
    (SOON, if ask == Ask::Reopen { Fact::Reopened } else { Fact::Open })
}

/// A server without streaming lists, whose watches do this.
fn watches(world: &mut World, ask: Ask, then: Answer) -> Answer {
    match ask {
        Ask::Streaming => vec![(SOON, Fact::WatchFailed(failure("422 Invalid")))],
        _ if is_stream(ask) => [vec![opened(ask)], then].concat(),
        _ => healthy(world, ask),
    }
}

/// K2: 200 and closed at once, empty.
#[test]
fn watches_that_close_at_once() {
    bounded("K2", 18, &|world, ask| watches(world, ask, vec![(SOON, Fact::Ended)]));
}

/// Inventory 2.11: the hot loop of client-go.
#[test]
fn watches_that_close_after_one_event() {
    let then = vec![(SOON, Fact::Change(EventKind::Modified)), (SOON, Fact::Ended)];
    bounded("one event, then the end", 66, &|world, ask| watches(world, ask, then.clone()));
}

#[test]
fn watches_that_close_after_a_second() {
    let then = vec![(Duration::from_secs(1), Fact::Ended)];
    bounded("one second, then the end", 66, &|world, ask| watches(world, ask, then.clone()));
}

#[test]
fn watches_that_break_after_one_event() {
    let broken = Fact::Broken(failure("transport"));
    let then = vec![(SOON, Fact::Change(EventKind::Modified)), (SOON, broken)];
    bounded("one event, then a reset", 14, &|world, ask| watches(world, ask, then.clone()));
}

/// A load balancer with little patience: each time the first wait, and no more than that.
#[test]
fn watches_that_break_after_ten_seconds() {
    let broken = Fact::Broken(failure("transport"));
    bounded("ten seconds, then a reset", 10, &|world, ask| {
        watches(world, ask, vec![(Duration::from_secs(10), broken.clone())])
    });
}

/// The streaming list works, and the watch that it becomes hangs up.
#[test]
fn streams_that_close_after_the_sync() {
    bounded("synced, then the end", 10, &|world, ask| match ask {
        Ask::Streaming => healthy(world, ask).into_iter().take(4).chain([(SOON, Fact::Ended)]).collect(),
        _ if is_stream(ask) => vec![opened(ask), (SOON, Fact::Ended)],
        _ => healthy(world, ask),
    });
}

#[test]
fn silence() {
    bounded("nothing is answered", 5, &|_, _| vec![]);
    bounded("lists stand still", 5, &|world, ask| match ask {
        Ask::List | Ask::NextPage | Ask::Check => vec![],
        _ => watches(world, ask, vec![]),
    });
    bounded("watches do not open", 5, &|world, ask| {
        if is_stream(ask) { vec![] } else { healthy(world, ask) }
    });
    bounded("watches are silent", 5, &|world, ask| watches(world, ask, vec![]));
    bounded("watches are silent, lists are refused", 5, &|world, ask| match ask {
        Ask::Check => vec![(SOON, Fact::Checked(Err(failure("403"))))],
        _ => watches(world, ask, vec![]),
    });
}

/// K5 and its kin.
#[test]
fn streaming_lists_without_an_end() {
    let change = |kind| (Duration::from_secs(3), Fact::Change(kind));
    for (name, kind) in [("added", EventKind::Added), ("modified", EventKind::Modified)] {
        let then: Answer = (0..2000).map(|_| change(kind)).collect();
        bounded(&format!("K5, and for ever {name}"), 5, &|world, ask| match ask {
            Ask::Streaming => [vec![opened(ask)], then.clone()].concat(),
            _ => healthy(world, ask),
        });
    }
    bounded("K5, silent", 5, &|world, ask| match ask {
        Ask::Streaming => vec![opened(ask)],
        _ => healthy(world, ask),
    });
    bounded("clean end before the bookmark", 5, &|world, ask| match ask {
        Ask::Streaming => vec![opened(ask), (SOON, Fact::Ended)],
        _ => healthy(world, ask),
    });
    bounded("one event, clean end before the bookmark, no lists", 10, &|world, ask| match ask {
        Ask::Streaming => vec![opened(ask), (SOON, Fact::Change(EventKind::Added)), (SOON, Fact::Ended)],
        Ask::List => vec![(SOON, Fact::ListFailed(failure("transport")))],
        _ => healthy(world, ask),
    });
}

/// K6, and a server that ignores the token.
#[test]
fn pages_without_an_end() {
    bounded("the token is ignored", 42, &|world, ask| match ask {
        Ask::List | Ask::NextPage => {
            vec![(SOON, Fact::Page { version: world.rv(), token: Some("same".into()) })]
        }
        Ask::Streaming => vec![(SOON, Fact::WatchFailed(failure("422 Invalid")))],
        _ => healthy(world, ask),
    });
}

#[test]
fn versions_that_go_backwards() {
    let behind = |world: &mut World| {
        world.version -= 10;
        world.rv()
    };
    bounded("every list is older than the one before", 24, &|world, ask| match ask {
        Ask::List => vec![(SOON, Fact::Page { version: behind(world), token: None })],
        _ => watches(world, ask, vec![(SOON, Fact::Error(failure("410 Expired")))]),
    });
    bounded("every streaming list is older than the one before", 16, &|world, ask| match ask {
        Ask::Streaming => {
            vec![
                opened(ask),
                (SOON, Fact::Bookmark(behind(world), true)),
                (SOON, Fact::Error(failure("410"))),
            ]
        }
        _ => watches(world, ask, vec![]),
    });
    bounded("every check and every event is behind", 32, &|world, ask| {
        let old = behind(world);
        match ask {
            Ask::Check => vec![(SOON, Fact::Checked(Ok(old)))],
            _ => watches(world, ask, vec![(SOON, Fact::Event(EventKind::Modified, old))]),
        }
    });
}

/// D32, D30.
#[test]
fn versions_that_say_nothing() {
    for version in ["", "0", "opaque"] {
        let version = ResourceVersion::new(version);
        for end in [SOON, Duration::from_secs(2), Duration::from_secs(400)] {
            let name = format!("versions {version:?}, streams of {end:?}");
            bounded(&name, 66, &|world, ask| match ask {
                Ask::List => vec![(SOON, Fact::Page { version: version.clone(), token: None })],
                Ask::Check => vec![(SOON, Fact::Checked(Ok(version.clone())))],
                Ask::Streaming => {
                    vec![opened(ask), (SOON, Fact::Bookmark(version.clone(), true)), (end, Fact::Ended)]
                }
                _ => {
                    let event = Fact::Event(EventKind::Added, version.clone());
                    watches(world, ask, vec![(SOON, event), (end, Fact::Ended)])
                }
            });
        }
    }
}

/// Two faults in turns: each is forgiven by the other's success.
#[test]
fn mixtures() {
    let names =
        ["410", "401", "500 InternalError", "transport", "malformed", "too large by cause", "404", "429"];
    for one in names {
        for other in names {
            let server = |world: &mut World, ask| {
                // Not in step with the requests.
                let dice = world.asked.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
                let name = if dice.is_multiple_of(3) { one } else { other };
                match ask {
                    Ask::Streaming if dice.is_multiple_of(2) => {
                        vec![opened(ask), (SOON, Fact::Error(failure(name)))]
                    }
                    Ask::List if dice.is_multiple_of(5) => vec![(SOON, Fact::ListFailed(failure(name)))],
                    Ask::Watch if dice.is_multiple_of(3) => vec![(SOON, Fact::WatchFailed(failure(name)))],
                    Ask::Watch => {
                        let event = Fact::Change(EventKind::Modified);
                        vec![opened(ask), (SOON, event), (SOON, Fact::Error(failure(name)))]
                    }
                    _ => healthy(world, ask),
                }
            };
            bounded(&format!("{one} and {other}"), 24, &server);
        }
    }
}
