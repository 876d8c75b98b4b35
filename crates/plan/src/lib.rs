//! The plan: what a Weir process is asked to run, as plain, fully resolved data.
//!
//! It stands between configuration and engine so that neither knows the other: `weir-resources` compiles documents
//! to a [`Plan`], `weir-engine` runs one. It must not know YAML, custom resources, sockets or the file system. Every
//! value in a plan is final; defaults are known here only of what every pipeline has.
//!
//! Facts about a cluster ([`ClusterFacts`]) and the state of its objects ([`ClusterState`]) are plain data as well, and no
//! part of a plan. Nor are the names that Weir goes by ([`names`]), which several crates have to agree on.

#![forbid(unsafe_code)]

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

mod cluster;
mod cluster_state;
mod common;
mod enrichment;
mod fluent_bit;
mod id;
mod input;
mod intervals;
mod labels;
mod multiline;
pub mod names;
mod processing;
mod runtime_metrics;
mod scrapable;

pub use cluster::{Cluster, ClusterFacts, Pod, Workload, WorkloadKind};
pub use cluster_state::{
    ClusterObject, ClusterState, Condition, ContainerState, DaemonSetState, EndpointCounts, EndpointGroup, HpaState,
    JobState, NodeState, ObjectState, PodState, ReplicaState, ResourceAmounts, ResourceStatus, RunState, ServiceState,
    StatefulSetState, StorageState, Thousandths,
};
pub use common::Common;
pub use enrichment::{Enrichment, PodLabels, ServiceEnrichment};
pub use fluent_bit::{Date, DateFormat, FluentBit, FluentBitFormat, Section, SectionLine, Sink};
pub use id::{NotAPipeline, PipelineId};
pub use input::{
    ContainerLogs, Input, IstioInput, OtlpInput, PrometheusInput, RecordShape, RuntimeInput, RuntimeResource, Selector,
};
pub use intervals::CollectionIntervals;
pub use labels::Labels;
pub use multiline::{Language, Multiline};
pub use processing::{Filter, Processing, Temporality, Transform};
pub use runtime_metrics::{RuntimeData, RuntimeMetric, RuntimeMetrics};
pub use scrapable::{
    SCRAPE_ANNOTATION, ScrapableContainer, ScrapableEndpoint, ScrapablePod, ScrapablePort, ScrapableService, Scrapables,
};
pub use weir_otlp::Signal;

/// The memory that a pipeline needs, in bytes, whatever it has to do: a connection to its backend, places for some pieces,
/// tables.
pub const MEMORY_PER_PIPELINE: usize = 1 << 20;

/// Everything a process runs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Plan {
    /// Pipelines in the order in which their documents were read. Names are unique per signal.
    pub pipelines: Vec<Pipeline>,
    /// What is added to every request before pipelines see it.
    pub enrichment: Enrichment,
    /// How often metrics are fetched.
    pub intervals: CollectionIntervals,
}

/// One pipeline: what it takes, and where it sends that.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pipeline {
    /// The signal it takes, and its name.
    pub id: PipelineId,
    /// Which telemetry it takes.
    pub input: Input,
    /// What happens to it on the way.
    pub processing: Processing,
    /// Its backend.
    pub output: Output,
    /// How much it keeps of what its backend has not taken.
    pub backlog: Backlog,
    /// Whether it has text in Fluent Bit's own language, which the reference calls its unsupported mode.
    pub unsupported_mode: bool,
}

/// What a pipeline keeps on disk of what its backend has not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backlog {
    /// Payload bytes at most.
    pub max_bytes: u64,
    /// Age at most.
    pub max_age: Duration,
    /// What happens at the limit in bytes.
    pub overflow: Overflow,
}

/// What a pipeline does when its backlog is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Overflow {
    /// Its own oldest data makes room, counted as dropped.
    DropOldest,
    /// Clients are asked to send again later.
    Refuse,
}

impl Backlog {
    /// An hour of a busy cluster's telemetry, and a fraction of the smallest volume that is sold for data.
    pub const MAX_BYTES: u64 = 10 << 30;
    /// Telemetry older than a day answers few questions.
    pub const MAX_AGE: Duration = Duration::from_secs(24 * 60 * 60);
}

impl Default for Backlog {
    fn default() -> Self {
        Self { max_bytes: Self::MAX_BYTES, max_age: Self::MAX_AGE, overflow: Overflow::DropOldest }
    }
}

impl Output {
    /// An output without a backend: everything else is in what it makes of records.
    pub fn local(settings: FluentBit) -> Self {
        Self {
            protocol: Protocol::Http,
            body: Body::FluentBit(settings),
            endpoint: Endpoint { host: String::new(), port: 0, path: String::new() },
            compression: Compression::None,
            headers: Vec::new(),
            oauth2: None,
            tls: None,
        }
    }

    /// Where data goes, in words: `stdout`, or `host:port/path`.
    pub fn destination(&self) -> String {
        let Endpoint { host, port, .. } = &self.endpoint;
        match &self.body {
            Body::FluentBit(FluentBit { to: Sink::Stdout, .. }) => "stdout".to_owned(),
            Body::FluentBit(FluentBit { to: Sink::Null, .. }) => "nowhere (null)".to_owned(),
            _ => format!("{host}:{port}{}", self.public_path()),
        }
    }

