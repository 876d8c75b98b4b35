//! Wrong, hostile and broken clients: each gets its answer, and nobody else notices.

use std::time::Duration;

use bytes::Bytes;
use opentelemetry_proto::tonic::common::v1::{AnyValue, ArrayValue, KeyValue, any_value::Value};
use prost::Message;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use weir_engine::Settings;
use weir_loadtest::grpc::EXPORT_TRACES;
use weir_loadtest::sink::Sink;
use weir_testkit::grpc::{DEADLINE_EXCEEDED, Grpc, INVALID_ARGUMENT, OK, RESOURCE_EXHAUSTED, UNIMPLEMENTED, frame};
use weir_testkit::http::{self, JSON, PROTOBUF, head};
use weir_testkit::sink::{arrived, closed_port, sink};
use weir_testkit::{eventually, in_time, payload};

use crate::support::{Gateway, pipeline, settings};

/// The id that well-behaved clients use here.
const OTHER_CLIENT: u64 = 1_000_000;

async fn stage() -> (Sink, Gateway) {
    let sink = sink("{}").await;
    let gateway = Gateway::to(sink.grpc).await;
    (sink, gateway)
}

/// Another client's data goes through, nothing else was accepted, and no memory is kept.
async fn nothing_but_the_other_client(sink: &Sink, gateway: &Gateway) {
    gateway.still_delivers(sink, OTHER_CLIENT).await;
    gateway.settle().await;
    assert_eq!(gateway.books("backend").accepted, 1);
    assert_eq!(arrived(sink), [OTHER_CLIENT]);
}

#[tokio::test]
async fn every_truncation_of_a_request_is_refused() {
    let (sink, gateway) = stage().await;
    let client = gateway.client().await;
    let whole = payload::encoded(1, 2, 20);
    for length in 1..whole.len() {
        let answer = client.export(&whole[..length]).await;
        assert_eq!(answer.code, INVALID_ARGUMENT, "cut to {length}: {answer:?}");
        let answer = http::post(gateway.at.http, PROTOBUF, None, &whole[..length]).await;
        assert_eq!(answer.status, 400, "cut to {length}: {answer:?}");
    }
    nothing_but_the_other_client(&sink, &gateway).await;
}

#[tokio::test]
async fn every_truncation_of_a_grpc_call_is_refused() {
    let (sink, gateway) = stage().await;
    let client = gateway.client().await;
    let whole = frame(&payload::encoded(1, 2, 20), false);
    for length in 0..whole.len() {
        let answer = client.call(EXPORT_TRACES, None, whole[..length].to_vec()).await;
        assert_eq!(answer.code, INVALID_ARGUMENT, "cut to {length}: {answer:?}");
    }
    nothing_but_the_other_client(&sink, &gateway).await;
}

/// A client that declares more than it sends and then says that it is done.
#[tokio::test]
async fn an_http_body_shorter_than_declared_is_refused_or_cut_off() {
    let (sink, gateway) = stage().await;
    let body = payload::encoded(1, 2, 20);
    let mut request = head("POST", "/v1/traces", PROTOBUF, &format!("content-length: {}\r\n", body.len() + 1));
    request.extend_from_slice(&body);
    let mut stream = TcpStream::connect(gateway.at.http).await.unwrap();
    stream.write_all(&request).await.unwrap();
    stream.shutdown().await.unwrap();
    // There is no request to answer: an answer is optional, an OK would be wrong.
    if let Ok(answer) = in_time("end of the connection", http::read_answer(&mut stream)).await {
        assert_eq!(answer.status, 400, "{answer:?}");
    }
    eventually("the attempt is counted", async || {
        let metric = "weir_receiver_refused_requests_total{transport=\"http\",reason=\"aborted\"}";
        gateway.scrape().await.get(metric) == 1.0
    })
    .await;
    nothing_but_the_other_client(&sink, &gateway).await;
}

/// A span whose name is `name`, whatever its bytes.
fn with_span_name(name: &[u8]) -> Vec<u8> {
    let nest = |field: u8, inner: &[u8]| {
        let mut outer = vec![field << 3 | 2, u8::try_from(inner.len()).unwrap()];
        outer.extend_from_slice(inner);
        outer
    };
    nest(1, &nest(2, &nest(2, &nest(5, name))))
}

