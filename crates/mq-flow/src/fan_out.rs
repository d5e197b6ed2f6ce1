//! Enqueues the children of fan-outs that have landed. What does not succeed
//! is left to the sweeper.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;
use std::time::Duration;

use futures::StreamExt;
use futures::future::join_all;
use futures::stream::poll_fn;
use mq_core::validate::MAX_BATCH;
use mq_core::{FlowChild, StoreError, StoreKey, async_trait};
use mq_worker::{MaintenanceTask, Pulse};
use tokio::sync::{Mutex, mpsc};
use tokio::time::sleep;
use tracing::{debug, warn};

use crate::enqueue::Enqueuer;
use crate::hub::{FanOut, Hub};

/// How many fan-outs are enqueued at a time, so that a large one does not hold
/// up small ones.
const AT_A_TIME: usize = 16;

/// How often a batch is tried, and the first wait in between.
const TRIES: u32 = 5;
const FIRST_WAIT: Duration = Duration::from_millis(100);

pub(crate) struct FanOuts {
    hub: Arc<Hub>,
    landed: Mutex<mpsc::UnboundedReceiver<FanOut>>,
}

impl FanOuts {
    pub(crate) fn new(hub: Arc<Hub>, landed: mpsc::UnboundedReceiver<FanOut>) -> Self {
        Self {
            hub,
            landed: Mutex::new(landed),
        }
    }

    async fn enqueue(&self, fan_out: &FanOut) {
        let mut by_store: BTreeMap<&StoreKey, Vec<&FlowChild>> = BTreeMap::new();
        for child in &fan_out.children {
            by_store.entry(&child.store).or_default().push(child);
        }
        let stores = by_store.into_iter();
        join_all(stores.map(|(store, children)| self.enqueue_into(fan_out, store, children))).await;
    }

    async fn enqueue_into(&self, fan_out: &FanOut, store: &StoreKey, children: Vec<&FlowChild>) {
        let (Some(parents), Some(held)) = (self.hub.store(&self.hub.own), self.hub.store(store))
        else {
            // The compiler sees to it that a flow's worker holds them.
            return;
        };
        let (flow_id, manifest) = (&fan_out.flow_id, &fan_out.manifest);
        let mut enqueuer = Enqueuer::new(&self.hub, &parents, &held, flow_id, manifest);
        for batch in children.chunks(MAX_BATCH as usize) {
            let mut wait = FIRST_WAIT;
            for tried in 1..=TRIES {
                match enqueuer.enqueue(batch).await {
                    Ok(reports) => {
                        if !reports.is_empty() {
                            held.relay.send();
                        }
                        break;
                    }
                    Err(error) if tried == TRIES => {
                        warn!(
                            %flow_id, %store, %error,
                            "children cannot be enqueued now; a sweeper will do it"
                        );
                        return finish(&mut enqueuer).await;
                    }
                    Err(error) => {
                        debug!(%flow_id, %store, %error, "children cannot be enqueued, to be tried again");
                        sleep(wait).await;
                        wait *= 2;
                    }
                }
            }
        }
        finish(&mut enqueuer).await;
    }
}

/// Looks again, whatever became of the last batch.
async fn finish(enqueuer: &mut Enqueuer<'_>) {
    let mut wait = FIRST_WAIT;
    for _ in 0..TRIES {
        match enqueuer.finish().await {
            Ok(()) => return,
            // If the flow has closed, the cancel that its rows owe finds them.
            Err(error) => debug!(%error, "children cannot be looked at again, to be tried again"),
        }
        sleep(wait).await;
        wait *= 2;
    }
}

#[async_trait]
impl MaintenanceTask for FanOuts {
    fn name(&self) -> &str {
        "fan-outs"
    }

    fn pulse(&self) -> Option<Pulse> {
        Some(self.hub.fanned_out.clone())
    }

    /// Ends when nothing has landed that is not enqueued. Those that land while
    /// others are under way do not wait for them.
    async fn round(&self) -> Result<Duration, StoreError> {
        let mut landed = self.landed.lock().await;
        let under_way = AtomicUsize::new(0);
        poll_fn(|context| match landed.poll_recv(context) {
            Poll::Pending if under_way.load(Ordering::SeqCst) == 0 => Poll::Ready(None),
            next => next,
        })
        .inspect(|_| _ = under_way.fetch_add(1, Ordering::SeqCst))
        .for_each_concurrent(AT_A_TIME, |fan_out| async {
            self.enqueue(&fan_out).await;
            drop(fan_out);
            under_way.fetch_sub(1, Ordering::SeqCst);
        })
        .await;
        Ok(self.hub.interval())
    }
}
