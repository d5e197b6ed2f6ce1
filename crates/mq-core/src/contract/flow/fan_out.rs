//! Fan-out: a run that ends by naming children.

use super::steps::{Parent, children, counts, fail_fast, fan_out, keys, many};
use crate::contract::Fixture;
use crate::contract::expect::{Must, expect_lock_lost, expect_not_found};
use crate::contract::make::{LOCK, NO_JOBS, ack, complete, job, json, lock, ms, request};
use crate::contract::run::wake::wakes;
use crate::id::JobName;
use crate::record::{AttemptOutcome, AttemptRecord, ChildResult, ChildStatus, FlowState, JobState};
use crate::store::{Change, QueueSettings};

cases! { __contract_flow_fan_out, flow::fan_out:
    a_fan_out_parks_its_parent,
    a_job_has_no_flow_before_its_fan_out,
    a_fan_out_writes_the_state_of_its_flow,
    a_fan_out_writes_a_pending_row_for_each_child,
    a_fan_out_enqueues_no_child,
    a_fan_out_is_recorded_and_uses_no_attempt,
    a_fan_out_leaves_the_run_time,
    progress_outlasts_a_fan_out,
    a_parked_parent_is_not_claimed,
    a_parked_parent_holds_no_lock,
    a_parked_parent_does_not_stall,
    a_fan_out_frees_its_slot,
    a_fan_out_without_children_waits_at_once,
    a_fan_out_without_children_wakes_its_queue,
    a_fan_out_without_children_keeps_its_place,
    the_second_phase_is_claimed_with_the_state_of_its_flow,
    a_fan_out_with_another_token_is_refused,
    a_fan_out_of_an_unknown_job_is_not_found,
    a_fan_out_after_its_lock_expired_lands,
    a_fan_out_lands_beside_other_acks,
    a_second_entry_beside_a_fan_out_is_refused,
    two_fan_outs_land_in_one_call,
    a_large_fan_out_lands_as_a_whole,
    fan_outs_of_every_size_around_a_page_are_whole,
}

/// It waits for its children, and is neither waiting nor ended.
async fn a_fan_out_parks_its_parent(fx: Fixture) {
    let parent = fx.park(&["a"]).await;
    let record = fx.job(&parent.id).await;
    assert_eq!(record.state, JobState::WaitingChildren);
    assert_eq!((record.finished_at, record.exit), (None, None));
    fx.expect_count(JobState::WaitingChildren, 1).await;
}

/// Its absence says that the next run fans out.
async fn a_job_has_no_flow_before_its_fan_out(fx: Fixture) {
    let held = fx.start(job()).await;
    assert_eq!(fx.job(&held.id).await.flow, None);
}

/// The mark is the token of the lock that landed.
async fn a_fan_out_writes_the_state_of_its_flow(fx: Fixture) {
    for outcome in [fan_out(many(3)), fail_fast(many(3))] {
        let held = fx.start(job()).await;
        fx.ack(&held, outcome.clone()).await;
        let expected = FlowState {
            manifest: held.token,
            fail_fast: matches!(
                outcome,
                crate::store::AckOutcome::FanOut {
                    fail_fast: true,
                    ..
                }
            ),
            counts: counts(3, 0, 0, 0),
        };
        assert_eq!(fx.job(&held.id).await.flow, Some(expected));
    }
}

/// With what is to be known of it without its store.
async fn a_fan_out_writes_a_pending_row_for_each_child(fx: Fixture) {
    let parent = fx.park(&["b", "a"]).await;
    let row = |key: &str| ChildResult {
        key: key.into(),
        name: JobName::from("child"),
        store: "children".into(),
        job_id: format!("child {key}").into(),
        status: ChildStatus::Pending,
        exit: None,
        failed_reason: None,
    };
    assert_eq!(fx.results(&parent).await, [row("a"), row("b")]);
}

/// That is the worker's to do, in whichever stores they belong to.
async fn a_fan_out_enqueues_no_child(fx: Fixture) {
    fx.park(&["a", "b"]).await;
    assert_eq!(fx.counts().await.total(), 1);
}

/// The entry closes the run.
async fn a_fan_out_is_recorded_and_uses_no_attempt(fx: Fixture) {
    let held = fx.start(job()).await;
    let started_at = fx.now();
    fx.advance(7);
    fx.ack(&held, fan_out(many(1))).await;
    let entry = AttemptRecord {
        attempt: 1,
        started_at: Some(started_at),
        finished_at: fx.now(),
        outcome: AttemptOutcome::FannedOut,
        exit: None,
    };
    assert_eq!(fx.ledger(&held.id).await, [entry]);
    let record = fx.job(&held.id).await;
    assert_eq!((record.attempts_made, record.attempts_recorded), (0, 1));
    assert_eq!(record.processed_at, Some(started_at));
}

