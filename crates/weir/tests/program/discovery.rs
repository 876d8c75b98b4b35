//! Pods, services and proxies of a cluster are scraped for the pipelines that want them.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value;
use opentelemetry_proto::tonic::metrics::v1::{NumberDataPoint, metric};
use prost::Message as _;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;
use weir_testkit::backend::Backend;
use weir_testkit::eventually;
use weir_testkit::signals::text;
use weir_testkit::tls::Authority;

use crate::process::Weir;

/// Serves a page until it is dropped.
struct Server {
    address: SocketAddr,
    task: JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Server {
    /// At an address of its own, as a pod has.
    async fn start(ip: [u8; 4], page: &'static str, tls: Option<TlsAcceptor>) -> Self {
        let listener = TcpListener::bind((IpAddr::from(ip), 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let task = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                tokio::spawn(answer(stream, page, tls.clone()));
            }
        });
        Self { address, task }
    }
}

/// Serves a connection. With TLS, who has no certificate has no page.
async fn answer(stream: TcpStream, page: &'static str, tls: Option<TlsAcceptor>) {
    let Some(tls) = tls else { return serve(stream, page).await };
    if let Ok(stream) = tls.accept(stream).await {
        serve(stream, page).await;
    }
}

/// Answers requests for the page; its path is its first line, behind `# `.
async fn serve(stream: impl AsyncRead + AsyncWrite + Unpin, page: &'static str) {
    let mut stream = BufReader::new(stream);
    let (mut line, mut asked) = (String::new(), String::new());
    while stream.read_line(&mut line).await.is_ok_and(|read| read > 0) {
        if asked.is_empty() {
            asked = line.split(' ').nth(1).unwrap_or_default().to_owned();
        }
        if line == "\r\n" {
            let is_page = page.starts_with(&format!("# {asked}\n"));
            let (status, body) = if is_page { ("200 OK", page) } else { ("404 Not Found", "") };
            let head =
                format!("HTTP/1.1 {status}\r\ncontent-type: text/plain\r\ncontent-length: {}\r\n\r\n", body.len());
            if stream.write_all(format!("{head}{body}").as_bytes()).await.is_err() {
                return;
            }
            asked.clear();
        }
        line.clear();
    }
}

fn pod(namespace: &str, name: &str, address: SocketAddr, more: &str) -> String {
    let (ip, port) = (address.ip(), address.port());
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata:\n  name: {name}-0\n  namespace: {namespace}\n  uid: uid-of-{name}\n  \
         ownerReferences: [{{kind: StatefulSet, name: {name}, controller: true}}]\n{more}spec:\n  nodeName: here\n  \
         containers:\n  - name: {name}\n    ports: [{{containerPort: {port}, name: http-envoy-prom}}]\n\
         status: {{phase: Running, podIP: {ip}}}\n---\n"
    )
}

fn service(namespace: &str, name: &str, address: SocketAddr, annotations: &str) -> String {
    let (ip, port) = (address.ip(), address.port());
    format!(
        "apiVersion: v1\nkind: Service\nmetadata:\n  name: {name}\n  namespace: {namespace}\n  annotations: \
         {{prometheus.io/scrape: 'true'{annotations}}}\n---\napiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\n\
         metadata:\n  name: {name}-abcde\n  namespace: {namespace}\n  labels: {{kubernetes.io/service-name: {name}}}\n\
         endpoints: [{{addresses: ['{ip}'], nodeName: here, targetRef: {{kind: Pod, name: {name}-0}}}}]\n\
         ports: [{{port: {port}}}]\n---\n"
    )
}

/// A pipeline with these inputs.
fn pipeline(name: &str, backend: SocketAddr, inputs: &str) -> String {
    format!(
        "apiVersion: telemetry.kyma-project.io/v1beta1\nkind: MetricPipeline\nmetadata: {{name: {name}}}\nspec:\n  \
         input: {inputs}\n  output: {{otlp: {{endpoint: {{value: 'http://{backend}'}}}}}}\n---\n"
    )
}

/// A target has no longer than the interval to answer, over TLS and on a busy machine as well.
const TELEMETRY: &str = "apiVersion: operator.kyma-project.io/v1beta1\nkind: Telemetry\nmetadata:\n  name: default\n  \
                         annotations: {telemetry.kyma-project.io/service-enrichment: otel}\nspec: {metric: \
                         {collectionInterval: 3s}}\n---\n";

