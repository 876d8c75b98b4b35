//! What waits to be sent for the first time, in order of arrival.
//!
//! Obligations that end while they wait (withdrawn, dropped, handed to the journal) stay as empty places until they
//! reach the front: their memory is free at once, and they need not be searched for.

use std::collections::VecDeque;
use std::sync::Arc;

use tokio::time::Instant;

use crate::obligation::Obligation;

/// First in, first out, by bytes.
#[derive(Debug, Default)]
pub(super) struct SendQueue {
    pieces: VecDeque<Arc<Obligation>>,
    bytes: usize,
    swept: Swept,
}

/// The places, and their bytes, that were left when the empty ones were last removed.
#[derive(Debug, Default)]
pub(super) struct Swept {
    pub(super) places: usize,
    pub(super) bytes: usize,
}

impl Swept {
    /// Whether so much has come since then that the empty places should be removed again.
    pub(super) fn is_due(&self, places: usize, bytes: usize) -> bool {
        places >= 2 * self.places + EMPTY_PLACES || bytes >= 2 * self.bytes + EMPTY_BYTES
    }
}

/// So many empty places do not matter ...
const EMPTY_PLACES: usize = 1024;
/// ... nor so many bytes of them, so that the metrics of the queue are not far from what is in it.
pub(super) const EMPTY_BYTES: usize = 1 << 20;

impl SendQueue {
    pub(super) fn push(&mut self, piece: Arc<Obligation>) {
        if self.swept.is_due(self.pieces.len(), self.bytes) {
            self.sweep();
        }
        self.bytes += piece.bytes();
        self.pieces.push_back(piece);
    }

    /// Removes all empty places. While the front does not move, more and more of them would gather behind it.
    fn sweep(&mut self) {
        self.pieces.retain(|piece| piece.is_owed());
        self.bytes = self.pieces.iter().map(|piece| piece.bytes()).sum();
        self.swept = Swept { places: self.pieces.len(), bytes: self.bytes };
    }

    pub(super) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Bytes of all places, empty ones included.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// When the piece at the front arrived.
    pub(super) fn oldest(&self) -> Option<Instant> {
        self.pieces.front().map(|piece| piece.since())
    }

    /// Takes the pieces that fit into one request of at most `limit` bytes and so many items: at least one piece, and
    /// at most `most`.
    pub(super) fn take(&mut self, limit: usize, most_items: u64, most: usize) -> Vec<Arc<Obligation>> {
        let mut taken = Vec::new();
        let (mut bytes, mut items) = (0, 0_u64);
        while let Some(piece) = self.pieces.front() {
            let size = piece.bytes();
            let is_over = bytes + size > limit || items.saturating_add(piece.items()) > most_items;
            if !taken.is_empty() && (is_over || taken.len() >= most) {
                break;
            }
            if let Some(piece) = self.pop()
                && piece.is_owed()
            {
                bytes += size;
                items += piece.items();
                taken.push(piece);
            }
        }
        taken
    }

    /// Takes what came last.
    pub(super) fn take_newest(&mut self) -> Vec<Arc<Obligation>> {
        while let Some(piece) = self.pieces.pop_back() {
            self.bytes -= piece.bytes();
            if piece.is_owed() {
                return vec![piece];
            }
        }
        Vec::new()
    }

    /// Held obligations, oldest first.
    pub(super) fn held(&self) -> impl Iterator<Item = &Arc<Obligation>> {
        self.pieces.iter().filter(|piece| piece.is_held())
    }

    /// Removes empty places from the front.
    pub(super) fn trim(&mut self) {
        while self.pieces.front().is_some_and(|piece| !piece.is_owed()) {
            self.pop();
        }
    }

    pub(super) fn drain(&mut self) -> impl Iterator<Item = Arc<Obligation>> {
        self.bytes = 0;
        self.pieces.drain(..)
    }

    fn pop(&mut self) -> Option<Arc<Obligation>> {
        let piece = self.pieces.pop_front()?;
        self.bytes -= piece.bytes();
        Some(piece)
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use weir_plan::{PipelineId, Signal};

    use super::*;
    use crate::accounts::Accounts;
    use crate::share::Share;

    /// Clients that give up behind a front that does not move.
    #[test]
    fn what_has_ended_counts_for_little() {
        let share = Share::new(usize::MAX, Instant::now());
        let account = Accounts::default().open(PipelineId::new(Signal::Traces, "shop"), share, None);
        let body = Bytes::from(vec![0; 64 << 10]);
        let obligation = || Obligation::new(body.clone(), 1, &Arc::default(), &account);
        let mut queue = SendQueue::default();
        let front = obligation();
        queue.push(Arc::clone(&front));
        for _ in 0..1000 {
            let obligation = obligation();
            queue.push(Arc::clone(&obligation));
            obligation.withdraw();
        }
        assert!(queue.bytes() <= 2 * EMPTY_BYTES, "{}", queue.bytes());
        let taken = queue.take(usize::MAX, u64::MAX, usize::MAX);
        assert_eq!((taken.len(), queue.bytes()), (1, 0));
        front.withdraw();

        let pieces = [(); 3].map(|()| obligation());
        pieces.iter().for_each(|piece| queue.push(Arc::clone(piece)));
        pieces[2].withdraw();
        let newest = queue.take_newest();
        assert!(newest.len() == 1 && Arc::ptr_eq(&newest[0], &pieces[1]), "the last that is owed");
        assert_eq!((queue.bytes(), queue.take_newest().len(), queue.take_newest().len()), (64 << 10, 1, 0));
        pieces.iter().for_each(|piece| piece.withdraw());
    }
}
