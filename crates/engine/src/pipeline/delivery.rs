//! The task that owns a pipeline's data: takes obligations in, sends batches, parks what must be tried again.
//!
//! One task, one owner: queue, parked batches and flights are plain fields. Sending runs in tasks of its own, so a
//! slow answer occupies a slot and nothing else.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::mpsc;
use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::Instant;

use super::pace::{self, Pace};
use super::parked::{Batch, Parked};
use super::queue::{Piece, Queue};
use super::{Command, Limits, Stats};
use crate::books::{Books, DropReason, Fate};
use crate::budget::Budget;
use crate::export::{Backend, Outcome, RetryKind};
use crate::share::Share;

/// Commands taken in before looking at the slots again.
const COMMANDS_PER_TURN: usize = 256;

/// A backend that answers "too large" is not offered less than this before its answer counts as a refusal of the data.
const MIN_BATCH_BYTES: usize = 16 * 1024;

/// What delivery is made of.
pub(super) struct Parts {
    pub(super) name: String,
    pub(super) backend: Arc<dyn Backend>,
    pub(super) limits: Limits,
    pub(super) budget: Budget,
    pub(super) share: Arc<Share>,
    pub(super) stats: Arc<Stats>,
    pub(super) epoch: Instant,
}

/// State of the task.
pub(super) struct Delivery {
    parts: Parts,
    batch_bytes: usize,
    queue: Queue,
    parked: Parked,
    pace: Pace,
    sends: JoinSet<Outcome>,
    flights: HashMap<Id, Flight>,
    in_flight_bytes: usize,
    next_batch: u64,
    draining: Option<Instant>,
}

struct Flight {
    batch: Batch,
    bytes: usize,
    sent: Instant,
}

impl Delivery {
    pub(super) fn new(parts: Parts) -> Self {
        let batch_bytes = parts.limits.batch_bytes;
        Self {
            parts,
            batch_bytes,
            queue: Queue::default(),
            parked: Parked::default(),
            pace: Pace::default(),
            sends: JoinSet::new(),
            flights: HashMap::new(),
            in_flight_bytes: 0,
            next_batch: 0,
            draining: None,
        }
    }

    /// Runs until told to drain and either nothing is left or the deadline has passed.
    pub(super) async fn run(mut self, mut commands: mpsc::UnboundedReceiver<Command>, books: Arc<Books>) {
        let mut inbox = Vec::with_capacity(COMMANDS_PER_TURN);
        loop {
            self.fill_slots(Instant::now());
            self.publish();
            if self.is_finished() {
                break;
            }
            let wakes_at = self.wakes_at();
            tokio::select! {
                biased;
                Some(ended) = self.sends.join_next_with_id() => {
                    self.settle(ended, &books);
                    while let Some(ended) = self.sends.try_join_next_with_id() {
                        self.settle(ended, &books);
                    }
                }
                received = commands.recv_many(&mut inbox, COMMANDS_PER_TURN) => {
                    if received == 0 {
                        // Every handle is gone without a drain: the engine was dropped.
                        break;
                    }
                    inbox.drain(..).for_each(|command| self.obey(command));
                }
                () = sleep_until(wakes_at) => {}
            }
        }
        // What was sent here in the last moment shares the fate of the rest; its client is not left waiting.
        commands.close();
        while let Ok(command) = commands.try_recv() {
            self.obey(command);
        }
        self.give_up();
        self.publish();
    }

    fn obey(&mut self, command: Command) {
        match command {
            Command::Take(obligation) => {
                if self.is_idle() {
                    // A backend that was not offered anything has not failed to take it.
                    self.parts.share.progressed();
                }
                self.queue.push(obligation, Instant::now());
            }
            Command::Evict => self.evict(),
            Command::Drain(deadline) => {
                self.draining = Some(deadline);
                self.parked.hurry(Instant::now());
            }
        }
    }

    /// Sends as long as there is a slot and something worth sending.
    fn fill_slots(&mut self, now: Instant) {
        while self.pace.allows(self.flights.len(), now) && self.in_flight_bytes < self.parts.limits.in_flight_bytes {
            let Some(batch) = self.parked.pop_due(now).or_else(|| self.next_from_queue(now)) else { break };
            self.send(batch);
        }
    }

    fn next_from_queue(&mut self, now: Instant) -> Option<Batch> {
        let oldest = self.queue.oldest()?;
        if pace::leaves_at(oldest, self.queue.bytes(), self.flights.len()) > now {
            return None;
        }
        let pieces = self.queue.take(self.batch_bytes);
        Some(self.batch(pieces))
    }

    fn batch(&mut self, pieces: Vec<Piece>) -> Batch {
        self.next_batch += 1;
        Batch { id: self.next_batch, bytes: 0, pieces, attempts: 0 }
    }

