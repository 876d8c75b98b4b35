//! What passed a pipeline lately: a few items, for whoever looks when it is over.
//!
//! Each second, the first items of one request are kept as they were before the rules; and of each condition, one of the
//! items that it removes. A request that is not looked at pays a relaxed load. All of it is within the room that is set
//! aside for it, where older items make room for newer ones. What was kept goes when the rules change: it names them.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use weir_otlp::Part;

use super::caught::{Caught, RemovedBy};
use super::inbox::Passing;
use super::mark::Way;
use super::tap::{MOST_ITEM, removed_by};
use crate::budget::{Purse, Shortage};
use crate::rules::{Condition, Rules};

/// Items that passed, and how many of them come from one second.
const PASSED: usize = 1000;
const A_SECOND: usize = 4;
/// Items that one condition removed.
const REMOVED: usize = 5;
/// For what conditions removed of one request: what they remove may be the last item of very many.
const PATIENCE: Duration = Duration::from_millis(2);
/// One pipeline has no use for more room than this.
pub(crate) const MAX_BYTES: usize = 1280 << 10;
/// What conditions removed has a part of the room.
const OF_ROOM_FOR_REMOVED: usize = 5;
/// What an item costs beside its bytes.
const ITEM_BYTES: usize = size_of::<Caught>() + 64;

/// See the module.
#[derive(Debug)]
pub(crate) struct Recent {
    room: AtomicUsize,
    /// The second of the last request of which items were kept.
    second: AtomicU64,
    passed: Mutex<VecDeque<Arc<Caught>>>,
    removed: Mutex<BTreeMap<Condition, Removals>>,
}

/// What one condition removed.
#[derive(Debug, Default)]
struct Removals {
    /// When one was looked for last.
    second: u64,
    items: VecDeque<Arc<Caught>>,
}

/// What there is to look at.
#[derive(Debug, Default)]
pub struct RecentItems {
    /// Items as they were before the rules, the oldest first.
    pub passed: Vec<Arc<Caught>>,
    /// Items that conditions removed, by condition, the newest first.
    pub removed: Vec<Arc<Caught>>,
}

impl RecentItems {
    /// Those that were given up, or refused by the backend, the newest first.
    pub fn lost(&self) -> impl Iterator<Item = &Arc<Caught>> {
        let is_lost = |item: &&Arc<Caught>| matches!(item.way(), Some(Way::Dropped | Way::Rejected));
        self.passed.iter().rev().filter(is_lost)
    }
}

/// What of a request is to be kept.
#[derive(Debug, Default)]
pub(super) struct Due {
    passed: bool,
    removed: Vec<Condition>,
}

impl Due {
    pub(super) fn is_nothing(&self) -> bool {
        !self.passed && self.removed.is_empty()
    }
}

impl Recent {
    pub(crate) fn within(room: usize) -> Self {
        let (room, second) = (AtomicUsize::new(room), AtomicU64::new(0));
        Self { room, second, passed: Mutex::default(), removed: Mutex::default() }
    }

    /// There are more pipelines now, or fewer.
    pub(crate) fn resize(&self, room: usize) {
        self.room.store(room, Ordering::Relaxed);
        fit_passed(&mut lock(&self.passed), self.room_for_passed());
        fit_removed(&mut lock(&self.removed), self.room_for_removed());
    }

    pub(crate) fn items(&self) -> RecentItems {
        let passed = lock(&self.passed).iter().cloned().collect();
        let removed = lock(&self.removed);
        let newest_first = removed.values().flat_map(|removals| removals.items.iter().rev());
        RecentItems { passed, removed: newest_first.cloned().collect() }
    }

    /// What is to be kept of a request that is done with the rules.
    pub(super) fn due(&self, (rules, removed): (Option<&Arc<Rules>>, &[crate::rules::Removed]), second: u64) -> Due {
        let passed =
            self.second.load(Ordering::Relaxed) < second && self.second.fetch_max(second, Ordering::Relaxed) < second;
        let Some(rules) = rules.filter(|_| !removed.is_empty()) else { return Due { passed, ..Due::default() } };
        let mut known = lock(&self.removed);
        let is_due = |condition: &Condition| {
            let removals = known.entry(*condition).or_default();
            std::mem::replace(&mut removals.second, second) < second
        };
        Due { passed, removed: removed.iter().filter_map(|of| of.condition(rules)).filter(is_due).collect() }
    }

    /// Keeps what is due. True if somebody may want to know what becomes of the request.
    pub(super) fn keep(&self, due: Due, passing: &Passing<'_>, purse: Purse<'_>) -> bool {
        if due.passed {
            self.keep_passed(passing, purse);
        }
        if !due.removed.is_empty() {
            self.keep_removed(due.removed, passing, purse);
        }
        due.passed
    }

    fn keep_passed(&self, passing: &Passing<'_>, purse: Purse<'_>) {
        let room = self.room_for_passed();
        let parts = weir_otlp::single(passing.signal, &passing.before.body).take(A_SECOND);
        for part in parts.filter(|part| part.length() <= MOST_ITEM) {
            // Without memory it is left out.
            let Ok((item, removed_by)) = look(&part, passing, purse) else { return };
            let mut passed = lock(&self.passed);
            passed.push_back(caught(&item, passing, removed_by));
            fit_passed(&mut passed, room);
        }
    }

