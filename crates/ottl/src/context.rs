//! Signals, contexts, and where in a request the messages of a context stand.

use std::fmt;

use weir_otlp::Signal;

/// What a statement is evaluated for, one after the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Context {
    /// `log`: a log record.
    Log,
    /// `exemplar`: an exemplar of a data point.
    Exemplar,
    /// `datapoint`: a data point of a metric.
    DataPoint,
    /// `metric`: a metric with all its data points.
    Metric,
    /// `spanevent`: an event of a span.
    SpanEvent,
    /// `span`: a span.
    Span,
    /// `scope`: an instrumentation scope.
    Scope,
    /// `resource`: a resource.
    Resource,
}

/// All contexts, the innermost first: the order in which the reference prefers them.
pub(crate) const ALL: [Context; 8] = [
    Context::Log,
    Context::Exemplar,
    Context::DataPoint,
    Context::Metric,
    Context::SpanEvent,
    Context::Span,
    Context::Scope,
    Context::Resource,
];

impl Context {
    /// The name in paths.
    pub fn name(self) -> &'static str {
        match self {
            Self::Log => "log",
            Self::Exemplar => "exemplar",
            Self::DataPoint => "datapoint",
            Self::Metric => "metric",
            Self::SpanEvent => "spanevent",
            Self::Span => "span",
            Self::Scope => "scope",
            Self::Resource => "resource",
        }
    }

    /// The context of that name; `instrumentation_scope` is the old name of `scope`.
    pub fn named(name: &str) -> Option<Self> {
        let name = if name == "instrumentation_scope" { "scope" } else { name };
        ALL.into_iter().find(|context| context.name() == name)
    }

    /// Whether the signal has such items.
    pub fn is_of(self, signal: Signal) -> bool {
        match self {
            Self::Resource | Self::Scope => true,
            Self::Span | Self::SpanEvent => signal == Signal::Traces,
            Self::Metric | Self::DataPoint | Self::Exemplar => signal == Signal::Metrics,
            Self::Log => signal == Signal::Logs,
        }
    }

    /// Whether a statement evaluated here can use paths of the other context.
    pub(crate) fn sees(self, other: Self) -> bool {
        self == other
            || match other {
                Self::Resource => true,
                Self::Scope => self != Self::Resource,
                Self::Span => self == Self::SpanEvent,
                Self::Metric => matches!(self, Self::DataPoint | Self::Exemplar),
                Self::DataPoint => self == Self::Exemplar,
                Self::Log | Self::Exemplar | Self::SpanEvent => false,
            }
    }
}

impl fmt::Display for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The messages on the way from a request to the thing that a statement is evaluated for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Level {
    /// `ResourceSpans` and its like.
    ResourceData,
    /// `Resource`
    Resource,
    /// `ScopeSpans` and its like.
    ScopeData,
    /// `InstrumentationScope`
    Scope,
    /// `Span`, `LogRecord` or `Metric`
    Item,
    /// `Gauge`, `Sum` and their like.
    Data,
    /// A data point of any type.
    Point,
    /// `Span.Event` or `Exemplar`
    Leaf,
}

/// How many levels there are.
pub(crate) const LEVELS: usize = 8;

impl Level {
    /// Its place in lists of all levels.
    pub(crate) fn index(self) -> usize {
        self as usize
    }
}

/// The type of a data point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PointKind {
    /// `NumberDataPoint`
    Number,
    /// `HistogramDataPoint`
    Histogram,
    /// `ExponentialHistogramDataPoint`
    Exponential,
    /// `SummaryDataPoint`
    Summary,
}

impl PointKind {
    /// The type of the points in the member of `Metric.data` with this number.
    pub(crate) fn of_data(number: u32) -> Option<Self> {
        Some(match number {
            5 | 7 => Self::Number,
            9 => Self::Histogram,
            10 => Self::Exponential,
            11 => Self::Summary,
            _ => return None,
        })
    }

    /// Its place in lists of all types.
    pub(crate) fn index(self) -> usize {
        self as usize
    }

