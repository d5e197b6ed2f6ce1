//! The generated parts of `docs/flow-protocol.md`.

use std::fmt::Write;
use std::path::PathBuf;

use crate::config::{Config, Retention};
use crate::explore::{Findings, Refutation, explore};
use crate::suite::{self, Broken};

/// The page.
pub fn path() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/flow-protocol.md")
}

/// The row of the table for a configuration that was explored to its end.
pub fn row(config: &Config, findings: &Findings) -> String {
    format!(
        "| `{}` | {} | {} | {} | {} |",
        config.name,
        config.covers(),
        grouped(findings.states),
        grouped(findings.steps),
        findings.depth,
    )
}

/// The table for these configurations.
///
/// # Panics
/// If one of them refutes the protocol: there is no row for that.
pub fn table(configs: &[Config]) -> String {
    let mut table = String::from(
        "| configuration | what it covers | states | steps | longest |\n| --- | --- | --: | --: | --: |\n",
    );
    for config in configs {
        let findings = explore(*config);
        assert!(
            findings.refuted.is_none(),
            "{}: {:#?}",
            config.name,
            findings.refuted
        );
        let row = row(config, &findings);
        eprintln!("{row} {:.1?}", findings.took);
        table.push_str(&row);
        table.push('\n');
    }
    table
}

/// The section on a known-bad variant.
pub fn section(broken: &Broken, refutation: &Refutation) -> String {
    format!(
        "### `{}`\n\n{} Refuted by: {}.\n\n{}",
        broken.config.name,
        broken.what,
        refutation.property,
        trace(refutation),
    )
}

/// A trace, with the drain that follows it where the drain shows the fault.
pub fn trace(refutation: &Refutation) -> String {
    let mut text = String::from("```text\n");
    let numbered = refutation.trace.iter().enumerate();
    for (at, line) in numbered {
        let _ = writeln!(text, "{:>2}. {line}", at + 1);
    }
    if let Some((left, drain)) = refutation.drain.split_last() {
        text.push_str("drained from there:\n");
        for line in drain {
            let _ = writeln!(text, "    {line}");
        }
        let _ = writeln!(text, "in the end: {left}");
    }
    text.push_str("```\n");
    text
}

/// All sections on known-bad variants.
pub fn sections() -> String {
    let sections: Vec<_> = suite::broken()
        .iter()
        .filter_map(|broken| Some(section(broken, &explore(broken.config).refuted?)))
        .collect();
    sections.join("\n")
}

/// The trace that shows the exception.
pub fn exception() -> String {
    trace_of(suite::exception(Retention::PruneChildren))
}

/// The trace that shows a stray child.
pub fn stray() -> String {
    trace_of(suite::stray())
}

fn trace_of(config: Config) -> String {
    explore(config)
        .refuted
        .as_ref()
        .map(trace)
        .unwrap_or_default()
}

/// The part of the page between the marks of this name.
pub fn part<'a>(page: &'a str, name: &str) -> Option<&'a str> {
    let start = format!("<!-- generated: {name} -->\n");
    let from = page.find(&start)? + start.len();
    let length = page[from..].find("<!-- end -->")?;
    Some(&page[from..from + length])
}

/// The page with the part of this name replaced.
pub fn replaced(page: &str, name: &str, with: &str) -> Option<String> {
    let old = part(page, name)?;
    let at = old.as_ptr() as usize - page.as_ptr() as usize;
    let (before, after) = (&page[..at], &page[at + old.len()..]);
    Some(format!("{before}{with}{after}"))
}

/// A number with its thousands set apart.
fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
