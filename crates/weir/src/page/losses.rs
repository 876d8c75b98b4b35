//! When losses began and when they last grew: the books say how many, and no time.

use std::collections::BTreeMap;

use serde::{Serialize, Serializer};
use weir_engine::view::PipelineFigures;
use weir_legible::rfc3339_seconds;
use weir_plan::PipelineId;

/// The losses of all pipelines that are configured, since the start of the process.
#[derive(Debug, Default)]
pub(super) struct Losses(BTreeMap<PipelineId, Vec<Loss>>);

/// Items that were lost in one way.
#[derive(Debug)]
struct Loss {
    /// `dropped` or `rejected`, as in the books.
    way: &'static str,
    reason: String,
    items: u64,
    /// When it began and when it last grew, in seconds since the Unix epoch.
    first: u64,
    last: u64,
}

/// A loss with its pipeline.
#[derive(Serialize)]
struct Line<'a> {
    pipeline: String,
    way: &'static str,
    reason: &'a str,
    items: u64,
    first_at: String,
    last_at: String,
}

impl<'a> Line<'a> {
    fn of(pipeline: String, Loss { way, reason, items, first, last }: &'a Loss) -> Self {
        let (first_at, last_at) = (rfc3339_seconds(*first), rfc3339_seconds(*last));
        Self { pipeline, way, reason, items: *items, first_at, last_at }
    }
}

impl Losses {
    /// Takes what the books say now.
    pub(super) fn look(&mut self, now: u64, pipelines: &[PipelineFigures]) {
        self.0.retain(|id, _| pipelines.iter().any(|of| of.id == *id));
        for of in pipelines {
            let dropped = of.books.dropped.iter().map(|(reason, items)| ("dropped", *reason, *items));
            let rejected = of.books.rejected.iter().map(|(code, items)| ("rejected", code.as_str(), *items));
            for loss in dropped.chain(rejected).filter(|(.., items)| *items > 0) {
                note(self.0.entry(of.id.clone()).or_default(), now, loss);
            }
        }
    }

    /// Those of one pipeline, or of all.
    pub(super) fn lines<S: Serializer>(&self, pipeline: Option<&str>, to: S) -> Result<S::Ok, S::Error> {
        let wanted = self.0.iter().map(|(id, losses)| (id.to_string(), losses));
        let wanted = wanted.filter(|(name, _)| pipeline.is_none_or(|pipeline| pipeline == name));
        to.collect_seq(wanted.flat_map(|(name, losses)| losses.iter().map(move |loss| Line::of(name.clone(), loss))))
    }
}

fn note(losses: &mut Vec<Loss>, now: u64, (way, reason, items): (&'static str, &str, u64)) {
    match losses.iter_mut().find(|loss| loss.way == way && loss.reason == reason) {
        Some(loss) if loss.items < items => (loss.items, loss.last) = (items, now),
        Some(_) => {}
        None => losses.push(Loss { way, reason: reason.to_owned(), items, first: now, last: now }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loss_has_the_time_of_its_first_item_and_of_its_last() {
        let mut losses = Vec::new();
        for (now, reason, items) in [(10, "400", 1), (11, "400", 1), (12, "503", 2), (13, "400", 7), (14, "400", 7)] {
            note(&mut losses, now, ("rejected", reason, items));
        }
        let times = losses.iter().map(|of| (&*of.reason, of.items, of.first, of.last));
        assert_eq!(times.collect::<Vec<_>>(), [("400", 7, 10, 13), ("503", 2, 12, 12)]);
    }
}