    /// Number of the attributes field.
    pub(crate) fn attributes(self) -> u32 {
        [7, 9, 1, 7][self.index()]
    }

    /// Number of the exemplars field; 0 when there are none.
    pub(crate) fn exemplars(self) -> u32 {
        [5, 8, 11, 0][self.index()]
    }
}

/// Values of the enums of a context, as in `contexts/internal/ctx*/symbols.go`.
pub(crate) fn enums(context: Context) -> impl Iterator<Item = (&'static str, i64)> {
    let tables: &[&[(&str, i64)]] = match context {
        Context::Log => &[SEVERITY_NUMBERS],
        Context::DataPoint => &[METRICS, FLAGS],
        Context::Metric => &[METRICS],
        Context::SpanEvent | Context::Span => &[SPANS],
        Context::Exemplar | Context::Scope | Context::Resource => &[],
    };
    tables.iter().flat_map(|table| table.iter().copied())
}

const SPANS: &[(&str, i64)] = &[
    ("SPAN_KIND_UNSPECIFIED", 0),
    ("SPAN_KIND_INTERNAL", 1),
    ("SPAN_KIND_SERVER", 2),
    ("SPAN_KIND_CLIENT", 3),
    ("SPAN_KIND_PRODUCER", 4),
    ("SPAN_KIND_CONSUMER", 5),
    ("STATUS_CODE_UNSET", 0),
    ("STATUS_CODE_OK", 1),
    ("STATUS_CODE_ERROR", 2),
];

const FLAGS: &[(&str, i64)] = &[("FLAG_NONE", 0), ("FLAG_NO_RECORDED_VALUE", 1)];

const METRICS: &[(&str, i64)] = &[
    ("AGGREGATION_TEMPORALITY_UNSPECIFIED", 0),
    ("AGGREGATION_TEMPORALITY_DELTA", 1),
    ("AGGREGATION_TEMPORALITY_CUMULATIVE", 2),
    ("METRIC_DATA_TYPE_NONE", 0),
    ("METRIC_DATA_TYPE_GAUGE", 1),
    ("METRIC_DATA_TYPE_SUM", 2),
    ("METRIC_DATA_TYPE_HISTOGRAM", 3),
    ("METRIC_DATA_TYPE_EXPONENTIAL_HISTOGRAM", 4),
    ("METRIC_DATA_TYPE_SUMMARY", 5),
];

const SEVERITY_NUMBERS: &[(&str, i64)] = &[
    ("SEVERITY_NUMBER_UNSPECIFIED", 0),
    ("SEVERITY_NUMBER_TRACE", 1),
    ("SEVERITY_NUMBER_TRACE2", 2),
    ("SEVERITY_NUMBER_TRACE3", 3),
    ("SEVERITY_NUMBER_TRACE4", 4),
    ("SEVERITY_NUMBER_DEBUG", 5),
    ("SEVERITY_NUMBER_DEBUG2", 6),
    ("SEVERITY_NUMBER_DEBUG3", 7),
    ("SEVERITY_NUMBER_DEBUG4", 8),
    ("SEVERITY_NUMBER_INFO", 9),
    ("SEVERITY_NUMBER_INFO2", 10),
    ("SEVERITY_NUMBER_INFO3", 11),
    ("SEVERITY_NUMBER_INFO4", 12),
    ("SEVERITY_NUMBER_WARN", 13),
    ("SEVERITY_NUMBER_WARN2", 14),
    ("SEVERITY_NUMBER_WARN3", 15),
    ("SEVERITY_NUMBER_WARN4", 16),
    ("SEVERITY_NUMBER_ERROR", 17),
    ("SEVERITY_NUMBER_ERROR2", 18),
    ("SEVERITY_NUMBER_ERROR3", 19),
    ("SEVERITY_NUMBER_ERROR4", 20),
    ("SEVERITY_NUMBER_FATAL", 21),
    ("SEVERITY_NUMBER_FATAL2", 22),
    ("SEVERITY_NUMBER_FATAL3", 23),
    ("SEVERITY_NUMBER_FATAL4", 24),
];
