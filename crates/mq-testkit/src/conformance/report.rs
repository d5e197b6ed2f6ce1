//! What came of the cases.

use std::fmt;
use std::time::Duration;

use mq_core::contract::{Capability, Case};

/// What came of a run of the [`Suite`](super::Suite), case by case.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Report {
    /// In the order of the contract: room by room.
    pub cases: Vec<CaseReport>,
    /// How long all of it took.
    pub took: Duration,
}

/// What came of one case.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CaseReport {
    /// The case.
    pub case: &'static Case,
    /// What came of it.
    pub verdict: Verdict,
    /// How long it took.
    pub took: Duration,
}

/// Whether a store does what a case says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It does.
    Passed,
    /// It does not: what was expected, and what came.
    Failed(String),
    /// It cannot be shown, since the factory's stores lack this capability.
    NotApplicable(Capability),
}

impl Report {
    /// Whether cases ran, and none failed.
    pub fn is_kept(&self) -> bool {
        self.passed() > 0 && self.failed().next().is_none()
    }

    /// How many cases passed.
    pub fn passed(&self) -> usize {
        let passed = |case: &&CaseReport| case.verdict == Verdict::Passed;
        self.cases.iter().filter(passed).count()
    }

    /// The cases that failed.
    pub fn failed(&self) -> impl Iterator<Item = &CaseReport> {
        let failed = |case: &&CaseReport| matches!(case.verdict, Verdict::Failed(_));
        self.cases.iter().filter(failed)
    }

    /// The cases that do not apply.
    pub fn not_applicable(&self) -> impl Iterator<Item = &CaseReport> {
        let other = |case: &&CaseReport| matches!(case.verdict, Verdict::NotApplicable(_));
        self.cases.iter().filter(other)
    }
}

/// Each case that did not pass, and the totals.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for CaseReport { case, verdict, .. } in &self.cases {
            match verdict {
                Verdict::Passed => {}
                Verdict::Failed(why) => writeln!(f, "FAILED {case:?}: {why}")?,
                Verdict::NotApplicable(need) => {
                    writeln!(f, "not applicable (no {need}) {case:?}")?;
                }
            }
        }
        write!(
            f,
            "{} passed, {} failed, {} not applicable, in {:.1?}",
            self.passed(),
            self.failed().count(),
            self.not_applicable().count(),
            self.took
        )
    }
}
