//! What other rules would make of what a tap has caught. Nothing is sent, counted or remembered.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use weir_fluent_bit::filters;
use weir_ottl::max_pattern_bytes;
use weir_plan::{Pipeline, Temporality};

use super::caught::Caught;
use super::{MOST_RULES, TapError, Taps, WORK_BYTES, WORK_OF_MEMORY};
use crate::budget::{Budget, Purse};
use crate::clock::unix_nanos;
use crate::preview::{RuleReport, reports};
use crate::rules::{Memory, Processed, Rules};

/// Items that are shown before and after.
const SHOWN: usize = 20;
/// For all items together; those that come after that are not tried.
const PATIENCE: Duration = Duration::from_secs(2);

/// What the conversion to delta may remember of an item beside its bytes. All of it is a part of the memory for the work at
/// most; series that have no room are forgotten, and begin anew.
const SERIES_BYTES: usize = 256;
const SERIES_OF_WORK: usize = 4;

/// What becomes of items.
#[derive(Debug, Default)]
pub struct Rehearsal {
    /// Items that are left.
    pub kept: u64,
    /// How many of these are not the same afterwards.
    pub kept_changed: u64,
    /// Items that rules remove.
    pub removed: u64,
    /// Bytes of all items that were tried, each as an OTLP request of its own, with its resource and scope.
    pub bytes_before: u64,
    /// The same of what is left of them.
    pub bytes_after: u64,
    /// What each rule did.
    pub rules: Vec<RuleReport>,
    /// Of a pipeline that converts to delta.
    pub delta: Option<Deltas>,
    /// The first items that are not the same afterwards, and what they are then; `None` if they are removed.
    pub changed: Vec<(Arc<Caught>, Option<Bytes>)>,
}

/// What the conversion to delta makes of items. It knows nothing of what came before them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Deltas {
    /// Data points that become deltas.
    pub converted: u64,
    /// Items of which nothing is left because they are the first of their series here. They are neither kept nor removed, and
    /// their bytes do not count: what passes in fact follows something.
    pub first: u64,
}

impl Rehearsal {
    /// Applies rules to items one by one, as many as there is time for.
    fn run(&mut self, rules: &Rules, items: &[Arc<Caught>], budget: &Budget) -> Result<(), TapError> {
        let began = Instant::now();
        for item in items.iter().take_while(|_| began.elapsed() < PATIENCE) {
            let processed = rules
                .apply(item.request.clone(), 1, Purse::new(budget, 0), unix_nanos())
                .map_err(|_| TapError::NoMemory)?;
            self.take(item, processed);
        }
        Ok(())
    }

    fn take(&mut self, item: &Arc<Caught>, processed: Processed) {
        processed.removed.iter().for_each(|removed| removed.count());
        let is_left = processed.items > 0;
        if let (Some(conversion), Some(deltas)) = (processed.conversion, &mut self.delta) {
            let counts = *conversion.converted();
            // What comes next goes on from here.
            drop(conversion.keep());
            deltas.converted += counts.converted;
            if !is_left && counts.dropped.first > 0 {
                deltas.first += 1;
                return;
            }
        }
        let after = is_left.then_some(processed.body);
        self.count(&item.request, after.as_ref());
        if after.as_ref() == Some(&item.request) {
            return;
        }
        self.kept_changed += u64::from(is_left);
        if self.changed.len() < SHOWN {
            self.changed.push((Arc::clone(item), after));
        }
    }

    fn count(&mut self, before: &Bytes, after: Option<&Bytes>) {
        self.kept += u64::from(after.is_some());
        self.removed += u64::from(after.is_none());
        self.bytes_before += before.len() as u64;
        self.bytes_after += after.map_or(0, |after| after.len() as u64);
    }
}

impl Taps {
    /// Applies the rules of a pipeline to items one by one, as many as there is time for. Its conversion to delta begins anew
    /// each time, and so with the first of them.
    ///
    /// # Errors
    /// A rule that cannot be compiled, another rehearsal, or no memory.
    pub fn rehearse(&self, pipeline: &Pipeline, items: &[Arc<Caught>]) -> Result<Rehearsal, TapError> {
        let _alone = self.shelf.compiles.try_lock().map_err(|_| TapError::Busy)?;
        let processing = &pipeline.processing;
        let transforms = processing.transforms.iter().flat_map(|rule| rule.conditions.iter().chain(&rule.statements));
        let texts = transforms.chain(processing.filters.iter().flat_map(|rule| &rule.conditions));
        let lines = processing.sections.iter().flat_map(|section| &section.lines);
        let texts = texts.map(|text| (text.as_str(), max_pattern_bytes(text)));
        let lines = lines.map(|line| (line.value.reveal(), filters::max_pattern_bytes(line)));
        let _paid = self.pay_for(texts.chain(lines), MOST_RULES)?;
        let budget = self.room(WORK_BYTES, WORK_OF_MEMORY)?;
        let converts = processing.temporality == Temporality::Delta;
        let bytes = if converts { series_bytes(items).min(budget.capacity() / SERIES_OF_WORK) } else { 0 };
        let _series = budget.try_take(bytes).ok_or(TapError::NoMemory)?;
        // No item is of a series that begins after this.
        let rules = Rules::compile(pipeline, Memory { before: None, bytes }, &|| None, unix_nanos());
        let rules = rules.map_err(TapError::Wrong)?;
        let mut rehearsal = Rehearsal { delta: converts.then(Deltas::default), ..Rehearsal::default() };
        let Some(rules) = rules else {
            items.iter().for_each(|item| rehearsal.count(&item.request, Some(&item.request)));
            return Ok(rehearsal);
        };
        rules.hush();
        rehearsal.run(&rules, items, &budget)?;
        rehearsal.rules = reports(pipeline, &rules);
        Ok(rehearsal)
    }
}

/// What there may be to remember of all items, each of a series of its own.
fn series_bytes(items: &[Arc<Caught>]) -> usize {
    items.iter().map(|item| SERIES_BYTES + item.request.len()).sum()
}
