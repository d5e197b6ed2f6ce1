//! The Redis store does what the model does, over random sequences.

mod support;

use mq_core::contract::{Capability, Opened, StoreFactory, StoreOptions};
use mq_redis::{RedisStore, RedisStoreBuilder};
use mq_testkit::model;

/// Opens stores by what a prefix makes.
struct Stores(fn(&str) -> RedisStoreBuilder);

#[mq_core::async_trait]
impl StoreFactory for Stores {
    async fn open(&self, options: StoreOptions) -> Opened {
        let (builder_of, prefix) = (self.0, support::prefix());
        let open = move || {
            let builder = support::adapt(builder_of(&prefix), &options);
            async move { builder.connect().await.expect("the store opens") }
        };
        Opened::new(open().await, open)
    }

    fn capabilities(&self) -> &[Capability] {
        &[]
    }
}

#[test]
fn a_store_on_one_server_does_what_the_model_does() {
    let stores = Stores(|prefix| RedisStore::builder(support::url()).prefix(prefix));
    model::check(&stores, model::sequences(200));
}

#[cfg(feature = "cluster")]
#[test]
fn a_store_on_a_cluster_does_what_the_model_does() {
    let stores = Stores(|prefix| RedisStore::cluster(support::cluster_nodes()).prefix(prefix));
    model::check(&stores, model::sequences(100));
}
