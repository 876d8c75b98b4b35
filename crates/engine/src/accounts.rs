//! The accounts of all pipelines that there are and, as long as the journal remembers them, that there were.
//!
//! A pipeline's account outlives it: when the pipeline comes back its backlog and its books are still there.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::account::Account;

/// All of them. An account that has lost its pipeline is an orphan.
#[derive(Debug, Default)]
pub(crate) struct Accounts {
    list: Mutex<Vec<Arc<Account>>>,
}

impl Accounts {
    pub(crate) fn new(accounts: Vec<Arc<Account>>) -> Self {
        Self { list: Mutex::new(accounts) }
    }

    pub(crate) fn add(&self, account: Arc<Account>) {
        self.lock().push(account);
    }

    /// Nothing is left that it could account for.
    pub(crate) fn forget(&self, id: &str) {
        self.lock().retain(|account| account.id != id);
    }

    pub(crate) fn find(&self, id: &str) -> Option<Arc<Account>> {
        self.lock().iter().find(|account| account.id == id).cloned()
    }

    pub(crate) fn all(&self) -> Vec<Arc<Account>> {
        self.lock().clone()
    }

    /// Those without a pipeline.
    pub(crate) fn orphans(&self) -> Vec<Arc<Account>> {
        self.lock().iter().filter(|account| account.orphaned_at().is_some()).cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Arc<Account>>> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
