//! Targets behind services with annotations.

use std::net::IpAddr;

use weir_otlp::conventions::{NAMESPACE_NAME, NODE_NAME};
use weir_plan::{ScrapableEndpoint, ScrapablePod, ScrapablePort, ScrapableService};

use super::super::target::Job;
use super::annotations::{Rules, Scheme};
use super::{Finder, PROXY, Reason, attributes_of, check_phase, container_of};

/// What is the same for all that is behind a service.
struct Behind<'a> {
    service: &'a ScrapableService,
    rules: Rules,
    takers: Vec<String>,
}

impl<'a> Finder<'a> {
    /// A service with annotations: what is behind it on this node.
    pub(super) fn service(&mut self, service: &'a ScrapableService) {
        let Some(rules) = Rules::read(&service.annotations) else { return };
        let endpoints = service.endpoints.iter().map(|endpoint| (endpoint, self.pod_of(service, endpoint)));
        let node = |(endpoint, pod): &(&'a ScrapableEndpoint, Option<&'a ScrapablePod>)| {
            endpoint.node.as_deref().or_else(|| pod.as_ref()?.node.as_deref())
        };
        let here: Vec<_> = endpoints.filter(|both| self.is_here(node(both))).collect();
        if here.is_empty() {
            return;
        }
        let takers = self.takers(Job::Services, &service.namespace);
        match rules.map_err(Reason::from).and_then(|rules| Ok(Behind { service, rules, takers: takers? })) {
            Ok(behind) => here.into_iter().for_each(|(endpoint, pod)| self.endpoint(&behind, endpoint, pod)),
            Err(reason) => self.drop(Job::Services, format!("service {}/{}", service.namespace, service.name), reason),
        }
    }

    fn pod_of(&self, service: &'a ScrapableService, endpoint: &'a ScrapableEndpoint) -> Option<&'a ScrapablePod> {
        self.pods.get(&(service.namespace.as_str(), endpoint.pod.as_deref()?)).copied()
    }

    fn endpoint(&mut self, behind: &Behind<'_>, endpoint: &ScrapableEndpoint, pod: Option<&ScrapablePod>) {
        let Behind { service, rules, takers } = behind;
        let of_pod = pod.map(Scheme::of);
        let scheme = rules.scheme.or(of_pod).unwrap_or(Scheme::Http);
        let job = if scheme == Scheme::Https { Job::SecureServices } else { Job::Services };
        let because = format!("service {}/{}", service.namespace, service.name);
        let name = format!("{because}, {}", endpoint.pod.as_deref().unwrap_or(&endpoint.address));
        let ip: Result<IpAddr, _> = endpoint.address.parse();
        let ready = pod.map_or(Ok(()), check_phase).and_then(|()| {
            let ip = ip.map_err(|_| Reason::Address(endpoint.address.clone()))?;
            let ports = self.endpoint_ports(job, endpoint, pod, &name);
            // An annotation names ports of something that could be scraped without it.
            if ports.is_empty() { Err(Reason::NoPort) } else { Ok((ip, ports)) }
        });
        let (ip, ports) = match ready {
            Ok(ready) => ready,
            Err(reason) => return self.drop(job, name, reason),
        };
        for port in if rules.ports.is_empty() { &ports } else { &rules.ports } {
            let attributes = match pod {
                Some(pod) => attributes_of(pod, container_of(pod, *port)),
                None => attributes_without_pod(service, endpoint),
            };
            match rules.target(job, ip, *port) {
                Ok(target) => {
                    let target = target.with_attributes(attributes).with_label("service", &service.name);
                    self.take(target, takers, &because);
                }
                Err(error) => self.drop(job, name.clone(), error),
            }
        }
    }

    /// The ports that a service leads to, but for those of sidecars and of init containers.
    fn endpoint_ports(
        &mut self,
        job: Job,
        endpoint: &ScrapableEndpoint,
        pod: Option<&ScrapablePod>,
        name: &str,
    ) -> Vec<u16> {
        let mut ports = Vec::new();
        for port in &endpoint.ports {
            match check_port(port, pod) {
                Ok(()) if !ports.contains(&port.number) => ports.push(port.number),
                Ok(()) => {}
                Err(reason) => self.drop(job, name.to_owned(), reason),
            }
        }
        ports
    }
}

impl Scheme {
    /// That of a pod where its service says nothing.
    fn of(pod: &ScrapablePod) -> Self {
        if pod.is_in_mesh { Self::Https } else { Self::Http }
    }
}

fn check_port(port: &ScrapablePort, pod: Option<&ScrapablePod>) -> Result<(), Reason> {
    let number = port.number;
    let mut containers = pod.into_iter().flat_map(|pod| &pod.containers);
    let container = containers.find(|container| container.ports.iter().any(|known| known.number == number));
    match container {
        _ if !port.is_tcp => Err(Reason::NotTcp(number)),
        Some(container) if container.name == PROXY => Err(Reason::ProxyPort(number)),
        Some(container) if container.is_init => Err(Reason::InitContainer(number)),
        _ => Ok(()),
    }
}

/// What the resource says of an address of which no pod is known.
fn attributes_without_pod(service: &ScrapableService, endpoint: &ScrapableEndpoint) -> Vec<(&'static str, String)> {
    let mut all = vec![(NAMESPACE_NAME, service.namespace.clone())];
    all.extend(endpoint.node.as_ref().map(|node| (NODE_NAME, node.clone())));
    all
}
