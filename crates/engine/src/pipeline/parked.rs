//! Batches that wait for their next attempt. A parked batch holds no worker, and no memory beyond its bytes. Once it is
//! in the journal, it does not even hold those.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::Arc;

use tokio::time::Instant;

use super::isolation::Suspicion;
use super::queue::Swept;
use crate::obligation::Obligation;

/// Pieces that travel in one request.
#[derive(Debug)]
pub(super) struct Batch {
    pub(super) id: u64,
    /// Sum over the pieces when the batch was made or last sent.
    pub(super) bytes: usize,
    pub(super) pieces: Vec<Arc<Obligation>>,
    pub(super) attempts: u32,
    /// The backend asked not to be sent it before.
    pub(super) not_before: Option<Instant>,
    /// What its refusals have shown.
    pub(super) suspicion: Suspicion,
}

impl Batch {
    /// Forgets the pieces that nobody is owed any more; false when none is left.
    pub(super) fn still_owed(&mut self) -> bool {
        self.pieces.retain(|piece| piece.is_owed());
        self.measure();
        !self.pieces.is_empty()
    }

    /// The request with it is over, and it has to be sent again. Call this only then: a piece that was delivered must
    /// not be stored.
    pub(super) fn came_back(&self) {
        self.pieces.iter().for_each(|piece| piece.came_back());
    }

    /// Sums its bytes up.
    pub(super) fn measure(&mut self) {
        self.bytes = self.pieces.iter().map(|piece| piece.bytes()).sum();
    }

    pub(super) fn items(&self) -> u64 {
        self.pieces.iter().map(|piece| piece.items()).sum()
    }

    /// How often it was tried, less how often it can be halved.
    fn times_tried(&self) -> i64 {
        i64::from(self.attempts) - i64::from(self.items().max(1).ilog2())
    }

    /// Takes its first pieces, as many as `bytes` hold and at least one, and returns the others.
    pub(super) fn cut(&mut self, bytes: usize) -> Vec<Arc<Obligation>> {
        let mut held = 0;
        let fits = self.pieces.iter().take_while(|piece| {
            held += piece.bytes();
            held <= bytes
        });
        let keep = fits.count().max(1).min(self.pieces.len());
        let rest = self.pieces.split_off(keep);
        self.measure();
        rest
    }

    /// Room that reading its pieces back from the journal takes.
    pub(super) fn stored_bytes(&self) -> usize {
        self.pieces.iter().map(|piece| piece.read_bytes()).sum()
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
    swept: Swept,
}

impl Parked {
    /// Keeps a batch with at least one piece until `due`.
    pub(super) fn park(&mut self, batch: Batch, due: Instant) {
        if self.swept.is_due(self.pieces, self.bytes) {
            self.sweep();
        }
        let Some(oldest) = batch.pieces.first() else { return };
        let age = (oldest.since(), batch.id);
        self.due.push(Reverse((due, age)));
        self.bytes += batch.bytes;
        self.pieces += batch.pieces.len();
        self.batches.insert(age, batch);
    }

    /// Removes everything that is not owed any more. Some batches wait a long time.
    fn sweep(&mut self) {
        self.batches.retain(|_, batch| batch.still_owed());
        self.due.retain(|Reverse((_, age))| self.batches.contains_key(age));
        self.bytes = self.batches.values().map(|batch| batch.bytes).sum();
        self.pieces = self.batches.values().map(|batch| batch.pieces.len()).sum();
        self.swept = Swept { places: self.pieces, bytes: self.bytes };
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
        self.batches.values().flat_map(|batch| &batch.pieces).any(|piece| piece.is_waiting())
    }

    /// When the next batch is due.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.due.peek().map(|Reverse((due, _))| *due)
    }

    /// The batch that is due next.
    pub(super) fn next(&self) -> Option<&Batch> {
        let Reverse((_, age)) = self.due.peek()?;
        self.batches.get(age)
    }

