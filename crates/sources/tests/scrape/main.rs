//! The scraper in an engine, with real targets and real backends.

#![expect(clippy::unwrap_used, reason = "what fails here is to fail the test")]

mod bad_pages;
mod bad_servers;
mod encodings;
mod large;
mod memory;
mod raw_pages;
mod redirects;
mod schedule;
mod seen;
mod servers;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::common::v1::{KeyValue, any_value};
use opentelemetry_proto::tonic::metrics::v1::{metric, number_data_point};
use prost::Message;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use weir_engine::settings::{self, Admin};
use weir_engine::{Engine, Settings};
use weir_enrich::PodList;
use weir_plan::{
    Body, ClusterFacts, CollectionIntervals, Compression, Endpoint, Output, Pipeline, Plan, PrometheusInput, Protocol,
    Scrapables, Selector, Signal,
};
use weir_sources::scrape::{self, Failure, Scraper, TargetBoard};
use weir_testkit::backend::Backend;
use weir_testkit::eventually;

/// What a target answers.
#[derive(Debug, Clone)]
struct Page {
    status: u16,
    content_type: &'static str,
    content_encoding: &'static str,
    body: Vec<u8>,
}

impl Page {
    fn new(status: u16, content_type: &'static str, body: impl Into<Vec<u8>>) -> Self {
        Self { status, content_type, content_encoding: "identity", body: body.into() }
    }
}

/// A target whose page can change.
struct Target {
    url: String,
    page: Arc<Mutex<Page>>,
    task: JoinHandle<()>,
}

impl Drop for Target {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Target {
    async fn start(body: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/metrics", listener.local_addr().unwrap());
        let page = Page::new(200, "text/plain; version=0.0.4", body);
        let page = Arc::new(Mutex::new(page));
        let served = Arc::clone(&page);
        let task = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                tokio::spawn(serve(stream, Arc::clone(&served)));
            }
        });
        Self { url, page, task }
    }

    fn now(&self, status: u16, content_type: &'static str, body: &str) {
        self.serves(Page::new(status, content_type, body));
    }

    fn serves(&self, page: Page) {
        *self.page.lock().unwrap() = page;
    }
}

/// Answers every request with the page as it is then.
async fn serve(stream: TcpStream, page: Arc<Mutex<Page>>) {
    let mut stream = BufReader::new(stream);
    let mut line = String::new();
    while stream.read_line(&mut line).await.is_ok_and(|read| read > 0) {
        if line == "\r\n" {
            let Page { status, content_type, content_encoding, body } = page.lock().unwrap().clone();
            let length = body.len();
            let head = format!(
                "HTTP/1.1 {status} Said\r\ncontent-type: {content_type}\r\ncontent-encoding: {content_encoding}\r\n\
                 content-length: {length}\r\n\r\n"
            );
            if stream.write_all(&[head.into_bytes(), body].concat()).await.is_err() {
                return;
            }
        }
        line.clear();
    }
}

/// A pipeline that scrapes this target, and an engine that runs it.
struct Agent {
    engine: Engine,
    scraper: Scraper,
    board: TargetBoard,
    backend: Backend,
}

impl Agent {
    async fn start(target: &Target, diagnostic_metrics: bool) -> Self {
        let backend = Backend::start().await;
        let plan = plan(&backend, &target.url, diagnostic_metrics);
        Self::run(&plan, backend, settings::MEMORY).await
    }

    /// Scrapes several targets every so often, with all that is said of scrapes.
    async fn of(urls: &[&str], interval: Duration) -> Self {
        let backend = Backend::start().await;
        let plan = plan_of(&backend, urls, interval);
        Self::run(&plan, backend, settings::MEMORY).await
    }

    async fn run(plan: &Plan, backend: Backend, memory: usize) -> Self {
        Self::with(plan, backend, Settings { memory, ..Settings::default() }).await
    }

    /// With these settings, but no ports.
    async fn with(plan: &Plan, backend: Backend, settings: Settings) -> Self {
        let admin = Admin { port: None, ..Admin::default() };
        let settings =
            Settings { grpc_port: None, http_port: None, metrics_port: None, health_port: None, admin, ..settings };
        let pods = Arc::new(PodList::new(ClusterFacts::default()));
        let engine = Engine::start(plan, pods, settings).await.unwrap();
        let board = TargetBoard::default();
        let scraper =
            Scraper::start(scrape::Settings::default(), (plan, &Scrapables::default()), engine.inlet(), board.clone())
                .unwrap();
        Self { engine, scraper, board, backend }
    }

    /// Every number that arrived, in order, as text.
    fn arrived(&self) -> Vec<String> {
        arrived(&self.backend)
    }

    /// Waits until such a number arrived.
    async fn arrives(&self, wanted: &str) {
        eventually(wanted, async || self.arrived().iter().any(|line| line == wanted)).await;
    }

    /// Waits for a scrape that fails for this reason.
    async fn fails(&self, reason: &str) {
        let fails = |failure: &Failure| failure.words.contains(reason);
        let is_there = || self.board.all().iter().any(|(_, last)| last.failure.as_ref().is_some_and(fails));
        eventually(reason, async || is_there()).await;
    }
}

