//! What can go wrong, and what can be done about it.

use std::io;

/// Why a journal cannot be opened. Damage is no reason: it is reported in [`Recovery`](crate::Recovery).
#[derive(Debug, thiserror::Error)]
#[error("cannot open the journal: cannot {action}")]
pub struct OpenError {
    /// What was tried.
    pub action: String,
    /// The system's reason.
    pub source: io::Error,
}

/// Why a group was not appended. None of it is owed to anybody.
#[derive(Debug, thiserror::Error)]
pub enum AppendError {
    /// The group cannot be written to any segment.
    #[error("cannot append {what} of {given}: at most {limit} fit")]
    TooLarge {
        /// What is too large.
        what: &'static str,
        /// How large it is.
        given: u64,
        /// What would be accepted.
        limit: u64,
    },
    /// This journal gave out no such queue id.
    #[error("cannot append an entry owed to a queue that is not registered")]
    UnknownQueue,
    /// The file system does not take it. The next append begins a new file.
    #[error("cannot {action} {file}: {source}")]
    Io {
        /// What was tried.
        action: &'static str,
        /// On which file.
        file: String,
        /// The system's reason.
        source: io::Error,
    },
    /// The active file was removed from under us.
    #[error("cannot append to {file}: it was removed from the journal's directory by somebody else")]
    Removed {
        /// Which file.
        file: String,
    },
}

impl AppendError {
    /// Whether the disk (or the user's quota of it) is full.
    pub fn is_full(&self) -> bool {
        let full = |kind| matches!(kind, io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded);
        matches!(self, Self::Io { source, .. } if full(source.kind()))
    }
}

/// Why a payload cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The system does not let us now; it may later.
    #[error("cannot read {file} at byte {offset}: {source}")]
    Io {
        /// The file.
        file: String,
        /// Where.
        offset: u64,
        /// The system's reason.
        source: io::Error,
    },
    /// The bytes are not what was written.
    #[error("cannot read the entry at byte {offset} of {file}: its checksum does not match")]
    Damaged {
        /// The file.
        file: String,
        /// Where.
        offset: u64,
    },
    /// The entry was completed by everybody and its file is gone.
    #[error("cannot read the entry at byte {offset} of {file}: the file is gone")]
    Gone {
        /// The file.
        file: String,
        /// Where.
        offset: u64,
    },
}
