//! Dedupe: which enqueues an earlier job makes superfluous.

use crate::contract::Fixture;
use crate::contract::expect::Must;
use crate::contract::flow::steps::{child, fan_out};
use crate::contract::make::{Make, ack, complete, fail, job, ms, retry_in};
use crate::id::{DedupeKey, JobId};
use crate::record::{Dedupe, JobState, NewJob};

cases! { __contract_enqueue_dedupe, enqueue::dedupe:
    a_free_key_lets_the_job_in_and_is_recorded,
    a_key_is_scoped_to_its_name,
    a_key_does_not_change_the_id,
    without_a_ttl_the_key_is_held_until_the_job_ends,
    without_a_ttl_a_parked_parent_holds_the_key,
    without_a_ttl_a_removed_job_holds_nothing,
    a_duplicate_inserts_nothing_and_changes_nothing,
    a_duplicate_by_key_leaves_its_chosen_id_free,
    a_window_holds_until_the_millisecond_it_ends,
    a_window_outlives_its_job,
    a_window_outlives_its_jobs_record,
    a_window_that_is_over_frees_the_key_of_a_running_job,
    a_window_of_zero_holds_nothing,
    a_duplicate_without_extend_leaves_the_window,
    extend_pushes_the_window_out_from_now,
    extend_never_draws_the_window_in,
    extend_can_go_on_for_ever,
    the_new_holder_brings_its_own_window,
    removing_an_old_job_leaves_a_newer_jobs_entry,
    a_retried_job_holds_its_key_again,
    a_retried_job_holds_nothing_once_another_took_its_key,
    a_key_repeated_in_one_batch_is_a_duplicate_of_its_first,
    three_first_enqueues_on_one_key_insert_one_job,
    an_enqueue_that_races_the_end_of_the_keyed_job_is_decided_once,
}

fn throttled(ttl: u64) -> NewJob {
    job().dedupe(Dedupe::key("key").ttl(ms(ttl)))
}

fn debounced(ttl: u64) -> NewJob {
    job().dedupe(Dedupe::key("key").ttl(ms(ttl)).extend())
}

/// The first job under a key is inserted, and remembers the key.
async fn a_free_key_lets_the_job_in_and_is_recorded(fx: Fixture) {
    let id = fx.enqueue(job().key("key")).await;
    assert_eq!(fx.job(&id).await.dedupe_key, Some(DedupeKey::from("key")));
    let without = fx.enqueue(job()).await;
    assert_eq!(fx.job(&without).await.dedupe_key, None);
}

/// The same key under another name is another key.
async fn a_key_is_scoped_to_its_name(fx: Fixture) {
    let a = fx.enqueue(job().name("a").key("key")).await;
    let b = fx.enqueue(job().name("b").key("key").queue("other")).await;
    fx.duplicate_of(&a, job().name("a").key("key").queue("other"))
        .await;
    fx.duplicate_of(&b, job().name("b").key("key")).await;
}

/// A keyed job bears the id it was given.
async fn a_key_does_not_change_the_id(fx: Fixture) {
    let id = fx.enqueue(job().id("mine").key("key")).await;
    assert_eq!(id, "mine");
    fx.duplicate_of(&id, job().key("key")).await;
}

/// Waiting, delayed and active hold the key; each terminal state frees it.
async fn without_a_ttl_the_key_is_held_until_the_job_ends(fx: Fixture) {
    let mut key = 0;
    let mut fresh = || {
        key += 1;
        job().key(format!("key-{key}"))
    };
    let delayed = fresh().delay(1_000);
    let id = fx.enqueue(delayed.clone()).await;
    fx.duplicate_of(&id, delayed).await;
    for end in [Some(complete()), Some(fail()), None] {
        let keyed = fresh();
        let lock = fx.start(keyed.clone()).await;
        fx.duplicate_of(&lock.id, keyed.clone()).await;
        fx.ack(&lock, retry_in(0)).await;
        fx.duplicate_of(&lock.id, keyed.clone()).await;
        match end {
            Some(outcome) => {
                let again = fx.claim_one().await;
                fx.ack(&again, outcome).await;
            }
            None => drop(fx.store.cancel(&lock.id).await.must()),
        }
        let next = fx.enqueue(keyed.clone()).await;
        fx.duplicate_of(&next, keyed).await;
        assert!(fx.store.remove(&next).await.must());
    }
}

/// It has not ended, and it is not delayed: nothing replaces it either.
async fn without_a_ttl_a_parked_parent_holds_the_key(fx: Fixture) {
    let parent = fx.park_as(job().key("k"), fan_out(vec![child("a")])).await;
    let before = fx.job(&parent.id).await;
    fx.duplicate_of(&parent.id, job().key("k")).await;
    let replacing = job().payload("1").dedupe(Dedupe::key("k").replace());
    fx.duplicate_of(&parent.id, replacing).await;
    assert_eq!(fx.job(&parent.id).await, before);
    fx.store.cancel(&parent.id).await.must();
    fx.enqueue(job().key("k")).await;
}

