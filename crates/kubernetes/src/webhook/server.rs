//! The HTTPS server: takes reviews, has them answered, and bounds what that takes.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime};

use bytes::{Bytes, BytesMut};
use http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use http::{Method, Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt as _, Limited};
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use k8s_openapi::jiff::Timestamp;
use rustls::ServerConfig;
use serde_json::Value;
use thiserror::Error;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::{AbortHandle, JoinError};
use tokio::time::{Instant, timeout};
use tokio_rustls::TlsAcceptor;
use weir_legible::Seldom;

use super::{CONVERT, MUTATE, VALIDATE, Webhook};
use crate::admission::{self, Malformed};
use crate::crowd::{Busy, Crowd, Place};
use crate::operator::limits::MAX_SPEC_BYTES;
use crate::operator::{Pending, pending};

/// A request to an API server has at most 3 MiB, and so has an object. A review of an update has two of them.
const MAX_REVIEW_BYTES: usize = 2 * 3 * 1024 * 1024 + 64 * 1024;
/// Whoever lists objects has all of them converted at once.
const MAX_CONVERSION_BYTES: usize = 32 * 1024 * 1024;
/// The bodies of all requests that are read or answered at once. It takes the largest of them.
const MAX_BYTES_AT_ONCE: usize = 48 * 1024 * 1024;
/// What all requests take that are answered at once, beside their bodies.
const MAX_WORK_AT_ONCE: usize = 128 * 1024 * 1024;
/// What an object takes when it is read, however small it is, and any other value. There are two of each: what is answered is
/// a copy.
const OBJECT_BYTES: usize = 2 * 700;
const VALUE_BYTES: usize = 2 * 64;
/// Judging an object takes so many times its size. Larger ones are refused before.
const JUDGED: (usize, usize) = (MAX_SPEC_BYTES, 64);
const MAX_CONNECTIONS: usize = 256;
const PIECE_BYTES: usize = 64 * 1024;
/// Characters of an answer that says what is wrong. Nobody pays for it, and it may repeat what was sent.
const MAX_MESSAGE: usize = 1000;
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// An API server waits for 15 s at most.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(15);
/// For a body to arrive.
const BODY_TIMEOUT: Duration = Duration::from_secs(5);
/// For requests under way when the server stops.
const GRACE: Duration = Duration::from_secs(10);
/// Accepting rests this long when the process has no file descriptor left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Why the server cannot be set up.
#[derive(Debug, Error)]
#[error("cannot set up TLS for the webhooks: {0}")]
pub struct ServeError(#[from] rustls::Error);

/// Why a body cannot be read.
type BodyError = Box<dyn std::error::Error + Send + Sync>;

/// What becomes of the body of a review.
type Answer = fn(&[u8]) -> Result<Value, Malformed>;

struct Server {
    acceptor: TlsAcceptor,
    pending: Option<Pending>,
    /// Bytes of bodies, in KiB.
    memory: Arc<Semaphore>,
    /// Of what is made of them, in KiB.
    work: Arc<Semaphore>,
    /// Large ones are read one after the other: two of which each has half would wait for each other.
    large: Semaphore,
    panic_reported: Mutex<Seldom>,
}

/// Serves until it is told to stop, and finishes what it has begun.
pub(super) async fn serve(
    listener: TcpListener,
    webhook: Arc<Webhook>,
    stop: impl Future<Output = ()>,
) -> Result<(), ServeError> {
    let server = Arc::new(Server::new(webhook)?);
    let (crowd, graceful) = (Crowd::new(MAX_CONNECTIONS), GracefulShutdown::new());
    tokio::pin!(stop);
    let mut failure_reported = Seldom::default();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = &mut stop => break,
        };
        let (stream, _) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                if let Some(left_out) = failure_reported.due(Instant::now()) {
                    tracing::warn!(
                        %error,
                        left_out,
                        advice = "look at the number of files that the process may have open (ulimit -n)",
                        "cannot accept a connection to the webhooks; trying on"
                    );
                }
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let Some(place) = crowd.enter() else { continue };
        let (server, watcher, place) = (Arc::clone(&server), graceful.watcher(), Arc::new(place));
        tokio::spawn(async move {
            tokio::select! {
                () = server.converse(stream, watcher, Arc::clone(&place)) => {}
                () = place.has_to_leave() => {}
            }
        });
    }
    // Whoever is cut off asks again.
    drop(tokio::time::timeout(GRACE, graceful.shutdown()).await);
    Ok(())
}

