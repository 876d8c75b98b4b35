//! What the metrics say of a backlog on disk.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::json;
use weir_engine::Histogram;
use weir_engine::Settings;
use weir_engine::view::{ContainerLogFigures, ScrapeFigures, SourceFigures, WatchFigures};
use weir_plan::Signal;
use weir_testkit::backend::Backend;
use weir_testkit::clients::{ids, request, send_singly};
use weir_testkit::data_dir::DataDir;
use weir_testkit::grpc::{OK, frame};
use weir_testkit::signals::{counter, document};
use weir_testkit::sink::{DOWN, arrived, closed_port, faults, sink};
use weir_testkit::tls::Authority;
use weir_testkit::{eventually, http, manifests};

use crate::support::{Gateway, configuration, on_disk, pipeline};

const QUEUE: &str = "{exporter=\"otlp_grpc/tracepipeline-backend\",data_type=\"traces\"}";

/// More than travels in one request to the backend.
const REQUESTS: u64 = 8;

const PADDING: usize = 100_000;

async fn start(dir: &DataDir, backend: std::net::SocketAddr) -> Gateway {
    let settings = Settings { spill_after: Duration::from_millis(5), ..on_disk(dir).await };
    Gateway::with(vec![pipeline("backend", backend)], settings).await
}

#[tokio::test]
async fn what_is_on_disk_counts_as_queued_and_pending_once() {
    let (dir, sink) = (DataDir::new(), sink(DOWN).await);
    let gateway = start(&dir, sink.grpc).await;
    send_singly(gateway.at.grpc, 0..REQUESTS, PADDING).await;
    let bytes = (0..REQUESTS).map(|number| request(number, PADDING).len()).sum::<usize>() as f64;
    eventually("nothing waits in memory alone", async || {
        let scrape = gateway.scrape().await;
        let sizes = [
            scrape.figure("weir_pipeline_backlog_bytes", "backend"),
            scrape.figure("weir_pipeline_pending_bytes", "backend"),
            scrape.get(&format!("otelcol_exporter_queue_size{QUEUE}")),
        ];
        sizes == [bytes; 3]
    })
    .await;
    let scrape = gateway.scrape().await;
    let limit = scrape.figure("weir_pipeline_backlog_limit_bytes", "backend");
    assert_eq!(limit, weir_plan::Backlog::default().max_bytes as f64);
    assert_eq!(scrape.get(&format!("otelcol_exporter_queue_capacity{QUEUE}")), limit);

    sink.set_faults(faults("{}"));
    gateway.settle().await;
    assert_eq!(arrived(&sink), ids(0..REQUESTS));
    eventually("nothing is left", async || {
        let scrape = gateway.scrape().await;
        scrape.get(&format!("otelcol_exporter_queue_size{QUEUE}")) == 0.0
            && scrape.figure("weir_pipeline_pending_bytes", "backend") == 0.0
    })
    .await;
}

/// What was read back has not become younger.
#[tokio::test]
async fn the_oldest_item_may_be_on_disk() {
    let (dir, sink) = (DataDir::new(), sink(DOWN).await);
    let gateway = start(&dir, sink.grpc).await;
    send_singly(gateway.at.grpc, 0..1, 100).await;
    eventually("it has a certain age", async || {
        gateway.scrape().await.figure("weir_pipeline_backlog_oldest_age_seconds", "backend") > 3.0
    })
    .await;
    gateway.stop().await;
    let gateway = start(&dir, sink.grpc).await;
    let scrape = gateway.scrape().await;
    assert!(scrape.figure("weir_pipeline_oldest_age_seconds", "backend") > 3.0);
    sink.set_faults(faults("{}"));
    gateway.settle().await;
    eventually("nothing is left", async || {
        gateway.scrape().await.figure("weir_pipeline_oldest_age_seconds", "backend") == 0.0
    })
    .await;
}

/// A metric as the documentation has it, and as a scrape has it.
type Documented = BTreeMap<String, (String, BTreeSet<String>)>;

/// What is between backticks in a cell, with `{a,b}` written out.
fn names(cell: &str) -> Vec<String> {
    let names = cell.split('`').skip(1).step_by(2).flat_map(|name| match name.split_once('{') {
        None => vec![name.to_owned()],
        Some((before, rest)) => {
            let (parts, after) = rest.split_once('}').unwrap();
            parts.split(',').map(|part| format!("{before}{part}{after}")).collect()
        }
    });
    names.collect()
}

fn documented() -> Documented {
    let text = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/metrics.md")).unwrap();
    let rows = text.lines().filter(|line| line.starts_with("| `"));
    let metrics = rows.flat_map(|row| {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let (names, types): (Vec<String>, Vec<&str>) = (names(cells[1]), cells[2].split(", ").collect());
        assert!(types.len() == 1 || types.len() == names.len(), "{row}");
        let mut labels: BTreeSet<_> =
            cells[3].split(", ").filter(|label| !label.is_empty()).map(ToOwned::to_owned).collect();
        // As it says below the table.
        labels.extend(labels.contains("pipeline").then(|| "signal".to_owned()));
        let typed = |(at, name): (usize, String)| (name, (types[at % types.len()].to_owned(), labels.clone()));
        names.into_iter().enumerate().map(typed).collect::<Vec<_>>()
    });
    metrics.collect()
}

