//! List: pages.

use crate::contract::expect::Must;
use crate::contract::make::{Make, complete, job, jobs};
use crate::contract::steps::ids;
use crate::contract::{Fixture, StoreOptions};
use crate::id::JobId;
use crate::record::JobState;
use crate::store::{Direction, ListFilter, OrderBy};
use crate::validate::{DEFAULT_LIST, MAX_PAGE, MAX_PAGE_BYTES};

cases! { __contract_inspect_page, inspect::page:
    a_page_holds_50_jobs_unless_asked_otherwise,
    a_page_holds_at_most_1000_jobs,
    the_last_page_has_no_cursor_even_if_it_is_full,
    pages_under_ties_lose_nothing_at_any_size,
    pages_of_delayed_jobs_lose_nothing_at_any_size,
    pages_of_active_jobs_lose_nothing_at_any_size,
    pages_of_finished_jobs_lose_nothing_at_any_size,
    pages_under_filters_lose_nothing_at_any_size,
    a_page_ends_at_eight_mebibytes,
    a_page_holds_a_job_however_large_it_is with large_payloads,
}

/// Reads all pages of a listing, each of them full but the last.
async fn walk(fx: &Fixture, filter: &ListFilter, size: usize) -> Vec<JobId> {
    let mut found = Vec::new();
    let mut next = ListFilter {
        limit: Some(u32::try_from(size).expect("small")),
        ..filter.clone()
    };
    loop {
        let page = fx.store.list(next.clone()).await.must();
        assert!(
            page.items.len() <= size,
            "{} jobs on a page of {size}",
            page.items.len()
        );
        found.extend(ids(&page.items));
        match page.cursor {
            None => return found,
            cursor => next.cursor = cursor,
        }
        assert!(found.len() < 10_000, "the walk does not end: {next:?}");
    }
}

/// Checks that a walk finds the same jobs in the same order at every page size
/// from one to one more than there are, in both directions.
async fn expect_every_walk(fx: &Fixture, filter: ListFilter, expected: &[JobId]) {
    let mut expected = expected.to_vec();
    for direction in [Direction::Ascending, Direction::Descending] {
        let filter = ListFilter {
            direction,
            ..filter.clone()
        };
        for size in 1..=expected.len() + 1 {
            let found = walk(fx, &filter, size).await;
            assert_eq!(
                found, expected,
                "{direction:?} in pages of {size}, by {filter:?}"
            );
        }
        expected.reverse();
    }
}

/// The default size.
async fn a_page_holds_50_jobs_unless_asked_otherwise(fx: Fixture) {
    fx.enqueue_all(jobs(DEFAULT_LIST as usize + 1)).await;
    let page = fx.store.list(ListFilter::default()).await.must();
    assert_eq!(page.items.len(), DEFAULT_LIST as usize);
    let cursor = page.cursor;
    assert!(cursor.is_some(), "one is left");
    let page = fx
        .store
        .list(ListFilter {
            cursor,
            ..ListFilter::default()
        })
        .await
        .must();
    assert_eq!((page.items.len(), page.cursor), (1, None));
}

/// A larger limit is clamped.
async fn a_page_holds_at_most_1000_jobs(fx: Fixture) {
    let most = MAX_PAGE as usize;
    fx.enqueue_all(jobs(most + 1)).await;
    let filter = ListFilter {
        limit: Some(u32::MAX),
        ..ListFilter::default()
    };
    let page = fx.store.list(filter.clone()).await.must();
    assert_eq!((page.items.len(), page.cursor.is_some()), (most, true));
    let page = fx
        .store
        .list(ListFilter {
            cursor: page.cursor,
            ..filter
        })
        .await
        .must();
    assert_eq!((page.items.len(), page.cursor), (1, None));
}

/// No page is followed by an empty one.
async fn the_last_page_has_no_cursor_even_if_it_is_full(fx: Fixture) {
    fx.enqueue_all(jobs(4)).await;
    for (limit, more) in [(3, true), (4, false), (5, false)] {
        let page = fx
            .store
            .list(ListFilter {
                limit: Some(limit),
                ..ListFilter::default()
            })
            .await
            .must();
        assert_eq!(page.cursor.is_some(), more, "after {limit} of 4");
    }
}

/// Jobs of one millisecond.
async fn pages_under_ties_lose_nothing_at_any_size(fx: Fixture) {
    let mut came = fx.enqueue_all(jobs(3)).await;
    came.sort();
    fx.advance(1);
    let mut later = fx.enqueue_all(jobs(4)).await;
    later.sort();
    came.extend(later);
    expect_every_walk(&fx, ListFilter::default(), &came).await;
}

/// Jobs that run at one instant.
async fn pages_of_delayed_jobs_lose_nothing_at_any_size(fx: Fixture) {
    let mut came = fx.enqueue_all(vec![job().delay(10); 5]).await;
    came.extend(
        fx.enqueue_all(vec![job().delay(11).id("b"), job().delay(11).id("a")])
            .await,
    );
    let filter = ListFilter {
        queue: Some("queue".into()),
        states: Some(vec![JobState::Delayed]),
        order_by: OrderBy::RunAt,
        ..ListFilter::default()
    };
    expect_every_walk(&fx, filter, &came).await;
}

