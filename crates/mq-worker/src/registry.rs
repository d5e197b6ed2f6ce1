//! Which handler runs the jobs of which name.

use std::collections::HashMap;
use std::sync::Arc;

use mq_core::{JobName, validate};
use parking_lot::RwLock;

use crate::error::StartError;
use crate::handler::Handler;

/// Which handler runs the jobs of which name, now.
pub(crate) struct Registry {
    table: RwLock<Arc<Table>>,
}

/// Which handler runs the jobs of which name, at one moment.
pub(crate) struct Table {
    handlers: HashMap<JobName, Handler>,
    /// The names, as claims ask for them.
    pub(crate) names: Arc<[JobName]>,
}

impl Table {
    fn new(handlers: HashMap<JobName, Handler>) -> Arc<Self> {
        let mut names: Vec<_> = handlers.keys().cloned().collect();
        names.sort_unstable();
        Arc::new(Self {
            handlers,
            names: names.into(),
        })
    }

    /// The handler for jobs of this name.
    pub(crate) fn handler(&self, name: &JobName) -> Option<&Handler> {
        self.handlers.get(name)
    }
}

impl Registry {
    /// Takes the handlers as they were registered.
    ///
    /// # Errors
    /// A name that no store takes, or two handlers for one.
    pub(crate) fn new(registered: Vec<(JobName, Handler)>) -> Result<Self, StartError> {
        let mut handlers = HashMap::with_capacity(registered.len());
        for (name, handler) in registered {
            validate::job_name(&name)?;
            if handlers.insert(name.clone(), handler).is_some() {
                return Err(StartError::DuplicateHandler { name });
            }
        }
        Ok(Self {
            table: RwLock::new(Table::new(handlers)),
        })
    }

    /// The handlers as they are now.
    pub(crate) fn now(&self) -> Arc<Table> {
        Arc::clone(&self.table.read())
    }

    /// Forgets the handler for a name; false if there is none.
    pub(crate) fn forget(&self, name: &JobName) -> bool {
        let mut table = self.table.write();
        let mut handlers = table.handlers.clone();
        let known = handlers.remove(name).is_some();
        *table = Table::new(handlers);
        known
    }
}
