//! Giving up the oldest entries of a queue.
//!
//! Whole segments go without a read. Within a segment, the heads of entries are read one by one, because a head says
//! how much its entry counts for. An entry that cannot be read, or is damaged, stays until it is taken or the whole
//! segment has to go.

use std::io;

use super::Journal;
use crate::format::Seal;
use crate::index::{Index, Segment};
use crate::model::{Entry, Loss, QueueId};
use crate::walk::{Place, Step, Walk};

/// Entries given up under one lock at most.
const BATCH: usize = 1024;

/// What a queue may keep.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    pub(super) max_bytes: u64,
    pub(super) not_before_ms: u64,
}

/// What to do with a queue's next segment.
enum Plan {
    /// It is within its limits, or there is nothing that may go.
    Done,
    /// All of it went.
    Went(Loss),
    /// Some of it has to go.
    Read { segment: u64, seal: Seal, place: Place, end: u64, durable_end: u64 },
}

pub(super) fn evict(journal: &Journal, queue: QueueId, limits: Limits) -> Loss {
    let mut loss = Loss::default();
    let mut from = 0;
    loop {
        let plan = plan(&mut journal.index(), queue, limits, from);
        match plan {
            Plan::Done => return loss,
            Plan::Went(gone) => loss.add(gone),
            Plan::Read { segment, seal, place, end, durable_end } => {
                from = segment + 1;
                let mut part = Part { journal, queue, segment, limits, next: 0, loss: &mut loss };
                let readable = match journal.open_segment(segment) {
                    Ok(file) => {
                        let readable = part.evict_from(Walk::new(&*file, seal, place, end));
                        file.forget(durable_end);
                        readable
                    }
                    Err(error) if error.kind() == io::ErrorKind::NotFound => part.give_up(&[], true),
                    Err(_) => false,
                };
                if !readable {
                    return loss;
                }
            }
        }
    }
}

/// See [`Journal::evict_segment`].
pub(super) fn evict_segment(journal: &Journal, may_lose: &dyn Fn(QueueId) -> bool) -> Vec<(QueueId, Loss)> {
    let mut index = journal.index();
    let goes = |debtors: &[QueueId]| !debtors.is_empty() && debtors.iter().copied().all(may_lose);
    let found = index.segments.keys().map(|id| (*id, index.debtors(*id))).find(|(_, debtors)| goes(debtors));
    let Some((id, debtors)) = found else { return Vec::new() };
    debtors.into_iter().map(|queue| (queue, index.settle_segment(queue, id))).collect()
}

fn plan(index: &mut Index, queue: QueueId, limits: Limits, from: u64) -> Plan {
    let Some(found) = index.get(queue) else { return Plan::Done };
    let Some((id, ledger)) = found.ledgers.range(from..).next() else { return Plan::Done };
    let Some(segment) = index.segments.get(id) else { return Plan::Done };
    let Some(first) = ledger.owed_from(0).next() else { return Plan::Done };
    let (id, surplus) = (*id, found.bytes().saturating_sub(limits.max_bytes));
    let may_be_old = segment.mark(first).is_some_and(|mark| mark.written_ms < limits.not_before_ms);
    if surplus == 0 && !may_be_old {
        return Plan::Done;
    }
    let all_goes = surplus >= ledger.total().bytes || segment.newest_ms < limits.not_before_ms;
    if all_goes {
        return Plan::Went(index.settle_segment(queue, id));
    }
    let Segment { seal, end, durable_end, .. } = *segment;
    Plan::Read { segment: id, seal, place: segment.place(first), end, durable_end }
}

/// One segment of one queue.
struct Part<'a> {
    journal: &'a Journal,
    queue: QueueId,
    segment: u64,
    limits: Limits,
    /// Entries before this one are dealt with.
    next: u32,
    loss: &'a mut Loss,
}

impl Part<'_> {
    /// Whether later segments may have to lose something, too.
    fn evict_from(&mut self, mut walk: Walk<'_>) -> bool {
        let mut batch = Vec::with_capacity(BATCH);
        while let Some(step) = walk.step() {
            match step {
                Step::Entry(found) => batch.extend(found.entry(self.segment)),
                Step::Gap(gap) if gap.unreadable.is_some() => {
                    self.give_up(&batch, false);
                    return false;
                }
                Step::Gap(_) | Step::Queue { .. } => {}
            }
            if batch.len() == BATCH {
                if !self.give_up(&batch, false) {
                    return false;
                }
                batch.clear();
            }
        }
        self.give_up(&batch, true)
    }

    /// Gives up what has to go, as far as `known` goes, or to the end of the segment when no more can be known. Returns
    /// whether more may have to go, here or in later segments.
    fn give_up(&mut self, known: &[Entry], is_all: bool) -> bool {
        let mut index = self.journal.index();
        let last_known = known.last().map(|entry| entry.position.index);
        let mut known = known.iter().peekable();
        loop {
            let Some(number) = next_owed(&index, self.queue, self.segment, self.next) else { return true };
            if !is_all && last_known.is_none_or(|last| last < number) {
                return true;
            }
            while known.next_if(|entry| entry.position.index < number).is_some() {}
            self.next = number.saturating_add(1);
            // What cannot be read has no count that would be exact: it stays until it is taken, or all of the segment
            // goes.
            let Some(entry) = known.next_if(|entry| entry.position.index == number) else { continue };
            let bytes = index.get(self.queue).map_or(0, |queue| queue.bytes());
            if bytes <= self.limits.max_bytes && entry.written_ms >= self.limits.not_before_ms {
                return false;
            }
            let lost = index.settle(self.queue, self.segment, number, Loss::of(entry));
            self.loss.add(lost.unwrap_or_default());
        }
    }
}

fn next_owed(index: &Index, queue: QueueId, segment: u64, from: u32) -> Option<u32> {
    index.get(queue)?.ledgers.get(&segment)?.owed_from(from).next()
}
