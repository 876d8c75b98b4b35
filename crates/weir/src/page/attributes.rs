//! `/api/attributes?pipeline=traces/shop`: which attributes the recent items have, and how many values each has.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};

use serde::Serialize;
use weir_engine::Text;
use weir_engine::admin::{Asked, Page, Shown};
use weir_legible::rfc3339_millis;
use weir_otlp::Signal;
use weir_otlp::common::{KeyValue, Resource, Scope};
use weir_otlp::metrics::{Data, ExponentialHistogramDataPoint, HistogramDataPoint, NumberDataPoint, SummaryDataPoint};
use weir_otlp::{logs, metrics, traces};

use super::json::{Refusal, parameters, show};
use super::recent::RecentPage;
use crate::page::Configurations;

/// Attributes that are told apart.
const MOST_ATTRIBUTES: usize = 1000;
/// How much of a key is shown.
const MOST_KEY_CHARS: usize = 200;

/// See the module.
#[derive(Debug)]
pub(super) struct AttributesPage {
    pub(super) recent: RecentPage,
    pub(super) configurations: Configurations,
}

impl AttributesPage {
    fn answer(&self, asked: &Asked<'_>, body: &mut Text) -> Result<Option<Shown>, Refusal> {
        let [pipeline] = parameters(asked.query, ["pipeline"])?;
        let id = self.configurations.pipeline(pipeline.unwrap_or_default())?.id;
        let items = self.recent.read(&id, true, asked).items;
        let requests = items.iter().map(|item| &item.request[..]);
        let since = items.first().map(|oldest| rfc3339_millis(oldest.unix_ms));
        let counts = Counts::of(id.signal, requests);
        Ok(show(body, &Answer { pipeline: id.to_string(), since, counts }))
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

#[derive(Serialize)]
struct Answer {
    pipeline: String,
    since: Option<String>,
    #[serde(flatten)]
    counts: Counts,
}

#[derive(Debug, PartialEq, Serialize)]
struct Counts {
    /// Items that were looked at, and all their bytes, with what is around each.
    items: usize,
    bytes: usize,
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

impl Counts {
    /// Of requests with an item each.
    fn of<'a>(signal: Signal, requests: impl Iterator<Item = &'a [u8]>) -> Self {
        let (mut seen, mut left_out) = (HashMap::<_, Seen>::new(), 0);
        let (mut items, mut bytes, hashes) = (0, 0, RandomState::new());
        for request in requests {
            (items, bytes) = (items + 1, bytes + request.len());
            each_attribute(signal, request, &mut |of, attribute| {
                let key = (of, attribute.key());
                if seen.len() == MOST_ATTRIBUTES && !seen.contains_key(&key) {
                    left_out += 1;
                    return;
                }
                let seen = seen.entry(key).or_default();
                seen.items += 1;
                seen.bytes += attribute.0.field_range().len();
                // The key is the same for all of them.
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
        Self { items, bytes, attributes, left_out }
    }
}

/// Calls `each` for the attributes of the items in a request and of all that is around them.
fn each_attribute<'a>(signal: Signal, request: &'a [u8], each: &mut Each<'_, 'a>) {
    match signal {
        Signal::Traces => {
            for resource in traces::resource_spans(request) {
                of_resource(resource.resource(), each);
                for scope in resource.scope_spans() {
                    of_scope(scope.scope(), each);
                    all("span", scope.spans().flat_map(|span| span.attributes()), each);
                }
            }
        }
        Signal::Logs => {
            for resource in logs::resource_logs(request) {
                of_resource(resource.resource(), each);
                for scope in resource.scope_logs() {
                    of_scope(scope.scope(), each);
                    all("log record", scope.log_records().flat_map(|record| record.attributes()), each);
                }
            }
        }
        Signal::Metrics => {
            for resource in metrics::resource_metrics(request) {
                of_resource(resource.resource(), each);
                for scope in resource.scope_metrics() {
                    of_scope(scope.scope(), each);
                    scope.metrics().filter_map(|metric| metric.data()).for_each(|data| of_points(data, each));
                }
            }
        }
    }
}

/// Is called with what has the attribute.
type Each<'c, 'a> = dyn FnMut(&'static str, KeyValue<'a>) + 'c;

fn of_resource<'a>(resource: Option<Resource<'a>>, each: &mut Each<'_, 'a>) {
    all("resource", resource.into_iter().flat_map(Resource::attributes), each);
}

fn of_scope<'a>(scope: Option<Scope<'a>>, each: &mut Each<'_, 'a>) {
    all("scope", scope.into_iter().flat_map(Scope::attributes), each);
}

fn of_points<'a>(data: Data<'a>, each: &mut Each<'_, 'a>) {
    for point in data.data_points() {
        match data {
            Data::Gauge(_) | Data::Sum(_) => all(POINT, NumberDataPoint(point).attributes(), each),
            Data::Histogram(_) => all(POINT, HistogramDataPoint(point).attributes(), each),
            Data::ExponentialHistogram(_) => all(POINT, ExponentialHistogramDataPoint(point).attributes(), each),
            Data::Summary(_) => all(POINT, SummaryDataPoint(point).attributes(), each),
        }
    }
}

const POINT: &str = "data point";

fn all<'a>(of: &'static str, attributes: impl Iterator<Item = KeyValue<'a>>, each: &mut Each<'_, 'a>) {
    attributes.for_each(|attribute| each(of, attribute));
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use weir_otlp::{Limits, from_json};

