//! Promise P1: what is owed for one piece of data, from its arrival until the pipeline is done with it.
//!
//! A [`Ticket`] stands for the client that waits; an [`Obligation`] is one piece of its request that one pipeline owes
//! its backend. It begins `Waiting` (client unanswered). Then it is `Held` in memory or `Stored` in the journal (client
//! told OK, the data is ours to keep), or `Withdrawn` (client told to send again), and ends `Done`. In between it may
//! be `Storing` or `Rewriting` (the journal's writer has it: `deposit`), or `Split` (two others stand for its parts).
//! Every transition makes its entry in the books, so nothing can leave without one. How and when bytes are sent is not
//! known here.

mod deposit;
mod split;
mod stored;
#[cfg(test)]
mod tests;
mod ticket;

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tokio::time::Instant;
use weir_journal::Entry;
use weir_plan::{PipelineId, Signal};

pub(crate) use deposit::Deposit;
pub(crate) use stored::{Leftover, LoadError, Stored};
pub(crate) use ticket::Ticket;

use crate::account::Account;
use crate::books::{DropReason, Fate};
use crate::budget::{OVERHEAD_BYTES, Paid};
use crate::taps::{Mark, Way};

/// A part of a request that is small enough for a backend.
#[derive(Debug, Clone)]
pub(crate) struct Piece {
    pub(crate) body: Bytes,
    pub(crate) items: u64,
}

/// One piece that one pipeline owes its backend.
#[derive(Debug)]
pub(crate) struct Obligation {
    items: u64,
    bytes: usize,
    /// When it arrived, or was read back from the journal; parts have the time of the whole.
    since: Instant,
    /// None for what was read back from the journal.
    ticket: Option<Arc<Ticket>>,
    account: Arc<Account>,
    phase: Mutex<Phase>,
    /// Somebody wants to know what becomes of it.
    mark: Option<Mark>,
    /// Pays for what it costs beside its bytes, unless the bytes or something else have paid for it.
    _paid: Option<Paid>,
}

#[derive(Debug)]
enum Phase {
    /// The client is not answered. `sent`: a request with these bytes is under way. `deposited`: the journal's writer
    /// has the bytes, too.
    Waiting {
        body: Bytes,
        sent: bool,
        deposited: bool,
    },
    /// The client is not answered; the journal's writer has the bytes, and nobody sends them until they are on disk.
    Storing,
    /// The client is answered, the bytes are in memory.
    Held(Bytes),
    /// The client is answered, the bytes are on disk.
    Stored(Stored),
    /// As `Stored`, and the journal's writer has the bytes, to make them an entry of their own.
    Rewriting(Stored),
    Withdrawn,
    Split(Vec<Arc<Obligation>>),
    Done,
}

/// Where the bytes to send are.
#[derive(Debug)]
pub(crate) enum Whereabouts {
    Memory(Bytes),
    Journal(Stored),
}

impl Obligation {
    /// A new obligation whose bytes nobody else has.
    #[cfg(test)]
    pub(crate) fn new(body: Bytes, items: u64, ticket: &Arc<Ticket>, account: &Arc<Account>) -> Arc<Self> {
        Self::paid(Piece { body, items }, None, ticket, account, None)
    }

    /// A new obligation for a piece, entered in the books as waiting.
    pub(crate) fn paid(
        Piece { body, items }: Piece,
        paid: Option<Paid>,
        ticket: &Arc<Ticket>,
        account: &Arc<Account>,
        mark: Option<Mark>,
    ) -> Arc<Self> {
        account.books.arrive(items);
        mark.iter().for_each(|mark| mark.set(Way::Pending));
        ticket.opened();
        let (bytes, ticket, account) = (body.len(), Some(Arc::clone(ticket)), Arc::clone(account));
        let phase = Mutex::new(Phase::Waiting { body, sent: false, deposited: false });
        Arc::new(Self { items, bytes, since: Instant::now(), ticket, account, phase, mark, _paid: paid })
    }

    /// An obligation that the journal remembers: an entry that was taken from the pipeline's queue.
    pub(crate) fn stored(entry: Entry, account: &Arc<Account>) -> Arc<Self> {
        let (items, bytes) = (u64::from(entry.items), entry.payload_bytes as usize);
        Self::make((items, bytes), Instant::now(), None, account, Phase::Stored(Stored::whole(entry)))
    }

