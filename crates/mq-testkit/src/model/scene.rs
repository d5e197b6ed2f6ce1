//! A store and the naive one side by side, compared after each step.

use std::time::Duration;

use futures::FutureExt;
use mq_core::{
    Change, HistoryCeiling, JobId, ListFilter, ManualClock, OrderBy, QueueName, QueueSettings,
    Result, ScheduleFilter, Store, Timestamp, WakeCursor, WatchCursor,
};

use crate::answer::without_words;
use crate::ask::{Cursor, Known, ask};
use crate::naive::Naive;
use crate::op::{NAMES, Op, QUEUES};

/// How many waits are tried after each step.
const MOST_WAITS: usize = 4;

pub(crate) struct Scene<S> {
    store: S,
    clock: ManualClock,
    naive: Naive,
    known: Known,
    waits: Vec<Wait>,
    watches: Vec<Watch>,
}

/// A wait that began after a claim.
struct Wait {
    queue: QueueName,
    cursor: WakeCursor,
    wakes_before: usize,
    stirs_before: usize,
}

/// A wait that began after a watch.
struct Watch {
    ids: Vec<JobId>,
    cursor: WatchCursor,
    ends_before: usize,
}

impl<S: Store> Scene<S> {
    pub(crate) fn new(
        store: S,
        clock: ManualClock,
        start: Timestamp,
        ceiling: Option<HistoryCeiling>,
    ) -> Self {
        Self {
            store,
            clock,
            naive: Naive::new(start, ceiling),
            known: Known::default(),
            waits: Vec::new(),
            watches: Vec::new(),
        }
    }

    /// Does the operations, then lets everything run that can, and compares
    /// after each.
    pub(crate) async fn play(&mut self, ops: Vec<Op>) -> Result<()> {
        for op in ops.into_iter().chain(finale()) {
            self.step(op).await?;
        }
        Ok(())
    }

    async fn step(&mut self, op: Op) -> Result<()> {
        let asked = ask(
            op,
            &self.store,
            &self.clock,
            &mut self.naive,
            &mut self.known,
        )
        .await?;
        if let Some(asked) = asked {
            assert_eq!(
                asked.answer, asked.expected,
                "the store's answer, and the expected one"
            );
            asked
                .cursor
                .into_iter()
                .for_each(|cursor| self.begin_wait(cursor));
        }
        self.compare().await?;
        self.check_waits();
        self.check_watches();
        Ok(())
    }

    fn begin_wait(&mut self, cursor: Cursor) {
        match cursor {
            Cursor::Wake(queue, cursor) => self.waits.push(Wait {
                queue,
                cursor,
                wakes_before: self.naive.wakes.len(),
                stirs_before: self.naive.stirs.len(),
            }),
            Cursor::Watch(ids, cursor) => self.watches.push(Watch {
                ids,
                cursor,
                ends_before: self.naive.ends.len(),
            }),
        }
        let drop_oldest = |len: usize| len.saturating_sub(MOST_WAITS);
        self.waits.drain(..drop_oldest(self.waits.len()));
        self.watches.drain(..drop_oldest(self.watches.len()));
    }

    /// Everything that can be read must agree.
    async fn compare(&self) -> Result<()> {
        let (store, naive) = (&self.store, &self.naive);
        assert_eq!(store.now().await?, naive.now);
        let ids = &self.known.ids;
        for (id, read) in ids.iter().zip(store.get_jobs(ids).await?) {
            let read = without_words(read?.into_iter().collect());
            let expected = without_words_of(naive.job(id));
            assert_eq!(read, expected, "{id:?} as stored, and as expected");
            assert_eq!(
                store.get_attempts(id).await?,
                naive.attempts(id),
                "ledger of {id:?}"
            );
        }
        for queue in QUEUES.map(QueueName::from) {
            assert_eq!(
                store.counts(Some(&queue)).await?,
                naive.counts(&queue),
                "{queue}"
            );
        }
        assert_eq!(store.queues().await?, naive.queues());
        let schedules = store.list_schedules(ScheduleFilter::default()).await?;
        assert_eq!(schedules, naive.schedules());
        Ok(())
    }

    /// A wake-up that was due is never lost; another queue's is no reason.
    fn check_waits(&mut self) {
        let listed: Vec<_> = self
            .naive
            .queues()
            .into_iter()
            .map(|info| info.queue)
            .collect();
        // Nothing can be runnable in a queue that holds nothing.
        self.waits.retain(|wait| listed.contains(&wait.queue));
        for wait in &self.waits {
            let queues = std::slice::from_ref(&wait.queue);
            let woken = self
                .store
                .await_wake(queues, wait.cursor)
                .now_or_never()
                .is_some();
            let due = self.naive.wakes[wait.wakes_before..].contains(&wait.queue);
            let stirred = self.naive.stirs[wait.stirs_before..].contains(&wait.queue);
            assert!(woken || !due, "a wake-up of {} was lost", wait.queue);
            assert!(stirred || !woken, "{} was woken for nothing", wait.queue);
        }
    }

    /// A wait ends if one of its jobs has ended since, and not otherwise.
    fn check_watches(&mut self) {
        for watch in &self.watches {
            let told = self
                .store
                .await_finished(&watch.ids, watch.cursor)
                .now_or_never();
            let ended = &self.naive.ends[watch.ends_before..];
            let due = watch.ids.iter().any(|id| ended.contains(id));
            assert_eq!(
                told.is_some(),
                due,
                "whether one of {:?} has ended",
                watch.ids
            );
        }
        // What is enqueued under the id of a job that is gone is another job.
        let is_there = |id: &JobId| self.naive.job(id).is_some();
        self.watches.retain(|watch| watch.ids.iter().all(is_there));
    }
}

fn without_words_of(record: Option<&mq_core::JobRecord>) -> Vec<mq_core::JobRecord> {
    without_words(record.cloned().into_iter().collect())
}

/// Lets everything run that can, and walks the whole store.
fn finale() -> impl Iterator<Item = Op> {
    let clear = QueueSettings {
        paused: Change::Clear,
        max_active: Change::Clear,
        rate: Change::Clear,
    };
    let walk = |order_by, states: Option<&[mq_core::JobState]>| {
        Op::Walk(ListFilter {
            order_by,
            states: states.map(<[_]>::to_vec),
            limit: Some(3),
            ..ListFilter::default()
        })
    };
    use mq_core::JobState::{Active, Cancelled, Completed, Delayed, Failed};
    let mut ops = vec![
        walk(OrderBy::RunAt, Some(&[Delayed])),
        walk(OrderBy::LockExpiresAt, Some(&[Active])),
        Op::Advance(Duration::from_secs(10)),
        Op::Recover {
            most_stalls: 9,
            limit: 250,
        },
    ];
    for queue in QUEUES {
        ops.push(Op::SetQueue(queue, clear));
        ops.push(Op::Claim {
            queue,
            names: NAMES.to_vec(),
            lock_for: Duration::from_secs(1),
            limit: 250,
        });
    }
    ops.extend([
        Op::Sweep(250),
        walk(OrderBy::EnqueuedAt, None),
        walk(OrderBy::FinishedAt, Some(&[Completed, Failed, Cancelled])),
    ]);
    ops.into_iter()
}
