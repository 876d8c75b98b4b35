//! Pages that are compressed, and pages in protobuf.

use std::io::Write;
use std::sync::{Arc, Mutex};

use flate2::Compression;
use flate2::write::{GzEncoder, ZlibEncoder};
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::metrics::v1::ExponentialHistogramDataPoint;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use prost::Message;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use weir_engine::settings;
use weir_otlp::build::Encoder;
use weir_testkit::backend::Backend;
use weir_testkit::eventually;

use super::{Agent, Page, Target, plan};

const PROTOBUF: &str = "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited";

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut out = GzEncoder::new(Vec::new(), Compression::fast());
    out.write_all(bytes).unwrap();
    out.finish().unwrap()
}

fn compressed(content_encoding: &'static str, body: Vec<u8>) -> Page {
    Page { content_encoding, ..Page::new(200, "text/plain", body) }
}

#[tokio::test]
async fn pages_may_be_compressed() {
    let target = Target::start("a 1\n").await;
    let agent = Agent::start(&target, false).await;
    agent.arrives("static a{} 1").await;
    target.serves(compressed("gzip", gzip(b"a 2\n")));
    agent.arrives("static a{} 2").await;
    target.serves(compressed("zstd", zstd::encode_all(&b"a 3\n"[..], 1).unwrap()));
    agent.arrives("static a{} 3").await;
    let mut zlib = ZlibEncoder::new(Vec::new(), Compression::fast());
    zlib.write_all(b"a 4\n").unwrap();
    target.serves(compressed("deflate", zlib.finish().unwrap()));
    agent.arrives("static a{} 4").await;
    target.serves(compressed("GZIP", gzip(b"# TYPE a gauge\na 5\n")));
    agent.arrives("static a{} 5").await;
    let is_plain = || agent.board.all().iter().any(|(_, last)| last.bytes == 19);
    eventually("the size of the page before it was compressed", async || is_plain()).await;
}

#[tokio::test]
async fn compressed_pages_that_are_broken_or_too_large_are_refused() {
    let target = Target::start("a 1\n").await;
    let agent = Agent::start(&target, true).await;
    agent.arrives("static a{} 1").await;
    let page = "a 1\n".repeat(1000);
    let (gzipped, zipped) = (gzip(page.as_bytes()), zstd::encode_all(page.as_bytes(), 1).unwrap());
    target.serves(compressed("gzip", gzipped[..gzipped.len() - 9].to_vec()));
    agent.fails("not compressed as its content encoding \"gzip\" says").await;
    agent.arrives("static up{} 0").await;
    agent.arrives("static a{} gone").await;
    target.serves(compressed("zstd", zipped[..zipped.len() - 3].to_vec()));
    agent.fails("not compressed as its content encoding \"zstd\" says").await;
    target.serves(compressed("gzip", page.clone().into_bytes()));
    agent.fails("\"gzip\" says: ").await;
    target.serves(compressed("br", gzipped));
    agent.fails("the content encoding \"br\" is none of gzip, zstd, deflate and snappy").await;
    let bomb = vec![b'\n'; 64 << 20];
    for (encoding, body) in [("gzip", gzip(&bomb)), ("zstd", zstd::encode_all(&bomb[..], 1).unwrap())] {
        assert!(body.len() < 1 << 20, "it is small as long as it is compressed");
        target.now(503, "text/plain", "");
        agent.fails("answered 503").await;
        target.serves(compressed(encoding, body));
        agent.fails("the page is larger than 20 MiB").await;
    }
    target.now(200, "text/plain", "a 2\n");
    agent.arrives("static a{} 2").await;
}

/// A message in this field.
fn within(number: u32, body: &[u8]) -> Vec<u8> {
    let mut out = Encoder::default();
    out.bytes(number, body);
    out.into_bytes()
}

/// A page with a gauge of this value, and a native histogram with so many values in (0.5, 1].
fn protobuf(value: f64, count: u8) -> Vec<u8> {
    let mut gauge = Encoder::default();
    gauge.fixed64(1, value.to_bits());
    let mut histogram = Encoder::default();
    histogram.varint(1, u64::from(count));
    histogram.sint32(5, 0);
    histogram.bytes(12, &[0x08, 0, 0x10, 1]);
    histogram.sint32(13, i32::from(count));
    let mut page = Vec::new();
    for (name, kind, number, body) in [("a", 1, 2, gauge), ("h", 4, 7, histogram)] {
        let mut family = Encoder::default();
        family.bytes(1, name.as_bytes());
        family.varint(3, kind);
        family.bytes(4, &within(number, &body.into_bytes()));
        let family = family.into_bytes();
        page.push(u8::try_from(family.len()).unwrap());
        page.extend(family);
    }
    page
}

