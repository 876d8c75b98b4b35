//! More than there is room for, on every path at once: memory is a number that was set (promise P3).

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use weir_engine::Settings;
use weir_loadtest::grpc::EXPORT_TRACES;
use weir_loadtest::sink::Sink;

use crate::support::gateway::{Gateway, closed_port, pipeline, settings, sink};
use crate::support::grpc::{Grpc, OK, UNAVAILABLE, frame};
use crate::support::http::{self, JSON, PROTOBUF};
use crate::support::metrics::Scrape;
use crate::support::process::{Weir, manifest};
use crate::support::{eventually, in_time, json, payload};

const MEMORY: u64 = 64 << 20;
/// What the process may use beside its budget.
const BESIDE: u64 = 32_000_000;

/// Requests per client.
const ROUNDS: u64 = 6;

/// How many requests were taken and how many refused; every refusal came with a hint.
#[derive(Debug, Default)]
struct Tally {
    taken: u64,
    refused: u64,
}

impl Tally {
    fn count(&mut self, is_ok: bool, is_polite: bool, answer: &dyn std::fmt::Debug) {
        assert!(is_ok || is_polite, "{answer:?}");
        self.taken += u64::from(is_ok);
        self.refused += u64::from(!is_ok);
    }
}

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
    let peak = weir.memory("VmHWM");
    assert!(peak <= MEMORY + BESIDE, "{peak} bytes at the peak; {total:?}");
    total
}

/// What is only declared takes nothing from those who send.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_that_declare_and_send_nothing_keep_nobody_out() {
    let sink = sink("{}").await;
    let settings = Settings { memory: 64 << 20, ..settings() };
    let gateway = Gateway::with(vec![pipeline("backend", sink.grpc)], settings).await;
    let used = async || gateway.scrape().await.get("weir_memory_used_bytes");
    let declared = http::head("POST", "/v1/traces", PROTOBUF, "content-length: 1900000\r\n");
    let mut silent = Vec::new();
    for _ in 0..60 {
        let mut stream = TcpStream::connect(gateway.at.http).await.unwrap();
        stream.write_all(&declared).await.unwrap();
        silent.push(stream);
    }
    let client = gateway.client().await;
    let mut calls = tokio::task::JoinSet::new();
    for _ in 0..60 {
        let (client, (bytes, pieces)) = (client.clone(), mpsc::channel(1));
        bytes.send(Bytes::from_static(&[0, 0, 0x80, 0, 0])).await.unwrap();
        calls.spawn(async move {
            let answer = client.stream(pieces).await;
            drop(bytes);
            answer
        });
    }
    eventually("all have declared", async || used().await > 120.0 * 1024.0).await;
    for number in 0..100 {
        let answer = Grpc::connect(gateway.at.grpc).await.export(&payload::encoded(1 + number, 1, 30_000)).await;
        assert_eq!(answer.code, OK, "request {number}: {answer:?}");
    }
    assert!(used().await < 4e6, "they hold hardly anything: {}", used().await);
}

/// Clients that stop just before the end of what they send hold memory for as long as there is enough for all.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn half_read_requests_that_stall_make_place() {
    make_place(Duration::MAX).await;
}

/// So do those that always have a little more to say.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn half_read_requests_that_trickle_make_place() {
    make_place(Duration::from_millis(100)).await;
}

/// Of clients that send the last bytes of what they declared one by one, with these pauses.
async fn make_place(pause: Duration) {
    const LAST: usize = 5_000;
    let sink = sink("{}").await;
    let settings = Settings { memory: 64 << 20, body_timeout: Duration::from_secs(1_000), ..settings() };
    let gateway = Gateway::with(vec![pipeline("backend", sink.grpc)], settings).await;
    let body = payload::encoded(1, 80, 100_000);
    let length = format!("content-length: {}\r\n", body.len());
    let whole = [http::head("POST", "/v1/traces", PROTOBUF, &length), body.clone()].concat();
    let mut slow = tokio::task::JoinSet::new();
    for _ in 0..10 {
        let (mut stream, whole) = (TcpStream::connect(gateway.at.http).await.unwrap(), whole.clone());
        slow.spawn(async move {
            // The gateway may have no room for it.
            let (most, last) = whole.split_at(whole.len() - LAST);
            let _ = stream.write_all(most).await;
            for byte in last {
                let _ = stream.write_all(&[*byte]).await;
                tokio::time::sleep(pause).await;
            }
        });
    }
    let used = async || gateway.scrape().await.get("weir_memory_used_bytes");
    let half = gateway.scrape().await.get("weir_memory_budget_bytes") / 2.0;
    eventually("they hold most of the memory", async || used().await > 1.3 * half).await;
    eventually("there is room for others", async || used().await <= half).await;
    for number in 0..3 {
        let answer = Grpc::connect(gateway.at.grpc).await.export(&body).await;
        assert_eq!(answer.code, OK, "request {number}: {answer:?}");
    }
}

