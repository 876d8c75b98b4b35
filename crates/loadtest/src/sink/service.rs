//! One request: its fate is drawn, its body read, its items recorded, its answer built.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Buf, Bytes};
use http::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderName, RETRY_AFTER};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::BodyExt;
use hyper::body::{Body, Frame, Incoming};
use prost::Message;

use super::Shared;
use super::faults::{Fate, Reaction};
use super::ledger::Envelope;
use crate::chunks::{self, Chunks};
use crate::codec::{self, INFLATED_LIMIT_BYTES};
use crate::grpc::{self, Code, ExportResponse, PartialSuccess, RpcStatus};
use crate::scan::{Malformed, Scan, find_lines, scan};
use crate::signal::Signal;

/// How a request came in, which decides how its answer looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Transport {
    Grpc,
    Http,
}

/// The sink resets the stream instead of answering.
#[derive(Debug, thiserror::Error)]
#[error("reset on purpose")]
pub(crate) struct Reset;

/// Why a request is not accepted: counted under `reason`, answered with the rest.
struct Rejection {
    reason: String,
    code: Code,
    message: String,
}

impl Rejection {
    fn malformed(message: impl Into<String>) -> Self {
        Self { reason: "malformed".to_owned(), code: Code::Http(400), message: message.into() }
    }

    fn too_large(transport: Transport, bytes: u64, limit: u64) -> Self {
        let message = match transport {
            Transport::Grpc => format!("grpc: received message larger than max ({bytes} vs. {limit})"),
            Transport::Http => format!("request body too large: {bytes} bytes, limit {limit}"),
        };
        Self { reason: "too_large".to_owned(), code: Code::Http(413), message }
    }
}

/// Serves one export request.
pub(crate) async fn export(
    shared: Arc<Shared>,
    transport: Transport,
    request: Request<Incoming>,
) -> Result<Response<Reply>, Reset> {
    let signal = match check_route(transport, &request) {
        Ok(signal) => signal,
        Err(rejection) => {
            shared.ledger.refuse(&rejection.reason);
            return Ok(refusal(transport, &rejection, None));
        }
    };
    shared.ledger.arrived();
    let fate = shared.dice.draw();
    let (parts, body) = request.into_parts();
    let body = match read_body(body, &fate, transport).await {
        Ok(body) => body,
        Err(rejection) => {
            shared.ledger.refuse(&rejection.reason);
            return Ok(refusal(transport, &rejection, fate.retry_after));
        }
    };
    if !fate.delay.is_zero() {
        tokio::time::sleep(fate.delay).await;
    }
    match fate.reaction {
        Reaction::Reset => {
            shared.ledger.refuse("reset");
            Err(Reset)
        }
        Reaction::Stall => {
            shared.ledger.refuse("stall");
            std::future::pending().await
        }
        Reaction::Refuse(code) => {
            shared.ledger.refuse(&code.to_string());
            let rejection = Rejection { reason: String::new(), code, message: format!("injected fault {code}") };
            Ok(refusal(transport, &rejection, fate.retry_after))
        }
        Reaction::Accept | Reaction::Partial => {
            let received = Received { transport, signal, headers: &parts.headers, body };
            Ok(accept(&shared, &fate, received))
        }
    }
}

/// The signal that is exported.
fn check_route<B>(transport: Transport, request: &Request<B>) -> Result<Signal, Rejection> {
    let (path_of, content_type): (fn(Signal) -> &'static str, _) = match transport {
        Transport::Grpc => (Signal::grpc_path, "application/grpc"),
        Transport::Http => (Signal::http_path, "application/x-protobuf"),
    };
    let reject = |code, message| Err(Rejection { reason: "unexpected".to_owned(), code: Code::Http(code), message });
    let path = request.uri().path();
    let Some(signal) = Signal::ALL.into_iter().find(|signal| path_of(*signal) == path) else {
        return reject(404, format!("no service at {path}: expected {} or its likes", path_of(Signal::Traces)));
    };
    if request.method() != Method::POST {
        return reject(405, format!("method {} is not POST", request.method()));
    }
    let given = request.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or("");
    if !given.starts_with(content_type) {
        return reject(415, format!("content type \"{given}\" is not {content_type}"));
    }
    Ok(signal)
}

