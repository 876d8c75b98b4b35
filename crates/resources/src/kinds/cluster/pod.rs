//! `Pod`: what is read of it, and how it is joined with its owners.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::Arc;

use weir_plan::{SCRAPE_ANNOTATION, ScrapableContainer, ScrapablePod, Secret, Workload, WorkloadKind};

use super::service::ports;
use super::{Key, ObjectMeta, owners, strings, text};
use crate::diagnostic::{Diagnostic, Severity};
use crate::document::{Fields, Node};
use crate::kinds::multiline;

/// Annotations with which a pod says how its telemetry is to be named.
const RESOURCE_ANNOTATIONS: &str = "resource.opentelemetry.io/";

/// All other annotations of a pod that are kept have so many bytes together, because they may be in each of its log
/// records. Kubernetes allows 256 KiB.
const MOST_ANNOTATION_BYTES: usize = 16 << 10;

/// A pod that is not joined with other objects yet: `workloads` are its owners as it names them.
pub(super) struct Pod(weir_plan::Pod);

/// The label of pods whose traffic Istio's sidecar takes, and its value then.
const TLS_MODE: (&str, &str) = ("security.istio.io/tlsMode", "istio");

/// Reads the rest of a pod: what is known of it, and what of it may be scraped.
pub(super) fn decode(meta: ObjectMeta<'_>, document: &mut Fields<'_>) -> (Pod, ScrapablePod) {
    let ObjectMeta { name, namespace, fields: mut metadata } = meta;
    let mut pod = weir_plan::Pod {
        name: name.value.into(),
        namespace: namespace.into(),
        uid: text(&mut metadata, "uid").unwrap_or_default().into(),
        labels: strings(&mut metadata, "labels", |_| true).into_iter().collect(),
        workloads: owners(&mut metadata).into(),
        ..weir_plan::Pod::default()
    };
    let annotations = annotations(&mut metadata, &mut pod);
    let mut scrapable = ScrapablePod {
        name: pod.name.to_string(),
        namespace: pod.namespace.to_string(),
        uid: pod.uid.to_string(),
        controller: pod.workloads.first().cloned(),
        is_in_mesh: pod.labels.get(TLS_MODE.0) == Some(TLS_MODE.1),
        annotations,
        ..ScrapablePod::default()
    };
    let mut host_network = false;
    if let Some(mut spec) = document.optional("spec").and_then(|node| node.fields()) {
        scrapable.node = text(&mut spec, "nodeName");
        pod.node = scrapable.node.as_deref().map(Arc::from);
        host_network = spec.optional("hostNetwork").and_then(|node| node.boolean()).unwrap_or(false);
        let (images, scrapables): (Vec<_>, _) = containers(&mut spec).into_iter().unzip();
        (pod.containers, scrapable.containers) = (images.into(), scrapables);
    }
    if let Some(mut status) = document.optional("status").and_then(|node| node.fields()) {
        let ips = ips(&mut status);
        scrapable.ip = ips.first().copied();
        scrapable.phase = text(&mut status, "phase");
        // A pod that has ended still names its address, which may be another pod's by now.
        let ended = matches!(scrapable.phase.as_deref(), Some("Succeeded" | "Failed"));
        pod.ips = if host_network || ended { Box::default() } else { ips.into() };
    }
    (Pod(pod), scrapable)
}

impl Pod {
    pub(super) fn compile(self, owners: &HashMap<Key, Workload>) -> Arc<weir_plan::Pod> {
        let Self(mut pod) = self;
        let behind = |kind: &str, workload: &Workload| {
            owners.get(&(kind.to_owned(), pod.namespace.to_string(), workload.name.to_string())).cloned()
        };
        pod.workloads = pod
            .workloads
            .iter()
            .flat_map(|workload| match workload.kind {
                WorkloadKind::ReplicaSet => {
                    [Some(behind("ReplicaSet", workload).unwrap_or_else(|| workload.clone())), None]
                }
                WorkloadKind::Job => [Some(workload.clone()), behind("Job", workload)],
                _ => [Some(workload.clone()), None],
            })
            .flatten()
            .collect();
        Arc::new(pod)
    }
}

