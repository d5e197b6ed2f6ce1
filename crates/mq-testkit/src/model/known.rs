//! One operation, asked of the store and of the naive one.

use std::sync::Arc;

use mq_core::{
    Ack, Claim, ClaimRequest, JobId, JobState, ListFilter, Lock, LockToken, ManualClock, Store,
    StoreError, Tick, Timestamp, WakeCursor, WatchCursor,
};

use crate::answer::{Answer, Claimed, Refused, each, without_words};
use crate::naive::Naive;
use crate::op::{Back, LockPick, Op};

/// What has been given out so far.
#[derive(Default)]
pub(crate) struct Known {
    pub(crate) ids: Vec<JobId>,
    locks: Vec<Lock>,
    claims: Vec<ClaimRequest>,
}

impl Known {
    fn learn(&mut self, ids: impl IntoIterator<Item = JobId>) {
        for id in ids {
            if !self.ids.contains(&id) {
                self.ids.push(id);
            }
        }
    }

    fn id(&self, back: Back) -> JobId {
        latest(&self.ids, back)
            .cloned()
            .unwrap_or_else(|| "nobody".into())
    }

    /// One of the jobs in a state, or any if none is.
    fn id_in(&self, state: JobState, back: Back, naive: &Naive) -> JobId {
        let in_state = |id: &&JobId| naive.job(id).is_some_and(|job| job.state == state);
        let fitting: Vec<_> = self.ids.iter().filter(in_state).cloned().collect();
        latest(&fitting, back)
            .cloned()
            .unwrap_or_else(|| self.id(back))
    }

    fn lock(&self, pick: LockPick) -> Lock {
        let nobody = || Lock {
            id: "nobody".into(),
            token: "nothing".into(),
        };
        let mut lock = latest(&self.locks, pick.of).cloned().unwrap_or_else(nobody);
        if let Some(other) = pick.token_of.and_then(|back| latest(&self.locks, back)) {
            lock.token = other.token.clone();
        }
        lock
    }
}

fn latest<T>(list: &[T], back: Back) -> Option<&T> {
    list.iter().rev().nth(back % list.len().max(1))
}

/// What became of one operation.
pub(crate) struct Asked {
    pub(crate) answer: Answer,
    pub(crate) expected: Answer,
    /// Where to wait from, after a claim or a watch.
    pub(crate) cursor: Option<Cursor>,
}

pub(crate) enum Cursor {
    Wake(mq_core::QueueName, WakeCursor),
    Watch(Vec<JobId>, WatchCursor),
}

impl Asked {
    fn new(answer: Answer, expected: Answer) -> Self {
        Self {
            answer,
            expected,
            cursor: None,
        }
    }
}

