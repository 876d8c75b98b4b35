//! Promise P1: what is owed for one request, from its arrival until every pipeline is done with it.
//!
//! A [`Ticket`] stands for the client that waits; an [`Obligation`] is one pipeline's debt for one piece of the
//! request. An obligation is `Waiting` (client unanswered), then `Held` (client told OK, the bytes are ours to keep) or
//! `Withdrawn` (client told to send again), and ends `Done`. Every transition makes its entry in the books, so nothing
//! can leave without one. How and when bytes are sent is not known here.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tokio::sync::Notify;

use crate::books::{Books, Fate};
use crate::budget::OVERHEAD_BYTES;
use crate::share::Share;

/// The waiting client's side of its obligations.
#[derive(Debug, Default)]
pub(crate) struct Ticket {
    /// Obligations that are still `Waiting`.
    open: AtomicU32,
    /// Obligations that some pipeline has finished.
    done: AtomicU32,
    /// Some obligation was withdrawn: the client must send again.
    withdrawn: AtomicBool,
    /// Told after each change of the others.
    pub(crate) changed: Notify,
}

impl Ticket {
    pub(crate) fn is_secured(&self) -> bool {
        self.open.load(Ordering::Acquire) == 0
    }

    /// Whether the client still has to keep the data.
    pub(crate) fn was_withdrawn(&self) -> bool {
        self.withdrawn.load(Ordering::Acquire)
    }

    pub(crate) fn any_done(&self) -> bool {
        self.done.load(Ordering::Acquire) > 0
    }
}

/// One pipeline's debt for one piece of a request.
#[derive(Debug)]
pub(crate) struct Obligation {
    items: u64,
    bytes: usize,
    ticket: Arc<Ticket>,
    books: Arc<Books>,
    share: Arc<Share>,
    phase: Mutex<Phase>,
}

#[derive(Debug)]
enum Phase {
    Waiting(Bytes),
    Held(Bytes),
    Withdrawn,
    Split(Vec<Arc<Obligation>>),
    Done,
}

impl Obligation {
    /// A new debt of `items` items encoded in `body`, entered in the books as waiting.
    pub(crate) fn new(
        body: Bytes,
        items: u64,
        ticket: &Arc<Ticket>,
        books: &Arc<Books>,
        share: &Arc<Share>,
    ) -> Arc<Self> {
        ticket.open.fetch_add(1, Ordering::AcqRel);
        books.arrive(items);
        Arc::new(Self {
            items,
            bytes: body.len(),
            ticket: Arc::clone(ticket),
            books: Arc::clone(books),
            share: Arc::clone(share),
            phase: Mutex::new(Phase::Waiting(body)),
        })
    }

    /// Items in the piece.
    pub(crate) fn items(&self) -> u64 {
        self.items
    }

    /// Encoded length of the piece.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// What keeping the piece costs the memory budget, as far as the share counts it.
    fn cost(&self) -> usize {
        self.bytes + OVERHEAD_BYTES
    }

    /// The bytes to send, or `None` when nothing is owed any more.
    pub(crate) fn body(&self) -> Option<Bytes> {
        match &*self.lock() {
            Phase::Waiting(body) | Phase::Held(body) => Some(body.clone()),
            Phase::Withdrawn | Phase::Split(_) | Phase::Done => None,
        }
    }

    /// Whether the client was told OK while the bytes are still here.
    pub(crate) fn is_held(&self) -> bool {
        matches!(&*self.lock(), Phase::Held(_))
    }

    /// What it would cost to hold the piece if the client were answered now.
    pub(crate) fn waiting_cost(&self) -> usize {
        match &*self.lock() {
            Phase::Waiting(_) => self.cost(),
            Phase::Split(parts) => parts.iter().map(|part| part.waiting_cost()).sum(),
            Phase::Held(_) | Phase::Withdrawn | Phase::Done => 0,
        }
    }

    /// The client gets its OK: the piece is ours to keep. Returns what this costs; the caller has reserved it in the
    /// pipeline's share.
    pub(crate) fn hold(&self) -> usize {
        let mut phase = self.lock();
        match std::mem::replace(&mut *phase, Phase::Done) {
            Phase::Waiting(body) => {
                *phase = Phase::Held(body);
                self.books.hold(self.items);
                drop(phase);
                self.left_waiting();
                self.cost()
            }
            Phase::Split(parts) => {
                let held = parts.iter().map(|part| part.hold()).sum();
                *phase = Phase::Split(parts);
                held
            }
            other => {
                *phase = other;
                0
            }
        }
    }

    /// The client is told to send again: nothing is owed, and the bytes are let go.
    pub(crate) fn withdraw(&self) {
        let mut phase = self.lock();
        match std::mem::replace(&mut *phase, Phase::Withdrawn) {
            Phase::Waiting(_) => {
                self.books.withdraw(self.items);
                self.ticket.withdrawn.store(true, Ordering::Release);
                drop(phase);
                self.left_waiting();
            }
            Phase::Split(parts) => {
                parts.iter().for_each(|part| part.withdraw());
                *phase = Phase::Split(parts);
            }
            other => *phase = other,
        }
    }

