//! Recent items: a few of those that passed a pipeline, for whoever looks when it is over.
//!
//! Each second, the first items of one request are kept as they were before the rules; and of each condition, one of the
//! items that it removes. They are copies within the room that is set aside for them, where older items make room for newer
//! ones. What was kept goes when the rules change: it names them.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use weir_otlp::Part;
use weir_plan::PipelineId;

use super::caught::{Caught, RemovedBy};
use super::followed;
use super::inbox::{Passing, Removers};
use super::lock;
use super::mark::Way;
use super::tap::MOST_ITEM;
use crate::budget::{Purse, Shortage};
use crate::clock::processor_time;
use crate::rules::{ConditionPlace, Removed};

/// Items that are kept, and how many of them come from one second.
const KEPT: usize = 1000;
const A_SECOND: usize = 4;
/// Items that one condition removed.
const REMOVED: usize = 5;
/// Time of a processor for all of that in one second: what a condition removes may be anywhere in a request, and every step may
/// be long.
const PATIENCE: Duration = Duration::from_millis(5);
/// One pipeline has no use for more room than this.
pub(crate) const MAX_BYTES: usize = 1280 << 10;
/// What conditions removed has a part of the room.
const OF_ROOM_FOR_REMOVED: usize = 5;
/// An item takes no more than one part in so many of the room.
const LARGEST_OF_ROOM: usize = 20;
pub(super) const NANOS_OF_SECOND: u64 = 1_000_000_000;
/// It is looked for from somewhere among so many items on.
const BEGINNINGS: usize = 1000;
/// What an item costs beside its bytes.
pub(super) const ITEM_BYTES: usize = size_of::<Caught>() + 64 + followed::BYTES;

/// What is kept of one pipeline.
#[derive(Debug)]
pub(crate) struct Recent {
    room: AtomicUsize,
    /// The second of the last request of which items were kept.
    second: AtomicU64,
    /// Time that was taken in this second.
    worked: Mutex<Worked>,
    /// Items are numbered in the order in which they were kept.
    last: AtomicU64,
    items: Mutex<VecDeque<Arc<Caught>>>,
    removed: Mutex<BTreeMap<ConditionPlace, Removals>>,
}

#[derive(Debug, Default)]
struct Worked {
    second: u64,
    time: Duration,
}

/// What one condition removed.
#[derive(Debug, Default)]
struct Removals {
    /// When one was looked for last.
    second: u64,
    items: VecDeque<Arc<Caught>>,
}

/// Lists of what is kept, made at one moment.
#[derive(Debug, Default)]
pub struct RecentItems {
    /// Items as they were before the rules, the oldest first.
    pub items: Vec<Arc<Caught>>,
    /// Items that conditions removed, by condition, the newest first. Some of them are among `items`, with the same number.
    pub removed: Vec<Arc<Caught>>,
    /// Items that were on the disk when the process began, as they are there, in the order in which they were read for the
    /// backend. Their numbers are their own.
    pub recovered: Vec<Arc<Caught>>,
}

impl RecentItems {
    /// Those of `items` that were given up, or refused by the backend, the newest first.
    pub fn lost(&self) -> impl Iterator<Item = &Arc<Caught>> {
        let is_lost = |item: &&Arc<Caught>| matches!(item.way(), Some(Way::Dropped | Way::Rejected));
        self.items.iter().rev().filter(is_lost)
    }
}

/// What of a request is to be kept.
#[derive(Debug, Default)]
pub(super) struct Due {
    /// Its first items.
    items: bool,
    /// An item that each of these removed.
    removed: Vec<ConditionPlace>,
}

impl Due {
    pub(super) fn is_nothing(&self) -> bool {
        !self.items && self.removed.is_empty()
    }
}

impl Recent {
    pub(crate) fn within(room: usize) -> Self {
        Self {
            room: AtomicUsize::new(room),
            second: AtomicU64::new(0),
            worked: Mutex::default(),
            last: AtomicU64::new(0),
            items: Mutex::default(),
            removed: Mutex::default(),
        }
    }

    /// There are more pipelines now, or fewer.
    pub(crate) fn resize(&self, room: usize) {
        self.room.store(room, Relaxed);
        fit(&mut lock(&self.items), &self.room);
        fit_removed(&mut lock(&self.removed), &self.room);
    }

    /// What is kept now; others know what was on the disk.
    pub(crate) fn lists(&self) -> RecentItems {
        let items = lock(&self.items).iter().cloned().collect();
        let removed = lock(&self.removed);
        let newest_first = removed.values().flat_map(|removals| removals.items.iter().rev());
        RecentItems { items, removed: newest_first.cloned().collect(), recovered: Vec::new() }
    }

