//! Sink and generator against each other over loopback: the judge must be right before it judges others.

#![expect(clippy::unwrap_used, reason = "clippy knows test functions, not the helpers they share")]

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use clap::Parser;
use tokio::net::TcpSocket;
use tokio::sync::watch;
use weir_loadtest::ids::IdSet;
use weir_loadtest::load::{self, LoadReport, SendArgs};
use weir_loadtest::signal::Signal;
use weir_loadtest::sink::faults::Faults;
use weir_loadtest::sink::{Sink, SinkArgs, SinkReport};

#[derive(Parser)]
struct SinkCli {
    #[command(flatten)]
    args: SinkArgs,
}

#[derive(Parser)]
#[command(args_override_self = true)]
struct LoadCli {
    #[command(flatten)]
    args: SendArgs,
}

async fn sink(flags: &str) -> Sink {
    let ports = ["--grpc-port", "0", "--http-port", "0", "--control-port", "0"];
    let cli = SinkCli::parse_from(["sink"].into_iter().chain(ports).chain(flags.split_whitespace()));
    Sink::start(&cli.args).await.unwrap()
}

async fn load_to(endpoint: std::net::SocketAddr, flags: &str) -> LoadReport {
    load_of(Signal::Traces, endpoint, flags).await
}

async fn load_of(signal: Signal, endpoint: std::net::SocketAddr, flags: &str) -> LoadReport {
    let endpoint = endpoint.to_string();
    let fixed = ["load", "--endpoint", &endpoint, "--batch", "50", "--attributes", "4", "--timeout", "10s"];
    let cli = LoadCli::parse_from(fixed.into_iter().chain(flags.split_whitespace()));
    let (_stop, stopped) = watch::channel(false);
    load::send(signal, &cli.args, stopped).await.unwrap()
}

async fn load(sink: &Sink, flags: &str) -> LoadReport {
    load_to(sink.grpc, flags).await
}

fn received(report: &SinkReport) -> IdSet {
    IdSet::from_ranges(report.ids_of(Signal::Traces))
}

fn acked(report: &LoadReport) -> IdSet {
    IdSet::from_ranges(&report.ids.acked)
}

/// What was acknowledged is exactly what was recorded.
fn assert_books_agree(load: &LoadReport, sink: &SinkReport) {
    assert_eq!(acked(load), received(sink));
    assert_eq!(load.acked_items, sink.unique);
    assert_eq!(sink.duplicates, 0);
}

#[tokio::test]
async fn every_span_arrives_once_over_both_transports_and_all_compressions() {
    let sink = sink("").await;
    let mut first_id = 1;
    for compression in ["none", "gzip", "zstd"] {
        for http in [false, true] {
            let (endpoint, http) = if http { (sink.http, "--http") } else { (sink.grpc, "") };
            let flags = format!("--items 1020 --first-id {first_id} --compression {compression} {http} -c 3");
            let report = load_to(endpoint, &flags).await;
            assert_eq!(report.ids.acked, [(first_id, first_id + 1019)], "{flags}");
            assert_eq!((report.acked_items, report.requests, report.unknown_items), (1020, 21, 0), "{flags}");
            first_id += 1020;
        }
    }
    let report = sink.stop(true).await;
    assert_eq!(report.ids_of(Signal::Traces), [(1, first_id - 1)]);
    assert_eq!((report.received, report.unique, report.duplicates), (6120, 6120, 0));
    assert_eq!((report.requests, report.accepted_requests), (126, 126));
    assert!(report.wire_bytes < report.bytes, "compressed bodies are smaller");
    assert_eq!(report.latency_ms.count, 126);
}

#[tokio::test]
async fn each_signal_has_ids_of_its_own_at_one_sink() {
    let sink = sink("").await;
    for signal in Signal::ALL {
        for (endpoint, flags) in [(sink.grpc, "--items 120"), (sink.http, "--http --items 120 --first-id 121")] {
            let report = load_of(signal, endpoint, flags).await;
            assert_eq!((report.acked_items, report.unknown_items), (120, 0), "{signal} {flags}");
        }
    }
    let report = sink.stop(true).await;
    assert_eq!((report.received, report.unique, report.duplicates, report.without_id), (720, 720, 0, 0));
    for signal in Signal::ALL {
        assert_eq!(report.ids_of(signal), [(1, 240)], "{signal}");
        assert_eq!(report.received_by_signal[&signal], 240);
    }
    assert!(report.latency_ms.max < 10_000.0, "times are those of the items: {:?}", report.latency_ms);
}

