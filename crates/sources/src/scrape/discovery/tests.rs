//! Every rule of selection.

use weir_otlp::conventions::CLUSTER_NAME;
use weir_plan::{
    Body, Compression, Endpoint, IstioInput, Output, Pipeline, PrometheusInput, Protocol, ScrapableEndpoint,
    ScrapablePort, ScrapableService, Signal, Workload,
};

use super::*;

const NODE: Option<&str> = Some("n1");

fn pipeline(name: &str) -> Pipeline {
    let endpoint = Endpoint { host: "b".into(), port: 4317, path: String::new() };
    let (body, protocol, compression) = (Body::Otlp, Protocol::Grpc, Compression::None);
    let output = Output { body, protocol, endpoint, compression, headers: Vec::new(), oauth2: None, tls: None };
    Pipeline::new(Signal::Metrics, name, output)
}

fn scraping(name: &str, namespaces: Selector) -> Pipeline {
    let mut pipeline = pipeline(name);
    let (diagnostic_metrics, static_targets) = (false, Vec::new());
    pipeline.input.prometheus =
        Some(PrometheusInput { namespaces, diagnostic_metrics, static_targets, native_histograms: false });
    pipeline
}

fn of_proxies(name: &str, namespaces: Selector) -> Pipeline {
    let mut pipeline = pipeline(name);
    pipeline.input.istio = Some(IstioInput { namespaces, diagnostic_metrics: false, envoy_metrics: false });
    pipeline
}

/// One pipeline that takes everything.
fn all() -> Plan {
    let mut both = scraping("all", Selector::All);
    both.input.istio = of_proxies("all", Selector::All).input.istio;
    Plan { pipelines: vec![both], ..Plan::default() }
}

fn port(number: u16) -> ScrapablePort {
    ScrapablePort { name: String::new(), number, is_tcp: true }
}

fn container(name: &str, ports: &[u16]) -> ScrapableContainer {
    ScrapableContainer { name: name.into(), is_init: false, ports: ports.iter().copied().map(port).collect() }
}

