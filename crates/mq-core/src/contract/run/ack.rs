//! Ack: what each outcome does, and who may say it.

use crate::contract::expect::{Must, expect_lock_lost, expect_not_found, expect_refused};
use crate::contract::make::{
    LOCK, Make, ack, complete, fail, job, json, lock, ms, request, retry_in, snooze_for,
};
use crate::contract::{Fixture, StoreOptions};
use crate::record::{AttemptOutcome, JobRecord, JobState, Keep, Retention};
use crate::store::{AckOutcome, Lock};
use crate::time::{LONGEST, Timestamp};

cases! { __contract_run_ack, run::ack:
    complete_ends_the_job_with_its_exit,
    complete_wins_over_a_pending_cancel,
    fail_ends_the_job_with_its_exit,
    fail_wins_over_a_pending_cancel,
    cancelled_ends_the_job,
    cancelled_needs_no_pending_cancel,
    retry_without_delay_waits_behind_the_others,
    retry_with_delay_is_delayed_from_now,
    retry_keeps_its_exit_in_the_ledger_only,
    retry_with_a_pending_cancel_ends_cancelled,
    retry_does_not_look_at_the_number_of_attempts,
    snooze_waits_again_without_using_an_attempt,
    snooze_with_a_pending_cancel_ends_cancelled,
    an_ack_of_an_unknown_job_finds_nothing,
    an_ack_of_a_job_that_is_gone_finds_nothing,
    an_ack_with_another_token_is_refused_in_every_state,
    an_ack_after_a_release_is_refused,
    an_ack_after_a_recovery_is_refused,
    an_expired_lock_still_holds,
    an_ack_through_another_handle_counts,
    a_result_too_large_is_refused_and_the_run_goes_on with small_payloads,
    a_broken_ack_is_refused_and_the_run_goes_on,
}