    /// What is to be kept of a request that is done with the rules. A clock that was set back is a second like any other.
    pub(super) fn due(&self, removed: &[Removed], second: u64) -> Due {
        let is_new = |of: &AtomicU64| of.load(Relaxed) != second && of.swap(second, Relaxed) != second;
        let items = is_new(&self.second);
        if removed.iter().all(|of| of.place.is_none()) {
            return Due { items, removed: Vec::new() };
        }
        let mut known = lock(&self.removed);
        let is_due = |place: &ConditionPlace| {
            let removals = known.entry(*place).or_default();
            std::mem::replace(&mut removals.second, second) != second
        };
        Due { items, removed: removed.iter().filter_map(|of| of.place).filter(is_due).collect() }
    }

    /// Keeps what is due. True if somebody may want to know what becomes of the request.
    pub(super) fn keep(&self, due: Due, passing: &Passing<'_>, purse: Purse<'_>) -> bool {
        let (second, began) = (passing.unix_nanos / NANOS_OF_SECOND, processor_time());
        let until = began + self.time_left(second);
        let look = Look { passing, removers: passing.removers(), purse, until };
        let kept = if due.items { self.keep_items(&look) } else { Vec::new() };
        let mut wanted: BTreeMap<_, _> = due.removed.into_iter().map(|place| (place.field(), place)).collect();
        for item in &kept {
            self.keep_if_wanted(item, &mut wanted);
        }
        if !wanted.is_empty() {
            self.keep_removed(wanted, &look);
        }
        lock(&self.worked).time += processor_time().saturating_sub(began);
        !kept.is_empty()
    }

    fn time_left(&self, second: u64) -> Duration {
        let mut worked = lock(&self.worked);
        if worked.second != second {
            *worked = Worked { second, time: Duration::ZERO };
        }
        PATIENCE.saturating_sub(worked.time)
    }

    /// Keeps the first items of a request, and returns them.
    fn keep_items(&self, look: &Look<'_>) -> Vec<Arc<Caught>> {
        let parts = look.parts().take(A_SECOND).filter(|part| self.has_room_for(part));
        // Without memory they are left out.
        let looked_at = parts.map_while(|part| look.at(&part).ok());
        let kept: Vec<_> = looked_at.map(|(item, by)| self.caught(&item, look.passing, by)).collect();
        let mut items = lock(&self.items);
        items.extend(kept.iter().cloned());
        fit(&mut items, &self.room);
        kept
    }

    /// Looks for one item of each condition, from somewhere in the request on.
    fn keep_removed(&self, mut wanted: BTreeMap<String, ConditionPlace>, look: &Look<'_>) {
        let items = usize::try_from(look.passing.before.items).unwrap_or(usize::MAX).max(1);
        let begin = usize::try_from(look.passing.unix_nanos).unwrap_or_default() % items.min(BEGINNINGS);
        let all = look.parts().chain(look.parts()).skip(begin).take(items);
        for part in all.filter(|part| self.has_room_for(part)) {
            let Ok((item, by)) = look.at(&part) else { return };
            if by.as_ref().is_some_and(|by| wanted.contains_key(&by.field)) {
                self.keep_if_wanted(&self.caught(&item, look.passing, by), &mut wanted);
            }
            if wanted.is_empty() {
                return;
            }
        }
    }

    fn keep_if_wanted(&self, item: &Arc<Caught>, wanted: &mut BTreeMap<String, ConditionPlace>) {
        let Some(place) = item.removed_by.as_ref().and_then(|by| wanted.remove(&by.field)) else { return };
        let mut removed = lock(&self.removed);
        removed.entry(place).or_default().items.push_back(Arc::clone(item));
        fit_removed(&mut removed, &self.room);
    }

    /// One that is larger would have all others go.
    fn has_room_for(&self, part: &Part<'_>) -> bool {
        part.length() <= MOST_ITEM.min(self.room.load(Relaxed) / LARGEST_OF_ROOM)
    }

    /// A copy: what payloads paid for is given back.
    fn caught(&self, item: &Bytes, passing: &Passing<'_>, removed_by: Option<RemovedBy>) -> Arc<Caught> {
        let number = self.last.fetch_add(1, Relaxed) + 1;
        let copy = Bytes::copy_from_slice(item);
        let place = (passing.signal, Some(passing.pipeline));
        Arc::new(Caught::new(number, passing.unix_nanos, place, copy, (removed_by, passing.mark)))
    }
}

/// A look at what a request has, as long as there is time.
struct Look<'a> {
    passing: &'a Passing<'a>,
    removers: Removers,
    purse: Purse<'a>,
    /// Of the [time of the processor](processor_time).
    until: Duration,
}

