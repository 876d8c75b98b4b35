//! The figures of one pipeline.

use std::collections::BTreeMap;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;
use weir_plan::PipelineId;
use weir_temporality::Counts;

use crate::account::Account;
use crate::before_books::BeforeBooks;
use crate::books::BookFigures;
use crate::clock::Clock;
use crate::export::{CodeFigures, CredentialFigures, Expiry};
use crate::histogram::HistogramFigures;
use crate::intake::Route;
use crate::pipeline::{AnswerFigures, BackendFigures, RetryFigures};
use crate::rules::{Delta, RuleStats, Rules};

/// One pipeline.
#[derive(Debug, Clone, PartialEq)]
pub struct PipelineFigures {
    /// Which one.
    pub id: PipelineId,
    /// What the metrics of exporters call it.
    pub exporter: String,
    /// Whether it takes what clients push.
    pub is_pushed_to: bool,
    /// Whether it takes what sources in this process collect, apart from the status of resources.
    pub is_collected_for: bool,
    /// Its items.
    pub books: BookFigures,
    /// What would have come into the books, and was lost before.
    pub before_books: BeforeBooks,
    /// `None` without a data directory.
    pub backlog: Option<BacklogFigures>,
    /// Bytes of requests whose client was answered OK, as they are before the rules, since the start.
    pub accepted_bytes: u64,
    /// Bytes of requests that the backend took, before compression, since the start.
    pub delivered_bytes: u64,
    /// Bytes in the backlog and waiting to be sent. Without a data directory, also bytes that are parked and on the
    /// wire.
    pub pending_bytes: u64,
    /// Age of the oldest item not finished, in memory or in the backlog.
    pub oldest_age: Duration,
    /// Bytes kept in memory after their client got its OK.
    pub held_bytes: usize,
    /// What these may come to: the pipeline's share.
    pub share_bytes: usize,
    /// Requests to the backend that are unanswered.
    pub in_flight: u64,
    /// Batches that wait for their next attempt.
    pub parked: u64,
    /// Requests to the backend that had to be tried again, since the start.
    pub retries: u64,
    /// Items in requests that the backend refused without asking for another attempt, since the start. An item counts
    /// each time. What is only too large is not in it.
    pub refused_items: u64,
    /// Requests to the backend that may be unanswered at once.
    pub concurrency_limit: u64,
    /// Requests that may be tried again now.
    pub retry_budget: RetryFigures,
    /// Until the next request that finds out whether the backend takes data again; zero while one is under way. `None`
    /// unless the backend takes nothing or cannot be reached, so that nothing else is sent to it.
    pub next_probe: Option<Duration>,
    /// Time from a request to the backend to its answer, since the start.
    pub latency: HistogramFigures,
    /// The same of the last 30 to 60 seconds.
    pub latency_lately: HistogramFigures,
    /// How requests to the backend ended.
    pub answers: AnswerFigures,
    /// How the backend answered those that were sent.
    pub codes: CodeFigures,
    /// How the backend stands.
    pub backend: BackendFigures,
    /// Whether a request to it has ended since it was configured as it is. Before that, nobody knows how it stands.
    pub was_tried: bool,
    /// When its certificate and the token for it end.
    pub expiry: Expiry,
    /// The credentials that it is sent; `None` if there are none.
    pub credentials: Option<CredentialFigures>,
    /// Why the pipeline cannot be set up as it is configured; `None` if it is.
    pub setup_error: Option<String>,
    /// What the conditions and statements of its present rules did.
    pub rules: Vec<RuleFigures>,
    /// `None` when it does not convert to delta.
    pub delta: Option<DeltaFigures>,
}

/// A pipeline that is not in the plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OrphanFigures {
    /// Which one.
    pub id: PipelineId,
    /// Its items.
    pub books: BookFigures,
    /// `None` without a data directory.
    pub backlog: Option<BacklogFigures>,
}

/// What the journal has for a pipeline that its backend has not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BacklogFigures {
    /// Items.
    pub items: u64,
    /// Bytes of payload.
    pub bytes: u64,
    /// The bytes that it may come to.
    pub limit_bytes: u64,
    /// The age that it may come to.
    pub limit_age: Duration,
    /// Age of the oldest.
    pub oldest_age: Duration,
}

/// One condition or statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleFigures {
    /// `transform_condition`, `transform_statement`, `filter_condition` or `fluent_bit_filter`.
    pub kind: &'static str,
    /// Of which transform or filter, from 0.
    pub rule: usize,
    /// Its place among the conditions or statements there, from 0.
    pub line: usize,
    /// Times that it was executed, or that it held.
    pub matches: u64,
    /// Times that it failed.
    pub errors: u64,
    /// Items that it removed, if it is the condition of a filter.
    pub filtered: u64,
    /// Why it failed the first time.
    pub cause: Option<String>,
}

/// The conversion to delta.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeltaFigures {
    /// Counts of data points, and of series that are no longer remembered.
    pub counts: Counts,
    /// Series that are remembered.
    pub series: usize,
}