/// An entry without a window needs a job that is there.
async fn without_a_ttl_a_removed_job_holds_nothing(fx: Fixture) {
    let id = fx.enqueue(job().key("key")).await;
    assert!(fx.store.remove(&id).await.must());
    let next = fx.enqueue(job().key("key")).await;
    assert_ne!(next, id);
}

/// A duplicate leaves the keyed job as it is, and no trace of itself.
async fn a_duplicate_inserts_nothing_and_changes_nothing(fx: Fixture) {
    let id = fx.enqueue(job().key("key").payload("1")).await;
    let before = fx.job(&id).await;
    fx.advance(1);
    fx.duplicate_of(
        &id,
        job().key("key").payload("2").priority(3).queue("other"),
    )
    .await;
    assert_eq!(fx.job(&id).await, before);
    assert_eq!(fx.counts().await.total(), 1);
}

/// The id that a duplicate brought along is not used up.
async fn a_duplicate_by_key_leaves_its_chosen_id_free(fx: Fixture) {
    let keyed = fx.enqueue(job().key("key")).await;
    fx.duplicate_of(&keyed, job().id("mine").key("key")).await;
    assert_eq!(fx.find(&"mine".into()).await, None);
    assert_eq!(fx.enqueue(job().id("mine")).await, "mine");
}

/// A window is open while now is before its end, and not longer.
async fn a_window_holds_until_the_millisecond_it_ends(fx: Fixture) {
    let id = fx.enqueue(throttled(10)).await;
    fx.advance(9);
    fx.duplicate_of(&id, throttled(10)).await;
    fx.advance(1);
    let next = fx.enqueue(throttled(10)).await;
    assert_ne!(next, id);
}

/// The end of the job does not end its window.
async fn a_window_outlives_its_job(fx: Fixture) {
    let id = fx.finish(throttled(10), complete()).await;
    fx.duplicate_of(&id, throttled(10)).await;
    fx.duplicate_of(&id, job().key("key")).await;
    fx.advance(10);
    fx.enqueue(throttled(10)).await;
}

/// Not even the removal of the job ends its window.
async fn a_window_outlives_its_jobs_record(fx: Fixture) {
    let id = fx.finish(throttled(10), complete()).await;
    assert!(fx.store.remove(&id).await.must());
    fx.advance(9);
    let answer = fx.store.enqueue(throttled(10)).await.must();
    assert_eq!((answer.duplicate, &answer.id), (true, &id));
    assert_eq!(answer.name, "job");
    fx.advance(1);
    fx.enqueue(throttled(10)).await;
}

/// With a window, it alone decides, whatever the job is doing.
async fn a_window_that_is_over_frees_the_key_of_a_running_job(fx: Fixture) {
    let lock = fx.start(throttled(10)).await;
    fx.advance(10);
    let next = fx.enqueue(throttled(10)).await;
    assert_ne!(next, lock.id);
    fx.duplicate_of(&next, throttled(10)).await;
    fx.ack(&lock, complete()).await;
    fx.duplicate_of(&next, throttled(10)).await;
}

/// A window of no length is over at once.
async fn a_window_of_zero_holds_nothing(fx: Fixture) {
    let id = fx.enqueue(throttled(0)).await;
    assert_ne!(fx.enqueue(throttled(0)).await, id);
}

/// A plain duplicate does not move the end of the window, whatever its ttl.
async fn a_duplicate_without_extend_leaves_the_window(fx: Fixture) {
    let id = fx.enqueue(throttled(10)).await;
    fx.advance(5);
    fx.duplicate_of(&id, throttled(1_000)).await;
    fx.advance(5);
    fx.enqueue(throttled(10)).await;
}

/// An extending duplicate opens the window for its own ttl, from now on.
async fn extend_pushes_the_window_out_from_now(fx: Fixture) {
    let id = fx.enqueue(throttled(10)).await;
    fx.advance(5);
    fx.duplicate_of(&id, debounced(20)).await;
    fx.advance(19);
    fx.duplicate_of(&id, throttled(10)).await;
    fx.advance(1);
    fx.enqueue(throttled(10)).await;
}

/// A duplicate with a shorter ttl leaves the later end.
async fn extend_never_draws_the_window_in(fx: Fixture) {
    let id = fx.enqueue(throttled(100)).await;
    fx.duplicate_of(&id, debounced(10)).await;
    fx.advance(99);
    fx.duplicate_of(&id, throttled(10)).await;
    fx.advance(1);
    fx.enqueue(throttled(10)).await;
}