/// While memory is scarce, a body has hardly more of it than has arrived: as many as send the beginning have room.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_has_not_arrived_of_bodies_takes_no_room_from_others() {
    const BODY: usize = 7_000_000;
    let sink = sink("{}").await;
    let settings = Settings { memory: 64 << 20, ..settings() };
    let gateway = Gateway::with(vec![pipeline("backend", sink.grpc)], settings).await;
    let head = http::head("POST", "/v1/traces", PROTOBUF, &format!("content-length: {BODY}\r\n"));
    let beginning = [&head[..], &[0; BODY / 8 + 1_000]].concat();
    let mut slow = tokio::task::JoinSet::new();
    for _ in 0..9 {
        let mut stream = TcpStream::connect(gateway.at.http).await.unwrap();
        stream.write_all(&beginning).await.unwrap();
        slow.spawn(async move {
            // Fast enough not to make place.
            while stream.write_all(&[0; 4_000]).await.is_ok() {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        });
    }
    let used = async || gateway.scrape().await.get("weir_memory_used_bytes");
    let half = gateway.scrape().await.get("weir_memory_budget_bytes") / 2.0;
    eventually("they hold most of the memory", async || used().await > 1.3 * half).await;
    for number in 0..10 {
        let answer = Grpc::connect(gateway.at.grpc).await.export(&payload::encoded(1 + number, 35, 100_000)).await;
        assert_eq!(answer.code, OK, "request {number}: {answer:?}");
    }
}

/// Half of them cannot be there at once; none waits for the others for ever.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_requests_that_arrive_together_are_taken_or_refused() {
    let sink = sink("{}").await;
    let settings = Settings { memory: 64 << 20, ..settings() };
    let gateway = Gateway::with(vec![pipeline("backend", sink.grpc)], settings).await;
    let body = payload::encoded(1, 80, 100_000);
    let framed = frame(&body, false);
    let mut calls = tokio::task::JoinSet::new();
    let (go, _) = tokio::sync::broadcast::channel::<()>(1);
    for _ in 0..64 {
        let (client, (bytes, pieces)) = (gateway.client().await, mpsc::channel(1));
        let (framed, mut start) = (framed.clone(), go.subscribe());
        calls.spawn(async move {
            let send = async {
                // Less than an eighth first: many of them are there before one needs more.
                let (first, rest) = framed.split_at(framed.len() / 9);
                bytes.send(Bytes::copy_from_slice(first)).await.unwrap();
                start.recv().await.unwrap();
                // Whoever was refused takes no more.
                let _ = bytes.send(Bytes::copy_from_slice(rest)).await;
                drop(bytes);
            };
            let (answer, ()) = tokio::join!(client.stream(pieces), send);
            answer
        });
    }
    let used = async || gateway.scrape().await.get("weir_memory_used_bytes");
    // More than half of the memory: then bodies that do not go on for a second make place for others.
    eventually("many have begun", async || used().await > 22e6).await;
    go.send(()).unwrap();
    let mut tally = Tally::default();
    while let Some(answer) = in_time("an answer", calls.join_next()).await {
        // A refusal may come as a reset, when the client does not stop to send.
        let Ok(answer) = answer.unwrap() else { continue };
        tally.count(answer.code == OK, answer.code == UNAVAILABLE && answer.retry_after.is_some(), &answer);
    }
    assert!(tally.taken > 0, "{tally:?}");
    gateway.settle().await;
}