    use super::*;

    fn counts(signal: Signal, documents: &[Value]) -> Vec<(&'static str, String, u64, usize)> {
        let encode = |of: &Value| from_json(signal, of.to_string().as_bytes(), &Limits::default(), 1 << 20).unwrap();
        let requests: Vec<_> = documents.iter().map(encode).collect();
        let counts = Counts::of(signal, requests.iter().map(|request| &request[..]));
        let bytes: usize = requests.iter().map(Vec::len).sum();
        assert_eq!((counts.items, counts.bytes, counts.left_out), (documents.len(), bytes, 0));
        let all = counts.attributes.into_iter();
        all.map(|Attribute { of, key, items, values, .. }| (of, key, items, values)).collect()
    }

    fn attribute(key: &str, value: impl Into<Value>) -> Value {
        json!([{"key": key, "value": {"stringValue": value.into()}}])
    }

    #[test]
    fn values_of_every_kind_of_item_are_told_apart() {
        let around = |names: [&str; 3], item: Value| {
            json!({names[0]: [{"resource": {"attributes": attribute("host", "a")},
                names[1]: [{"scope": {"name": "s", "attributes": attribute("lib", "b")}, names[2]: [item]}]}]})
        };
        let id = |number: u64| format!("{number:032x}");
        let span = |number: u64| {
            let attributes = attribute("user", (number % 3).to_string());
            let span = json!({"traceId": id(number + 1), "spanId": &id(number + 1)[16..], "name": "a", "attributes": attributes});
            around(["resourceSpans", "scopeSpans", "spans"], span)
        };
        let spans: Vec<_> = (0..6).map(span).collect();
        let of = |of, key: &str, items, values| (of, key.to_owned(), items, values);
        let all = [of("span", "user", 6, 3), of("resource", "host", 6, 1), of("scope", "lib", 6, 1)];
        assert_eq!(counts(Signal::Traces, &spans), all);
        let record = json!({"body": {"stringValue": "a"}, "attributes": attribute("file", "c")});
        let record = around(["resourceLogs", "scopeLogs", "logRecords"], record);
        let all = [of("log record", "file", 1, 1), of("resource", "host", 1, 1), of("scope", "lib", 1, 1)];
        assert_eq!(counts(Signal::Logs, &[record]), all);
        let points = ["gauge", "sum", "histogram", "exponentialHistogram", "summary"].map(|kind| {
            let metric = json!({"name": "m", kind: {"dataPoints": [{"attributes": attribute("path", kind)}]}});
            around(["resourceMetrics", "scopeMetrics", "metrics"], metric)
        });
        let all = [of("data point", "path", 5, 5), of("resource", "host", 5, 1), of("scope", "lib", 5, 1)];
        assert_eq!(counts(Signal::Metrics, &points), all);
    }

    /// Whoever sends what has a key of its own each time takes no memory for that.
    #[test]
    fn keys_without_end_are_counted_and_not_kept() {
        let span = |number: usize| {
            let attributes = attribute(&format!("key{number}"), "a");
            let span =
                json!({"traceId": format!("{:032x}", 1), "spanId": format!("{:016x}", 1), "attributes": attributes});
            json!({"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]})
        };
        let encode =
            |of: Value| from_json(Signal::Traces, of.to_string().as_bytes(), &Limits::default(), 1 << 20).unwrap();
        let requests: Vec<_> = (0..MOST_ATTRIBUTES + 7).map(|number| encode(span(number))).collect();
        let counts = Counts::of(Signal::Traces, requests.iter().map(|request| &request[..]));
        assert_eq!((counts.attributes.len(), counts.left_out), (MOST_ATTRIBUTES, 7));
    }
}
