//! Rules that are applied to a caught item once more, so that it is known which of them removes it. Nothing is counted
//! or remembered by that.

use bytes::Bytes;
use weir_plan::{Filter, Pipeline, Processing, Temporality};

use super::caught::RemovedBy;
use crate::budget::Purse;
use crate::rules::{Memory, Removed, Rules};

/// The rules of a pipeline without its memory of series.
#[derive(Debug)]
pub(super) struct Shadow {
    /// `None`: it has none.
    rules: Option<Rules>,
    filters: Vec<Filter>,
}

impl Shadow {
    pub(super) fn of(pipeline: &Pipeline) -> Result<Self, String> {
        let processing = Processing { temporality: Temporality::default(), ..pipeline.processing.clone() };
        let filters = processing.filters.clone();
        let pipeline = Pipeline { processing, ..pipeline.clone() };
        Ok(Self { rules: compile(&pipeline)?, filters })
    }

    /// The rules of a pipeline with one filter of one condition.
    pub(super) fn condition(pipeline: &Pipeline, condition: &str) -> Result<Self, String> {
        let filters = vec![Filter { conditions: vec![condition.to_owned()] }];
        Self::of(&Pipeline { processing: Processing { filters, ..Processing::default() }, ..pipeline.clone() })
    }

    /// What removes an item; `None` if it stays, or if there is no memory to find out.
    pub(super) fn removes(&self, item: &Bytes, purse: Purse<'_>, unix_nanos: u64) -> Option<RemovedBy> {
        let processed = self.rules.as_ref()?.apply(item.clone(), 1, purse, unix_nanos).ok()?;
        if processed.items > 0 {
            return None;
        }
        let by = processed.removed.first().map(|removed| self.name(removed));
        Some(by.unwrap_or_else(|| RemovedBy { field: "transform".to_owned(), text: String::new() }))
    }

    fn name(&self, removed: &Removed) -> RemovedBy {
        let filters = self.rules.iter().flat_map(|rules| &rules.filters).zip(&self.filters).enumerate();
        for (filter, (counted, written)) in filters {
            for (line, (stats, text)) in counted.conditions.iter().zip(&written.conditions).enumerate() {
                if removed.is_by(&stats.filtered) {
                    return RemovedBy { field: format!("filter[{filter}].conditions[{line}]"), text: text.clone() };
                }
            }
        }
        RemovedBy { field: removed.reason.to_owned(), text: String::new() }
    }
}

fn compile(pipeline: &Pipeline) -> Result<Option<Rules>, String> {
    let rules = Rules::compile(pipeline, Memory { before: None, bytes: 0 }, &|| None, 0)?;
    Ok(rules.map(Rules::in_silence))
}
