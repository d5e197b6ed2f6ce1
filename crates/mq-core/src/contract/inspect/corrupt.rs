//! Reads: jobs whose stored data cannot be decoded.

use crate::contract::Fixture;
use crate::contract::expect::Must;
use crate::contract::make::jobs;
use crate::contract::steps::ids;
use crate::error::StoreError;
use crate::id::JobId;
use crate::record::JobRecord;
use crate::store::{Direction, ListFilter, Result};

cases! { __contract_inspect_corrupt, inspect::corrupt:
    a_job_that_cannot_be_decoded_is_named needs Corruption,
    its_neighbours_are_read_all_the_same needs Corruption,
    a_list_sets_it_apart_and_goes_on needs Corruption,
}

#[track_caller]
fn expect_corrupt(answer: Result<Option<JobRecord>>, id: &JobId) {
    match answer {
        Err(StoreError::Corrupt { id: named, .. }) => assert_eq!(named, *id),
        other => panic!("expected Corrupt for job {id:?}, got {other:?}"),
    }
}

/// The error says which job it is; it is no answer of "unknown".
async fn a_job_that_cannot_be_decoded_is_named(fx: Fixture) {
    let id = fx.enqueue_all(jobs(1)).await.remove(0);
    fx.corrupt(&id).await;
    expect_corrupt(fx.store.get_job(&id).await, &id);
}

/// Each id is answered in its place.
async fn its_neighbours_are_read_all_the_same(fx: Fixture) {
    let jobs = fx.enqueue_all(jobs(3)).await;
    fx.corrupt(&jobs[1]).await;
    let mut answers = fx.store.get_jobs(&jobs).await.must();
    expect_corrupt(answers.remove(1), &jobs[1]);
    for (answer, id) in answers.into_iter().zip([&jobs[0], &jobs[2]]) {
        assert_eq!(answer.must().map(|job| job.id), Some(id.clone()));
    }
}

/// At every page size the walk finds the others, in order, and names it once.
async fn a_list_sets_it_apart_and_goes_on(fx: Fixture) {
    let jobs = fx.enqueue_all(jobs(5)).await;
    let sorted = {
        let mut sorted = jobs.clone();
        sorted.sort();
        sorted
    };
    fx.corrupt(&sorted[2]).await;
    let sound = [&sorted[..2], &sorted[3..]].concat();
    for size in 1..=6 {
        let mut filter = ListFilter {
            direction: Direction::Ascending,
            limit: Some(size),
            ..ListFilter::default()
        };
        let (mut items, mut corrupt) = (Vec::new(), Vec::new());
        loop {
            let page = fx.store.list(filter.clone()).await.must();
            items.extend(ids(&page.items));
            corrupt.extend(page.corrupt);
            match page.cursor {
                None => break,
                cursor => filter.cursor = cursor,
            }
            assert!(items.len() <= 5, "the walk does not end");
        }
        assert_eq!(items, sound, "in pages of {size}");
        assert_eq!(corrupt, [sorted[2].clone()], "in pages of {size}");
    }
}
