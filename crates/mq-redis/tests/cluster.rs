//! The contract cases, on a Redis Cluster of three masters.

#![cfg(feature = "cluster")]

mod support;

use mq_core::contract::{Capability, Opened, StoreFactory, StoreOptions};
use mq_core::{EnqueueOps, InspectOps};
use mq_redis::RedisStore;

/// Opens stores under random prefixes, so that every master gets its share.
struct Cluster;

const MASTERS: usize = 3;

/// Which of three masters, by equal ranges of slots, a prefix lands on.
fn master_of(prefix: &str) -> usize {
    let slot = crc16(prefix.as_bytes()) % 16_384;
    usize::from(slot) * MASTERS / 16_384
}

/// The checksum that clusters place keys by (CRC-16/XMODEM).
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, byte| {
        (0..8).fold(crc ^ u16::from(*byte) << 8, |crc, _| {
            if crc & 0x8000 == 0 {
                crc << 1
            } else {
                crc << 1 ^ 0x1021
            }
        })
    })
}

fn prefix_on(master: usize) -> String {
    loop {
        let prefix = support::prefix();
        if master_of(&prefix) == master {
            return prefix;
        }
    }
}

#[mq_core::async_trait]
impl StoreFactory for Cluster {
    async fn open(&self, options: StoreOptions) -> Opened {
        let prefix = support::prefix();
        let builder = move || {
            let builder = RedisStore::cluster(support::cluster_nodes()).prefix(&*prefix);
            support::adapt(builder, &options)
        };
        let store = builder().connect().await.expect("the store opens");
        Opened::new(store, move || {
            let builder = builder();
            async move { builder.connect().await.expect("a second handle opens") }
        })
    }

    fn capabilities(&self) -> &[Capability] {
        &[Capability::ServerTime]
    }
}

#[test]
fn slots_are_computed_as_the_cluster_does() {
    assert_eq!(crc16(b"123456789"), 0x31c3);
}

#[tokio::test]
async fn stores_on_each_master_do_not_see_each_other() {
    let mut stores = Vec::new();
    for master in 0..MASTERS {
        let builder = RedisStore::cluster(support::cluster_nodes()).prefix(prefix_on(master));
        stores.push(builder.connect().await.expect("the store opens"));
    }
    for (count, store) in stores.iter().enumerate() {
        let jobs = vec![support::job(); count + 1];
        store.enqueue_many(jobs).await.expect("they are enqueued");
    }
    for (count, store) in stores.iter().enumerate() {
        let counts = store.counts(None).await.expect("they are counted");
        assert_eq!(counts.waiting, count as u64 + 1, "on master {count}");
    }
}

mq_core::conformance!(cluster, Cluster);