/// What arrived: `scope-job namespace/pod/container service-name metric{labels} value` of each data point.
fn arrived(backend: &Backend) -> BTreeSet<String> {
    let captured = backend.captured().into_iter();
    captured.flat_map(|request| points(&ExportMetricsServiceRequest::decode(&request.plain[..]).unwrap())).collect()
}

fn points(request: &ExportMetricsServiceRequest) -> Vec<String> {
    let mut all = Vec::new();
    for resource in &request.resource_metrics {
        let attributes = &resource.resource.as_ref().unwrap().attributes;
        let of = |key| text(attributes, key).unwrap_or("-");
        let [namespace, pod, container] = ["k8s.namespace.name", "k8s.pod.name", "k8s.container.name"].map(of);
        let who = format!("{namespace}/{pod}/{container} {}", of("service.name"));
        for scope in &resource.scope_metrics {
            let name = scope.scope.as_ref().unwrap().name.rsplit('/').next().unwrap().to_owned();
            for metric in &scope.metrics {
                let numbers = match metric.data.as_ref().unwrap() {
                    metric::Data::Gauge(gauge) => &gauge.data_points,
                    metric::Data::Sum(sum) => &sum.data_points,
                    _ => continue,
                };
                all.extend(numbers.iter().map(|point| format!("{name} {who} {}{}", metric.name, shown(point))));
            }
        }
    }
    all
}

fn shown(point: &NumberDataPoint) -> String {
    let labels: Vec<_> = point.attributes.iter().map(|label| label.key.as_str()).collect();
    let value = match point.value {
        Some(Value::AsDouble(value)) => value.to_string(),
        Some(Value::AsInt(value)) => value.to_string(),
        None => "gone".to_owned(),
    };
    format!("{{{}}} {value}", labels.join(","))
}

/// What Istio's sidecar keeps for whoever wants to scrape in its mesh.
fn certificates(authority: &Authority) -> TempDir {
    let (directory, identity) = (TempDir::new().unwrap(), authority.identity());
    std::fs::write(directory.path().join("cert-chain.pem"), &identity.cert_pem).unwrap();
    std::fs::write(directory.path().join("key.pem"), identity.key_pem.reveal()).unwrap();
    directory
}

fn arguments(certificates: &Path) -> Vec<&str> {
    vec!["--node-name", "here", "--istio-certs", certificates.to_str().unwrap()]
}

