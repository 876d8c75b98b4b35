//! What a statement sees: the messages around one item, the cache, the parameters of lambdas.

use std::borrow::Cow;

use bumpalo::Bump;

use crate::context::{LEVELS, Level, PointKind};
use crate::draft::{Draft, Scalar};
use crate::group::Limits;
use crate::patch::Place;
use crate::value::{Entries, Failure, Value, entry_heap, wire};
use crate::walk::CHILDREN;

pub(crate) mod access;
mod codec;
pub(crate) mod eval;
pub(crate) mod maps;
pub(crate) mod metrics;
pub(crate) mod patterns;
mod trace_state;

/// The failure of a value that takes too much memory. No function ignores it.
pub(crate) const TOO_MUCH_WORK: Failure = Failure::text("what is calculated takes more work than rules may do");
pub(crate) const TOO_LARGE: Failure = Failure::text("what is calculated takes more memory than rules may use");

/// Kept back from what statements may add. The lengths of messages are written as these are left, when it is known what
/// they take: four bytes more at each of at most seven levels.
const LENGTHS: isize = 28;

/// See the module. It lives as long as one request is worked on.
#[derive(Debug)]
pub(crate) struct Scene<'a> {
    /// The message that is walked over: the request, or a metric that was added to it.
    pub(crate) request: &'a [u8],
    /// Where metrics live that statements add.
    arena: &'a Bump,
    drafts: [Draft<'a>; LEVELS],
    /// Which messages have more fields than are looked into, a bit each.
    oversized: u8,
    /// Type of the current data point.
    pub(crate) point: PointKind,
    /// `Metric.data`: number of the member that is present; 0 when there is none.
    pub(crate) data: u32,
    /// Metrics that statements changed as a whole, and added.
    pub(crate) metrics: metrics::Metrics<'a>,
    /// Position of the current event or exemplar among the others of its message.
    pub(crate) leaf_index: i64,
    cache: Entries<'a>,
    /// Memory that the cache takes.
    cache_held: usize,
    /// Parameters of the lambdas that are being evaluated.
    pub(crate) locals: Vec<Value<'a>>,
    patterns: patterns::Patterns,
    /// Nanoseconds since the Unix epoch, the same for the whole request.
    pub(crate) now: i128,
    /// Bytes that statements may still add to the request.
    budget: isize,
    /// Bytes of metrics that may still be read for the sake of single data points.
    looks: usize,
    /// Memory that changes, the cache and the values of one statement may take at once.
    max_scratch: usize,
    /// Memory that changes and the cache take.
    held: usize,
    /// Memory that is left for values of the current statement or condition.
    room: usize,
    /// Bytes that the current statement or condition may still write, including bytes that are gone by then.
    work: usize,
}

/// How many times as much may be looked at for single data points as may be added. The sum or the count of a summary
/// takes more than a sixteenth of it, unless it has very many quantiles.
const LOOKS: usize = 16;

/// How many times as much a statement may write for one item as it may hold at once. A text that grows with every
/// element of a list is written anew each time: without a limit that takes the square of its length.
const WORK: usize = 64;

/// Memory that may still be taken. What is taken is not given back.
#[derive(Debug)]
pub(crate) struct Meter(usize);

impl Meter {
    /// Takes so many bytes, which are about to be there.
    ///
    /// # Errors
    /// When so many are not left.
    pub(crate) fn take(&mut self, bytes: usize) -> Result<(), Failure> {
        self.0 = self.0.checked_sub(bytes).ok_or(TOO_LARGE)?;
        Ok(())
    }
}

impl<'a> Scene<'a> {
    /// A scene without any message. `slots` says how many literal keys the program has at each level.
    pub(crate) fn new(request: &'a [u8], arena: &'a Bump, slots: &[usize; LEVELS], limits: &Limits) -> Self {
        Self {
            request,
            arena,
            drafts: slots.map(Draft::with_slots),
            oversized: 0,
            point: PointKind::Number,
            data: 0,
            metrics: metrics::Metrics::default(),
            leaf_index: 0,
            cache: Entries::new(),
            cache_held: 0,
            locals: Vec::new(),
            patterns: patterns::Patterns::default(),
            now: i128::from(limits.now_unix_nano),
            budget: limits.max_growth.min(isize::MAX.cast_unsigned()).cast_signed() - LENGTHS,
            looks: limits.max_growth.saturating_mul(LOOKS),
            max_scratch: limits.max_scratch,
            held: 0,
            room: limits.max_scratch,
            work: limits.max_scratch.saturating_mul(WORK),
        }
    }

    /// Starts with another message at a level. Nothing of it is read yet.
    pub(crate) fn begin(&mut self, level: Level, place: Option<Place>, map: u32) {
        self.oversized &= !(1 << level.index());
        let children = if matches!(level, Level::ResourceData | Level::ScopeData) { CHILDREN } else { 0 };
        let draft = &mut self.drafts[level.index()];
        self.held -= draft.held() + draft.listed();
        draft.begin(self.request, place, map, children);
    }

