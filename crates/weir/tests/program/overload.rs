//! More than there is room for, on every path at once: memory is a number that was set (promise P3).

use std::net::SocketAddr;

use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use weir_loadtest::grpc::EXPORT_TRACES;
use weir_testkit::clients::Tally;
use weir_testkit::grpc::{Grpc, OK, UNAVAILABLE, frame};
use weir_testkit::http::{self, JSON, PROTOBUF};
use weir_testkit::metrics::Scrape;
use weir_testkit::sink::{closed_port, sink};
use weir_testkit::{eventually, in_time, json, payload};

use crate::process::{BESIDE, Weir, manifest};

const MEMORY: u64 = 64 << 20;

/// Requests per client.
const ROUNDS: u64 = 6;

async fn flood_grpc(address: SocketAddr, encoding: Option<&'static str>, body: Vec<u8>) -> Tally {
    let client = Grpc::connect(address).await;
    let framed = frame(&body, encoding.is_some());
    let mut tally = Tally::default();
    for _ in 0..ROUNDS {
        let answer = client.call(EXPORT_TRACES, encoding, framed.clone()).await;
        tally.count(answer.code == OK, answer.code == UNAVAILABLE && answer.retry_after.is_some(), &answer);
    }
    tally
}

async fn flood_http(address: SocketAddr, format: &'static str, encoding: Option<&'static str>, body: Vec<u8>) -> Tally {
    let mut tally = Tally::default();
    for _ in 0..ROUNDS {
        let answer = http::post(address, format, encoding, &body).await;
        let is_polite = answer.status == 503 && answer.header("retry-after").parse::<u64>().is_ok();
        tally.count(answer.status == 200, is_polite, &answer);
    }
    tally
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_on_every_path_stays_within_the_memory() {
    let total = flood(&two("").await, &[]).await;
    assert!(total.taken > 0 && total.refused > 0, "{total:?}");
}

/// What goes to the disk has been in memory: that there is more room on disk does not make more of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_that_goes_to_the_disk_stays_within_the_memory() {
    let dir = tempfile::TempDir::new().unwrap();
    let total = flood(&two("").await, &["--data-dir", dir.path().to_str().unwrap()]).await;
    assert!(total.taken > 0, "{total:?}");
}