/// A request whose only attribute is a list in a list in a list, `depth` times.
fn deeply_nested(depth: usize) -> Vec<u8> {
    let mut value = AnyValue { value: Some(Value::IntValue(1)) };
    for _ in 0..depth {
        value = AnyValue { value: Some(Value::ArrayValue(ArrayValue { values: vec![value] })) };
    }
    let mut request = payload::request(1, 1, 0);
    let attribute = KeyValue { key: "deep".into(), value: Some(value), ..KeyValue::default() };
    request.resource_spans[0].scope_spans[0].spans[0].attributes.push(attribute);
    request.encode_to_vec()
}

#[tokio::test]
async fn malformed_protobuf_is_refused_with_its_reason() {
    let (sink, gateway) = stage().await;
    let client = gateway.client().await;
    let length_of_2_to_the_62 = [&[0x0a][..], &[0xff; 8], &[0x3f]].concat();
    let cases: [(&str, Vec<u8>, &str); 9] = [
        ("varint where a message belongs", vec![0x08, 1], "wrong wire type"),
        ("fixed64 where a message belongs", vec![0x09, 1, 2, 3, 4, 5, 6, 7, 8], "wrong wire type"),
        ("absurd length", length_of_2_to_the_62, "longer than"),
        ("varint without end", vec![0x0a; 1].into_iter().chain([0xff; 11]).collect(), "varint"),
        ("group", vec![0x0b, 0x0c], "group"),
        ("wire type 7", vec![0x0f], "wire type"),
        ("field 0", vec![0x02, 0], "field number 0"),
        ("name that is not UTF-8", with_span_name(b"GET \xff\xfe"), "UTF-8"),
        ("200 lists in each other", deeply_nested(200), "nested deeper"),
    ];
    for (what, body, reason) in cases {
        let answer = client.export(&body).await;
        assert_eq!(answer.code, INVALID_ARGUMENT, "{what}: {answer:?}");
        assert!(answer.message.contains(reason), "{what}: {answer:?}");
        assert_eq!(answer.retry_after, None, "{what}: sending it again would not help");
        let answer = http::post(gateway.at.http, PROTOBUF, None, &body).await;
        assert_eq!(answer.status, 400, "{what}: {answer:?}");
        assert!(answer.text().contains(reason), "{what}: {answer:?}");
    }
    assert_eq!(client.export(&with_span_name("GET ü".as_bytes())).await.code, OK, "the same with UTF-8 is right");
    gateway.still_delivers(&sink, OTHER_CLIENT).await;
    gateway.settle().await;
    assert_eq!(gateway.books("backend").accepted, 2);
}

#[tokio::test]
async fn http_requests_that_are_not_otlp_are_refused_with_the_right_status() {
    let (sink, gateway) = stage().await;
    let body = payload::encoded(1, 1, 0);
    let length = format!("content-length: {}\r\n", body.len());
    let encoded = format!("{length}content-encoding: br\r\n");
    let cases = [
        (head("POST", "/v1/traces", "text/plain", &length), 415, "content-type must be"),
        (head("POST", "/v1/spans", PROTOBUF, &length), 404, "/v1/traces"),
        (head("PUT", "/v1/traces", PROTOBUF, &length), 405, "use POST"),
        (head("GET", "/v1/traces", PROTOBUF, &length), 405, "use POST"),
        (head("POST", "/v1/traces", PROTOBUF, &encoded), 415, "gzip"),
    ];
    for (mut request, status, reason) in cases {
        request.extend_from_slice(&body);
        let answer = http::exchange(gateway.at.http, &request).await;
        assert_eq!(answer.status, status, "{answer:?}");
        assert!(answer.text().contains(reason), "{answer:?}");
        assert_eq!(answer.header("allow"), if status == 405 { "POST" } else { "" });
    }
    let answer =
        http::exchange(gateway.at.http, b"POST /v1/traces HTTP/1.1\r\nhost: t\r\ncontent-length: 0\r\n\r\n").await;
    assert_eq!(answer.status, 415, "no content type at all: {answer:?}");
    nothing_but_the_other_client(&sink, &gateway).await;
}

#[tokio::test]
async fn invalid_json_is_refused_in_json() {
    let (sink, gateway) = stage().await;
    for (body, reason) in [
        ("", "EOF"),
        ("{\"resourceSpans\": [", "EOF"),
        ("[]", "line 1"),
        ("{\"resourceSpans\": [{\"scopeSpans\": [{\"spans\": [{\"traceId\": \"xyz\"}]}]}]}", "traceId"),
    ] {
        let answer = http::post(gateway.at.http, JSON, None, body.as_bytes()).await;
        assert_eq!(answer.status, 400, "{body}: {answer:?}");
        assert_eq!(answer.header("content-type"), JSON);
        let status: serde_json::Value = serde_json::from_slice(&answer.body).unwrap();
        assert_eq!(status["code"], INVALID_ARGUMENT);
        assert!(status["message"].as_str().unwrap().contains(reason), "{body}: {status}");
    }
    nothing_but_the_other_client(&sink, &gateway).await;
}

