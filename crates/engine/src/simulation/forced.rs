//! What a loss of power may cost with `fsync: interval`, as docs/guarantees.md says it: what was acknowledged since the
//! last sync that succeeded and, after a sync that failed, what was written before that one.

use std::ops::Range;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::Instant;
use weir_testkit::{Operation, SimFs};

use super::clients::Ledger;
use crate::store::Store;

/// No client waits longer for its answer than this once its data is written.
const ANSWERED_WITHIN: Duration = Duration::from_secs(5);

/// Places in the ledger of what was acknowledged.
#[derive(Debug)]
pub(super) struct Forced {
    ledger: Arc<Ledger>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Before this everything was forced to the disk, but for what is in doubt.
    until: usize,
    /// Written before a sync that failed.
    doubtful: Vec<Range<usize>>,
    /// When one failed: what had been written before it may still be acknowledged.
    failed_at: Option<Instant>,
}

impl Forced {
    pub(super) fn new(ledger: Arc<Ledger>) -> Self {
        Self { ledger, state: Mutex::default() }
    }

    fn succeeded(&self) {
        let (mut state, now) = (self.state.lock().unwrap(), self.ledger.acknowledged());
        if state.failed_at.is_some_and(|at| at.elapsed() <= ANSWERED_WITHIN) {
            return;
        }
        if state.failed_at.take().is_some() {
            let doubtful = state.until..now;
            state.doubtful.push(doubtful);
        }
        state.until = now;
    }

    fn failed(&self) {
        self.state.lock().unwrap().failed_at = Some(Instant::now());
    }

    /// The process has ended. What it left in doubt stays there.
    pub(super) fn ended(&self) {
        let (mut state, now) = (self.state.lock().unwrap(), self.ledger.acknowledged());
        if state.failed_at.take().is_some() {
            let doubtful = state.until..now;
            state.doubtful.push(doubtful);
        }
    }

    /// Places in the ledger of what a loss of power may cost now; what is left after it is on the disk.
    pub(super) fn power_is_lost(&self) -> Vec<Range<usize>> {
        let (mut state, now) = (self.state.lock().unwrap(), self.ledger.acknowledged());
        let mut lost = std::mem::take(&mut state.doubtful);
        lost.push(state.until..now);
        *state = State { until: now, ..State::default() };
        lost
    }
}

/// A writer's work, whose syncs are seen.
pub(super) async fn watched(work: impl Future<Output = ()>, forced: Arc<Forced>, store: Store, fs: SimFs) {
    let syncs = || store.stats.syncs.figures().buckets.iter().map(|(_, count)| count).sum::<u64>();
    let (mut succeeded, mut failed) = (syncs(), fs.failures(Operation::Sync));
    let mut work = pin!(work);
    std::future::poll_fn(|context| {
        let polled = work.as_mut().poll(context);
        if std::mem::replace(&mut failed, fs.failures(Operation::Sync)) < failed {
            forced.failed();
        }
        if std::mem::replace(&mut succeeded, syncs()) < succeeded {
            forced.succeeded();
        }
        polled
    })
    .await;
}
