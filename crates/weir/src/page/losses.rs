//! When losses began, when they last grew, and how fast they grow now: the books say how many, and no time.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::{Serialize, Serializer};
use weir_engine::view::{PipelineFigures, Snapshot, SourceFigures};
use weir_legible::rfc3339_seconds;
use weir_observe::Moment;
use weir_plan::PipelineId;

use crate::before_books;

/// Looks that are remembered, one a second: a rate is that of the five seconds between the first and the last.
const LOOKS: usize = 6;

/// What was lost since the start of the process.
#[derive(Debug, Default)]
pub(super) struct Losses {
    /// When the last looks were, the newest last; `None` before the first.
    looks: Option<[Duration; LOOKS]>,
    /// Of those pipelines that are configured.
    pipelines: BTreeMap<PipelineId, Vec<Loss>>,
    before_books: BTreeMap<Source, Sums>,
}

/// Items that were lost in one way.
#[derive(Debug)]
struct Loss {
    /// `dropped` or `rejected`, as in the books.
    way: &'static str,
    reason: String,
    items: Sums,
    /// When it began and when it last grew, in seconds since the Unix epoch.
    first: u64,
    last: u64,
}

/// Where something was lost before it came into any books: what was collected, for which job, and the reason.
type Source = (&'static str, Option<String>, &'static str);

/// How much it was at each of the last looks, the newest last.
#[derive(Debug, Clone, Copy)]
struct Sums([u64; LOOKS]);

impl Sums {
    fn new(before: u64, now: u64) -> Self {
        Self([before; LOOKS]).and(now)
    }

    fn and(self, now: u64) -> Self {
        let [_, old @ ..] = self.0;
        let mut sums = [now; LOOKS];
        sums[..LOOKS - 1].copy_from_slice(&old);
        Self(sums)
    }

    fn now(self) -> u64 {
        let [.., now] = self.0;
        now
    }

    /// `seconds`: how long ago the first of these looks was, at the last. Of one look alone nothing is known.
    fn per_second(self, seconds: f64) -> Option<f64> {
        let [first, .., last] = self.0;
        (seconds > 0.0).then(|| last.saturating_sub(first) as f64 / seconds)
    }
}

/// A loss with its pipeline.
#[derive(Serialize)]
struct Line<'a> {
    pipeline: String,
    way: &'static str,
    reason: &'a str,
    items: u64,
    /// In the last few seconds.
    items_per_second: Option<f64>,
    first_at: String,
    last_at: String,
}

impl<'a> Line<'a> {
    fn of(pipeline: String, Loss { way, reason, items, first, last }: &'a Loss, seconds: f64) -> Self {
        let (first_at, last_at) = (rfc3339_seconds(*first), rfc3339_seconds(*last));
        let (items, items_per_second) = (items.now(), items.per_second(seconds));
        Self { pipeline, way, reason, items, items_per_second, first_at, last_at }
    }
}

/// How fast something grows that is in no books.
#[derive(Serialize)]
struct LineBefore<'a> {
    what: &'static str,
    job: Option<&'a str>,
    reason: &'static str,
    /// In the last few seconds, in its unit.
    amount_per_second: Option<f64>,
}

impl Losses {
    /// Takes what is true now, a second after the last call.
    pub(super) fn look(&mut self, at: Moment, snapshot: &Snapshot) {
        let is_first = self.looks.is_none();
        let looks = self.looks.get_or_insert([at.since_start; LOOKS]);
        looks.rotate_left(1);
        looks[LOOKS - 1] = at.since_start;
        self.look_at_books(at.unix_seconds, &snapshot.pipelines);
        self.look_before_books(is_first, &snapshot.sources);
    }

    fn look_at_books(&mut self, now: u64, pipelines: &[PipelineFigures]) {
        let seen: BTreeSet<_> = pipelines.iter().map(|of| &of.id).collect();
        self.pipelines.retain(|id, _| seen.contains(id));
        for of in pipelines {
            let (losses, is_new) = match self.pipelines.get_mut(&of.id) {
                Some(losses) => (losses, false),
                None => (self.pipelines.entry(of.id.clone()).or_default(), true),
            };
            let dropped = of.books.dropped.iter().map(|(reason, items)| ("dropped", *reason, *items));
            let rejected = of.books.rejected.iter().map(|(code, items)| ("rejected", code.as_str(), *items));
            for loss in dropped.chain(rejected).filter(|(.., items)| *items > 0) {
                note(losses, now, is_new, loss);
            }
        }
    }

