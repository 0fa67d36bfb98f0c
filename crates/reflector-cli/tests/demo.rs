//! `reflector demo` proves that it is right.
#![allow(clippy::unwrap_used, reason = "a test may")]

mod support;

use serde_json::Value;
use support::{Running, run};

fn demo(faults: &str, seed: &str) -> Value {
    let ended = run(&[
        "demo",
        "--objects",
        "120",
        "--rate",
        "100",
        "--duration",
        "2s",
        "--faults",
        faults,
        "--seed",
        seed,
        "-o",
        "json",
    ])
    .expect(0);
    let last = ended.stdout.lines().last().unwrap();
    let report: Value = serde_json::from_str(last).unwrap();
    assert_eq!(report["converged"], true, "{report}");
    assert_eq!(report["differences"].as_array().map(Vec::len), Some(0));
    for field in [
        "objects",
        "events",
        "relists",
        "relists_by_reason",
        "requests",
        "faults",
        "faults_by_kind",
        "resource_version",
        "elapsed_s",
        "peak_rss_bytes",
        "seed",
    ] {
        assert!(report.get(field).is_some(), "{field} is missing: {report}");
    }
    assert!(report["objects"].as_u64().unwrap() > 50, "{report}");
    assert!(report["events"].as_u64().unwrap() > 0, "{report}");
    assert_eq!(report["seed"].to_string(), seed);
    // A line per second, and one for each stage.
    assert!(ended.stderr.lines().count() >= 5, "{}", ended.stderr);
    report
}

#[test]
fn without_faults_nothing_is_read_twice() {
    let report = demo("none", "1");
    assert_eq!(report["faults"], 0, "{report}");
    assert_eq!(report["relists"], 0, "{report}");
}

#[test]
fn some_faults() {
    demo("some", "2");
}

#[test]
fn a_storm() {
    let report = demo("storm", "3");
    assert!(report["faults"].as_u64().unwrap() > 0, "{report}");
}

#[test]
fn the_same_seed_makes_the_same_cluster() {
    let data = || {
        let ended = run(&[
            "demo",
            "--objects",
            "50",
            "--rate",
            "0",
            "--duration",
            "0s",
            "--faults",
            "none",
            "--seed",
            "5",
            "-o",
            "json",
        ]);
        let report: Value = serde_json::from_str(ended.expect(0).stdout.lines().last().unwrap()).unwrap();
        (report["objects"].clone(), report["resource_version"].clone())
    };
    assert_eq!(data(), data());
}

#[test]
fn the_summary_is_for_people() {
    let ended =
        run(&["demo", "--objects", "20", "--rate", "50", "--duration", "1s", "--seed", "4"]).expect(0);
    let last = ended.stdout.lines().last().unwrap();
    assert!(last.starts_with("The copy is right: all "), "{last}");
    assert!(ended.stdout.contains("seed 4"), "{}", ended.stdout);
    assert!(
        !ended.stdout.contains('\u{1b}') && !ended.stderr.contains('\u{1b}'),
        "colours without a terminal"
    );
}

#[test]
#[cfg(unix)]
fn it_can_be_ended() {
    let mut demo = Running::start(&["demo", "--objects", "20", "--duration", "10m"]);
    demo.stderr("changes per second");
    demo.signal("INT");
    demo.end().expect(0);
}
