//! Ids: those a producer chooses, and those the store draws.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::contract::expect::Must;
use crate::contract::make::{Make, complete, job, jobs};
use crate::contract::{Fixture, StoreOptions};
use crate::error::StoreError;
use crate::id::{DedupeKey, IdGenerator, JobId};
use crate::record::JobState;
use crate::validate::{MAX_ID, MAX_NAME};

cases! { __contract_enqueue_ids, enqueue::ids:
    a_chosen_id_is_kept,
    a_chosen_id_that_exists_changes_nothing,
    a_chosen_id_is_a_duplicate_whatever_state_its_job_is_in,
    a_duplicate_tells_the_name_of_the_job_that_has_the_id,
    a_chosen_id_wins_over_the_dedupe_tree,
    a_repeated_enqueue_inserts_nothing_more,
    an_id_repeated_in_one_batch_is_a_duplicate_of_its_first,
    the_id_of_a_removed_job_is_free_again,
    concurrent_enqueues_of_one_id_insert_one_job,
    drawn_ids_differ,
    a_drawn_id_comes_from_the_generator with counting_generator,
    a_taken_id_is_drawn_again_five_times with generator_taken_five_times,
    a_generator_that_repeats_itself_is_an_error with generator_taken_six_times,
    texts_at_their_longest_are_taken,
    separators_in_names_do_not_make_jobs_collide,
}

/// The store uses the id it is given.
async fn a_chosen_id_is_kept(fx: Fixture) {
    let answer = fx.store.enqueue(job().id("mine")).await.must();
    assert_eq!(answer.id, "mine");
    assert_eq!(answer.name, "job");
    assert!(!answer.duplicate, "got {answer:?}");
    assert_eq!(fx.job(&"mine".into()).await.id, "mine");
}

/// A second job under an id leaves the first as it is.
async fn a_chosen_id_that_exists_changes_nothing(fx: Fixture) {
    let id = fx.enqueue(job().id("a").payload("1")).await;
    let before = fx.job(&id).await;
    fx.advance(1);
    let other = job()
        .id("a")
        .payload("2")
        .priority(9)
        .delay(5)
        .label("x", "y");
    fx.duplicate_of(&id, other).await;
    assert_eq!(fx.job(&id).await, before);
    assert_eq!(fx.counts().await.total(), 1);
}

/// An id counts as taken for as long as its record is there.
async fn a_chosen_id_is_a_duplicate_whatever_state_its_job_is_in(fx: Fixture) {
    for state in JobState::ALL {
        let id = fx.job_in(state).await;
        let before = fx.job(&id).await;
        fx.duplicate_of(&id, job().id(&id)).await;
        assert_eq!(fx.job(&id).await, before, "a job that is {state}");
        fx.store.cancel(&id).await.ok();
    }
}

/// A typed caller learns that the id belongs to another kind of job.
async fn a_duplicate_tells_the_name_of_the_job_that_has_the_id(fx: Fixture) {
    fx.enqueue(job().id("a").name("first")).await;
    let answer = fx.store.enqueue(job().id("a").name("second")).await.must();
    assert_eq!(answer.name, "first");
    assert!(answer.duplicate, "got {answer:?}");
}

/// With an id that exists, the dedupe entry is neither asked nor taken.
async fn a_chosen_id_wins_over_the_dedupe_tree(fx: Fixture) {
    let taken = fx.enqueue(job().id("taken")).await;
    let keyed = fx.enqueue(job().key("key")).await;
    fx.duplicate_of(&taken, job().id("taken").key("key")).await;
    fx.duplicate_of(&taken, job().id("taken").key("free")).await;
    fx.duplicate_of(&keyed, job().key("key")).await;
    fx.enqueue(job().key("free")).await;
}

/// An enqueue whose answer was lost may be repeated with its id.
async fn a_repeated_enqueue_inserts_nothing_more(fx: Fixture) {
    let batch = vec![
        job().id("a"),
        job().id("b").delay(5),
        job().id("c").key("k"),
    ];
    fx.enqueue_all(batch.clone()).await;
    let answers = fx.store.enqueue_many(batch).await.must();
    let got: Vec<_> = answers
        .iter()
        .map(|it| (it.id.as_str(), it.duplicate))
        .collect();
    assert_eq!(got, [("a", true), ("b", true), ("c", true)]);
    assert_eq!(fx.counts().await.total(), 3);
}

/// Repeats inside one batch behave as if enqueued in turn.
async fn an_id_repeated_in_one_batch_is_a_duplicate_of_its_first(fx: Fixture) {
    let batch = vec![
        job().id("a").payload("1"),
        job().id("b"),
        job().id("a").payload("2"),
    ];
    let answers = fx.store.enqueue_many(batch).await.must();
    let got: Vec<_> = answers
        .iter()
        .map(|it| (it.id.as_str(), it.duplicate))
        .collect();
    assert_eq!(got, [("a", false), ("b", false), ("a", true)]);
    assert_eq!(fx.job(&"a".into()).await.spec.payload.get(), "1");
}