    /// Starts with another visit: the cache is empty again.
    pub(crate) fn begin_visit(&mut self) {
        self.cache.clear();
        self.hold_cache(0);
    }

    /// Starts with another statement or condition: the values of the one before are gone.
    pub(crate) fn begin_statement(&mut self) {
        self.room = self.max_scratch.saturating_sub(self.held);
        self.work = self.max_scratch.saturating_mul(WORK);
    }

    /// The message of a level, as it is.
    pub(crate) fn message(&mut self, level: Level) -> &mut Draft<'a> {
        &mut self.drafts[level.index()]
    }

    /// The message of a level, its fields looked at.
    pub(crate) fn draft(&mut self, level: Level) -> &mut Draft<'a> {
        let draft = &mut self.drafts[level.index()];
        if !draft.is_indexed() {
            if !draft.index(self.max_scratch.saturating_sub(self.held)) {
                self.oversized |= 1 << level.index();
            }
            self.held += draft.listed();
        }
        draft
    }

    /// Fails when something that was asked for has too many fields to look into; what was read is not all there is.
    ///
    /// # Errors
    /// See above.
    pub(crate) fn check_size(&self) -> Result<(), Failure> {
        if self.oversized != 0 {
            return Err(Failure::text("the item has too many fields"));
        }
        Ok(())
    }

    /// The entry of a message's map.
    pub(crate) fn entry(&mut self, level: Level, key: &str, slot: Option<usize>) -> Option<Value<'a>> {
        self.draft(level).get(key, slot)
    }

    /// Gives an entry of a message's map a value.
    ///
    /// # Errors
    /// When the value cannot be stored, or the request would grow too much. Nothing is changed then.
    pub(crate) fn put_entry(
        &mut self,
        level: Level,
        key: Cow<'a, str>,
        slot: Option<usize>,
        value: Value<'a>,
    ) -> Result<(), Failure> {
        let length = wire::entry_len(key.len(), value.encoded_len()?);
        let draft = self.draft(level);
        let place = draft.find(&key, slot);
        let grown = draft.growth_at(place, length);
        self.check_growth(grown)?;
        self.check_held(entry_heap(&key, &value))?;
        self.change(level, |draft| draft.put_at(place, key, slot, value, grown))
    }

    /// Gives entries of a message's map, of which no two have the same key, another value.
    ///
    /// # Errors
    /// As [`put_entry`](Self::put_entry).
    pub(crate) fn put_entries(&mut self, level: Level, entries: Entries<'a>) -> Result<(), Failure> {
        let (mut grown, mut heap) = (0, 0);
        for (key, value) in &entries {
            let length = wire::entry_len(key.len(), value.encoded_len()?);
            let draft = self.draft(level);
            let place = draft.find(key, None);
            grown += draft.growth_at(place, length);
            heap += entry_heap(key, value);
        }
        self.check_growth(grown)?;
        self.check_held(heap)?;
        self.change(level, |draft| entries.into_iter().for_each(|(key, value)| draft.put(key, value)))
    }

    /// Gives a message's map other entries; of a key that occurs twice the last value counts.
    ///
    /// # Errors
    /// As [`put_entry`](Self::put_entry).
    pub(crate) fn replace_entries(&mut self, level: Level, entries: Entries<'a>) -> Result<(), Failure> {
        let (mut length, mut heap) = (0, 0);
        for (key, value) in &entries {
            length += wire::entry_len(key.len(), value.encoded_len()?);
            heap += entry_heap(key, value);
        }
        let before = self.draft(level).map_len();
        self.check_growth(length.cast_signed() - before.cast_signed())?;
        self.check_held(heap)?;
        self.change(level, |draft| {
            draft.retain(|_| false);
            entries.into_iter().for_each(|(key, value)| draft.put(key, value));
        })
    }

    /// Gives fields of a message other values, or takes them away.
    ///
    /// # Errors
    /// As [`put_entry`](Self::put_entry).
    pub(crate) fn set_scalars<const N: usize>(
        &mut self,
        level: Level,
        scalars: [(u32, Option<Scalar<'a>>); N],
    ) -> Result<(), Failure> {
        let draft = self.draft(level);
        let grown = scalars.iter().map(|(number, scalar)| draft.growth_of_scalar(*number, scalar.as_ref())).sum();
        let heap = scalars.iter().filter_map(|(_, scalar)| scalar.as_ref()).map(Scalar::heap).sum();
        self.check_growth(grown)?;
        self.check_held(heap)?;
        self.change(level, |draft| scalars.into_iter().for_each(|(number, scalar)| draft.set_scalar(number, scalar)))
    }

    /// Changes a message, and keeps account of what that adds to the request and to memory.
    ///
    /// # Errors
    /// When not all that was looked at is in sight: no change is right then, and none is made.
    pub(crate) fn change(&mut self, level: Level, change: impl FnOnce(&mut Draft<'a>)) -> Result<(), Failure> {
        self.draft(level);
        self.check_size()?;
        let draft = self.message(level);
        let (grown, held) = (draft.grown(), draft.held());
        change(draft);
        let (grown, held_now) = (draft.grown() - grown, draft.held());
        self.budget -= grown;
        self.held = self.held - held + held_now;
        Ok(())
    }

    /// Fails when the request would grow by more than statements may still add.
    ///
    /// # Errors
    /// See above.
    pub(crate) fn check_growth(&self, grown: isize) -> Result<(), Failure> {
        if grown > 0 && grown > self.budget {
            return Err(Failure::text("the request would grow beyond its limit"));
        }
        Ok(())
    }

    /// The length of a message takes so many bytes more than it did.
    pub(crate) fn count_length(&mut self, grown: isize) {
        self.budget -= grown;
    }

    /// Fails when changes and the cache would take too much memory with `bytes` more.
    ///
    /// # Errors
    /// See above.
    pub(crate) fn check_held(&self, bytes: usize) -> Result<(), Failure> {
        if self.held.saturating_add(bytes) > self.max_scratch { Err(TOO_LARGE) } else { Ok(()) }
    }

    /// Fails when so many bytes of memory are more than the current statement may still take. What is made is only taken
    /// from that when it is a [result](Self::claim).
    ///
    /// # Errors
    /// See above.
    pub(crate) fn check_length(&self, bytes: usize) -> Result<(), Failure> {
        if bytes > self.room { Err(TOO_LARGE) } else { Ok(()) }
    }

    /// A value whose elements are about to be taken apart.
    ///
    /// # Errors
    /// When they would take more memory than the current statement may still take.
    pub(crate) fn unfold(&self, value: Value<'a>) -> Result<Value<'a>, Failure> {
        self.check_length(value.unfolding())?;
        Ok(value)
    }

    /// The entries of a map, taken apart.
    ///
    /// # Errors
    /// As [`unfold`](Self::unfold), or when it is no map.
    pub(crate) fn entries(&self, value: Value<'a>) -> Result<Entries<'a>, Failure> {
        Ok(self.unfold(value)?.into_map()?.into_entries())
    }

    /// The elements of a list, taken apart.
    ///
    /// # Errors
    /// As [`unfold`](Self::unfold), or when it is no list.
    pub(crate) fn elements(&self, value: Value<'a>) -> Result<Vec<Value<'a>>, Failure> {
        Ok(self.unfold(value)?.into_list()?.into_values())
    }

    /// Memory that the current statement may still take.
    pub(crate) fn room(&self) -> usize {
        self.room
    }

    /// The same, for what is made piece by piece on the way to a result.
    pub(crate) fn meter(&self) -> Meter {
        Meter(self.room)
    }

    /// A copy of a text.
    ///
    /// # Errors
    /// When it would take more memory than the current statement may still take.
    pub(crate) fn copy(&self, text: &str) -> Result<Value<'a>, Failure> {
        self.check_length(text.len())?;
        Ok(Value::text(text.to_owned()))
    }

    /// Takes the memory of a value from what the current statement may take.
    ///
    /// # Errors
    /// When it has not got that much, or has made too much already.
    pub(crate) fn claim(&mut self, value: Value<'a>) -> Result<Value<'a>, Failure> {
        let bytes = value.heap();
        self.room = self.room.checked_sub(bytes).ok_or(TOO_LARGE)?;
        self.work = self.work.checked_sub(bytes).ok_or(TOO_MUCH_WORK)?;
        Ok(value)
    }

    /// Gives back the memory of a value that is gone before its statement ends.
    pub(crate) fn release(&mut self, bytes: usize) {
        self.room += bytes;
    }

    /// An entry of the cache.
    pub(crate) fn cached(&self, key: &str) -> Option<&Value<'a>> {
        self.cache.iter().find(|(other, _)| other == key).map(|(_, value)| value)
    }

    /// Gives an entry of the cache a value.
    ///
    /// # Errors
    /// When the value is none that could be stored, or takes too much memory.
    pub(crate) fn put_cached(&mut self, key: Cow<'a, str>, value: Value<'a>) -> Result<(), Failure> {
        value.encoded_len()?;
        let others = self.cache.iter().filter(|(other, _)| *other != key);
        let heap = others.map(|(key, value)| entry_heap(key, value)).sum::<usize>() + entry_heap(&key, &value);
        self.check_held(heap.saturating_sub(self.cache_held))?;
        self.check_size()?;
        access::put(&mut self.cache, key, value);
        self.hold_cache(heap);
        Ok(())
    }

    /// Gives the cache other entries.
    ///
    /// # Errors
    /// As [`put_cached`](Self::put_cached).
    pub(crate) fn replace_cache(&mut self, value: Value<'a>) -> Result<(), Failure> {
        value.encoded_len()?;
        let entries = self.entries(value)?;
        let heap = entries.iter().map(|(key, value)| entry_heap(key, value)).sum::<usize>();
        self.check_held(heap.saturating_sub(self.cache_held))?;
        self.check_size()?;
        self.cache = entries;
        self.hold_cache(heap);
        Ok(())
    }

    fn hold_cache(&mut self, bytes: usize) {
        self.held = self.held - self.cache_held + bytes;
        self.cache_held = bytes;
    }
}
