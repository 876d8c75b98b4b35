//! What leaves next for the backend, and when.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::Instant;
use weir_journal::Order;

use super::super::flight::{Landed, Portion, room_for};
use super::super::isolation::Suspicion;
use super::super::pace;
use super::super::parked::Batch;
use super::Delivery;
use crate::budget::{Permit, ROOM_CHECK};
use crate::obligation::{Obligation, Whereabouts};

/// Small pieces of the backlog that travel in one request at most.
const MAX_FETCHED_PIECES: usize = 1024;

/// While a backend takes nothing, it is asked with at most this much, or with one piece.
pub(super) const PROBE_BYTES: usize = 64 * 1024;

/// How long a batch that finds no room to be read back keeps the rest of the backlog from taking that room.
const RETRY_FIRST: Duration = Duration::from_secs(1);

/// What the last probes had in them. The next probe has something else, because the backend may be well and only refuse
/// this data.
#[derive(Debug)]
pub(super) struct Probes {
    /// The next probe has parked data; otherwise data that was not sent before.
    parked_is_next: bool,
    /// The last probe with data that was not sent before had the newest of it; the next one has the oldest.
    had_newest: bool,
    /// The last probe with parked data had the batch that was tried least; the next one has the batch that is due
    /// first.
    had_least_tried: bool,
    /// The last read of the backlog began with what was put off; the next one begins with the oldest.
    had_put_off: bool,
    /// How many refused probes were taken apart since the backend took something.
    splits: u32,
}

/// The most probes that are taken apart while the backend takes nothing: enough to find one good item among thousands,
/// and not so many that an outage leaves everything in pieces.
const MOST_SPLITS: u32 = 32;

impl Probes {
    /// Whether a refused probe may be taken apart now. If so, it is counted.
    pub(super) fn may_split(&mut self) -> bool {
        let may = self.splits < MOST_SPLITS;
        self.splits += u32::from(may);
        may
    }

    pub(super) fn succeeded(&mut self) {
        self.splits = 0;
    }
}

impl Default for Probes {
    fn default() -> Self {
        Self { parked_is_next: true, had_newest: false, had_least_tried: false, had_put_off: false, splits: 0 }
    }
}

impl Delivery {
    /// Sends as long as there is a slot and something worth sending.
    pub(super) fn fill_slots(&mut self, now: Instant) {
        self.notice_silence(now);
        self.begin_round(now);
        while self.may_send(now) && self.send_next(now) {}
    }

    pub(super) fn may_send(&self, now: Instant) -> bool {
        self.flights.present_bytes() < self.parts.limits.in_flight_bytes
            && self.pace.allows(self.flights.present(), self.concurrency.limit(), now)
    }

    /// Sends the next request; false when there is nothing to send.
    ///
    /// Data that was tried before comes first, within the retry budget. In two cases it takes turns with new data:
    /// while the backend takes nothing, because it may only refuse this data; and when the data itself is suspected,
    /// because there may be so much of it that nothing else would leave. For the latter reason new data also comes
    /// first after some failures in a row.
    fn send_next(&mut self, now: Instant) -> bool {
        let is_suspect = self.parked.next().is_some_and(|batch| self.is_suspect(batch));
        let parked_first = match self.pace.is_probing() || is_suspect {
            true => self.probes.parked_is_next,
            false => !self.pace.has_failed_often(),
        };
        self.probes.parked_is_next = !parked_first;
        match parked_first {
            true => self.send_retry(now) || self.send_fresh(now),
            false => self.send_fresh(now) || self.send_retry(now),
        }
    }

    fn send_retry(&mut self, now: Instant) -> bool {
        let Some((batch, permit)) = self.next_retry(now) else { return false };
        self.send(batch, permit);
        true
    }

    /// Live data, whose clients wait, and the backlog take turns. So live data is not late, and the backlog shrinks,
    /// however much arrives.
    fn send_fresh(&mut self, now: Instant) -> bool {
        let live = self.queue_leaves_at().is_some_and(|at| at <= now);
        if (self.backlog_next || !live)
            && let Some(permit) = self.backlog_permit(now)
        {
            self.backlog_next = false;
            self.fetch(permit, now);
            return true;
        }
        let Some(batch) = self.next_from_queue(now) else { return false };
        self.backlog_next = true;
        self.send(batch, None);
        true
    }

