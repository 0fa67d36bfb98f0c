//! The layout of the house, checked: which room may know what.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    fs,
    path::{Path, PathBuf},
};

fn rust_files(dir: &Path, into: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            rust_files(&path, into);
        } else if path.extension().is_some_and(|e| e == "rs") {
            into.push(path);
        }
    }
}

/// The code of a file: without comments, and without its tests, which may use anything.
fn code(path: &Path) -> String {
    let text = fs::read_to_string(path).unwrap();
    let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    text.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n")
}

fn violations(room: &str, banned: &[&str]) -> Vec<String> {
    let mut files = Vec::new();
    rust_files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src").join(room), &mut files);
    assert!(!files.is_empty(), "{room} is empty");
    let mut found = Vec::new();
    let is_test =
        |path: &Path| path.file_stem().is_some_and(|stem| stem.to_string_lossy().ends_with("tests"));
    let in_tests = |path: &Path| path.parent().is_some_and(|dir| dir.ends_with("tests"));
    for path in files.iter().filter(|path| !is_test(path) && !in_tests(path)) {
        let code = code(path);
        found
            .extend(banned.iter().filter(|b| code.contains(**b)).map(|b| format!("{}: {b}", path.display())));
    }
    found
}

/// Time and randomness are arguments of the protocol, and it opens nothing.
#[test]
fn the_protocol_has_no_clock_no_io_and_no_randomness() {
    let banned = [
        "tokio",
        "futures",
        "std::net",
        "std::fs",
        "std::thread",
        "Instant",
        "SystemTime",
        "RandomState",
        "kube",
        "http::",
    ];
    assert_eq!(violations("protocol", &banned), [""; 0]);
}

#[test]
fn the_wire_has_no_clock_and_no_io() {
    let banned = [
        "tokio",
        "futures",
        "std::net",
        "std::fs",
        "std::thread",
        "Instant",
        "SystemTime",
        "crate::protocol",
    ];
    assert_eq!(violations("wire", &banned), [""; 0]);
}

#[test]
fn the_store_knows_nothing_of_the_network() {
    let banned = [
        "tokio::net",
        "tokio::time",
        "tokio::spawn",
        "tokio::task",
        "kube",
        "crate::source",
        "crate::wire",
        "crate::driver",
        "Machine",
    ];
    assert_eq!(violations("store", &banned), [""; 0]);
}

/// The checks above can fail.
#[test]
fn a_violation_is_found() {
    assert!(!violations("protocol", &["ResourceVersion"]).is_empty());
}

#[test]
fn files_have_one_subject() {
    let mut files = Vec::new();
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    rust_files(crates, &mut files);
    let long: Vec<_> = files
        .iter()
        .map(|path| (path, fs::read_to_string(path).unwrap().lines().count()))
        .filter(|(_, lines)| *lines > 650)
        .collect();
    assert!(long.is_empty(), "split these: {long:?}");
}

/// What the documentation says is tested is tested.
#[test]
fn the_tests_that_reports_name_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let reports = fs::read_to_string(root.join("../../docs/reports.md")).unwrap();
    let mut files = Vec::new();
    rust_files(root, &mut files);
    let code: String = files.iter().map(|path| fs::read_to_string(path).unwrap()).collect();
    let rows = reports.lines().filter(|line| line.starts_with("| "));
    let named: Vec<_> = rows.flat_map(|row| row.split('`').skip(1).step_by(2)).collect();
    assert!(named.len() > 50, "the table is gone");
    let is_test = |name: &str| code.contains(&format!("fn {name}("));
    let missing: Vec<_> = named.iter().filter(|name| name.contains('_') && !is_test(name)).collect();
    assert!(missing.is_empty(), "no such tests: {missing:?}");
}
