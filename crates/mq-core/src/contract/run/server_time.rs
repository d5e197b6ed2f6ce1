//! A few of the cases again on the server's own clock, since that is what
//! production runs on.

use std::time::Duration;

use crate::contract::expect::Must;
use crate::contract::make::{Make, complete, job, ms, request};
use crate::contract::{Fixture, StoreOptions};
use crate::record::{Dedupe, JobState};
use crate::store::ClaimRequest;

cases! { __contract_run_server_time, run::server_time:
    instants_come_from_the_servers_clock with on_server_time needs ServerTime,
    a_delayed_job_becomes_due with on_server_time needs ServerTime,
    a_lock_expires with on_server_time needs ServerTime,
    a_dedupe_window_ends with on_server_time needs ServerTime,
}

fn on_server_time(options: StoreOptions) -> StoreOptions {
    options.server_time()
}

/// Every instant of a job's life lies between two looks at the clock.
async fn instants_come_from_the_servers_clock(fx: Fixture) {
    let before = fx.store.now().await.must();
    let id = fx.finish(job(), complete()).await;
    let delayed = fx.job(&fx.enqueue(job().delay(60_000)).await).await;
    let after = fx.store.now().await.must();
    let record = fx.job(&id).await;
    let entry = fx.ledger(&id).await.remove(0);
    let life = [
        Some(before),
        Some(record.enqueued_at),
        record.processed_at,
        record.finished_at,
        Some(delayed.enqueued_at),
        Some(after),
    ];
    assert!(
        life.is_sorted() && life.iter().all(Option::is_some),
        "got {life:?}"
    );
    assert_eq!(
        (entry.started_at, Some(entry.finished_at)),
        (record.processed_at, record.finished_at)
    );
    assert_eq!(delayed.run_at.since(delayed.enqueued_at), ms(60_000));
}

/// A worker that sleeps as long as the claim says finds the job due.
async fn a_delayed_job_becomes_due(fx: Fixture) {
    let id = fx.enqueue(job().delay(30)).await;
    let due = async {
        loop {
            let claim = fx.claim(1).await;
            if let Some(record) = claim.jobs.first() {
                assert!(claim.now >= record.run_at, "claimed at {:?}", claim.now);
                return record.id.clone();
            }
            let next = claim.next_run_at.expect("a delayed job has a time");
            tokio::time::sleep(next.since(claim.now)).await;
        }
    };
    assert_eq!(fx.within("the delayed job", due).await, id);
}

/// A lock that nobody extends runs out, and one that is extended does not.
async fn a_lock_expires(fx: Fixture) {
    let kept = fx.start(job()).await;
    let lost = fx.enqueue(job()).await;
    let request = ClaimRequest {
        lock_for: ms(20),
        ..request(1)
    };
    fx.claim_with(request).await;
    let recovered = async {
        loop {
            let recovered = fx.store.recover_stalled(3, 10).await.must().stalled;
            if !recovered.is_empty() {
                return recovered;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let recovered = fx.within("the lock to run out", recovered).await;
    assert_eq!(
        recovered
            .iter()
            .map(|stalled| &stalled.id)
            .collect::<Vec<_>>(),
        [&lost]
    );
    assert_eq!(fx.state(&kept.id).await, JobState::Active);
    fx.ack(&kept, complete()).await;
}

/// A long window holds, and a short one ends.
async fn a_dedupe_window_ends(fx: Fixture) {
    let throttled = |key: &str, ttl| job().dedupe(Dedupe::key(key).ttl(ms(ttl)));
    let long = fx.enqueue(throttled("long", 3_600_000)).await;
    fx.enqueue(throttled("short", 20)).await;
    let freed = async {
        while fx
            .store
            .enqueue(throttled("short", 20))
            .await
            .must()
            .duplicate
        {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    fx.within("the window to end", freed).await;
    fx.duplicate_of(&long, throttled("long", 3_600_000)).await;
}