    /// Looks for one item of each condition, from anywhere in the request on.
    fn keep_removed(&self, mut wanted: Vec<Condition>, passing: &Passing<'_>, purse: Purse<'_>) {
        let (began, room) = (Instant::now(), self.room_for_removed());
        let items = usize::try_from(passing.before.items).unwrap_or(usize::MAX).max(1);
        let begin = usize::try_from(passing.unix_nanos).unwrap_or_default() % items;
        let parts = || weir_otlp::single(passing.signal, &passing.before.body);
        for part in parts().skip(begin).chain(parts().take(begin)).filter(|part| part.length() <= MOST_ITEM) {
            if wanted.is_empty() || began.elapsed() >= PATIENCE {
                return;
            }
            let Ok((item, by)) = look(&part, passing, purse) else { return };
            let Some(at) = by.as_ref().and_then(|by| wanted.iter().position(|of| of.field() == by.field)) else {
                continue;
            };
            let condition = wanted.swap_remove(at);
            let mut removed = lock(&self.removed);
            removed.entry(condition).or_default().items.push_back(caught(&item, passing, by));
            fit_removed(&mut removed, room);
        }
    }

    fn room_for_passed(&self) -> usize {
        self.room.load(Ordering::Relaxed) - self.room_for_removed()
    }

    fn room_for_removed(&self) -> usize {
        self.room.load(Ordering::Relaxed) / OF_ROOM_FOR_REMOVED
    }
}

/// An item alone, and the rule that removes it.
fn look(part: &Part<'_>, passing: &Passing<'_>, purse: Purse<'_>) -> Result<(Bytes, Option<RemovedBy>), Shortage> {
    let item = purse.copy(part)?;
    let has_removed = passing.after.items < passing.before.items;
    let by = match passing.rules.filter(|_| has_removed) {
        Some(rules) => removed_by(rules, &rules.attempt(item.clone(), 1, purse, passing.unix_nanos)?),
        None => None,
    };
    Ok((item, by))
}

/// A copy: what payloads paid for is given back.
fn caught(item: &Bytes, passing: &Passing<'_>, removed_by: Option<RemovedBy>) -> Arc<Caught> {
    let copy = Bytes::copy_from_slice(item);
    Arc::new(Caught::new(0, passing.unix_nanos, passing.pipeline, copy, (removed_by, passing.mark)))
}

fn cost(item: &Arc<Caught>) -> usize {
    ITEM_BYTES + item.pipeline.name.len() + item.request.len()
}

fn fit_passed(passed: &mut VecDeque<Arc<Caught>>, room: usize) {
    let mut bytes: usize = passed.iter().map(cost).sum();
    while passed.len() > PASSED || bytes > room {
        bytes -= passed.pop_front().map_or(bytes, |oldest| cost(&oldest));
    }
}

/// Whoever has most makes room first.
fn fit_removed(removed: &mut BTreeMap<Condition, Removals>, room: usize) {
    let size = |of: &Removals| of.items.iter().map(cost).sum::<usize>();
    for removals in removed.values_mut().filter(|of| of.items.len() > REMOVED) {
        removals.items.pop_front();
    }
    while removed.values().map(size).sum::<usize>() > room {
        let Some(largest) = removed.values_mut().max_by_key(|of| size(of)) else { return };
        largest.items.pop_front();
    }
}

fn lock<T>(what: &Mutex<T>) -> MutexGuard<'_, T> {
    what.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use weir_plan::{PipelineId, Signal};

    use super::super::mark::Mark;
    use super::*;

    const ROOM: usize = 64 << 10;

    fn item(number: u64, bytes: usize) -> Arc<Caught> {
        let pipeline = PipelineId { signal: Signal::Logs, name: "all".to_owned() };
        let request = Bytes::from(vec![0; bytes]);
        Arc::new(Caught::new(number, 0, &pipeline, request, (None, &Mark::default())))
    }

    #[test]
    fn the_newest_that_fit_are_kept() {
        let mut passed = VecDeque::new();
        for number in 1..=5000 {
            passed.push_back(item(number, 1));
            fit_passed(&mut passed, usize::MAX);
        }
        assert_eq!((passed.len(), passed[0].number), (PASSED, 4001));
        fit_passed(&mut passed, ROOM);
        let bytes: usize = passed.iter().map(cost).sum();
        assert!(bytes <= ROOM && bytes > ROOM - cost(&passed[0]) && passed.back().unwrap().number == 5000, "{bytes}");
        passed.push_back(item(5001, ROOM));
        fit_passed(&mut passed, ROOM);
        assert!(passed.is_empty(), "one that is larger than all room");
    }

    #[test]
    fn a_rule_that_removes_large_items_takes_no_room_of_others() {
        let mut removed = BTreeMap::new();
        let condition = |line| Condition { filter: 0, line };
        let mut keep = |line, number, bytes| {
            removed.entry(condition(line)).or_insert_with(Removals::default).items.push_back(item(number, bytes));
            fit_removed(&mut removed, ROOM);
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
        let is_due = |second| recent.due((None, &[]), second).passed;
        assert_eq!([7, 7, 8, 7, 8, 9].map(is_due), [true, false, true, false, false, true]);
    }
}
