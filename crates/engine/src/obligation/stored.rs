//! An obligation whose bytes are in the journal: the entry, and which part of it.
//!
//! An entry has to be sent in parts when a backend takes only smaller requests, or refuses some items for good. The
//! entry on disk stays whole. A part is remembered as the halvings that lead to it, and is made again from the entry's
//! bytes each time it is sent.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use bytes::Bytes;
use weir_journal::{Entry, ReadError};
use weir_plan::Signal;

use crate::account::Account;
use crate::taps::Way;

/// No more halvings than this are needed: each halves the items, and an entry has fewer than 2^32 of them.
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

/// A part of an entry that nobody works on. The queue cannot hand it out, because it hands out whole entries only.
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

    /// The entry that it is, or is a part of.
    pub(super) fn entry(&self) -> Entry {
        self.lease.entry
    }

    fn is_whole(&self) -> bool {
        self.part.halvings == 0
    }

    /// Whether the queue still remembers it: an entry is given up with all its parts.
    pub(super) fn is_owed(&self, account: &Account) -> bool {
        let owed = |queue: &crate::account::JournalQueue| queue.journal.is_owed(queue.id, &self.lease.entry);
        account.queue.as_ref().is_some_and(owed)
    }

    /// Its two halves.
    pub(super) fn split(&self) -> [Self; 2] {
        self.lease.parts.fetch_add(1, Ordering::AcqRel);
        [false, true].map(|second| Self { lease: Arc::clone(&self.lease), part: self.part.half(second) })
    }

    /// This part, of so many items, is finished. With its last part the entry is finished, too. False when it had been
    /// given up before and is in the books already.
    pub(super) fn finished(&self, account: &Account, items: u64) -> bool {
        let Some(queue) = &account.queue else { return true };
        let entry = &self.lease.entry;
        // This comes before the part is counted off: whoever finishes the last part ends the entry.
        let owed = self.is_whole() || queue.journal.complete_items(queue.id, entry, items);
        let last = self.lease.parts.fetch_sub(1, Ordering::AcqRel) == 1;
        let completed = last && queue.journal.complete(queue.id, entry);
        if self.is_whole() { completed } else { owed }
    }

    /// This becomes of it. Whoever looks at an item in an entry that is sent in parts has been told that much.
    pub(super) fn tell(&self, account: &Account, way: Way) {
        if self.is_whole() {
            account.followed.tell(&self.lease.entry, way);
        }
    }

    /// Gives it back to the queue, after everything else. False for a part: the queue hands out whole entries only.
    pub(super) fn put_off(&self, account: &Account) -> bool {
        if self.is_whole() {
            account.put_off(&self.lease.entry);
        }
        self.is_whole()
    }

    /// This part, of so many items, is on disk as an entry of its own, which the queue counts as taken.
    pub(super) fn became(&self, entry: &Entry, account: &Account, items: u64) {
        if self.finished(account, items) {
            account.release(entry);
        } else if let Some(queue) = &account.queue {
            // It was given up while it was written, and is in the books.
            queue.journal.complete(queue.id, entry);
        }
    }

    /// Nobody works on this any more, and it is not finished: its pipeline left, a task panicked, or the process ends.
    pub(super) fn forgotten(&self, account: &Account, items: u64, bytes: usize) {
        if self.is_whole() {
            account.release(&self.lease.entry);
        } else if self.is_owed(account) {
            account.leave_behind(Leftover { stored: self.clone(), items, bytes });
        }
    }

    /// Room that reading it takes: the whole entry, and any part that is made of it.
    pub(crate) fn read_bytes(&self) -> usize {
        let entry = self.lease.entry.payload_bytes as usize;
        if self.is_whole() { entry } else { 2 * entry }
    }

    /// Reads the bytes back. Blocks on the disk.
    pub(crate) fn load(&self, account: &Account) -> Result<Bytes, LoadError> {
        let Some(queue) = &account.queue else { return Err(LoadError::Gone) };
        let bytes = queue.journal.read(&self.lease.entry).map_err(|error| match error {
            ReadError::Io { .. } => LoadError::Io(error.to_string()),
            ReadError::Damaged { .. } => LoadError::Damaged,
            // Somebody else removed the file.
            ReadError::Gone { .. } if self.is_owed(account) => LoadError::Damaged,
            ReadError::Gone { .. } => LoadError::Gone,
        })?;
        self.part_of(account.id.signal, bytes.into())
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
