//! Counts and queues.

use crate::contract::Fixture;
use crate::contract::expect::{Must, expect_refused};
use crate::contract::make::{Make, complete, job, ms};
use crate::id::QueueName;
use crate::record::{JobState, Rate};
use crate::store::{Change, QueueInfo, QueueSettings, StateCounts};

cases! { __contract_inspect_counts, inspect::counts:
    an_empty_store_counts_nothing,
    each_state_is_counted,
    each_queue_is_counted_for_itself,
    counts_follow_a_job_through_its_life,
    queues_are_listed_by_name_with_their_counts,
    a_queue_is_listed_for_as_long_as_it_has_a_job,
    a_queue_with_a_setting_is_listed_without_jobs,
    a_queue_whose_settings_were_cleared_is_not_listed,
    counts_are_the_same_at_every_handle,
    a_broken_queue_name_is_refused,
}

/// A queue that nobody used has zeros, not an error.
async fn an_empty_store_counts_nothing(fx: Fixture) {
    assert_eq!(fx.counts().await, StateCounts::default());
    let of_one = fx.store.counts(Some(&"queue".into())).await.must();
    assert_eq!(of_one, StateCounts::default());
    assert_eq!(fx.store.queues().await.must(), []);
}

/// One number per state.
async fn each_state_is_counted(fx: Fixture) {
    for (times, state) in [
        (3, JobState::Completed),
        (2, JobState::Failed),
        (4, JobState::Cancelled),
        (7, JobState::WaitingChildren),
        (6, JobState::Active),
        (5, JobState::Waiting),
        (1, JobState::Delayed),
    ] {
        for _ in 0..times {
            fx.job_in(state).await;
        }
    }
    let expected = StateCounts {
        waiting: 5,
        delayed: 1,
        active: 6,
        waiting_children: 7,
        completed: 3,
        failed: 2,
        cancelled: 4,
    };
    assert_eq!(fx.counts().await, expected);
    assert_eq!(
        fx.store.counts(Some(&"queue".into())).await.must(),
        expected
    );
}

/// Another queue's jobs are not in the number, and the total has them all.
async fn each_queue_is_counted_for_itself(fx: Fixture) {
    fx.enqueue_all(vec![
        job(),
        job().queue("other"),
        job().queue("other").delay(5),
    ])
    .await;
    let of = async |queue: &str| fx.store.counts(Some(&queue.into())).await.must();
    assert_eq!(
        of("queue").await,
        StateCounts {
            waiting: 1,
            ..StateCounts::default()
        }
    );
    assert_eq!(
        of("other").await,
        StateCounts {
            waiting: 1,
            delayed: 1,
            ..StateCounts::default()
        }
    );
    assert_eq!(of("third").await, StateCounts::default());
    assert_eq!(fx.counts().await.total(), 3);
}

/// One job is one in every state of its life.
async fn counts_follow_a_job_through_its_life(fx: Fixture) {
    let id = fx.enqueue(job().delay(5)).await;
    let only = async |state: JobState| {
        let mut expected = StateCounts::default();
        *expected.of_mut(state) = 1;
        assert_eq!(fx.counts().await, expected, "while it is {state}");
    };
    only(JobState::Delayed).await;
    fx.advance(5);
    let held = fx.claim_one().await;
    only(JobState::Active).await;
    fx.store.release(held).await.must();
    only(JobState::Waiting).await;
    fx.claim_one().await;
    fx.stall(1).await;
    only(JobState::Waiting).await;
    fx.claim_one().await;
    fx.stall(1).await;
    only(JobState::Failed).await;
    fx.store.retry(&id).await.must();
    only(JobState::Waiting).await;
    let held = fx.claim_one().await;
    fx.ack(&held, complete()).await;
    only(JobState::Completed).await;
    assert!(fx.store.remove(&id).await.must());
    assert_eq!(fx.counts().await, StateCounts::default());
}

/// In byte order.
async fn queues_are_listed_by_name_with_their_counts(fx: Fixture) {
    fx.enqueue_all(
        ["b", "a", "é", "B", "a"]
            .map(|queue| job().queue(queue))
            .to_vec(),
    )
    .await;
    let queues = fx.store.queues().await.must();
    let found: Vec<_> = queues
        .iter()
        .map(|it| (it.queue.as_str(), it.counts.waiting))
        .collect();
    assert_eq!(found, [("B", 1), ("a", 2), ("b", 1), ("é", 1)]);
    let expected = QueueInfo {
        queue: "a".into(),
        counts: StateCounts {
            waiting: 2,
            ..StateCounts::default()
        },
        paused: false,
        max_active: None,
        rate: None,
    };
    assert_eq!(queues[1], expected);
}

/// A finished one will do.
async fn a_queue_is_listed_for_as_long_as_it_has_a_job(fx: Fixture) {
    let id = fx.finish(job(), complete()).await;
    let queues = fx.store.queues().await.must();
    assert_eq!(queues.len(), 1);
    assert_eq!(
        queues[0].counts,
        StateCounts {
            completed: 1,
            ..StateCounts::default()
        }
    );
    assert!(fx.store.remove(&id).await.must());
    assert_eq!(fx.store.queues().await.must(), []);
}

/// What was set is shown.
async fn a_queue_with_a_setting_is_listed_without_jobs(fx: Fixture) {
    let rate = Rate {
        count: 7,
        per: ms(1_500),
    };
    let settings = QueueSettings {
        paused: Change::Set(true),
        max_active: Change::Set(3),
        rate: Change::Set(rate),
    };
    fx.set_queue(settings).await;
    let expected = QueueInfo {
        queue: "queue".into(),
        counts: StateCounts::default(),
        paused: true,
        max_active: Some(3),
        rate: Some(rate),
    };
    assert_eq!(fx.store.queues().await.must(), [expected]);
}

/// Back to what a queue begins with is no setting.
async fn a_queue_whose_settings_were_cleared_is_not_listed(fx: Fixture) {
    let rate = Rate {
        count: 7,
        per: ms(1_500),
    };
    fx.set_queue(QueueSettings {
        paused: Change::Set(true),
        max_active: Change::Set(3),
        rate: Change::Set(rate),
    })
    .await;
    fx.set_queue(QueueSettings {
        paused: Change::Clear,
        max_active: Change::Clear,
        rate: Change::Clear,
    })
    .await;
    assert_eq!(fx.store.queues().await.must(), []);
    fx.set_queue(QueueSettings::default()).await;
    assert_eq!(
        fx.store.queues().await.must(),
        [],
        "a change of nothing is no setting"
    );
}

/// No handle counts for itself.
async fn counts_are_the_same_at_every_handle(fx: Fixture) {
    let second = fx.second().await;
    fx.enqueue(job()).await;
    second.enqueue(job()).await;
    assert_eq!(fx.counts().await.waiting, 2);
    assert_eq!(second.counts().await.waiting, 2);
    second.claim_one().await;
    assert_eq!(
        fx.store.queues().await.must(),
        second.store.queues().await.must()
    );
}

/// A name that no queue can have is an error.
async fn a_broken_queue_name_is_refused(fx: Fixture) {
    for queue in ["", "a\0b"].map(QueueName::from) {
        expect_refused(fx.store.counts(Some(&queue)).await, "queue name");
    }
}
