//! What one pipeline does to the requests it takes: transforms, filters, temporality, in this order. Container logs may
//! have filters of Fluent Bit instead (`sections`).
//!
//! Rules are compiled once for a plan. What they did is counted for each statement and condition; the first cause of
//! errors is logged now and then, since `error_mode` is always `ignore`. Whose data it is, and what becomes of it
//! afterwards, is not known here.

mod place;
mod sections;

use std::borrow::Cow;
use std::io;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use tokio::time::Instant;
use weir_fluent_bit::Filters;
use weir_legible::{Seldom, line};
use weir_otlp::NoRoom;
use weir_ottl::{Filter, Limits, Options, Tally, Transform};
use weir_plan::{Pipeline, PipelineId, Processing, Signal, Temporality};
use weir_temporality::{Converter, Reliance, Undo};

use crate::budget::{self, Budget, Permit, Purse, Shortage};
pub(crate) use place::ConditionPlace;
pub use place::RulePlace;

/// Statements may make a request twice as large. Small requests may become this much larger, if that is more.
const LEAST_GROWTH: usize = 64 << 10;

/// Conditions and statements may take as much memory for their calculations as the request has bytes, or this much if
/// that is more: enough for a log record of some hundred KiB as JSON.
const LEAST_SCRATCH: usize = 4 << 20;

/// With a small budget it is less: one part in so many of the budget.
const LEAST_SCRATCH_OF_BUDGET: usize = 64;

/// How much of the cause of an error is kept and logged.
const MAX_CAUSE_CHARS: usize = 200;

/// The rules of one pipeline.
#[derive(Debug)]
pub(crate) struct Rules {
    /// Whose they are, for the log.
    pipeline: PipelineId,
    signal: Signal,
    pub(crate) transforms: Vec<Counted<Transform>>,
    pub(crate) filters: Vec<Counted<Filter>>,
    /// Filters of Fluent Bit, each of which counts as a condition.
    pub(crate) sections: Option<Counted<Filters>>,
    pub(crate) delta: Option<Delta>,
    reported: Mutex<Seldom>,
}

/// A group of rules, and what became of each of them.
#[derive(Debug)]
pub(crate) struct Counted<R> {
    rule: R,
    pub(crate) conditions: Vec<RuleStats>,
    pub(crate) statements: Vec<RuleStats>,
}

/// How often a statement or condition applied, or failed.
#[derive(Debug, Default)]
pub(crate) struct RuleStats {
    pub(crate) matched: AtomicU64,
    pub(crate) errors: AtomicU64,
    /// Items of accepted requests that the condition of a filter removed.
    pub(crate) filtered: Arc<AtomicU64>,
    /// Why it failed the first time.
    pub(crate) cause: Mutex<Option<String>>,
}

/// The converter of a pipeline whose backend wants deltas.
#[derive(Debug)]
pub(crate) struct Delta {
    converter: Arc<Mutex<Converter>>,
    counts: Arc<Mutex<weir_temporality::Counts>>,
    /// As they were counted last.
    series: Arc<AtomicUsize>,
}

/// What a converter begins with.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Memory<'a> {
    /// The one it takes the place of.
    pub(crate) before: Option<&'a Delta>,
    /// What it may remember.
    pub(crate) bytes: usize,
}

/// A conversion. It is undone unless somebody [keeps](Conversion::keep) it. If it is undone, the client will send the
/// request again.
#[derive(Debug)]
pub(crate) struct Conversion {
    converter: Arc<Mutex<Converter>>,
    undo: Option<Undo>,
    reliance: Option<Reliance>,
    /// Pays for it.
    permit: Permit,
    converted: weir_temporality::Counts,
    counts: Arc<Mutex<weir_temporality::Counts>>,
}

/// A request after the rules.
#[derive(Debug)]
pub(crate) struct Processed {
    /// Empty when nothing is left of it.
    pub(crate) body: Bytes,
    pub(crate) items: u64,
    pub(crate) removed: Vec<Removed>,
    /// To be kept once the request is accepted.
    pub(crate) conversion: Option<Conversion>,
}

