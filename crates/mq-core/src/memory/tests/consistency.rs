//! What holds between the jobs and the indexes after every operation.

use std::collections::{BTreeMap, BTreeSet};

use crate::memory::arena::Ix;
use crate::memory::job::{Job, Slot};
use crate::memory::state::{Queue, State, terminal_index};
use crate::record::JobState;
use crate::store::StateCounts;

impl State {
    /// Panics unless every index holds exactly the jobs it should.
    pub(super) fn check(&self) {
        let mut waiting = BTreeSet::new();
        let mut delayed = BTreeSet::new();
        let mut active = BTreeSet::new();
        let mut finished = BTreeSet::new();
        let mut sweeps = BTreeMap::new();
        let mut counts: BTreeMap<_, StateCounts> = BTreeMap::new();
        for (slot, job) in self.jobs.iter() {
            self.check_job(slot, job);
            let queue = self.groups[job.group].queue;
            *counts.entry(queue).or_default().of_mut(job.state) += 1;
            match job.state {
                JobState::Waiting => waiting.insert(slot),
                JobState::Delayed => delayed.insert(slot),
                JobState::Active => active.insert(slot),
                JobState::WaitingChildren => true,
                _ => finished.insert(slot),
            };
            sweeps.extend(job.sweep_key().map(|key| (key, slot)));
        }
        let groups = || self.groups.iter().map(|(_, group)| group);
        let slots = |slots: Vec<Slot>| {
            let set: BTreeSet<_> = slots.iter().copied().collect();
            assert_eq!(set.len(), slots.len(), "an index holds a job twice");
            set
        };
        assert_eq!(
            waiting,
            slots(groups().flat_map(|g| g.waiting.values().copied()).collect())
        );
        assert_eq!(
            delayed,
            slots(groups().flat_map(|g| g.delayed.values().copied()).collect())
        );
        assert_eq!(active, slots(self.active.values().copied().collect()));
        assert_eq!(sweeps, self.sweeps);
        let histories = self.names.iter().flat_map(|(_, name)| &name.finished);
        let in_histories = histories.flat_map(|history| {
            history.check();
            history
                .parts()
                .into_iter()
                .flat_map(|part| part.values().copied())
        });
        assert_eq!(finished, slots(in_histories.collect()));
        let listed: usize = groups().map(|group| group.listing.len()).sum();
        assert_eq!(listed, self.jobs.iter().count());
        assert_eq!(listed, self.id_count());
        self.check_groups(&counts);
        self.flow_sweeps.check(&self.jobs);
        self.outbox.check();
        assert!(self.gone_flows.is_empty(), "gone flows were not dropped");
        self.check_dedupes();
        let slots_due: BTreeSet<_> = self
            .schedules
            .values()
            .map(|schedule| (schedule.next_run_at, schedule.key.clone()))
            .collect();
        assert_eq!(slots_due, self.slots_due);
    }

    fn check_job(&self, slot: Slot, job: &Job) {
        assert_eq!(self.slot_of(&job.id), Some(slot), "{job:?}");
        let group = &self.groups[job.group];
        assert_eq!(
            group.listing.get(&job.listing_key()),
            Some(&slot),
            "{job:?}"
        );
        assert_eq!(job.lock.is_some(), job.state == JobState::Active, "{job:?}");
        assert_eq!(
            job.finished_at.is_some(),
            job.state.is_terminal(),
            "{job:?}"
        );
        assert!(job.watched || !job.spared, "{job:?}");
        Self::check_flow(job);
        let last = job.ledger.last().map_or(0, |entry| entry.attempt);
        assert_eq!(last, job.attempts_recorded, "{job:?}");
        let numbers = job
            .ledger
            .windows(2)
            .map(|pair| pair[1].attempt - pair[0].attempt);
        assert!(numbers.into_iter().all(|step| step == 1), "{job:?}");
        match job.state {
            JobState::Waiting => assert_eq!(group.waiting.get(&job.wait_key()), Some(&slot)),
            JobState::Delayed => assert_eq!(group.delayed.get(&job.run_key()), Some(&slot)),
            JobState::Active => assert_eq!(self.active.get(&job.lock_key()), Some(&slot)),
            JobState::WaitingChildren => assert!(!job.cancel_requested, "{job:?}"),
            state => {
                let index = terminal_index(state).expect("it has ended");
                let [removable, spared] = self.names[group.name].finished[index].parts();
                let part = if job.sparing().is_some() {
                    spared
                } else {
                    removable
                };
                assert_eq!(part.get(&job.finish_key()), Some(&slot), "{job:?}");
                assert!(!job.cancel_requested, "{job:?}");
            }
        }
    }

    fn check_flow(job: &Job) {
        let parked = job.state == JobState::WaitingChildren;
        let pending = match job.flow() {
            None => 0,
            Some(flow) => {
                flow.check();
                flow.state().counts.pending
            }
        };
        assert_eq!(parked, pending > 0, "{job:?}");
        if job.state.is_terminal() && !job.spared && job.owes() {
            assert_eq!(job.sweep_at, None, "{job:?}");
        }
    }

    fn check_groups(&self, counts: &BTreeMap<Ix<Queue>, StateCounts>) {
        for (ix, group) in self.groups.iter() {
            assert!(!group.listing.is_empty(), "an empty group was left behind");
            assert_eq!(self.queues[group.queue].groups.get(&group.name), Some(&ix));
        }
        let in_queues: usize = self
            .queues
            .iter()
            .map(|(_, queue)| queue.groups.len())
            .sum();
        assert_eq!(in_queues, self.groups.iter().count());
        for (ix, queue) in self.queues.iter() {
            assert_eq!(self.find_queue(&queue.name), Some(ix));
            assert!(
                queue.is_listed() || !queue.waiters.is_empty(),
                "an unused queue was left behind"
            );
            assert_eq!(queue.counts, counts.get(&ix).copied().unwrap_or_default());
        }
        for (ix, name) in self.names.iter() {
            assert_eq!(self.find_name(&name.name), Some(ix));
            let groups = self
                .groups
                .iter()
                .filter(|(_, group)| group.name == ix)
                .count();
            assert!(groups > 0, "an unused name was left behind");
            assert_eq!(groups, name.group_count());
        }
    }

    fn check_dedupes(&self) {
        let mut orphans = BTreeSet::new();
        for (key, entry, orphaned) in self.dedupes.entries() {
            if orphaned {
                let end = entry.window.expect("without a window an orphan is deleted");
                orphans.insert((end, key.clone()));
            } else {
                assert!(self.keyed_job(key).is_some(), "{key:?} names no job");
            }
        }
        assert_eq!(&orphans, self.dedupes.orphans());
    }

    /// Panics if a job is left, or anything in an index.
    pub(super) fn check_empty_of_jobs(&self) {
        self.check();
        assert!(self.jobs.is_empty() && self.groups.is_empty());
    }

    /// Panics if anything of any job is left.
    pub(super) fn check_empty(&self) {
        self.check_empty_of_jobs();
        assert!(self.queues.is_empty() && self.names.is_empty());
        assert!(self.dedupes.entries().next().is_none());
        assert!(self.tokens.is_empty(), "tokens are left");
        assert!(self.outbox.is_empty(), "reports are left");
        assert!(self.wakes.is_idle(), "somebody is still waiting");
        assert!(self.schedules.is_empty() && self.workers.is_empty());
    }
}