impl<'a> Look<'a> {
    fn parts(&self) -> impl Iterator<Item = Part<'a>> {
        let until = self.until;
        weir_otlp::single(self.passing.signal, &self.passing.before.body).take_while(move |_| processor_time() < until)
    }

    /// An item alone, and what removed it.
    fn at(&self, part: &Part<'_>) -> Result<(Bytes, Option<RemovedBy>), Shortage> {
        let item = self.purse.copy(part)?;
        let by = self.removers.of(&item, self.purse, self.passing.unix_nanos)?;
        Ok((item, by))
    }
}

/// What an item takes.
fn cost(item: &Arc<Caught>) -> usize {
    cost_of(item.pipeline.as_ref(), item.request.len())
}

/// What an item of so many bytes takes.
pub(super) fn cost_of(pipeline: Option<&PipelineId>, bytes: usize) -> usize {
    ITEM_BYTES + pipeline.map_or(0, |pipeline| pipeline.name.len()) + bytes
}

fn fit(items: &mut VecDeque<Arc<Caught>>, room: &AtomicUsize) {
    let room = room.load(Relaxed);
    let room = room - room / OF_ROOM_FOR_REMOVED;
    let mut bytes: usize = items.iter().map(cost).sum();
    while items.len() > KEPT || bytes > room {
        bytes -= items.pop_front().map_or(bytes, |oldest| cost(&oldest));
    }
}

/// Whoever has most makes room first.
fn fit_removed(removed: &mut BTreeMap<ConditionPlace, Removals>, room: &AtomicUsize) {
    let room = room.load(Relaxed) / OF_ROOM_FOR_REMOVED;
    let size = |of: &Removals| of.items.iter().map(cost).sum::<usize>();
    for removals in removed.values_mut().filter(|of| of.items.len() > REMOVED) {
        removals.items.pop_front();
    }
    while removed.values().map(size).sum::<usize>() > room {
        let Some(largest) = removed.values_mut().max_by_key(|of| size(of)) else { return };
        largest.items.pop_front();
    }
}

#[cfg(test)]
mod tests {
    use weir_plan::Signal;

    use super::super::mark::Mark;
    use super::*;

    const ROOM: usize = 64 << 10;

    fn item(number: u64, bytes: usize) -> Arc<Caught> {
        let pipeline = PipelineId { signal: Signal::Logs, name: "all".to_owned() };
        let request = Bytes::from(vec![0; bytes]);
        Arc::new(Caught::new(number, 0, (Signal::Logs, Some(&pipeline)), request, (None, &Mark::default())))
    }

    #[test]
    fn the_newest_that_fit_are_kept() {
        let mut items = VecDeque::new();
        for number in 1..=5000 {
            items.push_back(item(number, 1));
            fit(&mut items, &AtomicUsize::new(usize::MAX));
        }
        assert_eq!((items.len(), items[0].number), (KEPT, 4001));
        fit(&mut items, &AtomicUsize::new(ROOM));
        let bytes: usize = items.iter().map(cost).sum();
        let room = ROOM - ROOM / OF_ROOM_FOR_REMOVED;
        assert!(bytes <= room && bytes > room - cost(&items[0]) && items.back().unwrap().number == 5000, "{bytes}");
        items.push_back(item(5001, ROOM));
        fit(&mut items, &AtomicUsize::new(ROOM));
        assert!(items.is_empty(), "one that is larger than all room");
    }

    #[test]
    fn a_rule_that_removes_large_items_takes_no_room_of_others() {
        let mut removed = BTreeMap::new();
        let place = |condition| ConditionPlace { filter: 0, condition };
        let mut keep = |line, number, bytes| {
            removed.entry(place(line)).or_insert_with(Removals::default).items.push_back(item(number, bytes));
            fit_removed(&mut removed, &AtomicUsize::new(ROOM * OF_ROOM_FOR_REMOVED));
            removed.values().map(|of| of.items.iter().map(|item| item.number).collect()).collect::<Vec<Vec<_>>>()
        };
        keep(0, 1, 100);
        for number in 2..=9 {
            keep(1, number, 20 << 10);
        }
        assert_eq!(keep(1, 10, 20 << 10), [vec![1], vec![8, 9, 10]]);
        (11..=20).for_each(|number| drop(keep(0, number, 100)));
        assert_eq!(keep(0, 21, 100), [vec![17, 18, 19, 20, 21], vec![8, 9, 10]]);
    }

    #[test]
    fn one_request_of_a_second_is_looked_at() {
        let recent = Recent::within(ROOM);
        let is_due = |second| recent.due(&[], second).items;
        assert_eq!(
            [7, 7, 8, 8, 3, 3].map(is_due),
            [true, false, true, false, true, false],
            "also of a clock that is set back"
        );
    }
}
