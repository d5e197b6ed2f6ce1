//! Stores and the model side by side, compared after each step.

use std::collections::HashMap;
use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use mq_core::contract::{StoreFactory, StoreOptions};
use mq_core::{
    Change, HistoryCeiling, IdGenerator, JobId, JobState, ListFilter, ManualClock, MemoryStore,
    OrderBy, QueueSettings, Store, StoreError, Timestamp,
};

use super::answer::Answer;
use super::call::Call;
use super::draw::{NAMES, QUEUES};
use super::known::Known;
use super::naive::Naive;
use super::op::{Op, Step};
use super::side::{Reply, Side};
use super::wait::Waits;

/// What a sequence ends with: nothing, or what differed.
pub(super) type Played<T = ()> = Result<T, String>;

pub(super) struct Scene {
    clock: ManualClock,
    naive: Naive,
    known: Known,
    /// The store under test, then the in-memory one.
    stores: Vec<Compared>,
    /// How long each job's ledger was when it was last compared.
    ledgers: HashMap<JobId, u32>,
}

struct Compared {
    who: &'static str,
    side: Side,
    waits: Waits,
}

impl Scene {
    pub(super) async fn open(
        factory: &dyn StoreFactory,
        start: Timestamp,
        ceiling: Option<HistoryCeiling>,
    ) -> Self {
        let clock = ManualClock::new(start);
        let mut options = StoreOptions::new(clock.clone());
        options.history_ceiling = ceiling;
        options.id_generator = Some(counting());
        let opened = factory.open(options).await;
        let handles = vec![Arc::clone(opened.store()), opened.open_second().await];
        let memory: Arc<dyn Store> = Arc::new(memory(&clock, ceiling));
        let compared = |who, side| Compared {
            who,
            side,
            waits: Waits::default(),
        };
        Self {
            clock,
            naive: Naive::new(start, ceiling),
            known: Known::default(),
            stores: vec![
                compared("the store", Side::new(handles, factory.patience())),
                compared(
                    "the in-memory store",
                    Side::new(vec![memory], Duration::ZERO),
                ),
            ],
            ledgers: HashMap::new(),
        }
    }

    /// Does the steps, then lets everything run that can, and compares after
    /// each.
    pub(super) async fn play(&mut self, steps: Vec<Step>) -> Played {
        for step in steps.into_iter().chain(finale()) {
            let what = format!("{:?}", step.op);
            self.step(step)
                .await
                .map_err(|difference| format!("{difference}\nat {what}"))?;
        }
        self.compare_all().await
    }

    async fn step(&mut self, Step { handle, op }: Step) -> Played {
        if let Op::Advance(by) = op {
            self.clock.advance(by);
            self.naive.now = self.naive.now.saturating_add(by);
        } else if let Some(call) = self.known.resolve(op, &self.naive) {
            self.call(handle, call).await?;
        }
        self.compare().await?;
        for Compared { who, side, waits } in &mut self.stores {
            let checked = waits.check(side, &self.naive).await;
            checked.map_err(|lost| format!("{who}: {lost}"))?;
        }
        Ok(())
    }

    async fn call(&mut self, handle: usize, call: Call) -> Played {
        let mut replies: Vec<Reply> = Vec::new();
        let mut drawn = call.clone();
        for Compared { who, side, .. } in &mut self.stores {
            let called = side.call(handle, &drawn).await;
            let reply = called.map_err(|error| format!("{who} failed: {error}"))?;
            fill_in(&mut drawn, &reply.answer);
            replies.push(reply);
        }
        let expected = self.naive.answer(&drawn);
        for (compared, mut reply) in self.stores.iter_mut().zip(replies) {
            let Compared { who, side, waits } = compared;
            side.learn_version(&mut reply.answer, &expected)?;
            if let Call::Unschedule(key) = &call {
                side.forget(key);
            }
            if reply.answer != Answer::Unsupported {
                same(who, "the answer", &reply.answer, &expected)?;
            }
            if let Some(cursor) = reply.cursor {
                waits.begin(handle, cursor, &self.naive);
            }
        }
        self.known.learn(call, &expected);
        Ok(())
    }