#[tokio::test]
async fn grpc_calls_that_are_not_otlp_are_refused_with_the_right_code() {
    let (sink, gateway) = stage().await;
    let client = gateway.client().await;
    let message = payload::encoded(1, 1, 0);
    let framed = frame(&message, false);
    let compressed = frame(&payload::compress("gzip", &message), true);
    let mut flag_7 = framed.clone();
    flag_7[0] = 7;
    let profiles = "/opentelemetry.proto.collector.profiles.v1development.ProfilesService/Export";
    let logs = "/opentelemetry.proto.collector.logs.v1.LogsService/Export";
    let cases = [
        ("another method", client.call(profiles, None, framed.clone()).await, UNIMPLEMENTED, "TraceService/Export"),
        ("no pipeline", client.call(logs, None, framed.clone()).await, UNIMPLEMENTED, "no pipeline for logs"),
        ("an encoding nobody has", client.call(EXPORT_TRACES, Some("br"), framed.clone()).await, UNIMPLEMENTED, "gzip"),
        ("two messages", client.call(EXPORT_TRACES, None, framed.repeat(2)).await, INVALID_ARGUMENT, "more than one"),
        (
            "compressed with nothing",
            client.call(EXPORT_TRACES, None, compressed).await,
            INVALID_ARGUMENT,
            "grpc-encoding",
        ),
        ("compression flag 7", client.call(EXPORT_TRACES, None, flag_7).await, INVALID_ARGUMENT, "flag"),
    ];
    for (what, answer, code, reason) in cases {
        assert_eq!(answer.code, code, "{what}: {answer:?}");
        assert!(answer.message.contains(reason), "{what}: {answer:?}");
    }
    nothing_but_the_other_client(&sink, &gateway).await;
}

#[tokio::test]
async fn compressed_bombs_are_refused() {
    let (sink, gateway) = stage().await;
    let client = gateway.client().await;
    let zeros = vec![0; 8 << 20];
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    std::io::Write::write_all(&mut gzip, &zeros).unwrap();
    for (encoding, bomb) in [("gzip", gzip.finish().unwrap()), ("zstd", payload::compress("zstd", &zeros))] {
        let answer = client.export_as(encoding, &bomb).await;
        assert_eq!(answer.code, RESOURCE_EXHAUSTED, "{encoding}: {answer:?}");
        assert!(answer.message.contains("times its size"), "{encoding}: {answer:?}");
        let answer = http::post(gateway.at.http, PROTOBUF, Some(encoding), &bomb).await;
        assert_eq!(answer.status, 413, "{encoding}: {answer:?}");
    }
    nothing_but_the_other_client(&sink, &gateway).await;
}

/// Compressed within the limit, larger than it when inflated.
#[tokio::test]
async fn requests_that_inflate_beyond_the_limit_are_refused() {
    let sink = sink("{}").await;
    let settings = Settings { max_request_bytes: 100_000, ..settings() };
    let gateway = Gateway::with(vec![pipeline("backend", sink.grpc)], settings).await;
    let client = gateway.client().await;
    let large = payload::encoded(1, 1, 1_000).repeat(101);
    for encoding in ["gzip", "zstd", "snappy"] {
        let body = payload::compress(encoding, &large);
        assert!(body.len() < 100_000, "{encoding}: only what is inflated is too large");
        let answer = client.export_as(encoding, &body).await;
        assert_eq!(answer.code, RESOURCE_EXHAUSTED, "{encoding}: {answer:?}");
        assert!(answer.message.contains("100000"), "{encoding} names the limit: {answer:?}");
        let answer = http::post(gateway.at.http, PROTOBUF, Some(encoding), &body).await;
        assert_eq!(answer.status, 413, "{encoding}: {answer:?}");
    }
    nothing_but_the_other_client(&sink, &gateway).await;
}

