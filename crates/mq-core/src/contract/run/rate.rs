//! Claim: how many jobs of a queue may start in a span of time.

use crate::contract::Fixture;
use crate::contract::expect::Must;
use crate::contract::make::{Make, NO_JOBS, complete, job, jobs, ms, request, retry_in};
use crate::id::QueueName;
use crate::record::{JobState, Rate};
use crate::store::{Change, Claim, ClaimRequest, QueueSettings};
use crate::time::Timestamp;

cases! { __contract_run_rate, run::rate:
    starts_follow_the_rule_to_the_millisecond,
    no_window_sees_more_starts_than_the_rate_allows,
    next_run_at_says_when_the_rate_lets_go,
    an_idle_queue_saves_up_no_more_than_its_burst,
    every_start_counts_and_a_release_refunds_nothing,
    a_repeated_run_of_a_job_counts_again,
    a_new_rate_starts_afresh,
    the_same_rate_set_again_goes_on,
    other_settings_leave_the_rate_as_it_is,
    a_cleared_rate_holds_nothing_back,
    a_rate_holds_over_all_handles_and_concurrent_claims,
    a_rate_and_max_active_hold_together,
    a_rate_is_its_queues_alone,
}

/// Rates whose spacing is whole milliseconds, fractions, and less than one.
const RATES: [(u32, u64); 9] = [
    (1, 1),
    (1, 1_000),
    (2, 1_000),
    (7, 333),
    (10, 1_000),
    (11, 1_000),
    (25, 100),
    (100, 60_000),
    (1_000, 1_000),
];

/// The contract's rule, in microseconds.
struct Model {
    burst: u64,
    spacing: u64,
    /// When the next start would be on time if all were evenly spaced.
    on_time: u64,
}

impl Model {
    fn new((count, per): (u32, u64)) -> Self {
        let burst = u64::from(count.div_ceil(10));
        Self {
            burst,
            spacing: (per * 1_000).div_ceil(u64::from(count) - burst + 1),
            on_time: 0,
        }
    }

    /// The millisecond from which another may start.
    fn opens(&self) -> u64 {
        self.on_time
            .saturating_sub((self.burst - 1) * self.spacing)
            .div_ceil(1_000)
    }

    /// How many of `wanted` start at this millisecond.
    fn starts(&mut self, millis: u64, wanted: u64) -> u64 {
        let mut started = 0;
        while started < wanted && self.opens() <= millis {
            self.on_time = self.on_time.max(millis * 1_000) + self.spacing;
            started += 1;
        }
        started
    }
}

fn limited((count, per): (u32, u64)) -> QueueSettings {
    QueueSettings {
        rate: Change::Set(Rate {
            count,
            per: ms(per),
        }),
        ..QueueSettings::default()
    }
}

/// A queue of its own with this rate and so many jobs.
async fn queue_with(fx: &Fixture, rate: (u32, u64), waiting: usize) -> QueueName {
    let queue = QueueName::from(format!("{} per {}", rate.0, rate.1));
    fx.store.set_queue(&queue, limited(rate)).await.must();
    fx.enqueue_all(vec![job().queue(&queue); waiting]).await;
    queue
}

async fn claim_from(fx: &Fixture, queue: &QueueName, limit: u32) -> Claim {
    let queue = queue.clone();
    fx.claim_with(ClaimRequest {
        queue,
        ..request(limit)
    })
    .await
}

/// At each step exactly as many start as the formula says.
async fn starts_follow_the_rule_to_the_millisecond(fx: Fixture) {
    for rate in RATES {
        let queue = queue_with(&fx, rate, 400).await;
        let mut model = Model::new(rate);
        for step in 0..24 {
            let now = fx.now().as_millis();
            let wanted = 1 + step % 9;
            let started = claim_from(&fx, &queue, wanted).await.jobs.len() as u64;
            let expected = model.starts(now, wanted.into());
            assert_eq!(started, expected, "starts at step {step} of {rate:?}");
            let until_open = model.opens().saturating_sub(now);
            let steps = [
                until_open,
                1,
                until_open.saturating_sub(1),
                0,
                rate.1 / 3,
                rate.1,
            ];
            fx.advance(steps[step as usize % steps.len()]);
        }
    }
}

