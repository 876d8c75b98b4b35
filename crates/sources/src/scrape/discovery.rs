//! From what is known of a cluster to targets: which pods, services and proxies are scraped, and for whom.
//!
//! The jobs are those of Kyma's metric agent. Nothing here looks at a socket or at the clock.

mod annotations;
mod pods;
mod services;
#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet};

use weir_otlp::conventions::{CONTAINER_NAME, NAMESPACE_NAME, NODE_NAME, POD_NAME, POD_UID};
use weir_plan::{Input, Plan, ScrapableContainer, ScrapablePod, Scrapables, Selector, WorkloadKind};

use super::target::{Job, Target};
use crate::board::DroppedTarget;
use annotations::BadAnnotation;

/// The container of Istio's sidecars and gateways.
const PROXY: &str = "istio-proxy";

/// What is scraped, and what only looks like it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Discovered {
    /// Each target once, with the ids of the pipelines that take from it.
    pub targets: Vec<(Target, Vec<String>)>,
    /// What is annotated, or is a proxy, and is not scraped.
    pub dropped: Vec<DroppedTarget>,
}

/// Why something is not scraped.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
enum Reason {
    #[error("no pipeline takes metrics from the namespace {0}")]
    Namespace(String),
    #[error("the pod is {0}")]
    Phase(String),
    #[error("the pod has no address yet")]
    NoAddress,
    #[error("{0:?} is not an IP address")]
    Address(String),
    #[error("the pod has Istio's sidecar, which lets nobody in without a certificate: annotate its service instead")]
    Sidecar,
    #[error("port {0} is not one of TCP")]
    NotTcp(u16),
    #[error("port {0} is that of an init container")]
    InitContainer(u16),
    #[error("port {0} is that of Istio's sidecar, which the input istio scrapes")]
    ProxyPort(u16),
    #[error("the service leads to no port that can be scraped")]
    NoPort,
    #[error(transparent)]
    Annotation(#[from] BadAnnotation),
    #[error("its page is scraped already, for {0}")]
    Repeated(String),
}

/// Finds what pipelines scrape on a node, or everywhere if the node is not known.
pub fn discover(plan: &Plan, scrapables: &Scrapables, node: Option<&str>) -> Discovered {
    let mut finder = Finder::new(plan, scrapables, node);
    finder.static_targets(plan);
    if !finder.prometheus.is_empty() {
        // A service knows more than the pods behind it, so it comes first.
        let mut services: Vec<_> = scrapables.services.iter().collect();
        services.sort_by_key(|service| (&service.namespace, &service.name));
        services.into_iter().for_each(|service| finder.service(service));
        scrapables.pods.iter().for_each(|pod| finder.pod(pod));
    }
    if !finder.istio.is_empty() {
        scrapables.pods.iter().for_each(|pod| finder.proxy(pod));
    }
    with_native_histograms(plan, finder.found)
}

/// Finds targets.
struct Finder<'a> {
    node: Option<&'a str>,
    /// Who takes what is annotated, and from where.
    prometheus: Vec<(String, &'a Selector)>,
    /// Who takes metrics of proxies, and from where.
    istio: Vec<(String, &'a Selector)>,
    /// From where somebody wants what proxies say of themselves.
    envoy: Vec<&'a Selector>,
    pods: HashMap<(&'a str, &'a str), &'a ScrapablePod>,
    /// What is scraped because of annotations, by its address, and because of what.
    scraped: HashMap<String, String>,
    found: Discovered,
}

impl<'a> Finder<'a> {
    fn new(plan: &'a Plan, scrapables: &'a Scrapables, node: Option<&'a str>) -> Self {
        let pods = scrapables.pods.iter().map(|pod| ((pod.namespace.as_str(), pod.name.as_str()), pod)).collect();
        let istio = plan.pipelines.iter().filter_map(|pipeline| pipeline.input.istio.as_ref());
        Self {
            node,
            envoy: istio.filter(|istio| istio.envoy_metrics).map(|istio| &istio.namespaces).collect(),
            prometheus: takers(plan, |input| input.prometheus.as_ref().map(|input| &input.namespaces)),
            istio: takers(plan, |input| input.istio.as_ref().map(|input| &input.namespaces)),
            pods,
            scraped: HashMap::new(),
            found: Discovered::default(),
        }
    }

    /// What pipelines name. It is of no namespace, so all that scrape take from it.
    fn static_targets(&mut self, plan: &Plan) {
        let inputs = plan.pipelines.iter().filter_map(|pipeline| pipeline.input.prometheus.as_ref());
        let takers: Vec<_> = self.prometheus.iter().map(|(id, _)| id.clone()).collect();
        let mut known = HashSet::new();
        for url in inputs.flat_map(|input| &input.static_targets) {
            match Target::new(url, Job::Static) {
                Ok(target) if known.insert(target.url().clone()) => self.found.targets.push((target, takers.clone())),
                Ok(_) => {}
                Err(error) => self.drop(Job::Static, error.url().to_owned(), error),
            }
        }
    }

    /// Whether something on this node is to be scraped from here.
    fn is_here(&self, node: Option<&str>) -> bool {
        self.node.is_none_or(|own| node == Some(own))
    }

    /// The pipelines that take from a namespace for this job.
    fn takers(&self, job: Job, namespace: &str) -> Result<Vec<String>, Reason> {
        let all = if job == Job::IstioProxies { &self.istio } else { &self.prometheus };
        let takers: Vec<_> =
            all.iter().filter(|(_, selector)| selector.takes(namespace)).map(|(id, _)| id.clone()).collect();
        if takers.is_empty() { Err(Reason::Namespace(namespace.to_owned())) } else { Ok(takers) }
    }

    /// Takes up a target unless its page is scraped already. `because`: what it is scraped for.
    fn take(&mut self, target: Target, takers: &[String], because: &str) {
        let url = target.url().to_string();
        if let Some(first) = self.scraped.get(&url) {
            let reason = Reason::Repeated(first.clone());
            return self.drop(target.job(), format!("{because}, {url}"), reason);
        }
        self.scraped.insert(url, because.to_owned());
        self.found.targets.push((target, takers.to_vec()));
    }

    fn drop(&mut self, job: Job, target: String, reason: impl ToString) {
        let (job, reason) = (job.name().to_owned(), reason.to_string());
        self.found.dropped.push(DroppedTarget { job, target, reason });
    }
}

/// Has targets asked for native histograms that a pipeline wants. Others that take from such a target get them as well.
fn with_native_histograms(plan: &Plan, found: Discovered) -> Discovered {
    let is_wanting = |input: &Input| input.prometheus.as_ref().is_some_and(|input| input.native_histograms);
    let pipelines = plan.pipelines.iter().filter(|pipeline| is_wanting(&pipeline.input));
    let wanting: HashSet<String> = pipelines.map(|pipeline| pipeline.id.to_string()).collect();
    let asked = |(target, takers): (Target, Vec<String>)| {
        let is_wanted = target.job() != Job::IstioProxies && takers.iter().any(|taker| wanting.contains(taker));
        (if is_wanted { target.with_native_histograms() } else { target }, takers)
    };
    Discovered { targets: found.targets.into_iter().map(asked).collect(), ..found }
}

/// Pipelines with an input, and its namespaces.
fn takers(plan: &Plan, namespaces: impl Fn(&Input) -> Option<&Selector>) -> Vec<(String, &Selector)> {
    let pipelines = plan.pipelines.iter();
    pipelines.filter_map(|pipeline| Some((pipeline.id.to_string(), namespaces(&pipeline.input)?))).collect()
}

/// A pod is scraped while it runs.
fn check_phase(pod: &ScrapablePod) -> Result<(), Reason> {
    match pod.phase.as_deref() {
        Some(phase @ ("Pending" | "Succeeded" | "Failed")) => Err(Reason::Phase(phase.to_owned())),
        _ => Ok(()),
    }
}

/// The container that says it has this port; else the only one that stays.
fn container_of(pod: &ScrapablePod, port: u16) -> Option<&ScrapableContainer> {
    let has_port = |container: &&ScrapableContainer| container.ports.iter().any(|known| known.number == port);
    let mut staying = pod.containers.iter().filter(|container| !container.is_init);
    let only = staying.next().filter(|_| staying.next().is_none());
    pod.containers.iter().find(has_port).or(only)
}

/// What the resource of a target in a pod says. The names are those of the Collector's receiver.
fn attributes_of(pod: &ScrapablePod, container: Option<&ScrapableContainer>) -> Vec<(&'static str, String)> {
    let mut all = vec![(NAMESPACE_NAME, pod.namespace.clone()), (POD_NAME, pod.name.clone())];
    all.extend((!pod.uid.is_empty()).then(|| (POD_UID, pod.uid.clone())));
    all.extend(pod.node.as_ref().map(|node| (NODE_NAME, node.clone())));
    all.extend(container.map(|container| (CONTAINER_NAME, container.name.clone())));
    if let Some(controller) = &pod.controller {
        let key = match controller.kind {
            WorkloadKind::Deployment => "k8s.deployment.name",
            WorkloadKind::ReplicaSet => "k8s.replicaset.name",
            WorkloadKind::StatefulSet => "k8s.statefulset.name",
            WorkloadKind::DaemonSet => "k8s.daemonset.name",
            WorkloadKind::Job => "k8s.job.name",
            WorkloadKind::CronJob => "k8s.cronjob.name",
        };
        all.push((key, controller.name.to_string()));
    }
    all
}