#[tokio::test]
async fn truncated_compression_is_refused() {
    let (sink, gateway) = stage().await;
    let client = gateway.client().await;
    let whole = payload::encoded(1, 3, 300);
    for encoding in ["gzip", "zstd", "snappy"] {
        let body = payload::compress(encoding, &whole);
        for length in [1, body.len() / 2, body.len() - 1] {
            let answer = client.export_as(encoding, &body[..length]).await;
            assert_eq!(answer.code, INVALID_ARGUMENT, "{encoding} cut to {length}: {answer:?}");
            let answer = http::post(gateway.at.http, PROTOBUF, Some(encoding), &body[..length]).await;
            assert_eq!(answer.status, 400, "{encoding} cut to {length}: {answer:?}");
        }
    }
    nothing_but_the_other_client(&sink, &gateway).await;
}

#[tokio::test]
async fn oversize_requests_are_refused_by_their_declared_size() {
    let (sink, gateway) = stage().await;
    let limit = weir_engine::settings::MAX_REQUEST_BYTES;
    let mut prefix = vec![0];
    prefix.extend_from_slice(&u32::try_from(limit + 1).unwrap().to_be_bytes());
    let answer = gateway.client().await.call(EXPORT_TRACES, None, prefix).await;
    assert_eq!(answer.code, RESOURCE_EXHAUSTED, "{answer:?}");
    assert!(answer.message.contains(&limit.to_string()), "the text names the limit: {answer:?}");
    let declared = head("POST", "/v1/traces", PROTOBUF, &format!("content-length: {}\r\n", limit + 1));
    let answer = http::exchange(gateway.at.http, &declared).await;
    assert_eq!(answer.status, 413, "{answer:?}");
    assert!(answer.text().contains(&limit.to_string()), "the text names the limit: {answer:?}");
    nothing_but_the_other_client(&sink, &gateway).await;
}

/// A body of unknown length is refused as soon as it is too long.
#[tokio::test]
async fn chunked_bodies_are_held_to_the_limit() {
    let sink = sink("{}").await;
    let settings = Settings { max_request_bytes: 100_000, ..settings() };
    let gateway = Gateway::with(vec![pipeline("backend", sink.grpc)], settings).await;
    let mut request = head("POST", "/v1/traces", PROTOBUF, "transfer-encoding: chunked\r\n");
    for _ in 0..7 {
        request.extend_from_slice(b"4000\r\n");
        request.resize(request.len() + 0x4000, 0);
        request.extend_from_slice(b"\r\n");
    }
    let answer = http::exchange(gateway.at.http, &request).await;
    assert_eq!(answer.status, 413, "{answer:?}");
    assert!(answer.text().contains("100000"), "{answer:?}");
    nothing_but_the_other_client(&sink, &gateway).await;
}

/// Bodies that arrive a byte at a time, so slowly that they would never end.
#[tokio::test]
async fn slow_bodies_are_given_up() {
    let sink = sink("{}").await;
    let settings = Settings { body_timeout: Duration::from_millis(300), ..settings() };
    let gateway = Gateway::with(vec![pipeline("backend", sink.grpc)], settings).await;
    let (bytes, pieces) = mpsc::channel(1);
    let framed = frame(&payload::encoded(1, 100, 1000), false);
    let dripping = tokio::spawn(async move {
        let mut ticks = tokio::time::interval(Duration::from_millis(20));
        for byte in framed {
            ticks.tick().await;
            if bytes.send(Bytes::from(vec![byte])).await.is_err() {
                return;
            }
        }
    });
    let client = gateway.client().await;
    let (answer, ()) = tokio::join!(in_time("gRPC answer", client.stream(pieces)), gateway.still_delivers(&sink, 77));
    assert_eq!(answer.unwrap().code, DEADLINE_EXCEEDED);
    dripping.abort();

    let mut stream = TcpStream::connect(gateway.at.http).await.unwrap();
    stream.write_all(&head("POST", "/v1/traces", PROTOBUF, "content-length: 1000\r\n")).await.unwrap();
    stream.write_all(&[0x0a]).await.unwrap();
    let answer = in_time("HTTP answer", http::read_answer(&mut stream)).await.unwrap();
    assert_eq!(answer.status, 408, "{answer:?}");
    gateway.settle().await;
    assert_eq!(arrived(&sink), [77]);
}