/// It moves when the parent goes on.
async fn a_fan_out_leaves_the_run_time(fx: Fixture) {
    let held = fx.start(job()).await;
    let before = fx.job(&held.id).await.run_at;
    fx.advance(7);
    fx.ack(&held, fan_out(many(1))).await;
    assert_eq!(fx.job(&held.id).await.run_at, before);
}

/// The second phase finds what the first reported.
async fn progress_outlasts_a_fan_out(fx: Fixture) {
    let held = fx.start(job()).await;
    fx.store
        .set_progress(held.clone(), json("[1]"))
        .await
        .must();
    fx.ack(&held, fan_out(many(1))).await;
    assert_eq!(fx.job(&held.id).await.progress, Some(json("[1]")));
}

/// However long it waits.
async fn a_parked_parent_is_not_claimed(fx: Fixture) {
    fx.park(&["a"]).await;
    fx.advance(1_000_000);
    let claim = fx.claim(10).await;
    assert_eq!((claim.jobs, claim.next_run_at), (Vec::new(), None));
}

/// Its heartbeat is told so.
async fn a_parked_parent_holds_no_lock(fx: Fixture) {
    let parent = fx.park(&["a"]).await;
    let extended = fx.store.extend_locks(vec![parent.lock()], ms(LOCK)).await;
    assert_eq!(extended.must().lost, [parent.id.clone()]);
    expect_lock_lost(fx.store.release(parent.lock()).await, &parent.id);
    expect_lock_lost(
        fx.store.set_progress(parent.lock(), json("1")).await,
        &parent.id,
    );
}

/// Nobody runs it.
async fn a_parked_parent_does_not_stall(fx: Fixture) {
    let parent = fx.park(&["a"]).await;
    fx.advance(10 * LOCK);
    assert_eq!(
        fx.store.recover_stalled(0, 250).await.must(),
        Default::default()
    );
    assert_eq!(fx.state(&parent.id).await, JobState::WaitingChildren);
}

/// Another job may run meanwhile, and whoever waits is told.
async fn a_fan_out_frees_its_slot(fx: Fixture) {
    fx.set_queue(QueueSettings {
        max_active: Change::Set(1),
        ..QueueSettings::default()
    })
    .await;
    let held = fx.start(job()).await;
    let next = fx.enqueue(job()).await;
    assert_eq!(fx.claim_ids(1).await, NO_JOBS);
    wakes(&fx, "a fan-out", fx.ack(&held, fan_out(many(1)))).await;
    assert_eq!(fx.claim_ids(1).await, [next]);
}

/// There is nothing to wait for; its flow is there all the same.
async fn a_fan_out_without_children_waits_at_once(fx: Fixture) {
    let held = fx.start(job()).await;
    fx.advance(7);
    fx.ack(&held, fan_out(Vec::new())).await;
    let record = fx.job(&held.id).await;
    assert_eq!((record.state, record.run_at), (JobState::Waiting, fx.now()));
    assert_eq!(
        record.flow.map(|flow| flow.counts),
        Some(counts(0, 0, 0, 0))
    );
    assert_eq!(fx.outcomes(&held.id).await, [AttemptOutcome::FannedOut]);
    assert_eq!(fx.claim_ids(1).await, [held.id]);
}

/// It is runnable again.
async fn a_fan_out_without_children_wakes_its_queue(fx: Fixture) {
    let held = fx.start(job()).await;
    wakes(
        &fx,
        "a fan-out without children",
        fx.ack(&held, fan_out(Vec::new())),
    )
    .await;
}

/// Before what came later.
async fn a_fan_out_without_children_keeps_its_place(fx: Fixture) {
    let held = fx.start(job()).await;
    let later = fx.enqueue(job()).await;
    fx.ack(&held, fan_out(Vec::new())).await;
    assert_eq!(fx.claim_ids(5).await, [held.id, later]);
}

/// That is how a worker knows what to run.
async fn the_second_phase_is_claimed_with_the_state_of_its_flow(fx: Fixture) {
    let held = fx.start(job()).await;
    fx.ack(&held, fail_fast(Vec::new())).await;
    let claimed = fx.claim(1).await.jobs;
    let expected = FlowState {
        manifest: held.token,
        fail_fast: true,
        counts: counts(0, 0, 0, 0),
    };
    assert_eq!(claimed[0].flow, Some(expected));
}

