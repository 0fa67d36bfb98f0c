//! What goes wrong, step by step. Everybody gets the same steps, at the same times.

use std::time::Duration;

use super::{
    client::Who,
    gate::{On, Trick},
    stage::Act,
    storm::storm,
    things::What,
};

/// One kind of fire.
#[derive(Debug, Clone)]
pub(super) struct Scenario {
    pub(super) name: &'static str,
    /// What happens, in a sentence.
    pub(super) story: &'static str,
    pub(super) what: What,
    /// How many objects there are at the start.
    pub(super) objects: usize,
    /// What is so before the client starts.
    pub(super) before: Vec<Act>,
    /// What happens to it after that. The clock of recovery starts when this is over.
    pub(super) after: Vec<Act>,
    /// Who says in its documentation that it is not for this.
    pub(super) not_for: Option<Who>,
    /// Whether reflector is expected to be through within seconds, so that a smoke test can wait for it.
    pub(super) quick: bool,
}

impl Scenario {
    fn new(name: &'static str, story: &'static str, after: Vec<Act>) -> Self {
        Self {
            name,
            story,
            what: What::Maps,
            objects: 20,
            before: Vec::new(),
            after,
            not_for: None,
            quick: true,
        }
    }

    fn before(self, before: Vec<Act>) -> Self {
        Self { before, ..self }
    }

    fn of(self, what: What) -> Self {
        Self { what, ..self }
    }

    /// Takes longer than a smoke test can wait.
    fn long(self) -> Self {
        Self { quick: false, ..self }
    }

    /// Whether a second server is needed.
    pub(super) fn lags(&self) -> bool {
        self.after.contains(&Act::Lag(true))
    }

    /// Whether the server itself goes back in time.
    pub(super) fn restores(&self) -> bool {
        self.after.contains(&Act::Restore)
    }
}

fn secs(seconds: u64) -> Act {
    Act::Pause(Duration::from_secs(seconds))
}

const LISTS_AND_WATCHES: &str = "list+watch";

/// All of them.
pub(super) fn scenarios(seed: u64) -> Vec<Scenario> {
    let mut all = connections();
    all.extend(refusals());
    all.extend(histories());
    all.extend(bodies());
    let story = "from the seed, for 30 s: dead, cut and refused connections, restarts, lost history, the server's \
                 profile `storm`, objects made again, and writes all the time";
    all.push(Scenario::new("storm", story, storm(seed)).long());
    all
}

fn connections() -> Vec<Scenario> {
    use Act::*;
    vec![
        Scenario::new("no fault", "nothing goes wrong", vec![Synced, Write(3)]),
        Scenario::new(
            "watch cut",
            "connections are closed between two changes, and three watches after that in the middle of an event",
            vec![Synced, Write(2), Fault("watch", "cut=700bytes,times=3"), Cut, Write(8)],
        )
        .long(),
        Scenario::new(
            "watches end at once",
            "for 5 s a proxy ends every watch cleanly as soon as it has begun",
            vec![Synced, Fault("watch", "end"), Cut, Write(2), secs(5), Calm],
        ),
        Scenario::new(
            "refused",
            "the server restarts, connections are refused for 5 s, objects change in the meantime",
            vec![Synced, Refuse, Restart, Write(4), secs(5), Accept],
        ),
        Scenario::new(
            "silent watch",
            "the connection of the watch goes dead and stays open, as behind a load balancer that has forgotten it",
            vec![Synced, Mute, Write(3)],
        )
        .long(),
        Scenario::new(
            "lagging server",
            "a load balancer sends reads that may be stale to a server that is 15 changes behind; the connection is \
             down for a change, the watch is told 410, and the server that is behind catches up 8 s later",
            vec![
                Synced,
                Lag(true),
                Write(2),
                Synced,
                Refuse,
                Write(1),
                Forget,
                Accept,
                secs(8),
                Lag(false),
            ],
        ),
        Scenario::new(
            "slow drip",
            "the first list comes in pieces of 64 bytes, ten in a second",
            vec![Write(1)],
        )
        .before(vec![Fault(LISTS_AND_WATCHES, "slow=64@100ms,times=1")])
        .long(),
    ]
}

