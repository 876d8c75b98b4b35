//! What may be scraped of a cluster.

use std::collections::BTreeMap;

use weir_plan::{
    ScrapableContainer, ScrapableEndpoint, ScrapablePod, ScrapablePort, ScrapableService, Workload, WorkloadKind,
};

use crate::{loaded, options, with_pipeline};

const OBJECTS: &str = "
apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: Pod
  metadata:
    name: cart-0
    namespace: shop
    uid: uid-of-cart-0
    labels: {app: cart, security.istio.io/tlsMode: istio}
    annotations: {prometheus.io/scrape: 'true', prometheus.io/port: '9102', other: hunter2}
    ownerReferences: [{kind: StatefulSet, name: cart, controller: true}]
  spec:
    nodeName: node-1
    hostNetwork: true
    containers:
    - name: cart
      image: cart:1
      ports: [{containerPort: 8080, name: http}, {containerPort: 53, protocol: UDP}]
    initContainers:
    - {name: istio-proxy, image: proxy:1, ports: [{containerPort: 15090, name: http-envoy-prom, protocol: TCP}]}
  status: {phase: Running, podIP: 10.0.0.1, podIPs: [{ip: 10.0.0.1}, {ip: 'fd00::1'}]}
- apiVersion: v1
  kind: Pod
  metadata: {name: bare}
- apiVersion: v1
  kind: Service
  metadata: {name: cart, namespace: shop, annotations: {prometheus.io/scrape: 'true', kubectl: hunter2}}
  spec: {clusterIP: 10.1.0.1, ports: [{port: 80}]}
- {apiVersion: v1, kind: Service, metadata: {name: quiet, namespace: shop}}
- {apiVersion: v1, kind: Service, metadata: {name: quiet, namespace: shop}}
- apiVersion: discovery.k8s.io/v1
  kind: EndpointSlice
  metadata: {name: cart-abcde, namespace: shop, labels: {kubernetes.io/service-name: cart}}
  addressType: IPv4
  endpoints:
  - {addresses: [10.0.0.1], nodeName: node-1, conditions: {ready: true}, targetRef: {kind: Pod, name: cart-0}}
  - {addresses: [10.0.0.9, 10.0.0.10], targetRef: {kind: Node, name: node-2}}
  ports: [{name: http, port: 8080, protocol: TCP}, {name: all}]
- apiVersion: discovery.k8s.io/v1
  kind: EndpointSlice
  metadata: {name: nobodys, namespace: shop}
  endpoints: [{addresses: [10.0.0.77]}]
- apiVersion: v1
  kind: Endpoints
  metadata: {name: cart, namespace: shop}
  subsets:
  - addresses: [{ip: 10.0.0.1, nodeName: node-1, targetRef: {kind: Pod, name: cart-0}}]
    notReadyAddresses: [{ip: 10.0.0.11}]
    ports: [{port: 8080, name: http}, {port: 9090}]
";

fn port(name: &str, number: u16, is_tcp: bool) -> ScrapablePort {
    ScrapablePort { name: name.to_owned(), number, is_tcp }
}

fn map(entries: &[(&str, &str)]) -> BTreeMap<String, String> {
    entries.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

#[test]
fn pods_and_services_are_known_as_far_as_they_matter() {
    let scrapables = loaded(&with_pipeline(OBJECTS)).cluster.scrapables;
    let ports = vec![port("http", 8080, true), port("", 53, false)];
    let app = ScrapableContainer { name: "cart".into(), is_init: false, ports };
    let ports = vec![port("http-envoy-prom", 15090, true)];
    let proxy = ScrapableContainer { name: "istio-proxy".into(), is_init: true, ports };
    let cart = ScrapablePod {
        name: "cart-0".into(),
        namespace: "shop".into(),
        uid: "uid-of-cart-0".into(),
        node: Some("node-1".into()),
        ip: Some([10, 0, 0, 1].into()),
        phase: Some("Running".into()),
        controller: Some(Workload { kind: WorkloadKind::StatefulSet, name: "cart".into() }),
        is_in_mesh: true,
        annotations: map(&[("scrape", "true"), ("port", "9102")]),
        containers: vec![app, proxy],
    };
    let bare = ScrapablePod { name: "bare".into(), namespace: "default".into(), ..ScrapablePod::default() };
    assert_eq!(scrapables.pods, [cart, bare]);

    let http = || port("http", 8080, true);
    let endpoint = |address: &str, node: Option<&str>, pod: Option<&str>, ports| {
        let (node, pod) = (node.map(str::to_owned), pod.map(str::to_owned));
        ScrapableEndpoint { address: address.into(), node, pod, ports }
    };
    let both = || vec![http(), port("", 9090, true)];
    let service = ScrapableService {
        name: "cart".into(),
        namespace: "shop".into(),
        annotations: map(&[("scrape", "true")]),
        endpoints: vec![
            endpoint("10.0.0.1", Some("node-1"), Some("cart-0"), both()),
            endpoint("10.0.0.9", None, None, vec![http()]),
            endpoint("10.0.0.10", None, None, vec![http()]),
            endpoint("10.0.0.11", None, None, both()),
        ],
    };
    assert_eq!(scrapables.services, [service]);
}

#[test]
fn what_is_read_of_services_has_its_type() {
    let wrong = "
apiVersion: v1
kind: Service
metadata: {name: s, annotations: {prometheus.io/scrape: true}}
---
apiVersion: v1
kind: Endpoints
metadata: {name: s}
subsets: [{addresses: [{ip: 1}], ports: [{port: 65536}, {port: http}]}]
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: s, labels: {kubernetes.io/service-name: s}}
endpoints: {}
";
    let source = weir_resources::Source { name: "x.yaml".to_owned(), text: with_pipeline(wrong) };
    let report = weir_resources::load(&[source], &options()).unwrap_err();
    let found: Vec<_> = report.diagnostics.iter().map(|found| format!("{}: {}", found.field, found.message)).collect();
    let expected = [
        "metadata.annotations[\"prometheus.io/scrape\"]: found a boolean",
        "subsets[0].addresses[0].ip: found a number",
        "subsets[0].ports[0].port: is not a port",
        "subsets[0].ports[1].port: found a string",
        "endpoints: found a mapping",
    ];
    assert_eq!(found, expected);
}