/// Everything about a completed job, field by field.
async fn complete_ends_the_job_with_its_exit(fx: Fixture) {
    let lock = fx.start(job()).await;
    let active = fx.job(&lock.id).await;
    fx.advance(7);
    let exit = Some(json(r#"{"ok":1}"#));
    fx.ack(&lock, AckOutcome::Complete { exit: exit.clone() })
        .await;
    let expected = JobRecord {
        state: JobState::Completed,
        attempts_made: 1,
        attempts_recorded: 1,
        finished_at: Some(fx.now()),
        exit,
        ..active
    };
    assert_eq!(fx.job(&lock.id).await, expected);
    assert_no_lock(&fx, &lock).await;
}

/// A job that was done is done, whatever was asked meanwhile.
async fn complete_wins_over_a_pending_cancel(fx: Fixture) {
    let lock = fx.start(job()).await;
    fx.request_cancel(&lock.id).await;
    fx.ack(&lock, complete()).await;
    let record = fx.job(&lock.id).await;
    assert_eq!(
        (record.state, record.cancel_requested),
        (JobState::Completed, false)
    );
    assert_eq!(fx.outcomes(&lock.id).await, [AttemptOutcome::Completed]);
}

/// Everything about a failed job, field by field; the reason is its exit.
async fn fail_ends_the_job_with_its_exit(fx: Fixture) {
    let lock = fx.start(job()).await;
    let active = fx.job(&lock.id).await;
    fx.advance(7);
    let exit = Some(json(r#"{"err":null}"#));
    fx.ack(&lock, AckOutcome::Fail { exit: exit.clone() }).await;
    let expected = JobRecord {
        state: JobState::Failed,
        attempts_made: 1,
        attempts_recorded: 1,
        finished_at: Some(fx.now()),
        exit,
        failed_reason: None,
        ..active
    };
    assert_eq!(fx.job(&lock.id).await, expected);
    assert_no_lock(&fx, &lock).await;
}

/// A final failure is told as such.
async fn fail_wins_over_a_pending_cancel(fx: Fixture) {
    let lock = fx.start(job()).await;
    fx.request_cancel(&lock.id).await;
    fx.ack(&lock, fail()).await;
    let record = fx.job(&lock.id).await;
    assert_eq!(
        (record.state, record.cancel_requested),
        (JobState::Failed, false)
    );
}

/// Everything about a cancelled job, field by field; the flag is cleared.
async fn cancelled_ends_the_job(fx: Fixture) {
    let lock = fx.start(job()).await;
    let active = fx.job(&lock.id).await;
    fx.request_cancel(&lock.id).await;
    fx.advance(7);
    fx.ack(&lock, AckOutcome::Cancelled).await;
    let expected = JobRecord {
        state: JobState::Cancelled,
        attempts_made: 1,
        attempts_recorded: 1,
        cancel_requested: false,
        finished_at: Some(fx.now()),
        ..active
    };
    assert_eq!(fx.job(&lock.id).await, expected);
    assert_no_lock(&fx, &lock).await;
}

/// A handler may call its own job off.
async fn cancelled_needs_no_pending_cancel(fx: Fixture) {
    let id = fx.finish(job(), AckOutcome::Cancelled).await;
    assert_eq!(fx.state(&id).await, JobState::Cancelled);
    assert_eq!(fx.outcomes(&id).await, [AttemptOutcome::Cancelled]);
}

/// A retry arrives anew: later jobs run first.
async fn retry_without_delay_waits_behind_the_others(fx: Fixture) {
    let lock = fx.start(job()).await;
    let active = fx.job(&lock.id).await;
    let other = fx.enqueue(job()).await;
    fx.advance(7);
    fx.ack(&lock, retry_in(0)).await;
    let expected = JobRecord {
        state: JobState::Waiting,
        attempts_made: 1,
        attempts_recorded: 1,
        run_at: fx.now(),
        ..active
    };
    assert_eq!(fx.job(&lock.id).await, expected);
    assert_no_lock(&fx, &lock).await;
    assert_eq!(fx.claim_ids(2).await, [other, lock.id]);
}

/// The delay is the store's to count, rounded up, and ends with time itself.
async fn retry_with_delay_is_delayed_from_now(fx: Fixture) {
    let lock = fx.start(job()).await;
    fx.advance(7);
    let delay = std::time::Duration::from_micros(4_001);
    fx.ack(&lock, AckOutcome::Retry { delay, exit: None }).await;
    let record = fx.job(&lock.id).await;
    assert_eq!(
        (record.state, record.run_at),
        (JobState::Delayed, fx.later(5))
    );
    fx.advance(5);
    let again = fx.claim_one().await;
    fx.ack(
        &again,
        AckOutcome::Retry {
            delay: LONGEST,
            exit: None,
        },
    )
    .await;
    assert_eq!(fx.job(&lock.id).await.run_at, Timestamp::MAX);
}

/// Until it has ended, a job has no exit.
async fn retry_keeps_its_exit_in_the_ledger_only(fx: Fixture) {
    let lock = fx.start(job()).await;
    let exit = Some(json(r#"{"err":"again"}"#));
    fx.ack(
        &lock,
        AckOutcome::Retry {
            delay: ms(0),
            exit: exit.clone(),
        },
    )
    .await;
    assert_eq!(fx.job(&lock.id).await.exit, None);
    let entry = fx.ledger(&lock.id).await.remove(0);
    assert_eq!((entry.outcome, entry.exit), (AttemptOutcome::Retried, exit));
}

/// A cancel wins over another try.
async fn retry_with_a_pending_cancel_ends_cancelled(fx: Fixture) {
    for delay in [0, 1_000] {
        let lock = fx.start(job()).await;
        fx.request_cancel(&lock.id).await;
        fx.ack(&lock, retry_in(delay)).await;
        let record = fx.job(&lock.id).await;
        assert_eq!(
            (record.state, record.cancel_requested),
            (JobState::Cancelled, false)
        );
        assert_eq!(record.finished_at, Some(fx.now()));
        assert_eq!(record.attempts_made, 1);
        assert_eq!(fx.outcomes(&lock.id).await, [AttemptOutcome::Cancelled]);
    }
}

/// Whether another attempt is due is the worker's decision.
async fn retry_does_not_look_at_the_number_of_attempts(fx: Fixture) {
    let lock = fx.start(job()).await;
    fx.ack(&lock, retry_in(0)).await;
    let again = fx.claim_one().await;
    fx.ack(&again, retry_in(0)).await;
    let record = fx.job(&lock.id).await;
    assert_eq!((record.state, record.attempts_made), (JobState::Waiting, 2));
    assert_eq!(record.spec.attempts_max, 1);
}

/// A snooze is a retry that costs nothing and leaves no exit.
async fn snooze_waits_again_without_using_an_attempt(fx: Fixture) {
    for (delay, state) in [(0, JobState::Waiting), (1_000, JobState::Delayed)] {
        let lock = fx.start(job()).await;
        let active = fx.job(&lock.id).await;
        let other = fx.enqueue(job()).await;
        fx.advance(3);
        fx.ack(&lock, snooze_for(delay)).await;
        let expected = JobRecord {
            state,
            attempts_recorded: 1,
            run_at: fx.later(delay),
            ..active
        };
        assert_eq!(fx.job(&lock.id).await, expected);
        let entry = fx.ledger(&lock.id).await.remove(0);
        assert_eq!((entry.outcome, entry.exit), (AttemptOutcome::Snoozed, None));
        fx.advance(delay);
        let after = fx.claim_locks(request(2)).await;
        let order: Vec<_> = after.iter().map(|lock| lock.id.clone()).collect();
        match state {
            JobState::Waiting => assert_eq!(order, [other, lock.id], "it arrives anew"),
            _ => assert_eq!(order.len(), 2),
        }
        for lock in after {
            fx.ack(&lock, complete()).await;
        }
    }
}

/// A cancel wins over putting off, and the run is told as cancelled.
async fn snooze_with_a_pending_cancel_ends_cancelled(fx: Fixture) {
    let lock = fx.start(job()).await;
    fx.request_cancel(&lock.id).await;
    fx.ack(&lock, snooze_for(10)).await;
    let record = fx.job(&lock.id).await;
    assert_eq!(
        (record.state, record.cancel_requested),
        (JobState::Cancelled, false)
    );
    assert_eq!(fx.outcomes(&lock.id).await, [AttemptOutcome::Cancelled]);
}

/// There is nothing to end.
async fn an_ack_of_an_unknown_job_finds_nothing(fx: Fixture) {
    let unknown = lock("unknown", "token");
    expect_not_found(fx.store.ack(ack(&unknown, complete())).await, &unknown.id);
}

/// A repeated ack of a job that its own `keep` has pruned finds nothing, which
/// the worker takes as settled.
async fn an_ack_of_a_job_that_is_gone_finds_nothing(fx: Fixture) {
    let lock = fx.start(job().keep(Keep::all(Retention::count(0)))).await;
    fx.ack(&lock, complete()).await;
    expect_not_found(fx.store.ack(ack(&lock, complete())).await, &lock.id);
    let removed = fx.start(job()).await;
    fx.ack(&removed, complete()).await;
    assert!(fx.store.remove(&removed.id).await.must());
    expect_not_found(fx.store.ack(ack(&removed, complete())).await, &removed.id);
}

/// Without the token nobody ends a run, nor anything else.
async fn an_ack_with_another_token_is_refused_in_every_state(fx: Fixture) {
    for state in JobState::ALL {
        let id = fx.job_in(state).await;
        let before = fx.job(&id).await;
        let foreign = lock(&id, "foreign");
        for end in [
            complete(),
            fail(),
            retry_in(0),
            snooze_for(0),
            AckOutcome::Cancelled,
        ] {
            expect_lock_lost(fx.store.ack(ack(&foreign, end)).await, &id);
        }
        assert_eq!(fx.job(&id).await, before, "a job that is {state}");
        fx.store.cancel(&id).await.ok();
    }
}

/// A worker that gave a job back has no say in it any more.
async fn an_ack_after_a_release_is_refused(fx: Fixture) {
    let lock = fx.start(job()).await;
    fx.store.release(lock.clone()).await.must();
    expect_lock_lost(fx.store.ack(ack(&lock, complete())).await, &lock.id);
    fx.claim_one().await;
    expect_lock_lost(fx.store.ack(ack(&lock, complete())).await, &lock.id);
    assert_eq!(fx.state(&lock.id).await, JobState::Active);
}

/// A worker whose job was taken back for stalled has none either.
async fn an_ack_after_a_recovery_is_refused(fx: Fixture) {
    let lock = fx.start(job()).await;
    fx.stall(3).await;
    expect_lock_lost(fx.store.ack(ack(&lock, complete())).await, &lock.id);
    assert_eq!(fx.state(&lock.id).await, JobState::Waiting);
    fx.claim_one().await;
    fx.stall(0).await;
    expect_lock_lost(fx.store.ack(ack(&lock, complete())).await, &lock.id);
    assert_eq!(fx.state(&lock.id).await, JobState::Failed);
}

/// A lock is lost when it is taken away, not when its time is over.
async fn an_expired_lock_still_holds(fx: Fixture) {
    let lock = fx.start(job()).await;
    fx.advance(LOCK * 10);
    fx.ack(&lock, complete()).await;
    assert_eq!(fx.state(&lock.id).await, JobState::Completed);
}

/// The token is what counts, not the connection.
async fn an_ack_through_another_handle_counts(fx: Fixture) {
    let lock = fx.start(job()).await;
    fx.second().await.ack(&lock, complete()).await;
    assert_eq!(fx.state(&lock.id).await, JobState::Completed);
}

fn small_payloads(options: StoreOptions) -> StoreOptions {
    options.max_payload(16)
}

/// A refused exit leaves the job active under its lock, so that its worker can
/// end it otherwise; exactly the limit passes.
async fn a_result_too_large_is_refused_and_the_run_goes_on(fx: Fixture) {
    let lock = fx.start(job()).await;
    let before = fx.job(&lock.id).await;
    let exit = || Some(json("\"123456789012345\""));
    for end in [
        AckOutcome::Complete { exit: exit() },
        AckOutcome::Fail { exit: exit() },
        AckOutcome::Retry {
            delay: ms(0),
            exit: exit(),
        },
    ] {
        expect_refused(fx.store.ack(ack(&lock, end)).await, "exit");
    }
    assert_eq!(fx.job(&lock.id).await, before);
    assert_eq!(fx.ledger(&lock.id).await, []);
    let exit = Some(json("\"12345678901234\""));
    fx.ack(&lock, AckOutcome::Fail { exit }).await;
}

/// So does any other broken rule.
async fn a_broken_ack_is_refused_and_the_run_goes_on(fx: Fixture) {
    let held = fx.start(job()).await;
    let before = fx.job(&held.id).await;
    let too_long = LONGEST + ms(1);
    let retry = AckOutcome::Retry {
        delay: too_long,
        exit: None,
    };
    let snooze = AckOutcome::Snooze { delay: too_long };
    let no_id = lock("", held.token.clone());
    let nul = lock(&held.id, "a\0b");
    let empty = lock(&held.id, "");
    for (field, broken) in [
        ("retry delay", ack(&held, retry)),
        ("snooze delay", ack(&held, snooze)),
        ("job id", ack(&no_id, complete())),
        ("lock token", ack(&nul, complete())),
        ("lock token", ack(&empty, complete())),
    ] {
        expect_refused(fx.store.ack(broken).await, field);
    }
    assert_eq!(fx.job(&held.id).await, before);
    fx.ack(&held, complete()).await;
}

/// Checks that a lock holds nothing any more.
async fn assert_no_lock(fx: &Fixture, lock: &Lock) {
    let extended = fx
        .store
        .extend_locks(vec![lock.clone()], ms(LOCK))
        .await
        .must();
    assert_eq!(extended.lost, [lock.id.clone()], "the lock is gone");
}
