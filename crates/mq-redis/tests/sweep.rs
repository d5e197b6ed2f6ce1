//! The sweep of dead dedupe entries on Redis.

mod support;

use std::time::Duration;

use mq_core::contract::StoreOptions;
use mq_core::{AdminOps, Dedupe, EnqueueOps, ManualClock};

#[tokio::test]
async fn a_sweep_says_that_more_remains_until_every_dead_entry_is_gone() {
    let (prefix, clock) = (support::prefix(), ManualClock::default());
    let store = support::open(&prefix, &StoreOptions::new(clock.clone())).await;
    for number in 0..5 {
        let mut job = support::job();
        job.dedupe = Some(Dedupe::key(format!("key-{number}")).ttl(Duration::from_secs(1)));
        let id = store.enqueue(job).await.expect("a job").id;
        assert!(store.remove(&id).await.expect("a removal"));
    }
    clock.advance(Duration::from_secs(1));
    let mut sweeps = 1;
    while store.sweep_history(2).await.expect("a sweep").more {
        sweeps += 1;
    }
    assert_eq!(sweeps, 3, "five entries, two at a time");
}