/// Jobs whose locks expire at one instant.
async fn pages_of_active_jobs_lose_nothing_at_any_size(fx: Fixture) {
    fx.enqueue_all(jobs(7)).await;
    let mut came = ids(&fx.claim(4).await.jobs);
    came.sort();
    fx.advance(1);
    let mut later = ids(&fx.claim(4).await.jobs);
    later.sort();
    came.extend(later);
    let filter = ListFilter {
        states: Some(vec![JobState::Active]),
        order_by: OrderBy::LockExpiresAt,
        ..ListFilter::default()
    };
    expect_every_walk(&fx, filter, &came).await;
}

/// Jobs that ended at one instant, in several queues, names and states.
async fn pages_of_finished_jobs_lose_nothing_at_any_size(fx: Fixture) {
    let mut ended = Vec::new();
    for (number, name) in ["x", "y", "x", "y", "x", "x"].into_iter().enumerate() {
        let queue = ["a", "b"][number / 2 % 2];
        ended.push(fx.finish(job().name(name).queue(queue), complete()).await);
    }
    ended.push(fx.job_in(JobState::Cancelled).await);
    let all = [JobState::Completed, JobState::Cancelled, JobState::Failed];
    let by_end = |states: &[JobState]| ListFilter {
        states: Some(states.to_vec()),
        order_by: OrderBy::FinishedAt,
        ..ListFilter::default()
    };
    expect_every_walk(&fx, by_end(&all), &ended).await;
    let completed = by_end(&[JobState::Completed]);
    expect_every_walk(&fx, completed.clone(), &ended[..6]).await;
    let named = ListFilter {
        name: Some("x".into()),
        ..completed.clone()
    };
    let of_x = [0, 2, 4, 5].map(|place| ended[place].clone());
    expect_every_walk(&fx, named, &of_x).await;
    let in_queue = ListFilter {
        queue: Some("a".into()),
        ..completed
    };
    let of_a = [0, 1, 4, 5].map(|place| ended[place].clone());
    expect_every_walk(&fx, in_queue, &of_a).await;
}

/// Where most jobs are passed over.
async fn pages_under_filters_lose_nothing_at_any_size(fx: Fixture) {
    let some = |number: usize| {
        let queue = if number.is_multiple_of(2) { "a" } else { "b" };
        let color = if number.is_multiple_of(3) {
            "red"
        } else {
            "blue"
        };
        job()
            .id(format!("{number:02}"))
            .queue(queue)
            .label("color", color)
    };
    let came = fx.enqueue_all((0..24).map(some).collect()).await;
    let every = |step: usize| came.iter().step_by(step).cloned().collect::<Vec<_>>();
    let red = [("color".to_owned(), "red".to_owned())];
    let base = ListFilter::default;
    expect_every_walk(
        &fx,
        ListFilter {
            queue: Some("a".into()),
            ..base()
        },
        &every(2),
    )
    .await;
    let labelled = ListFilter {
        metadata: red.into(),
        ..base()
    };
    expect_every_walk(&fx, labelled.clone(), &every(3)).await;
    let both = ListFilter {
        queue: Some("a".into()),
        states: Some(vec![JobState::Waiting]),
        ..labelled
    };
    expect_every_walk(&fx, both, &every(6)).await;
}

/// By the raw JSON of its jobs; a walk finds them all nevertheless.
async fn a_page_ends_at_eight_mebibytes(fx: Fixture) {
    let large = format!("\"{}\"", "x".repeat(1_000_000));
    let batch = (0..10).map(|number| job().id(number.to_string()).payload(large.as_str()));
    let came = fx.enqueue_all(batch.collect()).await;
    let mut found = Vec::new();
    let mut filter = ListFilter {
        direction: Direction::Ascending,
        ..ListFilter::default()
    };
    loop {
        let page = fx.store.list(filter.clone()).await.must();
        let bytes: usize = page
            .items
            .iter()
            .map(|job| job.spec.payload.get().len())
            .sum();
        assert!(
            bytes <= MAX_PAGE_BYTES,
            "{bytes} bytes on a page of {}",
            page.items.len()
        );
        assert!(!page.items.is_empty(), "a page holds at least one job");
        found.extend(ids(&page.items));
        match page.cursor {
            None => break,
            cursor => filter.cursor = cursor,
        }
    }
    assert_eq!(found, came);
}

fn large_payloads(options: StoreOptions) -> StoreOptions {
    options.max_payload(MAX_PAGE_BYTES + 10)
}

/// One that is larger than a page goes alone.
async fn a_page_holds_a_job_however_large_it_is(fx: Fixture) {
    let large = format!("\"{}\"", "x".repeat(MAX_PAGE_BYTES));
    let came = vec![job().id("a"), job().id("b").payload(large), job().id("c")];
    let came = fx.enqueue_all(came).await;
    let filter = ListFilter {
        direction: Direction::Ascending,
        ..ListFilter::default()
    };
    assert_eq!(walk(&fx, &filter, 10).await, came);
    assert_eq!(walk(&fx, &filter, 1).await, came);
}
