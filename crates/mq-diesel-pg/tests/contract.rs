//! The contract cases, on Postgres: each in a schema of its own.

mod support;

use std::sync::Arc;

use mq_core::contract::{Capability, Opened, StoreFactory, StoreOptions};
use mq_diesel_pg::{PgStore, PgStoreBuilder};
use mq_testkit::servers::Settings;
use parking_lot::Mutex;
use support::OwnServer;

struct Postgres;

#[mq_core::async_trait]
impl StoreFactory for Postgres {
    async fn open(&self, options: StoreOptions) -> Opened {
        if options.needs.contains(&Capability::Restart) {
            return open_own(options).await;
        }
        opened(support::url(), options).await
    }

    fn capabilities(&self) -> &[Capability] {
        &[
            Capability::ServerTime,
            Capability::Corruption,
            Capability::Restart,
        ]
    }
}

async fn opened(url: String, options: StoreOptions) -> Opened {
    let schema = support::fresh_name();
    let builder = PgStore::builder(&*url).schema(&*schema).pool_size(4);
    let builder = with(builder, options);
    builder.migrate().await.expect("the tables can be created");
    let store = open(builder.clone()).await;
    Opened::new(store, move || open(builder.clone())).with_corruption(move |id| {
        let (url, schema) = (url.clone(), schema.clone());
        async move { support::corrupt(&url, &schema, &id).await }
    })
}

/// A store on a server of its own, which keeps what it acknowledged.
async fn open_own(options: StoreOptions) -> Opened {
    let server = OwnServer::start(Settings::durable()).await;
    let url = server.url();
    let server = Arc::new(Mutex::new(server));
    opened(url, options).await.with_restart(move || {
        let server = Arc::clone(&server);
        async move {
            let restart = tokio::task::spawn_blocking(move || {
                let mut server = server.lock();
                server.postgres.kill9().expect("the server is killed");
                server.postgres.restart().expect("the server comes back");
            });
            restart.await.expect("the server is restarted");
        }
    })
}

fn with(builder: PgStoreBuilder, options: StoreOptions) -> PgStoreBuilder {
    let mut builder = builder.time(options.time).max_payload(options.max_payload);
    if let Some(ceiling) = options.history_ceiling {
        builder = builder.history_ceiling(ceiling);
    }
    if let Some(draw) = options.id_generator {
        builder = builder.id_generator(draw);
    }
    builder
}

async fn open(builder: PgStoreBuilder) -> PgStore {
    builder.open().await.expect("the store opens")
}

mq_core::conformance!(postgres, Postgres);
