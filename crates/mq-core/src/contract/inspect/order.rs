//! List: in which order it shows them, and how ties fall.

use crate::contract::Fixture;
use crate::contract::expect::Must;
use crate::contract::make::{LOCK, Make, complete, fail, job, jobs, ms, request};
use crate::contract::steps::ids;
use crate::id::JobId;
use crate::record::JobState;
use crate::store::{ClaimRequest, Direction, ListFilter, OrderBy};

cases! { __contract_inspect_order, inspect::order:
    the_newest_come_first_unless_asked_otherwise,
    jobs_enqueued_at_one_instant_are_listed_by_id,
    delayed_jobs_are_listed_by_run_time_then_arrival,
    active_jobs_are_listed_by_lock_expiry_then_id,
    an_extended_lock_moves_its_job,
    finished_jobs_are_listed_by_their_end,
    jobs_that_finished_at_one_instant_are_listed_in_the_order_they_did,
    finished_jobs_are_listed_with_or_without_name_and_queue,
}

/// Checks both directions of an order; `expected` is the ascending one.
async fn expect_order(fx: &Fixture, filter: &ListFilter, expected: &[JobId]) {
    let mut expected = expected.to_vec();
    for direction in [Direction::Ascending, Direction::Descending] {
        let filter = ListFilter {
            direction,
            ..filter.clone()
        };
        let page = fx.store.list(filter.clone()).await.must();
        assert_eq!(ids(&page.items), expected, "by {filter:?}");
        expected.reverse();
    }
}

/// By `enqueued_at`, descending.
async fn the_newest_come_first_unless_asked_otherwise(fx: Fixture) {
    let mut came = Vec::new();
    for id in ["b", "c", "a"] {
        came.push(fx.enqueue(job().id(id)).await);
        fx.advance(1);
    }
    expect_order(&fx, &ListFilter::default(), &came).await;
    let page = fx.store.list(ListFilter::default()).await.must();
    came.reverse();
    assert_eq!(ids(&page.items), came);
}

/// In byte order of the ids, which follows the direction.
async fn jobs_enqueued_at_one_instant_are_listed_by_id(fx: Fixture) {
    let mut came = Vec::new();
    for id in ["b", "a", "é", "Z", "aa", "\u{1f980}", "_"] {
        came.push(fx.enqueue(job().id(id)).await);
    }
    came.sort();
    let in_queue = ListFilter {
        queue: Some("queue".into()),
        ..ListFilter::default()
    };
    let named = ListFilter {
        name: Some("job".into()),
        ..ListFilter::default()
    };
    for filter in [ListFilter::default(), in_queue, named] {
        expect_order(&fx, &filter, &came).await;
    }
}

/// Of one queue, over all names.
async fn delayed_jobs_are_listed_by_run_time_then_arrival(fx: Fixture) {
    let late = fx.enqueue(job().id("a").delay(300)).await;
    let tied = fx.enqueue(job().id("z").delay(200).name("other")).await;
    let tied_later = fx.enqueue(job().id("b").delay(200)).await;
    let early = fx.enqueue(job().id("y").delay(100)).await;
    fx.enqueue(job().queue("other").delay(200)).await;
    fx.enqueue(job()).await;
    let filter = ListFilter {
        queue: Some("queue".into()),
        states: Some(vec![JobState::Delayed]),
        order_by: OrderBy::RunAt,
        ..ListFilter::default()
    };
    expect_order(&fx, &filter, &[early, tied, tied_later, late]).await;
}

fn by_expiry() -> ListFilter {
    ListFilter {
        states: Some(vec![JobState::Active]),
        order_by: OrderBy::LockExpiresAt,
        ..ListFilter::default()
    }
}

/// Over all queues, or of one.
async fn active_jobs_are_listed_by_lock_expiry_then_id(fx: Fixture) {
    let mut by_lock = Vec::new();
    for (id, lock_for) in [("c", 300), ("b", 100), ("d", 100), ("a", 100), ("e", 200)] {
        fx.enqueue(job().id(id)).await;
        fx.claim_with(ClaimRequest {
            lock_for: ms(lock_for),
            ..request(1)
        })
        .await;
        by_lock.push((lock_for, JobId::from(id)));
    }
    by_lock.sort();
    let expected: Vec<_> = by_lock.into_iter().map(|(_, id)| id).collect();
    fx.enqueue(job()).await;
    expect_order(&fx, &by_expiry(), &expected).await;
    let in_queue = ListFilter {
        queue: Some("queue".into()),
        ..by_expiry()
    };
    expect_order(&fx, &in_queue, &expected).await;
}

