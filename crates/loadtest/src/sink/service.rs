//! One request: its fate is drawn, its body read, its items recorded, its answer built.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Buf, Bytes};
use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode};
use http_body_util::BodyExt;
use hyper::body::{Body, Frame, Incoming};
use prost::Message;

use super::Shared;
use super::faults::{Fate, Reaction};
use super::ledger::Envelope;
use super::message::{Decoded, Expectations, Form, Received, Rejection, Route, Transport};
use crate::chunks::Chunks;
use crate::codec::INFLATED_LIMIT_BYTES;
use crate::grpc::{self, Code, ExportResponse, PartialSuccess, RpcStatus};

/// The sink resets the stream instead of answering.
#[derive(Debug, thiserror::Error)]
#[error("reset on purpose")]
pub(crate) struct Reset;

/// Serves one export request.
pub(crate) async fn export(
    shared: Arc<Shared>,
    transport: Transport,
    request: Request<Incoming>,
) -> Result<Response<Reply>, Reset> {
    let route = match Route::of(transport, &request) {
        Ok(route) => route,
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
            let received = Received { route, headers: &parts.headers, body };
            Ok(accept(&shared, &fate, received))
        }
    }
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

fn accept(shared: &Shared, fate: &Fate, received: Received<'_>) -> Response<Reply> {
    let wire_bytes = received.body.remaining() as u64;
    let route = received.route;
    let expectations = Expectations { text: shared.expected_text.as_deref(), wants: shared.ledger.wants() };
    match received.decode(fate, expectations) {
        Ok(Decoded { mut scan, bytes, lacks_text }) => {
            // Nobody says to a client that sends records which of them were rejected.
            let is_partial = fate.reaction == Reaction::Partial && route.form == Form::Otlp;
            let rejected = if is_partial { scan.items / 2 } else { 0 };
            scan.reject_first(rejected);
            let envelope = Envelope { bytes, wire_bytes, partial_rejected: rejected, lacks_text };
            shared.ledger.record(route.signal, &scan, envelope);
            success(route, rejected)
        }
        Err(rejection) => {
            shared.ledger.refuse(&rejection.reason);
            refusal(route.transport, &rejection, fate.retry_after)
        }
    }
}

fn success(route: Route, rejected: u64) -> Response<Reply> {
    if route.form != Form::Otlp {
        return respond(StatusCode::OK, "text/plain", Reply::plain(Bytes::new()));
    }
    let partial_success = (rejected > 0).then(|| PartialSuccess {
        rejected_items: i64::try_from(rejected).unwrap_or(i64::MAX),
        error_message: "injected partial success".to_owned(),
    });
    let message = ExportResponse { partial_success }.encode_to_vec();
    match route.transport {
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