/// Reads annotations: of those that may be anything, the shorter ones first, as long as there is room. Returns those
/// about scraping.
fn annotations(metadata: &mut Fields<'_>, pod: &mut weir_plan::Pod) -> BTreeMap<String, String> {
    let Some(node) = metadata.optional("annotations") else { return BTreeMap::new() };
    let text = |(key, node): (&str, Node<'_>)| Some((key.to_owned(), node.secret().string()?.value));
    let all = node.map_of(|_| true);
    let lines = all.iter().find(|(key, _)| *key == multiline::ANNOTATION);
    // Pods are somebody else's: what one says wrong keeps no pipeline from its work.
    pod.multiline = lines.and_then(|(_, node)| multiline::decode(&node.clone().public(), Severity::Warning));
    let all: Vec<_> = all.into_iter().filter_map(text).collect();
    let scraping =
        |(key, value): &(String, String)| Some((key.strip_prefix(SCRAPE_ANNOTATION)?.to_owned(), value.clone()));
    let scraping = all.iter().filter_map(scraping).collect();
    let (named, mut others): (Vec<_>, Vec<_>) =
        all.into_iter().partition(|(key, _)| key.starts_with(RESOURCE_ANNOTATIONS));
    pod.annotations = named.into_iter().collect();
    others.sort_by_key(|(key, value)| key.len() + value.len());
    let (mut bytes, mut left_out) = (0, Vec::new());
    for (key, value) in others {
        bytes += key.len() + value.len();
        if bytes <= MOST_ANNOTATION_BYTES {
            pod.other_annotations.insert(key, Secret::new(value));
        } else {
            left_out.push(key);
        }
    }
    if !left_out.is_empty() {
        let message = format!("log records will not have the annotations {}", left_out.join(", "));
        let expected = format!("annotations of {MOST_ANNOTATION_BYTES} bytes together");
        node.findings().push(Diagnostic::warning(&node.place(), message, expected));
    }
    scraping
}

/// Name and image of a container.
type NameAndImage = (Arc<str>, Arc<str>);

/// Containers with their images, and what of them may be scraped.
fn containers(spec: &mut Fields<'_>) -> Vec<(NameAndImage, ScrapableContainer)> {
    let mut all = Vec::new();
    for key in ["containers", "initContainers"] {
        for node in spec.optional(key).map(|node| node.list()).unwrap_or_default() {
            let Some(mut fields) = node.fields() else { continue };
            let (name, image) = (text(&mut fields, "name"), text(&mut fields, "image"));
            let Some(name) = name else { continue };
            let ports = ports(&mut fields, "containerPort");
            let image = (name.as_str().into(), image.unwrap_or_default().into());
            all.push((image, ScrapableContainer { name, is_init: key == "initContainers", ports }));
        }
    }
    all
}

/// `podIPs`, or `podIP` alone as older clusters have it.
fn ips(status: &mut Fields<'_>) -> Vec<IpAddr> {
    let listed = status.optional("podIPs").map(|node| node.list()).unwrap_or_default();
    let mut nodes: Vec<Node<'_>> =
        listed.iter().filter_map(|node| node.fields().and_then(|mut fields| fields.optional("ip"))).collect();
    if nodes.is_empty() {
        nodes.extend(status.optional("podIP"));
    }
    nodes.iter().filter_map(|node| ip(&node.clone().public())).collect()
}

fn ip(node: &Node<'_>) -> Option<IpAddr> {
    let text = node.string().filter(|text| !text.value.is_empty())?;
    let ip = text.value.parse().ok();
    if ip.is_none() {
        let message = format!("{} is not an IP address", text.place.shown(&text.value));
        let diagnostic = Diagnostic::error(&text.place, message).value(&text.value);
        node.findings().push(diagnostic.expected("an IPv4 or IPv6 address"));
    }
    ip
}