impl PipelineFigures {
    pub(super) fn of(route: &Route, clock: Clock) -> Self {
        let pipeline = &route.pipeline;
        let (account, stats) = (&pipeline.account, &pipeline.stats);
        let rules = route.rules.as_deref();
        let (latency, latency_lately) = stats.latency.figures(Instant::now());
        Self {
            id: account.id.clone(),
            exporter: pipeline.exporter_label.clone(),
            is_pushed_to: route.selection.takes_what_is_pushed(),
            is_collected_for: route.selection.takes_what_is_collected(),
            books: account.books.figures(),
            before_books: account.before_books.figures(),
            backlog: BacklogFigures::of(account, clock),
            accepted_bytes: load(&account.accepted_bytes),
            delivered_bytes: load(&account.delivered_bytes),
            pending_bytes: pipeline.pending_bytes(),
            oldest_age: pipeline.oldest_age(),
            held_bytes: account.share.held(),
            share_bytes: account.share.limit(),
            in_flight: load(&stats.in_flight),
            parked: load(&stats.parked),
            retries: load(&stats.retries),
            refused_items: load(&stats.refused_items),
            concurrency_limit: load(&stats.concurrency),
            retry_budget: pipeline.retry_budget(),
            next_probe: pipeline.next_probe(),
            latency,
            latency_lately,
            answers: stats.answers.figures(),
            codes: pipeline.codes(),
            backend: stats.backend.figures(),
            was_tried: pipeline.was_tried(),
            expiry: pipeline.expiry(),
            credentials: pipeline.credentials(),
            setup_error: stats.setup_error(),
            rules: rules.map(RuleFigures::of).unwrap_or_default(),
            delta: rules.and_then(|rules| rules.delta.as_ref()).map(DeltaFigures::of),
        }
    }

    /// Bytes that it takes beside its own size.
    pub(super) fn heap(&self) -> usize {
        let causes = self.rules.iter().map(|rule| rule.cause.as_ref().map_or(0, String::capacity));
        let rules = self.rules.capacity() * size_of::<RuleFigures>() + causes.sum::<usize>();
        let backend = self.backend.code.capacity() + self.backend.message.capacity();
        let certificate = self.credentials.as_ref().and_then(|of| of.certificate.as_ref());
        let serial = certificate.and_then(|of| of.serial.as_ref()).map_or(0, String::capacity);
        let setup_error = self.setup_error.as_ref().map_or(0, String::capacity);
        let names = self.id.name.capacity() + self.exporter.capacity();
        names + setup_error + backend + serial + rules + tallies(&self.books)
    }
}

impl OrphanFigures {
    pub(super) fn of(account: &Account, clock: Clock) -> Self {
        let (id, books) = (account.id.clone(), account.books.figures());
        Self { id, books, backlog: BacklogFigures::of(account, clock) }
    }

    /// Bytes that it takes beside its own size.
    pub(super) fn heap(&self) -> usize {
        self.id.name.capacity() + tallies(&self.books)
    }
}

impl BacklogFigures {
    fn of(account: &Account, clock: Clock) -> Option<Self> {
        let queue = account.queue.as_ref()?;
        let (backlog, oldest_age) = (queue.backlog(), account.backlog_age(clock.now_ms()));
        let weir_plan::Backlog { max_bytes: limit_bytes, max_age: limit_age, .. } = queue.limits();
        Some(Self { items: backlog.items, bytes: backlog.bytes, limit_bytes, limit_age, oldest_age })
    }
}

impl RuleFigures {
    /// As the configuration calls it: `filter[0].conditions[1]`.
    pub fn field(&self) -> String {
        let Self { kind, rule, line, .. } = self;
        match *kind {
            "transform_condition" => format!("transform[{rule}].conditions[{line}]"),
            "transform_statement" => format!("transform[{rule}].statements[{line}]"),
            "filter_condition" => format!("filter[{rule}].conditions[{line}]"),
            _ => format!("filters[{rule}]"),
        }
    }

    fn of(rules: &Rules) -> Vec<Self> {
        let transforms = rules.transforms.iter().enumerate().flat_map(|(rule, transform)| {
            let conditions = Self::lines("transform_condition", rule, &transform.conditions);
            conditions.chain(Self::lines("transform_statement", rule, &transform.statements))
        });
        let filters = rules.filters.iter().enumerate();
        let filters = filters.flat_map(|(rule, filter)| Self::lines("filter_condition", rule, &filter.conditions));
        let sections = rules.sections.iter().flat_map(|sections| sections.conditions.iter().enumerate());
        let sections =
            sections.flat_map(|(rule, stats)| Self::lines("fluent_bit_filter", rule, std::slice::from_ref(stats)));
        transforms.chain(filters).chain(sections).collect()
    }

    fn lines(kind: &'static str, rule: usize, stats: &[RuleStats]) -> impl Iterator<Item = Self> {
        stats.iter().enumerate().map(move |(line, stats)| Self {
            kind,
            rule,
            line,
            matches: load(&stats.matched),
            errors: load(&stats.errors),
            filtered: load(&stats.filtered),
            cause: stats.cause.lock().unwrap_or_else(PoisonError::into_inner).clone(),
        })
    }
}

impl DeltaFigures {
    fn of(delta: &Delta) -> Self {
        Self { counts: delta.counts(), series: delta.series() }
    }
}

/// What the maps of the books take. Their nodes have up to eleven entries, and at least five unless there is only one
/// node.
fn tallies(books: &BookFigures) -> usize {
    const NODE_BYTES: usize = 512;
    fn nodes<K>(map: &BTreeMap<K, u64>) -> usize {
        map.len().div_ceil(5) * NODE_BYTES
    }
    let codes: usize = books.rejected.keys().map(String::capacity).sum();
    nodes(&books.filtered) + nodes(&books.dropped) + nodes(&books.rejected) + codes
}

fn load(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_is_called_as_the_configuration_calls_it() {
        let of = |(kind, line)| RuleFigures { kind, rule: 2, line, matches: 0, errors: 0, filtered: 0, cause: None };
        let kinds =
            [("transform_condition", 0), ("transform_statement", 1), ("filter_condition", 3), ("fluent_bit_filter", 0)];
        let fields =
            ["transform[2].conditions[0]", "transform[2].statements[1]", "filter[2].conditions[3]", "filters[2]"];
        assert_eq!(kinds.map(|kind| of(kind).field()), fields);
    }
}
