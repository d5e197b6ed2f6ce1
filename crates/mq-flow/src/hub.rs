//! What the parts of a worker's flows share: the stores it holds, and ways to
//! wake each other.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use mq_core::{FlowChild, JobId, LockToken, Store, StoreKey};
use mq_worker::Pulse;
use parking_lot::RwLock;
use tokio::sync::mpsc;

/// The default of `flow_interval`.
const INTERVAL: Duration = Duration::from_secs(30);

/// A fan-out that has landed.
#[derive(Debug)]
pub(crate) struct FanOut {
    pub(crate) flow_id: JobId,
    pub(crate) manifest: LockToken,
    pub(crate) children: Vec<FlowChild>,
}

/// A store that the worker holds.
#[derive(Clone)]
pub(crate) struct Held {
    pub(crate) store: Arc<dyn Store>,
    /// Makes the relay of its outbox begin at once.
    pub(crate) relay: Pulse,
}

pub(crate) struct Hub {
    /// The name of the store the worker takes jobs from.
    pub(crate) own: StoreKey,
    pub(crate) own_store: Arc<dyn Store>,
    stores: RwLock<BTreeMap<StoreKey, Held>>,
    interval: RwLock<Duration>,
    /// Makes the sweeper begin at once.
    pub(crate) sweep: Pulse,
    /// Makes the children of landed fan-outs be enqueued at once.
    pub(crate) fanned_out: Pulse,
    fan_outs: mpsc::UnboundedSender<FanOut>,
}

impl Hub {
    pub(crate) fn new(
        own: StoreKey,
        own_store: Arc<dyn Store>,
    ) -> (Self, mpsc::UnboundedReceiver<FanOut>) {
        let (fan_outs, landed) = mpsc::unbounded_channel();
        let hub = Self {
            own,
            own_store,
            stores: RwLock::default(),
            interval: RwLock::new(INTERVAL),
            sweep: Pulse::new(),
            fanned_out: Pulse::new(),
            fan_outs,
        };
        (hub, landed)
    }

    /// Holds a store; answers it if it is new.
    pub(crate) fn hold(&self, name: StoreKey, store: Arc<dyn Store>) -> Option<Held> {
        let mut stores = self.stores.write();
        if stores.contains_key(&name) {
            return None;
        }
        let held = Held {
            store,
            relay: Pulse::new(),
        };
        stores.insert(name, held.clone());
        Some(held)
    }

    pub(crate) fn store(&self, name: &StoreKey) -> Option<Held> {
        self.stores.read().get(name).cloned()
    }

    pub(crate) fn interval(&self) -> Duration {
        *self.interval.read()
    }

    pub(crate) fn set_interval(&self, interval: Duration) {
        *self.interval.write() = interval;
    }

    /// Hands over a fan-out whose children are to be enqueued.
    pub(crate) fn landed(&self, fan_out: FanOut) {
        // Nobody listens once the worker has stopped: that is what sweepers are for.
        let _ = self.fan_outs.send(fan_out);
        self.fanned_out.send();
    }

    /// A report may be in this store's outbox.
    pub(crate) fn pulse_relay(&self, store: &StoreKey) {
        if let Some(held) = self.store(store) {
            held.relay.send();
        }
    }

    /// A flow has settled here: it may owe cancels, and a report of its own.
    pub(crate) fn settled(&self, store: &StoreKey) {
        self.pulse_relay(store);
        if *store == self.own {
            self.sweep.send();
        }
    }
}
