//! The guide's table of crashes names tests that exist.
#![allow(clippy::unwrap_used)]

use std::path::Path;

#[test]
fn each_row_of_the_crash_matrix_names_a_test_that_exists() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let guide = std::fs::read_to_string(here.join("../../docs/flows.md")).unwrap();
    let (_, matrix) = guide.split_once("<!-- matrix -->").unwrap();
    let (matrix, _) = matrix.split_once("<!-- end -->").unwrap();
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