    /// An obligation that another pipeline's task left behind with the account.
    pub(crate) fn left_behind(leftover: Leftover, account: &Arc<Account>) -> Arc<Self> {
        let Leftover { stored, items, bytes } = leftover;
        Self::make((items, bytes), Instant::now(), None, account, Phase::Stored(stored))
    }

    fn make(
        (items, bytes): (u64, usize),
        since: Instant,
        ticket: Option<Arc<Ticket>>,
        account: &Arc<Account>,
        phase: Phase,
    ) -> Arc<Self> {
        let (account, phase) = (Arc::clone(account), Mutex::new(phase));
        Arc::new(Self { items, bytes, since, ticket, account, phase, mark: None, _paid: None })
    }

    /// Who owes it.
    pub(crate) fn pipeline(&self) -> &PipelineId {
        &self.account.id
    }

    /// What kind of items are in it.
    pub(crate) fn signal(&self) -> Signal {
        self.account.id.signal
    }

    /// Items in the piece.
    pub(crate) fn items(&self) -> u64 {
        self.items
    }

    /// When the piece arrived, or was read back from the journal.
    pub(crate) fn since(&self) -> Instant {
        self.since
    }

    /// Encoded length of the piece.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// What keeping the piece in memory costs the budget, as far as the share counts it.
    fn cost(&self) -> usize {
        self.bytes + OVERHEAD_BYTES
    }

    /// Room that reading it back takes; none while the bytes are in memory.
    pub(crate) fn read_bytes(&self) -> usize {
        match &*self.lock() {
            Phase::Stored(stored) => stored.read_bytes(),
            _ => 0,
        }
    }

    /// Whether the pipeline still has to send it.
    pub(crate) fn is_owed(&self) -> bool {
        match &*self.lock() {
            Phase::Waiting { .. } | Phase::Held(_) => true,
            Phase::Stored(stored) => stored.is_owed(&self.account),
            Phase::Storing | Phase::Rewriting(_) | Phase::Withdrawn | Phase::Split(_) | Phase::Done => false,
        }
    }

    /// Whether the client was told OK while the bytes are in memory.
    pub(crate) fn is_held(&self) -> bool {
        matches!(&*self.lock(), Phase::Held(_))
    }

    /// Whether the client is not answered yet.
    pub(crate) fn is_waiting(&self) -> bool {
        matches!(&*self.lock(), Phase::Waiting { .. } | Phase::Storing)
    }

    /// What is to be sent; `None` when nothing is owed any more. From now on until [`Obligation::came_back`], a request
    /// is under way.
    pub(crate) fn begin_attempt(&self) -> Option<Whereabouts> {
        match &mut *self.lock() {
            Phase::Waiting { body, sent, .. } => {
                *sent = true;
                Some(Whereabouts::Memory(body.clone()))
            }
            Phase::Held(body) => Some(Whereabouts::Memory(body.clone())),
            Phase::Stored(stored) => stored.is_owed(&self.account).then(|| Whereabouts::Journal(stored.clone())),
            Phase::Storing | Phase::Rewriting(_) | Phase::Withdrawn | Phase::Split(_) | Phase::Done => None,
        }
    }

    /// The request that was under way is over and the piece has to be sent again.
    pub(crate) fn came_back(&self) {
        if let Phase::Waiting { sent, .. } = &mut *self.lock() {
            *sent = false;
        }
    }

    /// Whether the client was told to send it again, or a part of it.
    pub(crate) fn was_withdrawn(&self) -> bool {
        match &*self.lock() {
            Phase::Withdrawn => true,
            Phase::Split(parts) => parts.iter().any(|part| part.was_withdrawn()),
            _ => false,
        }
    }

    /// What it would cost to hold the piece if the client were answered now; nothing when the journal's writer has it.
    pub(crate) fn waiting_cost(&self) -> usize {
        match &*self.lock() {
            Phase::Waiting { deposited: false, .. } => self.cost(),
            Phase::Split(parts) => parts.iter().map(|part| part.waiting_cost()).sum(),
            _ => 0,
        }
    }

