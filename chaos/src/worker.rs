//! The process of a worker.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use mq_core::{DefaultStore, Failure, HandlerError, Lock, Store, StoreHandle, StoreName};
use mq_worker::{JobContext, Worker};

use crate::backend::Backend;
use crate::clock::Instant;
use crate::event::{Event, Held};
use crate::log::Writer;
use crate::probe::{self, Probe};
use crate::sabotage::{AnyToken, Board, Sabotage, without_token_check};
use crate::work::{Kind, Work};

/// What a worker is told on its command line.
#[derive(clap::Args)]
pub(crate) struct Options {
    #[arg(long)]
    pub(crate) store: Backend,
    #[arg(long)]
    pub(crate) url: String,
    #[arg(long)]
    pub(crate) log: PathBuf,
    /// How long a lock holds, in milliseconds.
    #[arg(long)]
    pub(crate) lock: u64,
    #[arg(long)]
    pub(crate) concurrency: u32,
    /// What the store is robbed of.
    #[arg(long)]
    pub(crate) sabotage: Option<Sabotage>,
    /// The board of tokens, for when any token is to do.
    #[arg(long)]
    pub(crate) board: PathBuf,
}

/// Works until it is killed.
pub(crate) async fn run(options: Options) -> anyhow::Result<()> {
    let log = Writer::create(&options.log)?;
    let inner = open(&options).await?;
    let lock = Duration::from_millis(options.lock);
    let _worker = start(inner, log, lock, options.concurrency).await?;
    std::future::pending().await
}

/// Opens the store, robbed of what it is to lack.
async fn open(options: &Options) -> anyhow::Result<Arc<dyn Store>> {
    Ok(match (options.sabotage, options.store) {
        (None, store) => store.open_patiently(&options.url).await,
        (Some(Sabotage::TokenCheck), Backend::Redis) => {
            // It is this process's first store.
            mq_redis::TAMPER.set(without_token_check).ok();
            Backend::Redis.open_patiently(&options.url).await
        }
        (Some(Sabotage::TokenCheck), Backend::Pg) => Arc::new(AnyToken {
            inner: Backend::Pg.open_patiently(&options.url).await,
            board: Board::new(&options.board),
        }),
        (Some(Sabotage::Reports), _) => {
            anyhow::bail!("only flows have reports: say --flows, too")
        }
    })
}

/// Starts a worker that writes down what it does.
pub(crate) async fn start(
    inner: Arc<dyn Store>,
    log: Writer,
    lock: Duration,
    concurrency: u32,
) -> anyhow::Result<Worker> {
    let probe: Arc<dyn Store> = Arc::new(Probe {
        inner,
        log: log.clone(),
    });
    let worker = Worker::builder(bind::<DefaultStore>(probe).await)
        .register(move |work: Work, context: JobContext| handle_one(work, context, log.clone()))
        .lock_duration(lock)
        .stalled_interval(lock / 4)
        .poll_interval(lock / 4)
        .max_stalled_count(u32::MAX)
        .default_concurrency(concurrency);
    Ok(worker.start().await?)
}

/// Binds a store to the name `S`; it may be down at the moment.
pub(crate) async fn bind<S: StoreName>(store: Arc<dyn Store>) -> StoreHandle<S> {
    loop {
        match StoreHandle::bind_shared(Arc::clone(&store)).await {
            Ok(handle) => return handle,
            Err(error) => eprintln!("cannot bind the store yet: {error}"),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn handle_one(
    work: Work,
    context: JobContext,
    log: Writer,
) -> Result<(), HandlerError<Failure>> {
    let _run = Run::begin(log, context.lock());
    tokio::time::sleep(Duration::from_millis(work.takes)).await;
    match work.kind {
        Kind::Flaky if context.attempt() == 1 => {
            Err(HandlerError::Error(Failure::new("the first attempt fails")))
        }
        Kind::Doomed => Err(HandlerError::Unrecoverable(Failure::new("it is doomed"))),
        Kind::Steady | Kind::Flaky => Ok(()),
    }
}

/// A handler at work: its end is written down even if it is dropped.
pub(crate) struct Run {
    log: Writer,
    held: Held,
}

impl Run {
    /// Writes its begin down.
    pub(crate) fn begin(log: Writer, lock: &Lock) -> Self {
        let held = probe::held(lock);
        log.write(&Event::Started {
            at: Instant::now(),
            held: held.clone(),
        });
        Self { log, held }
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        self.log.write(&Event::Ended {
            at: Instant::now(),
            held: self.held.clone(),
        });
    }
}