    /// The pipeline is done with the piece.
    pub(crate) fn finish(&self, fate: &Fate) {
        let mut phase = self.lock();
        match std::mem::replace(&mut *phase, Phase::Done) {
            Phase::Waiting(_) => {
                self.books.finish_waiting(self.items, fate);
                self.ticket.done.fetch_add(1, Ordering::AcqRel);
                drop(phase);
                self.left_waiting();
            }
            Phase::Held(_) => {
                self.share.remove(self.cost());
                self.books.finish_held(self.items, fate);
            }
            Phase::Withdrawn => self.books.finish_withdrawn(self.items, fate),
            Phase::Split(_) | Phase::Done => self.books.lose_track("an obligation was finished twice"),
        }
    }

    /// Replaces the debt by two for the given parts of its bytes (`body`, `items`), in the same phase.
    pub(crate) fn split(&self, parts: [(Bytes, u64); 2]) -> Vec<Arc<Self>> {
        let mut phase = self.lock();
        let held = matches!(*phase, Phase::Held(_));
        if !held && !matches!(*phase, Phase::Waiting(_)) {
            return Vec::new();
        }
        if held {
            self.share.remove(self.cost());
        }
        let children: Vec<_> = parts.into_iter().map(|part| self.child(part, held)).collect();
        *phase = Phase::Split(children.clone());
        drop(phase);
        if !held {
            self.left_waiting();
        }
        children
    }

    /// The books have the items already (waiting or pending); only the ticket and the share learn of the child.
    fn child(&self, (body, items): (Bytes, u64), held: bool) -> Arc<Self> {
        let bytes = body.len();
        if held {
            self.share.add(bytes + OVERHEAD_BYTES);
        } else {
            self.ticket.open.fetch_add(1, Ordering::AcqRel);
        }
        Arc::new(Self {
            items,
            bytes,
            ticket: Arc::clone(&self.ticket),
            books: Arc::clone(&self.books),
            share: Arc::clone(&self.share),
            phase: Mutex::new(if held { Phase::Held(body) } else { Phase::Waiting(body) }),
        })
    }

    fn left_waiting(&self) {
        self.ticket.open.fetch_sub(1, Ordering::AcqRel);
        self.ticket.changed.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, Phase> {
        self.phase.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Obligation {
    fn drop(&mut self) {
        let phase = self.phase.get_mut().unwrap_or_else(PoisonError::into_inner);
        if matches!(phase, Phase::Waiting(_) | Phase::Held(_)) {
            self.books.lose_track("an obligation was forgotten");
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;
    use crate::books::DropReason;

    fn desk() -> (Arc<Ticket>, Arc<Books>, Arc<Share>) {
        (Arc::default(), Arc::default(), Arc::new(Share::new(100_000, Instant::now())))
    }

    #[test]
    fn delivery_answers_the_ticket_and_hold_keeps_the_bytes() {
        let (ticket, books, share) = desk();
        let first = Obligation::new(Bytes::from_static(b"abc"), 3, &ticket, &books, &share);
        let second = Obligation::new(Bytes::from_static(b"defg"), 4, &ticket, &books, &share);
        first.finish(&Fate::Delivered);
        assert!(ticket.any_done() && !ticket.is_secured());
        share.add(second.hold());
        assert!(ticket.is_secured() && second.body().is_some());
        assert_eq!(share.held(), 4 + OVERHEAD_BYTES);
        second.finish(&Fate::Dropped(DropReason::MemoryFull));
        assert_eq!(share.held(), 0);
        assert!(books.snapshot().balanced());
    }

    #[test]
    fn split_keeps_phase_books_and_share() {
        let (ticket, books, share) = desk();
        let whole = Obligation::new(Bytes::from_static(b"abcdef"), 6, &ticket, &books, &share);
        let parts = whole.split([(Bytes::from_static(b"abc"), 3), (Bytes::from_static(b"def"), 3)]);
        assert!(!ticket.is_secured(), "the client waits for both parts");
        share.add(whole.hold());
        assert_eq!((share.held(), ticket.is_secured()), (6 + 2 * OVERHEAD_BYTES, true));
        let smaller = parts[0].split([(Bytes::from_static(b"a"), 1), (Bytes::from_static(b"bc"), 2)]);
        assert_eq!(share.held(), 6 + 3 * OVERHEAD_BYTES);
        for part in smaller.iter().chain(&parts[1..]) {
            part.finish(&Fate::Delivered);
        }
        let snapshot = books.snapshot();
        assert!(snapshot.balanced() && snapshot.delivered == 6 && share.held() == 0, "{snapshot:?}");
    }

    #[test]
    fn a_forgotten_obligation_is_a_mismatch() {
        let (ticket, books, share) = desk();
        drop(Obligation::new(Bytes::new(), 1, &ticket, &books, &share));
        assert_eq!(books.snapshot().mismatches, 1);
    }

    #[test]
    fn withdrawn_data_that_arrives_all_the_same_is_accounted() {
        let (ticket, books, share) = desk();
        let piece = Obligation::new(Bytes::from_static(b"abc"), 3, &ticket, &books, &share);
        piece.withdraw();
        assert!(piece.body().is_none());
        piece.finish(&Fate::Delivered);
        let snapshot = books.snapshot();
        assert!(snapshot.balanced() && snapshot.delivered == 3 && snapshot.withdrawn == 3);
    }
}
