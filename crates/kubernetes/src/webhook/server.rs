//! The HTTPS server: takes reviews, has them answered, and bounds what that takes.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::GracefulShutdown;
use rustls::ServerConfig;
use serde_json::Value;
use thiserror::Error;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;

use super::{CONVERT, MUTATE, VALIDATE, Webhook};
use crate::admission::{self, Malformed};
use crate::operator::Pending;

/// A request to an API server has at most 3 MiB, and so has an object. A review of an update has two of them.
const MAX_REVIEW_BYTES: usize = 2 * 3 * 1024 * 1024 + 64 * 1024;
/// Whoever lists objects has all of them converted at once.
const MAX_CONVERSION_BYTES: usize = 32 * 1024 * 1024;
/// The bodies of all requests that are read or answered at once. It takes the largest of them.
const MAX_BYTES_AT_ONCE: usize = 48 * 1024 * 1024;
const MAX_CONNECTIONS: usize = 256;
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// An API server waits for half of that at most.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// For requests under way when the server stops.
const GRACE: Duration = Duration::from_secs(10);
/// Accepting rests this long when the process has no file descriptor left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Why the server cannot be set up.
#[derive(Debug, Error)]
#[error("cannot set up TLS for the webhooks: {0}")]
pub struct ServeError(#[from] rustls::Error);

/// What becomes of the body of a review.
type Answer = fn(&[u8]) -> Result<Value, Malformed>;

struct Server {
    acceptor: TlsAcceptor,
    pending: Option<Pending>,
    /// Bytes of bodies, in KiB.
    memory: Arc<Semaphore>,
}

/// Serves until it is told to stop, and finishes what it has begun.
pub(super) async fn serve(
    listener: TcpListener,
    webhook: Arc<Webhook>,
    stop: impl Future<Output = ()>,
) -> Result<(), ServeError> {
    let pending = webhook.options.pending.clone();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let versions = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    let mut config = versions.with_no_client_auth().with_cert_resolver(webhook);
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let memory = Arc::new(Semaphore::new(kib(MAX_BYTES_AT_ONCE)));
    let server = Arc::new(Server { acceptor: TlsAcceptor::from(Arc::new(config)), pending, memory });
    let (connections, graceful) = (Arc::new(Semaphore::new(MAX_CONNECTIONS)), GracefulShutdown::new());
    tokio::pin!(stop);
    loop {
        let accepted = tokio::select! {
            accepted = accept(&listener, &connections) => accepted,
            () = &mut stop => break,
        };
        let (stream, room) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection to the webhooks");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let (server, watcher) = (Arc::clone(&server), graceful.watcher());
        tokio::spawn(async move {
            server.converse(stream, watcher).await;
            drop(room);
        });
    }
    // Whoever is cut off asks again.
    drop(tokio::time::timeout(GRACE, graceful.shutdown()).await);
    Ok(())
}

async fn accept(
    listener: &TcpListener,
    connections: &Arc<Semaphore>,
) -> io::Result<(TcpStream, tokio::sync::OwnedSemaphorePermit)> {
    let room = Arc::clone(connections).acquire_owned().await.map_err(io::Error::other)?;
    let (stream, _) = listener.accept().await?;
    Ok((stream, room))
}

impl Server {
    /// Serves one connection to its end. What is wrong with it is its client's business.
    async fn converse(self: Arc<Self>, stream: TcpStream, watcher: hyper_util::server::graceful::Watcher) {
        // Without it answers wait for acknowledgements; a socket that cannot be set is about to fail anyway.
        let _ = stream.set_nodelay(true);
        let Ok(Ok(stream)) = tokio::time::timeout(HANDSHAKE_TIMEOUT, self.acceptor.accept(stream)).await else {
            return;
        };
        let service = service_fn(move |request| {
            let server = Arc::clone(&self);
            async move { Ok::<_, Infallible>(server.answer(request).await) }
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

    async fn answer(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        match tokio::time::timeout(REQUEST_TIMEOUT, self.respond(request)).await {
            Ok(Ok(answer)) => json(&answer),
            Ok(Err((status, message))) => text(status, message),
            Err(_) => text(StatusCode::REQUEST_TIMEOUT, "the request took too long".to_owned()),
        }
    }

    /// What an autoscaler asks for, by way of the API server.
    fn metrics(&self, request: &Request<Incoming>) -> Option<Result<Value, String>> {
        let pending = self.pending.as_ref().filter(|_| request.method() == Method::GET)?;
        pending.answer(request.uri().path(), request.uri().query())
    }

    async fn respond(&self, request: Request<Incoming>) -> Result<Value, (StatusCode, String)> {
        if let Some(metrics) = self.metrics(&request) {
            return metrics.map_err(|message| (StatusCode::BAD_REQUEST, message));
        }
        let (answer, limit): (Answer, usize) = match request.uri().path() {
            VALIDATE => (|body| admission::validate(body, SystemTime::now()), MAX_REVIEW_BYTES),
            MUTATE => (admission::mutate, MAX_REVIEW_BYTES),
            CONVERT => (admission::convert, MAX_CONVERSION_BYTES),
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
        let memory = Arc::clone(&self.memory).acquire_many_owned(permits(declared)).await;
        let memory = memory.map_err(|error| (StatusCode::SERVICE_UNAVAILABLE, error.to_string()))?;
        let body = Limited::new(request.into_body(), declared).collect().await.map_err(|_| too_large())?.to_bytes();
        let answered = tokio::task::spawn_blocking(move || {
            let answered = answer(&body);
            drop(memory);
            answered
        });
        match answered.await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(malformed)) => Err((StatusCode::BAD_REQUEST, malformed.to_string())),
            Err(error) => {
                tracing::error!(%error, "a review could not be answered");
                Err((StatusCode::INTERNAL_SERVER_ERROR, "the review could not be answered".to_owned()))
            }
        }
    }
}

const fn kib(bytes: usize) -> usize {
    bytes.div_ceil(1024)
}

fn permits(bytes: usize) -> u32 {
    u32::try_from(kib(bytes)).unwrap_or(u32::MAX)
}

fn json(answer: &Value) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::from(answer.to_string()));
    response.headers_mut().insert(CONTENT_TYPE, http::HeaderValue::from_static("application/json"));
    response
}

fn text(status: StatusCode, message: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::from(message));
    *response.status_mut() = status;
    response
}
