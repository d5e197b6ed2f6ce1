//! The process that runs flows: a worker on each store that it has work for.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use mq_core::{Store, StoreHandle, StoreName};
use mq_diesel_pg::PgStore;
use mq_flow::FlowWorker;
use mq_redis::RedisStore;
use mq_worker::{StartError, Worker, WorkerBuilder};

use super::jobs::{Gather, Pg, Redis, run_leaf};
use super::trap::{Outbox, Step, Trap};
use crate::log::Writer;
use crate::probe::Probe;
use crate::sabotage::{LostReports, Sabotage};
use crate::worker::bind;

/// Where the two stores are.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Stores {
    #[arg(long)]
    pub(crate) pg: String,
    #[arg(long, default_value = "public")]
    pub(crate) schema: String,
    #[arg(long)]
    pub(crate) redis: String,
    #[arg(long, default_value = "mq")]
    pub(crate) prefix: String,
}

impl Stores {
    /// Opens the store on Postgres, which may be down at the moment.
    pub(crate) async fn open_pg(&self) -> Arc<dyn Store> {
        loop {
            let builder = PgStore::builder(&self.pg).schema(&self.schema);
            match builder.pool_size(8).open().await {
                Ok(store) => return Arc::new(store),
                Err(error) => eprintln!("cannot open the store on Postgres yet: {error}"),
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Opens the store on Redis, which may be down at the moment.
    pub(crate) async fn open_redis(&self) -> Arc<dyn Store> {
        loop {
            let builder = RedisStore::builder(&self.redis).prefix(&self.prefix);
            match builder.connect().await {
                Ok(store) => return Arc::new(store),
                Err(error) => eprintln!("cannot open the store on Redis yet: {error}"),
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

/// One of the two stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Side {
    Pg,
    Redis,
}

/// What the process is told on its command line.
#[derive(clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    pub(crate) stores: Stores,
    #[arg(long)]
    pub(crate) log: PathBuf,
    /// Runs the parents on these stores, whose children are on the other one.
    #[arg(long)]
    pub(crate) parents: Vec<Side>,
    /// Runs the children on these stores.
    #[arg(long)]
    pub(crate) children: Vec<Side>,
    /// How long a lock holds, in milliseconds.
    #[arg(long)]
    pub(crate) lock: u64,
    /// The flow interval, in milliseconds.
    #[arg(long)]
    pub(crate) interval: u64,
    #[arg(long, default_value_t = 10)]
    pub(crate) concurrency: u32,
    /// Dies at this step, such as `pg:enqueue_many:1:before`.
    #[arg(long)]
    pub(crate) die: Option<Step>,
    /// Finds nothing in any outbox, so that it relays nothing.
    #[arg(long)]
    pub(crate) no_relay: bool,
    /// What the stores are robbed of.
    #[arg(long)]
    pub(crate) sabotage: Option<Sabotage>,
}

/// Works until it is killed.
pub(crate) async fn run(options: Options) -> anyhow::Result<()> {
    let log = Writer::create(&options.log)?;
    let (pg, redis) = tokio::join!(options.stores.open_pg(), options.stores.open_redis());
    let pg: StoreHandle<Pg> = bind(layered(Pg::NAME, pg, &options, &log)).await;
    let redis: StoreHandle<Redis> = bind(layered(Redis::NAME, redis, &options, &log)).await;
    let on_pg = builder(Side::Pg, pg.clone(), &redis, &options, &log);
    let on_redis = builder(Side::Redis, redis, &pg, &options, &log);
    let _on_pg = start(on_pg).await?;
    let _on_redis = start(on_redis).await?;
    std::future::pending().await
}

async fn start<S: StoreName>(
    builder: Option<WorkerBuilder<S>>,
) -> Result<Option<Worker<S>>, StartError> {
    match builder {
        Some(builder) => builder.start().await.map(Some),
        None => Ok(None),
    }
}

/// A store with all that watches and disturbs it.
fn layered(name: &str, store: Arc<dyn Store>, options: &Options, log: &Writer) -> Arc<dyn Store> {
    let inner: Arc<dyn Store> = match options.sabotage {
        Some(Sabotage::Reports) => Arc::new(LostReports::new(store)),
        Some(Sabotage::TokenCheck) | None => store,
    };
    let step = options.die.clone();
    let trap = Trap {
        inner,
        step: step.filter(|step| step.store == name),
        calls: AtomicU64::new(0),
        outbox: match options.no_relay {
            true => Outbox::Closed,
            false => Outbox::Open,
        },
        log: log.clone(),
    };
    Arc::new(Probe {
        inner: Arc::new(trap),
        log: log.clone(),
    })
}

/// The worker of one side, if it has something to run there.
fn builder<S: StoreName, O: StoreName>(
    side: Side,
    own: StoreHandle<S>,
    other: &StoreHandle<O>,
    options: &Options,
    log: &Writer,
) -> Option<WorkerBuilder<S>> {
    let (parents, children) = (
        options.parents.contains(&side),
        options.children.contains(&side),
    );
    if !parents && !children {
        return None;
    }
    let lock = Duration::from_millis(options.lock);
    let mut builder = Worker::builder(own)
        .lock_duration(lock)
        .stalled_interval(lock / 4)
        .poll_interval(lock / 4)
        .max_stalled_count(u32::MAX)
        .default_concurrency(options.concurrency)
        .flow_interval(Duration::from_millis(options.interval));
    if parents {
        builder = builder
            .flow(Gather::<S, O, false>::new(log), other.clone())
            .flow(Gather::<S, O, true>::new(log), other.clone());
    }
    if children {
        let log = log.clone();
        builder = builder
            .register(move |leaf, context| run_leaf::<S>(leaf, context, log.clone()))
            .relay_to(other);
    }
    Some(builder)
}
