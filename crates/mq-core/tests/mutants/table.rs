//! The table of mutants on its page.

use std::fmt::Write;
use std::path::PathBuf;

use super::MUTANTS;

const BEGIN: &str = "<!-- generated: mutants -->\n";
const END: &str = "<!-- end -->";

fn page() -> PathBuf {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    root.join("../../docs/contract-mutants.md")
}

/// What a mutant does, from the name of its test.
fn what_it_does(test: &str) -> String {
    let text = test.trim_end_matches("_is_caught").replace('_', " ");
    text.replacen("a store", "A store", 1)
}

fn table() -> String {
    let mut table = String::from("| mutant | noticed by |\n| --- | --- |\n");
    for (test, cases) in MUTANTS {
        let cases: Vec<_> = cases.iter().map(|case| format!("`{case}`")).collect();
        let _ = writeln!(table, "| {} | {} |", what_it_does(test), cases.join("<br>"));
    }
    let _ = writeln!(table, "\n{} mutants.", MUTANTS.len());
    table
}

/// Each row is shown by the mutant's own test; this one keeps the page in step.
#[test]
fn the_page_lists_every_mutant_and_what_notices_it() {
    let written = std::fs::read_to_string(page()).expect("docs/contract-mutants.md is there");
    let (before, rest) = written
        .split_once(BEGIN)
        .expect("a mark where the table begins");
    let (found, after) = rest.split_once(END).expect("a mark where the table ends");
    let table = table();
    if std::env::var_os("MQ_BLESS").is_some() {
        let text = format!("{before}{BEGIN}{table}{END}{after}");
        std::fs::write(page(), text).expect("docs/contract-mutants.md can be written");
        return;
    }
    assert!(
        found == table,
        "docs/contract-mutants.md does not list the mutants as they are: run the tests once with MQ_BLESS=1"
    );
}
