//! One pipeline: the handle that requests are offered to, and the group of tasks that delivers for it.
//!
//! Each pipeline has its own queue, share of memory, send slots and backend connection (promise P2). What pipelines
//! share is listed in `docs/guarantees.md`. Only `weir-otlp` is asked what the bytes mean, and only `export` knows how they
//! travel.

mod answers;
mod concurrency;
mod delivery;
mod flight;
mod isolation;
mod pace;
mod parked;
mod pass_rates;
mod queue;
mod retry_budget;
mod standing;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use weir_plan::Signal;

pub(crate) use answers::Answers;
pub use answers::{AnswerFigures, Ending};
pub(crate) use delivery::MAX_IN_FLIGHT;
pub use retry_budget::RetryFigures;
pub(crate) use standing::Stands;
pub use standing::{BackendFigures, BackendState};

use crate::account::Account;
use crate::budget::Budget;
use crate::clock::Clock;
use crate::export::{Backend, CodeFigures, CredentialFigures, Expiry};
use crate::histogram::Latencies;
use crate::obligation::Obligation;
use crate::samples::{Samples, rooms};
use crate::store::{Io, Reads, Store};
use flight::Crew;

/// Sizes that delivery works within.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// The largest request to the backend, in uncompressed bytes.
    pub(crate) batch_bytes: usize,
    /// The most live bytes on the wire and unanswered.
    pub(crate) in_flight_bytes: usize,
    /// What may be read back from the journal at once, on its way to the backend.
    pub(crate) read_back_bytes: usize,
    /// With a journal: pieces on the wire and waiting for their next attempt, beyond which nothing is sent for the
    /// first time.
    pub(crate) pieces: usize,
    /// Without a journal: the memory that pieces which are taken apart may take beside their bytes.
    pub(crate) halves: usize,
    /// What samples of what was lost may take.
    pub(crate) samples: usize,
    /// Requests that may be unanswered.
    pub(crate) requests: usize,
}

/// What a pipeline shows of itself, apart from its books.
#[derive(Debug)]
pub(crate) struct Stats {
    /// Requests to the backend that are unanswered.
    pub(crate) in_flight: AtomicU64,
    /// Batches that wait for their next attempt.
    pub(crate) parked: AtomicU64,
    /// Attempts that ended in a retry.
    pub(crate) retries: AtomicU64,
    /// Items in requests that the backend refused in words that ask for no other attempt, and that are not about the
    /// size.
    pub(crate) refused_items: AtomicU64,
    /// Bytes that wait in memory to be sent for the first time.
    pub(crate) queued_bytes: AtomicU64,
    /// Bytes in memory: queued, parked or in flight.
    pub(crate) pending_bytes: AtomicU64,
    /// Arrival of the oldest item not finished, in milliseconds after the engine's start; `u64::MAX` when none.
    pub(crate) oldest_ms: AtomicU64,
    /// Requests to the backend that may be unanswered at once, as far as it has shown that it can take them.
    pub(crate) concurrency: AtomicU64,
    /// When the retry budget is full if only time fills it, in milliseconds after the engine's start.
    retries_full_ms: AtomicU64,
    /// When a backend that takes nothing is probed next, in milliseconds after the engine's start; `u64::MAX` when it is
    /// not probed.
    probe_ms: AtomicU64,
    /// Time from sending a request to its answer.
    pub(crate) latency: Latencies,
    /// How requests ended.
    pub(crate) answers: Answers,
    /// What the backend refused for good.
    pub(crate) samples: Samples,
    /// How the backend stands.
    pub(crate) backend: Stands,
    /// Why the plan's backend or rules cannot be set up, so that the pipeline has others.
    setup_error: Mutex<Option<String>>,
}

impl Stats {
    /// Divides the room for samples of what was lost.
    fn fit_samples(&self, account: &Account, limits: Limits) {
        let [refused, given_up] = rooms(limits.samples);
        self.samples.fit(refused);
        // One whose pipeline goes is no more of those that the room is for.
        account.given_up.fit(if account.orphaned_at().is_none() { given_up } else { 0 });
    }