/// Removing a job frees its id for one that knows nothing of the first.
async fn the_id_of_a_removed_job_is_free_again(fx: Fixture) {
    let id = fx.finish(job().id("a"), complete()).await;
    assert!(fx.store.remove(&id).await.must());
    fx.enqueue(job().id("a")).await;
    let record = fx.job(&id).await;
    assert_eq!(
        (record.state, record.attempts_recorded),
        (JobState::Waiting, 0)
    );
    assert_eq!(fx.outcomes(&id).await, []);
}

/// Of many first enqueues of one id, exactly one inserts.
async fn concurrent_enqueues_of_one_id_insert_one_job(fx: Fixture) {
    let second = fx.second().await;
    let answers = fx
        .race(8, |fx, number| {
            let handle = if number % 2 == 0 { fx } else { second.clone() };
            async move { handle.store.enqueue(job().id("a")).await.must() }
        })
        .await;
    let inserted = answers.iter().filter(|answer| !answer.duplicate).count();
    assert_eq!(inserted, 1, "inserts among {answers:?}");
    assert_eq!(fx.counts().await.total(), 1);
}

/// Without an id each job gets one of its own, by which it is found.
async fn drawn_ids_differ(fx: Fixture) {
    let ids = fx.enqueue_all(jobs(100)).await;
    let distinct: HashSet<_> = ids.iter().collect();
    assert_eq!(distinct.len(), 100);
    let states = fx.states(&ids).await;
    assert!(states.iter().all(|state| *state == Some(JobState::Waiting)));
}

fn counting_generator(options: StoreOptions) -> StoreOptions {
    options.id_generator(drawing(|draw| draw))
}

/// The store draws ids from the generator that it was opened with.
async fn a_drawn_id_comes_from_the_generator(fx: Fixture) {
    let ids = fx.enqueue_all(vec![job(), job().id("chosen"), job()]).await;
    assert_eq!(ids, ["drawn-0", "chosen", "drawn-1"]);
}

fn generator_taken_five_times(options: StoreOptions) -> StoreOptions {
    options.id_generator(drawing(|draw| usize::from(draw > 5)))
}

/// A drawn id that turns out to be taken is drawn again, up to five times.
async fn a_taken_id_is_drawn_again_five_times(fx: Fixture) {
    let first = fx.enqueue(job().payload("1")).await;
    let second = fx.enqueue(job().payload("2")).await;
    assert_eq!([first, second], ["drawn-0", "drawn-1"]);
}

fn generator_taken_six_times(options: StoreOptions) -> StoreOptions {
    options.id_generator(drawing(|draw| usize::from(draw > 6)))
}

/// After five redraws the store gives up, and says which id was taken.
async fn a_generator_that_repeats_itself_is_an_error(fx: Fixture) {
    let taken = fx.enqueue(job()).await;
    match fx.store.enqueue(job()).await {
        Err(StoreError::IdsTaken { tries, last }) => assert_eq!((tries, last), (6, taken)),
        other => panic!("expected IdsTaken, got {other:?}"),
    }
    assert_eq!(fx.counts().await.total(), 1);
    assert_eq!(fx.enqueue(job()).await, "drawn-1");
}

/// Ids, names, queues and keys may be as long as the limits say, in any script.
async fn texts_at_their_longest_are_taken(fx: Fixture) {
    let name = "é".repeat(MAX_NAME / 2);
    let id = JobId::from("\u{1f980}".repeat(MAX_ID / 4));
    let key = DedupeKey::from("k".repeat(MAX_NAME));
    let long = job()
        .id(&id)
        .name(name.as_str())
        .queue(name.as_str())
        .key(&key);
    let lock = fx.start(long.clone()).await;
    assert_eq!(lock.id, id);
    let record = fx.job(&id).await;
    assert_eq!(record.spec, long.spec);
    assert_eq!(record.dedupe_key, Some(key));
}

/// Queues, names and keys that differ only in where a separator falls are
/// different ones.
async fn separators_in_names_do_not_make_jobs_collide(fx: Fixture) {
    for separator in [
        ":", "|", ",", "\u{1}", "\u{1f}", "\n", "{", "}", "\\", "\"", "'", "%", "*",
    ] {
        let left = format!("a{separator}b");
        let right = format!("b{separator}a");
        let key = format!("key {separator}");
        let one = job().queue(left.as_str()).name("a").key(key.as_str());
        let other = job().queue("a").name(right.as_str()).key(key);
        let ids = fx.enqueue_all(vec![one.clone(), other.clone()]).await;
        for (id, made) in ids.iter().zip([&one, &other]) {
            assert_eq!(fx.job(id).await.spec, made.spec, "separator {separator:?}");
        }
        let counts = fx.store.counts(Some(&one.spec.queue)).await.must();
        assert_eq!(counts.waiting, 1, "separator {separator:?}");
    }
    let keyed = job().name("a").key("b:c");
    let id = fx.enqueue(keyed.clone()).await;
    fx.enqueue(job().name("a:b").key("c")).await;
    fx.duplicate_of(&id, keyed).await;
}

/// A generator whose nth draw bears the number that `number` makes of n.
fn drawing(number: fn(usize) -> usize) -> IdGenerator {
    let draws = Arc::new(AtomicUsize::new(0));
    Arc::new(move || {
        JobId::from(format!(
            "drawn-{}",
            number(draws.fetch_add(1, Ordering::SeqCst))
        ))
    })
}
