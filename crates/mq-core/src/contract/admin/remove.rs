//! Remove: a job goes with everything about it.

use crate::contract::Fixture;
use crate::contract::expect::{Must, expect_illegal, expect_lock_lost, expect_refused};
use crate::contract::make::{Make, NO_JOBS, ack, complete, job, request_for};
use crate::contract::steps::ids as ids_of;
use crate::id::JobId;
use crate::record::JobState;

cases! { __contract_admin_remove, admin::remove:
    a_job_that_is_not_running_is_removed_with_its_ledger,
    a_removed_job_is_never_claimed,
    a_running_job_cannot_be_removed,
    a_running_job_to_be_cancelled_cannot_be_removed,
    an_unknown_job_is_removed_already,
    a_repeated_remove_is_false,
    a_removed_job_can_be_enqueued_again,
    a_remove_that_races_a_claim_is_decided_once,
    a_broken_id_is_refused,
}

/// In each state but active and parked.
async fn a_job_that_is_not_running_is_removed_with_its_ledger(fx: Fixture) {
    for state in [
        JobState::Waiting,
        JobState::Delayed,
        JobState::Completed,
        JobState::Failed,
        JobState::Cancelled,
    ] {
        let id = fx.job_in(state).await;
        assert!(fx.store.remove(&id).await.must(), "a job that is {state}");
        assert_eq!(fx.find(&id).await, None);
        assert_eq!(fx.ledger(&id).await, []);
        assert_eq!(fx.counts().await.total(), 0);
    }
}

/// Waiting, or delayed and due.
async fn a_removed_job_is_never_claimed(fx: Fixture) {
    let ids = fx.enqueue_all(vec![job(), job().delay(5), job()]).await;
    for id in &ids[..2] {
        assert!(fx.store.remove(id).await.must());
    }
    let claim = fx.claim(5).await;
    assert_eq!(
        (ids_of(&claim.jobs), claim.next_run_at),
        (ids[2..].to_vec(), None)
    );
    fx.advance(5);
    assert_eq!(fx.claim_ids(5).await, NO_JOBS);
}

/// It is an error that says so, and the run goes on.
async fn a_running_job_cannot_be_removed(fx: Fixture) {
    let held = fx.start(job()).await;
    let before = fx.job(&held.id).await;
    expect_illegal(fx.store.remove(&held.id).await, &held.id, JobState::Active);
    assert_eq!(fx.job(&held.id).await, before);
    fx.ack(&held, complete()).await;
}

/// Not before it has ended.
async fn a_running_job_to_be_cancelled_cannot_be_removed(fx: Fixture) {
    let held = fx.start(job()).await;
    fx.request_cancel(&held.id).await;
    expect_illegal(fx.store.remove(&held.id).await, &held.id, JobState::Active);
    fx.store.release(held.clone()).await.must();
    assert!(fx.store.remove(&held.id).await.must());
}

/// That is no error.
async fn an_unknown_job_is_removed_already(fx: Fixture) {
    assert!(!fx.store.remove(&"unknown".into()).await.must());
}

/// After a lost answer the repetition says that there is none.
async fn a_repeated_remove_is_false(fx: Fixture) {
    let id = fx.enqueue(job()).await;
    assert!(fx.store.remove(&id).await.must());
    assert!(!fx.store.remove(&id).await.must());
}

/// The new job under the id has nothing of the old one, its token included.
async fn a_removed_job_can_be_enqueued_again(fx: Fixture) {
    let old = fx.start(job().id("a")).await;
    fx.ack(&old, complete()).await;
    assert!(fx.store.remove(&old.id).await.must());
    fx.enqueue(job().id("a").payload("2")).await;
    let fresh = fx.job(&old.id).await;
    assert_eq!((fresh.attempts_recorded, fresh.processed_at), (0, None));
    expect_lock_lost(fx.store.ack(ack(&old, complete())).await, &old.id);
    let held = fx.claim_one().await;
    fx.ack(&held, complete()).await;
    assert_eq!(fx.ledger(&old.id).await[0].attempt, 1);
}

/// The job is gone, or it runs; a claim never hands out what is gone.
async fn a_remove_that_races_a_claim_is_decided_once(fx: Fixture) {
    for round in 0..20 {
        let name = format!("job-{round}");
        let id = fx.enqueue(job().name(name.as_str())).await;
        let happened = fx
            .race(2, |fx, number| {
                let (id, name) = (id.clone(), name.clone());
                async move {
                    match number {
                        0 => fx.store.remove(&id).await.is_ok_and(|removed| removed),
                        _ => !fx
                            .claim_with(request_for(&[&name], 1))
                            .await
                            .jobs
                            .is_empty(),
                    }
                }
            })
            .await;
        assert_ne!(happened[0], happened[1], "(removed, claimed)");
        assert_eq!(fx.find(&id).await.is_some(), happened[1]);
    }
}

/// Ids that no job can have are an error.
async fn a_broken_id_is_refused(fx: Fixture) {
    for id in ["", "a\0b"].map(JobId::from) {
        expect_refused(fx.store.remove(&id).await, "job id");
    }
}
