//! Gives a worker its flows, through what it offers to whoever extends it.

use std::sync::Arc;
use std::time::Duration;

use mq_core::{AckOutcome, Job, LONGEST, SameStoreAs, Store, StoreHandle, StoreKey, StoreName};
use mq_worker::{DurationRule, SettledRun, StartError, WorkerBuilder};
use tokio::sync::mpsc;

use crate::fan_out::FanOuts;
use crate::flow::Flow;
use crate::hub::{FanOut, Hub};
use crate::members::StoresFor;
use crate::phases::Phases;
use crate::relay::Relay;
use crate::sweep::Sweeper;

/// What a [`WorkerBuilder`] can do with flows.
pub trait FlowWorker<S: StoreName>: Sized {
    /// Runs both phases of this flow's parents, and serves their queue. Give it
    /// a handle of each store that its children live on, each once: a tuple in
    /// any order, or the only one. Handlers of the children are registered on
    /// workers of their own stores.
    fn flow<F, H, I>(self, flow: F, stores: H) -> Self
    where
        F: Flow,
        S: SameStoreAs<<F::Parent as Job>::Store>,
        H: StoresFor<F::Children, I>;

    /// Delivers reports of children to their parents on this store the moment
    /// their acks have landed, if this worker runs only children. Without it
    /// another worker delivers them, up to a [`flow_interval`] later.
    ///
    /// [`flow_interval`]: Self::flow_interval
    fn relay_to<P: StoreName>(self, store: &StoreHandle<P>) -> Self;

    /// How often flows are swept and outboxes read without being woken, and
    /// how long a child is pending before it is looked for; 30 s. Workers of
    /// one store should agree on it. An enqueue must land within it or not at
    /// all.
    fn flow_interval(self, interval: Duration) -> Self;
}

/// What belongs to one builder.
#[derive(Default)]
struct Installed {
    hub: Option<Arc<Hub>>,
    /// What the task that enqueues children reads, until there is that task.
    landed: Option<mpsc::UnboundedReceiver<FanOut>>,
}

impl<S: StoreName> FlowWorker<S> for WorkerBuilder<S> {
    fn flow<F, H, I>(self, flow: F, stores: H) -> Self
    where
        F: Flow,
        S: SameStoreAs<<F::Parent as Job>::Store>,
        H: StoresFor<F::Children, I>,
    {
        let (mut builder, hub) = hub_of(self);
        if let Some(landed) = builder.extension::<Installed>().landed.take() {
            builder = builder
                .maintenance(FanOuts::new(Arc::clone(&hub), landed))
                .maintenance(Sweeper(Arc::clone(&hub)));
        }
        for (name, store) in stores.stores() {
            builder = hold(builder, &hub, name, store);
        }
        builder.register_phases::<F::Parent>(Phases {
            flow,
            store: Arc::clone(&hub.own_store),
        })
    }

    fn relay_to<P: StoreName>(self, store: &StoreHandle<P>) -> Self {
        let (builder, hub) = hub_of(self);
        hold(
            builder,
            &hub,
            StoreKey::from(P::NAME),
            Arc::clone(store.store()),
        )
    }

    fn flow_interval(self, interval: Duration) -> Self {
        let (builder, hub) = hub_of(self);
        hub.set_interval(interval);
        builder
    }
}

/// The builder's hub; made, with the relay of the worker's own store, if there
/// is none yet.
fn hub_of<S: StoreName>(mut builder: WorkerBuilder<S>) -> (WorkerBuilder<S>, Arc<Hub>) {
    if let Some(hub) = &builder.extension::<Installed>().hub {
        let hub = Arc::clone(hub);
        return (builder, hub);
    }
    let (name, store) = (StoreKey::from(S::NAME), Arc::clone(builder.store()));
    let (hub, landed) = Hub::new(name.clone(), Arc::clone(&store));
    let hub = Arc::new(hub);
    *builder.extension() = Installed {
        hub: Some(Arc::clone(&hub)),
        landed: Some(landed),
    };
    let hooked = Arc::clone(&hub);
    let builder = builder.after_ack(move |settled| after_ack(&hooked, settled));
    (hold(builder, &hub, name, store), hub)
}

/// Holds a store, and drains its outbox.
fn hold<S: StoreName>(
    builder: WorkerBuilder<S>,
    hub: &Arc<Hub>,
    name: StoreKey,
    store: Arc<dyn Store>,
) -> WorkerBuilder<S> {
    match hub.hold(name.clone(), store) {
        Some(held) => builder.maintenance(Relay::new(Arc::clone(hub), name, held)),
        None => builder,
    }
}

fn after_ack(hub: &Hub, settled: &SettledRun<'_>) {
    // Any ack may end the run of a child: a cancel may have raced it.
    if settled.job.parent.is_some() {
        hub.pulse_relay(&hub.own);
    }
    if let AckOutcome::FanOut { children, .. } = settled.outcome {
        hub.landed(FanOut {
            flow_id: settled.job.id.clone(),
            manifest: settled.lock.token.clone(),
            children: children.clone(),
        });
    }
}

impl Hub {
    /// Whether the options can be used.
    pub(crate) fn check(&self) -> Result<(), StartError> {
        let value = self.interval();
        let rule = match value {
            _ if value < Duration::from_millis(1) => DurationRule::TooShort,
            _ if value > LONGEST => DurationRule::TooLong,
            _ => return Ok(()),
        };
        Err(StartError::Duration {
            option: "flow_interval",
            value,
            rule,
        })
    }
}
