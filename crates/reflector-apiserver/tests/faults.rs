//! Faults without a socket and without a clock: what a simulator sees.
#![allow(clippy::unwrap_used, reason = "in the functions that tests share, too")]

use std::time::Duration;

use bytes::Bytes;
use http::Request;
use reflector_apiserver::{
    Verb,
    core::{Core, CoreOptions},
    faults::{Cut, Exchange, Fault, FaultyCore, InitialEventsEnd, Interruption, Point, Profile, Step},
};
use serde_json::{Value, json};

const LIST: &str = "/api/v1/namespaces/a/configmaps";
const WATCH: &str = "/api/v1/namespaces/a/configmaps?watch=true&resourceVersion=0&allowWatchBookmarks=true";

fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

fn core(fault: Fault) -> FaultyCore {
    let mut core = FaultyCore::new(Core::new(CoreOptions::default()), 5);
    for name in ["one", "two"] {
        create(&mut core, name);
    }
    core.faults_mut().add(fault);
    core
}

fn create(core: &mut FaultyCore, name: &str) {
    let object = json!({"metadata": {"namespace": "a", "name": name}});
    core.core_mut().create("configmaps", object).unwrap();
}

fn get(path: &str) -> Request<Bytes> {
    Request::get(path).body(Bytes::new()).unwrap()
}

/// Polls until nothing comes: what came, and the last step.
fn drain(core: &mut FaultyCore, id: Exchange, now: Duration) -> (Vec<String>, Step) {
    let mut seen = Vec::new();
    loop {
        match core.poll(id, now) {
            Step::Head(head) => seen.push(head.status().as_u16().to_string()),
            Step::Data(data) => seen.push(describe(&data)),
            last => return (seen, last),
        }
    }
}

fn describe(data: &[u8]) -> String {
    let value: Value = serde_json::from_slice(data).unwrap_or_default();
    let object = &value["object"];
    match (value["type"].as_str(), object["metadata"]["name"].as_str()) {
        (Some(kind), Some(name)) => format!("{kind} {name}"),
        (Some(kind), None) => kind.to_owned(),
        (None, _) => format!("{} bytes", data.len()),
    }
}

#[test]
fn a_delayed_request_comes_to_the_server_late() {
    let mut core = core(Fault::on(Verb::List).delay(ms(300)));
    let id = core.open(ms(10), get(LIST));
    assert!(matches!(core.poll(id, ms(10)), Step::Wait { until: Some(until) } if until == ms(310)));
    create(&mut core, "three");
    let mut body = Vec::new();
    loop {
        match core.poll(id, ms(310)) {
            Step::Data(data) => body.extend_from_slice(&data),
            Step::Head(head) => assert_eq!(head.status(), 200),
            Step::End => break,
            other => panic!("{other:?}"),
        }
    }
    let list: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(list["items"].as_array().unwrap().len(), 3, "it sees what was written meanwhile");
}

#[test]
fn a_stream_is_cut_at_its_time() {
    let cut = Fault::on(Verb::Watch).interrupt(Point::After(ms(700)), Interruption::Reset);
    let mut core = core(cut);
    let id = core.open(ms(0), get(WATCH));
    let (seen, last) = drain(&mut core, id, ms(0));
    assert_eq!(seen, ["200", "ADDED one", "ADDED two", "BOOKMARK"]);
    assert!(matches!(last, Step::Wait { until: Some(until) } if until <= ms(700)), "{last:?}");
    assert!(matches!(drain(&mut core, id, ms(699)).1, Step::Wait { .. }));
    assert!(matches!(core.poll(id, ms(700)), Step::Cut(Cut::Reset)));
    assert!(matches!(core.poll(id, ms(701)), Step::End), "and that was all");
}

#[test]
fn events_go_on_before_a_late_end_bookmark() {
    let late = Fault::on(Verb::Watch).initial_events_end(InitialEventsEnd::Late(ms(500)));
    let mut core = core(late);
    let id = core.open(ms(0), get(WATCH));
    let (seen, last) = drain(&mut core, id, ms(0));
    assert_eq!(seen, ["200", "ADDED one", "ADDED two"]);
    assert!(matches!(last, Step::Wait { until: Some(until) } if until <= ms(500)));
    create(&mut core, "three");
    assert_eq!(drain(&mut core, id, ms(200)).0, ["ADDED three"]);
    assert_eq!(drain(&mut core, id, ms(500)).0, ["BOOKMARK"]);
}

#[test]
fn slow_bytes_keep_their_pace() {
    let mut core = core(Fault::on(Verb::List).slow(100, ms(50)));
    let id = core.open(ms(0), get(LIST));
    let mut now = ms(0);
    let mut sizes = Vec::new();
    loop {
        match core.poll(id, now) {
            Step::Head(_) => {}
            Step::Data(data) => sizes.push(data.len()),
            Step::Wait { until } => {
                let until = until.unwrap();
                assert_eq!(until, now + ms(50));
                now = until;
            }
            Step::End => break,
            Step::Cut(cut) => panic!("{cut:?}"),
        }
    }
    assert!(sizes.len() > 2, "{sizes:?}");
    assert!(sizes[..sizes.len() - 1].iter().all(|size| *size == 100), "{sizes:?}");
}

