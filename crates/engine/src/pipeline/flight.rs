//! One request to the backend: brings its bytes together, from memory or from the journal, sends them, and reports what
//! came of it. It decides nothing.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use weir_journal::{Entry, Journal, Order, ReadError};

use crate::account::Account;
use crate::books::DropReason;
use crate::budget::{self, Permit};
use crate::export::{Backend, Outcome};
use crate::obligation::{LoadError, Obligation, Whereabouts};
use crate::store::{Reads, StoreStats};

/// What a flight needs.
#[derive(Debug, Clone)]
pub(super) struct Crew {
    pub(super) backend: Arc<dyn Backend>,
    /// Answers of this backend are not waited for any longer.
    pub(super) given_up: CancellationToken,
    pub(super) account: Arc<Account>,
    pub(super) reads: Arc<Reads>,
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
    /// There was no room for the next entry of the backlog, which takes this many bytes.
    NoRoom(usize),
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
    pub(super) fetched: Vec<Arc<Obligation>>,
    /// What was sent, piece by piece, in case the backend wants it in smaller parts.
    pub(super) bodies: Vec<Bytes>,
    /// Which pieces the journal did not give back as they were written, in ascending order.
    pub(super) damaged: Vec<usize>,
    /// Pays for what of it was read back.
    _permit: Option<Arc<Permit>>,
}

impl Landed {
    /// Nothing was sent.
    fn not_sent(end: End) -> Self {
        let sent = Instant::now();
        Self { end, sent, fetched: Vec::new(), bodies: Vec::new(), damaged: Vec::new(), _permit: None }
    }
}

/// The right to read the backlog, which its owner took for this flight. The reader keeps it until the disk has
/// answered.
struct Turn {
    reading: Arc<AtomicBool>,
    account: Arc<Account>,
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.reading.store(false, Ordering::Release);
        self.account.queue_filled.notify_one();
    }
}

/// A stretch of the backlog. If nobody is left to send it, the queue gets it back.
struct Stretch {
    fetched: Vec<Arc<Obligation>>,
    /// Its first entry, if there is one.
    first: Option<Entry>,
    /// Where each piece is in the buffer.
    ranges: Vec<Range<usize>>,
    buffer: Vec<u8>,
    /// There is a next entry, and no room for it.
    too_large: Option<usize>,
}

/// Room that reading so many bytes of the backlog takes.
pub(super) fn room_for(bytes: usize) -> usize {
    bytes.saturating_add(Journal::TAKE_OVERHEAD)
}

/// What to take of the backlog.
#[derive(Debug, Clone, Copy)]
pub(super) struct Portion {
    /// At most so many bytes of it ...
    pub(super) bytes: usize,
    /// ... and so many pieces.
    pub(super) pieces: usize,
    pub(super) order: Order,
}

/// Takes a portion of the backlog, which `permit` pays for; `None` without a journal. An entry that is larger is paid for
/// before it is read.
fn take(account: &Arc<Account>, portion: Portion, permit: &mut Permit) -> Option<Result<Stretch, ReadError>> {
    let queue = account.queue.as_ref()?;
    let Portion { bytes, pieces, order } = portion;
    let pay = &mut |wanted| permit.cover(room_for(wanted));
    let mut taken = match queue.journal.take(queue.id, order, bytes, pay) {
        Ok(taken) => taken,
        Err(error) => return Some(Err(error)),
    };
    if taken.damaged.entries > 0 {
        // The journal's writer tells the log where.
        account.lost(taken.damaged.items, DropReason::JournalDamaged);
    }
    // Entries differ in size, so there may be more of them than their mean size suggests.
    for (entry, _) in taken.entries.drain(pieces.min(taken.entries.len())..) {
        account.release(&entry);
    }
    let first = taken.entries.first().map(|(entry, _)| *entry);
    let piece = |(entry, range)| (Obligation::stored(entry, account), range);
    let (fetched, ranges) = taken.entries.into_iter().map(piece).unzip();
    Some(Ok(Stretch { fetched, first, ranges, buffer: taken.buffer, too_large: taken.too_large }))
}

