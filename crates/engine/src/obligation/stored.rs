//! A debt whose bytes are in the journal: the entry, and which part of it.
//!
//! A backend that takes only smaller requests, or refuses some items for good, makes it necessary to send an entry in
//! parts. The entry on disk stays whole: a part is remembered by the way of halvings that leads to it, and made again
//! from the entry's bytes each time it is sent.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use bytes::Bytes;
use weir_journal::{Entry, ReadError};
use weir_plan::Signal;

use crate::account::Account;
use crate::store::log_damage;

/// More halvings than this are not needed: each halves the items, and an entry has fewer than 2^32 of them.
const MAX_HALVINGS: u8 = 63;

/// An entry, or a part of it.
#[derive(Debug, Clone)]
pub(crate) struct Stored {
    lease: Arc<Lease>,
    part: Part,
}

/// What is done with an entry when all of its parts are.
#[derive(Debug)]
struct Lease {
    entry: Entry,
    /// Parts that are not finished.
    parts: AtomicU32,
}

/// The way to a part: from the lowest bit on, 0 is the first half and 1 the second.
#[derive(Debug, Clone, Copy, Default)]
struct Part {
    halvings: u8,
    way: u64,
}

impl Part {
    fn half(self, second: bool) -> Self {
        debug_assert!(self.halvings < MAX_HALVINGS);
        Self { halvings: self.halvings + 1, way: self.way | u64::from(second) << self.halvings }
    }
}

/// A part of an entry that nobody works on: the queue hands out whole entries only.
#[derive(Debug)]
pub(crate) struct Leftover {
    pub(super) stored: Stored,
    pub(super) items: u64,
    pub(super) bytes: usize,
}

/// Why bytes cannot be read back.
#[derive(Debug)]
pub(crate) enum LoadError {
    /// The disk has them but does not give them now.
    Io(String),
    /// They are not what was written: lost.
    Damaged,
    /// Nobody is owed them any more.
    Gone,
}

impl Stored {
    /// A whole entry.
    pub(super) fn whole(entry: Entry) -> Self {
        Self { lease: Arc::new(Lease { entry, parts: AtomicU32::new(1) }), part: Part::default() }
    }

    fn is_whole(&self) -> bool {
        self.part.halvings == 0
    }

    /// Whether the queue still remembers it. A part is protected from being given up.
    pub(super) fn is_owed(&self, account: &Account) -> bool {
        let owed = |queue: &crate::account::Queue| queue.journal.is_owed(queue.id, &self.lease.entry);
        !self.is_whole() || account.queue.as_ref().is_some_and(owed)
    }

    /// Protects the entry from being given up, so that its parts can be finished one by one. False when it has been
    /// given up already.
    pub(super) fn pin(&self, account: &Account) -> bool {
        let pin = |queue: &crate::account::Queue| queue.journal.pin(queue.id, &self.lease.entry);
        !self.is_whole() || account.queue.as_ref().is_some_and(pin)
    }

    /// Its two halves.
    pub(super) fn split(&self, account: &Account) -> [Self; 2] {
        // An entry that was split before it was stored.
        if self.is_whole() {
            self.pin(account);
        }
        self.lease.parts.fetch_add(1, Ordering::AcqRel);
        [false, true].map(|second| Self { lease: Arc::clone(&self.lease), part: self.part.half(second) })
    }

    /// This part is finished; with the last one the entry is. False when it had been given up before, and is in the
    /// books.
    pub(super) fn finished(&self, account: &Account) -> bool {
        let Some(queue) = &account.queue else { return true };
        let last = self.lease.parts.fetch_sub(1, Ordering::AcqRel) == 1;
        let completed = !last || queue.journal.complete(queue.id, &self.lease.entry);
        completed || !self.is_whole()
    }

    /// Nobody works on this any more, and it is not finished: a pipeline that left, a task that panicked, or the end of the
    /// process.
    pub(super) fn forgotten(&self, account: &Account, items: u64, bytes: usize) {
        if self.is_whole() {
            account.release(&self.lease.entry);
        } else {
            account.leave_behind(Leftover { stored: self.clone(), items, bytes });
        }
    }

    /// Room that reading it takes: the whole entry, and beside it a part that is made of it.
    pub(crate) fn read_bytes(&self) -> usize {
        let entry = self.lease.entry.payload_bytes as usize;
        if self.is_whole() { entry } else { 2 * entry }
    }

    /// Reads the bytes back. Blocks on the disk.
    pub(crate) fn load(&self, account: &Account) -> Result<Bytes, LoadError> {
        let Some(queue) = &account.queue else { return Err(LoadError::Gone) };
        let read = queue.journal.read(&self.lease.entry);
        if matches!(read, Err(ReadError::Damaged { .. } | ReadError::Gone { .. })) {
            log_damage(&queue.journal.discovered_damage());
        }
        let bytes = read.map_err(|error| match error {
            ReadError::Io { .. } => LoadError::Io(error.to_string()),
            ReadError::Damaged { .. } => LoadError::Damaged,
            // Somebody else removed the file.
            ReadError::Gone { .. } if self.is_owed(account) => LoadError::Damaged,
            ReadError::Gone { .. } => LoadError::Gone,
        })?;
        self.part_of(account.signal, bytes.into())
    }

    fn part_of(&self, signal: Signal, mut bytes: Bytes) -> Result<Bytes, LoadError> {
        for halving in 0..self.part.halvings {
            let (first, second) = weir_otlp::halve(signal, &bytes).ok_or(LoadError::Damaged)?;
            let half = if self.part.way >> halving & 1 == 0 { first } else { second };
            bytes = half.make();
        }
        Ok(bytes)
    }
}