    fn new(now: Instant) -> Self {
        Self {
            in_flight: AtomicU64::new(0),
            parked: AtomicU64::new(0),
            retries: AtomicU64::new(0),
            refused_items: AtomicU64::new(0),
            queued_bytes: AtomicU64::new(0),
            pending_bytes: AtomicU64::new(0),
            oldest_ms: AtomicU64::new(u64::MAX),
            concurrency: AtomicU64::new(0),
            retries_full_ms: AtomicU64::new(0),
            probe_ms: AtomicU64::new(u64::MAX),
            latency: Latencies::new(now),
            answers: Answers::default(),
            samples: Samples::default(),
            setup_error: Mutex::default(),
            backend: Stands::new(now),
        }
    }

    /// Why the pipeline cannot be set up as planned; `None` if it is.
    pub(crate) fn setup_error(&self) -> Option<String> {
        self.setup_error.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn set_setup_error(&self, error: Option<String>) {
        *self.setup_error.lock().unwrap_or_else(PoisonError::into_inner) = error;
    }

    pub(crate) fn add(counter: &AtomicU64, n: u64) {
        counter.fetch_add(n, Ordering::Relaxed);
    }
}

/// What a pipeline's task can be told.
#[derive(Debug)]
enum Instruction {
    /// Deliver this.
    Take(Arc<Obligation>),
    /// The share has no room for so many of the bytes that are held: the oldest make room.
    Evict(usize),
    /// Deliver what is here until the deadline, then give the rest up and end.
    Drain(Instant),
    /// Work within other limits.
    Adjust(Limits),
    /// Send to this backend from now on.
    SendTo(Arc<dyn Backend>),
}

/// The side of a pipeline that requests see.
#[derive(Debug)]
pub(crate) struct Pipeline {
    /// What the metrics of exporters call it.
    pub(crate) exporter_label: String,
    pub(crate) account: Arc<Account>,
    pub(crate) stats: Arc<Stats>,
    backend: Arc<dyn Backend>,
    clock: Clock,
    inbox: mpsc::UnboundedSender<Instruction>,
}

/// What pipelines have in common.
#[derive(Debug, Clone)]
pub(crate) struct Common {
    pub(crate) limits: Limits,
    /// Pays for copies of pieces that have to be split.
    pub(crate) budget: Budget,
    /// Pays for what all of them read back from the journal.
    pub(crate) read_back: Budget,
    /// Pays for entries that are larger than a pipeline's part of that.
    pub(crate) oversized: Budget,
    /// None: data is held in memory only.
    pub(crate) store: Option<Store>,
    pub(crate) clock: Clock,
}

impl Pipeline {
    /// A pipeline and its task, to be spawned by the owner; it ends after [`Pipeline::drain`].
    pub(crate) fn new(
        exporter_label: String,
        account: Arc<Account>,
        backend: Arc<dyn Backend>,
        common: Common,
    ) -> (Self, impl Future<Output = ()> + Send + 'static) {
        // Unbounded in count, bounded in bytes: every obligation in it carries its permit of the memory budget.
        let (inbox, instructions) = mpsc::unbounded_channel();
        let stats = Arc::new(Stats::new(Instant::now()));
        let Common { limits, budget, read_back, oversized, store, clock } = common;
        stats.fit_samples(&account, limits);
        // What an earlier pipeline learned was about the backend that it had.
        account.request_size.forget();
        account.request_size.adjust(limits.batch_bytes);
        // Without a journal there is nothing to read.
        let reads = store.as_ref().map_or_else(|| Reads::new(Io::Threads), |store| store.reads.clone());
        let store_stats = store.as_ref().map(|store| Arc::clone(&store.stats));
        let parts = delivery::Parts {
            crew: Crew {
                backend: Arc::clone(&backend),
                given_up: CancellationToken::new(),
                account: Arc::clone(&account),
                reads,
                store: store_stats,
                reading: Arc::default(),
            },
            limits,
            halves: budget.within(limits.halves),
            budget,
            read_back: delivery::ReadBack::new(&read_back, limits.read_back_bytes, oversized),
            stats: Arc::clone(&stats),
            clock,
            store,
        };
        let task = delivery::Delivery::new(parts, instructions).run();
        (Self { exporter_label, account, stats, backend, clock, inbox }, task)
    }

