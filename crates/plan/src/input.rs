//! What a pipeline takes: telemetry that clients push, and what is collected for it.

use crate::{Multiline, RuntimeMetrics};

/// What a pipeline takes. An input that is turned off, or that the pipeline's kind does not have, is `None`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Input {
    /// Telemetry that clients push.
    pub otlp: Option<OtlpInput>,
    /// Metrics of nodes and workloads.
    pub runtime: Option<RuntimeInput>,
    /// Metrics of annotated pods and services.
    pub prometheus: Option<PrometheusInput>,
    /// Metrics of Istio's proxies.
    pub istio: Option<IstioInput>,
    /// What containers print: the input `runtime` of a `LogPipeline`.
    pub container_logs: Option<ContainerLogs>,
    /// Whether the traffic that telemetry itself causes in a service mesh is left out.
    pub drop_istio_noise: bool,
}

impl Default for Input {
    /// Everything that clients push but noise.
    fn default() -> Self {
        Self {
            otlp: Some(OtlpInput::default()),
            runtime: None,
            prometheus: None,
            istio: None,
            container_logs: None,
            drop_istio_noise: true,
        }
    }
}

/// Telemetry that clients push.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OtlpInput {
    /// By `k8s.namespace.name`. Telemetry without a namespace is always taken.
    pub namespaces: Selector,
}

/// Metrics of nodes and workloads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuntimeInput {
    /// From where. What has no namespace, such as a node, is always taken.
    pub namespaces: Selector,
    /// Those of the resources that it reports on, and those that it names.
    pub metrics: RuntimeMetrics,
}

/// What the runtime input reports on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RuntimeResource {
    /// Pods.
    Pod,
    /// Containers.
    Container,
    /// Nodes.
    Node,
    /// Volumes of pods.
    Volume,
    /// DaemonSets.
    DaemonSet,
    /// Deployments.
    Deployment,
    /// StatefulSets.
    StatefulSet,
    /// Jobs.
    Job,
}

impl RuntimeResource {
    /// All there are. They are reported on unless a pipeline says otherwise.
    pub const ALL: [Self; 8] = [
        Self::Pod,
        Self::Container,
        Self::Node,
        Self::Volume,
        Self::DaemonSet,
        Self::Deployment,
        Self::StatefulSet,
        Self::Job,
    ];
}

/// Metrics of annotated pods and services.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrometheusInput {
    /// From where.
    pub namespaces: Selector,
    /// Whether `up` and `scrape_*` are kept.
    pub diagnostic_metrics: bool,
    /// Addresses of pages that are scraped whatever a cluster says.
    pub static_targets: Vec<String>,
    /// Whether targets are asked for native histograms.
    pub native_histograms: bool,
}

/// Metrics of Istio's proxies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IstioInput {
    /// From where.
    pub namespaces: Selector,
    /// Whether `up` and `scrape_*` are kept.
    pub diagnostic_metrics: bool,
    /// Whether `envoy_*` are kept.
    pub envoy_metrics: bool,
}

/// What containers print.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContainerLogs {
    /// From where.
    pub namespaces: Selector,
    /// From which containers, by their names.
    pub containers: Selector,
    /// How lines become log records.
    pub shape: RecordShape,
    /// Which lines become one, unless a pod says it of its own.
    pub multiline: Multiline,
}

/// How a line of a container becomes a log record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordShape {
    /// What a line says is read: a JSON object becomes attributes, severity and trace context.
    Parsed {
        /// Whether the text of a JSON object is kept beside what is read from it.
        keep_original_body: bool,
    },
    /// The text is the body as it was written, and the resource has everything that is known of the pod. What a
    /// pipeline with [`Body::FluentBit`](crate::Body::FluentBit) takes.
    Raw,
}

impl RecordShape {
    /// All there are.
    pub const ALL: [Self; 3] =
        [Self::Parsed { keep_original_body: true }, Self::Parsed { keep_original_body: false }, Self::Raw];
}

/// Namespaces or containers, by their names.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Selector {
    /// All, the system's included.
    #[default]
    All,
    /// These.
    Only(Vec<String>),
    /// All but these.
    Except(Vec<String>),
}

impl Selector {
    /// Namespaces of the system itself, from which nothing is collected unless a pipeline asks for it.
    pub const SYSTEM: [&str; 3] = ["kyma-system", "kube-system", "istio-system"];

    /// All namespaces but those of the system.
    pub fn without_system() -> Self {
        Self::Except(Self::SYSTEM.map(str::to_owned).to_vec())
    }

    /// Whether it selects this name.
    pub fn takes(&self, name: &str) -> bool {
        match self {
            Self::All => true,
            Self::Only(names) => names.iter().any(|known| known == name),
            Self::Except(names) => names.iter().all(|known| known != name),
        }
    }
}
