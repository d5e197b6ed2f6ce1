//! The relay: peeks an outbox, records its reports in the parents' stores, and
//! deletes them. In this order: a relay that dies in between delivers twice,
//! which does no harm.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use mq_core::validate::MAX_BATCH;
use mq_core::{OutboxEntry, OutboxId, Report, Result, StoreError, StoreKey, async_trait};
use mq_worker::{MaintenanceTask, Pulse, StartError};
use parking_lot::Mutex;
use tokio::time::Instant;
use tracing::{debug, warn};

use crate::hub::{Held, Hub};
use crate::patience::patiently;
use crate::record::record;

/// The first wait before a parents' store that failed is tried again.
const FIRST_WAIT: Duration = Duration::from_millis(250);

/// Drains the outbox of one store.
pub(crate) struct Relay {
    hub: Arc<Hub>,
    name: String,
    from: StoreKey,
    held: Held,
    progress: Mutex<Progress>,
}

#[derive(Default)]
struct Progress {
    /// The parents' stores that failed: not tried again before that time.
    down: HashMap<StoreKey, Down>,
    /// Before this are only reports for stores out of reach.
    skipped: Option<OutboxId>,
    /// When the outbox was last read from its beginning.
    whole: Option<Instant>,
}

#[derive(Clone, Copy)]
struct Down {
    until: Instant,
    wait: Duration,
}

impl Relay {
    pub(crate) fn new(hub: Arc<Hub>, from: StoreKey, held: Held) -> Self {
        Self {
            name: format!("relay of {from}"),
            hub,
            from,
            held,
            progress: Mutex::default(),
        }
    }

    /// Where to begin to read. Reports for a store out of reach are not read
    /// at each pulse, since there may be any number of them.
    fn begin(&self) -> Option<OutboxId> {
        let mut progress = self.progress.lock();
        let now = Instant::now();
        let is_old = |read: Instant| now >= read + self.hub.interval();
        let returns = |down: &Down| down.until <= now;
        if progress.whole.is_none_or(is_old) || progress.down.values().any(returns) {
            progress.whole = Some(now);
            progress.skipped = None;
        }
        progress.skipped.clone()
    }

    fn is_down(&self, store: &StoreKey) -> bool {
        let down = self.progress.lock().down.get(store).copied();
        down.is_some_and(|down| down.until > Instant::now())
    }

    fn note_answer(&self, store: &StoreKey, answer: &Result<()>) {
        let mut progress = self.progress.lock();
        let Err(error) = answer else {
            progress.down.remove(store);
            return;
        };
        let before = progress.down.get(store);
        if before.is_none() {
            warn!(from = %self.from, to = %store, %error, "reports cannot be delivered, to be tried again");
        }
        let wait = before.map_or(FIRST_WAIT, |down| down.wait.saturating_mul(2));
        let wait = wait.min(self.hub.interval());
        let until = Instant::now() + wait;
        progress.down.insert(store.clone(), Down { until, wait });
    }

    /// How long until there is something to do without a pulse.
    fn wait(&self) -> Duration {
        let mut progress = self.progress.lock();
        let now = Instant::now();
        // Its time came, and there was nothing for it any more.
        progress.down.retain(|_, down| down.until > now);
        let returns = progress.down.values().map(|down| down.until - now);
        returns.fold(self.hub.interval(), Duration::min)
    }

    /// Delivers a page, and answers how many of its entries are out of the box.
    async fn deliver(&self, entries: Vec<OutboxEntry>) -> Result<usize> {
        let mut groups: BTreeMap<StoreKey, (Vec<OutboxId>, Vec<Report>)> = BTreeMap::new();
        for entry in entries {
            let (ids, reports) = groups.entry(entry.parent_store).or_default();
            ids.push(entry.id);
            reports.push(entry.report);
        }
        let deliveries = groups.into_iter().map(|(to, (ids, reports))| async move {
            let Some(held) = self.hub.store(&to) else {
                debug!(from = %self.from, %to, count = ids.len(), "reports for a store this worker does not hold");
                return Vec::new();
            };
            if self.is_down(&to) {
                return Vec::new();
            }
            let answer = record(&self.hub, &to, &held, reports).await;
            self.note_answer(&to, &answer);
            answer.map_or_else(|_| Vec::new(), |()| ids)
        });
        let delivered = join_all(deliveries).await.concat();
        if !delivered.is_empty() {
            patiently(self.held.store.delete_outbox(&delivered)).await?;
        }
        Ok(delivered.len())
    }
}

#[async_trait]
impl MaintenanceTask for Relay {
    fn name(&self) -> &str {
        &self.name
    }

    fn check(&self) -> Result<(), StartError> {
        self.hub.check()
    }

    fn pulse(&self) -> Option<Pulse> {
        Some(self.held.relay.clone())
    }

    async fn round(&self) -> Result<Duration, StoreError> {
        let mut after = self.begin();
        let mut only_skipped = true;
        loop {
            let store = &self.held.store;
            let page = patiently(store.peek_outbox(after.as_ref(), MAX_BATCH)).await?;
            let Some(last) = page.entries.last().map(|entry| entry.id.clone()) else {
                break;
            };
            let delivered = self.deliver(page.entries).await?;
            only_skipped &= delivered == 0;
            if only_skipped && page.more {
                self.progress.lock().skipped = Some(last.clone());
            }
            if !page.more {
                break;
            }
            after = Some(last);
        }
        Ok(self.wait())
    }
}