/// Does an operation at the store and the naive one; `None` if there is nothing
/// to compare.
pub(crate) async fn ask(
    op: Op,
    store: &dyn Store,
    clock: &ManualClock,
    naive: &mut Naive,
    known: &mut Known,
) -> Result<Option<Asked>, StoreError> {
    Ok(Some(match op {
        Op::Enqueue(jobs) => {
            let answer = store.enqueue_many(jobs.clone()).await?;
            let ids: Vec<_> = answer.iter().map(|enqueued| enqueued.id.clone()).collect();
            let expected = naive.enqueue(&jobs, &ids);
            known.learn(ids);
            Asked::new(Answer::Enqueued(answer), Answer::Enqueued(expected))
        }
        Op::Claim {
            queue,
            names,
            lock_for,
            limit,
        } => {
            let names: Arc<[_]> = names.into_iter().map(Into::into).collect();
            let request = ClaimRequest {
                queue: queue.into(),
                names,
                token: LockToken::from(format!("token{}", known.claims.len())),
                lock_for,
                limit,
            };
            known.claims.push(request.clone());
            let claim = store.claim(request.clone()).await?;
            known.locks.extend(claim.jobs.iter().map(|job| Lock {
                id: job.id.clone(),
                token: request.token.clone(),
            }));
            let cursor = Cursor::Wake(request.queue.clone(), claim.wake);
            let expected = Answer::Claimed(naive.claim(&request));
            Asked {
                cursor: Some(cursor),
                ..Asked::new(claimed(claim), expected)
            }
        }
        Op::ClaimAgain(back) => {
            let again = latest(&known.claims, back).filter(|again| naive.remembers(again));
            let Some(request) = again else {
                return Ok(None);
            };
            let claim = store.claim(request.clone()).await?;
            Asked::new(claimed(claim), Answer::Claimed(naive.claim(request)))
        }
        Op::Ack(acks) => {
            let ack = |(pick, outcome)| Ack {
                lock: known.lock(pick),
                outcome,
            };
            let acks: Vec<_> = acks.into_iter().map(ack).collect();
            let answers = each(store.ack_many(acks.clone()).await?);
            Asked::new(Answer::Acked(answers), Answer::Acked(naive.ack_many(&acks)))
        }
        Op::Release(picks) => {
            let locks: Vec<_> = picks.into_iter().map(|pick| known.lock(pick)).collect();
            let answers = each(store.release_many(locks.clone()).await?);
            let expected = locks.iter().map(|lock| naive.release(lock)).collect();
            Asked::new(Answer::Done(answers), Answer::Done(expected))
        }
        Op::Extend(picks, by) => {
            let locks: Vec<_> = picks.into_iter().map(|pick| known.lock(pick)).collect();
            let answer = store.extend_locks(locks.clone(), by).await?;
            Asked::new(
                Answer::Extended(answer),
                Answer::Extended(naive.extend(&locks, by)),
            )
        }
        Op::Progress(pick, value) => {
            let lock = known.lock(pick);
            let expected = naive.progress(&lock, &value);
            done(store.set_progress(lock, value).await, expected)
        }
        Op::Recover { most_stalls, limit } => {
            let answer = store.recover_stalled(most_stalls, limit).await?;
            let expected = naive.recover(most_stalls, limit);
            Asked::new(Answer::Recovered(answer), Answer::Recovered(expected))
        }
        Op::Watch(backs) => {
            let ids: Vec<_> = backs.into_iter().map(|back| known.id(back)).collect();
            let watch = store.watch(&ids).await?;
            let awaited = ids
                .iter()
                .filter(|id| !watch.finished.contains(id))
                .cloned()
                .collect();
            let expected = Answer::Finished(naive.watch(&ids));
            Asked {
                cursor: Some(Cursor::Watch(awaited, watch.cursor)),
                ..Asked::new(Answer::Finished(watch.finished), expected)
            }
        }
        Op::Cancel(backs) => {
            let ids: Vec<_> = backs.into_iter().map(|back| known.id(back)).collect();
            let answers = each(store.cancel_many(&ids).await?);
            let expected = ids.iter().map(|id| naive.cancel(id)).collect();
            Asked::new(Answer::Cancelled(answers), Answer::Cancelled(expected))
        }
        Op::CancelByDedupe(name, key) => {
            let answer = store.cancel_by_dedupe(&name.into(), &key.into()).await;
            decided(answer, Ok(naive.cancel_by_dedupe(name, key)))
        }
        Op::Retry(back) => {
            let id = known.id_in(JobState::Failed, back, naive);
            done(store.retry(&id).await, naive.retry(&id))
        }
        Op::Promote(back) => {
            let id = known.id_in(JobState::Delayed, back, naive);
            done(store.promote(&id).await, naive.promote(&id))
        }
        Op::Remove(back) => {
            let id = known.id(back);
            decided(store.remove(&id).await, naive.remove(&id))
        }
        Op::SetQueue(queue, settings) => {
            let queue = queue.into();
            naive.set_queue(&queue, &settings);
            done(store.set_queue(&queue, settings).await, Ok(()))
        }
        Op::Sweep(limit) => {
            let mut deleted = 0;
            loop {
                let swept = store.sweep_history(limit).await?;
                deleted += swept.deleted;
                if !swept.more {
                    break;
                }
            }
            Asked::new(Answer::Deleted(deleted), Answer::Deleted(naive.sweep()))
        }
        Op::Upsert(new) => {
            let answer = store.upsert_schedule(new.clone()).await?;
            let expected = naive.upsert(&new, answer.version);
            Asked::new(
                Answer::Scheduled(answer.into()),
                Answer::Scheduled(expected.into()),
            )
        }
        Op::Tick {
            key,
            stale_version,
            stale_slot,
            ahead,
            job,
        } => {
            let there = naive.schedules().iter().find(|there| there.key == key);
            let (version, slot) = there.map_or((0, Timestamp::MIN), |there| {
                (there.version, there.next_run_at)
            });
            let tick = Tick {
                key: key.into(),
                version: version + u64::from(stale_version),
                expected: slot.saturating_add(std::time::Duration::from_millis(stale_slot.into())),
                next: slot.saturating_add(ahead),
                job,
            };
            known.learn(tick.job.iter().filter_map(|job| job.id.clone()));
            let expected = Ok(naive.tick(&tick));
            decided(store.tick_schedule(tick).await, expected)
        }
        Op::Unschedule(key) => {
            let key = key.into();
            let expected = Ok(naive.unschedule(&key));
            decided(store.remove_schedule(&key).await, expected)
        }
        Op::Due(limit) => {
            let answer = store.due_schedules(limit).await?;
            Asked::new(Answer::Due(answer), Answer::Due(naive.due(limit)))
        }
        Op::Walk(filter) => {
            let expected = without_words(naive.list(&filter));
            let listed = without_words(walk(store, filter).await?);
            Asked::new(Answer::Listed(listed), Answer::Listed(expected))
        }
        Op::Advance(by) => {
            clock.advance(by);
            naive.now = naive.now.saturating_add(by);
            return Ok(None);
        }
    }))
}

fn claimed(claim: Claim) -> Answer {
    Answer::Claimed(Claimed {
        jobs: claim.jobs,
        next_run_at: claim.next_run_at,
        now: claim.now,
    })
}

fn done(answer: Result<(), StoreError>, expected: Result<(), Refused>) -> Asked {
    let answer = vec![answer.map_err(Refused::from)];
    Asked::new(Answer::Done(answer), Answer::Done(vec![expected]))
}

fn decided(answer: Result<bool, StoreError>, expected: Result<bool, Refused>) -> Asked {
    let answer = answer.map_err(Refused::from);
    Asked::new(Answer::Decided(answer), Answer::Decided(expected))
}

/// Reads a list to its end.
async fn walk(
    store: &dyn Store,
    mut filter: ListFilter,
) -> Result<Vec<mq_core::JobRecord>, StoreError> {
    let mut items = Vec::new();
    loop {
        let page = store.list(filter.clone()).await?;
        assert!(page.items.len() <= filter.limit.unwrap_or(50) as usize);
        assert!(page.corrupt.is_empty());
        items.extend(page.items);
        filter.cursor = page.cursor;
        if filter.cursor.is_none() {
            return Ok(items);
        }
    }
}
