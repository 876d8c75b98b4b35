//! Batches that wait for their next attempt. A parked batch holds no worker (DESIGN: "a retry holds no worker").

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use tokio::time::Instant;

use super::queue::Piece;

/// Pieces that travel in one request. Ids rise with age, so a lower id means older data.
#[derive(Debug)]
pub(super) struct Batch {
    pub(super) id: u64,
    /// Sum over the pieces when the batch was made or last sent.
    pub(super) bytes: usize,
    pub(super) pieces: Vec<Piece>,
    pub(super) attempts: u32,
}

impl Batch {
    /// Forgets the pieces that nobody is owed any more; false when none is left.
    pub(super) fn still_owed(&mut self) -> bool {
        self.pieces.retain(|piece| piece.obligation.body().is_some());
        self.bytes = self.pieces.iter().map(|piece| piece.obligation.bytes()).sum();
        !self.pieces.is_empty()
    }
}

/// Parked batches, by due time and by age.
#[derive(Debug, Default)]
pub(super) struct Parked {
    batches: BTreeMap<u64, Batch>,
    bytes: usize,
    due: BinaryHeap<Reverse<(Instant, u64)>>,
}

impl Parked {
    pub(super) fn park(&mut self, batch: Batch, due: Instant) {
        self.due.push(Reverse((due, batch.id)));
        self.bytes += batch.bytes;
        self.batches.insert(batch.id, batch);
    }

    pub(super) fn len(&self) -> usize {
        self.batches.len()
    }

    /// Bytes of all parked batches.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn is_empty(&self) -> bool {
        self.batches.is_empty()
    }

    /// When the next batch is due.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.due.peek().map(|Reverse((due, _))| *due)
    }

    /// When the oldest piece arrived.
    pub(super) fn oldest(&self) -> Option<Instant> {
        self.batches.values().next().and_then(|batch| batch.pieces.first()).map(|piece| piece.since)
    }

    /// A batch whose time has come.
    pub(super) fn pop_due(&mut self, now: Instant) -> Option<Batch> {
        while self.next_due().is_some_and(|due| due <= now) {
            let Reverse((_, id)) = self.due.pop()?;
            // A batch that was taken as the oldest meanwhile is still listed here.
            if let Some(batch) = self.batches.remove(&id) {
                self.bytes -= batch.bytes;
                return Some(batch);
            }
        }
        None
    }

    /// The batch with the oldest data, due or not.
    pub(super) fn pop_oldest(&mut self) -> Option<Batch> {
        let (_, batch) = self.batches.pop_first()?;
        self.bytes -= batch.bytes;
        if self.batches.is_empty() {
            self.due.clear();
        }
        Some(batch)
    }

    /// Makes every batch due at `now` at the latest: a process that is about to end has no time to wait.
    pub(super) fn hurry(&mut self, now: Instant) {
        self.due = self.batches.keys().map(|id| Reverse((now, *id))).collect();
    }

    pub(super) fn drain(&mut self) -> impl Iterator<Item = Batch> + use<> {
        self.due.clear();
        self.bytes = 0;
        std::mem::take(&mut self.batches).into_values()
    }
}
