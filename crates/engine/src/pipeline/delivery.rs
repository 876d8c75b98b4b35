//! The task that owns a pipeline's data: takes obligations in, sends batches, parks what must be tried again.
//!
//! One task, one owner: queue, parked batches and flights are plain fields. Sending runs in tasks of its own
//! (`flight.rs`), so a slow answer occupies a slot and nothing else. `delivery/departure.rs` says what leaves
//! next, `delivery/landing.rs` what follows from an answer, `delivery/refused.rs` what follows from a refusal.

mod departure;
mod flights;
mod landing;
mod put_off;
mod read_back;
mod refused;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::concurrency::Concurrency;
use super::flight::Crew;
use super::isolation::Traffic;
use super::pace::Pace;
use super::parked::Parked;
use super::pass_rates::PassRates;
use super::queue::SendQueue;
use super::retry_budget::RetryBudget;
use super::{BackendState, Instruction, Limits, Stats};
use crate::account::Account;
use crate::books::{DropReason, Fate};
use crate::budget::{Budget, ROOM_CHECK};
use crate::clock::Clock;
use crate::export::Backend;
use crate::obligation::Obligation;
use crate::store::Store;
use departure::Probes;
use flights::Flights;
use put_off::PutOff;
pub(super) use read_back::ReadBack;

/// Instructions taken in before looking at the slots again.
const INSTRUCTIONS_AT_ONCE: usize = 256;

/// Unanswered requests per backend at most. Enough to fill a backend that takes a second per request with full batches.
pub(crate) const MAX_IN_FLIGHT: usize = 64;

/// A second change of the backend waits at most this long for requests under way to the first one. They are given up then.
const NEXT_BACKEND_WAITS: Duration = Duration::from_secs(5);

/// A backend that has answered nothing for this long is called silent.
const SILENT_AFTER: Duration = Duration::from_secs(10);

/// What delivery is made of.
pub(super) struct Parts {
    pub(super) crew: Crew,
    pub(super) limits: Limits,
    /// Pays for copies of pieces that have to be split.
    pub(super) budget: Budget,
    /// Without a journal, pays for halves of pieces that are not copies.
    pub(super) halves: Budget,
    /// Pays for what is read back from the journal.
    pub(super) read_back: ReadBack,
    pub(super) stats: Arc<Stats>,
    pub(super) clock: Clock,
    /// Writes parts of the backlog again. None without a journal.
    pub(super) store: Option<Store>,
}

/// State of the task.
pub(super) struct Delivery {
    parts: Parts,
    queue: SendQueue,
    parked: Parked,
    pace: Pace,
    concurrency: Concurrency,
    retries: RetryBudget,
    /// The requests that left for the present backend, and what it took of them.
    traffic: Traffic,
    rates: PassRates,
    /// When the backend last answered anything, had nothing to answer, or was first asked after that.
    heard: Instant,
    /// The log has said that the backend does not take data, so it will also say when it does again.
    complained: bool,
    probes: Probes,
    flights: Flights,
    /// The backend that comes next, and when it comes even if requests to the one before the present one are under way.
    next_backend: Option<(Arc<dyn Backend>, Instant)>,
    /// Gives up the requests to the backend before this one.
    give_up_previous: CancellationToken,
    next_batch: u64,
    /// The journal may have something to take.
    backlog: bool,
    /// The length of the next entry of the backlog, if it is known to be larger than a request.
    next_entry_bytes: usize,
    put_off: PutOff,
    /// When to read again an entry that the disk did not give.
    reads_again: Option<Instant>,
    /// A batch found no room to be read back. Until then, nothing else of the backlog is read.
    retry_starves: Option<Instant>,
    /// The backlog's turn is next, if there is live data as well.
    backlog_next: bool,
    draining: Option<Instant>,
    instructions: mpsc::UnboundedReceiver<Instruction>,
}

impl Delivery {
    pub(super) fn new(parts: Parts, instructions: mpsc::UnboundedReceiver<Instruction>) -> Self {
        Self {
            queue: SendQueue::default(),
            parked: Parked::default(),
            pace: Pace::default(),
            concurrency: Concurrency::new(parts.limits.requests),
            retries: RetryBudget::new(Instant::now()),
            traffic: Traffic::default(),
            rates: PassRates::default(),
            heard: Instant::now(),
            complained: false,
            probes: Probes::default(),
            flights: Flights::default(),
            next_backend: None,
            give_up_previous: CancellationToken::new(),
            next_batch: 0,
            backlog: parts.crew.account.queue.is_some(),
            next_entry_bytes: 0,
            put_off: PutOff::default(),
            reads_again: None,
            retry_starves: None,
            backlog_next: false,
            draining: None,
            instructions,
            parts,
        }
    }

    fn account(&self) -> &Arc<Account> {
        &self.parts.crew.account
    }

