//! Backends that say as much as they can and never come to an end: what connections to them cost is set aside.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use weir_plan::Signal;

use crate::support::grpc::{Grpc, OK};
use crate::support::manifests;
use crate::support::metrics::Scrape;
use crate::support::process::Weir;
use crate::support::tls::Authority;
use crate::support::{eventually, payload};

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
    (0..PIPELINES).map(|number| manifests::pipeline(Signal::Traces, &format!("backend-{number}"), &output)).collect()
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
