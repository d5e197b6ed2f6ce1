//! A store that is compared with the model: does calls, and puts its answers in
//! a form that compares.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use mq_core::{
    AttemptRecord, Claim, ClaimRequest, JobId, JobRecord, ListFilter, OrderBy, QueueInfo,
    Recovered, Result, ScheduleFilter, ScheduleKey, ScheduleRecord, Store, StoreError, Tick,
    WakeCursor, WatchCursor,
};

use super::answer::{Answer, Claimed, Refused, each, without_words};
use super::call::Call;
use super::flow;
use super::known::STALE;

pub(super) struct Side {
    /// Handles on the same data.
    pub(super) handles: Vec<Arc<dyn Store>>,
    /// How long a wake-up may be on its way.
    pub(super) patience: Duration,
    /// The store's versions of schedules, by the model's.
    versions: HashMap<u64, u64>,
    /// The model's versions, by the store's.
    of_model: HashMap<(ScheduleKey, u64), u64>,
    /// The newest version of each schedule.
    newest: HashMap<ScheduleKey, u64>,
}

/// Where to wait from, after a claim or a watch.
#[derive(Clone)]
pub(super) enum Cursor {
    Wake(ClaimRequest, WakeCursor),
    Watch(Vec<JobId>, WatchCursor),
}

pub(super) struct Reply {
    pub(super) answer: Answer,
    pub(super) cursor: Option<Cursor>,
}

impl From<Answer> for Reply {
    fn from(answer: Answer) -> Self {
        Self {
            answer,
            cursor: None,
        }
    }
}

impl Side {
    pub(super) fn new(handles: Vec<Arc<dyn Store>>, patience: Duration) -> Self {
        Self {
            handles,
            patience,
            versions: HashMap::new(),
            of_model: HashMap::new(),
            newest: HashMap::new(),
        }
    }

    fn store(&self) -> &dyn Store {
        &*self.handles[0]
    }

    /// Does a call through a handle. An error is one that no call should meet.
    pub(super) async fn call(&mut self, handle: usize, call: &Call) -> Result<Reply> {
        let store = Arc::clone(&self.handles[handle % self.handles.len()]);
        Ok(match call.clone() {
            Call::Enqueue(jobs) => Answer::Enqueued(store.enqueue_many(jobs).await?).into(),
            Call::Claim(request) => {
                let claim = store.claim(request.clone()).await?;
                Reply {
                    cursor: Some(Cursor::Wake(request, claim.wake)),
                    answer: claimed(claim),
                }
            }
            Call::Ack(acks) => Answer::Acked(each(store.ack_many(acks).await?)).into(),
            Call::Release(locks) => Answer::Done(each(store.release_many(locks).await?)).into(),
            Call::Extend(locks, by) => {
                Answer::Extended(store.extend_locks(locks, by).await?).into()
            }
            Call::Progress(lock, value) => done(store.set_progress(lock, value).await),
            Call::Recover { most_stalls, limit } => recover(&*store, most_stalls, limit).await?,
            Call::Watch(ids) => watch(&*store, ids).await?,
            Call::Cancel(ids) => Answer::Cancelled(each(store.cancel_many(&ids).await?)).into(),
            Call::CancelByDedupe(name, key) => decided(store.cancel_by_dedupe(&name, &key).await),
            Call::Retry(id) => done(store.retry(&id).await),
            Call::Promote(id) => done(store.promote(&id).await),
            Call::Remove(id) => decided(store.remove(&id).await),
            Call::SetQueue(queue, settings) => done(store.set_queue(&queue, settings).await),
            Call::Sweep(limit) => sweep(&*store, limit).await?,
            Call::Upsert(new) => {
                let record = store.upsert_schedule(new).await?;
                Answer::Scheduled(record.into()).into()
            }
            Call::Tick(tick) => decided(store.tick_schedule(self.translated(tick)).await),
            Call::Unschedule(key) => decided(store.remove_schedule(&key).await),
            Call::Due(limit) => {
                let mut due = store.due_schedules(limit).await?;
                for record in &mut due.due {
                    self.translate_back(record);
                }
                Answer::Due(due).into()
            }
            Call::Report(reports) => {
                Answer::Reported(store.record_child_results(reports).await?).into()
            }
            Call::Children(id, limit) => flow::children(&*store, &id, limit).await?.into(),
            Call::Pending(of) => {
                let pending = store.pending_children(&of.flow, &of.manifest, &of.keys);
                Answer::Keys(pending.await?).into()
            }
            Call::Mark(of) => {
                let marked = store.mark_children_cascaded(&of.flow, &of.manifest, &of.keys);
                done(marked.await)
            }
            Call::Undelivered(parent, of) => {
                let found = store
                    .undelivered_reports(&parent, &of.flow, &of.manifest, &of.keys)
                    .await?;
                Answer::Outbox(flow::comparable_entries(found)).into()
            }
            Call::FlowSweep { age, limit } => flow::sweep(&*store, age, limit).await?.into(),
            Call::Outbox(limit) => {
                let all = flow::outbox(&*store, limit).await?;
                Answer::Outbox(flow::comparable_entries(all)).into()
            }
            Call::DeleteOutbox(places) => flow::delete(&*store, &places).await?.into(),
            Call::Walk(filter) => walk(&*store, filter).await?.into(),
        })
    }

