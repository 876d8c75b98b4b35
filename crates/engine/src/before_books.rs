//! What was lost before it came into the books of a pipeline that would have got it. It is beside the books: nothing of
//! it was accepted.

use std::sync::{Mutex, PoisonError};

/// Why it was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EarlyLoss {
    /// Files were deleted unread.
    Removed,
    /// Files were cut off or overwritten before they were read.
    Overwritten,
    /// Files could not be read, again and again.
    Unreadable,
    /// Files that were deleted, and all of them together took too much of the disk.
    OverLimit,
    /// There was no memory for it.
    NoMemory,
    /// No processor had time for it.
    NoCpu,
    /// The pipeline had no room for it, or its disk fails.
    NoRoom,
    /// It is larger than it may be.
    TooLarge,
}

/// What of one pipeline was lost so, since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BeforeBooks {
    /// Items, as they are before the rules. An estimate, where nobody has counted them.
    pub items: u64,
    /// Why the last of them was lost.
    pub last: Option<EarlyLoss>,
}

/// The same, while it is counted.
#[derive(Debug, Default)]
pub(crate) struct EarlyLosses(Mutex<BeforeBooks>);

impl EarlyLosses {
    pub(crate) fn add(&self, items: u64, why: EarlyLoss) {
        if items == 0 {
            return;
        }
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *all = BeforeBooks { items: all.items.saturating_add(items), last: Some(why) };
    }

    pub(crate) fn figures(&self) -> BeforeBooks {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
