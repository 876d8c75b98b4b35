//! The oldest entry of a queue: what an eviction begins with.

use super::Journal;
use crate::model::{Entry, QueueId};
use crate::walk::{Step, Walk};

/// See [`Journal::oldest`].
pub(super) fn oldest(journal: &Journal, queue: QueueId) -> Option<Entry> {
    let (segment, number, seal, place, end, durable_end) = {
        let index = journal.index();
        let (id, ledger) = index.get(queue)?.ledgers.iter().next()?;
        let (segment, number) = (index.segments.get(id)?, ledger.owed_from(0).next()?);
        (*id, number, segment.seal, segment.place(number), segment.end, segment.durable_end)
    };
    let file = journal.open_segment(segment).ok()?;
    let mut walk = Walk::new(&*file, seal, place, end);
    let mut entries = std::iter::from_fn(|| walk.step()).filter_map(|step| match step {
        Step::Entry(found) => found.entry(segment),
        Step::Gap(_) | Step::Queue { .. } => None,
    });
    let found = entries.find(|entry| entry.position.index >= number).filter(|entry| entry.position.index == number);
    file.forget(durable_end);
    found
}
