//! What of a cluster may be scraped: pods with their ports, and services with what is behind them.

use std::collections::BTreeMap;
use std::net::IpAddr;

use crate::Workload;

/// What annotations about scraping begin with.
pub const SCRAPE_ANNOTATION: &str = "prometheus.io/";

/// All that is known.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Scrapables {
    /// Pods.
    pub pods: Vec<ScrapablePod>,
    /// Services with annotations about scraping.
    pub services: Vec<ScrapableService>,
}

/// A pod, as far as it matters for scraping.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ScrapablePod {
    /// `metadata.name`
    pub name: String,
    /// `metadata.namespace`
    pub namespace: String,
    /// `metadata.uid`
    pub uid: String,
    /// `spec.nodeName`
    pub node: Option<String>,
    /// `status.podIP`, which may be that of the host.
    pub ip: Option<IpAddr>,
    /// `status.phase`
    pub phase: Option<String>,
    /// What keeps the pod alive; a ReplicaSet is not replaced by the Deployment behind it.
    pub controller: Option<Workload>,
    /// Whether Istio's sidecar takes its traffic: label `security.istio.io/tlsMode`.
    pub is_in_mesh: bool,
    /// Annotations about scraping, without [`SCRAPE_ANNOTATION`].
    pub annotations: BTreeMap<String, String>,
    /// Its containers; those that prepare the others come last.
    pub containers: Vec<ScrapableContainer>,
}

/// A container of a pod.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ScrapableContainer {
    /// Its name.
    pub name: String,
    /// Whether it is one of `initContainers`.
    pub is_init: bool,
    /// The ports that it says it has.
    pub ports: Vec<ScrapablePort>,
}

/// A port of a container or of an endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScrapablePort {
    /// Its name; empty when it has none.
    pub name: String,
    /// Its number.
    pub number: u16,
    /// Whether it is one of TCP.
    pub is_tcp: bool,
}

/// A service, and what is behind it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ScrapableService {
    /// `metadata.name`
    pub name: String,
    /// `metadata.namespace`
    pub namespace: String,
    /// Annotations about scraping, without [`SCRAPE_ANNOTATION`].
    pub annotations: BTreeMap<String, String>,
    /// What is behind it, each once.
    pub endpoints: Vec<ScrapableEndpoint>,
}

/// An address behind a service.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ScrapableEndpoint {
    /// As it is written; a name is possible.
    pub address: String,
    /// The node that it is on.
    pub node: Option<String>,
    /// The name of its pod, which is in the namespace of the service.
    pub pod: Option<String>,
    /// The ports that the service leads to.
    pub ports: Vec<ScrapablePort>,
}
