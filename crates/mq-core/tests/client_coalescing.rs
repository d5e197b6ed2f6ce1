//! Concurrent single calls form batches, and never at each other's expense.

#![allow(clippy::unwrap_used)]

use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use futures::future::{FutureExt, join_all};
use futures::{poll, select};
use mq_core::coalesce::Coalescer;
use tokio::sync::Semaphore;

/// Batches that land one by one, as the test lets them, and remember what was
/// in them.
struct Gated {
    calls: Coalescer<u32, u32>,
    gate: Arc<Semaphore>,
    batches: Arc<Mutex<Vec<Vec<u32>>>>,
}

impl Gated {
    fn new(most: usize) -> Self {
        let gate = Arc::new(Semaphore::new(0));
        let batches = Arc::new(Mutex::new(Vec::new()));
        let (through, log) = (Arc::clone(&gate), Arc::clone(&batches));
        let calls = Coalescer::new(most, move |items: Vec<u32>| {
            let through = Arc::clone(&through);
            log.lock().unwrap().push(items.clone());
            async move {
                through.acquire().await.unwrap().forget();
                items.into_iter().map(|item| item * 10).collect()
            }
        });
        Self {
            calls,
            gate,
            batches,
        }
    }

    fn land(&self, batches: usize) {
        self.gate.add_permits(batches);
    }

    fn batches(&self) -> Vec<Vec<u32>> {
        self.batches.lock().unwrap().clone()
    }
}

#[tokio::test]
async fn an_idle_handle_sends_at_once_and_alone() {
    let gated = Gated::new(250);
    let mut call = pin!(gated.calls.call(1));
    assert!(poll!(&mut call).is_pending());
    assert_eq!(gated.batches(), [[1]]);
    gated.land(1);
    assert_eq!(call.await, 10);
}

#[tokio::test]
async fn calls_that_come_during_a_batch_form_the_next_in_their_order() {
    let gated = Gated::new(250);
    let mut first = pin!(gated.calls.call(0));
    assert!(poll!(&mut first).is_pending());
    let mut later = pin!(join_all((1..=5).rev().map(|item| gated.calls.call(item))));
    assert!(poll!(&mut later).is_pending());
    gated.land(2);
    assert_eq!(later.await, [50, 40, 30, 20, 10]);
    assert_eq!(first.await, 0);
    assert_eq!(gated.batches(), [vec![0], vec![5, 4, 3, 2, 1]]);
}

#[tokio::test]
async fn a_batch_is_no_larger_than_allowed() {
    let gated = Gated::new(3);
    gated.land(usize::from(u8::MAX));
    let answers = join_all((0..8).map(|item| gated.calls.call(item))).await;
    assert_eq!(answers, [0, 10, 20, 30, 40, 50, 60, 70]);
    let sizes: Vec<_> = gated.batches().iter().map(Vec::len).collect();
    assert!(sizes.iter().all(|&size| size <= 3), "{sizes:?}");
    assert_eq!(gated.batches().concat(), [0, 1, 2, 3, 4, 5, 6, 7]);
}

#[tokio::test]
async fn a_queued_call_that_is_dropped_is_not_made() {
    let gated = Gated::new(250);
    let mut first = pin!(gated.calls.call(0));
    assert!(poll!(&mut first).is_pending());
    let mut kept = pin!(gated.calls.call(2));
    {
        let mut dropped = pin!(gated.calls.call(1));
        assert!(poll!(&mut dropped).is_pending());
        assert!(poll!(&mut kept).is_pending());
    }
    gated.land(2);
    assert_eq!(kept.await, 20);
    assert_eq!(gated.batches(), [[0], [2]]);
}

#[tokio::test]
async fn a_batch_whose_callers_are_gone_is_finished_by_those_behind_it() {
    let gated = Gated::new(250);
    let mut behind = pin!(gated.calls.call(1));
    {
        let mut gone = pin!(gated.calls.call(0));
        assert!(poll!(&mut gone).is_pending());
        assert!(poll!(&mut behind).is_pending());
    }
    // One landing for each: the batch that nobody asks after takes its own.
    gated.land(2);
    assert_eq!(behind.await, 10);
    assert_eq!(gated.gate.available_permits(), 0);
    assert_eq!(gated.batches(), [[0], [1]]);
}

#[tokio::test]
async fn one_of_a_batch_may_leave_without_the_others_noticing() {
    let gated = Gated::new(250);
    let mut first = pin!(gated.calls.call(0));
    assert!(poll!(&mut first).is_pending());
    let mut stays = pin!(gated.calls.call(2));
    {
        let mut leaves = pin!(gated.calls.call(1));
        assert!(poll!(&mut leaves).is_pending());
        assert!(poll!(&mut stays).is_pending());
        gated.land(1);
        assert_eq!(first.await, 0);
        assert_eq!(gated.batches(), [vec![0], vec![1, 2]]);
    }
    gated.land(1);
    assert_eq!(stays.await, 20);
}

#[tokio::test]
async fn the_last_caller_takes_the_batch_along() {
    struct Running(Arc<AtomicBool>);
    impl Drop for Running {
        fn drop(&mut self) {
            self.0.store(false, Ordering::SeqCst);
        }
    }
    let running = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&running);
    let calls = Coalescer::new(250, move |items: Vec<u8>| {
        let first = !flag.swap(true, Ordering::SeqCst) && items == [1];
        let guard = Running(Arc::clone(&flag));
        async move {
            if first {
                std::future::pending::<()>().await;
            }
            drop(guard);
            items
        }
    });
    {
        let mut call = pin!(calls.call(1));
        assert!(poll!(&mut call).is_pending());
        assert!(running.load(Ordering::SeqCst));
    }
    assert!(!running.load(Ordering::SeqCst));
    assert_eq!(calls.call(2).await, 2);
}

