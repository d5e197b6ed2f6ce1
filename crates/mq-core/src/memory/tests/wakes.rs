//! Waiting: nothing is lost, nobody is woken for another's sake, and nothing
//! is left of a wait that was given up.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::FutureExt;

use super::{claim, complete, job, store};
use crate::memory::MemoryStore;
use crate::store::*;
use crate::time::{Clock, TimeSource, Timestamp};

#[tokio::test]
async fn a_wait_that_is_given_up_leaves_nothing_behind() {
    let (store, _) = store();
    let cursor = store.claim(claim("q", 1)).await.unwrap().wake;
    let queues = ["q".into(), "p".into()];
    let mut wait = store.await_wake(&queues, cursor);
    assert!((&mut wait).now_or_never().is_none());
    assert_eq!(store.shared.state.lock().queues.iter().count(), 2);
    drop(wait);
    assert!(store.shared.state.lock().queues.is_empty());
    assert_eq!(store.queues().await.unwrap(), []);
}

#[tokio::test]
async fn a_watch_that_is_given_up_leaves_nothing_behind() {
    let (store, _) = store();
    let id = store.enqueue(job("a", "q")).await.unwrap().id;
    let ids = [id];
    let cursor = store.watch(&ids).await.unwrap().cursor;
    let mut wait = store.await_finished(&ids, cursor);
    assert!((&mut wait).now_or_never().is_none());
    assert!(!store.shared.state.lock().wakes.is_idle());
    drop(wait);
    assert!(store.shared.state.lock().wakes.is_idle());
}

/// Tells the time until it is broken.
#[derive(Debug)]
struct Breakable(AtomicBool);

impl Clock for Breakable {
    fn now(&self) -> Timestamp {
        assert!(!self.0.load(Ordering::SeqCst), "the clock is broken");
        Timestamp::MIN
    }
}

#[tokio::test]
async fn a_clock_that_panics_harms_only_those_who_ask_it() {
    let clock = Arc::new(Breakable(AtomicBool::new(false)));
    let time = TimeSource::Clock(Arc::clone(&clock) as Arc<dyn Clock>);
    let store = MemoryStore::builder().time(time).build();
    let ids = [store.enqueue(job("a", "q")).await.unwrap().id];
    let cursor = store.watch(&ids).await.unwrap().cursor;
    let mut wait = store.await_finished(&ids, cursor);
    assert!((&mut wait).now_or_never().is_none());

    clock.0.store(true, Ordering::SeqCst);
    drop(wait);
    let late = AssertUnwindSafe(store.await_finished(&ids, cursor));
    assert!(late.catch_unwind().await.is_err());
    assert!(store.shared.state.lock().wakes.is_idle());

    clock.0.store(false, Ordering::SeqCst);
    assert_eq!(store.cancel(&ids[0]).await.unwrap(), Cancelled::Ended);
    store.await_finished(&ids, cursor).await.unwrap();
}

#[tokio::test]
async fn a_job_that_nobody_watches_announces_nothing() {
    let (store, _) = store();
    let id = store.enqueue(job("a", "q")).await.unwrap().id;
    let before = store.watch(&[]).await.unwrap().cursor;
    store.cancel(&id).await.unwrap();
    assert_eq!(store.watch(&[]).await.unwrap().cursor, before);
}

#[tokio::test]
async fn a_repeated_claim_that_leaves_work_waiting_does_not_put_its_worker_to_sleep() {
    let (store, _) = store();
    store
        .enqueue_many(vec![job("a", "q"), job("a", "q")])
        .await
        .unwrap();
    let request = claim("q", 1);
    store.claim(request.clone()).await.unwrap();
    let again = store.claim(request).await.unwrap();
    assert_eq!(again.jobs.len(), 1);
    let queues = ["q".into()];
    store
        .await_wake(&queues, again.wake)
        .now_or_never()
        .expect("work is waiting")
        .unwrap();
}

#[tokio::test]
async fn a_batch_wakes_its_waiter_once() {
    let (store, _) = store();
    let cursor = store.claim(claim("q", 1)).await.unwrap().wake;
    store.enqueue_many(vec![job("a", "q"); 100]).await.unwrap();
    let after = store.claim(claim("q", 1)).await.unwrap().wake;
    assert_eq!(after.0, cursor.0 + 1);
}

#[tokio::test]
async fn the_end_of_a_run_wakes_only_where_it_frees_a_slot() {
    let (store, _) = store();
    for (queue, max_active, woken) in [
        ("free", Change::Keep, false),
        ("tight", Change::Set(1), true),
    ] {
        let settings = QueueSettings {
            max_active,
            ..QueueSettings::default()
        };
        store.set_queue(&queue.into(), settings).await.unwrap();
        store.enqueue(job("a", queue)).await.unwrap();
        let request = claim(queue, 1);
        let claimed = store.claim(request.clone()).await.unwrap();
        let lock = Lock {
            id: claimed.jobs[0].id.clone(),
            token: request.token,
        };
        store.ack(complete(lock)).await.unwrap();
        let queues = [queue.into()];
        let wait = store.await_wake(&queues, claimed.wake).now_or_never();
        assert_eq!(wait.is_some(), woken, "{queue}");
    }
}

#[tokio::test]
async fn one_wait_covers_many_jobs_across_pages() {
    let (store, clock) = store();
    let enqueued = store.enqueue_many(vec![job("a", "q"); 600]).await.unwrap();
    let ids: Vec<_> = enqueued.into_iter().map(|job| job.id).collect();
    let watch = store.watch(&ids).await.unwrap();
    assert!(watch.finished.is_empty());
    let mut wait = store.await_finished(&ids, watch.cursor);
    assert!((&mut wait).now_or_never().is_none());
    clock.advance(Duration::from_secs(1));
    store.cancel(&ids[599]).await.unwrap();
    wait.now_or_never().expect("a job has ended").unwrap();
    assert_eq!(
        store.watch(&ids).await.unwrap().finished,
        [ids[599].clone()]
    );
}
