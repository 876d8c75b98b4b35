//! What becomes of the request that a caught item is in.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Weak};

use crate::books::Fate;

/// The last that is known of a caught item's way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// Its request was refused before the pipeline owed it: the client has it.
    Refused,
    /// It waits for the backend, in memory.
    Pending,
    /// It is in the journal, and is sent from there in its turn.
    Stored,
    /// The backend took the request that it was in.
    Delivered,
    /// The backend refused it for good.
    Rejected,
    /// It was given up.
    Dropped,
    /// The client was told to send it again.
    Withdrawn,
    /// It was sent in several requests. What became of each is in the books alone.
    Split,
    /// No pipeline takes it.
    Unclaimed,
    /// It arrived. What pipelines do with it, their edges show.
    Received,
}

impl Way {
    pub(crate) fn of(fate: &Fate) -> Self {
        match fate {
            Fate::Delivered | Fate::DeliveredBut { .. } => Self::Delivered,
            Fate::Dropped(_) => Self::Dropped,
            Fate::Rejected { .. } => Self::Rejected,
        }
    }
}

const ALL: [Way; 10] = [
    Way::Refused,
    Way::Pending,
    Way::Stored,
    Way::Delivered,
    Way::Rejected,
    Way::Dropped,
    Way::Withdrawn,
    Way::Split,
    Way::Unclaimed,
    Way::Received,
];

/// Is told what becomes of a request. Of one that is sent in several pieces it knows what became of the last one.
#[derive(Debug, Clone, Default)]
pub(crate) struct Mark(Arc<AtomicU8>);

impl Mark {
    pub(crate) fn set(&self, way: Way) {
        self.0.store(way as u8, Ordering::Relaxed);
    }

    /// For whoever only tells it.
    pub(super) fn downgrade(&self) -> WeakMark {
        WeakMark(Arc::downgrade(&self.0))
    }

    pub(crate) fn way(&self) -> Way {
        ALL[usize::from(self.0.load(Ordering::Relaxed)).min(ALL.len() - 1)]
    }
}

/// A mark at which somebody may still look.
#[derive(Debug)]
pub(super) struct WeakMark(Weak<AtomicU8>);

impl WeakMark {
    pub(super) fn is_watched(&self) -> bool {
        self.0.strong_count() > 0
    }

    pub(super) fn set(&self, way: Way) {
        if let Some(mark) = self.0.upgrade() {
            Mark(mark).set(way);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_says_what_it_was_told_last() {
        let mark = Mark::default();
        assert_eq!(mark.way(), Way::Refused);
        for way in ALL {
            mark.clone().set(way);
            assert_eq!(mark.way(), way);
        }
    }
}
