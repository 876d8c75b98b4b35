//! Fields that clients send after a body (HTTP/2), which OTLP has no use for.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use weir_testkit::backend::Backend;
use weir_testkit::metrics::Scrape;
use weir_testkit::sink::closed_port;
use weir_testkit::{eventually, in_time, payload};

use crate::process::{BESIDE, Weir, manifest};

const HELLO: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

/// SETTINGS that leave no room for the bodies of answers.
const NO_WINDOW: &[u8] = b"\0\0\x06\x04\0\0\0\0\0\0\x04\0\0\0\0";

const PING: &[u8] = b"\0\0\x08\x06\0\0\0\0\0trailers";

const DATA: u8 = 0;

const HEADERS: u8 = 1;

const END_STREAM: u8 = 1;

const END_HEADERS: u8 = 4;

fn frame(kind: u8, flags: u8, stream: usize, payload: &[u8]) -> Vec<u8> {
    let ([.., high, middle, low], stream) = (payload.len().to_be_bytes(), u32::try_from(stream).unwrap());
    [&[high, middle, low, kind, flags][..], &stream.to_be_bytes(), payload].concat()
}

/// A field that no table has.
fn field(name: &str, value: &str) -> Vec<u8> {
    let text = |text: &str| [&[u8::try_from(text.len()).unwrap()], text.as_bytes()].concat();
    [vec![0], text(name), text(value)].concat()
}

/// The head of a POST to a path.
fn head(path: &str) -> Vec<u8> {
    let fields = [field("content-type", "application/x-protobuf"), field(":authority", "x")];
    [&b"\x83\x86"[..], &field(":path", path), &fields[1], &fields[0]].concat()
}

/// Reads until the other side answers a [`PING`]; false when it hangs up.
async fn is_answered(stream: &mut TcpStream) -> bool {
    let mut said = Vec::new();
    while !said.windows(8).any(|bytes| bytes == b"trailers") {
        if !stream.read_buf(&mut said).await.is_ok_and(|read| read > 0) {
            return false;
        }
    }
    true
}

/// Their requests were refused already, and the answers wait: nobody reads what follows a body.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn they_are_paid_for() {
    const CONNECTIONS: usize = 40;
    const STREAMS: usize = 200;
    let weir = Weir::start(&manifest("backend", closed_port().await), &["--memory", "64MiB"]).await;
    let (requests, fields) = (head("/nowhere"), (100..520).flat_map(|number| field(&format!("{number:x}"), "")));
    let fields: Vec<u8> = fields.collect();
    let on_each = |flags, fields: &[u8]| {
        (0..STREAMS).flat_map(|number| frame(HEADERS, flags, 2 * number + 1, fields)).collect::<Vec<u8>>()
    };
    let mut connections = Vec::new();
    for _ in 0..CONNECTIONS {
        let mut stream = TcpStream::connect(weir.http).await.unwrap();
        stream.write_all(&[HELLO, NO_WINDOW, &on_each(END_HEADERS, &requests)].concat()).await.unwrap();
        connections.push(stream);
    }
    let refused = "weir_receiver_refused_requests_total{transport=\"http\",reason=\"unsupported\"}";
    let all = (CONNECTIONS * STREAMS) as f64;
    eventually("all are refused", async || Scrape::of(weir.metrics).await.get(refused) == all).await;
    let trailers = [&on_each(END_HEADERS | END_STREAM, &fields)[..], PING].concat();
    for stream in &mut connections {
        // Some are hung up on.
        let _ = stream.write_all(&trailers).await;
        in_time("all of it is read", is_answered(stream)).await;
    }
    let peak = weir.peak();
    assert!(peak <= (64 << 20) + BESIDE, "{peak} bytes at the peak");
}

/// As many on one connection as pass, request by request.
#[tokio::test]
async fn a_client_may_send_a_few() {
    let backend = Backend::start().await;
    let weir = Weir::start(&manifest("backend", backend.address), &["--memory", "64MiB"]).await;
    let mut stream = TcpStream::connect(weir.http).await.unwrap();
    stream.write_all(HELLO).await.unwrap();
    for number in 0..300 {
        let id = 2 * number + 1;
        let request = [
            frame(HEADERS, END_HEADERS, id, &head("/v1/traces")),
            frame(DATA, 0, id, &payload::encoded(number as u64, 1, 10)),
            frame(HEADERS, END_HEADERS | END_STREAM, id, &field("checksum", "0123456789abcdef")),
        ];
        stream.write_all(&[&request.concat(), PING].concat()).await.unwrap();
        assert!(in_time("it is read", is_answered(&mut stream)).await, "hung up on after {number}");
    }
    eventually("all arrive", async || backend.ids().len() == 300).await;
}
