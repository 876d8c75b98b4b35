//! What becomes of entries of the journal in which somebody has seen an item. The journal knows no marks, and whoever takes
//! an entry out of a queue has no other way to the mark of a request in it.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use weir_journal::Entry;

use super::lock;
use super::mark::{Mark, Way, WeakMark};

/// Entries at once. What is in others stays as it is.
const MOST: usize = 4096;
/// What one costs, with those that nobody looks at any more and that are still there. Items pay for it.
pub(super) const BYTES: usize = 2 * (size_of::<(Entry, Vec<WeakMark>)>() + 48);

/// Those of one queue.
#[derive(Debug, Default)]
pub(crate) struct Followed {
    /// How many entries there are, so that nothing is looked up while there is none.
    count: AtomicUsize,
    marks: Mutex<Marks>,
}

#[derive(Debug, Default)]
struct Marks {
    of: HashMap<Entry, Vec<WeakMark>>,
    /// With so many entries, those are forgotten at which nobody looks.
    sweep_at: usize,
}

impl Followed {
    /// A request with this mark is in the entry.
    pub(crate) fn keep(&self, entry: Entry, mark: &Mark) {
        let mut marks = lock(&self.marks);
        if marks.of.len() >= marks.sweep_at {
            marks.of.retain(|_, marks| marks.iter().any(WeakMark::is_watched));
            marks.sweep_at = (2 * marks.of.len() + 16).min(MOST);
        }
        if marks.of.len() < MOST {
            marks.of.entry(entry).or_default().push(mark.downgrade());
        }
        self.count.store(marks.of.len(), Ordering::Release);
    }

    /// This became of the entry, and nothing else will.
    pub(crate) fn tell(&self, entry: &Entry, way: Way) {
        if self.count.load(Ordering::Acquire) == 0 {
            return;
        }
        let mut marks = lock(&self.marks);
        marks.of.remove(entry).into_iter().flatten().for_each(|mark| mark.set(way));
        self.count.store(marks.of.len(), Ordering::Release);
    }

    /// Entries were given up: those that are not `owed` any more, and of which nothing else was told.
    pub(crate) fn given_up(&self, owed: impl Fn(&Entry) -> bool) {
        if self.count.load(Ordering::Acquire) == 0 {
            return;
        }
        let mut marks = lock(&self.marks);
        for (_, marks) in marks.of.extract_if(|entry, _| !owed(entry)) {
            marks.iter().for_each(|mark| mark.set(Way::Dropped));
        }
        self.count.store(marks.of.len(), Ordering::Release);
    }
}
