//! Filters of Fluent Bit among the rules of a pipeline.

use std::sync::Arc;

use weir_fluent_bit::Filters;
use weir_fluent_bit::text::Wrong;
use weir_ottl::Tally;
use weir_plan::{Body, Pipeline};

use super::{Counted, Removed, Rules, Work};
use crate::budget::Shortage;

/// The filters of a pipeline that has some.
pub(super) fn compile(pipeline: &Pipeline) -> Result<Option<Counted<Filters>>, String> {
    let sections = &pipeline.processing.sections;
    let (Body::FluentBit(settings), false) = (&pipeline.output.body, sections.is_empty()) else { return Ok(None) };
    let filters = Filters::compile(settings, sections);
    let filters = filters.map_err(|wrong| wrong.iter().map(Wrong::to_string).collect::<Vec<_>>().join("\n"))?;
    let count = filters.count();
    Ok(Some(Counted::new(filters, count, 0)))
}

impl Rules {
    pub(super) fn run_sections(&self, work: &mut Work<'_>, max_scratch: usize) -> Result<(), Shortage> {
        let Some(sections) = &self.sections else { return Ok(()) };
        let done = work.paying(|request, pay| sections.rule.apply_within(request, max_scratch, pay))?;
        for (number, (stats, did)) in sections.conditions.iter().zip(done.tallies).enumerate() {
            let tally = Tally { matched: did.changed + did.dropped, errors: did.errors, first_error: did.first_error };
            if work.counts {
                self.count(|_| format!("filters[{number}]"), std::slice::from_ref(stats), &[tally]);
            }
            if did.dropped > 0 {
                let counter = Some(Arc::clone(&stats.filtered));
                work.remove(Removed { reason: "filter", items: did.dropped, counter, place: None });
            }
        }
        work.becomes(done.request, max_scratch);
        Ok(())
    }
}
