//! What readers share.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::{Backlog, Chunk, Entry, Loss, QueueId, ReadError, Stats};

/// The shared handle: taking, reading and completing entries.
#[derive(Debug, Default)]
pub struct Journal {
    names: Mutex<Vec<String>>,
}

impl Journal {
    fn names(&self) -> MutexGuard<'_, Vec<String>> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers or finds a queue.
    pub fn queue(&self, name: &str) -> QueueId {
        let mut names = self.names();
        let found = names.iter().position(|known| known == name).unwrap_or_else(|| {
            names.push(name.to_owned());
            names.len() - 1
        });
        QueueId(u16::try_from(found).unwrap_or(u16::MAX))
    }

    /// All queues.
    pub fn queues(&self) -> Vec<(QueueId, String)> {
        (0u16..).map(QueueId).zip(self.names().iter().cloned()).collect()
    }

    /// The next untaken entries.
    pub fn take(&self, _: QueueId, _max_bytes: usize) -> Result<Chunk, ReadError> {
        Ok(Chunk::default())
    }

    /// One payload.
    pub fn read(&self, entry: &Entry) -> Result<Vec<u8>, ReadError> {
        Err(ReadError::Gone { file: String::new(), offset: u64::from(entry.position.offset) })
    }

    /// Whether the queue is still owed the entry.
    pub fn is_owed(&self, _: QueueId, _: &Entry) -> bool {
        false
    }

    /// The queue has got the entry; false when it was not owed any more.
    pub fn complete(&self, _: QueueId, _: &Entry) -> bool {
        false
    }

    /// Keeps `evict` from the entry; false when it is not owed any more.
    pub fn pin(&self, _: QueueId, _: &Entry) -> bool {
        false
    }

    /// Hands a taken entry back, so that `take` hands it out (again); false when it is not owed any more.
    pub fn release(&self, _: QueueId, _: &Entry) -> bool {
        false
    }

    /// Gives up the oldest entries until the queue is within its limits.
    pub fn evict(&self, _: QueueId, _max_bytes: u64, _not_before_ms: u64) -> Loss {
        Loss::default()
    }

    /// What the queue is owed.
    pub fn backlog(&self, _: QueueId) -> Backlog {
        Backlog::default()
    }

    /// The journal as a whole.
    pub fn stats(&self) -> Stats {
        Stats::default()
    }
}