/// Items that were removed from a request on the user's request.
#[derive(Debug, Clone)]
pub(crate) struct Removed {
    pub(crate) reason: &'static str,
    pub(crate) items: u64,
    /// Counts for the condition that removed them, if it was one.
    counter: Option<Arc<AtomicU64>>,
    /// Where that stands, if it is one of a filter.
    pub(crate) place: Option<ConditionPlace>,
}

impl Rules {
    /// Compiles the rules of a pipeline; `None` when there are none. A converter goes on from another one of this process,
    /// or from what an earlier process left (`restore`).
    ///
    /// # Errors
    /// What is wrong with a rule. Configuration is checked before it gets here.
    pub(crate) fn compile(
        pipeline: &Pipeline,
        memory: Memory<'_>,
        restore: &dyn Fn() -> Option<Bytes>,
        unix_nanos: u64,
    ) -> Result<Option<Self>, String> {
        let (signal, processing) = (pipeline.id.signal, &pipeline.processing);
        if *processing == Processing::default() {
            return Ok(None);
        }
        let sections = sections::compile(pipeline)?;
        let pipeline = pipeline.id.clone();
        let transform = |rule: &weir_plan::Transform| {
            let options = Options::transform(signal);
            let transform = Transform::compile(signal, &options, &rule.conditions, &rule.statements);
            transform.map(|transform| Counted::new(transform, rule.conditions.len(), rule.statements.len()))
        };
        let filter = |rule: &weir_plan::Filter| {
            let filter = Filter::compile(signal, &Options::filter(signal), &rule.conditions);
            filter.map(|filter| Counted::new(filter, rule.conditions.len(), 0))
        };
        let fail =
            |errors: Vec<weir_ottl::Error>| errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
        let transforms = processing.transforms.iter().map(transform).collect::<Result<_, _>>().map_err(fail)?;
        let filters = processing.filters.iter().map(filter).collect::<Result<_, _>>().map_err(fail)?;
        let delta =
            (processing.temporality == Temporality::Delta).then(|| Delta::new(&pipeline, memory, restore, unix_nanos));
        let reported = Mutex::default();
        Ok(Some(Self { pipeline, signal, transforms, filters, sections, delta, reported }))
    }

    /// Says nothing of errors for a while.
    pub(crate) fn hush(&self) {
        let _ = self.reported.lock().unwrap_or_else(PoisonError::into_inner).due(Instant::now());
    }

    /// Applies the rules to a valid request of `items` items. What is made is paid for from `purse`, which knows of the
    /// request itself.
    pub(crate) fn apply(
        &self,
        body: Bytes,
        items: u64,
        purse: Purse<'_>,
        unix_nanos: u64,
    ) -> Result<Processed, Shortage> {
        self.process(body, items, (purse, unix_nanos), Extent::Whole)
    }

    /// The same, but nothing is counted, logged or remembered, and nothing becomes a delta: for whoever only wants to know
    /// what the rules do.
    pub(crate) fn attempt(
        &self,
        body: Bytes,
        items: u64,
        purse: Purse<'_>,
        unix_nanos: u64,
    ) -> Result<Processed, Shortage> {
        self.process(body, items, (purse, unix_nanos), Extent::Attempt(None))
    }

    /// The same without the rules behind this one.
    pub(crate) fn attempt_until(
        &self,
        last: RulePlace,
        body: Bytes,
        items: u64,
        purse: Purse<'_>,
        unix_nanos: u64,
    ) -> Result<Processed, Shortage> {
        self.process(body, items, (purse, unix_nanos), Extent::Attempt(Some(last)))
    }

