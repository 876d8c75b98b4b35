//! One request to the backend: brings its bytes together, from memory or from the journal, sends them, and reports what
//! came of it. It decides nothing.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use tokio::time::Instant;
use weir_journal::ReadError;

use super::queue::Piece;
use crate::account::Account;
use crate::books::DropReason;
use crate::budget::{self, Permit};
use crate::export::{Backend, Outcome};
use crate::obligation::{LoadError, Obligation, Source};
use crate::store::{Io, StoreStats, log_damage};

/// What a flight needs.
#[derive(Debug, Clone)]
pub(super) struct Crew {
    pub(super) backend: Arc<dyn Backend>,
    pub(super) account: Arc<Account>,
    pub(super) io: Io,
    /// None without a journal.
    pub(super) store: Option<Arc<StoreStats>>,
    /// Somebody reads the backlog.
    pub(super) reading: Arc<AtomicBool>,
}

/// What came of a flight.
#[derive(Debug)]
pub(super) enum End {
    /// The backend answered, or could not.
    Outcome(Outcome),
    /// The journal cannot be read now.
    Unread(String),
    /// The backlog had nothing that is not on its way already.
    NothingToTake,
    /// What was to be sent is not owed any more.
    NothingOwed,
}

/// A flight that is over.
#[derive(Debug)]
pub(super) struct Landed {
    pub(super) end: End,
    /// When the request left: reading back is not the backend's time.
    pub(super) sent: Instant,
    /// Pieces that were taken from the journal for this flight.
    pub(super) fetched: Vec<Piece>,
    /// What was sent, piece by piece, for a backend that wants it in smaller parts.
    pub(super) bodies: Vec<Bytes>,
    /// Which pieces the journal did not give back as they were written, in ascending order.
    pub(super) damaged: Vec<usize>,
    /// Pays for what of it was read back.
    _permit: Option<Permit>,
}

impl Landed {
    /// Nothing was sent.
    fn grounded(end: End) -> Self {
        let sent = Instant::now();
        Self { end, sent, fetched: Vec::new(), bodies: Vec::new(), damaged: Vec::new(), _permit: None }
    }
}

/// The right to read the backlog, which its owner took for this flight.
struct Turn<'a>(&'a Crew);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.reading.store(false, Ordering::Release);
        self.0.account.queue_filled.notify_one();
    }
}

/// A stretch of the backlog. When nobody is there any more to send it, the queue has it back.
struct Taken {
    fetched: Vec<Piece>,
    /// Where each piece is in the buffer.
    ranges: Vec<Range<usize>>,
    buffer: Vec<u8>,
}

/// Takes up to `bytes` of the backlog; `None` without a journal.
fn take(account: &Arc<Account>, bytes: usize) -> Option<Result<Taken, ReadError>> {
    let queue = account.queue.as_ref()?;
    let chunk = match queue.journal.take(queue.id, bytes) {
        Ok(chunk) => chunk,
        Err(error) => return Some(Err(error)),
    };
    if chunk.damaged.entries > 0 {
        let items = chunk.damaged.items;
        account.lost(items, DropReason::JournalDamaged);
        account.report_damage(items);
        log_damage(&queue.journal.discovered_damage());
    }
    let since = Instant::now();
    let piece = |entry| Piece { obligation: Obligation::stored(entry, account), since };
    let (fetched, ranges) = chunk.entries.into_iter().map(|(entry, range)| (piece(entry), range)).unzip();
    Some(Ok(Taken { fetched, ranges, buffer: chunk.buffer }))
}

impl Crew {
    /// Sends what is at `sources`; `permit` pays for what has to be read back.
    pub(super) async fn send(self, sources: Vec<Source>, permit: Option<Permit>) -> Landed {
        let mut bodies = Vec::with_capacity(sources.len());
        let mut damaged = Vec::new();
        for (at, source) in sources.into_iter().enumerate() {
            let body = match self.load(source).await {
                Ok(body) => body,
                Err(LoadError::Io(cause)) => return Landed::grounded(End::Unread(cause)),
                Err(LoadError::Damaged) => {
                    damaged.push(at);
                    Bytes::new()
                }
                // It was given up while it waited, and is in the books.
                Err(LoadError::Gone) => Bytes::new(),
            };
            bodies.push(body);
        }
        let sent = Instant::now();
        let anything = bodies.iter().any(|body| !body.is_empty());
        let end = if anything { End::Outcome(self.backend.send(bodies.clone()).await) } else { End::NothingOwed };
        Landed { end, sent, fetched: Vec::new(), bodies, damaged, _permit: permit }
    }

    async fn load(&self, source: Source) -> Result<Bytes, LoadError> {
        let stored = match source {
            Source::Memory(body) => return Ok(body),
            Source::Journal(stored) => stored,
        };
        self.count_read(stored.read_bytes());
        let account = Arc::clone(&self.account);
        let loaded = self.io.run(move || stored.load(&account)).await;
        loaded.unwrap_or_else(|| Err(LoadError::Io("reading was interrupted".into())))
    }

    /// Takes up to `bytes` of the pipeline's backlog and sends them.
    pub(super) async fn fetch(self, bytes: usize, permit: Permit) -> Landed {
        let account = Arc::clone(&self.account);
        let turn = Turn(&self);
        let taken = self.io.run(move || take(&account, bytes)).await.flatten();
        drop(turn);
        let Taken { fetched, ranges, buffer } = match taken {
            Some(Ok(taken)) if !taken.fetched.is_empty() => taken,
            Some(Err(error)) => return Landed::grounded(End::Unread(error.to_string())),
            Some(Ok(_)) | None => return Landed::grounded(End::NothingToTake),
        };
        self.count_read(buffer.len());
        let buffer = budget::charge(buffer, permit);
        let bodies: Vec<_> = ranges.into_iter().map(|range| buffer.slice(range)).collect();
        drop(buffer);
        let sent = Instant::now();
        let outcome = self.backend.send(bodies.clone()).await;
        Landed { end: End::Outcome(outcome), sent, fetched, bodies, damaged: Vec::new(), _permit: None }
    }

    fn count_read(&self, bytes: usize) {
        if let Some(stats) = &self.store {
            stats.read_back_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        }
    }
}
