//! The three kinds of telemetry, and where their messages differ.

use crate::field::{gauge, metric, request, resource_data, scope_data};
use crate::schema::{self, Message};

/// A kind of telemetry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Signal {
    /// Spans.
    Traces,
    /// Metric data points.
    Metrics,
    /// Log records.
    Logs,
}

/// Field numbers that lead from a message to its items, one level after the other; a level may have several.
pub(crate) type Chain = &'static [&'static [u32]];

impl Signal {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Traces, Self::Metrics, Self::Logs];

    /// `traces`, `metrics` or `logs`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Traces => "traces",
            Self::Metrics => "metrics",
            Self::Logs => "logs",
        }
    }

    /// The gRPC method that takes it.
    pub const fn grpc_method(self) -> &'static str {
        match self {
            Self::Traces => "/opentelemetry.proto.collector.trace.v1.TraceService/Export",
            Self::Metrics => "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export",
            Self::Logs => "/opentelemetry.proto.collector.logs.v1.LogsService/Export",
        }
    }

    /// The path of OTLP/HTTP that takes it.
    pub const fn http_path(self) -> &'static str {
        match self {
            Self::Traces => "/v1/traces",
            Self::Metrics => "/v1/metrics",
            Self::Logs => "/v1/logs",
        }
    }

    /// What requests of this signal are made of.
    pub(crate) fn schema(self) -> &'static Message {
        match self {
            Self::Traces => &schema::traces::REQUEST,
            Self::Metrics => &schema::metrics::REQUEST,
            Self::Logs => &schema::logs::REQUEST,
        }
    }

    /// Resource data in a request, scope data in those, items in those; data points are two levels deeper, in the data
    /// of a metric: gauge, sum, histogram, exponential histogram or summary.
    pub(crate) fn chain(self) -> Chain {
        match self {
            Self::Traces | Self::Logs => &[&[request::RESOURCES], &[resource_data::SCOPES], &[scope_data::ITEMS]],
            Self::Metrics => &[
                &[request::RESOURCES],
                &[resource_data::SCOPES],
                &[scope_data::ITEMS],
                &metric::DATA,
                &[gauge::DATA_POINTS],
            ],
        }
    }

    /// What OTLP/JSON calls the number of items in a partial success.
    pub(crate) fn rejected_in_json(self) -> &'static str {
        match self {
            Self::Traces => "rejectedSpans",
            Self::Metrics => "rejectedDataPoints",
            Self::Logs => "rejectedLogRecords",
        }
    }
}
