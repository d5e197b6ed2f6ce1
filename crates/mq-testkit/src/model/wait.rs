//! Waits that began after a claim or a watch: none may be forgotten.

use std::collections::HashMap;

use mq_core::{JobId, LockToken, QueueName, WakeCursor, WatchCursor};
use tokio::time::timeout;

use super::naive::Naive;
use super::scene::Played;
use super::side::{Cursor, Side};

/// How many waits of each kind are tried after each step.
const MOST_WAITS: usize = 4;

#[derive(Default)]
pub(super) struct Waits {
    wakes: Vec<Wake>,
    watches: Vec<Watch>,
    claims: HashMap<LockToken, Claimed>,
}

/// What had happened when a token was first used.
#[derive(Clone, Copy)]
struct Claimed {
    wakes_before: usize,
    stirs_before: usize,
}

/// A wait that began after a claim.
struct Wake {
    handle: usize,
    queue: QueueName,
    cursor: WakeCursor,
    /// Whether there was reason already when it began.
    owed: bool,
    wakes_before: usize,
    stirs_before: usize,
}

impl Wake {
    fn is_due(&self, naive: &Naive) -> bool {
        self.owed || naive.wakes[self.wakes_before..].contains(&self.queue)
    }
}

/// A wait that began after a watch.
struct Watch {
    handle: usize,
    ids: Vec<JobId>,
    cursor: WatchCursor,
    ends_before: usize,
}

impl Waits {
    /// Notes a wait from a cursor on, which the handle issued.
    pub(super) fn begin(&mut self, handle: usize, cursor: Cursor, naive: &Naive) {
        match cursor {
            Cursor::Wake(request, cursor) => {
                let now = Claimed {
                    wakes_before: naive.wakes.len(),
                    stirs_before: naive.stirs.len(),
                };
                let first = *self.claims.entry(request.token.clone()).or_insert(now);
                // Whoever repeats a claim has not heard of what came meanwhile.
                let missed = naive.wakes[first.wakes_before..].contains(&request.queue);
                self.wakes.push(Wake {
                    handle,
                    cursor,
                    owed: missed && naive.has_claimable(&request),
                    queue: request.queue,
                    wakes_before: now.wakes_before,
                    stirs_before: first.stirs_before,
                });
            }
            Cursor::Watch(ids, cursor) => self.watches.push(Watch {
                handle,
                ids,
                cursor,
                ends_before: naive.ends.len(),
            }),
        }
        let drop_oldest = |len: usize| len.saturating_sub(MOST_WAITS);
        self.wakes.drain(..drop_oldest(self.wakes.len()));
        self.watches.drain(..drop_oldest(self.watches.len()));
    }

    pub(super) async fn check(&mut self, side: &Side, naive: &Naive) -> Played {
        self.check_wakes(side, naive).await?;
        self.check_watches(side, naive).await
    }

    /// A wake-up that was due is never lost; another queue's is no reason.
    async fn check_wakes(&mut self, side: &Side, naive: &Naive) -> Played {
        let listed: Vec<_> = naive.queues().into_iter().map(|info| info.queue).collect();
        // Nothing can be runnable in a queue that holds nothing.
        self.wakes.retain(|wait| listed.contains(&wait.queue));
        let is_prompt = side.patience.is_zero();
        for wait in &self.wakes {
            let due = wait.is_due(naive);
            if !due && !is_prompt {
                continue;
            }
            let queues = std::slice::from_ref(&wait.queue);
            let store = &side.handles[wait.handle % side.handles.len()];
            let woken = timeout(side.patience, store.await_wake(queues, wait.cursor)).await;
            let stirred = naive.stirs[wait.stirs_before..].contains(&wait.queue);
            match woken {
                Ok(Err(error)) => return Err(format!("a wait failed: {error}")),
                Err(_) if due => return Err(format!("a wake-up of {} was lost", wait.queue)),
                Ok(_) if !stirred => return Err(format!("{} was woken for nothing", wait.queue)),
                _ => {}
            }
        }
        if !is_prompt {
            // It has kept its promise; asking again takes time.
            self.wakes.retain(|wait| !wait.is_due(naive));
        }
        Ok(())
    }

    /// A wait ends if one of its jobs has ended since, and not otherwise.
    async fn check_watches(&mut self, side: &Side, naive: &Naive) -> Played {
        let is_prompt = side.patience.is_zero();
        for watch in &self.watches {
            let ended = &naive.ends[watch.ends_before..];
            let due = watch.ids.iter().any(|id| ended.contains(id));
            if !due && !is_prompt {
                continue;
            }
            let store = &side.handles[watch.handle % side.handles.len()];
            let told = timeout(
                side.patience,
                store.await_finished(&watch.ids, watch.cursor),
            )
            .await;
            match told {
                Ok(Err(error)) => return Err(format!("a wait failed: {error}")),
                Err(_) if due => return Err(format!("the end of one of {:?} was lost", watch.ids)),
                Ok(_) if !due => return Err(format!("none of {:?} has ended", watch.ids)),
                _ => {}
            }
        }
        // What is enqueued under the id of a job that is gone is another job.
        let is_there = |id: &JobId| naive.job(id).is_some();
        let is_open = |watch: &Watch| {
            let ended = &naive.ends[watch.ends_before..];
            is_prompt || !watch.ids.iter().any(|id| ended.contains(id))
        };
        self.watches
            .retain(|watch| watch.ids.iter().all(is_there) && is_open(watch));
        Ok(())
    }
}
