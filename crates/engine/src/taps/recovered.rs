//! Items that were on the disk when the process began: a few of those that are read for the backend.
//!
//! Nothing is read, and no request is decoded, for their sake. Once a second, the first items of an entry that is sent
//! anyway are kept, if an earlier process wrote it: as they are on the disk, after the rules. They are copies within a
//! part of the room for recent items, where older ones make room. A pipeline of which nothing was found has no such
//! part.

use std::collections::VecDeque;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use weir_journal::Entry;
use weir_otlp::Part;
use weir_plan::PipelineId;

use super::caught::Caught;
use super::lock;
use super::mark::{Mark, Way};
use super::recent;
use super::tap::MOST_ITEM;
use crate::clock::{processor_time, unix_nanos};

/// Items that are kept of one entry.
const OF_ENTRY: usize = 4;
/// Time of a processor for that: every step may be long.
const PATIENCE: Duration = Duration::from_millis(5);
/// They have one part in so many of the room for recent items.
const OF_RECENT: usize = 10;
/// An item takes no more than one part in so many of that.
const LARGEST_OF_ROOM: usize = 2;
const NANOS_OF_MILLISECOND: u64 = 1_000_000;

/// Those of one pipeline.
#[derive(Debug, Default)]
pub(crate) struct RecoveredItems {
    /// Whether anything was found on the disk.
    any: AtomicBool,
    room: AtomicUsize,
    /// The second in which items were kept last.
    second: AtomicU64,
    /// Items are numbered in the order in which they were kept.
    last: AtomicU64,
    items: Mutex<VecDeque<(Entry, Arc<Caught>)>>,
}

impl RecoveredItems {
    /// There is something on the disk. Has to be said before there is a pipeline.
    pub(crate) fn are_there(&self) {
        self.any.store(true, Relaxed);
    }

    /// Takes its part of the room for recent items, in bytes, and says how much that is.
    pub(crate) fn fit(&self, recent: usize) -> usize {
        let room = if self.any.load(Relaxed) { recent / OF_RECENT } else { 0 };
        self.room.store(room, Relaxed);
        make_room(&mut lock(&self.items), 0, room);
        room
    }

    /// What is kept now, in the order in which it was read.
    pub(crate) fn list(&self) -> Vec<Arc<Caught>> {
        lock(&self.items).iter().map(|(_, item)| Arc::clone(item)).collect()
    }

    /// Keeps the first items of an entry that was read, if that is due. The mark wants to know what becomes of it.
    pub(crate) fn keep(&self, pipeline: &PipelineId, entry: &Entry, request: &Bytes) -> Option<Mark> {
        let room = self.room.load(Relaxed);
        if room == 0 {
            return None;
        }
        let second = unix_nanos() / recent::NANOS_OF_SECOND;
        // While the backend takes nothing, the same entries are read again and again.
        if self.second.load(Relaxed) == second || lock(&self.items).iter().any(|(of, _)| of == entry) {
            return None;
        }
        self.second.store(second, Relaxed);
        let mark = Mark::told(Way::Stored, entry.written_ms);
        let until = processor_time() + PATIENCE;
        let parts = weir_otlp::single(pipeline.signal, request).take_while(|_| processor_time() < until);
        let is_small = |part: &Part<'_>| {
            part.length() <= MOST_ITEM && cost(Some(pipeline), part.length()) <= room / LARGEST_OF_ROOM
        };
        let mut is_any = false;
        for part in parts.take(OF_ENTRY).filter(is_small) {
            self.push(pipeline, entry, &part, &mark);
            is_any = true;
        }
        is_any.then_some(mark)
    }

    fn push(&self, pipeline: &PipelineId, entry: &Entry, part: &Part<'_>, mark: &Mark) {
        let mut items = lock(&self.items);
        make_room(&mut items, cost(Some(pipeline), part.length()), self.room.load(Relaxed));
        let made = part.make();
        // A piece of the request would keep all of it in memory.
        let request = if part.is_slice() { Bytes::copy_from_slice(&made) } else { made };
        let number = self.last.fetch_add(1, Relaxed) + 1;
        let written_nanos = entry.written_ms.saturating_mul(NANOS_OF_MILLISECOND);
        let place = (pipeline.signal, Some(pipeline));
        items.push_back((*entry, Arc::new(Caught::new(number, written_nanos, place, request, (None, mark)))));
    }
}