#[tokio::test]
async fn requests_without_an_expected_attribute_are_counted() {
    let sink = sink("--expect-text k8s.pod.uid").await;
    load(&sink, "--items 100").await;
    load(&sink, "--items 100 --first-id 101 --resource-attribute k8s.pod.uid=a").await;
    load(&sink, "--items 100 --first-id 201 --resource-attribute k8s.pod.uid=a --compression gzip").await;
    assert_eq!(sink.stop(true).await.without_text, 2);
}

#[tokio::test]
async fn records_of_several_namespaces_arrive_once() {
    let sink = sink("--expect-text shop-6").await;
    let report = load_of(Signal::Logs, sink.grpc, "--namespaces 7 --items 120").await;
    assert_eq!((report.requests, report.ids.acked.as_slice()), (3, [(1, 120)].as_slice()));
    let report = sink.stop(true).await;
    assert_eq!((report.ids_of(Signal::Logs), report.duplicates), ([(1, 120)].as_slice(), 0));
    assert_eq!(report.without_text, 0, "each request has records of the seventh namespace");
}

#[tokio::test]
async fn producers_push_evenly() {
    let sink = sink("").await;
    let flags = "--producers 10 --push-interval 500ms --batch 3 --items 30 -c 2";
    let report = load_of(Signal::Metrics, sink.grpc, flags).await;
    assert_eq!((report.requests, report.acked_items), (10, 30));
    // The last of ten is due nine twentieths of a second after the first.
    assert!(report.seconds >= 0.45, "{}", report.seconds);
}

#[tokio::test]
async fn a_partial_success_is_understood_for_every_signal() {
    let sink = sink("--partial 100").await;
    for signal in Signal::ALL {
        let report = load_of(signal, sink.grpc, "--items 50 -c 1").await;
        assert_eq!((report.acked_items, report.partial_rejected), (25, 25), "{signal}");
    }
    let report = sink.stop(true).await;
    assert!(Signal::ALL.iter().all(|&signal| report.ids_of(signal) == [(26, 50)]), "{report:?}");
}

#[tokio::test]
async fn the_same_ids_sent_twice_are_duplicates() {
    let sink = sink("").await;
    load(&sink, "--items 200").await;
    load(&sink, "--items 100 --first-id 151").await;
    let report = sink.stop(true).await;
    assert_eq!((report.received, report.unique, report.duplicates), (300, 250, 50));
}

#[tokio::test]
async fn refused_requests_record_nothing() {
    let sink = sink("--fault 503:40 --fault grpc=8:20 --seed 3").await;
    let grpc = load(&sink, "--items 5000 -c 20").await;
    let http = load_to(sink.http, "--http --items 5000 --first-id 100001 -c 20").await;
    let report = sink.stop(true).await;
    assert_eq!(acked(&grpc).len() + acked(&http).len(), report.unique);
    assert_eq!(grpc.acked_items + grpc.refused_items, 5000);
    assert!(grpc.refused["grpc=14"] > 20 && grpc.refused["grpc=8"] > 5, "{:?}", grpc.refused);
    assert!(http.refused["503"] > 20 && http.refused["429"] > 5, "{:?}", http.refused);
    assert_eq!(report.refused["503"], grpc.refused["grpc=14"] + http.refused["503"]);
    assert_eq!(grpc.refused_without_hint, grpc.refused["grpc=14"] + grpc.refused["grpc=8"]);
}

#[tokio::test]
async fn a_retry_hint_reaches_the_client_over_both_transports() {
    let sink = sink("--fault 503:100 --retry-after 1").await;
    let (grpc, http) = tokio::join!(load(&sink, "--items 50 -c 1"), load_to(sink.http, "--http --items 50 -c 1"));
    for report in [grpc, http] {
        assert_eq!((report.refused_items, report.refused_without_hint), (50, 0));
        assert_eq!((report.ids.acked.len(), report.ids.refused.as_slice()), (0, [(1, 50)].as_slice()));
    }
    assert_eq!(sink.stop(true).await.received, 0);
}

#[tokio::test]
async fn retries_deliver_everything_in_the_end() {
    let sink = sink("--fault 503:50 --retry-after 0.01").await;
    let report = load(&sink, "--items 1000 --retry -c 4").await;
    assert_eq!(report.ids.acked, [(1, 1000)]);
    assert!(report.refused_items > 0);
    assert_books_agree(&report, &sink.stop(true).await);
}

