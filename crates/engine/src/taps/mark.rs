//! What becomes of the request that a caught item is in.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use crate::books::Fate;
use crate::clock::unix_nanos;

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

/// A way, and when that was told, in milliseconds since the Unix epoch; `None` if nothing was told.
pub type WayAndTime = (Way, Option<u64>);

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

/// Is told what becomes of a request, and when. Of one that is sent in several pieces it knows what became of the last one.
/// The lowest byte is the way, so that both are read together; above it are milliseconds since the Unix epoch.
#[derive(Debug, Clone, Default)]
pub(crate) struct Mark(Arc<AtomicU64>);

impl Mark {
    /// One that was told this at another time.
    pub(super) fn told(way: Way, unix_ms: u64) -> Self {
        Self(Arc::new(AtomicU64::new(packed(way, unix_ms))))
    }

    pub(crate) fn set(&self, way: Way) {
        self.0.store(packed(way, unix_nanos() / 1_000_000), Ordering::Relaxed);
    }

    /// For whoever only tells it.
    pub(super) fn downgrade(&self) -> WeakMark {
        WeakMark(Arc::downgrade(&self.0))
    }

    pub(crate) fn way(&self) -> Way {
        self.read().0
    }

    pub(super) fn read(&self) -> WayAndTime {
        let packed = self.0.load(Ordering::Relaxed);
        let way = ALL[usize::from(packed.to_le_bytes()[0]).min(ALL.len() - 1)];
        (way, Some(packed >> WAY_BITS).filter(|unix_ms| *unix_ms > 0))
    }
}

const WAY_BITS: u32 = u8::BITS;

fn packed(way: Way, unix_ms: u64) -> u64 {
    (unix_ms << WAY_BITS) | way as u64
}

/// A mark at which somebody may still look.
#[derive(Debug)]
pub(super) struct WeakMark(Weak<AtomicU64>);

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
        assert_eq!(mark.read(), (Way::Refused, None));
        for way in ALL {
            let before = unix_nanos() / 1_000_000;
            mark.clone().set(way);
            let (told, unix_ms) = mark.read();
            assert!(told == way && unix_ms >= Some(before), "{told:?} at {unix_ms:?}");
            assert_eq!(Mark::told(way, 7).read(), (way, Some(7)));
        }
    }
}
