//! The guide's tables of crashes name tests that exist.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::path::Path;

/// A table of the guide, by the word that it is marked with.
fn table(mark: &str) -> String {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let guide = std::fs::read_to_string(here.join("../../docs/flows.md")).unwrap();
    let (_, table) = guide.split_once(&format!("<!-- {mark} -->")).unwrap();
    let (table, _) = table.split_once("<!-- end -->").unwrap();
    table.to_owned()
}

#[test]
fn the_matrix_of_processes_names_all_of_their_tests_and_no_others() {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../chaos/tests/crashes/main.rs");
    let tests = std::fs::read_to_string(tests).unwrap();
    let is_test = |line: &&str| line.contains(": ") && line.ends_with(r#"");"#);
    let there: BTreeSet<_> = tests
        .lines()
        .filter(is_test)
        .filter_map(|line| line.trim().split_once(": "))
        .map(|(name, _)| name.to_owned())
        .collect();
    let named: BTreeSet<_> = table("processes")
        .split('`')
        .skip(1)
        .step_by(2)
        .filter(|name| name.contains('_'))
        .map(str::to_owned)
        .collect();
    assert_eq!(named, there);
}

#[test]
fn each_row_of_the_crash_matrix_names_a_test_that_exists() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let matrix = table("matrix");
    let read = |file| std::fs::read_to_string(here.join("tests").join(file)).unwrap();
    let tests = read("closing.rs") + &read("crashes.rs");
    let rows: Vec<_> = matrix
        .lines()
        .filter(|line| line.ends_with("` |"))
        .collect();
    assert!(rows.len() > 20, "{}", rows.len());
    for row in rows {
        let name = row.rsplit('`').nth(1).unwrap();
        assert!(tests.contains(&format!("async fn {name}()")), "{name}");
    }
}