fn plan(backend: &Backend, url: &str, diagnostic_metrics: bool) -> Plan {
    let endpoint =
        Endpoint { host: backend.address.ip().to_string(), port: backend.address.port(), path: String::new() };
    let output = Output {
        body: Body::Otlp,
        protocol: Protocol::Grpc,
        endpoint,
        compression: Compression::None,
        headers: Vec::new(),
        oauth2: None,
        tls: None,
    };
    let mut pipeline = Pipeline::new(Signal::Metrics, "scraped", output);
    pipeline.input.otlp = None;
    let (namespaces, static_targets) = (Selector::without_system(), vec![url.to_owned()]);
    pipeline.input.prometheus =
        Some(PrometheusInput { namespaces, diagnostic_metrics, static_targets, native_histograms: false });
    let intervals = CollectionIntervals { prometheus: Duration::from_millis(50), ..CollectionIntervals::default() };
    Plan { pipelines: vec![pipeline], intervals, ..Plan::default() }
}

/// A plan to scrape these every so often, with all that is said of scrapes.
fn plan_of(backend: &Backend, urls: &[&str], interval: Duration) -> Plan {
    let mut plan = plan(backend, "", true);
    let targets = urls.iter().map(|url| (*url).to_owned()).collect();
    plan.pipelines[0].input.prometheus.as_mut().unwrap().static_targets = targets;
    plan.intervals.prometheus = interval;
    plan
}

fn arrived(backend: &Backend) -> Vec<String> {
    backend.captured().into_iter().flat_map(|captured| numbers(&captured.plain)).collect()
}

/// Numbers of a request, as `job name{labels} value`.
fn numbers(request: &[u8]) -> Vec<String> {
    timed_numbers(request).into_iter().map(|(_, line)| line).collect()
}

/// The same with their times, which are those of scrapes.
fn timed_numbers(request: &[u8]) -> Vec<(u64, String)> {
    let request = ExportMetricsServiceRequest::decode(request).unwrap();
    let mut all = Vec::new();
    for resource in request.resource_metrics {
        let job = text(&resource.resource.unwrap().attributes, "service.name");
        for metric in resource.scope_metrics.into_iter().flat_map(|scope| scope.metrics) {
            let points = match metric.data {
                Some(metric::Data::Gauge(gauge)) => gauge.data_points,
                Some(metric::Data::Sum(sum)) => sum.data_points,
                _ => Vec::new(),
            };
            for point in points {
                let labels: Vec<_> = point.attributes.iter().map(|label| label.key.as_str()).collect();
                let value = match point.value {
                    Some(number_data_point::Value::AsDouble(value)) => value.to_string(),
                    _ => "gone".to_owned(),
                };
                let line = format!("{job} {}{{{}}} {value}", metric.name, labels.join(","));
                all.push((point.time_unix_nano, line));
            }
        }
    }
    all
}

fn text(attributes: &[KeyValue], key: &str) -> String {
    let found = attributes.iter().find(|attribute| attribute.key == key).and_then(|attribute| attribute.value.clone());
    match found.and_then(|value| value.value) {
        Some(any_value::Value::StringValue(text)) => text,
        _ => String::new(),
    }
}

#[tokio::test]
async fn a_page_arrives_at_the_backend_again_and_again() {
    let target = Target::start("# TYPE a counter\na{x=\"1\"} 1\nb 2\n").await;
    let agent = Agent::start(&target, false).await;
    agent.arrives("static a{x} 1").await;
    target.now(200, "text/plain", "# TYPE a counter\na{x=\"1\"} 7\nb 2\n");
    agent.arrives("static a{x} 7").await;
    target.now(200, "application/openmetrics-text; version=1.0.0", "# TYPE a counter\na_total{x=\"1\"} 8\n# EOF\n");
    agent.arrives("static a_total{x} 8").await;
    agent.arrives("static b{} gone").await;
    assert!(agent.arrived().iter().all(|line| !line.contains(" up{")), "nobody asked for it");
    agent.scraper.stop().await;
    assert!(agent.board.all().is_empty());
}

#[tokio::test]
async fn a_target_that_fails_says_why_and_its_series_end_once() {
    let target = Target::start("a 1\n").await;
    let agent = Agent::start(&target, true).await;
    agent.arrives("static a{} 1").await;
    agent.arrives("static up{} 1").await;
    target.now(503, "text/plain", "a 2\n");
    agent.fails("answered 503").await;
    agent.arrives("static up{} 0").await;
    agent.arrives("static a{} gone").await;
    target.now(200, "text/html", "<html>");
    agent.fails("content type \"text/html\"").await;
    target.now(200, "application/openmetrics-text", "a 2\n");
    agent.fails("incomplete").await;
    target.now(200, "text/plain", "a 2\nb\n");
    agent.fails("line 2: no value").await;
    let captured = agent.backend.captured();
    let mut lines: Vec<_> = captured.iter().flat_map(|captured| timed_numbers(&captured.plain)).collect();
    lines.retain(|(_, line)| line.starts_with("static a{} "));
    lines.sort();
    // On a busy machine a scrape may be too late, which ends them, too; the next one begins them anew.
    let has_ended = |(_, line): &(u64, String)| line.ends_with(" gone");
    assert!(!lines.windows(2).any(|two| two.iter().all(has_ended)), "{lines:?}");
    target.now(200, "text/plain", "a 3\n");
    agent.arrives("static a{} 3").await;
}
