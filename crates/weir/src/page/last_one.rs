//! What somebody has begun with a POST and asks for with a GET: a search of the disk, the page of a target. There is one
//! at a time. It is known by its number, and forgotten a minute after it has ended.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::task::AbortHandle;

/// What has ended is kept for so long.
const KEPT: Duration = Duration::from_secs(60);

/// The last one of those that were wished for: `W` is the wish, and `D` what came of it.
#[derive(Debug)]
pub(super) struct LastOne<W, D>(Arc<Mutex<Begun<W, D>>>);

#[derive(Debug)]
struct Begun<W, D> {
    /// As many as there have been.
    last_number: u64,
    last: Option<One<W, D>>,
}

#[derive(Debug)]
pub(super) struct One<W, D> {
    pub(super) number: u64,
    pub(super) wish: Arc<W>,
    /// `None`: it is under way.
    pub(super) done: Option<Arc<D>>,
    /// Does it, and forgets it.
    task: AbortHandle,
}

impl<W, D> Clone for LastOne<W, D> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<W, D> Default for LastOne<W, D> {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(Begun { last_number: 0, last: None })))
    }
}

impl<W, D> LastOne<W, D> {
    /// The one that has this number as it is now, if it is still known. Showing it may take long, and nobody waits for
    /// that.
    pub(super) fn see(&self, number: &str) -> Option<One<W, D>> {
        self.begun().last.as_ref().filter(|one| one.number.to_string() == number).cloned()
    }

    fn begun(&self) -> MutexGuard<'_, Begun<W, D>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<W: Send + Sync + 'static, D: Send + Sync + 'static> LastOne<W, D> {
    /// Begins another one, whose work this is, and forgets the one before. Returns its number; `None` while one is under
    /// way.
    pub(super) fn begin(&self, wish: W, work: impl Future<Output = D> + Send + 'static) -> Option<u64> {
        let mut begun = self.begun();
        if begun.last.as_ref().is_some_and(One::is_under_way) {
            return None;
        }
        begun.last_number += 1;
        let number = begun.last_number;
        let task = tokio::spawn(self.clone().run(number, work)).abort_handle();
        if let Some(before) = begun.last.replace(One { number, wish: Arc::new(wish), done: None, task }) {
            before.task.abort();
        }
        Some(number)
    }

    async fn run(self, number: u64, work: impl Future<Output = D> + Send) {
        let done = work.await;
        if let Some(one) = self.begun().last.as_mut().filter(|one| one.number == number) {
            one.done = Some(Arc::new(done));
        }
        tokio::time::sleep(KEPT).await;
        drop(self.begun().last.take_if(|one| one.number == number));
    }
}

impl<W, D> Clone for One<W, D> {
    fn clone(&self) -> Self {
        let Self { number, wish, done, task } = self;
        Self { number: *number, wish: Arc::clone(wish), done: done.clone(), task: task.clone() }
    }
}

impl<W, D> One<W, D> {
    fn is_under_way(&self) -> bool {
        self.done.is_none() && !self.task.is_finished()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn another_one_begins_and_ends_while_one_is_shown() {
        let last = LastOne::<&str, u8>::default();
        let ended = async |number: u64| loop {
            match last.see(&number.to_string()) {
                Some(one) if one.done.is_some() => return one,
                _ => tokio::task::yield_now().await,
            }
        };
        let first = last.begin("first", async { 1 }).unwrap();
        let shown = ended(first).await;
        let second = last.begin("second", async { 2 }).unwrap();
        assert_eq!(ended(second).await.done.as_deref(), Some(&2));
        assert!(last.see(&first.to_string()).is_none(), "one is kept");
        assert_eq!((*shown.wish, shown.done.as_deref()), ("first", Some(&1)));
    }
}