/// What rules and enrichment make of a request is paid for as well.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_with_rules_stays_within_the_memory() {
    const RULES: &str = "  transform:
  - statements:
    - set(span.attributes[\"added\"], Concat([span.name, span.name], \"-\"))
    - replace_all_patterns(span.attributes, \"value\", \"x\", \"yy\")
";
    const TELEMETRY: &str = "apiVersion: operator.kyma-project.io/v1beta1
kind: Telemetry
metadata: {name: default, namespace: kyma-system}
spec: {enrichments: {cluster: {name: a-cluster-of-many-names}}}
---
";
    let total = flood(&(TELEMETRY.to_owned() + &two(RULES).await), &[]).await;
    assert!(total.taken > 0 && total.refused > 0, "{total:?}");
}

/// Two pipelines to nowhere, with these rules.
async fn two(rules: &str) -> String {
    let pipeline = async |name| manifest(name, closed_port().await).replace("---\n", &format!("{rules}---\n"));
    pipeline("one").await + &pipeline("two").await
}

/// Floods a gateway of dead pipelines on every path; what became of the requests.
async fn flood(manifests: &str, arguments: &[&str]) -> Tally {
    let weir = Weir::start(manifests, &[&["--memory", "64MiB"], arguments].concat()).await;
    let large = payload::encoded(1, 350, 10_000);
    // Compresses a hundred times: the bytes in memory are not those on the wire.
    let repetitive = payload::encoded(1, 1, 10_000).repeat(350);
    let gzip = payload::compress("gzip", &repetitive);
    assert!(gzip.len() * 20 < repetitive.len(), "{} of {}", gzip.len(), repetitive.len());
    let json = json::traces(&payload::request(1, 200, 10_000)).to_string().into_bytes();
    let mut floods = tokio::task::JoinSet::new();
    for _ in 0..4 {
        floods.spawn(flood_grpc(weir.grpc, None, large.clone()));
        floods.spawn(flood_grpc(weir.grpc, Some("gzip"), gzip.clone()));
        floods.spawn(flood_http(weir.http, PROTOBUF, None, large.clone()));
        floods.spawn(flood_http(weir.http, PROTOBUF, Some("gzip"), gzip.clone()));
        floods.spawn(flood_http(weir.http, JSON, None, json.clone()));
    }
    let mut total = Tally::default();
    while let Some(tally) = floods.join_next().await {
        let tally = tally.unwrap();
        total.taken += tally.taken;
        total.refused += tally.refused;
    }
    let scrape = Scrape::of(weir.metrics).await;
    for name in ["one", "two"] {
        let pipeline = format!("{{pipeline=\"{name}\",signal=\"traces\"}}");
        let figure = |metric: &str| scrape.get(&format!("{metric}{pipeline}"));
        assert_eq!(figure("weir_books_mismatches_total"), 0.0);
        assert_eq!(figure("weir_pipeline_accepted_items_total"), figure("weir_pipeline_pending_items"), "none dropped");
    }
    let peak = weir.peak();
    assert!(peak <= MEMORY + BESIDE, "{peak} bytes at the peak; {total:?}");
    total
}

/// A head may be large, and nobody can tell when its message comes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_before_their_message_are_paid_for() {
    // So few that a busy machine has them all before the first is given up, which is after ten seconds.
    const CONNECTIONS: u32 = 8;
    const CALLS: u32 = 100;
    let sink = sink("{}").await;
    let weir = Weir::start(&manifest("backend", sink.grpc), &["--memory", "64MiB"]).await;
    let used = async || Scrape::of(weir.metrics).await.get("weir_memory_used_bytes");
    let mut calls = tokio::task::JoinSet::new();
    for _ in 0..CONNECTIONS {
        let client = Grpc::connect(weir.grpc).await;
        for _ in 0..CALLS {
            let (client, (bytes, pieces)) = (client.clone(), mpsc::channel(1));
            calls.spawn(async move {
                let answer = client.stream_with(&[("metadata", "x"); 350], pieces).await;
                drop(bytes);
                answer
            });
        }
    }
    let peak = || weir.peak();
    let all = f64::from(CONNECTIONS * CALLS) * 6.0 * 1024.0;
    eventually("all are there", async || used().await > all || peak() > MEMORY + BESIDE).await;
    assert!(peak() <= MEMORY + BESIDE, "{} bytes at the peak", peak());
}

/// HTTP/2 lets a client open streams and take no byte of their answers; a refusal takes no more than the streams did.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_that_nobody_reads_are_paid_for() {
    const CONNECTIONS: usize = 60;
    const STREAMS: u32 = 120;
    let weir = Weir::start(&manifest("backend", closed_port().await), &["--memory", "128MiB"]).await;
    let used = async || Scrape::of(weir.metrics).await.get("weir_memory_used_bytes");
    let refused = async || {
        let reason = "weir_receiver_refused_requests_total{transport=\"http\",reason=\"unsupported\"}";
        Scrape::of(weir.metrics).await.get(reason)
    };
    let before = weir.memory("VmRSS");
    let mut connections = Vec::new();
    for _ in 0..CONNECTIONS {
        let mut stream = TcpStream::connect(weir.http).await.unwrap();
        stream.write_all(&requests_to_nowhere(STREAMS)).await.unwrap();
        connections.push(stream);
    }
    let all = CONNECTIONS * STREAMS as usize;
    eventually("all are refused", async || refused().await == all as f64).await;
    let (cost, used) = (weir.memory("VmRSS").saturating_sub(before), used().await);
    assert!(
        cost as f64 <= used + CONNECTIONS as f64 * 52.0 * 1024.0 + 4e6,
        "{cost} bytes, of which {used} are paid for"
    );
    drop(connections);
    eventually("what they paid for is given back", async || {
        Scrape::of(weir.metrics).await.get("weir_memory_used_bytes") == 0.0
    })
    .await;
}

/// Of a path that a client has its server remember, the library keeps the whole buffer in which it came.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn heads_that_are_remembered_are_paid_for_and_keep_nobody_out() {
    const CONNECTIONS: usize = 150;
    const HEADS: u32 = 100;
    let weir = Weir::start(&manifest("backend", closed_port().await), &["--memory", "64MiB"]).await;
    let mut connections = tokio::task::JoinSet::new();
    for _ in 0..CONNECTIONS {
        let address = weir.http;
        connections.spawn(async move {
            let mut stream = TcpStream::connect(address).await.unwrap();
            stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await.unwrap();
            for number in 0..HEADS {
                // Some are hung up on.
                let _ = stream.write_all(&large_head(number)).await;
            }
            stream
        });
    }
    let connections = connections.join_all().await;
    let used = async || Scrape::of(weir.metrics).await.get("weir_memory_used_bytes");
    eventually("they are told to go, as others need the room", async || used().await < MEMORY as f64 / 3.0).await;
    let peak = weir.peak();
    assert!(peak <= MEMORY + BESIDE, "{peak} bytes at the peak");
    let client = Grpc::connect(weir.grpc).await;
    assert_eq!(client.export(&payload::encoded(1, 1, 100)).await.code, OK);
    drop(connections);
}