/// A worker that takes all it is given never gets more than `count` in any
/// half-open window of length `per`, wherever the window begins.
async fn no_window_sees_more_starts_than_the_rate_allows(fx: Fixture) {
    for rate in [(1, 50), (3, 70), (10, 100), (25, 100)] {
        let count = rate.0 as usize;
        let queue = queue_with(&fx, rate, count * 3 + 3).await;
        let mut starts: Vec<Timestamp> = Vec::new();
        while starts.len() < count * 3 {
            let claim = claim_from(&fx, &queue, 250).await;
            starts.extend(claim.jobs.iter().map(|_| fx.now()));
            fx.clock
                .set(claim.next_run_at.unwrap_or_default().max(fx.later(1)));
        }
        for (begin, end) in starts.iter().zip(&starts[count..]) {
            let span = end.since(*begin);
            assert!(
                span >= ms(rate.1),
                "{} starts within {span:?} at {rate:?}",
                count + 1
            );
        }
        let whole = starts[count * 2].since(starts[0]);
        assert!(
            whole <= ms(rate.1 * 3),
            "{rate:?} is used: twice its count took {whole:?}"
        );
    }
}

/// A claim that is held back names the first millisecond at which one more may
/// start, rounded up.
async fn next_run_at_says_when_the_rate_lets_go(fx: Fixture) {
    for rate in RATES {
        let queue = queue_with(&fx, rate, 300).await;
        let mut model = Model::new(rate);
        for _ in 0..3 {
            let claim = claim_from(&fx, &queue, 250).await;
            let started = model.starts(fx.now().as_millis(), 250);
            assert_eq!(claim.jobs.len() as u64, started, "starts of {rate:?}");
            let opens = Timestamp::from_millis(model.opens());
            assert_eq!(claim.next_run_at, opens, "when {rate:?} lets go");
            fx.clock.set(opens.expect("an instant"));
        }
    }
}

/// After any pause at most ⌈count/10⌉ start at once.
async fn an_idle_queue_saves_up_no_more_than_its_burst(fx: Fixture) {
    let queue = queue_with(&fx, (100, 1_000), 100).await;
    assert_eq!(claim_from(&fx, &queue, 250).await.jobs.len(), 10);
    fx.advance(1_000_000);
    assert_eq!(claim_from(&fx, &queue, 250).await.jobs.len(), 10);
}

/// A claimed job that is put back has used its start.
async fn every_start_counts_and_a_release_refunds_nothing(fx: Fixture) {
    fx.set_queue(limited((1, 100))).await;
    let lock = fx.start(job()).await;
    fx.store.release(lock.clone()).await.must();
    fx.advance(99);
    assert_eq!(fx.claim_ids(1).await, NO_JOBS);
    assert_eq!(fx.state(&lock.id).await, JobState::Waiting);
    fx.advance(1);
    assert_eq!(fx.claim_ids(1).await, [lock.id]);
}

/// A retried job starts anew.
async fn a_repeated_run_of_a_job_counts_again(fx: Fixture) {
    fx.set_queue(limited((1, 100))).await;
    let lock = fx.start(job()).await;
    fx.ack(&lock, retry_in(0)).await;
    assert_eq!(fx.claim_ids(1).await, NO_JOBS);
    fx.advance(100);
    assert_eq!(fx.claim_ids(1).await, [lock.id]);
}

