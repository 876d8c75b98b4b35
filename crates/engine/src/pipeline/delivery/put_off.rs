//! What happens when so much data was refused that there is no place for more of it. If data that the backend never
//! takes could fill all places, nothing else could leave. So the last places are for data that was not sent before.
//!
//! Refused data that finds no place is taken apart until single pieces are refused. These go back to the journal, which
//! hands them out after everything that was not tried yet, one after the other, so that each of them gets its turn. A
//! part of an entry is written again as an entry of its own, because the journal hands out whole entries only.

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

use super::super::parked::Batch;
use super::Delivery;
use super::landing::Answered;
use crate::budget;
use crate::obligation::Obligation;

/// One place in so many is kept for data that was not sent before.
const OF_PLACES_FOR_FRESH: usize = 8;

/// Data that was put off is not tried again sooner than this. Good data among it waits for a few such rounds at most.
const ROUND: Duration = Duration::from_secs(10);

/// What went back to the journal in this round.
#[derive(Debug, Default)]
pub(super) struct PutOff {
    entries: u64,
    /// When the next round may begin.
    until: Option<Instant>,
}

impl Delivery {
    /// Whether there is no place for a batch that was refused. Batches that are being tried again keep their places:
    /// what was shown of them would be lost otherwise.
    pub(super) fn has_no_place_for(&self, batch: &Batch) -> bool {
        if self.account().queue.is_none() {
            return false;
        }
        let retried = self.flights.iter().filter(|flight| flight.batch.attempts > 0).map(|flight| flight.pieces);
        let kept = if batch.attempts == 0 { retried.sum() } else { 0 };
        self.parked.pieces() + kept + batch.pieces.len() > self.parts.limits.pieces - self.places_for_fresh()
    }

    /// Places that are kept for data that was not sent before. Half of them may be taken by what is taken apart.
    pub(super) fn places_for_fresh(&self) -> usize {
        self.parts.limits.pieces.div_ceil(OF_PLACES_FOR_FRESH)
    }

    /// Whether the journal may hand out again what was put off, in turn with what was not tried yet. Parts that are
    /// written again count as not tried, so there may always be more of these.
    pub(super) fn may_take_again(&self, now: Instant) -> bool {
        self.put_off.until.is_none_or(|at| at <= now)
    }

    /// Whether refused data has to be taken apart to make room: some of it passes, and that shows which does not.
    pub(super) fn needs_room(&self, batch: &Batch) -> bool {
        self.put_off.entries > 0 || self.has_no_place_for(batch)
    }

    /// Leaves a single refused piece to the journal, if that is possible. The first one of a round is not tried before
    /// `hint`. Those that follow come with it: if each could put off the next round, there might never be one.
    pub(super) fn put_off(&mut self, answered: &Answered, hint: Option<Duration>) -> bool {
        let ([piece], [body]) = (answered.batch.pieces.as_slice(), answered.bodies.as_slice()) else { return false };
        if !piece.put_off() {
            return self.rewrite(piece, body);
        }
        let now = Instant::now();
        let pause = ROUND.max(self.pace.asked(hint.unwrap_or_default()));
        self.put_off.entries += 1;
        self.put_off.until.get_or_insert(now + pause);
        // Nobody else announces it, and it may be all that the journal has to give.
        self.backlog = true;
        true
    }

    /// Has a part of an entry written as an entry of its own.
    fn rewrite(&self, piece: &Arc<Obligation>, body: &Bytes) -> bool {
        let Some(store) = self.parts.store.as_ref().filter(|store| store.may_rewrite()) else { return false };
        // It must not cost other data, until it is counted as on its way.
        let Some(_room) = self.account().room_for(body.len(), false) else { return false };
        let Some(permit) = self.parts.budget.try_take(body.len()) else { return false };
        let Some(deposit) = piece.rewrite(budget::charge(body.to_vec(), permit)) else { return false };
        store.put(vec![deposit]);
        true
    }

    /// Tries again what was put off when nothing else is left or when there are places again, but not at once.
    pub(super) fn begin_round(&mut self, now: Instant) {
        if self.put_off.until.is_none_or(|at| at > now) {
            return;
        }
        let has_places = self.room() > self.parts.limits.pieces / 2 + 1;
        if has_places || !self.has_untried() {
            self.put_off = PutOff::default();
            self.backlog = true;
        }
    }

    /// Another backend may take what was put off.
    pub(super) fn end_round(&mut self) {
        self.account().begin_again();
        self.put_off = PutOff::default();
        self.backlog = self.account().queue.is_some();
    }

    /// Whether the journal has something that was not put off in this round.
    pub(super) fn has_untried(&self) -> bool {
        self.put_off.entries == 0 || self.account().backlog().untaken_entries > self.put_off.entries
    }

    /// When the data that was put off may be tried again, if it is all that is left.
    pub(super) fn next_round(&self, now: Instant) -> Option<Instant> {
        self.put_off.until.filter(|at| *at > now && self.backlog && self.draining.is_none())
    }
}
