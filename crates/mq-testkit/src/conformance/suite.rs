//! Running the cases.

use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Instant;

use futures::stream::StreamExt;
use futures::{FutureExt, stream};
use mq_core::contract::{Case, LONGEST_CASE, StoreFactory, cases};

use super::{CaseReport, Report, Verdict};

/// The contract cases, to be run against the stores of a factory.
pub struct Suite {
    factory: Arc<dyn StoreFactory>,
    only: Option<String>,
    at_once: usize,
}

impl Suite {
    /// All cases, four at once.
    pub fn new(factory: impl StoreFactory + 'static) -> Self {
        Self {
            factory: Arc::new(factory),
            only: None,
            at_once: 4,
        }
    }

    /// Only the cases whose path holds this text: a room (`flow::`), a subject
    /// (`run::claim::`) or one case.
    #[must_use]
    pub fn only(mut self, part: impl Into<String>) -> Self {
        self.only = Some(part.into());
        self
    }

    /// How many cases run at once; at least one.
    #[must_use]
    pub fn at_once(mut self, cases: usize) -> Self {
        self.at_once = cases.max(1);
        self
    }

    /// Runs the cases; a case that fails does not end the others. What a
    /// failing case prints goes to the program's panic hook.
    pub async fn run(self) -> Report {
        let began = Instant::now();
        let chosen = cases().filter(|case| match &self.only {
            Some(part) => case.path().contains(part.as_str()),
            None => true,
        });
        let runs = chosen.map(|case| run(Arc::clone(&self.factory), case));
        let cases = stream::iter(runs).buffered(self.at_once).collect().await;
        Report {
            cases,
            took: began.elapsed(),
        }
    }
}

impl fmt::Debug for Suite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Suite")
            .field("only", &self.only)
            .field("at_once", &self.at_once)
            .finish_non_exhaustive()
    }
}

async fn run(factory: Arc<dyn StoreFactory>, case: &'static Case) -> CaseReport {
    let began = Instant::now();
    let verdict = match case.missing(&*factory) {
        Some(need) => Verdict::NotApplicable(need),
        None => {
            let ran = AssertUnwindSafe(case.run(&*factory)).catch_unwind();
            match tokio::time::timeout(LONGEST_CASE, ran).await {
                Ok(Ok(())) => Verdict::Passed,
                Ok(Err(panic)) => Verdict::Failed(message(&*panic)),
                Err(_) => Verdict::Failed(format!("still running after {LONGEST_CASE:?}")),
            }
        }
    };
    CaseReport {
        case,
        verdict,
        took: began.elapsed(),
    }
}

/// What a panic said.
fn message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied());
    text.unwrap_or("it panicked with something other than a text")
        .to_owned()
}
