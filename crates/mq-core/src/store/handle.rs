//! Stores under their names, as the type system knows them.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use super::{Result, Store};
use crate::client::Client;
use crate::id::StoreKey;

/// A store's name as a type, so that a job enqueued into the wrong store does
/// not compile.
///
/// ```
/// use mq_core::StoreName;
///
/// struct Durable;
/// impl StoreName for Durable {
///     const NAME: &'static str = "durable";
/// }
/// ```
pub trait StoreName: Send + Sync + 'static {
    /// The name that the store remembers and flow rows route by.
    const NAME: &'static str;
}

/// The name of the store in programs that have only one.
#[derive(Clone, Copy, Debug)]
pub struct DefaultStore;

impl StoreName for DefaultStore {
    const NAME: &'static str = "default";
}

/// A store that is known to bear the name `S`.
///
/// It is what clients and workers are built from. Cloning it is cheap; all
/// clones are the same handle on the same store.
pub struct StoreHandle<S: StoreName = DefaultStore> {
    store: Arc<dyn Store>,
    name: PhantomData<fn() -> S>,
}

impl<S: StoreName> StoreHandle<S> {
    /// Binds a store to the name `S`: a new one takes it, any other must have it.
    ///
    /// # Errors
    /// `NameMismatch` if the store bears another name.
    pub async fn bind(store: impl Store + 'static) -> Result<Self> {
        Self::bind_shared(Arc::new(store)).await
    }

    /// [`bind`](Self::bind) for a store that is shared already.
    ///
    /// # Errors
    /// `NameMismatch` if the store bears another name.
    pub async fn bind_shared(store: Arc<dyn Store>) -> Result<Self> {
        store.bind_name(&StoreKey::from(S::NAME)).await?;
        Ok(Self {
            store,
            name: PhantomData,
        })
    }

    /// The store itself, with all its operations.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// A client for producing jobs into this store.
    pub fn client(&self) -> Client<S> {
        Client::new(self)
    }
}

impl<S: StoreName> Clone for StoreHandle<S> {
    fn clone(&self) -> Self {
        Self {
            store: Arc::clone(&self.store),
            name: PhantomData,
        }
    }
}

impl<S: StoreName> fmt::Debug for StoreHandle<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreHandle")
            .field("name", &S::NAME)
            .finish_non_exhaustive()
    }
}