    fn process(
        &self,
        body: Bytes,
        items: u64,
        (purse, unix_nanos): (Purse<'_>, u64),
        extent: Extent,
    ) -> Result<Processed, Shortage> {
        let (counts, last) = match extent {
            Extent::Whole => (true, None),
            Extent::Attempt(last) => (false, last),
        };
        let [transforms, filters] = last.map_or([usize::MAX; 2], RulePlace::counts);
        let growth = if self.transforms.is_empty() { 0 } else { body.len().max(LEAST_GROWTH) };
        let most = body.len() + growth;
        let max_scratch = self.scratch(body.len(), purse);
        let permit = purse.take(max_scratch)?;
        let limits = Limits { now_unix_nano: unix_nanos, max_growth: growth, max_scratch };
        let mut work = Work { body, made: None, items, removed: Vec::new(), permit, purse, counts };
        self.transform(&mut work, transforms, most, limits)?;
        self.filter(&mut work, filters, &Limits { max_growth: 0, ..limits })?;
        if last.is_none() {
            self.run_sections(&mut work, max_scratch)?;
        }
        let conversion = match self.delta.as_ref().filter(|_| counts) {
            Some(delta) => delta.convert(&mut work, unix_nanos)?,
            None => None,
        };
        let Work { body, made, items, removed, permit, purse: _, counts: _ } = work;
        Ok(Processed { body: paid(body, made, permit), items, removed, conversion })
    }

    /// Memory for what conditions and statements calculate, given back when they are done.
    fn scratch(&self, request: usize, purse: Purse<'_>) -> usize {
        if self.transforms.is_empty() && self.filters.is_empty() && self.sections.is_none() {
            return 0;
        }
        request.max(LEAST_SCRATCH.min(purse.capacity() / LEAST_SCRATCH_OF_BUDGET))
    }

    /// The first `count` transforms. All together may make a request `most` bytes long.
    fn transform(&self, work: &mut Work<'_>, count: usize, most: usize, limits: Limits) -> Result<(), Shortage> {
        for (number, group) in self.transforms.iter().enumerate().take(count) {
            let max_growth = most.saturating_sub(work.bytes().len());
            let limits = Limits { max_growth, ..limits };
            let done = work.paying(|request, pay| group.rule.apply_within(request, &limits, pay))?;
            if work.counts {
                let field = |part: &str, line: usize| format!("transform[{number}].{part}[{line}]");
                self.count(|line| field("conditions", line), &group.conditions, &done.conditions);
                self.count(|line| field("statements", line), &group.statements, &done.statements);
            }
            if let Some(request) = done.request.as_ref().filter(|_| self.signal == Signal::Metrics) {
                // Statements split and join data points.
                work.items = u64::from(weir_otlp::count(self.signal, request));
            }
            work.becomes(done.request, limits.max_scratch);
        }
        Ok(())
    }

    /// The first `count` filters.
    fn filter(&self, work: &mut Work<'_>, count: usize, limits: &Limits) -> Result<(), Shortage> {
        for (number, group) in self.filters.iter().enumerate().take(count) {
            let done = work.paying(|request, pay| group.rule.apply_within(request, limits, pay))?;
            if work.counts {
                let field = |condition| ConditionPlace { filter: number, condition }.field();
                self.count(field, &group.conditions, &done.conditions);
            }
            let dropped = group.conditions.iter().zip(done.dropped).enumerate();
            for (condition, (stats, items)) in dropped.filter(|(_, (_, items))| *items > 0) {
                let counter = Some(Arc::clone(&stats.filtered));
                let place = Some(ConditionPlace { filter: number, condition });
                work.remove(Removed { reason: "filter", items, counter, place });
            }
            work.becomes(done.request, limits.max_scratch);
        }
        Ok(())
    }

    /// `field`: how the configuration calls the condition or statement with a number.
    fn count(&self, field: impl Fn(usize) -> String, stats: &[RuleStats], tallies: &[Tally]) {
        for (index, (stats, tally)) in stats.iter().zip(tallies).enumerate() {
            stats.matched.fetch_add(tally.matched, Ordering::Relaxed);
            stats.errors.fetch_add(tally.errors, Ordering::Relaxed);
            let Some(cause) = &tally.first_error else { continue };
            let cause = line(cause, MAX_CAUSE_CHARS);
            stats.cause.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_with(|| cause.clone());
            let due = self.reported.lock().unwrap_or_else(PoisonError::into_inner).due(Instant::now());
            if let Some(left_out) = due {
                let (pipeline, errors) = (&self.pipeline, tally.errors);
                tracing::warn!(
                    %pipeline,
                    rule = field(index),
                    errors,
                    cause,
                    left_out,
                    advice = "correct the rule; `weir why` names it, and `weir try` shows what it does",
                    "a rule fails for some items, which stay as they are"
                );
            }
        }
    }
}

impl<R> Counted<R> {
    fn new(rule: R, conditions: usize, statements: usize) -> Self {
        let stats = |count| std::iter::repeat_with(RuleStats::default).take(count).collect();
        Self { rule, conditions: stats(conditions), statements: stats(statements) }
    }
}

/// What is done with a request.
#[derive(Clone, Copy)]
enum Extent {
    /// All rules apply, and what they do is counted.
    Whole,
    /// They are tried, up to this one if there is one.
    Attempt(Option<RulePlace>),
}

/// A request under way through the rules.
struct Work<'a> {
    /// As it came.
    body: Bytes,
    /// As it is now, if it has changed.
    made: Option<Vec<u8>>,
    items: u64,
    removed: Vec<Removed>,
    /// Pays for what was made, and what is calculated.
    permit: Permit,
    /// Where that comes from.
    purse: Purse<'a>,
    /// Whether what rules do is counted.
    counts: bool,
}