/// What has arrived of a large body gives it no right to keep that for minutes without sending more.
#[tokio::test]
async fn a_large_body_that_stalls_is_given_up_as_soon_as_a_small_one() {
    let sink = sink("{}").await;
    let settings = Settings { body_timeout: Duration::from_millis(300), ..settings() };
    let gateway = Gateway::with(vec![pipeline("backend", sink.grpc)], settings).await;
    let length = 12 << 20;
    let mut stream = TcpStream::connect(gateway.at.http).await.unwrap();
    stream.write_all(&head("POST", "/v1/traces", PROTOBUF, &format!("content-length: {length}\r\n"))).await.unwrap();
    stream.write_all(&vec![0x0a; length - 1]).await.unwrap();
    let answer = in_time("HTTP answer", http::read_answer(&mut stream)).await.unwrap();
    assert_eq!(answer.status, 408, "{answer:?}");
    nothing_but_the_other_client(&sink, &gateway).await;
}

#[tokio::test]
async fn clients_that_vanish_in_the_middle_of_a_request_leave_nothing_behind() {
    let (sink, gateway) = stage().await;
    let body = payload::encoded(1, 100, 1000);
    let used = async || gateway.scrape().await.get("weir_memory_used_bytes");

    let mut stream = TcpStream::connect(gateway.at.http).await.unwrap();
    stream
        .write_all(&head("POST", "/v1/traces", PROTOBUF, &format!("content-length: {}\r\n", body.len())))
        .await
        .unwrap();
    stream.write_all(&body[..body.len() / 2]).await.unwrap();
    eventually("memory is taken for the HTTP request", async || used().await > 100_000.0).await;
    stream.set_zero_linger().unwrap();
    drop(stream);
    eventually("the HTTP request's memory is given back", async || used().await == 0.0).await;

    let client = gateway.client().await;
    let (bytes, pieces) = mpsc::channel(1);
    let call = tokio::spawn(async move { client.stream(pieces).await });
    bytes.send(Bytes::from(frame(&body, false)[..body.len() / 2].to_vec())).await.unwrap();
    eventually("memory is taken for the gRPC call", async || used().await > 100_000.0).await;
    call.abort();
    eventually("the gRPC call's memory is given back", async || used().await == 0.0).await;
    nothing_but_the_other_client(&sink, &gateway).await;
}

/// What was received whole is owed, whether or not anybody waits for the answer.
#[tokio::test]
async fn clients_that_vanish_before_their_answer_change_nothing() {
    let sink = sink(r#"{"delay": "500ms:100"}"#).await;
    let gateway = Gateway::to(sink.grpc).await;
    let call = tokio::spawn({
        let client = Grpc::connect(gateway.at.grpc).await;
        async move { client.export(&payload::encoded(1, 10, 10)).await }
    });
    eventually("the backend has the request", async || sink.report(false).requests == 1).await;
    call.abort();

    let body = payload::encoded(11, 10, 10);
    let mut stream = TcpStream::connect(gateway.at.http).await.unwrap();
    stream
        .write_all(&head("POST", "/v1/traces", PROTOBUF, &format!("content-length: {}\r\n", body.len())))
        .await
        .unwrap();
    stream.write_all(&body).await.unwrap();
    eventually("the backend has both requests", async || sink.report(false).requests == 2).await;
    stream.set_zero_linger().unwrap();
    drop(stream);

    eventually("everything arrives", async || arrived(&sink) == (1..=20).collect::<Vec<_>>()).await;
    gateway.settle().await;
    let books = gateway.books("backend");
    assert_eq!((books.accepted, books.delivered), (20, 20));
}

/// The library keeps something of each of them for a while, unpaid.
#[tokio::test]
async fn a_connection_with_more_than_a_few_malformed_heads_ends() {
    let gateway = Gateway::start(vec![pipeline("backend", closed_port().await)]).await;
    for (heads, ends) in [(4, false), (5, true)] {
        let mut stream = TcpStream::connect(gateway.at.http).await.unwrap();
        stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await.unwrap();
        for number in 0..heads {
            // HEADERS that end the stream: POST http, and a field that HTTP/2 does not have.
            let fields = b"\x83\x86\x84\x40\x0aconnection\x01x";
            let head = [0, 0, u8::try_from(fields.len()).unwrap(), 1, 5, 0, 0, 0, 2 * number + 1];
            stream.write_all(&[&head[..], fields].concat()).await.unwrap();
        }
        // PING, and what answers it.
        stream.write_all(b"\0\0\x08\x06\0\0\0\0\0whatever").await.unwrap();
        let mut said = Vec::new();
        let answered = async {
            while !said.ends_with(b"\0\0\x08\x06\x01\0\0\0\0whatever") {
                said.push(stream.read_u8().await?);
            }
            std::io::Result::Ok(())
        };
        assert_eq!(in_time("an answer or the end", answered).await.is_err(), ends, "{heads} heads");
    }
}
