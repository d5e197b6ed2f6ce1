//! Enqueue: where jobs come in.

use async_trait::async_trait;

use super::dedupe::ScopedKey;
use super::job::{Extra, Job, Policies, Slot};
use super::{MemoryStore, State};
use crate::error::StoreError;
use crate::id::JobId;
use crate::record::{Dedupe, JobState, NewJob};
use crate::store::{EnqueueOps, Enqueued, Result};
use crate::time::Timestamp;
use crate::validate::{self, MAX_BATCH};

/// How often an id is drawn again when it turns out to be taken.
const REDRAWS: u32 = 5;

/// The id of a request, and how often it was drawn: 0 if it was given.
struct SettledId {
    id: JobId,
    draws: u32,
}

/// Requests in turn, each with its id.
struct Requests {
    jobs: std::vec::IntoIter<NewJob>,
    ids: std::vec::IntoIter<SettledId>,
}

impl Requests {
    fn first(&self) -> Option<(&NewJob, &SettledId)> {
        self.jobs
            .as_slice()
            .first()
            .zip(self.ids.as_slice().first())
    }

    fn next(&mut self) -> Option<(NewJob, JobId)> {
        self.jobs
            .next()
            .zip(self.ids.next().map(|settled| settled.id))
    }
}

/// What becomes of a request.
enum Verdict {
    /// It becomes a job.
    New,
    /// An earlier job stands for it.
    Duplicate(Enqueued),
    /// The drawn id is taken.
    IdTaken,
}

#[async_trait]
impl EnqueueOps for MemoryStore {
    async fn enqueue_many(&self, jobs: Vec<NewJob>) -> Result<Vec<Enqueued>> {
        validate::enqueue_many(&jobs, self.limits())?;
        let mut answers = Vec::with_capacity(jobs.len());
        let mut requests = self.requests(jobs)?;
        while requests.first().is_some() {
            let now = self.read_clock();
            let id_taken = self.step(|state| {
                let page = MAX_BATCH as usize;
                state.enqueue_page(&mut requests, page, now, &mut answers)
            });
            if id_taken {
                self.draw_again(&mut requests)?;
            }
        }
        Ok(answers)
    }
}

impl MemoryStore {
    fn requests(&self, mut jobs: Vec<NewJob>) -> Result<Requests> {
        let settle = |job: &mut NewJob| {
            Ok(match job.id.take() {
                Some(id) => SettledId { id, draws: 0 },
                None => SettledId {
                    id: self.draw_id()?,
                    draws: 1,
                },
            })
        };
        let ids: Vec<_> = jobs.iter_mut().map(settle).collect::<Result<_>>()?;
        Ok(Requests {
            jobs: jobs.into_iter(),
            ids: ids.into_iter(),
        })
    }

    fn draw_id(&self) -> Result<JobId> {
        let id = (self.shared.draw_id)();
        validate::job_id(&id)?;
        Ok(id)
    }

    /// Draws another id for the first of the requests.
    fn draw_again(&self, requests: &mut Requests) -> Result<()> {
        if let Some(SettledId { id, draws }) = requests.ids.as_mut_slice().first_mut() {
            if *draws > REDRAWS {
                return Err(StoreError::IdsTaken {
                    tries: *draws,
                    last: id.clone(),
                });
            }
            *id = self.draw_id().map_err(|error| StoreError::Backend {
                // No refusal: earlier items of the batch may be written.
                message: format!("the id generator is defective: {error}"),
                source: None,
            })?;
            *draws += 1;
        }
        Ok(())
    }
}

impl State {
    /// Enqueues requests in turn, `most` at the most, until one's drawn id is
    /// taken, which stays for another draw: then the answer is true.
    fn enqueue_page(
        &mut self,
        requests: &mut Requests,
        most: usize,
        now: Timestamp,
        answers: &mut Vec<Enqueued>,
    ) -> bool {
        for _ in 0..most {
            let Some((job, id)) = requests.first() else {
                return false;
            };
            match self.judge(job, id, now) {
                Verdict::IdTaken => return true,
                Verdict::Duplicate(answer) => {
                    requests.next();
                    answers.push(answer);
                }
                Verdict::New => answers.extend(requests.next().map(|(job, id)| {
                    let answer = Enqueued {
                        id: id.clone(),
                        name: job.spec.name.clone(),
                        duplicate: false,
                    };
                    self.insert_new(id, job, now);
                    answer
                })),
            }
        }
        false
    }