#[tokio::test]
async fn what_a_cluster_runs_is_scraped_for_those_who_want_it() {
    let (shop, bank, authority) = (Backend::start().await, Backend::start().await, Authority::new());
    let certificates = certificates(&authority);
    let cart = Server::start([127, 0, 0, 2], "# /metrics?a=b\ncart 1\n", None).await;
    let vault = Server::start([127, 0, 0, 3], "# /stats\nvault{service=\"own\"} 2\n", None).await;
    let safe = Server::start([127, 0, 0, 4], "# /metrics\nsafe 3\n", Some(authority.server(Some(&authority)))).await;
    let page = "# /stats/prometheus\nistio_requests_total 4\nenvoy_up 5\nother 6\n\
                istio_requests_total{source_workload=\"telemetry-metric-agent\"} 7\n";
    let proxy = Server::start([127, 0, 0, 5], page, None).await;

    let scraped = "  annotations: {prometheus.io/scrape: 'true', prometheus.io/param_a: b}\n";
    let objects = [
        pod("shop", "cart", cart.address, scraped),
        pod("bank", "vault", vault.address, ""),
        service("bank", "vault", vault.address, ", prometheus.io/path: stats"),
        pod("shop", "safe", safe.address, "  labels: {security.istio.io/tlsMode: istio}\n"),
        service("shop", "safe", safe.address, ""),
        pod("shop", "istio-proxy", proxy.address, ""),
        // Not here, and wrong.
        pod("shop", "far", cart.address, scraped).replace("nodeName: here", "nodeName: there"),
        pod("shop", "lost", cart.address, "  annotations: {prometheus.io/scrape: 'true', prometheus.io/port: x}\n"),
    ]
    .concat();
    let inputs = "{prometheus: {enabled: true, namespaces: {include: [shop]}, diagnosticMetrics: {enabled: true}}, \
                  istio: {enabled: true, envoyMetrics: {enabled: true}}}";
    let of_shop = pipeline("shop", shop.address, inputs);
    let inputs = "{prometheus: {enabled: true, namespaces: {include: [bank]}}, istio: {enabled: true, \
                  diagnosticMetrics: {enabled: true}}}";
    let of_bank = pipeline("bank", bank.address, inputs);
    let weir = Weir::start(&[TELEMETRY, &of_shop, &of_bank, &objects].concat(), &arguments(certificates.path())).await;

    let of_shop_only = [
        "prometheus shop/cart-0/cart cart cart{} 1",
        "prometheus shop/cart-0/cart cart up{} 1",
        "prometheus shop/safe-0/safe safe safe{service} 3",
        "prometheus shop/safe-0/safe safe up{} 1",
        "istio shop/istio-proxy-0/istio-proxy istio-proxy envoy_up{} 5",
    ];
    let of_bank_only = [
        "prometheus bank/vault-0/vault vault vault{exported_service,service} 2",
        "istio shop/istio-proxy-0/istio-proxy istio-proxy up{} 1",
    ];
    let of_both = ["istio shop/istio-proxy-0/istio-proxy istio-proxy istio_requests_total{} 4"];
    for (backend, lines) in [(&shop, &of_shop_only[..]), (&bank, &of_bank_only), (&shop, &of_both), (&bank, &of_both)] {
        for line in lines {
            eventually(line, async || arrived(backend).contains(*line)).await;
        }
    }
    let (at_shop, at_bank) = (arrived(&shop), arrived(&bank));
    assert!(of_bank_only.iter().all(|line| !at_shop.contains(*line)), "{at_shop:#?}");
    assert!(of_shop_only.iter().all(|line| !at_bank.contains(*line)), "{at_bank:#?}");
    let both = at_shop.union(&at_bank).cloned().collect::<Vec<_>>().join("\n");
    for nobody in ["other{", "source_workload", "far", "lost"] {
        assert!(!both.contains(nobody), "{nobody}: {both}");
    }
    assert!(!at_bank.iter().any(|line| line.starts_with("prometheus") && line.contains(" up{")), "{at_bank:#?}");
    assert!(weir.all_logged("cannot scrape a target; trying again").is_empty(), "{:?}", weir.logs());
}

#[tokio::test]
async fn targets_come_and_go_with_the_cluster() {
    let (backend, certificates) = (Backend::start().await, TempDir::new().unwrap());
    let one = Server::start([127, 0, 0, 2], "# /metrics\none 1\n", None).await;
    let other = Server::start([127, 0, 0, 3], "# /metrics\nother 2\n", None).await;
    let scraped = "  annotations: {prometheus.io/scrape: 'true'}\n";
    let [one, other] =
        [("one", one.address), ("other", other.address)].map(|(name, address)| pod("shop", name, address, scraped));
    let inputs = "{prometheus: {enabled: true, diagnosticMetrics: {enabled: true}}}";
    let always = TELEMETRY.to_owned() + &pipeline("all", backend.address, inputs);
    let weir = Weir::start(&(always.clone() + &one), &arguments(certificates.path())).await;
    let arrives = async |line: &str| eventually(line, async || arrived(&backend).contains(line)).await;
    arrives("prometheus shop/one-0/one one one{} 1").await;
    weir.edit(&(always.clone() + &one + &other));
    arrives("prometheus shop/other-0/other other other{} 2").await;
    assert!(!arrived(&backend).iter().any(|line| line.ends_with("gone")), "one stays");
    weir.edit(&(always + &other));
    // Enrichment still knows whose they are.
    arrives("prometheus shop/one-0/one one one{} gone").await;
    arrives("prometheus shop/one-0/one one up{} gone").await;
    assert!(!arrived(&backend).contains("prometheus shop/other-0/other other other{} gone"), "the other stays");
    let (status, _) = weir.end().await;
    assert!(status.success());
    let gone: Vec<_> =
        arrived(&backend).into_iter().filter(|line| line.contains("/other ") && line.ends_with("gone")).collect();
    assert!(gone.is_empty(), "nothing is said at the end: {gone:?}");
}
