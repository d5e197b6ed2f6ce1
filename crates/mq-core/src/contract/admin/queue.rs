//! Queue settings: how they are kept and changed. What they do to claims is
//! shown by the cases of the room run.

use crate::contract::Fixture;
use crate::contract::expect::{Must, expect_refused};
use crate::contract::make::{Make, job, ms};
use crate::id::QueueName;
use crate::record::{JobState, Rate};
use crate::store::{Change, QueueInfo, QueueSettings};
use crate::time::LONGEST;
use crate::validate::MAX_NAME;

cases! { __contract_admin_queue, admin::queue:
    settings_are_the_same_at_every_handle,
    each_setting_is_changed_alone,
    each_setting_is_cleared_alone,
    the_same_settings_may_be_set_again,
    settings_of_one_queue_are_not_anothers,
    settings_outlive_the_jobs_of_their_queue,
    a_setting_at_the_ends_of_its_range_is_kept,
    a_broken_setting_is_refused_and_changes_nothing,
}

async fn stored(fx: &Fixture, queue: &str) -> Option<QueueInfo> {
    let queues = fx.store.queues().await.must();
    queues.into_iter().find(|info| info.queue == queue)
}

/// What there is of settings, in one value.
async fn settings(fx: &Fixture) -> (bool, Option<u32>, Option<Rate>) {
    let info = stored(fx, "queue").await.expect("the queue is listed");
    (info.paused, info.max_active, info.rate)
}

fn rate(count: u32) -> Rate {
    Rate {
        count,
        per: ms(1_000),
    }
}

fn all() -> QueueSettings {
    QueueSettings {
        paused: Change::Set(true),
        max_active: Change::Set(5),
        rate: Change::Set(rate(7)),
    }
}

/// They are the store's.
async fn settings_are_the_same_at_every_handle(fx: Fixture) {
    fx.set_queue(all()).await;
    let second = fx.second().await;
    assert_eq!(settings(&second).await, (true, Some(5), Some(rate(7))));
}

/// What a change leaves out stays.
async fn each_setting_is_changed_alone(fx: Fixture) {
    fx.set_queue(all()).await;
    let keep = QueueSettings::default;
    fx.set_queue(QueueSettings {
        paused: Change::Set(false),
        ..keep()
    })
    .await;
    assert_eq!(settings(&fx).await, (false, Some(5), Some(rate(7))));
    fx.set_queue(QueueSettings {
        max_active: Change::Set(6),
        ..keep()
    })
    .await;
    assert_eq!(settings(&fx).await, (false, Some(6), Some(rate(7))));
    fx.set_queue(QueueSettings {
        rate: Change::Set(rate(8)),
        ..keep()
    })
    .await;
    assert_eq!(settings(&fx).await, (false, Some(6), Some(rate(8))));
    fx.set_queue(keep()).await;
    assert_eq!(settings(&fx).await, (false, Some(6), Some(rate(8))));
}

/// So does what is not cleared.
async fn each_setting_is_cleared_alone(fx: Fixture) {
    fx.set_queue(all()).await;
    let keep = QueueSettings::default;
    fx.set_queue(QueueSettings {
        max_active: Change::Clear,
        ..keep()
    })
    .await;
    assert_eq!(settings(&fx).await, (true, None, Some(rate(7))));
    fx.set_queue(QueueSettings {
        rate: Change::Clear,
        ..keep()
    })
    .await;
    assert_eq!(settings(&fx).await, (true, None, None));
    fx.set_queue(QueueSettings {
        paused: Change::Clear,
        ..all()
    })
    .await;
    assert_eq!(settings(&fx).await, (false, Some(5), Some(rate(7))));
}

/// A change whose answer was lost is repeated without harm.
async fn the_same_settings_may_be_set_again(fx: Fixture) {
    fx.set_queue(all()).await;
    fx.set_queue(all()).await;
    assert_eq!(settings(&fx).await, (true, Some(5), Some(rate(7))));
}

/// Each queue has its own.
async fn settings_of_one_queue_are_not_anothers(fx: Fixture) {
    fx.set_queue(all()).await;
    fx.enqueue(job().queue("other")).await;
    let other = stored(&fx, "other").await.expect("it has a job");
    assert_eq!(
        (other.paused, other.max_active, other.rate),
        (false, None, None)
    );
}

/// They are not the jobs'.
async fn settings_outlive_the_jobs_of_their_queue(fx: Fixture) {
    let id = fx.job_in(JobState::Cancelled).await;
    fx.set_queue(all()).await;
    assert!(fx.store.remove(&id).await.must());
    assert_eq!(settings(&fx).await, (true, Some(5), Some(rate(7))));
}

/// To the last unit.
async fn a_setting_at_the_ends_of_its_range_is_kept(fx: Fixture) {
    for (max_active, rate) in [
        (
            1,
            Rate {
                count: 1,
                per: ms(1),
            },
        ),
        (
            u32::MAX,
            Rate {
                count: u32::MAX,
                per: LONGEST,
            },
        ),
    ] {
        fx.set_queue(QueueSettings {
            paused: Change::Keep,
            max_active: Change::Set(max_active),
            rate: Change::Set(rate),
        })
        .await;
        assert_eq!(settings(&fx).await, (false, Some(max_active), Some(rate)));
    }
    fx.store
        .set_queue(&QueueName::from("q".repeat(MAX_NAME)), all())
        .await
        .must();
}

/// Each broken rule is named, and no other part of the change is done.
async fn a_broken_setting_is_refused_and_changes_nothing(fx: Fixture) {
    let zero = Change::Set(Rate {
        count: 0,
        per: ms(1),
    });
    let never = Change::Set(Rate {
        count: 1,
        per: ms(0),
    });
    let too_long = Change::Set(Rate {
        count: 1,
        per: LONGEST + ms(1),
    });
    let queue = QueueName::from("queue");
    for (field, settings) in [
        (
            "max_active",
            QueueSettings {
                max_active: Change::Set(0),
                ..all()
            },
        ),
        (
            "rate count",
            QueueSettings {
                rate: zero,
                ..all()
            },
        ),
        (
            "rate per",
            QueueSettings {
                rate: never,
                ..all()
            },
        ),
        (
            "rate per",
            QueueSettings {
                rate: too_long,
                ..all()
            },
        ),
    ] {
        expect_refused(fx.store.set_queue(&queue, settings).await, field);
    }
    let long = "q".repeat(MAX_NAME + 1);
    for name in ["", "a\0b", long.as_str()].map(QueueName::from) {
        expect_refused(fx.store.set_queue(&name, all()).await, "queue name");
    }
    assert_eq!(fx.store.queues().await.must(), []);
}
