//! Noise: what Istio's proxies record about traffic that telemetry itself causes.
//!
//! Source: the Kyma processor `istio_noise_filter`. Some rules differ from it on purpose. Access logs of a gateway are also
//! known by its DaemonSet or StatefulSet, because the gateway may be one. Weir's own workloads and scrapes are among those of
//! telemetry. Addresses of the gateway must be addresses of the namespace `kyma-system`, not of a namespace whose name
//! starts like it. And a data point that says of which namespace a workload is counts for that namespace alone.

use std::sync::LazyLock;

use memchr::memmem::Finder;
use weir_otlp::common::Message;
use weir_otlp::conventions;
use weir_plan::names;

use crate::attributes::{OF_LOG_RECORD, OF_SPAN, first, text, texts};
use crate::resource::Sender;

const NAMESPACE: &str = "kyma-system";
const GATEWAYS: [&str; 6] = [
    // Of earlier versions of the module.
    "telemetry-log-gateway",
    "telemetry-metric-gateway",
    "telemetry-trace-gateway",
    names::NODE,
    names::STATELESS,
    names::STATEFUL,
];
/// What owns a gateway's pods, apart from a DaemonSet.
const OWNERS: [&str; 2] = ["k8s.deployment.name", "k8s.statefulset.name"];
/// With the log agent of earlier versions of the module.
const AGENTS: [&str; 4] = [names::LOG_AGENT, names::METRIC_AGENT, names::AGENTS, "telemetry-fluent-bit"];
/// Who scrapes: the pod on each node that does everything, the two agents where the gateway is replicas, or the metric agent
/// where roles are split.
const SCRAPING: [&str; 3] = [names::NODE, names::AGENTS, names::METRIC_AGENT];
/// Services that clients push to.
const SERVICES: [&str; 4] = [names::OTLP, names::OTLP_LOGS, names::OTLP_METRICS, names::OTLP_TRACES];
/// What user agents of scrapers begin with: Weir, Kyma's metric agent, and the vmagent of Kyma's monitoring.
const SCRAPERS: [&str; 3] = [names::PRODUCT, "kyma-otelcol/", "vm_promscrape"];

const PROBED_HOST_PREFIX: &str = "healthz.";
const PROBED_PATH: &str = "/healthz/ready";

/// The key of the attribute by which spans of Istio's proxy are known.
const COMPONENT: &str = "component";

/// Whether there may be spans of Istio's proxy in these bytes. Looking for the key as text takes a fraction of the time
/// of looking at every attribute, and most requests do not have it.
pub(crate) fn may_have_proxy_spans(bytes: &[u8]) -> bool {
    static FINDER: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(COMPONENT));
    FINDER.find(bytes).is_some()
}

/// Whether a span was made by Istio's proxy.
pub(crate) fn is_proxy_span(span: Message<'_>) -> bool {
    first(span, OF_SPAN, COMPONENT).is_some_and(|component| text(component) == "proxy")
}

/// Whether a span of Istio's proxy is noise.
pub(crate) fn is_noise_span(span: Message<'_>, sender: &Sender<'_>) -> bool {
    const KEYS: [&str; 5] =
        ["istio.canonical_service", "http.method", "upstream_cluster.name", "http.url", "user_agent"];
    let [service, method, cluster, url, user_agent] = texts(span, OF_SPAN, KEYS);
    let (inbound, outbound) = (cluster.starts_with("inbound|"), cluster.starts_with("outbound|"));
    let namespace = sender.text(conventions::NAMESPACE_NAME);

    let component = namespace == NAMESPACE && is_component(service);
    let push = method == "POST" && outbound && is_gateway_url(url);
    let scrape = method == "GET" && inbound && is_scraper(user_agent);
    let probe = namespace == "istio-system"
        && service == "istio-ingressgateway"
        && method == "GET"
        && outbound
        && is_probed_url(url);
    component || push || scrape || probe
}

/// Whether an access log record of Istio's proxy is noise.
pub(crate) fn is_noise_record(record: Message<'_>, sender: &Sender<'_>) -> bool {
    const KEYS: [&str; 5] =
        ["server.address", "http.request.method", "http.direction", "user_agent.original", "url.path"];
    let [server, method, direction, user_agent, path] = texts(record, OF_LOG_RECORD, KEYS);
    let get = method == "GET";

    let component = sender.text(conventions::NAMESPACE_NAME) == NAMESPACE
        && (is_component(sender.text("k8s.daemonset.name"))
            || OWNERS.iter().any(|owner| GATEWAYS.contains(&sender.text(owner))));
    let push = is_gateway_host(server.split_once(':').map_or(server, |(host, _)| host));
    let scrape = get && direction == "inbound" && is_scraper(user_agent);
    let probe = get && direction == "outbound" && server.starts_with(PROBED_HOST_PREFIX) && path.ends_with(PROBED_PATH);
    component || push || scrape || probe
}

/// Whether a metric may hold noise.
pub(crate) fn is_istio_metric(name: &str) -> bool {
    name.starts_with("istio_")
}

/// Whether a data point of such a metric is noise; `number` is the field of its attributes.
pub(crate) fn is_noise_point(point: Message<'_>, number: u32) -> bool {
    const KEYS: [&str; 4] =
        ["source_workload", "source_workload_namespace", "destination_workload", "destination_workload_namespace"];
    let [source, of_source, destination, of_destination] = texts(point, number, KEYS);
    // Who configures the proxies may have left the namespaces out.
    let is_ours = |namespace: &str| namespace.is_empty() || namespace == NAMESPACE;
    (SCRAPING.contains(&source) && is_ours(of_source)) || (GATEWAYS.contains(&destination) && is_ours(of_destination))
}

fn is_component(name: &str) -> bool {
    GATEWAYS.contains(&name) || AGENTS.contains(&name)
}

fn is_scraper(user_agent: &str) -> bool {
    SCRAPERS.iter().any(|scraper| user_agent.starts_with(scraper))
}

/// `http(s)://` and an OTLP port of a gateway.
fn is_gateway_url(url: &str) -> bool {
    let Some(rest) = url.strip_prefix("http://").or_else(|| url.strip_prefix("https://")) else { return false };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let is_one_line = !authority.contains('\n');
    is_one_line
        && authority
            .rsplit_once(':')
            .is_some_and(|(host, port)| matches!(port, "4317" | "4318") && is_gateway_host(host))
}

/// The gateway's service, or one of its old services, in Kyma's namespace, by its name in the cluster, short or long.
fn is_gateway_host(host: &str) -> bool {
    let mut labels = host.split('.');
    labels.next().is_some_and(|service| SERVICES.contains(&service)) && labels.next() == Some(NAMESPACE)
}

/// `https://healthz.<domain>/healthz/ready`, of which the domain has at least one character and no line break.
fn is_probed_url(url: &str) -> bool {
    let domain = url.strip_prefix("https://").and_then(|rest| rest.strip_prefix(PROBED_HOST_PREFIX));
    let line = domain.and_then(|rest| rest.split('\n').next()).unwrap_or_default();
    let mut behind_first = line.chars();
    behind_first.next().is_some() && behind_first.as_str().contains(PROBED_PATH)
}
