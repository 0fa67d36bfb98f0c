//! The table in the repository is what the generator makes of the facts.
// Helpers outside the test functions are tests too.
#![allow(clippy::unwrap_used, clippy::print_stderr, clippy::needless_pass_by_value)]

use std::{fs, path::Path};

#[allow(dead_code, reason = "its `main` is for the command line")]
#[path = "../examples/generate_table.rs"]
mod generate_table;

#[test]
fn the_table_is_what_the_generator_makes() {
    let facts = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/facts");
    if !facts.exists() {
        eprintln!("SKIPPED: no facts at {}", facts.display());
        return;
    }
    let read = |name: &str| fs::read_to_string(facts.join(name)).unwrap();
    let made = generate_table::table(&read("fields.tsv"), &read("kinds.tsv")).unwrap();
    assert!(made == include_str!("../src/schema/table.in"), "run the example generate_table again");
}
