//! What was enqueued, to look through and to assert.

use std::fmt::Write;

use mq_core::{
    Dedupe, Job, JobId, JobName, JobSpec, ParentEnvelope, QueueName, RawJson, Timestamp,
};

use super::diff::{diff, likeness, pretty, same_json};
use super::typed::EnqueuedJob;

/// A job that was enqueued.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LoggedJob {
    /// Its id, or that of the earlier job that stands for it.
    pub id: JobId,
    /// What was asked for: name, queue, payload, metadata, priority, attempts,
    /// backoff, retention, time-out.
    pub spec: JobSpec,
    /// When it was enqueued.
    pub enqueued_at: Timestamp,
    /// When it may run: `enqueued_at` unless it was put off.
    pub run_at: Timestamp,
    /// Which earlier job would have made it superfluous.
    pub dedupe: Option<Dedupe>,
    /// The flow it is a child of.
    pub parent: Option<ParentEnvelope>,
    /// Whether an earlier job stood for it, by id or dedupe key.
    pub is_duplicate: bool,
}

impl LoggedJob {
    /// The payload over several lines.
    pub(super) fn pretty(&self) -> String {
        pretty(self.spec.payload.get())
    }

    /// One line that tells which job this is.
    fn line(&self) -> String {
        let mut line = format!(
            "{} {:?} in queue {:?}",
            self.spec.name,
            self.id.as_str(),
            self.spec.queue.as_str()
        );
        if self.run_at > self.enqueued_at {
            let delay = self.run_at.since(self.enqueued_at);
            let _ = write!(line, ", in {delay:?}");
        }
        if self.spec.priority != 0 {
            let _ = write!(line, ", priority {}", self.spec.priority);
        }
        if let Some(dedupe) = &self.dedupe {
            let _ = write!(line, ", dedupe key {:?}", dedupe.key.as_str());
        }
        if !self.spec.metadata.is_empty() {
            let _ = write!(line, ", metadata {:?}", self.spec.metadata);
        }
        let _ = write!(line, ": {}", self.spec.payload);
        line
    }
}

/// What was enqueued up to some moment, in order.
///
/// Assertions count what became a job: a request that an earlier job stood for
/// is among [`duplicates`](Self::duplicates) instead. Payloads are compared as
/// JSON, so that job types need neither `PartialEq` nor `Debug`.
#[derive(Clone, Debug)]
pub struct Enqueues {
    jobs: Vec<LoggedJob>,
    /// What they were narrowed down to, for messages.
    only: String,
}

impl Enqueues {
    pub(super) fn new(jobs: Vec<LoggedJob>) -> Self {
        Self {
            jobs,
            only: String::new(),
        }
    }

    // ---- narrow down

    /// Only those in this queue.
    #[must_use]
    pub fn in_queue(self, queue: impl Into<QueueName>) -> Self {
        let queue = queue.into();
        let only = format!(" in queue {:?}", queue.as_str());
        self.only(only, |job| job.spec.queue == queue)
    }

    /// Only those of this name.
    #[must_use]
    pub fn named(self, name: impl Into<JobName>) -> Self {
        let name = name.into();
        let only = format!(" named {:?}", name.as_str());
        self.only(only, |job| job.spec.name == name)
    }

    /// Only those whose metadata have this entry.
    #[must_use]
    pub fn with_metadata(self, key: &str, value: &str) -> Self {
        let only = format!(" with metadata {key}={value}");
        self.only(only, |job| {
            job.spec.metadata.get(key).map(String::as_str) == Some(value)
        })
    }

    fn only(mut self, only: String, holds: impl Fn(&LoggedJob) -> bool) -> Self {
        self.only += &only;
        self.jobs.retain(holds);
        self
    }

    // ---- look

    /// All that became jobs.
    pub fn jobs(&self) -> impl Iterator<Item = &LoggedJob> {
        self.jobs.iter().filter(|job| !job.is_duplicate)
    }

    /// All that did not, as an earlier job stood for them, under its id.
    pub fn duplicates(&self) -> impl Iterator<Item = &LoggedJob> {
        self.jobs.iter().filter(|job| job.is_duplicate)
    }

    /// Those of type `J`.
    ///
    /// # Panics
    /// If a job of `J`'s name has a payload that does not decode.
    #[track_caller]
    pub fn of<J: Job>(&self) -> Vec<EnqueuedJob<J>> {
        let mut decoded = Vec::new();
        for job in self.jobs().filter(|job| job.spec.name == J::NAME) {
            decoded.push(EnqueuedJob::decode(job.clone()));
        }
        decoded
    }

    // ---- assert