    /// Runs until it is told to drain and either nothing is left or the deadline has passed. Whatever ends it, data
    /// that is still here then is given up.
    pub(super) async fn run(mut self) {
        let account = Arc::clone(self.account());
        self.take_over();
        loop {
            self.obey_what_waits();
            self.change_backend(Instant::now());
            self.fill_slots(Instant::now());
            self.publish();
            if self.draining.is_some() {
                self.queue.trim();
            }
            if self.is_finished() {
                break;
            }
            let wakes_at = self.wakes_at(Instant::now());
            tokio::select! {
                biased;
                Some(ended) = self.flights.next() => {
                    self.land(ended);
                    while let Some(ended) = self.flights.try_next() {
                        self.land(ended);
                    }
                }
                instruction = self.instructions.recv(), if self.expects_instructions() => match instruction {
                    Some(instruction) => self.obey(instruction),
                    // Every handle is gone without a drain: the engine was dropped.
                    None if self.draining.is_none() => break,
                    None => {}
                },
                // While it drains, another task may have taken over the queue.
                () = account.queue_filled.notified(), if self.draining.is_none() => {
                    self.backlog = account.backlog().untaken_entries > 0;
                    self.take_over();
                    // Data that went to the journal gives up its places.
                    self.queue.trim();
                }
                () = sleep_until(wakes_at) => {}
            }
        }
        // What was answered in the last moment is not given up.
        while let Some(ended) = self.flights.try_next() {
            self.land(ended);
        }
    }

    /// Takes over parts that another task left behind.
    fn take_over(&mut self) {
        let now = Instant::now();
        for leftover in self.account().take_leftovers() {
            let batch = self.batch(vec![Obligation::left_behind(leftover, self.account())]);
            self.parked.park(batch, now);
        }
    }

    /// Takes in instructions however fast answers come: live data must not wait until a backend that answers at once has
    /// the whole backlog.
    fn obey_what_waits(&mut self) {
        for _ in 0..INSTRUCTIONS_AT_ONCE {
            let Ok(instruction) = self.instructions.try_recv() else { break };
            self.obey(instruction);
        }
    }

    fn obey(&mut self, instruction: Instruction) {
        match instruction {
            Instruction::Take(obligation) => {
                if self.is_idle() {
                    // A backend that was not offered anything has not failed to take it.
                    self.account().share.progressed();
                }
                self.queue.push(obligation);
            }
            Instruction::Evict(bytes) => self.evict(bytes),
            Instruction::Drain(deadline) => {
                let now = Instant::now();
                self.draining = Some(deadline);
                // There is no time to wait for another backend's answers.
                self.next_backend.iter_mut().for_each(|(_, at)| *at = now);
                self.parked.hurry(now);
                self.pace.hurry(now);
            }
            Instruction::Adjust(limits) => self.adjust(limits),
            Instruction::SendTo(backend) => {
                let at = self.next_backend.take().map_or_else(|| Instant::now() + NEXT_BACKEND_WAITS, |(_, at)| at);
                self.next_backend = Some((backend, at));
            }
        }
    }

    fn adjust(&mut self, limits: Limits) {
        self.parts.read_back.resize(limits.read_back_bytes);
        self.parts.halves.resize(limits.halves);
        self.parts.stats.fit_samples(self.account(), limits);
        self.concurrency.adjust(limits.requests);
        self.parts.limits = limits;
        // Where memory is short nothing new comes in, which would drop as much.
        self.evict(0);
    }

    /// What was learned was about the old backend, and data that waits on its account need not wait for the new one.
    /// A backend that hangs would have connections for each configuration there ever was. So requests are under way to
    /// two backends at most.
    fn change_backend(&mut self, now: Instant) {
        let has_earlier = self.flights.has_earlier();
        let Some((backend, _)) = self.next_backend.take_if(|(_, at)| !has_earlier || *at <= now) else { return };
        self.give_up_previous.cancel();
        self.parts.crew.backend = backend;
        self.give_up_previous = std::mem::take(&mut self.parts.crew.given_up);
        self.flights.change_backend();
        self.account().has_another_backend();
        self.pace = self.pace.of_another();
        self.concurrency = Concurrency::new(self.parts.limits.requests);
        self.retries = RetryBudget::new(now);
        (self.traffic, self.rates, self.heard) = (Traffic::default(), PassRates::default(), now);
        self.parked.forget_refusals();
        self.parked.hurry(now);
        self.end_round();
    }

    /// When a backend that does not answer is called silent.
    fn silent_at(&self) -> Option<Instant> {
        let is_news = self.flights.present() > 0 && self.parts.stats.backend.state() != BackendState::Silent;
        is_news.then(|| self.heard + SILENT_AFTER)
    }

    fn notice_silence(&mut self, now: Instant) {
        if self.silent_at().is_none_or(|at| at > now) {
            return;
        }
        // Others wait here for something, such as a token, and nobody has asked the backend anything meanwhile.
        let asked = self.parts.crew.backend.asked_since(self.heard).unwrap_or(now);
        self.heard = self.heard.max(asked);
        if self.heard + SILENT_AFTER > now {
            return;
        }
        let cause = format!("no answer for {} s", SILENT_AFTER.as_secs());
        self.stands(BackendState::Silent, "", &cause, now);
    }