fn annotations(all: &[(&str, &str)]) -> std::collections::BTreeMap<String, String> {
    all.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

/// A pod that wants to be scraped.
fn pod(name: &str) -> ScrapablePod {
    ScrapablePod {
        name: name.into(),
        namespace: "shop".into(),
        uid: format!("uid-of-{name}"),
        node: NODE.map(str::to_owned),
        ip: Some([10, 0, 0, 1].into()),
        phase: Some("Running".into()),
        annotations: annotations(&[("scrape", "true")]),
        containers: vec![container("app", &[8080])],
        ..ScrapablePod::default()
    }
}

/// The same pod without a wish of its own.
fn quiet(pod: ScrapablePod) -> ScrapablePod {
    ScrapablePod { annotations: annotations(&[]), ..pod }
}

/// A service that wants to be scraped, with an endpoint that is this pod.
fn service(more: &[(&str, &str)], pod: &str, ports: &[u16]) -> ScrapableService {
    let mut wishes = annotations(more);
    wishes.insert("scrape".into(), "true".into());
    let endpoint = ScrapableEndpoint {
        address: "10.0.0.1".into(),
        node: NODE.map(str::to_owned),
        pod: Some(pod.into()),
        ports: ports.iter().copied().map(port).collect(),
    };
    ScrapableService { name: "cart".into(), namespace: "shop".into(), annotations: wishes, endpoints: vec![endpoint] }
}

/// Targets as `job url`, and what is dropped as `job target: reason`.
fn shown(found: &Discovered) -> (Vec<String>, Vec<String>) {
    let targets = found.targets.iter().map(|(target, _)| format!("{} {}", target.job().name(), target.url()));
    let dropped = found.dropped.iter().map(|dropped| {
        let DroppedTarget { job, target, reason } = dropped;
        format!("{job} {target}: {reason}")
    });
    (targets.collect(), dropped.collect())
}

fn of_pods(pods: Vec<ScrapablePod>) -> (Vec<String>, Vec<String>) {
    shown(&discover(&all(), &Scrapables { pods, services: Vec::new() }, NODE))
}

fn of_services(services: Vec<ScrapableService>, pods: Vec<ScrapablePod>) -> (Vec<String>, Vec<String>) {
    shown(&discover(&all(), &Scrapables { pods, services }, NODE))
}

/// The only target, or the only reason why there is none.
#[track_caller]
fn only((targets, dropped): (Vec<String>, Vec<String>)) -> String {
    match (&targets[..], &dropped[..]) {
        ([target], []) => target.clone(),
        ([], [dropped]) => dropped.clone(),
        _ => panic!("{targets:?} {dropped:?}"),
    }
}

#[test]
fn an_annotated_pod_is_scraped_at_the_ports_of_its_containers() {
    assert_eq!(only(of_pods(vec![pod("a")])), "app-pods http://10.0.0.1:8080/metrics");
    let mut two = pod("a");
    two.containers = vec![container("app", &[8080, 9090]), container("other", &[9090, 9091])];
    let urls = ["8080", "9090", "9091"].map(|port| format!("app-pods http://10.0.0.1:{port}/metrics"));
    assert_eq!(of_pods(vec![two]), (urls.to_vec(), vec![]));
    let mut silent = pod("a");
    silent.containers = vec![container("app", &[]), container("other", &[])];
    assert_eq!(only(of_pods(vec![silent])), "app-pods http://10.0.0.1:80/metrics");
    let mut old = pod("a");
    old.ip = Some("fd00::1".parse().unwrap());
    assert_eq!(only(of_pods(vec![old])), "app-pods http://[fd00::1]:8080/metrics");
}

#[test]
fn only_true_is_a_wish() {
    for other in [&[][..], &[("scrape", "false")], &[("scrape", "")], &[("port", "8080")]] {
        let pod = ScrapablePod { annotations: annotations(other), ..pod("a") };
        assert_eq!(of_pods(vec![pod]), (vec![], vec![]), "{other:?}");
    }
    let almost = ScrapablePod { annotations: annotations(&[("scrape", "True")]), ..pod("a") };
    let expected = "app-pods pod shop/a: prometheus.io/scrape is \"True\": write \"true\" or \"false\"";
    assert_eq!(only(of_pods(vec![almost])), expected);
}

/// What one annotation, beside the wish, makes of a pod.
fn with(key: &str, value: &str) -> String {
    only(of_pods(vec![ScrapablePod { annotations: annotations(&[("scrape", "true"), (key, value)]), ..pod("a") }]))
}

#[test]
fn annotations_name_path_and_parameters() {
    let url = |key, value| with(key, value).replacen("app-pods http://10.0.0.1:8080", "", 1);
    assert_eq!(url("path", "/actuator/prometheus"), "/actuator/prometheus");
    assert_eq!(url("path", "stats"), "/stats");
    assert_eq!(url("path", ""), "/metrics");
    assert_eq!(url("path", "/a?b=c"), "/a?b=c");
    assert_eq!(url("param_format", "prometheus"), "/metrics?format=prometheus");
    assert_eq!(url("param_q", "a b&c=%\u{e9}"), "/metrics?q=a%20b%26c%3D%25%C3%A9");
    let several = annotations(&[("scrape", "true"), ("param_b", "2"), ("param_a", ""), ("path", "/x?y")]);
    let target = only(of_pods(vec![ScrapablePod { annotations: several, ..pod("a") }]));
    assert_eq!(target, "app-pods http://10.0.0.1:8080/x?y&a=&b=2");
    for nonsense in ["http://example.com/metrics", "/a b", "/a\n", "/a#b", "/\u{0}"] {
        let reason = with("path", nonsense);
        assert!(reason.starts_with("app-pods pod shop/a: prometheus.io/path is "), "{reason}");
        assert!(reason.ends_with("write the path of a page, for example /metrics"), "{reason}");
    }
}

#[test]
fn an_annotation_names_one_port_or_several() {
    let ports = |value| {
        let annotations = annotations(&[("scrape", "true"), ("port", value)]);
        of_pods(vec![ScrapablePod { annotations, ..pod("a") }])
    };
    assert_eq!(ports("9102").0, ["app-pods http://10.0.0.1:9102/metrics"]);
    assert_eq!(ports("").0, ["app-pods http://10.0.0.1:8080/metrics"]);
    let both = ["app-pods http://10.0.0.1:9102/metrics", "app-pods http://10.0.0.1:9103/metrics"];
    assert_eq!(ports("9102, 9103,9102"), (both.map(str::to_owned).to_vec(), vec![]));
    let many = (1..=101).map(|port: u16| port.to_string()).collect::<Vec<_>>().join(",");
    assert!(only(ports(&many)).ends_with(": write at most 100 of them"), "{}", only(ports(&many)));
    for nonsense in ["metrics", "0", "65536", "-1", "+80", "8080,", "8080;9090", "80 80", "1e3"] {
        let expected = format!(
            "app-pods pod shop/a: prometheus.io/port is {nonsense:?}: write numbers from 1 to 65535, with commas \
             between them"
        );
        assert_eq!(only(ports(nonsense)), expected);
    }
    let long = with("port", &"9".repeat(1000));
    assert!(long.contains("999...\"") && long.len() < 300, "{long}");
}

/// The scheme of a pod is http: one that wants a certificate has a service.
#[test]
fn only_services_have_a_scheme() {
    assert_eq!(with("scheme", "https"), "app-pods http://10.0.0.1:8080/metrics");
    let meshed = ScrapablePod { is_in_mesh: true, ..pod("a") };
    let reason = only(of_pods(vec![meshed]));
    assert!(reason.starts_with("app-pods pod shop/a: the pod has Istio's sidecar"), "{reason}");
    let nonsense = only(of_services(vec![service(&[("scheme", "HTTPS")], "a", &[8080])], vec![quiet(pod("a"))]));
    assert_eq!(nonsense, "app-services service shop/cart: prometheus.io/scheme is \"HTTPS\": write http or https");
}

#[test]
fn only_pods_of_this_node_that_run_are_scraped() {
    let elsewhere = |node: Option<&str>| ScrapablePod { node: node.map(str::to_owned), ..pod("a") };
    for node in [Some("n2"), None] {
        assert_eq!(of_pods(vec![elsewhere(node)]), (vec![], vec![]), "{node:?}");
        let everywhere = Scrapables { pods: vec![elsewhere(node)], services: Vec::new() };
        assert_eq!(discover(&all(), &everywhere, None).targets.len(), 1, "{node:?}");
    }
    for phase in ["Pending", "Succeeded", "Failed"] {
        let expected = format!("app-pods pod shop/a: the pod is {phase}");
        assert_eq!(only(of_pods(vec![ScrapablePod { phase: Some(phase.into()), ..pod("a") }])), expected);
        let behind = ScrapablePod { phase: Some(phase.into()), ..quiet(pod("a")) };
        let expected = format!("app-services service shop/cart, a: the pod is {phase}");
        assert_eq!(only(of_services(vec![service(&[], "a", &[8080])], vec![behind])), expected);
    }
    for phase in [Some("Running"), Some("Unknown"), None] {
        let pod = ScrapablePod { phase: phase.map(str::to_owned), ..pod("a") };
        assert_eq!(of_pods(vec![pod]).0.len(), 1, "{phase:?}");
    }
    let nowhere = ScrapablePod { ip: None, ..pod("a") };
    assert_eq!(only(of_pods(vec![nowhere])), "app-pods pod shop/a: the pod has no address yet");
}

#[test]
fn init_containers_and_ports_that_speak_no_tcp_are_not_scraped() {
    let mut both = pod("a");
    both.containers.push(ScrapableContainer { is_init: true, ..container("init", &[9000]) });
    both.containers[0].ports.push(ScrapablePort { is_tcp: false, ..port(53) });
    let (targets, dropped) = of_pods(vec![both.clone()]);
    assert_eq!(targets, ["app-pods http://10.0.0.1:8080/metrics"]);
    let reasons = ["port 53 is not one of TCP", "port 9000 is that of an init container"];
    assert_eq!(dropped, reasons.map(|reason| format!("app-pods pod shop/a: {reason}")));
    let mut service = service(&[], "a", &[8080, 9000]);
    service.endpoints[0].ports.push(ScrapablePort { is_tcp: false, ..port(53) });
    let (targets, dropped) = of_services(vec![service], vec![quiet(both)]);
    assert_eq!(targets, ["app-services http://10.0.0.1:8080/metrics"]);
    let reasons = ["port 9000 is that of an init container", "port 53 is not one of TCP"];
    assert_eq!(dropped, reasons.map(|reason| format!("app-services service shop/cart, a: {reason}")));
}

#[test]
fn what_is_behind_a_service_is_scraped_as_the_mesh_and_the_service_say() {
    let plain = || quiet(pod("a"));
    let meshed = || ScrapablePod { is_in_mesh: true, ..quiet(pod("a")) };
    let of = |scheme: &[(&str, &str)], pod| only(of_services(vec![service(scheme, "a", &[8080])], vec![pod]));
    let (http, https) =
        ("app-services http://10.0.0.1:8080/metrics", "app-services-secure https://10.0.0.1:8080/metrics");
    assert_eq!(of(&[], plain()), http);
    assert_eq!(of(&[], meshed()), https);
    assert_eq!(of(&[("scheme", "http")], meshed()), http);
    assert_eq!(of(&[("scheme", "https")], plain()), https);
    assert_eq!(of(&[("port", "15020"), ("path", "/x")], plain()), "app-services http://10.0.0.1:15020/x");
    let unknown = only(of_services(vec![service(&[], "gone", &[8080])], Vec::new()));
    assert_eq!(unknown, http, "of a pod that is not known");
}

#[test]
fn ports_of_sidecars_are_not_scraped_for_services() {
    let mut meshed = ScrapablePod { is_in_mesh: true, ..quiet(pod("a")) };
    meshed.containers.push(container("istio-proxy", &[15090]));
    let (targets, dropped) = of_services(vec![service(&[], "a", &[8080, 15090])], vec![meshed.clone()]);
    assert_eq!(targets, ["app-services-secure https://10.0.0.1:8080/metrics"]);
    let expected = "app-services-secure service shop/cart, a: port 15090 is that of Istio's sidecar, which the input \
                    istio scrapes";
    assert_eq!(dropped, [expected]);
    let (targets, dropped) = of_services(vec![service(&[("port", "8080")], "a", &[15090])], vec![meshed]);
    assert_eq!((targets, dropped.len()), (vec![], 2), "{dropped:?}");
    assert!(dropped[1].ends_with("the service leads to no port that can be scraped"), "{dropped:?}");
}

#[test]
fn only_endpoints_on_this_node_are_scraped() {
    let at = |node: Option<&str>, pod: &str| {
        let mut service = service(&[], pod, &[8080]);
        service.endpoints[0].node = node.map(str::to_owned);
        service
    };
    assert_eq!(of_services(vec![at(Some("n2"), "a")], vec![quiet(pod("a"))]), (vec![], vec![]));
    assert_eq!(of_services(vec![at(None, "gone")], vec![]), (vec![], vec![]));
    assert_eq!(of_services(vec![at(None, "a")], vec![quiet(pod("a"))]).0.len(), 1, "its pod says where it is");
    let mut named = service(&[], "a", &[8080]);
    named.endpoints[0].address = "cart.example.com".into();
    let reason = only(of_services(vec![named], vec![]));
    assert_eq!(reason, "app-services service shop/cart, a: \"cart.example.com\" is not an IP address");
}

#[test]
fn what_pod_and_service_both_name_is_scraped_once_for_the_service() {
    let found = of_services(vec![service(&[], "a", &[8080])], vec![pod("a")]);
    assert_eq!(found.0, ["app-services http://10.0.0.1:8080/metrics"]);
    let expected = "app-pods pod shop/a, http://10.0.0.1:8080/metrics: its page is scraped already, for service \
                    shop/cart";
    assert_eq!(found.1, [expected]);
    let other = || ScrapableService { name: "another".into(), ..service(&[], "a", &[8080]) };
    let found =
        discover(&all(), &Scrapables { pods: vec![], services: vec![service(&[], "a", &[8080]), other()] }, NODE);
    assert_eq!(found.targets[0].0.labels(), [(b"service".to_vec(), b"another".to_vec())], "the first by name");
    assert_eq!((found.targets.len(), found.dropped.len()), (1, 1));
    let another_page = service(&[("path", "/other")], "a", &[8080]);
    assert_eq!(of_services(vec![another_page], vec![pod("a")]).0.len(), 2, "two pages");
}

#[test]
fn resources_say_what_is_scraped() {
    let mut known = pod("a");
    known.containers.push(container("other", &[9090]));
    known.controller = Some(Workload { kind: WorkloadKind::ReplicaSet, name: "cart-1".into() });
    let of = |scrapables: Scrapables, key: &str| {
        let found = discover(&all(), &scrapables, NODE);
        found.targets.iter().map(|(target, _)| target.attribute(key).unwrap_or("-").to_owned()).collect::<Vec<_>>()
    };
    let pods = || Scrapables { pods: vec![known.clone()], services: vec![] };
    assert_eq!(of(pods(), CONTAINER_NAME), ["app", "other"]);
    assert_eq!(of(pods(), POD_UID), ["uid-of-a", "uid-of-a"]);
    assert_eq!(of(pods(), POD_NAME), ["a", "a"]);
    assert_eq!(of(pods(), NAMESPACE_NAME), ["shop", "shop"]);
    assert_eq!(of(pods(), NODE_NAME), ["n1", "n1"]);
    assert_eq!(of(pods(), "k8s.replicaset.name"), ["cart-1", "cart-1"]);
    assert_eq!(of(pods(), CLUSTER_NAME), ["-", "-"], "enrichment's");
    let services = |pods| Scrapables { pods, services: vec![service(&[("port", "9090,7070")], "a", &[8080])] };
    assert_eq!(of(services(vec![quiet(known.clone())]), CONTAINER_NAME), ["other", "-"]);
    assert_eq!(of(services(vec![quiet(pod("a"))]), CONTAINER_NAME), ["app", "app"], "the only one");
    let unknown = || services(vec![]);
    assert_eq!(of(unknown(), NAMESPACE_NAME), ["shop", "shop"]);
    assert_eq!(of(unknown(), NODE_NAME), ["n1", "n1"]);
    assert_eq!(of(unknown(), POD_NAME), ["-", "-"]);
}

/// A pod with a sidecar.
fn proxied(name: &str) -> ScrapablePod {
    let mut proxied = ScrapablePod { is_in_mesh: true, ..quiet(pod(name)) };
    let mut proxy = container("istio-proxy", &[15020, 15090]);
    proxy.ports[1].name = "http-envoy-prom".into();
    proxied.containers.push(proxy);
    proxied
}

#[test]
fn proxies_are_scraped_whatever_their_pods_say() {
    let url = "istio-proxy http://10.0.0.1:15090/stats/prometheus";
    assert_eq!(only(of_pods(vec![proxied("a")])), url);
    let mut native = proxied("a");
    native.containers[1].is_init = true;
    assert_eq!(only(of_pods(vec![native])), url, "a sidecar may be an init container");
    for no_proxy in [
        |pod: &mut ScrapablePod| pod.containers[1].name = "envoy".into(),
        |pod: &mut ScrapablePod| pod.containers[1].ports[1].name = "metrics".into(),
        |pod: &mut ScrapablePod| pod.node = Some("n2".into()),
    ] {
        let mut pod = proxied("a");
        no_proxy(&mut pod);
        assert_eq!(of_pods(vec![pod]), (vec![], vec![]));
    }
    let ended = ScrapablePod { phase: Some("Failed".into()), ..proxied("a") };
    assert_eq!(only(of_pods(vec![ended])), "istio-proxy pod shop/a: the pod is Failed");
    let annotated = ScrapablePod { annotations: pod("a").annotations, ..proxied("a") };
    let (targets, dropped) = of_pods(vec![annotated]);
    assert_eq!((targets, dropped.len()), (vec![url.to_owned()], 1));
}

#[test]
fn what_proxies_say_of_themselves_is_kept_where_somebody_wants_it() {
    let only = |namespace: &str| Selector::Only(vec![namespace.to_owned()]);
    let mut envoy = of_proxies("envoy", only("bank"));
    envoy.input.istio.as_mut().unwrap().envoy_metrics = true;
    let plan = Plan { pipelines: vec![envoy, of_proxies("istio", Selector::All)], ..Plan::default() };
    let pods = vec![proxied("a"), ScrapablePod { namespace: "bank".into(), ..proxied("b") }];
    let found = discover(&plan, &Scrapables { pods, services: Vec::new() }, NODE);
    let has_envoy: Vec<_> = found.targets.iter().map(|(target, _)| target.has_envoy()).collect();
    assert_eq!(has_envoy, [false, true]);
}

#[test]
fn pipelines_share_targets_as_their_namespaces_say() {
    let only = |namespaces: &[&str]| Selector::Only(namespaces.iter().map(|name| (*name).to_owned()).collect());
    let mut named = scraping("named", only(&["none"]));
    named.input.prometheus.as_mut().unwrap().static_targets =
        vec!["http://a:1/metrics".into(), "http://a:1/metrics".into()];
    let pipelines = vec![
        scraping("shop", only(&["shop"])),
        scraping("rest", Selector::without_system()),
        named,
        of_proxies("mesh", only(&["bank"])),
        pipeline("pushed"),
    ];
    let plan = Plan { pipelines, ..Plan::default() };
    let of = |namespace: &str, name: &str| ScrapablePod { namespace: namespace.into(), ..pod(name) };
    let mut bank = proxied("c");
    bank.namespace = "bank".into();
    let system = ScrapablePod { ip: Some([10, 0, 0, 2].into()), ..of("kube-system", "b") };
    let pods = vec![of("shop", "a"), system, bank, proxied("d")];
    let found = discover(&plan, &Scrapables { pods, services: Vec::new() }, NODE);
    let takers: Vec<_> = found.targets.iter().map(|(target, takers)| (target.job().name(), takers.join(" "))).collect();
    let expected = [
        ("static", "metrics/shop metrics/rest metrics/named"),
        ("app-pods", "metrics/shop metrics/rest"),
        ("istio-proxy", "metrics/mesh"),
    ];
    assert_eq!(takers, expected.map(|(job, takers)| (job, takers.to_owned())));
    assert!(found.targets.iter().all(|(target, _)| !target.has_envoy()));
    let expected = [
        "app-pods pod kube-system/b: no pipeline takes metrics from the namespace kube-system",
        "istio-proxy pod shop/d: no pipeline takes metrics from the namespace shop",
    ];
    assert_eq!(shown(&found).1, expected);
    let pushed = Plan { pipelines: vec![pipeline("pushed")], ..Plan::default() };
    let nothing = discover(&pushed, &Scrapables { pods: vec![proxied("a"), pod("b")], services: Vec::new() }, NODE);
    assert_eq!(nothing, Discovered::default());
}

#[test]
fn native_histograms_are_asked_for_where_a_pipeline_wants_them() {
    let mut wanting = scraping("wanting", Selector::Only(vec!["shop".into()]));
    wanting.input.prometheus.iter_mut().for_each(|input| input.native_histograms = true);
    wanting.input.istio = of_proxies("wanting", Selector::All).input.istio;
    let plan = Plan { pipelines: vec![wanting, scraping("other", Selector::All)], ..Plan::default() };
    let elsewhere = ScrapablePod { namespace: "office".into(), ip: Some([10, 0, 0, 2].into()), ..pod("b") };
    let scrapables = Scrapables { pods: vec![pod("a"), elsewhere], ..Scrapables::default() };
    let found = discover(&plan, &scrapables, NODE).targets;
    let asked: Vec<_> = found.iter().map(|(target, _)| (target.instance(), target.has_native_histograms())).collect();
    assert_eq!(asked, [("10.0.0.1:8080".to_owned(), true), ("10.0.0.2:8080".to_owned(), false)]);
}
