//! What cases are about: an item with a resource and a scope around it; and how a table of cases is read.

use serde_json::{Value, json};
use weir_otlp::from_json;
use weir_ottl::{Context, Signal};

use crate::plain::to_otlp;

/// Every context, for tests that are not about which of them is available.
pub(crate) const ALL: [Context; 8] = [
    Context::Resource,
    Context::Scope,
    Context::Span,
    Context::SpanEvent,
    Context::Metric,
    Context::DataPoint,
    Context::Exemplar,
    Context::Log,
];

const POINTS: [&str; 5] = ["gauge", "sum", "histogram", "exponentialHistogram", "summary"];

/// What the cases are about.
#[derive(Clone, PartialEq)]
pub(crate) struct Subject {
    pub(crate) kind: String,
    pub(crate) item: Value,
    pub(crate) resource: Value,
    pub(crate) scope: Value,
}

impl Default for Subject {
    fn default() -> Self {
        Self {
            kind: "span".to_owned(),
            item: json!({}),
            resource: json!({"attributes": {"service.name": "shop"}}),
            scope: json!({"name": "lib", "version": "1.2"}),
        }
    }
}

impl Subject {
    pub(crate) fn signal(&self) -> Signal {
        match self.kind.as_str() {
            "span" | "spanevent" => Signal::Traces,
            "log" => Signal::Logs,
            _ => Signal::Metrics,
        }
    }

    pub(crate) fn context(&self) -> &str {
        if POINTS.contains(&self.kind.as_str()) { "datapoint" } else { &self.kind }
    }

    /// The way from the scope to the item, by names and indexes.
    pub(crate) fn way(&self) -> String {
        match self.kind.as_str() {
            "span" => "/spans/0".to_owned(),
            "spanevent" => "/spans/0/events/0".to_owned(),
            "log" => "/logRecords/0".to_owned(),
            "metric" => "/metrics/0".to_owned(),
            "exemplar" => "/metrics/0/gauge/dataPoints/0/exemplars/0".to_owned(),
            kind => format!("/metrics/0/{kind}/dataPoints/0"),
        }
    }

    pub(crate) fn names(&self) -> [&str; 2] {
        match self.signal() {
            Signal::Traces => ["resourceSpans", "scopeSpans"],
            Signal::Metrics => ["resourceMetrics", "scopeMetrics"],
            Signal::Logs => ["resourceLogs", "scopeLogs"],
        }
    }

    pub(crate) fn request(&self) -> Vec<u8> {
        let mut inner = self.item.clone();
        for step in self.way().rsplit('/').filter(|step| !step.is_empty()) {
            inner = if step == "0" { json!([inner]) } else { json!({ step: inner }) };
        }
        inner["scope"] = self.scope.clone();
        let [resources, scopes] = self.names();
        let request = json!({ resources: [{"resource": self.resource, scopes: [inner]}] });
        let text = to_otlp(&request).to_string();
        from_json(self.signal(), text.as_bytes(), &weir_otlp::Limits::default(), 1 << 24).unwrap()
    }

    /// A condition, together with something that is true and names the context.
    pub(crate) fn anchored(&self, condition: &str) -> String {
        format!("({condition}) and {}.cache != nil", self.context())
    }

    /// A statement that stores the value of an expression under the key `result`, and the field it is in.
    pub(crate) fn store(&self, expression: &str) -> (String, &'static str) {
        let (map, field) = match self.kind.as_str() {
            "metric" => ("metadata", "metadata"),
            "exemplar" => ("filtered_attributes", "filteredAttributes"),
            _ => ("attributes", "attributes"),
        };
        (format!("set({}.{map}[\"result\"], {expression})", self.context()), field)
    }
}

/// The tables of cases, by name.
pub(crate) const TABLES: [(&str, &str); 17] = [
    ("language", include_str!("cases/language.txt")),
    ("operators", include_str!("cases/operators.txt")),
    ("paths", include_str!("cases/paths.txt")),
    ("contexts", include_str!("cases/contexts.txt")),
    ("editors", include_str!("cases/editors.txt")),
    ("refusals", include_str!("cases/refusals.txt")),
    ("editing", include_str!("cases/editing.txt")),
    ("converters", include_str!("cases/converters.txt")),
    ("converters_bytes", include_str!("cases/converters_bytes.txt")),
    ("converters_format", include_str!("cases/converters_format.txt")),
    ("converters_lists", include_str!("cases/converters_lists.txt")),
    ("converters_times", include_str!("cases/converters_times.txt")),
    ("metrics", include_str!("cases/metrics.txt")),
    ("parsers", include_str!("cases/parsers.txt")),
    ("span_names", include_str!("cases/span_names.txt")),
    ("xml", include_str!("cases/xml.txt")),
    ("documentation", include_str!("cases/documentation.txt")),
];

/// The cases in which the reference does something else; `docs/ottl-differences.md` says why.
pub(crate) const DIFFERENCES: (&str, &str) = ("differences", include_str!("cases/differences.txt"));

/// A line of a table.
pub(crate) struct Case<'t> {
    /// Where it stands, from 1.
    pub(crate) line: usize,
    pub(crate) word: &'t str,
    pub(crate) what: &'t str,
    pub(crate) expected: &'t str,
    pub(crate) subject: Subject,
}

/// The cases of a table.
pub(crate) fn cases(table: &str) -> Vec<Case<'_>> {
    let mut subject = Subject::default();
    let mut cases = Vec::new();
    for (index, line) in table.lines().enumerate().filter(|(_, line)| !line.is_empty() && !line.starts_with('#')) {
        let (word, rest) = line.split_once(' ').unwrap_or_else(|| panic!("line {}: one word", index + 1));
        let json = |text: &str| -> Value { serde_json::from_str(text).unwrap_or_else(|e| panic!("{text}: {e}")) };
        match word {
            "item" => {
                let (kind, item) = rest.split_once(' ').unwrap();
                (subject.kind, subject.item) = (kind.to_owned(), json(item));
            }
            "resource" => subject.resource = json(rest),
            "scope" => subject.scope = json(rest),
            word => {
                let (what, expected) = rest.split_once(" --> ").unwrap_or((rest, ""));
                let (what, expected) = (what.trim(), expected.trim());
                cases.push(Case { line: index + 1, word, what, expected, subject: subject.clone() });
            }
        }
    }
    cases
}