    fn judge(&mut self, job: &NewJob, settled: &SettledId, now: Timestamp) -> Verdict {
        let taken = self.slot_of(&settled.id);
        if let (Some(slot), 0) = (taken, settled.draws) {
            return Verdict::Duplicate(Enqueued {
                id: settled.id.clone(),
                name: self.name_of(&self.jobs[slot]).clone(),
                duplicate: true,
            });
        }
        let duplicate = match &job.dedupe {
            None => None,
            Some(dedupe) => self.find_duplicate(job, dedupe, now),
        };
        match (duplicate, taken) {
            (Some(id), _) => Verdict::Duplicate(Enqueued {
                id,
                name: job.spec.name.clone(),
                duplicate: true,
            }),
            (None, Some(_)) => Verdict::IdTaken,
            (None, None) => Verdict::New,
        }
    }

    /// The job that stands for a new one by its dedupe key, if one does.
    fn find_duplicate(&mut self, job: &NewJob, dedupe: &Dedupe, now: Timestamp) -> Option<JobId> {
        let key = ScopedKey {
            name: job.spec.name.clone(),
            key: dedupe.key.clone(),
        };
        let entry = self.dedupes.get(&key)?;
        let (id, window) = (entry.job.clone(), entry.window);
        let keyed = self.keyed_job(&key);
        let state = keyed.map(|slot| self.jobs[slot].state);
        let end_from_now = dedupe.ttl.map(|ttl| now.saturating_add(ttl));
        if let (true, Some(slot), Some(JobState::Delayed)) = (dedupe.replace, keyed, state) {
            self.replace_delayed(slot, job, now);
            if let Some(end) = end_from_now {
                self.dedupes.set_window(&key, end);
            }
            return Some(id);
        }
        let stands = match window {
            Some(end) => now < end,
            None => state.is_some_and(|state| !state.is_terminal()),
        };
        if let (true, true, Some(window), Some(end)) = (stands, dedupe.extend, window, end_from_now)
        {
            self.dedupes.set_window(&key, end.max(window));
        }
        stands.then_some(id)
    }

    /// The job that holds a dedupe key, if its record is still there.
    pub(super) fn keyed_job(&self, key: &ScopedKey) -> Option<Slot> {
        let slot = self.slot_of(&self.dedupes.get(key)?.job)?;
        let job = &self.jobs[slot];
        // Another job may have been enqueued under the same id since.
        let holds = job.dedupe_key() == Some(&key.key) && *self.name_of(job) == key.name;
        holds.then_some(slot)
    }

    fn replace_delayed(&mut self, slot: Slot, new: &NewJob, now: Timestamp) {
        let group = self.jobs[slot].group;
        let policies = self.share(group, Policies::of(&new.spec));
        self.update(slot, |job| {
            job.payload = new.spec.payload.clone();
            job.priority = new.spec.priority;
            job.attempts_max = new.spec.attempts_max;
            job.policies = policies;
            job.run_at = new.when.resolve(now);
            let extra = job.extra_mut();
            extra.metadata.clone_from(&new.spec.metadata);
            extra.trace.clone_from(&new.trace);
        });
        self.wake(self.groups[group].queue);
    }

    /// Inserts a job under an id that is free, and wakes its queue.
    pub(super) fn insert_new(&mut self, id: JobId, new: NewJob, now: Timestamp) {
        let NewJob {
            id: _,
            spec,
            when,
            dedupe,
            trace,
            parent,
        } = new;
        let group = self.group(&spec.queue, &spec.name);
        let policies = match Policies::of(&spec) {
            None => None,
            some => self.share(group, some),
        };
        if let Some(dedupe) = &dedupe {
            let key = ScopedKey {
                name: spec.name.clone(),
                key: dedupe.key.clone(),
            };
            let window = dedupe.ttl.map(|ttl| now.saturating_add(ttl));
            self.dedupes.hold(key, id.clone(), window);
        }
        let plain =
            spec.metadata.is_empty() && dedupe.is_none() && trace.is_none() && parent.is_none();
        let extra = (!plain).then(|| {
            Box::new(Extra {
                metadata: spec.metadata,
                dedupe_key: dedupe.map(|dedupe| dedupe.key),
                trace,
                parent,
                ..Extra::default()
            })
        });
        let run_at = when.resolve(now);
        let seq = self.next_seq();
        self.insert(Job {
            id,
            payload: spec.payload,
            policies,
            extra,
            exit: None,
            lock: None,
            last_acked: None,
            ledger: Vec::new(),
            seq,
            run_at,
            enqueued_at: now,
            processed_at: None,
            finished_at: None,
            sweep_at: None,
            group,
            priority: spec.priority,
            attempts_max: spec.attempts_max,
            attempts_made: 0,
            attempts_recorded: 0,
            stalled_count: 0,
            state: if run_at > now {
                JobState::Delayed
            } else {
                JobState::Waiting
            },
            cancel_requested: false,
            watched: false,
            spared: false,
        });
        self.wake(self.groups[group].queue);
    }
}