    /// What a step may have changed must agree.
    async fn compare(&mut self) -> Played {
        let ids = &self.known.ids;
        let expected: Vec<_> = ids.iter().map(|id| self.naive.readable(id)).collect();
        let queues = self.naive.queues();
        for Compared { who, side, .. } in &self.stores {
            let jobs = side.jobs(ids).await.map_err(failed(who))?;
            for ((id, read), expected) in ids.iter().zip(&jobs).zip(&expected) {
                same(who, &format!("the job {id:?}"), read, expected)?;
            }
            let read = side.queues().await.map_err(failed(who))?;
            same(who, "the queues", &read, &queues)?;
            for id in ids {
                let attempts = self.naive.attempts(id);
                let written = attempts.last().map_or(0, |last| last.attempt);
                if self.ledgers.get(id).copied().unwrap_or(0) != written {
                    let read = side.attempts(id).await.map_err(failed(who))?;
                    same(who, &format!("the ledger of {id:?}"), &read, &attempts)?;
                }
            }
        }
        for id in ids {
            let written = self
                .naive
                .attempts(id)
                .last()
                .map_or(0, |last| last.attempt);
            self.ledgers.insert(id.clone(), written);
        }
        Ok(())
    }

    /// All that can be read must agree.
    async fn compare_all(&mut self) -> Played {
        self.ledgers.clear();
        self.compare().await?;
        for Compared { who, side, .. } in &self.stores {
            for id in &self.known.ids {
                let read = side.attempts(id).await.map_err(failed(who))?;
                let expected = self.naive.attempts(id);
                same(who, &format!("the ledger of {id:?}"), &read, &expected)?;
            }
            let read = side.schedules().await.map_err(failed(who))?;
            same(who, "the schedules", &*read, self.naive.schedules())?;
            for queue in QUEUES.map(Into::into) {
                let read = side.handles[0].counts(Some(&queue)).await;
                let read = read.map_err(failed(who))?;
                same(who, "the counts", &read, &self.naive.counts(&queue))?;
            }
            let now = side.handles[0].now().await.map_err(failed(who))?;
            same(who, "the time", &now, &self.naive.now)?;
        }
        Ok(())
    }
}

fn failed(who: &'static str) -> impl Fn(StoreError) -> String {
    move |error| format!("{who} could not be read: {error}")
}

fn same<T: Debug + PartialEq + ?Sized>(who: &str, what: &str, is: &T, expected: &T) -> Played {
    if is == expected {
        return Ok(());
    }
    Err(format!(
        "{what} of {who} differs\n      is: {is:?}\nexpected: {expected:?}"
    ))
}

/// Puts the ids that a store drew into the request. Where nothing was stored an
/// id stands that nobody has.
fn fill_in(call: &mut Call, answer: &Answer) {
    if let (Call::Enqueue(jobs), Answer::Enqueued(enqueued)) = (call, answer) {
        for (place, (job, answer)) in jobs.iter_mut().zip(enqueued).enumerate() {
            job.id.get_or_insert_with(|| match answer.duplicate {
                true => format!("not drawn {place}").into(),
                false => answer.id.clone(),
            });
        }
    }
}

/// Draws `auto0`, `auto1` and so on.
fn counting() -> IdGenerator {
    let drawn = AtomicU64::new(0);
    Arc::new(move || JobId::from(format!("auto{}", drawn.fetch_add(1, Ordering::Relaxed))))
}

fn memory(clock: &ManualClock, ceiling: Option<HistoryCeiling>) -> MemoryStore {
    let builder = MemoryStore::builder().time(clock.clone());
    match ceiling {
        Some(ceiling) => builder.history_ceiling(ceiling).build(),
        None => builder.build(),
    }
}

/// Lets everything run that can, and walks the whole store.
fn finale() -> impl Iterator<Item = Step> {
    let clear = QueueSettings {
        paused: Change::Clear,
        max_active: Change::Clear,
        rate: Change::Clear,
    };
    let walk = |order_by, states: Option<&[JobState]>| {
        Op::Walk(ListFilter {
            order_by,
            states: states.map(<[_]>::to_vec),
            limit: Some(3),
            ..ListFilter::default()
        })
    };
    use JobState::{Active, Cancelled, Completed, Delayed, Failed};
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
        Op::Outbox(2),
        Op::FlowSweep(2),
        Op::Children(0, 2),
        Op::Children(1, 2),
        Op::Sweep(250),
        walk(OrderBy::EnqueuedAt, None),
        walk(OrderBy::FinishedAt, Some(&[Completed, Failed, Cancelled])),
    ]);
    ops.into_iter().map(|op| Step { handle: 0, op })
}
