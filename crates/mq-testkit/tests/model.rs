//! The in-memory store does what the model does.

use std::future;
use std::time::Duration;

use mq_core::MemoryStore;
use mq_core::contract::{Capability, Opened, StoreFactory, StoreOptions};
use mq_testkit::model;

struct Memory;

#[mq_core::async_trait]
impl StoreFactory for Memory {
    async fn open(&self, options: StoreOptions) -> Opened {
        let mut builder = MemoryStore::builder().time(options.time);
        if let Some(ceiling) = options.history_ceiling {
            builder = builder.history_ceiling(ceiling);
        }
        if let Some(draw) = options.id_generator {
            builder = builder.id_generator(draw);
        }
        let store = builder.build();
        Opened::new(store.clone(), move || future::ready(store.clone()))
    }

    fn capabilities(&self) -> &[Capability] {
        &[]
    }

    fn patience(&self) -> Duration {
        Duration::ZERO
    }
}

#[test]
fn the_memory_store_does_what_the_model_does() {
    model::check(&Memory, model::sequences(500));
}