/// Nothing of it is seen.
async fn a_fan_out_with_another_token_is_refused(fx: Fixture) {
    let held = fx.start(job()).await;
    let before = fx.job(&held.id).await;
    let stray = lock(&held.id, "another");
    expect_lock_lost(fx.store.ack(ack(&stray, fan_out(many(3)))).await, &held.id);
    assert_eq!(fx.job(&held.id).await, before);
    let nothing = fx.store.list_child_results(&held.id, None, None).await;
    assert_eq!(nothing.must().items, []);
    fx.ack(&held, complete()).await;
}

/// Its worker takes that as settled.
async fn a_fan_out_of_an_unknown_job_is_not_found(fx: Fixture) {
    let stray = lock("nobody", "token");
    expect_not_found(
        fx.store.ack(ack(&stray, fan_out(many(300)))).await,
        &stray.id,
    );
}

/// As any ack does, as long as nobody has recovered it.
async fn a_fan_out_after_its_lock_expired_lands(fx: Fixture) {
    let held = fx.start(job()).await;
    fx.advance(LOCK + 1);
    fx.ack(&held, fan_out(many(2))).await;
    assert_eq!(fx.state(&held.id).await, JobState::WaitingChildren);
}

/// Each answered in its place.
async fn a_fan_out_lands_beside_other_acks(fx: Fixture) {
    fx.enqueue_all(vec![job(); 3]).await;
    let locks = fx.claim_locks(request(3)).await;
    let stray = lock(&locks[1].id, "another");
    let answers = fx
        .store
        .ack_many(vec![
            ack(&locks[0], fan_out(many(2))),
            ack(&stray, fan_out(many(2))),
            ack(&locks[2], complete()),
        ])
        .await
        .must();
    let applied: Vec<_> = answers
        .into_iter()
        .map(|answer| answer.map(|acked| acked.applied).unwrap_or_default())
        .collect();
    assert_eq!(applied, [true, false, true]);
    let ids: Vec<_> = locks.into_iter().map(|lock| lock.id).collect();
    let states = fx.states(&ids).await;
    let expected = [
        JobState::WaitingChildren,
        JobState::Active,
        JobState::Completed,
    ];
    assert_eq!(states, expected.map(Some));
}

/// Whichever of the two is the fan-out.
async fn a_second_entry_beside_a_fan_out_is_refused(fx: Fixture) {
    for first in [fan_out(many(1)), complete()] {
        let is_fan_out = first.clone();
        let held = fx.start(job()).await;
        let second = match &first {
            crate::store::AckOutcome::FanOut { .. } => complete(),
            _ => fan_out(many(1)),
        };
        let mut answers = fx
            .store
            .ack_many(vec![ack(&held, first), ack(&held, second)])
            .await
            .must();
        expect_lock_lost(answers.remove(1), &held.id);
        assert!(answers.remove(0).must().applied);
        let expected = match is_fan_out {
            crate::store::AckOutcome::FanOut { .. } => JobState::WaitingChildren,
            _ => JobState::Completed,
        };
        assert_eq!(fx.state(&held.id).await, expected);
    }
}

/// Each keeps its own children, even under the same keys.
async fn two_fan_outs_land_in_one_call(fx: Fixture) {
    let ids = fx.enqueue_all(vec![job(); 2]).await;
    let locks = fx.claim_locks(request(2)).await;
    let acks = vec![
        ack(&locks[0], fan_out(children(&["a", "b"]))),
        ack(&locks[1], fail_fast(children(&["b", "c", "d"]))),
    ];
    for answer in fx.store.ack_many(acks).await.must() {
        assert!(answer.must().applied);
    }
    for (id, pending) in ids.iter().zip([2, 3]) {
        let parent = Parent {
            id: id.clone(),
            manifest: locks[0].token.clone(),
        };
        assert_eq!(fx.flow_counts(&parent).await, counts(pending, 0, 0, 0));
        assert_eq!(fx.results(&parent).await.len() as u64, pending);
    }
}

/// A thousand rows or none.
async fn a_large_fan_out_lands_as_a_whole(fx: Fixture) {
    let parent = fx.park_many(1_000).await;
    assert_eq!(fx.flow_counts(&parent).await, counts(1_000, 0, 0, 0));
    let found: Vec<_> = fx.results(&parent).await;
    let found: Vec<_> = found.iter().map(|row| row.key.to_string()).collect();
    assert_eq!(found, keys(1_000));
    assert_eq!(fx.ledger(&parent.id).await.len(), 1);
}

/// Whatever is staged in pages of 250.
async fn fan_outs_of_every_size_around_a_page_are_whole(fx: Fixture) {
    for size in [1, 249, 250, 251, 499, 500, 501] {
        let parent = fx.park_many(size).await;
        assert_eq!(fx.flow_counts(&parent).await, counts(size as u64, 0, 0, 0));
        assert_eq!(fx.results(&parent).await.len(), size);
    }
}
