//! The contract cases, on a Redis server.

mod support;

use mq_core::contract::{Capability, Opened, StoreFactory, StoreOptions};

struct Redis;

#[mq_core::async_trait]
impl StoreFactory for Redis {
    async fn open(&self, options: StoreOptions) -> Opened {
        let prefix = support::prefix();
        let store = support::open(&prefix, &options).await;
        Opened::new(store, move || {
            let (prefix, options) = (prefix.clone(), options.clone());
            async move { support::open(&prefix, &options).await }
        })
    }

    fn capabilities(&self) -> &[Capability] {
        &[Capability::ServerTime]
    }
}

mq_core::conformance!(redis, Redis);
