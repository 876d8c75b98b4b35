//! Backends that say as much as they can and never come to an end: what connections to them cost is set aside.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::{JoinHandle, JoinSet};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::HandshakeKind;
use weir_plan::Signal;
use weir_testkit::grpc::{Grpc, OK};
use weir_testkit::metrics::Scrape;
use weir_testkit::tls::Authority;
use weir_testkit::{eventually, in_time, manifests, payload};

use crate::process::Weir;

const PIPELINES: usize = 40;

/// As many as are sent at once to a backend of which nothing is known.
const REQUESTS: usize = 16;

/// What is set aside for a connection, and one that waits beside it.
const LINK_BYTES: usize = 160 << 10;

/// Takes connections, and leaves each in the middle of an answer with a head as large as it may be. Counts them.
async fn serve(listener: TcpListener, tls: Option<TlsAcceptor>, count: Arc<AtomicUsize>) {
    let mut connections = JoinSet::new();
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let (tls, count) = (tls.clone(), Arc::clone(&count));
        connections.spawn(async move {
            match tls {
                None => answer(stream, &count).await,
                Some(tls) => answer(tls.accept(stream).await.unwrap(), &count).await,
            }
        });
    }
}

async fn answer(mut stream: impl AsyncRead + AsyncWrite + Unpin, count: &AtomicUsize) {
    let mut asked = Vec::new();
    while !asked.ends_with(b"\r\n\r\n") {
        asked.push(stream.read_u8().await.unwrap());
    }
    let fields: String = (0..95).map(|number| format!("x-{number}: {}\r\n", "v".repeat(155))).collect();
    let head =
        format!("HTTP/1.1 200 OK\r\ncontent-type: application/x-protobuf\r\n{fields}content-length: 60000\r\n\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(&[0; 4000]).await.unwrap();
    stream.flush().await.unwrap();
    count.fetch_add(1, Ordering::SeqCst);
    // Until the other side has enough of it.
    let _ = stream.read_to_end(&mut Vec::new()).await;
    count.fetch_sub(1, Ordering::SeqCst);
}

fn manifest(backend: SocketAddr, authority: Option<&Authority>) -> String {
    let output = match authority {
        None => manifests::plain("http", backend),
        Some(authority) => manifests::secured("http", backend, &json!({"ca": {"value": authority.pem()}})),
    };
    manifest_of(&output)
}

fn manifest_of(output: &Value) -> String {
    (0..PIPELINES).map(|number| manifests::pipeline(Signal::Traces, &format!("backend-{number}"), output)).collect()
}

/// What each connection to backends costs, of which there are as many as `expected`, and no more.
async fn connections(memory: &str, with_tls: bool, expected: usize) -> f64 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let authority = with_tls.then(Authority::new);
    let manifest = manifest(listener.local_addr().unwrap(), authority.as_ref());
    let tls = authority.map(|authority| {
        let mut config = authority.server(None).config().as_ref().clone();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        TlsAcceptor::from(Arc::new(config))
    });
    let weir = Weir::start(&manifest, &["--memory", memory, "--spill-after", "1ms"]).await;
    let count = Arc::new(AtomicUsize::new(0));
    let server = tokio::spawn(serve(listener, tls, Arc::clone(&count)));
    let used = async || Scrape::of(weir.metrics).await.get("weir_memory_used_bytes");
    let client = Grpc::connect(weir.grpc).await;
    let (before, used_before) = (weir.memory("VmRSS"), used().await);
    let export = async || assert_eq!(client.export(&payload::encoded(1, 1, 10)).await.code, OK);
    eventually("all connections are at work", async || {
        export().await;
        count.load(Ordering::SeqCst) >= expected
    })
    .await;
    for _ in 0..REQUESTS {
        export().await;
    }
    assert_eq!(count.load(Ordering::SeqCst), expected);
    let (paid, cost) = (used().await - used_before, weir.memory("VmRSS").saturating_sub(before));
    server.abort();
    (cost as f64 - paid) / expected as f64
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_costs_no_more_than_is_set_aside() {
    for with_tls in [false, true] {
        let cost = connections("8GiB", with_tls, PIPELINES * REQUESTS).await;
        assert!(cost < LINK_BYTES as f64 * 0.75, "{cost} bytes, TLS: {with_tls}");
    }
}

/// A 32nd of the memory is set aside.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn there_are_no_more_connections_than_are_set_aside_for() {
    connections("512MiB", true, PIPELINES * ((512 << 20) / 32 / LINK_BYTES / PIPELINES)).await;
}

/// What a request may leave of the head of its answer until that ends.
const HEAD_BYTES: f64 = 12.0 * 1024.0;

/// A frame of HTTP/2.
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let [_, high, middle, low] = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&[high, middle, low, kind, flags][..], &stream.to_be_bytes(), payload].concat()
}

/// The beginning of an answer over gRPC with so many fields of two letters beside what it needs.
fn head(fields: u16) -> Vec<u8> {
    let needed = [&[0x88, 0, 12][..], b"content-type", &[16], b"application/grpc"].concat();
    let more = (0..fields).flat_map(|number| {
        let letter = |number: u16| b'a' + u8::try_from(number % 26).unwrap();
        [0, 2, letter(number / 26), letter(number), 1, b'v']
    });
    needed.into_iter().chain(more).collect()
}

