//! `/api/attributes?pipeline=traces/shop`: which attributes the items have that passed lately, and how many values each has.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};

use serde::Serialize;
use weir_engine::Text;
use weir_engine::admin::{Asked, Page, Shown};
use weir_engine::taps::RecentItems;
use weir_otlp::Signal;
use weir_otlp::common::KeyValue;
use weir_otlp::metrics::{Data, ExponentialHistogramDataPoint, HistogramDataPoint, NumberDataPoint, SummaryDataPoint};
use weir_otlp::{logs, metrics, traces};

use super::json::{Refusal, parameters, show};
use super::recent::find;
use crate::page::Configurations;

/// Attributes that are told apart.
const MOST_ATTRIBUTES: usize = 1000;
/// How much of a key is shown.
const MOST_KEY_CHARS: usize = 200;

/// See the module.
#[derive(Debug)]
pub(super) struct AttributesPage(pub(super) Configurations);

impl AttributesPage {
    fn answer(&self, asked: &Asked<'_>, body: &mut Text) -> Result<Option<Shown>, Refusal> {
        let [pipeline] = parameters(asked.query, ["pipeline"])?;
        let (id, recent) = find(&self.0, pipeline.unwrap_or_default(), asked.view)?;
        Ok(show(body, &Answer::of(id.signal, id.to_string(), &recent)))
    }
}

impl Page for AttributesPage {
    fn makes_documents(&self) -> bool {
        true
    }

    fn show(&self, asked: &Asked<'_>, body: &mut Text) -> Option<Shown> {
        self.answer(asked, body).unwrap_or_else(|refusal| refusal.show(body))
    }
}

#[derive(Debug, Serialize)]
struct Answer {
    pipeline: String,
    /// Items that were looked at, and all their bytes, with what is around each.
    items: usize,
    bytes: usize,
    since_unix_ms: Option<u64>,
    /// Those with the most values first.
    attributes: Vec<Attribute>,
    /// Attributes of items for which there was no room here.
    left_out: u64,
}

#[derive(Debug, PartialEq, Serialize)]
struct Attribute {
    /// `resource`, `scope`, `span`, `log record` or `data point`.
    of: &'static str,
    key: String,
    /// Items that have it.
    items: u64,
    /// How many different values these have.
    values: usize,
    /// What it takes in all of them, with its key.
    bytes: usize,
}

#[derive(Default)]
struct Seen {
    items: u64,
    bytes: usize,
    values: HashSet<u64>,
}

impl Answer {
    fn of(signal: Signal, pipeline: String, recent: &RecentItems) -> Self {
        let (mut seen, mut left_out) = (HashMap::<_, Seen>::new(), 0);
        let hashes = RandomState::new();
        let items = &recent.passed;
        for item in items {
            each_attribute(signal, &item.request, &mut |of, attribute| {
                let key = (of, attribute.key());
                if seen.len() == MOST_ATTRIBUTES && !seen.contains_key(&key) {
                    left_out += 1;
                    return;
                }
                let seen = seen.entry(key).or_default();
                seen.items += 1;
                seen.bytes += attribute.0.field_range().len();
                // Everything in it but the key says which value it is.
                seen.values.insert(hashes.hash_one(attribute.0.body()));
            });
        }
        let attribute = |((of, key), seen): ((_, &str), Seen)| Attribute {
            of,
            key: key.chars().take(MOST_KEY_CHARS).collect(),
            items: seen.items,
            values: seen.values.len(),
            bytes: seen.bytes,
        };
        let mut attributes: Vec<_> = seen.into_iter().map(attribute).collect();
        attributes.sort_by(|one, other| (Reverse(one.values), &one.key).cmp(&(Reverse(other.values), &other.key)));
        Self {
            pipeline,
            items: items.len(),
            bytes: items.iter().map(|item| item.request.len()).sum(),
            since_unix_ms: items.first().map(|oldest| oldest.unix_ms),
            attributes,
            left_out,
        }
    }
}

/// Calls `each` for the attributes of the items in a request and of all that is around them.
fn each_attribute<'a>(signal: Signal, request: &'a [u8], each: &mut dyn FnMut(&'static str, KeyValue<'a>)) {
    match signal {
        Signal::Traces => {
            for resource in traces::resource_spans(request) {
                all("resource", resource.resource().into_iter().flat_map(|of| of.attributes()), each);
                for scope in resource.scope_spans() {
                    all("scope", scope.scope().into_iter().flat_map(|of| of.attributes()), each);
                    all("span", scope.spans().flat_map(|span| span.attributes()), each);
                }
            }
        }
        Signal::Logs => {
            for resource in logs::resource_logs(request) {
                all("resource", resource.resource().into_iter().flat_map(|of| of.attributes()), each);
                for scope in resource.scope_logs() {
                    all("scope", scope.scope().into_iter().flat_map(|of| of.attributes()), each);
                    all("log record", scope.log_records().flat_map(|record| record.attributes()), each);
                }
            }
        }
        Signal::Metrics => {
            for resource in metrics::resource_metrics(request) {
                all("resource", resource.resource().into_iter().flat_map(|of| of.attributes()), each);
                for scope in resource.scope_metrics() {
                    all("scope", scope.scope().into_iter().flat_map(|of| of.attributes()), each);
                    scope.metrics().filter_map(|metric| metric.data()).for_each(|data| of_points(data, each));
                }
            }
        }
    }
}

fn of_points<'a>(data: Data<'a>, each: &mut dyn FnMut(&'static str, KeyValue<'a>)) {
    for point in data.data_points() {
        match data {
            Data::Gauge(_) | Data::Sum(_) => all("data point", NumberDataPoint(point).attributes(), each),
            Data::Histogram(_) => all("data point", HistogramDataPoint(point).attributes(), each),
            Data::ExponentialHistogram(_) => {
                all("data point", ExponentialHistogramDataPoint(point).attributes(), each);
            }
            Data::Summary(_) => all("data point", SummaryDataPoint(point).attributes(), each),
        }
    }
}

fn all<'a>(
    of: &'static str,
    attributes: impl Iterator<Item = KeyValue<'a>>,
    each: &mut dyn FnMut(&'static str, KeyValue<'a>),
) {
    attributes.for_each(|attribute| each(of, attribute));
}
