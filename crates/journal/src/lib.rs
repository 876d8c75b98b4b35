//! The journal: a segmented, append-only log of opaque payloads, each owed to named queues until they complete it.

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
mod os;
mod recover;
mod survey;
mod walk;
mod writer;

use std::sync::Arc;

pub use error::{AppendError, OpenError, ReadError};
pub use fs::{File, Fs, Space};
pub use inspect::{Depth, Exported, Inspection, QueueReport, SegmentReport, export, inspect};
pub use journal::Journal;
pub use model::{
    Backlog, Chunk, Damage, DamageReport, Durability, Entry, Loss, NewEntry, Owed, Position, QueueId, Recovery, Stats,
};
pub use os::{LockError, OsFs};
pub use writer::Writer;

/// How a journal is kept.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// Size of a segment: a new one begins when the next group would not fit.
    pub segment_bytes: u64,
    /// Something random, so that frames of one journal are never taken for frames of another.
    pub seed: u64,
}

/// Recovers what is there. The writer has one owner; the journal is for everybody.
pub fn open(fs: Arc<dyn Fs>, options: Options) -> Result<(Writer, Arc<Journal>, Recovery), OpenError> {
    let mut recovered = recover::recover(&*fs)?;
    let recovery = std::mem::take(&mut recovered.recovery);
    let journal = Arc::new(Journal::new(Arc::clone(&fs), std::mem::take(&mut recovered.index)));
    Ok((Writer::new(fs, options, Arc::clone(&journal), recovered), journal, recovery))
}
