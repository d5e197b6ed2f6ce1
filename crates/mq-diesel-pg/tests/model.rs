//! The Postgres store does what the model does, over random sequences.

mod support;

use mq_core::contract::{Capability, Opened, StoreFactory, StoreOptions};
use mq_testkit::model;

/// Opens stores in schemas of their own.
struct Stores;

#[mq_core::async_trait]
impl StoreFactory for Stores {
    async fn open(&self, options: StoreOptions) -> Opened {
        let mut builder = support::fresh_schema().time(options.time);
        if let Some(ceiling) = options.history_ceiling {
            builder = builder.history_ceiling(ceiling);
        }
        if let Some(draw) = options.id_generator {
            builder = builder.id_generator(draw);
        }
        builder.migrate().await.expect("the tables can be created");
        let open = move || {
            let builder = builder.clone();
            async move { builder.open().await.expect("the store opens") }
        };
        Opened::new(open().await, open)
    }

    fn capabilities(&self) -> &[Capability] {
        &[]
    }
}

#[test]
fn the_postgres_store_does_what_the_model_does() {
    model::check(&Stores, model::sequences(100));
}
