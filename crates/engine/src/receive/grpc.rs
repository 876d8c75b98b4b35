//! OTLP/gRPC: unary calls over HTTP/2, as far as one method for each signal needs them.
//!
//! The length of a message is known from its five-byte prefix. So a message that is too large is refused before any of
//! it is buffered, and memory is taken as the message arrives; a gRPC library would buffer first.

use std::net::IpAddr;

use base64::Engine as _;
use bytes::Bytes;
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use weir_plan::Signal;

use super::body::BodyReader;
use super::refusal::beginning;
use super::reply::Reply;
use super::{Call, Format, Receiver, Refusal};
use crate::buffer::Buffer;
use crate::codec::Encoding;

/// Encodings that clients may compress with.
const ACCEPTED: &str = "identity,gzip,zstd,snappy";

/// An empty export response as a gRPC message.
const EMPTY_MESSAGE: &[u8] = &[0; 5];

/// What is percent-encoded in `grpc-message`, beside all that is not ASCII.
const UNPRINTABLE: &AsciiSet = &CONTROLS.add(b'%');

/// What the head of a call says.
pub(super) fn call(receiver: &Receiver, head: &Parts, peer: IpAddr) -> Result<Call, Refusal> {
    let Some(signal) = Signal::ALL.into_iter().find(|signal| signal.grpc_method() == head.uri.path()) else {
        let methods = Signal::ALL.map(Signal::grpc_method).join(", ");
        let message = format!("unknown method {}; this gateway serves {methods}", beginning(head.uri.path()));
        return Err(Refusal::unsupported(StatusCode::NOT_FOUND, message));
    };
    receiver.check(signal, &head.headers)?;
    let encoding = encoding(&head.headers)?;
    Ok(Call { signal, peer, encoding, format: Format::Protobuf, declared: None })
}

/// Reads the message of a call.
pub(super) async fn read(receiver: &Receiver, call: &mut Call, mut body: BodyReader<'_>) -> Result<Buffer, Refusal> {
    let mut prefix = [0; 5];
    if !body.read_exact(&mut prefix).await? {
        return Err(Refusal::malformed("the call ended before its message"));
    }
    let [flag, a, b, c, d] = prefix;
    let declared = u32::from_be_bytes([a, b, c, d]) as usize;
    call.encoding = match flag {
        0 => Encoding::Identity,
        1 if call.encoding != Encoding::Identity => call.encoding,
        1 => {
            return Err(Refusal::malformed("the message is marked as compressed, but grpc-encoding names no encoding"));
        }
        _ => return Err(Refusal::malformed(format!("{flag} is not a gRPC compression flag (0 or 1)"))),
    };
    receiver.check_length(declared)?;
    if !body.read(declared, call.stays()).await? {
        return Err(Refusal::malformed(format!("the message is shorter than the {declared} bytes it declares")));
    }
    if !body.is_at_end().await? {
        return Err(Refusal::malformed("more than one message in a unary call"));
    }
    Ok(body.into_buffer())
}

pub(super) fn response(result: Result<Signal, Refusal>) -> Response<Reply> {
    match result {
        Ok(_) => success(),
        Err(refusal) => failure(&refusal),
    }
}

fn encoding(headers: &HeaderMap) -> Result<Encoding, Refusal> {
    let Some(value) = headers.get("grpc-encoding") else { return Ok(Encoding::Identity) };
    let name = value.to_str().unwrap_or("?");
    Encoding::from_header(name).ok_or_else(|| {
        let message = format!("grpc-encoding {:?} is not supported; use one of {ACCEPTED}", beginning(name));
        Refusal::unsupported(StatusCode::UNSUPPORTED_MEDIA_TYPE, message)
    })
}

fn success() -> Response<Reply> {
    let mut trailers = HeaderMap::with_capacity(1);
    trailers.insert("grpc-status", HeaderValue::from_static("0"));
    respond(Reply::with_trailers(Bytes::from_static(EMPTY_MESSAGE), trailers))
}

/// A trailers-only answer: the status travels in the headers.
fn failure(refusal: &Refusal) -> Response<Reply> {
    let mut response = respond(Reply::default());
    let headers = response.headers_mut();
    headers.insert("grpc-accept-encoding", HeaderValue::from_static(ACCEPTED));
    headers.insert("grpc-status", HeaderValue::from(refusal.code.number()));
    if let Ok(message) = HeaderValue::try_from(utf8_percent_encode(&refusal.message, UNPRINTABLE).to_string()) {
        headers.insert("grpc-message", message);
    }
    let code = i32::try_from(refusal.code.number()).unwrap_or_default();
    let details = weir_otlp::status::encode(code, &refusal.message, refusal.retry_after);
    let details = base64::engine::general_purpose::STANDARD_NO_PAD.encode(details);
    if let Ok(details) = HeaderValue::from_str(&details) {
        headers.insert("grpc-status-details-bin", details);
    }
    response
}

fn respond(reply: Reply) -> Response<Reply> {
    let mut response = Response::new(reply);
    response.headers_mut().insert(http::header::CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    response
}
