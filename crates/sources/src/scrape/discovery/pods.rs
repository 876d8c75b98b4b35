//! Targets that are pods: those with annotations, and Istio's proxies.

use weir_plan::ScrapablePod;

use super::super::target::{Job, Target};
use super::annotations::{Rules, host};
use super::{Finder, PROXY, Reason, attributes_of, check_phase, container_of};

/// The port at which a proxy serves its metrics.
const PROXY_PORT: &str = "http-envoy-prom";

/// The page of a proxy.
const PROXY_PATH: &str = "/stats/prometheus";

/// The port of a pod that says nothing of ports.
const USUAL_PORT: u16 = 80;

impl<'a> Finder<'a> {
    /// A pod with annotations.
    pub(super) fn pod(&mut self, pod: &'a ScrapablePod) {
        let Some(rules) = Rules::read(&pod.annotations).filter(|_| self.is_here(pod.node.as_deref())) else { return };
        let name = format!("pod {}/{}", pod.namespace, pod.name);
        let ready = rules.map_err(Reason::from).and_then(|rules| {
            let takers = self.takers(Job::Pods, &pod.namespace)?;
            check_phase(pod)?;
            if pod.is_in_mesh {
                return Err(Reason::Sidecar);
            }
            Ok((rules, takers, pod.ip.ok_or(Reason::NoAddress)?))
        });
        let (rules, takers, ip) = match ready {
            Ok(ready) => ready,
            Err(reason) => return self.drop(Job::Pods, name, reason),
        };
        for port in self.ports(pod, &rules, &name) {
            let attributes = attributes_of(pod, container_of(pod, port));
            match rules.target(Job::Pods, ip, port) {
                Ok(target) => self.take(target.with_attributes(attributes), &takers, &name),
                Err(error) => self.drop(Job::Pods, name.clone(), error),
            }
        }
    }

    /// The ports that the annotation names, else those of all containers, each once.
    fn ports(&mut self, pod: &ScrapablePod, rules: &Rules, name: &str) -> Vec<u16> {
        if !rules.ports.is_empty() {
            return rules.ports.clone();
        }
        let mut ports = Vec::new();
        for container in &pod.containers {
            for port in &container.ports {
                match port.number {
                    number if container.is_init => {
                        self.drop(Job::Pods, name.to_owned(), Reason::InitContainer(number));
                    }
                    number if !port.is_tcp => self.drop(Job::Pods, name.to_owned(), Reason::NotTcp(number)),
                    number if !ports.contains(&number) => ports.push(number),
                    _ => {}
                }
            }
        }
        let says_nothing = pod.containers.iter().all(|container| container.ports.is_empty());
        if says_nothing { vec![USUAL_PORT] } else { ports }
    }

    /// A pod with a proxy of Istio.
    pub(super) fn proxy(&mut self, pod: &'a ScrapablePod) {
        // A sidecar may be one of the init containers.
        let of_proxy = pod.containers.iter().filter(|container| container.name == PROXY);
        let mut ports = of_proxy.flat_map(|container| container.ports.iter().map(move |port| (container, port)));
        let Some((container, port)) = ports.find(|(_, port)| port.name == PROXY_PORT) else { return };
        if !self.is_here(pod.node.as_deref()) {
            return;
        }
        let ready = self.takers(Job::IstioProxies, &pod.namespace).and_then(|takers| {
            check_phase(pod)?;
            let host = host(pod.ip.ok_or(Reason::NoAddress)?);
            Ok((takers, format!("http://{host}:{}{PROXY_PATH}", port.number)))
        });
        let name = format!("pod {}/{}", pod.namespace, pod.name);
        let (takers, url) = match ready {
            Ok(ready) => ready,
            Err(reason) => return self.drop(Job::IstioProxies, name, reason),
        };
        match Target::new(&url, Job::IstioProxies) {
            Ok(target) => {
                let has_envoy = self.envoy.iter().any(|selector| selector.takes(&pod.namespace));
                let target = target.with_attributes(attributes_of(pod, Some(container))).with_envoy(has_envoy);
                self.found.targets.push((target, takers));
            }
            Err(error) => self.drop(Job::IstioProxies, name, error),
        }
    }
}