/// What an item of so many bytes takes.
fn cost(pipeline: Option<&PipelineId>, bytes: usize) -> usize {
    recent::cost_of(pipeline, bytes) + size_of::<Entry>()
}

/// Lets the oldest go, until there is room for so many bytes.
fn make_room(items: &mut VecDeque<(Entry, Arc<Caught>)>, bytes: usize, room: usize) {
    let cost_of = |(_, item): &(Entry, Arc<Caught>)| cost(item.pipeline.as_ref(), item.request.len());
    let mut taken = bytes + items.iter().map(cost_of).sum::<usize>();
    while taken > room {
        let Some(oldest) = items.pop_front() else { return };
        taken -= cost_of(&oldest);
    }
}

#[cfg(test)]
mod tests {
    use weir_journal::{Durability, NewEntry, Options, Owed};
    use weir_plan::Signal;
    use weir_testkit::{SimFs, payload};

    use super::*;

    /// Room for recent items.
    const RECENT: usize = 64 << 10;

    /// So many different entries; nobody reads them here.
    fn entries(count: usize) -> Vec<Entry> {
        let (mut writer, journal, _) =
            weir_journal::open(Arc::new(SimFs::new(1)), Options { segment_bytes: 1 << 20, seed: 1 }).unwrap();
        let (payload, owed) = ([Bytes::from_static(b"-")], [Owed { queue: journal.queue("traces/a"), taken: false }]);
        let new = NewEntry { payload: &payload, items: 1, owed: &owed };
        writer.append(&vec![new; count], 7, Durability::Synced).unwrap()
    }

    fn request(items: u64) -> Bytes {
        payload::encoded(1, items, 10).into()
    }

    fn pipeline() -> PipelineId {
        PipelineId::new(Signal::Traces, "a")
    }

    /// As if the entry had been read in another second than those before.
    fn keep(recovered: &RecoveredItems, entry: &Entry, request: &Bytes) -> Option<Mark> {
        recovered.second.store(0, Relaxed);
        recovered.keep(&pipeline(), entry, request)
    }

    #[test]
    fn the_first_items_of_an_entry_are_kept_once() {
        let (recovered, entries, request) = (RecoveredItems::default(), entries(2), request(10));
        assert_eq!(recovered.fit(RECENT), 0, "nothing was found");
        assert!(keep(&recovered, &entries[0], &request).is_none());
        recovered.are_there();
        assert_eq!(recovered.fit(RECENT), RECENT / OF_RECENT);
        let mark = keep(&recovered, &entries[0], &request).unwrap();
        assert!(keep(&recovered, &entries[0], &request).is_none(), "it is known");
        let seen = |item: &Arc<Caught>| (item.number, item.unix_ms, item.way_and_time());
        let stored: Vec<_> = (1..=4).map(|number| (number, 7, Some((Way::Stored, Some(7))))).collect();
        assert_eq!(recovered.list().iter().map(seen).collect::<Vec<_>>(), stored);
        mark.set(Way::Delivered);
        assert!(recovered.list().iter().all(|item| item.way() == Some(Way::Delivered)));
        assert!(keep(&recovered, &entries[1], &request).is_some());
        assert_eq!(recovered.fit(0), 0);
        assert!(recovered.list().is_empty());
    }

    #[test]
    fn older_items_make_room_and_large_ones_are_left_out() {
        let (recovered, entries, request) = (RecoveredItems::default(), entries(50), request(4));
        recovered.are_there();
        let room = recovered.fit(RECENT);
        for entry in &entries {
            assert!(keep(&recovered, entry, &request).is_some());
        }
        let list = recovered.list();
        let taken: usize = list.iter().map(|item| cost(item.pipeline.as_ref(), item.request.len())).sum();
        assert!(taken <= room && list.last().unwrap().number == 200, "{taken} of {room}");
        recovered.fit(0);
        recovered.fit(OF_RECENT * LARGEST_OF_ROOM * recent::ITEM_BYTES);
        assert!(keep(&recovered, &entries[0], &request).is_none(), "each alone is too large");
    }
}
