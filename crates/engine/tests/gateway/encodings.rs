//! Every way to encode a request: what arrives at the backend is what the client meant, bit by bit.

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::{AnyValue, ArrayValue, KeyValue, KeyValueList, any_value::Value};
use opentelemetry_proto::tonic::trace::v1::{Status, span};
use prost::Message;
use weir_testkit::backend::Backend;
use weir_testkit::grpc::OK;
use weir_testkit::http::{self, JSON, PROTOBUF};
use weir_testkit::{json, payload};

use crate::support::Gateway;

/// Ten spans that use every field and every type of value.
fn rich() -> ExportTraceServiceRequest {
    let mut request = payload::request(1, 10, 100);
    let resource = &mut request.resource_spans[0];
    resource.schema_url = "https://opentelemetry.io/schemas/1.26.0".into();
    let text = |text: &str| Value::StringValue(text.into());
    let any = |value| AnyValue { value: Some(value) };
    let pair = |key: &str, value| KeyValue { key: key.into(), value: Some(any(value)), ..KeyValue::default() };
    let list = Value::ArrayValue(ArrayValue { values: vec![any(Value::IntValue(-7)), any(text("ü"))] });
    let map = Value::KvlistValue(KeyValueList { values: vec![pair("inner", Value::DoubleValue(0.1))] });
    for span in &mut resource.scope_spans[0].spans {
        span.trace_state = "vendor=1".into();
        span.parent_span_id = vec![9; 8];
        span.flags = 0x101;
        span.attributes.extend([
            pair("bool", Value::BoolValue(true)),
            pair("int", Value::IntValue(i64::MIN)),
            pair("double", Value::DoubleValue(-1.5e300)),
            pair("bytes", Value::BytesValue(vec![0, 255, 1])),
            pair("list", list.clone()),
            pair("map", map.clone()),
        ]);
        span.dropped_attributes_count = 3;
        span.events.push(span::Event {
            time_unix_nano: u64::MAX,
            name: "exception".into(),
            attributes: vec![payload::attribute("exception.type", "\"quoted\"\n")],
            dropped_attributes_count: 1,
        });
        span.links.push(span::Link {
            trace_id: vec![7; 16],
            span_id: vec![8; 8],
            trace_state: "a=b".into(),
            attributes: vec![payload::attribute("link", "yes")],
            dropped_attributes_count: 2,
            flags: 1,
        });
        span.status = Some(Status { message: "broken".into(), code: 2 });
    }
    request
}

/// Sends `rich` by `send` and compares what a backend captured.
async fn arrives_unchanged(what: &str, send: impl AsyncFnOnce(&Gateway, &ExportTraceServiceRequest)) {
    let backend = Backend::start().await;
    let gateway = Gateway::to(backend.address).await;
    send(&gateway, &rich()).await;
    gateway.settle().await;
    let captured = backend.captured();
    assert_eq!(captured.len(), 1, "{what}");
    assert_eq!(captured[0].message, rich(), "{what}");
    let books = gateway.books("backend");
    assert_eq!((books.accepted, books.delivered), (10, 10), "{what}");
}

#[tokio::test]
async fn grpc_with_every_encoding() {
    for (name, encoder) in [("gzip", "gzip"), ("zstd", "zstd"), ("snappy", "snappy"), ("snappy", "snappy framed")] {
        arrives_unchanged(encoder, async |gateway, request| {
            let body = payload::compress(encoder, &request.encode_to_vec());
            assert_eq!(gateway.client().await.export_as(name, &body).await.code, OK, "{encoder}");
        })
        .await;
    }
    arrives_unchanged("identity", async |gateway, request| {
        assert_eq!(gateway.client().await.export(&request.encode_to_vec()).await.code, OK);
    })
    .await;
}

#[tokio::test]
async fn http_with_every_encoding_and_format() {
    let encoders = [
        (None, "identity"),
        (Some("identity"), "identity"),
        (Some("gzip"), "gzip"),
        (Some("zstd"), "zstd"),
        (Some("deflate"), "deflate"),
        (Some("deflate"), "deflate raw"),
        (Some("snappy"), "snappy"),
        (Some("snappy"), "snappy framed"),
    ];
    let protobuf = (PROTOBUF, rich().encode_to_vec(), "");
    let json = (JSON, json::traces(&rich()).to_string().into_bytes(), "{}");
    for (format, plain, answered) in [protobuf, json] {
        for (name, encoder) in encoders {
            let what = format!("{encoder} {format}");
            arrives_unchanged(&what, async |gateway, _| {
                let answer = http::post(gateway.at.http, format, name, &payload::compress(encoder, &plain)).await;
                assert_eq!(answer.status, 200, "{what}: {answer:?}");
                assert_eq!((answer.header("content-type"), answer.text().as_str()), (format, answered), "{what}");
            })
            .await;
        }
    }
}

/// Clients that were given the wrong port get through all the same.
#[tokio::test]
async fn both_ports_take_both_transports() {
    let backend = Backend::start().await;
    let gateway = Gateway::to(backend.address).await;
    let answer = http::post(gateway.at.grpc, PROTOBUF, None, &payload::encoded(1, 1, 0)).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    let client = weir_testkit::grpc::Grpc::connect(gateway.at.http).await;
    assert_eq!(client.export(&payload::encoded(2, 1, 0)).await.code, OK);
    gateway.settle().await;
    assert_eq!(backend.ids(), [1, 2]);
}

#[tokio::test]
async fn an_empty_request_is_answered_and_goes_nowhere() {
    let backend = Backend::start().await;
    let gateway = Gateway::to(backend.address).await;
    assert_eq!(gateway.client().await.export(&[]).await.code, OK);
    assert_eq!(http::post(gateway.at.http, PROTOBUF, None, &[]).await.status, 200);
    assert_eq!(http::post(gateway.at.http, JSON, None, b"{}").await.status, 200);
    gateway.settle().await;
    assert_eq!(gateway.books("backend").accepted, 0);
    assert!(backend.captured().is_empty());
    assert_eq!(gateway.scrape().await.rows(ITEMLESS).iter().map(|(_, count)| count).sum::<f64>(), 0.0);
}

const ITEMLESS: &str = "weir_receiver_itemless_requests_total";
