//! The parts of gRPC a load test needs: message framing, status codes and `google.rpc.Status` details.
//!
//! HTTP/2 itself is hyper's. Specification: gRPC over HTTP/2 (grpc/doc/PROTOCOL-HTTP2.md), `google/rpc/status.proto`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};
use bytes::Buf;
use http::HeaderMap;
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use prost::Message;

/// Path of the OTLP trace export method.
pub const EXPORT_TRACES: &str = "/opentelemetry.proto.collector.trace.v1.TraceService/Export";
/// Path of the OTLP metrics export method.
pub const EXPORT_METRICS: &str = "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export";
/// Path of the OTLP logs export method.
pub const EXPORT_LOGS: &str = "/opentelemetry.proto.collector.logs.v1.LogsService/Export";

/// Length of the prefix before each gRPC message: a compression flag and a 32-bit length.
pub const PREFIX_BYTES: usize = 5;

/// The prefix of a message of `length` bytes.
///
/// # Errors
/// The message is longer than a gRPC length can say.
pub fn prefix(length: usize, compressed: bool) -> anyhow::Result<[u8; PREFIX_BYTES]> {
    let length = u32::try_from(length).map_err(|_| anyhow::anyhow!("cannot frame {length} bytes: over 4 GiB"))?;
    let [a, b, c, d] = length.to_be_bytes();
    Ok([u8::from(compressed), a, b, c, d])
}

/// Reads the prefix of the only message of a unary body; returns whether that message is compressed.
///
/// # Errors
/// The body is not exactly one message.
pub(crate) fn read_prefix(body: &mut impl Buf) -> Result<bool, String> {
    if body.remaining() < PREFIX_BYTES {
        return Err(format!("cannot read gRPC message: body has {} bytes", body.remaining()));
    }
    let flag = body.get_u8();
    let length = body.get_u32();
    if usize::try_from(length).ok() != Some(body.remaining()) {
        return Err(format!("cannot read gRPC message: prefix says {length} bytes, body has {}", body.remaining()));
    }
    match flag {
        0 => Ok(false),
        1 => Ok(true),
        other => Err(format!("cannot read gRPC message: compression flag is {other}")),
    }
}

/// An error code as HTTP or gRPC knows it, translated to the other by the OTLP and gRPC mapping tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Code {
    /// An HTTP status.
    Http(u16),
    /// A gRPC status.
    Grpc(u32),
}

/// gRPC status numbers used here.
pub mod status {
    /// Success.
    pub const OK: u32 = 0;
    /// No better code.
    pub const UNKNOWN: u32 = 2;
    /// The request cannot be right.
    pub const INVALID_ARGUMENT: u32 = 3;
    /// The deadline passed.
    pub const DEADLINE_EXCEEDED: u32 = 4;
    /// The caller may not do this.
    pub const PERMISSION_DENIED: u32 = 7;
    /// A quota or limit was hit.
    pub const RESOURCE_EXHAUSTED: u32 = 8;
    /// No such method.
    pub const UNIMPLEMENTED: u32 = 12;
    /// The server broke.
    pub const INTERNAL: u32 = 13;
    /// Try again later.
    pub const UNAVAILABLE: u32 = 14;
    /// The caller is not known.
    pub const UNAUTHENTICATED: u32 = 16;
}

impl Code {
    /// The gRPC status number.
    pub fn grpc(self) -> u32 {
        match self {
            Self::Grpc(code) => code,
            Self::Http(400) => status::INVALID_ARGUMENT,
            Self::Http(401) => status::UNAUTHENTICATED,
            Self::Http(403) => status::PERMISSION_DENIED,
            Self::Http(404) => status::UNIMPLEMENTED,
            Self::Http(413 | 429) => status::RESOURCE_EXHAUSTED,
            Self::Http(500) => status::INTERNAL,
            Self::Http(502..=504) => status::UNAVAILABLE,
            Self::Http(_) => status::UNKNOWN,
        }
    }

    /// The HTTP status number.
    pub fn http(self) -> u16 {
        match self {
            Self::Http(code) => code,
            Self::Grpc(status::INVALID_ARGUMENT) => 400,
            Self::Grpc(status::UNAUTHENTICATED) => 401,
            Self::Grpc(status::PERMISSION_DENIED) => 403,
            Self::Grpc(status::UNIMPLEMENTED) => 404,
            Self::Grpc(status::RESOURCE_EXHAUSTED) => 429,
            Self::Grpc(status::UNAVAILABLE) => 503,
            Self::Grpc(status::DEADLINE_EXCEEDED) => 504,
            Self::Grpc(_) => 500,
        }
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Http(code) => write!(f, "{code}"),
            Self::Grpc(code) => write!(f, "grpc={code}"),
        }
    }
}

impl FromStr for Code {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parsed = match text.strip_prefix("grpc=") {
            Some(number) => number.parse().ok().filter(|code| (1..=16).contains(code)).map(Self::Grpc),
            None => text.parse().ok().filter(|code| (400..=599).contains(code)).map(Self::Http),
        };
        parsed.ok_or_else(|| format!("cannot use code \"{text}\": use an HTTP status 400-599, or grpc=N with N 1-16"))
    }
}

/// `google.rpc.Status`.
#[derive(Clone, PartialEq, Message)]
pub struct RpcStatus {
    /// gRPC status number.
    #[prost(uint32, tag = "1")]
    pub code: u32,
    /// Text for people.
    #[prost(string, tag = "2")]
    pub message: String,
    /// Typed details.
    #[prost(message, repeated, tag = "3")]
    pub details: Vec<Any>,
}

