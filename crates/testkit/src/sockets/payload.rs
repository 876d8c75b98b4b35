//! Requests: spans whose ids are consecutive numbers from 1, so that loss and duplication can be counted.

use std::io::{Read, Write};

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue, any_value::Value};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span, span::SpanKind};
use prost::Message;

/// A request with one resource and the spans `first..first + count`, each with `padding` bytes of text.
pub fn request(first: u64, count: u64, padding: usize) -> ExportTraceServiceRequest {
    let spans = (first..first + count).map(|id| span(id, padding)).collect();
    let resource = Resource { attributes: vec![attribute("service.name", "shop")], ..Resource::default() };
    let scope = InstrumentationScope { name: "tests".into(), version: "1".into(), ..InstrumentationScope::default() };
    let scope_spans = vec![ScopeSpans { scope: Some(scope), spans, schema_url: String::new() }];
    let resource_spans = vec![ResourceSpans { resource: Some(resource), scope_spans, schema_url: "urn:schema".into() }];
    ExportTraceServiceRequest { resource_spans }
}

/// The encoded [`request`].
pub fn encoded(first: u64, count: u64, padding: usize) -> Vec<u8> {
    request(first, count, padding).encode_to_vec()
}

fn span(id: u64, padding: usize) -> Span {
    Span {
        trace_id: u128::from(id).to_be_bytes().to_vec(),
        span_id: id.to_be_bytes().to_vec(),
        name: format!("GET /orders/{id}"),
        kind: SpanKind::Server as i32,
        start_time_unix_nano: 1_700_000_000_000_000_000 + id,
        end_time_unix_nano: 1_700_000_000_000_123_000 + id,
        attributes: vec![attribute("http.request.method", "GET"), attribute("padding", &noise(id, padding))],
        ..Span::default()
    }
}

/// Text that compresses to about half, because telemetry hardly compresses better once its keys are left out.
fn noise(seed: u64, length: usize) -> String {
    let mut random = fastrand::Rng::with_seed(seed);
    (0..length).map(|_| random.alphanumeric()).collect()
}

/// An attribute with text.
pub fn attribute(key: &str, value: &str) -> KeyValue {
    let value = AnyValue { value: Some(Value::StringValue(value.into())) };
    KeyValue { key: key.into(), value: Some(value), ..KeyValue::default() }
}

/// The numbers of all spans of `request`, in order.
pub fn ids(request: &ExportTraceServiceRequest) -> Vec<u64> {
    let scopes = request.resource_spans.iter().flat_map(|resource| &resource.scope_spans);
    let spans = scopes.flat_map(|scope| &scope.spans);
    spans.map(|span| u64::from_be_bytes(span.span_id.as_slice().try_into().unwrap())).collect()
}

/// How a body is compressed, by the name of its encoding.
pub fn compress(encoding: &str, bytes: &[u8]) -> Vec<u8> {
    let level = flate2::Compression::fast();
    match encoding {
        "identity" => bytes.to_vec(),
        "gzip" => finish(flate2::write::GzEncoder::new(Vec::new(), level), bytes, flate2::write::GzEncoder::finish),
        "deflate" => finish(flate2::write::ZlibEncoder::new(Vec::new(), level), bytes, |zlib| zlib.finish()),
        "deflate raw" => finish(flate2::write::DeflateEncoder::new(Vec::new(), level), bytes, |raw| raw.finish()),
        "zstd" => zstd::stream::encode_all(bytes, 1).unwrap(),
        "snappy" => snap::raw::Encoder::new().compress_vec(bytes).unwrap(),
        "snappy framed" => {
            finish(snap::write::FrameEncoder::new(Vec::new()), bytes, |framed| Ok(framed.into_inner().unwrap()))
        }
        other => panic!("no encoder for {other}"),
    }
}

fn finish<W: Write>(mut writer: W, bytes: &[u8], finish: impl FnOnce(W) -> std::io::Result<Vec<u8>>) -> Vec<u8> {
    writer.write_all(bytes).unwrap();
    finish(writer).unwrap()
}

/// The reverse of [`compress`], for what a gateway sends.
pub fn inflate(encoding: &str, bytes: &[u8]) -> Vec<u8> {
    match encoding {
        "identity" => bytes.to_vec(),
        "gzip" => read(flate2::read::MultiGzDecoder::new(bytes)),
        "zstd" => zstd::stream::decode_all(bytes).unwrap(),
        "snappy" if bytes.starts_with(SNAPPY_STREAM) => read(snap::read::FrameDecoder::new(bytes)),
        "snappy" => snap::raw::Decoder::new().decompress_vec(bytes).unwrap(),
        other => panic!("no decoder for {other}"),
    }
}

/// How a framed snappy stream begins.
pub const SNAPPY_STREAM: &[u8] = b"\xff\x06\x00\x00sNaPpY";

fn read(mut reader: impl Read) -> Vec<u8> {
    let mut out = Vec::new();
    reader.read_to_end(&mut out).unwrap();
    out
}