fn refusals() -> Vec<Scenario> {
    use Act::*;
    let refused = |name, story, settings| {
        let after = vec![Synced, Fault(LISTS_AND_WATCHES, settings), Cut, Write(3), secs(5), Calm];
        Scenario::new(name, story, after)
    };
    vec![
        refused("429", "for 5 s everything is answered 429 with `Retry-After: 1`", "status=429,retry-after=1"),
        refused("503", "for 5 s everything is answered 503, in plain text", "status=503,text=unavailable"),
        refused("502 page", "for 5 s everything is answered 502, with a page in HTML", "status=502,html=<b>502</b>"),
        refused("401", "for 5 s the credentials are refused", "status=401"),
        refused("403", "for 5 s the role is taken away", "status=403"),
        refused("404", "for 5 s a proxy does not find the server", "status=404,text=404 page not found"),
        Scenario {
            not_for: Some(Who::KubeStreaming),
            objects: 1_200,
            ..Scenario::new(
                "expired tokens",
                "an older server without streaming lists, on which every continue token has expired when it comes",
                vec![Write(2)],
            )
        }
        .before(vec![Play(On::Watches, Trick::NoStreaming, u64::MAX), Fault("list", "expire-continue")])
        .long(),
        Scenario::new(
            "sendInitialEvents ignored",
            "a proxy loses the parameters of streaming lists, for good",
            vec![secs(12), Write(2)],
        )
        .before(vec![Fault(
            "watch",
            "ignore-query=sendInitialEvents+resourceVersionMatch,initial-events-end=missing",
        )])
        .long(),
        Scenario::new(
            "bookmarks dropped",
            "no bookmark ever comes, not even the one at the end of a streaming list",
            vec![secs(12), Write(2)],
        )
        .before(vec![Fault("watch", "initial-events-end=missing")])
        .long(),
    ]
}

fn histories() -> Vec<Scenario> {
    use Act::*;
    vec![
        Scenario::new(
            "410 as status",
            "objects are deleted while the watch is down, and watches from before that are answered 410 for good",
            vec![Synced, Refuse, Write(4), Gone, Accept],
        ),
        Scenario::new(
            "410 in stream",
            "the same, and the 410 comes as an event of the watch",
            vec![Synced, Refuse, Write(4), Forget, Accept],
        ),
        Scenario::new(
            "etcd restored",
            "etcd comes back from a backup that is 30 changes old, and changes five times after that",
            vec![Synced, Backup, Write(6), Synced, Restore, Write(1)],
        )
        .long(),
        Scenario::new(
            "older events",
            "after each event of the watch the older state of its object comes once more, for good \
             (kubernetes#107457)",
            vec![Synced, Fault("watch", "regress-versions"), Cut, Write(4), secs(1)],
        ),
        Scenario::new(
            "recreated",
            "while the connection is down, objects are deleted and made again under their names, with the same content",
            vec![Synced, Refuse, Recreate(5), secs(1), Accept],
        ),
        Scenario::new(
            "type deleted",
            "the definition of the type is deleted, and created again after 5 s, with other objects",
            vec![Synced, Undefine, secs(5), Define],
        )
        .of(What::Widgets),
    ]
}

fn bodies() -> Vec<Scenario> {
    use Act::*;
    let in_list = vec![secs(2), Write(2)];
    let in_watch = vec![Synced, Spoil, Write(2)];
    let guarded = "the same, and kube-runtime reads `DeserializeGuard<K>`";
    vec![
        Scenario::new("malformed in list", "one object of the list does not fit its type", in_list.clone())
            .before(vec![Spoil])
            .of(What::Widgets),
        Scenario::new("malformed in list, guarded", guarded, in_list).before(vec![Spoil]).of(What::Guarded),
        Scenario::new(
            "malformed in watch",
            "one object becomes one that does not fit its type, others change after it",
            in_watch.clone(),
        )
        .of(What::Widgets),
        Scenario::new("malformed in watch, guarded", guarded, in_watch).of(What::Guarded),
        Scenario::new(
            "damaged event",
            "one event of the watch is damaged on its way, and what follows is not",
            vec![Synced, Play(On::Watches, Trick::Damage, 1), Cut, secs(3), Write(2)],
        )
        .of(What::Widgets),
        Scenario::new(
            "not an answer",
            "three times a proxy answers 200 with a page of its own",
            vec![Write(1), secs(1)],
        )
        .before(vec![Play(On::Both, Trick::Say("<html><body>Please log in</body></html>"), 3)]),
        Scenario::new(
            "garbage in watch",
            "two watches bring bytes that are no events, and end",
            vec![
                Synced,
                Play(On::Watches, Trick::Say("{\"type\":\"ADDED\",\"object\":{]]]\n\u{1}\u{2}\u{3}\n"), 2),
                Cut,
                Write(3),
            ],
        )
        .long(),
        Scenario::new("truncated list", "the first three answers end early", vec![Write(1)])
            .before(vec![Play(On::Both, Trick::Truncate(1_500), 3)]),
        Scenario::new(
            "truncated gzip",
            "the same, compressed; kube-runtime without its feature `gzip` does not ask for that",
            vec![Write(1)],
        )
        .before(vec![
            Fault(LISTS_AND_WATCHES, "gzip=whole,times=3"),
            Play(On::Both, Trick::Truncate(700), 3),
        ]),
    ]
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use reflector_apiserver::faults::Fault;

    use super::*;

    #[test]
    fn names_are_told_apart_and_faults_can_be_read() {
        let all = scenarios(1);
        let names: HashSet<_> = all.iter().map(|scenario| scenario.name).collect();
        assert_eq!(names.len(), all.len());
        for scenario in &all {
            for act in scenario.before.iter().chain(&scenario.after) {
                if let Act::Fault(verbs, settings) = act {
                    let text = format!("{verbs}:{}:{settings}", scenario.what.plural());
                    assert!(text.parse::<Fault>().is_ok(), "{text}");
                }
            }
        }
    }
}