/// Speaks HTTP/2 to a client, and says `answer` of each stream when all of its request is here.
async fn converse(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    mut answer: impl FnMut(u32) -> Vec<u8>,
) -> Option<()> {
    const DATA: u8 = 0;
    const SETTINGS: u8 = 4;
    const END: u8 = 1;
    stream.write_all(&frame(SETTINGS, 0, 0, &[])).await.ok()?;
    stream.read_exact(&mut [0; 24]).await.ok()?;
    loop {
        let mut head = [0; 9];
        stream.read_exact(&mut head).await.ok()?;
        let [high, middle, low, kind, flags, id @ ..] = head;
        let mut payload = vec![0; u32::from_be_bytes([0, high, middle, low]) as usize];
        stream.read_exact(&mut payload).await.ok()?;
        match (kind, flags & END) {
            (DATA, END) => stream.write_all(&answer(u32::from_be_bytes(id))).await.ok()?,
            (SETTINGS, 0) => stream.write_all(&frame(SETTINGS, END, 0, &[])).await.ok()?,
            _ => {}
        }
        stream.flush().await.ok()?;
    }
}

/// A backend over gRPC that says this of each request.
fn backend(listener: TcpListener, answer: impl Fn(u32) -> Vec<u8> + Clone + Send + 'static) -> JoinHandle<()> {
    tokio::spawn(async move {
        let mut connections = JoinSet::new();
        while let Ok((stream, _)) = listener.accept().await {
            connections.spawn(converse(stream, answer.clone()));
        }
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_a_head_little_is_kept() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let manifest = manifest_of(&manifests::plain("grpc", listener.local_addr().unwrap()));
    let weir = Weir::start(&manifest, &["--memory", "8GiB", "--spill-after", "1ms"]).await;
    let count = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&count);
    let server = backend(listener, move |stream| {
        counter.fetch_add(1, Ordering::SeqCst);
        frame(1, 4, stream, &head(220))
    });
    let client = Grpc::connect(weir.grpc).await;
    let export = async || assert_eq!(client.export(&payload::encoded(1, 1, 10)).await.code, OK);
    // Each pipeline has its connection.
    export().await;
    eventually("they are connected", async || count.load(Ordering::SeqCst) >= PIPELINES).await;
    let used = async || Scrape::of(weir.metrics).await.get("weir_memory_used_bytes");
    let (before, used_before) = (weir.memory("VmRSS"), used().await);
    eventually("all requests are under way", async || {
        export().await;
        count.load(Ordering::SeqCst) >= PIPELINES * REQUESTS
    })
    .await;
    let (paid, cost) = (used().await - used_before, weir.memory("VmRSS").saturating_sub(before));
    server.abort();
    let cost = (cost as f64 - paid) / (PIPELINES * (REQUESTS - 1)) as f64;
    assert!(cost < HEAD_BYTES, "{cost} bytes");
}

/// A refusal with more fields than are read is tried again as it was: it is not halved.
#[tokio::test]
async fn a_head_that_is_too_long_says_nothing_of_the_data() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let output = manifests::plain("grpc", listener.local_addr().unwrap());
    let weir = Weir::start(&manifests::pipeline(Signal::Traces, "backend", &output), &[]).await;
    let count = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&count);
    let status = |code: u8| [&[0, 11][..], b"grpc-status", &[1, code]].concat();
    let server = backend(listener, move |stream| match counter.fetch_add(1, Ordering::SeqCst) {
        0 => frame(1, 4 | 1, stream, &[head(255), status(b'3')].concat()),
        _ => [frame(1, 4, stream, &head(150)), frame(0, 0, stream, &[0; 5]), frame(1, 4 | 1, stream, &status(b'0'))]
            .concat(),
    });
    let client = Grpc::connect(weir.grpc).await;
    assert_eq!(client.export(&payload::encoded(1, 2, 10)).await.code, OK);
    let books = Scrape::settled(weir.metrics, "backend").await;
    assert_eq!((books.delivered, books.rejected, count.load(Ordering::SeqCst)), (2, 0, 2));
    server.abort();
}

/// A session would be kept with all that a backend put into its tickets.
#[tokio::test]
async fn no_sessions_of_tls_are_kept() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let authority = Authority::new();
    let trusted = json!({"ca": {"value": authority.pem()}});
    let output = manifests::secured("http", listener.local_addr().unwrap(), &trusted);
    let weir = Weir::start(&manifests::pipeline(Signal::Traces, "backend", &output), &[]).await;
    let mut config = authority.server(None).config().as_ref().clone();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    let tls = TlsAcceptor::from(Arc::new(config));
    let client = Grpc::connect(weir.grpc).await;
    for number in 0..3 {
        assert_eq!(client.export(&payload::encoded(1 + number, 1, 10)).await.code, OK);
        let (stream, _) = in_time("connection", listener.accept()).await.unwrap();
        let mut stream = tls.accept(stream).await.unwrap();
        assert_eq!(stream.get_ref().1.handshake_kind(), Some(HandshakeKind::Full), "connection {number}");
        let _ = stream.read(&mut [0; 4096]).await.unwrap();
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n").await.unwrap();
        stream.shutdown().await.unwrap();
        Scrape::settled(weir.metrics, "backend").await;
    }
}