#[tokio::test]
async fn a_partial_success_creates_no_obligation_and_records_only_the_rest() {
    let sink = sink("--partial 100").await;
    let report = load(&sink, "--items 50 -c 1").await;
    assert_eq!((report.acked_items, report.partial_rejected), (25, 25));
    assert_eq!((report.ids.acked.len(), report.ids.unknown.as_slice()), (0, [(1, 50)].as_slice()));
    let sink = sink.stop(true).await;
    assert_eq!((sink.ids_of(Signal::Traces), sink.partial_rejected), ([(26, 50)].as_slice(), 25));
}

#[tokio::test]
async fn too_large_is_judged_by_uncompressed_size() {
    let sink = sink("--max-request-bytes 4KiB").await;
    let grpc = load(&sink, "--items 50 --compression gzip").await;
    let http = load_to(sink.http, "--http --items 50").await;
    let small = load(&sink, "--items 2 --batch 2 --first-id 1000").await;
    assert_eq!(grpc.refused["grpc=8"], 1);
    assert_eq!(http.refused["413"], 1);
    assert_eq!(small.acked_items, 2);
    let report = sink.stop(true).await;
    assert_eq!(report.refused["too_large"], 2);
    assert_eq!(report.ids_of(Signal::Traces), [(1000, 1001)]);
}

