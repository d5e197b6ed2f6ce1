//! The producer's side.

use std::marker::PhantomData;
use std::sync::Arc;

use crate::store::{DefaultStore, Store, StoreHandle, StoreName};

/// The producer's side of a store.
pub struct Client<S: StoreName = DefaultStore> {
    store: Arc<dyn Store>,
    name: PhantomData<fn() -> S>,
}

impl<S: StoreName> Client<S> {
    /// A client of this store.
    pub fn new(handle: &StoreHandle<S>) -> Self {
        Self {
            store: Arc::clone(handle.store()),
            name: PhantomData,
        }
    }

    /// The store.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }
}
