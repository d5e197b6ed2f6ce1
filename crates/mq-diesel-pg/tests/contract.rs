//! The contract cases, on Postgres: each in a schema of its own.

mod support;

use mq_core::contract::{Capability, Opened, StoreFactory, StoreOptions};
use mq_diesel_pg::{PgStore, PgStoreBuilder};

struct Postgres;

#[mq_core::async_trait]
impl StoreFactory for Postgres {
    async fn open(&self, options: StoreOptions) -> Opened {
        let builder = with(support::fresh_schema(), options);
        builder.migrate().await.expect("the tables can be created");
        let store = open(builder.clone()).await;
        Opened::new(store, move || open(builder.clone()))
    }

    fn capabilities(&self) -> &[Capability] {
        &[Capability::ServerTime]
    }
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