/// Small heads, each in a buffer of its own, and then a frame that does not end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_that_remember_cost_what_they_are_charged_and_pay() {
    const CONNECTIONS: usize = 1_000;
    let weir = Weir::start(&manifest("backend", closed_port().await), &["--memory", "640MiB"]).await;
    let count = async |name| Scrape::of(weir.metrics).await.get(name);
    let before = weir.memory("VmRSS");
    // Frames of a type that means nothing.
    let filler =
        |length: u16| [&[0][..], &length.to_be_bytes(), &[0xee, 0, 0, 0, 0, 0], &vec![0; length.into()]].concat();
    let mut said = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0".to_vec();
    for number in 0..4 {
        // HEADERS that end the stream: POST http://x/N.
        said.extend_from_slice(&[0, 0, 9, 1, 5, 0, 0, 0, 2 * number + 1]);
        said.extend_from_slice(&[0x83, 0x86, 0x44, 2, b'/', b'0' + number, 1, 1, b'x']);
        said.extend([filler(4000), filler(4000)].concat());
    }
    said.extend_from_slice(&filler(1 << 14)[..16_000]);
    let mut connections = Vec::new();
    for _ in 0..CONNECTIONS {
        let mut stream = TcpStream::connect(weir.http).await.unwrap();
        stream.write_all(&said).await.unwrap();
        connections.push(stream);
    }
    let refused = "weir_receiver_refused_requests_total{transport=\"http\",reason=\"unsupported\"}";
    eventually("all are refused", async || count(refused).await == 4.0 * CONNECTIONS as f64).await;
    let (used, cost) = (count("weir_memory_used_bytes").await, weir.memory("VmRSS").saturating_sub(before));
    let aside = CONNECTIONS as f64 * 52.0 * 1024.0;
    assert!(cost as f64 <= used + aside + 4e6, "{cost} bytes, of which {used} are paid for");
    assert_eq!(count("weir_receiver_connections").await, CONNECTIONS as f64, "none is told to go");
}

/// GET http:/aN with a user agent of 16,000 bytes; the path is to be remembered.
fn large_head(number: u32) -> Vec<u8> {
    let mut fields = b"\x82\x86\x44\x05/".to_vec();
    fields.extend_from_slice(format!("{number:04}").as_bytes());
    // 16,000 is 127 and 15,873.
    fields.extend_from_slice(b"\x0f\x2b\x7f\x81\x7c");
    fields.resize(fields.len() + 16_000, b'x');
    let [.., high, middle, low] = fields.len().to_be_bytes();
    let head = [high, middle, low, 1, 5];
    [&head[..], &(2 * number + 1).to_be_bytes(), &fields].concat()
}

/// What a client of HTTP/2 says that has no room for answers.
fn requests_to_nowhere(streams: u32) -> Vec<u8> {
    let mut said = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    // SETTINGS_INITIAL_WINDOW_SIZE is 0.
    said.extend_from_slice(b"\0\0\x06\x04\0\0\0\0\0\0\x04\0\0\0\0");
    for stream in (0..streams).map(|number| 2 * number + 1) {
        // HEADERS that end the stream: POST http://x/nowhere.
        let fields = b"\x83\x86\x04\x08/nowhere\x01\x01x";
        said.extend_from_slice(&[0, 0, fields.len().to_le_bytes()[0], 1, 5]);
        said.extend_from_slice(&stream.to_be_bytes());
        said.extend_from_slice(fields);
    }
    said
}

/// Clients of HTTP/1.1 that keep their connections after a large request, and some that stop within a head.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_cost_what_they_are_charged() {
    let sink = sink("{}").await;
    // Room for many connections, and some for requests.
    let weir = Weir::start(&manifest("backend", sink.grpc), &["--memory", "640MiB"]).await;
    let before = weir.memory("VmRSS");
    let body = payload::encoded(1, 1, 300_000);
    let length = format!("content-length: {}\r\n", body.len());
    let large = [http::head("POST", "/v1/traces", PROTOBUF, &length), body].concat();
    let half = [&b"POST /v1/traces HTTP/1.1\r\nx: "[..], &[b'a'; 16_000]].concat();
    let mut connections = Vec::new();
    for number in 0..1_000 {
        let mut stream = TcpStream::connect(weir.http).await.unwrap();
        if number % 2 == 0 {
            stream.write_all(&large).await.unwrap();
            assert_eq!(in_time("answer", http::read_answer(&mut stream)).await.unwrap().status, 200);
        } else {
            stream.write_all(&half).await.unwrap();
        }
        connections.push(stream);
    }
    let all = connections.len() as u64;
    eventually("all are there", async || Scrape::of(weir.metrics).await.get("weir_receiver_connections") == all as f64)
        .await;
    let cost = weir.memory("VmRSS").saturating_sub(before);
    assert!(cost <= all * 52 * 1024 + BESIDE / 2, "{cost} bytes for {all} connections");
}

