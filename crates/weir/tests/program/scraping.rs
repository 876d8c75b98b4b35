//! Scraping by the program: what pipelines make of scraped metrics, targets with TLS, and `weir targets`.

use std::collections::BTreeSet;
use std::fs;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::{Metric, number_data_point};
use prost::Message;
use serde_json::Value;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;
use weir_testkit::backend::Backend;
use weir_testkit::metrics::{Scrape, whole};
use weir_testkit::signals::text;
use weir_testkit::tls::Authority;
use weir_testkit::{eventually, http, in_time};

use crate::process::{Weir, command, manifest, run};

/// A target on a loopback address; ends with the value.
pub(crate) struct Target {
    address: SocketAddr,
    hits: Arc<AtomicUsize>,
    task: JoinHandle<()>,
}

impl Drop for Target {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Target {
    /// Answers request number n (from 0) with this page, one request on each connection.
    pub(crate) async fn start(tls: Option<TlsAcceptor>, page: fn(usize) -> String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, hits) = (listener.local_addr().unwrap(), Arc::new(AtomicUsize::new(0)));
        let counted = Arc::clone(&hits);
        let task = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let (tls, hits) = (tls.clone(), Arc::clone(&counted));
                tokio::spawn(async move {
                    match tls {
                        None => serve(stream, &hits, page).await,
                        // A client that it does not like is not served.
                        Some(tls) => match tls.accept(stream).await {
                            Ok(stream) => serve(stream, &hits, page).await,
                            Err(error) => Err(error),
                        },
                    }
                });
            }
        });
        Self { address, hits, task }
    }

    pub(crate) fn url(&self, scheme: &str) -> String {
        format!("{scheme}://{}/metrics", self.address)
    }
}

/// What a client begins with that speaks TLS.
const TLS: u8 = 0x16;

async fn serve(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    hits: &AtomicUsize,
    page: fn(usize) -> String,
) -> std::io::Result<()> {
    let mut stream = BufReader::new(stream);
    if stream.fill_buf().await?.first() == Some(&TLS) {
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\nconnection: close\r\n\r\n").await?;
        return stream.shutdown().await;
    }
    let mut line = String::new();
    while stream.read_line(&mut line).await? > 2 {
        line.clear();
    }
    let body = page(hits.fetch_add(1, Ordering::SeqCst));
    let head = format!("content-type: text/plain\r\ncontent-length: {}\r\nconnection: close", body.len());
    stream.write_all(format!("HTTP/1.1 200 OK\r\n{head}\r\n\r\n{body}").as_bytes()).await?;
    stream.shutdown().await
}

/// A MetricPipeline that scrapes these.
pub(crate) fn scraping(name: &str, backend: SocketAddr, urls: &[String]) -> String {
    let targets = format!("name: {name}\n  annotations: {{weir.dev/static-targets: \"{}\"}}", urls.join(", "));
    manifest(name, backend)
        .replace("TracePipeline", "MetricPipeline")
        .replace(&format!("name: {name}"), &targets)
        .replace("spec:\n", "spec:\n  input: {prometheus: {enabled: true}}\n")
}

pub(crate) fn every(interval: &str) -> String {
    format!(
        "apiVersion: operator.kyma-project.io/v1beta1\nkind: Telemetry\nmetadata: {{name: default}}\n\
         spec: {{metric: {{prometheus: {{collectionInterval: {interval}}}}}}}\n"
    )
}

fn admin(weir: &Weir) -> SocketAddr {
    weir.logged("ready").unwrap()["admin"].as_str().unwrap().parse().unwrap()
}