fn label_names(sample: &str) -> BTreeSet<String> {
    let Some((_, labels)) = sample.split_once('{') else { return BTreeSet::new() };
    let names = labels.split("=\"").filter_map(|part| part.rsplit([',', '{', '"']).next());
    names.filter(|name| !["", "le", "}"].contains(name)).map(ToOwned::to_owned).collect()
}

async fn scraped(gateway: &Gateway) -> Documented {
    let page = http::get(gateway.at.metrics, "/metrics").await.text();
    let (mut metrics, mut now) = (Documented::new(), (String::new(), String::new()));
    for line in page.lines() {
        if let Some(typed) = line.strip_prefix("# TYPE ") {
            let (name, kind) = typed.split_once(' ').unwrap();
            now = (format!("{name}{}", if kind == "counter" { "_total" } else { "" }), kind.to_owned());
        } else if !line.starts_with('#') {
            let (sample, _) = line.rsplit_once(' ').unwrap();
            let (name, kind) = now.clone();
            let labels = label_names(sample);
            let first = metrics.entry(name).or_insert_with(|| (kind, labels.clone()));
            assert_eq!(first.1, labels, "{line}");
        }
    }
    metrics
}

/// Something of everything.
fn of_sources() -> SourceFigures {
    let (odd, lost_bytes) = (vec![("cut", 1)], vec![("removed", 1)]);
    let container_logs = Some(ContainerLogFigures { odd, lost_bytes, ..ContainerLogFigures::default() });
    let scrapes = ScrapeFigures {
        job: "static".to_owned(),
        targets: vec![("up", 1)],
        dropped_targets: 1,
        forgotten_targets: 1,
        scrapes: vec![("ok", 1)],
        durations: Histogram::default().figures(),
        bytes: 1,
        samples: 1,
        lost: vec![("no_room", 1)],
    };
    let silence = Duration::from_secs(1);
    let watches =
        vec![WatchFigures { watched: "Pod", scope: "node", objects: 1, events: 1, lists: 1, errors: 1, silence }];
    let runtime_lost = BTreeMap::from([("no_room", 1)]);
    SourceFigures { container_logs, scrapes: vec![scrapes], runtime_lost, watches, leads: Some(true) }
}

/// Pipelines with an output of Fluent Bit, and with one over TLS that shows a certificate.
async fn others() -> (String, Backend) {
    let authority = Authority::new();
    let backend = Backend::with_tls(authority.server(None)).await;
    let http = json!({"host": {"value": "127.0.0.1"}, "port": "1", "tls": {"insecure": true}});
    let lines = manifests::with_spec(Signal::Logs, "lines", &json!({"output": {"http": http}}));
    let client = authority.identity();
    let tls = json!({
        "ca": {"value": authority.pem()}, "cert": {"value": client.cert_pem}, "key": {"value": client.key_pem.reveal()},
    });
    let secured = manifests::secured("grpc", backend.address, &tls);
    (lines + &manifests::pipeline(Signal::Traces, "secured", &secured), backend)
}

/// Every metric that there is, with its type and labels, in both directions.
#[tokio::test]
async fn the_documentation_has_the_metrics_of_a_scrape() {
    let (dir, sink) = (DataDir::new(), sink(r#"{"partial": 10}"#).await);
    let gone = document(Signal::Traces, "gone", closed_port().await, "")
        .replace("  name: gone\n", "  name: gone\n  annotations:\n    weir.dev/backlog-max-bytes: 1Mi\n");
    let filter = "  filter:\n  - conditions: ['span.name == \"none\"']";
    let stays = document(Signal::Traces, "backend", sink.grpc, filter)
        + &document(Signal::Logs, "logs", sink.grpc, "")
        + &document(Signal::Metrics, "delta", sink.grpc, "")
            .replace("    otlp:\n", "    otlp:\n      temporality: delta\n");
    let (others, _backend) = others().await;
    let stays = stays + &others;
    let settings = Settings { spill_after: Duration::from_millis(5), ..on_disk(&dir).await };
    let drain_timeout = Duration::from_millis(50);
    let mut gateway = Gateway::configured(&(gone + &stays), Settings { drain_timeout, ..settings }).await;
    send_singly(gateway.at.grpc, 0..REQUESTS, PADDING).await;
    let client = gateway.client().await;
    let point = frame(&counter(1, 1), false);
    assert_eq!(client.call(Signal::Metrics.grpc_method(), None, point).await.code, OK);
    gateway.engine.reload(&configuration(&stays).plan).unwrap();
    gateway.engine.inlet().report(|figures| *figures = of_sources());
    let wanted = documented();
    eventually("something of everything has happened", async || scraped(&gateway).await.len() >= wanted.len()).await;
    assert_eq!(scraped(&gateway).await, wanted);
}