impl Server {
    fn new(webhook: Arc<Webhook>) -> Result<Self, ServeError> {
        let pending = webhook.options.pending.clone();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let versions = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
        let mut config = versions.with_no_client_auth().with_cert_resolver(webhook);
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let [memory, work] = [MAX_BYTES_AT_ONCE, MAX_WORK_AT_ONCE].map(|bytes| Arc::new(Semaphore::new(kib(bytes))));
        Ok(Self {
            acceptor: TlsAcceptor::from(Arc::new(config)),
            pending,
            memory,
            work,
            large: Semaphore::new(1),
            panic_reported: Mutex::default(),
        })
    }

    /// Serves one connection to its end. What is wrong with it is its client's business.
    async fn converse(self: Arc<Self>, stream: TcpStream, watcher: Watcher, place: Arc<Place>) {
        // Without it answers wait for acknowledgements; a socket that cannot be set is about to fail anyway.
        let _ = stream.set_nodelay(true);
        let Ok(Ok(stream)) = tokio::time::timeout(HANDSHAKE_TIMEOUT, self.acceptor.accept(stream)).await else {
            return;
        };
        let service = service_fn(move |request| {
            let (server, place) = (Arc::clone(&self), Arc::clone(&place));
            async move { Ok::<_, Infallible>(server.answer(request, &place).await) }
        });
        let mut builder = auto::Builder::new(TokioExecutor::new());
        builder.http1().timer(TokioTimer::new()).header_read_timeout(HANDSHAKE_TIMEOUT);
        builder
            .http2()
            .timer(TokioTimer::new())
            .max_concurrent_streams(64)
            .keep_alive_interval(Duration::from_secs(30))
            .max_header_list_size(16 * 1024);
        let connection = builder.serve_connection(TokioIo::new(stream), service);
        if let Err(error) = watcher.watch(connection).await {
            tracing::debug!(error, "a connection to the webhooks failed");
        }
    }

    async fn answer(&self, request: Request<Incoming>, place: &Arc<Place>) -> Response<Paid> {
        // Whoever only begins to ask is quiet from then on.
        drop(place.busy());
        match timeout(REQUEST_TIMEOUT, self.respond(request, place)).await {
            Ok(Ok(answer)) => answer,
            Ok(Err((status, message))) => text(status, &message),
            Err(_) => text(StatusCode::REQUEST_TIMEOUT, "the request took too long"),
        }
    }

    /// What an autoscaler asks for, by way of the API server. It is paid for before it is made, and then held, as the
    /// answer to a review is: anybody can ask.
    async fn metrics(
        &self,
        pending: &Pending,
        uri: &Uri,
        place: &Arc<Place>,
    ) -> Result<Response<Paid>, (StatusCode, String)> {
        let (text, work) = pending.most_bytes();
        let memory = pay(&self.memory, kib(text.min(MAX_BYTES_AT_ONCE))).await;
        let busy = place.busy();
        let _work = pay(&self.work, kib(work.min(MAX_WORK_AT_ONCE))).await;
        match pending.answer(uri.path(), uri.query(), (Instant::now(), Timestamp::now())) {
            Some(Ok(answer)) => Ok(json(answer.to_string(), Until::taken(busy, memory, place))),
            Some(Err(message)) => Err((StatusCode::BAD_REQUEST, message)),
            None => Err((StatusCode::NOT_FOUND, format!("expected the metric {}", pending::NAME))),
        }
    }

    /// Reads a body, and pays for it as it arrives. An error when it is too large.
    async fn read(&self, body: Incoming, limit: usize) -> Result<(Bytes, Option<OwnedSemaphorePermit>), BodyError> {
        let mut body = Limited::new(body, limit);
        let (mut bytes, mut paid) = (BytesMut::new(), None::<OwnedSemaphorePermit>);
        while let Some(frame) = body.frame().await {
            let Ok(data) = frame?.into_data() else { continue };
            if let Some(more) = pay(&self.memory, kib(data.len())).await {
                match &mut paid {
                    Some(paid) => paid.merge(more),
                    None => paid = Some(more),
                }
            }
            bytes.extend_from_slice(&data);
        }
        Ok((bytes.freeze(), paid))
    }

    /// Whatever is in a review must not fill the log.
    fn report_panic(&self, path: &str, error: &JoinError) {
        let due = self.panic_reported.lock().unwrap_or_else(PoisonError::into_inner).due(Instant::now());
        if let Some(left_out) = due {
            tracing::error!(
                path,
                %error,
                left_out,
                "a review could not be answered: this is a bug in weir, please report it"
            );
        }
    }