impl Work<'_> {
    fn bytes(&self) -> &[u8] {
        self.made.as_deref().unwrap_or(&self.body)
    }

    /// Does a step on the request that pays for what it makes.
    fn paying<T>(
        &mut self,
        step: impl FnOnce(&[u8], &mut dyn FnMut(usize) -> bool) -> Result<T, NoRoom>,
    ) -> Result<T, Shortage> {
        let (request, permit) = (self.made.as_deref().unwrap_or(&self.body), &mut self.permit);
        let mut shortage = Shortage::Passing;
        let mut pay = |more| self.purse.extend(permit, more).map_err(|found| shortage = found).is_ok();
        step(request, &mut pay).map_err(|NoRoom| shortage)
    }

    /// What a step made takes the place of what was there before. The step needs no more memory.
    fn becomes(&mut self, made: Option<Vec<u8>>, scratch: usize) {
        self.made = made.or(self.made.take());
        self.permit.shrink_to(scratch + self.made.as_ref().map_or(0, Vec::capacity));
    }

    fn remove(&mut self, removed: Removed) {
        self.items = self.items.saturating_sub(removed.items);
        if removed.items > 0 {
            self.removed.push(removed);
        }
    }
}

/// Why items of a service mesh are removed before all rules.
pub(crate) const ISTIO_NOISE: &str = "istio_noise";

impl Removed {
    pub(crate) fn new(reason: &'static str, items: u64) -> Self {
        Self { reason, items, counter: None, place: None }
    }

    /// The request is accepted.
    pub(crate) fn count(&self) {
        if let Some(counter) = &self.counter {
            counter.fetch_add(self.items, Ordering::Relaxed);
        }
    }
}

/// What was made carries the permit. If nothing was made, it costs nothing.
fn paid(body: Bytes, made: Option<Vec<u8>>, permit: Permit) -> Bytes {
    match made {
        None => body,
        Some(made) => budget::charge(made, permit),
    }
}

impl Delta {
    fn new(pipeline: &PipelineId, memory: Memory<'_>, restore: &dyn Fn() -> Option<Bytes>, unix_nanos: u64) -> Self {
        if let Some(Self { converter, counts, series }) = memory.before {
            let series = Arc::clone(series);
            return Self { converter: Arc::clone(converter), counts: Arc::clone(counts), series };
        }
        let limits = weir_temporality::Limits { max_bytes: memory.bytes, ..weir_temporality::Limits::default() };
        let restored = restore().and_then(|snapshot| {
            let restored = Converter::restore(&snapshot, limits, unix_nanos);
            restored
                .inspect_err(|error| {
                    tracing::warn!(
                        %pipeline,
                        %error,
                        advice = "nothing has to be done: each series begins with its next value",
                        "cannot use what was remembered of metric series; counting begins anew"
                    );
                })
                .ok()
        });
        let converter = restored.unwrap_or_else(|| Converter::new(limits, unix_nanos));
        Self { converter: Arc::new(Mutex::new(converter)), counts: Arc::default(), series: Arc::default() }
    }