    /// How large the next request may be.
    fn request_bytes(&self) -> usize {
        let most = self.account().request_size.bytes();
        if self.pace.is_probing() { most.min(PROBE_BYTES) } else { most }
    }

    /// A parked batch, and the permit for what of it has to be read back.
    pub(super) fn next_retry(&mut self, now: Instant) -> Option<(Batch, Option<Permit>)> {
        if self.retry_at(now).is_none_or(|at| at > now) {
            return None;
        }
        let mut batch = self.pop_parked(now)?;
        while !batch.still_owed() {
            batch = self.pop_parked(now)?;
        }
        if self.pace.is_probing() {
            self.cut(&mut batch, now);
        }
        let stored_bytes = batch.stored_bytes();
        let permit = match stored_bytes {
            0 => None,
            bytes => match self.parts.read_back.take(bytes, now) {
                Some(permit) => Some(permit),
                None => {
                    // The room that the next flight leaves is for this batch, not for the backlog.
                    self.parked.park(batch, now + ROOM_CHECK);
                    self.retry_starves = Some(now + RETRY_FIRST);
                    return None;
                }
            },
        };
        self.retry_starves = None;
        self.retries.try_retry(now);
        Some((batch, permit))
    }

    /// The parked batch that is due first. While the backend takes nothing, every other one is the batch that was tried
    /// least, because the backend may be well and never take the others. It is not each one: what comes back from the
    /// journal counts as not tried, and would keep everything else waiting.
    fn pop_parked(&mut self, now: Instant) -> Option<Batch> {
        self.probes.had_least_tried = self.pace.is_probing() && !self.probes.had_least_tried;
        if self.probes.had_least_tried { self.parked.pop_least_tried(now) } else { self.parked.pop_due(now) }
    }

    /// Leaves as much of a batch as a probe may have, and parks the rest.
    fn cut(&mut self, batch: &mut Batch, now: Instant) {
        let rest = batch.cut(PROBE_BYTES);
        if rest.is_empty() {
            return;
        }
        batch.suspicion = batch.suspicion.of_parts();
        let (attempts, suspicion) = (batch.attempts, batch.suspicion);
        let mut rest = Batch { attempts, suspicion, ..self.batch(rest) };
        rest.measure();
        self.parked.park(rest, now);
    }

    /// When something parked may be tried again.
    pub(super) fn retry_at(&self, now: Instant) -> Option<Instant> {
        // What is in the journal can wait for the next start.
        let ends = self.draining.is_some() && self.account().queue.is_some();
        let due = self.parked.next_due().filter(|_| !ends)?;
        Some(due.max(self.retries.next_token(now)))
    }

    fn next_from_queue(&mut self, now: Instant) -> Option<Batch> {
        if self.queue_leaves_at().is_none_or(|at| at > now) {
            return None;
        }
        let mut batch = self.batch(Vec::new());
        batch.pieces = match self.probes_newest() {
            true => self.queue.take_newest(),
            false => {
                let (bytes, items, pieces) = (self.request_bytes(), self.most_items(now), self.room());
                self.queue.take(bytes, items, pieces)
            }
        };
        Some(batch)
    }

    /// How many items may travel in one request. A backend that takes nothing is asked with what one client sent.
    fn most_items(&mut self, now: Instant) -> u64 {
        if self.pace.is_probing() { 1 } else { self.rates.most_items(now).unwrap_or(u64::MAX) }
    }

    pub(super) fn queue_leaves_at(&self) -> Option<Instant> {
        let oldest = self.queue.oldest().filter(|_| self.may_begin())?;
        Some(pace::leaves_at(oldest, self.queue.bytes(), self.request_bytes(), self.flights.present()))
    }

    /// Whether data may be sent that was not sent before. With a journal, data that may not be sent goes there unsent,
    /// and costs no memory.
    fn may_begin(&self) -> bool {
        self.room() > 0
    }