    async fn respond(
        &self,
        request: Request<Incoming>,
        place: &Arc<Place>,
    ) -> Result<Response<Paid>, (StatusCode, String)> {
        let asks_for_metrics = request.method() == Method::GET && request.uri().path().starts_with(pending::PATH);
        if let Some(pending) = self.pending.as_ref().filter(|_| asks_for_metrics) {
            return self.metrics(pending, request.uri(), place).await;
        }
        let (path, answer, limit): (&str, Answer, usize) = match request.uri().path() {
            VALIDATE => (VALIDATE, |body| admission::validate(body, SystemTime::now()), MAX_REVIEW_BYTES),
            MUTATE => (MUTATE, admission::mutate, MAX_REVIEW_BYTES),
            CONVERT => (CONVERT, admission::convert, MAX_CONVERSION_BYTES),
            _ => return Err((StatusCode::NOT_FOUND, format!("expected {VALIDATE}, {MUTATE} or {CONVERT}"))),
        };
        if request.method() != Method::POST {
            return Err((StatusCode::METHOD_NOT_ALLOWED, "expected POST".to_owned()));
        }
        let too_large = || (StatusCode::PAYLOAD_TOO_LARGE, format!("a review may have {limit} bytes"));
        let declared = request.headers().get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
        let declared = declared.unwrap_or(limit);
        if declared > limit {
            return Err(too_large());
        }
        let _turn = match declared {
            small if small <= MAX_REVIEW_BYTES => None,
            _ => self.large.acquire().await.ok(),
        };
        let reading = timeout(BODY_TIMEOUT, self.read(request.into_body(), declared));
        let read = reading.await.map_err(|_| (StatusCode::REQUEST_TIMEOUT, "the body took too long".to_owned()))?;
        let (body, memory) = read.map_err(|_| too_large())?;
        let work = kib(work_of(&body));
        if work > kib(MAX_WORK_AT_ONCE) {
            return Err((StatusCode::PAYLOAD_TOO_LARGE, "a review may not have so many values".to_owned()));
        }
        let busy = place.busy();
        let work = pay(&self.work, work).await;
        // What was read is paid for until the client has the answer, which is hardly larger.
        let answered =
            tokio::task::spawn_blocking(move || (answer(&body).map(|answer| answer.to_string()), memory, work));
        match answered.await {
            Ok((Ok(answer), memory, _)) => Ok(json(answer, Until::taken(busy, memory, place))),
            Ok((Err(malformed), _, _)) => Err((StatusCode::BAD_REQUEST, malformed.to_string())),
            Err(error) => {
                self.report_panic(path, &error);
                Err((StatusCode::INTERNAL_SERVER_ERROR, "the review could not be answered".to_owned()))
            }
        }
    }
}

/// At most this many from now on.
async fn pay(from: &Arc<Semaphore>, kib: usize) -> Option<OwnedSemaphorePermit> {
    // Nobody closes it.
    Arc::clone(from).acquire_many_owned(u32::try_from(kib).unwrap_or(u32::MAX)).await.ok()
}

/// What reading and judging a body takes, in bytes: there is a value after each of these signs, at most.
fn work_of(body: &[u8]) -> usize {
    let (mut bytes, mut is_text, mut is_escaped) = (0_usize, false, false);
    for byte in body {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_text => is_escaped = true,
            b'"' => is_text = !is_text,
            b'{' if !is_text => bytes += OBJECT_BYTES,
            b',' | b'[' if !is_text => bytes += VALUE_BYTES,
            _ => {}
        }
    }
    let (most, times) = JUDGED;
    2 * body.len() + bytes + body.len().min(most) * times
}

const fn kib(bytes: usize) -> usize {
    bytes.div_ceil(1024)
}

/// An answer, and what is given back when the client has it.
struct Paid {
    text: Bytes,
    _until: Option<Until>,
}

/// Held until an answer is taken.
struct Until {
    _busy: Busy,
    _memory: Option<OwnedSemaphorePermit>,
    deadline: AbortHandle,
}

impl Until {
    /// A client that does not take it in time has to leave.
    fn taken(busy: Busy, memory: Option<OwnedSemaphorePermit>, place: &Arc<Place>) -> Self {
        let place = Arc::clone(place);
        let deadline = tokio::spawn(async move {
            tokio::time::sleep(REQUEST_TIMEOUT).await;
            place.leave();
        });
        Self { _busy: busy, _memory: memory, deadline: deadline.abort_handle() }
    }
}

