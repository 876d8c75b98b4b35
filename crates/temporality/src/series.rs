//! The last point of every series, what is owed to some of them, and when a series is forgotten.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::mem;

use hashlink::LinkedHashMap;
use hashlink::linked_hash_map::Entry;

use crate::Limits;
use crate::counts::{Counts, Dropped, Forgotten};
use crate::identity::{BuildIdHasher, SeriesId};
use crate::reliance::Conversions;
use crate::undo::{Advance, Step, Undone};
use crate::value::Value;

/// What a series takes: its id, its last point, the two links of the list, and its share of the table, which is least
/// full, and exists twice, when it has just grown. It also has its part of the [`Spare`] places.
pub(crate) const SERIES_BYTES: usize = PLACE_BYTES + PLACE_BYTES / OF_USED_SPARE;

const PLACE_BYTES: usize =
    size_of::<SeriesId>() + size_of::<Series>() + 2 * size_of::<usize>() + 4 * size_of::<usize>();

/// What is owed to a series takes at most as much as another series.
pub(crate) const OWED_BYTES: usize = SERIES_BYTES;

/// One spare place is kept for so many places in use; more are given back.
const OF_USED_SPARE: usize = 8;

/// Places of removed series, which the list and the tables keep for new ones.
#[derive(Debug, Default)]
struct Spare(usize);

impl Spare {
    /// Something new has a place.
    fn take(&mut self) {
        self.0 = self.0.saturating_sub(1);
    }

    /// Something was removed.
    fn put(&mut self) {
        self.0 += 1;
    }

    /// Whether there are too many, which are to be given back now.
    fn overflows(&mut self, used: usize) -> bool {
        let too_many = self.0 > used / OF_USED_SPARE;
        if too_many {
            self.0 = 0;
        }
        too_many
    }
}

/// The last point of a series.
#[derive(Debug)]
pub(crate) struct Series {
    /// Its time, nanoseconds since the Unix epoch.
    pub(crate) time: u64,
    /// Its value.
    pub(crate) value: Value,
    /// When it came, by the caller's clock.
    pub(crate) seen: u64,
    /// In which conversion; 0 when it was in an earlier process.
    pub(crate) conversion: u64,
}

/// What a conversion leaves behind, apart from its request.
#[derive(Debug, Default)]
pub(crate) struct Traces {
    pub(crate) steps: Vec<Step>,
    /// It left out points because of conversions up to this one, and some of these may still be undone. 0: because of
    /// none.
    pub(crate) relies_until: u64,
}

/// A cumulative point of a series.
#[derive(Debug)]
pub(crate) struct Observation {
    /// When counting began; 0 when unknown.
    pub(crate) start: u64,
    /// When it was measured.
    pub(crate) time: u64,
    /// What was counted.
    pub(crate) value: Value,
}

/// All series, the least recently seen one first.
#[derive(Debug)]
pub(crate) struct SeriesTable {
    pub(crate) limits: Limits,
    pub(crate) series: LinkedHashMap<SeriesId, Series, BuildIdHasher>,
    /// Deltas that were not delivered, of series that are in `series`.
    pub(crate) owed: HashMap<SeriesId, Value, BuildIdHasher>,
    spare_series: Spare,
    spare_owed: Spare,
    bytes: usize,
    /// The start of the converter, or the last sight of any series that was forgotten, whichever is later. An unknown
    /// series that started then or later was never seen before (DELTA-2).
    pub(crate) known_from: u64,
    /// The latest time the caller told.
    pub(crate) now: u64,
    /// Number of the last conversion.
    pub(crate) conversion: u64,
    pub(crate) conversions: Conversions,
    /// What was forgotten for requests that found no room. It is counted with the next one.
    pub(crate) uncounted: Forgotten,
}