/// Each of a stream of duplicates extends anew.
async fn extend_can_go_on_for_ever(fx: Fixture) {
    let id = fx.enqueue(debounced(10)).await;
    for _ in 0..5 {
        fx.advance(9);
        fx.duplicate_of(&id, debounced(10)).await;
    }
    fx.advance(10);
    fx.enqueue(debounced(10)).await;
}

/// A job that takes a key over holds it by its own terms.
async fn the_new_holder_brings_its_own_window(fx: Fixture) {
    fx.enqueue(throttled(10)).await;
    fx.advance(10);
    let plain = fx.enqueue(job().key("key")).await;
    fx.advance(1_000_000);
    fx.duplicate_of(&plain, throttled(10)).await;
    fx.advance(1_000_000);
    fx.duplicate_of(&plain, job().key("key")).await;
    fx.store.cancel(&plain).await.must();
    let windowed = fx.enqueue(throttled(5)).await;
    fx.store.cancel(&windowed).await.must();
    fx.duplicate_of(&windowed, job().key("key")).await;
    fx.advance(5);
    fx.enqueue(job().key("key")).await;
}

/// Deleting a record never deletes the entry that a newer job holds.
async fn removing_an_old_job_leaves_a_newer_jobs_entry(fx: Fixture) {
    let old = fx.finish(job().key("key"), complete()).await;
    let new = fx.enqueue(job().key("key")).await;
    assert!(fx.store.remove(&old).await.must());
    fx.duplicate_of(&new, job().key("key")).await;
}

/// A retry brings a dead entry to life, if it still names the job.
async fn a_retried_job_holds_its_key_again(fx: Fixture) {
    let id = fx.finish(job().key("key"), fail()).await;
    fx.store.retry(&id).await.must();
    fx.duplicate_of(&id, job().key("key")).await;
    let lock = fx.claim_one().await;
    fx.ack(&lock, complete()).await;
    fx.enqueue(job().key("key")).await;
}

/// What another job took over stays with that one.
async fn a_retried_job_holds_nothing_once_another_took_its_key(fx: Fixture) {
    let old = fx.finish(job().key("key"), fail()).await;
    let new = fx.finish(job().key("key"), complete()).await;
    fx.store.retry(&old).await.must();
    let newest = fx.enqueue(job().key("key")).await;
    assert!(![old, new].contains(&newest), "got {newest:?}");
}

/// Repeats of a key inside one batch behave as if enqueued in turn.
async fn a_key_repeated_in_one_batch_is_a_duplicate_of_its_first(fx: Fixture) {
    let batch = vec![
        job().id("a").key("key"),
        job().id("b"),
        job().id("c").key("key"),
    ];
    let answers = fx.store.enqueue_many(batch).await.must();
    let got: Vec<_> = answers
        .iter()
        .map(|it| (it.id.as_str(), it.duplicate))
        .collect();
    assert_eq!(got, [("a", false), ("b", false), ("a", true)]);
    assert_eq!(fx.counts().await.total(), 2);
}

/// Of concurrent first enqueues on a key one is inserted, and stands for all.
async fn three_first_enqueues_on_one_key_insert_one_job(fx: Fixture) {
    let second = fx.second().await;
    for round in 0..10 {
        let key = format!("key-{round}");
        let answers = fx
            .race(3, |fx, number| {
                let handle = if number == 0 { second.clone() } else { fx };
                let keyed = job().key(key.as_str());
                async move { handle.store.enqueue(keyed).await.must() }
            })
            .await;
        let inserted: Vec<_> = answers.iter().filter(|it| !it.duplicate).collect();
        assert_eq!(inserted.len(), 1, "inserts among {answers:?}");
        assert!(
            answers.iter().all(|it| it.id == inserted[0].id),
            "ids of {answers:?}"
        );
        fx.expect_count(JobState::Waiting, round + 1).await;
    }
}

/// Against the ack that ends the keyed job, an enqueue is a duplicate of the
/// old job or a new job that holds the key; never both, never neither.
async fn an_enqueue_that_races_the_end_of_the_keyed_job_is_decided_once(fx: Fixture) {
    for round in 0..10 {
        let keyed = job()
            .key(format!("key-{round}"))
            .name(format!("job-{round}"));
        let lock = fx.start(keyed.clone()).await;
        let again = keyed.clone();
        let end = ack(&lock, complete());
        let ids: Vec<Option<JobId>> = fx
            .race(2, |fx, number| {
                let (again, end) = (again.clone(), end.clone());
                async move {
                    if number == 0 {
                        fx.store.ack(end).await.must();
                        return None;
                    }
                    let answer = fx.store.enqueue(again).await.must();
                    (!answer.duplicate).then_some(answer.id)
                }
            })
            .await;
        match &ids[1] {
            Some(new) => fx.duplicate_of(new, keyed).await,
            None => drop(fx.enqueue(keyed).await),
        }
        assert_eq!(fx.state(&lock.id).await, JobState::Completed);
    }
}
