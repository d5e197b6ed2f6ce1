//! Worker records.

use crate::contract::Fixture;
use crate::contract::expect::{Must, expect_refused};
use crate::contract::make::ms;
use crate::record::WorkerRecord;
use crate::time::Timestamp;

cases! { __contract_admin_worker, admin::worker:
    a_worker_is_known_by_its_last_report,
    the_store_dates_a_report_whatever_it_says,
    workers_are_listed_by_id,
    a_worker_is_gone_a_minute_after_its_last_report,
    a_worker_that_was_gone_can_come_back,
    workers_are_the_same_at_every_handle,
    a_broken_report_is_refused,
}

fn report(fx: &Fixture, id: &str) -> WorkerRecord {
    WorkerRecord {
        id: id.into(),
        host: "host".into(),
        version: "1.2.3".into(),
        queues: vec!["b".into(), "a".into()],
        in_flight: 3,
        started_at: fx.now(),
        last_seen_at: fx.now(),
    }
}

async fn workers(fx: &Fixture) -> Vec<WorkerRecord> {
    fx.store.workers().await.must()
}

/// Each report replaces the one before, field by field.
async fn a_worker_is_known_by_its_last_report(fx: Fixture) {
    assert_eq!(workers(&fx).await, []);
    let first = report(&fx, "w");
    fx.store.report_worker(first.clone()).await.must();
    assert_eq!(workers(&fx).await, [first.clone()]);
    fx.advance(10_000);
    let second = WorkerRecord {
        host: "other".into(),
        version: String::new(),
        queues: Vec::new(),
        in_flight: 0,
        last_seen_at: fx.now(),
        ..first
    };
    fx.store.report_worker(second.clone()).await.must();
    assert_eq!(workers(&fx).await, [second]);
}

/// A worker's own clock counts for nothing.
async fn the_store_dates_a_report_whatever_it_says(fx: Fixture) {
    for claimed in [Timestamp::MIN, Timestamp::MAX] {
        let dated = WorkerRecord {
            last_seen_at: claimed,
            ..report(&fx, "w")
        };
        fx.store.report_worker(dated).await.must();
        assert_eq!(workers(&fx).await, [report(&fx, "w")]);
        fx.advance(1);
    }
}

/// In byte order.
async fn workers_are_listed_by_id(fx: Fixture) {
    for id in ["b", "é", "a", "B"] {
        fx.store.report_worker(report(&fx, id)).await.must();
    }
    let ids: Vec<_> = workers(&fx)
        .await
        .into_iter()
        .map(|worker| worker.id)
        .collect();
    assert_eq!(ids, ["B", "a", "b", "é"]);
}

/// Not a millisecond earlier, and each for itself.
async fn a_worker_is_gone_a_minute_after_its_last_report(fx: Fixture) {
    fx.store.report_worker(report(&fx, "a")).await.must();
    fx.advance(1);
    fx.store.report_worker(report(&fx, "b")).await.must();
    fx.clock.advance(ms(59_998));
    assert_eq!(workers(&fx).await.len(), 2);
    fx.advance(1);
    let left = workers(&fx).await;
    assert_eq!(
        left.iter()
            .map(|worker| worker.id.as_str())
            .collect::<Vec<_>>(),
        ["b"]
    );
    fx.advance(1);
    assert_eq!(workers(&fx).await, []);
}

/// Whoever reports is there.
async fn a_worker_that_was_gone_can_come_back(fx: Fixture) {
    fx.store.report_worker(report(&fx, "a")).await.must();
    fx.advance(100_000);
    assert_eq!(workers(&fx).await, []);
    let back = report(&fx, "a");
    fx.store.report_worker(back.clone()).await.must();
    assert_eq!(workers(&fx).await, [back]);
}

/// A report is the store's.
async fn workers_are_the_same_at_every_handle(fx: Fixture) {
    let second = fx.second().await;
    fx.store.report_worker(report(&fx, "a")).await.must();
    assert_eq!(workers(&second).await, [report(&fx, "a")]);
}

/// Each broken rule is named, and nothing is stored.
async fn a_broken_report_is_refused(fx: Fixture) {
    let base = || report(&fx, "w");
    for (field, broken) in [
        (
            "worker id",
            WorkerRecord {
                id: "".into(),
                ..base()
            },
        ),
        (
            "worker id",
            WorkerRecord {
                id: "a\0".into(),
                ..base()
            },
        ),
        (
            "worker id",
            WorkerRecord {
                id: "x".repeat(257).into(),
                ..base()
            },
        ),
        (
            "worker host",
            WorkerRecord {
                host: "\0".into(),
                ..base()
            },
        ),
        (
            "worker version",
            WorkerRecord {
                version: "\0".into(),
                ..base()
            },
        ),
        (
            "queue name",
            WorkerRecord {
                queues: vec!["".into()],
                ..base()
            },
        ),
    ] {
        expect_refused(fx.store.report_worker(broken).await, field);
    }
    assert_eq!(workers(&fx).await, []);
}
