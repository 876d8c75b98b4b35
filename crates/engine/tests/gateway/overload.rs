//! More than there is room for, on every path at once: memory is a number that was set (promise P3).

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use weir_engine::Settings;
use weir_loadtest::sink::Sink;
use weir_testkit::clients::Tally;
use weir_testkit::grpc::{Grpc, OK, UNAVAILABLE, frame};
use weir_testkit::http::{self, PROTOBUF};
use weir_testkit::sink::{closed_port, sink};
use weir_testkit::{eventually, in_time, payload};

use crate::support::{Gateway, pipeline, settings};

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
    // Or, where the machine was too busy to see it, one was refused because they did.
    let refused = async || gateway.scrape().await.sum("weir_receiver_refused_requests_total", "reason=\"no_memory\"");
    eventually("they hold most of the memory", async || used().await > 1.3 * half || refused().await > 0.0).await;
    eventually("there is room for others", async || used().await <= half).await;
    for number in 0..3 {
        let answer = Grpc::connect(gateway.at.grpc).await.export(&body).await;
        assert_eq!(answer.code, OK, "request {number}: {answer:?}");
    }
}

/// Goes on with a body fast enough not to give way; where the machine is too busy for that, begins anew.
async fn trickle(address: SocketAddr, beginning: Vec<u8>) {
    while let Ok(mut stream) = TcpStream::connect(address).await {
        let _ = stream.write_all(&beginning).await;
        while stream.write_all(&[0; 4_000]).await.is_ok() {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
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
        slow.spawn(trickle(gateway.at.http, beginning.clone()));
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
    // Less than half of the memory: beyond that, on a slow machine, bodies that do not go on for a second give way to
    // others before all have begun.
    eventually("many have begun", async || used().await > 16e6).await;
    go.send(()).unwrap();
    let mut tally = Tally::default();
    while let Some(answer) = in_time("an answer", calls.join_next()).await {
        // A refusal may come as a reset, when the client does not stop sending.
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
