//! Watching: how the end of a job is announced to those who wait for it.

use std::future::Future;

use futures::future::poll_immediate;

use crate::contract::expect::{Must, expect_refused};
use crate::contract::make::{LOCK, Make, NO_JOBS, complete, fail, job, ms, retry_in, snooze_for};
use crate::contract::{Fixture, StoreOptions};
use crate::id::JobId;
use crate::record::{HistoryCeiling, JobState, Keep, Retention};
use crate::store::AckOutcome;

cases! { __contract_run_watch, run::watch:
    a_watch_tells_which_jobs_have_ended,
    a_repeated_watch_tells_the_same,
    an_unknown_job_counts_as_ended,
    watching_nothing_answers_nothing,
    each_end_of_a_run_is_announced,
    each_end_without_an_ack_is_announced,
    a_removal_is_announced,
    an_end_between_watch_and_wait_is_not_lost,
    an_end_is_not_lost_with_a_retry,
    a_removal_is_not_lost_with_a_new_job_of_the_id,
    an_end_crosses_handles,
    every_watcher_is_told,
    one_of_several_jobs_is_enough,
    another_jobs_end_is_no_reason,
    a_job_that_goes_on_has_not_ended,
    a_wait_that_is_dropped_loses_nothing,
    a_watched_job_survives_its_own_keep_for_a_minute,
    a_watched_job_survives_its_own_count_for_a_minute,
    a_watched_job_counts_but_stays_when_others_finish,
    a_watched_job_survives_the_ceiling_for_a_minute with no_history,
    a_job_that_nobody_watches_is_not_spared,
    a_broken_id_is_refused,
}

/// Checks that an action ends a watched job and that this is announced, to
/// those who wait already and to those who begin to afterwards.
async fn announces<T>(fx: &Fixture, id: &JobId, what: &str, action: impl Future<Output = T>) -> T {
    let ids = [id.clone()];
    let watch = fx.store.watch(&ids).await.must();
    assert_eq!(watch.finished, NO_JOBS, "before {what}");
    let mut waiting = fx.store.await_finished(&ids, watch.cursor);
    let parked = poll_immediate(&mut waiting).await.is_none();
    let answer = action.await;
    let event = format!("word of {what}");
    if parked {
        fx.within(&event, waiting).await.must();
    }
    fx.within(&event, fx.store.await_finished(&ids, watch.cursor))
        .await
        .must();
    assert_eq!(
        fx.store.watch(&ids).await.must().finished,
        ids,
        "after {what}"
    );
    answer
}

/// Terminal ones are named, the others are not.
async fn a_watch_tells_which_jobs_have_ended(fx: Fixture) {
    let mut ended = Vec::new();
    let mut others = Vec::new();
    for state in [
        JobState::Completed,
        JobState::Failed,
        JobState::Cancelled,
        JobState::WaitingChildren,
        JobState::Active,
        JobState::Waiting,
        JobState::Delayed,
    ] {
        let id = fx.job_in(state).await;
        if state.is_terminal() {
            &mut ended
        } else {
            &mut others
        }
        .push(id);
    }
    let all: Vec<_> = others.iter().chain(&ended).cloned().collect();
    let mut finished = fx.store.watch(&all).await.must().finished;
    finished.sort();
    ended.sort();
    assert_eq!(finished, ended);
}

/// Its reply was lost; a wait from either cursor ends.
async fn a_repeated_watch_tells_the_same(fx: Fixture) {
    let ended = fx.job_in(JobState::Completed).await;
    let held = fx.start(job()).await;
    let ids = [held.id.clone(), ended.clone()];
    let first = fx.store.watch(&ids).await.must();
    let second = fx.store.watch(&ids).await.must();
    assert_eq!(
        (first.finished, second.finished),
        (vec![ended.clone()], vec![ended])
    );
    fx.ack(&held, complete()).await;
    for cursor in [first.cursor, second.cursor] {
        let waiting = fx.store.await_finished(&ids[..1], cursor);
        fx.within("word of the end", waiting).await.must();
    }
}

