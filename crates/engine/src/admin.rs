//! The endpoints for those who run the gateway: metrics, health, how backends stand, and what they refused.
//!
//! Each has its own connections: nobody who holds those of one keeps another from being answered. A connection is for one
//! request, and not for long; when there are too many, the oldest makes place, so that the next one, a probe perhaps, is
//! answered.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use http::header::{CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinSet};

use crate::backends;
use crate::budget::Funds;
use crate::intake::Intake;
use crate::metrics::{self, Metrics};
use crate::receive::Gate;
use crate::rejected;

/// Connections at once to each endpoint.
const MAX_CONNECTIONS: usize = 32;
/// What is kept of a request, and of an answer that is not read.
const BUFFER_BYTES: usize = 8 * 1024;
/// For a request to arrive and its answer to be read.
const CONVERSATION_TIMEOUT: Duration = Duration::from_secs(10);
/// Accepting rests this long after a failure.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

type Page = Response<Full<Bytes>>;

/// How backends stand and what they refused, for those who may see it.
#[derive(Debug, Clone)]
pub(crate) struct Samples {
    pub(crate) intake: Arc<Intake>,
    pub(crate) gate: Arc<Gate>,
}

/// An endpoint, and what pays for its pages until they are read.
#[derive(Debug, Clone)]
pub(crate) struct Desk {
    pub(crate) endpoint: Endpoint,
    pub(crate) funds: Funds,
}

/// One of the endpoints.
#[derive(Debug, Clone)]
pub(crate) enum Endpoint {
    Metrics(Arc<Metrics>),
    Health(Arc<Intake>),
    Admin(Samples),
}

impl Desk {
    /// Serves until its task is aborted.
    pub(crate) async fn serve(self, listener: TcpListener) {
        let mut conversations = JoinSet::new();
        let mut open: VecDeque<AbortHandle> = VecDeque::new();
        loop {
            let Ok((stream, _)) = listener.accept().await else {
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            };
            while conversations.try_join_next().is_some() {}
            open.retain(|conversation| !conversation.is_finished());
            if open.len() == MAX_CONNECTIONS {
                open.pop_front().as_ref().map(AbortHandle::abort);
                // Those that have just come get their answer before more come.
                tokio::task::yield_now().await;
            }
            open.push_back(conversations.spawn(self.clone().converse(stream)));
        }
    }

    async fn converse(self, stream: TcpStream) {
        let service = service_fn(move |request: Request<Incoming>| {
            let page = self.page(request.method(), request.uri().path(), request.headers());
            async move { Ok::<_, Infallible>(page) }
        });
        let mut builder = http1::Builder::new();
        builder.timer(TokioTimer::new()).keep_alive(false).max_buf_size(BUFFER_BYTES);
        let conversation = builder.serve_connection(TokioIo::new(stream), service);
        // A client that goes away, or does not, is its own business.
        let _ = tokio::time::timeout(CONVERSATION_TIMEOUT, conversation).await;
    }

    fn page(&self, method: &Method, path: &str, headers: &HeaderMap) -> Page {
        if method != Method::GET && method != Method::HEAD {
            return text(StatusCode::METHOD_NOT_ALLOWED, "only GET is served here\n");
        }
        match &self.endpoint {
            Endpoint::Metrics(metrics) if path == "/metrics" => {
                paid(metrics::CONTENT_TYPE, self.funds.find(|budget| metrics::render(metrics, budget)))
            }
            Endpoint::Metrics(_) => text(StatusCode::NOT_FOUND, "metrics are at /metrics\n"),
            Endpoint::Health(intake) => health_page(intake),
            Endpoint::Admin(Samples { intake, gate }) => match gate.check(headers) {
                Ok(()) if path == "/rejected" => {
                    paid("application/json", self.funds.find(|budget| rejected::render(intake, budget)))
                }
                Ok(()) if path == "/backends" => {
                    paid("application/json", self.funds.find(|budget| backends::render(intake, budget)))
                }
                Ok(()) => text(
                    StatusCode::NOT_FOUND,
                    "how backends stand is at /backends, samples of what they refused at /rejected\n",
                ),
                Err(refusal) => {
                    let mut page = text(StatusCode::UNAUTHORIZED, &format!("{}\n", refusal.message));
                    page.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
                    page
                }
            },
        }
    }
}

/// A page for which there may have been no room.
fn paid(content_type: &'static str, body: Option<Bytes>) -> Page {
    if let Some(body) = body {
        return page(StatusCode::OK, content_type, body);
    }
    let mut page = text(StatusCode::SERVICE_UNAVAILABLE, "the memory budget is used up; try again\n");
    page.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
    page
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

fn page(status: StatusCode, content_type: &'static str, body: impl Into<Bytes>) -> Page {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}
