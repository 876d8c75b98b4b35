//! What is kept to undo a conversion.

use crate::counts::Forgotten;
use crate::identity::SeriesId;
use crate::reliance::Open;
use crate::series::Series;
use crate::value::Value;

/// Undoes one conversion, once: see `Converter::undo`. When this is dropped, the conversion stands.
#[derive(Debug)]
pub struct Undo {
    /// In the order in which they were done.
    pub(crate) steps: Vec<Step>,
    pub(crate) open: Open,
}

/// A change to a series.
#[derive(Debug)]
pub(crate) enum Step {
    /// A point became its last one.
    Advanced(Advance),
    /// What it was owed went with its delta.
    Settled {
        /// The series.
        id: SeriesId,
        /// What it was owed.
        owed: Value,
    },
}

/// How a point changed its series.
#[derive(Debug)]
pub(crate) struct Advance {
    /// The series.
    pub(crate) id: SeriesId,
    /// Time of the point. While the conversion can be undone, a series at this time is where the point left it, because
    /// the time of a series only goes up, or back by an undo.
    pub(crate) time: u64,
    /// The series before; `None` when the point was its first.
    pub(crate) previous: Option<Series>,
    /// The delta that the point became; zero when it was dropped.
    pub(crate) delta: Value,
}

/// What became of the points of a conversion that was undone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Undone {
    /// Series that are back where they were.
    pub restored: u64,
    /// Deltas that will be added to the next delta of their series.
    pub owed: u64,
    /// Deltas that are lost, because their series was forgotten meanwhile or its buckets have changed.
    pub lost: u64,
    /// What had to be forgotten, because what is owed takes memory too.
    pub forgotten: Forgotten,
}

impl Undo {
    /// Bytes that it takes until it is dropped.
    pub fn bytes(&self) -> usize {
        self.steps.capacity() * size_of::<Step>() + self.steps.iter().map(Step::heap_bytes).sum::<usize>()
    }
}

impl Step {
    /// Bytes on the heap.
    pub(crate) fn heap_bytes(&self) -> usize {
        match self {
            Self::Advanced(Advance { previous, delta, .. }) => {
                previous.as_ref().map_or(0, |series| series.value.heap_bytes()) + delta.heap_bytes()
            }
            Self::Settled { owed, .. } => owed.heap_bytes(),
        }
    }
}
