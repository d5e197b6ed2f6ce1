//! Everything the store holds, under one lock: jobs, and the ordered indexes
//! through which operations find them without scanning.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::BuildHasher;
use std::sync::Arc;

use hashbrown::{DefaultHashBuilder, HashMap, HashTable};
use tokio::sync::Notify;

use super::arena::{Arena, Ix};
use super::dedupe::{Dedupes, ScopedKey};
use super::flow::{Flow, FlowSweeps, Outbox};
use super::history::History;
use super::job::{IdKey, Job, Policies, Slot, TimeKey, WaitKey};
use super::limits::Limiter;
use super::tokens::Tokens;
use crate::error::StoreError;
use crate::id::{JobId, JobName, QueueName, ScheduleKey, StoreKey, WorkerId};
use crate::record::{HistoryCeiling, JobRecord, JobState, ScheduleRecord, WorkerRecord};
use crate::store::StateCounts;
use crate::time::Timestamp;

/// The jobs of one name in one queue.
pub(super) struct Group {
    pub(super) queue: Ix<Queue>,
    pub(super) name: Ix<Name>,
    pub(super) waiting: BTreeMap<WaitKey, Slot>,
    pub(super) delayed: BTreeMap<TimeKey, Slot>,
    /// All of them, by the time they were enqueued.
    pub(super) listing: BTreeMap<IdKey, Slot>,
    /// The policies seen last, for the next job to share.
    policies: Option<Arc<Policies>>,
}

/// A job name, over all queues.
pub(super) struct Name {
    pub(super) name: JobName,
    groups: usize,
    /// Its finished jobs, by terminal state.
    pub(super) finished: [History; 3],
}

/// A queue: its settings, its counts, and who waits for it.
pub(super) struct Queue {
    pub(super) name: QueueName,
    pub(super) groups: HashMap<Ix<Name>, Ix<Group>>,
    pub(super) paused: bool,
    pub(super) max_active: Option<u32>,
    pub(super) limiter: Option<Limiter>,
    pub(super) counts: StateCounts,
    /// The place of its last wake-up in the stream of wake-ups; 0 before.
    pub(super) last_wake: u64,
    pub(super) waiters: Vec<Arc<Notify>>,
}

#[cfg(test)]
impl Name {
    pub(super) fn group_count(&self) -> usize {
        self.groups
    }
}

impl Queue {
    /// Whether it shows in `queues`: it has a job record or a setting.
    pub(super) fn is_listed(&self) -> bool {
        let set = self.paused || self.max_active.is_some() || self.limiter.is_some();
        set || !self.groups.is_empty()
    }
}

/// A job in the index of ids, with the hash it is filed under, so that growing
/// the index does not touch the jobs.
struct IdEntry {
    hash: u32,
    slot: Slot,
}

pub(super) struct State {
    pub(super) jobs: Arena<Box<Job>>,
    ids: HashTable<IdEntry>,
    hasher: DefaultHashBuilder,
    pub(super) groups: Arena<Group>,
    pub(super) queues: Arena<Queue>,
    queue_names: HashMap<QueueName, Ix<Queue>>,
    pub(super) names: Arena<Name>,
    job_names: HashMap<JobName, Ix<Name>>,
    /// Locked jobs, by the time their lock expires.
    pub(super) active: BTreeMap<IdKey, Slot>,
    /// Finished jobs that the sweep has to look at, by when.
    pub(super) sweeps: BTreeMap<TimeKey, Slot>,
    pub(super) dedupes: Dedupes,
    pub(super) tokens: Tokens,
    pub(super) flow_sweeps: FlowSweeps,
    pub(super) outbox: Outbox,
    /// Flows whose parents are gone, to be dropped without the lock: they may
    /// be large.
    pub(super) gone_flows: Vec<Flow>,
    pub(super) schedules: BTreeMap<ScheduleKey, ScheduleRecord>,
    pub(super) slots_due: BTreeSet<(Timestamp, ScheduleKey)>,
    pub(super) schedule_version: u64,
    pub(super) workers: BTreeMap<WorkerId, WorkerRecord>,
    pub(super) store_name: Option<StoreKey>,
    pub(super) ceiling: Option<HistoryCeiling>,
    last_seq: u64,
    pub(super) wakes: super::wake::Wakes,
}

/// The place of a terminal state in [`Name::finished`].
pub(super) fn terminal_index(state: JobState) -> Option<usize> {
    match state {
        JobState::Completed => Some(0),
        JobState::Failed => Some(1),
        JobState::Cancelled => Some(2),
        _ => None,
    }
}