/// There is nothing to wait for.
async fn an_unknown_job_counts_as_ended(fx: Fixture) {
    let known = fx.enqueue(job()).await;
    let ids = ["unknown".into(), known];
    assert_eq!(fx.store.watch(&ids).await.must().finished, ["unknown"]);
}

/// No ids, no answers.
async fn watching_nothing_answers_nothing(fx: Fixture) {
    assert_eq!(fx.store.watch(&NO_JOBS).await.must().finished, NO_JOBS);
}

/// Whatever the outcome, if it is an end.
async fn each_end_of_a_run_is_announced(fx: Fixture) {
    for (what, outcome) in [
        ("a completion", complete()),
        ("a failure", fail()),
        ("a cancellation", AckOutcome::Cancelled),
    ] {
        let held = fx.start(job()).await;
        announces(&fx, &held.id, what, fx.ack(&held, outcome)).await;
    }
    for (what, outcome) in [("a retry", retry_in(0)), ("a snooze", snooze_for(5))] {
        let held = fx.start(job()).await;
        fx.request_cancel(&held.id).await;
        let what = format!("{what} of a job to be cancelled");
        announces(&fx, &held.id, &what, fx.ack(&held, outcome)).await;
    }
}

/// Whoever ended it.
async fn each_end_without_an_ack_is_announced(fx: Fixture) {
    let id = fx.enqueue(job()).await;
    announces(&fx, &id, "a cancel", fx.store.cancel(&id))
        .await
        .must();
    let id = fx.enqueue(job().key("key")).await;
    let (name, key) = ("job".into(), "key".into());
    let cancel = fx.store.cancel_by_dedupe(&name, &key);
    assert!(announces(&fx, &id, "a cancel by key", cancel).await.must());
    let held = fx.start(job()).await;
    fx.request_cancel(&held.id).await;
    let release = fx.store.release(held.clone());
    announces(&fx, &held.id, "a release that cancels", release)
        .await
        .must();
    let held = fx.start(job()).await;
    fx.advance(LOCK);
    let recovery = fx.store.recover_stalled(0, 10);
    announces(&fx, &held.id, "one stall too many", recovery)
        .await
        .must();
    let held = fx.start(job()).await;
    fx.request_cancel(&held.id).await;
    fx.advance(LOCK);
    let recovery = fx.store.recover_stalled(3, 10);
    announces(&fx, &held.id, "a stall that cancels", recovery)
        .await
        .must();
}

/// A job that is gone will not end any more.
async fn a_removal_is_announced(fx: Fixture) {
    for state in [JobState::Waiting, JobState::Delayed] {
        let id = fx.job_in(state).await;
        assert!(
            announces(&fx, &id, "a removal", fx.store.remove(&id))
                .await
                .must()
        );
    }
}

/// It ended after the watch began, and before the wait.
async fn an_end_between_watch_and_wait_is_not_lost(fx: Fixture) {
    let held = fx.start(job()).await;
    let ids = [held.id.clone()];
    let watch = fx.store.watch(&ids).await.must();
    fx.second().await.ack(&held, complete()).await;
    let wait = fx.store.await_finished(&ids, watch.cursor);
    fx.within("word of the end", wait).await.must();
}

/// The job ended in between, even if it goes on by now.
async fn an_end_is_not_lost_with_a_retry(fx: Fixture) {
    let held = fx.start(job()).await;
    let ids = [held.id.clone()];
    let watch = fx.store.watch(&ids).await.must();
    fx.ack(&held, fail()).await;
    fx.store.retry(&held.id).await.must();
    let wait = fx.store.await_finished(&ids, watch.cursor);
    fx.within("word of the end", wait).await.must();
}