    /// Learns which version the store has for one of the model's; an upsert
    /// that does not raise it is an error.
    pub(super) fn learn_version(
        &mut self,
        answer: &mut Answer,
        expected: &Answer,
    ) -> Result<(), String> {
        let (Answer::Scheduled(record), Answer::Scheduled(expected)) = (answer, expected) else {
            return Ok(());
        };
        let before = self.newest.insert(record.key.clone(), record.version);
        self.versions.insert(expected.version, record.version);
        let own = (record.key.clone(), record.version);
        self.of_model.insert(own, expected.version);
        if before.is_some_and(|before| before >= record.version) {
            return Err(format!("an upsert left {} at {before:?}", record.key));
        }
        record.version = expected.version;
        Ok(())
    }

    /// Forgets a schedule: the next one of its key may have any version.
    pub(super) fn forget(&mut self, key: &ScheduleKey) {
        self.newest.remove(key);
    }

    fn translated(&self, mut tick: Tick) -> Tick {
        let (version, stale) = (tick.version % STALE, tick.version / STALE * STALE);
        tick.version = self.versions.get(&version).map_or(0, |own| own + stale);
        tick
    }

    fn translate_back(&self, record: &mut ScheduleRecord) {
        let own = (record.key.clone(), record.version);
        record.version = self.of_model.get(&own).copied().unwrap_or(u64::MAX);
    }

    /// Jobs as they compare, each in its place.
    pub(super) async fn jobs(&self, ids: &[JobId]) -> Result<Vec<Option<JobRecord>>> {
        let read = self.store().get_jobs(ids).await?;
        let comparable =
            |job: Result<Option<JobRecord>>| Ok(without_words(job?.into_iter().collect()).pop());
        read.into_iter().map(comparable).collect()
    }

    pub(super) async fn attempts(&self, id: &JobId) -> Result<Vec<AttemptRecord>> {
        self.store().get_attempts(id).await
    }

    pub(super) async fn queues(&self) -> Result<Vec<QueueInfo>> {
        self.store().queues().await
    }

    pub(super) async fn schedules(&self) -> Result<Vec<ScheduleRecord>> {
        let filter = ScheduleFilter::default();
        let mut records = self.store().list_schedules(filter).await?;
        for record in &mut records {
            self.translate_back(record);
        }
        Ok(records)
    }
}

fn claimed(claim: Claim) -> Answer {
    Answer::Claimed(Claimed {
        jobs: without_words(claim.jobs),
        next_run_at: claim.next_run_at,
        now: claim.now,
    })
}

fn done(answer: Result<()>) -> Reply {
    Answer::Done(vec![answer.map_err(Refused::from)]).into()
}

fn decided(answer: Result<bool>) -> Reply {
    Answer::Decided(answer.map_err(Refused::from)).into()
}

async fn recover(store: &dyn Store, most_stalls: u32, limit: u32) -> Result<Reply> {
    let mut all = Vec::new();
    loop {
        let Recovered { stalled, more } = store.recover_stalled(most_stalls, limit).await?;
        all.extend(stalled);
        if !more {
            break;
        }
    }
    all.sort_by(|one, other| one.id.cmp(&other.id));
    Ok(Answer::Recovered(all).into())
}

async fn watch(store: &dyn Store, ids: Vec<JobId>) -> Result<Reply> {
    let watch = store.watch(&ids).await?;
    let is_awaited = |id: &JobId| !watch.finished.contains(id);
    let awaited = ids.into_iter().filter(is_awaited).collect();
    Ok(Reply {
        cursor: Some(Cursor::Watch(awaited, watch.cursor)),
        answer: Answer::Finished(watch.finished),
    })
}

async fn sweep(store: &dyn Store, limit: u32) -> Result<Reply> {
    let mut deleted = 0;
    loop {
        let swept = store.sweep_history(limit).await?;
        deleted += swept.deleted;
        if !swept.more {
            return Ok(Answer::Deleted(deleted).into());
        }
    }
}

/// Reads a list to its end.
async fn walk(store: &dyn Store, mut filter: ListFilter) -> Result<Answer> {
    let mut items = Vec::new();
    loop {
        let page = match store.list(filter.clone()).await {
            Err(StoreError::Unsupported { .. }) if !is_promised(&filter) => {
                return Ok(Answer::Unsupported);
            }
            page => page?,
        };
        items.extend(page.items);
        filter.cursor = page.cursor;
        if filter.cursor.is_none() {
            return Ok(Answer::Listed(without_words(items)));
        }
    }
}

/// Whether the contract has every store serve the query.
fn is_promised(filter: &ListFilter) -> bool {
    let plain = filter.metadata.is_empty() && !filter.flow_parents;
    match filter.order_by {
        OrderBy::EnqueuedAt => true,
        OrderBy::RunAt => plain && filter.queue.is_some() && filter.name.is_none(),
        OrderBy::LockExpiresAt => plain && filter.queue.is_none() && filter.name.is_none(),
        OrderBy::FinishedAt => plain && (filter.queue.is_none() || filter.name.is_none()),
    }
}