impl State {
    pub(super) fn new(ceiling: Option<HistoryCeiling>) -> Self {
        Self {
            jobs: Arena::new(),
            ids: HashTable::new(),
            hasher: DefaultHashBuilder::default(),
            groups: Arena::new(),
            queues: Arena::new(),
            queue_names: HashMap::new(),
            names: Arena::new(),
            job_names: HashMap::new(),
            active: BTreeMap::new(),
            sweeps: BTreeMap::new(),
            dedupes: Dedupes::default(),
            tokens: Tokens::default(),
            flow_sweeps: FlowSweeps::default(),
            outbox: Outbox::default(),
            gone_flows: Vec::new(),
            schedules: BTreeMap::new(),
            slots_due: BTreeSet::new(),
            schedule_version: 0,
            workers: BTreeMap::new(),
            store_name: None,
            ceiling,
            last_seq: 0,
            wakes: super::wake::Wakes::default(),
        }
    }

    /// Draws an arrival number.
    pub(super) fn next_seq(&mut self) -> u64 {
        self.last_seq += 1;
        self.last_seq
    }

    // ---- finding

    pub(super) fn slot_of(&self, id: &JobId) -> Option<Slot> {
        let hash = short_hash(&self.hasher, id);
        let is_it = |entry: &IdEntry| entry.hash == hash && self.jobs[entry.slot].id == *id;
        self.ids
            .find(table_hash(hash), is_it)
            .map(|entry| entry.slot)
    }

    pub(super) fn require(&self, id: &JobId) -> Result<Slot, StoreError> {
        self.slot_of(id)
            .ok_or_else(|| StoreError::NotFound { id: id.clone() })
    }

    pub(super) fn queue_of(&self, job: &Job) -> Ix<Queue> {
        self.groups[job.group].queue
    }

    pub(super) fn name_of(&self, job: &Job) -> &JobName {
        &self.names[self.groups[job.group].name].name
    }

    pub(super) fn record(&self, slot: Slot) -> JobRecord {
        let job = &self.jobs[slot];
        let group = &self.groups[job.group];
        job.record(&self.queues[group.queue].name, &self.names[group.name].name)
    }

    pub(super) fn find_queue(&self, name: &QueueName) -> Option<Ix<Queue>> {
        self.queue_names.get(name).copied()
    }

    pub(super) fn find_name(&self, name: &JobName) -> Option<Ix<Name>> {
        self.job_names.get(name).copied()
    }

    #[cfg(test)]
    pub(super) fn id_count(&self) -> usize {
        self.ids.len()
    }

    // ---- groups and queues, which exist as long as something needs them

    pub(super) fn queue(&mut self, name: &QueueName) -> Ix<Queue> {
        if let Some(queue) = self.find_queue(name) {
            return queue;
        }
        let queue = self.queues.insert(Queue {
            name: name.clone(),
            groups: HashMap::new(),
            paused: false,
            max_active: None,
            limiter: None,
            counts: StateCounts::default(),
            last_wake: 0,
            waiters: Vec::new(),
        });
        self.queue_names.insert(name.clone(), queue);
        queue
    }

    pub(super) fn group(&mut self, queue: &QueueName, name: &JobName) -> Ix<Group> {
        let queue = self.queue(queue);
        let name = match self.find_name(name) {
            Some(name) => name,
            None => {
                let ix = self.names.insert(Name {
                    name: name.clone(),
                    groups: 0,
                    finished: Default::default(),
                });
                self.job_names.insert(name.clone(), ix);
                ix
            }
        };
        if let Some(group) = self.queues[queue].groups.get(&name) {
            return *group;
        }
        let group = self.groups.insert(Group {
            queue,
            name,
            waiting: BTreeMap::new(),
            delayed: BTreeMap::new(),
            listing: BTreeMap::new(),
            policies: None,
        });
        self.queues[queue].groups.insert(name, group);
        self.names[name].groups += 1;
        group
    }

    /// Drops a queue that nothing needs.
    pub(super) fn drop_queue_if_unused(&mut self, queue: Ix<Queue>) {
        let unused = |queue: &Queue| !queue.is_listed() && queue.waiters.is_empty();
        if self.queues.get(queue).is_some_and(unused) {
            let queue = self.queues.remove(queue);
            self.queue_names.remove(&queue.name);
        }
    }

    fn drop_group_if_empty(&mut self, group: Ix<Group>) {
        if !self.groups[group].listing.is_empty() {
            return;
        }
        let Group { queue, name, .. } = self.groups.remove(group);
        self.queues[queue].groups.remove(&name);
        self.drop_queue_if_unused(queue);
        self.names[name].groups -= 1;
        if self.names[name].groups == 0 {
            let name = self.names.remove(name);
            self.job_names.remove(&name.name);
        }
    }

