//! Losses in the log: items of one pipeline that were given up, or that its backend refused for good.
//!
//! The first loss of a kind is logged at once. Later ones are summed up and logged at the end of each interval, when
//! the pipeline leaves, and at the end of the process. Where so many pipelines lose something that not each has a line,
//! the sum of the others is logged. So what the log says of a kind adds up to what the books have. Every loss passes
//! through here on its way from the books.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use weir_legible::Warnings;
use weir_plan::PipelineId;

use crate::books::{DropReason, Fate, PARTIAL_SUCCESS};

/// Time between two log lines about losses of one kind.
const EVERY: Duration = Duration::from_secs(30);

/// Codes with lines of their own at a time, the first that come: what a backend answers, and what Weir itself calls a
/// refusal. The lines of all pipelines are limited, and a backend that makes up codes would use them up.
const CODES: usize = 5;

/// Stands for all codes beside these.
const OTHER_CODES: &str = "other";

/// See the module.
#[derive(Debug)]
pub(crate) struct Losses {
    pipeline: PipelineId,
    kinds: Mutex<BTreeMap<Kind, Tally>>,
    /// Counts lines about all pipelines.
    warnings: Arc<Warnings>,
}

/// What is summed up together.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Dropped(DropReason),
    /// By code, or [`OTHER_CODES`].
    Rejected(String),
}

/// Losses of one kind.
#[derive(Debug)]
struct Tally {
    said: Instant,
    /// Items lost since then, of which the log says nothing yet ...
    items: u64,
    /// ... and what the backend said of the first of them.
    cause: String,
}

/// What the log says at once of losses of one kind.
#[derive(Debug, PartialEq, Eq)]
struct Summary {
    kind: Kind,
    items: u64,
    /// The time in which they were lost.
    over: Duration,
    cause: String,
}

impl Losses {
    /// Of a pipeline.
    pub(crate) fn new(pipeline: PipelineId, warnings: Arc<Warnings>) -> Self {
        Self { pipeline, kinds: Mutex::default(), warnings }
    }

    /// Items met their fate.
    pub(crate) fn note(&self, items: u64, fate: &Fate) {
        if let Some(summary) = self.enter(items, fate, Instant::now()) {
            self.say(&summary);
        }
    }

    /// Logs what was lost in the intervals that are over.
    pub(crate) fn say_due(&self, now: Instant) {
        self.take(|tally| now.duration_since(tally.said) >= EVERY, now).iter().for_each(|summary| self.say(summary));
    }

    /// Logs all that has not been logged: nothing follows for some time.
    pub(crate) fn say_all(&self) {
        self.take(|_| true, Instant::now()).iter().for_each(|summary| self.say(summary));
    }

    /// What is to be said at once.
    fn enter(&self, items: u64, fate: &Fate, now: Instant) -> Option<Summary> {
        let (kind, items, cause) = match fate {
            Fate::Delivered => return None,
            Fate::DeliveredBut { rejected, cause } => {
                (Kind::Rejected(PARTIAL_SUCCESS.into()), *rejected, cause.as_str())
            }
            Fate::Dropped(reason) => (Kind::Dropped(*reason), items, ""),
            Fate::Rejected { code, cause } => (Kind::Rejected(code.clone()), items, cause.as_str()),
        };
        if items == 0 {
            return None;
        }
        let mut kinds = self.lock();
        // What was quiet for so long begins anew, and so does not take the place of another code.
        kinds.retain(|_, tally| tally.items > 0 || now.duration_since(tally.said) < EVERY);
        let (kind, cause) = kind.beside(&kinds, cause);
        if let Some(tally) = kinds.get_mut(&kind) {
            if tally.items == 0 {
                tally.cause = cause.into_owned();
            }
            tally.items += items;
            return None;
        }
        kinds.insert(kind.clone(), Tally { said: now, items: 0, cause: String::new() });
        Some(Summary { kind, items, over: Duration::ZERO, cause: cause.into_owned() })
    }