    /// Whether both remember the same.
    pub(crate) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.converter, &other.converter)
    }

    /// There are more converters now, or fewer. This one may remember so much.
    pub(crate) fn resize(&self, bytes: usize) {
        let forgotten = self.converter.lock().unwrap_or_else(PoisonError::into_inner).set_max_bytes(bytes);
        let counts = weir_temporality::Counts { forgotten, ..weir_temporality::Counts::default() };
        self.counts.lock().unwrap_or_else(PoisonError::into_inner).add(&counts);
    }

    /// Forgets all series. Nothing was converted as yet.
    pub(crate) fn begin_anew(&self, unix_nanos: u64) {
        self.converter.lock().unwrap_or_else(PoisonError::into_inner).begin_anew(unix_nanos);
    }

    /// Whoever holds it keeps everybody else from converting.
    #[cfg(test)]
    pub(crate) fn converter(&self) -> std::sync::MutexGuard<'_, Converter> {
        self.converter.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes all that is remembered, for the next process. Fails while nobody knows whether all of it was accepted.
    pub(crate) fn write_snapshot(&self, out: &mut dyn io::Write, budget: &Budget) -> io::Result<()> {
        let converter = self.converter.lock().unwrap_or_else(PoisonError::into_inner);
        if !converter.is_decided() {
            // Points of a request that was not accepted must not be taken for duplicates by the next process.
            return Err(io::Error::other("the disk has not said what became of the last requests"));
        }
        let mut permit = None;
        let mut pay = |bytes| {
            permit = budget.try_take(bytes);
            permit.is_some()
        };
        converter.write_snapshot(out, &mut pay)
    }

    /// What became of the points of accepted requests.
    pub(crate) fn counts(&self) -> weir_temporality::Counts {
        *self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many series are remembered, as far as can be told without waiting for a conversion.
    pub(crate) fn series(&self) -> usize {
        if let Ok(converter) = self.converter.try_lock() {
            self.series.store(converter.series(), Ordering::Relaxed);
        }
        self.series.load(Ordering::Relaxed)
    }

    fn convert(&self, work: &mut Work<'_>, unix_nanos: u64) -> Result<Option<Conversion>, Shortage> {
        let purse = work.purse.holding(work.permit.bytes());
        let mut permit = purse.take(0)?;
        let mut shortage = Shortage::Passing;
        let mut pay = |more| purse.extend(&mut permit, more).map_err(|found| shortage = found).is_ok();
        let mut converter = self.converter.lock().unwrap_or_else(PoisonError::into_inner);
        let converted = converter.convert_within(work.bytes(), unix_nanos, &mut pay).map_err(|NoRoom| shortage)?;
        drop(converter);
        let (counts, undo, reliance) = (converted.counts, converted.undo, converted.reliance);
        if let Cow::Owned(request) = converted.request {
            // This part of what the conversion took is for the request. The rest is for the undo, or was needed only
            // meanwhile.
            if let Some(paid) = permit.split_off(request.capacity().min(permit.bytes())) {
                work.permit = paid;
            }
            work.made = Some(request);
        }
        permit.shrink_to(undo.bytes());
        work.remove(Removed::new("temporality", counts.dropped.total()));
        let (converter, total) = (Arc::clone(&self.converter), Arc::clone(&self.counts));
        Ok(Some(Conversion { converter, undo: Some(undo), reliance, permit, converted: counts, counts: total }))
    }
}

impl Conversion {
    /// Bytes that it takes.
    pub(crate) fn bytes(&self) -> usize {
        self.permit.bytes()
    }

    /// What became of the points.
    pub(crate) fn converted(&self) -> &weir_temporality::Counts {
        &self.converted
    }

    /// The result of the request is accepted. Returns what else has to be accepted before its client is told so.
    pub(crate) fn keep(mut self) -> Option<Reliance> {
        self.undo = None;
        self.counts.lock().unwrap_or_else(PoisonError::into_inner).add(&self.converted);
        self.reliance.take()
    }
}

impl Drop for Conversion {
    fn drop(&mut self) {
        let Some(undo) = self.undo.take() else { return };
        let undone = self.converter.lock().unwrap_or_else(PoisonError::into_inner).undo(undo);
        // The points were not ours, but series were forgotten all the same, and deltas that were owed may be lost.
        let mut forgotten = self.converted.forgotten;
        forgotten.add(&undone.forgotten);
        forgotten.owed += undone.lost;
        let counts = weir_temporality::Counts { forgotten, ..weir_temporality::Counts::default() };
        self.counts.lock().unwrap_or_else(PoisonError::into_inner).add(&counts);
    }
}
