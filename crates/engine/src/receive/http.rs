//! OTLP/HTTP: `POST /v1/traces`, `/v1/metrics` or `/v1/logs` with protobuf or JSON.

use std::net::IpAddr;

use http::header::{ALLOW, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use hyper::body::Incoming;
use weir_plan::Signal;

use super::body::BodyReader;
use super::reply::Reply;
use super::{Format, Received, Receiver, Refusal, Transport};
use crate::codec::Encoding;

pub(super) async fn answer(receiver: &Receiver, request: Request<Incoming>, peer: Option<IpAddr>) -> Response<Reply> {
    let (head, body) = request.into_parts();
    // Errors before the content type is known are answered in protobuf, the default encoding of OTLP/HTTP.
    let format = format(&head.headers);
    let result = match read(receiver, &head, format, body, peer).await {
        Ok(received) => {
            let signal = received.signal;
            receiver.ingest(received, Transport::Http).await.map(|()| signal)
        }
        Err(refusal) => Err(refusal),
    };
    let format = format.unwrap_or(Format::Protobuf);
    match result {
        Ok(signal) => success(signal, format),
        Err(refusal) => {
            receiver.count_refusal(Transport::Http, refusal.reason);
            failure(&refusal, format)
        }
    }
}

async fn read(
    receiver: &Receiver,
    head: &Parts,
    format: Option<Format>,
    body: Incoming,
    peer: Option<IpAddr>,
) -> Result<Received, Refusal> {
    let Some(signal) = Signal::ALL.into_iter().find(|signal| signal.http_path() == head.uri.path()) else {
        let paths = Signal::ALL.map(Signal::http_path).join(", ");
        let message = format!("nothing is served at {}; telemetry is taken at {paths}", head.uri.path());
        return Err(Refusal::unsupported(StatusCode::NOT_FOUND, message));
    };
    if head.method != Method::POST {
        let message = format!("{} is not allowed here; use POST", head.method);
        return Err(Refusal::unsupported(StatusCode::METHOD_NOT_ALLOWED, message));
    }
    let Some(format) = format else {
        let message = "content-type must be application/x-protobuf or application/json".to_owned();
        return Err(Refusal::unsupported(StatusCode::UNSUPPORTED_MEDIA_TYPE, message));
    };
    receiver.check(signal, &head.headers)?;
    let encoding = encoding(&head.headers)?;
    let mut body = BodyReader::new(body, receiver.body_timeout);
    let (bytes, front, permit) = match content_length(&head.headers) {
        Some(declared) => {
            let mut permit = receiver.admit(declared).await?;
            let front = Receiver::front(declared, encoding, format, &mut permit);
            let bytes = body.read(front, declared).await?;
            (bytes.ok_or_else(|| Refusal::malformed("the body is shorter than its content-length"))?, front, permit)
        }
        None => {
            let mut permit = receiver.admit(0).await?;
            (body.read_to_end(receiver.max_request_bytes(), &mut permit).await?, 0, permit)
        }
    };
    Ok(Received { signal, peer, bytes, front, permit, encoding, format })
}

fn format(headers: &HeaderMap) -> Option<Format> {
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
        let message =
            format!("content-encoding {name:?} is not supported; use one of identity, gzip, zstd, deflate, snappy");
        Refusal::unsupported(StatusCode::UNSUPPORTED_MEDIA_TYPE, message)
    })
}

fn content_length(headers: &HeaderMap) -> Option<usize> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

fn success(signal: Signal, format: Format) -> Response<Reply> {
    match format {
        Format::Protobuf => response(StatusCode::OK, format, weir_otlp::response(None)),
        Format::Json => response(StatusCode::OK, format, weir_otlp::response_to_json(signal, None).into_bytes()),
    }
}

fn failure(refusal: &Refusal, format: Format) -> Response<Reply> {
    let code = i32::try_from(refusal.code.number()).unwrap_or_default();
    let body = match format {
        Format::Protobuf => weir_otlp::status::encode(code, &refusal.message, refusal.retry_after),
        Format::Json => weir_otlp::status::to_json(code, &refusal.message, refusal.retry_after).into_bytes(),
    };
    let mut response = response(refusal.status, format, body);
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

fn response(status: StatusCode, format: Format, body: Vec<u8>) -> Response<Reply> {
    let mut response = Response::new(Reply::new(body));
    *response.status_mut() = status;
    let content_type = match format {
        Format::Protobuf => "application/x-protobuf",
        Format::Json => "application/json",
    };
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}