/// `weir targets` with these arguments: its exit code, and what it printed.
async fn targets(arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = in_time("weir targets", command(&[&["targets"], arguments].concat()).output()).await.unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

/// Grows with each scrape.
fn growing(hit: usize) -> String {
    let (twice, thrice) = (2 * hit, 3 * hit);
    format!(
        "# TYPE c counter\nc{{keep=\"yes\"}} {hit}0\nc{{keep=\"no\"}} {hit}\n# TYPE h histogram\nh_bucket{{le=\"1\"}} {hit}\n\
         h_bucket{{le=\"+Inf\"}} {twice}\nh_sum {thrice}\nh_count {twice}\n"
    )
}

/// The metrics of each request that arrived.
fn arrived(backend: &Backend) -> Vec<Vec<Metric>> {
    let decode = |plain: &[u8]| ExportMetricsServiceRequest::decode(plain).unwrap();
    let requests = backend.captured().into_iter().map(|captured| decode(&captured.plain));
    let metrics = requests.map(|request| {
        let scopes = request.resource_metrics.into_iter().flat_map(|resource| resource.scope_metrics);
        scopes.flat_map(|scope| scope.metrics).collect()
    });
    metrics.collect()
}

/// The same up to where series end: on a busy machine a scrape may be too late, and what comes after it begins anew.
fn before_an_end(backend: &Backend) -> Vec<Vec<Metric>> {
    let has_ended = |metric: &Metric| match &metric.data {
        Some(Data::Sum(sum)) => sum.data_points.iter().any(|point| point.flags == GONE),
        Some(Data::Histogram(histogram)) => histogram.data_points.iter().any(|point| point.flags == GONE),
        _ => false,
    };
    arrived(backend).into_iter().take_while(|metrics| !metrics.iter().any(has_ended)).collect()
}

/// The flag of a point that says that its series has ended.
const GONE: u32 = 1;

/// Points of counters: their temporality, labels and values.
fn sums(metrics: &[Metric]) -> Vec<(i32, Option<&str>, Option<&str>, f64)> {
    let sums = metrics.iter().filter_map(|metric| match &metric.data {
        Some(Data::Sum(sum)) => Some(sum),
        _ => None,
    });
    let points = sums.flat_map(|sum| sum.data_points.iter().map(|point| (sum.aggregation_temporality, point)));
    let points = points.map(|(temporality, point)| {
        let Some(number_data_point::Value::AsDouble(value)) = point.value else { panic!("{point:?}") };
        (temporality, text(&point.attributes, "keep"), text(&point.attributes, "team"), value)
    });
    points.collect()
}

/// Histograms: their temporality, count, sum and buckets.
fn histograms(metrics: &[Metric]) -> Vec<(i32, u64, f64, Vec<u64>)> {
    let histograms = metrics.iter().filter_map(|metric| match &metric.data {
        Some(Data::Histogram(histogram)) => Some(histogram),
        _ => None,
    });
    let all = histograms.flat_map(|histogram| {
        let of_point = |point: &opentelemetry_proto::tonic::metrics::v1::HistogramDataPoint| {
            let sum = point.sum.unwrap();
            (histogram.aggregation_temporality, point.count, sum, point.bucket_counts.clone())
        };
        histogram.data_points.iter().map(of_point)
    });
    all.collect()
}

const DELTA: i32 = 1;
const CUMULATIVE: i32 = 2;

/// One pipeline wants deltas, another one has rules, and both name the same target, which is asked once for both.
#[tokio::test]
async fn pipelines_share_a_scrape_and_make_of_it_what_they_want() {
    let target = Target::start(None, growing).await;
    let (deltas, chosen) = (Backend::start().await, Backend::start().await);
    let urls = [target.url("http")];
    let delta =
        scraping("deltas", deltas.address, &urls).replace("    otlp:\n", "    otlp:\n      temporality: delta\n");
    let rules = "spec:\n  transform: [{statements: ['set(datapoint.attributes[\"team\"], \"shop\")']}]\n  \
                 filter: [{conditions: ['datapoint.attributes[\"keep\"] == \"no\"']}]\n";
    let rules = scraping("chosen", chosen.address, &urls).replace("spec:\n", rules);
    let mut weir = Weir::start(&format!("{delta}{rules}{}", every("1s")), &[]).await;
    let several = |backend: &Backend| arrived(backend).len() >= 6;
    eventually("several scrapes arrive", async || several(&deltas) && several(&chosen)).await;
    let hits = target.hits.load(Ordering::SeqCst) as f64;
    let scrape = Scrape::of(weir.metrics).await;
    let scraped = scrape.sum("weir_scrapes_total", "job=\"static\"");
    weir.signal(rustix::process::Signal::TERM);
    assert!(weir.wait().await.success());
    assert!(hits <= scraped + 4.0, "{hits} requests, {scraped} scrapes a second or two before");
    for metrics in before_an_end(&deltas) {
        let (sums, histograms) = (sums(&metrics), histograms(&metrics));
        let [(DELTA, Some("yes"), None, grown), (DELTA, Some("no"), None, less)] = sums[..] else { panic!("{sums:?}") };
        assert!(less >= 1.0 && (grown - 10.0 * less).abs() < 1e-9, "{sums:?}");
        let scrapes = whole(less);
        assert_eq!(histograms, [(DELTA, 2 * scrapes, 3.0 * less, vec![scrapes, scrapes])]);
    }
    for metrics in before_an_end(&chosen) {
        let sums = sums(&metrics);
        assert!(matches!(sums[..], [(CUMULATIVE, Some("yes"), Some("shop"), _)]), "{sums:?}");
        assert!(matches!(histograms(&metrics)[..], [(CUMULATIVE, ..)]));
    }
}

/// What is wrong with TLS is said in words.
#[tokio::test]
async fn targets_with_tls_say_what_is_wrong_with_it() {
    let (trusted, other, backend) = (Authority::new(), Authority::new(), Backend::start().await);
    let hour = Duration::from_secs(3600);
    let (past, future) = (SystemTime::now() - hour, SystemTime::now() + hour);
    let serve = async |tls| Target::start(tls, |_| "a 1\n".to_owned()).await;
    let good = serve(Some(trusted.server(None))).await;
    let plain = serve(None).await;
    let cases = [
        (serve(Some(trusted.server_as("127.0.0.1", past))).await, "https", "its certificate has expired: renew it"),
        (serve(Some(trusted.server_as("shop.example", future))).await, "https", "its certificate is not for 127.0.0.1"),
        (serve(Some(other.server(None))).await, "https", "nobody who is trusted has signed its certificate"),
        (
            serve(Some(Authority::self_signed_server())).await,
            "https",
            "nobody who is trusted has signed its certificate",
        ),
        (serve(Some(trusted.server(Some(&trusted)))).await, "https", "wants a client certificate (mTLS)"),
        (serve(None).await, "https", "it speaks something else; write http://"),
        (serve(Some(trusted.server(None))).await, "http", "TLS|HTTPS"),
    ];
    let urls = cases.iter().map(|(target, scheme, _)| target.url(scheme));
    let urls: Vec<String> = urls.chain([good.url("https"), plain.url("http")]).collect();
    let directory = TempDir::new().unwrap();
    let (file, roots) = (directory.path().join("pipelines.yaml"), directory.path().join("roots.pem"));
    fs::write(&file, scraping("backend", backend.address, &urls) + &every("1s")).unwrap();
    fs::write(&roots, trusted.pem()).unwrap();
    let mut run = run(&file);
    run.env("SSL_CERT_FILE", &roots);
    let weir = Weir::launch(&[], run, directory).await;
    let admin = admin(&weir);
    let page = async || -> Value { serde_json::from_slice(&http::get(admin, "/targets").await.body).unwrap() };
    let of_state = |page: &Value, state: &str| -> BTreeSet<String> {
        let all = page["targets"].as_array().unwrap().iter().filter(|target| target["state"] == state);
        all.map(|target| target["url"].as_str().unwrap().to_owned()).collect()
    };
    let well = BTreeSet::from([good.url("https"), plain.url("http")]);
    // Not at once: on a busy machine a scrape may be too late to see what is wrong, and a good one as well.
    eventually("two are well", async || of_state(&page().await, "up") == well).await;
    for (target, scheme, expected) in &cases {
        let url = target.url(scheme);
        eventually(&format!("{url}: {expected}"), async || {
            let page = page().await;
            let shown = page["targets"].as_array().unwrap().iter().find(|shown| shown["url"] == *url).unwrap();
            let error = shown["error"].as_str().unwrap_or_default();
            expected.split('|').any(|words| error.contains(words))
        })
        .await;
    }
}

#[tokio::test]
async fn targets_are_shown_as_a_table_and_as_they_are() {
    let (target, backend, tokens) =
        (Target::start(None, growing).await, Backend::start().await, TempDir::new().unwrap());
    let token = tokens.path().join("token");
    fs::write(&token, "abc\n").unwrap();
    let token = token.to_str().unwrap();
    let urls = [target.url("http"), "http://127.0.0.1:1/metrics".to_owned()];
    let manifests = scraping("backend", backend.address, &urls) + &every("2s");
    let weir = Weir::start(&manifests, &["--admin-token-file", token]).await;
    let url = format!("http://{}", admin(&weir));
    let (code, _, err) = targets(&[&url]).await;
    assert!(code == Some(1) && err.contains("--token-file"), "{err}");
    let mut shown = String::new();
    eventually("both were scraped", async || {
        let (code, out, err) = targets(&[&url, "--token-file", token]).await;
        assert_eq!(code, Some(0), "{err}");
        shown = out;
        shown.starts_with("2 targets: 1 up, 1 down, 0 waiting; 0 more are not scraped\n")
    })
    .await;
    for words in ["TARGET", "static", "Down:\n  http://127.0.0.1:1/metrics: cannot be reached: nothing listens"] {
        assert!(shown.contains(words), "{words:?} is not in\n{shown}");
    }
    let (code, out, _) = targets(&[&url, "--token-file", token, "--format", "json"]).await;
    let page: Value = serde_json::from_str(&out).unwrap();
    let up = page["targets"].as_array().unwrap().iter().find(|shown| shown["state"] == "up").unwrap();
    assert_eq!((code, up["url"].as_str(), up["samples"].as_u64()), (Some(0), Some(&*urls[0]), Some(6)));
    assert_eq!((up["job"].as_str(), up["pipelines"][0].as_str()), (Some("static"), Some("metrics/backend")));
    assert!(up["next_in_seconds"].as_f64().unwrap() <= 2.0 && up["took_seconds"].as_f64().unwrap() > 0.0);
    let (code, _, err) = targets(&[&format!("http://{}", weir.health)]).await;
    assert!(code == Some(1) && err.contains("is it the admin port of weir?"), "{err}");
}
