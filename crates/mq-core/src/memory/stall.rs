//! Stalls: locks that nobody extended, and what becomes of their jobs.

use super::State;
use super::job::Slot;
use super::terminal::{End, Removals};
use crate::record::AttemptOutcome;
use crate::store::{Recovered, StallOutcome, Stalled};
use crate::time::Timestamp;

impl State {
    pub(super) fn recover_stalled(
        &mut self,
        most_stalls: u32,
        limit: u32,
        now: Timestamp,
    ) -> Recovered {
        let mut recovered = Recovered::default();
        let mut removals = Removals::of_one_page();
        for _ in 0..limit {
            let Some(slot) = self.next_expired(now) else {
                return recovered;
            };
            recovered
                .stalled
                .extend(self.recover(slot, most_stalls, now, &mut removals));
        }
        recovered.more = self.next_expired(now).is_some();
        recovered
    }

    fn next_expired(&self, now: Timestamp) -> Option<Slot> {
        let (key, slot) = self.active.first_key_value()?;
        (key.at <= now).then_some(*slot)
    }

    fn recover(
        &mut self,
        slot: Slot,
        most_stalls: u32,
        now: Timestamp,
        removals: &mut Removals,
    ) -> Option<Stalled> {
        let job = &mut self.jobs[slot];
        if job.cancel_requested {
            self.finish(slot, End::cancelled(), now, removals);
            return None;
        }
        job.stalled_count = job.stalled_count.saturating_add(1);
        let stalls = job.stalled_count;
        let mut stalled = Stalled {
            id: job.id.clone(),
            name: self.name_of(&self.jobs[slot]).clone(),
            queue: self.queues[self.queue_of(&self.jobs[slot])].name.clone(),
            outcome: StallOutcome::Requeued,
        };
        if stalls > most_stalls {
            stalled.outcome = StallOutcome::Failed;
            let reason = format!(
                "stalled {stalls} times, at most {most_stalls} allowed: its worker died or lost touch with the store each time"
            );
            self.finish(slot, End::stalled(reason), now, removals);
        } else {
            self.jobs[slot].record_attempt(AttemptOutcome::Stalled, None, now);
            self.put_back(slot);
        }
        Some(stalled)
    }
}
