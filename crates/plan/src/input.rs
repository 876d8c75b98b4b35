//! What a pipeline takes: the cheapest decision there is, made before anything is copied or processed for it.

/// Which of the telemetry that clients push a pipeline takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Input {
    /// Whether it takes pushed telemetry at all.
    pub otlp: bool,
    /// Of that, from which namespaces. Telemetry without a namespace is always taken.
    pub namespaces: Namespaces,
    /// Whether the traffic that telemetry itself causes in a service mesh is left out.
    pub drop_istio_noise: bool,
}

impl Default for Input {
    /// Everything but noise.
    fn default() -> Self {
        Self { otlp: true, namespaces: Namespaces::All, drop_istio_noise: true }
    }
}

/// Kubernetes namespaces, compared with `k8s.namespace.name`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Namespaces {
    /// All, the system's included.
    #[default]
    All,
    /// These.
    Only(Vec<String>),
    /// All but these.
    Except(Vec<String>),
}