/// What started under the old rate does not count under the new one.
async fn a_new_rate_starts_afresh(fx: Fixture) {
    fx.enqueue_all(jobs(20)).await;
    fx.set_queue(limited((1, 60_000))).await;
    assert_eq!(fx.claim_ids(20).await.len(), 1);
    assert_eq!(fx.claim_ids(20).await.len(), 0);
    fx.set_queue(limited((20, 60_000))).await;
    assert_eq!(fx.claim_ids(20).await.len(), 2);
}

/// A program that sets its rates at each start does not get around them.
async fn the_same_rate_set_again_goes_on(fx: Fixture) {
    fx.enqueue_all(jobs(5)).await;
    fx.set_queue(limited((1, 100))).await;
    fx.claim_one().await;
    fx.set_queue(limited((1, 100))).await;
    assert_eq!(fx.claim_ids(5).await, NO_JOBS);
    fx.advance(100);
    assert_eq!(fx.claim_ids(5).await.len(), 1);
}

/// A pause or a limit of active jobs, set and taken back, changes no rate.
async fn other_settings_leave_the_rate_as_it_is(fx: Fixture) {
    fx.enqueue_all(jobs(5)).await;
    fx.set_queue(limited((1, 100))).await;
    fx.claim_one().await;
    let others = |paused, max_active| QueueSettings {
        paused: Change::Set(paused),
        max_active: Change::Set(max_active),
        ..QueueSettings::default()
    };
    fx.set_queue(others(true, 1)).await;
    fx.set_queue(others(false, 10)).await;
    assert_eq!(fx.claim_ids(5).await, NO_JOBS);
    fx.advance(100);
    assert_eq!(fx.claim_ids(5).await.len(), 1);
}

/// Without a rate, all may start.
async fn a_cleared_rate_holds_nothing_back(fx: Fixture) {
    fx.enqueue_all(jobs(5)).await;
    fx.set_queue(limited((1, 60_000))).await;
    fx.claim_one().await;
    fx.set_queue(QueueSettings {
        rate: Change::Clear,
        ..QueueSettings::default()
    })
    .await;
    let claim = fx.claim(5).await;
    assert_eq!((claim.jobs.len(), claim.next_run_at), (4, None));
}

/// The starts of all workers are counted together, even at one instant.
async fn a_rate_holds_over_all_handles_and_concurrent_claims(fx: Fixture) {
    fx.set_queue(limited((30, 1_000))).await;
    fx.enqueue_all(jobs(40)).await;
    let second = fx.second().await;
    let claimed = fx
        .race(8, |fx, number| {
            let handle = if number % 2 == 0 { fx } else { second.clone() };
            async move { handle.claim_ids(2).await.len() }
        })
        .await;
    assert_eq!(claimed.iter().sum::<usize>(), 3, "claimed {claimed:?}");
}

/// The stricter of both decides.
async fn a_rate_and_max_active_hold_together(fx: Fixture) {
    fx.enqueue_all(jobs(20)).await;
    fx.set_queue(QueueSettings {
        max_active: Change::Set(3),
        ..limited((20, 1_000))
    })
    .await;
    let lock = fx.claim_one().await;
    assert_eq!(fx.claim_ids(10).await.len(), 1, "by the rate");
    fx.advance(10_000);
    assert_eq!(
        fx.claim_ids(10).await.len(),
        1,
        "by the number that may be active"
    );
    fx.ack(&lock, complete()).await;
    assert_eq!(
        fx.claim_ids(10).await.len(),
        1,
        "in the slot that was freed"
    );
}

/// Another queue starts as many as it likes.
async fn a_rate_is_its_queues_alone(fx: Fixture) {
    fx.set_queue(limited((1, 60_000))).await;
    fx.enqueue_all(jobs(2)).await;
    fx.claim_one().await;
    let other = QueueName::from("other");
    fx.enqueue_all(vec![job().queue(&other); 3]).await;
    assert_eq!(claim_from(&fx, &other, 10).await.jobs.len(), 3);
    assert_eq!(fx.claim_ids(10).await, NO_JOBS);
}
