//! What other rules would make of what a tap has caught. Nothing is sent, counted or remembered.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use weir_plan::{Pipeline, Processing, Temporality};

use super::caught::Caught;
use super::{MOST_RULES, TapError, Taps, WORK_BYTES, WORK_OF_MEMORY};
use crate::budget::Purse;
use crate::clock::unix_nanos;
use crate::preview::{RuleReport, reports};
use crate::rules::{Memory, Rules};

/// Items that are shown before and after.
const SHOWN: usize = 20;
/// For all items together; those that come after that are not tried.
const PATIENCE: Duration = Duration::from_secs(2);

/// What becomes of items.
#[derive(Debug, Default)]
pub struct Rehearsal {
    /// Items that are left.
    pub kept: u64,
    /// Items that rules remove.
    pub removed: u64,
    /// Bytes of all items that were tried, each as an OTLP request of its own, with its resource and scope.
    pub bytes_before: u64,
    /// The same of what is left of them.
    pub bytes_after: u64,
    /// What each rule did.
    pub rules: Vec<RuleReport>,
    /// The first items that are not the same afterwards, and what they are then; `None` if they are removed.
    pub changed: Vec<(Arc<Caught>, Option<Bytes>)>,
}

impl Rehearsal {
    fn count(&mut self, before: &Bytes, after: Option<&Bytes>) {
        self.kept += u64::from(after.is_some());
        self.removed += u64::from(after.is_none());
        self.bytes_before += before.len() as u64;
        self.bytes_after += after.map_or(0, |after| after.len() as u64);
    }
}

impl Taps {
    /// Applies the rules of a pipeline, but for temporality, to items one by one, as many as there is time for.
    ///
    /// # Errors
    /// A rule that cannot be compiled, another rehearsal, or no memory.
    pub fn rehearse(&self, pipeline: &Pipeline, items: &[Arc<Caught>]) -> Result<Rehearsal, TapError> {
        let _alone = self.shelf.compiles.try_lock().map_err(|_| TapError::Busy)?;
        let processing = Processing { temporality: Temporality::default(), ..pipeline.processing.clone() };
        let transforms = processing.transforms.iter().flat_map(|rule| rule.conditions.iter().chain(&rule.statements));
        let texts = transforms.chain(processing.filters.iter().flat_map(|rule| &rule.conditions));
        let lines = || processing.sections.iter().flat_map(|section| &section.lines);
        let texts = texts.map(String::as_str).chain(lines().map(|line| line.value.reveal()));
        // Each line of a filter of Fluent Bit may have one.
        let _paid = self.pay_for(texts, lines().count(), MOST_RULES)?;
        let pipeline = Pipeline { processing, ..pipeline.clone() };
        let rules =
            Rules::compile(&pipeline, Memory { before: None, bytes: 0 }, &|| None, 0).map_err(TapError::Wrong)?;
        let (mut rehearsal, began) = (Rehearsal::default(), Instant::now());
        let Some(rules) = rules else {
            items.iter().for_each(|item| rehearsal.count(&item.request, Some(&item.request)));
            return Ok(rehearsal);
        };
        rules.hush();
        let budget = self.room(WORK_BYTES, WORK_OF_MEMORY)?;
        for item in items.iter().take_while(|_| began.elapsed() < PATIENCE) {
            let processed = rules
                .apply(item.request.clone(), 1, Purse::new(&budget, 0), unix_nanos())
                .map_err(|_| TapError::NoMemory)?;
            processed.removed.iter().for_each(|removed| removed.count());
            let after = (processed.items > 0).then_some(processed.body);
            rehearsal.count(&item.request, after.as_ref());
            if rehearsal.changed.len() < SHOWN && after.as_ref() != Some(&item.request) {
                rehearsal.changed.push((Arc::clone(item), after));
            }
        }
        rehearsal.rules = reports(&pipeline, &rules);
        Ok(rehearsal)
    }
}