    /// Jobs that are gone are forgotten.
    fn look_before_books(&mut self, is_first: bool, sources: &SourceFigures) {
        let mut old = std::mem::take(&mut self.before_books);
        let lost = before_books::each(sources).filter(|lost| lost.amount > 0).map(|lost| {
            let source = (lost.what, lost.job.map(str::to_owned), lost.reason);
            let before = if is_first { lost.amount } else { 0 };
            let sums = old.remove(&source).map_or_else(|| Sums::new(before, lost.amount), |sums| sums.and(lost.amount));
            (source, sums)
        });
        self.before_books = lost.collect();
    }

    /// The time that rates are of.
    fn seconds(&self) -> f64 {
        self.looks.map_or(0.0, |[first, .., last]| last.saturating_sub(first).as_secs_f64())
    }

    /// Those of one pipeline, or of all.
    pub(super) fn lines<S: Serializer>(&self, pipeline: Option<&str>, to: S) -> Result<S::Ok, S::Error> {
        let seconds = self.seconds();
        let wanted = self.pipelines.iter().map(|(id, losses)| (id.to_string(), losses));
        let wanted = wanted.filter(|(name, _)| pipeline.is_none_or(|pipeline| pipeline == name));
        to.collect_seq(
            wanted.flat_map(|(name, losses)| losses.iter().map(move |loss| Line::of(name.clone(), loss, seconds))),
        )
    }

    /// What was lost before it came into any books.
    pub(super) fn lines_before_books<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let seconds = self.seconds();
        to.collect_seq(self.before_books.iter().map(|(&(what, ref job, reason), amount)| LineBefore {
            what,
            job: job.as_deref(),
            reason,
            amount_per_second: amount.per_second(seconds),
        }))
    }
}

/// What a pipeline that `is_new` here has lost before, nobody has seen: it was not now.
fn note(losses: &mut Vec<Loss>, now: u64, is_new: bool, (way, reason, items): (&'static str, &str, u64)) {
    match losses.iter_mut().find(|loss| loss.way == way && loss.reason == reason) {
        Some(loss) => {
            loss.last = if loss.items.now() < items { now } else { loss.last };
            loss.items = loss.items.and(items);
        }
        None => {
            let items = Sums::new(if is_new { items } else { 0 }, items);
            losses.push(Loss { way, reason: reason.to_owned(), items, first: now, last: now });
        }
    }
}

#[cfg(test)]
mod tests {
    use weir_engine::view::ContainerLogFigures;

    use super::*;

    #[test]
    fn a_loss_has_the_time_of_its_first_item_and_of_its_last() {
        let mut losses = Vec::new();
        for (now, reason, items) in [(10, "400", 1), (11, "400", 1), (12, "503", 2), (13, "400", 7), (14, "400", 7)] {
            note(&mut losses, now, false, ("rejected", reason, items));
        }
        let times = losses.iter().map(|of| (&*of.reason, of.items.now(), of.first, of.last));
        assert_eq!(times.collect::<Vec<_>>(), [("400", 7, 10, 13), ("503", 2, 12, 12)]);
    }

    #[test]
    fn a_rate_is_that_of_the_last_seconds() {
        assert_eq!(Sums::new(0, 10).per_second(0.0), None, "of one look nothing is known");
        let grown = [10, 20, 20, 20].into_iter().fold(Sums::new(0, 0), Sums::and);
        assert_eq!(grown.per_second(5.0), Some(4.0));
        let over = [20; LOOKS - 1].into_iter().fold(grown, Sums::and);
        assert_eq!(over.per_second(5.0), Some(0.0), "that is over");
    }

    #[test]
    fn what_a_pipeline_had_lost_before_is_not_lost_now() {
        let mut losses = Vec::new();
        for (now, is_new, reason, items) in
            [(10, true, "400", 1000), (11, false, "400", 1005), (11, false, "503", 10), (12, false, "400", 1005)]
        {
            note(&mut losses, now, is_new, ("rejected", reason, items));
        }
        let rates = losses.iter().map(|of| (&*of.reason, of.items.per_second(5.0)));
        assert_eq!(rates.collect::<Vec<_>>(), [("400", Some(1.0)), ("503", Some(2.0))]);
    }

    #[test]
    fn what_is_in_no_books_has_a_rate_too_and_is_forgotten_with_its_source() {
        let logs = |bytes| {
            let lost_bytes = vec![("removed", bytes), ("overwritten", 0)];
            let container_logs = Some(ContainerLogFigures { lost_bytes, ..ContainerLogFigures::default() });
            SourceFigures { container_logs, ..SourceFigures::default() }
        };
        let mut losses = Losses::default();
        losses.look_before_books(true, &logs(100));
        losses.look_before_books(false, &logs(150));
        let rates = |losses: &Losses| losses.before_books.values().map(|of| of.per_second(5.0)).collect::<Vec<_>>();
        assert_eq!(rates(&losses), [Some(10.0)]);
        losses.look_before_books(false, &SourceFigures::default());
        assert!(rates(&losses).is_empty());
    }
}
