//! The contract cases, on the in-memory store.

use std::future::ready;

use mq_core::MemoryStore;
use mq_core::contract::{Capability, Opened, StoreFactory, StoreOptions};

struct Memory;

#[mq_core::async_trait]
impl StoreFactory for Memory {
    async fn open(&self, options: StoreOptions) -> Opened {
        let mut builder = MemoryStore::builder()
            .time(options.time)
            .max_payload(options.max_payload);
        if let Some(ceiling) = options.history_ceiling {
            builder = builder.history_ceiling(ceiling);
        }
        if let Some(draw) = options.id_generator {
            builder = builder.id_generator(draw);
        }
        let store = builder.build();
        Opened::new(store.clone(), move || ready(store.clone()))
    }

    fn capabilities(&self) -> &[Capability] {
        &[Capability::ServerTime]
    }
}

mq_core::conformance!(memory, Memory);
