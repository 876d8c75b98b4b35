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
            let of = marks.of.entry(entry).or_default();
            // An entry that is read again and again gets a new mark each time. The list grows for those alone that are watched.
            if of.len() == of.capacity() {
                of.retain(WeakMark::is_watched);
            }
            of.push(mark.downgrade());
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bytes::Bytes;
    use weir_journal::{Durability, NewEntry, Options, Owed};
    use weir_testkit::SimFs;

    use super::*;

    fn entry() -> Entry {
        let (mut writer, journal, _) =
            weir_journal::open(Arc::new(SimFs::new(1)), Options { segment_bytes: 1 << 20, seed: 1 }).unwrap();
        let (payload, owed) = ([Bytes::from_static(b"-")], [Owed { queue: journal.queue("traces/a"), taken: false }]);
        let new = NewEntry { payload: &payload, items: 1, owed: &owed };
        writer.append(&[new], 7, Durability::Synced).unwrap()[0]
    }

    #[test]
    fn marks_at_which_nobody_looks_do_not_pile_up() {
        let (followed, entry, watched) = (Followed::default(), entry(), Mark::default());
        followed.keep(entry, &watched);
        for _ in 0..1000 {
            followed.keep(entry, &Mark::default());
        }
        assert!(lock(&followed.marks).of[&entry].capacity() <= 8);
        followed.tell(&entry, Way::Delivered);
        assert_eq!(watched.way(), Way::Delivered);
    }
}
