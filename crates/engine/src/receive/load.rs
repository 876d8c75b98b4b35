//! How busy this process is: clients of a busy one are asked sooner to connect anew, so that they find another instance.
//!
//! Nobody knows the peers. An instance that is busier than they are sheds connections faster than they do, and where these
//! land is for the balancer in front to say.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use crate::budget::Budget;
use crate::process;

/// Between two looks.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Of what was seen before, this part still counts: a burst of a second is no load.
const MEMORY: f64 = 0.7;
/// A connection may always live for this part of its time: a handshake must stay cheap beside what it is for.
const LEAST: f64 = 0.1;

/// The load of the last seconds: of the CPU that the process is meant to use, or of the memory for payloads, whichever is
/// more.
#[derive(Debug)]
pub(crate) struct Load {
    /// Between 0 and 1: the bits of a float.
    now: Arc<AtomicU64>,
    watch: JoinHandle<()>,
}

impl Load {
    /// Looks again and again, for as long as this value lives. Needs a tokio runtime. `cores`: what it is meant to use.
    pub(crate) fn watch(budget: Budget, cores: f64) -> Self {
        let now = Arc::new(AtomicU64::default());
        let watch = tokio::spawn(look(budget, cores, Arc::clone(&now)));
        Self { now, watch }
    }

    /// How long a connection may live that may live for `age` while there is nothing to do.
    fn within(&self, age: Duration) -> Duration {
        age.mul_f64(part(f64::from_bits(self.now.load(Ordering::Relaxed))))
    }

    /// Resolves when a connection is old.
    pub(crate) async fn outlived(&self, age: Duration) {
        let began = Instant::now();
        while let Some(left) = self.within(age).checked_sub(began.elapsed()).filter(|left| !left.is_zero()) {
            sleep(left.min(LOOK_EVERY)).await;
        }
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.watch.abort();
    }
}

/// Of the age of a connection, what is left at this load.
fn part(load: f64) -> f64 {
    (1.0 - load).clamp(LEAST, 1.0)
}

async fn look(budget: Budget, cores: f64, shown: Arc<AtomicU64>) {
    let (mut at, mut used, mut load) = (Instant::now(), process::figures().cpu_seconds, 0.0);
    loop {
        sleep(LOOK_EVERY).await;
        let (now, uses) = (Instant::now(), process::figures().cpu_seconds);
        let cpu = (uses - used) / (now - at).as_secs_f64().max(f64::EPSILON) / cores;
        let memory = budget.used() as f64 / budget.capacity().max(1) as f64;
        load = MEMORY * load + (1.0 - MEMORY) * cpu.max(memory).clamp(0.0, 1.0);
        shown.store(load.to_bits(), Ordering::Relaxed);
        (at, used) = (now, uses);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(load: f64) -> Load {
        Load { now: Arc::new(AtomicU64::new(load.to_bits())), watch: tokio::spawn(async {}) }
    }

    #[tokio::test(start_paused = true)]
    async fn connections_live_as_long_as_there_is_nothing_to_do_and_a_tenth_of_it_at_most_load() {
        for (load, seconds) in [(0.0, 60.0), (0.5, 30.0), (0.9, 6.0), (1.0, 6.0)] {
            let began = Instant::now();
            at(load).outlived(Duration::from_secs(60)).await;
            let lived = began.elapsed().as_secs_f64();
            assert!((lived - seconds).abs() < 0.1, "{load}: {lived}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_becomes_busy_sheds_connections_that_were_there_before() {
        let (load, began) = (Arc::new(at(0.0)), Instant::now());
        let outlived = tokio::spawn({
            let load = Arc::clone(&load);
            async move { load.outlived(Duration::from_secs(600)).await }
        });
        sleep(Duration::from_secs(100)).await;
        assert!(!outlived.is_finished());
        load.now.store(1f64.to_bits(), Ordering::Relaxed);
        outlived.await.unwrap();
        assert!(began.elapsed() <= Duration::from_secs(100) + 2 * LOOK_EVERY);
    }

    /// Nobody waits for the whole second: the clock of the test does.
    #[tokio::test(start_paused = true)]
    async fn memory_that_is_taken_is_load() {
        let budget = Budget::new(1 << 20);
        // The test itself may use some CPU.
        let load = Load::watch(budget.clone(), 1e6);
        let permit = budget.try_take(1 << 19).unwrap();
        sleep(20 * LOOK_EVERY).await;
        let within = load.within(Duration::from_secs(100)).as_secs();
        assert!((45..=51).contains(&within), "{within}");
        drop(permit);
        sleep(20 * LOOK_EVERY).await;
        assert!(load.within(Duration::from_secs(100)).as_secs() >= 95);
    }
}
