//! Promise P3 (ENGINE-2): one budget of bytes that every payload draws from before a byte of it is buffered.
//!
//! A [`Permit`] travels with the bytes it stands for (see [`Charged`]) and goes back when the last reference to them
//! is dropped, so the budget cannot disagree with what is in memory. It knows who has the bytes ([`Holder`]), and not
//! what they are for.

mod holder;
mod purse;
mod text;

use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{Semaphore, SemaphorePermit};
use weir_otlp::Part;

pub(crate) use holder::Holder;
pub(crate) use purse::{Purse, Shortage};
pub use text::Text;

/// Charged on top of each buffer: its bookkeeping (ticket, obligations, queue slot, allocator rounding). Without it a
/// flood of tiny requests would hold many times the bytes that the budget sees.
pub(crate) const OVERHEAD_BYTES: usize = 1024;

/// Requests that may wait for room at once. Before they wait, something was read for them into the connection's
/// buffers, which the budget does not see. This limit bounds it.
const MAX_WAITING: u32 = 16;

/// How often whoever waits looks for what nobody announces: room that others leave, and the end of a drain.
pub(crate) const ROOM_CHECK: Duration = Duration::from_millis(20);

/// The budget, as one of those who share it draws from it. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Budget {
    room: Arc<Room>,
    /// What all budgets within another one may take together.
    pool: Option<Arc<Room>>,
    /// Who has what is taken by way of this one.
    holder: Holder,
}

/// The bytes of a budget.
#[derive(Debug)]
struct Room {
    free: Semaphore,
    capacity: AtomicUsize,
    waiting: AtomicU32,
    max_waiting: u32,
    /// What is taken, by holder. Of a budget within another one, only the other one counts.
    held: [AtomicUsize; Holder::ALL.len()],
}

/// Budgets, in the order in which they are asked for room.
#[derive(Clone, Debug)]
pub(crate) struct Funds(pub(crate) [Budget; 2]);

impl Funds {
    /// What `take` gets from the first budget that has room for it.
    pub(crate) fn find<T>(&self, take: impl FnMut(&Budget) -> Option<T>) -> Option<T> {
        self.0.iter().find_map(take)
    }

    /// Whether more than half of the first is taken.
    pub(crate) fn are_scarce(&self) -> bool {
        self.0[0].is_scarce()
    }
}

/// Bytes taken from the memory budget; given back on drop.
#[derive(Debug)]
pub struct Permit {
    taken: Taken,
    /// It is all there ever is: its owner need not pay for more.
    is_all: bool,
}

