//! The model's answer to a call.

use std::slice;

use super::Naive;
use crate::model::answer::{Answer, without_words};
use crate::model::call::{Call, FlowKeys};
use crate::model::flow::{comparable_children, comparable_entries};

impl Naive {
    pub(in crate::model) fn answer(&mut self, call: &Call) -> Answer {
        match call {
            Call::Enqueue(jobs) => Answer::Enqueued(self.enqueue(jobs)),
            Call::Claim(request) => {
                let mut claimed = self.claim(request);
                claimed.jobs = without_words(claimed.jobs);
                Answer::Claimed(claimed)
            }
            Call::Ack(acks) => Answer::Acked(self.ack_many(acks)),
            Call::Release(locks) => {
                Answer::Done(locks.iter().map(|lock| self.release(lock)).collect())
            }
            Call::Extend(locks, by) => Answer::Extended(self.extend(locks, *by)),
            Call::Progress(lock, value) => Answer::Done(vec![self.progress(lock, value)]),
            Call::Recover { most_stalls, .. } => Answer::Recovered(self.recover(*most_stalls)),
            Call::Watch(ids) => Answer::Finished(self.watch(ids)),
            Call::Cancel(ids) => Answer::Cancelled(ids.iter().map(|id| self.cancel(id)).collect()),
            Call::CancelByDedupe(name, key) => {
                Answer::Decided(Ok(self.cancel_by_dedupe(name, key)))
            }
            Call::Retry(id) => Answer::Done(vec![self.retry(id)]),
            Call::Promote(id) => Answer::Done(vec![self.promote(id)]),
            Call::Remove(id) => Answer::Decided(self.remove(id)),
            Call::SetQueue(queue, settings) => {
                self.set_queue(queue, settings);
                Answer::Done(vec![Ok(())])
            }
            Call::Sweep(_) => Answer::Deleted(self.sweep()),
            Call::Upsert(new) => Answer::Scheduled(self.upsert(new).into()),
            Call::Tick(tick) => Answer::Decided(Ok(self.tick(tick))),
            Call::Unschedule(key) => Answer::Decided(Ok(self.unschedule(key))),
            Call::Due(limit) => Answer::Due(self.due(*limit)),
            Call::Report(reports) => Answer::Reported(self.record_results(reports)),
            Call::Children(flow, _) => Answer::Children(comparable_children(self.children(flow))),
            Call::Pending(FlowKeys {
                flow,
                manifest,
                keys,
            }) => Answer::Keys(self.pending_children(flow, manifest, keys)),
            Call::Mark(FlowKeys {
                flow,
                manifest,
                keys,
            }) => {
                self.mark(flow, manifest, keys);
                Answer::Done(vec![Ok(())])
            }
            Call::Undelivered(
                store,
                FlowKeys {
                    flow,
                    manifest,
                    keys,
                },
            ) => {
                let found = self.undelivered(store, flow, manifest, keys);
                Answer::Outbox(comparable_entries(found))
            }
            Call::FlowSweep { age, .. } => Answer::FlowWork(self.flow_sweep(*age)),
            Call::Outbox(_) => Answer::Outbox(comparable_entries(self.outbox().to_vec())),
            Call::DeleteOutbox(places) => {
                self.delete_outbox(places);
                Answer::Done(vec![Ok(())])
            }
            Call::Walk(filter) => Answer::Listed(without_words(self.list(filter))),
        }
    }

    /// A job's record as it compares.
    pub(in crate::model) fn readable(&self, id: &mq_core::JobId) -> Option<mq_core::JobRecord> {
        let record = self.job(id)?;
        without_words(slice::from_ref(record).to_vec()).pop()
    }
}