/// Pipelines have the bytes in common, but not what they need beside them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_request_costs_in_each_pipeline_is_paid_for() {
    const PIPELINES: u32 = 40;
    let backend = closed_port().await;
    let pipelines = (0..PIPELINES).map(|number| pipeline(&format!("p{number}"), backend)).collect();
    let gateway = Gateway::with(pipelines, settings()).await;
    let answer = http::post(gateway.at.http, PROTOBUF, None, &payload::encoded(1, 1, 0)).await;
    assert_eq!(answer.status, 200, "held: {answer:?}");
    let used = gateway.scrape().await.get("weir_memory_used_bytes");
    assert!(used >= 400.0 * f64::from(PIPELINES), "{used}");
}

/// A head may be large, and nobody can tell when its message comes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_before_their_message_are_paid_for() {
    let sink = sink("{}").await;
    let weir = Weir::start(&manifest("backend", sink.grpc), &["--memory", "64MiB"]).await;
    let used = async || Scrape::of(weir.metrics).await.get("weir_memory_used_bytes");
    let mut calls = tokio::task::JoinSet::new();
    for _ in 0..16 {
        let client = Grpc::connect(weir.grpc).await;
        for _ in 0..250 {
            let (client, (bytes, pieces)) = (client.clone(), mpsc::channel(1));
            calls.spawn(async move {
                let answer = client.stream_with(&[("metadata", "x"); 350], pieces).await;
                drop(bytes);
                answer
            });
        }
    }
    let peak = || weir.memory("VmHWM");
    eventually("all are there", async || used().await > 4000.0 * 6.0 * 1024.0 || peak() > MEMORY + BESIDE).await;
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
    let peak = weir.memory("VmHWM");
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

/// Connections that are more than a gateway with [`LITTLE_MEMORY`] has.
const CROWD: u64 = 150;
const LITTLE_MEMORY: usize = 32 << 20;

/// A gateway whose table of connections is full of clients that have said no more than `hello`.
async fn crowded(settings: Settings, hello: &[u8]) -> (Sink, Gateway, Vec<TcpStream>) {
    let sink = sink("{}").await;
    let settings = Settings { memory: LITTLE_MEMORY, ..settings };
    let gateway = Gateway::with(vec![pipeline("backend", sink.grpc)], settings).await;
    let mut crowd = Vec::new();
    for _ in 0..CROWD {
        let mut stream = TcpStream::connect(gateway.at.http).await.unwrap();
        // It may be closed already.
        let _ = stream.write_all(hello).await;
        crowd.push(stream);
    }
    (sink, gateway, crowd)
}

/// Clients that begin a request and leave it at that, when they are told to go away.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn half_open_connections_make_place_at_the_rate_of_new_clients() {
    let age = Duration::from_secs(3);
    let settings = Settings { max_connection_age: age, ..settings() };
    let (sink, gateway, _crowd) = crowded(settings, b"POST /v1/tr").await;
    let last = gateway.client().await;
    eventually("the last one is told to go away", async || last.is_closed()).await;
    let mut open = Vec::new();
    for number in 0..CROWD / 3 {
        let mut stream = TcpStream::connect(gateway.at.http).await.unwrap();
        let body = payload::encoded(1 + number, 1, 10);
        let length = format!("content-length: {}\r\n", body.len());
        // The gateway closes it at once when it has no room.
        let _ = stream.write_all(&[http::head("POST", "/v1/traces", PROTOBUF, &length), body].concat()).await;
        let answer = in_time("an answer or the end", http::read_answer(&mut stream)).await;
        assert_eq!(answer.map(|answer| answer.status).ok(), Some(200), "client {number}");
        open.push(stream);
    }
    eventually("everything arrives", async || sink.report(false).unique == CROWD / 3).await;
}

/// Whoever had a request once has no right to a place for ever.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn idle_connections_that_had_a_request_make_place() {
    let (_sink, gateway, _crowd) = crowded(settings(), b"GET / HTTP/1.1\r\nhost: test\r\n\r\n").await;
    let request = http::head("GET", "/", PROTOBUF, "");
    eventually("a new client is served", async || {
        let Ok(mut stream) = TcpStream::connect(gateway.at.http).await else { return false };
        let _ = stream.write_all(&request).await;
        in_time("an answer or the end", http::read_answer(&mut stream)).await.is_ok()
    })
    .await;
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
    assert!(cost <= all * 52 * 1024 + BESIDE / 4, "{cost} bytes for {all} connections");
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
    let peak = weir.memory("VmHWM");
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
            let peak = weir.memory("VmHWM");
            assert!(peak <= MEMORY + BESIDE, "{peak} bytes at the peak");
        }
    }
}
