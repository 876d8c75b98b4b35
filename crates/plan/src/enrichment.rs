//! Which facts about the cluster and the sending pod are added to every request.

/// What to add.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Enrichment {
    /// How `service.*` attributes are found.
    pub service: ServiceEnrichment,
    /// `k8s.cluster.name`; `None` adds nothing.
    pub cluster_name: Option<String>,
    /// Pod labels that become `k8s.pod.label.<key>`.
    pub pod_labels: Vec<PodLabels>,
}

/// Where `service.name` comes from when a client does not say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ServiceEnrichment {
    /// The pod's labels, then its owner's name: only `service.name`.
    KymaLegacy,
    /// The OpenTelemetry conventions: `service.namespace`, `.name`, `.version` and `.instance.id`.
    #[default]
    Otel,
}

/// Pod labels, by their keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PodLabels {
    /// The label with this key.
    Key(String),
    /// All labels whose keys start like this.
    Prefix(String),
}