    /// When the oldest piece arrived.
    pub(super) fn oldest(&self) -> Option<Instant> {
        self.batches.values().next().and_then(|batch| batch.pieces.first()).map(|piece| piece.since())
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

    /// Of the batches whose time has come, the one that was tried least. Each time that it can be halved counts for one
    /// attempt less: what is taken apart shows more than what is not. This looks at all of them.
    pub(super) fn pop_least_tried(&mut self, now: Instant) -> Option<Batch> {
        // Nobody is to wake up for a batch that was removed by its age.
        self.due.retain(|Reverse((_, age))| self.batches.contains_key(age));
        let due = self.due.iter().filter(|Reverse((due, _))| *due <= now);
        let tried = due.filter_map(|Reverse((due, age))| Some((self.batches.get(age)?.times_tried(), *due, *age)));
        let (_, _, age) = tried.min()?;
        self.due.retain(|Reverse((_, other))| *other != age);
        let batch = self.batches.remove(&age)?;
        self.bytes -= batch.bytes;
        self.pieces -= batch.pieces.len();
        Some(batch)
    }

    /// Held obligations, oldest first. Their batches keep their places until [`Parked::trim`].
    pub(super) fn held(&self) -> impl Iterator<Item = &Arc<Obligation>> {
        let pieces = self.batches.values().flat_map(|batch| &batch.pieces);
        pieces.filter(|piece| piece.is_held())
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

    /// Another backend is asked from now on, and the refusals of the old one say nothing of it.
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use bytes::Bytes;
    use weir_plan::{PipelineId, Signal};

    use super::super::queue::EMPTY_BYTES;
    use super::*;
    use crate::accounts::Accounts;
    use crate::share::Share;

    #[test]
    fn what_was_tried_least_may_come_first() {
        let now = Instant::now();
        let share = Share::new(usize::MAX, now);
        let account = Accounts::default().open(PipelineId::new(Signal::Traces, "shop"), share, None);
        let (mut parked, soon) = (Parked::default(), now + Duration::from_secs(1));
        let late = now + Duration::from_secs(2);
        let batches =
            [(1, 5, 1, now), (2, 2, 1, soon), (3, 7, 1, now), (4, 2, 1, soon), (5, 1, 1, late), (6, 7, 8, soon)];
        for (id, attempts, items, due) in batches {
            let pieces = vec![Obligation::new(Bytes::from_static(b"a"), items, &Arc::default(), &account)];
            let mut batch = Batch { id, bytes: 0, pieces, attempts, not_before: None, suspicion: Suspicion::default() };
            batch.measure();
            parked.park(batch, due);
        }
        let mut next = |at| parked.pop_least_tried(at).map(|batch| batch.id);
        assert_eq!(
            [next(now), next(soon), next(soon), next(soon), next(soon), next(soon)],
            [Some(1), Some(2), Some(4), Some(6), Some(3), None]
        );
        assert_eq!((parked.pieces(), parked.due.len()), (1, 1), "one is not due yet");
        parked.drain().flat_map(|batch| batch.pieces).for_each(|piece| piece.withdraw());
    }

    /// Clients that give up while their data waits for its next attempt.
    #[test]
    fn what_has_ended_counts_for_little() {
        let now = Instant::now();
        let share = Share::new(usize::MAX, now);
        let account = Accounts::default().open(PipelineId::new(Signal::Traces, "shop"), share, None);
        let body = Bytes::from(vec![0; 64 << 10]);
        let (mut parked, due) = (Parked::default(), now + Duration::from_secs(60));
        let mut park = |id| {
            let obligation = Obligation::new(body.clone(), 1, &Arc::default(), &account);
            let pieces = vec![Arc::clone(&obligation)];
            let suspicion = Suspicion::default();
            let mut batch = Batch { id, bytes: 0, pieces, attempts: 1, not_before: None, suspicion };
            batch.measure();
            parked.park(batch, due);
            obligation
        };
        let first = park(0);
        (1..=1000).for_each(|id| park(id).withdraw());
        let last = park(1001);
        assert!(parked.bytes() <= 2 * EMPTY_BYTES && parked.pieces() <= 50, "{} {}", parked.bytes(), parked.pieces());
        assert!(parked.due.len() <= 50);
        let owed =
            std::iter::from_fn(|| parked.pop_due(due)).filter_map(|mut batch| batch.still_owed().then_some(batch.id));
        assert_eq!(owed.collect::<Vec<_>>(), [0, 1001]);
        assert_eq!((parked.bytes(), parked.pieces()), (0, 0));
        [first, last].iter().for_each(|obligation| obligation.withdraw());
    }
}