    /// The client gets its OK and the piece stays in memory. Returns what this costs; the caller has reserved that in
    /// the pipeline's share.
    pub(crate) fn hold(&self) -> usize {
        let mut phase = self.lock();
        match std::mem::replace(&mut *phase, Phase::Done) {
            Phase::Waiting { body, .. } => {
                *phase = Phase::Held(body);
                self.account.books.keep(self.items);
                drop(phase);
                self.answered();
                self.cost()
            }
            Phase::Split(parts) => {
                *phase = Phase::Split(parts.clone());
                // The last part to be answered for may look at this one.
                drop(phase);
                parts.iter().map(|part| part.hold()).sum()
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
        match &*phase {
            Phase::Waiting { .. } | Phase::Storing => self.give_back(phase),
            Phase::Split(parts) => {
                let parts = parts.clone();
                drop(phase);
                parts.iter().for_each(|part| part.withdraw());
            }
            Phase::Rewriting(stored) => {
                let stored = stored.clone();
                *phase = Phase::Stored(stored);
            }
            Phase::Held(_) | Phase::Stored(_) | Phase::Withdrawn | Phase::Done => {}
        }
    }

    fn give_back(&self, mut phase: MutexGuard<'_, Phase>) {
        *phase = Phase::Withdrawn;
        self.account.books.withdraw(self.items);
        self.tell(Way::Withdrawn);
        if let Some(ticket) = &self.ticket {
            ticket.withdrawn.store(true, Ordering::Release);
        }
        drop(phase);
        self.answered();
    }

    /// The pipeline's task ends before it is done with the piece. The journal's writer answers for what it has, and
    /// what is on disk is left for whoever takes over. What is nowhere else is the client's again or, if the client has
    /// its OK, given up.
    pub(crate) fn abandon(&self) {
        let mut phase = self.lock();
        match &*phase {
            Phase::Waiting { deposited: false, .. } => self.give_back(phase),
            Phase::Held(body) => {
                self.account.sample_held(DropReason::Shutdown, self.items, body);
                *phase = Phase::Done;
                self.account.share.remove(self.cost());
                self.account.books.finish_kept(self.items, &Fate::Dropped(DropReason::Shutdown));
                self.tell(Way::Dropped);
            }
            Phase::Waiting { deposited: true, .. }
            | Phase::Storing
            | Phase::Stored(_)
            | Phase::Rewriting(_)
            | Phase::Withdrawn
            | Phase::Split(_)
            | Phase::Done => {}
        }
    }

    /// The pipeline is done with the piece. False when the piece had been given up before and is in the books already.
    pub(crate) fn finish(&self, fate: &Fate) -> bool {
        let account = &self.account;
        self.tell(Way::of(fate));
        let mut phase = self.lock();
        match std::mem::replace(&mut *phase, Phase::Done) {
            Phase::Waiting { .. } | Phase::Storing => {
                account.books.finish_waiting(self.items, fate);
                if let Some(ticket) = &self.ticket {
                    ticket.done.fetch_add(1, Ordering::AcqRel);
                }
                drop(phase);
                self.answered();
            }
            Phase::Held(body) => {
                if let Fate::Dropped(reason) = fate {
                    account.sample_held(*reason, self.items, &body);
                }
                account.share.remove(self.cost());
                account.books.finish_kept(self.items, fate);
            }
            Phase::Stored(stored) => {
                // It may have become stored since it was told above.
                self.tell(Way::of(fate));
                stored.tell(account, Way::of(fate));
                if !stored.finished(account, self.items) {
                    return false;
                }
                account.books.finish_kept(self.items, fate);
            }
            Phase::Withdrawn => account.books.finish_withdrawn(self.items, fate),
            Phase::Rewriting(_) | Phase::Split(_) | Phase::Done => {
                account.books.lose_track("an obligation was finished twice");
            }
        }
        true
    }

    fn tell(&self, way: Way) {
        if let Some(mark) = &self.mark {
            mark.set(way);
        }
    }

    /// The client no longer waits for this piece.
    fn answered(&self) {
        if let Some(ticket) = &self.ticket {
            ticket.closed();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Phase> {
        self.phase.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Obligation {
    fn drop(&mut self) {
        let phase = self.phase.get_mut().unwrap_or_else(PoisonError::into_inner);
        match phase {
            Phase::Waiting { .. } | Phase::Storing | Phase::Held(_) => {
                self.account.books.lose_track("an obligation was forgotten");
            }
            // The journal remembers it, and hands out again what was forgotten.
            Phase::Stored(stored) | Phase::Rewriting(stored) => {
                stored.forgotten(&self.account, self.items, self.bytes);
            }
            Phase::Withdrawn | Phase::Split(_) | Phase::Done => {}
        }
    }
}