    /// The same pipeline with another backend.
    pub(crate) fn sending_to(&self, exporter_label: String, backend: Arc<dyn Backend>) -> Self {
        // A task that has ended sends nothing.
        let _ = self.inbox.send(Instruction::SendTo(Arc::clone(&backend)));
        Self {
            exporter_label,
            account: Arc::clone(&self.account),
            stats: Arc::clone(&self.stats),
            backend,
            clock: self.clock,
            inbox: self.inbox.clone(),
        }
    }

    /// There are more pipelines now, or fewer.
    pub(crate) fn adjust(&self, limits: Limits) {
        self.account.request_size.adjust(limits.batch_bytes);
        // As above.
        let _ = self.inbox.send(Instruction::Adjust(limits));
    }

    /// When its backend's certificate and the token for it end.
    pub(crate) fn expiry(&self) -> Expiry {
        self.backend.expiry()
    }

    /// The credentials that its backend is sent.
    pub(crate) fn credentials(&self) -> Option<CredentialFigures> {
        self.backend.credentials()
    }

    /// How its backend answered.
    pub(crate) fn codes(&self) -> CodeFigures {
        self.backend.codes()
    }

    /// Whether a request to its present backend has ended.
    pub(crate) fn was_tried(&self) -> bool {
        self.backend.was_tried()
    }

    /// What is left of its retry budget.
    pub(crate) fn retry_budget(&self) -> RetryFigures {
        RetryFigures::full_in(self.until(self.stats.retries_full_ms.load(Ordering::Relaxed)))
    }

    /// How long until one small request finds out whether the backend takes data again. Zero while one is under way;
    /// `None` while the backend is not probed.
    pub(crate) fn next_probe(&self) -> Option<Duration> {
        let at = self.stats.probe_ms.load(Ordering::Relaxed);
        (at != u64::MAX).then(|| self.until(at))
    }

    /// Time until so many milliseconds after the engine's start.
    fn until(&self, ms: u64) -> Duration {
        Duration::from_millis(ms).saturating_sub(self.clock.started.elapsed())
    }

    /// The signal it takes.
    pub(crate) fn signal(&self) -> Signal {
        self.account.id.signal
    }

    /// Gives the pipeline something to deliver.
    pub(crate) fn take(&self, obligation: Arc<Obligation>) {
        if let Err(lost) = self.inbox.send(Instruction::Take(obligation))
            && let Instruction::Take(obligation) = lost.0
        {
            // The task is gone, which only happens at the end of a shutdown: the client must keep the data.
            obligation.withdraw();
        }
    }

    /// Asks for as much room in the share as new data took.
    pub(crate) fn evict(&self, bytes: usize) {
        // A task that has ended holds nothing.
        let _ = self.inbox.send(Instruction::Evict(bytes));
    }

    /// Asks the task to finish by `deadline`.
    pub(crate) fn drain(&self, deadline: Instant) {
        let _ = self.inbox.send(Instruction::Drain(deadline));
    }

    /// Age of the oldest item not finished, in memory or on disk.
    pub(crate) fn oldest_age(&self) -> Duration {
        let in_memory = match self.stats.oldest_ms.load(Ordering::Relaxed) {
            u64::MAX => Duration::ZERO,
            ms => self.clock.started.elapsed().saturating_sub(Duration::from_millis(ms)),
        };
        in_memory.max(self.account.backlog_age(self.clock.now_ms()))
    }

    /// Bytes of data that is not finished. With a journal these are its backlog and the data that waits in memory for
    /// its turn: data that is parked or on the wire is in the backlog, or will be in a moment.
    pub(crate) fn pending_bytes(&self) -> u64 {
        match self.account.queue {
            Some(_) => self.account.backlog().bytes + self.stats.queued_bytes.load(Ordering::Relaxed),
            None => self.stats.pending_bytes.load(Ordering::Relaxed),
        }
    }
}
