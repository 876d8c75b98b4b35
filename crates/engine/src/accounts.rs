//! The accounts of all pipelines that there are and, as long as the journal remembers them, that there were.
//!
//! A pipeline's account outlives it: when the pipeline comes back its backlog and its books are still there.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::MissedTickBehavior;

use crate::account::Account;
use crate::store::{Clock, ORPHANS_WAIT};

/// How often losses are looked for that the log does not tell of.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// How long the books of a pipeline that is gone are shown at least: a day more than what it is owed may wait.
const KEPT: Duration = ORPHANS_WAIT.saturating_mul(2);

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

    /// Forgets those that have been without a pipeline since before `time` (of the process) and account for nothing any more.
    fn forget(&self, time: Duration) {
        let is_over = |account: &Account| {
            let books = account.books.snapshot();
            let is_empty = books.pending == 0 && books.waiting == 0 && account.backlog().entries == 0;
            is_empty && account.orphaned_at().is_some_and(|at| at < time)
        };
        self.lock().retain(|account| !is_over(account));
    }

    /// Tells the log of losses, and forgets what is over. For ever.
    pub(crate) async fn look_after(self: Arc<Self>, clock: Clock) {
        let mut look = tokio::time::interval(LOOK_EVERY);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let now = look.tick().await;
            self.all().iter().for_each(|account| account.books.losses().say_due(now));
            if let Some(time) = clock.elapsed().checked_sub(KEPT) {
                self.forget(time);
            }
        }
    }

    /// Tells the log of all losses so far: the process ends.
    pub(crate) fn say_losses(&self) {
        self.all().iter().for_each(|account| account.books.losses().say_all());
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
