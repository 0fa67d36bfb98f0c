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

/// No crate may have unsafe code of its own: the workspace forbids it, and no crate has lints of its own instead.
#[test]
fn there_is_no_unsafe_code() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let workspace = fs::read_to_string(crates.join("../Cargo.toml")).unwrap();
    assert!(
        workspace.contains("[workspace.lints.rust]") && workspace.contains("\nunsafe_code = \"forbid\"\n")
    );
    let mut seen = 0;
    for entry in fs::read_dir(crates).unwrap() {
        let manifest = entry.unwrap().path().join("Cargo.toml");
        let text = fs::read_to_string(&manifest).unwrap();
        assert!(text.contains("\n[lints]\nworkspace = true\n"), "{}", manifest.display());
        seen += 1;
    }
    assert!(seen >= 7, "{seen}");
    let keyword = concat!("un", "safe ");
    for (path, code) in all_code() {
        let is_code = |line: &&str| !line.trim_start().starts_with("//") && line.contains(keyword);
        let found = code.lines().find(|line| is_code(line) && !line.contains('"'));
        assert_eq!(found, None, "{}", path.display());
    }
}

/// The code of all crates, by file.
fn all_code() -> Vec<(PathBuf, String)> {
    let mut files = Vec::new();
    rust_files(Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap(), &mut files);
    files.into_iter().map(|path| (path.clone(), fs::read_to_string(path).unwrap())).collect()
}

/// Whether there is a test of this name, which may begin with its module.
fn is_test(code: &[(PathBuf, String)], name: &str) -> bool {
    let (module, name) = name.rsplit_once("::").map_or((None, name), |(module, name)| (Some(module), name));
    let signature = format!("fn {name}(");
    let is_there = |text: &str| {
        text.match_indices(&signature).any(|(at, _)| {
            let line = text[..at].rfind('\n').unwrap_or(0);
            let attributes = text[..line].lines().rev().map(str::trim_start);
            let mut attributes =
                attributes.take_while(|line| line.starts_with("#[") || line.starts_with("//"));
            attributes.any(|line| line.ends_with("test]") || line.contains("test("))
        })
    };
    code.iter().any(|(path, text)| module.is_none_or(|m| path.file_stem().unwrap() == m) && is_there(text))
}

/// The rows of the tables of a document, and the names of tests in them.
fn rows_and_tests(document: &str) -> (Vec<String>, Vec<String>) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(document);
    let text = fs::read_to_string(path).unwrap();
    let rows: Vec<_> = text.lines().filter(|line| line.starts_with("| ")).map(str::to_owned).collect();
    // What has no underscore or has a slash in it is an option or a path.
    let is_name = |word: &&str| (word.contains('_') || word.contains("::")) && !word.contains('/');
    let words = rows.iter().flat_map(|row| row.split('`').skip(1).step_by(2));
    let named = words.filter(is_name).filter(|word| *word != "relist_every").map(str::to_owned).collect();
    (rows, named)
}

/// What the documentation says is tested is tested.
#[test]
fn the_tests_that_reports_name_exist() {
    let code = all_code();
    for (document, at_least) in [("reports.md", 100), ("client-go-tests.md", 200)] {
        let (_, named) = rows_and_tests(document);
        assert!(named.len() > at_least, "the table of {document} is gone");
        let missing: Vec<_> = named.iter().filter(|name| !is_test(&code, name)).collect();
        assert!(missing.is_empty(), "{document}: no such tests: {missing:?}");
    }
    // The check can fail: a name that is nowhere, or elsewhere, or not of a test.
    for name in ["this_is_not_there", "absent::files_have_one_subject", "rows_and_tests"] {
        assert!(!is_test(&code, name), "{name}");
    }
}

/// The counts at the top of the catalogue are those of its rows, each of which says what it says.
#[test]
fn the_catalogue_of_client_go_is_counted() {
    let (rows, _) = rows_and_tests("client-go-tests.md");
    let cells: Vec<Vec<&str>> = rows.iter().map(|row| row.split(" | ").collect()).collect();
    let number = |cell: &str| cell.trim_matches(|c: char| !c.is_ascii_digit()).parse::<usize>().unwrap();
    let mut all = 0;
    for kind in ["yes", "other", "n/a", "missing"] {
        let claimed = cells.iter().find(|cells| cells[0] == format!("| {kind}")).unwrap();
        let of_kind: Vec<_> = cells.iter().filter(|cells| cells[1] == kind).collect();
        assert_eq!(of_kind.len(), number(claimed[2]), "{kind}");
        for cells in &of_kind {
            assert!(kind != "yes" || cells[2].contains('`'), "{} has no test", cells[0]);
            assert!(cells[2].trim_matches(&[' ', '|'][..]).len() > 3, "{} gives no reason", cells[0]);
        }
        all += of_kind.len();
    }
    let claimed = cells.iter().find(|cells| cells[1] == "all").unwrap();
    assert_eq!(all, number(claimed[2]));
}
