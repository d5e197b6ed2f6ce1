//! A store in whose calls the process dies, at a step that its command line names.

use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::clock::Instant;
use crate::event::Event;
use crate::log::Writer;
use mq_core::layer::StoreLayer;
use mq_core::{
    Ack, AckOutcome, Acked, Cancelled, ChildKey, Enqueued, FlowSweepWork, JobId, JobRecord,
    LockToken, NewJob, OutboxEntry, OutboxId, OutboxPage, Report, ReportApplied, Result, Store,
    StoreKey,
};

/// Where a process dies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    /// The store whose call it is.
    pub(crate) store: String,
    /// Which call: an operation's name, or for an ack `park`, `collect` or `child`.
    call: String,
    /// Which of these calls, from 1.
    number: u64,
    when: When,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum When {
    Before,
    After,
}

impl FromStr for Step {
    type Err = String;

    /// Reads `pg:enqueue_many:1:before`.
    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let wrong = || format!("{text:?} is no step: say, for example, pg:enqueue_many:1:before");
        let parts: Vec<&str> = text.split(':').collect();
        let [store, call, number, when] = parts[..] else {
            return Err(wrong());
        };
        Ok(Self {
            store: store.to_owned(),
            call: call.to_owned(),
            number: number.parse().map_err(|_| wrong())?,
            when: match when {
                "before" => When::Before,
                "after" => When::After,
                _ => return Err(wrong()),
            },
        })
    }
}

/// A store with a step in it where the process dies, if it has one.
pub(crate) struct Trap {
    pub(crate) inner: Arc<dyn Store>,
    pub(crate) step: Option<Step>,
    pub(crate) calls: AtomicU64,
    pub(crate) outbox: Outbox,
    pub(crate) log: Writer,
}

/// Whether a process reads the outbox of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outbox {
    Open,
    /// It finds nothing there, so that it relays nothing.
    Closed,
}

impl Trap {
    /// Counts a call, and dies if it is before the one; otherwise answers whether
    /// to die after it.
    fn enter(&self, call: &str) -> Option<&Step> {
        let step = self.step.as_ref().filter(|step| step.call == call)?;
        let number = self.calls.fetch_add(1, Ordering::SeqCst) + 1;
        if number != step.number {
            return None;
        }
        match step.when {
            When::Before => self.die(step),
            When::After => Some(step),
        }
    }

    fn leave(&self, due: Option<&Step>) {
        if let Some(step) = due {
            self.die(step);
        }
    }

    /// Ends the process as `kill -9` does.
    fn die(&self, step: &Step) -> ! {
        self.log.write(&Event::Struck {
            at: Instant::now(),
            fault: format!("dies {:?} {} {}", step.when, step.call, step.number),
        });
        let own = rustix::process::getpid();
        if rustix::process::kill_process(own, rustix::process::Signal::KILL).is_ok() {
            loop {
                std::thread::park();
            }
        }
        std::process::abort()
    }
}

fn ack_name(ack: &Ack) -> &'static str {
    match ack.outcome {
        AckOutcome::FanOut { .. } => "park",
        _ if ack.lock.id.starts_with("flow/") => "child",
        _ => "collect",
    }
}

macro_rules! trapped {
    ($(async fn $call:ident(&self $(, $argument:ident: $type:ty)*) -> $answer:ty;)*) => {
        #[mq_core::async_trait]
        impl StoreLayer for Trap {
            type Inner = dyn Store;

            fn inner(&self) -> &Self::Inner {
                &*self.inner
            }

            $(
                async fn $call(&self $(, $argument: $type)*) -> $answer {
                    let due = self.enter(stringify!($call));
                    let answer = self.inner.$call($($argument),*).await;
                    self.leave(due);
                    answer
                }
            )*

            async fn ack_many(&self, acks: Vec<Ack>) -> Result<Vec<Result<Acked>>> {
                let due: Vec<_> = acks.iter().filter_map(|ack| self.enter(ack_name(ack))).collect();
                let answer = self.inner.ack_many(acks).await;
                self.leave(due.first().copied());
                answer
            }

            async fn peek_outbox(&self, after: Option<&OutboxId>, limit: u32) -> Result<OutboxPage> {
                if self.outbox == Outbox::Closed {
                    return Ok(OutboxPage::default());
                }
                let page = self.inner.peek_outbox(after, limit).await;
                // One that finds nothing is no step of the protocol.
                if page.as_ref().is_ok_and(|page| !page.entries.is_empty()) {
                    self.leave(self.enter("peek_outbox"));
                }
                page
            }

            async fn flow_sweep_work(&self, pending_age: Duration, limit: u32) -> Result<FlowSweepWork> {
                let work = self.inner.flow_sweep_work(pending_age, limit).await;
                let found = |work: &FlowSweepWork| !work.reconcile.is_empty() || !work.cascade.is_empty();
                if work.as_ref().is_ok_and(found) {
                    self.leave(self.enter("flow_sweep_work"));
                }
                work
            }
        }
    };
}

trapped! {
    async fn enqueue_many(&self, jobs: Vec<NewJob>) -> Result<Vec<Enqueued>>;
    async fn get_jobs(&self, ids: &[JobId]) -> Result<Vec<Result<Option<JobRecord>>>>;
    async fn cancel_many(&self, ids: &[JobId]) -> Result<Vec<Result<Cancelled>>>;
    async fn record_child_results(&self, reports: Vec<Report>) -> Result<Vec<ReportApplied>>;
    async fn pending_children(&self, flow_id: &JobId, manifest: &LockToken, keys: &[ChildKey]) -> Result<Vec<ChildKey>>;
    async fn mark_children_cascaded(&self, flow_id: &JobId, manifest: &LockToken, keys: &[ChildKey]) -> Result<()>;
    async fn delete_outbox(&self, ids: &[OutboxId]) -> Result<()>;
    async fn undelivered_reports(&self, parent_store: &StoreKey, flow_id: &JobId, manifest: &LockToken, keys: &[ChildKey]) -> Result<Vec<OutboxEntry>>;
}
