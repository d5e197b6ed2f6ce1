//! Takes jobs from one queue, as many as there are free slots, and starts them.

use std::sync::Arc;
use std::time::Duration;

use mq_core::{
    Claim, ClaimRequest, LockToken, QueueName, Timestamp, WakeCursor,
    validate::{MAX_BATCH, MAX_PAGE_BYTES},
};
use tokio::time::{Instant, sleep, sleep_until};
use tracing::{debug, error, warn};

use crate::backoff::Backoff;
use crate::execute::execute;
use crate::registry::Table;
use crate::runtime::Shared;
use crate::slots::Slots;
use crate::verdict::Verdict;

/// While jobs are known to wait, a claim is put off until this share of the
/// slots is free …
const SHARE: usize = 8;
/// … but no longer than this, so that calls are neither many nor late.
const LINGER: Duration = Duration::from_millis(1);
/// The shortest wait for a time to come: stores tell time in milliseconds.
const TICK: Duration = Duration::from_millis(1);

/// Takes jobs from one queue.
pub(crate) struct Fetcher {
    shared: Arc<Shared>,
    queue: QueueName,
    slots: Arc<Slots>,
}

/// A claim's answer.
struct Claimed {
    claim: Claim,
    /// The token that holds what was claimed.
    token: LockToken,
    /// When the call was made: its locks hold for their duration from then.
    sent: Instant,
    /// How many jobs were asked for.
    limit: usize,
}

/// What a single claim came to.
pub(crate) struct Turn {
    /// How many jobs it locked.
    pub(crate) started: usize,
    /// Where to wait from for more.
    pub(crate) wake: WakeCursor,
    /// When more is due, as far as the store knows.
    pub(crate) next_run_at: Option<Timestamp>,
}

/// What is known of the queue after a claim.
enum Rest {
    /// More jobs may wait.
    More,
    /// None do; something may come after `wake`, or at `until`.
    Nothing { wake: WakeCursor, until: Instant },
}

impl Fetcher {
    pub(crate) fn new(shared: Arc<Shared>, queue: QueueName) -> Self {
        let slots = Slots::new(shared.options.concurrency_of(&queue));
        Self {
            shared,
            queue,
            slots,
        }
    }

    /// Goes on until the worker stops.
    pub(crate) async fn run(&self) {
        let stopping = self.shared.stopping.clone();
        let mut backoff = Backoff::within(self.shared.options.lock_duration);
        let mut rest = None;
        loop {
            let ready = async {
                self.slots.wait_for(1).await;
                match rest {
                    None => {}
                    Some(Rest::More) => self.linger().await,
                    Some(Rest::Nothing { wake, until }) => {
                        self.wait(wake, until, &mut backoff).await;
                    }
                }
            };
            tokio::select! {
                biased;
                () = stopping.cancelled() => return,
                () = ready => {}
            }
            let table = self.shared.registry.now();
            if table.names.is_empty() {
                return;
            }
            let claimed = self.claim(&table).await;
            rest = Some(self.rest(&claimed));
            self.start(claimed).await;
        }
    }

    /// Claims once, and starts what there was; answers nothing if no slot is
    /// free, or no handler is left. For who drives a worker by hand.
    pub(crate) async fn turn(&self) -> Option<Turn> {
        let table = self.shared.registry.now();
        if table.names.is_empty() || self.is_full() {
            return None;
        }
        let claimed = self.claim(&table).await;
        let turn = Turn {
            started: claimed.claim.jobs.len(),
            wake: claimed.claim.wake,
            next_run_at: claimed.claim.next_run_at,
        };
        self.start(claimed).await;
        Some(turn)
    }

    /// Whether every slot is taken.
    pub(crate) fn is_full(&self) -> bool {
        self.slots.free() == 0
    }

    /// Returns once a slot is free.
    pub(crate) async fn has_a_slot(&self) {
        self.slots.wait_for(1).await;
    }

    /// Puts a claim off a little while slots become free one by one.
    async fn linger(&self) {
        let share = (self.slots.limit() / SHARE).max(1);
        if self.slots.free() < share {
            // Lets the handlers that are just ending go first.
            tokio::task::yield_now().await;
            tokio::select! {
                () = self.slots.wait_for(share) => {}
                () = sleep(LINGER) => {}
            }
        }
    }