    /// Drops the oldest held data to make room for `bytes` that came: until the share is within its limit or, if the
    /// limit was lowered, as much as came. While memory is short, that is not enough.
    fn evict(&mut self, bytes: usize) {
        let fate = Fate::Dropped(DropReason::MemoryFull);
        let share = &self.parts.crew.account.share;
        let short = self.parts.budget.used() > self.parts.budget.capacity() / 4 * 3;
        let before = if short { 0 } else { share.held().saturating_sub(bytes) };
        let most = share.limit().max(before);
        let over = self.parked.held().chain(self.queue.held()).take_while(|_| share.held() > most);
        over.for_each(|obligation| _ = obligation.finish(&fate));
        self.parked.trim();
        self.queue.trim();
    }

    fn wakes_at(&mut self, now: Instant) -> Option<Instant> {
        let leaves = self.queue_leaves_at();
        let work = [leaves, self.retry_at(now), self.reads_at(now), self.next_round(now)].into_iter().flatten().min();
        // With no slot free, only an answer or the time of a probe can change anything.
        let work = match self.pace.probe_at() {
            Some(probe_at) => work.filter(|_| self.flights.present() == 0).map(|at| at.max(probe_at)),
            None => work.filter(|_| self.may_send(now)),
        };
        // Pieces that are withdrawn or written elsewhere leave without a notice.
        let drain = self.draining.map(|deadline| deadline.min(now + ROOM_CHECK));
        let turn = self.parts.read_back.waits(now).then(|| now + ROOM_CHECK);
        let next = self.next_backend.as_ref().map(|(_, at)| *at);
        [work, drain, turn, next, self.silent_at()].into_iter().flatten().min()
    }

    /// When to look again at a backlog that could not be read just now.
    fn reads_at(&self, now: Instant) -> Option<Instant> {
        if !self.backlog || self.draining.is_some() || !self.has_untried() {
            return None;
        }
        // Memory that others have, or a read that hangs, becomes free without a notice. Work under way ends with one.
        let later = (self.flights.present() == 0).then(|| now + ROOM_CHECK);
        self.reads_again.filter(|at| *at > now).or(later)
    }

    fn is_finished(&self) -> bool {
        let Some(deadline) = self.draining else { return false };
        // What is in the journal can wait for the next start. The clients of what is about to be written there cannot.
        let parked = || match self.account().queue {
            Some(_) => !self.parked.has_waiting(),
            None => self.parked.is_empty(),
        };
        deadline <= Instant::now() || (self.queue.is_empty() && self.flights.is_empty() && parked())
    }

    /// Whether another instruction may come. While the task drains, nobody may have a handle of it any more, and it goes
    /// on.
    fn expects_instructions(&self) -> bool {
        self.draining.is_none() || !self.instructions.is_closed() || !self.instructions.is_empty()
    }

    fn is_idle(&self) -> bool {
        self.queue.is_empty() && self.parked.is_empty() && self.flights.is_empty()
    }

    /// Data that is still here is in the journal, or was acknowledged from memory (counted as dropped), or was never
    /// acknowledged.
    fn give_up(&mut self) {
        let flights = self.flights.give_up().flat_map(|batch| batch.pieces);
        let parked = self.parked.drain().flat_map(|batch| batch.pieces);
        flights.chain(parked).chain(self.queue.drain()).for_each(|piece| piece.abandon());
    }

    fn publish(&self) {
        let stats = &self.parts.stats;
        stats.in_flight.store(self.flights.len() as u64, Ordering::Relaxed);
        stats.concurrency.store(self.concurrency.limit() as u64, Ordering::Relaxed);
        stats.parked.store(self.parked.len() as u64, Ordering::Relaxed);
        stats.retries_full_ms.store(self.ms(self.retries.full_at()), Ordering::Relaxed);
        stats.probe_ms.store(self.pace.probe_at().map_or(u64::MAX, |at| self.ms(at)), Ordering::Relaxed);
        stats.queued_bytes.store(self.queue.bytes() as u64, Ordering::Relaxed);
        // Those to an earlier backend, too.
        let under_way: usize = self.flights.iter().map(|flight| flight.bytes).sum();
        let pending = self.queue.bytes() + self.parked.bytes() + under_way;
        stats.pending_bytes.store(pending as u64, Ordering::Relaxed);
        let flying = self.flights.iter().filter_map(|flight| flight.batch.pieces.first()).map(|piece| piece.since());
        let oldest = flying.chain(self.parked.oldest()).chain(self.queue.oldest()).min();
        stats.oldest_ms.store(oldest.map_or(u64::MAX, |at| self.ms(at)), Ordering::Relaxed);
    }

    /// Milliseconds from the engine's start to this.
    fn ms(&self, at: Instant) -> u64 {
        u64::try_from(at.duration_since(self.parts.clock.started).as_millis()).unwrap_or(u64::MAX)
    }
}

/// The end, in order or not.
impl Drop for Delivery {
    fn drop(&mut self) {
        // What was sent here in the last moment shares the fate of the rest. Its client is not left waiting.
        self.instructions.close();
        while let Ok(instruction) = self.instructions.try_recv() {
            self.obey(instruction);
        }
        self.give_up();
        self.publish();
        // What was handed back here is left for whoever takes over.
        self.account().queue_filled.notify_one();
    }
}

async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}
