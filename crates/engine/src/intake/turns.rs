//! Who may work on a request now, and who waits. Work that takes long is done on few requests at a time, and keeps no
//! worker from serving others. A request that waits keeps the memory that it has paid for.

use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard, Semaphore, SemaphorePermit};
use tokio::time::timeout;

/// How long a request waits for its turn before it is refused: half of the time that most clients wait for an answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// The turns of all requests.
#[derive(Debug)]
pub(super) struct Turns {
    /// Turns for heavy requests, one for each core. More of them at once would get nothing done sooner, and each thread
    /// has some memory of its own.
    heavy: Semaphore,
    /// Who converts to delta.
    conversions: RwLock<()>,
}

/// Whoever has it may begin.
#[derive(Debug)]
pub(super) enum Turn<'a> {
    Light,
    Heavy(#[expect(dead_code, reason = "held, not looked at")] SemaphorePermit<'a>),
    /// A heavy request is converted beside no other.
    Alone(#[expect(dead_code, reason = "held, not looked at")] RwLockWriteGuard<'a, ()>),
    Beside(#[expect(dead_code, reason = "held, not looked at")] RwLockReadGuard<'a, ()>),
}

impl Turns {
    /// As many as there are workers, if there is a runtime.
    pub(super) fn new() -> Self {
        Self::for_cores(Handle::try_current().map_or(1, |runtime| runtime.metrics().num_workers()))
    }

    fn for_cores(cores: usize) -> Self {
        Self { heavy: Semaphore::new(cores), conversions: RwLock::default() }
    }

    /// Waits for the turn of a request, in order of arrival; `None` when it does not come in time. Conversion to delta
    /// works on one request of a pipeline at a time, so a request that would wait long for that waits here. A heavy
    /// request that converts runs beside no other that converts. Requests that convert take no turn of the other kind.
    pub(super) async fn wait(&self, heavy: bool, converts: bool) -> Option<Turn<'_>> {
        match (heavy, converts) {
            (false, false) => Some(Turn::Light),
            (true, false) => timeout(PATIENCE, self.heavy.acquire()).await.ok()?.ok().map(Turn::Heavy),
            (true, true) => timeout(PATIENCE, self.conversions.write()).await.ok().map(Turn::Alone),
            (false, true) => timeout(PATIENCE, self.conversions.read()).await.ok().map(Turn::Beside),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn heavy_requests_wait_for_a_core_and_not_for_long() {
        let turns = Turns::for_cores(2);
        let first = turns.wait(true, false).await;
        let second = turns.wait(true, false).await;
        assert!(first.is_some() && second.is_some());
        assert!(turns.wait(true, false).await.is_none(), "there is no third core");
        assert!(turns.wait(false, false).await.is_some(), "small ones do not wait");
        assert!(turns.wait(true, true).await.is_some(), "nor do those who convert");
        let (_, third) = tokio::join!(async { drop(first) }, turns.wait(true, false));
        assert!(third.is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_waits_for_ever_for_a_conversion() {
        let turns = Turns::for_cores(1);
        let beside = [turns.wait(false, true).await, turns.wait(false, true).await];
        assert!(beside.iter().all(Option::is_some) && turns.wait(true, true).await.is_none());
        drop(beside);
        let alone = turns.wait(true, true).await;
        assert!(alone.is_some() && turns.wait(false, true).await.is_none());
    }
}
