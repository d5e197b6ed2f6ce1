//! The contract cases, on a Redis server.

mod support;

use std::sync::Arc;

use mq_core::contract::{Capability, Opened, StoreFactory, StoreOptions};
use mq_redis::RedisStore;
use mq_testkit::servers::Settings;
use parking_lot::Mutex;
use support::OwnServer;

struct Redis;

#[mq_core::async_trait]
impl StoreFactory for Redis {
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
    let prefix = support::prefix();
    let builder = {
        let (url, prefix) = (url.clone(), prefix.clone());
        move || support::adapt(RedisStore::builder(&*url).prefix(&*prefix), &options)
    };
    let store = builder().connect().await.expect("the store opens");
    Opened::new(store, move || {
        let builder = builder();
        async move { builder.connect().await.expect("a second handle opens") }
    })
    .with_corruption(move |id| {
        let (url, prefix) = (url.clone(), prefix.clone());
        async move { support::corrupt(&url, &prefix, &id).await }
    })
}

/// A store on a server of its own, which keeps what it acknowledged.
async fn open_own(options: StoreOptions) -> Opened {
    let server = tokio::task::spawn_blocking(|| OwnServer::start(Settings::durable()));
    let server = server.await.expect("a server of its own");
    let url = server.url();
    let server = Arc::new(Mutex::new(server));
    opened(url, options).await.with_restart(move || {
        let server = Arc::clone(&server);
        async move {
            let restart = tokio::task::spawn_blocking(move || {
                let mut server = server.lock();
                server.redis.kill9().expect("the server is killed");
                server.redis.restart().expect("the server comes back");
            });
            restart.await.expect("the server is restarted");
        }
    })
}

mq_core::conformance!(redis, Redis);