#[tokio::test]
async fn a_future_that_is_kept_but_not_polled_holds_nobody_up() {
    let gated = Gated::new(250);
    let mut kept = Box::pin(gated.calls.call(0));
    assert!(poll!(&mut kept).is_pending());
    let mut queued = Box::pin(gated.calls.call(1));
    assert!(poll!(&mut queued).is_pending());
    gated.land(3);
    assert_eq!(gated.calls.call(2).await, 20);
    assert_eq!(gated.batches(), [vec![0], vec![1, 2]]);
    // Their answers wait for them.
    assert_eq!(kept.now_or_never(), Some(0));
    assert_eq!(queued.now_or_never(), Some(10));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_panic_is_shared_by_its_batch_and_by_nobody_else() {
    let gate = Arc::new(Semaphore::new(0));
    let through = Arc::clone(&gate);
    let calls = Coalescer::new(250, move |items: Vec<i32>| {
        let through = Arc::clone(&through);
        async move {
            through.acquire().await.unwrap().forget();
            assert!(!items.contains(&-1), "minus one is not welcome");
            items
        }
    });
    let mut first = pin!(calls.call(0));
    assert!(poll!(&mut first).is_pending());
    let call = |item| {
        let calls = calls.clone();
        async move { calls.call(item).await }
    };
    let (mut bad, mut beside) = (Box::pin(call(-1)), Box::pin(call(1)));
    assert!(poll!(&mut bad).is_pending() && poll!(&mut beside).is_pending());
    gate.add_permits(1);
    assert_eq!(first.await, 0);
    let mut behind = Box::pin(call(2));
    assert!(poll!(&mut behind).is_pending());
    gate.add_permits(2);

    for call in [bad, beside] {
        let panic = tokio::spawn(call).await.unwrap_err().into_panic();
        let message = panic.downcast_ref::<String>().unwrap();
        assert!(message.contains("minus one is not welcome"), "{message}");
    }
    assert_eq!(behind.await, 2);
}

#[tokio::test]
async fn a_batch_function_that_miscounts_is_told() {
    let calls = Coalescer::new(
        250,
        |items: Vec<u8>| async move { [items, vec![7]].concat() },
    );
    let panic = tokio::spawn(async move { calls.call(1).await }).await;
    let message = panic.unwrap_err().into_panic();
    let message = message.downcast_ref::<String>().unwrap();
    assert_eq!(message, "a batch of 1 items got 2 answers");
}

#[tokio::test]
async fn a_batch_that_yields_lets_its_task_yield() {
    let ready = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&ready);
    let calls = Coalescer::new(250, move |items: Vec<u8>| {
        let seen = Arc::clone(&seen);
        async move {
            // Asks for the next poll from within each, as futures do that are
            // out of budget.
            let mut polls = 0;
            std::future::poll_fn(|cx| {
                polls += 1;
                assert!(polls < 1_000, "the task never yields");
                cx.waker().wake_by_ref();
                match seen.load(Ordering::SeqCst) {
                    true => Poll::Ready(()),
                    false => Poll::Pending,
                }
            })
            .await;
            items
        }
    });
    let setter = tokio::spawn(async move { ready.store(true, Ordering::SeqCst) });
    assert_eq!(calls.call(1).await, 1);
    setter.await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_tasks_get_their_own_answers_though_others_give_up() {
    let batches = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&batches);
    let calls = Coalescer::new(16, move |items: Vec<usize>| {
        counter.fetch_add(1, Ordering::Relaxed);
        async move {
            for _ in 0..items[0] % 3 {
                tokio::task::yield_now().await;
            }
            items.into_iter().map(|item| item + 1).collect()
        }
    });
    const TASKS: usize = 64;
    const EACH: usize = 200;
    let tasks: Vec<_> = (0..TASKS)
        .map(|task| {
            let calls = calls.clone();
            tokio::spawn(async move {
                let mut answered = 0;
                for call in 0..EACH {
                    let item = task * EACH + call;
                    let mut answer = pin!(calls.call(item).fuse());
                    if item.is_multiple_of(5) {
                        // Given up after a few polls, wherever it is then.
                        let mut patience = pin!(give_up_after(item % 7).fuse());
                        select! {
                            got = answer => assert_eq!(got, item + 1),
                            () = patience => continue,
                        }
                    } else {
                        assert_eq!(answer.await, item + 1);
                    }
                    answered += 1;
                }
                answered
            })
        })
        .collect();
    let tasks = tokio::time::timeout(Duration::from_secs(60), join_all(tasks));
    let answered: usize = tasks.await.unwrap().into_iter().map(Result::unwrap).sum();
    assert!(answered >= TASKS * EACH * 4 / 5, "{answered}");
    let batches = batches.load(Ordering::Relaxed);
    assert!(batches < answered / 2, "{batches} batches of {answered}");
}

async fn give_up_after(polls: usize) {
    let mut left = polls;
    std::future::poll_fn(|cx| {
        if left == 0 {
            return Poll::Ready(());
        }
        left -= 1;
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}