    fn send(&mut self, mut batch: Batch) {
        if !batch.still_owed() {
            return;
        }
        let bodies: Vec<Bytes> = batch.pieces.iter().filter_map(|piece| piece.obligation.body()).collect();
        let bytes = batch.bytes;
        let backend = Arc::clone(&self.parts.backend);
        let send = self.sends.spawn(async move { backend.send(bodies).await });
        self.in_flight_bytes += bytes;
        self.flights.insert(send.id(), Flight { batch, bytes, sent: Instant::now() });
    }

    /// Draws the consequences of an answer.
    fn settle(&mut self, ended: Result<(Id, Outcome), JoinError>, books: &Books) {
        let (id, outcome) = match ended {
            Ok(ended) => ended,
            Err(error) => {
                tracing::error!(pipeline = self.parts.name, %error, "a send task panicked: this is a bug in weir");
                (
                    error.id(),
                    Outcome::Retry { kind: RetryKind::Silent, hint: None, message: "send task panicked".into() },
                )
            }
        };
        let Some(Flight { batch, bytes, sent }) = self.flights.remove(&id) else { return };
        self.in_flight_bytes -= bytes;
        self.parts.stats.latency.observe(sent.elapsed());
        let unheard = matches!(outcome, Outcome::Retry { kind: RetryKind::Unreachable | RetryKind::Silent, .. });
        if !unheard && self.pace.reached() {
            tracing::info!(pipeline = self.parts.name, "backend can be reached again");
        }
        match outcome {
            Outcome::Delivered { rejected, message } => self.delivered(&batch, rejected, &message, books),
            Outcome::Retry { kind, hint, message } => self.retry(batch, kind, hint, &message),
            Outcome::TooLarge { message } => self.shrink(batch, bytes, &message),
            Outcome::Rejected { code, message } => self.rejected(&batch, code, &message),
        }
    }

    fn delivered(&mut self, batch: &Batch, rejected: u64, message: &str, books: &Books) {
        self.parts.share.progressed();
        finish(&batch.pieces, &Fate::Delivered);
        if rejected > 0 {
            let items: u64 = batch.pieces.iter().map(|piece| piece.obligation.items()).sum();
            books.correct_partial(rejected.min(items));
        }
        if (rejected > 0 || !message.is_empty()) && self.pace.may_report_loss(Instant::now()) {
            let pipeline = &self.parts.name;
            tracing::warn!(pipeline, rejected, cause = message, "backend took a request only in part");
        }
    }

    fn retry(&mut self, mut batch: Batch, kind: RetryKind, hint: Option<Duration>, message: &str) {
        Stats::add(&self.parts.stats.retries, 1);
        let now = Instant::now();
        let pipeline = &self.parts.name;
        if kind == RetryKind::Unreachable {
            if self.pace.cannot_reach(now) {
                tracing::warn!(pipeline, cause = message, "backend cannot be reached; data is kept and tried again");
            }
        } else if self.pace.may_complain(now) {
            let parked = self.parked.len() + 1;
            tracing::warn!(
                pipeline,
                cause = message,
                parked,
                "backend does not take data now; it is kept and tried again"
            );
        }
        batch.attempts = batch.attempts.saturating_add(1);
        if batch.still_owed() {
            // What could not be sent at all waits for the gate, not for a backoff of its own.
            let due = match kind {
                RetryKind::Unreachable => now,
                RetryKind::Silent | RetryKind::Answered => {
                    now + pace::retry_delay(batch.attempts, hint, self.draining.is_some())
                }
            };
            self.parked.park(batch, due);
        }
    }

    /// The backend takes smaller requests than this: learn that, and send the batch in two.
    fn shrink(&mut self, mut batch: Batch, bytes: usize, message: &str) {
        let learned = (bytes / 2).max(MIN_BATCH_BYTES);
        if learned < self.batch_bytes {
            let pipeline = &self.parts.name;
            tracing::warn!(
                pipeline,
                bytes,
                learned,
                cause = message,
                "backend found a request too large; sending less at once"
            );
            self.batch_bytes = learned;
        }
        if !batch.still_owed() {
            return;
        }
        if batch.pieces.len() == 1 {
            match split_piece(&batch.pieces[0], &self.parts.budget) {
                Split::Halves(pieces) => batch.pieces = pieces,
                Split::SingleItem => return self.rejected(&batch, "too_large".into(), message),
                Split::NoMemory => return self.retry(batch, RetryKind::Silent, None, "no memory to split a request"),
            }
        }
        let second = batch.pieces.split_off(batch.pieces.len().div_ceil(2));
        let now = Instant::now();
        for mut half in [batch, self.batch(second)] {
            if half.still_owed() {
                self.parked.park(half, now);
            }
        }
    }

