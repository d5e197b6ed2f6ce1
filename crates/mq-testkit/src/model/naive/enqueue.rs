//! Enqueue, by the contract's four points.

use mq_core::{
    Backoff, Dedupe, Enqueued, JobId, JobRecord, JobSpec, JobState, Keep, NewJob, Retention,
    Timestamp,
};

use super::{Job, Key, Naive, whole};

impl Naive {
    /// Enqueues jobs in turn, each under an id that it has already.
    pub(in crate::model) fn enqueue(&mut self, jobs: &[NewJob]) -> Vec<Enqueued> {
        jobs.iter().map(|job| self.enqueue_one(job)).collect()
    }

    fn enqueue_one(&mut self, job: &NewJob) -> Enqueued {
        if let Some(place) = job.id.as_ref().and_then(|id| self.find(id)) {
            let there = &self.jobs[place].record;
            return Enqueued {
                id: there.id.clone(),
                name: there.spec.name.clone(),
                duplicate: true,
            };
        }
        let keyed = job
            .dedupe
            .as_ref()
            .and_then(|dedupe| self.duplicate(job, dedupe));
        if let Some(id) = keyed {
            return Enqueued {
                id,
                name: job.spec.name.clone(),
                duplicate: true,
            };
        }
        let id = job.id.as_ref().expect("each job has an id by now");
        self.insert(id, job);
        Enqueued {
            id: id.clone(),
            name: job.spec.name.clone(),
            duplicate: false,
        }
    }

    fn key(&self, name: &str, key: &str) -> Option<usize> {
        self.keys
            .iter()
            .position(|entry| entry.name == *name && entry.key == *key)
    }

    /// The job that holds a key, if its record is there.
    pub(super) fn keyed(&self, name: &str, key: &str) -> Option<usize> {
        self.born(self.keys[self.key(name, key)?].birth)
    }

    fn duplicate(&mut self, job: &NewJob, dedupe: &Dedupe) -> Option<JobId> {
        let now = self.now;
        let entry = self.key(&job.spec.name, &dedupe.key)?;
        let keyed = self.keyed(&job.spec.name, &dedupe.key);
        let state = keyed.map(|place| self.jobs[place].state());
        let end = dedupe.ttl.map(|ttl| now.saturating_add(ttl));
        let id = self.keys[entry].id.clone();
        if let (true, Some(place), Some(JobState::Delayed)) = (dedupe.replace, keyed, state) {
            self.replace(place, job);
            if end.is_some() {
                self.keys[entry].window = end;
            }
            return Some(id);
        }
        match (self.keys[entry].window, state) {
            (Some(window), _) if now < window => {
                if let (true, Some(end)) = (dedupe.extend, end) {
                    self.keys[entry].window = Some(window.max(end));
                }
                Some(id)
            }
            (None, Some(state)) if !state.is_terminal() => Some(id),
            _ => None,
        }
    }

    fn replace(&mut self, place: usize, job: &NewJob) {
        let record = &mut self.jobs[place].record;
        let new = stored(&job.spec);
        record.spec = JobSpec {
            name: record.spec.name.clone(),
            queue: record.spec.queue.clone(),
            ..new
        };
        record.trace.clone_from(&job.trace);
        record.run_at = job.when.resolve(self.now);
        let queue = record.spec.queue.clone();
        self.wake(&queue);
    }

    pub(super) fn insert(&mut self, id: &JobId, new: &NewJob) {
        let (now, birth) = (self.now, self.arrive());
        let mut job = Job {
            record: record(id, new, now),
            ledger: Vec::new(),
            birth,
            arrival: birth,
            lock: None,
            last_acked: None,
            watched: false,
            rows: Vec::new(),
            keep_is_due: false,
        };
        job.put_at(new.when.resolve(now), now);
        self.jobs.push(job);
        if let Some(dedupe) = &new.dedupe {
            let (name, key) = (new.spec.name.to_string(), dedupe.key.to_string());
            self.keys
                .retain(|entry| entry.name != name || entry.key != key);
            self.keys.push(Key {
                name,
                key,
                id: id.clone(),
                birth,
                window: dedupe.ttl.map(|ttl| now.saturating_add(ttl)),
            });
        }
        self.wake(&new.spec.queue);
    }
}

fn record(id: &JobId, new: &NewJob, now: Timestamp) -> JobRecord {
    JobRecord {
        id: id.clone(),
        spec: stored(&new.spec),
        state: JobState::Waiting,
        attempts_made: 0,
        attempts_recorded: 0,
        stalled_count: 0,
        cancel_requested: false,
        dedupe_key: new.dedupe.as_ref().map(|dedupe| dedupe.key.clone()),
        trace: new.trace.clone(),
        parent: new.parent.clone(),
        flow: None,
        run_at: now,
        enqueued_at: now,
        processed_at: None,
        finished_at: None,
        exit: None,
        failed_reason: None,
        progress: None,
    }
}

/// A spec as it is read back: durations are whole milliseconds.
pub(super) fn stored(spec: &JobSpec) -> JobSpec {
    let retention = |retention: Retention| Retention {
        age: retention.age.map(whole),
        ..retention
    };
    JobSpec {
        timeout: spec.timeout.map(whole),
        backoff: spec.backoff.map(|backoff| match backoff {
            Backoff::Fixed { delay } => Backoff::fixed(whole(delay)),
            other => other,
        }),
        keep: spec.keep.map(|keep| Keep {
            completed: keep.completed.map(retention),
            failed: keep.failed.map(retention),
            cancelled: keep.cancelled.map(retention),
        }),
        ..spec.clone()
    }
}