    /// The path of the endpoint, unless a Secret may be part of it, as in Fluent Bit's own language.
    pub fn public_path(&self) -> &str {
        match &self.body {
            Body::FluentBit(FluentBit { kyma: false, .. }) => "",
            _ => &self.endpoint.path,
        }
    }

    /// Whether there is a backend that is connected to.
    pub fn is_remote(&self) -> bool {
        !matches!(&self.body, Body::FluentBit(FluentBit { to: Sink::Stdout | Sink::Null, .. }))
    }
}

impl Pipeline {
    /// A pipeline that takes everything of its signal and sends it on as it is.
    pub fn new(signal: Signal, name: impl Into<String>, output: Output) -> Self {
        let (input, processing, backlog) = (Input::default(), Processing::default(), Backlog::default());
        let id = PipelineId::new(signal, name);
        Self { id, input, processing, output, backlog, unsupported_mode: false }
    }

    /// What the metrics of exporters call the pipeline, as dashboards of the field expect:
    /// `otlp_grpc/tracepipeline-backend`.
    pub fn exporter_label(&self) -> String {
        let transport = match (&self.output.body, self.output.protocol) {
            (Body::FluentBit(FluentBit { to: Sink::Http, .. }), _) => "http",
            (Body::FluentBit(FluentBit { to: Sink::Stdout, .. }), _) => "stdout",
            (Body::FluentBit(FluentBit { to: Sink::Null, .. }), _) => "null",
            (Body::Otlp, Protocol::Grpc) => "otlp_grpc",
            (Body::Otlp, Protocol::Http) => "otlp_http",
        };
        let kind = match self.id.signal {
            Signal::Traces => "tracepipeline",
            Signal::Metrics => "metricpipeline",
            Signal::Logs => "logpipeline",
        };
        format!("{transport}/{kind}-{}", self.id.name)
    }
}

/// A backend and how to reach it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Output {
    /// Over gRPC or over HTTP.
    pub protocol: Protocol,
    /// What is in the requests.
    pub body: Body,
    /// Where it listens.
    pub endpoint: Endpoint,
    /// How request bodies are compressed.
    pub compression: Compression,
    /// Extra request headers (basic authentication arrives here as `authorization`).
    pub headers: Vec<Header>,
    /// OAuth2 client credentials, when the backend wants a bearer token.
    pub oauth2: Option<OAuth2>,
    /// Transport security; `None` is plain text.
    pub tls: Option<Tls>,
}

/// What is in the requests to a backend.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Body {
    /// OTLP.
    #[default]
    Otlp,
    /// Records as Fluent Bit sends them, over [`Protocol::Http`], of [`RecordShape::Raw`]. Only those that go
    /// [`to`](FluentBit::to) an endpoint have one.
    FluentBit(FluentBit),
}

/// Transport of requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// OTLP/gRPC.
    Grpc,
    /// HTTP; OTLP has protobuf bodies.
    Http,
}

/// Compression of request bodies sent to a backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    /// Bodies are sent as they are.
    None,
    /// gzip, the default.
    Gzip,
    /// snappy (framed for gRPC, one raw block for HTTP, as the field does).
    Snappy,
    /// zstd.
    Zstd,
}

/// A resolved backend address. A Secret may be part of its path, which is never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// Host name or IP address, without brackets.
    pub host: String,
    /// TCP port.
    pub port: u16,
    /// Request path for HTTP, with its leading slash and the signal's `/v1/...` already applied; empty for gRPC.
    pub path: String,
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint").field("host", &self.host).field("port", &self.port).finish_non_exhaustive()
    }
}

/// A request header.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Header {
    /// Lower-case header name.
    pub name: String,
    /// Full value, any prefix applied.
    pub value: Secret,
}

/// OAuth2 client-credentials grant (RFC 6749 4.4). Nothing of it is printed: all of it may come from Secrets.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct OAuth2 {
    /// Token endpoint, an absolute http(s) URL.
    pub token_url: String,
    /// Client id.
    pub client_id: Secret,
    /// Client secret.
    pub client_secret: Secret,
    /// Requested scopes.
    pub scopes: Vec<String>,
    /// Additional form parameters.
    pub params: Vec<(String, Secret)>,
    /// PEM bundle that replaces the system's roots for the token endpoint. Pipelines with the same bundle share its text.
    pub ca_pem: Option<Arc<str>>,
}

impl fmt::Debug for OAuth2 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OAuth2(***)")
    }
}

/// How TLS to a backend is verified and with which identity.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Tls {
    /// Accept any server certificate.
    pub insecure_skip_verify: bool,
    /// PEM bundle that replaces the system's roots. Pipelines with the same bundle share its text.
    pub ca_pem: Option<Arc<str>>,
    /// Client certificate for mutual TLS.
    pub identity: Option<Identity>,
}

/// Client certificate and key.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Identity {
    /// PEM certificate chain.
    pub cert_pem: String,
    /// PEM private key.
    pub key_pem: Secret,
}

/// A value that is never printed.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Secret(String);

impl Secret {
    /// Wraps a value.
    pub fn new(value: impl Into<String>) -> Self {
        Self(value.into())
    }

    /// The value, for use on the wire only.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(***)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_do_not_print() {
        let header = Header { name: "authorization".into(), value: Secret::new("Bearer hunter2") };
        assert!(!format!("{header:?}").contains("hunter2"));
    }
}