    /// Whether there is anything that was not sent before.
    pub(super) fn has_fresh(&self) -> bool {
        !self.queue.is_empty() || (self.backlog && self.has_untried())
    }

    /// How many more pieces may be under way or parked.
    pub(super) fn room(&self) -> usize {
        match self.account().queue {
            Some(_) => self.parts.limits.pieces.saturating_sub(self.parked.pieces() + self.flights.pieces()),
            None => usize::MAX,
        }
    }

    /// Room to read a request's worth of the backlog, if there is a backlog to read.
    fn backlog_permit(&mut self, now: Instant) -> Option<Permit> {
        let readable = self.reads_again.is_none_or(|at| at <= now);
        let retry_first = self.retry_starves.is_some_and(|until| until > now);
        let wanted = self.backlog && readable && !retry_first && self.draining.is_none() && self.has_untried();
        // One read at a time: two would read the same.
        let free = !self.parts.crew.reading.load(Ordering::Acquire);
        let bytes = room_for(self.account().request_size.bytes().max(self.next_entry_bytes));
        if wanted && free && self.may_begin() { self.parts.read_back.take(bytes, now) } else { None }
    }

    pub(super) fn batch(&mut self, pieces: Vec<Arc<Obligation>>) -> Batch {
        self.next_batch += 1;
        let suspicion = Suspicion::default();
        Batch { id: self.next_batch, bytes: 0, pieces, attempts: 0, not_before: None, suspicion }
    }

    fn send(&mut self, mut batch: Batch, permit: Option<Permit>) {
        if !batch.still_owed() {
            return;
        }
        if batch.attempts == 0 {
            self.retries.first_attempt(Instant::now());
        }
        let mut live = 0;
        let mut places = Vec::with_capacity(batch.pieces.len());
        batch.pieces.retain(|piece| {
            let Some(place) = piece.begin_attempt() else { return false };
            live += if let Whereabouts::Memory(body) = &place { body.len() } else { 0 };
            places.push(place);
            true
        });
        let task = self.parts.crew.clone().send(places, permit);
        let pieces = batch.pieces.len();
        self.depart(task, batch, live, pieces);
    }

    fn fetch(&mut self, permit: Permit, now: Instant) {
        let batch = self.batch(Vec::new());
        let backlog = self.account().backlog();
        let entry_bytes = usize::try_from(backlog.bytes / backlog.entries.max(1)).unwrap_or(usize::MAX);
        let entry_items = backlog.items / backlog.entries.max(1);
        let few = usize::try_from(self.most_items(now) / entry_items.max(1)).unwrap_or(usize::MAX);
        let pieces = self.room().min(few).clamp(1, MAX_FETCHED_PIECES);
        let bytes = self.request_bytes().min(entry_bytes.saturating_mul(pieces));
        // With little memory the permit may be for less.
        let bytes = bytes.min(permit.bytes().saturating_sub(room_for(crate::budget::OVERHEAD_BYTES))).max(1);
        self.parts.crew.reading.store(true, Ordering::Release);
        let portion = Portion { bytes, pieces, order: self.order_of_backlog(now) };
        let task = self.parts.crew.clone().fetch(portion, permit);
        self.depart(task, batch, 0, pieces);
    }

    fn order_of_backlog(&mut self, now: Instant) -> Order {
        if self.probes_newest() {
            return Order::Newest;
        }
        self.probes.had_put_off = self.may_take_again(now) && !self.probes.had_put_off;
        if self.probes.had_put_off { Order::PutOff } else { Order::Oldest }
    }

    /// Whether the next probe has the newest of what was not sent before. Every other one has. Otherwise data that the
    /// backend takes, live data above all, would wait behind everything that it refuses.
    fn probes_newest(&mut self) -> bool {
        self.probes.had_newest = self.pace.is_probing() && !self.probes.had_newest;
        self.probes.had_newest
    }

    fn depart<F>(&mut self, task: F, batch: Batch, bytes: usize, pieces: usize)
    where
        F: Future<Output = Landed> + Send + 'static,
    {
        if self.flights.present() == 0 {
            self.heard = Instant::now();
        }
        let number = self.traffic.leaves();
        self.flights.depart(task, batch, bytes, pieces, number);
    }
}