impl Crew {
    /// Sends what is at `places`. `permit` pays for what has to be read back.
    pub(super) async fn send(self, places: Vec<Whereabouts>, permit: Option<Permit>) -> Landed {
        let permit = permit.map(Arc::new);
        let mut bodies = Vec::with_capacity(places.len());
        let mut damaged = Vec::new();
        for (at, place) in places.into_iter().enumerate() {
            let body = match self.load(place, permit.clone()).await {
                Ok(body) => body,
                Err(LoadError::Io(cause)) => return Landed::not_sent(End::Unread(cause)),
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
        let end = if anything { End::Outcome(self.exchange(bodies.clone()).await) } else { End::NothingOwed };
        Landed { end, sent, fetched: Vec::new(), bodies, damaged, _permit: permit }
    }

    /// What is read is paid for until the disk has answered, whether or not anybody waits for that.
    async fn load(&self, place: Whereabouts, permit: Option<Arc<Permit>>) -> Result<Bytes, LoadError> {
        let stored = match place {
            Whereabouts::Memory(body) => return Ok(body),
            Whereabouts::Journal(stored) => stored,
        };
        self.count_read(stored.read_bytes());
        let account = Arc::clone(&self.account);
        let load = move || {
            let _paid = permit;
            stored.load(&account)
        };
        self.reads.run(load).await.unwrap_or_else(|unread| Err(LoadError::Io(unread.to_string())))
    }

    /// Takes a portion of the pipeline's backlog, and sends it.
    pub(super) async fn fetch(self, portion: Portion, mut permit: Permit) -> Landed {
        let account = Arc::clone(&self.account);
        let turn = Turn { reading: Arc::clone(&self.reading), account: Arc::clone(&account) };
        let read = move || {
            let _turn = turn;
            take(&account, portion, &mut permit).map(|taken| (taken, permit))
        };
        let (taken, permit) = match self.reads.run(read).await {
            Ok(Some((Ok(taken), permit))) => (taken, permit),
            Ok(Some((Err(error), _))) => return Landed::not_sent(End::Unread(error.to_string())),
            Ok(None) => return Landed::not_sent(End::NothingToTake),
            Err(unread) => return Landed::not_sent(End::Unread(unread.to_string())),
        };
        let Stretch { fetched, first, ranges, buffer, too_large } = taken;
        if fetched.is_empty() {
            return Landed::not_sent(too_large.map_or(End::NothingToTake, End::NoRoom));
        }
        self.count_read(buffer.len());
        let buffer = budget::charge(buffer, permit);
        let bodies: Vec<_> = ranges.into_iter().map(|range| buffer.slice(range)).collect();
        drop(buffer);
        if let Some((entry, body)) = first.zip(bodies.first()) {
            self.account.was_read(&entry, body);
        }
        let sent = Instant::now();
        let outcome = self.exchange(bodies.clone()).await;
        Landed { end: End::Outcome(outcome), sent, fetched, bodies, damaged: Vec::new(), _permit: None }
    }

    async fn exchange(&self, bodies: Vec<Bytes>) -> Outcome {
        let answered = self.given_up.run_until_cancelled(self.backend.send(bodies)).await;
        answered.unwrap_or_else(|| Outcome::retry("the output of the pipeline has changed twice since"))
    }

    fn count_read(&self, bytes: usize) {
        if let Some(stats) = &self.store {
            stats.read_back_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use weir_journal::{Durability, NewEntry, Options, Owed};
    use weir_plan::{PipelineId, Signal};
    use weir_testkit::SimFs;

    use super::*;
    use crate::account::JournalQueue;
    use crate::accounts::Accounts;
    use crate::budget::Budget;
    use crate::share::Share;

    const REQUEST: usize = 10_000;
    const ALL: Portion = Portion { bytes: REQUEST, pieces: usize::MAX, order: Order::Oldest };
    const ENTRY: usize = 150_000;

    /// A pipeline whose backlog has one entry, written when requests could be longer.
    fn account() -> Arc<Account> {
        let options = Options { segment_bytes: 1 << 20, seed: 1 };
        let (mut writer, journal, _) = weir_journal::open(Arc::new(SimFs::new(1)), options).unwrap();
        let id = journal.queue("traces/backend");
        let (payload, owed) = ([Bytes::from(vec![7; ENTRY])], [Owed { queue: id, taken: false }]);
        writer.append(&[NewEntry { payload: &payload, items: 3, owed: &owed }], 1, Durability::Synced).unwrap();
        let queue = JournalQueue::new(journal, id, weir_plan::Backlog::default());
        let share = Share::new(100_000, Instant::now());
        Accounts::default().open(PipelineId::new(Signal::Traces, "backend"), share, Some(queue))
    }

    #[test]
    fn an_entry_that_is_larger_than_a_request_is_paid_for_before_it_is_read() {
        let account = account();
        let budget = Budget::new(200_000);
        let other = budget.try_take(100_000).unwrap();
        let mut permit = budget.try_take(room_for(REQUEST)).unwrap();
        let taken = take(&account, ALL, &mut permit).unwrap().unwrap();
        assert_eq!((taken.fetched.len(), taken.buffer.capacity()), (0, 0), "there is no room for it");
        assert_eq!(taken.too_large, Some(ENTRY), "and it is told how much that is");
        assert_eq!(account.backlog().untaken_entries, 1);

        drop(other);
        let taken = take(&account, ALL, &mut permit).unwrap().unwrap();
        assert_eq!((taken.fetched.len(), taken.too_large), (1, None));
        assert!(budget.used() >= taken.buffer.capacity() && taken.buffer.len() > ENTRY, "{}", budget.used());
        taken.fetched.iter().for_each(|piece| assert!(piece.finish(&crate::books::Fate::Delivered)));
    }

    #[tokio::test]
    async fn an_entry_that_is_larger_than_all_there_is_needs_all_there_is() {
        let account = account();
        let budget = Budget::new(50_000);
        let mut permit = budget.try_take(room_for(REQUEST)).unwrap();
        let taken = take(&account, ALL, &mut permit).unwrap().unwrap();
        assert!(taken.fetched.is_empty() && taken.too_large.is_some());
        // However little is added meanwhile.
        budget.resize(permit.bytes());
        let taken = take(&account, ALL, &mut permit).unwrap().unwrap();
        assert!(taken.fetched.is_empty() && taken.too_large.is_some());
        drop(permit);
        let mut permit = budget.clone().take_in_turn(ENTRY).await.unwrap();
        let taken = take(&account, ALL, &mut permit).unwrap().unwrap();
        assert_eq!((taken.fetched.len(), permit.bytes()), (1, budget.capacity()));
        taken.fetched.iter().for_each(|piece| assert!(piece.finish(&crate::books::Fate::Delivered)));
    }
}
