//! A relay: it carries a page of reports from an outbox to the parents' store.

use std::fmt;

use crate::config::{Config, Variant};
use crate::id::Store;
use crate::record::Entry;
use crate::request::Request;

/// A relay with a page.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Relay {
    /// The store whose outbox it read.
    pub store: Store,
    /// What it found there.
    pub page: Vec<Entry>,
    /// Which half of its work is done.
    pub half_done: bool,
}

impl Relay {
    /// What it asks for next: record the page, then delete it.
    pub fn request(&self, config: &Config) -> Request {
        let deletes_first = config.variant == Variant::DeleteBeforeRecord;
        if self.half_done == deletes_first {
            Request::Record(self.page.iter().map(|entry| entry.report).collect())
        } else {
            let ids = self.page.iter().map(|entry| entry.id).collect();
            Request::DeleteReports(self.store, ids)
        }
    }

    /// What it does next; nothing more if none.
    pub fn receive(&self) -> Option<Self> {
        (!self.half_done).then(|| Self {
            half_done: true,
            ..self.clone()
        })
    }
}

impl fmt::Display for Relay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "relay of {}", self.store)
    }
}