    /// The policies as the group's jobs share them.
    pub(super) fn share(
        &mut self,
        group: Ix<Group>,
        policies: Option<Policies>,
    ) -> Option<Arc<Policies>> {
        let policies = policies?;
        let seen = &mut self.groups[group].policies;
        match seen {
            Some(shared) if **shared == policies => {}
            _ => *seen = Some(Arc::new(policies)),
        }
        seen.clone()
    }

    // ---- jobs

    /// Adds a job whose id is not taken.
    pub(super) fn insert(&mut self, job: Job) -> Slot {
        let hash = short_hash(&self.hasher, &job.id);
        let (group, listing_key) = (job.group, job.listing_key());
        let slot = self.jobs.insert(Box::new(job));
        self.ids
            .insert_unique(table_hash(hash), IdEntry { hash, slot }, |entry| {
                table_hash(entry.hash)
            });
        self.groups[group].listing.insert(listing_key, slot);
        self.file(slot);
        slot
    }

    /// Deletes a job with its ledger and its children's rows. Its group, name and queue may go with it.
    pub(super) fn remove(&mut self, slot: Slot, now: Timestamp) {
        self.unfile(slot);
        let mut job = self.jobs.remove(slot);
        if let Some(mut flow) = job.extra.as_mut().and_then(|extra| extra.flow.take()) {
            self.flow_sweeps.forget(slot, &mut flow);
            self.gone_flows.push(*flow);
        }
        let hash = short_hash(&self.hasher, &job.id);
        let is_it = |entry: &IdEntry| entry.slot == slot;
        if let Ok(entry) = self.ids.find_entry(table_hash(hash), is_it) {
            entry.remove();
        }
        self.groups[job.group].listing.remove(&job.listing_key());
        if let Some(key) = job.dedupe_key() {
            let key = ScopedKey {
                name: self.name_of(&job).clone(),
                key: key.clone(),
            };
            self.dedupes.job_removed(key, &job.id, now);
        }
        if job.watched {
            self.wakes.next_end();
            self.wakes.ended(&job.id);
        }
        self.drop_group_if_empty(job.group);
    }

    /// Puts a job into the index of its state, and counts it. To change what
    /// an index is ordered by, [`unfile`](Self::unfile) first.
    pub(super) fn file(&mut self, slot: Slot) {
        let job = &*self.jobs[slot];
        let group = &mut self.groups[job.group];
        *self.queues[group.queue].counts.of_mut(job.state) += 1;
        match job.state {
            JobState::Waiting => drop(group.waiting.insert(job.wait_key(), slot)),
            JobState::Delayed => drop(group.delayed.insert(job.run_key(), slot)),
            JobState::Active => drop(self.active.insert(job.lock_key(), slot)),
            JobState::WaitingChildren => {}
            JobState::Completed | JobState::Failed | JobState::Cancelled => {
                if let Some(index) = terminal_index(job.state) {
                    let history = &mut self.names[group.name].finished[index];
                    match job.sparing() {
                        Some(why) => history.insert_spared(job.finish_key(), slot, why),
                        None => history.insert(job.finish_key(), slot),
                    }
                }
                if let Some(key) = job.sweep_key() {
                    self.sweeps.insert(key, slot);
                }
            }
        }
    }

    /// Takes a job out of the index of its state.
    pub(super) fn unfile(&mut self, slot: Slot) {
        let job = &*self.jobs[slot];
        let group = &mut self.groups[job.group];
        *self.queues[group.queue].counts.of_mut(job.state) -= 1;
        match job.state {
            JobState::Waiting => drop(group.waiting.remove(&job.wait_key())),
            JobState::Delayed => drop(group.delayed.remove(&job.run_key())),
            JobState::Active => drop(self.active.remove(&job.lock_key())),
            JobState::WaitingChildren => {}
            JobState::Completed | JobState::Failed | JobState::Cancelled => {
                if let Some(index) = terminal_index(job.state) {
                    self.names[group.name].finished[index].remove(job.finish_key());
                }
                if let Some(key) = job.sweep_key() {
                    self.sweeps.remove(&key);
                }
            }
        }
    }

    /// Changes a job, keeping the indexes in step.
    pub(super) fn update(&mut self, slot: Slot, change: impl FnOnce(&mut Job)) {
        self.unfile(slot);
        change(&mut self.jobs[slot]);
        self.file(slot);
    }
}

/// The hash that ids are filed under.
fn short_hash(hasher: &DefaultHashBuilder, id: &JobId) -> u32 {
    let hash = hasher.hash_one(id);
    (hash ^ (hash >> 32)) as u32
}

/// The same spread over 64 bits: the table looks at both ends.
fn table_hash(hash: u32) -> u64 {
    u64::from(hash).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}
