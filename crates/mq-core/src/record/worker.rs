//! What workers report of themselves.

use serde::{Deserialize, Serialize};

use crate::id::{QueueName, WorkerId};
use crate::time::Timestamp;

/// A worker, as it last described itself; forgotten 60 s after its last report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerRecord {
    /// The worker's id.
    pub id: WorkerId,
    /// The machine it runs on.
    pub host: String,
    /// Its version, as its program states it.
    pub version: String,
    /// The queues it takes from.
    pub queues: Vec<QueueName>,
    /// How many handlers were running.
    pub in_flight: u32,
    /// When it started, by the store's clock.
    pub started_at: Timestamp,
    /// When it last reported; set by the store, whatever the report says.
    pub last_seen_at: Timestamp,
}