impl SeriesTable {
    pub(crate) fn new(limits: Limits, now: u64) -> Self {
        Self {
            limits,
            series: LinkedHashMap::with_hasher(BuildIdHasher::default()),
            owed: HashMap::with_hasher(BuildIdHasher::default()),
            spare_series: Spare::default(),
            spare_owed: Spare::default(),
            bytes: 0,
            known_from: now,
            now,
            conversion: 0,
            conversions: Conversions::default(),
            uncounted: Forgotten::default(),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.series.len()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// If the clock is set back, time stands still here, so that the order of sight stays an order of time.
    pub(crate) fn set_now(&mut self, now: u64) {
        self.now = self.now.max(now);
    }

    /// Makes `point` the last one of its series. Returns the start time and the value of the delta that it is, or
    /// `None` when it is none and was counted as dropped (DELTA-5).
    pub(crate) fn advance(
        &mut self,
        id: SeriesId,
        point: Observation,
        counts: &mut Counts,
        traces: &mut Traces,
    ) -> Option<(u64, Value)> {
        let (now, conversion, time, heap) = (self.now, self.conversion, point.time, point.value.heap_bytes());
        // A series that is known to be new counted nothing at its start: its first point is a delta like any other.
        let is_new = point.start >= self.known_from && point.start != 0 && point.start < time;
        let series = match self.series.entry(id) {
            Entry::Occupied(mut entry) => {
                let order = time.cmp(&entry.get().time);
                // An earlier point is not a sight of the series: one whose clock was set back begins anew when it has
                // become stale.
                if order.is_ge() {
                    entry.to_back();
                    entry.get_mut().seen = now;
                }
                if order.is_le() {
                    let relies = leave_out(order, entry.get(), &self.conversions, &mut counts.dropped);
                    traces.relies_until = traces.relies_until.max(relies);
                    return None;
                }
                entry.into_mut()
            }
            Entry::Vacant(entry) => {
                self.bytes += SERIES_BYTES;
                self.spare_series.take();
                if !is_new {
                    self.bytes += heap;
                    counts.dropped.first += 1;
                    traces.steps.push(Step::Advanced(Advance { id, time, previous: None, delta: Value::Zero }));
                    entry.insert(Series { time, value: point.value, seen: now, conversion });
                    return None;
                }
                entry.insert(Series { time: point.start, value: Value::Zero, seen: now, conversion: 0 })
            }
        };
        let change = point.value.since(&series.value);
        let previous = mem::replace(series, Series { time, value: point.value, seen: now, conversion });
        let start = previous.time;
        self.bytes = self.bytes + heap - previous.value.heap_bytes();
        let delta = counts.changed(change);
        let own = delta.clone().unwrap_or(Value::Zero);
        traces.steps.push(Step::Advanced(Advance { id, time, previous: Some(previous), delta: own }));
        let mut delta = delta?;
        self.settle(id, &mut delta, &mut counts.forgotten, &mut traces.steps);
        Some((start, delta))
    }

    /// Adds to a delta what its series is owed.
    fn settle(&mut self, id: SeriesId, delta: &mut Value, forgotten: &mut Forgotten, steps: &mut Vec<Step>) {
        // Nearly always there is nothing owed to anybody.
        if self.owed.is_empty() {
            return;
        }
        let Some(owed) = self.take_owed(id) else { return };
        if delta.add(&owed) {
            steps.push(Step::Settled { id, owed });
        } else {
            forgotten.owed += 1;
        }
    }

    fn take_owed(&mut self, id: SeriesId) -> Option<Value> {
        let owed = self.owed.remove(&id)?;
        self.bytes -= OWED_BYTES + owed.heap_bytes();
        self.spare_owed.put();
        Some(owed)
    }

    /// Remembers that a delta was not delivered; false when it cannot be delivered later either.
    fn owe(&mut self, id: SeriesId, delta: Value) -> bool {
        if !self.series.contains_key(&id) {
            return false;
        }
        let Some(owed) = self.owed.get_mut(&id) else {
            self.bytes += OWED_BYTES + delta.heap_bytes();
            self.spare_owed.take();
            self.owed.insert(id, delta);
            return true;
        };
        let before = owed.heap_bytes();
        let added = owed.add(&delta);
        self.bytes = self.bytes + owed.heap_bytes() - before;
        added
    }

    /// Forgets what was not seen for long, and the least recently seen while there is too much (DELTA-3).
    pub(crate) fn forget(&mut self, forgotten: &mut Forgotten) {
        let staleness = u64::try_from(self.limits.max_staleness.as_nanos()).unwrap_or(u64::MAX);
        let stale_before = self.now.saturating_sub(staleness);
        while let Some((_, oldest)) = self.series.front() {
            let count = if oldest.seen < stale_before {
                &mut forgotten.stale
            } else if self.bytes > self.limits.max_bytes {
                &mut forgotten.memory
            } else {
                break;
            };
            *count += 1;
            let Some((id, series)) = self.series.pop_front() else { break };
            self.bytes -= SERIES_BYTES + series.value.heap_bytes();
            self.spare_series.put();
            self.known_from = self.known_from.max(series.seen.saturating_add(1));
            forgotten.owed += u64::from(self.take_owed(id).is_some());
        }
        self.give_back();
    }

    /// Gives back the places that are too many.
    fn give_back(&mut self) {
        if self.spare_series.overflows(self.series.len()) {
            self.series.shrink_to_fit();
        }
        if self.spare_owed.overflows(self.owed.len()) {
            self.owed.shrink_to_fit();
        }
    }

    /// Puts back a series as it was, as the one most recently seen.
    pub(crate) fn put_back(&mut self, id: SeriesId, series: Series, owed: Option<Value>) {
        self.bytes += SERIES_BYTES + series.value.heap_bytes();
        match self.series.insert(id, series) {
            Some(before) => self.bytes -= SERIES_BYTES + before.value.heap_bytes(),
            None => self.spare_series.take(),
        }
        if let Some(owed) = owed {
            self.owe(id, owed);
        }
    }

    pub(crate) fn undo(&mut self, steps: Vec<Step>) -> Undone {
        let mut undone = Undone::default();
        for step in steps.into_iter().rev() {
            match step {
                Step::Advanced(advance) => self.take_back(advance, &mut undone),
                Step::Settled { id, owed } => self.owe_again(id, owed, &mut undone),
            }
            self.forget(&mut undone.forgotten);
        }
        undone
    }

    fn take_back(&mut self, advance: Advance, undone: &mut Undone) {
        let Advance { id, time, previous, delta } = advance;
        let Some(series) = self.series.get_mut(&id).filter(|series| series.time == time) else {
            self.owe_again(id, delta, undone);
            return;
        };
        undone.restored += 1;
        let Some(previous) = previous else {
            self.bytes -= SERIES_BYTES + series.value.heap_bytes();
            undone.lost += u64::from(self.take_owed(id).is_some());
            self.series.remove(&id);
            self.spare_series.put();
            return;
        };
        self.bytes = self.bytes + previous.value.heap_bytes() - series.value.heap_bytes();
        // When it was last seen remains: series stand in that order.
        *series = Series { seen: series.seen, ..previous };
    }

    fn owe_again(&mut self, id: SeriesId, delta: Value, undone: &mut Undone) {
        if delta == Value::Zero {
            return;
        }
        let count = if self.owe(id, delta) { &mut undone.owed } else { &mut undone.lost };
        *count += 1;
    }
}

/// Counts a point as dropped that is no later than the last one of its series (DELTA-5). Returns the conversion up to which
/// one may still be undone that included the point; 0 if there is none.
fn leave_out(order: Ordering, last: &Series, conversions: &Conversions, dropped: &mut Dropped) -> u64 {
    let may_be_undone = if order.is_eq() {
        dropped.duplicate += 1;
        conversions.is_open(last.conversion)
    } else {
        dropped.out_of_order += 1;
        // Nobody knows which one included it.
        conversions.any_open(last.conversion)
    };
    if may_be_undone { last.conversion } else { 0 }
}
