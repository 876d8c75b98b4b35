//! The endpoints for operators: metrics and health.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use http::header::CONTENT_TYPE;
use http::{Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use crate::intake::Intake;
use crate::metrics::{self, Metrics};
use crate::rejected;

/// Scrapers and probes at once; more are closed.
const MAX_CONNECTIONS: usize = 64;
/// For a request to arrive.
const HEADER_TIMEOUT: Duration = Duration::from_secs(10);
/// Accepting rests this long after a failure.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

type Page = Response<Full<Bytes>>;

/// One of the two endpoints.
#[derive(Debug, Clone)]
pub(crate) enum Endpoint {
    Metrics(Arc<Metrics>),
    Health(Arc<Intake>),
}

impl Endpoint {
    /// Serves until its task is aborted.
    pub(crate) async fn serve(self, listener: TcpListener) {
        let room = Arc::new(Semaphore::new(MAX_CONNECTIONS));
        loop {
            let Ok((stream, _)) = listener.accept().await else {
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            };
            let Ok(permit) = Arc::clone(&room).try_acquire_owned() else { continue };
            let endpoint = self.clone();
            tokio::spawn(async move {
                endpoint.converse(stream).await;
                drop(permit);
            });
        }
    }

    async fn converse(self, stream: TcpStream) {
        let service = service_fn(move |request: Request<Incoming>| {
            let page = self.page(request.method(), request.uri().path());
            async move { Ok::<_, Infallible>(page) }
        });
        let mut builder = http1::Builder::new();
        builder.timer(TokioTimer::new()).header_read_timeout(HEADER_TIMEOUT);
        // A scraper that goes away is its own business.
        let _ = builder.serve_connection(TokioIo::new(stream), service).await;
    }

    fn page(&self, method: &Method, path: &str) -> Page {
        if method != Method::GET && method != Method::HEAD {
            return text(StatusCode::METHOD_NOT_ALLOWED, "only GET is served here\n");
        }
        match self {
            Self::Metrics(metrics) if path == "/metrics" => metrics_page(metrics),
            Self::Metrics(metrics) if path == "/rejected" => rejected_page(&metrics.intake),
            Self::Metrics(_) => {
                text(StatusCode::NOT_FOUND, "metrics are at /metrics, samples of what backends refused at /rejected\n")
            }
            Self::Health(intake) => health_page(intake),
        }
    }
}

fn metrics_page(metrics: &Arc<Metrics>) -> Page {
    match metrics::render(metrics) {
        Ok(body) => page(StatusCode::OK, metrics::CONTENT_TYPE, body),
        Err(error) => text(StatusCode::INTERNAL_SERVER_ERROR, &format!("cannot write the metrics: {error}\n")),
    }
}

fn rejected_page(intake: &Intake) -> Page {
    match rejected::render(intake) {
        Ok(body) => page(StatusCode::OK, "application/json", body),
        Err(error) => text(StatusCode::INTERNAL_SERVER_ERROR, &format!("cannot write the samples: {error}\n")),
    }
}

/// Ready only when a request would be accepted.
fn health_page(intake: &Intake) -> Page {
    let (status, word) = if intake.is_draining() {
        (StatusCode::SERVICE_UNAVAILABLE, "draining")
    } else if intake.can_accept() {
        (StatusCode::OK, "ready")
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "refusing")
    };
    page(status, "application/json", format!("{{\"status\":\"{word}\"}}\n"))
}

fn text(status: StatusCode, body: &str) -> Page {
    page(status, "text/plain; charset=utf-8", body.to_owned())
}

fn page(status: StatusCode, content_type: &'static str, body: String) -> Page {
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, http::HeaderValue::from_static(content_type));
    response
}