    fn rejected(&mut self, batch: &Batch, code: String, message: &str) {
        let items: u64 = batch.pieces.iter().map(|piece| piece.obligation.items()).sum();
        if self.pace.may_report_loss(Instant::now()) {
            tracing::warn!(pipeline = self.parts.name, code, cause = message, items, "backend refused data for good");
        }
        self.parts.share.progressed();
        finish(&batch.pieces, &Fate::Rejected(code));
    }

    /// Drops the oldest held data until the share is within its limit.
    fn evict(&mut self) {
        let fate = Fate::Dropped(DropReason::MemoryFull);
        let over = self.parked.held().chain(self.queue.held()).take_while(|_| self.parts.share.is_over());
        over.for_each(|obligation| obligation.finish(&fate));
        self.parked.trim();
        self.queue.trim();
    }

    fn wakes_at(&self) -> Option<Instant> {
        let leaves = self.queue.oldest().map(|since| pace::leaves_at(since, self.queue.bytes(), self.flights.len()));
        let work = [leaves, self.parked.next_due()].into_iter().flatten().min();
        // With no slot free, only an answer or the gate can change anything.
        let can_send = self.in_flight_bytes < self.parts.limits.in_flight_bytes;
        let work = match self.pace.opens() {
            Some(opens) => work.filter(|_| self.flights.is_empty()).map(|at| at.max(opens)),
            None => work.filter(|_| can_send && self.pace.allows(self.flights.len(), Instant::now())),
        };
        [work, self.draining].into_iter().flatten().min()
    }

    fn is_finished(&self) -> bool {
        self.draining.is_some_and(|deadline| self.is_idle() || deadline <= Instant::now())
    }

    fn is_idle(&self) -> bool {
        self.queue.is_empty() && self.parked.is_empty() && self.flights.is_empty()
    }

    /// The end: what is still here was acknowledged from memory (counted as dropped) or never acknowledged.
    fn give_up(&mut self) {
        self.sends.abort_all();
        let flights = self.flights.drain().flat_map(|(_, flight)| flight.batch.pieces);
        let parked = self.parked.drain().flat_map(|batch| batch.pieces);
        let mut lost = 0;
        for piece in flights.chain(parked).chain(self.queue.drain()) {
            piece.obligation.withdraw();
            if piece.obligation.is_held() {
                lost += piece.obligation.items();
                piece.obligation.finish(&Fate::Dropped(DropReason::Shutdown));
            }
        }
        if lost > 0 {
            let pipeline = &self.parts.name;
            tracing::error!(pipeline, items = lost, "stopped before the backend took acknowledged data held in memory");
        }
    }

    fn publish(&self) {
        let stats = &self.parts.stats;
        stats.in_flight.store(self.flights.len() as u64, Ordering::Relaxed);
        stats.parked.store(self.parked.len() as u64, Ordering::Relaxed);
        let pending = self.queue.bytes() + self.parked.bytes() + self.in_flight_bytes;
        stats.pending_bytes.store(pending as u64, Ordering::Relaxed);
        let flying = self.flights.values().filter_map(|flight| flight.batch.pieces.first()).map(|piece| piece.since);
        let oldest = flying.chain(self.parked.oldest()).chain(self.queue.oldest()).min();
        let oldest = oldest
            .map_or(u64::MAX, |at| u64::try_from(at.duration_since(self.parts.epoch).as_millis()).unwrap_or(u64::MAX));
        stats.oldest_ms.store(oldest, Ordering::Relaxed);
    }
}

fn finish(pieces: &[Piece], fate: &Fate) {
    pieces.iter().for_each(|piece| piece.obligation.finish(fate));
}

/// What came of an attempt to split a piece.
enum Split {
    Halves(Vec<Piece>),
    SingleItem,
    NoMemory,
}

/// The two halves of a piece; none when it is not owed any more.
fn split_piece(piece: &Piece, budget: &Budget) -> Split {
    let Some(body) = piece.obligation.body() else { return Split::Halves(Vec::new()) };
    let Some((first, second)) = weir_otlp::halve_traces(&body) else { return Split::SingleItem };
    let paid = [&first, &second].map(|part| budget.pay_for_copy(&body, part.bytes.clone()));
    let [Some(first_bytes), Some(second_bytes)] = paid else { return Split::NoMemory };
    let halves = [(first_bytes, u64::from(first.items)), (second_bytes, u64::from(second.items))];
    let halves = piece.obligation.split(halves).into_iter();
    Split::Halves(halves.map(|obligation| Piece { obligation, since: piece.since }).collect())
}

async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}
