//! OTLP/HTTP: `POST /v1/traces`, `/v1/metrics` or `/v1/logs` with protobuf or JSON.

use std::net::IpAddr;

use http::header::{ALLOW, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode};
use weir_plan::Signal;

use super::body::BodyReader;
use super::refusal::beginning;
use super::reply::Reply;
use super::{Call, Format, Receiver, Refusal};
use crate::buffer::Buffer;
use crate::codec::Encoding;

/// What the head of a request says; `format` is that of its content type.
pub(super) fn call(receiver: &Receiver, head: &Parts, format: Option<Format>, peer: IpAddr) -> Result<Call, Refusal> {
    let Some(signal) = Signal::ALL.into_iter().find(|signal| signal.http_path() == head.uri.path()) else {
        let paths = Signal::ALL.map(Signal::http_path).join(", ");
        let message = format!("nothing is served at {}; telemetry is taken at {paths}", beginning(head.uri.path()));
        return Err(Refusal::unsupported(StatusCode::NOT_FOUND, message));
    };
    if head.method != Method::POST {
        let message = format!("{} is not allowed here; use POST", beginning(head.method.as_str()));
        return Err(Refusal::unsupported(StatusCode::METHOD_NOT_ALLOWED, message));
    }
    let Some(format) = format else {
        let message = "content-type must be application/x-protobuf or application/json".to_owned();
        return Err(Refusal::unsupported(StatusCode::UNSUPPORTED_MEDIA_TYPE, message));
    };
    receiver.check(signal, &head.headers)?;
    let encoding = encoding(&head.headers)?;
    let declared = content_length(&head.headers);
    receiver.check_length(declared.unwrap_or(0))?;
    Ok(Call { signal, peer, encoding, format, declared })
}

/// Reads the body of a request.
pub(super) async fn read(receiver: &Receiver, call: &Call, mut body: BodyReader<'_>) -> Result<Buffer, Refusal> {
    match call.declared {
        Some(declared) if !body.read(declared, call.stays()).await? => {
            return Err(Refusal::malformed("the body is shorter than its content-length"));
        }
        Some(_) => {}
        None => body.read_to_end(receiver.max_request_bytes()).await?,
    }
    Ok(body.into_buffer())
}

pub(super) fn response(result: Result<Signal, Refusal>, format: Format) -> Response<Reply> {
    match result {
        Ok(signal) => success(signal, format),
        Err(refusal) => failure(&refusal, format),
    }
}

/// The format of the content type, if it is one that is taken.
pub(super) fn format(headers: &HeaderMap) -> Option<Format> {
    let value = headers.get(CONTENT_TYPE)?.to_str().ok()?;
    let media_type = value.split(';').next().unwrap_or_default().trim();
    if media_type.eq_ignore_ascii_case("application/x-protobuf") {
        Some(Format::Protobuf)
    } else if media_type.eq_ignore_ascii_case("application/json") {
        Some(Format::Json)
    } else {
        None
    }
}

fn encoding(headers: &HeaderMap) -> Result<Encoding, Refusal> {
    let Some(value) = headers.get(CONTENT_ENCODING) else { return Ok(Encoding::Identity) };
    let name = value.to_str().unwrap_or("?");
    Encoding::from_header(name).ok_or_else(|| {
        let message = format!(
            "content-encoding {:?} is not supported; use one of identity, gzip, zstd, deflate, snappy",
            beginning(name)
        );
        Refusal::unsupported(StatusCode::UNSUPPORTED_MEDIA_TYPE, message)
    })
}

fn content_length(headers: &HeaderMap) -> Option<usize> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

fn success(signal: Signal, format: Format) -> Response<Reply> {
    match format {
        Format::Protobuf => respond(StatusCode::OK, format, weir_otlp::response(None)),
        Format::Json => respond(StatusCode::OK, format, weir_otlp::response_to_json(signal, None).into_bytes()),
    }
}

fn failure(refusal: &Refusal, format: Format) -> Response<Reply> {
    let code = i32::try_from(refusal.code.number()).unwrap_or_default();
    let body = match format {
        Format::Protobuf => weir_otlp::status::encode(code, &refusal.message, refusal.retry_after),
        Format::Json => weir_otlp::status::to_json(code, &refusal.message, refusal.retry_after).into_bytes(),
    };
    let mut response = respond(refusal.status, format, body);
    if let Some(wait) = refusal.retry_after {
        // Whole seconds only: rounded up, so that nobody comes back too early.
        let seconds = wait.as_millis().div_ceil(1000);
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(u64::try_from(seconds).unwrap_or(u64::MAX)));
    }
    if refusal.status == StatusCode::UNAUTHORIZED {
        response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    if refusal.status == StatusCode::METHOD_NOT_ALLOWED {
        response.headers_mut().insert(ALLOW, HeaderValue::from_static("POST"));
    }
    response
}

fn respond(status: StatusCode, format: Format, body: Vec<u8>) -> Response<Reply> {
    let mut response = Response::new(Reply::new(body));
    *response.status_mut() = status;
    let content_type = match format {
        Format::Protobuf => "application/x-protobuf",
        Format::Json => "application/json",
    };
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}
