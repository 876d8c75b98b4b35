//! Which entries a queue is given next, and where they lie, as far as the index knows it. Nothing is read for that.

use crate::format::Seal;
use crate::index::{Index, Segment};
use crate::model::{Order, QueueId};
use crate::walk::Place;

/// What to read next.
#[derive(Debug, Clone, Copy)]
pub(super) struct Want {
    pub(super) segment: u64,
    pub(super) seal: Seal,
    /// Where the segment's last frame ended, and how many entries it had. The segment may be written to meanwhile.
    pub(super) end: u64,
    pub(super) entries: u32,
    pub(super) items: u64,
    /// Up to here it is known to be on disk.
    pub(super) durable_end: u64,
    /// The first entry, and the end of the run of untaken ones.
    pub(super) first: u32,
    pub(super) last: u32,
    /// The nearest known frame at or before the first entry.
    pub(super) place: Place,
    /// The same, but it is known how many items are before it.
    pub(super) counted: Place,
    /// No entry of the run lies behind this.
    pub(super) bound: u64,
}

impl Want {
    /// Where the next entry goes. What is there now is not what was looked for.
    pub(super) fn behind(&self) -> Place {
        Place { offset: self.end, index: self.entries, items: Some(self.items) }
    }
}

/// What a queue can be given.
pub(super) enum Next {
    Want(Want),
    Nothing,
    /// Only entries that were put off are left. The next search begins with them.
    PutOff,
}

/// A segment, and a run of entries in it.
type Untaken = (u64, (u32, u32));

/// Finds the first untaken entry.
pub(super) fn next(index: &mut Index, id: QueueId, order: Order) -> Next {
    let Some(queue) = index.queues.get_mut(usize::from(id.0)).filter(|queue| queue.untaken() > 0) else {
        return Next::Nothing;
    };
    if order == Order::Newest
        && let Some((segment, number)) = queue.newest_untried()
    {
        return want(index, segment, (number, number.saturating_add(1)), None);
    }
    let untried = || queue.untaken_from(queue.cursor).map(|run| (run, false));
    let put_off = || queue.untaken_from(queue.again).map(|run| (run, true));
    let is_before_cursor = |((segment, (first, _)), _): &(Untaken, bool)| (*segment, *first) < queue.cursor;
    let run = match order {
        Order::PutOff => put_off().filter(is_before_cursor).or_else(untried),
        Order::Oldest | Order::Newest => untried(),
    };
    let run = run.or_else(put_off);
    let Some(((number, (first, last)), was_put_off)) = run else {
        queue.again = (0, 0);
        return Next::PutOff;
    };
    let cursor = if was_put_off { &mut queue.again } else { &mut queue.cursor };
    *cursor = (number, first);
    let hint = queue.hint.filter(|(segment, hint)| *segment == number && hint.index <= first).map(|(_, hint)| hint);
    want(index, number, (first, last), hint)
}

/// What is to be read for a run of entries. `hint` is where a frame begins, before the first of them.
fn want(index: &Index, number: u64, (first, last): (u32, u32), hint: Option<Place>) -> Next {
    let Some(segment) = index.segments.get(&number) else { return Next::Nothing };
    let mark = segment.place(first);
    let place = hint.filter(|hint| hint.index >= mark.index).unwrap_or(mark);
    let counted = if place.items.is_some() { place } else { mark };
    let bound = segment.mark_behind(last).map_or(segment.end, |mark| u64::from(mark.offset));
    let Segment { seal, end, entries, items, durable_end, .. } = *segment;
    Next::Want(Want { segment: number, seal, end, entries, items, durable_end, first, last, place, counted, bound })
}