/// Not even if that one is watched by others.
async fn a_removal_is_not_lost_with_a_new_job_of_the_id(fx: Fixture) {
    let ids = [fx.enqueue(job()).await];
    let watch = fx.store.watch(&ids).await.must();
    assert!(fx.store.remove(&ids[0]).await.must());
    fx.enqueue(job().id(&ids[0])).await;
    assert_eq!(fx.store.watch(&ids).await.must().finished, NO_JOBS);
    let wait = fx.store.await_finished(&ids, watch.cursor);
    fx.within("word of the removal", wait).await.must();
}

/// In both directions.
async fn an_end_crosses_handles(fx: Fixture) {
    let second = fx.second().await;
    let held = fx.start(job()).await;
    announces(
        &second,
        &held.id,
        "an end at the first handle",
        fx.ack(&held, complete()),
    )
    .await;
    let held = fx.start(job()).await;
    announces(
        &fx,
        &held.id,
        "an end at the second handle",
        second.ack(&held, fail()),
    )
    .await;
}

/// None takes the word from another.
async fn every_watcher_is_told(fx: Fixture) {
    let held = fx.start(job()).await;
    let second = fx.second().await;
    let mut waiting = Vec::new();
    for handle in [fx.clone(), fx.clone(), second.clone(), second] {
        let ids = [held.id.clone()];
        let watch = handle.store.watch(&ids).await.must();
        waiting.push(tokio::spawn(async move {
            let wait = handle.store.await_finished(&ids, watch.cursor);
            handle.within("word of the end", wait).await.must();
        }));
    }
    fx.ack(&held, complete()).await;
    for waiter in waiting {
        if let Err(error) = waiter.await {
            std::panic::resume_unwind(error.into_panic());
        }
    }
}

/// A client waits for all its jobs in one call.
async fn one_of_several_jobs_is_enough(fx: Fixture) {
    let ids = fx.enqueue_all(vec![job(), job(), job()]).await;
    let watch = fx.store.watch(&ids).await.must();
    fx.store.cancel(&ids[1]).await.must();
    let wait = fx.store.await_finished(&ids, watch.cursor);
    fx.within("word of one end", wait).await.must();
    assert_eq!(fx.store.watch(&ids).await.must().finished, [ids[1].clone()]);
}

/// Once the other job's watcher has been told, this one's still waits.
async fn another_jobs_end_is_no_reason(fx: Fixture) {
    let ours = [fx.enqueue(job()).await];
    let theirs = [fx.enqueue(job()).await];
    let watch = fx.store.watch(&ours).await.must();
    let other = fx.store.watch(&theirs).await.must();
    let mut waiting = fx.store.await_finished(&ours, watch.cursor);
    assert!(
        poll_immediate(&mut waiting).await.is_none(),
        "told before anything happened"
    );
    fx.second().await.store.cancel(&theirs[0]).await.must();
    let wait = fx.store.await_finished(&theirs, other.cursor);
    fx.within("word of the other job", wait).await.must();
    assert!(
        poll_immediate(&mut waiting).await.is_none(),
        "told by another job's end"
    );
}

/// A claim, a retry, a release and a cancel that waits are no end.
async fn a_job_that_goes_on_has_not_ended(fx: Fixture) {
    let ids = [fx.enqueue(job()).await];
    fx.store.watch(&ids).await.must();
    let held = fx.claim_one().await;
    fx.ack(&held, retry_in(0)).await;
    let held = fx.claim_one().await;
    fx.store.release(held).await.must();
    let held = fx.claim_one().await;
    fx.request_cancel(&held.id).await;
    assert_eq!(fx.store.watch(&ids).await.must().finished, NO_JOBS);
}

/// Giving up waiting, before the end or after it, does not use it up.
async fn a_wait_that_is_dropped_loses_nothing(fx: Fixture) {
    let ids = [fx.enqueue(job()).await];
    let watch = fx.store.watch(&ids).await.must();
    let mut dropped = fx.store.await_finished(&ids, watch.cursor);
    let _ = poll_immediate(&mut dropped).await;
    fx.second().await.store.cancel(&ids[0]).await.must();
    drop(dropped);
    let wait = fx.store.await_finished(&ids, watch.cursor);
    fx.within("word of the end", wait).await.must();
}