/// Some bytes of a [`Permit`] that never change; given back on drop.
#[derive(Debug)]
pub(crate) struct Paid(#[expect(dead_code, reason = "held, not looked at")] Taken);

/// Bytes taken from a budget, and as many from the pool that it is within; given back on drop.
#[derive(Debug)]
struct Taken {
    budget: Budget,
    bytes: usize,
}

impl Taken {
    /// Of the same budget.
    fn merge(&mut self, mut other: Self) {
        self.bytes += mem::take(&mut other.bytes);
    }

    /// `None` when it has fewer.
    fn split(&mut self, bytes: usize) -> Option<Self> {
        self.bytes = self.bytes.checked_sub(bytes)?;
        Some(Self { budget: self.budget.clone(), bytes })
    }

    /// Gives back `bytes`, or all if it is less.
    fn give_back(&mut self, bytes: usize) {
        let bytes = bytes.min(self.bytes);
        self.bytes -= bytes;
        self.budget.release(bytes);
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.budget.release(self.bytes);
    }
}

impl Budget {
    /// A budget of `capacity` bytes. Whose they are does not matter until somebody says so.
    pub(crate) fn new(capacity: usize) -> Self {
        Self::with(capacity, MAX_WAITING)
    }

    /// A budget for work that already holds its input and may wait for its output, however many wait.
    pub(crate) fn for_encoding(capacity: usize) -> Self {
        Self::with(capacity, u32::MAX)
    }

    fn with(capacity: usize, max_waiting: u32) -> Self {
        let capacity = capacity.min(Semaphore::MAX_PERMITS);
        let room = Room {
            free: Semaphore::new(capacity),
            capacity: AtomicUsize::new(capacity),
            waiting: AtomicU32::new(0),
            max_waiting,
            held: Default::default(),
        };
        Self { room: Arc::new(room), pool: None, holder: Holder::Clients }
    }

    /// A budget of `capacity` bytes within this one, for the same holder. Together such budgets may be larger than this
    /// one for a while, as when there are suddenly more of them. Then each waits until the others have given back what
    /// they took.
    pub(crate) fn within(&self, capacity: usize) -> Self {
        let own = Self::with(capacity, self.room.max_waiting);
        Self { pool: Some(Arc::clone(&self.room)), holder: self.holder, ..own }
    }

    /// The same budget for somebody else.
    pub(crate) fn held_by(&self, holder: Holder) -> Self {
        Self { holder, ..self.clone() }
    }

    /// All bytes there are.
    pub(crate) fn capacity(&self) -> usize {
        self.room.capacity.load(Ordering::Relaxed)
    }

    /// From now on there are `capacity` bytes. Bytes that are taken beyond that go when they are given back. One caller
    /// at a time.
    pub(crate) fn resize(&self, capacity: usize) {
        let capacity = capacity.min(Semaphore::MAX_PERMITS);
        let before = self.room.capacity.swap(capacity, Ordering::Relaxed);
        self.room.free.add_permits(capacity.saturating_sub(before));
        let mut excess = before.saturating_sub(capacity);
        if excess == 0 {
            return;
        }
        let room = Arc::clone(&self.room);
        // First come, first served: nobody who asks later is served before the excess is gone.
        tokio::spawn(async move {
            while excess > 0 {
                let part = u32::try_from(excess).unwrap_or(u32::MAX);
                let Ok(permit) = room.free.acquire_many(part).await else { return };
                permit.forget();
                excess -= part as usize;
            }
        });
    }

    /// Bytes taken now, with those that are gathered already for whoever waits for more.
    pub(crate) fn used(&self) -> usize {
        self.capacity().saturating_sub(self.room.free.available_permits())
    }

    /// Who has how much of that. While a budget that became smaller has not got back the rest, this may be more.
    pub(crate) fn held(&self) -> [(Holder, usize); Holder::ALL.len()] {
        Holder::ALL.map(|holder| (holder, self.room.held[holder as usize].load(Ordering::Relaxed)))
    }

    /// How many wait for room now, and how many may.
    pub(crate) fn waiting(&self) -> [u32; 2] {
        let Room { waiting, max_waiting, .. } = &*self.room;
        // Whoever is one too many is counted for an instant.
        [waiting.load(Ordering::Relaxed).min(*max_waiting), *max_waiting]
    }

    /// Whether more than half of it is taken.
    pub(crate) fn is_scarce(&self) -> bool {
        self.used() > self.capacity() / 2
    }

    /// Takes `bytes` (and their overhead) at once, or `None` if there is no room.
    pub(crate) fn try_take(&self, bytes: usize) -> Option<Permit> {
        let bytes = bytes.saturating_add(OVERHEAD_BYTES);
        self.try_acquire(bytes)?;
        Some(Permit { taken: Taken { budget: self.clone(), bytes }, is_all: false })
    }

    /// `None` when there is no room, and then nothing changed.
    fn try_acquire(&self, bytes: usize) -> Option<()> {
        let want = u32::try_from(bytes).ok()?;
        let own = self.room.free.try_acquire_many(want).ok()?;
        let pool = self.pool.as_ref().map(|pool| pool.free.try_acquire_many(want)).transpose().ok()?;
        self.keep(own, pool);
        Some(())
    }

    /// Makes a part of a request, paid for before. The bytes of a slice are paid for with the request, so a slice costs
    /// only what it takes beside them. `None` when there is no room.
    pub(crate) fn make(&self, part: &Part<'_>) -> Option<Bytes> {
        let permit = self.try_take(if part.is_slice() { 0 } else { part.length() })?;
        Some(Bytes::from_owner(ChargedShared { bytes: part.make(), _permit: permit }))
    }

    /// Takes `bytes`, waiting up to `patience` for room. `None` when there is none, or when too many wait already.
    pub(crate) async fn take(&self, bytes: usize, patience: Duration) -> Option<Permit> {
        if let Some(permit) = self.try_take(bytes) {
            return Some(permit);
        }
        let taken = self.wait_for(bytes.saturating_add(OVERHEAD_BYTES), patience).await?;
        Some(Permit { taken, is_all: false })
    }

    /// Takes `bytes` (and their overhead) when its turn has come, however long that takes; or all there is, if that is
    /// less. Whoever asks later waits, even for less.
    pub(crate) async fn take_in_turn(self, bytes: usize) -> Option<Permit> {
        let (wanted, most) = (bytes.saturating_add(OVERHEAD_BYTES), self.capacity());
        let taken = self.acquire(u32::try_from(wanted.min(most)).ok()?).await?;
        Some(Permit { taken, is_all: wanted > most })
    }

    async fn wait_for(&self, bytes: usize, patience: Duration) -> Option<Taken> {
        let _waiting = Waiting::enter(&self.room)?;
        let want = u32::try_from(bytes).ok().filter(|_| bytes <= self.capacity())?;
        tokio::time::timeout(patience, self.acquire(want)).await.ok()?
    }

    async fn acquire(&self, want: u32) -> Option<Taken> {
        // Always in this order, so that nobody waits for somebody who waits.
        let own = self.room.free.acquire_many(want).await.ok()?;
        let pool = match &self.pool {
            Some(pool) => Some(pool.free.acquire_many(want).await.ok()?),
            None => None,
        };
        self.keep(own, pool);
        Some(Taken { budget: self.clone(), bytes: want as usize })
    }

    /// What was acquired is the holder's from now on, until it is released.
    fn keep(&self, own: SemaphorePermit<'_>, pool: Option<SemaphorePermit<'_>>) {
        self.holding().fetch_add(own.num_permits(), Ordering::Relaxed);
        own.forget();
        pool.into_iter().for_each(SemaphorePermit::forget);
    }

    fn release(&self, bytes: usize) {
        // Before others may have it, so that holders do not seem to have more than is taken.
        self.holding().fetch_sub(bytes, Ordering::Relaxed);
        self.room.free.add_permits(bytes);
        if let Some(pool) = &self.pool {
            pool.free.add_permits(bytes);
        }
    }

    /// What the holder has, of this one or of the one that it is within.
    fn holding(&self) -> &AtomicUsize {
        &self.pool.as_ref().unwrap_or(&self.room).held[self.holder as usize]
    }
}

impl Permit {
    /// What each permit stands for beside its bytes.
    pub const OVERHEAD_BYTES: usize = OVERHEAD_BYTES;

    /// Bytes it stands for, overhead included.
    pub fn bytes(&self) -> usize {
        self.taken.bytes
    }

    /// Takes `more` bytes on top; false when there is no room, and then nothing changed.
    pub fn grow(&mut self, more: usize) -> bool {
        let is_there = self.taken.budget.try_acquire(more).is_some();
        self.taken.bytes += if is_there { more } else { 0 };
        is_there
    }

    /// The same, waiting up to `patience` for room, unless too many wait already.
    pub(crate) async fn grow_within(&mut self, more: usize, patience: Duration) -> bool {
        if self.grow(more) {
            return true;
        }
        let extra = self.taken.budget.wait_for(more, patience).await;
        let is_there = extra.is_some();
        extra.into_iter().for_each(|extra| self.taken.merge(extra));
        is_there
    }

    /// Whether more than half of the budget is taken.
    pub(crate) fn is_scarce(&self) -> bool {
        self.taken.budget.is_scarce()
    }

    /// Gives back `bytes`, or all if it is less.
    pub(crate) fn give_back(&mut self, bytes: usize) {
        self.taken.give_back(bytes);
    }

    /// Shared bytes that it pays for until the last clone of them is gone. It stands for them already.
    pub fn pays_for(self, bytes: Vec<u8>) -> Bytes {
        charge(bytes, self)
    }

    /// A permit of its own for `bytes` (and their overhead) of what this one stands for; `None` when that is less.
    pub fn part(&mut self, bytes: usize) -> Option<Self> {
        self.split_off(bytes.saturating_add(OVERHEAD_BYTES))
    }

    /// The same, for exactly so many bytes.
    pub(crate) fn split_off(&mut self, bytes: usize) -> Option<Self> {
        Some(Self { taken: self.taken.split(bytes)?, is_all: false })
    }

    /// The same for what keeps them as they are.
    pub(crate) fn pay(&mut self, bytes: usize) -> Option<Paid> {
        self.taken.split(bytes).map(Paid)
    }

    /// Makes it stand for `bytes` (and their overhead) if it does not yet; false when there is no room. A permit for
    /// all there is always stands for enough: otherwise, data that was written when there was more memory could not be
    /// read.
    pub fn cover(&mut self, bytes: usize) -> bool {
        let more = bytes.saturating_add(OVERHEAD_BYTES).saturating_sub(self.bytes());
        more == 0 || self.is_all || self.grow(more)
    }

    /// Gives back all but `bytes` (and their overhead).
    pub fn shrink_to(&mut self, bytes: usize) {
        let keep = bytes.saturating_add(OVERHEAD_BYTES);
        self.taken.give_back(self.bytes().saturating_sub(keep));
    }
}

/// A buffer, of which bytes begin at `start`, and the permit that pays for it.
struct Charged {
    buffer: Vec<u8>,
    start: usize,
    _permit: Permit,
}

impl AsRef<[u8]> for Charged {
    fn as_ref(&self) -> &[u8] {
        &self.buffer[self.start..]
    }
}

/// Shared bytes and the permit that pays for them.
struct ChargedShared {
    bytes: Bytes,
    _permit: Permit,
}

impl AsRef<[u8]> for ChargedShared {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// Turns a paid-for buffer into shared bytes; the permit is returned when the last clone or slice is gone.
pub(crate) fn charge(mut buffer: Vec<u8>, mut permit: Permit) -> Bytes {
    fit(&mut buffer, &mut permit);
    charge_from(buffer, 0, permit)
}

/// Gives back room that a reader took and did not need. Otherwise it would be paid for as long as the bytes live.
pub(crate) fn fit(buffer: &mut Vec<u8>, permit: &mut Permit) {
    fit_and(buffer, 0, permit);
}

/// The same of a permit that pays for so much beside the buffer.
fn fit_and(buffer: &mut Vec<u8>, beside: usize, permit: &mut Permit) {
    if buffer.capacity() - buffer.len() > buffer.len() / 8 {
        buffer.shrink_to_fit();
    }
    permit.shrink_to(buffer.capacity().saturating_add(beside));
}

/// As [`charge`], without the bytes before `start`; these are paid for, too.
pub(crate) fn charge_from(buffer: Vec<u8>, start: usize, permit: Permit) -> Bytes {
    Bytes::from_owner(Charged { buffer, start, _permit: permit })
}

/// Counts a waiter for as long as it lives.
struct Waiting<'a>(&'a AtomicU32);

impl<'a> Waiting<'a> {
    fn enter(Room { waiting, max_waiting, .. }: &'a Room) -> Option<Self> {
        if waiting.fetch_add(1, Ordering::Relaxed) >= *max_waiting {
            waiting.fetch_sub(1, Ordering::Relaxed);
            return None;
        }
        Some(Self(waiting))
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_return_with_the_last_reference() {
        let budget = Budget::new(10_000);
        let permit = budget.try_take(4_000).unwrap();
        let shared = charge(vec![7; 4_000], permit);
        let slice = shared.slice(10..20);
        assert_eq!(budget.used(), 5_024);
        drop(shared);
        assert_eq!(budget.used(), 5_024, "a slice keeps the buffer, so it keeps the charge");
        drop(slice);
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn growth_is_refused_without_room_and_changes_nothing() {
        let budget = Budget::new(10_000);
        let mut permit = budget.try_take(4_000).unwrap();
        assert!(!permit.grow(5_000));
        assert_eq!(budget.used(), 5_024);
        assert!(permit.grow(1_000));
        permit.shrink_to(500);
        assert_eq!(budget.used(), 1_524);
    }

    /// Also what grows.
    #[test]
    fn what_is_taken_of_a_part_is_no_more_than_that_and_leaves_the_rest() {
        let whole = Budget::new(100_000);
        let part = whole.within(50_000);
        let mut permits: Vec<Permit> = std::iter::from_fn(|| part.try_take(8_000)).collect();
        assert_eq!(permits.len(), 5);
        while permits.iter_mut().any(|permit| permit.grow(500)) {}
        assert!((49_500..=50_000).contains(&part.used()), "{}", part.used());
        assert_eq!(whole.used(), part.used());
        assert!(whole.try_take(45_000).is_some(), "others have the rest");
        drop(permits);
        assert_eq!((part.used(), whole.used()), (0, 0));
    }

    /// As when there are more pipelines, and the older ones still have what they took when they were alone.
    #[tokio::test]
    async fn budgets_within_another_have_no_more_than_that_together() {
        let whole = Budget::new(10_000);
        let old = whole.within(10_000);
        let mut first = old.try_take(7_000).unwrap();
        old.resize(5_000);
        let new = whole.within(5_000);
        assert!(new.try_take(3_000).is_none());
        assert_eq!((new.used(), whole.used()), (0, 8_024), "what is refused is given back");
        let waits = tokio::spawn({
            let new = new.clone();
            async move { new.take(3_000, Duration::from_secs(60)).await }
        });
        tokio::task::yield_now().await;
        first.shrink_to(3_000);
        assert!(waits.await.unwrap().is_some());
        drop(first);
        assert_eq!((old.used(), new.used(), whole.used()), (0, 0, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn waiting_ends_with_patience_and_is_bounded() {
        let budget = Budget::new(10_000);
        let held = budget.try_take(8_000).unwrap();
        assert!(budget.take(8_000, Duration::from_millis(250)).await.is_none());
        let waiters: Vec<_> = (0..MAX_WAITING)
            .map(|_| {
                let budget = budget.clone();
                tokio::spawn(async move { budget.take(8_000, Duration::from_secs(60)).await.is_some() })
            })
            .collect();
        tokio::task::yield_now().await;
        assert!(budget.take(8_000, Duration::from_secs(60)).await.is_none(), "one too many is refused at once");
        drop(held);
        for waiter in waiters {
            assert!(waiter.await.unwrap());
        }
        assert_eq!(budget.used(), 0);
    }
}