    /// Asserts that a job was enqueued with this payload, and returns the first.
    ///
    /// # Panics
    /// If there is none, with a diff to the one that is most like it.
    #[track_caller]
    pub fn assert_enqueued<J: Job>(&self, expected: &J) -> EnqueuedJob<J> {
        let expected = encoded(expected);
        let found = self.of::<J>();
        let is_expected = |job: &EnqueuedJob<J>| same_json(job.spec.payload.get(), expected.get());
        if let Some(place) = found.iter().position(is_expected) {
            return found.into_iter().nth(place).expect("it is there");
        }
        let text = pretty(expected.get());
        let like = |job: &EnqueuedJob<J>| likeness(&job.pretty(), &text);
        let nearest = found
            .iter()
            .max_by(|one, other| like(one).total_cmp(&like(other)));
        match nearest {
            None => panic!(
                "no {} was enqueued{} with the payload\n{text}\n{}",
                J::NAME,
                self.only,
                self.account()
            ),
            Some(nearest) => panic!(
                "no {} was enqueued{} with the expected payload; the nearest is {:?} (- expected, + enqueued):\n{}\n{}",
                J::NAME,
                self.only,
                nearest.id.as_str(),
                diff(&text, &nearest.pretty()),
                self.account()
            ),
        }
    }

    /// Asserts that a job of type `J` was enqueued of which `holds` is true,
    /// and returns the first. `what` says in the message what was expected.
    ///
    /// # Panics
    /// If there is none, with a list of what there is.
    #[track_caller]
    pub fn assert_enqueued_with<J: Job>(
        &self,
        what: &str,
        holds: impl Fn(&EnqueuedJob<J>) -> bool,
    ) -> EnqueuedJob<J> {
        match self.of::<J>().into_iter().find(|job| holds(job)) {
            Some(job) => job,
            None => panic!(
                "no {} was enqueued{} {what}\n{}",
                J::NAME,
                self.only,
                self.account()
            ),
        }
    }

    /// Asserts that of type `J` these were enqueued and no others, in this
    /// order, and returns them.
    ///
    /// # Panics
    /// If others were, with a diff.
    #[track_caller]
    pub fn assert_enqueued_exactly<J: Job>(&self, expected: &[J]) -> Vec<EnqueuedJob<J>> {
        let found = self.of::<J>();
        let mut wanted = Vec::new();
        for job in expected {
            wanted.push(encoded(job));
        }
        let is_same = wanted.len() == found.len()
            && wanted
                .iter()
                .zip(&found)
                .all(|(one, other)| same_json(one.get(), other.spec.payload.get()));
        if !is_same {
            let wanted: Vec<_> = wanted.iter().map(|json| pretty(json.get())).collect();
            let there: Vec<_> = found.iter().map(|job| job.pretty()).collect();
            panic!(
                "other {} were enqueued{} than expected (- expected, + enqueued):\n{}\n{}",
                J::NAME,
                self.only,
                diff(&lines(&wanted), &lines(&there)),
                self.account()
            );
        }
        found
    }

    /// Asserts how many of type `J` were enqueued, and returns them.
    ///
    /// # Panics
    /// If it were more or fewer, with a list.
    #[track_caller]
    pub fn assert_enqueued_count<J: Job>(&self, count: usize) -> Vec<EnqueuedJob<J>> {
        let found = self.of::<J>();
        assert!(
            found.len() == count,
            "{} {} were enqueued{}, expected {count}\n{}",
            found.len(),
            J::NAME,
            self.only,
            self.account()
        );
        found
    }

    /// Asserts that no job of type `J` was enqueued.
    ///
    /// # Panics
    /// If one was, with a list.
    #[track_caller]
    pub fn assert_not_enqueued<J: Job>(&self) {
        self.assert_enqueued_count::<J>(0);
    }

    /// Asserts that nothing was enqueued, of whatever type.
    ///
    /// # Panics
    /// If something was, with a list.
    #[track_caller]
    pub fn assert_none(&self) {
        let count = self.jobs().count();
        assert!(
            count == 0,
            "{count} jobs were enqueued{}, expected none\n{}",
            self.only,
            self.account()
        );
    }

    /// A list of what was enqueued.
    fn account(&self) -> String {
        const MOST: usize = 20;
        let mut text = match self.jobs.len() {
            0 => return format!("Nothing was enqueued{}.", self.only),
            _ => format!("Enqueued{}:\n", self.only),
        };
        for job in self.jobs.iter().take(MOST) {
            let mark = if job.is_duplicate { " (duplicate)" } else { "" };
            let _ = writeln!(text, "  {}{mark}", job.line());
        }
        if self.jobs.len() > MOST {
            let _ = writeln!(text, "  and {} more", self.jobs.len() - MOST);
        }
        text
    }
}

/// Texts one after the other.
fn lines(texts: &[String]) -> String {
    texts.iter().map(|text| format!("{text}\n")).collect()
}

#[track_caller]
fn encoded<J: Job>(job: &J) -> RawJson {
    RawJson::encode(job)
        .unwrap_or_else(|error| panic!("the expected {} does not encode: {error}", J::NAME))
}