#[test]
fn a_hanging_exchange_waits_for_ever_and_can_be_closed() {
    let mut core = core(Fault::on(Verb::Watch).interrupt(Point::Events(1), Interruption::Hang));
    let id = core.open(ms(0), get(WATCH));
    let (seen, last) = drain(&mut core, id, ms(0));
    assert_eq!(seen, ["200", "ADDED one"]);
    assert!(matches!(last, Step::Wait { until: None }));
    create(&mut core, "three");
    assert!(drain(&mut core, id, Duration::from_secs(86_400)).0.is_empty());
    assert_eq!(core.open_exchanges(), 1);
    core.close(id);
    assert_eq!(core.open_exchanges(), 0);
}

#[test]
fn a_rewind_brings_back_an_older_state() {
    let mut core = core("list:rewind=1,once".parse().unwrap());
    let before = core.core().revision();
    let id = core.open(ms(0), get(LIST));
    let stamp = core.stamp();
    drain(&mut core, id, ms(0));
    assert_eq!(core.core().revision(), before - 1);
    assert_ne!(core.stamp(), stamp, "whoever waits must look again");
    assert_eq!(core.core().count("configmaps").unwrap(), 1);
}

/// The frames of a watch, and the documents of a list, without a look at the rest.
#[test]
fn answers_in_protobuf_are_disturbed_too() {
    const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
    let bodies = |fault: Fault, path: &str| {
        let mut core = core(fault);
        let request = Request::get(path).header("accept", PROTOBUF).body(Bytes::new()).unwrap();
        let id = core.open(ms(0), request);
        let mut bodies = Vec::new();
        while let Step::Head(_) | Step::Data(_) = match core.poll(id, ms(0)) {
            Step::Data(data) => {
                bodies.push(data.clone());
                Step::Data(data)
            }
            step => step,
        } {}
        bodies
    };
    let contains = |bytes: &Bytes, text: &str| bytes.windows(text.len()).any(|part| part == text.as_bytes());
    let frames = bodies(Fault::on(Verb::Watch).error_event(410, 1), WATCH);
    let last = frames.last().unwrap();
    assert!(
        last.ends_with(b"\x1a\0\x22\0") && contains(last, "ERROR") && contains(last, "Expired"),
        "{last:?}"
    );
    assert_eq!(u32::from_be_bytes(*last.first_chunk().unwrap()) as usize + 4, last.len());
    let list = bodies("list:opaque-versions".parse().unwrap(), LIST).pop().unwrap();
    let envelope = reflector_protobuf::Envelope::parse(&list).unwrap();
    assert!(envelope.kind == "ConfigMapList" && contains(&list, "opaque-"), "{list:?}");
    let kind = reflector_protobuf::Kind::find("v1", "ConfigMapList").unwrap();
    assert!(reflector_protobuf::from_slice::<Value>(kind, envelope.raw).is_ok());
    let spoiled = bodies("list:undecodable=1".parse().unwrap(), LIST).pop().unwrap();
    let envelope = reflector_protobuf::Envelope::parse(&spoiled).unwrap();
    assert!(reflector_protobuf::from_slice::<Value>(kind, envelope.raw).is_err());
}

#[test]
fn what_was_injected_is_counted_by_kind() {
    let mut core = core("watch:duplicate-events,error=500@3events,times=2".parse().unwrap());
    for _ in 0..3 {
        let id = core.open(ms(0), get(WATCH));
        drain(&mut core, id, ms(0));
    }
    let injected = core.faults().injected();
    assert_eq!(injected["error-event"], 2);
    assert!(injected["duplicate-events"] >= 2);
    assert_eq!(injected.len(), 2, "{injected:?}");
}

/// The same seed, the same storm: to the last step.
#[test]
fn a_storm_can_be_repeated() {
    let storm = |seed: u64| {
        let mut core = FaultyCore::new(Core::new(CoreOptions::default()), seed);
        core.faults_mut().set_profile(Profile::Storm);
        let mut seen = Vec::new();
        for n in 0..300 {
            let now = ms(n * 500);
            create(&mut core, &format!("n{n}"));
            let id = core.open(now, get(if n % 2 == 0 { LIST } else { WATCH }));
            let (steps, last) = drain(&mut core, id, now);
            seen.push(format!("{steps:?} {last:?}"));
            core.close(id);
        }
        (seen, core.faults().injected().clone())
    };
    let (seen, injected) = storm(1);
    assert_eq!((seen.clone(), injected.clone()), storm(1));
    assert_ne!(seen, storm(2).0);
    assert!(injected.len() > 10, "{injected:?}");
}