/// Reads the whole body; one that will not be recorded is read and dropped, as a proxy in front of a backend does.
async fn read_body(mut body: Incoming, fate: &Fate, transport: Transport) -> Result<Chunks, Rejection> {
    let keep = matches!(fate.reaction, Reaction::Accept | Reaction::Partial);
    let limit = fate.max_request_bytes.unwrap_or(INFLATED_LIMIT_BYTES).min(INFLATED_LIMIT_BYTES);
    let mut chunks = Chunks::default();
    let mut length = 0_u64;
    while let Some(frame) = body.frame().await {
        let aborted = |err| Rejection {
            reason: "aborted".to_owned(),
            code: Code::Http(400),
            message: format!("cannot read request body: {err}"),
        };
        let Ok(data) = frame.map_err(aborted)?.into_data() else { continue };
        length += data.len() as u64;
        if let Some(rate) = fate.slow_read {
            slow_down(data.len(), rate).await;
        }
        if keep && length <= limit + grpc::PREFIX_BYTES as u64 {
            chunks.push(data);
        }
    }
    let message = match transport {
        Transport::Grpc => length.saturating_sub(grpc::PREFIX_BYTES as u64),
        Transport::Http => length,
    };
    if keep && message > limit { Err(Rejection::too_large(transport, message, limit)) } else { Ok(chunks) }
}

async fn slow_down(bytes: usize, rate: u64) {
    #[expect(clippy::cast_precision_loss, reason = "a pause needs no more digits")]
    let seconds = bytes as f64 / rate.max(1) as f64;
    tokio::time::sleep(Duration::from_secs_f64(seconds)).await;
}

/// A request whose body was read.
struct Received<'a> {
    transport: Transport,
    signal: Signal,
    headers: &'a HeaderMap,
    body: Chunks,
}

fn accept(shared: &Shared, fate: &Fate, received: Received<'_>) -> Response<Reply> {
    let wire_bytes = received.body.remaining() as u64;
    let Received { transport, signal, .. } = received;
    match decode(fate, received, shared) {
        Ok(Decoded { mut scan, bytes, lacks_text }) => {
            let rejected = if fate.reaction == Reaction::Partial { scan.items / 2 } else { 0 };
            scan.reject_first(rejected);
            let envelope = Envelope { bytes, wire_bytes, partial_rejected: rejected, lacks_text };
            shared.ledger.record(signal, &scan, envelope);
            success(transport, rejected)
        }
        Err(rejection) => {
            shared.ledger.refuse(&rejection.reason);
            refusal(transport, &rejection, fate.retry_after)
        }
    }
}

/// What was read from a body.
struct Decoded {
    scan: Scan,
    /// Uncompressed.
    bytes: u64,
    lacks_text: bool,
}

fn decode(fate: &Fate, received: Received<'_>, shared: &Shared) -> Result<Decoded, Rejection> {
    let expected = shared.expected_text.as_deref();
    let wants_lines = received.signal == Signal::Logs && shared.ledger.wants_lines();
    let Received { transport, signal, headers, mut body } = received;
    let header = |name: HeaderName| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or("identity");
    let encoding = match transport {
        Transport::Grpc => {
            let compressed = grpc::read_prefix(&mut body).map_err(Rejection::malformed)?;
            if compressed { header(HeaderName::from_static("grpc-encoding")) } else { "identity" }
        }
        Transport::Http => header(CONTENT_ENCODING),
    };
    if encoding == "identity" {
        let bytes = body.remaining() as u64;
        let lacks_text = expected.is_some_and(|text| !body.contains(text.as_bytes()));
        let scan =
            if wants_lines { scan_lines(&body.copy_to_bytes(body.remaining())) } else { scan(signal, &mut body) };
        let scan = scan.map_err(|err| Rejection::malformed(err.to_string()))?;
        return Ok(Decoded { scan, bytes, lacks_text });
    }
    let inflated = codec::inflate(body, encoding).map_err(Rejection::malformed)?;
    let bytes = inflated.len() as u64;
    match fate.max_request_bytes {
        Some(limit) if bytes > limit => Err(Rejection::too_large(transport, bytes, limit)),
        _ => {
            let scan = if wants_lines { scan_lines(&inflated) } else { scan(signal, &mut inflated.as_slice()) };
            let scan = scan.map_err(|err| Rejection::malformed(err.to_string()))?;
            let lacks_text = expected.is_some_and(|text| !chunks::contains(&inflated, text.as_bytes()));
            Ok(Decoded { scan, bytes, lacks_text })
        }
    }
}

