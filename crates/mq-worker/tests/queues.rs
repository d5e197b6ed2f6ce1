//! Which jobs a worker takes, how many at once, and when it asks for them.
#![allow(clippy::unwrap_used)]

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use mq_core::{
    AdminOps, Change, DefaultStore, Failure, Job, JobState, MemoryStore, QueueSettings,
    StoreHandle, StoreName,
};
use mq_worker::{JobContext, Worker};
use serde::{Deserialize, Serialize};
use support::*;
use tokio::sync::{Semaphore, mpsc};
use tokio::time::Instant;

#[tokio::test(start_paused = true)]
async fn each_queue_runs_as_many_handlers_at_once_as_its_concurrency_says() {
    let fixture = fixture().await;
    let (gate, most) = (Arc::new(Semaphore::new(0)), Arc::new(AtomicUsize::new(0)));
    let running = Arc::new(AtomicUsize::new(0));
    let wait = {
        let gate = Arc::clone(&gate);
        move || {
            let gate = Arc::clone(&gate);
            async move { gate.acquire().await.unwrap().forget() }
        }
    };
    let (wait_in_work, most_work, running_work) =
        (wait.clone(), Arc::clone(&most), Arc::clone(&running));
    let worker = fixture
        .worker()
        .default_concurrency(3)
        .concurrency("fragile", 2)
        .register(move |_job: Work, _ctx: JobContext| {
            let now = running_work.fetch_add(1, Ordering::SeqCst) + 1;
            most_work.fetch_max(now, Ordering::SeqCst);
            let (wait, running) = (wait_in_work.clone(), Arc::clone(&running_work));
            async move {
                wait().await;
                running.fetch_sub(1, Ordering::SeqCst);
                Ok(1)
            }
        })
        .register(move |_job: Fragile, _ctx: JobContext| {
            let wait = wait.clone();
            async move {
                wait().await;
                Ok(1)
            }
        })
        .start()
        .await
        .unwrap();
    let mut ids = Vec::new();
    for number in 0..10 {
        ids.push(fixture.enqueue(&Work { number }).await);
        ids.push(fixture.enqueue(&Fragile { number }).await);
    }
    tokio::time::sleep(secs(60)).await;
    assert_eq!(worker.in_flight(), 5);
    gate.add_permits(100);
    for id in &ids {
        fixture.finished(id).await;
    }
    assert_eq!(most.load(Ordering::SeqCst), 3);
    worker.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn one_claim_takes_as_many_jobs_as_there_are_free_slots() {
    let fixture = fixture().await;
    for number in 0..300 {
        fixture.enqueue(&Work { number }).await;
    }
    let worker = fixture
        .worker()
        .default_concurrency(300)
        .register(|job: Work, ctx: JobContext| async move {
            if job.number >= 5 {
                ctx.cancelled().await;
            }
            Ok(1)
        })
        .shutdown_grace(secs(0))
        .start()
        .await
        .unwrap();
    tokio::time::sleep(secs(1)).await;
    let limits: Vec<_> = fixture
        .store
        .claims()
        .iter()
        .map(|claim| claim.limit)
        .collect();
    // 250 are the most that a claim yields.
    assert_eq!(limits[..2], [250, 50]);
    assert_eq!(limits[2], 5, "five have ended: {limits:?}");
    worker.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn acks_form_a_batch_while_the_one_before_is_on_its_way() {
    let fixture = fixture().await;
    fixture
        .faults
        .script(Operation::AckMany, [Fault::LateEffect(millis(50))]);
    let worker = fixture
        .worker()
        .default_concurrency(100)
        .register(|job: Work, _ctx: JobContext| async move {
            tokio::time::sleep(millis(job.number.into())).await;
            Ok(1)
        })
        .start()
        .await
        .unwrap();
    let mut ids = Vec::new();
    for number in 0..30 {
        ids.push(fixture.enqueue(&Work { number }).await);
    }
    for id in &ids {
        fixture.finished(id).await;
    }
    let batches = fixture.store.ack_batches();
    assert_eq!(batches.len(), 2, "{batches:?}");
    assert_eq!(batches.iter().sum::<usize>(), 30);
    worker.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn an_idle_worker_is_woken_by_an_enqueue_and_does_not_wait_for_its_poll() {
    let fixture = fixture().await;
    let (told, mut heard) = mpsc::unbounded_channel();
    let worker = fixture
        .worker()
        .poll_interval(secs(3_600))
        .register(move |_job: Work, _ctx: JobContext| {
            told.send(Instant::now()).unwrap();
            async move { Ok(1) }
        })
        .start()
        .await
        .unwrap();
    for number in 0..5 {
        tokio::time::sleep(secs(17)).await;
        let enqueued = Instant::now();
        fixture.enqueue(&Work { number }).await;
        assert_eq!(heard.recv().await, Some(enqueued));
    }
    worker.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn lost_wake_ups_cost_no_more_than_the_poll_interval() {
    let faults = Faults::none().lose_wakes(1.0);
    let plain = MemoryStore::builder().time(TokioClock::source()).build();
    let fixture = fixture_with(plain, faults).await;
    let worker = fixture
        .worker()
        .poll_interval(secs(5))
        .register(|_job: Work, _ctx: JobContext| async move { Ok(1) })
        .start()
        .await
        .unwrap();
    tokio::time::sleep(secs(1)).await;
    let id = fixture.enqueue(&Work { number: 1 }).await;
    let job = fixture.finished(&id).await;
    let waited = job.processed_at.unwrap().since(job.enqueued_at);
    assert!(waited > secs(3) && waited <= secs(5), "{waited:?}");
    worker.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_store_that_cannot_wake_is_polled_without_spinning() {
    let fixture = fixture().await;
    let hopeless = (0..10_000).map(|_| permanent());
    fixture.faults.script(Operation::AwaitWake, hopeless);
    let worker = fixture
        .worker()
        .register(|_job: Work, _ctx: JobContext| async move { Ok(1) })
        .start()
        .await
        .unwrap();
    tokio::time::sleep(secs(600)).await;
    let claims = fixture.faults.calls(Operation::Claim);
    assert!((100..300).contains(&claims), "{claims}");
    let id = fixture.enqueue(&Work { number: 1 }).await;
    fixture.finished(&id).await;
    worker.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_queue_that_is_resumed_or_lets_go_of_a_limit_is_worked_on_at_once() {
    let fixture = fixture().await;
    let queue = "default".into();
    let set = async |settings| {
        fixture.plain().set_queue(&queue, settings).await.unwrap();
    };
    set(QueueSettings {
        paused: Change::Set(true),
        max_active: Change::Set(1),
        ..QueueSettings::default()
    })
    .await;
    let worker = fixture
        .worker()
        .poll_interval(secs(3_600))
        .register(|_job: Work, _ctx: JobContext| async move {
            tokio::time::sleep(secs(10)).await;
            Ok(1)
        })
        .start()
        .await
        .unwrap();
    let ids = [
        fixture.enqueue(&Work { number: 0 }).await,
        fixture.enqueue(&Work { number: 1 }).await,
    ];
    tokio::time::sleep(secs(60)).await;
    assert_eq!(worker.in_flight(), 0);
    let resumed = Instant::now();
    set(QueueSettings {
        paused: Change::Clear,
        ..QueueSettings::default()
    })
    .await;
    for id in &ids {
        fixture.finished(id).await;
    }
    let took = resumed.elapsed();
    assert!(took >= secs(20) && took < secs(21), "{took:?}");
    worker.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_queue_with_a_rate_is_asked_again_when_its_limit_lets_go() {
    let fixture = fixture().await;
    let limited = QueueSettings {
        rate: Change::Set(mq_core::Rate {
            count: 10,
            per: secs(100),
        }),
        ..QueueSettings::default()
    };
    let queue = "default".into();
    fixture.plain().set_queue(&queue, limited).await.unwrap();
    let worker = fixture
        .worker()
        .poll_interval(secs(3_600))
        .register(|_job: Work, _ctx: JobContext| async move { Ok(1) })
        .start()
        .await
        .unwrap();
    let mut ids = Vec::new();
    for number in 0..30 {
        ids.push(fixture.enqueue(&Work { number }).await);
    }
    let begun = Instant::now();
    for id in &ids {
        fixture.finished(id).await;
    }
    let took = begun.elapsed();
    assert!(took >= secs(190) && took <= secs(310), "{took:?}");
    worker.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn every_handler_serves_every_queue_and_only_the_served_ones() {
    let fixture = fixture().await;
    let worker = fixture
        .worker()
        .only_queues(["default"])
        .queue("bulk")
        .register(|_job: Work, _ctx: JobContext| async move { Ok(1) })
        .register(|_job: Fragile, _ctx: JobContext| async move { Ok(1) })
        .start()
        .await
        .unwrap();
    let mut ids = Vec::new();
    for queue in ["default", "bulk", "fragile"] {
        let mut work = spec(&Work { number: 1 });
        let mut fragile = spec(&Fragile { number: 1 });
        work.queue = queue.into();
        fragile.queue = queue.into();
        ids.push(fixture.enqueue_spec(work).await);
        ids.push(fixture.enqueue_spec(fragile).await);
    }
    for id in &ids[..4] {
        fixture.finished(id).await;
    }
    tokio::time::sleep(secs(60)).await;
    for id in &ids[4..] {
        assert_eq!(fixture.job(id).await.state, JobState::Waiting);
    }
    assert_eq!(worker.queues(), ["bulk", "default"]);
    worker.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn jobs_start_by_priority_then_in_the_order_they_came() {
    let fixture = fixture().await;
    let (told, mut heard) = mpsc::unbounded_channel();
    for (number, priority) in [(0, 0), (1, 5), (2, 0), (3, 5), (4, -1)] {
        let mut spec = spec(&Work { number });
        spec.priority = priority;
        fixture.enqueue_spec(spec).await;
    }
    let worker = fixture
        .worker()
        .default_concurrency(1)
        .register(move |job: Work, _ctx: JobContext| {
            told.send(job.number).unwrap();
            async move { Ok(1) }
        })
        .start()
        .await
        .unwrap();
    for expected in [1, 3, 0, 2, 4] {
        assert_eq!(heard.recv().await, Some(expected));
    }
    worker.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn workers_of_several_stores_live_in_one_process() {
    struct Ephemeral;
    impl StoreName for Ephemeral {
        const NAME: &'static str = "ephemeral";
    }
    #[derive(Serialize, Deserialize)]
    struct Ping;
    impl Job for Ping {
        const NAME: &'static str = "ping";
        type Store = Ephemeral;
        type Output = ();
        type Error = Failure;
    }
    let fixture = fixture().await;
    let other = MemoryStore::builder().time(TokioClock::source()).build();
    let ephemeral = StoreHandle::<Ephemeral>::bind(other).await.unwrap();
    let client = ephemeral.client();
    let to = client.clone();
    let durable = Worker::<DefaultStore>::builder(fixture.handle.clone())
        .register(move |_job: Work, _ctx: JobContext| {
            let client = to.clone();
            async move {
                client.execute(Ping).await?;
                Ok(2)
            }
        })
        .start()
        .await
        .unwrap();
    let light = Worker::builder(ephemeral)
        .register(|_job: Ping, _ctx: JobContext| async move { Ok(()) })
        .start()
        .await
        .unwrap();
    let id = fixture.enqueue(&Work { number: 0 }).await;
    assert_eq!(exit(&fixture.finished(&id).await), r#"{"ok":2}"#);
    assert_eq!(light.stats().completed, 1);
    light.shutdown().await;
    durable.shutdown().await;
}