impl Drop for Until {
    fn drop(&mut self) {
        self.deadline.abort();
    }
}

impl Body for Paid {
    type Data = Bytes;
    type Error = Infallible;

    /// In pieces, so that what is not written yet is still paid for.
    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let piece = self.text.len().min(PIECE_BYTES);
        let piece = self.text.split_to(piece);
        Poll::Ready((!piece.is_empty()).then(|| Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.text.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(u64::try_from(self.text.len()).unwrap_or(u64::MAX))
    }
}

fn json(answer: String, until: Until) -> Response<Paid> {
    let mut response = Response::new(Paid { text: answer.into(), _until: Some(until) });
    response.headers_mut().insert(CONTENT_TYPE, http::HeaderValue::from_static("application/json"));
    response
}

fn text(status: StatusCode, message: &str) -> Response<Paid> {
    let message: String = message.chars().take(MAX_MESSAGE).collect();
    let mut response = Response::new(Paid { text: message.into(), _until: None });
    *response.status_mut() = status;
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pods(count: usize) -> Pending {
        let pending = Pending::default();
        let pods = (0..count).map(|number| (format!("telemetry-gateway-{number}"), ("telemetry-gateway", u64::MAX)));
        pending.set("kyma-system", pods.collect(), Instant::now());
        pending
    }

    fn all_pods() -> Uri {
        format!("{}/namespaces/kyma-system/pods/*/{}", pending::PATH, pending::NAME).parse().unwrap()
    }

    /// 256 connections with 64 streams each may ask at once, and take nothing.
    #[tokio::test(start_paused = true)]
    async fn metrics_are_paid_for_until_they_are_taken_and_whoever_does_not_take_them_leaves() {
        let server = Server::new(Webhook::new(crate::webhook::Options::in_namespace("kyma-system"))).unwrap();
        let place = Arc::new(Crowd::new(1).enter().unwrap());
        let (pending, uri) = (pods(1_000), all_pods());
        let left = || (server.memory.available_permits(), server.work.available_permits());
        let before = left();
        let answer = server.metrics(&pending, &uri, &place).await.unwrap();
        let paid = before.0 - left().0;
        assert!(answer.body().text.len() > 200_000 && paid * 1024 >= answer.body().text.len(), "{paid} KiB");
        assert_eq!(left().1, before.1, "nothing is made any more");
        timeout(2 * REQUEST_TIMEOUT, place.has_to_leave()).await.unwrap();
        drop(answer);
        assert_eq!(left(), before);
        // While others have all the memory, nothing is made.
        for memory in [&server.memory, &server.work] {
            let all = pay(memory, memory.available_permits()).await;
            assert!(timeout(REQUEST_TIMEOUT, server.metrics(&pending, &uri, &place)).await.is_err());
            drop(all);
            assert_eq!(left(), before);
        }
    }

    #[tokio::test]
    async fn what_is_asked_for_wrongly_is_not_repeated_at_length() {
        let server = Server::new(Webhook::new(crate::webhook::Options::in_namespace("kyma-system"))).unwrap();
        let place = Arc::new(Crowd::new(1).enter().unwrap());
        let before = server.memory.available_permits();
        let uri = format!("{}?labelSelector={}", all_pods(), "é".repeat(10_000).replace('é', "%C3%A9"));
        let (status, message) = server.metrics(&pods(1), &uri.parse().unwrap(), &place).await.err().unwrap();
        assert!(status == StatusCode::BAD_REQUEST && message.len() > 20_000);
        let answer = text(status, &message);
        assert_eq!(std::str::from_utf8(&answer.body().text).unwrap().chars().count(), MAX_MESSAGE);
        let elsewhere = server.metrics(&pods(1), &Uri::from_static("/other"), &place).await.err().unwrap();
        assert_eq!(elsewhere.0, StatusCode::NOT_FOUND);
        assert_eq!(server.memory.available_permits(), before);
    }

    #[test]
    fn values_are_paid_for_before_they_are_made() {
        let many = format!("[{}{{}}]", "{},".repeat(100_000));
        assert!(work_of(many.as_bytes()) > MAX_WORK_AT_ONCE, "{}", work_of(many.as_bytes()));
        let text = format!("[\"{}\"]", "{,\\\"[".repeat(1_000_000));
        assert!(work_of(text.as_bytes()) < 40 << 20, "signs in a text are no values: {}", work_of(text.as_bytes()));
    }
}