/// A target that serves protobuf to those who ask for it first, and text to others.
async fn negotiating() -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/metrics", listener.local_addr().unwrap());
    let asked = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&asked);
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            tokio::spawn(negotiate(stream, Arc::clone(&kept)));
        }
    });
    (url, asked)
}

async fn negotiate(stream: TcpStream, asked: Arc<Mutex<Vec<String>>>) {
    let (mut stream, mut head) = (BufReader::new(stream), String::new());
    while stream.read_line(&mut head).await.is_ok_and(|read| read > 0) {
        if !head.ends_with("\r\n\r\n") {
            continue;
        }
        let is_wanted = head.contains("accept: application/vnd.google.protobuf;");
        let (content_type, body) =
            if is_wanted { (PROTOBUF, protobuf(1.0, 3)) } else { ("text/plain", b"a 1\n".to_vec()) };
        asked.lock().unwrap().push(std::mem::take(&mut head));
        let head = format!("HTTP/1.1 200 OK\r\ncontent-type: {content_type}\r\ncontent-length: {}\r\n\r\n", body.len());
        if stream.write_all(&[head.into_bytes(), body].concat()).await.is_err() {
            return;
        }
    }
}

/// The points of native histograms that arrived.
fn native(agent: &Agent) -> Vec<ExponentialHistogramDataPoint> {
    let requests = agent.backend.captured().into_iter();
    let requests = requests.map(|captured| ExportMetricsServiceRequest::decode(&captured.plain[..]).unwrap());
    let scopes = requests.flat_map(|request| request.resource_metrics).flat_map(|resource| resource.scope_metrics);
    let points = scopes.flat_map(|scope| scope.metrics).filter_map(|metric| match metric.data {
        Some(Data::ExponentialHistogram(histogram)) => Some(histogram.data_points),
        _ => None,
    });
    points.flatten().collect()
}

#[tokio::test]
async fn native_histograms_arrive_where_a_pipeline_wants_them() {
    let (url, asked) = negotiating().await;
    let backend = Backend::start().await;
    let mut wanting = plan(&backend, &url, false);
    wanting.pipelines[0].input.prometheus.iter_mut().for_each(|input| input.native_histograms = true);
    let agent = Agent::run(&wanting, backend, settings::MEMORY).await;
    agent.arrives("static a{} 1").await;
    eventually("a native histogram", async || !native(&agent).is_empty()).await;
    let point = native(&agent).remove(0);
    let buckets = point.positive.unwrap();
    assert_eq!((point.count, point.scale, buckets.offset, buckets.bucket_counts), (3, 0, -1, vec![3]));
    let head = asked.lock().unwrap().remove(0);
    assert!(head.contains("accept-encoding: identity\r\n"), "{head}");
}

#[tokio::test]
async fn others_ask_for_text() {
    let (url, asked) = negotiating().await;
    let backend = Backend::start().await;
    let agent = Agent::run(&plan(&backend, &url, false), backend, settings::MEMORY).await;
    agent.arrives("static a{} 1").await;
    assert!(native(&agent).is_empty());
    let head = asked.lock().unwrap().remove(0);
    let openmetrics = "accept: application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.8,";
    assert!(head.contains(openmetrics) && !head.contains("protobuf"), "{head}");
}

#[tokio::test]
async fn pages_in_protobuf_end_as_others_do() {
    let target = Target::start("b 1\n").await;
    let agent = Agent::start(&target, true).await;
    agent.arrives("static b{} 1").await;
    target.serves(Page { content_encoding: "gzip", ..Page::new(200, PROTOBUF, gzip(&protobuf(2.0, 1))) });
    agent.arrives("static a{} 2").await;
    let page = protobuf(3.0, 1);
    target.serves(Page::new(200, PROTOBUF, &page[..page.len() - 1]));
    agent.fails("metric family 2 (\"\"): field longer than the message that holds it").await;
    agent.arrives("static a{} gone").await;
    eventually("the end of the histogram", async || native(&agent).iter().any(|point| point.flags == 1)).await;
    target.serves(Page::new(200, "application/vnd.google.protobuf; encoding=text", page.clone()));
    agent.fails("content type \"application/vnd.google.protobuf; encoding=text\" is not a metrics format").await;
    target.serves(Page::new(200, "text/html; charset=utf-8", "<html></html>"));
    agent.fails("content type \"text/html; charset=utf-8\" is not a metrics format").await;
    target.serves(Page::new(200, "text/plain", page));
    agent.fails("line 1: ").await;
    target.serves(Page::new(200, PROTOBUF, "a 1\n"));
    agent.fails("metric family 1 (\"\")").await;
    target.serves(Page::new(200, PROTOBUF, protobuf(4.0, 1)));
    agent.arrives("static a{} 4").await;
}