/// `google.protobuf.Any`.
#[derive(Clone, PartialEq, Message)]
pub struct Any {
    /// Which message `value` holds.
    #[prost(string, tag = "1")]
    pub type_url: String,
    /// Its encoding.
    #[prost(bytes = "vec", tag = "2")]
    pub value: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
struct RetryInfo {
    #[prost(message, optional, tag = "1")]
    retry_delay: Option<ProtoDuration>,
}

#[derive(Clone, PartialEq, Message)]
struct ProtoDuration {
    #[prost(int64, tag = "1")]
    seconds: i64,
    #[prost(int32, tag = "2")]
    nanos: i32,
}

const RETRY_INFO_URL: &str = "type.googleapis.com/google.rpc.RetryInfo";

/// Header that carries an encoded [`RpcStatus`].
pub(crate) const STATUS_DETAILS: &str = "grpc-status-details-bin";

/// Senders may omit base64 padding in `-bin` headers, and receivers must accept both.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &base64::alphabet::STANDARD,
    GeneralPurposeConfig::new()
        .with_encode_padding(false)
        .with_decode_padding_mode(base64::engine::DecodePaddingMode::Indifferent),
);

impl RpcStatus {
    /// A status, with a retry hint when one is given.
    pub fn new(code: u32, message: &str, retry_after: Option<Duration>) -> Self {
        let details = retry_after.map(|delay| {
            let retry_delay = Some(ProtoDuration {
                seconds: i64::try_from(delay.as_secs()).unwrap_or(i64::MAX),
                nanos: i32::try_from(delay.subsec_nanos()).unwrap_or(0),
            });
            Any { type_url: RETRY_INFO_URL.to_owned(), value: RetryInfo { retry_delay }.encode_to_vec() }
        });
        Self { code, message: message.to_owned(), details: details.into_iter().collect() }
    }

    /// The retry hint in the details.
    pub fn retry_after(&self) -> Option<Duration> {
        let detail = self.details.iter().find(|detail| detail.type_url == RETRY_INFO_URL)?;
        let delay = RetryInfo::decode(detail.value.as_slice()).ok()?.retry_delay.unwrap_or_default();
        Some(Duration::new(u64::try_from(delay.seconds).ok()?, u32::try_from(delay.nanos).ok()?))
    }

    /// The value of a `grpc-status-details-bin` header.
    pub(crate) fn to_header(&self) -> String {
        BASE64.encode(self.encode_to_vec())
    }
}

/// The retry hint of a refusal: `RetryInfo` for gRPC, `Retry-After` in seconds for HTTP.
pub(crate) fn retry_hint(headers: &HeaderMap) -> Option<Duration> {
    if let Some(value) = headers.get(STATUS_DETAILS) {
        let bytes = BASE64.decode(value.as_bytes()).ok()?;
        return RpcStatus::decode(bytes.as_slice()).ok()?.retry_after();
    }
    let seconds: u64 = headers.get(http::header::RETRY_AFTER)?.to_str().ok()?.parse().ok()?;
    Some(Duration::from_secs(seconds))
}

/// `ExportTraceServiceResponse`, and those of metrics and logs, which differ in the names of their fields only.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct ExportResponse {
    #[prost(message, optional, tag = "1")]
    pub(crate) partial_success: Option<PartialSuccess>,
}

/// `ExportTracePartialSuccess` and its likes.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct PartialSuccess {
    #[prost(int64, tag = "1")]
    pub(crate) rejected_items: i64,
    #[prost(string, tag = "2")]
    pub(crate) error_message: String,
}

/// Percent-encodes a `grpc-message` as the protocol asks.
pub(crate) fn encode_message(text: &str) -> String {
    const UNPRINTABLE: &AsciiSet = &CONTROLS.add(b'%');
    utf8_percent_encode(text, UNPRINTABLE).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_translate_both_ways() {
        for (text, http, grpc) in [
            ("429", 429, status::RESOURCE_EXHAUSTED),
            ("400", 400, status::INVALID_ARGUMENT),
            ("500", 500, status::INTERNAL),
            ("503", 503, status::UNAVAILABLE),
            ("401", 401, status::UNAUTHENTICATED),
            ("404", 404, status::UNIMPLEMENTED),
            ("grpc=14", 503, status::UNAVAILABLE),
            ("grpc=8", 429, status::RESOURCE_EXHAUSTED),
        ] {
            let code: Code = text.parse().unwrap();
            assert_eq!((code.http(), code.grpc(), code.to_string().as_str()), (http, grpc, text));
        }
        for bad in ["200", "grpc=0", "grpc=17", "teapot", ""] {
            assert!(bad.parse::<Code>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_retry_hint_survives_its_header() {
        let status = RpcStatus::new(14, "busy", Some(Duration::from_millis(1500)));
        let mut headers = HeaderMap::new();
        headers.insert(STATUS_DETAILS, status.to_header().parse().unwrap());
        assert_eq!(retry_hint(&headers), Some(Duration::from_millis(1500)));
        let bare = RpcStatus::new(14, "busy", None);
        headers.insert(STATUS_DETAILS, bare.to_header().parse().unwrap());
        assert_eq!(retry_hint(&headers), None);
    }

    #[test]
    fn a_prefix_must_describe_the_whole_body() {
        let mut body: &[u8] = &[0, 0, 0, 0, 2, 1, 2];
        assert_eq!(read_prefix(&mut body), Ok(false));
        assert_eq!(body, [1, 2]);
        for mut bad in [&[0, 0, 0][..], &[0, 0, 0, 0, 3, 1, 2], &[2, 0, 0, 0, 0]] {
            assert!(read_prefix(&mut bad).is_err());
        }
    }
}
