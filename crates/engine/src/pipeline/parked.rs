//! Batches that wait for their next attempt. A parked batch holds no worker, and no memory beyond its bytes; once it is
//! in the journal not even those.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::Arc;

use tokio::time::Instant;

use super::isolation::Suspicion;
use super::queue::Piece;
use crate::obligation::Obligation;

/// Pieces that travel in one request.
#[derive(Debug)]
pub(super) struct Batch {
    pub(super) id: u64,
    /// Sum over the pieces when the batch was made or last sent.
    pub(super) bytes: usize,
    pub(super) pieces: Vec<Piece>,
    pub(super) attempts: u32,
    /// The backend asked not to be sent it before.
    pub(super) not_before: Option<Instant>,
    /// What its refusals have shown.
    pub(super) suspicion: Suspicion,
}

impl Batch {
    /// Forgets the pieces that nobody is owed any more; false when none is left.
    pub(super) fn still_owed(&mut self) -> bool {
        self.pieces.retain(|piece| piece.obligation.is_owed());
        self.measure();
        !self.pieces.is_empty()
    }

    /// The request with it is over, and it has to be sent again. Only then: what was delivered is not free to be stored.
    pub(super) fn came_back(&self) {
        self.pieces.iter().for_each(|piece| piece.obligation.came_back());
    }

    /// Sums its bytes up.
    pub(super) fn measure(&mut self) {
        self.bytes = self.pieces.iter().map(|piece| piece.obligation.bytes()).sum();
    }

    pub(super) fn items(&self) -> u64 {
        self.pieces.iter().map(|piece| piece.obligation.items()).sum()
    }

    /// Takes its first pieces, as many as `bytes` hold and at least one, and returns the others.
    pub(super) fn cut(&mut self, bytes: usize) -> Vec<Piece> {
        let mut held = 0;
        let fits = self.pieces.iter().take_while(|piece| {
            held += piece.obligation.bytes();
            held <= bytes
        });
        let keep = fits.count().max(1).min(self.pieces.len());
        let rest = self.pieces.split_off(keep);
        self.measure();
        rest
    }

    /// Room that reading its pieces back from the journal takes.
    pub(super) fn stored_bytes(&self) -> usize {
        self.pieces.iter().map(|piece| piece.obligation.read_bytes()).sum()
    }
}

/// Orders batches by age: the arrival of the oldest piece, then the id.
type Age = (Instant, u64);

/// Parked batches, by due time and by age.
#[derive(Debug, Default)]
pub(super) struct Parked {
    batches: BTreeMap<Age, Batch>,
    bytes: usize,
    pieces: usize,
    due: BinaryHeap<Reverse<(Instant, Age)>>,
}

impl Parked {
    /// Keeps a batch with at least one piece until `due`.
    pub(super) fn park(&mut self, batch: Batch, due: Instant) {
        let Some(oldest) = batch.pieces.first() else { return };
        let age = (oldest.since, batch.id);
        self.due.push(Reverse((due, age)));
        self.bytes += batch.bytes;
        self.pieces += batch.pieces.len();
        self.batches.insert(age, batch);
    }

    pub(super) fn len(&self) -> usize {
        self.batches.len()
    }

    /// Bytes of all parked batches.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Pieces of all parked batches.
    pub(super) fn pieces(&self) -> usize {
        self.pieces
    }

    pub(super) fn is_empty(&self) -> bool {
        self.batches.is_empty()
    }

    /// Whether some client still waits for a piece.
    pub(super) fn has_waiting(&self) -> bool {
        self.batches.values().flat_map(|batch| &batch.pieces).any(|piece| piece.obligation.is_waiting())
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
            let Reverse((_, age)) = self.due.pop()?;
            // A batch that was removed by its age meanwhile is still listed here.
            if let Some(batch) = self.batches.remove(&age) {
                self.bytes -= batch.bytes;
                self.pieces -= batch.pieces.len();
                return Some(batch);
            }
        }
        None
    }

    /// Held obligations, oldest first. Their batches keep their places until [`Parked::trim`].
    pub(super) fn held(&self) -> impl Iterator<Item = &Arc<Obligation>> {
        let pieces = self.batches.values().flat_map(|batch| &batch.pieces);
        pieces.map(|piece| &piece.obligation).filter(|obligation| obligation.is_held())
    }

    /// Removes the oldest batches of which nothing is owed any more.
    pub(super) fn trim(&mut self) {
        while let Some(mut oldest) = self.batches.first_entry() {
            self.bytes -= oldest.get().bytes;
            self.pieces -= oldest.get().pieces.len();
            if oldest.get_mut().still_owed() {
                self.bytes += oldest.get().bytes;
                self.pieces += oldest.get().pieces.len();
                break;
            }
            oldest.remove();
        }
        if self.batches.is_empty() {
            self.due.clear();
        }
    }

    /// The backend takes data, so the batch that is due next need not wait, unless the backend asked for that.
    pub(super) fn hurry_next(&mut self, now: Instant) {
        let Some(Reverse((due, age))) = self.due.pop() else { return };
        let not_before = self.batches.get(&age).and_then(|batch| batch.not_before);
        let soon = not_before.map_or(now, |at| at.max(now));
        self.due.push(Reverse((due.min(soon), age)));
    }

    /// Another backend is asked from now on: what the one before refused says nothing of it.
    pub(super) fn forget_refusals(&mut self) {
        self.batches.values_mut().for_each(|batch| batch.suspicion = Suspicion::default());
    }

    /// Makes every batch due at `now` at the latest: a process that is about to end has no time to wait.
    pub(super) fn hurry(&mut self, now: Instant) {
        self.due = self.batches.keys().map(|age| Reverse((now, *age))).collect();
    }

    pub(super) fn drain(&mut self) -> impl Iterator<Item = Batch> + use<> {
        self.due.clear();
        self.bytes = 0;
        self.pieces = 0;
        std::mem::take(&mut self.batches).into_values()
    }
}
