//! One pipeline's part in a request, from the moment its rules are done with it until its client is answered.

use std::sync::Arc;

use weir_temporality::Reliance;

use crate::budget::{Paid, Permit};
use crate::division::PIECE_BYTES;
use crate::obligation::{Obligation, Piece, Ticket};
use crate::pipeline::{Pipeline, Stats};
use crate::rules::{Conversion, Removed};
use crate::taps::Mark;

/// What one pipeline gets of a request.
pub(super) struct Offer {
    pub(super) pipeline: Arc<Pipeline>,
    /// The size of its part of the request before its rules, in bytes; 0 once that is counted.
    pub(super) arrived_bytes: usize,
    /// The pieces of the request, until there are obligations for them.
    pub(super) pieces: Vec<Piece>,
    /// One for each piece.
    pub(super) obligations: Vec<Arc<Obligation>>,
    /// What its rules removed.
    pub(super) removed: Vec<Removed>,
    /// What its rules remember of the request.
    pub(super) conversion: Option<Conversion>,
    /// What else has to be accepted first, because points were left out on account of it.
    pub(super) reliance: Option<Reliance>,
    /// Wants to know what becomes of it.
    pub(super) mark: Option<Mark>,
    /// Pays for the offer itself when there are no obligations.
    pub(super) _paid: Option<Paid>,
}

impl Offer {
    /// From now on the pipeline owes its pieces. `paid` pays for what each of them costs beside its bytes.
    pub(super) fn owe(&mut self, ticket: &Arc<Ticket>, paid: &mut Option<Permit>) {
        let mut pay = || paid.as_mut().and_then(|paid| paid.pay(PIECE_BYTES));
        self._paid = if self.pieces.is_empty() { pay() } else { None };
        let account = &self.pipeline.account;
        let mark = self.mark.take();
        let obligation = |piece| Obligation::paid(piece, pay(), ticket, account, mark.clone());
        self.obligations = std::mem::take(&mut self.pieces).into_iter().map(obligation).collect();
    }

    pub(super) fn waits_for_answer(&self) -> bool {
        self.conversion.is_some() || !self.removed.is_empty() || self.arrived_bytes > 0
    }

    /// It is known what becomes of the obligations. If the request is refused and was delivered here all the same, it
    /// must not be converted again when it returns.
    pub(super) fn keep_conversion(&mut self) {
        if let Some(conversion) = self.conversion.take()
            && !self.was_withdrawn()
        {
            self.reliance = conversion.keep();
        }
    }

    fn was_withdrawn(&self) -> bool {
        self.obligations.iter().any(|obligation| obligation.was_withdrawn())
    }

    /// Whether the pipeline has all that it takes of the request, and nothing that it relies on is missing.
    pub(super) fn is_secured(&self) -> bool {
        !self.was_withdrawn() && self.reliance.as_ref().is_none_or(|reliance| reliance.holds() == Some(true))
    }

    /// The request is answered. What rules removed enters the books once the client has been told OK.
    pub(super) fn answered(&mut self, refused: bool) {
        self.keep_conversion();
        let bytes = std::mem::take(&mut self.arrived_bytes);
        if !refused {
            Stats::add(&self.pipeline.account.accepted_bytes, bytes as u64);
        }
        let books = &self.pipeline.account.books;
        for removed in self.removed.drain(..).filter(|_| !refused) {
            books.filter(removed.reason, removed.items);
            removed.count();
        }
    }

    /// What it would cost to hold what is open.
    pub(super) fn open_cost(&self) -> usize {
        self.obligations.iter().map(|obligation| obligation.waiting_cost()).sum()
    }
}

/// Room in one pipeline's share for the part of a request that is still open.
pub(super) struct Place<'a> {
    pub(super) offer: &'a Offer,
    open: usize,
    /// There was room (or nothing is open), and it is taken.
    pub(super) reserved: bool,
}

impl<'a> Place<'a> {
    pub(super) fn find(offer: &'a Offer) -> Self {
        let open = offer.open_cost();
        let reserved = open == 0 || offer.pipeline.account.share.reserve(open);
        Self { offer, open, reserved }
    }

    /// Gives the room back.
    pub(super) fn release(&self) {
        if self.reserved {
            self.offer.pipeline.account.share.remove(self.open);
        }
    }

    /// Holds what is still open. Without room for it, the pipeline's own oldest data has to go.
    pub(super) fn hold(&self) {
        let share = &self.offer.pipeline.account.share;
        if !self.reserved {
            share.add(self.open);
        }
        let held: usize = self.offer.obligations.iter().map(|obligation| obligation.hold()).sum();
        // Some of it may have been delivered since, or cut into parts with a little overhead.
        if held > self.open {
            share.add(held - self.open);
        } else {
            share.remove(self.open - held);
        }
        if !self.reserved {
            self.offer.pipeline.evict(held);
        }
    }
}
