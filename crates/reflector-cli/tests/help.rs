//! Help texts are looked at when they change: `INSTA_UPDATE=always cargo test -p reflector-cli --test help`.
#![allow(clippy::unwrap_used, reason = "a test may")]

mod support;

use support::run;

fn help(args: &[&str]) -> String {
    run(args).expect(0).stdout
}

#[test]
fn help_texts() {
    for command in ["demo", "watch", "apiserver", "completions"] {
        insta::assert_snapshot!(command, help(&[command, "--help"]));
    }
    insta::assert_snapshot!("reflector", help(&["--help"]));
    insta::assert_snapshot!("reflector_short", help(&["-h"]));
}

#[test]
fn versions_and_completions() {
    assert_eq!(help(&["--version"]), format!("reflector {}\n", env!("CARGO_PKG_VERSION")));
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        assert!(help(&["completions", shell]).contains("reflector"), "{shell}");
    }
}
