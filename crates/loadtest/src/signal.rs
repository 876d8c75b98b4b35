//! The three signals, and what each calls its things.

use std::fmt;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use crate::grpc;

/// What telemetry is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Signal {
    /// Spans
    Traces,
    /// Data points
    Metrics,
    /// Log records
    #[value(alias = "logs-otel")]
    Logs,
}

impl Signal {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Traces, Self::Metrics, Self::Logs];

    /// Its name in OTLP and in a collector's configuration.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Traces => "traces",
            Self::Metrics => "metrics",
            Self::Logs => "logs",
        }
    }

    /// What is counted, as people say it.
    pub(crate) fn items(self) -> &'static str {
        match self {
            Self::Traces => "spans",
            Self::Metrics => "points",
            Self::Logs => "records",
        }
    }

    /// What is counted, as it stands in the names of a gateway's metrics.
    pub(crate) fn series(self) -> &'static str {
        match self {
            Self::Traces => "spans",
            Self::Metrics => "metric_points",
            Self::Logs => "log_records",
        }
    }

    /// The kind of its pipelines.
    pub(crate) fn kind(self) -> &'static str {
        match self {
            Self::Traces => "TracePipeline",
            Self::Metrics => "MetricPipeline",
            Self::Logs => "LogPipeline",
        }
    }

    /// Path of its gRPC export method.
    pub fn grpc_path(self) -> &'static str {
        match self {
            Self::Traces => grpc::EXPORT_TRACES,
            Self::Metrics => grpc::EXPORT_METRICS,
            Self::Logs => grpc::EXPORT_LOGS,
        }
    }

    /// Path of its exports over HTTP.
    pub fn http_path(self) -> &'static str {
        match self {
            Self::Traces => "/v1/traces",
            Self::Metrics => "/v1/metrics",
            Self::Logs => "/v1/logs",
        }
    }
}

impl fmt::Display for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
