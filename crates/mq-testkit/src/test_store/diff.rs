//! What is said when something else was enqueued than expected.

use std::fmt::Write;

use similar::TextDiff;

/// JSON over several lines, with sorted keys; as it is if it cannot be parsed.
pub(super) fn pretty(json: &str) -> String {
    let parsed: Result<serde_json::Value, _> = serde_json::from_str(json);
    parsed
        .and_then(|value| serde_json::to_string_pretty(&value))
        .unwrap_or_else(|_| json.to_owned())
}

/// Whether two texts are the same JSON, however it is written.
pub(super) fn same_json(one: &str, other: &str) -> bool {
    one == other || pretty(one) == pretty(other)
}

/// What is expected (`-`) and not there, and what is there instead (`+`).
pub(super) fn diff(expected: &str, found: &str) -> String {
    let diff = TextDiff::from_lines(expected, found);
    let mut text = String::new();
    for change in diff.iter_all_changes() {
        let line = change.value().trim_end_matches('\n');
        let _ = writeln!(text, "  {}{line}", change.tag());
    }
    text
}

/// How alike two texts are, from 0 to 1.
pub(super) fn likeness(one: &str, other: &str) -> f32 {
    TextDiff::from_chars(one, other).ratio()
}