#[tokio::test]
async fn stalls_and_resets_have_an_unknown_outcome() {
    let sink = sink("--stall 100").await;
    let stalled = load(&sink, "--items 50 -c 1 --timeout 200ms").await;
    assert_eq!((stalled.unknown_items, stalled.ids.unknown.as_slice()), (50, [(1, 50)].as_slice()));
    sink.set_faults(serde_json::from_str::<Faults>(r#"{"reset": 100}"#).unwrap());
    for (endpoint, flags) in [(sink.grpc, "--items 100 -c 1"), (sink.http, "--http --items 100 -c 1")] {
        let reset = load_to(endpoint, flags).await;
        assert_eq!((reset.unknown_items, reset.acked_items), (100, 0), "{flags}");
    }
    assert_eq!(sink.stop(true).await.received, 0);
}

#[tokio::test]
async fn an_outage_refuses_connections_and_ends() {
    let sink = sink("").await;
    load(&sink, "--items 50").await;
    sink.set_faults(serde_json::from_str::<Faults>(r#"{"outage": ["0s..400ms"]}"#).unwrap());
    // The listener is closed by another task: wait until it is.
    while tokio::net::TcpStream::connect(sink.grpc).await.is_ok() {
        tokio::task::yield_now().await;
    }
    let report = load(&sink, "--items 50 --first-id 51 -c 1").await;
    assert!(report.connect_failures > 0);
    assert_eq!((report.acked_items, report.unknown_items), (50, 0));
    assert_eq!(sink.stop(true).await.ids_of(Signal::Traces), [(1, 100)]);
}

#[tokio::test]
async fn an_open_loop_keeps_its_rate_and_says_when_it_cannot() {
    let sink = sink("").await;
    let kept = load(&sink, "--rate 1000 --items 200 -c 4").await;
    assert_eq!(kept.acked_items, 200);
    // Four requests of 50 at 1000 spans/s are due at 0, 50, 100 and 150 ms.
    assert!(kept.seconds >= 0.15, "{}", kept.seconds);
    sink.set_faults(serde_json::from_str::<Faults>(r#"{"delay": "100ms:100"}"#).unwrap());
    let behind = load(&sink, "--rate 100000 --duration 500ms -c 1 --first-id 1000").await;
    assert!(behind.bottleneck.is_some());
    // Due at once, answered one after the other: the last waited for all before it.
    assert!(behind.latency_ms.max > 2.0 * behind.latency_ms.p50.min(150.0), "{:?}", behind.latency_ms);
}

#[tokio::test]
async fn stopping_the_generator_keeps_its_books() {
    let sink = sink("").await;
    let endpoint = sink.grpc.to_string();
    let cli = LoadCli::parse_from(["load", "--endpoint", &endpoint, "--batch", "20", "--attributes", "1"]);
    let (stop, stopped) = watch::channel(false);
    let running = tokio::spawn(async move { load::send(Signal::Traces, &cli.args, stopped).await });
    while sink.report(false).received < 1000 {
        tokio::task::yield_now().await;
    }
    stop.send_replace(true);
    let report = running.await.unwrap().unwrap();
    assert!(report.acked_items >= 1000);
    assert_books_agree(&report, &sink.stop(true).await);
}

mod control {
    //! The control port, spoken to as `curl` would.

    use http_body_util::{BodyExt, Full};
    use hyper::client::conn::http1;
    use hyper_util::rt::TokioIo;

    use super::*;

    async fn call(sink: &Sink, method: &str, path: &str, body: &str) -> (u16, String) {
        let stream = tokio::net::TcpStream::connect(sink.control).await.unwrap();
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        let request = http::Request::builder()
            .method(method)
            .uri(path)
            .header("host", "sink")
            .body(Full::new(bytes::Bytes::copy_from_slice(body.as_bytes())))
            .unwrap();
        let response = sender.send_request(request).await.unwrap();
        let status = response.status().as_u16();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        (status, String::from_utf8(body.to_vec()).unwrap())
    }

    #[tokio::test]
    async fn faults_reports_and_metrics_are_served() {
        let sink = sink("").await;
        assert_eq!(call(&sink, "GET", "/healthz", "").await, (200, "ok\n".to_owned()));
        load(&sink, "--items 100").await;
        let (_, report) = call(&sink, "GET", "/report?ids=1", "").await;
        let report: SinkReport = serde_json::from_str(&report).unwrap();
        assert_eq!((report.unique, report.ids_of(Signal::Traces)), (100, [(1, 100)].as_slice()));
        assert!(!call(&sink, "GET", "/report", "").await.1.contains("\"ids\""));
        assert!(
            call(&sink, "GET", "/metrics", "")
                .await
                .1
                .contains("weir_sink_received_items_total{signal=\"traces\"} 100\n")
        );

        assert_eq!(call(&sink, "POST", "/faults", r#"{"fault": ["429:100"]}"#).await.0, 200);
        assert!(call(&sink, "GET", "/faults", "").await.1.contains("429:100"));
        assert_eq!(load(&sink, "--items 50").await.refused["grpc=8"], 1);
        let (status, message) = call(&sink, "POST", "/faults", r#"{"fault": ["99:1"]}"#).await;
        assert_eq!(status, 400);
        assert!(message.contains("99"), "{message}");
        assert_eq!(load(&sink, "--items 50").await.refused["grpc=8"], 1, "bad faults change nothing");

        assert_eq!(call(&sink, "POST", "/latency/reset", "").await.0, 200);
        assert_eq!((sink.report(false).latency_ms.count, sink.report(false).unique), (0, 100));
        assert_eq!(call(&sink, "POST", "/reset", "").await.0, 200);
        assert_eq!(sink.report(false).requests, 0);
        assert_eq!(call(&sink, "GET", "/nothing", "").await.0, 404);
    }
}

mod wrong_requests {
    //! Requests a backend would not take.

    use http_body_util::{BodyExt, Full};
    use hyper::client::conn::http1;
    use hyper_util::rt::TokioIo;

    use super::*;

    async fn post(sink: &Sink, path: &str, content_type: &str, body: &'static [u8]) -> u16 {
        let stream = tokio::net::TcpStream::connect(sink.http).await.unwrap();
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        let request = http::Request::post(path)
            .header("host", "sink")
            .header("content-type", content_type)
            .body(Full::new(bytes::Bytes::from_static(body)))
            .unwrap();
        let response = sender.send_request(request).await.unwrap();
        let status = response.status().as_u16();
        response.into_body().collect().await.unwrap();
        status
    }

    #[tokio::test]
    async fn malformed_and_misdirected_requests_are_refused_and_not_recorded() {
        let sink = sink("").await;
        assert_eq!(post(&sink, "/v1/traces", "application/x-protobuf", b"\x0a\xff").await, 400);
        assert_eq!(post(&sink, "/v1/traces", "application/json", b"{}").await, 415);
        assert_eq!(post(&sink, "/v1/nothing", "application/x-protobuf", b"").await, 404);
        assert_eq!(post(&sink, "/v1/traces", "application/x-protobuf", b"").await, 200, "an empty request is valid");
        let report = sink.stop(true).await;
        assert_eq!((report.received, report.accepted_requests), (0, 1));
        assert_eq!((report.refused["malformed"], report.refused["unexpected"]), (1, 2));
    }
}

#[tokio::test]
async fn a_slow_reader_still_gets_everything() {
    let sink = sink("--slow-read 500KB").await;
    let report = load(&sink, "--items 100 -c 1").await;
    let sink = sink.stop(true).await;
    assert_books_agree(&report, &sink);
    #[expect(clippy::cast_precision_loss, reason = "a test of a few kilobytes")]
    let shortest = sink.bytes as f64 / 500_000.0;
    assert!(report.seconds >= shortest * 0.9, "{} s for {shortest} s", report.seconds);
}

/// Longer than anything takes here.
const LONG: Duration = Duration::from_secs(60);

/// An address on which nothing listens; nobody else begins to as long as the socket is there.
fn closed_port() -> (TcpSocket, SocketAddr) {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
    let address = socket.local_addr().unwrap();
    (socket, address)
}

#[tokio::test]
async fn no_endpoint_means_no_ids() {
    let (_taken, closed) = closed_port();
    let report = tokio::time::timeout(LONG, load_to(closed, "--duration 2s -c 2")).await.unwrap();
    assert!(report.connect_failures > 0);
    assert_eq!((report.requests, report.ids.unknown.len()), (0, 0));
}

#[tokio::test]
async fn a_wrong_endpoint_is_an_error_and_not_an_endless_wait() {
    let (_taken, closed) = closed_port();
    let closed = closed.to_string();
    let flags = ["load", "--endpoint", &closed, "--items", "100", "--timeout", "200ms"];
    let cli = LoadCli::parse_from(flags);
    let (_stop, stopped) = watch::channel(false);
    let ended = tokio::time::timeout(LONG, load::send(Signal::Traces, &cli.args, stopped)).await.unwrap();
    let error = format!("{:#}", ended.map(|report| report.requests).unwrap_err());
    assert!(error.contains("endpoint") && error.contains(&closed), "{error}");
}

/// Of two workers, one is served, and nobody is there any more for the other: a server that is replaced, for example.
#[tokio::test]
async fn a_worker_that_finds_nobody_does_not_end_those_who_are_served() {
    let sink = sink("").await;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = listener.local_addr().unwrap();
    let backend = sink.grpc;
    tokio::spawn(async move {
        let (mut client, _) = listener.accept().await.unwrap();
        drop(listener);
        let mut server = tokio::net::TcpStream::connect(backend).await.unwrap();
        drop(tokio::io::copy_bidirectional(&mut client, &mut server).await);
    });
    let report = load_to(endpoint, "-c 2 --batch 1 --rate 100 --duration 2500ms --timeout 1s").await;
    assert!(report.connect_failures > 0);
    assert_books_agree(&report, &sink.stop(true).await);
    assert!(report.acked_items > 0);
}

mod log_files {
    use std::sync::Arc;

    use flate2::read::GzDecoder;
    use http_body_util::Full;
    use hyper::client::conn::http1;
    use hyper_util::rt::TokioIo;
    use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
    use opentelemetry_proto::tonic::common::v1::AnyValue;
    use opentelemetry_proto::tonic::common::v1::any_value::Value;
    use opentelemetry_proto::tonic::logs::v1::{LogRecord, ResourceLogs, ScopeLogs};
    use prost::Message;
    use serde_json::Map;
    use weir_loadtest::load::log_files::{self, LinesJudgement, LogFilesArgs, Manifest};

    use super::*;

    #[derive(Parser)]
    struct FilesCli {
        #[command(flatten)]
        args: LogFilesArgs,
    }

    /// Texts in the files of a run, in order.
    fn texts(directory: &std::path::Path, manifest: &Manifest) -> Vec<String> {
        let mut texts = Vec::new();
        for container in &manifest.containers {
            let entries = std::fs::read_dir(directory.join(container.pod.path())).unwrap();
            let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
            // What is written now comes after what was rotated.
            paths.sort_by_key(|path| (path.extension().is_some_and(|end| end == "log"), path.clone()));
            for path in paths {
                let mut text = String::new();
                let mut file = std::fs::File::open(&path).unwrap();
                if path.extension().is_some_and(|end| end == "gz") {
                    std::io::Read::read_to_string(&mut GzDecoder::new(file), &mut text).unwrap();
                } else {
                    std::io::Read::read_to_string(&mut file, &mut text).unwrap();
                }
                texts.extend(text.lines().map(|line| line.splitn(4, ' ').nth(3).unwrap().to_owned()));
            }
        }
        texts
    }

    /// How a log agent sends what it has read.
    struct Form {
        path: &'static str,
        content_type: &'static str,
        body: fn(&[String]) -> Vec<u8>,
    }

    const OTLP: Form = Form { path: "/v1/logs", content_type: "application/x-protobuf", body: otlp };
    const JSON: Form = Form { path: "/", content_type: "application/json", body: |texts| json(texts, ["[", ",", "]"]) };
    const JSON_LINES: Form =
        Form { path: "/", content_type: "application/x-ndjson", body: |texts| json(texts, ["", "\n", "\n"]) };

    fn otlp(texts: &[String]) -> Vec<u8> {
        let record = |text: &String| LogRecord {
            body: Some(AnyValue { value: Some(Value::StringValue(text.clone())) }),
            ..LogRecord::default()
        };
        let scope_logs = vec![ScopeLogs { log_records: texts.iter().map(record).collect(), ..ScopeLogs::default() }];
        let resource_logs = vec![ResourceLogs { scope_logs, ..ResourceLogs::default() }];
        ExportLogsServiceRequest { resource_logs }.encode_to_vec()
    }

    /// Records with the members of the text, if it is an object, and what is before, between and after them.
    fn json(texts: &[String], [before, between, after]: [&str; 3]) -> Vec<u8> {
        let record = |text: &String| {
            let mut record: Map<String, serde_json::Value> = serde_json::from_str(text).unwrap_or_default();
            record.insert("log".to_owned(), text.clone().into());
            serde_json::to_string(&record).unwrap()
        };
        let records: Vec<String> = texts.iter().map(record).collect();
        format!("{before}{}{after}", records.join(between)).into_bytes()
    }

    async fn export(sink: &Sink, form: &Form, texts: &[String]) {
        let stream = tokio::net::TcpStream::connect(sink.http).await.unwrap();
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        let request = http::Request::post(form.path)
            .header("host", "sink")
            .header("content-type", form.content_type)
            .body(Full::new(bytes::Bytes::from((form.body)(texts))))
            .unwrap();
        assert_eq!(sender.send_request(request).await.unwrap().status(), 200);
    }

    async fn judged(form: &Form, manifest: &Manifest, texts: &[String]) -> LinesJudgement {
        let sink = sink("--log-lines").await;
        for batch in texts.chunks(500) {
            export(&sink, form, batch).await;
        }
        log_files::judge(manifest, &sink.stop(true).await.log_lines.unwrap())
    }

    #[tokio::test]
    async fn lines_are_followed_from_the_files_to_the_sink() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().to_str().unwrap();
        let flags = "--containers 3 --lines 2000 --rotate-size 100KB --keep 100 --shape json";
        let cli = FilesCli::parse_from(["log-files", path].into_iter().chain(flags.split_whitespace()));
        let manifest = log_files::write(&cli.args, &Arc::default()).unwrap();
        let texts = texts(directory.path(), &manifest);
        for form in [OTLP, JSON, JSON_LINES] {
            let judgement = async |change: &dyn Fn(&mut Vec<String>)| {
                let mut changed = texts.clone();
                change(&mut changed);
                judged(&form, &manifest, &changed).await
            };
            let none = LinesJudgement { written: 6000, arrived: 6000, ..LinesJudgement::default() };
            assert_eq!(judgement(&|_| ()).await, none);
            let lost = judgement(&|texts| drop(texts.remove(1234))).await;
            assert_eq!((lost.arrived, lost.lost, lost.duplicated, lost.reordered), (5999, 1, 0, 0));
            let doubled = judgement(&|texts| texts.insert(3000, texts[777].clone())).await;
            assert_eq!((doubled.lost, doubled.duplicated, doubled.reordered), (0, 1, 0));
            // The first line of a container comes after its last.
            let late = judgement(&|texts| texts[..2000].rotate_left(1)).await;
            assert_eq!((late.lost, late.duplicated, late.reordered), (0, 0, 1));
            let cut = judgement(&|texts| texts[5].truncate(300)).await;
            assert_eq!((cut.lost, cut.damaged), (1, 1));
            let foreign = judgement(&|texts| texts.push("hello".to_owned())).await;
            assert_eq!((foreign.lost, foreign.unmarked), (0, 1));
        }
    }
}