/// A heartbeat changes the order, and the end of a run takes it out.
async fn an_extended_lock_moves_its_job(fx: Fixture) {
    fx.enqueue_all(vec![job().id("a"), job().id("b"), job().id("c")])
        .await;
    let locks = fx.claim_locks(request(3)).await;
    fx.store
        .extend_locks(vec![locks[0].clone()], ms(LOCK + 1))
        .await
        .must();
    expect_order(&fx, &by_expiry(), &["b", "c", "a"].map(JobId::from)).await;
    fx.ack(&locks[2], complete()).await;
    expect_order(&fx, &by_expiry(), &["b", "a"].map(JobId::from)).await;
}

fn by_end(states: &[JobState]) -> ListFilter {
    ListFilter {
        states: Some(states.to_vec()),
        order_by: OrderBy::FinishedAt,
        ..ListFilter::default()
    }
}

/// Not by their beginning, and over several terminal states at once.
async fn finished_jobs_are_listed_by_their_end(fx: Fixture) {
    fx.enqueue_all(jobs(3)).await;
    let locks = fx.claim_locks(request(3)).await;
    let mut ended = Vec::new();
    for (lock, outcome) in [
        (&locks[2], complete()),
        (&locks[0], fail()),
        (&locks[1], complete()),
    ] {
        fx.advance(1);
        fx.ack(lock, outcome).await;
        ended.push(lock.id.clone());
    }
    fx.job_in(JobState::Active).await;
    use JobState::{Cancelled, Completed, Failed};
    expect_order(&fx, &by_end(&[Completed, Failed, Cancelled]), &ended).await;
    expect_order(
        &fx,
        &by_end(&[Completed]),
        &[ended[0].clone(), ended[2].clone()],
    )
    .await;
}

/// Each end draws an arrival number, and that decides; not id, not arrival.
async fn jobs_that_finished_at_one_instant_are_listed_in_the_order_they_did(fx: Fixture) {
    fx.enqueue_all(["d", "a", "c", "b"].map(|id| job().id(id)).to_vec())
        .await;
    let locks = fx.claim_locks(request(4)).await;
    let mut ended = Vec::new();
    for place in [2, 0, 3, 1] {
        fx.ack(&locks[place], complete()).await;
        ended.push(locks[place].id.clone());
    }
    expect_order(&fx, &by_end(&[JobState::Completed]), &ended).await;
    let waiting = fx.enqueue_all(vec![job().id("z"), job().id("y")]).await;
    for id in [&waiting[1], &waiting[0]] {
        fx.store.cancel(id).await.must();
    }
    let cancelled = [waiting[1].clone(), waiting[0].clone()];
    expect_order(&fx, &by_end(&[JobState::Cancelled]), &cancelled).await;
}

/// Each filter leaves the order as it is.
async fn finished_jobs_are_listed_with_or_without_name_and_queue(fx: Fixture) {
    let mut ended = Vec::new();
    for (name, queue) in [("x", "a"), ("y", "a"), ("x", "b"), ("x", "a")] {
        ended.push(fx.finish(job().name(name).queue(queue), complete()).await);
        fx.advance(1);
    }
    let pick = |places: &[usize]| {
        places
            .iter()
            .map(|&place| ended[place].clone())
            .collect::<Vec<_>>()
    };
    let base = || by_end(&[JobState::Completed]);
    expect_order(&fx, &base(), &ended).await;
    let named = ListFilter {
        name: Some("x".into()),
        ..base()
    };
    expect_order(&fx, &named, &pick(&[0, 2, 3])).await;
    let in_queue = ListFilter {
        queue: Some("a".into()),
        ..base()
    };
    expect_order(&fx, &in_queue, &pick(&[0, 1, 3])).await;
    let both = ListFilter {
        queue: Some("a".into()),
        ..named
    };
    expect_order(&fx, &both, &pick(&[0, 3])).await;
}
