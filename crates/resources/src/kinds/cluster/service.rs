//! `Service`, `EndpointSlice` and `Endpoints`: what of them is scraped.

use std::collections::{BTreeMap, HashMap};

use weir_plan::{SCRAPE_ANNOTATION, ScrapableEndpoint, ScrapablePort, ScrapableService};

use super::{ObjectMeta, strings, text};
use crate::document::{Fields, Node};

/// The label with which a slice names its service.
const SERVICE_NAME: &str = "kubernetes.io/service-name";

/// Services that say something about scraping, and what is behind all services.
#[derive(Default)]
pub(super) struct Services {
    services: Vec<ScrapableService>,
    /// By namespace and name of the service.
    endpoints: HashMap<(String, String), Vec<ScrapableEndpoint>>,
}

impl Services {
    /// Reads the rest of a document of one of these kinds.
    pub(super) fn add(&mut self, kind: &str, mut meta: ObjectMeta<'_>, document: &mut Fields<'_>) {
        match kind {
            "Service" => {
                let (annotations, endpoints) = (annotations(&mut meta), Vec::new());
                let (name, namespace) = (meta.name.value, meta.namespace);
                let service = ScrapableService { name, namespace, annotations, endpoints };
                self.services.extend((!service.annotations.is_empty()).then_some(service));
            }
            "EndpointSlice" => self.slice(meta, document),
            _ => self.subsets(meta, document),
        }
    }

    /// Services with what is behind them.
    pub(super) fn compile(mut self) -> Vec<ScrapableService> {
        for service in &mut self.services {
            let key = (service.namespace.clone(), service.name.clone());
            service.endpoints = self.endpoints.remove(&key).unwrap_or_default();
        }
        self.services
    }

    fn slice(&mut self, mut meta: ObjectMeta<'_>, document: &mut Fields<'_>) {
        let Some(service) = strings(&mut meta.fields, "labels", |key| key == SERVICE_NAME).remove(SERVICE_NAME) else {
            return;
        };
        let ports = ports(document, "port");
        let key = (meta.namespace, service);
        for mut fields in mappings(document, "endpoints") {
            let (node, pod) = (text(&mut fields, "nodeName"), pod(&mut fields));
            let addresses = fields.optional("addresses").map(|node| node.strings()).unwrap_or_default();
            for address in addresses {
                let (node, pod, ports) = (node.clone(), pod.clone(), ports.clone());
                self.endpoint(key.clone(), ScrapableEndpoint { address: address.value, node, pod, ports });
            }
        }
    }

    /// The addresses of `Endpoints`, ready or not.
    fn subsets(&mut self, meta: ObjectMeta<'_>, document: &mut Fields<'_>) {
        let key = (meta.namespace, meta.name.value);
        for mut subset in mappings(document, "subsets") {
            let ports = ports(&mut subset, "port");
            let mut addresses = mappings(&mut subset, "addresses");
            addresses.extend(mappings(&mut subset, "notReadyAddresses"));
            for mut fields in addresses {
                let Some(address) = text(&mut fields, "ip") else { continue };
                let (node, pod, ports) = (text(&mut fields, "nodeName"), pod(&mut fields), ports.clone());
                self.endpoint(key.clone(), ScrapableEndpoint { address, node, pod, ports });
            }
        }
    }

    /// Clusters have the same addresses in both kinds.
    fn endpoint(&mut self, key: (String, String), new: ScrapableEndpoint) {
        let all = self.endpoints.entry(key).or_default();
        let Some(known) = all.iter_mut().find(|known| known.address == new.address) else {
            return all.push(new);
        };
        known.ports.extend(new.ports.into_iter().filter(|port| !known.ports.contains(port)).collect::<Vec<_>>());
        known.node = known.node.take().or(new.node);
        known.pod = known.pod.take().or(new.pod);
    }
}

/// Whether a service is one of a cluster, or has annotations about scraping.
pub(super) fn says_anything(meta: &mut ObjectMeta<'_>) -> bool {
    text(&mut meta.fields, "uid").is_some() || !annotations(meta).is_empty()
}

fn annotations(meta: &mut ObjectMeta<'_>) -> BTreeMap<String, String> {
    let all = strings(&mut meta.fields, "annotations", |key| key.starts_with(SCRAPE_ANNOTATION));
    all.into_iter().filter_map(|(key, value)| Some((key.strip_prefix(SCRAPE_ANNOTATION)?.to_owned(), value))).collect()
}

/// The pod that an endpoint is.
fn pod(endpoint: &mut Fields<'_>) -> Option<String> {
    let mut target = endpoint.optional("targetRef")?.fields()?;
    let is_pod = text(&mut target, "kind").is_some_and(|kind| kind == "Pod");
    text(&mut target, "name").filter(|_| is_pod)
}

/// `ports`, whose numbers are in this field. One without a number stands for all.
pub(super) fn ports(fields: &mut Fields<'_>, number: &'static str) -> Vec<ScrapablePort> {
    let port = |mut fields: Fields<'_>| {
        let number = fields.optional(number).and_then(|node| port_number(&node))?;
        let is_tcp = text(&mut fields, "protocol").is_none_or(|protocol| protocol == "TCP");
        Some(ScrapablePort { name: text(&mut fields, "name").unwrap_or_default(), number, is_tcp })
    };
    mappings(fields, "ports").into_iter().filter_map(port).collect()
}

fn port_number(node: &Node<'_>) -> Option<u16> {
    let number = u16::try_from(node.positive_integer()?).ok();
    if number.is_none() {
        node.findings().push(node.error("is not a port").expected("a number up to 65535"));
    }
    number
}

fn mappings<'a>(fields: &mut Fields<'a>, key: &'static str) -> Vec<Fields<'a>> {
    let list = fields.optional(key).map(|node| node.list()).unwrap_or_default();
    list.iter().filter_map(Node::fields).collect()
}