/// Scans log records, and finds the lines in them.
fn scan_lines(message: &[u8]) -> Result<Scan, Malformed> {
    let mut scan = scan(Signal::Logs, &mut &*message)?;
    scan.lines = find_lines(message)?;
    Ok(scan)
}

fn success(transport: Transport, rejected: u64) -> Response<Reply> {
    let partial_success = (rejected > 0).then(|| PartialSuccess {
        rejected_items: i64::try_from(rejected).unwrap_or(i64::MAX),
        error_message: "injected partial success".to_owned(),
    });
    let message = ExportResponse { partial_success }.encode_to_vec();
    match transport {
        Transport::Http => respond(StatusCode::OK, "application/x-protobuf", Reply::plain(message.into())),
        Transport::Grpc => {
            let mut framed = grpc::prefix(message.len(), false).unwrap_or_default().to_vec();
            framed.extend_from_slice(&message);
            let mut trailers = HeaderMap::new();
            trailers.insert("grpc-status", HeaderValue::from_static("0"));
            let reply = Reply { data: Some(framed.into()), trailers: Some(trailers) };
            respond(StatusCode::OK, "application/grpc", reply)
        }
    }
}

fn refusal(transport: Transport, rejection: &Rejection, retry_after: Option<Duration>) -> Response<Reply> {
    let status = RpcStatus::new(rejection.code.grpc(), &rejection.message, retry_after);
    match transport {
        Transport::Http => {
            let code = StatusCode::from_u16(rejection.code.http()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
            let mut response = respond(code, "application/x-protobuf", Reply::plain(status.encode_to_vec().into()));
            if let Some(delay) = retry_after {
                let seconds = delay.as_secs() + u64::from(delay.subsec_nanos() > 0);
                response.headers_mut().insert(RETRY_AFTER, seconds.into());
            }
            response
        }
        Transport::Grpc => {
            let mut response = respond(StatusCode::OK, "application/grpc", Reply { data: None, trailers: None });
            let headers = response.headers_mut();
            headers.insert("grpc-status", rejection.code.grpc().into());
            insert_text(headers, "grpc-message", &grpc::encode_message(&rejection.message));
            insert_text(headers, grpc::STATUS_DETAILS, &status.to_header());
            response
        }
    }
}

fn insert_text(headers: &mut HeaderMap, name: &'static str, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        headers.insert(name, value);
    }
}

fn respond(status: StatusCode, content_type: &'static str, reply: Reply) -> Response<Reply> {
    let mut response = Response::new(reply);
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

/// A response body: at most one piece of data, at most one block of trailers.
pub(crate) struct Reply {
    data: Option<Bytes>,
    trailers: Option<HeaderMap>,
}

impl Reply {
    /// A body without trailers.
    pub(crate) fn plain(data: Bytes) -> Self {
        Self { data: Some(data).filter(|data| !data.is_empty()), trailers: None }
    }
}

impl Body for Reply {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let data = self.data.take().map(Frame::data);
        let frame = data.or_else(|| self.trailers.take().map(Frame::trailers));
        Poll::Ready(frame.map(Ok))
    }

    fn is_end_stream(&self) -> bool {
        self.data.is_none() && self.trailers.is_none()
    }

    fn size_hint(&self) -> hyper::body::SizeHint {
        match (&self.data, &self.trailers) {
            (data, None) => hyper::body::SizeHint::with_exact(data.as_ref().map_or(0, |data| data.len() as u64)),
            _ => hyper::body::SizeHint::default(),
        }
    }
}
