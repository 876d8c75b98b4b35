//! The journal: a segmented, append-only log of opaque payloads, each owed to named queues until they complete it.
//!
//! One [`Writer`] appends groups of entries with one write and one sync; any number of readers share a [`Journal`],
//! through which a queue takes its entries, reads them back, and completes them in any order. A segment file goes away
//! when no queue is owed anything of it. `docs/journal-format.md` has the bytes.
//!
//! The journal must not know what payloads mean (no OTLP), nor an async runtime, nor the time (it is an argument); it
//! has no threads of its own.
//!
//! # What can go wrong, and what is promised then
//!
//! *The process dies* (`kill -9`). The system keeps what was written, in the order of the calls; a write that was under
//! way may have happened up to any byte. Everything appended is there afterwards, [`Written`] as well as [`Synced`].
//!
//! *The machine dies* (power loss). Of what was written since the last successful sync of a file, any part may be on
//! disk, in any order, torn at any byte. Where nothing of it is, a reader finds zeros or what the disk had there
//! before. Each file name created or removed since the last sync of the directory may be there or not. What is synced
//! stays. So every entry that was appended as [`Synced`], or as [`Written`] before a [`Writer::sync`] that returned
//! `Ok`, is there. Of the other entries, the first ones up to some point may be there.
//!
//! *A call fails.* A write may be short, or fail for want of space or by an I/O error, and may have written any part of
//! its bytes all the same. After a failed sync nothing is known about what was written since the last good one, and a
//! later sync that succeeds proves nothing. So the sync is never tried again. The file is given up, and the next append
//! begins with a new file, whose head says how far the old one is good. The failed group is owed to nobody; its client
//! was told so. The group is cut off the file. It can come back only if the cut fails, too, or if the machine dies
//! before the cut is on disk. A read that fails loses nothing: the data is there once it can be read, if need be after
//! the next start.
//!
//! *The disk forgets or lies.* Any byte of any file may change, any file may be cut short or vanish. No damaged byte is
//! ever handed out. Opening never fails for damage and never repairs by guessing: entries that are intact survive, the
//! others are counted and reported, and files that make no sense stay where they are. There is one exception. After a
//! kill or a power loss, damage at the end of the last segment cannot be told from a write that was under way, unless a
//! later frame says that the place was durable before. There, everything from the first invalid byte on is cut off and
//! counted as truncated. After an orderly end ([`Writer::finish`]) it is known how far the segment goes.
//!
//! *Somebody else.* A second process is kept out by a lock. A directory that is removed while it is used makes the next
//! append fail. A copy of a directory in use can be opened.
//!
//! *Any of this while recovering.* Recovery may die at any point, and its changes may fail or find no room. It uses and
//! reports what it found all the same, and the next recovery finds no less.
//!
//! Not promised: that a completed entry never comes back. Completions are written down by [`Writer::tidy`] and not
//! synced, so after power loss (or a kill before the next tidy) entries are delivered again: at least once, never less.
//!
//! # Invariants
//!
//! Cited in code and tests.
//!
//! - **JOURNAL-1** an entry that `append` returned as [`Synced`] is owed to each of its queues, with an identical
//!   payload, until that queue completes it, evicts it, or is told of its loss.
//! - **JOURNAL-2** nothing is handed out that was not appended: every byte is under a checksum that is seeded with its
//!   segment's nonce.
//! - **JOURNAL-3** what `append` refused is owed to nobody, and a failed sync is never retried.
//! - **JOURNAL-4** recovery is a function of the files' bytes, and doing it twice finds the same.
//! - **JOURNAL-5** a length or a number from disk is checked against limits before it is believed; whatever the bytes,
//!   nothing panics and everything ends.
//! - **JOURNAL-6** nothing is lost silently: what cannot be read is counted in bytes, entries and items as far as these
//!   are known, and the queue that was owed it is told if it is known.
//! - **JOURNAL-7** the lock of the index is never held while a file is used.
//! - **JOURNAL-8** only the writer creates, extends and removes files; a segment goes only when nobody is owed it.
//!
//! [`Synced`]: Durability::Synced
//! [`Written`]: Durability::Written

#![forbid(unsafe_code)]

mod acks;
mod bits;
mod error;
mod format;
mod fs;
mod group;
mod index;
mod inspect;
mod journal;
mod model;
mod names;
mod orphan;
mod os;
mod recover;
mod reports;
mod survey;
mod walk;
mod writer;

use std::sync::Arc;

pub use error::{AppendError, OpenError, ReadError};
pub use fs::{File, Fs, Space};
pub use inspect::{Depth, Exported, Inspection, QueueReport, SegmentReport, export, inspect};
pub use journal::{Bookmark, Journal, Looked, Viewer};
pub use model::{
    Backlog, Damage, DamageReport, Durability, Entry, Loss, NewEntry, Order, Owed, Position, QueueId, Recovery, Stats,
    Taken, Turnover,
};
pub use os::{LockError, OsFs};
pub use writer::Writer;

/// How a journal is kept.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// Size of a segment: a new one begins when the next group would not fit. A group may be larger than that.
    pub segment_bytes: u64,
    /// Something random, so that frames of one journal are never taken for frames of another.
    pub seed: u64,
}

/// Recovers what is there. The writer has one owner; the journal is for everybody.
pub fn open(fs: Arc<dyn Fs>, options: Options) -> Result<(Writer, Arc<Journal>, Recovery), OpenError> {
    let mut recovered = recover::recover(&*fs)?;
    let recovery = std::mem::take(&mut recovered.recovery);
    let journal = Arc::new(Journal::new(Arc::clone(&fs), std::mem::take(&mut recovered.index), recovered.next_id));
    Ok((Writer::new(fs, options, Arc::clone(&journal), recovered), journal, recovery))
}