    /// The sums of those kinds, which begin anew.
    fn take(&self, is_due: impl Fn(&Tally) -> bool, now: Instant) -> Vec<Summary> {
        let mut kinds = self.lock();
        let due = kinds.iter_mut().filter(|(_, tally)| tally.items > 0 && is_due(tally));
        let summary = |(kind, tally): (&Kind, &mut Tally)| {
            let over = now.duration_since(std::mem::replace(&mut tally.said, now));
            let (items, cause) = (std::mem::take(&mut tally.items), std::mem::take(&mut tally.cause));
            Summary { kind: kind.clone(), items, over, cause }
        };
        due.map(summary).collect()
    }

    fn say(&self, summary: &Summary) {
        let (pipeline, items, seconds) = (&self.pipeline, summary.items, summary.over.as_secs());
        if !self.warnings.may_say(summary.kind.reason(), items, Instant::now()) {
            return;
        }
        match &summary.kind {
            Kind::Dropped(reason) => {
                let (reason, why, advice) = (reason.as_str(), reason.explanation(), reason.advice());
                if summary.kind.is_of_the_users_making() {
                    tracing::warn!(%pipeline, reason, items, seconds, advice, "gave up data: {why}");
                } else {
                    tracing::error!(%pipeline, reason, items, seconds, advice, "gave up data: {why}");
                }
            }
            Kind::Rejected(code) => {
                let cause = &summary.cause;
                tracing::warn!(
                    %pipeline,
                    code,
                    cause,
                    items,
                    seconds,
                    advice = "/rejected on the admin port has samples, with the backend's words",
                    "backend refused data for good"
                );
            }
        }
    }

    /// Items lost of which the log says nothing yet.
    #[cfg(test)]
    pub(crate) fn unsaid(&self) -> u64 {
        self.lock().values().map(|tally| tally.items).sum()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Kind, Tally>> {
        self.kinds.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kind {
    /// The kind under which this one is summed up beside those that there are, and its cause, which then names the code
    /// if the kind does not.
    fn beside<'a>(self, kinds: &BTreeMap<Self, Tally>, cause: &'a str) -> (Self, Cow<'a, str>) {
        if let Self::Rejected(code) = &self
            && !kinds.contains_key(&self)
            && kinds.keys().filter(|kind| kind.is_own_code()).count() >= CODES
        {
            return (Self::Rejected(OTHER_CODES.into()), format!("{code}: {cause}").into());
        }
        (self, cause.into())
    }

    /// A code that is not summed up with others.
    fn is_own_code(&self) -> bool {
        matches!(self, Self::Rejected(code) if code != OTHER_CODES)
    }

    fn reason(&self) -> &'static str {
        match self {
            Self::Dropped(reason) => reason.as_str(),
            Self::Rejected(_) => "rejected",
        }
    }

    /// A limit that the user sets was reached.
    fn is_of_the_users_making(&self) -> bool {
        !matches!(self, Self::Dropped(DropReason::Shutdown | DropReason::JournalDamaged))
    }
}

#[cfg(test)]
mod tests {
    use weir_plan::Signal;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn losses() -> Losses {
        Losses::new(PipelineId::new(Signal::Traces, "shop"), Arc::default())
    }

    fn rejected(cause: &str) -> Fate {
        Fate::Rejected { code: "400".into(), cause: cause.into() }
    }