/// Whether a job is still there after it was watched, ended, and swept at so
/// many milliseconds from its end.
async fn is_there_after(fx: &Fixture, id: &JobId, millis: u64) -> bool {
    let end = fx.job(id).await.finished_at.expect("it has ended");
    fx.clock.set(end.saturating_add(ms(millis)));
    while fx.store.sweep_history(250).await.must().more {}
    fx.find(id).await.is_some()
}

/// Those who wait for a result find it, though the job keeps none.
async fn a_watched_job_survives_its_own_keep_for_a_minute(fx: Fixture) {
    let none = Keep::all(Retention::age(ms(0)));
    let held = fx.start(job().keep(none)).await;
    fx.store.watch(std::slice::from_ref(&held.id)).await.must();
    fx.ack(&held, complete()).await;
    assert!(
        is_there_after(&fx, &held.id, 59_999).await,
        "just before the minute is over"
    );
    assert!(
        !is_there_after(&fx, &held.id, 60_000).await,
        "when the minute is over"
    );
}

/// The sweep applies a count that the end of the job was spared.
async fn a_watched_job_survives_its_own_count_for_a_minute(fx: Fixture) {
    let held = fx.start(job().keep(Keep::all(Retention::count(0)))).await;
    fx.store.watch(std::slice::from_ref(&held.id)).await.must();
    fx.ack(&held, complete()).await;
    assert!(
        is_there_after(&fx, &held.id, 59_999).await,
        "just before the minute is over"
    );
    assert!(
        !is_there_after(&fx, &held.id, 60_000).await,
        "when the minute is over"
    );
}

/// A spared job is one of those that a count counts.
async fn a_watched_job_counts_but_stays_when_others_finish(fx: Fixture) {
    let kept = || job().keep(Keep::all(Retention::count(2)));
    let first = fx.start(kept()).await;
    fx.store.watch(std::slice::from_ref(&first.id)).await.must();
    fx.ack(&first, complete()).await;
    let mut others = Vec::new();
    for _ in 0..3 {
        fx.advance(1);
        others.push(fx.finish(kept(), complete()).await);
    }
    assert_eq!(
        fx.state(&first.id).await,
        JobState::Completed,
        "the watched one stays"
    );
    let states = fx.states(&others).await;
    let there: Vec<_> = states.iter().map(Option::is_some).collect();
    assert_eq!(there, [false, true, true], "the newest two stay");
}

fn no_history(options: StoreOptions) -> StoreOptions {
    options.history_ceiling(HistoryCeiling::all(std::time::Duration::ZERO))
}

/// Nor does the store's own ceiling take it away at once.
async fn a_watched_job_survives_the_ceiling_for_a_minute(fx: Fixture) {
    let held = fx.start(job()).await;
    fx.store.watch(std::slice::from_ref(&held.id)).await.must();
    fx.ack(&held, complete()).await;
    assert!(
        is_there_after(&fx, &held.id, 59_999).await,
        "just before the minute is over"
    );
    assert!(
        !is_there_after(&fx, &held.id, 60_000).await,
        "when the minute is over"
    );
}

/// Without a watcher retention acts at once.
async fn a_job_that_nobody_watches_is_not_spared(fx: Fixture) {
    let watched = fx.enqueue(job().name("other")).await;
    fx.store.watch(&[watched]).await.must();
    let id = fx
        .finish(job().keep(Keep::all(Retention::count(0))), complete())
        .await;
    assert_eq!(fx.find(&id).await, None);
}

/// Ids that no job can have are an error.
async fn a_broken_id_is_refused(fx: Fixture) {
    let cursor = fx.store.watch(&[]).await.must().cursor;
    for id in ["", "a\0b"] {
        let ids = [JobId::from(id)];
        expect_refused(fx.store.watch(&ids).await, "job id");
        let wait = fx.store.await_finished(&ids, cursor);
        expect_refused(fx.within("a refusal", wait).await, "job id");
    }
}