/// Ten thousand connections that say nothing, or no more than hello: others get through, memory stays where it was.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn idle_connections_cost_little_and_block_nobody() {
    let sink = sink("{}").await;
    let weir = Weir::start(&manifest("backend", sink.grpc), &["--memory", "64MiB"]).await;
    let wanted = 10_000.min(raise_file_limit() / 2);
    let mut connections = Vec::new();
    for number in 0..wanted {
        let mut stream = TcpStream::connect(weir.grpc).await.unwrap();
        if number % 10 == 0 {
            // The gateway may have closed it already.
            let _ = stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await;
        }
        connections.push(stream);
        if number % 1_000 == 999 {
            let answer = Grpc::connect(weir.grpc).await.export(&payload::encoded(1 + number, 1, 10)).await;
            assert_eq!(answer.code, OK, "after {number} connections: {answer:?}");
        }
    }
    eventually("everybody else's spans arrive", async || sink.report(false).unique == wanted / 1_000).await;
    let peak = weir.peak();
    assert!(peak <= MEMORY + BESIDE, "{peak} bytes at the peak with {} connections", connections.len());
}

/// Takes as many files as this process may have, and returns the number.
fn raise_file_limit() -> u64 {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let maximum = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).unwrap();
    maximum.unwrap_or(u64::MAX)
}

/// What all pipelines make of one request has to be there at once: the limit on requests is such that it can be, however
/// many pipelines there are.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_largest_request_passes_through_any_number_of_pipelines() {
    const TWICE: &str =
        "  transform:\n  - statements:\n    - set(span.attributes[\"twice\"], span.attributes[\"padding\"])\n";
    let sink = sink("{}").await;
    for pipelines in [1, 10, 30] {
        let one = |number| manifest(&format!("p{number}"), sink.grpc).replace("---\n", &format!("{TWICE}---\n"));
        let manifests: String = (0..pipelines).map(one).collect();
        for journal in [false, true] {
            let dir = tempfile::TempDir::new().unwrap();
            let journal: &[&str] = if journal { &["--data-dir", dir.path().to_str().unwrap()] } else { &[] };
            let weir = Weir::start(&manifests, &[&["--memory", "64MiB"], journal].concat()).await;
            let limit = largest_request(&weir);
            // Some hundred bytes stand around the padding.
            let answer = http::post(weir.http, PROTOBUF, None, &payload::encoded(1, 1, limit - 1000)).await;
            assert_eq!(answer.status, 200, "{pipelines} pipelines, {limit}: {}", answer.text());
            let spans = u64::try_from(limit / 1000).unwrap();
            let answer = http::post(weir.http, PROTOBUF, None, &payload::encoded(1, spans, 800)).await;
            assert_eq!(answer.status, 200, "{pipelines} pipelines, {limit}: {}", answer.text());
            let answer = http::post(weir.http, PROTOBUF, None, &payload::encoded(1, 1, limit)).await;
            assert_eq!(answer.status, 413, "{}", answer.text());
            assert!(answer.text().contains(&limit.to_string()), "{}", answer.text());
        }
    }
}

/// The largest request that is taken, as the log says, once.
fn largest_request(weir: &Weir) -> usize {
    let said =
        weir.all_logged("requests are limited to what there is room for in all pipelines; more memory allows more");
    assert_eq!(said.len(), 1, "{said:?}");
    usize::try_from(said[0]["limit"].as_u64().unwrap()).unwrap()
}

/// Items that are larger than all that a pipeline may compress, for many pipelines at once: they arrive all the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_items_are_compressed_within_the_memory() {
    for compression in ["gzip", "zstd", "snappy"] {
        for scheme in ["grpc", "http"] {
            let sink = sink("{}").await;
            let backend = if scheme == "grpc" { sink.grpc } else { sink.http };
            let one = |number| {
                manifest(&format!("p{number}"), backend)
                    .replace("compression: none", &format!("compression: {compression}\n      protocol: {scheme}"))
            };
            let manifests: String = (0..8).map(one).collect();
            let weir = Weir::start(&manifests, &["--memory", "64MiB"]).await;
            let limit = largest_request(&weir);
            for id in 1..=3 {
                let answer = http::post(weir.http, PROTOBUF, None, &payload::encoded(id, 1, limit - 1000)).await;
                assert_eq!(answer.status, 200, "{compression} {scheme}: {}", answer.text());
            }
            eventually("all arrive", async || sink.report(false).unique == 3).await;
            let peak = weir.peak();
            assert!(peak <= MEMORY + BESIDE, "{peak} bytes at the peak");
        }
    }
}