    /// Waits for something to become runnable.
    async fn wait(&self, wake: WakeCursor, until: Instant, backoff: &mut Backoff) {
        let link = &self.shared.link;
        let queues = std::slice::from_ref(&self.queue);
        let wake = link.call_at_leisure("await_wake", link.store.await_wake(queues, wake));
        tokio::select! {
            woken = wake => match woken {
                Ok(()) => backoff.reset(),
                Err(error) => {
                    debug!(queue = %self.queue, %error, "cannot wait for wake-ups");
                    backoff.wait().await;
                }
            },
            () = sleep_until(until) => {}
        }
    }

    /// Claims, and repeats the claim under its token until it has an answer
    /// that can be relied on: what it locked must not be forgotten.
    async fn claim(&self, table: &Table) -> Claimed {
        let lock_for = self.shared.options.lock_duration;
        let limit = self.slots.free().min(MAX_BATCH as usize);
        let request = ClaimRequest {
            queue: self.queue.clone(),
            names: Arc::clone(&table.names),
            token: LockToken::random(),
            lock_for,
            limit: u32::try_from(limit).unwrap_or(MAX_BATCH),
        };
        let link = &self.shared.link;
        let mut backoff = Backoff::within(lock_for);
        let mut refused = false;
        loop {
            let sent = Instant::now();
            match link.call("claim", link.store.claim(request.clone())).await {
                Ok(claim) if claim.jobs.is_empty() || sent.elapsed() < lock_for / 2 => {
                    return Claimed {
                        claim,
                        token: request.token,
                        sent,
                        limit,
                    };
                }
                Ok(_) => warn!(
                    queue = %self.queue,
                    after = ?sent.elapsed(),
                    "the answer to a claim came late; asking which of its locks still hold"
                ),
                Err(error) => {
                    if !error.is_transient() && !std::mem::replace(&mut refused, true) {
                        error!(queue = %self.queue, %error, "the store refuses to be claimed from; trying again until it does not");
                    }
                    backoff.wait().await;
                }
            }
            self.shared.counters.claims_repeated.one();
        }
    }

    /// What the answer says of the queue.
    fn rest(&self, claimed: &Claimed) -> Rest {
        let claim = &claimed.claim;
        // A page that ends early may have met its limit in bytes.
        let is_full = claim.jobs.len() >= claimed.limit
            || claim
                .jobs
                .iter()
                .map(|job| job.spec.payload.get().len())
                .sum::<usize>()
                > MAX_PAGE_BYTES / 2;
        if is_full {
            return Rest::More;
        }
        let poll = self.shared.options.poll_interval;
        let within = claim
            .next_run_at
            .map_or(poll, |next| next.since(claim.now).max(TICK).min(poll));
        Rest::Nothing {
            wake: claim.wake,
            until: Instant::now() + within,
        }
    }

    /// Starts what was claimed; what cannot be started goes back.
    async fn start(&self, claimed: Claimed) {
        let shared = &self.shared;
        let options = &shared.options;
        let jobs = claimed.claim.jobs;
        if jobs.is_empty() {
            return;
        }
        let safe_until = claimed.sent + options.lock_duration;
        if claimed.sent.elapsed() + options.heartbeat_interval() >= options.lock_duration {
            shared.beat_now.notify_one();
        }
        // Read after the claim: a handler may have been forgotten meanwhile.
        let table = shared.registry.now();
        let mut unstarted = Vec::new();
        for run in shared.held.hold(jobs, &claimed.token) {
            let name = &run.job.spec.name;
            match table.handler(name).cloned() {
                Some(handler) if !shared.stopping.is_cancelled() => {
                    let slot = self.slots.take();
                    let execution = execute(
                        Arc::clone(shared),
                        Arc::clone(&run),
                        handler,
                        safe_until,
                        slot,
                    );
                    run.is_run_by(tokio::spawn(execution).abort_handle());
                    if shared.is_gone() {
                        run.abort();
                    }
                }
                Some(_) => unstarted.push(run),
                None => {
                    debug!(job_id = %run.job.id, job_name = %name, "the job has no handler any more; it goes back");
                    unstarted.push(run);
                }
            }
        }
        for run in unstarted {
            shared.held.ended(&run);
            shared.settle(run, Verdict::Release).await;
        }
    }
}