    #[test]
    fn the_first_is_said_at_once_and_the_rest_is_summed_up() {
        let (losses, start) = (losses(), Instant::now());
        let full = Fate::Dropped(DropReason::MemoryFull);
        let first = losses.enter(20, &full, start).unwrap();
        assert_eq!((first.items, first.over), (20, Duration::ZERO));
        for _ in 0..100 {
            assert_eq!(losses.enter(20, &full, start + 29 * SECOND), None);
        }
        let due = |now: Instant| losses.take(|tally| now.duration_since(tally.said) >= EVERY, now);
        assert_eq!(due(start + 29 * SECOND), []);
        let summaries = due(start + 30 * SECOND);
        assert_eq!(summaries.iter().map(|summary| (summary.items, summary.over)).collect::<Vec<_>>(), [(2000, EVERY)]);
        assert_eq!(due(start + 60 * SECOND), [], "nothing was lost in that interval");
        assert_eq!(losses.enter(7, &full, start + 61 * SECOND).unwrap().items, 7, "a new beginning");
        assert_eq!(losses.enter(7, &Fate::Delivered, start), None);
    }

    /// One kind does not hide another, and losses that were not looked at in time are summed up once, not twice.
    #[test]
    fn kinds_are_told_apart() {
        let (losses, start) = (losses(), Instant::now());
        assert!(losses.enter(1, &Fate::Dropped(DropReason::MemoryFull), start).is_some());
        assert_eq!(losses.enter(1, &rejected("bad"), start).unwrap().cause, "bad");
        assert!(losses.enter(1, &rejected("worse"), start + SECOND).is_none());
        assert!(losses.enter(1, &rejected("worst"), start + 40 * SECOND).is_none());
        let summaries = losses.take(|_| true, start + 40 * SECOND);
        let [Summary { kind: Kind::Rejected(code), items: 2, cause, .. }] = &*summaries else {
            panic!("{summaries:?}")
        };
        assert_eq!((code.as_str(), cause.as_str()), ("400", "worse"));
    }

    fn coded(code: u32) -> Fate {
        Fate::Rejected { code: code.to_string(), cause: format!("cause {code}") }
    }

    /// A backend that answers with ever new codes has a line for each of the first, and one for the rest.
    #[test]
    fn codes_beyond_the_first_are_summed_up_together() {
        let (losses, start) = (losses(), Instant::now());
        let at_once: Vec<_> = (400..500).filter_map(|code| losses.enter(1, &coded(code), start)).collect();
        let said: Vec<_> = at_once.iter().map(|summary| (summary.kind.clone(), summary.cause.clone())).collect();
        let first = (400..405).map(|code| (Kind::Rejected(code.to_string()), format!("cause {code}")));
        let other = (Kind::Rejected("other".into()), "405: cause 405".to_owned());
        assert_eq!(said, first.chain([other]).collect::<Vec<_>>());
        assert_eq!(losses.enter(1, &rejected("again"), start), None, "a code that has its own line");
        let summaries = losses.take(|_| true, start + EVERY);
        let said: Vec<_> = summaries.iter().map(|summary| (&summary.kind, summary.items, &*summary.cause)).collect();
        let (own, other) = (Kind::Rejected("400".into()), Kind::Rejected("other".into()));
        assert_eq!(said, [(&own, 1, "again"), (&other, 94, "406: cause 406")]);
    }

    /// Codes of which nothing is heard any more leave their lines to others, and nothing is lost by that.
    #[test]
    fn a_new_code_has_the_line_of_one_that_is_quiet() {
        let (losses, start) = (losses(), Instant::now());
        let enter = |code: u32, now: Instant| losses.enter(1, &coded(code), now).map(|summary| summary.kind);
        let of = |code: u32| Some(Kind::Rejected(code.to_string()));
        for code in 400..405 {
            assert_eq!(enter(code, start), of(code));
        }
        assert_eq!(enter(400, start + 29 * SECOND), None, "not quiet: there is something to say");
        assert_eq!(enter(500, start + 29 * SECOND), Some(Kind::Rejected("other".into())), "no line is free yet");
        for code in 501..505 {
            assert_eq!(enter(code, start + EVERY), of(code), "four lines are free");
        }
        assert_eq!(enter(505, start + EVERY), None, "summed up with the other code");
        assert_eq!(losses.unsaid(), 2);
    }
}
